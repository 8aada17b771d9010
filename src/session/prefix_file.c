/* The prefix cache on disk: one file per identity, little endian.
 *
 *   magic [16], identity sha256 [32], u32 positions, u32 entries, u64 bytes of a block
 *   per entry, most recently used first, so that parents stand before children:
 *     u32 1 + index of the parent, 0 for the root; u32 1 when extras follow, else 0; extras [32]; u32 token [positions]; block
 *   sha256 [32] of everything before
 *
 * The identity names the model's graph and weights, the contract and the layout of a block. A file that does not match in every
 * byte of this is refused whole. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/sha256.h"
#include "base/temporary.h"
#include "session/prefix_internal.h"

enum { MAGIC = 16, DIGEST = 32, HEAD = MAGIC + DIGEST + 16, ENTRY_HEAD = 8 + DIGEST };

static const char magic[MAGIC] = "lockstep-prefix1";

static uint32_t load_u32(const uint8_t *p) { return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24; }

static void store_u32(uint8_t *p, uint32_t v) {
    for (int i = 0; i < 4; i++) p[i] = (uint8_t)(v >> (8 * i));
}

static ls_code file_path(const ls_prefix_cache *c, const char *folder, ls_str *out, ls_error *e) {
    char hex[65];
    ls_sha256_hex(c->root->key, hex);
    return ls_str_printf(out, e, "%s/%s.prefix", folder, hex);
}

static void put_head(const ls_prefix_cache *c, uint8_t head[HEAD], uint32_t entries) {
    memcpy(head, magic, MAGIC);
    memcpy(head + MAGIC, c->root->key, DIGEST);
    store_u32(head + MAGIC + DIGEST, (uint32_t)c->positions);
    store_u32(head + MAGIC + DIGEST + 4, entries);
    store_u32(head + MAGIC + DIGEST + 8, (uint32_t)c->block_bytes);
    store_u32(head + MAGIC + DIGEST + 12, (uint32_t)((uint64_t)c->block_bytes >> 32));
}

static size_t entry_size(const ls_prefix_cache *c) { return ENTRY_HEAD + c->positions * 4 + c->block_bytes; }

/* What is in a block is used as it is, so a folder where others may put files is refused. */
static ls_code check_folder(const char *folder, ls_error *e) {
    struct stat st;
    if (stat(folder, &st)) LS_FAIL(e, LS_NOT_FOUND, "the folder \"%s\" of the prefix cache does not exist", folder);
    if (!S_ISDIR(st.st_mode)) LS_FAIL(e, LS_INVALID_ARGUMENT, "\"%s\" is not a folder; name one for the prefix cache", folder);
    if (st.st_mode & S_IWOTH)
        LS_FAIL(e, LS_FAILED_PRECONDITION, "the folder \"%s\" of the prefix cache is writable by everybody; run chmod o-w on it", folder);
    return LS_OK;
}

/* ---- Reading ---------------------------------------------------------------------------------------------------------- */

static ls_code check_file(const ls_prefix_cache *c, const ls_map *m, const char *path, uint32_t *entries, ls_error *e) {
    uint8_t head[HEAD], digest[DIGEST];
    size_t body = 0;
    if (m->size < HEAD + DIGEST || memcmp(m->data, magic, MAGIC)) LS_FAIL(e, LS_DATA_LOSS, "\"%s\" is no prefix cache of this version, or is truncated", path);
    *entries = load_u32(m->data + MAGIC + DIGEST + 4);
    put_head(c, head, *entries);
    if (memcmp(m->data, head, HEAD)) LS_FAIL(e, LS_DATA_LOSS, "\"%s\" is damaged, or of another model, contract or layout", path);
    if (!ls_size_mul(*entries, entry_size(c), &body) || body != m->size - HEAD - DIGEST)
        LS_FAIL(e, LS_DATA_LOSS, "\"%s\" has %zu bytes, which are not those of %u blocks: it is truncated or damaged", path, m->size, (unsigned)*entries);
    ls_sha256 h;
    ls_sha256_init(&h);
    ls_sha256_update(&h, m->data, m->size - DIGEST);
    ls_sha256_final(&h, digest);
    if (memcmp(digest, m->data + m->size - DIGEST, DIGEST)) LS_FAIL(e, LS_DATA_LOSS, "\"%s\" is damaged: its checksum does not match", path);
    return LS_OK;
}

/* Entry |i|, whose parent is among made[i]. One whose parent did not fit has no place either; *added is then NULL. */
static ls_code read_entry(ls_prefix_cache *c, const uint8_t *p, uint32_t i, ls_prefix_entry *const *made, int32_t *token, const char *path,
                          ls_prefix_entry **added, ls_error *e) {
    uint32_t parent = load_u32(p), has_extra = load_u32(p + 4);
    const uint8_t *extra = has_extra ? p + 8 : NULL;
    ls_prefix_entry *above = !parent ? c->root : parent <= i ? made[parent - 1] : NULL;
    if (parent > i || has_extra > 1) LS_FAIL(e, LS_DATA_LOSS, "\"%s\": block %u has no parent before it", path, (unsigned)i);
    *added = NULL;
    if (!above || c->n == c->capacity) return LS_OK;
    for (size_t k = 0; k < c->positions; k++) token[k] = (int32_t)load_u32(p + ENTRY_HEAD + 4 * k);
    if (ls_prefix_find(c, above, token, extra)) LS_FAIL(e, LS_DATA_LOSS, "\"%s\": block %u is there twice", path, (unsigned)i);
    void *block;
    LS_TRY(c->ops->create(c->executor, &block, e));
    memcpy(c->ops->contents(block), p + ENTRY_HEAD + 4 * c->positions, c->block_bytes);
    ls_code rc = ls_prefix_add(c, added, above, token, extra, block, true, e);
    if (rc) c->ops->release(c->executor, block);
    return rc;
}

static ls_code read_entries(ls_prefix_cache *c, const ls_map *m, uint32_t entries, const char *path, ls_error *e) {
    ls_prefix_entry **made = NULL;
    int32_t *token = NULL;
    ls_code rc;
    LS_GOTO(ls_calloc(&made, entries, sizeof *made, "prefix cache", e));
    LS_GOTO(ls_calloc(&token, c->positions, sizeof *token, "prefix cache", e));
    for (uint32_t i = 0; i < entries; i++) LS_GOTO(read_entry(c, m->data + HEAD + i * entry_size(c), i, made, token, path, &made[i], e));
out:
    if (rc) ls_prefix_clear(c);
    ls_free(made);
    ls_free(token);
    return rc;
}

ls_code ls_prefix_load(ls_prefix_cache *c, const char *folder, ls_error *e) {
    ls_str path = {0};
    ls_map m = {0};
    uint32_t entries = 0;
    ls_code rc;
    LS_GOTO(check_folder(folder, e));
    LS_GOTO(file_path(c, folder, &path, e));
    LS_GOTO(ls_map_open(&m, path.data, e));
    LS_GOTO(check_file(c, &m, path.data, &entries, e));
    LS_GOTO(read_entries(c, &m, entries, path.data, e));
    c->changed = false;
out:
    ls_map_close(&m);
    ls_str_deinit(&path);
    return rc;
}

/* ---- Writing ---------------------------------------------------------------------------------------------------------- */

typedef struct writer {
    int fd;
    const char *path;
    ls_sha256 sha;
} writer;

static ls_code write_all(writer *w, const void *data, size_t bytes, ls_error *e) {
    const char *p = data;
    ls_sha256_update(&w->sha, data, bytes);
    while (bytes) {
        ssize_t n = write(w->fd, p, bytes);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) LS_FAIL(e, errno == ENOSPC || errno == EDQUOT ? LS_RESOURCE_EXHAUSTED : LS_UNKNOWN, "writing \"%s\": %s", w->path, strerror(errno));
        p += n;
        bytes -= (size_t)n;
    }
    return LS_OK;
}

/* The parent's number is found in its |walk|, which the next walk sets anew. */
static ls_code write_entry(const ls_prefix_cache *c, writer *w, const ls_prefix_entry *n, uint8_t *head, ls_error *e) {
    store_u32(head, n->parent == c->root ? 0 : (uint32_t)n->parent->walk + 1);
    store_u32(head + 4, n->has_extra);
    memcpy(head + 8, n->extra, DIGEST);
    for (size_t k = 0; k < c->positions; k++) store_u32(head + ENTRY_HEAD + 4 * k, (uint32_t)n->token[k]);
    LS_TRY(write_all(w, head, ENTRY_HEAD + 4 * c->positions, e));
    return write_all(w, c->ops->contents(n->block), c->block_bytes, e);
}

static ls_code write_entries(ls_prefix_cache *c, writer *w, ls_error *e) {
    uint8_t head[HEAD], digest[DIGEST], *entry;
    uint64_t i = 0;
    LS_TRY(ls_calloc(&entry, ENTRY_HEAD + 4 * c->positions, 1, "prefix cache", e));
    put_head(c, head, (uint32_t)c->n);
    ls_code rc;
    LS_GOTO(write_all(w, head, sizeof head, e));
    for (ls_prefix_entry *n = c->newest; n; n = n->older) {
        n->walk = i++;
        LS_GOTO(write_entry(c, w, n, entry, e));
    }
    ls_sha256_final(&w->sha, digest);
    rc = write_all(w, digest, sizeof digest, e);
out:
    for (ls_prefix_entry *n = c->newest; n; n = n->older) n->walk = 0;
    ls_free(entry);
    return rc;
}

/* The bytes must be on disk before the name is. */
static ls_code publish(ls_prefix_cache *c, const char *path, ls_error *e) {
    ls_temporary t = {0};
    writer w = {.path = path};
    ls_code rc;
    ls_sha256_init(&w.sha);
    ls_temporary_sweep(path);
    LS_GOTO(ls_temporary_open(&t, path, 0600, e));
    w.fd = t.fd;
    LS_GOTO(write_entries(c, &w, e));
    if (fsync(w.fd)) LS_FAIL_GOTO(e, LS_RESOURCE_EXHAUSTED, "cannot write \"%s\": %s", path, strerror(errno));
    rc = ls_temporary_publish(&t, e);
out:
    ls_temporary_drop(&t);
    return rc;
}

ls_code ls_prefix_save(ls_prefix_cache *c, const char *folder, ls_error *e) {
    ls_str path = {0};
    ls_code rc;
    if (!c->changed) return LS_OK;
    if (c->n > UINT32_MAX - 1) LS_FAIL(e, LS_RESOURCE_EXHAUSTED, "a prefix cache of %zu blocks is too large for a file", c->n);
    if (mkdir(folder, 0700) && errno != EEXIST)
        LS_FAIL(e, LS_PERMISSION_DENIED, "cannot make the folder \"%s\" of the prefix cache: %s", folder, strerror(errno));
    LS_GOTO(check_folder(folder, e));
    LS_GOTO(file_path(c, folder, &path, e));
    LS_GOTO(publish(c, path.data, e));
    c->changed = false;
out:
    ls_str_deinit(&path);
    return rc;
}
