/* Every native operator kernel, at every level this machine has that has its own, against the reference operators: equal bits.
 * Inputs end at a guard page, so a read or write past the end stops the test. */
#include <stdlib.h>
#include <sys/mman.h>

#include "native/cpu.h"
#include "native/ops_table.h"
#include "reference/exact_ops.h"
#include "test.h"

enum { PAGE = 4096 };

/* ---- Guarded arrays and random canonical values ------------------------------------------------------------------ */

static void *guarded(size_t bytes) {
    size_t pages = (bytes + PAGE - 1) / PAGE;
    uint8_t *p = mmap(NULL, (pages + 1) * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(p != MAP_FAILED);
    assert_int_equal(mprotect(p + pages * PAGE, PAGE, PROT_NONE), 0);
    return p + pages * PAGE - bytes;
}

static void unguard(void *p, size_t bytes) {
    size_t pages = (bytes + PAGE - 1) / PAGE;
    munmap((uint8_t *)p + bytes - pages * PAGE, (pages + 1) * PAGE);
}

static uint64_t state = 1;

static uint32_t next(void) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 32);
}

/* Kinds: 0 around 1, 1 any canonical exponent, 2 one large among small, 3 zeros and few values, 4 largest magnitudes. */
static float value(int kind) {
    uint32_t sign = next() & 0x80000000u, m = next() & 0x7FFFFFu;
    switch (kind) {
        case 0: return ls_from_bits(sign | (120 + next() % 9) << 23 | m);
        case 1: return ls_from_bits(sign | (27 + next() % 200) << 23 | m);
        case 2: return ls_from_bits(sign | (next() % 64 ? 100 + next() % 5 : 150) << 23 | m);
        case 3: return next() % 8 ? 0.0f : ls_from_bits(sign | (127 + next() % 3) << 23);
        default: return sign ? -0x1p100f : 0x1p100f;
    }
}

enum { KINDS = 5 };

static float *values(int64_t n, int kind) {
    float *x = guarded((size_t)n * sizeof *x);
    for (int64_t i = 0; i < n; i++) x[i] = value(kind);
    return x;
}

static void check(const ls_ops *ops, const char *what, const float *got, const float *want, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        if (ls_bits(got[i]) != ls_bits(want[i]))
            fail_msg("%s at level %s: element %lld of %lld is %a, the reference gives %a", what, ops->level, (long long)i, (long long)n, (double)got[i],
                     (double)want[i]);
}

/* Runs |test| at each level. */
static void each_level(void (*test)(const ls_ops *ops)) {
    ls_cpu cpu;
    ls_cpu_detect(&cpu);
    for (int l = 0; l < LS_LEVEL_COUNT; l++) {
        if (!cpu.has[l]) {
            print_message("level %s is not on this machine: skipped\n", ls_level_name((ls_level)l));
            continue;
        }
        const ls_ops *ops = ls_ops_get(ls_level_name((ls_level)l));
        assert_non_null(ops);
        if (strcmp(ops->level, ls_level_name((ls_level)l))) continue; /* the table of another level */
        state = 1;
        test(ops);
    }
}

/* ---- Norms and rotary embedding ------------------------------------------------------------------------------------ */

static void norms_of(const ls_ops *ops, int64_t cols, int64_t group, int64_t w_len, int kind) {
    float *x = values(cols, kind), *w = values(w_len ? w_len : 1, 0), *b = values(w_len ? w_len : 1, 0), *y = values(cols, 0), *want = values(cols, 0);
    const float eps[] = {1e-6f, 1e-5f, 0x1p-20f, 1.0f};
    float e = eps[next() % 4];
    ls_exact_rms_norm(want, x, cols, group, w_len ? w : NULL, w_len, 0, e);
    ops->rms_norm(y, x, cols, group, w_len ? w : NULL, w_len, e);
    check(ops, "rms_norm", y, want, cols);
    ls_exact_layer_norm(want, x, cols, group, w_len ? w : NULL, w_len, w_len ? b : NULL, w_len, e);
    ops->layer_norm(y, x, cols, group, w_len ? w : NULL, w_len, w_len ? b : NULL, w_len, e);
    check(ops, "layer_norm", y, want, cols);
    if (w_len == cols) { /* the bias has a length of its own */
        ls_exact_layer_norm(want, x, cols, group, NULL, 0, b, group, e);
        ops->layer_norm(y, x, cols, group, NULL, 0, b, group, e);
        check(ops, "layer_norm, bias of one group", y, want, cols);
        ls_exact_layer_norm(want, x, cols, group, w, w_len, b, w_len, e);
    }
    ops->layer_norm(x, x, cols, group, w_len ? w : NULL, w_len, w_len ? b : NULL, w_len, e);
    check(ops, "layer_norm in place", x, want, cols);
    float *all[] = {x, y, want};
    for (int i = 0; i < 3; i++) unguard(all[i], (size_t)cols * sizeof *x);
    unguard(w, (size_t)(w_len ? w_len : 1) * sizeof *w);
    unguard(b, (size_t)(w_len ? w_len : 1) * sizeof *b);
}

static void norms(const ls_ops *ops) {
    for (int kind = 0; kind < KINDS; kind++) {
        for (int64_t cols = 1; cols <= 70; cols++) norms_of(ops, cols, cols, cols % 3 ? cols : 0, kind);
        norms_of(ops, 576, 576, 576, kind);
        norms_of(ops, 640, 64, 64, kind);
        norms_of(ops, 640, 64, 640, kind);
        norms_of(ops, 35, 7, 35, kind);
        norms_of(ops, 32768, 32768, 32768, kind);
    }
}

static void rope_of(const ls_ops *ops, int heads, int head_dim, int rot_dim, bool interleaved, int kind) {
    int64_t n = (int64_t)heads * head_dim, half = rot_dim / 2;
    ls_rope r = {.rot_dim = rot_dim, .interleaved = interleaved, .amplitude = 1};
    float *x = values(n, kind), *y = values(n, 0), *want = values(n, 0);
    int32_t *c = guarded((size_t)half * sizeof *c), *s = guarded((size_t)half * sizeof *s);
    for (int i = 0; i < half; i++) {
        c[i] = next() % 16 ? (int32_t)next() / 2 : INT32_MAX;
        s[i] = next() % 16 ? (int32_t)next() / 2 : -INT32_MAX;
    }
    memcpy(want, x, (size_t)n * sizeof *x);
    ls_exact_rope(want, heads, head_dim, &r, c, s);
    ops->rope(y, x, heads, head_dim, &r, c, s);
    check(ops, "rope", y, want, n);
    ops->rope(x, x, heads, head_dim, &r, c, s);
    check(ops, "rope in place", x, want, n);
    float *all[] = {x, y, want};
    for (int i = 0; i < 3; i++) unguard(all[i], (size_t)n * sizeof *x);
    unguard(c, (size_t)half * sizeof *c);
    unguard(s, (size_t)half * sizeof *s);
}

static void ropes(const ls_ops *ops) {
    for (int kind = 0; kind < KINDS; kind++)
        for (int interleaved = 0; interleaved < 2; interleaved++)
            for (int rot = 2; rot <= 80; rot += 2) {
                rope_of(ops, 3, rot, rot, interleaved, kind);
                rope_of(ops, 2, rot + rot % 7, rot, interleaved, kind);
            }
}

/* ---- Elementwise ---------------------------------------------------------------------------------------------------- */

static void check_acts(const ls_ops *ops, const float *x, int64_t n) {
    float *up = values(n, 0), *y = values(n, 0), *want = values(n, 0);
    for (int a = 0; a < LS_ACT_COUNT; a++) {
        for (int64_t i = 0; i < n; i++) want[i] = ls_exact_act(x[i], (ls_act)a);
        ops->act(y, x, n, (ls_act)a);
        check(ops, ls_act_name((ls_act)a), y, want, n);
        for (int64_t i = 0; i < n; i++) want[i] = ls_canon(want[i] * up[i]);
        ops->glu(y, x, up, n, (ls_act)a);
        check(ops, "glu", y, want, n);
    }
    const float caps[] = {30.0f, 50.0f, 1.0f};
    for (int k = 0; k < 3; k++) {
        for (int64_t i = 0; i < n; i++) want[i] = ls_exact_softcap(x[i], caps[k]);
        ops->softcap(y, x, n, caps[k]);
        check(ops, "softcap", y, want, n);
    }
    float *all[] = {up, y, want};
    for (int i = 0; i < 3; i++) unguard(all[i], (size_t)n * sizeof *y);
}

static void acts(const ls_ops *ops) {
    for (int kind = 0; kind < KINDS; kind++)
        for (int64_t n = 1; n <= 140; n++) {
            float *x = values(n, kind);
            check_acts(ops, x, n);
            unguard(x, (size_t)n * sizeof *x);
        }
    /* A sweep over all canonical magnitudes and both signs. */
    enum { N = 8192 };
    static float x[N];
    uint32_t bits = 27u << 23;
    while (bits < (uint32_t)227 << 23) {
        for (int i = 0; i < N; i++, bits += 4093) x[i] = ls_canon(ls_from_bits((bits < (uint32_t)227 << 23 ? bits : 0) | (uint32_t)(i & 1) << 31));
        check_acts(ops, x, N);
    }
}

/* Arguments whose power of two has a fraction of zero or nearly so, where the shifts change over. */
static void act_edges(const ls_ops *ops) {
    enum { AROUND = 128 };
    static float x[2 * AROUND];
    const double per_step[] = {0.69314718055994531 /* SiLU */, 0.69314718055994531 / 1.702, 0.69314718055994531 * 15 /* cap 30 */, 0.69314718055994531 * 25, 0.69314718055994531 / 2};
    for (size_t f = 0; f < sizeof per_step / sizeof *per_step; f++)
        for (int n = 0; n <= 93; n++) {
            uint32_t centre = ls_bits((float)(n * per_step[f]));
            for (int sign = 0; sign < 2; sign++) {
                for (int i = 0; i < 2 * AROUND; i++) x[i] = ls_canon(ls_from_bits((centre + (uint32_t)i - (centre ? AROUND : 0)) | (uint32_t)sign << 31));
                check_acts(ops, x, 2 * AROUND);
            }
        }
}

static void elementwise_of(const ls_ops *ops, int64_t n, int kind) {
    float *a = values(n, kind), *b = values(n, kind), *y = values(n, 0), *want = values(n, 0), s = value(kind == 4 ? 0 : kind);
    int32_t *q = guarded((size_t)n * sizeof *q);
    for (int64_t i = 0; i < n; i++) want[i] = ls_canon(a[i] + b[i]);
    ops->add(y, a, b, n);
    check(ops, "add", y, want, n);
    for (int64_t i = 0; i < n; i++) want[i] = ls_canon(a[i] * b[i]);
    ops->mul(y, a, b, n);
    check(ops, "mul", y, want, n);
    for (int64_t i = 0; i < n; i++) want[i] = ls_canon(a[i] * s);
    ops->scale(y, a, n, s);
    check(ops, "scale", y, want, n);
    for (int64_t i = 0; i < n; i++) want[i] = a[i] > 2.5f ? 2.5f : a[i] < -2.5f ? -2.5f : a[i];
    ops->clamp(y, a, n, 2.5f);
    check(ops, "clamp", y, want, n);
    for (int64_t i = 0; i < n; i++) a[i] = i % 5 ? a[i] * 0x1p-60f : i % 2 ? -0.0f : a[i] * 0x1p60f;
    for (int64_t i = 0; i < n; i++) want[i] = ls_canon(a[i]);
    ops->canon(y, a, n);
    check(ops, "canon", y, want, n);
    for (int p = 14; p <= 22; p += 8) {
        uint32_t max = 0;
        for (int64_t i = 0; i < n; i++) max = (ls_bits(b[i]) & 0x7FFFFFFFu) > max ? ls_bits(b[i]) & 0x7FFFFFFFu : max;
        int e = ops->quantise(q, b, n, p);
        assert_int_equal(e, ls_block_exponent(max));
        for (int64_t i = 0; i < n; i++) assert_int_equal(q[i], ls_mantissa(b[i], e, p));
    }
    float *all[] = {a, b, y, want};
    for (int i = 0; i < 4; i++) unguard(all[i], (size_t)n * sizeof *y);
    unguard(q, (size_t)n * sizeof *q);
}

static void elementwise(const ls_ops *ops) {
    for (int kind = 0; kind < KINDS; kind++)
        for (int64_t n = 1; n <= 100; n++) elementwise_of(ops, n, kind);
}

/* ---- Attention ------------------------------------------------------------------------------------------------------ */

typedef struct attention_case {
    int heads, d, window;
    float softcap;
    int64_t keys;
    int kind;
} attention_case;

/* One key head: keys and values f32 [keys, d] quantised into blocks. */
static uint8_t **fill_blocks(const ls_ops *ops, const ls_attn *a, const float *k, const float *v, int64_t keys) {
    int64_t n = (keys + LS_KV_BLOCK - 1) / LS_KV_BLOCK;
    uint8_t **block = calloc((size_t)n, sizeof *block);
    int32_t q[512];
    size_t bytes = ls_kv_layout_of(a).bytes;
    for (int64_t b = 0; b < n; b++) {
        block[b] = guarded(bytes);
        for (size_t i = 0; i < bytes; i++) block[b][i] = (uint8_t)next(); /* what a block held before */
    }
    for (int64_t j = 0; j < keys; j++) {
        int e = ls_attn_quantise_key(ops, a, q, k + j * a->d);
        ls_kv_put_key(a, block[j / LS_KV_BLOCK], (int)(j % LS_KV_BLOCK), q, e);
        e = ops->quantise(q, v + j * a->d, a->d, a->p);
        ls_kv_put_value(a, block[j / LS_KV_BLOCK], (int)(j % LS_KV_BLOCK), q, e);
    }
    return block;
}

static void run_tile(const ls_ops *ops, const ls_attn *a, ls_attn_tile *t, uint8_t *const *block, int64_t keys, float *y) {
    int64_t ranges = (keys + LS_EXACT_KEY_RANGE - 1) / LS_EXACT_KEY_RANGE;
    size_t part = ls_attn_part_bytes(a);
    uint8_t *parts = guarded((size_t)ranges * (size_t)t->n * part);
    ls_attn_space *space = guarded(sizeof *space);
    int64_t sum[512];
    for (int64_t r = 0; r < ranges; r++) {
        const uint8_t *of_range[4] = {NULL};
        for (int b = 0; b < 4; b++) of_range[b] = r * 4 + b < (keys + LS_KV_BLOCK - 1) / LS_KV_BLOCK ? block[r * 4 + b] : NULL;
        ops->attend(a, t, r, of_range, parts + (size_t)r * (size_t)t->n * part, space);
    }
    for (int i = 0; i < t->n; i++) ops->combine(a, y + i * a->d, parts + (size_t)i * part, ranges, (size_t)t->n * part, sum);
    unguard(parts, (size_t)ranges * (size_t)t->n * part);
    unguard(space, sizeof *space);
}

/* What a query at a random or the last position sees; every other query is within a random block. */
static ls_span random_sees(const attention_case *c, int i) {
    int32_t keys = (int32_t)c->keys, position = i % 2 ? (int32_t)(next() % (uint32_t)keys) : keys - 1;
    ls_span block = {0, 0};
    if (next() % 2) block = (ls_span){(int32_t)(next() % (uint32_t)(position + 1)), position + 1 + (int32_t)(next() % (uint32_t)(keys - position))};
    return ls_sees(position, c->window, block);
}

static void attention_of(const ls_ops *ops, ls_contract contract, attention_case c) {
    ls_error e = {0};
    ls_node n = {.op = LS_OP_ATTENTION, .contract = contract, .heads = 1, .kv_heads = 1, .head_dim = c.d, .window = c.window,
                 .scale = 1.0f / (float)(1 + c.d % 13), .limit = c.softcap};
    ls_attn a = ls_attn_of(&n);
    int64_t size = c.keys * c.d;
    float *k = values(size, c.kind), *v = values(size, c.kind), *q = values((int64_t)c.heads * c.d, c.kind), y[LS_ATTN_TILE * 512], want[512];
    uint8_t **block = fill_blocks(ops, &a, k, v, c.keys);
    ls_span sees[LS_ATTN_TILE];
    ls_attn_tile t = {.n = c.heads, .far = next() % 2, .q = guarded((size_t)(c.heads * a.dp) * sizeof *t.q)};
    for (int i = 0; i < c.heads; i++) {
        int32_t m[512];
        int exponent = ls_attn_quantise_query(ops, &a, m, q + (int64_t)i * c.d);
        ls_attn_put_query(&a, &t, i, m, exponent);
        sees[i] = random_sees(&c, i);
        t.first[i] = sees[i].begin;
        t.last[i] = sees[i].end - 1;
    }
    run_tile(ops, &a, &t, block, c.keys, y);
    for (int i = 0; i < c.heads; i++) {
        assert_ok(ls_exact_attention(want, q + (int64_t)i * c.d, k, v, c.d, sees[i], &n, &e));
        check(ops, ls_contract_name(contract), y + i * c.d, want, c.d);
    }
    for (int64_t b = 0; b < (c.keys + LS_KV_BLOCK - 1) / LS_KV_BLOCK; b++) unguard(block[b], ls_kv_layout_of(&a).bytes);
    free(block);
    unguard(k, (size_t)size * sizeof *k);
    unguard(v, (size_t)size * sizeof *v);
    unguard(q, (size_t)(c.heads * c.d) * sizeof *q);
    unguard(t.q, (size_t)(c.heads * a.dp) * sizeof *t.q);
}

static void attention(const ls_ops *ops) {
    const int dims[] = {1, 2, 3, 8, 31, 32, 33, 64, 72, 80, 96, 128, 256, 257, 512};
    const int64_t keys[] = {1, 2, 17, 63, 64, 65, 200, 255, 256, 257, 300, 513, 800};
    for (int contract = 0; contract < LS_EXACT_CONTRACTS; contract++)
        for (size_t d = 0; d < sizeof dims / sizeof *dims; d++)
            for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
                int pick = (int)(next() % 1000);
                attention_case c = {.heads = 1 + pick % 4, .d = dims[d], .window = pick % 3 ? 0 : 1 + pick % 400, .softcap = pick % 5 ? 0 : 50,
                                    .keys = keys[k], .kind = pick % KINDS};
                attention_of(ops, ls_contract_exact_at(contract), c);
            }
}

/* One query whose mantissas are |m| after the first, which is the largest there is, over keys and values of largest mantissas. Under exact16-kv8
 * one column of each run is not zero, so that the rotation gives all of a run that magnitude. */
static void attention_bound(const ls_ops *ops, ls_contract contract, int d, float m) {
    enum { KEYS = 256 };
    static float k[KEYS * 512], v[KEYS * 512], q[512], y[512], want[512];
    ls_error e = {0};
    ls_node n = {.op = LS_OP_ATTENTION, .contract = contract, .heads = 1, .kv_heads = 1, .head_dim = d, .scale = 0x1p-20f};
    ls_attn a = ls_attn_of(&n);
    int run = a.narrow ? ls_rotated_columns(d) : 1;
    for (int i = 0; i < KEYS * d; i++) {
        k[i] = i % run ? 0 : 0x1.fbfffep+9f;
        v[i] = -0x1.fbfffep+9f;
    }
    for (int i = 0; i < d; i++) q[i] = i % run ? 0 : i ? -m * 0x1p-5f : 0x1.fbfffep+9f;
    uint8_t **block = fill_blocks(ops, &a, k, v, KEYS);
    static int32_t mantissa[512], tile_q[512];
    ls_attn_tile t = {.n = 1, .last = {KEYS - 1}, .q = tile_q};
    int exponent = ls_attn_quantise_query(ops, &a, mantissa, q);
    ls_attn_put_query(&a, &t, 0, mantissa, exponent);
    run_tile(ops, &a, &t, block, KEYS, y);
    assert_ok(ls_exact_attention(want, q, k, v, d, (ls_span){0, KEYS}, &n, &e));
    check(ops, "attention at its bounds", y, want, d);
    for (int b = 0; b < KEYS / LS_KV_BLOCK; b++) unguard(block[b], ls_kv_layout_of(&a).bytes);
    free(block);
}

/* Largest mantissas everywhere, at the widest heads: the sums reach their bounds. 32511 and 32384 have the lowest bytes of
 * largest magnitude that a split of the mantissa into bytes can meet. */
static void attention_extremes(const ls_ops *ops) {
    const float mantissas[] = {32512, 32511, 32384, -32512, -32511, -32384};
    for (int contract = 0; contract < LS_EXACT_CONTRACTS; contract++)
        for (int d = 256; d <= 512; d += 128)
            for (int i = 0; i < 6; i++) attention_bound(ops, ls_contract_exact_at(contract), d, mantissas[i]);
}

/* Every scale and every magnitude under it: the stored step is ls_kv_step's. */
static void test_steps(void **unused) {
    (void)unused;
    enum { D = LS_EXACT_KV_BLOCK };
    const ls_node n = {.op = LS_OP_ATTENTION, .contract = LS_CONTRACT_EXACT16_KV8, .heads = 1, .kv_heads = 1, .head_dim = D, .scale = 1};
    const ls_attn a = ls_attn_of(&n);
    const ls_kv_layout l = ls_kv_layout_of(&a);
    uint8_t *head = calloc(1, l.bytes);
    assert_non_null(head);
    for (int32_t scale = 1; scale <= 256; scale++)
        for (int32_t from = 0; from <= 127 * scale; from += D - 1) {
            int32_t q[D] = {127 * scale};
            for (int32_t i = 1; i < D; i++) q[i] = (from + i - 1 <= 127 * scale ? from + i - 1 : 0) * (i % 2 ? 1 : -1);
            ls_kv_put_value(&a, head, 0, q, 127);
            assert_int_equal(head[l.value_scale], scale - 1);
            for (int i = 0; i < D; i++) assert_int_equal((int8_t)head[l.values + 2 * (size_t)i], ls_kv_step(q[i], scale));
        }
    free(head);
}

static void test_norms(void **unused) { (void)unused; each_level(norms); }
static void test_ropes(void **unused) { (void)unused; each_level(ropes); }
static void test_elementwise(void **unused) { (void)unused; each_level(elementwise); }
static void test_acts(void **unused) { (void)unused; each_level(acts); }
static void test_act_edges(void **unused) { (void)unused; each_level(act_edges); }
static void test_attention(void **unused) { (void)unused; each_level(attention); }
static void test_attention_extremes(void **unused) { (void)unused; each_level(attention_extremes); }

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_norms),     cmocka_unit_test(test_ropes),     cmocka_unit_test(test_elementwise), cmocka_unit_test(test_acts),
        cmocka_unit_test(test_act_edges), cmocka_unit_test(test_attention), cmocka_unit_test(test_attention_extremes),
        cmocka_unit_test(test_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
