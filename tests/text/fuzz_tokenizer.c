/* Fuzzing: a tokenizer.json (or GGUF metadata, or what does not begin with a brace: a tokenizer.model) and a text, split at
 * the first line end followed by "----". Opening may fail; when it does not, encoding and decoding must not crash, and pieces
 * must add up to the decoded text. */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "text/tokenizer_build.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void decode_both_ways(const ls_tokenizer *t, const ls_token_ids *ids) {
    ls_detokenizer d;
    ls_str full = {0}, pieces = {0};
    ls_detokenizer_init(&d, t, false);
    bool ok = !ls_tokenizer_decode(t, ids->ids, ids->n, false, &full, NULL);
    for (size_t i = 0; ok && i < ids->n; i++) ok = !ls_detokenizer_push(&d, ids->ids[i], &pieces, NULL);
    ok = ok && !ls_detokenizer_flush(&d, &pieces, NULL);
    if (ok && (full.len != pieces.len || (full.len && memcmp(full.data, pieces.data, full.len)))) abort();
    ls_detokenizer_deinit(&d);
    ls_str_deinit(&full);
    ls_str_deinit(&pieces);
}

static void use(const ls_tokenizer *t, const char *text, size_t len) {
    for (int flags = 0; flags < 4; flags++) {
        ls_token_ids ids = {0};
        if (!ls_tokenizer_encode(t, text, len, flags, &ids, NULL)) decode_both_ways(t, &ids);
        ls_free(ids.ids);
    }
}

static ls_code open_json(ls_tokenizer **t, const uint8_t *data, size_t len) {
    json_t *j = NULL;
    LS_TRY(ls_json_parse(&j, (const char *)data, len, "fuzz", NULL));
    bool gguf = json_object_get(j, "tokenizer.ggml.model") != NULL;
    ls_code rc = gguf ? ls_tokenizer_open_gguf(t, j, NULL) : ls_tokenizer_open_json(t, j, json_object_get(j, "config"), NULL);
    json_decref(j);
    return rc;
}

/* Either value of "legacy", as the length has it. */
static ls_code open_sp(ls_tokenizer **out, const uint8_t *data, size_t len) {
    json_t *config = json_pack("{s:b}", "legacy", (int)(len & 1));
    ls_tokenizer *t = NULL;
    ls_code rc = ls_tokenizer_new(&t, NULL);
    if (!rc) rc = ls_tokenizer_from_sp_bytes(t, data, len, "fuzz", config, NULL);
    if (!rc) rc = ls_tokenizer_finish(t, NULL);
    json_decref(config);
    if (rc) ls_tokenizer_close(t);
    else *out = t;
    return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const uint8_t *cut = memmem(data, size, "\n----", 5);
    size_t len = cut ? (size_t)(cut - data) : size;
    const char *text = cut ? (const char *)cut + 5 : "a b";
    size_t text_len = cut ? size - len - 5 : 3;
    ls_tokenizer *t = NULL;
    if (!(len && *data == '{' ? open_json : open_sp)(&t, data, len)) use(t, text, text_len);
    ls_tokenizer_close(t);
    return 0;
}
