/* A trial in a child process, for what may end a process. XLA ends it when XLA_FLAGS names a flag that it does not know, a value that is
 * none, or a file that is not there. */
#ifndef LS_XLA_PJRT_TRIAL_H
#define LS_XLA_PJRT_TRIAL_H

#include "base/status.h"

/* Calls attempt(user) in a child process, which ends then, and waits for it. FAILED_PRECONDITION with |what| and the child's last words
 * when it ended before the call returned; one that has not ended after LS_TRIAL_SECONDS is stopped and shows nothing: OK. RESOURCE_EXHAUSTED
 * when there can be no child. What the attempt itself reports does not count, nor does anything that it changes in memory. */
ls_code ls_pjrt_trial(void (*attempt)(void *user), void *user, const char *what, ls_error *e);

enum { LS_TRIAL_SECONDS = 30 };

#endif
