/* Progress of `lockstep verify` on stderr: one live line on a terminal, else a flushed line per stage; and a heartbeat line
 * every period while a stage lasts, from a thread that ends with the progress. */
#ifndef LS_CLI_VERIFY_PROGRESS_H
#define LS_CLI_VERIFY_PROGRESS_H

#include "verify/verify.h"

enum { CLI_HEARTBEAT_SECONDS = 60 };

typedef struct verify_progress verify_progress;

/* |quiet|: nothing but heartbeats. |period|: seconds between heartbeats. */
ls_code verify_progress_create(verify_progress **out, bool quiet, int period, ls_error *e);

/* For ls_verify_options.stage; |user| is the verify_progress. */
void verify_progress_stage(void *user, const ls_verify_stage *s);

/* Ends the thread and clears the live line. NULL is fine. */
void verify_progress_destroy(verify_progress *p);

#endif
