/* The exact operators of src/reference against f64 formulas (accuracy), their stated edge rules, and a committed digest of
 * their bits on a fixed corpus (so that a changed definition, compiler flag or rounding mode cannot pass unnoticed). */
#include "test.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "base/sha256.h"
#include "contract/exact.h"
#include "reference/exact_linear.h"
#include "reference/exact_ops.h"

/* A fixed, portable generator: splitmix64, values with a wide spread of exponents. */
static uint64_t seed;

static uint64_t next(void) {
    uint64_t z = (seed += 0x9E3779B97F4A7C15u);
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

static float unit(void) { return (float)(int32_t)(next() >> 40) * 0x1p-23f - 1.0f; }

static float wide(int spread) { return unit() * ls_pow2((int)(next() % (uint64_t)(2 * spread + 1)) - spread); }

static void fill(float *x, size_t n, int spread) {
    for (size_t i = 0; i < n; i++) x[i] = wide(spread);
}

static void canonical_values(void **state) {
    (void)state;
    assert_int_equal(ls_bits(ls_canon(-0x1p-101f)), 0);
    assert_int_equal(ls_bits(ls_canon(0x1p-149f)), 0);
    assert_int_equal(ls_bits(ls_canon(-0.0f)), 0);
    assert_true(ls_canon(INFINITY) == 0x1p100f && ls_canon(-FLT_MAX) == -0x1p100f);
    assert_true(ls_canon(0x1p-100f) == 0x1p-100f && ls_canon(1.5f) == 1.5f);
}

static void mantissas_fit_signed_bytes(void **state) {
    (void)state;
    for (uint32_t m = 0x3F800000u; m < 0x40000000u; m += 37) { /* one binade */
        float x = ls_from_bits(m);
        int e = ls_block_exponent(m);
        int32_t q = ls_mantissa(x, e, 14), w = ls_mantissa(-x, e, 22);
        assert_true(q <= 127 * 256 && q >= 127 * 64 && w >= -127 * 65536);
    }
    assert_int_equal(ls_block_exponent(0), LS_EXACT_MIN_EXP);
}

/* Both against the formulas of docs/contracts.md: the transform of each run, and what a block's scale and steps keep. */
static void rotation_and_steps(void **state) {
    (void)state;
    static const struct { int d, n; } heads[] = {{1, 1}, {6, 2}, {12, 4}, {33, 1}, {40, 8}, {64, 16}, {80, 16}, {512, 16}};
    seed = 16;
    for (size_t h = 0; h < sizeof heads / sizeof *heads; h++) {
        int d = heads[h].d, n = heads[h].n;
        int32_t q[512], turned[512];
        float y[512];
        assert_int_equal(ls_rotated_columns(d), n);
        for (int i = 0; i < d; i++) turned[i] = q[i] = h % 2 ? (int32_t)(next() % 65025) - 32512 : 32512;
        ls_rotate(y, turned, d, 130, 3);
        for (int i = 0; i < d; i++) {
            int64_t t = 0;
            for (int b = 0; b < n; b++) t += __builtin_parity((unsigned)(i % n & b)) ? -q[i / n * n + b] : q[i / n * n + b];
            assert_true((double)y[i] == (double)t * 0x1p-14);
        }
    }
    for (int32_t largest = 0; largest <= 32512; largest++) {
        int s = ls_kv_scale(largest), m = ls_kv_step(-largest, s);
        assert_true(s >= 1 && s <= 256 && m >= -127 && m <= 0);
        assert_true(s == 1 ? -m == largest : 127 * (s - 1) < largest && abs(-m * s - largest) <= s / 2);
    }
}

static void fixed_point_functions(void **state) {
    (void)state;
    double worst = 0;
    for (uint64_t x = 0; x < UINT64_C(1) << 32; x += 65521) {
        double want = exp2(-(double)x * 0x1p-32), got = ls_exp2_neg((uint32_t)x) * 0x1p-31;
        if (fabs(got / want - 1) > worst) worst = fabs(got / want - 1);
    }
    assert_true(worst < 0x1p-26);
    worst = 0;
    for (uint64_t d = UINT64_C(1) << 30; d <= UINT64_C(1) << 31; d += 9973) {
        double got = ls_recip((uint32_t)d) * 0x1p-30 * ((double)d * 0x1p-31);
        if (fabs(got - 1) > worst) worst = fabs(got - 1);
    }
    assert_true(worst < 0x1p-28);
    assert_int_equal(ls_isqrt(UINT64_C(0x3FFFFFFFFFFFFFFF)), 0x7FFFFFFF);
    assert_int_equal(ls_isqrt(99), 9);
    float r;
    int k;
    for (int64_t d = 1; d < INT64_C(1) << 60; d = d * 3 + 1) {
        ls_recip_wide(d, &r, &k);
        assert_true(fabs(ldexp((double)r, k) * (double)d - 1) < 0x1p-22);
    }
}

static double act_f64(double x, ls_act act) {
    switch (act) {
        case LS_ACT_SILU: return x / (1 + exp(-x));
        case LS_ACT_GELU: return x * 0.5 * erfc(-x / sqrt(2.0));
        case LS_ACT_GELU_TANH: return 0.5 * x * (1 + tanh(0.79788456080286536 * (x + 0.044715 * x * x * x)));
        case LS_ACT_GELU_QUICK: return x / (1 + exp(-1.702 * x));
        case LS_ACT_RELU: return x > 0 ? x : 0;
        default: return 1 / (1 + exp(-x));
    }
}

static void activations_are_accurate(void **state) {
    (void)state;
    for (int a = 0; a < LS_ACT_COUNT; a++)
        for (float x = -40; x < 40; x += 0.00137f) {
            double want = act_f64((double)x, (ls_act)a), got = (double)ls_exact_act(x, (ls_act)a);
            assert_true(fabs(got - want) <= 4e-7 * fmax(1, fabs(want)) + 5e-7);
        }
    for (float x = -300; x < 300; x += 0.0137f)
        assert_true(fabs((double)ls_exact_softcap(x, 30.0f) - 30 * tanh((double)x / 30)) < 4e-6);
    const float edges[] = {0.0f, -0.0f, 0x1p100f, -0x1p100f, 0x1p-100f, -0x1p-100f};
    for (int a = 0; a < LS_ACT_COUNT; a++)
        for (size_t i = 0; i < sizeof edges / sizeof *edges; i++) assert_true(isfinite(ls_exact_act(edges[i], (ls_act)a)));
}

static void norms_are_accurate(void **state) {
    (void)state;
    enum { C = 577 };
    float x[C], y[C], w[C], b[C];
    seed = 5;
    for (int trial = 0; trial < 60; trial++) {
        double sum = 0, square = 0;
        int spread = trial % 12;
        fill(x, C, spread);
        fill(w, C, 0);
        fill(b, C, 0);
        for (int i = 0; i < C; i++) sum += (double)x[i];
        double mean = sum / C, inv = 0;
        for (int i = 0; i < C; i++) square += (double)x[i] * (double)x[i];
        inv = 1 / sqrt(square / C + (double)1e-5f);
        ls_exact_rms_norm(y, x, C, C, w, C, 1, 1e-5f);
        for (int i = 0; i < C; i++) {
            double want = (double)x[i] * inv * (1 + (double)w[i]);
            assert_true(fabs((double)y[i] - want) <= 5e-7 * fabs(want) + 1e-9);
        }
        square = 0;
        for (int i = 0; i < C; i++) square += ((double)x[i] - mean) * ((double)x[i] - mean);
        inv = 1 / sqrt(square / C + (double)1e-5f);
        ls_exact_layer_norm(y, x, C, C, w, C, b, C, 1e-5f);
        for (int i = 0; i < C; i++) assert_true(fabs((double)y[i] - (((double)x[i] - mean) * inv * (double)w[i] + (double)b[i])) < 1e-5);
    }
    float zero[4] = {0};
    ls_exact_rms_norm(y, zero, 4, 4, NULL, 0, 0, 1e-6f);
    for (int i = 0; i < 4; i++) assert_int_equal(ls_bits(y[i]), 0);
}

static void rope_turns_and_keeps_length(void **state) {
    (void)state;
    double freq[32];
    for (int i = 0; i < 32; i++) freq[i] = (double)(float)pow(10000.0, -i / 32.0);
    for (int interleaved = 0; interleaved < 2; interleaved++) {
        ls_rope r = {.rot_dim = 64, .interleaved = interleaved, .amplitude = 1, .inv_freq = freq};
        float x[80], y[80];
        int32_t c[32], s[32];
        seed = 9;
        fill(x, 80, 1);
        memcpy(y, x, sizeof y);
        ls_exact_rope_table(&r, 1234, c, s);
        ls_exact_rope(y, 1, 80, &r, c, s);
        for (int i = 0; i < 32; i++) {
            int lo = interleaved ? 2 * i : i, hi = interleaved ? 2 * i + 1 : i + 32;
            double a = 1234 * freq[i];
            assert_true(fabs((double)y[lo] - ((double)x[lo] * cos(a) - (double)x[hi] * sin(a))) < 1e-6);
            assert_true(fabs((double)y[hi] - ((double)x[hi] * cos(a) + (double)x[lo] * sin(a))) < 1e-6);
        }
        for (int i = 64; i < 80; i++) assert_true(y[i] == x[i]);
    }
}

/* One head over 600 keys (three absolute ranges), with and without window and soft cap. */
static void attention_is_accurate(void **state) {
    (void)state;
    enum { D = 40, N = 600 };
    static float k[N * D], v[N * D];
    float q[D], y[D];
    ls_error e = {0};
    for (int mode = 0; mode < 12; mode++) {
        ls_node n = {.contract = ls_contract_exact_at(mode % 3), .heads = 1, .kv_heads = 1, .head_dim = D, .scale = 0.158113883f,
                     .window = mode % 2 ? 301 : 0, .limit = mode >= 6 ? 50.0f : 0.0f};
        seed = 77;
        fill(q, D, 1);
        fill(k, N * D, 1);
        fill(v, N * D, 2);
        assert_ok(ls_exact_attention(y, q, k, v, D, ls_sees(N - 1, n.window, (ls_span){0, 0}), &n, &e));
        double p[N], den = 0, best = -1e300;
        int first = n.window ? N - n.window : 0;
        for (int j = first; j < N; j++) {
            p[j] = 0;
            for (int d = 0; d < D; d++) p[j] += (double)q[d] * (double)k[j * D + d];
            p[j] *= (double)n.scale;
            if (n.limit != 0) p[j] = 50 * tanh(p[j] / 50);
            if (p[j] > best) best = p[j];
        }
        for (int j = first; j < N; j++) den += p[j] = exp(p[j] - best);
        for (int d = 0; d < D; d++) {
            double want = 0;
            for (int j = first; j < N; j++) want += p[j] / den * (double)v[j * D + d];
            assert_true(fabs((double)y[d] - want) < (n.contract == LS_CONTRACT_EXACT24 ? 2e-6 : n.contract == LS_CONTRACT_EXACT16 ? 3e-4 : 5e-3));
        }
    }
}

static void attention_of_one_key_returns_its_value(void **state) {
    (void)state;
    float q[8], k[8], v[8], y[8];
    ls_error e = {0};
    seed = 3;
    fill(q, 8, 3);
    fill(k, 8, 3);
    fill(v, 8, 0);
    ls_node n = {.contract = LS_CONTRACT_EXACT24, .heads = 1, .kv_heads = 1, .head_dim = 8, .scale = 1};
    assert_ok(ls_exact_attention(y, q, k, v, 8, ls_sees(0, n.window, (ls_span){0, 0}), &n, &e));
    for (int d = 0; d < 8; d++) assert_true(fabsf(y[d] - v[d]) < 1e-6f);
}

static void routing_keeps_the_largest(void **state) {
    (void)state;
    const float logits[6] = {1.0f, 3.0f, 3.0f, -2.0f, 0.5f, 3.0f};
    int kept[6];
    float score[6];
    ls_moe m = {.experts = 6, .top_k = 2, .normalize = true};
    ls_exact_route(logits, &m, kept, score);
    assert_int_equal(kept[0], 1);
    assert_int_equal(kept[1], 2);
    assert_true(fabsf(score[0] - 0.5f) < 1e-7f && fabsf(score[1] - 0.5f) < 1e-7f);
    m = (ls_moe){.experts = 6, .top_k = 6};
    ls_exact_route(logits, &m, kept, score);
    double den = 0;
    for (int i = 0; i < 6; i++) den += exp((double)logits[i]);
    for (int i = 0; i < 6; i++) assert_true(fabs((double)score[i] - exp((double)logits[i]) / den) < 1e-7);
}

/* A float weight matrix and both widths against an f64 dot product; a bias; rows that are zero. */
static void linear_is_accurate(void **state) {
    (void)state;
    enum { K = 200, N = 5, T = 3 };
    static float w[N * K], x[T * K], b[N], y[T * N];
    ls_error e = {0};
    seed = 21;
    fill(w, N * K, 2);
    fill(x, 2 * K, 2);
    fill(b, N, 0);
    ls_tensor t = {.name = "w", .format = LS_F32, .rank = 2, .shape = {N, K}, .data = w, .bytes = sizeof w};
    for (int wide24 = 0; wide24 < 2; wide24++) {
        assert_ok(ls_exact_linear(y, x, T, &t, 0, N, b, wide24 ? LS_CONTRACT_EXACT24 : LS_CONTRACT_EXACT16, &e));
        for (int i = 0; i < T; i++)
            for (int j = 0; j < N; j++) {
                double want = (double)b[j], size = 0;
                for (int k = 0; k < K; k++) {
                    want += (double)x[i * K + k] * (double)w[j * K + k];
                    size += fabs((double)x[i * K + k] * (double)w[j * K + k]);
                }
                assert_true(fabs((double)y[i * N + j] - want) <= size * (wide24 ? 2e-7 : 1e-4) + 1e-7);
            }
    }
    ls_tensor wide_rows = {.name = "huge", .format = LS_F32, .rank = 2, .shape = {1, LS_EXACT_MAX_COLS + 1}, .data = w, .bytes = 0};
    assert_error(ls_exact_linear(y, x, 1, &wide_rows, 0, 1, NULL, LS_CONTRACT_EXACT16, &e), LS_INVALID_ARGUMENT, "huge");
}

static void hash_floats(ls_sha256 *h, const float *x, size_t n) {
    for (size_t i = 0; i < n; i++) {
        uint32_t u = ls_bits(x[i]);
        uint8_t b[4] = {(uint8_t)u, (uint8_t)(u >> 8), (uint8_t)(u >> 16), (uint8_t)(u >> 24)};
        ls_sha256_update(h, b, 4);
    }
}

static void hash_pointwise(ls_sha256 *h) {
    float x[512];
    for (int spread = 0; spread < 120; spread += 7) {
        fill(x, 512, spread);
        for (int i = 0; i < 512; i++) {
            float v = ls_canon(x[i]), y[LS_ACT_COUNT + 1];
            for (int a = 0; a < LS_ACT_COUNT; a++) y[a] = ls_exact_act(v, (ls_act)a);
            y[LS_ACT_COUNT] = ls_exact_softcap(v, 20.0f);
            hash_floats(h, y, LS_ACT_COUNT + 1);
        }
    }
}

static void hash_norms(ls_sha256 *h) {
    float x[300], w[300], y[300];
    for (int n = 1; n <= 300; n += 13) {
        fill(x, (size_t)n, n % 60);
        fill(w, (size_t)n, 1);
        ls_exact_rms_norm(y, x, n, n, w, n, (float)(n & 1), 1e-6f);
        hash_floats(h, y, (size_t)n);
        ls_exact_layer_norm(y, x, n, n, w, n, w, n, 1e-5f);
        hash_floats(h, y, (size_t)n);
    }
}

static void hash_matrix_ops(ls_sha256 *h, ls_error *e) {
    static float k[300 * 32], v[300 * 32], q[32], y[64], w[8 * 130], x[2 * 130];
    for (int c = 0; c < 2; c++) {
        ls_contract contract = c ? LS_CONTRACT_EXACT24 : LS_CONTRACT_EXACT16;
        for (int spread = 0; spread < 20; spread += 4) {
            fill(k, 300 * 32, spread);
            fill(v, 300 * 32, spread);
            fill(q, 32, spread);
            ls_node n = {.contract = contract, .heads = 2, .kv_heads = 2, .head_dim = 16, .scale = 0.25f, .limit = spread == 8 ? 50.0f : 0.0f};
            assert_int_equal(ls_exact_attention(y, q, k, v, 32, ls_sees(299, n.window, (ls_span){0, 0}), &n, e), LS_OK);
            hash_floats(h, y, 32);
            fill(w, 8 * 130, spread);
            fill(x, 2 * 130, spread);
            ls_tensor t = {.name = "w", .format = LS_F32, .rank = 2, .shape = {8, 130}, .data = w, .bytes = sizeof w};
            assert_int_equal(ls_exact_linear(y, x, 2, &t, 0, 8, NULL, contract, e), LS_OK);
            hash_floats(h, y, 16);
        }
    }
}

static void bits_match_the_committed_digest(void **state) {
    (void)state;
    ls_sha256 h;
    ls_error e = {0};
    uint8_t digest[32];
    char hex[65];
    seed = 2026;
    ls_sha256_init(&h);
    hash_pointwise(&h);
    hash_norms(&h);
    hash_matrix_ops(&h, &e);
    ls_sha256_final(&h, digest);
    ls_sha256_hex(digest, hex);
    assert_string_equal(hex, "a5db447eb4ce366ff35ecb23a71a56d84cd3057a0e09f512e53004f8644e363d");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(canonical_values), cmocka_unit_test(mantissas_fit_signed_bytes), cmocka_unit_test(rotation_and_steps),
        cmocka_unit_test(fixed_point_functions),
        cmocka_unit_test(activations_are_accurate), cmocka_unit_test(norms_are_accurate), cmocka_unit_test(rope_turns_and_keeps_length),
        cmocka_unit_test(attention_is_accurate), cmocka_unit_test(attention_of_one_key_returns_its_value),
        cmocka_unit_test(routing_keeps_the_largest), cmocka_unit_test(linear_is_accurate), cmocka_unit_test(bits_match_the_committed_digest)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
