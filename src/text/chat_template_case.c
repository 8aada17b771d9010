/* Python's upper, lower, title and capitalize. utf8proc maps one character to one; the characters whose upper or title
 * case is longer (Unicode's SpecialCasing.txt) are listed here, and the two context rules of lower case are code. */
#include <string.h>

#include <utf8proc.h>

#include "text/chat_template_builtin.h"

static const struct {
    uint32_t cp;
    char upper[8], title[8];
} special[] = {
    {0x00DF, "\x53\x53", "\x53\x73"}, {0x0149, "\xca\xbc\x4e", "\xca\xbc\x4e"},
    {0x01F0, "\x4a\xcc\x8c", "\x4a\xcc\x8c"}, {0x0390, "\xce\x99\xcc\x88\xcc\x81", "\xce\x99\xcc\x88\xcc\x81"},
    {0x03B0, "\xce\xa5\xcc\x88\xcc\x81", "\xce\xa5\xcc\x88\xcc\x81"},
    {0x0587, "\xd4\xb5\xd5\x92", "\xd4\xb5\xd6\x82"}, {0x1E96, "\x48\xcc\xb1", "\x48\xcc\xb1"},
    {0x1E97, "\x54\xcc\x88", "\x54\xcc\x88"}, {0x1E98, "\x57\xcc\x8a", "\x57\xcc\x8a"},
    {0x1E99, "\x59\xcc\x8a", "\x59\xcc\x8a"}, {0x1E9A, "\x41\xca\xbe", "\x41\xca\xbe"},
    {0x1F50, "\xce\xa5\xcc\x93", "\xce\xa5\xcc\x93"},
    {0x1F52, "\xce\xa5\xcc\x93\xcc\x80", "\xce\xa5\xcc\x93\xcc\x80"},
    {0x1F54, "\xce\xa5\xcc\x93\xcc\x81", "\xce\xa5\xcc\x93\xcc\x81"},
    {0x1F56, "\xce\xa5\xcc\x93\xcd\x82", "\xce\xa5\xcc\x93\xcd\x82"},
    {0x1F80, "\xe1\xbc\x88\xce\x99", "\xe1\xbe\x88"}, {0x1F81, "\xe1\xbc\x89\xce\x99", "\xe1\xbe\x89"},
    {0x1F82, "\xe1\xbc\x8a\xce\x99", "\xe1\xbe\x8a"}, {0x1F83, "\xe1\xbc\x8b\xce\x99", "\xe1\xbe\x8b"},
    {0x1F84, "\xe1\xbc\x8c\xce\x99", "\xe1\xbe\x8c"}, {0x1F85, "\xe1\xbc\x8d\xce\x99", "\xe1\xbe\x8d"},
    {0x1F86, "\xe1\xbc\x8e\xce\x99", "\xe1\xbe\x8e"}, {0x1F87, "\xe1\xbc\x8f\xce\x99", "\xe1\xbe\x8f"},
    {0x1F88, "\xe1\xbc\x88\xce\x99", "\xe1\xbe\x88"}, {0x1F89, "\xe1\xbc\x89\xce\x99", "\xe1\xbe\x89"},
    {0x1F8A, "\xe1\xbc\x8a\xce\x99", "\xe1\xbe\x8a"}, {0x1F8B, "\xe1\xbc\x8b\xce\x99", "\xe1\xbe\x8b"},
    {0x1F8C, "\xe1\xbc\x8c\xce\x99", "\xe1\xbe\x8c"}, {0x1F8D, "\xe1\xbc\x8d\xce\x99", "\xe1\xbe\x8d"},
    {0x1F8E, "\xe1\xbc\x8e\xce\x99", "\xe1\xbe\x8e"}, {0x1F8F, "\xe1\xbc\x8f\xce\x99", "\xe1\xbe\x8f"},
    {0x1F90, "\xe1\xbc\xa8\xce\x99", "\xe1\xbe\x98"}, {0x1F91, "\xe1\xbc\xa9\xce\x99", "\xe1\xbe\x99"},
    {0x1F92, "\xe1\xbc\xaa\xce\x99", "\xe1\xbe\x9a"}, {0x1F93, "\xe1\xbc\xab\xce\x99", "\xe1\xbe\x9b"},
    {0x1F94, "\xe1\xbc\xac\xce\x99", "\xe1\xbe\x9c"}, {0x1F95, "\xe1\xbc\xad\xce\x99", "\xe1\xbe\x9d"},
    {0x1F96, "\xe1\xbc\xae\xce\x99", "\xe1\xbe\x9e"}, {0x1F97, "\xe1\xbc\xaf\xce\x99", "\xe1\xbe\x9f"},
    {0x1F98, "\xe1\xbc\xa8\xce\x99", "\xe1\xbe\x98"}, {0x1F99, "\xe1\xbc\xa9\xce\x99", "\xe1\xbe\x99"},
    {0x1F9A, "\xe1\xbc\xaa\xce\x99", "\xe1\xbe\x9a"}, {0x1F9B, "\xe1\xbc\xab\xce\x99", "\xe1\xbe\x9b"},
    {0x1F9C, "\xe1\xbc\xac\xce\x99", "\xe1\xbe\x9c"}, {0x1F9D, "\xe1\xbc\xad\xce\x99", "\xe1\xbe\x9d"},
    {0x1F9E, "\xe1\xbc\xae\xce\x99", "\xe1\xbe\x9e"}, {0x1F9F, "\xe1\xbc\xaf\xce\x99", "\xe1\xbe\x9f"},
    {0x1FA0, "\xe1\xbd\xa8\xce\x99", "\xe1\xbe\xa8"}, {0x1FA1, "\xe1\xbd\xa9\xce\x99", "\xe1\xbe\xa9"},
    {0x1FA2, "\xe1\xbd\xaa\xce\x99", "\xe1\xbe\xaa"}, {0x1FA3, "\xe1\xbd\xab\xce\x99", "\xe1\xbe\xab"},
    {0x1FA4, "\xe1\xbd\xac\xce\x99", "\xe1\xbe\xac"}, {0x1FA5, "\xe1\xbd\xad\xce\x99", "\xe1\xbe\xad"},
    {0x1FA6, "\xe1\xbd\xae\xce\x99", "\xe1\xbe\xae"}, {0x1FA7, "\xe1\xbd\xaf\xce\x99", "\xe1\xbe\xaf"},
    {0x1FA8, "\xe1\xbd\xa8\xce\x99", "\xe1\xbe\xa8"}, {0x1FA9, "\xe1\xbd\xa9\xce\x99", "\xe1\xbe\xa9"},
    {0x1FAA, "\xe1\xbd\xaa\xce\x99", "\xe1\xbe\xaa"}, {0x1FAB, "\xe1\xbd\xab\xce\x99", "\xe1\xbe\xab"},
    {0x1FAC, "\xe1\xbd\xac\xce\x99", "\xe1\xbe\xac"}, {0x1FAD, "\xe1\xbd\xad\xce\x99", "\xe1\xbe\xad"},
    {0x1FAE, "\xe1\xbd\xae\xce\x99", "\xe1\xbe\xae"}, {0x1FAF, "\xe1\xbd\xaf\xce\x99", "\xe1\xbe\xaf"},
    {0x1FB2, "\xe1\xbe\xba\xce\x99", "\xe1\xbe\xba\xcd\x85"}, {0x1FB3, "\xce\x91\xce\x99", "\xe1\xbe\xbc"},
    {0x1FB4, "\xce\x86\xce\x99", "\xce\x86\xcd\x85"}, {0x1FB6, "\xce\x91\xcd\x82", "\xce\x91\xcd\x82"},
    {0x1FB7, "\xce\x91\xcd\x82\xce\x99", "\xce\x91\xcd\x82\xcd\x85"}, {0x1FBC, "\xce\x91\xce\x99", "\xe1\xbe\xbc"},
    {0x1FC2, "\xe1\xbf\x8a\xce\x99", "\xe1\xbf\x8a\xcd\x85"}, {0x1FC3, "\xce\x97\xce\x99", "\xe1\xbf\x8c"},
    {0x1FC4, "\xce\x89\xce\x99", "\xce\x89\xcd\x85"}, {0x1FC6, "\xce\x97\xcd\x82", "\xce\x97\xcd\x82"},
    {0x1FC7, "\xce\x97\xcd\x82\xce\x99", "\xce\x97\xcd\x82\xcd\x85"}, {0x1FCC, "\xce\x97\xce\x99", "\xe1\xbf\x8c"},
    {0x1FD2, "\xce\x99\xcc\x88\xcc\x80", "\xce\x99\xcc\x88\xcc\x80"},
    {0x1FD3, "\xce\x99\xcc\x88\xcc\x81", "\xce\x99\xcc\x88\xcc\x81"},
    {0x1FD6, "\xce\x99\xcd\x82", "\xce\x99\xcd\x82"},
    {0x1FD7, "\xce\x99\xcc\x88\xcd\x82", "\xce\x99\xcc\x88\xcd\x82"},
    {0x1FE2, "\xce\xa5\xcc\x88\xcc\x80", "\xce\xa5\xcc\x88\xcc\x80"},
    {0x1FE3, "\xce\xa5\xcc\x88\xcc\x81", "\xce\xa5\xcc\x88\xcc\x81"},
    {0x1FE4, "\xce\xa1\xcc\x93", "\xce\xa1\xcc\x93"}, {0x1FE6, "\xce\xa5\xcd\x82", "\xce\xa5\xcd\x82"},
    {0x1FE7, "\xce\xa5\xcc\x88\xcd\x82", "\xce\xa5\xcc\x88\xcd\x82"},
    {0x1FF2, "\xe1\xbf\xba\xce\x99", "\xe1\xbf\xba\xcd\x85"}, {0x1FF3, "\xce\xa9\xce\x99", "\xe1\xbf\xbc"},
    {0x1FF4, "\xce\x8f\xce\x99", "\xce\x8f\xcd\x85"}, {0x1FF6, "\xce\xa9\xcd\x82", "\xce\xa9\xcd\x82"},
    {0x1FF7, "\xce\xa9\xcd\x82\xce\x99", "\xce\xa9\xcd\x82\xcd\x85"}, {0x1FFC, "\xce\xa9\xce\x99", "\xe1\xbf\xbc"},
    {0xFB00, "\x46\x46", "\x46\x66"}, {0xFB01, "\x46\x49", "\x46\x69"}, {0xFB02, "\x46\x4c", "\x46\x6c"},
    {0xFB03, "\x46\x46\x49", "\x46\x66\x69"}, {0xFB04, "\x46\x46\x4c", "\x46\x66\x6c"},
    {0xFB05, "\x53\x54", "\x53\x74"}, {0xFB06, "\x53\x54", "\x53\x74"},
    {0xFB13, "\xd5\x84\xd5\x86", "\xd5\x84\xd5\xb6"}, {0xFB14, "\xd5\x84\xd4\xb5", "\xd5\x84\xd5\xa5"},
    {0xFB15, "\xd5\x84\xd4\xbb", "\xd5\x84\xd5\xab"}, {0xFB16, "\xd5\x8e\xd5\x86", "\xd5\x8e\xd5\xb6"},
    {0xFB17, "\xd5\x84\xd4\xbd", "\xd5\x84\xd5\xad"}};

static const char *find_special(uint32_t cp, bool title) {
    size_t lo = 0, hi = sizeof special / sizeof *special;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (special[mid].cp == cp) return title ? special[mid].title : special[mid].upper;
        if (special[mid].cp < cp) lo = mid + 1;
        else hi = mid;
    }
    return NULL;
}

static bool is_cased(uint32_t cp) {
    utf8proc_category_t c = utf8proc_category((utf8proc_int32_t)cp);
    return c == UTF8PROC_CATEGORY_LU || c == UTF8PROC_CATEGORY_LL || c == UTF8PROC_CATEGORY_LT;
}

/* Characters that do not end the search for a cased neighbour. */
static bool is_case_ignorable(uint32_t cp) {
    utf8proc_category_t c = utf8proc_category((utf8proc_int32_t)cp);
    return c == UTF8PROC_CATEGORY_MN || c == UTF8PROC_CATEGORY_ME || c == UTF8PROC_CATEGORY_CF ||
           c == UTF8PROC_CATEGORY_LM || c == UTF8PROC_CATEGORY_SK || cp == '\'' || cp == '.' || cp == ':' ||
           cp == 0xB7 || cp == 0x2019;
}

/* Unicode's Final_Sigma: a cased letter before, none after. |before|: state of the text up to the sigma. */
static bool is_final_sigma(const ls_jstr *s, size_t at, bool before) {
    if (!before) return false;
    uint32_t cp;
    for (size_t i = at + 2; i < s->n; i += ls_utf8_step(s->p + i)) {
        ls_utf8_decode(s->p + i, s->n - i, &cp);
        if (!is_case_ignorable(cp)) return !is_cased(cp);
    }
    return true;
}

/* Writes the mapped character to out[12]. */
static void map_char(const ls_jstr *s, size_t at, uint32_t cp, ls_jcase how, bool after_cased, char out[12]) {
    const char *longer = how == LS_CASE_UPPER || how == LS_CASE_TITLE ? find_special(cp, how == LS_CASE_TITLE) : NULL;
    memset(out, 0, 12);
    if (longer) {
        memcpy(out, longer, 8);
        return;
    }
    if (how == LS_CASE_LOWER && cp == 0x130) {
        memcpy(out, "i\xcc\x87", 3);
        return;
    }
    utf8proc_int32_t c = (utf8proc_int32_t)cp;
    if (how == LS_CASE_LOWER) c = cp == 0x3A3 && is_final_sigma(s, at, after_cased) ? 0x3C2 : utf8proc_tolower(c);
    else c = how == LS_CASE_UPPER ? utf8proc_toupper(c) : utf8proc_totitle(c);
    ls_utf8_encode((uint32_t)c, out);
}

/* What to do with one character, given the wanted overall case and whether a cased letter stands before it. */
static ls_jcase case_of_char(ls_jcase how, bool first, bool after_letter, uint32_t cp) {
    switch (how) {
    case LS_CASE_CAPITALIZE: return first ? LS_CASE_TITLE : LS_CASE_LOWER;
    case LS_CASE_TITLE: return after_letter ? LS_CASE_LOWER : LS_CASE_TITLE;
    case LS_CASE_SWAP:
        return utf8proc_category((utf8proc_int32_t)cp) == UTF8PROC_CATEGORY_LU ? LS_CASE_LOWER : LS_CASE_UPPER;
    default: return how;
    }
}

ls_code ls_jstr_case(ls_jvm *vm, const ls_jstr *s, ls_jcase how, ls_jv *out) {
    ls_jbuf b = {0};
    bool after_letter = false, after_cased = false;
    for (size_t i = 0, step; i < s->n; i += step) {
        uint32_t cp = 0;
        char text[12];
        step = ls_utf8_step(s->p + i);
        ls_utf8_decode(s->p + i, s->n - i, &cp);
        map_char(s, i, cp, case_of_char(how, i == 0, after_letter, cp), after_cased, text);
        LS_TRY(ls_jbuf_add(vm, &b, text, cp ? strlen(text) : 1, ls_jstr_is_input(s, i)));
        after_letter = is_cased(cp);
        if (!is_case_ignorable(cp)) after_cased = is_cased(cp);
    }
    LS_TRY(ls_jvm_work(vm, s->n / 64));
    return ls_jbuf_finish(vm, &b, out);
}
