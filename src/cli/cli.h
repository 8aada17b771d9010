/* The command line: one file per command, and what they share. Commands print results on stdout and everything else on
 * stderr, and return an exit code. */
#ifndef LS_CLI_CLI_H
#define LS_CLI_CLI_H

#include <getopt.h>
#include <stdio.h>

#include "base/json.h"

/* Exit codes, the same for every command. */
enum { CLI_OK = 0, CLI_FAILED = 1, CLI_USAGE = 2, CLI_INTERRUPTED = 130 };

/* One command; |run| gets argv with argv[0] being the command's name. */
typedef struct cli_command {
    const char *name, *summary;
    int (*run)(int argc, char **argv);
    int lost; /* exit code when standard output did not take the result: CLI_FAILED, or 2 where 1 is a verdict */
} cli_command;

int cli_run(int argc, char **argv);
int cli_generate(int argc, char **argv);
int cli_tokenize(int argc, char **argv);
int cli_inspect(int argc, char **argv);
int cli_arch(int argc, char **argv);
int cli_bench(int argc, char **argv);
int cli_list(int argc, char **argv);
int cli_emit(int argc, char **argv);
int cli_oracle(int argc, char **argv);
int cli_pack(int argc, char **argv);
int cli_pull(int argc, char **argv);
int cli_qualify(int argc, char **argv);
int cli_rm(int argc, char **argv);
int cli_verify(int argc, char **argv);

/* ---- Messages ------------------------------------------------------------------------------------------------------ */

/* Prints "lockstep: CODE: text" and returns CLI_FAILED (CLI_USAGE for bad arguments is cli_usage's). */
int cli_fail(const ls_error *e);
/* Prints the sentence and where to find help; returns CLI_USAGE. */
int cli_usage(const char *command, const char *fmt, ...) LS_PRINTF(2, 3);

/* Prints a JSON value with indentation and a newline; consumes the reference. */
int cli_print_json(json_t *v);

/* ---- Arguments ------------------------------------------------------------------------------------------------------ */

/* Whole-string numbers; false (with a message naming |option|) when |text| is none or out of range. */
bool cli_int(const char *command, const char *option, const char *text, long lo, long hi, int *out);
bool cli_u64(const char *command, const char *option, const char *text, uint64_t *out);
bool cli_double(const char *command, const char *option, const char *text, double *out);

/* "1,2,3" or "1 2 3" to ids; *ids is freed with ls_free. */
bool cli_ids(const char *command, const char *text, int32_t **ids, size_t *n);

/* |text| itself, or all of standard input when it is "-"; INVALID_ARGUMENT past 64 MiB. |s| receives the bytes. */
ls_code cli_text(const char *text, ls_str *s, ls_error *e);

/* ---- Progress -------------------------------------------------------------------------------------------------------- */

/* A bar on stderr when that is a terminal; otherwise nothing. |user| is the label. */
void cli_progress(void *user, double fraction);
void cli_progress_done(void); /* clears the line */

#endif
