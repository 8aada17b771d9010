/* What commands share: messages, numbers, input, progress. */
#include "cli/cli.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_INPUT_BYTES = 64 << 20, MAX_IDS = 1 << 24, BAR_WIDTH = 40 };

int cli_fail(const ls_error *e) {
    fflush(stdout);
    fprintf(stderr, "lockstep: %s: %s\n", ls_code_name(e->code), e->text);
    return CLI_FAILED;
}

int cli_usage(const char *command, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    fprintf(stderr, "lockstep %s: ", command);
    vfprintf(stderr, fmt, ap);
    fprintf(stderr, "\nTry: lockstep %s --help\n", command);
    va_end(ap);
    return CLI_USAGE;
}

int cli_print_json(json_t *v) {
    int failed = !v || json_dumpf(v, stdout, JSON_INDENT(2)) || putchar('\n') == EOF || fflush(stdout);
    json_decref(v);
    if (failed) fprintf(stderr, "lockstep: cannot write the JSON result\n");
    return failed ? CLI_FAILED : CLI_OK;
}

/* ---- Arguments ------------------------------------------------------------------------------------------------------- */

bool cli_int(const char *command, const char *option, const char *text, long lo, long hi, int *out) {
    char *end;
    errno = 0;
    long v = strtol(text, &end, 10);
    if (end == text || *end || errno || v < lo || v > hi) {
        cli_usage(command, "%s is \"%s\"; allowed are whole numbers from %ld to %ld", option, text, lo, hi);
        return false;
    }
    *out = (int)v;
    return true;
}

bool cli_u64(const char *command, const char *option, const char *text, uint64_t *out) {
    char *end;
    errno = 0;
    unsigned long long v = strtoull(text, &end, 10);
    if (end == text || *end || errno || *text == '-') {
        cli_usage(command, "%s is \"%s\"; allowed are whole numbers from 0 to 18446744073709551615", option, text);
        return false;
    }
    *out = v;
    return true;
}

bool cli_double(const char *command, const char *option, const char *text, double *out) {
    char *end;
    double v = strtod(text, &end);
    if (end == text || *end || !isfinite(v)) {
        cli_usage(command, "%s is \"%s\"; give a number such as 0.8", option, text);
        return false;
    }
    *out = v;
    return true;
}

bool cli_ids(const char *command, const char *text, int32_t **ids, size_t *n) {
    size_t cap = 0;
    *ids = NULL;
    *n = 0;
    for (const char *p = text; *p;) {
        char *end;
        errno = 0;
        long v = strtol(p, &end, 10);
        if (end == p || errno || v < 0 || v > INT32_MAX || (*end && !strchr(", \n", *end)) || ls_grow(ids, *n, &cap, sizeof **ids, MAX_IDS, "ids", NULL)) {
            ls_free(*ids);
            *ids = NULL;
            cli_usage(command, "\"%.40s\" is no list of token ids such as 1,2,3", p);
            return false;
        }
        (*ids)[(*n)++] = (int32_t)v;
        for (p = end; *p && strchr(", \n", *p);) p++;
    }
    return true;
}

ls_code cli_text(const char *text, ls_str *s, ls_error *e) {
    s->max = MAX_INPUT_BYTES;
    if (strcmp(text, "-")) return ls_str_append(s, text, SIZE_MAX, e);
    char buffer[16384];
    size_t n;
    LS_TRY(ls_str_append(s, "", 0, e));
    while ((n = fread(buffer, 1, sizeof buffer, stdin)) > 0) LS_TRY(ls_str_append(s, buffer, n, e));
    if (ferror(stdin)) LS_FAIL(e, LS_DATA_LOSS, "cannot read standard input");
    return LS_OK;
}

/* ---- Progress --------------------------------------------------------------------------------------------------------- */

void cli_progress(void *user, double fraction) {
    if (!isatty(STDERR_FILENO)) return;
    int filled = fraction <= 0 ? 0 : fraction >= 1 ? BAR_WIDTH : (int)(fraction * BAR_WIDTH);
    fprintf(stderr, "\r%s [%.*s%*s] %3d%%", (const char *)user, filled, "########################################", BAR_WIDTH - filled, "",
            fraction >= 1 ? 100 : (int)(fraction * 100));
}

void cli_progress_done(void) {
    if (isatty(STDERR_FILENO)) fprintf(stderr, "\r\033[K");
}
