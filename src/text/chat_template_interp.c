/* The interpreter, part 2: statements, scopes and macros. */
#include "text/chat_template_interp.h"

#include <string.h>

#include "text/chat_template_builtin.h"

static ls_code run_node(ls_jvm *vm, const ls_jnode *node);

/* ---- Scopes -------------------------------------------------------------------------------------------------- */

ls_code ls_jscope_push(ls_jvm *vm, ls_jscope *parent) {
    ls_jscope *s;
    LS_TRY(ls_jvm_alloc(vm, &s, 1, sizeof *s));
    s->parent = parent;
    vm->interp->scope = s;
    return LS_OK;
}

ls_code ls_jscope_set(ls_jvm *vm, int id, ls_jv value) {
    ls_jscope *s = vm->interp->scope;
    for (size_t i = 0; i < s->n; i++) {
        if (s->ids[i] != id) continue;
        s->values[i] = value;
        return LS_OK;
    }
    if (s->n == s->cap) {
        size_t cap = s->cap ? s->cap * 2 : 4;
        int *ids;
        ls_jv *values;
        LS_TRY(ls_jvm_alloc(vm, &ids, cap, sizeof *ids));
        LS_TRY(ls_jvm_alloc(vm, &values, cap, sizeof *values));
        if (s->n) memcpy(ids, s->ids, s->n * sizeof *ids);
        if (s->n) memcpy(values, s->values, s->n * sizeof *values);
        s->ids = ids;
        s->values = values;
        s->cap = cap;
    }
    s->ids[s->n] = id;
    s->values[s->n++] = value;
    return LS_OK;
}

/* ---- Assignment ---------------------------------------------------------------------------------------------- */

/* The namespace a dotted target writes to. */
static ls_code find_namespace(ls_jvm *vm, const ls_jnode *target, ls_jdict **out) {
    ls_jnode name = *target;
    name.kind = LS_JN_NAME;
    ls_jv ns;
    LS_TRY(ls_jeval(vm, &name, &ns));
    if (ns.kind != LS_JV_NAMESPACE)
        LS_FAIL(vm->e, LS_INVALID_ARGUMENT, "cannot set an attribute of '%.*s': it is not a namespace",
                (int)target->name->n, target->name->p);
    *out = ns.dict;
    return LS_OK;
}

static ls_code assign(ls_jvm *vm, const ls_jnode *target, ls_jv value) {
    if (target->kind == LS_JN_NAME) return ls_jscope_set(vm, target->id, value);
    if (target->kind == LS_JN_NSREF) {
        ls_jdict *d;
        LS_TRY(find_namespace(vm, target, &d));
        return ls_jdict_set(vm, d, ls_jv_of_str(target->attr), value);
    }
    const ls_jlist *items;
    LS_TRY(ls_jv_items(vm, value, &items));
    if (items->n != target->kids.n)
        LS_FAIL(vm->e, LS_INVALID_ARGUMENT, "cannot unpack %zu values into %zu names", items->n, target->kids.n);
    for (size_t i = 0; i < items->n; i++) LS_TRY(assign(vm, target->kids.v[i], items->v[i]));
    return LS_OK;
}

/* Runs |body| in a new scope, collecting its text. */
static ls_code capture(ls_jvm *vm, const ls_jnodes *body, ls_jscope *parent, ls_jv *out) {
    ls_jinterp *in = vm->interp;
    ls_jbuf b = {0}, *outer = in->out;
    ls_jscope *scope = in->scope;
    LS_TRY(ls_jscope_push(vm, parent));
    in->out = &b;
    LS_TRY(ls_jrun_body(vm, body));
    in->out = outer;
    in->scope = scope;
    return ls_jbuf_finish(vm, &b, out);
}

/* Captures the body and pipes it through the filters of node->b; a break on the way leaves MISSING. */
static ls_code capture_filtered(ls_jvm *vm, const ls_jnode *node, ls_jv *out) {
    LS_TRY(capture(vm, &node->body, vm->interp->scope, out));
    if (vm->interp->flow) {
        *out = ls_jv_missing();
        return LS_OK;
    }
    vm->interp->captured = *out;
    return ls_jeval(vm, node->b, out);
}

static ls_code run_set(ls_jvm *vm, const ls_jnode *node) {
    ls_jv value;
    if (node->kind == LS_JN_SET) LS_TRY(ls_jeval(vm, node->b, &value));
    else LS_TRY(capture_filtered(vm, node, &value));
    return value.kind == LS_JV_MISSING ? LS_OK : assign(vm, node->a, value);
}

static ls_code run_with(ls_jvm *vm, const ls_jnode *node) {
    ls_jscope *outer = vm->interp->scope;
    ls_jv *values;
    LS_TRY(ls_jvm_alloc(vm, &values, node->kids.n / 2, sizeof *values));
    for (size_t i = 0; i < node->kids.n; i += 2) LS_TRY(ls_jeval(vm, node->kids.v[i + 1], &values[i / 2]));
    LS_TRY(ls_jscope_push(vm, outer));
    for (size_t i = 0; i < node->kids.n; i += 2) LS_TRY(assign(vm, node->kids.v[i], values[i / 2]));
    LS_TRY(ls_jrun_body(vm, &node->body));
    vm->interp->scope = outer;
    return LS_OK;
}

/* ---- Loops --------------------------------------------------------------------------------------------------- */

/* Keeps the items for which the loop's filter holds. */
static ls_code filter_items(ls_jvm *vm, const ls_jnode *node, const ls_jlist **items) {
    ls_jscope *outer = vm->interp->scope;
    ls_jv *kept, list, test;
    size_t n = 0;
    LS_TRY(ls_jvm_alloc(vm, &kept, (*items)->n, sizeof *kept));
    for (size_t i = 0; i < (*items)->n; i++) {
        LS_TRY(ls_jscope_push(vm, outer));
        LS_TRY(assign(vm, node->a, (*items)->v[i]));
        LS_TRY(ls_jeval(vm, node->c, &test));
        if (ls_jv_truth(test)) kept[n++] = (*items)->v[i];
    }
    vm->interp->scope = outer;
    LS_TRY(ls_jv_list(vm, LS_JV_LIST, kept, n, &list));
    *items = list.list;
    return LS_OK;
}

static int find_name(const ls_jtree *tree, const char *name) {
    for (size_t i = 0; i < tree->n_names; i++)
        if (ls_jstr_is(tree->names[i], name)) return (int)i;
    return -1;
}

static ls_code run_for(ls_jvm *vm, const ls_jnode *node) {
    ls_jinterp *in = vm->interp;
    ls_jscope *outer = in->scope;
    ls_jv sequence, loop = {.kind = LS_JV_LOOP};
    const ls_jlist *items;
    int loop_id = find_name(in->tree, "loop");
    LS_TRY(ls_jeval(vm, node->b, &sequence));
    LS_TRY(ls_jv_items(vm, sequence, &items));
    if (node->c) LS_TRY(filter_items(vm, node, &items));
    LS_TRY(ls_jvm_alloc(vm, &loop.loop, 1, sizeof *loop.loop));
    loop.loop->items = items;
    bool completed = false; /* jinja2 runs the else part unless some turn reached its end */
    for (size_t i = 0; i < items->n && in->flow != LS_FLOW_BREAK; i++) {
        loop.loop->i = i;
        LS_TRY(ls_jscope_push(vm, outer));
        LS_TRY(assign(vm, node->a, items->v[i]));
        if (loop_id >= 0) LS_TRY(ls_jscope_set(vm, loop_id, loop));
        LS_TRY(ls_jrun_body(vm, &node->body));
        if (in->flow == LS_FLOW_ON) completed = true;
        if (in->flow == LS_FLOW_CONTINUE) in->flow = LS_FLOW_ON;
    }
    in->flow = LS_FLOW_ON;
    in->scope = outer;
    if (completed || !node->orelse.n) return LS_OK;
    LS_TRY(ls_jscope_push(vm, outer));
    LS_TRY(ls_jrun_body(vm, &node->orelse));
    in->scope = outer;
    return LS_OK;
}

static ls_code run_if(ls_jvm *vm, const ls_jnode *node) {
    for (; node; node = node->c) {
        ls_jv test;
        LS_TRY(ls_jvm_work(vm, 1));
        LS_TRY(ls_jeval(vm, node->a, &test));
        if (ls_jv_truth(test)) return ls_jrun_body(vm, &node->body);
        if (!node->c) return ls_jrun_body(vm, &node->orelse);
    }
    return LS_OK;
}

/* ---- Macros -------------------------------------------------------------------------------------------------- */

static ls_code new_macro(ls_jvm *vm, const ls_jnode *node, ls_jv *out) {
    ls_jmacro *m;
    LS_TRY(ls_jvm_alloc(vm, &m, 1, sizeof *m));
    *m = (ls_jmacro){node, vm->interp->scope};
    *out = (ls_jv){.kind = LS_JV_MACRO, .macro = m};
    return LS_OK;
}

static ls_code run_call_block(ls_jvm *vm, const ls_jnode *node) {
    ls_jv caller, value;
    LS_TRY(new_macro(vm, node, &caller));
    LS_TRY(ls_jeval_call(vm, node->a, caller, &value));
    return ls_jbuf_value(vm, vm->interp->out, value);
}

/* Takes the keyword |name| out of the call; MISSING when it is not there. */
static ls_jv take_keyword(ls_jcall *call, const char *name, size_t len) {
    for (size_t i = 0; i < call->n_kw; i++) {
        if (call->kw[i].name->n != len || memcmp(call->kw[i].name->p, name, len)) continue;
        ls_jv value = call->kw[i].value;
        memmove(call->kw + i, call->kw + i + 1, (call->n_kw - i - 1) * sizeof *call->kw);
        call->n_kw--;
        return value;
    }
    return ls_jv_missing();
}

/* Sets caller, kwargs and varargs as far as the body reads them, and refuses arguments that nothing takes. */
static ls_code bind_special(ls_jvm *vm, const ls_jnode *node, ls_jcall *call) {
    const ls_jtree *tree = vm->interp->tree;
    if (node->uses & LS_USES_CALLER) {
        ls_jv caller = take_keyword(call, "caller", 6);
        if (caller.kind == LS_JV_MISSING) LS_TRY(ls_jv_undefined(vm, NULL, NULL, "no caller defined", &caller));
        LS_TRY(ls_jscope_set(vm, find_name(tree, "caller"), caller));
    }
    if (node->uses & LS_USES_KWARGS) {
        ls_jv kwargs;
        LS_TRY(ls_jv_dict(vm, LS_JV_DICT, &kwargs));
        for (size_t i = 0; i < call->n_kw; i++)
            LS_TRY(ls_jdict_set(vm, kwargs.dict, ls_jv_of_str(call->kw[i].name), call->kw[i].value));
        LS_TRY(ls_jscope_set(vm, find_name(tree, "kwargs"), kwargs));
    } else if (call->n_kw) {
        LS_FAIL(vm->e, LS_INVALID_ARGUMENT, "macro takes no keyword argument '%.*s'",
                call->kw[0].name->n < 60 ? (int)call->kw[0].name->n : 60, call->kw[0].name->p);
    }
    size_t extra = call->n > node->n_params ? call->n - node->n_params : 0;
    if (node->uses & LS_USES_VARARGS) {
        ls_jv varargs;
        LS_TRY(ls_jv_list(vm, LS_JV_TUPLE, call->args + (call->n - extra), extra, &varargs));
        LS_TRY(ls_jscope_set(vm, find_name(tree, "varargs"), varargs));
    } else if (extra) {
        LS_FAIL(vm->e, LS_INVALID_ARGUMENT, "macro takes not more than %zu arguments, %zu given", node->n_params,
                call->n);
    }
    return LS_OK;
}

static ls_code bind_params(ls_jvm *vm, const ls_jnode *node, const ls_jcall *given) {
    ls_jcall call = *given;
    ls_jv *values;
    LS_TRY(ls_jvm_alloc(vm, &values, node->n_params, sizeof *values));
    LS_TRY(ls_jvm_alloc(vm, &call.kw, given->n_kw, sizeof *call.kw));
    if (given->n_kw) memcpy(call.kw, given->kw, given->n_kw * sizeof *call.kw);
    for (size_t i = 0; i < node->n_params; i++)
        values[i] = i < call.n ? call.args[i] : take_keyword(&call, node->params[i].name->p, node->params[i].name->n);
    LS_TRY(bind_special(vm, node, &call));
    for (size_t i = 0; i < node->n_params; i++)
        if (values[i].kind != LS_JV_MISSING) LS_TRY(ls_jscope_set(vm, node->params[i].id, values[i]));
    for (size_t i = 0; i < node->n_params; i++) { /* defaults see the parameters before them */
        if (values[i].kind != LS_JV_MISSING) continue;
        if (node->params[i].init) LS_TRY(ls_jeval(vm, node->params[i].init, &values[i]));
        else LS_TRY(ls_jv_undefined(vm, node->params[i].name, NULL, "parameter was not provided", &values[i]));
        LS_TRY(ls_jscope_set(vm, node->params[i].id, values[i]));
    }
    return LS_OK;
}

ls_code ls_jmacro_call(ls_jvm *vm, const ls_jmacro *macro, const ls_jcall *call, ls_jv *out) {
    ls_jinterp *in = vm->interp;
    ls_jscope *outer = in->scope;
    LS_TRY(ls_jvm_enter(vm));
    LS_TRY(ls_jscope_push(vm, macro->closure));
    LS_TRY(bind_params(vm, macro->node, call));
    ls_jbuf b = {0}, *outer_buf = in->out;
    in->out = &b;
    LS_TRY(ls_jrun_body(vm, &macro->node->body));
    in->out = outer_buf;
    in->scope = outer;
    vm->depth--;
    return ls_jbuf_finish(vm, &b, out);
}

/* ---- Dispatch ------------------------------------------------------------------------------------------------ */

static ls_code run_print(ls_jvm *vm, const ls_jnode *node) {
    ls_jv value;
    LS_TRY(ls_jeval(vm, node->a, &value));
    return ls_jbuf_value(vm, vm->interp->out, value);
}

static ls_code run_captured_output(ls_jvm *vm, const ls_jnode *node) {
    ls_jv text;
    if (node->kind == LS_JN_GENERATION) LS_TRY(capture(vm, &node->body, vm->interp->scope, &text));
    else LS_TRY(capture_filtered(vm, node, &text));
    return text.kind == LS_JV_MISSING ? LS_OK : ls_jbuf_value(vm, vm->interp->out, text);
}

static ls_code run_macro(ls_jvm *vm, const ls_jnode *node) {
    ls_jv macro;
    LS_TRY(new_macro(vm, node, &macro));
    return ls_jscope_set(vm, node->id, macro);
}

static ls_code run_kind(ls_jvm *vm, const ls_jnode *node) {
    switch (node->kind) {
    case LS_JN_TEXT: return ls_jbuf_str(vm, vm->interp->out, node->value.s);
    case LS_JN_PRINT: return run_print(vm, node);
    case LS_JN_IF: return run_if(vm, node);
    case LS_JN_FOR: return run_for(vm, node);
    case LS_JN_SET:
    case LS_JN_SET_BLOCK: return run_set(vm, node);
    case LS_JN_FILTER_BLOCK:
    case LS_JN_GENERATION: return run_captured_output(vm, node);
    case LS_JN_WITH: return run_with(vm, node);
    case LS_JN_MACRO: return run_macro(vm, node);
    case LS_JN_CALL_BLOCK: return run_call_block(vm, node);
    case LS_JN_BREAK: vm->interp->flow = LS_FLOW_BREAK; return LS_OK;
    default: vm->interp->flow = LS_FLOW_CONTINUE; return LS_OK;
    }
}

static ls_code run_node(ls_jvm *vm, const ls_jnode *node) {
    LS_TRY(ls_jvm_enter(vm));
    LS_TRY(ls_jvm_work(vm, 1));
    ls_code rc = run_kind(vm, node);
    vm->depth--;
    if (!rc || vm->told) return rc;
    vm->told = true; /* the innermost statement is the one to name */
    return ls_error_wrap(vm->e, rc, "chat template line %d", node->line);
}

ls_code ls_jrun_body(ls_jvm *vm, const ls_jnodes *body) {
    for (size_t i = 0; i < body->n && !vm->interp->flow; i++) LS_TRY(run_node(vm, body->v[i]));
    return LS_OK;
}

ls_code ls_jrun(ls_jvm *vm) {
    LS_TRY(ls_jscope_push(vm, NULL));
    return ls_jrun_body(vm, &vm->interp->tree->body);
}
