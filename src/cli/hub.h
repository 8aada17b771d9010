/* The Hugging Face cache on disk:  models--org--name/{blobs/ETAG, refs/REVISION, snapshots/COMMIT/FILE -> blob}. */
#ifndef LS_CLI_HUB_H
#define LS_CLI_HUB_H

#include "base/file.h"

/* HF_HUB_CACHE, or HF_HOME/hub, or XDG_CACHE_HOME/huggingface/hub, or ~/.cache/huggingface/hub. */
ls_code hub_cache_folder(ls_arena *a, const char **out, ls_error *e);

/* INVALID_ARGUMENT unless |name| is org/name of letters, digits, '.', '_' and '-'. */
ls_code hub_check_name(const char *name, ls_error *e);

/* The folder of org/name in the cache, whether or not it exists. */
ls_code hub_repo_folder(ls_arena *a, const char **out, const char *name, ls_error *e);

/* "models--org--name" to "org/name"; NULL when |entry| is something else. */
const char *hub_entry_name(ls_arena *a, const char *entry);

/* What to open for |model|: an existing path as it is; org/name as its snapshot in the cache; org/name/file as one file of
 * that snapshot. NOT_FOUND says how to get it. */
ls_code hub_resolve(ls_arena *a, const char **out, const char *model, ls_error *e);

/* The snapshot folder that refs/|revision| of a repository folder names; NOT_FOUND when there is none. */
ls_code hub_snapshot(ls_arena *a, const char **out, const char *repo_folder, const char *revision, ls_error *e);

/* Creates |path| and its parents. */
ls_code hub_make_folders(const char *path, ls_error *e);

#endif
