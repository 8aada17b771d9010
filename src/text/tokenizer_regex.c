/* Compiling and matching tokenizer patterns with PCRE2 (UTF, Unicode properties, JIT, step limits). */
#include "text/tokenizer_regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <string.h>

enum {
    MAX_PATTERN = 1 << 16,
    MAX_SPANS = 1 << 29,
    MATCH_STEPS = 10 * 1000 * 1000,
    HEAP_KIB = 64 * 1024,
    JIT_STACK_MIN = 32 * 1024,
    JIT_STACK_MAX = 16 * 1024 * 1024
};

struct ls_regex {
    pcre2_code *code; /* NULL for a literal */
    char *literal;
    size_t literal_len;
};

ls_code ls_spans_add(ls_spans *s, size_t begin, size_t end, bool match, ls_error *e) {
    LS_TRY(ls_grow(&s->v, s->n, &s->cap, sizeof *s->v, MAX_SPANS, "pieces of text", e));
    s->v[s->n++] = (ls_span){begin, end, match};
    return LS_OK;
}

static void *pcre_alloc(size_t n, void *user) {
    (void)user;
    void *p = NULL;
    return ls_alloc_aligned(&p, n, 1, "regular expression", NULL) ? NULL : p;
}

static void pcre_release(void *p, void *user) {
    (void)user;
    ls_free(p);
}

static ls_code compile(ls_regex *r, const char *pattern, const ls_str *text, ls_error *e) {
    int error = 0;
    PCRE2_SIZE at = 0;
    ls_code rc = LS_OK;
    pcre2_general_context *general = pcre2_general_context_create(pcre_alloc, pcre_release, NULL);
    pcre2_compile_context *context = general ? pcre2_compile_context_create(general) : NULL;
    if (!context) LS_FAIL_GOTO(e, LS_RESOURCE_EXHAUSTED, "regular expression: out of memory");
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    pcre2_set_parens_nest_limit(context, 64);
    uint32_t options = PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C;
    r->code = pcre2_compile((PCRE2_SPTR)(text->data ? text->data : ""), text->len, options, &error, &at, context);
    if (!r->code) {
        PCRE2_UCHAR why[160] = {0};
        pcre2_get_error_message(error, why, sizeof why);
        LS_FAIL_GOTO(e, LS_INVALID_ARGUMENT, "regular expression \"%.200s\": %s (as PCRE2 \"%.300s\", byte %zu)", pattern, (char *)why,
                     text->data, (size_t)at);
    }
    pcre2_jit_compile(r->code, PCRE2_JIT_COMPLETE); /* optional: matching falls back to the interpreter */
out:
    pcre2_compile_context_free(context);
    pcre2_general_context_free(general);
    return rc;
}

ls_code ls_regex_create(ls_regex **out, const char *pattern, size_t len, bool literal, ls_error *e) {
    if (!len || len > MAX_PATTERN)
        LS_FAIL(e, LS_UNIMPLEMENTED, "pattern of %zu bytes: 1 to %d are supported", len, MAX_PATTERN);
    if (memchr(pattern, 0, len) && !literal) LS_FAIL(e, LS_UNIMPLEMENTED, "a regular expression with a NUL is not supported");
    ls_regex *r = NULL;
    ls_str text = {.max = 1 << 24};
    LS_TRY(ls_calloc(&r, 1, sizeof *r, "regular expression", e));
    ls_code rc = LS_OK;
    if (literal) {
        LS_GOTO(ls_calloc(&r->literal, len + 1, 1, "pattern", e));
        memcpy(r->literal, pattern, len);
        r->literal_len = len;
    } else {
        LS_GOTO(ls_regex_translate(pattern, len, &text, e));
        LS_GOTO(compile(r, pattern, &text, e));
    }
out:
    ls_str_deinit(&text);
    if (rc) ls_regex_destroy(r);
    else *out = r;
    return rc;
}

void ls_regex_destroy(ls_regex *r) {
    if (!r) return;
    pcre2_code_free(r->code);
    ls_free(r->literal);
    ls_free(r);
}

static ls_code prepare(ls_regex_work *w, ls_error *e) {
    if (w->match_data) return LS_OK;
    pcre2_general_context *general = pcre2_general_context_create(pcre_alloc, pcre_release, NULL);
    if (general) {
        w->match_data = pcre2_match_data_create(1, general);
        w->context = pcre2_match_context_create(general);
        w->stack = pcre2_jit_stack_create(JIT_STACK_MIN, JIT_STACK_MAX, general);
    }
    pcre2_general_context_free(general);
    if (!w->match_data || !w->context) {
        ls_regex_work_deinit(w);
        LS_FAIL(e, LS_RESOURCE_EXHAUSTED, "regular expression: out of memory");
    }
    if (w->stack) pcre2_jit_stack_assign(w->context, NULL, w->stack);
    pcre2_set_match_limit(w->context, MATCH_STEPS);
    pcre2_set_heap_limit(w->context, HEAP_KIB);
    return LS_OK;
}

void ls_regex_work_deinit(ls_regex_work *w) {
    pcre2_match_data_free(w->match_data);
    pcre2_match_context_free(w->context);
    pcre2_jit_stack_free(w->stack);
    *w = (ls_regex_work){0};
}

/* Finds the first match at or after |from|; *found false when there is none. */
static ls_code find(const ls_regex *r, ls_regex_work *w, const char *text, size_t len, size_t from, bool *found, ls_span *m,
                    ls_error *e) {
    if (!r->code) {
        const char *at = memmem(text + from, len - from, r->literal, r->literal_len);
        *found = at != NULL;
        if (at) *m = (ls_span){(size_t)(at - text), (size_t)(at - text) + r->literal_len, true};
        return LS_OK;
    }
    int n = pcre2_match(r->code, (PCRE2_SPTR)text, len, from, PCRE2_NO_UTF_CHECK, w->match_data, w->context);
    *found = n >= 0;
    if (n == PCRE2_ERROR_NOMATCH) return LS_OK;
    if (n < 0) LS_FAIL(e, LS_RESOURCE_EXHAUSTED, "a regular expression of the tokenizer gave up on %zu bytes of text (PCRE2 %d)", len, n);
    const PCRE2_SIZE *o = pcre2_get_ovector_pointer(w->match_data);
    if (o[1] < o[0]) LS_FAIL(e, LS_UNIMPLEMENTED, "a regular expression matched text that ends before it begins");
    *m = (ls_span){o[0], o[1], true};
    return LS_OK;
}

ls_code ls_regex_split(const ls_regex *r, ls_regex_work *w, const char *text, size_t len, ls_spans *out, ls_error *e) {
    out->n = 0;
    if (!len) return ls_spans_add(out, 0, 0, false, e);
    if (r->code) LS_TRY(prepare(w, e));
    size_t prev = 0, last_end = SIZE_MAX;
    for (size_t from = 0; from <= len;) {
        bool found;
        ls_span m = {0};
        LS_TRY(find(r, w, text, len, from, &found, &m, e));
        if (!found) break;
        if (m.begin == m.end && m.end == last_end) { /* an empty match right behind a match does not count */
            if (from >= len) break;
            do from++;
            while (from < len && ((unsigned char)text[from] & 0xC0) == 0x80);
            continue;
        }
        from = last_end = m.end;
        if (prev != m.begin) LS_TRY(ls_spans_add(out, prev, m.begin, false, e));
        LS_TRY(ls_spans_add(out, m.begin, m.end, true, e));
        prev = m.end;
    }
    return prev != len ? ls_spans_add(out, prev, len, false, e) : LS_OK;
}
