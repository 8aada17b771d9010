/* Packing: tiles are independent, so threads share them; each row is decoded once and spread over its lane. */
#include "native/pack.h"

#include <string.h>

#include "contract/exact.h"

const uint8_t ls_iq4_codebook[16] = {1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241};

/* Packed bytes after which the pages they came from are given back. */
enum { RELEASE_BYTES = 1 << 20 };

const int ls_pack_planes[LS_PACK_COUNT][2] = {
    [LS_PACK_W2] = {2, 0}, [LS_PACK_W3] = {2, 1},  [LS_PACK_W4] = {4, 0},   [LS_PACK_W5] = {4, 1},  [LS_PACK_W6] = {4, 2},
    [LS_PACK_W8] = {8, 0}, [LS_PACK_IQ4] = {4, 0}, [LS_PACK_F12] = {12, 0}, [LS_PACK_F14] = {14, 0}, [LS_PACK_F16] = {16, 0},
    [LS_PACK_F13] = {13, 0}, [LS_PACK_F15] = {15, 0}, [LS_PACK_F24] = {16, 8}};

static ls_pack_kind kind_of(const ls_weight_form *f, const ls_tensor *t) {
    const bool wide = ls_contract_is_wide(f->contract);
    if (t->format == LS_BF16) return wide ? LS_PACK_F13 : LS_PACK_F12;
    if (t->format == LS_F16) return wide ? LS_PACK_F15 : LS_PACK_F14;
    if (!f->quantised) return wide ? LS_PACK_F24 : LS_PACK_F16;
    if (t->format == LS_IQ4_NL) return LS_PACK_IQ4;
    switch (f->bits) {
    case 2: return LS_PACK_W2;
    case 3: return LS_PACK_W3;
    case 4: return LS_PACK_W4;
    case 5: return LS_PACK_W5;
    case 6: return LS_PACK_W6;
    default: return LS_PACK_W8;
    }
}

ls_code ls_packed_plan(ls_packed *w, const ls_tensor *t, int64_t n, ls_contract contract, ls_error *e) {
    *w = (ls_packed){0};
    LS_TRY(ls_weight_form_of(&w->form, t, contract, e));
    w->rows = n;
    w->tiles = (n + LS_TILE - 1) / LS_TILE;
    w->kind = kind_of(&w->form, t);
    w->spans = w->form.quantised ? w->form.cols / LS_SPAN : w->form.groups * (LS_EXACT_BLOCK / LS_SPAN);
    ls_pack_scales_layout(w, t);
    w->span_bytes = (size_t)64 * (size_t)(ls_pack_planes[w->kind][0] + ls_pack_planes[w->kind][1]);
    w->super_at = (size_t)w->form.groups * w->entry_bytes; /* after the scales, which come first */
    size_t supers = w->super ? (size_t)(w->form.groups / w->super) : 0;
    w->span_at = (w->super_at + supers * w->super_bytes + 63) & ~(size_t)63;
    w->tile_bytes = w->span_at + (size_t)w->spans * w->span_bytes; /* a multiple of 64, as span_at and spans are */
    if (!ls_size_mul((size_t)w->tiles, w->tile_bytes, &w->power_at) || w->power_at > PTRDIFF_MAX - (size_t)w->tiles * 2 * LS_TILE - 63)
        LS_FAIL(e, LS_RESOURCE_EXHAUSTED, "tensor \"%s\": its packed size overflows", t->name);
    return LS_OK;
}

/* Working memory of one thread. */
typedef struct scratch {
    int32_t *u, *scale, *min; /* [spans * 32], [groups], [groups] */
    float *floats;            /* decoded scales and minima, or the row; then the factors of a block */
    uint8_t *q;               /* [spans * 32] */
} scratch;

typedef struct job {
    ls_packed *w;
    const ls_tensor *t;
    ls_checkpoint *c; /* of |t|, or NULL */
    int64_t row_begin;
    scratch *scratch; /* [threads] */
} job;

/* Field |bits| wide of each of four 16-bit lanes of |x|, put together from the lowest bit on. */
static inline uint32_t gather(uint64_t x, int bits) {
    const uint64_t lane = (1u << bits) - 1, pair = ((uint64_t)1 << 2 * bits) - 1;
    x &= lane * UINT64_C(0x0001000100010001);
    x |= x >> (16 - bits);
    return (uint32_t)((x & pair) | (x >> (32 - 2 * bits) & pair << 2 * bits));
}

/* Bits [shift, shift + bits) of one span's integers q [32] as a plane of lane |lane|; bits is 1, 2 or 4. Inlined for its constant: most of the time of
 * loading a model goes here. */
static inline void put_plane(uint8_t *span, int lane, const uint8_t *q, int bits, int shift) {
    for (int c = 0; c < bits; c++) {
        uint32_t word = 0;
        for (int part = 0; part < 4 / bits; part++, q += 8) {
            uint64_t x;
            memcpy(&x, q, sizeof x);
            word |= (gather(x >> shift, bits) | gather(x >> (8 + shift), bits) << 16) << part * 4 * bits;
        }
        memcpy(span + 64 * c + 4 * lane, &word, sizeof word);
    }
}

void ls_pack_byte_span(uint8_t *span, int lane, const uint8_t *q) {
    for (int c = 0; c < 8; c++) {
        uint32_t x;
        memcpy(&x, q + 4 * c, sizeof x);
        x = (x & 0xFF0000FFu) | (x >> 8 & 0xFF00u) | (x & 0xFF00u) << 8;
        memcpy(span + 64 * c + 4 * lane, &x, sizeof x);
    }
}

/* Spreads one span of a quantised row, q [32], over lane |lane|. */
static void put_span(ls_pack_kind kind, uint8_t *span, int lane, const uint8_t *q) {
    switch (kind) {
    case LS_PACK_W2: put_plane(span, lane, q, 2, 0); break;
    case LS_PACK_W3:
        put_plane(span, lane, q, 2, 0);
        put_plane(span + 128, lane, q, 1, 2);
        break;
    case LS_PACK_W5:
        put_plane(span, lane, q, 4, 0);
        put_plane(span + 256, lane, q, 1, 4);
        break;
    case LS_PACK_W6:
        put_plane(span, lane, q, 4, 0);
        put_plane(span + 256, lane, q, 2, 4);
        break;
    case LS_PACK_W8: ls_pack_byte_span(span, lane, q); break;
    default: put_plane(span, lane, q, 4, 0); break; /* LS_PACK_W4, LS_PACK_IQ4 */
    }
}

/* A row's powers, see ls_packed_powers(); unit, out: exponents of two. */
static void put_powers(uint8_t *power, int unit, int out) {
    power[0] = (uint8_t)(unit + 127);
    power[LS_TILE] = (uint8_t)(out + 127);
}

/* Index of each codebook value + 128. */
static uint8_t iq4_index(uint8_t value) {
    uint8_t i = 0;
    while (i < 15 && ls_iq4_codebook[i] != value) i++;
    return i;
}

static void quantised_row(const job *j, int64_t row, uint8_t *tile, uint8_t *power, int lane, scratch *s) {
    const ls_packed *w = j->w;
    const ls_weight_form *f = &w->form;
    int64_t stored = f->cols / ls_tensor_group(j->t);
    float *scale = s->floats, *min = scale + stored;
    ls_tensor_row_quant(j->t, row, s->q, scale, min);
    uint32_t max = 0;
    for (int64_t g = 0; g < (f->has_min ? 2 * stored : stored); g++) {
        uint32_t b = ls_bits(scale[g]) & 0x7FFFFFFFu;
        if (b > max) max = b;
    }
    int r = ((int)(max >> 23) > LS_EXACT_MIN_EXP ? (int)(max >> 23) : LS_EXACT_MIN_EXP) - 127 - 22;
    put_powers(power, -r, r + f->c + f->h);
    ls_pack_scales_row(w, j->t, row, tile, lane, scale, min, min + stored);
    for (int64_t k = 0; w->kind == LS_PACK_IQ4 && k < f->cols; k++) s->q[k] = iq4_index(s->q[k]);
    for (int64_t k = 0; k < w->spans; k++) put_span(w->kind, tile + w->span_at + (size_t)k * w->span_bytes, lane, s->q + k * LS_SPAN);
}

static void float_row(const job *j, int64_t row, uint8_t *tile, uint8_t *power, int lane, scratch *s) {
    const ls_packed *w = j->w;
    const ls_weight_form *f = &w->form;
    int r;
    ls_weight_form_row(f, j->t, row, s->u, s->scale, s->min, &r, s->floats);
    put_powers(power, 0, r + f->c + f->h);
    for (int64_t g = 0; g < f->groups; g++)
        tile[(size_t)g * w->entry_bytes + (size_t)lane] =
            (uint8_t)(s->scale[g] ? LS_EXACT_SCALE_BITS - ls_ceil_log2((uint64_t)s->scale[g]) : LS_EXACT_SCALE_BITS + 1);
    for (int64_t k = 0; k < w->spans; k++) ls_pack_float_span(w->kind, tile + w->span_at + (size_t)k * w->span_bytes, lane, s->u + k * LS_SPAN);
}

static void pack_tile(const job *j, int64_t tile_index, scratch *s) {
    const ls_packed *w = j->w;
    uint8_t *tile = w->data + (size_t)tile_index * w->tile_bytes, *power = ls_packed_powers(w, tile_index);
    memset(tile, 0, w->tile_bytes);
    for (int lane = 0; lane < LS_TILE; lane++, power++) {
        int64_t row = tile_index * LS_TILE + lane;
        if (row >= w->rows) {
            put_powers(power, 0, 0);
            if (w->scales == LS_SCALE_DROP)
                for (int64_t g = 0; g < w->form.groups; g++) tile[(size_t)g * w->entry_bytes + (size_t)lane] = LS_EXACT_SCALE_BITS + 1;
            continue;
        }
        if (w->form.quantised) quantised_row(j, j->row_begin + row, tile, power, lane, s);
        else float_row(j, j->row_begin + row, tile, power, lane, s);
    }
}

static void pack_share(void *ctx, int thread, int threads) {
    job *j = ctx;
    int64_t begin, end;
    ls_pool_split(j->w->tiles, thread, threads, &begin, &end);
    int64_t step = 1 + RELEASE_BYTES / (int64_t)j->w->tile_bytes;
    for (int64_t i = begin; i < end; i++) {
        pack_tile(j, i, &j->scratch[thread]);
        if (i + 1 < end && (i + 1 - begin) % step) continue;
        int64_t first = begin + (i - begin) / step * step, rows = (i + 1) * LS_TILE < j->w->rows ? (i + 1 - first) * LS_TILE : j->w->rows - first * LS_TILE;
        ls_checkpoint_forget_rows(j->c, j->t, j->row_begin + first * LS_TILE, rows);
    }
}

static ls_code scratch_init(scratch *s, const ls_packed *w, ls_error *e) {
    size_t cols = (size_t)w->spans * LS_SPAN, groups = (size_t)w->form.groups;
    LS_TRY(ls_calloc(&s->u, cols, sizeof *s->u, "weight packing", e));
    LS_TRY(ls_calloc(&s->scale, groups, sizeof *s->scale, "weight packing", e));
    LS_TRY(ls_calloc(&s->min, groups, sizeof *s->min, "weight packing", e));
    LS_TRY(ls_calloc(&s->q, cols, 1, "weight packing", e));
    return ls_calloc(&s->floats, cols + 4 * groups + 512, sizeof *s->floats, "weight packing", e);
}

static void scratch_deinit(scratch *s) {
    ls_free(s->u);
    ls_free(s->scale);
    ls_free(s->min);
    ls_free(s->q);
    ls_free(s->floats);
}

ls_code ls_pack_bytes(size_t *bytes, const ls_tensor *t, int64_t n, ls_contract contract, ls_error *e) {
    ls_packed w;
    LS_TRY(ls_packed_plan(&w, t, n, contract, e));
    *bytes = ls_packed_bytes(&w);
    return LS_OK;
}

ls_code ls_pack(ls_packed *out, const ls_tensor *t, int64_t row_begin, int64_t n, ls_contract contract, ls_checkpoint *c, ls_pool *pool, uint8_t *place,
                ls_error *e) {
    ls_packed w = {0};
    LS_TRY(ls_packed_plan(&w, t, n, contract, e));
    if (row_begin < 0 || n < 0 || row_begin > ls_tensor_rows(t) - n)
        LS_FAIL(e, LS_OUT_OF_RANGE, "tensor \"%s\": rows %lld to %lld asked for; it has %lld", t->name, (long long)row_begin, (long long)(row_begin + n),
                (long long)ls_tensor_rows(t));
    int threads = ls_pool_threads(pool);
    job j = {.w = &w, .t = t, .c = c, .row_begin = row_begin};
    ls_code rc;
    w.owned = !place;
    w.data = place;
    if (w.owned) LS_GOTO(ls_alloc_aligned(&w.data, ls_packed_bytes(&w), 1, t->name, e));
    memset(w.data + w.power_at, 0, ls_packed_bytes(&w) - w.power_at); /* an odd number of tiles leaves 32 bytes at the end */
    LS_GOTO(ls_calloc(&j.scratch, (size_t)threads, sizeof *j.scratch, "weight packing", e));
    for (int i = 0; i < threads; i++) LS_GOTO(scratch_init(&j.scratch[i], &w, e));
    ls_pool_run(pool, pack_share, &j);
out:
    for (int i = 0; j.scratch && i < threads; i++) scratch_deinit(&j.scratch[i]);
    ls_free(j.scratch);
    if (rc) ls_packed_deinit(&w);
    else *out = w;
    return rc;
}

ls_code ls_packed_map(ls_packed *w, const ls_tensor *t, int64_t n, ls_contract contract, const uint8_t *data, size_t bytes, ls_error *e) {
    ls_packed planned;
    size_t want = 0;
    LS_TRY(ls_packed_plan(&planned, t, n, contract, e));
    LS_TRY(ls_pack_bytes(&want, t, n, contract, e));
    if (want != bytes)
        LS_FAIL(e, LS_DATA_LOSS, "tensor \"%s\": %lld rows have %zu packed bytes; the pack file has %zu", t->name, (long long)n, want, bytes);
    planned.data = (uint8_t *)(uintptr_t)data;
    *w = planned;
    return LS_OK;
}

size_t ls_packed_bytes(const ls_packed *w) { return w->power_at + (((size_t)w->tiles * 2 * LS_TILE + 63) & ~(size_t)63); }

void ls_packed_deinit(ls_packed *w) {
    if (w->owned) ls_free(w->data);
    *w = (ls_packed){0};
}
