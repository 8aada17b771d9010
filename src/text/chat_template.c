/* Chat templates: the public calls. Compiling keeps the source's tree in one arena; rendering uses another and copies
 * the text and its origins out at the end. */
#include "text/chat_template.h"

#include <string.h>

#include "text/chat_template_builtin.h"
#include "text/chat_template_interp.h"

struct ls_chat_template {
    ls_arena *arena;
    ls_jtree tree;
};

enum { MAX_OUTPUT = 1 << 26, MAX_SPANS = 1 << 24 };

ls_code ls_chat_template_compile(ls_chat_template **out, const char *source, size_t len, ls_error *e) {
    ls_chat_template *t = NULL;
    ls_code rc = LS_OK;
    *out = NULL;
    LS_TRY(ls_calloc(&t, 1, sizeof *t, "chat template", e));
    LS_GOTO(ls_arena_create(&t->arena, e));
    LS_GOTO(ls_jparse(&t->tree, t->arena, source, len, e));
    *out = t;
    return LS_OK;
out:
    ls_chat_template_free(t);
    return rc;
}

void ls_chat_template_free(ls_chat_template *t) {
    if (!t) return;
    ls_arena_destroy(t->arena);
    ls_free(t);
}

/* Special tokens are the template's own words, whoever supplies their spelling. */
static bool names_special_token(const ls_jstr *name) {
    static const char *const names[] = {"bos_token", "eos_token", "pad_token", "unk_token",
                                        "sep_token", "cls_token", "mask_token"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (ls_jstr_is(name, names[i])) return true;
    return false;
}

static ls_code bind_context(ls_jvm *vm, const json_t *context) {
    ls_jinterp *in = vm->interp;
    LS_TRY(ls_jvm_alloc(vm, &in->context, in->tree->n_names, sizeof *in->context));
    for (size_t i = 0; i < in->tree->n_names; i++) {
        const ls_jstr *name = in->tree->names[i];
        const json_t *value = json_object_getn(context, name->p, name->n);
        if (value) {
            LS_TRY(ls_jv_from_json(vm, value, !names_special_token(name), &in->context[i]));
            continue;
        }
        const ls_jbuiltin *fn = ls_jbuiltin_find(ls_jglobals, name->p, name->n);
        if (fn) in->context[i] = (ls_jv){.kind = LS_JV_FUNC, .func = fn};
    }
    return LS_OK;
}

static ls_code add_span(ls_render *r, size_t begin, size_t end, bool from_input, ls_error *e) {
    LS_TRY(
        ls_grow(&r->spans, r->n_spans, &r->cap_spans, sizeof *r->spans, MAX_SPANS, "spans of a rendered template", e));
    r->spans[r->n_spans++] = (ls_render_span){begin, end, from_input};
    return LS_OK;
}

static ls_code copy_out(const ls_jstr *s, ls_render *out, ls_error *e) {
    if (s->n > MAX_OUTPUT)
        LS_FAIL(e, LS_RESOURCE_EXHAUSTED, "chat template renders %zu bytes; at most %d are allowed", s->n, MAX_OUTPUT);
    LS_TRY(ls_str_append(&out->text, s->p, s->n, e));
    for (size_t begin = 0, end; begin < s->n; begin = end) {
        bool input = ls_jstr_is_input(s, begin);
        for (end = s->origin ? begin + 1 : s->n; end < s->n && ls_jstr_is_input(s, end) == input;) end++;
        LS_TRY(add_span(out, begin, end, input, e));
    }
    return LS_OK;
}

ls_code ls_chat_template_render(const ls_chat_template *t, const json_t *context, int64_t now, ls_render *out,
                                ls_error *e) {
    ls_jbuf text = {0};
    ls_jv result;
    ls_jinterp in = {.tree = &t->tree, .out = &text};
    ls_jvm vm = {.e = e, .bytes_left = LS_JVM_MAX_BYTES, .work_left = LS_JVM_MAX_WORK, .now = now, .interp = &in};
    ls_code rc = LS_OK;
    *out = (ls_render){0};
    if (!json_is_object(context))
        LS_FAIL(e, LS_INVALID_ARGUMENT, "the context of a chat template must be a JSON object");
    LS_TRY(ls_arena_create(&vm.arena, e));
    LS_GOTO(bind_context(&vm, context));
    LS_GOTO(ls_jrun(&vm));
    LS_GOTO(ls_jbuf_finish(&vm, &text, &result));
    LS_GOTO(copy_out(result.s, out, e));
out:
    ls_arena_destroy(vm.arena);
    if (rc) ls_render_deinit(out);
    return rc;
}

void ls_render_deinit(ls_render *r) {
    ls_str_deinit(&r->text);
    ls_free(r->spans);
    *r = (ls_render){0};
}
