/* Tables of character classes, as the `tokenizers` package has them (whose parts know different versions of Unicode), so
 * that tokens do not depend on the versions of the system's libraries. */
#ifndef LS_TEXT_TOKENIZER_UNICODE_TABLES_H
#define LS_TEXT_TOKENIZER_UNICODE_TABLES_H

#include <stddef.h>
#include <stdint.h>

typedef struct ls_char_range {
    uint32_t first, last;
} ls_char_range;

typedef struct ls_char_table {
    const ls_char_range *v; /* [n], ascending */
    size_t n;
} ls_char_table;

/* Characters that Unicode 14 did not assign, with their general category ("Lu"). */
typedef struct ls_late_range {
    uint32_t first, last;
    char category[3];
} ls_late_range;

typedef struct ls_late_table {
    const ls_late_range *v; /* [n], ascending */
    size_t n;
} ls_late_table;

extern const ls_char_table ls_uc_words, ls_uc_numbers, ls_uc_punctuation, ls_uc_marks;
extern const ls_char_table ls_uc_whole;      /* never decomposed, though newer versions of Unicode do */
extern const ls_late_table ls_uc_late;       /* never decomposed either */
extern const ls_char_table ls_uc_late_lower; /* pairs: a late character, its lowercase */

#endif
