/* Unicode facts the tokenizers need: character classes, repair of invalid UTF-8, the byte-level alphabet, normal forms. */
#ifndef LS_TEXT_TOKENIZER_UNICODE_H
#define LS_TEXT_TOKENIZER_UNICODE_H

#include "base/str.h"

bool ls_uc_space(uint32_t cp);   /* White_Space */
bool ls_uc_numeric(uint32_t cp); /* Nd, Nl, No */
bool ls_uc_punct(uint32_t cp);   /* general category P, or ASCII punctuation */
bool ls_uc_mark(uint32_t cp);    /* general category M */
bool ls_uc_word(uint32_t cp);    /* UTS 18 word character: Alphabetic, M, Nd, Pc, Join_Control */

/* Decodes one character of valid UTF-8. */
uint32_t ls_uc_next(const char *s, size_t len, size_t *pos);

ls_code ls_uc_append(ls_str *out, uint32_t cp, ls_error *e);

/* How many bytes at |s| one U+FFFD replaces: the maximal subpart of an ill-formed sequence (Unicode 3.9, "U+FFFD
 * substitution of maximal subparts"). *incomplete: the bytes could still become a character if more followed. */
size_t ls_utf8_bad_len(const char *s, size_t len, bool *incomplete);

/* Appends |s| with every ill-formed part replaced by U+FFFD. */
ls_code ls_utf8_repair(const char *s, size_t len, ls_str *out, ls_error *e);

/* The byte-level alphabet of GPT-2: every byte as a printable character. ls_byte_of_char gives -1 outside it. */
uint32_t ls_byte_char(uint8_t byte);
int ls_byte_of_char(uint32_t cp);

typedef enum ls_normal_form { LS_NFC, LS_NFD, LS_NFKC, LS_NFKD } ls_normal_form;

/* Appends |s| (valid UTF-8) in the given normal form, in time linear in its length. */
ls_code ls_uc_normalize(ls_normal_form form, const char *s, size_t len, ls_str *out, ls_error *e);

/* Appends |s| lowercased character by character (full mapping, no context). */
ls_code ls_uc_lowercase(const char *s, size_t len, ls_str *out, ls_error *e);

#endif
