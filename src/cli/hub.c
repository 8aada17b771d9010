/* Names and places in the Hugging Face cache. */
#include "cli/hub.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MAX_NAME = 96, MAX_REF = 256 };

ls_code hub_cache_folder(ls_arena *a, const char **out, ls_error *e) {
    const char *cache = getenv("HF_HUB_CACHE"), *home = getenv("HF_HOME"), *xdg = getenv("XDG_CACHE_HOME"), *user = getenv("HOME");
    if (cache && *cache) return ls_arena_strdup(a, out, cache, SIZE_MAX, e);
    if (home && *home) return ls_path_join(a, out, home, "hub", e);
    if (xdg && *xdg) return ls_path_join(a, out, xdg, "huggingface/hub", e);
    if (user && *user) return ls_path_join(a, out, user, ".cache/huggingface/hub", e);
    LS_FAIL(e, LS_FAILED_PRECONDITION, "no place for the model cache: set HF_HUB_CACHE, HF_HOME or HOME");
}

static bool is_part(const char *s, size_t n) {
    if (!n || n > MAX_NAME || s[0] == '.' || s[0] == '-') return false;
    for (size_t i = 0; i < n; i++) {
        if (!isalnum((unsigned char)s[i]) && !strchr("._-", s[i])) return false;
        if (i && ((s[i] == '.' && s[i - 1] == '.') || (s[i] == '-' && s[i - 1] == '-'))) return false;
    }
    return true;
}

ls_code hub_check_name(const char *name, ls_error *e) {
    const char *slash = strchr(name, '/');
    if (!slash || !is_part(name, (size_t)(slash - name)) || !is_part(slash + 1, strlen(slash + 1)))
        LS_FAIL(e, LS_INVALID_ARGUMENT, "\"%.200s\" is no model name; names look like HuggingFaceTB/SmolLM2-135M-Instruct", name);
    return LS_OK;
}

ls_code hub_repo_folder(ls_arena *a, const char **out, const char *name, ls_error *e) {
    const char *cache, *slash = strchr(name, '/');
    LS_TRY(hub_cache_folder(a, &cache, e));
    return ls_arena_printf(a, out, e, "%s/models--%.*s--%s", cache, (int)(slash - name), name, slash + 1);
}

const char *hub_entry_name(ls_arena *a, const char *entry) {
    static const char prefix[] = "models--";
    const char *out = NULL;
    if (strncmp(entry, prefix, sizeof prefix - 1)) return NULL;
    const char *org = entry + sizeof prefix - 1, *dash = strstr(org, "--");
    if (!dash || ls_arena_printf(a, &out, NULL, "%.*s/%s", (int)(dash - org), org, dash + 2)) return NULL;
    return hub_check_name(out, NULL) ? NULL : out;
}

ls_code hub_snapshot(ls_arena *a, const char **out, const char *repo_folder, const char *revision, ls_error *e) {
    const char *ref, *path;
    LS_TRY(ls_arena_printf(a, &ref, e, "%s/refs/%s", repo_folder, revision));
    ls_str commit = {0};
    ls_code rc = ls_file_read(&commit, ref, MAX_REF, e);
    if (!rc) {
        while (commit.len && isspace((unsigned char)commit.data[commit.len - 1])) commit.data[--commit.len] = 0;
        for (size_t i = 0; i < commit.len && !rc; i++)
            if (!isalnum((unsigned char)commit.data[i])) rc = ls_error_set(e, LS_DATA_LOSS, __FILE__, __LINE__, "\"%s\" does not hold a commit id", ref);
        if (!rc) rc = ls_arena_printf(a, &path, e, "%s/snapshots/%s", repo_folder, commit.data);
    }
    ls_str_deinit(&commit);
    LS_TRY(rc);
    if (!ls_is_folder(path)) LS_FAIL(e, LS_NOT_FOUND, "\"%s\" is not in the cache", path);
    *out = path;
    return LS_OK;
}

ls_code hub_resolve(ls_arena *a, const char **out, const char *model, ls_error *e) {
    if (ls_file_exists(model) || ls_is_folder(model)) return ls_arena_strdup(a, out, model, SIZE_MAX, e);
    const char *name = model, *file = NULL, *slash = strchr(model, '/'), *repo, *snapshot;
    if (slash && (slash = strchr(slash + 1, '/'))) {
        file = slash + 1;
        LS_TRY(ls_arena_strdup(a, &name, model, (size_t)(slash - model), e));
    }
    if (hub_check_name(name, NULL) || (file && strstr(file, "..")))
        LS_FAIL(e, LS_NOT_FOUND, "\"%.400s\" is neither a file, a folder nor a model name (org/name)", model);
    LS_TRY(hub_repo_folder(a, &repo, name, e));
    if (hub_snapshot(a, &snapshot, repo, "main", NULL))
        LS_FAIL(e, LS_NOT_FOUND, "\"%s\" is no file or folder and not in the cache (%s); get it with: lockstep pull %s", model, repo, name);
    if (!file) {
        *out = snapshot;
        return LS_OK;
    }
    LS_TRY(ls_path_join(a, out, snapshot, file, e));
    if (!ls_file_exists(*out))
        LS_FAIL(e, LS_NOT_FOUND, "%s has no file \"%s\" in the cache; get it with: lockstep pull %s --include %s", name, file, name, file);
    return LS_OK;
}

ls_code hub_make_folders(const char *path, ls_error *e) {
    ls_str s = {0};
    ls_code rc = ls_str_append(&s, path, SIZE_MAX, e);
    for (size_t i = 1; !rc && i <= s.len; i++) {
        if (i < s.len && s.data[i] != '/') continue;
        char kept = s.data[i];
        s.data[i] = 0;
        if (mkdir(s.data, 0777) && errno != EEXIST)
            rc = ls_error_set(e, LS_UNKNOWN, __FILE__, __LINE__, "cannot create folder \"%s\": %s", s.data, strerror(errno));
        s.data[i] = kept;
    }
    ls_str_deinit(&s);
    return rc;
}
