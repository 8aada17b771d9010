/* Files: thin, checked wrappers over POSIX. */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static ls_code errno_code(int err) {
    return err == ENOENT || err == ENOTDIR ? LS_NOT_FOUND : err == EACCES || err == EPERM ? LS_PERMISSION_DENIED : LS_UNKNOWN;
}

static const char *kind_of(mode_t mode) {
    return S_ISDIR(mode) ? "a folder" : S_ISFIFO(mode) ? "a named pipe" : S_ISSOCK(mode) ? "a socket" : "a device";
}

/* Opening a pipe would wait for its writer; O_NONBLOCK does not, and means nothing for regular files. */
static ls_code open_regular(const char *path, int *fd, size_t *size, ls_error *e) {
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (*fd < 0) LS_FAIL(e, errno_code(errno), "cannot open \"%s\": %s", path, strerror(errno));
    struct stat st;
    int err = fstat(*fd, &st) ? errno : 0;
    if (err || !S_ISREG(st.st_mode)) close(*fd);
    if (err) LS_FAIL(e, errno_code(err), "cannot read what \"%s\" is: %s", path, strerror(err));
    if (!S_ISREG(st.st_mode)) LS_FAIL(e, LS_INVALID_ARGUMENT, "\"%s\" is not a regular file but %s", path, kind_of(st.st_mode));
    *size = (size_t)st.st_size;
    return LS_OK;
}

ls_code ls_map_open(ls_map *m, const char *path, ls_error *e) {
    *m = (ls_map){0};
    int fd;
    size_t size;
    LS_TRY(open_regular(path, &fd, &size, e));
    if (size) {
        void *p = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
        int err = errno;
        close(fd);
        if (p == MAP_FAILED) LS_FAIL(e, LS_RESOURCE_EXHAUSTED, "cannot map \"%s\" (%zu bytes): %s", path, size, strerror(err));
        m->data = p;
        m->size = size;
        return LS_OK;
    }
    close(fd);
    return LS_OK;
}

void ls_map_close(ls_map *m) {
    if (m->data) munmap((void *)(uintptr_t)m->data, m->size);
    *m = (ls_map){0};
}

void ls_map_prefer_huge(const ls_map *m) {
#ifdef MADV_HUGEPAGE
    if (m->data) madvise((void *)(uintptr_t)m->data, m->size, MADV_HUGEPAGE);
#else
    (void)m;
#endif
}

void ls_map_forget(const ls_map *m, size_t offset, size_t len) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t first = (offset + page - 1) / page * page, last = (offset + len) / page * page;
    if (m->data && last > first && last <= m->size)
        madvise((void *)(uintptr_t)(m->data + first), last - first, MADV_DONTNEED);
}

ls_code ls_file_read(ls_str *s, const char *path, size_t max, ls_error *e) {
    int fd;
    size_t size;
    LS_TRY(open_regular(path, &fd, &size, e));
    ls_code rc = LS_OK;
    if (size > max) rc = ls_error_set(e, LS_RESOURCE_EXHAUSTED, __FILE__, __LINE__, "\"%s\" has %zu bytes; at most %zu are read", path, size, max);
    char buf[16384];
    ssize_t n = 0;
    size_t total = 0;
    while (!rc && (n = read(fd, buf, sizeof buf)) > 0 && (total += (size_t)n) <= max) rc = ls_str_append(s, buf, (size_t)n, e);
    if (!rc && n < 0) rc = ls_error_set(e, LS_DATA_LOSS, __FILE__, __LINE__, "reading \"%s\": %s", path, strerror(errno));
    if (!rc && total > max) rc = ls_error_set(e, LS_RESOURCE_EXHAUSTED, __FILE__, __LINE__, "\"%s\" grew past %zu bytes", path, max);
    if (!rc) rc = ls_str_append(s, "", 0, e);
    close(fd);
    return rc;
}

bool ls_file_exists(const char *path) {
    struct stat st;
    return !stat(path, &st) && S_ISREG(st.st_mode);
}

bool ls_is_folder(const char *path) {
    struct stat st;
    return !stat(path, &st) && S_ISDIR(st.st_mode);
}

ls_code ls_path_join(ls_arena *a, const char **out, const char *dir, const char *name, ls_error *e) {
    return ls_arena_printf(a, out, e, "%s%s%s", dir, *dir && dir[strlen(dir) - 1] == '/' ? "" : "/", name);
}
