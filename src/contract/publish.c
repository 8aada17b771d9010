/* Publishing: the manifest is removed first and written last, so that a crash at any step leaves either a verified pair or
 * an artifact without a manifest, which the next process makes anew. */
#include "contract/publish.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/lock.h"

/* "<artifact>.compile.<pid>.<nonce>.tmp" */
static const char temporary[] = ".compile.";

ls_code ls_artifact_verify(const char *path, const ls_artifact_identity *identity, ls_manifest *out, ls_error *e) {
    ls_str name = {0}, text = {0};
    ls_map binary = {0};
    ls_manifest wanted;
    ls_code rc = LS_OK;
    LS_GOTO(ls_str_printf(&name, e, "%s%s", path, LS_MANIFEST_SUFFIX));
    LS_GOTO(ls_file_read(&text, name.data, LS_MANIFEST_MAX_BYTES, e));
    LS_GOTO(ls_manifest_parse(out, text.data, text.len, name.data, e));
    LS_GOTO(ls_map_open(&binary, path, e));
    LS_GOTO(ls_manifest_compute(&wanted, identity, binary.data, binary.size, e));
    rc = ls_manifest_verify(out, &wanted, name.data, e);
out:
    ls_map_close(&binary);
    ls_str_deinit(&name);
    ls_str_deinit(&text);
    return rc;
}

static ls_code remove_file(const char *path, ls_error *e) {
    if (unlink(path) && errno != ENOENT) LS_FAIL(e, LS_PERMISSION_DENIED, "cannot delete \"%s\": %s", path, strerror(errno));
    return LS_OK;
}

static ls_code rename_file(const char *from, const char *to, ls_error *e) {
    if (rename(from, to)) LS_FAIL(e, LS_UNKNOWN, "cannot rename \"%s\" to \"%s\": %s", from, to, strerror(errno));
    return LS_OK;
}

/* Deletes temporary files of this artifact whose process is gone. Failures do not matter: they only cost space. */
static void sweep(const char *path) {
    char folder[4096], file[4096 + 256];
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    size_t n = strlen(base);
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path) + 1 : 2, slash ? path : "./");
    DIR *d = access("/proc/self", F_OK) ? NULL : opendir(folder);
    for (struct dirent *entry; d && (entry = readdir(d));) {
        const char *rest = entry->d_name + n;
        if (strncmp(entry->d_name, base, n) || strncmp(rest, temporary, sizeof temporary - 1)) continue;
        snprintf(file, sizeof file, "/proc/%ld", strtol(rest + sizeof temporary - 1, NULL, 10));
        if (!access(file, F_OK)) continue;
        snprintf(file, sizeof file, "%s%s", folder, entry->d_name);
        unlink(file);
    }
    if (d) closedir(d);
}

/* The manifest that stands in the way may go; LS_OK when there is none. A folder, pipe or broken link of that name is not none: what
 * cannot be read is refused before the artifact is deleted. */
static ls_code check_replace(const ls_publish *p, const char *manifest, ls_error *e) {
    struct stat st;
    if (lstat(manifest, &st)) return LS_OK;
    ls_str text = {0};
    ls_manifest wanted;
    ls_code rc = LS_OK;
    LS_GOTO(ls_manifest_compute(&wanted, &p->identity, "", 0, e));
    LS_GOTO(ls_file_read(&text, manifest, LS_MANIFEST_MAX_BYTES, e));
    rc = ls_manifest_may_replace(text.data, text.len, manifest, &wanted, e);
out:
    ls_str_deinit(&text);
    return rc;
}

/* The bytes must be on disk before the name is: an empty manifest after a power cut would count as corrupt for ever. */
static ls_code write_synced(const char *path, const ls_str *text, ls_error *e) {
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0) LS_FAIL(e, LS_UNKNOWN, "cannot create \"%s\": %s", path, strerror(errno));
    bool ok = write(fd, text->data, text->len) == (ssize_t)text->len && !fsync(fd);
    if (close(fd) || !ok) LS_FAIL(e, LS_RESOURCE_EXHAUSTED, "cannot write \"%s\": %s", path, strerror(errno));
    return LS_OK;
}

static ls_code write_manifest(const ls_publish *p, const char *manifest, const char *tmp, ls_error *e) {
    ls_str text = {0};
    ls_map binary = {0};
    ls_manifest m;
    ls_code rc = LS_OK;
    LS_GOTO(ls_map_open(&binary, p->path, e));
    LS_GOTO(ls_manifest_compute(&m, &p->identity, binary.data, binary.size, e));
    LS_GOTO(ls_manifest_write(&m, &text, e));
    LS_GOTO(write_synced(tmp, &text, e));
    rc = rename_file(tmp, manifest, e);
out:
    ls_map_close(&binary);
    ls_str_deinit(&text);
    return rc;
}

static ls_code make(const ls_publish *p, const char *manifest, ls_published *out, ls_error *e) {
    ls_str tmp = {0};
    ls_code rc = LS_OK;
    LS_GOTO(ls_str_printf(&tmp, e, "%s%s%ld.%016llx.tmp", p->path, temporary, (long)getpid(), (unsigned long long)ls_nonce()));
    LS_GOTO(remove_file(manifest, e));
    LS_GOTO(remove_file(p->path, e));
    LS_GOTO(p->produce(p->user, tmp.data, e));
    LS_GOTO(rename_file(tmp.data, p->path, e));
    LS_GOTO(write_manifest(p, manifest, tmp.data, e));
    LS_GOTO(ls_artifact_verify(p->path, &p->identity, &out->manifest, e));
out:
    if (tmp.data) unlink(tmp.data);
    if (rc) {
        unlink(manifest);
        unlink(p->path);
    }
    ls_str_deinit(&tmp);
    return rc;
}

ls_code ls_artifact_publish(const ls_publish *p, ls_published *out, ls_error *e) {
    ls_str manifest = {0}, name = {0};
    ls_lock lock = {0};
    ls_error why = {0};
    ls_code rc = LS_OK;
    *out = (ls_published){0};
    LS_GOTO(ls_str_printf(&manifest, e, "%s%s", p->path, LS_MANIFEST_SUFFIX));
    LS_GOTO(ls_str_printf(&name, e, "%s.lock", p->path));
    LS_GOTO(ls_lock_acquire(&lock, name.data, p->wait_ms, e));
    out->reused = !ls_artifact_verify(p->path, &p->identity, &out->manifest, &why);
    if (out->reused) goto out;
    LS_GOTO(check_replace(p, manifest.data, e));
    sweep(p->path);
    rc = make(p, manifest.data, out, e);
out:
    ls_lock_release(&lock);
    ls_str_deinit(&manifest);
    ls_str_deinit(&name);
    return rc;
}
