/* Tensors of the exact probes, made in memory: f32, f16 and bf16 values, GGUF blocks and MLX affine words. Fixtures hold what
 * an operator may meet: zeros of both signs, magnitudes over the whole canonical range, values that canon clamps or drops. */
#include <math.h>
#include <string.h>

#include "contract/exact.h"
#include "verify/oracle_graph.h"

static uint64_t next(ls_exact_build *b) { /* splitmix64 */
    uint64_t z = (b->seed += 0x9E3779B97F4A7C15u);
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

/* In (-1, 1), all 24 bits drawn. */
static float unit(ls_exact_build *b) { return (float)(int32_t)(next(b) >> 40) * 0x1p-23f - 1.0f; }

static ls_code list_operand(ls_exact_build *b, const char *name, ls_dtype dtype, int64_t rows, int64_t cols, const void *data, size_t bytes, ls_error *e) {
    ls_oracle_case *c = b->c;
    if (c->n_operands == LS_ORACLE_MAX_OPERANDS) LS_FAIL(e, LS_INTERNAL, "exact probe \"%s\" has more than %d tensors", b->probe->key, LS_ORACLE_MAX_OPERANDS);
    c->operands[c->n_operands++] = (ls_oracle_tensor){.name = name, .type = {.dtype = dtype, .rank = 2, .dim = {rows, cols}}, .data = data, .bytes = bytes};
    return LS_OK;
}

/* ---- Values --------------------------------------------------------------------------------------------------------- */

/* Row of the fixture: special rows first, then random rows with exponents that differ by row and within it. */
static float fixture_value(ls_exact_build *b, int64_t row, int64_t col) {
    float v = unit(b);
    switch (row) {
        case 0: return 0.0f;
        case 1: return -0.0f;
        case 2: return v < 0 ? -0x1p112f : 0x1p105f;       /* clamped to 2^100 */
        case 3: return v * 0x1p-110f;                       /* dropped to 0 */
        case 4: return col == 5 ? 0x1p90f : v;              /* one large column hides the others */
        case 5: return v * ls_pow2((int)(next(b) % 201) - 100); /* every exponent */
        case 6: return v * 0x1p-20f;
        case 7: return (float)(int)(v * 8);                 /* ties and equal values */
        default: return v * ls_pow2((int)(row % 9) - 4) * ls_pow2((int)(next(b) % 3));
    }
}

/* Offsets of the f16 factors inside a block; the other bytes may be anything. */
static const struct {
    ls_format format;
    int at[2]; /* -1: none */
} factors[] = {{LS_Q4_0, {0, -1}}, {LS_Q4_1, {0, 2}}, {LS_Q5_0, {0, -1}}, {LS_Q5_1, {0, 2}}, {LS_Q8_0, {0, -1}}, {LS_Q2_K, {80, 82}},
               {LS_Q3_K, {108, -1}}, {LS_Q4_K, {0, 2}}, {LS_Q5_K, {0, 2}}, {LS_Q6_K, {208, -1}}, {LS_IQ4_NL, {0, -1}}};

static void fill_blocks(ls_exact_build *b, ls_tensor *t, uint8_t *data) {
    const ls_format_info *f = ls_format_get(t->format);
    for (size_t i = 0; i < t->bytes; i++) data[i] = (uint8_t)next(b);
    for (size_t k = 0; k < sizeof factors / sizeof *factors; k++)
        for (size_t block = 0; factors[k].format == t->format && block < t->bytes / (size_t)f->block_bytes; block++)
            for (int i = 0; i < 2 && factors[k].at[i] >= 0; i++) {
                uint16_t h = ls_f32_to_f16(unit(b) * 0x1p-4f);
                memcpy(data + block * (size_t)f->block_bytes + factors[k].at[i], &h, sizeof h);
            }
}

/* The fixture's values v as v = x y y in the two halves of each row: weights, and so tables, are below 2^40. */
static void fill_fixture(ls_exact_build *b, ls_tensor *t, float *data) {
    int64_t half = t->shape[1] / 2;
    for (int64_t row = 0; row < t->shape[0]; row++)
        for (int64_t col = 0; col < half; col++) {
            int e;
            float m = frexpf(fixture_value(b, row, col), &e), *at = data + 2 * row * half + col;
            at[0] = ldexpf(m, e - 2 * (e / 3));
            at[half] = ldexpf(1, e / 3);
        }
}

/* f32, f16 or bf16 values, uniform in [-1, 1). */
static void fill_floats(ls_exact_build *b, ls_tensor *t, void *data) {
    int64_t n = ls_tensor_rows(t) * t->shape[t->rank - 1];
    for (int64_t i = 0; i < n; i++) {
        float v = unit(b);
        if (t->format == LS_F32) ((float *)data)[i] = v;
        else ((uint16_t *)data)[i] = t->format == LS_F16 ? ls_f32_to_f16(v) : ls_f32_to_bf16(v);
    }
}

/* ---- Tensors -------------------------------------------------------------------------------------------------------- */

/* 4-bit words in groups of 32 with bf16 scales and biases. */
static ls_code fill_mlx(ls_exact_build *b, ls_tensor *t, int64_t rows, int64_t cols, ls_error *e) {
    enum { BITS = 4, GROUP = 32 };
    size_t words = (size_t)(rows * cols * BITS / 32), groups = (size_t)(rows * cols / GROUP);
    uint32_t *q;
    uint16_t *scales, *biases;
    LS_TRY(ls_arena_alloc(b->a, &q, words, sizeof *q, e));
    LS_TRY(ls_arena_alloc(b->a, &scales, groups, sizeof *scales, e));
    LS_TRY(ls_arena_alloc(b->a, &biases, groups, sizeof *biases, e));
    for (size_t i = 0; i < words; i++) q[i] = (uint32_t)next(b);
    for (size_t i = 0; i < groups; i++) {
        scales[i] = ls_f32_to_bf16(unit(b) * 0x1p-4f);
        biases[i] = ls_f32_to_bf16(unit(b));
    }
    t->data = q;
    t->bytes = words * sizeof *q;
    t->mlx_bits = BITS;
    t->mlx_group = GROUP;
    t->scale_format = LS_BF16;
    t->scales = scales;
    t->biases = biases;
    t->scale_bytes = groups * sizeof *scales;
    LS_TRY(list_operand(b, t->name, LS_DT_U32, rows, cols * BITS / 32, q, t->bytes, e));
    LS_TRY(list_operand(b, "scales", LS_DT_BF16, rows, cols / GROUP, scales, t->scale_bytes, e));
    return list_operand(b, "biases", LS_DT_BF16, rows, cols / GROUP, biases, t->scale_bytes, e);
}

static ls_code fill(ls_exact_build *b, ls_tensor *t, int64_t rows, int64_t cols, bool fixture, ls_error *e) {
    if (t->format == LS_MLX_AFFINE) return fill_mlx(b, t, rows, cols, e);
    const ls_format_info *f = ls_format_get(t->format);
    bool is_float = f->group == 0;
    size_t row_bytes = (size_t)(cols / f->block) * (size_t)f->block_bytes;
    void *data;
    t->bytes = (size_t)rows * row_bytes;
    LS_TRY(ls_arena_alloc(b->a, &data, t->bytes, 1, e));
    t->data = data;
    if (fixture) fill_fixture(b, t, data);
    else if (is_float) fill_floats(b, t, data);
    else fill_blocks(b, t, data);
    ls_dtype dtype = t->format == LS_F32 ? LS_DT_F32 : t->format == LS_F16 ? LS_DT_F16 : t->format == LS_BF16 ? LS_DT_BF16 : LS_DT_U8;
    return list_operand(b, t->name, dtype, rows, is_float ? cols : (int64_t)row_bytes, data, t->bytes, e);
}

static ls_code make(ls_exact_build *b, const ls_param **out, const char *name, ls_format format, int64_t rows, int64_t cols, bool fixture, ls_error *e) {
    ls_tensor *t;
    ls_param *p;
    LS_TRY(ls_arena_alloc(b->a, &t, 1, sizeof *t, e));
    LS_TRY(ls_arena_alloc(b->a, &p, 1, sizeof *p, e));
    *t = (ls_tensor){.name = name, .dtype = ls_format_get(format)->name, .format = format, .rank = 2, .shape = {rows, cols}};
    LS_TRY(fill(b, t, rows, cols, fixture, e));
    *p = (ls_param){.name = name, .tensor = t, .rows = rows, .cols = cols};
    *out = p;
    return LS_OK;
}

ls_code ls_exact_param(ls_exact_build *b, const ls_param **out, const char *name, ls_format format, int64_t rows, int64_t cols, ls_error *e) {
    return make(b, out, name, format, rows, cols, false, e);
}

ls_code ls_exact_table(ls_exact_build *b, const ls_param **out, ls_format format, int64_t cols, ls_error *e) {
    return make(b, out, "table", format, LS_EXACT_VOCAB, cols, false, e);
}

ls_code ls_exact_fixture(ls_exact_build *b, const ls_param **out, int64_t cols, ls_error *e) {
    return make(b, out, "table", LS_F32, LS_EXACT_VOCAB, 2 * cols, true, e);
}
