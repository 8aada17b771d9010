/* One case: making it ready, running a kernel on it, comparing everything. */
#include <fenv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "checkkern.h"
#include "contract/exact.h"
#include "reference/exact_linear.h"

enum { MARGIN = 5, POISON = 0x7FC0DEAD }; /* floats between the rows of y, and what they hold */

static void must(ls_code code, const ls_error *e) {
    if (!code) return;
    fprintf(stderr, "checkkern: %s\n", e->text);
    exit(2);
}

/* Arrays of |a| in buffers of exactly their size. */
static void bind_guarded(ck_ready *z) {
    const ck_case *c = &z->c;
    ls_acts *a = &z->acts;
    *a = (ls_acts){.contract = c->contract, .planes = c->contract == LS_CONTRACT_EXACT16 ? 1 : 2, .rows = c->t, .cols = c->k};
    a->blocks = (c->k + LS_EXACT_BLOCK - 1) / LS_EXACT_BLOCK;
    size_t cells = (size_t)(c->t * a->blocks), planes = (size_t)a->planes;
    ck_buffer *b = z->arrays;
    ck_buffer_init(&b[0], cells * planes * LS_EXACT_BLOCK * 2, c->side);
    ck_buffer_init(&b[1], cells * 4, c->side);
    ck_buffer_init(&b[2], (size_t)c->t * 4, c->side);
    a->q = (int16_t *)b[0].data;
    a->drop = (int32_t *)b[1].data;
    a->factor = (float *)b[2].data;
    ck_buffer_init(&b[3], cells * 4, c->side);
    a->half = (int32_t *)b[3].data;
    for (int i = 0; i < LS_SUMS; i++) {
        ck_buffer_init(&b[4 + 3 * i], (cells * planes << (2 - i)) * 4, c->side);
        ck_buffer_init(&b[5 + 3 * i], (cells << (2 - i)) * 4, c->side);
        a->sum[i] = (int32_t *)b[4 + 3 * i].data;
        a->mean[i] = (int32_t *)b[5 + 3 * i].data;
        ck_buffer_init(&b[6 + 3 * i], (cells * planes << (3 - i)) * 4, c->side);
        a->lead[i] = (int32_t *)b[6 + 3 * i].data;
    }
}

/* Row |row| of the activations straight from the reference's mantissas, without the kernels' own code. */
static void quantise_reference(const ls_acts *a, int64_t row, const float *x, ls_exact_row *r) {
    int p = a->planes == 1 ? LS_EXACT_P16 : LS_EXACT_P24;
    ls_exact_quantise(x, a->cols, p, r);
    a->factor[row] = ls_pow2(r->e - 127 - p);
    for (int64_t b = 0; b < a->blocks; b++) {
        a->drop[row * a->blocks + b] = r->drop[b] > LS_EXACT_MAX_DROP ? 0 : r->drop[b];
        a->half[row * a->blocks + b] = (1 << a->drop[row * a->blocks + b]) >> 1;
    }
    for (int64_t k = 0; k < a->blocks * LS_EXACT_BLOCK; k++) {
        int drop = r->drop[k / LS_EXACT_BLOCK];
        int32_t q = drop > LS_EXACT_MAX_DROP ? 0 : r->q[k], high = a->planes == 1 ? q : (q + 2048) >> 12;
        ls_acts_plane(a, row, 0)[k] = (int16_t)high;
        if (a->planes == 2) ls_acts_plane(a, row, 1)[k] = (int16_t)(q - high * 4096);
    }
    for (int size = 0; size < LS_SUMS; size++)
        for (int64_t g = 0; g < a->blocks << (2 - size); g++) {
            int64_t sum[2] = {0};
            for (int i = 0; i < a->planes; i++) {
                for (int k = 0; k < 16 << size; k++) sum[i] += ls_acts_plane(a, row, i)[(g << (4 + size)) + k];
                ls_acts_sum(a, size, row, i)[g] = (int32_t)sum[i];
            }
            int64_t whole = a->planes == 1 ? sum[0] : sum[0] * 4096 + sum[1];
            int64_t block = row * a->blocks + (g >> (2 - size));
            ls_acts_mean(a, size, row)[g] = (int32_t)ls_rshift(whole, a->drop[block]);
            for (int i = 0; i < a->planes; i++) {
                const int16_t *q = ls_acts_plane(a, row, i) + (g << (4 + size));
                int64_t cross = 0;
                for (int k = 0; k < 16 << size; k++)
                    if (k % 8 / 2 == 2) cross += q[k] * q[k + 2];
                ls_acts_lead(a, size, row, i)[2 * g] = (int32_t)(uint32_t)((a->planes == 1 ? a->half[block] : 0) - cross);
                ls_acts_lead(a, size, row, i)[2 * g + 1] = a->planes == 2 && !i ? a->half[block] : a->drop[block];
            }
        }
}

static void pack_guarded(ck_ready *z, ls_pool *pool) {
    ls_error e = {0};
    must(ls_pack(&z->packed, &z->tensor.t, 0, z->c.n, z->c.contract, NULL, pool, NULL, &e), &e);
    ck_buffer_init(&z->weights, ls_packed_bytes(&z->packed), z->c.side);
    memcpy(z->weights.data, z->packed.data, z->weights.bytes);
    ls_free(z->packed.data);
    z->packed.data = z->weights.data;
}

void ck_ready_init(ck_ready *z, const ck_case *c, ls_pool *pool) {
    ck_rng r = {c->seed};
    ls_error e = {0};
    *z = (ck_ready){.c = *c, .stride = c->n + MARGIN};
    ck_tensor_init(&z->tensor, c->format, c->n, c->k, c->weights, &r);
    pack_guarded(z, pool);
    ck_buffer_init(&z->x, (size_t)(c->t * c->k) * 4, c->side);
    ck_buffer_init(&z->bias, (size_t)c->n * 4, c->side);
    ck_buffer_init(&z->y, (size_t)((c->t - 1) * z->stride + c->n) * 4, c->side);
    ck_buffer_init(&z->scratch, LS_LINEAR_SCRATCH, c->side);
    ck_fill((float *)z->x.data, c->t * c->k, c->inputs, &r);
    ck_fill((float *)z->bias.data, c->n, CK_X_RANDOM, &r);
    must(ls_calloc(&z->want, (size_t)(c->t * c->n), sizeof *z->want, "wanted result", &e), &e);
    const float *x = (float *)z->x.data;
    must(ls_exact_linear(z->want, x, c->t, &z->tensor.t, 0, c->n, c->bias ? (float *)z->bias.data : NULL, c->contract, &e), &e);
    bind_guarded(z);
    ls_exact_row row = {0};
    must(ls_calloc(&row.q, (size_t)z->acts.blocks * LS_EXACT_BLOCK, sizeof *row.q, "row", &e), &e);
    must(ls_calloc(&row.drop, (size_t)z->acts.blocks, sizeof *row.drop, "row", &e), &e);
    for (int64_t i = 0; i < c->t; i++) quantise_reference(&z->acts, i, x + i * c->k, &row);
    ls_free(row.q);
    ls_free(row.drop);
}

void ck_ready_deinit(ck_ready *z) {
    for (size_t i = 0; i < CK_ARRAYS; i++) ck_buffer_deinit(&z->arrays[i]);
    ck_buffer_deinit(&z->weights);
    ck_buffer_deinit(&z->x);
    ck_buffer_deinit(&z->bias);
    ck_buffer_deinit(&z->y);
    ck_buffer_deinit(&z->scratch);
    ck_tensor_deinit(&z->tensor);
    ls_free(z->want);
}

static void protect_inputs(const ck_ready *z, bool read_only, bool arrays) {
    ck_buffer_protect(&z->weights, read_only);
    ck_buffer_protect(&z->x, read_only);
    ck_buffer_protect(&z->bias, read_only);
    for (size_t i = 0; arrays && i < CK_ARRAYS; i++) ck_buffer_protect(&z->arrays[i], read_only);
}

static void poison(ck_buffer *b) {
    for (size_t i = 0; i + 4 <= b->bytes; i += 4) memcpy(b->data + i, &(uint32_t){POISON}, 4);
}

/* |a| without the sums that a matrix of form |f| does not need, and without those that only more than LS_FEW_ROWS |rows| do: what reads or writes them
 * faults. */
static ls_acts needed(const ls_acts *a, const ls_weight_form *f, int64_t rows) {
    ls_acts out = *a;
    for (int i = 0; i < LS_SUMS; i++) {
        if (!(ls_acts_needs_of(f) >> i & 1)) out.sum[i] = out.lead[i] = NULL;
        if (!(ls_acts_needs_of(f) >> (LS_SUMS + i) & 1)) out.mean[i] = NULL;
        if (rows <= LS_FEW_ROWS) out.lead[i] = NULL;
    }
    return out;
}

typedef struct call {
    ck_ready *z;
    const ls_acts *acts;
    ls_linear_fn *linear;
    ls_quantise_fn *quantise;
    int64_t tile_begin, tile_end, row_begin, row_end;
} call;

static void call_linear(void *ctx) {
    const call *c = ctx;
    ck_ready *z = c->z;
    int64_t first = c->tile_begin * LS_TILE;
    ls_linear_out out = {.y = (float *)z->y.data + first, .stride = z->stride, .first = first, .bias = z->c.bias ? (float *)z->bias.data : NULL};
    c->linear(&z->packed, c->tile_begin, c->tile_end, c->acts, c->row_begin, c->row_end, &out, z->scratch.data);
}

static void call_quantise(void *ctx) {
    const call *c = ctx;
    c->quantise(c->acts, c->row_begin, (const float *)c->z->x.data + c->row_begin * c->z->c.k);
}

/* The result's bits and the untouched floats between its rows. */
static int compare(const ck_ready *z, const char *how, char why[256]) {
    const uint32_t *y = (const uint32_t *)z->y.data;
    for (int64_t t = 0; t < z->c.t; t++)
        for (int64_t n = 0; n < (t + 1 < z->c.t ? z->stride : z->c.n); n++) {
            uint32_t got = y[t * z->stride + n], want = n < z->c.n ? ls_bits(z->want[t * z->c.n + n]) : (uint32_t)POISON;
            if (got == want) continue;
            return snprintf(why, 256, "%s: row %lld output %lld is %08x (%a), wanted %08x (%a)", how, (long long)t, (long long)n, got,
                            (double)ls_from_bits(got), want, (double)ls_from_bits(want));
        }
    return 0;
}

int ck_check_linear(ck_ready *z, ls_linear_fn *fn, char why[256]) {
    int64_t tiles = z->packed.tiles, half = tiles / 2, rows = z->c.t, part = rows / 3;
    ls_acts acts = needed(&z->acts, &z->packed.form, rows);
    call calls[2][4] = {{{z, &acts, fn, NULL, 0, tiles, 0, rows}},
                        {{z, &acts, fn, NULL, 0, half, 0, part},
                         {z, &acts, fn, NULL, half, tiles, 0, part},
                         {z, &acts, fn, NULL, 0, half, part, rows},
                         {z, &acts, fn, NULL, half, tiles, part, rows}}};
    for (int pass = 0; pass < 2; pass++) {
        const char *how = pass ? "in pieces" : "whole", *fault = NULL;
        int mode = fegetround();
        poison(&z->y);
        poison(&z->scratch);
        protect_inputs(z, true, true);
        for (int i = 0; i < (pass ? 4 : 1) && !fault; i++)
            if (calls[pass][i].tile_begin < calls[pass][i].tile_end && calls[pass][i].row_begin < calls[pass][i].row_end)
                fault = ck_guarded(call_linear, &calls[pass][i]);
        protect_inputs(z, false, true);
        if (fault) return snprintf(why, 256, "%s: %s", how, fault);
        if (fegetround() != mode) return snprintf(why, 256, "%s: the rounding mode was changed", how);
        if (compare(z, how, why)) return 1;
    }
    return 0;
}

int ck_check_row(const ck_ready *z, char why[256]) {
    ls_error e = {0};
    float *got, *want;
    int bad = 0;
    must(ls_calloc(&got, (size_t)z->c.k, sizeof *got, "row", &e), &e);
    must(ls_calloc(&want, (size_t)z->c.k, sizeof *want, "row", &e), &e);
    for (int64_t row = 0; row < z->c.n && !bad; row++) {
        ls_packed_row(&z->packed, row, got);
        ls_tensor_row_values(&z->tensor.t, row, want);
        for (int64_t k = 0; k < z->c.k && !bad; k++)
            if (ls_bits(got[k]) != ls_bits(want[k]) && !(got[k] == 0 && want[k] == 0))
                bad = snprintf(why, 256, "row %lld column %lld is %a, the tensor has %a", (long long)row, (long long)k, (double)got[k], (double)want[k]);
    }
    ls_free(got);
    ls_free(want);
    return bad;
}

/* Whether array |i| of |z| is written when |a| is quantised. */
static bool is_bound(const ck_ready *z, const ls_acts *a, size_t i) {
    const uint8_t *data = z->arrays[i].data;
    bool bound = i < 4;
    for (int k = 0; k < LS_SUMS; k++) bound |= data == (uint8_t *)a->sum[k] || data == (uint8_t *)a->mean[k] || data == (uint8_t *)a->lead[k];
    return bound;
}

/* Quantises all rows into the arrays of |acts|, and compares them with |want|; the others stay as they were. */
static int check_arrays(ck_ready *z, const ls_acts *acts, ls_quantise_fn *fn, uint8_t *const *want, char why[256]) {
    const char *fault = NULL;
    int bad = 0;
    for (size_t i = 0; i < CK_ARRAYS; i++) poison(&z->arrays[i]);
    protect_inputs(z, true, false);
    for (int64_t row = 0; row < z->c.t && !fault; row++) fault = ck_guarded(call_quantise, &(call){.z = z, .acts = acts, .quantise = fn, .row_begin = row});
    protect_inputs(z, false, false);
    if (fault) bad = snprintf(why, 256, "%s", fault);
    for (size_t i = 0; i < CK_ARRAYS; i++) {
        if (!is_bound(z, acts, i)) poison(&(ck_buffer){.data = want[i], .bytes = z->arrays[i].bytes});
        size_t at = 0;
        while (at < z->arrays[i].bytes && want[i][at] == z->arrays[i].data[at]) at++;
        if (!bad && at < z->arrays[i].bytes) bad = snprintf(why, 256, "array %zu differs from byte %zu of %zu on", i, at, z->arrays[i].bytes);
    }
    return bad;
}

int ck_check_quantise(ck_ready *z, ls_quantise_fn *fn, char why[256]) {
    const ls_acts some = needed(&z->acts, &z->packed.form, LS_FEW_ROWS + 1), few = needed(&z->acts, &z->packed.form, 1), *acts[] = {&z->acts, &some, &few};
    uint8_t *right[CK_ARRAYS], *want[CK_ARRAYS];
    ls_error e = {0};
    int bad = 0;
    for (size_t i = 0; i < CK_ARRAYS; i++) {
        must(ls_calloc(&right[i], z->arrays[i].bytes, 2, "wanted arrays", &e), &e);
        want[i] = right[i] + z->arrays[i].bytes;
        memcpy(right[i], z->arrays[i].data, z->arrays[i].bytes);
    }
    for (int pass = 0; pass < 3 && !bad; pass++) {
        for (size_t i = 0; i < CK_ARRAYS; i++) memcpy(want[i], right[i], z->arrays[i].bytes);
        bad = check_arrays(z, acts[pass], fn, want, why);
    }
    for (size_t i = 0; i < CK_ARRAYS; i++) {
        memcpy(z->arrays[i].data, right[i], z->arrays[i].bytes);
        ls_free(right[i]);
    }
    return bad;
}
