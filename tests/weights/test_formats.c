/* Formats: half-precision conversions over all patterns, and every quantised format against what the gguf package and
 * MLX give (goldens of tools/make_weight_goldens.py), bit for bit. */
#include "support.h"

#include <math.h>

#include "base/sha256.h"

static uint32_t bits_of(float f) {
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

/* The exact value of an f16 pattern, from its definition. */
static double half_value(unsigned h) {
    double m = h & 0x3FF;
    int exponent = h >> 10 & 31;
    double v = exponent ? ldexp(1024 + m, exponent - 25) : ldexp(m, -24);
    return h & 0x8000 ? -v : v;
}

static void f16_widens_exactly_and_rounds_to_even(void **state) {
    (void)state;
    for (unsigned h = 0; h < 0x10000; h++) {
        float f = ls_f16_to_f32((uint16_t)h);
        if ((h & 0x7C00) == 0x7C00) {
            assert_int_equal(isnan(f) != 0, (h & 0x3FF) != 0);
            continue;
        }
        assert_true((double)f == half_value(h) && (signbit(f) != 0) == (h >> 15 != 0));
        assert_int_equal(ls_f32_to_f16(f), h);
        if ((h & 0x7FFF) == 0x7BFF) continue;
        /* The middle between |h| and the next larger magnitude goes to the even one, anything beside it to the near
         * one. */
        float middle = (float)((half_value(h) + half_value(h + 1)) / 2);
        assert_int_equal(ls_f32_to_f16(middle), h & 1 ? h + 1 : h);
        assert_int_equal(ls_f32_to_f16(nextafterf(middle, 0)), h);
        assert_int_equal(ls_f32_to_f16(nextafterf(middle, signbit(middle) ? -INFINITY : INFINITY)), h + 1);
    }
    assert_int_equal(ls_f32_to_f16(65519.996f), 0x7BFF);
    assert_int_equal(ls_f32_to_f16(65520.0f), 0x7C00);
    assert_int_equal(ls_f32_to_f16(-INFINITY), 0xFC00);
    assert_true(isnan(ls_f16_to_f32(ls_f32_to_f16(NAN))));
}

/* All values in rows of every length up to a few runs of vectors, at odd addresses too. */
static void f16_rows_are_their_values(void **state) {
    (void)state;
    enum { MOST = 100 };
    uint8_t bytes[2 * MOST + 1];
    float row[MOST + 1];
    unsigned h = 0;
    for (unsigned n = 1; n <= MOST; n++)
        for (unsigned end = h + 0x10000 / MOST; h <= end; h += n) {
            uint8_t *p = bytes + n % 2;
            for (unsigned i = 0; i < n; i++) p[2 * i] = (uint8_t)(h + i), p[2 * i + 1] = (uint8_t)((h + i) >> 8);
            row[n] = 42;
            ls_f16_row_to_f32(p, n, row);
            for (unsigned i = 0; i < n; i++) assert_int_equal(bits_of(row[i]), bits_of(ls_f16_to_f32((uint16_t)(h + i))));
            assert_true(row[n] == 42);
        }
    assert_true(h > 0x10000);
}

static void bf16_widens_exactly_and_rounds_to_even(void **state) {
    (void)state;
    for (unsigned h = 0; h < 0x10000; h++) {
        float f = ls_bf16_to_f32((uint16_t)h);
        assert_int_equal(bits_of(f), h << 16);
        if ((h & 0x7F80) == 0x7F80) continue;
        assert_int_equal(ls_f32_to_bf16(f), h);
        uint32_t u = h << 16 | 0x8000;
        float middle, below, above;
        memcpy(&middle, &u, 4);
        u--;
        memcpy(&below, &u, 4);
        u += 2;
        memcpy(&above, &u, 4);
        assert_int_equal(ls_f32_to_bf16(middle), h & 1 ? h + 1 : h);
        assert_int_equal(ls_f32_to_bf16(below), h);
        assert_int_equal(ls_f32_to_bf16(above), h + 1);
    }
    assert_true(isnan(ls_bf16_to_f32(ls_f32_to_bf16(NAN))));
    assert_int_equal(ls_f32_to_bf16(INFINITY), 0x7F80);
}

static void format_constants_are_consistent(void **state) {
    (void)state;
    for (int f = 0; f < LS_FORMAT_COUNT; f++) {
        const ls_format_info *i = ls_format_get((ls_format)f);
        assert_non_null(i->name);
        if (i->group) assert_true(i->block % i->group == 0 && i->bits <= 8 && i->zero < 1 << i->bits);
    }
    assert_string_equal(ls_format_get((ls_format)99)->name, "OTHER");
}

/* One row through both views: the integers, rounded step by step in |in|, must give row_f32's bits. */
static void check_split(const ls_tensor *t, int64_t row, const float *f32) {
    int64_t n = t->shape[t->rank - 1], groups = n / ls_tensor_group(t);
    const ls_format_info *f = ls_format_get(t->format);
    uint8_t *q = malloc((size_t)n);
    float *scale = malloc((size_t)groups * 4), *min = malloc((size_t)groups * 4);
    for (int64_t g = 0; g < groups; g++) min[g] = -77;
    ls_tensor_row_quant(t, row, q, scale, min);
    ls_format in = t->format == LS_MLX_AFFINE ? t->scale_format : LS_F32;
    int bits = t->format == LS_MLX_AFFINE ? t->mlx_bits : f->bits;
    for (int64_t k = 0; k < n; k++) {
        int64_t g = k / ls_tensor_group(t);
        double exact = (double)scale[g] * (q[k] - f->zero); /* 24 by 8 bits: exact */
        float x = ls_round_float(in, (float)exact);
        if (f->has_min) x = ls_round_float(in, x + min[g]);
        else assert_true(min[g] == -77);
        if (bits_of(x) != bits_of(f32[k]))
            fail_msg("%s row %d column %d: %a, row_f32 %a", t->name, (int)row, (int)k, x, f32[k]);
        assert_true(q[k] < 1 << bits);
    }
    free(q);
    free(scale);
    free(min);
}

static void check_rows(const ls_tensor *t, const float *want) {
    int64_t n = t->shape[t->rank - 1];
    float *got = malloc((size_t)n * 4);
    for (int64_t r = 0; r < ls_tensor_rows(t); r++) {
        ls_tensor_row_f32(t, r, got);
        for (int64_t k = 0; k < n; k++)
            if (bits_of(got[k]) != bits_of(want[r * n + k]))
                fail_msg("%s row %d column %d: got %a, want %a", t->name, (int)r, (int)k, got[k], want[r * n + k]);
        if (ls_tensor_group(t)) check_split(t, r, got);
    }
    free(got);
}

static void every_gguf_format_reads_as_the_gguf_package_does(void **state) {
    (void)state;
    ls_error e = {0};
    ls_checkpoint *c;
    assert_ok(ls_checkpoint_open(&c, LS_FIXTURES "/weights/blocks.gguf", &e));
    size_t size, at = 0;
    float *want = (float *)(void *)slurp(LS_FIXTURES "/weights/blocks.f32", &size);
    assert_int_equal(ls_checkpoint_count(c), 14);
    for (size_t i = 0; i < 14; i++) {
        const ls_tensor *t = ls_checkpoint_at(c, i);
        /* The floats are random bits, many beyond what weights may be. */
        if (ls_tensor_group(t)) assert_ok(ls_tensor_check_finite(t, &e));
        assert_int_equal(ls_tensor_rows(t), 3);
        check_rows(t, want + at);
        at += 3 * 512;
    }
    assert_int_equal(at * 4, size);
    free(want);
    ls_checkpoint_close(c);
}

/* Byte offsets of the f16 factors, as in the script. */
static const struct {
    ls_format format;
    int type, halves[2];
} generated[] = {{LS_Q4_0, 2, {0, -1}},  {LS_Q4_1, 3, {0, 2}},    {LS_Q5_0, 6, {0, -1}},   {LS_Q5_1, 7, {0, 2}},
                 {LS_Q8_0, 8, {0, -1}},  {LS_Q2_K, 10, {80, 82}}, {LS_Q3_K, 11, {108, -1}}, {LS_Q4_K, 12, {0, 2}},
                 {LS_Q5_K, 13, {0, 2}},  {LS_Q6_K, 14, {208, -1}}, {LS_IQ4_NL, 20, {0, -1}}};

static uint8_t *generate_blocks(size_t which, size_t n) {
    size_t bytes = (size_t)ls_format_get(generated[which].format)->block_bytes, step = 65536 / n;
    uint8_t *p = malloc(n * bytes);
    random_bytes((uint64_t)generated[which].type + 1, p, n * bytes);
    for (size_t i = 0; i < 2; i++) {
        if (generated[which].halves[i] < 0) continue;
        for (size_t b = 0; b < n; b++) {
            unsigned h = (unsigned)((b * step + b % step + i * 12345) % 65536);
            if ((h & 0x7C00) == 0x7C00) h &= ~0x0400u;
            uint8_t *at = p + b * bytes + generated[which].halves[i];
            at[0] = (uint8_t)h;
            at[1] = (uint8_t)(h >> 8);
        }
    }
    return p;
}

/* In the K formats a scale is d times a small integer, exactly. */
static void check_scales_are_products(const ls_tensor *t, int half) {
    const ls_format_info *f = ls_format_get(t->format);
    uint8_t q[256];
    float scale[16], min[16];
    for (int64_t b = 0; b < t->shape[0]; b++) {
        ls_tensor_row_quant(t, b, q, scale, min);
        double d = ls_f16_to_f32(ls_load_u16((const uint8_t *)t->data + b * f->block_bytes + half));
        for (int g = 0; g < f->block / f->group; g++) {
            double k = d == 0 ? 0 : scale[g] / d;
            assert_true(k == nearbyint(k) && fabs(k) <= 128 && k * d == (double)scale[g]);
        }
    }
}

static void generated_blocks_have_the_packages_digest(void **state) {
    (void)state;
    size_t size;
    char *text = (char *)slurp(LS_FIXTURES "/weights/blocks.sha256", &size);
    char *line = strtok(text, "\n");
    for (size_t i = 0; i < sizeof generated / sizeof *generated; i++, line = strtok(NULL, "\n")) {
        char name[16], want[65], got[65];
        size_t n;
        assert_int_equal(sscanf(line, "%15s %zu %64s", name, &n, want), 3);
        const ls_format_info *f = ls_format_get(generated[i].format);
        assert_string_equal(f->name, name);
        uint8_t *blocks = generate_blocks(i, n);
        ls_tensor t = {.name = f->name,
                       .dtype = f->name,
                       .format = generated[i].format,
                       .rank = 2,
                       .shape = {(int64_t)n, f->block},
                       .data = blocks,
                       .bytes = n * (size_t)f->block_bytes};
        ls_sha256 h;
        ls_sha256_init(&h);
        float row[256];
        for (size_t b = 0; b < n; b++) {
            ls_tensor_row_f32(&t, (int64_t)b, row);
            ls_sha256_update(&h, row, (size_t)f->block * 4);
            if (b % 16 == 0) check_split(&t, (int64_t)b, row);
        }
        uint8_t digest[32];
        ls_sha256_final(&h, digest);
        ls_sha256_hex(digest, got);
        if (strcmp(got, want)) fail_msg("%s: digest of %zu blocks differs", name, n);
        if (f->block == 256) check_scales_are_products(&t, generated[i].halves[0]);
        free(blocks);
    }
    free(text);
}

static void check_mlx(const char *dtype, ls_format scales) {
    ls_error e = {0};
    ls_checkpoint *c;
    char path[256];
    snprintf(path, sizeof path, "%s/weights/mlx_%s", LS_FIXTURES, dtype);
    assert_ok(ls_checkpoint_open(&c, path, &e));
    snprintf(path, sizeof path, "%s/weights/mlx_%s/expected.f32", LS_FIXTURES, dtype);
    size_t size, at = 0;
    float *want = (float *)(void *)slurp(path, &size);
    assert_int_equal(ls_checkpoint_count(c), 16); /* 15 quantised and one that the config excludes */
    for (size_t i = 0; i < 16; i++) {
        const ls_tensor *t = ls_checkpoint_at(c, i);
        if (!strcmp(t->name, "plain.weight")) {
            assert_int_equal(t->format, LS_F32);
            continue;
        }
        char name[32];
        snprintf(name, sizeof name, "b%dg%d.weight", t->mlx_bits, t->mlx_group);
        assert_string_equal(t->name, name);
        assert_int_equal(t->format, LS_MLX_AFFINE);
        assert_int_equal(t->scale_format, scales);
        assert_true(t->rank == 2 && t->shape[0] == 4 && t->shape[1] == 256);
        check_rows(t, want + at);
        at += 4 * 256;
    }
    assert_int_equal(at * 4, size);
    free(want);
    ls_checkpoint_close(c);
}

static void mlx_affine_reads_as_mlx_does(void **state) {
    (void)state;
    check_mlx("f16", LS_F16);
    check_mlx("bf16", LS_BF16);
    check_mlx("f32", LS_F32);
}

static void set_half(uint8_t *p, unsigned h) {
    p[0] = (uint8_t)h;
    p[1] = (uint8_t)(h >> 8);
}

/* How many of |parts| parts find a fault. */
static int faulty_parts(const ls_tensor *t, int parts) {
    int faulty = 0;
    for (int i = 0; i < parts; i++) {
        ls_error e = {0};
        faulty += ls_tensor_check_weight_part(t, i, parts, &e) != LS_OK;
    }
    return faulty;
}

static void special_scales_are_refused_by_name_and_index(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof generated / sizeof *generated; i++) {
        const ls_format_info *f = ls_format_get(generated[i].format);
        uint8_t *blocks = generate_blocks(i, 256);
        ls_tensor t = {.name = "layer.weight",
                       .dtype = f->name,
                       .format = generated[i].format,
                       .rank = 2,
                       .shape = {256, f->block},
                       .data = blocks,
                       .bytes = 256 * (size_t)f->block_bytes};
        ls_error e = {0};
        assert_ok(ls_tensor_check_finite(&t, &e));
        for (int k = 0; k < 2; k++) {
            if (generated[i].halves[k] < 0) continue;
            uint8_t *at = blocks + 200 * f->block_bytes + generated[i].halves[k];
            uint8_t old[2] = {at[0], at[1]};
            char index[32];
            snprintf(index, sizeof index, "%d", 200 * f->block);
            set_half(at, 0xFC00);
            assert_error(ls_tensor_check_finite(&t, &e), LS_INVALID_ARGUMENT, "layer.weight");
            assert_non_null(strstr(e.text, index));
            assert_non_null(strstr(e.text, "infinite"));
            set_half(at, 0x7C01);
            assert_error(ls_tensor_check_finite(&t, &e), LS_INVALID_ARGUMENT, "NaN");
            for (int parts = 1; parts < 300; parts += 1 + parts / 4) assert_int_equal(faulty_parts(&t, parts), 1);
            memcpy(at, old, 2);
            for (int parts = 1; parts < 300; parts += 1 + parts / 4) assert_int_equal(faulty_parts(&t, parts), 0);
        }
        free(blocks);
    }
}

static void special_floats_are_refused_by_name_and_index(void **state) {
    (void)state;
    float f[5] = {0, -1, 3, NAN, 1};
    uint16_t h[3] = {0, 0x7BFF, 0x7C00}, b[4] = {0x537F, 0xFFC0, 0, 0};
    ls_error e = {0};
    ls_tensor t = {
        .name = "x", .dtype = "F32", .format = LS_F32, .rank = 1, .shape = {5}, .data = f, .bytes = sizeof f};
    assert_error(ls_tensor_check_finite(&t, &e), LS_INVALID_ARGUMENT, "\"x\" (F32): element 3 is NaN");
    t = (ls_tensor){
        .name = "y", .dtype = "F16", .format = LS_F16, .rank = 1, .shape = {3}, .data = h, .bytes = sizeof h};
    assert_error(ls_tensor_check_finite(&t, &e), LS_INVALID_ARGUMENT, "\"y\" (F16): element 2 is infinite");
    t = (ls_tensor){
        .name = "z", .dtype = "BF16", .format = LS_BF16, .rank = 1, .shape = {4}, .data = b, .bytes = sizeof b};
    assert_error(ls_tensor_check_finite(&t, &e), LS_INVALID_ARGUMENT, "\"z\" (BF16): element 1 is NaN");
    t = (ls_tensor){
        .name = "w", .dtype = "F8_E4M3", .format = LS_OTHER, .rank = 1, .shape = {4}, .data = b, .bytes = 4};
    assert_error(ls_tensor_check_finite(&t, &e), LS_UNIMPLEMENTED, "F8_E4M3");
    float out[4];
    ls_tensor_row_f32(&t, 0, out);
    assert_true(isnan(out[0]) && isnan(out[3]));
}

/* The only infinity of a tensor is named wherever it stands, and found by one part of any number. */
static void special_halves_are_found_anywhere(void **state) {
    (void)state;
    enum { N = 150 };
    uint16_t data[N] = {0};
    ls_tensor t = {.name = "x", .dtype = "F16", .format = LS_F16, .rank = 1, .shape = {N}, .data = data, .bytes = sizeof data};
    for (int i = 0; i < N; i++) {
        ls_error e = {0};
        char what[64];
        snprintf(what, sizeof what, "element %d is infinite", i);
        data[i] = i % 2 ? 0xFC00 : 0x7C00;
        assert_error(ls_tensor_check_finite(&t, &e), LS_INVALID_ARGUMENT, what);
        for (int parts = 1; parts < N + 2; parts += 1 + parts / 4) assert_int_equal(faulty_parts(&t, parts), 1);
        data[i] = i % 2 ? 0xFBFF : 0x7BFF; /* the largest finite ones stay */
        assert_ok(ls_tensor_check_finite(&t, &e));
        for (int parts = 1; parts < N + 2; parts += 1 + parts / 4) assert_int_equal(faulty_parts(&t, parts), 0);
    }
}

/* The exact contracts' overflow arguments rest on weights below 2^40. */
static void weights_beyond_the_limit_are_refused_by_name_and_index(void **state) {
    (void)state;
    float f[3] = {0x1.fffffep39f, -0x1.fffffep39f, -0x1p40f};
    uint16_t b[3] = {0x537F, 0xD37F, 0x5380};
    ls_error e = {0};
    ls_tensor t = {.name = "x", .dtype = "F32", .format = LS_F32, .rank = 1, .shape = {2}, .data = f, .bytes = 8};
    assert_ok(ls_tensor_check_weight(&t, &e));
    t.shape[0] = 3, t.bytes = sizeof f;
    assert_ok(ls_tensor_check_finite(&t, &e)); /* the float contract has no such limit */
    assert_error(ls_tensor_check_weight(&t, &e), LS_INVALID_ARGUMENT, "\"x\" (F32): element 2 is -1.09951e+12; weights must be below 2^40");
    t = (ls_tensor){.name = "z", .dtype = "BF16", .format = LS_BF16, .rank = 1, .shape = {2}, .data = b, .bytes = 4};
    assert_ok(ls_tensor_check_weight(&t, &e));
    t.shape[0] = 3, t.bytes = sizeof b;
    assert_error(ls_tensor_check_weight(&t, &e), LS_INVALID_ARGUMENT, "\"z\" (BF16): element 2 is 1.09951e+12");
    uint32_t words[8] = {0};
    float scale[2] = {0x1p38f, 1}, bias[2] = {0, 0};
    t = (ls_tensor){.name = "m", .dtype = "U32", .format = LS_MLX_AFFINE, .rank = 2, .shape = {1, 64}, .data = words, .bytes = 32, .mlx_bits = 4, .mlx_group = 32,
                    .scale_format = LS_F32, .scales = scale, .biases = bias, .scale_bytes = 8};
    assert_error(ls_tensor_check_weight(&t, &e), LS_INVALID_ARGUMENT, "the largest weight of group 0 is 4.12317e+12");
    scale[0] = 0x1p36f, bias[1] = 0x1p41f;
    assert_error(ls_tensor_check_weight(&t, &e), LS_INVALID_ARGUMENT, "bias 1 is 2.19902e+12");
    bias[1] = 0;
    assert_ok(ls_tensor_check_weight(&t, &e));
}

static void mlx_scales_that_overflow_are_refused(void **state) {
    (void)state;
    uint32_t words[4] = {0};
    uint16_t scale[1] = {0x7BFF}, bias[1] = {0};
    ls_error e = {0};
    ls_tensor t = {.name = "m",
                   .dtype = "U32",
                   .format = LS_MLX_AFFINE,
                   .rank = 2,
                   .shape = {1, 32},
                   .data = words,
                   .bytes = 16,
                   .mlx_bits = 4,
                   .mlx_group = 32,
                   .scale_format = LS_F16,
                   .scales = scale,
                   .biases = bias,
                   .scale_bytes = 2};
    assert_error(ls_tensor_check_finite(&t, &e), LS_INVALID_ARGUMENT, "the largest weight of group 0 is infinite");
    scale[0] = 0x6C00; /* 4096: 15 * 4096 fits, and -65504 brings it below */
    bias[0] = 0xFBFF;
    assert_ok(ls_tensor_check_finite(&t, &e));
    assert_int_equal(faulty_parts(&t, 3), 0);
    bias[0] = 0x7C00;
    assert_error(ls_tensor_check_finite(&t, &e), LS_INVALID_ARGUMENT, "bias 0 is infinite");
    assert_int_equal(faulty_parts(&t, 3), 1);
    scale[0] = 0x7E00;
    assert_error(ls_tensor_check_finite(&t, &e), LS_INVALID_ARGUMENT, "scale 0 is NaN");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(f16_widens_exactly_and_rounds_to_even),
        cmocka_unit_test(f16_rows_are_their_values),
        cmocka_unit_test(bf16_widens_exactly_and_rounds_to_even),
        cmocka_unit_test(format_constants_are_consistent),
        cmocka_unit_test(every_gguf_format_reads_as_the_gguf_package_does),
        cmocka_unit_test(generated_blocks_have_the_packages_digest),
        cmocka_unit_test(mlx_affine_reads_as_mlx_does),
        cmocka_unit_test(special_scales_are_refused_by_name_and_index),
        cmocka_unit_test(special_floats_are_refused_by_name_and_index),
        cmocka_unit_test(special_halves_are_found_anywhere),
        cmocka_unit_test(weights_beyond_the_limit_are_refused_by_name_and_index),
        cmocka_unit_test(mlx_scales_that_overflow_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
