/* The interpreter: runs a parsed template over the variables of one render. */
#ifndef LS_TEXT_CHAT_TEMPLATE_INTERP_H
#define LS_TEXT_CHAT_TEMPLATE_INTERP_H

#include "text/chat_template_ast.h"

/* Variables of one block of the template, found by the index of their name. */
typedef struct ls_jscope {
    struct ls_jscope *parent;
    int *ids;
    ls_jv *values;
    size_t n, cap;
} ls_jscope;

/* A macro or the caller of a call block: its node and the variables around its definition. */
typedef struct ls_jmacro {
    const ls_jnode *node;
    ls_jscope *closure;
} ls_jmacro;

typedef struct ls_jinterp {
    const ls_jtree *tree;
    ls_jv *context;  /* by name index: variables of the request, then global functions; MISSING otherwise */
    ls_jscope *scope;
    ls_jbuf *out;    /* where text goes now */
    ls_jv captured;  /* value of LS_JN_CAPTURED */
    enum { LS_FLOW_ON, LS_FLOW_BREAK, LS_FLOW_CONTINUE } flow;
} ls_jinterp;

/* Renders the tree; |vm->interp| is set up by the caller with tree, context and out. */
ls_code ls_jrun(ls_jvm *vm);

/* For the two halves of the interpreter. */
ls_code ls_jeval(ls_jvm *vm, const ls_jnode *node, ls_jv *out);
ls_code ls_jrun_body(ls_jvm *vm, const ls_jnodes *body);
ls_code ls_jscope_push(ls_jvm *vm, ls_jscope *parent);
ls_code ls_jscope_set(ls_jvm *vm, int id, ls_jv value);
ls_code ls_jmacro_call(ls_jvm *vm, const ls_jmacro *macro, const ls_jcall *call, ls_jv *out);
/* Evaluates |node| (a call), passing |caller| as the keyword of that name when not MISSING. */
ls_code ls_jeval_call(ls_jvm *vm, const ls_jnode *node, ls_jv caller, ls_jv *out);

#endif
