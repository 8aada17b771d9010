/* lockstep list: the models in the Hugging Face cache. */
#include <dirent.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/cli.h"
#include "cli/hub.h"

enum { MAX_DEPTH = 8 };

static const char help[] =
    "Usage: lockstep list [--json]\n\n"
    "Lists the models in the Hugging Face cache with their size on disk and commit.\n\n"
    "  --json     as a JSON array\n"
    "  --help     this text\n\n"
    "Example: lockstep list\n";

/* Bytes of the regular files below |folder|, links not followed. */
static uint64_t folder_bytes(ls_arena *a, const char *folder, int depth) {
    uint64_t total = 0;
    DIR *d = depth < MAX_DEPTH ? opendir(folder) : NULL;
    for (struct dirent *entry; d && (entry = readdir(d));) {
        const char *path;
        struct stat st;
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..") || ls_path_join(a, &path, folder, entry->d_name, NULL) || lstat(path, &st)) continue;
        if (S_ISREG(st.st_mode)) total += (uint64_t)st.st_size;
        if (S_ISDIR(st.st_mode)) total += folder_bytes(a, path, depth + 1);
    }
    if (d) closedir(d);
    return total;
}

static json_t *describe(ls_arena *a, const char *cache, const char *entry) {
    const char *name = hub_entry_name(a, entry), *folder, *snapshot = NULL;
    if (!name || ls_path_join(a, &folder, cache, entry, NULL) || !ls_is_folder(folder)) return NULL;
    if (hub_snapshot(a, &snapshot, folder, "main", NULL)) snapshot = NULL;
    return json_pack("{s:s, s:I, s:s?, s:s?}", "name", name, "bytes", (json_int_t)folder_bytes(a, folder, 0), "commit",
                     snapshot ? strrchr(snapshot, '/') + 1 : NULL,
                     "path", snapshot);
}

static int print(json_t *models, bool json) {
    if (json) return cli_print_json(models);
    size_t i;
    json_t *m;
    json_array_foreach(models, i, m) {
        const char *commit = json_string_value(json_object_get(m, "commit"));
        printf("%-60s %10.1f MB  %.12s\n", json_string_value(json_object_get(m, "name")), (double)json_integer_value(json_object_get(m, "bytes")) / 1e6,
               commit ? commit : "incomplete");
    }
    if (!json_array_size(models)) fprintf(stderr, "no models in the cache; get one with: lockstep pull org/name\n");
    json_decref(models);
    return CLI_OK;
}

int cli_list(int argc, char **argv) {
    static const struct option options[] = {{"json", no_argument, NULL, 'j'}, {"help", no_argument, NULL, 'h'}, {0}};
    bool json = false;
    for (int opt; (opt = getopt_long(argc, argv, "h", options, NULL)) != -1;) {
        if (opt == 'h') return fputs(help, stdout) < 0;
        if (opt != 'j') return cli_usage("list", "wrong option");
        json = true;
    }
    if (optind != argc) return cli_usage("list", "takes no arguments");
    ls_error e = {0};
    ls_arena *a;
    const char *cache;
    if (ls_arena_create(&a, &e)) return cli_fail(&e);
    if (hub_cache_folder(a, &cache, &e)) {
        ls_arena_destroy(a);
        return cli_fail(&e);
    }
    json_t *models = json_array();
    struct dirent **entries;
    int n = scandir(cache, &entries, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        json_t *m = describe(a, cache, entries[i]->d_name);
        if (m) json_array_append_new(models, m);
        ls_free(entries[i]);
    }
    if (n >= 0) ls_free(entries);
    int code = print(models, json);
    ls_arena_destroy(a);
    return code;
}
