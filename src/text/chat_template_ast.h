/* The tree of a compiled chat template, and the parser that makes it. Immutable after parsing; owned by an arena. */
#ifndef LS_TEXT_CHAT_TEMPLATE_AST_H
#define LS_TEXT_CHAT_TEMPLATE_AST_H

#include "text/chat_template_value.h"

typedef enum ls_jnode_kind {
    /* expressions */
    LS_JN_CONST, /* value */
    LS_JN_NAME,  /* id, name */
    LS_JN_NSREF, /* id, name: a namespace, attr: its attribute; only as a target */
    LS_JN_LIST,  /* kids */
    LS_JN_TUPLE, /* kids; also a target */
    LS_JN_DICT,  /* kids: key, value, key, value, ... */
    LS_JN_NEG,   /* a */
    LS_JN_POS,
    LS_JN_NOT,
    LS_JN_BINARY,  /* a op b */
    LS_JN_AND,     /* a, b */
    LS_JN_OR,
    LS_JN_COMPARE, /* a, then kids[i] compared by ops[i] */
    LS_JN_CONCAT,  /* kids */
    LS_JN_COND,    /* a if b else c (c may be NULL) */
    LS_JN_ATTR,    /* a.name */
    LS_JN_ITEM,    /* a[b] */
    LS_JN_SLICE,   /* a[b:c:d], each of b, c, d may be NULL */
    LS_JN_CALL,    /* a(args) */
    LS_JN_FILTER,  /* a | builtin(args) */
    LS_JN_TEST,    /* a is builtin(args) */
    LS_JN_CAPTURED, /* the text that the surrounding set or filter block has rendered */
    /* statements */
    LS_JN_TEXT,         /* value */
    LS_JN_PRINT,        /* a */
    LS_JN_IF,           /* a, body, orelse; c: the next elif */
    LS_JN_FOR,          /* a: target, b: sequence, c: filter or NULL, body, orelse */
    LS_JN_SET,          /* a: target, b: value */
    LS_JN_SET_BLOCK,    /* a: target, b: filters over CAPTURED, body */
    LS_JN_FILTER_BLOCK, /* b: filters over CAPTURED, body */
    LS_JN_WITH,         /* kids: target, value, target, value, ...; body */
    LS_JN_MACRO,        /* id, name, params, body */
    LS_JN_CALL_BLOCK,   /* a: the call, params and body of its caller() */
    LS_JN_GENERATION,   /* body */
    LS_JN_BREAK,
    LS_JN_CONTINUE
} ls_jnode_kind;

typedef enum ls_jop {
    LS_JOP_ADD, LS_JOP_SUB, LS_JOP_MUL, LS_JOP_DIV, LS_JOP_FLOORDIV, LS_JOP_MOD, LS_JOP_POW,
    LS_JOP_EQ, LS_JOP_NE, LS_JOP_LT, LS_JOP_LE, LS_JOP_GT, LS_JOP_GE, LS_JOP_IN, LS_JOP_NOT_IN
} ls_jop;

typedef struct ls_jnode ls_jnode;

typedef struct ls_jnodes {
    ls_jnode **v;
    size_t n, cap;
} ls_jnodes;

typedef struct ls_jkwarg {
    const ls_jstr *name;
    ls_jnode *value;
} ls_jkwarg;

typedef struct ls_jargs {
    ls_jnodes pos;
    ls_jkwarg *kw;
    size_t n_kw, cap_kw;
    ls_jnode *star, *star_star; /* NULL when absent */
} ls_jargs;

typedef struct ls_jparam {
    int id;
    const ls_jstr *name;
    ls_jnode *init; /* default value or NULL */
} ls_jparam;

/* Which special variables a macro body reads; they change which arguments the macro takes. */
enum { LS_USES_CALLER = 1, LS_USES_KWARGS = 2, LS_USES_VARARGS = 4 };

struct ls_jnode {
    ls_jnode_kind kind;
    ls_jop op;
    int line, depth; /* depth of the tree below */
    int id;          /* index of the variable's name, see ls_jtree */
    int uses;
    ls_jnode *a, *b, *c, *d;
    ls_jnodes kids, body, orelse;
    ls_jop *ops;
    const ls_jstr *name, *attr;
    ls_jv value;
    const ls_jbuiltin *builtin;
    ls_jargs args;
    ls_jparam *params;
    size_t n_params, cap_params;
};

typedef struct ls_jtree {
    ls_jnodes body;
    const ls_jstr **names; /* every variable name of the template; a variable is known by its index here */
    size_t n_names, cap_names;
} ls_jtree;

enum { LS_JTREE_MAX_DEPTH = 200, LS_JTREE_MAX_NAMES = 2000, LS_JTREE_MAX_NODES = 1 << 19 };

/* Parses |len| bytes of template source. Errors name the line: INVALID_ARGUMENT for what jinja2 refuses too,
 * UNIMPLEMENTED for constructs this engine does not know. */
ls_code ls_jparse(ls_jtree *out, ls_arena *arena, const char *source, size_t len, ls_error *e);

/* The filters and tests, and the names of methods that exist in Python but not here (so that a template that calls one
 * is refused when it is compiled). NULL or false when unknown. */
const ls_jbuiltin *ls_jfilter_find(const char *name, size_t len);
const ls_jbuiltin *ls_jtest_find(const char *name, size_t len);
bool ls_jmethod_is_unsupported(const char *name, size_t len);

#endif
