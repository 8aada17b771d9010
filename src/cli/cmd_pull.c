/* lockstep pull: downloads a model into the Hugging Face cache. Files are blobs named by their ETag, which is a SHA-256
 * (large files) or a git blob id, so every file is checked; partial blobs are resumed. */
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/sha256.h"
#include "cli/cli.h"
#include "cli/http.h"
#include "cli/hub.h"
#include "cli/sha1.h"

enum { MAX_INCLUDES = 32, MAX_FILES = 100000, MAX_INDEX_BYTES = 32 << 20, ATTEMPTS = 5, OPT_REVISION = 256, OPT_INCLUDE };

typedef struct pull {
    ls_arena *arena;
    http *http;
    const char *endpoint, *name, *revision, *repo, *commit;
    const char *includes[MAX_INCLUDES];
    int n_includes;
} pull;

static const char help[] =
    "Usage: lockstep pull ORG/NAME [OPTIONS]\n\n"
    "Downloads a model from the Hugging Face hub into its cache (HF_HUB_CACHE, HF_HOME or ~/.cache/huggingface).\n"
    "An interrupted download is resumed; every file is checked against the hash the hub states.\n\n"
    "  --include GLOB      files to take, repeatable; default: configuration, tokenizer and safetensors,\n"
    "                      or the only .gguf of a repository without safetensors\n"
    "  --revision NAME     branch, tag or commit; default: main\n"
    "  --help              this text\n\n"
    "HF_ENDPOINT names another hub, HF_TOKEN gives access to gated models.\n\n"
    "Example: lockstep pull HuggingFaceTB/SmolLM2-135M-Instruct\n";

/* ---- Which files ------------------------------------------------------------------------------------------------------ */

static bool has_suffix(const char *s, const char *suffix) {
    size_t n = strlen(s), k = strlen(suffix);
    return n >= k && !strcmp(s + n - k, suffix);
}

/* A path that stays inside its folder and has no odd bytes. */
static bool is_safe(const char *file) {
    if (!*file || *file == '/' || strlen(file) > 512) return false;
    for (const char *p = file; *p; p++)
        if ((unsigned char)*p < 32 || *p == '\\' || *p == '?' || *p == '#') return false;
    for (const char *part = file; part; part = strchr(part, '/') ? strchr(part, '/') + 1 : NULL)
        if (!strncmp(part, "../", 3) || !strcmp(part, "..") || !strncmp(part, "./", 2) || *part == '/' || !*part) return false;
    return true;
}

static bool is_wanted(const pull *p, const char *file, bool safetensors, bool one_gguf) {
    static const char *const names[] = {"merges.txt", "vocab.txt", "tokenizer.model", "chat_template.jinja"};
    for (int i = 0; i < p->n_includes; i++)
        if (!fnmatch(p->includes[i], file, 0)) return true;
    if (p->n_includes || strchr(file, '/')) return false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(file, names[i])) return true;
    if (has_suffix(file, ".json")) return true;
    if (has_suffix(file, ".safetensors")) return safetensors && strncmp(file, "consolidated", 12) != 0;
    return has_suffix(file, ".gguf") && !safetensors && one_gguf;
}

/* Lists the wanted files of the revision and its commit. */
static ls_code choose_files(pull *p, const json_t *index, const char **files, size_t *n, ls_error *e) {
    const json_t *siblings = json_object_get(index, "siblings");
    int ggufs = 0;
    bool safetensors = false, weights = false;
    if (!json_is_array(siblings) || json_array_size(siblings) > MAX_FILES) LS_FAIL(e, LS_DATA_LOSS, "%s: the hub's answer lists no files", p->name);
    for (size_t i = 0; i < json_array_size(siblings); i++) {
        const char *file = json_string_value(json_object_get(json_array_get(siblings, i), "rfilename"));
        if (!file || !is_safe(file)) LS_FAIL(e, LS_DATA_LOSS, "%s: the hub lists the file name \"%.200s\", which is refused", p->name, file ? file : "");
        if (strchr(file, '/')) continue;
        if (has_suffix(file, ".gguf")) ggufs++;
        if (has_suffix(file, ".safetensors")) safetensors = true;
    }
    *n = 0;
    for (size_t i = 0; i < json_array_size(siblings); i++) {
        const char *file = json_string_value(json_object_get(json_array_get(siblings, i), "rfilename"));
        if (!is_wanted(p, file, safetensors, ggufs == 1)) continue;
        if (has_suffix(file, ".gguf") || has_suffix(file, ".safetensors")) weights = true;
        files[(*n)++] = file;
    }
    if (!p->n_includes && !weights && ggufs)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "%s has %d .gguf files; choose with --include, e.g. --include '*Q4_K_M.gguf'", p->name, ggufs);
    if (!*n) LS_FAIL(e, LS_NOT_FOUND, "%s has no file that matches", p->name);
    return LS_OK;
}

/* ---- One file ------------------------------------------------------------------------------------------------------------ */

static bool is_hex(const char *s, size_t n) { return strlen(s) == n && strspn(s, "0123456789abcdef") == n; }

/* Compares the file's content with its ETag: SHA-256, or the SHA-1 of "blob SIZE\0" and the content. */
static ls_code verify(const char *path, const char *etag, uint64_t size, ls_error *e) {
    ls_map m;
    LS_TRY(ls_map_open(&m, path, e));
    char hex[65];
    uint64_t found = m.size;
    if (strlen(etag) == 64) {
        ls_sha256 h;
        uint8_t digest[32];
        ls_sha256_init(&h);
        ls_sha256_update(&h, m.data, m.size);
        ls_sha256_final(&h, digest);
        ls_sha256_hex(digest, hex);
    } else {
        sha1 h;
        char head[64];
        int n = snprintf(head, sizeof head, "blob %llu", (unsigned long long)m.size);
        sha1_init(&h);
        sha1_update(&h, head, (size_t)n + 1);
        sha1_update(&h, m.data, m.size);
        sha1_final(&h, hex);
    }
    ls_map_close(&m);
    if (size && found != size) LS_FAIL(e, LS_DATA_LOSS, "%llu bytes came, %llu were announced", (unsigned long long)found, (unsigned long long)size);
    if (strcmp(hex, etag)) LS_FAIL(e, LS_DATA_LOSS, "the hash of the downloaded bytes is %s, the hub states %s", hex, etag);
    return LS_OK;
}

static uint64_t size_of(int fd) {
    struct stat st;
    return fstat(fd, &st) ? 0 : (uint64_t)st.st_size;
}

/* Downloads with resumption: goes on while attempts bring bytes, gives up after ATTEMPTS fruitless ones. */
static ls_code fetch(pull *p, const char *url, int fd, const http_info *info, const char *file, ls_error *e) {
    ls_code rc = LS_OK;
    if (info->size && size_of(fd) > info->size && ftruncate(fd, 0)) LS_FAIL(e, LS_UNKNOWN, "cannot restart the download of %s", file);
    for (int fruitless = 0; fruitless < ATTEMPTS;) {
        uint64_t have = size_of(fd);
        if (info->size && have == info->size) return LS_OK;
        rc = http_download(p->http, url, fd, have, info->size, cli_progress, (void *)(uintptr_t)file, e);
        cli_progress_done();
        if (!rc && (!info->size || size_of(fd) >= info->size)) return LS_OK;
        if (rc == LS_NOT_FOUND || rc == LS_UNAUTHENTICATED || rc == LS_RESOURCE_EXHAUSTED) return rc;
        fruitless = size_of(fd) > have ? 0 : fruitless + 1;
        if (fruitless) sleep(1);
    }
    if (!rc) LS_FAIL(e, LS_DATA_LOSS, "the server ends the file after %llu of %llu bytes", (unsigned long long)size_of(fd), (unsigned long long)info->size);
    return rc;
}

static ls_code download_blob(pull *p, const char *url, const char *blob, const http_info *info, const char *file, ls_error *e) {
    const char *partial;
    LS_TRY(ls_arena_printf(p->arena, &partial, e, "%s.incomplete", blob));
    int fd = open(partial, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0) LS_FAIL(e, LS_PERMISSION_DENIED, "cannot write \"%s\": %s", partial, strerror(errno));
    ls_code rc = LS_OK;
    if (flock(fd, LOCK_EX | LOCK_NB)) LS_FAIL_GOTO(e, LS_ABORTED, "another process is downloading %s; wait for it", file);
    LS_GOTO(fetch(p, url, fd, info, file, e));
    rc = verify(partial, info->etag, info->size, e);
    if (rc) {
        unlink(partial); /* wrong bytes must not be resumed */
        goto out;
    }
    if (rename(partial, blob)) LS_FAIL_GOTO(e, LS_UNKNOWN, "cannot rename \"%s\": %s", partial, strerror(errno));
out:
    close(fd);
    return rc;
}

/* The link snapshots/COMMIT/a/b points to ../../../blobs/ETAG. */
static ls_code link_blob(pull *p, const char *file, const char *etag, ls_error *e) {
    const char *link, *folder;
    ls_str target = {0};
    LS_TRY(ls_arena_printf(p->arena, &link, e, "%s/snapshots/%s/%s", p->repo, p->commit, file));
    LS_TRY(ls_arena_strdup(p->arena, &folder, link, (size_t)(strrchr(link, '/') - link), e));
    LS_TRY(hub_make_folders(folder, e));
    ls_code rc = ls_str_append(&target, "../../", SIZE_MAX, e);
    for (const char *c = file; !rc && *c; c++)
        if (*c == '/') rc = ls_str_append(&target, "../", SIZE_MAX, e);
    if (!rc) rc = ls_str_printf(&target, e, "blobs/%s", etag);
    if (!rc) {
        unlink(link);
        if (symlink(target.data, link)) rc = ls_error_set(e, LS_UNKNOWN, __FILE__, __LINE__, "cannot link \"%s\": %s", link, strerror(errno));
    }
    ls_str_deinit(&target);
    return rc;
}

static ls_code append_escaped(ls_str *url, const char *path, ls_error *e) {
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/";
    for (; *path; path++) {
        if (strchr(plain, *path)) LS_TRY(ls_str_append(url, path, 1, e));
        else LS_TRY(ls_str_printf(url, e, "%%%02X", (unsigned char)*path));
    }
    return LS_OK;
}

static ls_code pull_file(pull *p, const char *file, ls_error *e) {
    ls_str url = {0};
    http_info info;
    const char *blob;
    ls_code rc = LS_OK;
    LS_GOTO(ls_str_printf(&url, e, "%s/%s/resolve/%s/", p->endpoint, p->name, p->commit));
    LS_GOTO(append_escaped(&url, file, e));
    LS_GOTO(http_head(p->http, url.data, &info, e));
    if (!is_hex(info.etag, 64) && !is_hex(info.etag, 40))
        LS_FAIL_GOTO(e, LS_DATA_LOSS, "%s: the server states no SHA-256 or git id (ETag \"%s\"), so the file could not be checked", file, info.etag);
    LS_GOTO(ls_arena_printf(p->arena, &blob, e, "%s/blobs/%s", p->repo, info.etag));
    if (!ls_file_exists(blob)) {
        rc = download_blob(p, url.data, blob, &info, file, e);
        if (rc) {
            ls_error_wrap(e, rc, "%s", file);
            goto out;
        }
        fprintf(stderr, "%s  %llu bytes\n", file, (unsigned long long)info.size);
    }
    LS_GOTO(link_blob(p, file, info.etag, e));
out:
    ls_str_deinit(&url);
    return rc;
}

/* ---- The whole model ------------------------------------------------------------------------------------------------------- */

static ls_code write_ref(pull *p, ls_error *e) {
    const char *path, *folder;
    LS_TRY(ls_arena_printf(p->arena, &path, e, "%s/refs/%s", p->repo, p->revision));
    LS_TRY(ls_arena_strdup(p->arena, &folder, path, (size_t)(strrchr(path, '/') - path), e));
    LS_TRY(hub_make_folders(folder, e));
    FILE *f = fopen(path, "w");
    if (!f) LS_FAIL(e, LS_PERMISSION_DENIED, "cannot write \"%s\": %s", path, strerror(errno));
    bool ok = fputs(p->commit, f) >= 0;
    if (fclose(f) || !ok) LS_FAIL(e, LS_RESOURCE_EXHAUSTED, "cannot write \"%s\": %s", path, strerror(errno));
    return LS_OK;
}

static ls_code pull_files(pull *p, const json_t *index, ls_error *e) {
    const char **files, *blobs;
    size_t n = 0;
    p->commit = json_string_value(json_object_get(index, "sha"));
    if (!p->commit || !is_hex(p->commit, 40)) LS_FAIL(e, LS_DATA_LOSS, "%s: the hub's answer names no commit", p->name);
    LS_TRY(ls_arena_alloc(p->arena, &files, json_array_size(json_object_get(index, "siblings")), sizeof *files, e));
    LS_TRY(choose_files(p, index, files, &n, e));
    LS_TRY(ls_path_join(p->arena, &blobs, p->repo, "blobs", e));
    LS_TRY(hub_make_folders(blobs, e));
    for (size_t i = 0; i < n; i++) LS_TRY(pull_file(p, files[i], e));
    if (strcmp(p->revision, p->commit)) LS_TRY(write_ref(p, e));
    printf("%s/snapshots/%s\n", p->repo, p->commit);
    return LS_OK;
}

static ls_code pull_model(pull *p, ls_error *e) {
    const char *url, *endpoint = getenv("HF_ENDPOINT");
    ls_str body = {0};
    json_t *index = NULL;
    ls_code rc = LS_OK;
    LS_GOTO(ls_arena_create(&p->arena, e));
    LS_GOTO(hub_check_name(p->name, e));
    if (!is_safe(p->revision)) LS_FAIL_GOTO(e, LS_INVALID_ARGUMENT, "\"%.200s\" is no revision", p->revision);
    LS_GOTO(hub_repo_folder(p->arena, &p->repo, p->name, e));
    p->endpoint = endpoint && *endpoint ? endpoint : "https://huggingface.co";
    while (has_suffix(p->endpoint, "/")) LS_GOTO(ls_arena_strdup(p->arena, &p->endpoint, p->endpoint, strlen(p->endpoint) - 1, e));
    LS_GOTO(http_create(&p->http, getenv("HF_TOKEN"), e));
    LS_GOTO(ls_arena_printf(p->arena, &url, e, "%s/api/models/%s/revision/%s", p->endpoint, p->name, p->revision));
    LS_GOTO(http_get(p->http, url, MAX_INDEX_BYTES, &body, e));
    LS_GOTO(ls_json_parse(&index, body.data, body.len, url, e));
    LS_GOTO(pull_files(p, index, e));
out:
    json_decref(index);
    ls_str_deinit(&body);
    http_destroy(p->http);
    ls_arena_destroy(p->arena);
    return rc;
}

int cli_pull(int argc, char **argv) {
    static const struct option options[] = {{"revision", required_argument, NULL, OPT_REVISION}, {"include", required_argument, NULL, OPT_INCLUDE},
                                            {"help", no_argument, NULL, 'h'}, {0}};
    pull p = {.revision = "main"};
    for (int opt; (opt = getopt_long(argc, argv, "h", options, NULL)) != -1;) {
        if (opt == 'h') return fputs(help, stdout) < 0;
        if (opt == OPT_REVISION) p.revision = optarg;
        else if (opt == OPT_INCLUDE && p.n_includes < MAX_INCLUDES) p.includes[p.n_includes++] = optarg;
        else return cli_usage("pull", "wrong option, or more than %d --include", MAX_INCLUDES);
    }
    if (argc - optind != 1) return cli_usage("pull", "give one model name, org/name");
    p.name = argv[optind];
    ls_error e = {0};
    return pull_model(&p, &e) ? cli_fail(&e) : CLI_OK;
}
