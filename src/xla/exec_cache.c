/* Entries are <key>.exec; hashes of libraries are <SHA-256 of the path>.hash; beside them lie temporary files (base/temporary.h) of what is being written. */
#include "xla/exec_cache.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/sha256.h"
#include "base/temporary.h"

struct ls_exec_cache {
    ls_arena *arena;
    const char *folder;
};

static void hash_hex(const void *data, size_t len, char hex[65]) {
    ls_sha256 h;
    uint8_t digest[32];
    ls_sha256_init(&h);
    ls_sha256_update(&h, data, len);
    ls_sha256_final(&h, digest);
    ls_sha256_hex(digest, hex);
}

/* mkdir -p; folders made here are the user's alone. */
static ls_code make_folders(ls_str *path, ls_error *e) {
    for (size_t i = 1; i <= path->len; i++) {
        if (path->data[i] != '/' && path->data[i]) continue;
        char kept = path->data[i];
        path->data[i] = 0;
        int failed = mkdir(path->data, 0700) && errno != EEXIST && !ls_is_folder(path->data), err = errno;
        if (failed) LS_FAIL(e, err == EACCES || err == EPERM || err == EROFS ? LS_PERMISSION_DENIED : LS_FAILED_PRECONDITION,
                            "cannot make the cache folder \"%s\": %s; name another one (XDG_CACHE_HOME)", path->data, strerror(err));
        path->data[i] = kept;
    }
    struct stat st;
    if (stat(path->data, &st) || !S_ISDIR(st.st_mode)) LS_FAIL(e, LS_FAILED_PRECONDITION, "the cache folder \"%s\" is not a folder", path->data);
    if (st.st_mode & (S_IWGRP | S_IWOTH))
        LS_FAIL(e, LS_FAILED_PRECONDITION, "the cache folder \"%s\" is writable by %s, and its entries are code; run chmod go-w on it", path->data,
                st.st_mode & S_IWOTH ? "everybody" : "its group");
    return LS_OK;
}

static ls_code default_folder(ls_str *out, ls_error *e) {
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (cache && *cache == '/') return ls_str_printf(out, e, "%s/lockstep/xla", cache);
    if (home && *home == '/') return ls_str_printf(out, e, "%s/.cache/lockstep/xla", home);
    LS_FAIL(e, LS_FAILED_PRECONDITION, "neither XDG_CACHE_HOME nor HOME is an absolute path; set one of them, compiled programs are kept there");
}

/* ---- Opening -------------------------------------------------------------------------------------------------------- */

ls_code ls_exec_cache_open(ls_exec_cache **out, const char *folder, ls_error *e) {
    *out = NULL;
    ls_str path = {0};
    ls_arena *a = NULL;
    ls_exec_cache *c;
    ls_code rc;
    LS_GOTO(folder ? ls_str_append(&path, folder, SIZE_MAX, e) : default_folder(&path, e));
    if (!path.len) LS_FAIL_GOTO(e, LS_INVALID_ARGUMENT, "the cache folder's name is empty");
    LS_GOTO(make_folders(&path, e));
    ls_temporary_sweep_folder(path.data);
    LS_GOTO(ls_arena_create(&a, e));
    LS_GOTO(ls_arena_alloc(a, &c, 1, sizeof *c, e));
    c->arena = a;
    LS_GOTO(ls_arena_strdup(a, &c->folder, path.data, path.len, e));
    *out = c;
    a = NULL;
out:
    ls_arena_destroy(a);
    ls_str_deinit(&path);
    return rc;
}

void ls_exec_cache_close(ls_exec_cache *c) {
    if (c) ls_arena_destroy(c->arena);
}

const char *ls_exec_cache_folder(const ls_exec_cache *c) { return c->folder; }

/* ---- Files ------------------------------------------------------------------------------------------------------ */

static ls_code write_all(int fd, const void *data, size_t bytes, const char *path, ls_error *e) {
    const char *p = data;
    while (bytes) {
        ssize_t n = write(fd, p, bytes);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) LS_FAIL(e, errno == ENOSPC || errno == EDQUOT ? LS_RESOURCE_EXHAUSTED : LS_UNKNOWN, "writing \"%s\": %s", path, strerror(errno));
        p += n;
        bytes -= (size_t)n;
    }
    return LS_OK;
}

/* Writes head and body to a temporary file and renames it to |path|. */
static ls_code publish(const char *path, const ls_str *head, const void *body, size_t bytes, ls_error *e) {
    ls_temporary t;
    LS_TRY(ls_temporary_open(&t, path, 0600, e));
    ls_code rc = write_all(t.fd, head->data, head->len, path, e);
    if (!rc) rc = write_all(t.fd, body, bytes, path, e);
    if (!rc) return ls_temporary_publish(&t, e);
    ls_temporary_drop(&t);
    return rc;
}

/* ---- Entries ----------------------------------------------------------------------------------------------------- */

/* The part of an entry's header that says whose it is; its hash names the file. */
static ls_code key_text(const ls_exec_key *k, ls_str *out, ls_error *e) {
    const char *identity = k->identity ? k->identity : "";
    char id[65], module[65];
    hash_hex(identity, strlen(identity), id);
    hash_hex(k->text, k->len, module);
    return ls_str_printf(out, e, "lockstep executable 1\nengine %s\nidentity %s\nmodule %s\n", k->engine, id, module);
}

static ls_code entry_path(const ls_exec_cache *c, const ls_str *key, ls_str *out, ls_error *e) {
    char name[65];
    hash_hex(key->data, key->len, name);
    return ls_str_printf(out, e, "%s/%s.exec", c->folder, name);
}

static ls_code append_payload_line(ls_str *head, const void *payload, size_t bytes, ls_error *e) {
    char hash[65];
    hash_hex(payload, bytes, hash);
    return ls_str_printf(head, e, "payload %s %zu\n", hash, bytes);
}

ls_code ls_exec_cache_load(const ls_exec_cache *c, const ls_exec_key *k, ls_str *blob, ls_error *e) {
    ls_str head = {0}, path = {0};
    ls_map file = {0};
    ls_code rc;
    LS_GOTO(key_text(k, &head, e));
    LS_GOTO(entry_path(c, &head, &path, e));
    LS_GOTO(ls_map_open(&file, path.data, e));
    /* The payload is what follows the header's last line; the header that belongs to this payload must then be the file's. */
    const uint8_t *line = file.size > head.len ? memchr(file.data + head.len, '\n', file.size - head.len) : NULL;
    if (!line) LS_FAIL_GOTO(e, LS_DATA_LOSS, "cache entry \"%s\" is truncated", path.data);
    const uint8_t *payload = line + 1;
    size_t head_len = (size_t)(payload - file.data), bytes = file.size - head_len;
    LS_GOTO(append_payload_line(&head, payload, bytes, e));
    if (head.len != head_len || memcmp(head.data, file.data, head_len))
        LS_FAIL_GOTO(e, LS_DATA_LOSS, "cache entry \"%s\" is damaged or belongs to another program", path.data);
    rc = ls_str_append(blob, (const char *)payload, bytes, e);
out:
    ls_map_close(&file);
    ls_str_deinit(&head);
    ls_str_deinit(&path);
    return rc;
}

ls_code ls_exec_cache_store(const ls_exec_cache *c, const ls_exec_key *k, const void *payload, size_t bytes, ls_error *e) {
    ls_str head = {0}, path = {0};
    ls_code rc;
    LS_GOTO(key_text(k, &head, e));
    LS_GOTO(entry_path(c, &head, &path, e));
    LS_GOTO(append_payload_line(&head, payload, bytes, e));
    rc = publish(path.data, &head, payload, bytes, e);
out:
    ls_str_deinit(&head);
    ls_str_deinit(&path);
    return rc;
}

ls_code ls_exec_cache_put(const ls_exec_cache *c, const char *name, const char *data, size_t len, ls_error *e) {
    ls_str path = {0}, none = {0};
    ls_code rc = ls_str_printf(&path, e, "%s/%s", c->folder, name);
    if (!rc) rc = publish(path.data, &none, data, len, e);
    ls_str_deinit(&path);
    return rc;
}

/* ---- Hashes of files ------------------------------------------------------------------------------------------------ */

static ls_code hash_file(const char *path, char hex[65], ls_error *e) {
    ls_map m;
    LS_TRY(ls_map_open(&m, path, e));
    hash_hex(m.data, m.size, hex);
    ls_map_close(&m);
    return LS_OK;
}

/* True when |record| is |stamp| followed by a hash and a line feed; copies the hash. */
static bool remembered(const ls_str *record, const ls_str *stamp, char hex[65]) {
    if (record->len != stamp->len + 65 || memcmp(record->data, stamp->data, stamp->len) || record->data[stamp->len + 64] != '\n') return false;
    memcpy(hex, record->data + stamp->len, 64);
    hex[64] = 0;
    return strspn(hex, "0123456789abcdef") == 64;
}

ls_code ls_exec_cache_file_hash(const ls_exec_cache *c, const char *path, char hex[65], ls_error *e) {
    struct stat st;
    if (!c || stat(path, &st)) return hash_file(path, hex, e);
    ls_str stamp = {0}, record = {0}, file = {0};
    ls_code rc;
    char name[65];
    hash_hex(path, strlen(path), name);
    LS_GOTO(ls_str_printf(&file, e, "%s/%s.hash", c->folder, name));
    LS_GOTO(ls_str_printf(&stamp, e, "%s\n%lld %lld.%09ld %llu %llu\n", path, (long long)st.st_size, (long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec,
                          (unsigned long long)st.st_dev, (unsigned long long)st.st_ino));
    if (!ls_file_read(&record, file.data, 8192, NULL) && remembered(&record, &stamp, hex)) goto out;
    LS_GOTO(hash_file(path, hex, e));
    LS_GOTO(ls_str_printf(&stamp, e, "%s\n", hex));
    publish(file.data, &stamp, "", 0, NULL); /* without it the next start only hashes again */
out:
    ls_str_deinit(&stamp);
    ls_str_deinit(&record);
    ls_str_deinit(&file);
    return rc;
}
