/* Reports of a comparison: lines for people, JSON for programs, one page of HTML for browsers. */
#ifndef LS_VERIFY_REPORT_H
#define LS_VERIFY_REPORT_H

#include "verify/verify.h"

/* Figures of all compared nodes together. */
typedef struct ls_verify_totals {
    size_t compared, diverged, absent; /* nodes */
    ls_difference d;
    size_t tokens_differ;              /* positions where both sides gave logits and would choose differently */
} ls_verify_totals;

ls_verify_totals ls_verify_total(const ls_verify_report *r);

/* The first divergence as a place: pass, token position, row of the pass and column. Only when r->first >= 0. */
typedef struct ls_verify_place {
    int pass;
    int64_t flat, row, column, position;
    float left, right;
} ls_verify_place;

ls_verify_place ls_verify_place_of(const ls_verify_report *r, size_t node);

/* A few lines of text, appended to |s|. */
ls_code ls_verify_text(const ls_verify_report *r, ls_str *s, ls_error *e);

/* The fields that docs/verify.md lists; |m| gives token texts, |path| the model's name. Owned by the caller. NULL: no memory. */
json_t *ls_verify_json(const ls_verify_report *r, const ls_model *m, const char *path);

/* The page, appended to |s| (html.c). */
ls_code ls_verify_html(const ls_verify_report *r, const ls_model *m, const char *path, ls_str *s, ls_error *e);

/* "equality of bits", "absolute 0.01, relative 0.001", ... */
ls_code ls_verify_rule(const ls_verify_report *r, ls_str *s, ls_error *e);

#endif
