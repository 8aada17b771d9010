/* The parser of chat templates, part 1: expressions, by recursive descent in jinja2's order of precedence. */
#include <string.h>

#include "text/chat_template_parser.h"

#define PARSE_FAIL(p, ...) return ls_jparse_fail((p), LS_INVALID_ARGUMENT, (p)->tok->line, __VA_ARGS__)

static ls_code parse_unary(ls_jparser *p, bool with_filter, ls_jnode **out);

/* ---- Primary expressions ------------------------------------------------------------------------------------- */

static ls_code parse_const(ls_jparser *p, ls_jv value, ls_jnode **out) {
    LS_TRY(ls_jparse_node(p, LS_JN_CONST, p->tok->line, out));
    (*out)->value = value;
    p->tok++;
    return LS_OK;
}

static ls_code parse_name(ls_jparser *p, bool with_namespace, ls_jnode **out) {
    if (ls_jparse_is_name(p, "true") || ls_jparse_is_name(p, "True")) return parse_const(p, ls_jv_bool(true), out);
    if (ls_jparse_is_name(p, "false") || ls_jparse_is_name(p, "False")) return parse_const(p, ls_jv_bool(false), out);
    if (ls_jparse_is_name(p, "none") || ls_jparse_is_name(p, "None")) return parse_const(p, ls_jv_none(), out);
    LS_TRY(ls_jparse_node(p, LS_JN_NAME, p->tok->line, out));
    ls_jnode *node = *out;
    LS_TRY(ls_jparse_identifier(p, &node->name, &node->id));
    if (ls_jstr_is(node->name, "caller")) p->uses |= LS_USES_CALLER;
    if (ls_jstr_is(node->name, "kwargs")) p->uses |= LS_USES_KWARGS;
    if (ls_jstr_is(node->name, "varargs")) p->uses |= LS_USES_VARARGS;
    if (!with_namespace || !ls_jparse_skip_op(p, ".")) return LS_OK;
    node->kind = LS_JN_NSREF;
    return ls_jparse_identifier(p, &node->attr, NULL);
}

/* One or more adjacent string literals. */
static ls_code parse_string(ls_jparser *p, ls_jnode **out) {
    LS_TRY(ls_jparse_node(p, LS_JN_CONST, p->tok->line, out));
    size_t n = 0;
    for (const ls_jtok *t = p->tok; t->type == LS_JT_STRING; t++) n += t->n;
    char *text;
    ls_jstr *s;
    LS_TRY(ls_arena_alloc(p->arena, &text, n + 1, 1, p->e));
    LS_TRY(ls_arena_alloc(p->arena, &s, 1, sizeof *s, p->e));
    *s = (ls_jstr){.p = text};
    for (; p->tok->type == LS_JT_STRING; p->tok++) {
        if (p->tok->n) memcpy(text + s->n, p->tok->p, p->tok->n);
        s->n += p->tok->n;
    }
    (*out)->value = ls_jv_of_str(s);
    return LS_OK;
}

static ls_code parse_kid(ls_jparser *p, ls_jnode *node) {
    ls_jnode *kid;
    LS_TRY(ls_jparse_expr(p, true, &kid));
    LS_TRY(ls_jparse_adopt(p, node, kid));
    return ls_jparse_push(p, &node->kids, kid);
}

static ls_code parse_list_or_dict(ls_jparser *p, bool is_dict, ls_jnode **out) {
    const char *close = is_dict ? "}" : "]";
    LS_TRY(ls_jparse_node(p, is_dict ? LS_JN_DICT : LS_JN_LIST, p->tok->line, out));
    p->tok++;
    while (!ls_jparse_is_op(p, close)) {
        if ((*out)->kids.n) LS_TRY(ls_jparse_expect_op(p, ","));
        if (ls_jparse_is_op(p, close)) break;
        LS_TRY(parse_kid(p, *out));
        if (!is_dict) continue;
        LS_TRY(ls_jparse_expect_op(p, ":"));
        LS_TRY(parse_kid(p, *out));
    }
    p->tok++;
    return LS_OK;
}

static ls_code parse_primary(ls_jparser *p, bool with_namespace, ls_jnode **out) {
    switch (p->tok->type) {
    case LS_JT_NAME: return parse_name(p, with_namespace, out);
    case LS_JT_STRING: return parse_string(p, out);
    case LS_JT_INT: return parse_const(p, ls_jv_int(p->tok->i), out);
    case LS_JT_FLOAT: return parse_const(p, ls_jv_float(p->tok->f), out);
    default: break;
    }
    if (ls_jparse_skip_op(p, "(")) {
        LS_TRY(ls_jparse_tuple(p, true, NULL, true, out));
        return ls_jparse_expect_op(p, ")");
    }
    if (ls_jparse_is_op(p, "[")) return parse_list_or_dict(p, false, out);
    if (ls_jparse_is_op(p, "{")) return parse_list_or_dict(p, true, out);
    if (p->tok->type == LS_JT_OP) PARSE_FAIL(p, "unexpected '%.*s', expected an expression", (int)p->tok->n, p->tok->p);
    PARSE_FAIL(p, "unexpected end of tag, expected an expression");
}

/* ---- Postfix: attributes, subscripts, calls, filters, tests --------------------------------------------------- */

static ls_code parse_slice_part(ls_jparser *p, ls_jnode *node, ls_jnode **part) {
    if (ls_jparse_is_op(p, ":") || ls_jparse_is_op(p, "]")) return LS_OK;
    LS_TRY(ls_jparse_expr(p, true, part));
    return ls_jparse_adopt(p, node, *part);
}

static ls_code parse_subscript(ls_jparser *p, ls_jnode *object, ls_jnode **out) {
    ls_jnode *node;
    LS_TRY(ls_jparse_node(p, LS_JN_ITEM, p->tok->line, &node));
    node->a = object;
    LS_TRY(ls_jparse_adopt(p, node, object));
    LS_TRY(parse_slice_part(p, node, &node->b));
    if (ls_jparse_skip_op(p, ":")) {
        node->kind = LS_JN_SLICE;
        LS_TRY(parse_slice_part(p, node, &node->c));
        if (ls_jparse_skip_op(p, ":")) LS_TRY(parse_slice_part(p, node, &node->d));
    }
    if (ls_jparse_is_op(p, ","))
        return ls_jparse_fail(p, LS_UNIMPLEMENTED, node->line, "several subscripts in one [] are not supported");
    if (node->kind == LS_JN_ITEM && !node->b) PARSE_FAIL(p, "empty subscript");
    *out = node;
    return ls_jparse_expect_op(p, "]");
}

static ls_code parse_attribute(ls_jparser *p, ls_jnode *object, ls_jnode **out) {
    ls_jnode *node;
    LS_TRY(ls_jparse_node(p, LS_JN_ATTR, p->tok->line, &node));
    node->a = object;
    LS_TRY(ls_jparse_adopt(p, node, object));
    *out = node;
    if (p->tok->type != LS_JT_INT) return ls_jparse_identifier(p, &node->name, NULL);
    node->kind = LS_JN_ITEM;
    return parse_const(p, ls_jv_int(p->tok->i), &node->b);
}

static ls_code parse_one_arg(ls_jparser *p, ls_jnode *node, ls_jargs *args) {
    ls_jnode *value;
    bool star = ls_jparse_skip_op(p, "*"), star_star = !star && ls_jparse_skip_op(p, "**");
    const ls_jstr *name = NULL;
    const ls_jtok *next = p->tok->type == LS_JT_NAME ? p->tok + 1 : p->tok;
    if (!star && !star_star && p->tok->type == LS_JT_NAME && next->type == LS_JT_OP && next->n == 1 &&
        *next->p == '=') {
        LS_TRY(ls_jparse_identifier(p, &name, NULL));
        p->tok++;
    }
    bool bad = args->star_star || (star && args->star) || (!star && !star_star && !name && (args->star || args->n_kw));
    if (bad) PARSE_FAIL(p, "arguments of a call are in the wrong order");
    LS_TRY(ls_jparse_expr(p, true, &value));
    LS_TRY(ls_jparse_adopt(p, node, value));
    if (star) args->star = value;
    else if (star_star) args->star_star = value;
    else if (!name) return ls_jparse_push(p, &args->pos, value);
    if (!name) return LS_OK;
    for (size_t i = 0; i < args->n_kw; i++)
        if (args->kw[i].name->n == name->n && !memcmp(args->kw[i].name->p, name->p, name->n))
            PARSE_FAIL(p, "argument '%.*s' is given twice", (int)name->n, name->p);
    if (args->n_kw == args->cap_kw) {
        ls_jkwarg *grown;
        args->cap_kw = args->cap_kw ? args->cap_kw * 2 : 4;
        LS_TRY(ls_arena_alloc(p->arena, &grown, args->cap_kw, sizeof *grown, p->e));
        if (args->n_kw) memcpy(grown, args->kw, args->n_kw * sizeof *grown);
        args->kw = grown;
    }
    args->kw[args->n_kw++] = (ls_jkwarg){name, value};
    return LS_OK;
}

static ls_code parse_args(ls_jparser *p, ls_jnode *node) {
    LS_TRY(ls_jparse_expect_op(p, "("));
    for (bool first = true; !ls_jparse_is_op(p, ")"); first = false) {
        if (!first) LS_TRY(ls_jparse_expect_op(p, ","));
        if (ls_jparse_is_op(p, ")")) break;
        LS_TRY(parse_one_arg(p, node, &node->args));
    }
    p->tok++;
    return LS_OK;
}

static ls_code parse_call(ls_jparser *p, ls_jnode *callee, ls_jnode **out) {
    ls_jnode *node;
    LS_TRY(ls_jparse_node(p, LS_JN_CALL, p->tok->line, &node));
    node->a = callee;
    if (callee->kind == LS_JN_ATTR && ls_jmethod_is_unsupported(callee->name->p, callee->name->n))
        return ls_jparse_fail(p, LS_UNIMPLEMENTED, node->line, "the method %.*s() is not supported",
                              (int)callee->name->n, callee->name->p);
    LS_TRY(ls_jparse_adopt(p, node, callee));
    *out = node;
    return parse_args(p, node);
}

static ls_code parse_postfix(ls_jparser *p, ls_jnode **node) {
    for (;;) {
        if (ls_jparse_skip_op(p, ".")) LS_TRY(parse_attribute(p, *node, node));
        else if (ls_jparse_skip_op(p, "[")) LS_TRY(parse_subscript(p, *node, node));
        else if (ls_jparse_is_op(p, "(")) LS_TRY(parse_call(p, *node, node));
        else return LS_OK;
    }
}

ls_code ls_jparse_filters(ls_jparser *p, ls_jnode *input, bool inline_start, ls_jnode **out) {
    *out = input;
    while (inline_start || ls_jparse_skip_op(p, "|")) {
        inline_start = false;
        ls_jnode *node;
        LS_TRY(ls_jparse_node(p, LS_JN_FILTER, p->tok->line, &node));
        LS_TRY(ls_jparse_identifier(p, &node->name, NULL));
        node->builtin = ls_jfilter_find(node->name->p, node->name->n);
        if (!node->builtin)
            return ls_jparse_fail(p, LS_UNIMPLEMENTED, node->line, "unknown filter '%.*s'", (int)node->name->n,
                                  node->name->p);
        node->a = *out;
        LS_TRY(ls_jparse_adopt(p, node, *out));
        if (ls_jparse_is_op(p, "(")) LS_TRY(parse_args(p, node));
        *out = node;
    }
    return LS_OK;
}

static bool starts_test_argument(const ls_jparser *p) {
    ls_jtok_type t = p->tok->type;
    if (t == LS_JT_NAME)
        return !ls_jparse_is_name(p, "else") && !ls_jparse_is_name(p, "or") && !ls_jparse_is_name(p, "and");
    return t == LS_JT_STRING || t == LS_JT_INT || t == LS_JT_FLOAT || ls_jparse_is_op(p, "[") ||
           ls_jparse_is_op(p, "{");
}

static ls_code parse_test(ls_jparser *p, ls_jnode **io) {
    bool negated = ls_jparse_skip_name(p, "not");
    ls_jnode *node;
    LS_TRY(ls_jparse_node(p, LS_JN_TEST, p->tok->line, &node));
    LS_TRY(ls_jparse_identifier(p, &node->name, NULL));
    node->builtin = ls_jtest_find(node->name->p, node->name->n);
    if (!node->builtin)
        return ls_jparse_fail(p, LS_UNIMPLEMENTED, node->line, "unknown test '%.*s'", (int)node->name->n,
                              node->name->p);
    node->a = *io;
    LS_TRY(ls_jparse_adopt(p, node, *io));
    if (ls_jparse_is_op(p, "(")) {
        LS_TRY(parse_args(p, node));
    } else if (starts_test_argument(p)) {
        if (ls_jparse_is_name(p, "is")) PARSE_FAIL(p, "tests cannot be chained with 'is'");
        ls_jnode *arg;
        LS_TRY(parse_primary(p, false, &arg));
        LS_TRY(parse_postfix(p, &arg));
        LS_TRY(ls_jparse_adopt(p, node, arg));
        LS_TRY(ls_jparse_push(p, &node->args.pos, arg));
    }
    *io = node;
    if (!negated) return LS_OK;
    LS_TRY(ls_jparse_node(p, LS_JN_NOT, node->line, io));
    (*io)->a = node;
    return ls_jparse_adopt(p, *io, node);
}

static ls_code parse_filter_expr(ls_jparser *p, ls_jnode **node) {
    for (;;) {
        if (ls_jparse_is_op(p, "|")) LS_TRY(ls_jparse_filters(p, *node, false, node));
        else if (ls_jparse_skip_name(p, "is")) LS_TRY(parse_test(p, node));
        else if (ls_jparse_is_op(p, "(")) LS_TRY(parse_call(p, *node, node));
        else return LS_OK;
    }
}

/* ---- Operators ----------------------------------------------------------------------------------------------- */

static ls_code make_pair(ls_jparser *p, ls_jnode_kind kind, ls_jop op, int line, ls_jnode *a, ls_jnode *b,
                         ls_jnode **out) {
    LS_TRY(ls_jparse_node(p, kind, line, out));
    (*out)->op = op;
    (*out)->a = a;
    (*out)->b = b;
    LS_TRY(ls_jparse_adopt(p, *out, a));
    return ls_jparse_adopt(p, *out, b);
}

static ls_code parse_unary(ls_jparser *p, bool with_filter, ls_jnode **out) {
    bool neg = ls_jparse_is_op(p, "-");
    if (neg || ls_jparse_is_op(p, "+")) {
        LS_TRY(ls_jparse_enter(p));
        ls_jnode *operand, *node;
        LS_TRY(ls_jparse_node(p, neg ? LS_JN_NEG : LS_JN_POS, p->tok->line, &node));
        p->tok++;
        LS_TRY(parse_unary(p, false, &operand));
        node->a = operand;
        LS_TRY(ls_jparse_adopt(p, node, operand));
        *out = node;
        p->depth--;
    } else {
        LS_TRY(parse_primary(p, false, out));
    }
    LS_TRY(parse_postfix(p, out));
    return with_filter ? parse_filter_expr(p, out) : LS_OK;
}

static ls_code parse_pow(ls_jparser *p, ls_jnode **out) {
    LS_TRY(parse_unary(p, true, out));
    while (ls_jparse_skip_op(p, "**")) {
        ls_jnode *right;
        LS_TRY(parse_unary(p, true, &right));
        LS_TRY(make_pair(p, LS_JN_BINARY, LS_JOP_POW, right->line, *out, right, out));
    }
    return LS_OK;
}

static bool skip_binary(ls_jparser *p, const char *const *spelling, const ls_jop *ops, size_t n, ls_jop *op) {
    for (size_t i = 0; i < n; i++) {
        if (!ls_jparse_skip_op(p, spelling[i])) continue;
        *op = ops[i];
        return true;
    }
    return false;
}

static ls_code parse_product(ls_jparser *p, ls_jnode **out) {
    static const char *const spelling[] = {"*", "/", "//", "%"};
    static const ls_jop ops[] = {LS_JOP_MUL, LS_JOP_DIV, LS_JOP_FLOORDIV, LS_JOP_MOD};
    LS_TRY(parse_pow(p, out));
    ls_jop op;
    while (skip_binary(p, spelling, ops, 4, &op)) {
        ls_jnode *right;
        LS_TRY(parse_pow(p, &right));
        LS_TRY(make_pair(p, LS_JN_BINARY, op, right->line, *out, right, out));
    }
    return LS_OK;
}

static ls_code parse_concat(ls_jparser *p, ls_jnode **out) {
    LS_TRY(parse_product(p, out));
    if (!ls_jparse_is_op(p, "~")) return LS_OK;
    ls_jnode *node, *kid = *out;
    LS_TRY(ls_jparse_node(p, LS_JN_CONCAT, p->tok->line, &node));
    for (;;) {
        LS_TRY(ls_jparse_adopt(p, node, kid));
        LS_TRY(ls_jparse_push(p, &node->kids, kid));
        if (!ls_jparse_skip_op(p, "~")) break;
        LS_TRY(parse_product(p, &kid));
    }
    *out = node;
    return LS_OK;
}

static ls_code parse_sum(ls_jparser *p, ls_jnode **out) {
    static const char *const spelling[] = {"+", "-"};
    static const ls_jop ops[] = {LS_JOP_ADD, LS_JOP_SUB};
    LS_TRY(parse_concat(p, out));
    ls_jop op;
    while (skip_binary(p, spelling, ops, 2, &op)) {
        ls_jnode *right;
        LS_TRY(parse_concat(p, &right));
        LS_TRY(make_pair(p, LS_JN_BINARY, op, right->line, *out, right, out));
    }
    return LS_OK;
}

static bool skip_comparison(ls_jparser *p, ls_jop *op) {
    static const char *const spelling[] = {"==", "!=", "<", "<=", ">", ">="};
    static const ls_jop ops[] = {LS_JOP_EQ, LS_JOP_NE, LS_JOP_LT, LS_JOP_LE, LS_JOP_GT, LS_JOP_GE};
    if (skip_binary(p, spelling, ops, 6, op)) return true;
    *op = LS_JOP_IN;
    if (ls_jparse_skip_name(p, "in")) return true;
    *op = LS_JOP_NOT_IN;
    if (!ls_jparse_is_name(p, "not") || p->tok[1].type != LS_JT_NAME || p->tok[1].n != 2 ||
        memcmp(p->tok[1].p, "in", 2))
        return false;
    p->tok += 2;
    return true;
}

static ls_code parse_comparison(ls_jparser *p, ls_jnode **out) {
    LS_TRY(parse_sum(p, out));
    ls_jnode *node = NULL;
    ls_jop op, *ops = NULL;
    size_t cap = 0;
    while (skip_comparison(p, &op)) {
        if (!node) LS_TRY(make_pair(p, LS_JN_COMPARE, op, p->tok->line, *out, NULL, &node));
        if (node->kids.n == cap) {
            ls_jop *grown;
            LS_TRY(ls_arena_alloc(p->arena, &grown, cap = cap ? cap * 2 : 2, sizeof *grown, p->e));
            if (ops) memcpy(grown, ops, node->kids.n * sizeof *grown);
            node->ops = ops = grown;
        }
        ops[node->kids.n] = op;
        ls_jnode *right;
        LS_TRY(parse_sum(p, &right));
        LS_TRY(ls_jparse_adopt(p, node, right));
        LS_TRY(ls_jparse_push(p, &node->kids, right));
    }
    if (node) *out = node;
    return LS_OK;
}

static ls_code parse_not(ls_jparser *p, ls_jnode **out) {
    if (!ls_jparse_is_name(p, "not")) return parse_comparison(p, out);
    LS_TRY(ls_jparse_enter(p));
    ls_jnode *node, *operand;
    LS_TRY(ls_jparse_node(p, LS_JN_NOT, p->tok->line, &node));
    p->tok++;
    LS_TRY(parse_not(p, &operand));
    node->a = operand;
    *out = node;
    p->depth--;
    return ls_jparse_adopt(p, node, operand);
}

static ls_code parse_and(ls_jparser *p, ls_jnode **out) {
    LS_TRY(parse_not(p, out));
    while (ls_jparse_skip_name(p, "and")) {
        ls_jnode *right;
        LS_TRY(parse_not(p, &right));
        LS_TRY(make_pair(p, LS_JN_AND, 0, right->line, *out, right, out));
    }
    return LS_OK;
}

static ls_code parse_or(ls_jparser *p, ls_jnode **out) {
    LS_TRY(parse_and(p, out));
    while (ls_jparse_skip_name(p, "or")) {
        ls_jnode *right;
        LS_TRY(parse_and(p, &right));
        LS_TRY(make_pair(p, LS_JN_OR, 0, right->line, *out, right, out));
    }
    return LS_OK;
}

ls_code ls_jparse_expr(ls_jparser *p, bool with_cond, ls_jnode **out) {
    LS_TRY(ls_jparse_enter(p));
    LS_TRY(parse_or(p, out));
    while (with_cond && ls_jparse_skip_name(p, "if")) {
        ls_jnode *test, *other = NULL, *node;
        LS_TRY(parse_or(p, &test));
        if (ls_jparse_skip_name(p, "else")) LS_TRY(ls_jparse_expr(p, true, &other));
        LS_TRY(make_pair(p, LS_JN_COND, 0, test->line, *out, test, &node));
        node->c = other;
        LS_TRY(ls_jparse_adopt(p, node, other));
        *out = node;
    }
    p->depth--;
    return LS_OK;
}

/* ---- Tuples and targets -------------------------------------------------------------------------------------- */

static bool ends_tuple(const ls_jparser *p, const char *stop) {
    ls_jtok_type t = p->tok->type;
    return t == LS_JT_VAR_END || t == LS_JT_BLOCK_END || ls_jparse_is_op(p, ")") ||
           (stop && ls_jparse_is_name(p, stop));
}

typedef enum tuple_of { TUPLE_OF_EXPR, TUPLE_OF_TEST, TUPLE_OF_NAMES, TUPLE_OF_TARGETS } tuple_of;

static ls_code parse_member(ls_jparser *p, tuple_of of, ls_jnode **out) {
    if (of == TUPLE_OF_NAMES || of == TUPLE_OF_TARGETS) {
        LS_TRY(ls_jparse_enter(p));
        LS_TRY(parse_primary(p, of == TUPLE_OF_TARGETS, out));
        p->depth--;
        return LS_OK;
    }
    return ls_jparse_expr(p, of == TUPLE_OF_EXPR, out);
}

static ls_code parse_members(ls_jparser *p, tuple_of of, const char *stop, bool parenthesised, ls_jnode **out) {
    ls_jnode *tuple;
    bool is_tuple = false;
    LS_TRY(ls_jparse_node(p, LS_JN_TUPLE, p->tok->line, &tuple));
    for (;;) {
        if (tuple->kids.n) LS_TRY(ls_jparse_expect_op(p, ","));
        if (ends_tuple(p, stop)) break;
        ls_jnode *kid;
        LS_TRY(parse_member(p, of, &kid));
        LS_TRY(ls_jparse_adopt(p, tuple, kid));
        LS_TRY(ls_jparse_push(p, &tuple->kids, kid));
        if (!ls_jparse_is_op(p, ",")) break;
        is_tuple = true;
    }
    if (!is_tuple && !tuple->kids.n && !parenthesised) PARSE_FAIL(p, "expected an expression");
    *out = !is_tuple && tuple->kids.n ? tuple->kids.v[0] : tuple;
    return LS_OK;
}

ls_code ls_jparse_tuple(ls_jparser *p, bool with_cond, const char *stop, bool parenthesised, ls_jnode **out) {
    return parse_members(p, with_cond ? TUPLE_OF_EXPR : TUPLE_OF_TEST, stop, parenthesised, out);
}

static ls_code check_target(ls_jparser *p, const ls_jnode *node) {
    if (node->kind == LS_JN_NSREF) return LS_OK;
    if (node->kind == LS_JN_NAME && !ls_jstr_is(node->name, "loop")) return LS_OK;
    if (node->kind == LS_JN_NAME)
        return ls_jparse_fail(p, LS_INVALID_ARGUMENT, node->line, "'loop' cannot be assigned to");
    if (node->kind != LS_JN_TUPLE && node->kind != LS_JN_LIST)
        return ls_jparse_fail(p, LS_INVALID_ARGUMENT, node->line,
                              "only names, tuples of names and namespace attributes can be assigned to");
    for (size_t i = 0; i < node->kids.n; i++) LS_TRY(check_target(p, node->kids.v[i]));
    return LS_OK;
}

ls_code ls_jparse_target(ls_jparser *p, bool with_namespace, const char *stop, ls_jnode **out) {
    LS_TRY(parse_members(p, with_namespace ? TUPLE_OF_TARGETS : TUPLE_OF_NAMES, stop, false, out));
    return check_target(p, *out);
}
