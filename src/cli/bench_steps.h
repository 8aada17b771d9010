/* lockstep bench --steps: measurements on request. */
#ifndef LS_CLI_BENCH_STEPS_H
#define LS_CLI_BENCH_STEPS_H

#include "cli/options.h"

/* Reads lines from standard input until its end and answers each with a line of JSON on standard output, after one that says that
 * |m| is loaded. Lines: "prefill N" (reads N tokens and writes one), "open SEQUENCES N" (sequences of N tokens that stay), "decode
 * STEPS" (tokens written by each of them), "close". Errors: INVALID_ARGUMENT, FAILED_PRECONDITION, those of the session. */
ls_code cli_bench_steps(ls_model *m, int slots, int context, ls_error *e);

#endif
