/* The executable cache: compiled programs on disk, found by the SHA-256 of everything that decides their code, and the
 * hashes of compiler libraries, which are too large to hash at every start.
 *
 * An entry repeats its key in a header and carries the hash of its payload, so an entry that is truncated, damaged or
 * another program's is never handed out. Files appear by rename: readers see a whole entry or none, and writers at the
 * same time do no harm. What a killed writer left is deleted when the folder is next opened. Deleting the folder is always safe. */
#ifndef LS_XLA_EXEC_CACHE_H
#define LS_XLA_EXEC_CACHE_H

#include "base/str.h"

typedef struct ls_exec_cache ls_exec_cache;

/* What a compiled program depends on. */
typedef struct ls_exec_key {
    const char *engine;   /* ls_engine_identity_text: one line */
    const char *identity; /* the caller's canonical text; NULL is "" */
    const char *text;     /* the module */
    size_t len;
} ls_exec_key;

/* Opens |folder|, or the default when NULL: $XDG_CACHE_HOME/lockstep/xla, else $HOME/.cache/lockstep/xla. Folders that are
 * missing are made, for this user alone. FAILED_PRECONDITION (no home, not a folder, writable by others than its owner: entries are
 * code), PERMISSION_DENIED. */
ls_code ls_exec_cache_open(ls_exec_cache **out, const char *folder, ls_error *e);
void ls_exec_cache_close(ls_exec_cache *c); /* NULL is fine */

const char *ls_exec_cache_folder(const ls_exec_cache *c);

/* Appends the payload to |blob|. NOT_FOUND when there is none, DATA_LOSS when the entry is damaged or another's. */
ls_code ls_exec_cache_load(const ls_exec_cache *c, const ls_exec_key *k, ls_str *blob, ls_error *e);

/* Writes or replaces an entry. */
ls_code ls_exec_cache_store(const ls_exec_cache *c, const ls_exec_key *k, const void *payload, size_t bytes, ls_error *e);

/* Writes or replaces the file |name| of the folder, by rename. */
ls_code ls_exec_cache_put(const ls_exec_cache *c, const char *name, const char *data, size_t len, ls_error *e);

/* SHA-256 of the file |path|, remembered by path, size, modification time and inode. |c| NULL: always computed. */
ls_code ls_exec_cache_file_hash(const ls_exec_cache *c, const char *path, char hex[65], ls_error *e);

#endif
