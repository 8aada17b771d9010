/* The lexer of chat templates. One pass over the normalised source: text up to the next tag, then the tag's tokens. */
#include "text/chat_template_lexer.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "text/chat_template_value.h"

enum { MAX_BRACKETS = 200, MAX_NUMBER = 64 };

typedef struct lexer {
    ls_jtokens *out;
    ls_arena *arena;
    const char *s; /* newlines normalised to \n */
    size_t n, pos;
    int line;
    bool line_starting; /* the last match ended a line */
    char open[MAX_BRACKETS];
    size_t n_open;
    ls_error *e;
} lexer;

#define LEX_FAIL(l, code, ...) return lex_fail((l), (code), __LINE__, __VA_ARGS__)

static ls_code lex_fail(lexer *l, ls_code code, int at, const char *what, const char *detail) {
    return ls_error_set(l->e, code, __FILE__, at, "chat template line %d: %s%s", l->line, what, detail);
}

static ls_code push(lexer *l, ls_jtok_type type, const char *p, size_t n) {
    LS_TRY(ls_grow(&l->out->v, l->out->n, &l->out->cap, sizeof *l->out->v, LS_JT_MAX_TOKENS, "chat template tokens",
                   l->e));
    l->out->v[l->out->n++] = (ls_jtok){.type = type, .line = l->line, .p = p, .n = n};
    return LS_OK;
}

static void advance(lexer *l, size_t to) {
    for (; l->pos < to; l->pos++) l->line += l->s[l->pos] == '\n';
}

static bool at(const lexer *l, size_t pos, const char *text) {
    size_t n = strlen(text);
    return pos <= l->n && l->n - pos >= n && !memcmp(l->s + pos, text, n);
}

static size_t skip_space(const lexer *l, size_t pos) { return pos + ls_py_strip_left(l->s + pos, l->n - pos); }

/* Matches the end of a block, comment or raw tag at |pos|: an optional sign and |close|, then the white space that the
 * sign or trim_blocks eats. Returns the position behind it, 0 when it does not match. */
static size_t match_close(const lexer *l, size_t pos, const char *close, bool plus, bool trim) {
    size_t n = strlen(close);
    if (pos < l->n && l->s[pos] == '-' && at(l, pos + 1, close)) return skip_space(l, pos + 1 + n);
    if (plus && pos < l->n && l->s[pos] == '+' && at(l, pos + 1, close)) return pos + 1 + n;
    if (!at(l, pos, close)) return 0;
    pos += n;
    return trim && pos < l->n && l->s[pos] == '\n' ? pos + 1 : pos;
}

static void matched(lexer *l, size_t end) {
    l->line_starting = end > 0 && l->s[end - 1] == '\n';
    advance(l, end);
}

/* Emits the text [pos, tag), shortened as |sign| and lstrip_blocks say. */
static ls_code push_data(lexer *l, size_t tag, char sign, bool is_variable) {
    const char *text = l->s + l->pos;
    size_t n = tag - l->pos, keep = n;
    if (sign == '-') {
        keep = ls_py_strip_right(text, n);
    } else if (sign != '+' && !is_variable) {
        size_t line = n;
        while (line && text[line - 1] != '\n') line--;
        bool blank = line < n && ls_py_strip_left(text + line, n - line) == n - line;
        if ((line > 0 || l->line_starting) && blank) keep = line;
    }
    return keep ? push(l, LS_JT_DATA, text, keep) : LS_OK;
}

static char sign_at(const lexer *l, size_t pos) {
    return pos < l->n && (l->s[pos] == '-' || l->s[pos] == '+') ? l->s[pos] : 0;
}

/* ---- Tokens inside a tag ------------------------------------------------------------------------------------- */

static int hex_value(const char *p, size_t digits, uint32_t *cp) {
    *cp = 0;
    for (size_t i = 0; i < digits; i++) {
        if (!isxdigit((unsigned char)p[i])) return 0;
        int c = tolower((unsigned char)p[i]);
        *cp = *cp << 4 | (uint32_t)(c <= '9' ? c - '0' : c - 'a' + 10);
    }
    return 1;
}

/* Decodes one escape at p[0] == '\\' (n bytes left) into out; returns the bytes read. */
static ls_code unescape_one(lexer *l, const char *p, size_t n, char out[4], int *out_n, size_t *read) {
    static const char from[] = "\\'\"abfnrtv", to[] = "\\'\"\a\b\f\n\r\t\v";
    char c = p[1];
    const char *known = c ? strchr(from, c) : NULL;
    uint32_t cp = 0;
    *read = 2;
    *out_n = 0;
    if (c == '\n') return LS_OK;
    if (known) {
        out[(*out_n)++] = to[known - from];
        return LS_OK;
    }
    if (c >= '0' && c <= '7') {
        size_t i = 1;
        for (; i < 4 && i < n && p[i] >= '0' && p[i] <= '7'; i++) cp = cp * 8 + (uint32_t)(p[i] - '0');
        *read = i;
    } else if (c == 'x' || c == 'u' || c == 'U') {
        size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : 8;
        if (n < 2 + digits || !hex_value(p + 2, digits, &cp))
            LEX_FAIL(l, LS_INVALID_ARGUMENT, "truncated escape in a string", "");
        *read = 2 + digits;
    } else if (c == 'N') {
        LEX_FAIL(l, LS_UNIMPLEMENTED, "\\N{name} escapes are not supported; ", "write the character itself");
    } else { /* Python keeps unknown escapes as they are */
        out[(*out_n)++] = '\\';
        *read = 1;
        return LS_OK;
    }
    *out_n = ls_utf8_encode(cp, out);
    if (!*out_n) LEX_FAIL(l, LS_INVALID_ARGUMENT, "a string escape names a surrogate or a value past U+10FFFF", "");
    return LS_OK;
}

static ls_code lex_string(lexer *l) {
    char quote = l->s[l->pos];
    size_t end = l->pos + 1;
    while (end < l->n && l->s[end] != quote) end += l->s[end] == '\\' ? 2 : 1;
    if (end >= l->n) LEX_FAIL(l, LS_INVALID_ARGUMENT, "a string is not closed", "");
    const char *p = l->s + l->pos + 1;
    size_t n = end - l->pos - 1, len = 0;
    char *text;
    LS_TRY(ls_arena_alloc(l->arena, &text, n + 4, 1, l->e));
    for (size_t i = 0; i < n;) {
        if (p[i] != '\\') {
            text[len++] = p[i++];
            continue;
        }
        int k;
        size_t read;
        LS_TRY(unescape_one(l, p + i, n - i, text + len, &k, &read));
        len += (size_t)k;
        i += read;
    }
    LS_TRY(push(l, LS_JT_STRING, text, len));
    matched(l, end + 1);
    return LS_OK;
}

/* Copies digits from |pos|, dropping single underscores between them; returns the position behind them. */
static size_t copy_digits(const lexer *l, size_t pos, char *out, size_t *n, int base) {
    while (pos < l->n) {
        size_t d = l->s[pos] == '_' && *n && pos + 1 < l->n ? pos + 1 : pos;
        int c = tolower((unsigned char)l->s[d]);
        int v = isdigit(c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : 99;
        if (v >= base || *n >= MAX_NUMBER - 4) break;
        out[(*n)++] = (char)c;
        pos = d + 1;
    }
    return pos;
}

static ls_code push_int(lexer *l, const char *digits, int base, size_t end) {
    LS_TRY(push(l, LS_JT_INT, l->s + l->pos, end - l->pos));
    uint64_t v = 0;
    for (const char *d = digits; *d; d++) {
        uint64_t digit = (uint64_t)(*d <= '9' ? *d - '0' : *d - 'a' + 10);
        if (v > (INT64_MAX - digit) / (uint64_t)base)
            LEX_FAIL(l, LS_OUT_OF_RANGE, "an integer does not fit 64 bits", "");
        v = v * (uint64_t)base + digit;
    }
    l->out->v[l->out->n - 1].i = (int64_t)v;
    matched(l, end);
    return LS_OK;
}

static ls_code lex_number(lexer *l) {
    char text[MAX_NUMBER] = "";
    size_t n = 0, end = l->pos;
    int mark = end + 1 < l->n ? tolower((unsigned char)l->s[end + 1]) : 0;
    int base = l->s[end] != '0' ? 10 : mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 10;
    if (base != 10) {
        size_t stop = copy_digits(l, end + 2, text, &n, base);
        if (n) return push_int(l, text, base, stop);
    }
    end = copy_digits(l, end, text, &n, 10);
    if (n >= MAX_NUMBER - 4) LEX_FAIL(l, LS_OUT_OF_RANGE, "a number has too many digits", "");
    size_t whole = n, whole_end = end;
    bool after_dot = l->pos > 0 && l->s[l->pos - 1] == '.';
    if (!after_dot && end + 1 < l->n && l->s[end] == '.' && isdigit((unsigned char)l->s[end + 1])) {
        text[n++] = '.';
        end = copy_digits(l, end + 1, text, &n, 10);
    }
    size_t sign = end + 1 < l->n && (l->s[end + 1] == '+' || l->s[end + 1] == '-');
    bool exponent = !after_dot && end + 1 + sign < l->n && tolower((unsigned char)l->s[end]) == 'e' &&
                    isdigit((unsigned char)l->s[end + 1 + sign]);
    if (exponent && n < MAX_NUMBER - 12) {
        text[n++] = 'e';
        if (sign) text[n++] = l->s[end + 1];
        end = copy_digits(l, end + 1 + sign, text, &n, 10);
    }
    if (n == whole) {
        if (text[0] == '0' && strspn(text, "0") != n) LEX_FAIL(l, LS_INVALID_ARGUMENT, "a number starts with 0", "");
        return push_int(l, text, 10, whole_end);
    }
    if (n >= MAX_NUMBER - 4) LEX_FAIL(l, LS_OUT_OF_RANGE, "a number has too many digits", "");
    LS_TRY(push(l, LS_JT_FLOAT, l->s + l->pos, end - l->pos));
    l->out->v[l->out->n - 1].f = strtod(text, NULL);
    matched(l, end);
    return LS_OK;
}

static ls_code check_bracket(lexer *l, char c) {
    if (c == '(' || c == '[' || c == '{') {
        if (l->n_open == MAX_BRACKETS) LEX_FAIL(l, LS_RESOURCE_EXHAUSTED, "brackets are nested too deeply", "");
        l->open[l->n_open++] = c == '(' ? ')' : c == '[' ? ']' : '}';
    } else if (c == ')' || c == ']' || c == '}') {
        char text[] = {'\'', c, '\'', 0};
        if (!l->n_open || l->open[--l->n_open] != c) LEX_FAIL(l, LS_INVALID_ARGUMENT, "unexpected ", text);
    }
    return LS_OK;
}

static ls_code lex_operator(lexer *l) {
    static const char *const ops[] = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[", "]",
                                      "(",  ")",  "{",  "}",  ">",  "<",  "=", ".", ":", "|", ",", ";"};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        if (!at(l, l->pos, ops[i])) continue;
        LS_TRY(check_bracket(l, ops[i][0]));
        LS_TRY(push(l, LS_JT_OP, ops[i], strlen(ops[i])));
        matched(l, l->pos + strlen(ops[i]));
        return LS_OK;
    }
    char shown[] = {'\'', l->s[l->pos], '\'', 0};
    bool ascii = shown[1] > ' ' && shown[1] < 127;
    LEX_FAIL(l, LS_INVALID_ARGUMENT, "unexpected character ",
             ascii ? shown : "outside ASCII or not printable (only strings may hold it)");
}

static ls_code lex_inside(lexer *l) {
    unsigned char c = (unsigned char)l->s[l->pos];
    size_t space = skip_space(l, l->pos);
    if (space > l->pos) {
        matched(l, space);
        return LS_OK;
    }
    if (isdigit(c)) return lex_number(l);
    if (c == '\'' || c == '"') return lex_string(l);
    if (!isalpha(c) && c != '_') return lex_operator(l);
    size_t end = l->pos;
    while (end < l->n && (isalnum((unsigned char)l->s[end]) || l->s[end] == '_')) end++;
    LS_TRY(push(l, LS_JT_NAME, l->s + l->pos, end - l->pos));
    matched(l, end);
    return LS_OK;
}

static ls_code lex_tag(lexer *l, bool is_variable) {
    LS_TRY(push(l, is_variable ? LS_JT_VAR_BEGIN : LS_JT_BLOCK_BEGIN, NULL, 0));
    l->n_open = 0;
    for (;;) {
        if (l->pos >= l->n)
            LEX_FAIL(l, LS_INVALID_ARGUMENT, "a tag is not closed: missing ", is_variable ? "}}" : "%}");
        size_t end = 0;
        if (!l->n_open)
            end = is_variable ? match_close(l, l->pos, "}}", false, false) : match_close(l, l->pos, "%}", true, true);
        if (end) {
            LS_TRY(push(l, is_variable ? LS_JT_VAR_END : LS_JT_BLOCK_END, NULL, 0));
            matched(l, end);
            return LS_OK;
        }
        LS_TRY(lex_inside(l));
    }
}

/* ---- Text, comments and raw sections ------------------------------------------------------------------------- */

static ls_code lex_comment(lexer *l) {
    for (size_t i = l->pos; i < l->n; i++) {
        size_t end = match_close(l, i, "#}", true, true);
        if (!end) continue;
        matched(l, end);
        return LS_OK;
    }
    LEX_FAIL(l, LS_INVALID_ARGUMENT, "a comment is not closed: missing ", "#}");
}

/* Position behind "{%- raw %}" at |pos|, 0 when the tag is another one. */
static size_t match_raw(const lexer *l, size_t pos, const char *word, bool end_tag) {
    if (!at(l, pos, "{%")) return 0;
    pos += 2;
    if (sign_at(l, pos)) pos++;
    pos = skip_space(l, pos);
    if (!at(l, pos, word)) return 0;
    return match_close(l, skip_space(l, pos + strlen(word)), "%}", end_tag, end_tag);
}

static ls_code lex_raw(lexer *l, size_t begin) {
    matched(l, begin);
    for (size_t i = l->pos; i < l->n; i++) {
        size_t end = match_raw(l, i, "endraw", true);
        if (!end) continue;
        LS_TRY(push_data(l, i, sign_at(l, i + 2), false));
        matched(l, end);
        return LS_OK;
    }
    LEX_FAIL(l, LS_INVALID_ARGUMENT, "a raw section is not closed: missing ", "{% endraw %}");
}

static ls_code lex_text(lexer *l) {
    size_t tag = l->pos;
    while (tag < l->n && !(l->s[tag] == '{' && tag + 1 < l->n && strchr("{%#", l->s[tag + 1]) && l->s[tag + 1])) tag++;
    if (tag >= l->n) {
        LS_TRY(push(l, LS_JT_DATA, l->s + l->pos, l->n - l->pos));
        advance(l, l->n);
        return LS_OK;
    }
    char kind = l->s[tag + 1], sign = sign_at(l, tag + 2);
    LS_TRY(push_data(l, tag, sign, kind == '{'));
    size_t raw = kind == '%' ? match_raw(l, tag, "raw", false) : 0;
    if (raw) return lex_raw(l, raw);
    matched(l, tag + 2 + (sign != 0));
    return kind == '#' ? lex_comment(l) : lex_tag(l, kind == '{');
}

static ls_code normalise(lexer *l, const char *source, size_t len) {
    if (len > LS_JT_MAX_SOURCE)
        LS_FAIL(l->e, LS_RESOURCE_EXHAUSTED, "chat template has %zu bytes; at most %d are allowed", len,
                LS_JT_MAX_SOURCE);
    char *s;
    LS_TRY(ls_arena_alloc(l->arena, &s, len + 1, 1, l->e));
    int line = 1;
    for (size_t i = 0; i < len;) {
        int k = ls_utf8_decode(source + i, len - i, NULL);
        if (!k) LS_FAIL(l->e, LS_INVALID_ARGUMENT, "chat template line %d: byte %zu is not valid UTF-8", line, i);
        if (source[i] == '\r') {
            s[l->n++] = '\n';
            i += i + 1 < len && source[i + 1] == '\n';
        } else {
            memcpy(s + l->n, source + i, (size_t)k);
            l->n += (size_t)k;
        }
        line += s[l->n - 1] == '\n';
        i += (size_t)k;
    }
    if (l->n && s[l->n - 1] == '\n') l->n--;
    l->s = s;
    return LS_OK;
}

ls_code ls_jlex(ls_jtokens *out, ls_arena *arena, const char *source, size_t len, ls_error *e) {
    lexer l = {.out = out, .arena = arena, .line = 1, .line_starting = true, .e = e};
    LS_TRY(normalise(&l, source, len));
    while (l.pos < l.n) LS_TRY(lex_text(&l));
    return push(&l, LS_JT_EOF, NULL, 0);
}
