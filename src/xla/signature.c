/* A cursor over MLIR text that understands just a function's head: nesting, strings, tensor types, attributes. */
#include "xla/signature.h"

#include <string.h>

typedef struct cursor {
    const char *at, *end;
} cursor;

static void skip_space(cursor *c) {
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\n' || *c->at == '\r' || *c->at == '\t')) c->at++;
}

static bool take(cursor *c, const char *word) {
    skip_space(c);
    size_t n = strlen(word);
    if ((size_t)(c->end - c->at) < n || memcmp(c->at, word, n)) return false;
    c->at += n;
    return true;
}

/* Moves past the string that begins at the cursor; false when it does not end. */
static bool skip_string(cursor *c) {
    for (c->at++; c->at < c->end; c->at++) {
        if (*c->at == '\\') c->at++;
        else if (*c->at == '"') {
            c->at++;
            return true;
        }
    }
    return false;
}

/* Moves past a bracketed group that begins at the cursor, with everything nested in it. */
static bool skip_group(cursor *c) {
    int depth = 0;
    while (c->at < c->end) {
        char x = *c->at;
        if (x == '"') {
            if (!skip_string(c)) return false;
            continue;
        }
        bool arrow = x == '>' && c->at[-1] == '-';
        depth += x == '(' || x == '[' || x == '{' || x == '<';
        depth -= x == ')' || x == ']' || x == '}' || (x == '>' && !arrow);
        c->at++;
        if (!depth) return true;
    }
    return false;
}

/* Finds the head of @main and leaves the cursor behind its "(". */
static bool find_main(cursor *c) {
    while (c->at < c->end) {
        const char *hit = memmem(c->at, (size_t)(c->end - c->at), "func.func", 9);
        if (!hit) return false;
        c->at = hit + 9;
        cursor head = *c;
        take(&head, "public");
        if (take(&head, "@main") && take(&head, "(")) {
            *c = head;
            return true;
        }
    }
    return false;
}

/* Digits at the cursor as a number below 2^62. */
static bool take_number(cursor *c, int64_t *out) {
    int64_t n = 0;
    const char *begin = c->at;
    for (; c->at < c->end && *c->at >= '0' && *c->at <= '9'; c->at++) {
        if (n > (INT64_MAX >> 1) / 10 - 10) return false;
        n = n * 10 + (*c->at - '0');
    }
    *out = n;
    return c->at > begin;
}

static ls_code parse_type(cursor *c, ls_tensor_type *t, const char *role, size_t position, ls_error *e) {
    *t = (ls_tensor_type){0};
    if (!take(c, "tensor<")) LS_FAIL(e, LS_INVALID_ARGUMENT, "module: %s %zu of @main is not a ranked tensor (expected tensor<...>)", role, position);
    for (;;) {
        int64_t dim;
        if (c->at < c->end && *c->at == '?')
            LS_FAIL(e, LS_UNIMPLEMENTED, "module: %s %zu of @main has a dynamic dimension; shapes must be static", role, position);
        const char *begin = c->at;
        if (!take_number(c, &dim)) {
            if (c->at > begin) LS_FAIL(e, LS_INVALID_ARGUMENT, "module: %s %zu of @main has a dimension that is too large", role, position);
            break;
        }
        if (t->rank == LS_XLA_MAX_RANK) LS_FAIL(e, LS_UNIMPLEMENTED, "module: %s %zu of @main has a rank above %d", role, position, LS_XLA_MAX_RANK);
        t->dim[t->rank++] = dim;
        if (c->at == c->end || *c->at++ != 'x') LS_FAIL(e, LS_INVALID_ARGUMENT, "module: %s %zu of @main: expected 'x' after a dimension", role, position);
    }
    const char *name = c->at;
    while (c->at < c->end && *c->at != '>' && *c->at != ',') c->at++;
    size_t n = (size_t)(c->at - name);
    for (int d = 0; d < LS_DT_COUNT; d++) {
        if (strlen(ls_dtype_name((ls_dtype)d)) != n || memcmp(name, ls_dtype_name((ls_dtype)d), n)) continue;
        t->dtype = (ls_dtype)d;
        if (!take(c, ">")) LS_FAIL(e, LS_UNIMPLEMENTED, "module: %s %zu of @main has a layout attribute; leave it out (row-major)", role, position);
        return LS_OK;
    }
    LS_FAIL(e, LS_UNIMPLEMENTED, "module: %s %zu of @main has element type \"%.*s\"; allowed are f32 f16 bf16 f64 i1 i8 i16 i32 i64 ui8 ui32", role,
            position, (int)(n < 40 ? n : 40), name);
}

/* An optional attribute dictionary and location. *alias = N of `tf.aliasing_output = N`, else -1. */
static ls_code parse_attributes(cursor *c, int64_t *alias, const char *role, size_t position, ls_error *e) {
    *alias = -1;
    skip_space(c);
    if (c->at < c->end && *c->at == '{') {
        static const char key[] = "tf.aliasing_output";
        cursor all = *c;
        if (!skip_group(c)) LS_FAIL(e, LS_INVALID_ARGUMENT, "module: attributes of %s %zu of @main do not end", role, position);
        all.end = c->at;
        const char *hit = memmem(all.at, (size_t)(all.end - all.at), key, sizeof key - 1);
        if (hit) {
            all.at = hit + sizeof key - 1;
            if (!take(&all, "=") || (skip_space(&all), !take_number(&all, alias)))
                LS_FAIL(e, LS_INVALID_ARGUMENT, "module: %s of %s %zu of @main has no number", key, role, position);
        }
    }
    if (take(c, "loc") && !skip_group(c)) LS_FAIL(e, LS_INVALID_ARGUMENT, "module: location of %s %zu of @main does not end", role, position);
    return LS_OK;
}

static ls_code parse_params(ls_signature *s, cursor *c, ls_error *e) {
    while (!take(c, ")")) {
        if (s->n_params && !take(c, ",")) LS_FAIL(e, LS_INVALID_ARGUMENT, "module: expected ',' or ')' after argument %zu of @main", s->n_params - 1);
        LS_TRY(ls_grow(&s->params, s->n_params, &s->cap_params, sizeof *s->params, LS_SIGNATURE_MAX, "arguments of @main", e));
        skip_space(c);
        while (c->at < c->end && *c->at != ':' && *c->at != ')') c->at++;
        if (!take(c, ":")) LS_FAIL(e, LS_INVALID_ARGUMENT, "module: argument %zu of @main has no type", s->n_params);
        ls_parameter *p = &s->params[s->n_params];
        LS_TRY(parse_type(c, &p->type, "argument", s->n_params, e));
        LS_TRY(parse_attributes(c, &p->alias, "argument", s->n_params, e));
        s->n_params++;
    }
    return LS_OK;
}

static ls_code parse_results(ls_signature *s, cursor *c, ls_error *e) {
    if (!take(c, "->")) return LS_OK;
    bool list = take(c, "(");
    for (;;) {
        if (list && take(c, ")")) return LS_OK;
        if (s->n_results && !take(c, ",")) LS_FAIL(e, LS_INVALID_ARGUMENT, "module: expected ',' or ')' after result %zu of @main", s->n_results - 1);
        LS_TRY(ls_grow(&s->results, s->n_results, &s->cap_results, sizeof *s->results, LS_SIGNATURE_MAX, "results of @main", e));
        int64_t alias;
        LS_TRY(parse_type(c, &s->results[s->n_results], "result", s->n_results, e));
        s->n_results++;
        if (!list) return LS_OK; /* what follows a single result is the function's own attributes or body */
        LS_TRY(parse_attributes(c, &alias, "result", s->n_results - 1, e));
    }
}

static ls_code check_aliases(const ls_signature *s, ls_error *e) {
    bool *taken = NULL;
    ls_code rc = ls_calloc(&taken, s->n_results, sizeof *taken, "donated results", e);
    if (rc) return rc;
    for (size_t i = 0; i < s->n_params; i++) {
        int64_t r = s->params[i].alias;
        if (r < 0) continue;
        if ((uint64_t)r >= s->n_results)
            LS_FAIL_GOTO(e, LS_INVALID_ARGUMENT, "module: argument %zu of @main is donated to result %lld, but there are %zu results", i, (long long)r,
                         s->n_results);
        if (taken[r])
            LS_FAIL_GOTO(e, LS_INVALID_ARGUMENT, "module: argument %zu of @main is donated to result %lld, which has a donor already", i, (long long)r);
        if (!ls_tensor_type_equal(&s->params[i].type, &s->results[r]))
            LS_FAIL_GOTO(e, LS_INVALID_ARGUMENT, "module: argument %zu of @main is donated to result %lld, which has another type", i, (long long)r);
        taken[r] = true;
    }
out:
    ls_free(taken);
    return rc;
}

ls_code ls_signature_parse(ls_signature *s, const char *text, size_t len, ls_error *e) {
    cursor c = {text, text + len};
    if (!find_main(&c)) LS_FAIL(e, LS_INVALID_ARGUMENT, "module: there is no function @main (expected func.func public @main(...))");
    LS_TRY(parse_params(s, &c, e));
    LS_TRY(parse_results(s, &c, e));
    return check_aliases(s, e);
}

void ls_signature_deinit(ls_signature *s) {
    ls_free(s->params);
    ls_free(s->results);
    *s = (ls_signature){0};
}

bool ls_tensor_type_equal(const ls_tensor_type *a, const ls_tensor_type *b) {
    if (a->dtype != b->dtype || a->rank != b->rank) return false;
    for (int i = 0; i < a->rank; i++)
        if (a->dim[i] != b->dim[i]) return false;
    return true;
}

ls_code ls_tensor_type_text(const ls_tensor_type *t, ls_str *out, ls_error *e) {
    LS_TRY(ls_str_append(out, "tensor<", SIZE_MAX, e));
    for (int i = 0; i < t->rank && i < LS_XLA_MAX_RANK; i++) LS_TRY(ls_str_printf(out, e, "%lldx", (long long)t->dim[i]));
    return ls_str_printf(out, e, "%s>", ls_dtype_name(t->dtype));
}
