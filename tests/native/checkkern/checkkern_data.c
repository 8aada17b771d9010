/* Inputs of the cases: matrices in every file format and rows of activations, ordinary and extreme. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "checkkern.h"
#include "contract/exact.h"

const ck_format ck_formats[] = {
    {"Q4_0", LS_Q4_0, 0, 0, 0},
    {"Q4_1", LS_Q4_1, 0, 0, 0},
    {"Q5_0", LS_Q5_0, 0, 0, 0},
    {"Q5_1", LS_Q5_1, 0, 0, 0},
    {"Q8_0", LS_Q8_0, 0, 0, 0},
    {"Q2_K", LS_Q2_K, 0, 0, 0},
    {"Q3_K", LS_Q3_K, 0, 0, 0},
    {"Q4_K", LS_Q4_K, 0, 0, 0},
    {"Q5_K", LS_Q5_K, 0, 0, 0},
    {"Q6_K", LS_Q6_K, 0, 0, 0},
    {"IQ4_NL", LS_IQ4_NL, 0, 0, 0},
    {"MLX2/32/F16", LS_MLX_AFFINE, 2, 32, LS_F16},
    {"MLX3/64/BF16", LS_MLX_AFFINE, 3, 64, LS_BF16},
    {"MLX4/64/F16", LS_MLX_AFFINE, 4, 64, LS_F16},
    {"MLX4/32/BF16", LS_MLX_AFFINE, 4, 32, LS_BF16},
    {"MLX4/128/F32", LS_MLX_AFFINE, 4, 128, LS_F32},
    {"MLX6/64/F32", LS_MLX_AFFINE, 6, 64, LS_F32},
    {"MLX8/128/BF16", LS_MLX_AFFINE, 8, 128, LS_BF16},
    {"MLX8/32/F16", LS_MLX_AFFINE, 8, 32, LS_F16},
    {"F32", LS_F32, 0, 0, 0},
    {"F16", LS_F16, 0, 0, 0},
    {"BF16", LS_BF16, 0, 0, 0},
};
const size_t ck_n_formats = sizeof ck_formats / sizeof *ck_formats;

uint32_t ck_random(ck_rng *r) {
    uint64_t z = r->state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return (uint32_t)(z >> 32);
}

int64_t ck_between(ck_rng *r, int64_t lo, int64_t hi) { return lo + (int64_t)(ck_random(r) % (uint64_t)(hi - lo + 1)); }

int ck_granule(const ck_format *f) {
    if (f->format == LS_MLX_AFFINE) return f->mlx_group;
    return ls_format_get(f->format)->block;
}

/* A float with a random sign and mantissa and an exponent 2^lo to 2^hi. */
static float random_float(ck_rng *r, int lo, int hi) {
    uint32_t u = ck_random(r);
    return ls_from_bits((u & 0x807FFFFFu) | (uint32_t)(ck_between(r, lo, hi) + 127) << 23);
}

/* Scales: near 1/16; the largest; anything f16 holds, so that most of a row's last bits are rounded away; zero. */
static float random_scale(ck_rng *r, ck_weights kind) {
    if (kind == CK_W_ZERO) return 0.0f;
    if (kind == CK_W_ONES) return 32768.0f;
    if (kind == CK_W_WIDE) return ls_f16_to_f32((uint16_t)(ck_random(r) & 0xFBFFu));
    return random_float(r, -5, -4);
}

static void put_float(uint8_t *p, ls_format f, float v) {
    uint16_t h = f == LS_F16 ? ls_f32_to_f16(v) : ls_f32_to_bf16(v);
    if (f == LS_F32) memcpy(p, &v, sizeof v);
    else memcpy(p, &h, sizeof h);
}

/* Byte offsets of a block's f16 factors. */
static int factors_of(ls_format f, int at[2]) {
    at[0] = f == LS_Q2_K ? 80 : f == LS_Q3_K ? 108 : f == LS_Q6_K ? 208 : 0;
    at[1] = f == LS_Q2_K ? 82 : 2;
    return ls_format_get(f)->has_min ? 2 : 1;
}

static void fill_bytes(uint8_t *p, size_t n, ck_weights kind, ck_rng *r) {
    for (size_t i = 0; i < n; i++) p[i] = kind == CK_W_ONES ? 0xFF : kind == CK_W_ALTERNATING ? (i & 1 ? 0xF0 : 0x0F) : (uint8_t)ck_random(r);
}

/* Every sign and mantissa of an f16 or bf16 at every distance that counts below the number that begins its block, in blocks whose exponent is that number's
 * and, a second time, in blocks whose exponent is one higher (1.984375 and more go up). An odd number of blocks has them all, so the two kinds take turns. */
static float every_float(int64_t i, ls_format f) {
    enum { DISTANCES = 26, BLOCKS = 847 };
    const int64_t block = i / LS_EXACT_BLOCK, place = i % LS_EXACT_BLOCK;
    const int bits = f == LS_BF16 ? 7 : 10;
    if (!place) return block % 2 ? -256.0f : 511.0f;
    uint32_t at = (uint32_t)(block % BLOCKS * (LS_EXACT_BLOCK - 1) + place - 1), mantissa = (at >> 1) & ((1u << bits) - 1);
    return ls_from_bits(at << 31 | (127 + 8 - (at >> (bits + 1)) % DISTANCES) << 23 | mantissa << (23 - bits));
}

static void fill_floats(ck_tensor *t, int64_t rows, int64_t cols, ck_weights kind, ck_rng *r) {
    int size = ls_format_get(t->t.format)->block_bytes;
    for (int64_t i = 0; i < rows * cols; i++) {
        float v = random_float(r, -6, -2);
        if (kind == CK_W_ONES) v = 1.984f;
        if (kind == CK_W_WIDE) v = random_float(r, t->t.format == LS_F16 ? -14 : -60, t->t.format == LS_F16 ? 15 : 39);
        if (kind == CK_W_ZERO) v = 0.0f;
        if (kind == CK_W_ALTERNATING) v = i & 1 ? -1.5f : 1.5f;
        if (kind == CK_W_EVERY) v = every_float(i, t->t.format);
        if (t->t.format == LS_F16 && fabsf(v) > 65504.0f) v = copysignf(65504.0f, v); /* no infinities: checkpoints with them are refused */
        put_float(t->data + i * size, t->t.format, v);
    }
}

static uint8_t *take(size_t n) {
    uint8_t *p = calloc(n ? n : 1, 1);
    if (!p) exit(2);
    return p;
}

static void fill_mlx(ck_tensor *t, const ck_format *f, int64_t groups, ck_weights kind, ck_rng *r) {
    int size = ls_format_get(f->scale_format)->block_bytes;
    t->t.scale_bytes = (size_t)(groups * size);
    t->scales = take(t->t.scale_bytes);
    t->biases = take(t->t.scale_bytes);
    for (int64_t g = 0; g < groups; g++) {
        put_float(t->scales + g * size, f->scale_format, random_scale(r, kind));
        put_float(t->biases + g * size, f->scale_format, random_scale(r, kind));
    }
    t->t.scales = t->scales;
    t->t.biases = t->biases;
}

static void fill_blocks(ck_tensor *t, ck_weights kind, ck_rng *r) {
    const ls_format_info *info = ls_format_get(t->t.format);
    int at[2], n = factors_of(t->t.format, at);
    for (size_t b = 0; b < t->t.bytes; b += (size_t)info->block_bytes)
        for (int i = 0; i < n; i++) put_float(t->data + b + at[i], LS_F16, random_scale(r, kind));
}

void ck_tensor_init(ck_tensor *t, const ck_format *f, int64_t rows, int64_t cols, ck_weights kind, ck_rng *r) {
    const ls_format_info *info = ls_format_get(f->format);
    bool mlx = f->format == LS_MLX_AFFINE;
    *t = (ck_tensor){.t = {.name = f->name, .dtype = f->name, .format = f->format, .rank = 2, .shape = {rows, cols}}};
    t->t.mlx_bits = f->mlx_bits;
    t->t.mlx_group = f->mlx_group;
    t->t.scale_format = f->scale_format;
    t->t.bytes = mlx ? (size_t)(rows * cols / 8 * f->mlx_bits) : (size_t)(rows * cols / info->block * info->block_bytes);
    t->data = take(t->t.bytes);
    t->t.data = t->data;
    if (!mlx && !info->group) {
        fill_floats(t, rows, cols, kind, r);
        return;
    }
    fill_bytes(t->data, t->t.bytes, kind, r);
    if (mlx) fill_mlx(t, f, rows * cols / f->mlx_group, kind, r);
    else fill_blocks(t, kind, r);
}

void ck_tensor_deinit(ck_tensor *t) {
    free(t->data);
    free(t->scales);
    free(t->biases);
}

void ck_fill(float *x, int64_t n, ck_inputs kind, ck_rng *r) {
    static const int apart[] = {0, -24, -23, -25, -22, -16, -12, -8}; /* below the largest: blocks that are dropped nearly or quite */
    int exponent = 0;
    for (int64_t i = 0; i < n; i++) {
        if (i % LS_EXACT_BLOCK == 0 && kind != CK_X_WIDE) exponent = (int)ck_between(r, -30, -20);
        if (i % LS_EXACT_BLOCK == 0 && kind == CK_X_WIDE) exponent = ck_random(r) % 4 ? (int)ck_between(r, -30, 0) : (int)ck_between(r, -99, 99);
        if (kind == CK_X_APART) exponent = apart[i / LS_EXACT_BLOCK % 8];
        if (kind == CK_X_RANDOM) x[i] = random_float(r, exponent + 16, exponent + 22);
        else if (kind == CK_X_LARGEST) x[i] = ls_from_bits(0x3FFDFFFFu); /* just below 1.984375: the largest mantissa */
        else if (kind == CK_X_WIDE) x[i] = ck_random(r) % 8 ? random_float(r, exponent, exponent) : 0.0f;
        else if (kind == CK_X_APART) x[i] = random_float(r, exponent, exponent);
        else if (kind == CK_X_ZERO) x[i] = i % 2 ? -0.0f : 0.0f;
        else x[i] = ls_from_bits(0x3FFDFFFFu | (uint32_t)(i & 1) << 31);
    }
}
