/* src/xla/iree*: real modules through the real compiler, run by the wheel's runtime in Python and, in builds with IREE_DIST,
 * in this process too; every result is compared bit for bit with plain C. Errors, identities and the cache. */
#include "test.h"

#include <stdlib.h>
#include <unistd.h>

#include "iree_python_engine.h"
#include "xla/iree.h"

enum { MAX_TENSORS = 16 };

static char cache[] = "/tmp/ls_iree_XXXXXX";
static ls_engine *engines[3]; /* [n_engines] */
static size_t n_engines;

/* A tensor of a test: its type, its bytes and how many. */
typedef struct tensor {
    ls_tensor_type type;
    void *data;
    size_t bytes;
} tensor;

#define TENSOR(dtype_, array, ...) \
    { {.dtype = (dtype_), .rank = (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), .dim = {__VA_ARGS__}}, (array), sizeof(array) }

static int open_engines(void **state) {
    (void)state;
    ls_error e = {0};
    setenv("LOCKSTEP_PYTHON_ENV", LS_PLUGINS, 0);
    if (!mkdtemp(cache)) return -1;
    ls_iree_options o = {.cache_folder = cache};
    ls_code rc = iree_python_engine_open(&engines[n_engines], &o, LS_IREE_SCRIPT, &e);
    if (!rc) n_engines++;
    static const char *const local[] = {"local-task", "local-sync"};
    for (size_t i = 0; !rc && ls_iree_has_runtime() && i < 2; i++) {
        o.device = local[i];
        rc = ls_iree_open(&engines[n_engines], &o, &e);
        if (!rc) n_engines++;
    }
    if (rc) print_error("%s: %s\n", ls_code_name(rc), e.text);
    return rc ? -1 : 0;
}

static int close_engines(void **state) {
    (void)state;
    char command[100];
    while (n_engines) {
        n_engines--;
        engines[n_engines]->ops->destroy(engines[n_engines]);
    }
    snprintf(command, sizeof command, "rm -rf %s", cache);
    return system(command);
}

/* Runs |text| on |x| with |in| and compares every result with |want|. */
static void run_on(ls_engine *x, const char *text, const tensor *in, size_t n_in, const tensor *want, size_t n_want) {
    ls_error e = {0};
    ls_program *p;
    ls_buffer *args[MAX_TENSORS], *outs[MAX_TENSORS];
    assert_ok(x->ops->compile(x, &p, text, strlen(text), NULL, NULL, &e));
    for (size_t i = 0; i < n_in; i++) assert_ok(x->ops->upload(x, &args[i], &in[i].type, in[i].data, &e));
    assert_ok(x->ops->execute(x, p, args, n_in, outs, n_want, &e));
    for (size_t i = 0; i < n_want; i++) {
        char *got = malloc(want[i].bytes);
        assert_ok(x->ops->read(x, outs[i], got, want[i].bytes, &e));
        for (size_t b = 0; b < want[i].bytes; b++)
            if (got[b] != ((const char *)want[i].data)[b]) fail_msg("%s: byte %zu of result %zu is %02x, want %02x", x->identity.platform, b, i, (uint8_t)got[b], ((const uint8_t *)want[i].data)[b]);
        free(got);
        x->ops->free_buffer(x, outs[i]);
    }
    for (size_t i = 0; i < n_in; i++) x->ops->free_buffer(x, args[i]);
    x->ops->free_program(x, p);
}

#define RUN(text, in, want) \
    for (size_t k_ = 0; k_ < n_engines; k_++) run_on(engines[k_], text, in, sizeof(in) / sizeof *(in), want, sizeof(want) / sizeof *(want))

static uint64_t random_bits(uint64_t *s) {
    *s ^= *s << 13;
    *s ^= *s >> 7;
    return *s ^= *s << 17;
}

static void fill(void *data, size_t bytes, uint64_t seed) {
    uint8_t *p = data;
    uint64_t s = seed * 0x9E3779B97F4A7C15u + 1;
    for (size_t i = 0; i < bytes; i++) p[i] = (uint8_t)(random_bits(&s) >> 33);
}

/* ---- Types and operations ------------------------------------------------------------------------------------------- */

/* Normal numbers only: IREE's worker threads flush subnormal results to zero, which no contract relies on. */
static void every_type_crosses(void **state) {
    (void)state;
    float f32[4] = {0.1f, -0.0f, 3e38f, 3e-38f}, f32s[4];
    uint16_t f16[4] = {0x3c00, 0x0001, 0xfbff, 0x8000}, bf16[4] = {0x3f80, 0x0080, 0xff7f, 0x8000};
    double f64[4] = {0.1, 1e-300, 1.0000000000000002, -1e300}, f64s[4];
    uint8_t i1[4] = {0, 1, 1, 0}, i1s[4] = {1, 0, 0, 1}, u8[4] = {0, 127, 128, 255}, u8s[4];
    int8_t i8[4] = {-128, 127, -1, 5}, i8s[4];
    int16_t i16[4] = {-32768, 32767, -1, 5}, i16s[4];
    int32_t i32[4] = {INT32_MIN, INT32_MAX, -1, 5}, i32s[4];
    int64_t i64[4] = {INT64_MIN, INT64_MAX, -1, 5000000000}, i64s[4];
    uint32_t u32[4] = {0, 1u << 31, UINT32_MAX, 7}, u32s[4];
    for (int i = 0; i < 4; i++) {
        f32s[i] = f32[i] * 0.5f;
        f64s[i] = f64[i] + f64[i];
        i8s[i] = (int8_t)(uint8_t)(3u * (uint8_t)i8[i]);
        i16s[i] = (int16_t)(uint16_t)(3u * (uint16_t)i16[i]);
        i32s[i] = (int32_t)(3u * (uint32_t)i32[i]);
        i64s[i] = (int64_t)(3u * (uint64_t)i64[i]);
        u8s[i] = u8[i] / 3;
        u32s[i] = u32[i] / 3;
    }
    const tensor in[] = {TENSOR(LS_DT_F32, f32, 4), TENSOR(LS_DT_F16, f16, 4), TENSOR(LS_DT_BF16, bf16, 4), TENSOR(LS_DT_F64, f64, 4), TENSOR(LS_DT_I1, i1, 4), TENSOR(LS_DT_I8, i8, 4),
                         TENSOR(LS_DT_I16, i16, 4), TENSOR(LS_DT_I32, i32, 4), TENSOR(LS_DT_I64, i64, 4), TENSOR(LS_DT_U8, u8, 4), TENSOR(LS_DT_U32, u32, 4)};
    const tensor want[] = {TENSOR(LS_DT_F32, f32s, 4), TENSOR(LS_DT_F16, f16, 4), TENSOR(LS_DT_BF16, bf16, 4), TENSOR(LS_DT_F64, f64s, 4), TENSOR(LS_DT_I1, i1s, 4), TENSOR(LS_DT_I8, i8s, 4),
                           TENSOR(LS_DT_I16, i16s, 4), TENSOR(LS_DT_I32, i32s, 4), TENSOR(LS_DT_I64, i64s, 4), TENSOR(LS_DT_U8, u8s, 4), TENSOR(LS_DT_U32, u32s, 4)};
    RUN("module @types {\n"
        "func.func public @main(%f32: tensor<4xf32>, %f16: tensor<4xf16>, %bf16: tensor<4xbf16>, %f64: tensor<4xf64>, %i1: tensor<4xi1>, %i8: tensor<4xi8>,\n"
        "    %i16: tensor<4xi16>, %i32: tensor<4xi32>, %i64: tensor<4xi64>, %u8: tensor<4xui8>, %u32: tensor<4xui32>) -> (tensor<4xf32>, tensor<4xf16>, tensor<4xbf16>,\n"
        "    tensor<4xf64>, tensor<4xi1>, tensor<4xi8>, tensor<4xi16>, tensor<4xi32>, tensor<4xi64>, tensor<4xui8>, tensor<4xui32>) {\n"
        "  %half = stablehlo.constant dense<5.000000e-01> : tensor<4xf32>\n"
        "  %0 = stablehlo.multiply %f32, %half : tensor<4xf32>\n"
        "  %3 = stablehlo.add %f64, %f64 : tensor<4xf64>\n"
        "  %4 = stablehlo.not %i1 : tensor<4xi1>\n"
        "  %c8 = stablehlo.constant dense<3> : tensor<4xi8>\n"
        "  %5 = stablehlo.multiply %i8, %c8 : tensor<4xi8>\n"
        "  %c16 = stablehlo.constant dense<3> : tensor<4xi16>\n"
        "  %6 = stablehlo.multiply %i16, %c16 : tensor<4xi16>\n"
        "  %c32 = stablehlo.constant dense<3> : tensor<4xi32>\n"
        "  %7 = stablehlo.multiply %i32, %c32 : tensor<4xi32>\n"
        "  %c64 = stablehlo.constant dense<3> : tensor<4xi64>\n"
        "  %8 = stablehlo.multiply %i64, %c64 : tensor<4xi64>\n"
        "  %cu8 = stablehlo.constant dense<3> : tensor<4xui8>\n"
        "  %9 = stablehlo.divide %u8, %cu8 : tensor<4xui8>\n"
        "  %cu32 = stablehlo.constant dense<3> : tensor<4xui32>\n"
        "  %10 = stablehlo.divide %u32, %cu32 : tensor<4xui32>\n"
        "  return %0, %f16, %bf16, %3, %4, %5, %6, %7, %8, %9, %10 : tensor<4xf32>, tensor<4xf16>, tensor<4xbf16>, tensor<4xf64>, tensor<4xi1>, tensor<4xi8>,\n"
        "      tensor<4xi16>, tensor<4xi32>, tensor<4xi64>, tensor<4xui8>, tensor<4xui32>\n"
        "}\n}\n",
        in, want);
}

/* The integer steps of the exact contracts: wide products, arithmetic shifts by a tensor, rounding to even, conversion. */
static void wide_integers_are_exact(void **state) {
    (void)state;
    enum { N = 257 };
    static int64_t a[N], b[N], shift[N], product[N], shifted[N];
    static float as_float[N];
    static int32_t low[N];
    fill(a, sizeof a, 1);
    fill(b, sizeof b, 2);
    for (int i = 0; i < N; i++) {
        shift[i] = i % 64;
        product[i] = (int64_t)((uint64_t)a[i] * (uint64_t)b[i]);
        shifted[i] = a[i] >> shift[i];
        as_float[i] = (float)a[i];
        low[i] = (int32_t)(uint32_t)(uint64_t)a[i];
    }
    const tensor in[] = {TENSOR(LS_DT_I64, a, N), TENSOR(LS_DT_I64, b, N), TENSOR(LS_DT_I64, shift, N)};
    const tensor want[] = {TENSOR(LS_DT_I64, product, N), TENSOR(LS_DT_I64, shifted, N), TENSOR(LS_DT_F32, as_float, N), TENSOR(LS_DT_I32, low, N)};
    RUN("func.func public @main(%a: tensor<257xi64>, %b: tensor<257xi64>, %s: tensor<257xi64>) -> (tensor<257xi64>, tensor<257xi64>, tensor<257xf32>, tensor<257xi32>) {\n"
        "  %0 = stablehlo.multiply %a, %b : tensor<257xi64>\n"
        "  %1 = stablehlo.shift_right_arithmetic %a, %s : tensor<257xi64>\n"
        "  %2 = stablehlo.convert %a : (tensor<257xi64>) -> tensor<257xf32>\n"
        "  %3 = stablehlo.convert %a : (tensor<257xi64>) -> tensor<257xi32>\n"
        "  return %0, %1, %2, %3 : tensor<257xi64>, tensor<257xi64>, tensor<257xf32>, tensor<257xi32>\n"
        "}\n",
        in, want);
}

enum { M = 5, K = 192, N_COLS = 33 };

static void dot_products_are_exact(void **state) {
    (void)state;
    static int8_t a8[M * K], b8[N_COLS * K];
    static int16_t a16[M * K], b16[N_COLS * K];
    static int64_t a64[M * K], b64[N_COLS * K], want16[M * N_COLS], want64[M * N_COLS];
    static int32_t want8[M * N_COLS];
    fill(a8, sizeof a8, 3);
    fill(b8, sizeof b8, 4);
    fill(a16, sizeof a16, 5);
    fill(b16, sizeof b16, 6);
    fill(a64, sizeof a64, 7);
    fill(b64, sizeof b64, 8);
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N_COLS; j++) {
            uint64_t sum64 = 0;
            for (int k = 0; k < K; k++) {
                want8[i * N_COLS + j] += a8[i * K + k] * b8[j * K + k];
                want16[i * N_COLS + j] += (int64_t)a16[i * K + k] * b16[j * K + k];
                sum64 += (uint64_t)a64[i * K + k] * (uint64_t)b64[j * K + k];
            }
            want64[i * N_COLS + j] = (int64_t)sum64;
        }
    const tensor in[] = {TENSOR(LS_DT_I8, a8, M, K), TENSOR(LS_DT_I8, b8, N_COLS, K), TENSOR(LS_DT_I16, a16, M, K), TENSOR(LS_DT_I16, b16, N_COLS, K), TENSOR(LS_DT_I64, a64, M, K), TENSOR(LS_DT_I64, b64, N_COLS, K)};
    const tensor want[] = {TENSOR(LS_DT_I32, want8, M, N_COLS), TENSOR(LS_DT_I64, want16, M, N_COLS), TENSOR(LS_DT_I64, want64, M, N_COLS)};
    RUN("func.func public @main(%a8: tensor<5x192xi8>, %b8: tensor<33x192xi8>, %a16: tensor<5x192xi16>, %b16: tensor<33x192xi16>, %a64: tensor<5x192xi64>,\n"
        "    %b64: tensor<33x192xi64>) -> (tensor<5x33xi32>, tensor<5x33xi64>, tensor<5x33xi64>) {\n"
        "  %0 = stablehlo.dot_general %a8, %b8, contracting_dims = [1] x [1] : (tensor<5x192xi8>, tensor<33x192xi8>) -> tensor<5x33xi32>\n"
        "  %1 = stablehlo.dot_general %a16, %b16, contracting_dims = [1] x [1] : (tensor<5x192xi16>, tensor<33x192xi16>) -> tensor<5x33xi64>\n"
        "  %2 = stablehlo.dot_general %a64, %b64, contracting_dims = [1] x [1] : (tensor<5x192xi64>, tensor<33x192xi64>) -> tensor<5x33xi64>\n"
        "  return %0, %1, %2 : tensor<5x33xi32>, tensor<5x33xi64>, tensor<5x33xi64>\n"
        "}\n",
        in, want);
}

/* Products of small integers in f32, every partial sum below 2^24: exact whatever the order. Batched, as attention has it. */
static void float_dot_of_integers_is_exact(void **state) {
    (void)state;
    enum { B = 3 };
    static float a[B * M * K], b[B * N_COLS * K], want_sum[B * M * N_COLS];
    static int8_t bytes[B * (M + N_COLS) * K];
    fill(bytes, sizeof bytes, 9);
    for (int i = 0; i < B * M * K; i++) a[i] = (float)(bytes[i] / 2);
    for (int i = 0; i < B * N_COLS * K; i++) b[i] = (float)bytes[B * M * K + i];
    for (int h = 0; h < B; h++)
        for (int i = 0; i < M; i++)
            for (int j = 0; j < N_COLS; j++)
                for (int k = 0; k < K; k++) want_sum[(h * M + i) * N_COLS + j] += a[(h * M + i) * K + k] * b[(h * N_COLS + j) * K + k];
    const tensor in[] = {TENSOR(LS_DT_F32, a, B, M, K), TENSOR(LS_DT_F32, b, B, N_COLS, K)};
    const tensor want[] = {TENSOR(LS_DT_F32, want_sum, B, M, N_COLS)};
    RUN("func.func public @main(%a: tensor<3x5x192xf32>, %b: tensor<3x33x192xf32>) -> tensor<3x5x33xf32> {\n"
        "  %0 = stablehlo.dot_general %a, %b, batching_dims = [0] x [0], contracting_dims = [2] x [2], precision = [HIGHEST, HIGHEST] : (tensor<3x5x192xf32>, tensor<3x33x192xf32>) -> tensor<3x5x33xf32>\n"
        "  return %0 : tensor<3x5x33xf32>\n"
        "}\n",
        in, want);
}

/* Sums and maxima along a row, and the argmax that emitted modules end with: of equal values the lowest index. */
static void reductions_are_exact(void **state) {
    (void)state;
    enum { R = 3, C = 301 };
    static int64_t a[R * C], sum[R];
    static float f[R * C], top[R];
    static int32_t index[R];
    static int8_t noise[R * C];
    fill(a, sizeof a, 10);
    fill(noise, sizeof noise, 11);
    for (int r = 0; r < R; r++) {
        uint64_t s = 0;
        top[r] = -1000;
        for (int c = 0; c < C; c++) {
            s += (uint64_t)a[r * C + c];
            f[r * C + c] = (float)(noise[r * C + c] / 8);
            if (f[r * C + c] > top[r]) {
                top[r] = f[r * C + c];
                index[r] = c;
            }
        }
        sum[r] = (int64_t)s;
    }
    const tensor in[] = {TENSOR(LS_DT_I64, a, R, C), TENSOR(LS_DT_F32, f, R, C)};
    const tensor want[] = {TENSOR(LS_DT_I64, sum, R), TENSOR(LS_DT_F32, top, R), TENSOR(LS_DT_I32, index, R)};
    RUN("func.func public @main(%a: tensor<3x301xi64>, %f: tensor<3x301xf32>) -> (tensor<3xi64>, tensor<3xf32>, tensor<3xi32>) {\n"
        "  %zero = stablehlo.constant dense<0> : tensor<i64>\n"
        "  %0 = stablehlo.reduce(%a init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<3x301xi64>, tensor<i64>) -> tensor<3xi64>\n"
        "  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>\n"
        "  %first = stablehlo.constant dense<0> : tensor<i32>\n"
        "  %iota = stablehlo.iota dim = 1 : tensor<3x301xi32>\n"
        "  %1:2 = stablehlo.reduce(%f init: %low), (%iota init: %first) across dimensions = [1] : (tensor<3x301xf32>, tensor<3x301xi32>, tensor<f32>, tensor<i32>) -> (tensor<3xf32>, tensor<3xi32>)\n"
        "   reducer(%x: tensor<f32>, %y: tensor<f32>) (%i: tensor<i32>, %j: tensor<i32>) {\n"
        "    %gt = stablehlo.compare GT, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>\n"
        "    %eq = stablehlo.compare EQ, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>\n"
        "    %before = stablehlo.compare LT, %i, %j : (tensor<i32>, tensor<i32>) -> tensor<i1>\n"
        "    %tie = stablehlo.and %eq, %before : tensor<i1>\n"
        "    %left = stablehlo.or %gt, %tie : tensor<i1>\n"
        "    %v = stablehlo.select %left, %x, %y : tensor<i1>, tensor<f32>\n"
        "    %k = stablehlo.select %left, %i, %j : tensor<i1>, tensor<i32>\n"
        "    stablehlo.return %v, %k : tensor<f32>, tensor<i32>\n"
        "  }\n"
        "  return %0, %1#0, %1#1 : tensor<3xi64>, tensor<3xf32>, tensor<3xi32>\n"
        "}\n",
        in, want);
}

static void rows_are_gathered(void **state) {
    (void)state;
    enum { ROWS = 50, W = 12, T = 7 };
    static uint16_t table[ROWS * W], out[T * W];
    int32_t ids[T] = {49, 0, 3, 3, 17, 1, 48};
    fill(table, sizeof table, 12);
    for (int t = 0; t < T; t++) memcpy(out + t * W, table + ids[t] * W, W * sizeof *out);
    const tensor in[] = {TENSOR(LS_DT_I16, table, ROWS, W), TENSOR(LS_DT_I32, ids, T)};
    const tensor want[] = {TENSOR(LS_DT_I16, out, T, W)};
    RUN("func.func public @main(%t: tensor<50x12xi16>, %i: tensor<7xi32>) -> tensor<7x12xi16> {\n"
        "  %0 = \"stablehlo.gather\"(%t, %i) {dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>,\n"
        "      indices_are_sorted = false, slice_sizes = array<i64: 1, 12>} : (tensor<50x12xi16>, tensor<7xi32>) -> tensor<7x12xi16>\n"
        "  return %0 : tensor<7x12xi16>\n"
        "}\n",
        in, want);
}

static void scalars_and_empty_tensors_work(void **state) {
    (void)state;
    float three[1] = {3}, six[1] = {6}, none[1] = {0};
    const tensor in[] = {{{.dtype = LS_DT_F32}, three, 4}, {{.dtype = LS_DT_F32, .rank = 2, .dim = {0, 4}}, none, 0}};
    const tensor want[] = {{{.dtype = LS_DT_F32}, six, 4}, {{.dtype = LS_DT_F32, .rank = 2, .dim = {0, 4}}, none, 0}};
    RUN("func.func public @main(%a: tensor<f32>, %b: tensor<0x4xf32>) -> (tensor<f32>, tensor<0x4xf32>) {\n"
        "  %0 = stablehlo.add %a, %a : tensor<f32>\n"
        "  %1 = stablehlo.add %b, %b : tensor<0x4xf32>\n"
        "  return %0, %1 : tensor<f32>, tensor<0x4xf32>\n"
        "}\n",
        in, want);
}

/* A program may flush subnormals while it runs, but must leave the caller's thread as it was. */
static void the_callers_arithmetic_is_left_alone(void **state) {
    (void)state;
    volatile float tiny = 3e-38f;
    float x[4] = {1, 2, 3, 4}, y[4] = {2, 4, 6, 8};
    const tensor in[] = {TENSOR(LS_DT_F32, x, 4)}, want[] = {TENSOR(LS_DT_F32, y, 4)};
    RUN("func.func public @main(%a: tensor<4xf32>) -> tensor<4xf32> {\n  %0 = stablehlo.add %a, %a : tensor<4xf32>\n  return %0 : tensor<4xf32>\n}\n", in, want);
    assert_true(tiny / 8 > 0);
}

/* ---- Donation and checks ------------------------------------------------------------------------------------------------ */

static const char append_row[] =
    "module @cache {\n"
    "func.func public @main(%row: tensor<1x4xf32>, %at: tensor<i32>, %kv: tensor<6x4xf32> {tf.aliasing_output = 1 : i32}) -> (tensor<4xf32>, tensor<6x4xf32>) {\n"
    "  %c0 = stablehlo.constant dense<0> : tensor<i32>\n"
    "  %0 = stablehlo.dynamic_update_slice %kv, %row, %at, %c0 : (tensor<6x4xf32>, tensor<1x4xf32>, tensor<i32>, tensor<i32>) -> tensor<6x4xf32>\n"
    "  %z = stablehlo.constant dense<0.0> : tensor<f32>\n"
    "  %1 = stablehlo.reduce(%0 init: %z) applies stablehlo.add across dimensions = [0] : (tensor<6x4xf32>, tensor<f32>) -> tensor<4xf32>\n"
    "  return %1, %0 : tensor<4xf32>, tensor<6x4xf32>\n"
    "}\n}\n";

static void put(ls_engine *x, ls_buffer **out, tensor t) {
    ls_error e = {0};
    assert_ok(x->ops->upload(x, out, &t.type, t.data, &e));
}

static void donated_caches_are_updated(void **state) {
    (void)state;
    ls_error e = {0};
    float row[4] = {1, 2, 3, 4}, kv[24] = {0}, got[24], sum[4];
    for (size_t k = 0; k < n_engines; k++) {
        ls_engine *x = engines[k];
        ls_program *p;
        ls_buffer *args[3], *outs[2], *none[2];
        assert_ok(x->ops->compile(x, &p, append_row, sizeof append_row - 1, NULL, NULL, &e));
        put(x, &args[0], (tensor)TENSOR(LS_DT_F32, row, 1, 4));
        put(x, &args[2], (tensor)TENSOR(LS_DT_F32, kv, 6, 4));
        for (int32_t at = 0; at < 6; at++) {
            int32_t here[1] = {at};
            assert_ok(x->ops->upload(x, &args[1], &(ls_tensor_type){.dtype = LS_DT_I32}, here, &e));
            assert_ok(x->ops->execute(x, p, args, 3, outs, 2, &e));
            assert_ok(x->ops->read(x, outs[0], sum, sizeof sum, &e));
            for (int i = 0; i < 4; i++) assert_true(sum[i] == (float)(at + 1) * row[i]);
            assert_error(x->ops->read(x, args[2], got, sizeof got, &e), LS_FAILED_PRECONDITION, "consumed");
            assert_error(x->ops->execute(x, p, args, 3, none, 2, &e), LS_FAILED_PRECONDITION, "argument 2");
            x->ops->free_buffer(x, args[1]);
            x->ops->free_buffer(x, args[2]);
            x->ops->free_buffer(x, outs[0]);
            args[2] = outs[1];
        }
        assert_ok(x->ops->read(x, args[2], got, sizeof got, &e));
        for (int i = 0; i < 24; i++) assert_true(got[i] == row[i % 4]);
        x->ops->free_buffer(x, args[0]);
        x->ops->free_buffer(x, args[2]);
        x->ops->free_program(x, p);
    }
}

static const char add_twice[] =
    "func.func public @main(%a: tensor<4xf32>, %b: tensor<4xf32> {tf.aliasing_output = 0 : i32}) -> tensor<4xf32> {\n"
    "  %0 = stablehlo.add %a, %b : tensor<4xf32>\n"
    "  return %0 : tensor<4xf32>\n"
    "}\n";

static void calls_are_checked(void **state) {
    (void)state;
    ls_error e = {0};
    float f[4] = {1, 2, 3, 4};
    int32_t i[4] = {1, 2, 3, 4};
    for (size_t k = 0; k < n_engines; k++) {
        ls_engine *x = engines[k];
        ls_program *p;
        ls_buffer *a, *b, *outs[2];
        assert_ok(x->ops->compile(x, &p, add_twice, sizeof add_twice - 1, NULL, NULL, &e));
        put(x, &a, (tensor)TENSOR(LS_DT_F32, f, 4));
        put(x, &b, (tensor)TENSOR(LS_DT_I32, i, 4));
        assert_error(x->ops->execute(x, p, (ls_buffer *[]){a}, 1, outs, 1, &e), LS_INVALID_ARGUMENT, "takes 2 arguments, but 1");
        assert_error(x->ops->execute(x, p, (ls_buffer *[]){a, a}, 2, outs, 2, &e), LS_INVALID_ARGUMENT, "has 1 results, but room for 2");
        assert_error(x->ops->execute(x, p, (ls_buffer *[]){a, b}, 2, outs, 1, &e), LS_INVALID_ARGUMENT, "argument 1 ");
        assert_error(x->ops->execute(x, p, (ls_buffer *[]){a, a}, 2, outs, 1, &e), LS_INVALID_ARGUMENT, "is donated");
        assert_error(x->ops->read(x, a, f, 12, &e), LS_INVALID_ARGUMENT, "16 bytes");
        assert_error(x->ops->upload(x, outs, &(ls_tensor_type){.dtype = LS_DT_F32, .rank = 7}, f, &e), LS_INVALID_ARGUMENT, "rank 7");
        x->ops->free_buffer(x, a);
        x->ops->free_buffer(x, b);
        x->ops->free_program(x, p);
        x->ops->free_buffer(x, NULL);
        x->ops->free_program(x, NULL);
    }
}

/* ---- The compiler: errors, identity, cache -------------------------------------------------------------------------------- */

static void bad_modules_are_explained(void **state) {
    (void)state;
    ls_error e = {0};
    static const struct {
        const char *text, *part;
    } bad[] = {
        {"func.func public @main(%a: tensor<4xf32>) -> tensor<4xf32> {\n  %0 = stablehlo.add %a, %b : tensor<4xf32>\n  return %0 : tensor<4xf32>\n}\n", "undeclared SSA value"},
        {"func.func public @main(%a: tensor<4xf32>) -> tensor<4xf32> {\n  %0 = stablehlo.nothing %a : tensor<4xf32>\n  return %0 : tensor<4xf32>\n}\n", "stablehlo.nothing"},
        {"func.func public @main(%a: tensor<4xf32>) -> tensor<5xf32> {\n  return %a : tensor<4xf32>\n}\n", "tensor<4xf32>"},
        {"func.func public @main(%a: tensor<4xf32>) -> tensor<4xf32> {\n  %0 = stablehlo.custom_call @nobody(%a) : (tensor<4xf32>) -> tensor<4xf32>\n  return %0 : tensor<4xf32>\n}\n", "custom_call"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ls_program *p = (ls_program *)&e;
        assert_error(engines[0]->ops->compile(engines[0], &p, bad[i].text, strlen(bad[i].text), NULL, NULL, &e), LS_INVALID_ARGUMENT, bad[i].part);
        assert_null(p);
    }
}

static ls_code create(const char *device, const char *target, ls_iree_compiler **out, ls_error *e) {
    return ls_iree_compiler_create(out, &(ls_iree_options){.device = device, .target = target, .cache_folder = cache}, e);
}

static void unknown_targets_are_refused(void **state) {
    (void)state;
    ls_error e = {0};
    ls_iree_compiler *c;
    assert_error(create("vulkan", NULL, &c, &e), LS_INVALID_ARGUMENT, "allowed are local-task, local-sync, cuda, hip and metal");
    assert_error(create("hip", NULL, &c, &e), LS_INVALID_ARGUMENT, "exactly one target");
    assert_error(create("hip", "", &c, &e), LS_INVALID_ARGUMENT, "exactly one target");
    assert_error(create("hip", "gfx942,gfx1100", &c, &e), LS_INVALID_ARGUMENT, "exactly one architecture");
    assert_error(create("hip", "gfx9999", &c, &e), LS_INVALID_ARGUMENT, "gfx9999");
    assert_error(create("cuda", NULL, &c, &e), LS_INVALID_ARGUMENT, "sm_80");
    assert_error(create("cuda", "hopper", &c, &e), LS_INVALID_ARGUMENT, "\"hopper\"");
    assert_error(create("cuda", "sm_00", &c, &e), LS_FAILED_PRECONDITION, "sm_00");
    assert_error(create("metal", "gfx942", &c, &e), LS_INVALID_ARGUMENT, "takes no target");
    assert_error(create("local-task", "znver4", &c, &e), LS_INVALID_ARGUMENT, "takes no target");
    assert_null(c);
}

static void libraries_are_checked(void **state) {
    (void)state;
    ls_error e = {0};
    ls_iree_compiler *c;
    assert_error(ls_iree_compiler_create(&c, &(ls_iree_options){.compiler = "/nowhere/lib.so"}, &e), LS_NOT_FOUND, "/nowhere/lib.so");
    assert_error(ls_iree_compiler_create(&c, &(ls_iree_options){.compiler = LS_IREE_SCRIPT}, &e), LS_UNAVAILABLE, "cannot load");
    const char *path = getenv("PATH"), *named = getenv("LOCKSTEP_PYTHON_ENV"), *home = getenv("HOME");
    char *paths[] = {strdup(path), strdup(named ? named : ""), strdup(home ? home : "")};
    setenv("PATH", "/nowhere", 1);
    setenv("HOME", cache, 1);
    setenv("LOCKSTEP_PYTHON_ENV", "/nowhere", 1);
    assert_error(ls_iree_compiler_create(&c, &(ls_iree_options){0}, &e), LS_NOT_FOUND, "pip install iree-base-compiler");
    setenv("LOCKSTEP_IREE_COMPILER", "/nowhere/named.so", 1);
    assert_error(ls_iree_compiler_create(&c, &(ls_iree_options){0}, &e), LS_NOT_FOUND, "/nowhere/named.so");
    unsetenv("LOCKSTEP_IREE_COMPILER");
    setenv("PATH", paths[0], 1);
    setenv("LOCKSTEP_PYTHON_ENV", paths[1], 1);
    setenv("HOME", paths[2], 1);
    for (int i = 0; i < 3; i++) free(paths[i]);
}

static void open_without_runtime_says_what_to_install(void **state) {
    (void)state;
    ls_error e = {0};
    ls_engine *x = NULL;
    if (!ls_iree_has_runtime()) {
        assert_error(ls_iree_open(&x, NULL, &e), LS_UNIMPLEMENTED, "-DIREE_DIST=");
        assert_null(x);
        return;
    }
    /* A runtime without that driver: a module for it can be compiled, but the device cannot be opened. */
    assert_int_not_equal(ls_iree_open(&x, &(ls_iree_options){.device = "metal", .cache_folder = cache}, &e), LS_OK);
    assert_null(x);
    assert_non_null(strstr(e.text, "metal"));
}

static void identities_are_complete(void **state) {
    (void)state;
    ls_error e = {0};
    static const struct {
        const char *device, *target, *wanted, *flag;
        bool cpu, int8, f64;
    } cases[] = {
        {"local-task", NULL, NULL, "--iree-llvmcpu-target-cpu=host", true, false, true}, {"local-sync", NULL, NULL, "--iree-hal-local-target-device-backends=llvm-cpu", true, false, true},
        {"cuda", "sm_80", "sm_80", "--iree-cuda-target=sm_80", false, true, true},       {"hip", "gfx942", "gfx942", "--iree-rocm-target=gfx942", false, true, true},
        {"metal", NULL, "apple", "--iree-hal-target-device=metal", false, false, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ls_iree_compiler *c;
        assert_ok(create(cases[i].device, cases[i].target, &c, &e));
        const ls_engine_identity *id = ls_iree_compiler_identity(c);
        assert_string_equal(id->runtime, "iree");
        assert_string_equal(id->platform, cases[i].device);
        assert_int_equal(strlen(id->library_sha256), 64);
        assert_null(strchr(id->library, '/'));
        assert_non_null(strchr(id->compiler, '.'));
        assert_non_null(strstr(id->flags, cases[i].flag));
        assert_non_null(strstr(id->flags, "--iree-input-demote-f64-to-f32=false"));
        if (cases[i].wanted) assert_string_equal(id->target, cases[i].wanted);
        else assert_true(strchr(id->target, ' ') && id->target[0] != ' ');
        const ls_engine_traits *t = ls_iree_compiler_traits(c);
        assert_int_equal(t->cpu, cases[i].cpu);
        assert_int_equal(t->fast_int8_dot, cases[i].int8);
        assert_int_equal(t->keeps_f64, cases[i].f64);
        ls_iree_compiler_destroy(c);
    }
    ls_iree_compiler_destroy(NULL);
}

/* Devices that are not here can still be compiled for; where a type is missing, the compiler says so and does not narrow. */
static void other_devices_are_compiled_for(void **state) {
    (void)state;
    ls_error e = {0};
    static const char f32[] = "func.func public @main(%a: tensor<4xf32>) -> tensor<4xf32> {\n  %0 = stablehlo.add %a, %a : tensor<4xf32>\n  return %0 : tensor<4xf32>\n}\n";
    static const char f64[] = "func.func public @main(%a: tensor<4xf64>) -> tensor<4xf64> {\n  %0 = stablehlo.add %a, %a : tensor<4xf64>\n  return %0 : tensor<4xf64>\n}\n";
    static const struct {
        const char *device, *target;
    } cases[] = {{"cuda", "sm_80"}, {"hip", "gfx942"}, {"metal", NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ls_iree_compiler *c;
        ls_str s = {0};
        assert_ok(create(cases[i].device, cases[i].target, &c, &e));
        assert_ok(ls_iree_compile(c, &s, f32, sizeof f32 - 1, NULL, NULL, &e));
        assert_true(s.len > 1000);
        if (ls_iree_compiler_traits(c)->keeps_f64) assert_ok(ls_iree_compile(c, &s, f64, sizeof f64 - 1, NULL, NULL, &e));
        else assert_error(ls_iree_compile(c, &s, f64, sizeof f64 - 1, NULL, NULL, &e), LS_INVALID_ARGUMENT, "f64");
        ls_str_deinit(&s);
        ls_iree_compiler_destroy(c);
    }
}

static void compiled_modules_are_cached(void **state) {
    (void)state;
    ls_error e = {0};
    ls_iree_compiler *c, *other, *none;
    ls_compile_info info;
    ls_str a = {0}, b = {0};
    assert_ok(create("local-sync", NULL, &c, &e));
    assert_ok(ls_iree_compile(c, &a, append_row, sizeof append_row - 1, "first", &info, &e));
    assert_false(info.cache_hit);
    assert_true(info.stored && info.seconds > 0);
    assert_ok(ls_str_append(&b, "before ", 7, &e));
    assert_ok(ls_iree_compile(c, &b, append_row, sizeof append_row - 1, "first", &info, &e));
    assert_true(info.cache_hit && !info.stored);
    assert_int_equal(b.len, a.len + 7);
    assert_memory_equal(b.data + 7, a.data, a.len);
    assert_ok(ls_iree_compile(c, &b, append_row, sizeof append_row - 1, "second", &info, &e));
    assert_false(info.cache_hit);
    assert_ok(create("hip", "gfx942", &other, &e));
    assert_ok(ls_iree_compile(other, &b, append_row, sizeof append_row - 1, "first", &info, &e));
    assert_false(info.cache_hit);
    assert_ok(ls_iree_compiler_create(&none, &(ls_iree_options){.no_cache = true}, &e));
    assert_ok(ls_iree_compile(none, &b, append_row, sizeof append_row - 1, "first", &info, &e));
    assert_false(info.cache_hit || info.stored);
    assert_string_equal(ls_iree_compiler_identity(none)->library_sha256, ls_iree_compiler_identity(c)->library_sha256);
    ls_iree_compiler_destroy(c);
    ls_iree_compiler_destroy(other);
    ls_iree_compiler_destroy(none);
    ls_str_deinit(&a);
    ls_str_deinit(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_crosses),
        cmocka_unit_test(wide_integers_are_exact),
        cmocka_unit_test(dot_products_are_exact),
        cmocka_unit_test(float_dot_of_integers_is_exact),
        cmocka_unit_test(reductions_are_exact),
        cmocka_unit_test(rows_are_gathered),
        cmocka_unit_test(scalars_and_empty_tensors_work),
        cmocka_unit_test(the_callers_arithmetic_is_left_alone),
        cmocka_unit_test(donated_caches_are_updated),
        cmocka_unit_test(calls_are_checked),
        cmocka_unit_test(bad_modules_are_explained),
        cmocka_unit_test(unknown_targets_are_refused),
        cmocka_unit_test(libraries_are_checked),
        cmocka_unit_test(open_without_runtime_says_what_to_install),
        cmocka_unit_test(identities_are_complete),
        cmocka_unit_test(other_devices_are_compiled_for),
        cmocka_unit_test(compiled_modules_are_cached),
    };
    return cmocka_run_group_tests(tests, open_engines, close_engines);
}
