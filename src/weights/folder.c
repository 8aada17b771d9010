/* Hugging Face folders: config.json, generation_config.json, and the weight files that an index or the folder lists. */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "weights/checkpoint.h"

/* File names of one folder, in name order; owned by the checkpoint's arena. */
typedef struct names {
    const char **at;
    size_t n, cap;
} names;

static ls_code load_object(json_t **into, const char *path, ls_error *e) {
    json_t *v = NULL;
    LS_TRY(ls_json_load(&v, path, LS_MAX_CONFIG_BYTES, e));
    if (!json_is_object(v)) {
        json_decref(v);
        LS_FAIL(e, LS_INVALID_ARGUMENT, "\"%s\" is not a JSON object", path);
    }
    json_decref(*into);
    *into = v;
    return LS_OK;
}

ls_code ls_folder_configs(ls_checkpoint *c, const char *folder, bool required, ls_error *e) {
    const char *path;
    LS_TRY(ls_path_join(c->arena, &path, folder, "config.json", e));
    if (ls_file_exists(path)) LS_TRY(load_object(&c->config, path, e));
    else if (required) LS_FAIL(e, LS_NOT_FOUND, "\"%s\" is missing: a model folder needs it", path);
    LS_TRY(ls_path_join(c->arena, &path, folder, "generation_config.json", e));
    return ls_file_exists(path) ? load_object(&c->generation, path, e) : LS_OK;
}

static int by_text(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

static ls_code add_name(ls_checkpoint *c, names *list, const char *name, ls_error *e) {
    LS_TRY(ls_grow(&list->at, list->n, &list->cap, sizeof *list->at, LS_MAX_FILES, "weight files", e));
    LS_TRY(ls_arena_strdup(c->arena, &list->at[list->n], name, SIZE_MAX, e));
    list->n++;
    return LS_OK;
}

static bool ends_with(const char *s, const char *end) {
    size_t n = strlen(s), m = strlen(end);
    return n > m && !strcmp(s + n - m, end);
}

/* Files of |folder| that end in |ending|. */
static ls_code list_files(ls_checkpoint *c, names *list, const char *folder, const char *ending, ls_error *e) {
    DIR *d = opendir(folder);
    if (!d) LS_FAIL(e, LS_NOT_FOUND, "cannot list \"%s\": %s", folder, strerror(errno));
    ls_code rc = LS_OK;
    for (const struct dirent *entry; !rc && (entry = readdir(d));)
        if (entry->d_name[0] != '.' && ends_with(entry->d_name, ending)) rc = add_name(c, list, entry->d_name, e);
    closedir(d);
    if (!rc && list->n) qsort(list->at, list->n, sizeof *list->at, by_text);
    return rc;
}

/* The distinct files an index's "weight_map" names. */
static ls_code list_index(ls_checkpoint *c, names *list, const json_t *map, const char *path, ls_error *e) {
    if (!json_is_object(map)) LS_FAIL(e, LS_INVALID_ARGUMENT, "\"%s\": \"weight_map\" is not an object", path);
    const char *tensor;
    json_t *file;
    json_object_foreach((json_t *)map, tensor, file) {
        const char *name = json_string_value(file);
        if (!name || !ends_with(name, ".safetensors") || strchr(name, '/'))
            LS_FAIL(e, LS_INVALID_ARGUMENT, "\"%s\": the file of \"%.200s\" is not the name of a .safetensors file",
                    path, tensor);
        bool known = false;
        for (size_t i = 0; i < list->n && !known; i++) known = !strcmp(list->at[i], name);
        if (!known) LS_TRY(add_name(c, list, name, e));
    }
    if (list->n) qsort(list->at, list->n, sizeof *list->at, by_text);
    return LS_OK;
}

static ls_code count_present(ls_checkpoint *c, const char *folder, const names *list, size_t *present,
                             const char **missing, ls_error *e) {
    *present = 0;
    for (size_t i = 0; i < list->n; i++) {
        const char *path;
        LS_TRY(ls_path_join(c->arena, &path, folder, list->at[i], e));
        if (ls_file_exists(path)) ++*present;
        else *missing = path;
    }
    return LS_OK;
}

static ls_code add_files(ls_checkpoint *c, const char *folder, const names *list, ls_error *e) {
    for (size_t i = 0; i < list->n; i++) {
        const char *path;
        LS_TRY(ls_path_join(c->arena, &path, folder, list->at[i], e));
        LS_TRY(ls_checkpoint_add_file(c, path, e));
    }
    return LS_OK;
}

/* Every tensor the index promises must be in some file (which one is not held against it). */
static ls_code check_index(ls_checkpoint *c, const json_t *map, ls_error *e) {
    LS_TRY(ls_checkpoint_seal(c, e));
    const char *tensor;
    json_t *file;
    json_object_foreach((json_t *)map, tensor, file) {
        if (!ls_checkpoint_entry(c, tensor))
            LS_FAIL(e, LS_NOT_FOUND, "tensor \"%.200s\" is missing from \"%.200s\", where the index puts it", tensor,
                    json_string_value(file));
    }
    return LS_OK;
}

/* *used stays false when none of the index's files exist: a stale index, left over from another conversion. */
static ls_code add_indexed(ls_checkpoint *c, const char *folder, const json_t *index, const char *path, bool *used,
                           ls_error *e) {
    const json_t *map = json_object_get(index, "weight_map");
    names list = {0};
    size_t present = 0;
    const char *missing = "";
    ls_code rc = list_index(c, &list, map, path, e);
    if (!rc) rc = count_present(c, folder, &list, &present, &missing, e);
    *used = present > 0;
    if (!rc && present && present < list.n)
        rc = ls_error_set(e, LS_NOT_FOUND, __FILE__, __LINE__, "\"%s\" is missing: the index names it; download it",
                          missing);
    if (!rc && present) rc = add_files(c, folder, &list, e);
    if (!rc && present) rc = check_index(c, map, e);
    ls_free(list.at);
    return rc;
}

static ls_code add_by_index(ls_checkpoint *c, const char *folder, bool *used, ls_error *e) {
    const char *path;
    *used = false;
    LS_TRY(ls_path_join(c->arena, &path, folder, "model.safetensors.index.json", e));
    if (!ls_file_exists(path)) return LS_OK;
    json_t *index = NULL;
    LS_TRY(ls_json_load(&index, path, LS_MAX_INDEX_BYTES, e));
    ls_code rc = add_indexed(c, folder, index, path, used, e);
    json_decref(index);
    return rc;
}

/* Without an index: model.safetensors alone, else every .safetensors file, else the one .gguf file. */
static ls_code add_by_name(ls_checkpoint *c, const char *folder, names *list, ls_error *e) {
    const char *single;
    LS_TRY(ls_path_join(c->arena, &single, folder, "model.safetensors", e));
    if (ls_file_exists(single)) return ls_checkpoint_add_file(c, single, e);
    LS_TRY(list_files(c, list, folder, ".safetensors", e));
    if (!list->n) {
        LS_TRY(list_files(c, list, folder, ".gguf", e));
        if (!list->n) LS_FAIL(e, LS_NOT_FOUND, "\"%s\" holds no .safetensors and no .gguf file", folder);
        if (list->n > 1)
            LS_FAIL(e, LS_INVALID_ARGUMENT, "\"%s\" holds %zu .gguf files; give the path of one", folder, list->n);
    }
    return add_files(c, folder, list, e);
}

ls_code ls_folder_add(ls_checkpoint *c, const char *path, ls_error *e) {
    LS_TRY(ls_arena_strdup(c->arena, &c->folder, path, SIZE_MAX, e));
    bool used;
    LS_TRY(add_by_index(c, c->folder, &used, e));
    if (!used) {
        names list = {0};
        ls_code rc = add_by_name(c, c->folder, &list, e);
        ls_free(list.at);
        if (rc) return rc;
    }
    return c->metadata ? LS_OK : ls_folder_configs(c, c->folder, true, e);
}
