/* Fuzz target: any bytes as a pack file, with all checksums that opening verifies made to fit, so that what is behind them is reached: the tables of tensors,
 * matrices and the tokenizer. What opens is used: tensors are read, matrices are planned, text is encoded and decoded, and the image processor is set up. */
#include <stdlib.h>
#include <string.h>

#include "base/sha256.h"
#include "media/processor.h"
#include "native/pack.h"
#include "text/tokenizer_tables.h"
#include "weights/checkpoint.h"
#include "weights/packfile_layout.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void reseal(uint8_t *data, size_t size) {
    uint32_t n = size < LS_PACK_HEADER ? 0 : ls_load_u32(data + LS_AT_SECTIONS);
    if (n > LS_SECTION_COUNT || size < LS_PACK_HEADER + (size_t)n * LS_PACK_ENTRY || !n) return;
    for (uint32_t i = 0; i < n; i++) {
        uint8_t *entry = data + LS_PACK_HEADER + i * LS_PACK_ENTRY;
        uint64_t offset = ls_load_u64(entry + LS_AT_OFFSET), bytes = ls_load_u64(entry + LS_AT_BYTES);
        if (offset <= size && bytes <= size - offset) ls_sha256_of(data + offset, bytes, entry + LS_AT_SHA256);
    }
    for (int i = 0; i < 8; i++) data[LS_AT_SIZE + i] = (uint8_t)(size >> 8 * i);
    ls_packfile_header_sha256(data, n, data + LS_AT_DIGEST);
}

static void use_tokenizer(const ls_packfile *p) {
    static const char text[] = "Hello, w\xC3\xB6rld <|im_start|> \xF0\x9F\x98\x80 123";
    const ls_pack_span *s = &p->section[LS_SECTION_TOKENIZER], *chat = &p->section[LS_SECTION_CHAT_TEMPLATE];
    ls_tokenizer *t = NULL;
    if (!s->data || ls_tokenizer_open_tables(&t, s->data, s->size, (const char *)chat->data, chat->size, NULL)) return;
    for (int flags = 0; flags < 4; flags++) {
        ls_token_ids ids = {0};
        ls_str out = {0};
        if (!ls_tokenizer_encode(t, text, sizeof text - 1, flags, &ids, NULL)) (void)ls_tokenizer_decode(t, ids.ids, ids.n, flags & 1, &out, NULL);
        ls_free(ids.ids);
        ls_str_deinit(&out);
    }
    ls_tokenizer_close(t);
}

static void use_processor(const ls_packfile *p) {
    const ls_pack_span *s = &p->section[LS_SECTION_IMAGES];
    ls_image_processor x;
    json_t *files = NULL;
    if (!s->data || ls_json_parse(&files, (const char *)s->data, s->size, "input", NULL)) return;
    (void)ls_image_processor_from_files(&x, files, NULL);
    json_decref(files);
}

static void use_weights(ls_checkpoint *c) {
    const ls_packfile *p = ls_checkpoint_pack(c);
    for (size_t i = 0; i < ls_checkpoint_count(c); i++) {
        const ls_tensor *t = ls_checkpoint_at(c, i);
        int64_t n = t->rank ? t->shape[t->rank - 1] : 1;
        (void)ls_tensor_check_weight(t, NULL);
        if (!t->data || n > 1 << 20) continue;
        float *row = malloc((size_t)n * sizeof *row + 1);
        for (int64_t r = 0; row && r < ls_tensor_rows(t); r += ls_tensor_rows(t) > 1 ? ls_tensor_rows(t) - 1 : 1) ls_tensor_row_values(t, r, row);
        free(row);
    }
    for (size_t i = 0; i < p->n_matrices; i++) {
        const ls_pack_matrix *m = &p->matrices[i];
        ls_packed w;
        if (ls_checkpoint_matrix(c, m->tensor, m->row_begin, m->rows) != m) abort();
        if (!ls_packed_map(&w, m->tensor, m->rows, (ls_contract)(p->id.contract % 2), m->data, m->bytes, NULL)) ls_packed_deinit(&w);
    }
    (void)ls_packfile_check(c, NULL, NULL, NULL);
}

/* Puts the weight schema that a refusal names into the header; false when it was refused for something else. */
static bool take_schema(uint8_t *data, size_t size, const ls_error *e) {
    static const char before[] = "weight schema ";
    const char *hex = strstr(e->text, before);
    if (!hex || size < LS_PACK_HEADER) return false;
    for (int i = 0; i < 32; i++) {
        const char pair[3] = {hex[sizeof before - 1 + 2 * i], hex[sizeof before + 2 * i], 0};
        data[LS_AT_SCHEMA + i] = (uint8_t)strtoul(pair, NULL, 16);
    }
    reseal(data, size);
    return true;
}

/* True when it is worth another try. */
static bool use(uint8_t *data, size_t size) {
    ls_error e = {0};
    ls_checkpoint *c;
    if (ls_checkpoint_create(&c, &e)) return false;
    ls_code rc = ls_packfile_parse(c, data, size, "input", &e);
    if (!rc) {
        use_tokenizer(ls_checkpoint_pack(c));
        use_processor(ls_checkpoint_pack(c));
        use_weights(c);
    }
    ls_checkpoint_close(c);
    return rc && take_schema(data, size, &e);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint8_t *copy = aligned_alloc(LS_PACK_ALIGN, (size + LS_PACK_ALIGN) / LS_PACK_ALIGN * LS_PACK_ALIGN);
    if (!copy) return 0;
    memcpy(copy, data, size);
    reseal(copy, size);
    if (use(copy, size)) use(copy, size);
    free(copy);
    return 0;
}
