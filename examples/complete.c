/* Completes a text with the C API, greedily: complete MODEL TEXT. With lockstep installed (cmake --install):
 *   cc examples/complete.c $(pkg-config --cflags --libs lockstep) -o complete */
#include <lockstep.h>
#include <stdio.h>
#include <string.h>

enum { NEW_TOKENS = 32 };

static ls_code print_token(ls_text *text, int32_t token, ls_error *e) {
    const char *piece;
    size_t len;
    bool stopped;
    ls_code rc = ls_text_push(text, token, &piece, &len, &stopped, e);
    if (!rc) fwrite(piece, 1, len, stdout);
    return rc;
}

/* Steps until the request is done, and takes the events of each step. */
static ls_code print_answer(ls_session *s, ls_text *text, ls_error *e) {
    const char *piece;
    size_t len;
    while (!ls_session_is_idle(s)) {
        ls_event event;
        ls_code rc = ls_session_step(s, e);
        while (!rc && ls_session_next_event(s, &event))
            if (event.finish == LS_FINISH_NONE) rc = print_token(text, event.token, e);
        if (rc) return rc;
    }
    ls_code rc = ls_text_flush(text, &piece, &len, e);
    if (!rc) printf("%.*s\n", (int)len, piece);
    return rc;
}

static ls_code complete(ls_session *s, const ls_model *m, const char *prompt, ls_error *e) {
    ls_request r = {.struct_size = sizeof r, .max_new = NEW_TOKENS};
    ls_text *text = NULL;
    int32_t *ids = NULL;
    uint64_t id;
    ls_code rc = ls_model_encode(m, prompt, strlen(prompt), true, &ids, &r.n_prompt, e);
    r.prompt = ids;
    if (!rc) rc = ls_session_submit(s, &r, &id, e);
    if (!rc) rc = ls_text_create(&text, m, NULL, 0, e);
    if (!rc) rc = print_answer(s, text, e);
    ls_text_destroy(text);
    ls_buffer_free(ids);
    return rc;
}

int main(int argc, char **argv) {
    ls_error e = {0};
    ls_model *m = NULL;
    ls_session *s = NULL;
    if (argc != 3) {
        fprintf(stderr, "Usage: complete MODEL TEXT\n");
        return 2;
    }
    ls_code rc = ls_model_open(&m, argv[1], NULL, &e);
    if (!rc) rc = ls_session_create(&s, m, &e);
    if (!rc) rc = complete(s, m, argv[2], &e);
    if (rc) fprintf(stderr, "complete: %s: %s\n", ls_code_name(rc), e.text);
    ls_session_destroy(s);
    ls_model_destroy(m);
    return rc ? 1 : 0;
}
