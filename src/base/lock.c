/* Lock files. The content is written to a file of its own and then linked to the lock's name, so that a lock never
 * exists without its owner's pid. Whoever removes a lock file (its owner, or a process that found it stale) holds flock on the
 * folder meanwhile: between reading the content and removing the file nobody else can have replaced it. */
#include "base/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { MAX_CONTENT = 256 };

uint64_t ls_nonce(void) {
    uint64_t v;
    struct timespec t;
    if (getrandom(&v, sizeof v, 0) == (ssize_t)sizeof v) return v;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)getpid() << 32 ^ (uint64_t)t.tv_sec << 20 ^ (uint64_t)t.tv_nsec;
}

/* Content and age of a lock file; false when it is gone. */
static bool look(const char *path, char content[MAX_CONTENT], double *age) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    struct stat st;
    struct timespec now;
    ssize_t n = read(fd, content, MAX_CONTENT - 1);
    bool ok = n >= 0 && !fstat(fd, &st) && !clock_gettime(CLOCK_REALTIME, &now);
    close(fd);
    if (!ok) return false;
    content[n] = 0;
    *age = difftime(now.tv_sec, st.st_mtime);
    return true;
}

/* Without /proc only age tells. */
static bool is_stale(const char *content, double age) {
    char path[64];
    if (age > LS_LOCK_STALE_SECONDS) return true;
    long pid = strncmp(content, "pid=", 4) ? 0 : strtol(content + 4, NULL, 10);
    if (pid <= 0 || access("/proc/self", F_OK)) return false;
    snprintf(path, sizeof path, "/proc/%ld", pid);
    return access(path, F_OK) && errno == ENOENT;
}

/* Removes the lock file if it is still |content|, under flock on its folder. */
static void remove_if(const char *path, const char *content) {
    char folder[4096], now[MAX_CONTENT];
    double age;
    const char *slash = strrchr(path, '/');
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
    int fd = open(*folder ? folder : "/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) flock(fd, LOCK_EX);
    if (look(path, now, &age) && !strcmp(now, content)) unlink(path);
    if (fd >= 0) close(fd);
}

static ls_code write_content(const char *path, const char *content, ls_error *e) {
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0)
        LS_FAIL(e, errno == ENOENT ? LS_NOT_FOUND : errno == EACCES || errno == EROFS ? LS_PERMISSION_DENIED : LS_UNKNOWN, "cannot create the lock \"%s\": %s",
                path,
                strerror(errno));
    bool ok = write(fd, content, strlen(content)) == (ssize_t)strlen(content);
    if (close(fd) || !ok) {
        unlink(path);
        LS_FAIL(e, LS_RESOURCE_EXHAUSTED, "cannot write the lock \"%s\": %s", path, strerror(errno));
    }
    return LS_OK;
}

/* Tries until |wait_ms| have passed; |own| holds the content. */
static ls_code take(const ls_lock *l, const char *own, int wait_ms, ls_error *e) {
    const struct timespec pause = {.tv_nsec = LS_LOCK_POLL_MS * 1000000L};
    char content[MAX_CONTENT] = "";
    double age = 0;
    for (int waited = 0;; waited += LS_LOCK_POLL_MS) {
        if (!link(own, l->path)) return LS_OK;
        if (errno != EEXIST) LS_FAIL(e, LS_UNKNOWN, "cannot create the lock \"%s\": %s", l->path, strerror(errno));
        if (look(l->path, content, &age) && is_stale(content, age)) {
            remove_if(l->path, content);
            if (!link(own, l->path)) return LS_OK;
        }
        if (waited >= wait_ms)
            LS_FAIL(e, LS_DEADLINE_EXCEEDED, "the lock \"%s\" is held by \"%s\" for more than %d ms; wait for that process, or delete the file if it is gone",
                    l->path, content,
                    wait_ms);
        nanosleep(&pause, NULL);
    }
}

ls_code ls_lock_acquire(ls_lock *out, const char *path, int wait_ms, ls_error *e) {
    *out = (ls_lock){0};
    ls_str own = {0}, name = {0};
    uint64_t nonce = ls_nonce();
    ls_code rc = LS_OK;
    snprintf(out->content, sizeof out->content, "pid=%ld;nonce=%016llx", (long)getpid(), (unsigned long long)nonce);
    LS_GOTO(ls_str_append(&name, path, SIZE_MAX, e));
    LS_GOTO(ls_str_printf(&own, e, "%s.%ld.%016llx.tmp", path, (long)getpid(), (unsigned long long)nonce));
    out->path = name.data;
    LS_GOTO(write_content(own.data, out->content, e));
    rc = take(out, own.data, wait_ms < 0 ? LS_LOCK_WAIT_MS : wait_ms, e);
    unlink(own.data);
out:
    ls_str_deinit(&own);
    if (rc) {
        ls_str_deinit(&name);
        *out = (ls_lock){0};
    }
    return rc;
}

void ls_lock_release(ls_lock *l) {
    if (l->path) remove_if(l->path, l->content);
    ls_free(l->path);
    *l = (ls_lock){0};
}
