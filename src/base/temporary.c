/* Temporary files and their locks: see temporary.h. A file system without locks leaves the files unlocked and the sweeper unable to lock them, so they stay. */
#include "base/temporary.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/lock.h"

enum { DIGITS = 16, ATTEMPTS = 100 };

static const char mark[] = ".tmp.";

/* ---- Writing -------------------------------------------------------------------------------------------------------- */

/* Makes and locks the file; -1 with EEXIST when it is there, or was swept before it was locked. */
static int make(const char *name, unsigned mode) {
    struct stat st;
    int fd = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (fd < 0) return fd;
    flock(fd, LOCK_EX);
    if (fstat(fd, &st) || st.st_nlink) return fd;
    close(fd);
    errno = EEXIST;
    return -1;
}

static ls_code open_new(ls_temporary *t, unsigned mode, ls_error *e) {
    ls_str name = {0};
    int err = EEXIST;
    for (int i = 0; i < ATTEMPTS && err == EEXIST; i++) {
        ls_str_clear(&name);
        ls_code rc = ls_str_printf(&name, e, "%s%s%016llx", t->path, mark, (unsigned long long)ls_nonce());
        if (rc) {
            ls_str_deinit(&name);
            return rc;
        }
        t->fd = make(name.data, mode);
        err = t->fd < 0 ? errno : 0;
    }
    t->name = name.data;
    if (!err) return LS_OK;
    LS_FAIL(e, err == ENOENT || err == ENOTDIR ? LS_NOT_FOUND : LS_PERMISSION_DENIED, "cannot create \"%s\": %s", t->name, strerror(err));
}

static void forget(ls_temporary *t) {
    ls_free(t->name);
    ls_free(t->path);
    *t = (ls_temporary){.fd = -1};
}

ls_code ls_temporary_open(ls_temporary *t, const char *path, unsigned mode, ls_error *e) {
    ls_str own = {0};
    *t = (ls_temporary){.fd = -1};
    ls_code rc = ls_str_append(&own, path, SIZE_MAX, e);
    t->path = own.data;
    if (!rc) rc = open_new(t, mode, e);
    if (rc) forget(t);
    return rc;
}

/* Renamed before it is closed: without its lock it could be swept in between. */
ls_code ls_temporary_publish(ls_temporary *t, ls_error *e) {
    if (rename(t->name, t->path)) {
        ls_code rc = ls_error_set(e, LS_UNKNOWN, __FILE__, __LINE__, "cannot rename \"%s\" to \"%s\": %s", t->name, t->path, strerror(errno));
        ls_temporary_drop(t);
        return rc;
    }
    close(t->fd);
    forget(t);
    return LS_OK;
}

void ls_temporary_drop(ls_temporary *t) {
    if (!t->name) return;
    unlink(t->name);
    close(t->fd);
    forget(t);
}

/* ---- Sweeping ------------------------------------------------------------------------------------------------------- */

/* Whether |name| is a temporary file of the file |of|; NULL: of any. */
static bool is_temporary(const char *name, const char *of) {
    size_t n = strlen(name), end = sizeof mark - 1 + DIGITS;
    if (n <= end || memcmp(name + n - end, mark, sizeof mark - 1)) return false;
    if (strspn(name + n - DIGITS, "0123456789abcdef") != DIGITS) return false;
    return !of || (strlen(of) == n - end && !memcmp(name, of, n - end));
}

static void sweep(const char *folder, const char *of) {
    DIR *d = opendir(folder);
    for (const struct dirent *entry; d && (entry = readdir(d));) {
        int fd = is_temporary(entry->d_name, of) ? openat(dirfd(d), entry->d_name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK) : -1;
        if (fd < 0) continue;
        if (!flock(fd, LOCK_EX | LOCK_NB)) unlinkat(dirfd(d), entry->d_name, 0);
        close(fd);
    }
    if (d) closedir(d);
}

void ls_temporary_sweep_folder(const char *folder) { sweep(folder, NULL); }

void ls_temporary_sweep(const char *path) {
    ls_str folder = {0};
    const char *slash = strrchr(path, '/');
    ls_code rc = slash ? ls_str_append(&folder, path, (size_t)(slash - path) + 1, NULL) : ls_str_append(&folder, ".", 1, NULL);
    if (!rc) sweep(folder.data, slash ? slash + 1 : path);
    ls_str_deinit(&folder);
}
