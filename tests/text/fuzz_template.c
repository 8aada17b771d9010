/* Fuzz target: template source, a zero byte, a JSON context. Compiles and renders; spans must cover the text in order. */
#include <stdlib.h>
#include <string.h>

#include "text/chat_template.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void render(const ls_chat_template *t, const json_t *context) {
    ls_error e = {0};
    ls_render r;
    if (ls_chat_template_render(t, context, 1753012345, &r, &e)) return;
    size_t at = 0;
    for (size_t i = 0; i < r.n_spans; i++) {
        if (r.spans[i].begin != at || r.spans[i].end <= at) abort();
        at = r.spans[i].end;
    }
    if (at != r.text.len) abort();
    ls_render_deinit(&r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    ls_error e = {0};
    ls_chat_template *t;
    json_t *context = NULL;
    const uint8_t *zero = size ? memchr(data, 0, size) : NULL;
    size_t len = zero ? (size_t)(zero - data) : size;
    if (ls_chat_template_compile(&t, size ? (const char *)data : "", len, &e)) return 0;
    if (zero) (void)ls_json_parse(&context, (const char *)zero + 1, size - len - 1, "context", &e);
    if (!json_is_object(context)) {
        json_decref(context);
        context = json_object();
    }
    if (context) render(t, context);
    json_decref(context);
    ls_chat_template_free(t);
    return 0;
}
