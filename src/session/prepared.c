/* Prepared prefills: copying a payload, checking it, and the rows of forward passes. */
#include "session/prepared.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/sha256.h"

/* Sets the fault of the enclosing function and fails. */
#define FAULT(fault, code, ...)                                          \
    do {                                                                 \
        *why = (fault);                                                  \
        LS_FAIL(e, (code), "prepared prefill: " __VA_ARGS__);            \
    } while (0)

const char *ls_prepared_fault_name(ls_prepared_fault f) {
    static const char *const names[] = {"fine",           "shape overflow", "byte count",    "embedding shape", "embedding type", "position shape",
                                        "position type",  "mask type",      "mask shape",    "modality",        "empty",          "length",
                                        "capacity",       "hidden size",    "not finite",    "position mode",   "positions",      "mask value",
                                        "mask form",      "block length",   "token"};
    return (unsigned)f < sizeof names / sizeof *names ? names[f] : "unknown";
}

/* ---- Copying --------------------------------------------------------------------------------------------------------------- */

static bool is_float(ls_element t) { return t == LS_ELEMENT_F16 || t == LS_ELEMENT_BF16 || t == LS_ELEMENT_F32; }

/* Elements of |a|, and that its bytes are theirs. */
static ls_code check_bytes(const ls_array *a, const char *what, ls_prepared_fault *why, ls_error *e) {
    static const size_t sizes[] = {0, 2, 2, 4, 4};
    size_t n = 1;
    if ((unsigned)a->element >= sizeof sizes / sizeof *sizes || a->rank < 1 || a->rank > 4)
        FAULT(LS_PREPARED_SHAPE_OVERFLOW, LS_INVALID_ARGUMENT, "%s of element type %d and rank %d; ranks are 1 to 4", what, (int)a->element, a->rank);
    for (int i = 0; i < a->rank; i++)
        if (a->shape[i] < 0 || !ls_size_mul(n, (size_t)a->shape[i], &n))
            FAULT(LS_PREPARED_SHAPE_OVERFLOW, LS_INVALID_ARGUMENT, "%s: dimension %d of %lld is negative or too large", what, i, (long long)a->shape[i]);
    if (!ls_size_mul(n, sizes[a->element], &n))
        FAULT(LS_PREPARED_SHAPE_OVERFLOW, LS_INVALID_ARGUMENT, "%s: the shape has more elements than memory can hold", what);
    if (n != a->bytes || (n && !a->data)) FAULT(LS_PREPARED_BYTE_COUNT, LS_INVALID_ARGUMENT, "%s: %zu bytes are given, the shape takes %zu", what, a->bytes, n);
    return LS_OK;
}

static ls_code copy(void *out, const void *from, size_t n, size_t elem, ls_error *e) {
    void *p;
    LS_TRY(ls_calloc(&p, n, elem, "prepared prefill", e));
    if (n) memcpy(p, from, n * elem);
    memcpy(out, &p, sizeof p);
    return LS_OK;
}

static ls_code copy_array(ls_array *out, const ls_array *a, const char *what, ls_prepared_fault *why, ls_error *e) {
    *out = (ls_array){0};
    if (!a->element) return LS_OK;
    LS_TRY(check_bytes(a, what, why, e));
    void *data;
    LS_TRY(copy(&data, a->data, a->bytes, 1, e));
    *out = *a;
    out->data = data;
    return LS_OK;
}

static bool leading_ones(const ls_array *a, int trailing) {
    for (int i = 0; i < a->rank - trailing; i++)
        if (a->shape[i] != 1) return false;
    return a->rank >= trailing;
}

static int64_t last(const ls_array *a) { return a->shape[a->rank - 1]; }

/* Shapes and types that fit no model. */
static ls_code check_structure(const ls_prepared_prefill *p, size_t n_tokens, ls_prepared_fault *why, ls_error *e) {
    const ls_array *v = &p->embeddings, *pos = &p->positions, *bias = &p->bias;
    if (v->element && (v->rank > 3 || !leading_ones(v, 2)))
        FAULT(LS_PREPARED_EMBEDDING_SHAPE, LS_INVALID_ARGUMENT, "embeddings of rank %d; they are [rows, hidden] or [1, rows, hidden]", v->rank);
    if (v->element && !is_float(v->element)) FAULT(LS_PREPARED_EMBEDDING_TYPE, LS_INVALID_ARGUMENT, "embeddings must be floats");
    if (pos->element && (pos->rank > 2 || (pos->rank == 2 && pos->shape[0] != 1 && pos->shape[0] != 3) || (size_t)last(pos) != n_tokens))
        FAULT(LS_PREPARED_POSITION_SHAPE, LS_INVALID_ARGUMENT, "positions of rank %d, last dimension %lld; they are [n], [1, n] or [3, n], n %zu", pos->rank,
              (long long)last(pos), n_tokens);
    if (pos->element && pos->element != LS_ELEMENT_I32) FAULT(LS_PREPARED_POSITION_TYPE, LS_INVALID_ARGUMENT, "positions must be i32");
    if (bias->element && !is_float(bias->element)) FAULT(LS_PREPARED_MASK_TYPE, LS_INVALID_ARGUMENT, "the mask must be floats");
    if (bias->element && (size_t)last(bias) != n_tokens)
        FAULT(LS_PREPARED_MASK_SHAPE, LS_INVALID_ARGUMENT, "the mask's last dimension is %lld; there are %zu tokens", (long long)last(bias), n_tokens);
    return LS_OK;
}

static ls_code copy_modalities(ls_prepared_prefill *p, const ls_prepared_options *o, ls_prepared_fault *why, ls_error *e) {
    size_t tokens = 0;
    LS_TRY(ls_calloc(&p->modality, o->n_modalities, sizeof *p->modality, "prepared prefill", e));
    LS_TRY(ls_calloc(&p->family_text, o->n_modalities, sizeof *p->family_text, "prepared prefill", e));
    for (size_t i = 0; i < o->n_modalities; i++) {
        const ls_modality *m = &o->modalities[i];
        size_t len = m->family ? strlen(m->family) : LS_FAMILY_BYTES;
        if (len >= LS_FAMILY_BYTES) FAULT(LS_PREPARED_MODALITY, LS_INVALID_ARGUMENT, "modality %zu needs a family of at most %d bytes", i, LS_FAMILY_BYTES - 1);
        if (!ls_size_add(tokens, m->tokens, &tokens) || tokens > o->n_tokens)
            FAULT(LS_PREPARED_MODALITY, LS_INVALID_ARGUMENT, "modality %zu: %zu tokens of media in all are more than the %zu of the prompt", i, tokens,
                  o->n_tokens);
        memcpy(p->family_text[i], m->family, len);
        p->modality[i] = (ls_modality){p->family_text[i], m->items, m->tokens};
    }
    p->n_modalities = o->n_modalities;
    return LS_OK;
}

static size_t embedding_rows(const ls_prepared_prefill *p) { return p->embeddings.element ? (size_t)p->embeddings.shape[p->embeddings.rank - 2] : 0; }

static ls_code fill(ls_prepared_prefill *p, const ls_prepared_options *o, ls_prepared_fault *why, ls_error *e) {
    LS_TRY(copy_array(&p->embeddings, &o->embeddings, "embeddings", why, e));
    LS_TRY(copy_array(&p->positions, &o->positions, "positions", why, e));
    LS_TRY(copy_array(&p->bias, &o->bias, "mask", why, e));
    LS_TRY(check_structure(p, o->n_tokens, why, e));
    if (o->bias.element && o->n_blocks) FAULT(LS_PREPARED_MASK_SHAPE, LS_INVALID_ARGUMENT, "a mask and image blocks are given; give one of them");
    LS_TRY(copy_modalities(p, o, why, e));
    LS_TRY(copy(&p->token, o->tokens, o->n_tokens, sizeof *p->token, e));
    LS_TRY(copy(&p->block, o->blocks, o->n_blocks, sizeof *p->block, e));
    if (o->rows_at) LS_TRY(copy(&p->at, o->rows_at, embedding_rows(p), sizeof *p->at, e));
    p->n = o->n_tokens;
    p->length = o->length;
    p->n_blocks = o->n_blocks;
    p->causal = o->causal;
    return LS_OK;
}

ls_code ls_prepared_create(ls_prepared_prefill **out, const ls_prepared_options *given, ls_prepared_fault *why, ls_error *e) {
    ls_prepared_options o = {0};
    ls_prepared_fault unused;
    if (!why) why = &unused;
    *why = LS_PREPARED_FINE;
    if (!given->struct_size) LS_FAIL(e, LS_INVALID_ARGUMENT, "struct_size of the prepared prefill's options is 0; set it to sizeof(ls_prepared_options)");
    memcpy(&o, given, given->struct_size < sizeof o ? given->struct_size : sizeof o);
    ls_prepared_prefill *p;
    LS_TRY(ls_calloc(&p, 1, sizeof *p, "prepared prefill", e));
    p->holders = 1;
    ls_code rc = fill(p, &o, why, e);
    if (rc) {
        ls_prepared_destroy(p);
        return rc;
    }
    *out = p;
    return LS_OK;
}

void ls_prepared_hold(ls_prepared_prefill *p) { p->holders++; }

void ls_prepared_destroy(ls_prepared_prefill *p) {
    if (!p || --p->holders) return;
    void *const arrays[] = {p->token, (void *)(uintptr_t)p->embeddings.data, (void *)(uintptr_t)p->positions.data, (void *)(uintptr_t)p->bias.data, p->at,
                            p->block, p->modality, p->family_text, p->row, p->span, p->extra};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) ls_free(arrays[i]);
    ls_free(p);
}

const int32_t *ls_prepared_tokens(const ls_prepared_prefill *p, size_t *n) {
    *n = p->n;
    return p->token;
}

const ls_modality *ls_prepared_modalities(const ls_prepared_prefill *p, size_t *n) {
    *n = p->n_modalities;
    return p->modality;
}

/* ---- Admission ------------------------------------------------------------------------------------------------------------- */

static ls_code check_length(const ls_prepared_prefill *p, const ls_prepared_limits *l, int max_new, ls_prepared_fault *why, ls_error *e) {
    size_t total = 0;
    if (!p->n) FAULT(LS_PREPARED_EMPTY, LS_INVALID_ARGUMENT, "no tokens; give at least one");
    if (p->length != p->n) FAULT(LS_PREPARED_LENGTH, LS_INVALID_ARGUMENT, "length %zu is declared, %zu token ids are given", p->length, p->n);
    if (!ls_size_add(p->n, (size_t)max_new, &total) || total > (size_t)l->context)
        FAULT(LS_PREPARED_CAPACITY, LS_RESOURCE_EXHAUSTED,
              "%zu tokens (images included) + %d new tokens are more than the context of %d positions; use fewer or smaller images, ask for "
              "fewer tokens or raise the context size", p->n, max_new, l->context);
    return LS_OK;
}

static ls_code check_embeddings(const ls_prepared_prefill *p, const ls_prepared_limits *l, ls_prepared_fault *why, ls_error *e) {
    const ls_array *v = &p->embeddings;
    size_t rows = embedding_rows(p);
    if (!v->element) return LS_OK;
    if (v->element != LS_ELEMENT_F32) FAULT(LS_PREPARED_EMBEDDING_TYPE, LS_INVALID_ARGUMENT, "embeddings must be f32");
    if (!p->at && rows != p->n)
        FAULT(LS_PREPARED_EMBEDDING_SHAPE, LS_INVALID_ARGUMENT, "%zu rows of embeddings for %zu tokens; say which positions they are of", rows, p->n);
    for (size_t i = 0; p->at && i < rows; i++)
        if (p->at[i] >= p->n || (i && p->at[i] <= p->at[i - 1]))
            FAULT(LS_PREPARED_EMBEDDING_SHAPE, LS_INVALID_ARGUMENT, "embedding row %zu belongs to position %zu; rows must ascend within the %zu positions", i,
                  p->at[i], p->n);
    if (last(v) != l->hidden)
        FAULT(LS_PREPARED_HIDDEN_SIZE, LS_INVALID_ARGUMENT, "embeddings of %lld columns; the model has %lld", (long long)last(v), (long long)l->hidden);
    const float *x = v->data;
    for (size_t i = 0; i < rows * (size_t)l->hidden; i++)
        if (!isfinite(x[i])) FAULT(LS_PREPARED_NOT_FINITE, LS_INVALID_ARGUMENT, "embeddings: value %zu is %g; all must be finite", i, (double)x[i]);
    return LS_OK;
}

static ls_code check_positions(const ls_prepared_prefill *p, ls_prepared_fault *why, ls_error *e) {
    const int32_t *v = p->positions.data;
    if (!v) return LS_OK;
    if (p->positions.rank == 2 && p->positions.shape[0] == 3)
        FAULT(LS_PREPARED_POSITION_MODE, LS_INVALID_ARGUMENT, "positions of three axes (M-RoPE); this model rotates by one");
    for (size_t i = 0; i < p->n; i++)
        if (v[i] < 0 || (size_t)v[i] != i)
            FAULT(LS_PREPARED_POSITIONS, LS_INVALID_ARGUMENT, "position %zu is given as %d; positions must be 0 to %zu", i, (int)v[i], p->n - 1);
    return LS_OK;
}

static ls_code check_mask_shape(const ls_prepared_prefill *p, ls_prepared_fault *why, ls_error *e) {
    const ls_array *b = &p->bias;
    if (!b->element) return LS_OK;
    if (b->element != LS_ELEMENT_F32) FAULT(LS_PREPARED_MASK_TYPE, LS_INVALID_ARGUMENT, "the mask must be f32");
    bool keys = b->rank == 1 || (b->rank == 4 && leading_ones(b, 1));
    bool all = (b->rank == 2 || (b->rank == 4 && leading_ones(b, 2))) && (size_t)b->shape[b->rank - 2] == p->n;
    if (!keys && !all) FAULT(LS_PREPARED_MASK_SHAPE, LS_INVALID_ARGUMENT, "the mask must be [n], [1, 1, 1, n], [n, n] or [1, 1, n, n]");
    return LS_OK;
}

static ls_code check_blocks(const ls_prepared_prefill *p, const ls_prepared_limits *l, ls_prepared_fault *why, ls_error *e) {
    for (size_t i = 0; i < p->n; i++) {
        int32_t rows = p->span[i].end - p->span[i].begin;
        if (rows > l->max_rows)
            FAULT(LS_PREPARED_BLOCK_LENGTH, LS_RESOURCE_EXHAUSTED,
                  "the image block at position %d has %d positions, a forward pass at most %d; raise the chunk size", (int)p->span[i].begin, (int)rows,
                  l->max_rows);
    }
    for (size_t i = 0; i < p->n; i++)
        if (p->token[i] < 0 || p->token[i] >= l->vocab)
            FAULT(LS_PREPARED_TOKEN, LS_INVALID_ARGUMENT, "token %zu is %d; the vocabulary has ids 0 to %lld", i, (int)p->token[i], (long long)l->vocab - 1);
    return LS_OK;
}

static void place_embeddings(ls_prepared_prefill *p, int64_t hidden) {
    const float *x = p->embeddings.data;
    for (size_t i = 0, rows = embedding_rows(p); i < rows; i++) p->row[p->at ? p->at[i] : i] = x + i * (size_t)hidden;
}

static bool is_plain(const ls_prepared_prefill *p, size_t i) { return !p->row[i] && p->span[i].begin == p->span[i].end; }

/* Digest of positions [begin, end): their embeddings, or tokens where there is none, since others of their block see them; and their blocks
 * relative to |begin|. */
static void digest(const ls_prepared_prefill *p, size_t begin, size_t end, int64_t hidden, uint8_t out[32]) {
    ls_sha256 h;
    ls_sha256_init(&h);
    for (size_t i = begin; i < end; i++) {
        const int64_t head[3] = {p->row[i] ? -1 : p->token[i], p->span[i].begin - (int64_t)begin, p->span[i].end - (int64_t)begin};
        ls_sha256_update(&h, head, sizeof head);
        if (p->row[i]) ls_sha256_update(&h, p->row[i], (size_t)hidden * sizeof(float));
    }
    ls_sha256_final(&h, out);
}

static void make_extras(ls_prepared_prefill *p, int64_t hidden) {
    for (size_t i = 0, end; i < p->n; i = end) {
        for (end = i + 1; end < p->n && is_plain(p, end) == is_plain(p, i); end++) continue;
        if (is_plain(p, i)) continue;
        p->extra[p->n_extra].position = i;
        digest(p, i, end, hidden, p->extra[p->n_extra++].sha256);
    }
}

/* What depends on the payload and the model's width alone is made once. */
static ls_code make_rows(ls_prepared_prefill *p, const ls_prepared_limits *l, ls_prepared_fault *why, ls_error *e) {
    ls_span *span;
    if (p->row) return LS_OK;
    LS_TRY(ls_calloc(&span, p->n, sizeof *span, "prepared prefill", e));
    ls_code rc = ls_prepared_mask(p, span, why, e);
    if (!rc) rc = ls_calloc(&p->extra, p->n / 2 + 1, sizeof *p->extra, "prepared prefill", e);
    if (!rc) rc = ls_calloc(&p->row, p->n, sizeof(float *), "prepared prefill", e);
    if (rc) {
        ls_free(span);
        ls_free(p->extra);
        p->extra = NULL;
        return rc;
    }
    p->span = span;
    place_embeddings(p, l->hidden);
    make_extras(p, l->hidden);
    return LS_OK;
}

ls_code ls_prepared_admit(ls_prepared_prefill *p, const ls_prepared_limits *l, int max_new, ls_prepared_fault *why, ls_error *e) {
    LS_TRY(check_length(p, l, max_new, why, e));
    LS_TRY(check_embeddings(p, l, why, e));
    LS_TRY(check_positions(p, why, e));
    LS_TRY(check_mask_shape(p, why, e));
    LS_TRY(make_rows(p, l, why, e));
    LS_TRY(check_blocks(p, l, why, e));
    *why = LS_PREPARED_FINE;
    return LS_OK;
}

size_t ls_prepared_piece(const ls_prepared_prefill *p, size_t begin, size_t most) {
    size_t past = 0, whole = 0;
    for (size_t i = begin; i < p->n && (i - begin < most || !whole); i++) {
        if ((size_t)p->span[i].end > past) past = (size_t)p->span[i].end;
        if (past <= i + 1) whole = i + 1 - begin;
    }
    return whole;
}
