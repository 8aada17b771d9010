/* The reference executor around its operators: splits and mixes of rows do not change bits, wrong batches are refused
 * by name before anything changes, and every failed allocation leaves the slots as they were. */
#include "test.h"

#include <math.h>

#include "small_graph.h"

enum { C = 8, T = 100 };

static int32_t tokens[2][T];
static float whole[2][T * SMALL_VOCAB]; /* logits of tokens[i] alone, in one pass */

/* ---- Allocations that fail: the linker sends the allocator's calls here --------------------------------------- */

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);

static int allocations_left = -1; /* negative: no limit */

static bool admit(void) { return allocations_left < 0 || allocations_left-- > 0; }

void *__wrap_malloc(size_t n) { return admit() ? __real_malloc(n) : NULL; }
void *__wrap_calloc(size_t n, size_t size) { return admit() ? __real_calloc(n, size) : NULL; }
void *__wrap_realloc(void *p, size_t n) { return admit() ? __real_realloc(p, n) : NULL; }

/* ---- A block with attention ----------------------------------------------------------------------------------- */

static int build(small_graph *s, ls_contract contract) {
    ls_error e = {0};
    int n, q, k, v, rope;
    const double freq[2] = {1, 0.125};
    assert_ok(small_begin(s, contract, C, NULL, &e));
    assert_ok(ls_graph_add_rope(s->g, &rope, &(ls_rope){.rot_dim = 4, .amplitude = 1, .inv_freq = freq}, &e));
    assert_ok(ls_add_rms_norm(s->g, &n, s->value, small_param("norm", 1, C, NULL), 1e-5f, 1, 0, "norm", &e));
    assert_ok(ls_add_linear(s->g, &q, n, small_param("q", C, C, NULL), small_param("qb", 1, C, NULL), "q", &e));
    assert_ok(ls_add_linear(s->g, &k, n, small_param("k", 4, C, NULL), NULL, "k", &e));
    assert_ok(ls_add_linear(s->g, &v, n, small_param("v", 4, C, NULL), NULL, "v", &e));
    assert_ok(ls_add_rope(s->g, &q, q, 2, 4, rope, "q_rope", &e));
    assert_ok(ls_add_rope(s->g, &k, k, 1, 4, rope, "k_rope", &e));
    assert_ok(ls_add_attention(
        s->g, &v, q, k, v, &(ls_attention_spec){.heads = 2, .kv_heads = 1, .head_dim = 4, .scale = 0.5f}, "attn", &e));
    assert_ok(ls_add_add(s->g, &v, v, s->value, "add", &e));
    return v;
}

static void open_executor(small_graph *s, bool f64) {
    ls_error e = {0};
    ls_executor_options o = small_options(f64);
    assert_ok(small_end(s, build(s, LS_CONTRACT_FLOAT), &o, &e));
}

static int make_reference_logits(void **state) {
    (void)state;
    ls_error e = {0};
    small_graph s;
    open_executor(&s, false);
    for (int i = 0; i < 2; i++) {
        for (int t = 0; t < T; t++) tokens[i][t] = (t * (5 + i) + t / 3) % SMALL_VOCAB;
        assert_ok(small_pass(&s, tokens[i], T, i, whole[i], &e));
    }
    small_destroy(&s);
    return 0;
}

static void assert_row(const float *logits, int sequence, int position) {
    if (memcmp(logits, whole[sequence] + position * SMALL_VOCAB, SMALL_VOCAB * sizeof *logits))
        fail_msg("sequence %d, position %d: logits differ from those of the whole prompt", sequence, position);
}

/* ---- Splits and mixes ----------------------------------------------------------------------------------------- */

static void chunks_equal_the_whole(void **state) {
    (void)state;
    for (int chunk = 1; chunk <= T; chunk += chunk < 4 ? 1 : 31) {
        ls_error e = {0};
        small_graph s;
        float logits[SMALL_MAX_ROWS * SMALL_VOCAB];
        open_executor(&s, false);
        for (int begin = 0; begin < T; begin += chunk) {
            int n = T - begin < chunk ? T - begin : chunk;
            assert_ok(small_pass(&s, tokens[0] + begin, n, 2, logits, &e));
            for (int t = 0; t < n; t++) assert_row(logits + t * SMALL_VOCAB, 0, begin + t);
        }
        assert_int_equal(s.x->length(s.x, 2), T);
        assert_int_equal(s.x->length(s.x, 0), 0);
        small_destroy(&s);
    }
}

/* Two sequences in one pass, in turns of changing length, every third row's logits wanted. */
static void rows_of_other_slots_do_not_matter(void **state) {
    (void)state;
    ls_error e = {0};
    small_graph s;
    open_executor(&s, false);
    int at[2] = {0, 0};
    while (at[0] < T - 20 && at[1] < T - 20) {
        int32_t token[SMALL_MAX_ROWS], slot[SMALL_MAX_ROWS], out[SMALL_MAX_ROWS];
        int position[SMALL_MAX_ROWS], n = 0, wanted = 0;
        float logits[SMALL_MAX_ROWS * SMALL_VOCAB];
        for (int turn = 0; turn < 5; turn++)
            for (int k = 0; k < 1 + (at[0] + turn) % 3; k++, n++) {
                int which = turn % 2;
                slot[n] = which ? 0 : 3;
                position[n] = at[which]++;
                token[n] = tokens[which][position[n]];
                if (n % 3 == 0) out[wanted++] = n;
            }
        ls_batch b = {.n_rows = n, .token = token, .slot = slot, .n_out = wanted, .out_row = out};
        assert_ok(small_batch(&s, &b, logits, &e));
        for (int i = 0; i < wanted; i++) assert_row(logits + i * SMALL_VOCAB, slot[out[i]] == 0, position[out[i]]);
    }
    assert_int_equal(s.x->length(s.x, 3), at[0]);
    assert_int_equal(s.x->length(s.x, 0), at[1]);
    small_destroy(&s);
}

static void truncated_slots_continue_with_the_same_bits(void **state) {
    (void)state;
    ls_error e = {0};
    small_graph s;
    float logits[SMALL_MAX_ROWS * SMALL_VOCAB];
    size_t weights, kv, less, work;
    open_executor(&s, false);
    assert_ok(small_pass(&s, tokens[0], T, 1, logits, &e));
    s.x->truncate(s.x, 1, 30);
    assert_int_equal(s.x->length(s.x, 1), 30);
    s.x->truncate(s.x, 1, 80); /* longer than what is held: nothing happens */
    assert_int_equal(s.x->length(s.x, 1), 30);
    assert_ok(small_pass(&s, tokens[1], 7, 1, logits, &e)); /* something else */
    s.x->truncate(s.x, 1, 30);
    assert_ok(small_pass(&s, tokens[0] + 30, T - 30, 1, logits, &e));
    for (int t = 30; t < T; t++) assert_row(logits + (t - 30) * SMALL_VOCAB, 0, t);
    s.x->memory(s.x, &weights, &kv, &work);
    assert_true(kv >= 2 * T * 4 * sizeof(float) && work > 0);
    s.x->truncate(s.x, 1, 0);
    s.x->memory(s.x, &weights, &less, &work);
    assert_int_equal(less, 0);
    s.x->truncate(s.x, -1, 0); /* no such slots */
    s.x->truncate(s.x, 4, 0);
    assert_int_equal(s.x->length(s.x, 4), 0);
    assert_ok(small_pass(&s, tokens[1], T, 1, logits, &e));
    for (int t = 0; t < T; t++) assert_row(logits + t * SMALL_VOCAB, 1, t);
    small_destroy(&s);
}

/* The same graph in f64: its logits agree with f32 to rounding, and it splits without changing bits either. */
static void f64_splits_too(void **state) {
    (void)state;
    ls_error e = {0};
    small_graph s;
    static float one[T * SMALL_VOCAB], parts[T * SMALL_VOCAB];
    open_executor(&s, true);
    assert_ok(small_pass(&s, tokens[0], T, 0, one, &e));
    assert_ok(small_pass(&s, tokens[0], 70, 1, parts, &e));
    assert_ok(small_pass(&s, tokens[0] + 70, T - 70, 1, parts + 70 * SMALL_VOCAB, &e));
    assert_memory_equal(one, parts, sizeof one);
    assert_memory_not_equal(one, whole[0], sizeof one);
    for (int i = 0; i < T * SMALL_VOCAB; i++) assert_true(fabsf(one[i] - whole[0][i]) < 1e-5f);
    small_destroy(&s);
}

/* Outputs are given back after their last reader: at no time did three quarters of them exist. */
static void outputs_are_freed_early(void **state) {
    (void)state;
    ls_error e = {0};
    small_graph s;
    size_t weights, kv, work, all = 0;
    open_executor(&s, false);
    assert_ok(small_pass(&s, tokens[0], T, 0, NULL, &e));
    s.x->memory(s.x, &weights, &kv, &work);
    for (size_t i = 0; i < s.g->n_nodes; i++)
        all += s.g->nodes[i].selected ? 0 : T * (size_t)s.g->nodes[i].cols * sizeof(float);
    assert_true(work > 0 && work < all * 3 / 4);
    small_destroy(&s);
}

/* ---- The observer --------------------------------------------------------------------------------------------- */

static void observer_sees_every_node(void **state) {
    (void)state;
    for (int wide = 0; wide < 2; wide++)
        for (int wanted = 0; wanted <= 5; wanted += 5) {
            ls_error e = {0};
            small_graph s;
            float logits[5 * SMALL_VOCAB];
            open_executor(&s, wide);
            assert_ok(small_pass(&s, tokens[0], 5, 0, wanted ? logits : NULL, &e));
            assert_int_equal(s.n_outputs, s.g->n_nodes);
            for (int i = 0; i < s.n_outputs; i++) {
                assert_ptr_equal(s.outputs[i].node, &s.g->nodes[i]);
                assert_int_equal(s.outputs[i].rows, s.g->nodes[i].selected ? wanted : 5);
                assert_int_equal(s.outputs[i].cols, s.g->nodes[i].cols);
            }
            if (wanted) assert_memory_equal(small_output_of(&s, "logits"), logits, sizeof logits);
            assert_int_equal(s.x->length(s.x, 0), 5);
            small_destroy(&s);
        }
}

static void write_ones(void *user, const ls_node *n, float *values, int64_t rows, int64_t cols) {
    *(const ls_node **)user = n;
    for (int64_t i = 0; i < rows * cols; i++) values[i] = 1.0f;
}

/* The filter shows one node; what is written there is read by the next, except under f64, which evaluates in its own values. */
static void observer_writes_what_later_nodes_read(void **state) {
    (void)state;
    for (int wide = 0; wide < 2; wide++) {
        ls_error e = {0};
        small_graph s;
        float plain[SMALL_VOCAB], written[2 * SMALL_VOCAB];
        open_executor(&s, wide);
        assert_ok(small_pass(&s, tokens[0], 1, 0, plain, &e));
        const ls_node *seen = NULL;
        bool wanted[64] = {false};
        int selected = (int)s.g->n_nodes - 2;
        assert_string_equal(s.g->nodes[selected].name, "selected");
        wanted[selected] = true;
        ls_executor_options o = small_options(wide);
        o.observer = write_ones;
        o.observer_user = &seen;
        o.observe = wanted;
        ls_executor *x;
        assert_ok(ls_reference_create(&x, s.g, &o, &e));
        int32_t slots[2] = {0, 0}, rows[2] = {0, 1};
        ls_batch b = {.n_rows = 2, .token = tokens[0], .slot = slots, .n_out = 2, .out_row = rows};
        assert_ok(x->forward(x, &b, written, &e));
        assert_ptr_equal(seen, &s.g->nodes[selected]);
        if (wide) assert_memory_equal(written, plain, sizeof plain);
        else {
            assert_memory_not_equal(written, plain, sizeof plain);
            assert_memory_equal(written, written + SMALL_VOCAB, sizeof plain); /* both rows were made of ones */
        }
        x->destroy(x);
        small_destroy(&s);
    }
}

/* ---- Refusals ------------------------------------------------------------------------------------------------- */

static void wrong_batches_change_nothing(void **state) {
    (void)state;
    ls_error e = {0};
    small_graph s;
    float logits[SMALL_MAX_ROWS * SMALL_VOCAB], before = 12345;
    open_executor(&s, false);
    assert_ok(small_pass(&s, tokens[0], 60, 0, logits, &e));
    logits[0] = before;
    int32_t token[SMALL_MAX_ROWS + 1] = {0}, slot[SMALL_MAX_ROWS + 1] = {0}, rows[SMALL_MAX_ROWS + 1] = {0, 1, 2};
    ls_batch b = {.n_rows = 0, .token = token, .slot = slot, .n_out = 1, .out_row = rows};
#define REFUSES(code, text) \
    do { \
        assert_error(small_batch(&s, &b, logits, &e), code, text); \
        assert_int_equal(s.x->length(s.x, 0), 60); \
        assert_int_equal(s.x->length(s.x, 1), 0); \
        assert_true(logits[0] == before); \
    } while (0)
    REFUSES(LS_INVALID_ARGUMENT, "0 rows; allowed are 1 to 128");
    b.n_rows = SMALL_MAX_ROWS + 1;
    REFUSES(LS_INVALID_ARGUMENT, "129 rows");
    b.n_rows = 3;
    token[2] = SMALL_VOCAB;
    REFUSES(LS_INVALID_ARGUMENT, "row 2: token 32 is outside the vocabulary of 32");
    token[2] = -1;
    REFUSES(LS_INVALID_ARGUMENT, "row 2: token -1");
    token[2] = 0;
    slot[1] = 4;
    REFUSES(LS_INVALID_ARGUMENT, "row 1: slot 4 does not exist; there are 0 to 3");
    slot[1] = -1;
    REFUSES(LS_INVALID_ARGUMENT, "row 1: slot -1");
    slot[1] = 1;
    b.n_out = 4;
    REFUSES(LS_INVALID_ARGUMENT, "4 rows of logits wanted out of 3");
    b.n_out = -1;
    REFUSES(LS_INVALID_ARGUMENT, "-1 rows of logits");
    b.n_out = 3;
    rows[1] = 0;
    REFUSES(LS_INVALID_ARGUMENT, "output 1 wants row 0");
    rows[1] = 3;
    REFUSES(LS_INVALID_ARGUMENT, "output 1 wants row 3; rows must ascend within 0 to 2");
    rows[0] = -1;
    REFUSES(LS_INVALID_ARGUMENT, "output 0 wants row -1");
#undef REFUSES
    small_destroy(&s);
}

static void full_slots_are_refused(void **state) {
    (void)state;
    ls_error e = {0};
    small_graph s;
    ls_executor_options o = small_options(false);
    o.context = 70;
    assert_ok(small_end(&s, build(&s, LS_CONTRACT_FLOAT), &o, &e));
    float logits[SMALL_MAX_ROWS * SMALL_VOCAB];
    assert_ok(small_pass(&s, tokens[0], 60, 0, logits, &e));
    assert_error(small_pass(&s, tokens[0] + 60, 11, 0, logits, &e), LS_OUT_OF_RANGE,
                 "row 10: slot 0 is full, its context has 70 positions");
    assert_int_equal(s.x->length(s.x, 0), 60);
    assert_ok(small_pass(&s, tokens[0] + 60, 10, 0, logits, &e));
    for (int t = 0; t < 10; t++) assert_row(logits + t * SMALL_VOCAB, 0, 60 + t);
    assert_error(small_pass(&s, tokens[0], 1, 0, logits, &e), LS_OUT_OF_RANGE, "full");
    assert_ok(small_pass(&s, tokens[1], 70, 1, logits, &e));
    small_destroy(&s);
}

static void wrong_options_are_refused(void **state) {
    (void)state;
    ls_error e = {0};
    small_graph s;
    ls_executor *x;
    open_executor(&s, false);
    ls_executor_options o = small_options(false);
    o.max_seqs = 0;
    assert_error(ls_reference_create(&x, s.g, &o, &e), LS_INVALID_ARGUMENT, "0 slots");
    o = small_options(false);
    o.context = LS_MAX_CONTEXT + 1;
    assert_error(ls_reference_create(&x, s.g, &o, &e), LS_INVALID_ARGUMENT, "context of 16777217");
    o = small_options(false);
    o.max_rows = -5;
    assert_error(ls_reference_create(&x, s.g, &o, &e), LS_INVALID_ARGUMENT, "-5 rows");
    small_destroy(&s);
    assert_error(small_end(&s, build(&s, LS_CONTRACT_EXACT16),
                           &(ls_executor_options){.max_seqs = 1, .context = 8, .max_rows = 8, .f64 = true}, &e),
                 LS_INVALID_ARGUMENT, "f64 evaluation needs the float contract; node \"x\" has exact16");
    small_destroy(&s);
}

/* Ends a graph on a linear with |w|, which must be refused with |text|. */
static void refuse_weight(const ls_param *w, ls_code code, const char *text) {
    ls_error e = {0};
    small_graph s;
    int v;
    assert_ok(small_begin(&s, LS_CONTRACT_FLOAT, C, NULL, &e));
    assert_ok(ls_add_linear(s.g, &v, s.value, w, NULL, "proj", &e));
    assert_error(small_end(&s, v, NULL, &e), code, text);
    assert_non_null(strstr(e.text, "node \"proj\""));
    small_destroy(&s);
}

static void unusable_weights_are_named(void **state) {
    (void)state;
    static float bad[2 * C];
    ls_tensor t =
        {.name = "w", .dtype = "F32", .format = LS_F32, .rank = 2, .shape = {2, C}, .data = bad, .bytes = sizeof bad};
    ls_param p = {.name = "w", .tensor = &t, .rows = 2, .cols = C};
    memset(bad + C + 3, 0xFF, sizeof *bad);
    refuse_weight(&p, LS_INVALID_ARGUMENT, "\"w\"");
    bad[C + 3] = 0;
    p.row_begin = 1;
    refuse_weight(&p, LS_INVALID_ARGUMENT, "tensor \"w\" with 2 rows of 8 columns does not hold rows 1 to 2");
    p.row_begin = -1;
    refuse_weight(&p, LS_INVALID_ARGUMENT, "does not hold rows -1 to 0");
    p.row_begin = 0;
    t.data = NULL;
    refuse_weight(&p, LS_FAILED_PRECONDITION, "has \"w\" only in the form of backend native");
    t = (ls_tensor){.name = "w",
                    .dtype = "F8_E4M3",
                    .format = LS_OTHER,
                    .rank = 2,
                    .shape = {2, C},
                    .data = bad,
                    .bytes = 2 * C};
    refuse_weight(&p, LS_UNIMPLEMENTED, "F8_E4M3");
}

static void graphs_without_logits_are_refused(void **state) {
    (void)state;
    ls_error e = {0};
    small_graph s;
    ls_executor *x;
    ls_executor_options o = small_options(false);
    int v;
    assert_ok(small_begin(&s, LS_CONTRACT_FLOAT, C, NULL, &e));
    s.g->vocab = C;
    assert_error(ls_reference_create(&x, s.g, &o, &e), LS_INVALID_ARGUMENT, "does not end in logits");
    assert_ok(ls_add_select_rows(s.g, &v, s.value, "selected", &e));
    s.g->vocab = C + 1;
    assert_error(ls_reference_create(&x, s.g, &o, &e), LS_INVALID_ARGUMENT, "vocabulary of 9");
    s.g->n_nodes = 0;
    assert_error(ls_reference_create(&x, s.g, &o, &e), LS_INVALID_ARGUMENT, "does not end in logits");
    s.g->n_nodes = 2;
    const ls_param *wide = small_param("wide", SMALL_VOCAB + 1, C, NULL);
    assert_ok(ls_add_linear(s.g, &v, v, wide, NULL, "logits", &e));
    s.g->vocab = SMALL_VOCAB + 1;
    assert_error(ls_reference_create(&x, s.g, &o, &e), LS_INVALID_ARGUMENT,
                 "table \"table\" has 32 rows for a vocabulary of 33");
    small_destroy(&s);
}

/* ---- Memory that runs out ------------------------------------------------------------------------------------- */

/* Creation with the n-th allocation failing, n = 0, 1, ... until it succeeds. */
static void creation_survives_failed_allocations(void **state) {
    (void)state;
    ls_error e = {0};
    small_graph s;
    ls_executor *x = NULL;
    ls_executor_options o = small_options(false);
    open_executor(&s, false);
    int n = 0;
    for (ls_code rc = LS_RESOURCE_EXHAUSTED; rc; n++) {
        allocations_left = n;
        rc = ls_reference_create(&x, s.g, &o, &e);
        allocations_left = -1;
        if (rc) assert_int_equal(rc, LS_RESOURCE_EXHAUSTED);
    }
    assert_true(n > 5);
    x->destroy(x);
    small_destroy(&s);
}

/* A pass that makes the cache grow, failing at every allocation in turn: the slot keeps its length, and the pass that
 * succeeds at last gives the usual bits. */
static void passes_survive_failed_allocations(void **state) {
    (void)state;
    ls_error e = {0};
    small_graph s;
    ls_executor *x = NULL;
    ls_executor_options o = small_options(false);
    static float logits[SMALL_MAX_ROWS * SMALL_VOCAB];
    int32_t slot[T] = {0}, rows[T];
    for (int i = 0; i < T; i++) rows[i] = i;
    open_executor(&s, false);
    assert_ok(ls_reference_create(&x, s.g, &o, &e)); /* without an observer */
    ls_batch first = {.n_rows = 50, .token = tokens[0], .slot = slot},
             second = {.n_rows = 50, .token = tokens[0] + 50, .slot = slot, .n_out = 50, .out_row = rows};
    assert_ok(x->forward(x, &first, NULL, &e));
    int n = 0;
    for (ls_code rc = LS_RESOURCE_EXHAUSTED; rc; n++) {
        allocations_left = n;
        rc = x->forward(x, &second, logits, &e);
        allocations_left = -1;
        if (rc) assert_int_equal(rc, LS_RESOURCE_EXHAUSTED);
        assert_int_equal(x->length(x, 0), rc ? 50 : 100);
    }
    assert_true(n > (int)s.g->n_nodes);
    for (int t = 0; t < 50; t++) assert_row(logits + t * SMALL_VOCAB, 0, 50 + t);
    x->destroy(x);
    small_destroy(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunks_equal_the_whole),
        cmocka_unit_test(rows_of_other_slots_do_not_matter),
        cmocka_unit_test(truncated_slots_continue_with_the_same_bits),
        cmocka_unit_test(f64_splits_too),
        cmocka_unit_test(outputs_are_freed_early),
        cmocka_unit_test(observer_sees_every_node),
        cmocka_unit_test(observer_writes_what_later_nodes_read),
        cmocka_unit_test(wrong_batches_change_nothing),
        cmocka_unit_test(full_slots_are_refused),
        cmocka_unit_test(wrong_options_are_refused),
        cmocka_unit_test(unusable_weights_are_named),
        cmocka_unit_test(graphs_without_logits_are_refused),
        cmocka_unit_test(creation_survives_failed_allocations),
        cmocka_unit_test(passes_survive_failed_allocations),
    };
    return cmocka_run_group_tests(tests, make_reference_logits, NULL);
}
