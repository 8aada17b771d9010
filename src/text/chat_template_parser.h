/* The parser's shared state: expressions live in one file, statements in another. */
#ifndef LS_TEXT_CHAT_TEMPLATE_PARSER_H
#define LS_TEXT_CHAT_TEMPLATE_PARSER_H

#include "text/chat_template_ast.h"
#include "text/chat_template_lexer.h"

typedef struct ls_jparser {
    ls_jtree *tree;
    ls_arena *arena;
    const ls_jtok *tok; /* the current token */
    int depth;          /* nesting of the recursive descent */
    int loops;          /* enclosing for loops that break and continue may leave */
    int uses;           /* LS_USES_* of the macro being parsed */
    size_t n_nodes;
    ls_error *e;
} ls_jparser;

/* An error at the current token's line; always fails. */
ls_code ls_jparse_fail(ls_jparser *p, ls_code code, int line, const char *fmt, ...) LS_PRINTF(4, 5);

/* A new node of |kind| at |line|. */
ls_code ls_jparse_node(ls_jparser *p, ls_jnode_kind kind, int line, ls_jnode **out);
/* Records the depth of a finished node; refuses a tree that is too deep. |kid| may be NULL. */
ls_code ls_jparse_adopt(ls_jparser *p, ls_jnode *node, const ls_jnode *kid);
ls_code ls_jparse_push(ls_jparser *p, ls_jnodes *list, ls_jnode *node);
ls_code ls_jparse_enter(ls_jparser *p); /* the caller does p->depth-- on success */

bool ls_jparse_is_op(const ls_jparser *p, const char *op);
bool ls_jparse_is_name(const ls_jparser *p, const char *name);
bool ls_jparse_skip_op(ls_jparser *p, const char *op);
bool ls_jparse_skip_name(ls_jparser *p, const char *name);
ls_code ls_jparse_expect_op(ls_jparser *p, const char *op);
ls_code ls_jparse_identifier(ls_jparser *p, const ls_jstr **name, int *id); /* |id| may be NULL: not a variable */

ls_code ls_jparse_expr(ls_jparser *p, bool with_cond, ls_jnode **out);
/* An expression, or a tuple of them separated by commas. |stop|: a name that ends it, or NULL. */
ls_code ls_jparse_tuple(ls_jparser *p, bool with_cond, const char *stop, bool parenthesised, ls_jnode **out);
ls_code ls_jparse_target(ls_jparser *p, bool with_namespace, const char *stop, ls_jnode **out);
/* A chain of filters over |input|; with |inline_start| the first one has no '|' before it. */
ls_code ls_jparse_filters(ls_jparser *p, ls_jnode *input, bool inline_start, ls_jnode **out);

#endif
