/* The cache's files: one line with format name and SHA-256 of the artifact, then the artifact's bytes. */
#include "xla/artifact_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/sha256.h"

static const char magic[] = "lockstep artifact 1 ";
enum { HEADER = sizeof magic - 1 + 64 + 1 };

void ls_artifact_key(const ls_key_part *parts, size_t n, char key[65]) {
    ls_sha256 h;
    uint8_t digest[32];
    ls_sha256_init(&h);
    for (size_t i = 0; i < n; i++) {
        uint8_t len[8];
        for (int b = 0; b < 8; b++) len[b] = (uint8_t)((uint64_t)parts[i].len >> 8 * b);
        ls_sha256_update(&h, len, sizeof len);
        ls_sha256_update(&h, parts[i].data, parts[i].len);
    }
    ls_sha256_final(&h, digest);
    ls_sha256_hex(digest, key);
}

ls_code ls_artifact_hash_file(const char *path, char hex[65], ls_error *e) {
    ls_map m;
    ls_sha256 h;
    uint8_t digest[32];
    LS_TRY(ls_map_open(&m, path, e));
    ls_sha256_init(&h);
    ls_sha256_update(&h, m.data, m.size);
    ls_map_close(&m);
    ls_sha256_final(&h, digest);
    ls_sha256_hex(digest, hex);
    return LS_OK;
}

ls_code ls_artifact_folder(ls_arena *a, const char **folder, ls_error *e) {
    const char *own = getenv("LOCKSTEP_CACHE"), *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    *folder = NULL;
    if (own && *own) return ls_arena_strdup(a, folder, own, SIZE_MAX, e);
    if (xdg && *xdg) return ls_path_join(a, folder, xdg, "lockstep", e);
    if (home && *home) return ls_path_join(a, folder, home, ".cache/lockstep", e);
    return LS_OK;
}

/* Format name, digest of the artifact, line feed. */
static void header_of(const void *data, size_t len, char out[HEADER + 1]) {
    ls_sha256 h;
    uint8_t digest[32];
    ls_sha256_init(&h);
    ls_sha256_update(&h, data, len);
    ls_sha256_final(&h, digest);
    memcpy(out, magic, sizeof magic - 1);
    ls_sha256_hex(digest, out + sizeof magic - 1);
    out[HEADER - 1] = '\n';
    out[HEADER] = 0;
}

ls_code ls_artifact_load(const char *folder, const char *key, const char *suffix, ls_str *bytes, bool *found, ls_error *e) {
    char path[PATH_MAX], want[HEADER + 1];
    ls_map m;
    *found = false;
    if (snprintf(path, sizeof path, "%s/%s.%s", folder, key, suffix) >= (int)sizeof path) return LS_OK;
    if (ls_map_open(&m, path, NULL)) return LS_OK;
    ls_code rc = LS_OK;
    if (m.size >= HEADER && m.size - HEADER <= LS_ARTIFACT_MAX) {
        header_of(m.data + HEADER, m.size - HEADER, want);
        *found = !memcmp(m.data, want, HEADER);
        if (*found) rc = ls_str_append(bytes, (const char *)m.data + HEADER, m.size - HEADER, e);
    }
    ls_map_close(&m);
    return rc;
}

static ls_code errno_code(int err) {
    return err == EACCES || err == EPERM || err == EROFS ? LS_PERMISSION_DENIED : err == ENOSPC || err == EDQUOT ? LS_RESOURCE_EXHAUSTED : LS_UNKNOWN;
}

static ls_code make_folders(const char *folder, ls_error *e) {
    char path[PATH_MAX];
    size_t n = strlen(folder);
    if (n >= sizeof path) LS_FAIL(e, LS_INVALID_ARGUMENT, "the cache folder's path has %zu bytes; at most %d are allowed", n, PATH_MAX - 1);
    memcpy(path, folder, n + 1);
    for (size_t i = 1; i <= n; i++) {
        if (path[i] && path[i] != '/') continue;
        char c = path[i];
        path[i] = 0;
        if (mkdir(path, 0777) && errno != EEXIST && !ls_is_folder(path))
            LS_FAIL(e, errno_code(errno), "cannot create the cache folder \"%s\": %s", path, strerror(errno));
        path[i] = c;
    }
    return LS_OK;
}

static int write_all(int fd, const char *p, size_t len) {
    while (len) {
        ssize_t n = write(fd, p, len);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return errno;
        p += n;
        len -= (size_t)n;
    }
    return 0;
}

/* The file is complete on the device before it gets its name. */
ls_code ls_artifact_store(const char *folder, const char *key, const char *suffix, const void *data, size_t len, ls_error *e) {
    char path[PATH_MAX], own[PATH_MAX], header[HEADER + 1];
    LS_TRY(make_folders(folder, e));
    if (snprintf(path, sizeof path, "%s/%s.%s", folder, key, suffix) >= (int)sizeof path || snprintf(own, sizeof own, "%s/%s.XXXXXX", folder, key) >= (int)sizeof own)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "the cache folder's path \"%.200s\" is too long", folder);
    int fd = mkostemp(own, O_CLOEXEC);
    if (fd < 0) LS_FAIL(e, errno_code(errno), "cannot create \"%s\": %s", own, strerror(errno));
    header_of(data, len, header);
    int err = write_all(fd, header, HEADER);
    if (!err) err = write_all(fd, data, len);
    if (!err && fchmod(fd, 0644)) err = errno;
    if (!err && fsync(fd)) err = errno;
    if (close(fd) && !err) err = errno;
    if (!err && rename(own, path)) err = errno;
    if (!err) return LS_OK;
    unlink(own);
    LS_FAIL(e, errno_code(err), "cannot write \"%s\": %s", path, strerror(err));
}
