/* One request from submission to its last event: collects ids and text, streams the text, stops on stop strings and ^C. */
#ifndef LS_CLI_ANSWER_H
#define LS_CLI_ANSWER_H

#include "cli/cli.h"

enum { CLI_MAX_STOPS = 16 };

typedef struct answer {
    int32_t *ids; /* [n], freed by answer_deinit */
    size_t n, cap;
    ls_str text;  /* empty when the model has no tokenizer */
    const char *finish; /* "stop", "length", "cancelled" or "error" */
    bool interrupted;   /* by ^C */
    char logits_sha256[65];
} answer;

/* Runs |r| alone in |s|. |text| (NULL: no text) turns ids into text; |stream| (NULL: none) gets it as it comes.
 * Zero-initialise |out|; it holds what was made also on failure. */
ls_code answer_run(ls_session *s, const ls_request *r, ls_text *text, FILE *stream, answer *out, ls_error *e);
void answer_deinit(answer *a);

/* From now on ^C ends the answer that runs, not the program. */
void answer_catch_interrupt(void);
bool answer_interrupted(void); /* ^C came since then */

#endif
