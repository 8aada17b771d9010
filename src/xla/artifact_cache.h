/* Cache of compiled artifacts: one file per key, published atomically, so that several processes may share a folder.
 * A key is the SHA-256 of everything that decides the artifact's bytes. A file that is cut short or changed is a miss. */
#ifndef LS_XLA_ARTIFACT_CACHE_H
#define LS_XLA_ARTIFACT_CACHE_H

#include "base/file.h"

enum { LS_ARTIFACT_MAX = 1 << 30 };

/* A part of a key. */
typedef struct ls_key_part {
    const void *data;
    size_t len;
} ls_key_part;

/* SHA-256 over the parts, each behind its length, as lowercase hex. */
void ls_artifact_key(const ls_key_part *parts, size_t n, char key[65]);

/* SHA-256 of a whole file as lowercase hex. Errors as ls_map_open. */
ls_code ls_artifact_hash_file(const char *path, char hex[65], ls_error *e);

/* The default folder: LOCKSTEP_CACHE, XDG_CACHE_HOME/lockstep or HOME/.cache/lockstep. NULL when none of them is set. */
ls_code ls_artifact_folder(ls_arena *a, const char **folder, ls_error *e);

/* *found says whether folder/key.suffix holds an intact artifact, then appended to |bytes|. A missing or damaged file is not an error. */
ls_code ls_artifact_load(const char *folder, const char *key, const char *suffix, ls_str *bytes, bool *found, ls_error *e);

/* Writes the artifact under a name of its own and renames it; creates |folder| and its parents. Errors: PERMISSION_DENIED,
 * RESOURCE_EXHAUSTED (device full), UNKNOWN, with the path. */
ls_code ls_artifact_store(const char *folder, const char *key, const char *suffix, const void *data, size_t len, ls_error *e);

#endif
