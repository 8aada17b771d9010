/* Planted bugs: a plain kernel on weight rows in integer form, with one mistake each. Without a mistake it is right, which
 * is checked too. */
#include <stdlib.h>

#include "checkkern.h"
#include "contract/exact.h"
#include "native/kernels/quantise_sums.h"

typedef enum mistake {
    NONE,
    SHORT_TAIL,       /* the last column is left out */
    DROPPED_GROUP,    /* the last group is left out */
    TRUNCATED_SHIFT,  /* the alignment shift does not round */
    MISSING_ZERO,     /* the zero point is not subtracted */
    TRUNCATED_SCALE,  /* a scale is truncated, not rounded */
    MISSING_ROW,      /* the last output is not written */
    OVERREAD,         /* one mantissa past the end is read */
    WRITE_PAST,       /* one output past the end is written */
    MODIFIED_INPUT,   /* a drop is written back */
    NARROW_SUM        /* the scaled sums are kept in 32 bits */
} mistake;

static const ck_ready *seen;

void ck_bugs_see(const ck_ready *z) { seen = z; }

typedef struct row {
    int32_t *u, *scale, *min;
    float *scratch;
    int r;
} row;

static void truncate_scales(const row *w, int64_t groups, const float *stored, int split) {
    for (int64_t g = 0; g < groups; g++) w->scale[g] = (int32_t)(stored[g / split] * ls_pow2(-w->r));
}

static int64_t mantissa(const ls_acts *x, int64_t t, int64_t k) {
    int32_t high = ls_acts_plane(x, t, 0)[k];
    return x->planes == 1 ? high : high * 4096 + ls_acts_plane(x, t, 1)[k];
}

static float product(const ls_weight_form *f, const row *w, const ls_acts *x, int64_t t, float bias, mistake m) {
    int64_t acc = 0, accx = 0, groups = m == DROPPED_GROUP ? f->groups - 1 : f->groups, cols = m == SHORT_TAIL ? f->cols - 1 : f->cols;
    for (int64_t g = 0; g < groups; g++) {
        int64_t dot = 0, sum = 0, end = (g + 1) * f->group < cols ? (g + 1) * f->group : cols;
        int a = x->drop[t * x->blocks + g * f->group / LS_EXACT_BLOCK];
        for (int64_t k = g * f->group; k < end; k++) {
            dot += mantissa(x, t, k) * (w->u[k] - (m == MISSING_ZERO ? 0 : f->zero));
            sum += mantissa(x, t, k);
        }
        dot = ls_rshift(dot, f->c);
        dot = m == TRUNCATED_SHIFT ? dot >> a : ls_rshift(dot, a);
        acc += ls_rshift(w->scale[g] * dot, f->h);
        if (f->has_min) accx += ls_rshift(w->min[g] * ls_rshift(sum, a), f->h);
        if (m == NARROW_SUM) acc = (int32_t)acc;
    }
    float y = ((float)(acc + ls_rshift(accx, f->c)) * ls_pow2(w->r + f->c + f->h)) * x->factor[t];
    return seen->c.bias ? ls_canon(ls_canon(y) + ls_canon(bias)) : ls_canon(y);
}

static void read_row(const ls_packed *w, int64_t n, row *r, mistake m) {
    const ls_tensor *t = &seen->tensor.t;
    ls_weight_form_row(&w->form, t, n, r->u, r->scale, r->min, &r->r, r->scratch);
    if (m != TRUNCATED_SCALE || !w->form.quantised) return;
    int split = ls_tensor_group(t) / w->form.group;
    float *s = r->scratch, *min = s + w->form.groups;
    ls_tensor_row_quant(t, n, (uint8_t *)(min + w->form.groups), s, min);
    truncate_scales(r, w->form.groups, s, split);
}

static void run(const ls_packed *w, int64_t tile_begin, int64_t tile_end, const ls_acts *x, int64_t row_begin, int64_t row_end,
                const ls_linear_out *out, mistake m) {
    size_t cols = (size_t)w->form.cols, groups = (size_t)w->form.groups;
    row r = {.u = calloc(cols, 4), .scale = calloc(groups, 4), .min = calloc(groups, 4), .scratch = calloc(cols + 2 * groups + 64, 4)};
    if (!r.u || !r.scale || !r.min || !r.scratch) exit(2);
    int64_t end = tile_end * LS_TILE < w->rows ? tile_end * LS_TILE : w->rows;
    for (int64_t n = tile_begin * LS_TILE; n < (m == MISSING_ROW ? end - 1 : end); n++) {
        read_row(w, n, &r, m);
        for (int64_t t = row_begin; t < row_end; t++)
            out->y[t * out->stride + n - out->first] = product(&w->form, &r, x, t, out->bias ? out->bias[n] : 0.0f, m);
    }
    if (m == OVERREAD) (void)*(volatile const int16_t *)&x->q[x->rows * x->planes * x->blocks * LS_EXACT_BLOCK];
    if (m == WRITE_PAST) out->y[(row_end - 1) * out->stride + end - out->first] = 0.0f;
    if (m == MODIFIED_INPUT) x->drop[0] = 0;
    free(r.u);
    free(r.scale);
    free(r.min);
    free(r.scratch);
}

#define BUG(name, mistake)                                                                                                             \
    static void name(const ls_packed *w, int64_t tile_begin, int64_t tile_end, const ls_acts *x, int64_t row_begin, int64_t row_end,   \
                     const ls_linear_out *out, void *scratch) {                                                                        \
        (void)scratch;                                                                                                                 \
        run(w, tile_begin, tile_end, x, row_begin, row_end, out, mistake);                                                             \
    }
BUG(none, NONE)
BUG(short_tail, SHORT_TAIL)
BUG(dropped_group, DROPPED_GROUP)
BUG(truncated_shift, TRUNCATED_SHIFT)
BUG(missing_zero, MISSING_ZERO)
BUG(truncated_scale, TRUNCATED_SCALE)
BUG(missing_row, MISSING_ROW)
BUG(overread, OVERREAD)
BUG(write_past, WRITE_PAST)
BUG(modified_input, MODIFIED_INPUT)
BUG(narrow_sum, NARROW_SUM)

static void plain_quantise(const ls_acts *a, int64_t t, const float *x, int end, bool drop_far) {
    int p = a->planes == 1 ? LS_EXACT_P16 : LS_EXACT_P24;
    for (int64_t b = 0; b < a->blocks; b++) {
        uint32_t max = 0;
        int64_t last = (b + 1) * LS_EXACT_BLOCK < a->cols + end ? (b + 1) * LS_EXACT_BLOCK : a->cols + end;
        for (int64_t k = b * LS_EXACT_BLOCK; k < last; k++)
            if ((ls_bits(x[k]) & 0x7FFFFFFFu) > max) max = ls_bits(x[k]) & 0x7FFFFFFFu;
        int e = ls_block_exponent(max);
        a->drop[t * a->blocks + b] = e;
        for (int64_t k = b * LS_EXACT_BLOCK; k < (b + 1) * LS_EXACT_BLOCK; k++) {
            int32_t q = k < last ? ls_mantissa(x[k], e, p) : 0, high = a->planes == 1 ? q : (q + 2048) >> 12;
            ls_acts_plane(a, t, 0)[k] = (int16_t)high;
            if (a->planes == 2) ls_acts_plane(a, t, 1)[k] = (int16_t)(q - high * 4096);
        }
        ls_block_sums sums;
        for (int i = 0; i < a->planes; i++)
            for (int g = 0; g < 4; g++) {
                const int16_t *q = ls_acts_plane(a, t, i) + b * LS_EXACT_BLOCK + 16 * g;
                int32_t sum = 0;
                uint32_t cross = 0;
                for (int k = 0; k < 16; k++) {
                    sum += q[k];
                    if (k % 8 / 2 == 2) cross += (uint32_t)(q[k] * q[k + 2]);
                }
                sums.plane[i][g] = sum;
                sums.cross[i][g] = (int32_t)cross;
            }
        ls_acts_put_sums(a, t, b, a->planes, &sums);
    }
    if (drop_far) {
        ls_acts_finish(a, t, a->planes);
        return;
    }
    int32_t *drop = a->drop + t * a->blocks, lowest = drop[0];
    for (int64_t b = 0; b < a->blocks; b++) lowest = drop[b] < lowest ? drop[b] : lowest;
    for (int64_t b = 0; b < a->blocks; b++) drop[b] = lowest;
    ls_acts_finish(a, t, a->planes);
}

static void quantise_right(const ls_acts *a, int64_t t, const float *x) { plain_quantise(a, t, x, 0, true); }
static void quantise_short(const ls_acts *a, int64_t t, const float *x) { plain_quantise(a, t, x, -1, true); }
static void quantise_over(const ls_acts *a, int64_t t, const float *x) { plain_quantise(a, t, x, 1, true); }
static void quantise_flat(const ls_acts *a, int64_t t, const float *x) { plain_quantise(a, t, x, 0, false); }

/* The first of each kind is right. */
const ck_bug ck_bugs[] = {
    {"no mistake", none, NULL},
    {"no mistake (quantise)", NULL, quantise_right},
    {"off by one at the tail", short_tail, NULL},
    {"a dropped group", dropped_group, NULL},
    {"an alignment shift without rounding", truncated_shift, NULL},
    {"a missing zero point", missing_zero, NULL},
    {"a truncated scale", truncated_scale, NULL},
    {"an output that is not written", missing_row, NULL},
    {"a read one past the end", overread, NULL},
    {"a write one past the end", write_past, NULL},
    {"a modified input", modified_input, NULL},
    {"sums of 32 bits", narrow_sum, NULL},
    {"off by one at the tail (quantise)", NULL, quantise_short},
    {"a read one past the end (quantise)", NULL, quantise_over},
    {"one exponent for all blocks (quantise)", NULL, quantise_flat},
};
const size_t ck_n_bugs = sizeof ck_bugs / sizeof *ck_bugs;
