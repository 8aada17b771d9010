/* The two hash tables of the tokenizers: token text <-> id, and a map from 64-bit keys to 64-bit values. */
#ifndef LS_TEXT_TOKENIZER_VOCAB_H
#define LS_TEXT_TOKENIZER_VOCAB_H

#include "base/str.h"

typedef struct ls_u64_pair {
    uint64_t key, value;
} ls_u64_pair;

/* Open addressing, doubles at 5/8 full. Keys are any 64-bit numbers, values any below LS_U64_FREE. Zero-initialise. */
typedef struct ls_u64_map {
    ls_u64_pair *pairs; /* [slots]; value LS_U64_FREE: nothing here */
    size_t n, slots;    /* slots: below 2^32 */
} ls_u64_map;

#define LS_U64_FREE UINT64_MAX

ls_code ls_u64_map_put(ls_u64_map *m, uint64_t key, uint64_t value, ls_error *e); /* replaces an earlier value */
bool ls_u64_map_get(const ls_u64_map *m, uint64_t key, uint64_t *value);
ls_code ls_u64_map_fit(ls_u64_map *m, ls_error *e); /* to 3/4 full, when little more will be put */
void ls_u64_map_deinit(ls_u64_map *m);

enum {
    LS_VOCAB_MAX_IDS = 1 << 21,        /* the largest published vocabulary has 901629 entries */
    LS_VOCAB_MAX_BYTES = 1 << 28,
    LS_VOCAB_MAX_TOKEN_BYTES = 1 << 16,
    LS_VOCAB_LONG = 255
};

/* Token texts (any bytes) and their ids. Zero-initialise. */
typedef struct ls_vocab {
    ls_str bytes;            /* of each text: its length in a byte, or in four and LS_VOCAB_LONG in a byte; the text; NUL */
    uint32_t *entries;       /* [n_ids] where the text of an id begins in |bytes|; 0: no such id */
    size_t n_ids, cap_ids;   /* n_ids: 1 + largest id */
    size_t n;                /* entries present */
    uint32_t *slots;         /* id + 1; 0 is free */
    size_t n_slots;
} ls_vocab;

/* Adds |text| under |id|. A text seen before keeps its old id readable and now maps to the new one (as a list of pieces
 * with duplicates does). Errors: INVALID_ARGUMENT (id taken, negative), RESOURCE_EXHAUSTED (limits above, or ids so
 * sparse that the table would be far larger than the file). */
ls_code ls_vocab_add(ls_vocab *v, const char *text, size_t len, int64_t id, ls_error *e);
int32_t ls_vocab_find(const ls_vocab *v, const char *text, size_t len);       /* -1 when absent */
const char *ls_vocab_text(const ls_vocab *v, int32_t id, size_t *len);        /* NULL when absent; NUL-terminated */
ls_code ls_vocab_fit(ls_vocab *v, ls_error *e); /* to 3/4 full and no spare ids, when little more will be added */
void ls_vocab_deinit(ls_vocab *v);

/* Whether a text begins at |offset| of bytes[size] from a file, and ends inside. */
bool ls_vocab_is_inside(const char *bytes, size_t size, uint32_t offset);

#endif
