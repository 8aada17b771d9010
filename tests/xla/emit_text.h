/* A module's text taken apart, for tests that look at its structure. */
#ifndef LS_TESTS_EMIT_TEXT_H
#define LS_TESTS_EMIT_TEXT_H

#include "xla/emit/emit.h"

enum { EMIT_NAME = 128 };

/* One operation; strings are NUL-terminated and live as long as the text. */
typedef struct emit_op {
    const char *line;             /* without its location */
    char name[EMIT_NAME];         /* "stablehlo.add" */
    char loc[EMIT_NAME];          /* "model.norm"; empty: none */
    const char *result;           /* the result's type with what follows: "tensor<1x8xf32>" */
} emit_op;

typedef struct emit_text {
    char *copy;
    emit_op *op; /* [n] */
    int n;
} emit_text;

/* Fails the test when a line between the arguments and the return is no operation. */
void emit_text_init(emit_text *t, const ls_emit_module *m);
void emit_text_deinit(emit_text *t);

/* Operations named |name| at location |loc| (NULL: any). */
int emit_text_count(const emit_text *t, const char *name, const char *loc);

/* Names of the operations at |loc|, in order, without "stablehlo.", with blanks between; shapes, constants and conversions of
 * shape left out. Static. */
const char *emit_text_chain(const emit_text *t, const char *loc);

#endif
