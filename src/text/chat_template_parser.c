/* The parser of chat templates, part 2: statements, and the token and node helpers both parts use. */
#include "text/chat_template_parser.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define PARSE_FAIL(p, ...) return ls_jparse_fail((p), LS_INVALID_ARGUMENT, (p)->tok->line, __VA_ARGS__)

/* ---- Helpers ------------------------------------------------------------------------------------------------- */

ls_code ls_jparse_fail(ls_jparser *p, ls_code code, int line, const char *fmt, ...) {
    char text[300];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    LS_FAIL(p->e, code, "chat template line %d: %s", line, text);
}

ls_code ls_jparse_node(ls_jparser *p, ls_jnode_kind kind, int line, ls_jnode **out) {
    if (p->n_nodes++ >= LS_JTREE_MAX_NODES)
        return ls_jparse_fail(p, LS_RESOURCE_EXHAUSTED, line, "the template has more than %d parts",
                              LS_JTREE_MAX_NODES);
    LS_TRY(ls_arena_alloc(p->arena, out, 1, sizeof **out, p->e));
    (*out)->kind = kind;
    (*out)->line = line;
    return LS_OK;
}

ls_code ls_jparse_adopt(ls_jparser *p, ls_jnode *node, const ls_jnode *kid) {
    if (kid && kid->depth >= node->depth) node->depth = kid->depth + 1;
    if (node->depth > LS_JTREE_MAX_DEPTH)
        return ls_jparse_fail(p, LS_RESOURCE_EXHAUSTED, node->line, "an expression has more than %d levels",
                              LS_JTREE_MAX_DEPTH);
    return LS_OK;
}

ls_code ls_jparse_push(ls_jparser *p, ls_jnodes *list, ls_jnode *node) {
    if (list->n == list->cap) {
        ls_jnode **grown;
        list->cap = list->cap ? list->cap * 2 : 4;
        LS_TRY(ls_arena_alloc(p->arena, &grown, list->cap, sizeof *grown, p->e));
        if (list->n) memcpy(grown, list->v, list->n * sizeof *grown);
        list->v = grown;
    }
    list->v[list->n++] = node;
    return LS_OK;
}

ls_code ls_jparse_enter(ls_jparser *p) {
    if (++p->depth > LS_JTREE_MAX_DEPTH)
        return ls_jparse_fail(p, LS_RESOURCE_EXHAUSTED, p->tok->line, "more than %d levels of nesting",
                              LS_JTREE_MAX_DEPTH);
    return LS_OK;
}

static bool spells(const ls_jtok *t, ls_jtok_type type, const char *text) {
    return t->type == type && t->n == strlen(text) && !memcmp(t->p, text, t->n);
}

bool ls_jparse_is_op(const ls_jparser *p, const char *op) { return spells(p->tok, LS_JT_OP, op); }
bool ls_jparse_is_name(const ls_jparser *p, const char *name) { return spells(p->tok, LS_JT_NAME, name); }

bool ls_jparse_skip_op(ls_jparser *p, const char *op) {
    bool hit = ls_jparse_is_op(p, op);
    p->tok += hit;
    return hit;
}

bool ls_jparse_skip_name(ls_jparser *p, const char *name) {
    bool hit = ls_jparse_is_name(p, name);
    p->tok += hit;
    return hit;
}

ls_code ls_jparse_expect_op(ls_jparser *p, const char *op) {
    if (ls_jparse_skip_op(p, op)) return LS_OK;
    if (p->tok->type == LS_JT_OP || p->tok->type == LS_JT_NAME)
        PARSE_FAIL(p, "expected '%s', found '%.*s'", op, p->tok->n < 60 ? (int)p->tok->n : 60, p->tok->p);
    PARSE_FAIL(p, "expected '%s'", op);
}

static ls_code intern(ls_jparser *p, const ls_jstr *name, int *id) {
    ls_jtree *t = p->tree;
    for (size_t i = 0; i < t->n_names; i++) {
        if (t->names[i]->n != name->n || memcmp(t->names[i]->p, name->p, name->n)) continue;
        *id = (int)i;
        return LS_OK;
    }
    if (t->n_names == LS_JTREE_MAX_NAMES)
        return ls_jparse_fail(p, LS_RESOURCE_EXHAUSTED, p->tok->line, "more than %d different names",
                              LS_JTREE_MAX_NAMES);
    if (t->n_names == t->cap_names) {
        const ls_jstr **grown;
        t->cap_names = t->cap_names ? t->cap_names * 2 : 32;
        LS_TRY(ls_arena_alloc(p->arena, &grown, t->cap_names, sizeof *grown, p->e));
        if (t->n_names) memcpy(grown, t->names, t->n_names * sizeof *grown);
        t->names = grown;
    }
    *id = (int)t->n_names;
    t->names[t->n_names++] = name;
    return LS_OK;
}

ls_code ls_jparse_identifier(ls_jparser *p, const ls_jstr **name, int *id) {
    if (p->tok->type != LS_JT_NAME) PARSE_FAIL(p, "expected a name");
    ls_jstr *s;
    LS_TRY(ls_arena_alloc(p->arena, &s, 1, sizeof *s, p->e));
    *s = (ls_jstr){.p = p->tok->p, .n = p->tok->n};
    *name = s;
    if (id) LS_TRY(intern(p, s, id));
    p->tok++;
    return LS_OK;
}

/* ---- Statements ---------------------------------------------------------------------------------------------- */

static ls_code parse_statement(ls_jparser *p, ls_jnode **out);

static ls_code end_block(ls_jparser *p) {
    if (p->tok->type != LS_JT_BLOCK_END) {
        if (p->tok->n && p->tok->p)
            PARSE_FAIL(p, "expected end of tag, found '%.*s'", p->tok->n < 60 ? (int)p->tok->n : 60, p->tok->p);
        PARSE_FAIL(p, "expected end of tag");
    }
    p->tok++;
    return LS_OK;
}

static ls_code parse_output(ls_jparser *p, ls_jnode **out) {
    bool is_text = p->tok->type == LS_JT_DATA;
    LS_TRY(ls_jparse_node(p, is_text ? LS_JN_TEXT : LS_JN_PRINT, p->tok->line, out));
    const ls_jtok *t = p->tok++;
    if (is_text) {
        ls_jstr *s;
        LS_TRY(ls_arena_alloc(p->arena, &s, 1, sizeof *s, p->e));
        *s = (ls_jstr){.p = t->p, .n = t->n};
        (*out)->value = ls_jv_of_str(s);
        return LS_OK;
    }
    LS_TRY(ls_jparse_tuple(p, true, NULL, false, &(*out)->a));
    LS_TRY(ls_jparse_adopt(p, *out, (*out)->a));
    if (p->tok->type != LS_JT_VAR_END) {
        if (p->tok->n && p->tok->p)
            PARSE_FAIL(p, "expected '}}', found '%.*s'", p->tok->n < 60 ? (int)p->tok->n : 60, p->tok->p);
        PARSE_FAIL(p, "expected '}}'");
    }
    p->tok++;
    return LS_OK;
}

/* Parses until a tag named one of |ends| (NULL-terminated; NULL: the end of the template), which stays current. */
static ls_code parse_until(ls_jparser *p, const char *const *ends, ls_jnodes *body) {
    LS_TRY(ls_jparse_enter(p));
    while (p->tok->type != LS_JT_EOF) {
        ls_jnode *node;
        if (p->tok->type == LS_JT_BLOCK_BEGIN) {
            p->tok++;
            bool end = false;
            for (size_t i = 0; ends && ends[i]; i++) end = end || ls_jparse_is_name(p, ends[i]);
            if (end) break;
            LS_TRY(parse_statement(p, &node));
            LS_TRY(end_block(p));
        } else {
            LS_TRY(parse_output(p, &node));
        }
        LS_TRY(ls_jparse_push(p, body, node));
    }
    p->depth--;
    if (ends && p->tok->type == LS_JT_EOF) {
        size_t last = 0;
        while (ends[last + 1]) last++;
        PARSE_FAIL(p, "unexpected end of the template: missing {%% %s %%}", ends[last]);
    }
    return LS_OK;
}

/* A body behind the opening tag, whose end tag |end| is consumed up to its "%}". */
static ls_code parse_body(ls_jparser *p, const char *end, ls_jnodes *body) {
    const char *const ends[] = {end, NULL};
    ls_jparse_skip_op(p, ":");
    LS_TRY(end_block(p));
    LS_TRY(parse_until(p, ends, body));
    p->tok++;
    return LS_OK;
}

/* A body that runs in a scope of its own that break and continue cannot leave. */
static ls_code parse_closed_body(ls_jparser *p, const char *end, ls_jnodes *body) {
    int loops = p->loops;
    p->loops = 0;
    LS_TRY(parse_body(p, end, body));
    p->loops = loops;
    return LS_OK;
}

static ls_code parse_if(ls_jparser *p, ls_jnode *node) {
    static const char *const ends[] = {"elif", "else", "endif", NULL};
    for (;;) {
        LS_TRY(ls_jparse_tuple(p, false, NULL, false, &node->a));
        LS_TRY(ls_jparse_adopt(p, node, node->a));
        ls_jparse_skip_op(p, ":");
        LS_TRY(end_block(p));
        LS_TRY(parse_until(p, ends, &node->body));
        if (!ls_jparse_is_name(p, "elif")) break;
        LS_TRY(ls_jparse_node(p, LS_JN_IF, p->tok->line, &node->c));
        node = node->c;
        p->tok++;
    }
    if (ls_jparse_skip_name(p, "else")) return parse_body(p, "endif", &node->orelse);
    p->tok++;
    return LS_OK;
}

static ls_code parse_for(ls_jparser *p, ls_jnode *node) {
    static const char *const ends[] = {"else", "endfor", NULL};
    LS_TRY(ls_jparse_target(p, false, "in", &node->a));
    if (!ls_jparse_skip_name(p, "in")) PARSE_FAIL(p, "expected 'in'");
    LS_TRY(ls_jparse_tuple(p, false, "recursive", false, &node->b));
    LS_TRY(ls_jparse_adopt(p, node, node->b));
    if (ls_jparse_skip_name(p, "if")) {
        LS_TRY(ls_jparse_expr(p, true, &node->c));
        LS_TRY(ls_jparse_adopt(p, node, node->c));
    }
    if (ls_jparse_is_name(p, "recursive"))
        return ls_jparse_fail(p, LS_UNIMPLEMENTED, node->line, "recursive loops are not supported");
    ls_jparse_skip_op(p, ":");
    LS_TRY(end_block(p));
    p->loops++;
    LS_TRY(parse_until(p, ends, &node->body));
    p->loops--;
    if (ls_jparse_skip_name(p, "else")) return parse_body(p, "endfor", &node->orelse);
    p->tok++;
    return LS_OK;
}

/* The optional filters of a block that captures its text: node->b over CAPTURED. */
static ls_code parse_capture_filters(ls_jparser *p, ls_jnode *node, bool inline_start) {
    ls_jnode *captured;
    LS_TRY(ls_jparse_node(p, LS_JN_CAPTURED, node->line, &captured));
    LS_TRY(ls_jparse_filters(p, captured, inline_start, &node->b));
    return ls_jparse_adopt(p, node, node->b);
}

static ls_code parse_set(ls_jparser *p, ls_jnode *node) {
    LS_TRY(ls_jparse_target(p, true, NULL, &node->a));
    if (ls_jparse_skip_op(p, "=")) {
        LS_TRY(ls_jparse_tuple(p, true, NULL, false, &node->b));
        return ls_jparse_adopt(p, node, node->b);
    }
    node->kind = LS_JN_SET_BLOCK;
    LS_TRY(parse_capture_filters(p, node, false));
    return parse_body(p, "endset", &node->body);
}

static ls_code parse_params(ls_jparser *p, ls_jnode *node) {
    LS_TRY(ls_jparse_expect_op(p, "("));
    bool defaults = false;
    while (!ls_jparse_is_op(p, ")")) {
        if (node->n_params) LS_TRY(ls_jparse_expect_op(p, ","));
        ls_jparam param = {0};
        LS_TRY(ls_jparse_identifier(p, &param.name, &param.id));
        if (ls_jparse_skip_op(p, "=")) {
            LS_TRY(ls_jparse_expr(p, true, &param.init));
            defaults = true;
        } else if (defaults) {
            PARSE_FAIL(p, "a parameter without a default follows one with a default");
        }
        for (size_t i = 0; i < node->n_params; i++)
            if (node->params[i].id == param.id)
                PARSE_FAIL(p, "parameter '%.*s' is declared twice", (int)param.name->n, param.name->p);
        if (node->n_params == node->cap_params) {
            ls_jparam *grown;
            node->cap_params = node->cap_params ? node->cap_params * 2 : 4;
            LS_TRY(ls_arena_alloc(p->arena, &grown, node->cap_params, sizeof *grown, p->e));
            if (node->n_params) memcpy(grown, node->params, node->n_params * sizeof *grown);
            node->params = grown;
        }
        node->params[node->n_params++] = param;
    }
    p->tok++;
    return LS_OK;
}

/* The body of a macro or call block, noting which special variables it reads. */
static ls_code parse_macro_body(ls_jparser *p, ls_jnode *node, const char *end) {
    int outer = p->uses, declared = 0;
    p->uses = 0;
    LS_TRY(parse_closed_body(p, end, &node->body));
    for (size_t i = 0; i < node->n_params; i++) {
        const ls_jstr *name = node->params[i].name;
        if (ls_jstr_is(name, "caller")) declared |= LS_USES_CALLER;
        if (ls_jstr_is(name, "kwargs")) declared |= LS_USES_KWARGS;
        if (ls_jstr_is(name, "varargs")) declared |= LS_USES_VARARGS;
        if (ls_jstr_is(name, "caller") && !node->params[i].init && (p->uses & LS_USES_CALLER))
            return ls_jparse_fail(p, LS_INVALID_ARGUMENT, node->line, "the parameter 'caller' needs a default");
    }
    node->uses = p->uses & ~declared;
    p->uses |= outer;
    return LS_OK;
}

static ls_code parse_macro(ls_jparser *p, ls_jnode *node) {
    LS_TRY(ls_jparse_identifier(p, &node->name, &node->id));
    LS_TRY(parse_params(p, node));
    return parse_macro_body(p, node, "endmacro");
}

static ls_code parse_call_block(ls_jparser *p, ls_jnode *node) {
    if (ls_jparse_is_op(p, "(")) LS_TRY(parse_params(p, node));
    LS_TRY(ls_jparse_expr(p, true, &node->a));
    LS_TRY(ls_jparse_adopt(p, node, node->a));
    if (node->a->kind != LS_JN_CALL)
        return ls_jparse_fail(p, LS_INVALID_ARGUMENT, node->line, "a call block must call something");
    return parse_macro_body(p, node, "endcall");
}

static ls_code parse_filter_block(ls_jparser *p, ls_jnode *node) {
    LS_TRY(parse_capture_filters(p, node, true));
    return parse_body(p, "endfilter", &node->body);
}

static ls_code parse_with(ls_jparser *p, ls_jnode *node) {
    while (p->tok->type != LS_JT_BLOCK_END) {
        ls_jnode *target, *value;
        if (node->kids.n) LS_TRY(ls_jparse_expect_op(p, ","));
        LS_TRY(ls_jparse_target(p, false, NULL, &target));
        LS_TRY(ls_jparse_expect_op(p, "="));
        LS_TRY(ls_jparse_expr(p, true, &value));
        LS_TRY(ls_jparse_push(p, &node->kids, target));
        LS_TRY(ls_jparse_push(p, &node->kids, value));
    }
    return parse_body(p, "endwith", &node->body);
}

static ls_code parse_generation(ls_jparser *p, ls_jnode *node) {
    return parse_closed_body(p, "endgeneration", &node->body);
}

static ls_code parse_leave(ls_jparser *p, ls_jnode *node) {
    if (p->loops) return LS_OK;
    return ls_jparse_fail(p, LS_INVALID_ARGUMENT, node->line, "%s outside a loop",
                          node->kind == LS_JN_BREAK ? "break" : "continue");
}

static ls_code parse_statement(ls_jparser *p, ls_jnode **out) {
    static const struct {
        const char *name;
        ls_jnode_kind kind;
        ls_code (*parse)(ls_jparser *, ls_jnode *);
    } tags[] = {{"if", LS_JN_IF, parse_if},
                {"for", LS_JN_FOR, parse_for},
                {"set", LS_JN_SET, parse_set},
                {"macro", LS_JN_MACRO, parse_macro},
                {"call", LS_JN_CALL_BLOCK, parse_call_block},
                {"filter", LS_JN_FILTER_BLOCK, parse_filter_block},
                {"with", LS_JN_WITH, parse_with},
                {"generation", LS_JN_GENERATION, parse_generation},
                {"break", LS_JN_BREAK, parse_leave},
                {"continue", LS_JN_CONTINUE, parse_leave}};
    if (p->tok->type != LS_JT_NAME) PARSE_FAIL(p, "expected the name of a tag");
    for (size_t i = 0; i < sizeof tags / sizeof *tags; i++) {
        if (!ls_jparse_is_name(p, tags[i].name)) continue;
        LS_TRY(ls_jparse_node(p, tags[i].kind, p->tok->line, out));
        p->tok++;
        return tags[i].parse(p, *out);
    }
    int n = p->tok->n < 60 ? (int)p->tok->n : 60;
    bool stray = !strncmp(p->tok->p, "end", 3) || ls_jparse_is_name(p, "else") || ls_jparse_is_name(p, "elif");
    return ls_jparse_fail(p, stray ? LS_INVALID_ARGUMENT : LS_UNIMPLEMENTED, p->tok->line,
                          "unknown or misplaced tag '%.*s'", n, p->tok->p);
}

ls_code ls_jparse(ls_jtree *out, ls_arena *arena, const char *source, size_t len, ls_error *e) {
    ls_jtokens tokens = {0};
    ls_code rc = ls_jlex(&tokens, arena, source, len, e);
    ls_jparser p = {.tree = out, .arena = arena, .tok = tokens.v, .e = e};
    if (!rc) rc = parse_until(&p, NULL, &out->body);
    ls_free(tokens.v);
    return rc;
}
