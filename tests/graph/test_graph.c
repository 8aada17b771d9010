/* src/graph: every builder refuses wrong shapes by name, names are unique, canonical text changes with every attribute. */
#include "test.h"

#include "graph/graph.h"

enum { H = 8, V = 16 };

static float numbers[V * H];
static const ls_tensor matrix = {.name = "w", .format = LS_F32, .rank = 2, .shape = {V, H}, .data = numbers, .bytes = sizeof numbers};
static const ls_tensor vector = {.name = "v", .format = LS_F32, .rank = 1, .shape = {H}, .data = numbers, .bytes = H * 4};
static const ls_param table = {.name = "w", .tensor = &matrix, .rows = V, .cols = H}, norm = {.name = "v", .tensor = &vector, .rows = 1, .cols = H};

/* Values of one small block, changed one at a time by |variant| (0: none); every change must show in the text. */
enum { VARIANTS = 24 };

static ls_code build(ls_graph *g, int variant, ls_error *e) {
    int v = 0, x, q, k, a;
#define IS(n) (variant == (n))
    double freq[2] = {1.0, IS(1) ? 0.5 : 0.25};
    ls_rope r = {.rot_dim = 4, .interleaved = IS(2), .amplitude = IS(3) ? 2.0f : 1.0f, .inv_freq = freq};
    LS_TRY(ls_graph_add_rope(g, &v, &r, e));
    LS_TRY(ls_add_embed(g, &x, &table, IS(4) ? 2.0f : 1.0f, IS(5) ? "embed" : "embed_tokens", e));
    LS_TRY(ls_add_rms_norm(g, &q, x, &norm, IS(6) ? 1e-6f : 1e-5f, IS(7) ? 1.0f : 0.0f, IS(8) ? 4 : 0, "norm", e));
    LS_TRY(ls_add_rope(g, &k, q, IS(9) ? 1 : 2, IS(9) ? 8 : 4, 0, "k_rope", e));
    ls_attention_spec s = {.heads = IS(10) ? 1 : 2, .kv_heads = IS(10) ? 1 : 2, .head_dim = IS(10) ? 8 : 4, .window = IS(11) ? 3 : 0,
                           .scale = IS(12) ? 0.25f : 0.5f, .softcap = IS(13) ? 20.0f : 0.0f};
    LS_TRY(ls_add_attention(g, &a, IS(14) ? q : k, k, q, &s, "attn", e));
    LS_TRY(ls_add_glu(g, &v, a, x, IS(15) ? LS_ACT_GELU : LS_ACT_SILU, "glu", e));
    LS_TRY(ls_add_activation(g, &v, v, IS(16) ? LS_ACT_RELU : LS_ACT_SIGMOID, "act", e));
    LS_TRY(ls_add_scale(g, &v, v, IS(17) ? 3.0f : 0.5f, "scale", e));
    LS_TRY(ls_add_clamp(g, &v, v, IS(18) ? 4.0f : 2.0f, "clamp", e));
    LS_TRY(ls_add_softcap(g, &v, v, IS(19) ? 4.0f : 2.0f, "cap", e));
    LS_TRY(ls_add_slice(g, &q, v, IS(20) ? 1 : 0, 4, "slice", e));
    LS_TRY(ls_add_add(g, &v, v, x, "add", e));
    LS_TRY(ls_add_layer_norm(g, &v, v, &norm, IS(21) ? &norm : NULL, 1e-5f, 0, "ln", e));
    LS_TRY(ls_add_mul(g, &v, v, IS(22) ? a : x, "mul", e));
    LS_TRY(ls_add_select_rows(g, &v, v, "select", e));
    return ls_add_linear(g, &v, v, &table, NULL, IS(23) ? "head" : "lm_head", e);
#undef IS
}

static void text_changes_with_every_attribute(void **state) {
    (void)state;
    static char seen[VARIANTS + 2][65];
    ls_error e = {0};
    for (int i = 0; i < VARIANTS + 2; i++) {
        ls_graph *g;
        assert_ok(ls_graph_create(&g, i == VARIANTS ? LS_CONTRACT_EXACT24 : LS_CONTRACT_EXACT16, &e));
        assert_ok(build(g, i < VARIANTS ? i : 0, &e));
        assert_ok(ls_graph_fingerprint(g, seen[i], &e));
        ls_graph_destroy(g);
    }
    assert_string_equal(seen[0], seen[VARIANTS + 1]);
    for (int i = 0; i < VARIANTS + 1; i++)
        for (int j = 0; j < i; j++)
            if (!strcmp(seen[i], seen[j])) fail_msg("variants %d and %d have the same fingerprint", i, j);
}

static void wrong_shapes_are_named(void **state) {
    (void)state;
    ls_error e = {0};
    ls_graph *g;
    int x, v;
    assert_ok(ls_graph_create(&g, LS_CONTRACT_EXACT16, &e));
    assert_ok(ls_add_embed(g, &x, &table, 1.0f, "embed", &e));
    static const ls_tensor narrow = {.name = "n", .format = LS_F32, .rank = 2, .shape = {4, 6}, .data = numbers};
    const ls_param six = {.name = "n", .tensor = &narrow, .rows = 4, .cols = 6};
    assert_error(ls_add_linear(g, &v, x, &six, NULL, "proj", &e), LS_INVALID_ARGUMENT, "\"proj\": input \"embed\" has 8 columns, needs 6");
    assert_error(ls_add_linear(g, &v, 7, &table, NULL, "proj", &e), LS_INVALID_ARGUMENT, "not an earlier node");
    assert_error(ls_add_rms_norm(g, &v, x, &norm, 1e-5f, 0, 3, "norm", &e), LS_INVALID_ARGUMENT, "does not divide");
    assert_error(ls_add_rms_norm(g, &v, x, &norm, 0.0f, 0, 0, "norm", &e), LS_INVALID_ARGUMENT, "eps");
    assert_error(ls_add_slice(g, &v, x, 6, 3, "slice", &e), LS_INVALID_ARGUMENT, "[6, 9) of 8");
    assert_error(ls_add_rope(g, &v, x, 2, 4, 0, "rope", &e), LS_INVALID_ARGUMENT, "does not exist");
    ls_attention_spec s = {.heads = 3, .kv_heads = 2, .head_dim = 4, .scale = 1};
    assert_error(ls_add_attention(g, &v, x, x, x, &s, "attn", &e), LS_INVALID_ARGUMENT, "3 heads over 2");
    assert_error(ls_add_embed(g, &v, &table, 1.0f, "embed", &e), LS_ALREADY_EXISTS, "\"embed\"");
    const ls_param up[2] = {{.name = "e", .tensor = &matrix, .rows = V, .cols = H}, {.name = "e", .tensor = &matrix, .rows = 4, .cols = H}};
    const ls_param down[2] = {{.name = "d", .tensor = &matrix, .rows = H, .cols = V}, {.name = "d", .tensor = &matrix, .rows = H, .cols = 4}};
    const ls_moe unequal = {.experts = 2, .top_k = 1, .gate = up, .up = up, .down = down};
    int router;
    assert_ok(ls_add_slice(g, &router, x, 0, 2, "router", &e));
    assert_error(ls_add_moe(g, &v, x, router, &unequal, LS_ACT_SILU, "moe", &e), LS_INVALID_ARGUMENT, "expert 1 is 4 wide inside, expert 0 16");
    assert_ok(ls_add_select_rows(g, &v, x, "select", &e));
    assert_error(ls_add_add(g, &v, v, x, "mix", &e), LS_INVALID_ARGUMENT, "mix all rows and selected rows");
    assert_int_equal(g->n_nodes, 3);
    ls_graph_destroy(g);
}

/* The operators of a vision tower; every change must show in the text. */
enum { TOWER_VARIANTS = 6 };

static ls_code build_tower(ls_graph *g, int variant, ls_error *e) {
    static ls_param positions; /* the graph borrows it */
    int x, v;
    positions = table;
    positions.layout = variant == 1 ? LS_LAYOUT_TRANSPOSED : LS_LAYOUT_ROWS;
    LS_TRY(ls_add_input(g, &x, H, "rows", e));
    LS_TRY(ls_add_position(g, &x, x, &positions, variant == 2 ? "positions" : "position", e));
    ls_attention_spec s = {.heads = 2, .kv_heads = 2, .head_dim = 4, .scale = 0.5f, .bidirectional = variant != 3};
    LS_TRY(ls_add_attention(g, &x, x, x, x, &s, "first", e));
    LS_TRY(ls_add_attention(g, &x, x, x, x, &s, "second", e));
    return ls_add_avg_pool(g, &v, x, variant == 4 ? 8 : 4, variant == 5 ? 4 : 2, "pool", e);
}

static void towers_are_graphs_of_rows(void **state) {
    (void)state;
    static char seen[TOWER_VARIANTS][65];
    ls_error e = {0};
    for (int i = 0; i < TOWER_VARIANTS; i++) {
        ls_graph *g;
        assert_ok(ls_graph_create(&g, LS_CONTRACT_EXACT16, &e));
        assert_ok(build_tower(g, i, &e));
        assert_ok(ls_graph_fingerprint(g, seen[i], &e));
        assert_int_equal(g->n_caches, i == 3 ? 2 : 1);
        assert_int_equal(g->input_cols, H);
        assert_int_equal(g->image_rows, i == 4 ? 64 : 16);
        assert_int_equal(g->image_out, i == 4 ? 16 : i == 5 ? 1 : 4);
        for (int j = 0; j < i; j++) assert_string_not_equal(seen[i], seen[j]);
        ls_graph_destroy(g);
    }
    /* Squares of 2 in two images of 4 x 4 rows. */
    const ls_node pool = {.op = LS_OP_AVG_POOL, .grid = 4, .pool = 2};
    static const int64_t first[] = {0, 2, 8, 10, 16, 18, 24, 26};
    for (int i = 0; i < 8; i++) assert_int_equal(ls_pool_row(&pool, i), first[i]);
}

static void wrong_towers_are_named(void **state) {
    (void)state;
    ls_error e = {0};
    ls_graph *g;
    int x, a, v;
    assert_ok(ls_graph_create(&g, LS_CONTRACT_EXACT16, &e));
    assert_ok(ls_add_input(g, &x, H, "rows", &e));
    assert_error(ls_add_input(g, &v, H, "more", &e), LS_INVALID_ARGUMENT, "\"more\": rows from outside are the first node");
    static const ls_tensor narrow = {.name = "n", .format = LS_F32, .rank = 2, .shape = {4, 6}, .data = numbers};
    const ls_param six = {.name = "n", .tensor = &narrow, .rows = 4, .cols = 6};
    assert_error(ls_add_position(g, &v, x, &six, "position", &e), LS_INVALID_ARGUMENT, "has 8 columns, needs 6");
    ls_attention_spec s = {.heads = 2, .kv_heads = 2, .head_dim = 4, .scale = 0.5f, .window = 3, .bidirectional = true};
    assert_error(ls_add_attention(g, &v, x, x, x, &s, "attn", &e), LS_INVALID_ARGUMENT, "a window of 3");
    s.window = 0;
    assert_ok(ls_add_attention(g, &a, x, x, x, &s, "attn", &e));
    s.scale = 0.25f;
    assert_error(ls_add_attention(g, &v, x, x, x, &s, "other", &e), LS_INVALID_ARGUMENT, "must be like that of \"attn\"");
    assert_error(ls_add_avg_pool(g, &v, a, 4, 3, "pool", &e), LS_INVALID_ARGUMENT, "squares of 3 in a grid of 4");
    assert_error(ls_add_avg_pool(g, &v, a, 2048, 2, "pool", &e), LS_INVALID_ARGUMENT, "at most 1024");
    assert_ok(ls_add_avg_pool(g, &v, a, 4, 2, "pool", &e));
    assert_error(ls_add_avg_pool(g, &v, a, 4, 2, "pool2", &e), LS_INVALID_ARGUMENT, "pooled or selected already");
    assert_error(ls_add_position(g, &v, v, &table, "late", &e), LS_INVALID_ARGUMENT, "selected rows have no positions");
    ls_graph_destroy(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(text_changes_with_every_attribute), cmocka_unit_test(wrong_shapes_are_named),
                                       cmocka_unit_test(towers_are_graphs_of_rows), cmocka_unit_test(wrong_towers_are_named)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
