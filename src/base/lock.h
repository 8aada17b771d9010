/* A lock between processes: a file made by exclusive creation, with "pid=..;nonce=.." as its content. A lock whose owner
 * is gone (its pid is absent in /proc) or that is older than half an hour is taken over. */
#ifndef LS_BASE_LOCK_H
#define LS_BASE_LOCK_H

#include "base/str.h"

enum { LS_LOCK_WAIT_MS = 30000, LS_LOCK_POLL_MS = 10, LS_LOCK_STALE_SECONDS = 30 * 60 };

typedef struct ls_lock {
    char *path;       /* owned */
    char content[64]; /* what tells our lock from another's */
} ls_lock;

/* Waits up to |wait_ms| (negative: LS_LOCK_WAIT_MS; 0: one attempt). DEADLINE_EXCEEDED naming the owner; NOT_FOUND or
 * PERMISSION_DENIED when the folder cannot be written. */
ls_code ls_lock_acquire(ls_lock *out, const char *path, int wait_ms, ls_error *e);

/* Removes the file if its content is still ours, and frees |l|. Fine on a zeroed struct. */
void ls_lock_release(ls_lock *l);

/* A number that no other process draws. */
uint64_t ls_nonce(void);

#endif
