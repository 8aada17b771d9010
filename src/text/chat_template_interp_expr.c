/* The interpreter, part 1: expressions and calls. */
#include <string.h>

#include "text/chat_template_builtin.h"
#include "text/chat_template_interp.h"

static ls_code eval_name(ls_jvm *vm, const ls_jnode *node, ls_jv *out) {
    const ls_jinterp *in = vm->interp;
    for (const ls_jscope *s = in->scope; s; s = s->parent) {
        for (size_t i = 0; i < s->n; i++) {
            if (s->ids[i] != node->id) continue;
            *out = s->values[i];
            return LS_OK;
        }
    }
    *out = in->context[node->id];
    return out->kind != LS_JV_MISSING ? LS_OK : ls_jv_undefined(vm, node->name, NULL, NULL, out);
}

static ls_code eval_all(ls_jvm *vm, const ls_jnodes *nodes, ls_jv **out) {
    LS_TRY(ls_jvm_alloc(vm, out, nodes->n, sizeof **out));
    for (size_t i = 0; i < nodes->n; i++) LS_TRY(ls_jeval(vm, nodes->v[i], &(*out)[i]));
    return LS_OK;
}

static ls_code eval_sequence(ls_jvm *vm, const ls_jnode *node, ls_jv *out) {
    ls_jv *v;
    LS_TRY(eval_all(vm, &node->kids, &v));
    return ls_jv_list(vm, node->kind == LS_JN_LIST ? LS_JV_LIST : LS_JV_TUPLE, v, node->kids.n, out);
}

static ls_code eval_dict(ls_jvm *vm, const ls_jnode *node, ls_jv *out) {
    ls_jv *v;
    LS_TRY(eval_all(vm, &node->kids, &v));
    LS_TRY(ls_jv_dict(vm, LS_JV_DICT, out));
    for (size_t i = 0; i < node->kids.n; i += 2) LS_TRY(ls_jdict_set(vm, out->dict, v[i], v[i + 1]));
    return LS_OK;
}

static ls_code eval_compare(ls_jvm *vm, const ls_jnode *node, ls_jv *out) {
    ls_jv left, right;
    bool holds = true;
    LS_TRY(ls_jeval(vm, node->a, &left));
    for (size_t i = 0; holds && i < node->kids.n; i++) {
        LS_TRY(ls_jeval(vm, node->kids.v[i], &right));
        LS_TRY(ls_jv_relation(vm, node->ops[i], left, right, &holds));
        left = right;
    }
    *out = ls_jv_bool(holds);
    return LS_OK;
}

static ls_code eval_concat(ls_jvm *vm, const ls_jnode *node, ls_jv *out) {
    ls_jv *v;
    ls_jbuf b = {0};
    LS_TRY(eval_all(vm, &node->kids, &v));
    for (size_t i = 0; i < node->kids.n; i++) LS_TRY(ls_jbuf_value(vm, &b, v[i]));
    return ls_jbuf_finish(vm, &b, out);
}

static ls_code eval_cond(ls_jvm *vm, const ls_jnode *node, ls_jv *out) {
    ls_jv test;
    LS_TRY(ls_jeval(vm, node->b, &test));
    if (ls_jv_truth(test)) return ls_jeval(vm, node->a, out);
    if (node->c) return ls_jeval(vm, node->c, out);
    return ls_jv_undefined(vm, NULL, NULL, "an inline if without else was false", out);
}

static ls_code eval_logic(ls_jvm *vm, const ls_jnode *node, ls_jv *out) {
    LS_TRY(ls_jeval(vm, node->a, out));
    return ls_jv_truth(*out) == (node->kind == LS_JN_AND) ? ls_jeval(vm, node->b, out) : LS_OK;
}

static ls_code eval_slice(ls_jvm *vm, const ls_jnode *node, ls_jv *out) {
    ls_jv obj, bound[3] = {ls_jv_missing(), ls_jv_missing(), ls_jv_missing()};
    const ls_jnode *const parts[] = {node->b, node->c, node->d};
    LS_TRY(ls_jeval(vm, node->a, &obj));
    for (int i = 0; i < 3; i++)
        if (parts[i]) LS_TRY(ls_jeval(vm, parts[i], &bound[i]));
    return ls_jv_getslice(vm, obj, bound[0], bound[1], bound[2], out);
}

/* ---- Calls --------------------------------------------------------------------------------------------------- */

static ls_code add_keyword(ls_jvm *vm, ls_jcall *call, const ls_jstr *name, ls_jv value) {
    for (size_t i = 0; i < call->n_kw; i++)
        if (call->kw[i].name->n == name->n && !memcmp(call->kw[i].name->p, name->p, name->n))
            LS_FAIL(vm->e, LS_INVALID_ARGUMENT, "argument '%.*s' is given twice", name->n < 60 ? (int)name->n : 60,
                    name->p);
    call->kw[call->n_kw++] = (ls_jkw){name, value};
    return LS_OK;
}

/* Adds the items of *args. */
static ls_code spread_list(ls_jvm *vm, const ls_jnode *node, ls_jcall *call) {
    ls_jv value, *all;
    const ls_jlist *items;
    LS_TRY(ls_jeval(vm, node, &value));
    LS_TRY(ls_jv_items(vm, value, &items));
    LS_TRY(ls_jvm_alloc(vm, &all, call->n + items->n, sizeof *all));
    if (call->n) memcpy(all, call->args, call->n * sizeof *all);
    if (items->n) memcpy(all + call->n, items->v, items->n * sizeof *all);
    call->args = all;
    call->n += items->n;
    return LS_OK;
}

/* Adds the entries of **kwargs, for which |call->kw| has room. */
static ls_code spread_dict(ls_jvm *vm, const ls_jdict *d, ls_jcall *call) {
    for (size_t i = 0; i < d->n; i++) {
        const ls_jstr *name;
        LS_TRY(ls_jv_want_str(vm, d->v[i].key, "a key of ** arguments", &name));
        LS_TRY(add_keyword(vm, call, name, d->v[i].value));
    }
    return LS_OK;
}

static ls_code eval_args(ls_jvm *vm, const ls_jargs *args, ls_jv caller, ls_jcall *call) {
    static const ls_jstr caller_name = {.p = "caller", .n = 6};
    *call = (ls_jcall){.n = args->pos.n};
    LS_TRY(eval_all(vm, &args->pos, &call->args));
    if (args->star) LS_TRY(spread_list(vm, args->star, call));
    ls_jv more = ls_jv_missing();
    ls_jv *values;
    LS_TRY(ls_jvm_alloc(vm, &values, args->n_kw, sizeof *values));
    for (size_t i = 0; i < args->n_kw; i++) LS_TRY(ls_jeval(vm, args->kw[i].value, &values[i]));
    if (args->star_star) {
        LS_TRY(ls_jeval(vm, args->star_star, &more));
        if (more.kind != LS_JV_DICT)
            LS_FAIL(vm->e, LS_INVALID_ARGUMENT, "** arguments must be a dict, not %s", ls_jv_type(more));
    }
    size_t n_kw = args->n_kw + (more.kind == LS_JV_DICT ? more.dict->n : 0) + (caller.kind != LS_JV_MISSING);
    LS_TRY(ls_jvm_alloc(vm, &call->kw, n_kw, sizeof *call->kw));
    for (size_t i = 0; i < args->n_kw; i++) LS_TRY(add_keyword(vm, call, args->kw[i].name, values[i]));
    if (caller.kind != LS_JV_MISSING) LS_TRY(add_keyword(vm, call, &caller_name, caller));
    return more.kind == LS_JV_DICT ? spread_dict(vm, more.dict, call) : LS_OK;
}

ls_code ls_jeval_call(ls_jvm *vm, const ls_jnode *node, ls_jv caller, ls_jv *out) {
    ls_jv callee;
    ls_jcall call;
    LS_TRY(ls_jeval(vm, node->a, &callee));
    LS_TRY(eval_args(vm, &node->args, caller, &call));
    return ls_jv_call(vm, callee, &call, out);
}

static ls_code eval_builtin(ls_jvm *vm, const ls_jnode *node, ls_jv *out) {
    ls_jv self;
    ls_jcall call;
    LS_TRY(ls_jeval(vm, node->a, &self));
    LS_TRY(eval_args(vm, &node->args, ls_jv_missing(), &call));
    return ls_jbuiltin_call(vm, node->builtin, self, &call, out);
}

/* ---- Dispatch ------------------------------------------------------------------------------------------------ */

/* Nodes with one or two plain operands. */
static ls_code eval_operands(ls_jvm *vm, const ls_jnode *node, ls_jv *out) {
    ls_jv a, b = ls_jv_missing();
    LS_TRY(ls_jeval(vm, node->a, &a));
    if (node->b) LS_TRY(ls_jeval(vm, node->b, &b));
    switch (node->kind) {
    case LS_JN_NOT: *out = ls_jv_bool(!ls_jv_truth(a)); return LS_OK;
    case LS_JN_NEG: return ls_jv_negate(vm, a, out);
    case LS_JN_POS: return ls_jv_binary(vm, LS_JOP_ADD, ls_jv_int(0), a, out);
    case LS_JN_BINARY: return ls_jv_binary(vm, node->op, a, b, out);
    case LS_JN_ATTR: return ls_jv_getattr(vm, a, node->name, out);
    default: return ls_jv_getitem(vm, a, b, out);
    }
}

static ls_code eval_kind(ls_jvm *vm, const ls_jnode *node, ls_jv *out) {
    switch (node->kind) {
    case LS_JN_CONST: *out = node->value; return LS_OK;
    case LS_JN_CAPTURED: *out = vm->interp->captured; return LS_OK;
    case LS_JN_NAME: return eval_name(vm, node, out);
    case LS_JN_LIST:
    case LS_JN_TUPLE: return eval_sequence(vm, node, out);
    case LS_JN_DICT: return eval_dict(vm, node, out);
    case LS_JN_AND:
    case LS_JN_OR: return eval_logic(vm, node, out);
    case LS_JN_COMPARE: return eval_compare(vm, node, out);
    case LS_JN_CONCAT: return eval_concat(vm, node, out);
    case LS_JN_COND: return eval_cond(vm, node, out);
    case LS_JN_SLICE: return eval_slice(vm, node, out);
    case LS_JN_CALL: return ls_jeval_call(vm, node, ls_jv_missing(), out);
    case LS_JN_FILTER:
    case LS_JN_TEST: return eval_builtin(vm, node, out);
    default: return eval_operands(vm, node, out);
    }
}

ls_code ls_jeval(ls_jvm *vm, const ls_jnode *node, ls_jv *out) {
    LS_TRY(ls_jvm_enter(vm));
    LS_TRY(ls_jvm_work(vm, 1));
    LS_TRY(eval_kind(vm, node, out));
    vm->depth--;
    return LS_OK;
}
