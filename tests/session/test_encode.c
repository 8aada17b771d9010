/* The vision tower and projector of fixtures/vision: against transformers, and bit by bit between the reference, every native level, numbers
 * of threads and of images in a pass; and passes that are refused. */
#include "test.h"

#include <math.h>

#include "native/cpu.h"
#include "session/encode.h"
#include "vision_tower.h"

enum { IMAGES = TOWER_IMAGES, PIXELS = TOWER_PIXELS, ROWS = TOWER_ROWS, OUT = TOWER_OUT, COLS = TOWER_COLS, WIDTH = 144 };

typedef struct kept {
    float *rows;      /* [ROWS, WIDTH] of the node "post_layernorm" */
} kept;

static void keep(void *user, const ls_node *n, float *values, int64_t rows, int64_t cols) {
    const char *end = strrchr(n->name, '.');
    if (end && !strcmp(end, ".post_layernorm") && rows == ROWS && cols == WIDTH) memcpy(((kept *)user)->rows, values, sizeof(float) * ROWS * WIDTH);
}

static void encode(const tower *t, ls_executor *x, int first, int n, float *out) {
    ls_error e = {0};
    assert_ok(ls_encode_images(x, &t->v, t->pixels + first, n, out, &e));
    assert_int_equal(x->length(x, 0), 0);
}

/* |want| (its first |n| elements) f32 or, when its last axis is a pair of words, f64. */
static double relative_rms(const float *got, const ls_tensor *want, size_t n) {
    double error = 0, square = 0;
    bool wide = want->rank == 3 && want->shape[2] == 2;
    for (size_t i = 0; i < n; i++) {
        double w;
        if (wide) memcpy(&w, (const char *)want->data + i * sizeof w, sizeof w);
        else w = (double)((const float *)want->data)[i];
        error += ((double)got[i] - w) * ((double)got[i] - w);
        square += w * w;
    }
    return sqrt(error / square);
}

static void near_transformers(void **state) {
    (void)state;
    static const struct {
        ls_contract contract;
        bool f64;
        double tower, features; /* relative RMS against float32, and against float64 */
    } cases[] = {{LS_CONTRACT_FLOAT, true, 1e-5, 1e-7}, {LS_CONTRACT_FLOAT, false, 1e-5, 1e-5}, {LS_CONTRACT_EXACT24, false, 1e-5, 1e-5},
                 {LS_CONTRACT_EXACT16, false, 2e-3, 2e-3}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tower t;
        ls_error e = {0};
        static float rows[ROWS * WIDTH], out[IMAGES * OUT * COLS];
        kept k = {rows};
        tower_open(&t, cases[i].contract);
        ls_executor_options o = ls_encode_options(&t.v, 1);
        o.f64 = cases[i].f64;
        o.observer = keep;
        o.observer_user = &k;
        ls_executor *x;
        assert_ok(ls_reference_create(&x, t.v.graph, &o, &e));
        encode(&t, x, 1, 1, out + OUT * COLS);
        encode(&t, x, 0, 1, out);
        double tower_rms = relative_rms(rows, ls_checkpoint_find(t.golden, "vision_tower.vision_model.post_layernorm"), (size_t)ROWS * WIDTH);
        double rms = relative_rms(out, ls_checkpoint_find(t.golden, "features_f64"), (size_t)IMAGES * OUT * COLS);
        if (!(tower_rms < cases[i].tower) || !(rms < cases[i].features))
            fail_msg("%s: relative RMS %g of the tower, %g of the rows", ls_contract_name(cases[i].contract), tower_rms, rms);
        x->destroy(x);
        tower_close(&t);
    }
}

/* The model of the whole requests: one picture, and two. */
static void the_random_model_sees_as_transformers(void **state) {
    (void)state;
    enum { SIZE = 3 * 64 * 64, TOKENS = 16, HIDDEN = 48 };
    static const ls_contract contracts[] = {LS_CONTRACT_FLOAT, LS_CONTRACT_EXACT24};
    static float out[2 * TOKENS * HIDDEN];
    ls_error e = {0};
    ls_checkpoint *c, *golden;
    assert_ok(ls_checkpoint_open(&c, LS_FIXTURES "/vision/gemma3_random", &e));
    assert_ok(ls_checkpoint_open(&golden, LS_FIXTURES "/vision/gemma3_random/golden.safetensors", &e));
    for (int k = 0; k < 4; k++) {
        bool two = k % 2;
        ls_vision v;
        ls_executor *x;
        const ls_build_options build = {.contract = contracts[k / 2]};
        assert_ok(ls_vision_build(&v, c, &build, &e));
        const ls_tensor *pixels = ls_checkpoint_find(golden, two ? "two.pixel_values" : "one.pixel_values");
        const ls_tensor *want = ls_checkpoint_find(golden, two ? "two.projected" : "one.projected");
        assert_int_equal(pixels->shape[0], 1 + two);
        const float *image[2] = {pixels->data, (const float *)pixels->data + SIZE};
        ls_executor_options o = ls_encode_options(&v, 1 + two);
        assert_ok(k / 2 ? ls_native_create(&x, v.graph, c, &o, &e) : ls_reference_create(&x, v.graph, &o, &e));
        assert_ok(ls_encode_images(x, &v, image, 1 + two, out, &e));
        double rms = relative_rms(out, want, (size_t)(1 + two) * TOKENS * HIDDEN);
        if (!(rms < 1e-5)) fail_msg("%s, %d images: relative RMS %g", ls_contract_name(contracts[k / 2]), 1 + two, rms);
        x->destroy(x);
        ls_vision_deinit(&v);
    }
    ls_checkpoint_close(golden);
    ls_checkpoint_close(c);
}

static void native_has_the_bits_of_the_reference(void **state) {
    (void)state;
    static float want[IMAGES * OUT * COLS], got[IMAGES * OUT * COLS];
    ls_cpu cpu;
    ls_cpu_detect(&cpu);
    for (int contract = LS_CONTRACT_EXACT16; contract <= LS_CONTRACT_EXACT24; contract++) {
        tower t;
        ls_error e = {0};
        ls_executor *x;
        tower_open(&t, (ls_contract)contract);
        ls_executor_options o = ls_encode_options(&t.v, IMAGES);
        assert_ok(ls_reference_create(&x, t.v.graph, &o, &e));
        encode(&t, x, 0, IMAGES, want);
        x->destroy(x);
        for (int level = 0; level < LS_LEVEL_COUNT; level++)
            for (int threads = 1; cpu.has[level] && threads <= 3; threads += 2) {
                o = ls_encode_options(&t.v, IMAGES);
                o.level = ls_level_name((ls_level)level);
                o.threads = threads;
                assert_ok(ls_native_create(&x, t.v.graph, t.c, &o, &e));
                memset(got, 0, sizeof got);
                encode(&t, x, 0, IMAGES, got);
                assert_memory_equal(got, want, sizeof want);
                for (int i = 0; threads > 1 && i < IMAGES; i++) encode(&t, x, i, 1, got + i * OUT * COLS);
                assert_memory_equal(got, want, sizeof want);
                x->destroy(x);
            }
        tower_close(&t);
    }
}

static void passes_that_are_no_images_are_refused(void **state) {
    (void)state;
    tower t;
    ls_error e = {0};
    ls_executor *x;
    static float pixels[PIXELS], out[IMAGES * OUT * COLS], row[48];
    static const float *rows[IMAGES * ROWS];
    static int32_t slot[IMAGES * ROWS];
    const float *bad[1] = {pixels};
    tower_open(&t, LS_CONTRACT_EXACT16);
    ls_executor_options o = ls_encode_options(&t.v, IMAGES);
    o.context = ROWS + 1;
    assert_error(ls_native_create(&x, t.v.graph, t.c, &o, &e), LS_INVALID_ARGUMENT, "context of 325 positions");
    o.context = ROWS;
    assert_ok(ls_native_create(&x, t.v.graph, t.c, &o, &e));
    pixels[5] = NAN;
    assert_error(ls_encode_images(x, &t.v, bad, 1, out, &e), LS_INVALID_ARGUMENT, "row 1, column 1 is nan");
    for (int i = 0; i < IMAGES * ROWS; i++) rows[i] = row;
    ls_batch b = {.n_rows = ROWS - 1, .slot = slot, .n_out = OUT, .embedding = rows};
    assert_error(x->forward(x, &b, out, &e), LS_INVALID_ARGUMENT, "an image has 324 rows and gives 9");
    b.n_rows = IMAGES * ROWS;
    b.n_out = IMAGES * OUT;
    assert_error(x->forward(x, &b, out, &e), LS_INVALID_ARGUMENT, "slot 0 has an image already");
    for (int i = 0; i < IMAGES * ROWS; i++) slot[i] = i % 2;
    assert_error(x->forward(x, &b, out, &e), LS_INVALID_ARGUMENT, "the rows of an image are in one slot");
    b = (ls_batch){.n_rows = ROWS, .slot = slot, .n_out = OUT};
    memset(slot, 0, sizeof slot);
    assert_error(x->forward(x, &b, out, &e), LS_INVALID_ARGUMENT, "row 0 has no numbers");
    rows[7] = NULL;
    b.embedding = rows;
    assert_error(x->forward(x, &b, out, &e), LS_INVALID_ARGUMENT, "row 7 has no numbers");
    rows[7] = row;
    assert_ok(x->forward(x, &b, out, &e));
    assert_error(x->forward(x, &b, out, &e), LS_OUT_OF_RANGE, "slot 0 holds 324 positions");
    x->destroy(x);
    tower_close(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(near_transformers), cmocka_unit_test(the_random_model_sees_as_transformers),
                                       cmocka_unit_test(native_has_the_bits_of_the_reference),
                                       cmocka_unit_test(passes_that_are_no_images_are_refused)};
    return cmocka_run_group_tests_name("encode", tests, NULL, NULL);
}
