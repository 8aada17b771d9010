/* SentencePiece's precompiled character map: a double-array trie from character sequences to replacements. */
#ifndef LS_TEXT_TOKENIZER_CHARSMAP_H
#define LS_TEXT_TOKENIZER_CHARSMAP_H

#include "base/str.h"

typedef struct ls_charsmap ls_charsmap;

/* |blob|: u32 little-endian size of the trie in bytes, the trie's u32 units, then NUL-terminated replacements. Copied. */
ls_code ls_charsmap_create(ls_charsmap **out, const void *blob, size_t len, ls_error *e);
ls_code ls_charsmap_from_base64(ls_charsmap **out, const char *text, size_t len, ls_error *e);
void ls_charsmap_destroy(ls_charsmap *m);

/* Appends |s| as `tokenizers` maps it: grapheme by grapheme, a grapheme under 6 bytes being replaced whole by the entry of
 * its shortest prefix in the map, otherwise character by character. */
ls_code ls_charsmap_by_grapheme(const ls_charsmap *m, const char *s, size_t len, ls_str *out, ls_error *e);

/* Appends |s| as SentencePiece maps it: the longest entry at each place. */
ls_code ls_charsmap_by_longest(const ls_charsmap *m, const char *s, size_t len, ls_str *out, ls_error *e);

#endif
