/* Prefix cache: blocks of keys and values of earlier sequences, for later ones that begin alike.
 *
 * Under an exact contract the keys and values of a block depend on nothing but the sequence up to its end, so a sequence that
 * begins with a kept block has the same bits with it as without. Blocks form a tree: the key of a block is the SHA-256 of its parent's
 * key, its tokens, and what else entered at its positions; the first parent is the identity of the executor. A hit also compares the
 * tokens themselves. The cache holds at most a number of bytes and drops what was used longest ago, leaves first. */
#ifndef LS_SESSION_PREFIX_CACHE_H
#define LS_SESSION_PREFIX_CACHE_H

#include "graph/executor.h"

typedef struct ls_prefix_cache ls_prefix_cache;

/* What entered a sequence beside its token ids (an image in place of the placeholder tokens from |position| on), as a digest. */
typedef struct ls_prefix_extra {
    size_t position;
    uint8_t sha256[32];
} ls_prefix_extra;

typedef struct ls_prefix_sequence {
    const int32_t *token; /* [n] */
    size_t n;
    const ls_prefix_extra *extra; /* [n_extra] ascending positions */
    size_t n_extra;
} ls_prefix_sequence;

typedef struct ls_prefix_statistics {
    size_t blocks, bytes, capacity; /* kept now; blocks that may be kept */
    uint64_t evicted;
} ls_prefix_statistics;

/* |identity|: text that names everything the bytes of a block depend on beside the sequence; copied. UNIMPLEMENTED when the executor
 * shares no blocks, INVALID_ARGUMENT when |max_bytes| is less than one block. |x| must outlive the cache. */
ls_code ls_prefix_create(ls_prefix_cache **out, ls_executor *x, size_t max_bytes, const char *identity, ls_error *e);
void ls_prefix_destroy(ls_prefix_cache *c); /* releases every block */

/* Gives the empty |slot| the longest kept beginning of |s|, at most |most| positions; *reused receives their number, 0 for none. */
ls_code ls_prefix_attach(ls_prefix_cache *c, int slot, const ls_prefix_sequence *s, size_t most, size_t *reused, ls_error *e);

/* Keeps the whole blocks of |s|, whose positions |slot| holds. What does not fit, finds no memory or cannot be
 * read from the device is not kept. */
void ls_prefix_insert(ls_prefix_cache *c, int slot, const ls_prefix_sequence *s);

ls_prefix_statistics ls_prefix_stats(const ls_prefix_cache *c);

/* ---- On disk (prefix_file.c) ---------------------------------------------------------------------------------------- */

/* Reads "<folder>/<SHA-256 of the identity>.prefix" into an empty cache, as much as fits, most recently used first. NOT_FOUND: no such
 * file or folder. DATA_LOSS: damaged, or of another identity or layout; the cache stays empty. INVALID_ARGUMENT, FAILED_PRECONDITION:
 * |folder| is none, or can be written by everybody. */
ls_code ls_prefix_load(ls_prefix_cache *c, const char *folder, ls_error *e);

/* Writes that file by rename, making the folder where it is missing. Does nothing when nothing was inserted since the load or save. */
ls_code ls_prefix_save(ls_prefix_cache *c, const char *folder, ls_error *e);

#endif
