/* Calls: sorting arguments into the parameters of built-ins, calling values, and the global functions. */
#include <string.h>

#include "text/chat_template_builtin.h"
#include "text/chat_template_interp.h"

const ls_jbuiltin *ls_jbuiltin_find(const ls_jbuiltin *table, const char *name, size_t len) {
    for (; table->name; table++)
        if (strlen(table->name) == len && !memcmp(table->name, name, len)) return table;
    return NULL;
}

/* Index of parameter |name| in the signature, or -1; *n and *required: counts of all and of the required ones. */
static int find_param(const char *params, const ls_jstr *name, size_t *n, size_t *required) {
    int hit = -1;
    *n = *required = 0;
    if (*params == '/') {
        params += params[1] ? 2 : 1;
        name = NULL;
    }
    for (const char *p = params; *p;) {
        size_t len = strcspn(p, " ");
        bool optional = *p == '?';
        if (name && name->n == len - optional && !memcmp(name->p, p + optional, name->n)) hit = (int)*n;
        *required += !optional;
        ++*n;
        p += len;
        p += strspn(p, " ");
    }
    return hit;
}

ls_code ls_jbuiltin_call(ls_jvm *vm, const ls_jbuiltin *fn, ls_jv self, const ls_jcall *call, ls_jv *out) {
    LS_TRY(ls_jvm_work(vm, 1));
    if (!fn->params) return fn->fn(vm, self, call, out);
    ls_jv args[LS_JCALL_MAX_PARAMS];
    size_t n, required;
    find_param(fn->params, NULL, &n, &required);
    for (size_t i = 0; i < LS_JCALL_MAX_PARAMS; i++) args[i] = ls_jv_missing();
    if (call->n > n)
        LS_FAIL(vm->e, LS_INVALID_ARGUMENT, "%s takes at most %zu arguments, %zu given", fn->name, n, call->n);
    for (size_t i = 0; i < call->n; i++) args[i] = call->args[i];
    for (size_t i = 0; i < call->n_kw; i++) {
        const ls_jstr *name = call->kw[i].name;
        int at = find_param(fn->params, name, &n, &required);
        if (at < 0 || args[at].kind != LS_JV_MISSING)
            LS_FAIL(vm->e, LS_INVALID_ARGUMENT, "%s: argument '%.*s' is %s", fn->name, name->n < 60 ? (int)name->n : 60,
                    name->p, at < 0 ? "unknown" : "given twice");
        args[at] = call->kw[i].value;
    }
    for (size_t i = 0; i < required; i++)
        if (args[i].kind == LS_JV_MISSING)
            LS_FAIL(vm->e, LS_INVALID_ARGUMENT, "%s needs at least %zu arguments", fn->name, required);
    ls_jcall sorted = {.args = args, .n = n};
    return fn->fn(vm, self, &sorted, out);
}

ls_code ls_jv_call(ls_jvm *vm, ls_jv callee, const ls_jcall *call, ls_jv *out) {
    switch (callee.kind) {
    case LS_JV_FUNC: return ls_jbuiltin_call(vm, callee.func, ls_jv_missing(), call, out);
    case LS_JV_METHOD: return ls_jbuiltin_call(vm, callee.method->fn, callee.method->self, call, out);
    case LS_JV_MACRO: return ls_jmacro_call(vm, callee.macro, call, out);
    case LS_JV_UNDEFINED: return ls_jv_fail_undefined(vm, callee);
    default: LS_FAIL(vm->e, LS_INVALID_ARGUMENT, "a value of type %s cannot be called", ls_jv_type(callee));
    }
}

/* ---- Global functions ---------------------------------------------------------------------------------------- */

enum { MAX_RANGE = 100000 }; /* jinja2's sandbox limit */

static ls_code call_range(ls_jvm *vm, ls_jv self, const ls_jcall *call, ls_jv *out) {
    (void)self;
    int64_t v[3] = {0, 0, 1};
    size_t given = call->args[1].kind == LS_JV_MISSING ? 1 : 3;
    for (size_t i = 0; i < given; i++)
        if (call->args[i].kind != LS_JV_MISSING)
            LS_TRY(ls_jv_want_int(vm, call->args[i], "an argument of range", &v[i]));
    if (given == 1) {
        v[1] = v[0];
        v[0] = 0;
    }
    if (!v[2]) LS_FAIL(vm->e, LS_INVALID_ARGUMENT, "the step of range must not be zero");
    bool empty = v[2] > 0 ? v[0] >= v[1] : v[0] <= v[1];
    uint64_t span = v[2] > 0 ? (uint64_t)v[1] - (uint64_t)v[0] : (uint64_t)v[0] - (uint64_t)v[1];
    uint64_t step = v[2] > 0 ? (uint64_t)v[2] : -(uint64_t)v[2];
    uint64_t n = empty ? 0 : (span - 1) / step + 1;
    if (n > MAX_RANGE)
        LS_FAIL(vm->e, LS_OUT_OF_RANGE, "range of %llu numbers; at most %d are allowed", (unsigned long long)n,
                MAX_RANGE);
    ls_jrange *r;
    LS_TRY(ls_jvm_alloc(vm, &r, 1, sizeof *r));
    *r = (ls_jrange){.start = v[0], .step = v[2], .n = (int64_t)n, .stop = v[1]};
    *out = (ls_jv){.kind = LS_JV_RANGE, .range = r};
    return LS_OK;
}

/* Adds a mapping or pairs, as dict() and dict.update() read them. */
static ls_code add_entries(ls_jvm *vm, ls_jdict *d, ls_jv from) {
    if (from.kind == LS_JV_DICT) {
        for (size_t i = 0; i < from.dict->n; i++)
            LS_TRY(ls_jdict_set(vm, d, from.dict->v[i].key, from.dict->v[i].value));
        return LS_OK;
    }
    const ls_jlist *items, *pair;
    LS_TRY(ls_jv_items(vm, from, &items));
    for (size_t i = 0; i < items->n; i++) {
        LS_TRY(ls_jv_items(vm, items->v[i], &pair));
        if (pair->n != 2)
            LS_FAIL(vm->e, LS_INVALID_ARGUMENT, "an entry of a dict needs a key and a value, not %zu items", pair->n);
        LS_TRY(ls_jdict_set(vm, d, pair->v[0], pair->v[1]));
    }
    return LS_OK;
}

static ls_code make_dict(ls_jvm *vm, ls_jkind kind, const ls_jcall *call, ls_jv *out) {
    LS_TRY(ls_jv_dict(vm, kind, out));
    if (call->n > 1)
        LS_FAIL(vm->e, LS_INVALID_ARGUMENT, "dict and namespace take at most one positional argument, %zu given",
                call->n);
    if (call->n) LS_TRY(add_entries(vm, out->dict, call->args[0]));
    for (size_t i = 0; i < call->n_kw; i++)
        LS_TRY(ls_jdict_set(vm, out->dict, ls_jv_of_str(call->kw[i].name), call->kw[i].value));
    return LS_OK;
}

static ls_code call_dict(ls_jvm *vm, ls_jv self, const ls_jcall *call, ls_jv *out) {
    (void)self;
    return make_dict(vm, LS_JV_DICT, call, out);
}

static ls_code call_namespace(ls_jvm *vm, ls_jv self, const ls_jcall *call, ls_jv *out) {
    (void)self;
    return make_dict(vm, LS_JV_NAMESPACE, call, out);
}

static ls_code call_raise_exception(ls_jvm *vm, ls_jv self, const ls_jcall *call, ls_jv *out) {
    (void)self;
    (void)out;
    const ls_jstr *message;
    LS_TRY(ls_jv_str(vm, call->args[0], &message));
    vm->told = true; /* the template's own words, without a line number */
    LS_FAIL(vm->e, LS_INVALID_ARGUMENT, "%.*s", message->n < 900 ? (int)message->n : 900, message->p);
}

static ls_code call_strftime_now(ls_jvm *vm, ls_jv self, const ls_jcall *call, ls_jv *out) {
    (void)self;
    const ls_jstr *format;
    LS_TRY(ls_jv_want_str(vm, call->args[0], "the format of strftime_now", &format));
    return ls_jstrftime(vm, format, vm->now, out);
}

const ls_jbuiltin ls_jglobals[] = {{"range", "/ start ?stop ?step", call_range},
                                   {"dict", NULL, call_dict},
                                   {"namespace", NULL, call_namespace},
                                   {"raise_exception", "message", call_raise_exception},
                                   {"strftime_now", "format", call_strftime_now},
                                   {NULL, NULL, NULL}};
