/* src/graph: every builder refuses wrong shapes by name, names are unique, canonical text changes with every attribute. */
#include "test.h"

#include "graph/graph.h"

enum { H = 8, V = 16 };

static float numbers[V * H];
static const ls_tensor matrix = {.name = "w", .format = LS_F32, .rank = 2, .shape = {V, H}, .data = numbers, .bytes = sizeof numbers};
static const ls_tensor vector = {.name = "v", .format = LS_F32, .rank = 1, .shape = {H}, .data = numbers, .bytes = H * 4};
static const ls_param table = {"w", &matrix, 0, V, H}, norm = {"v", &vector, 0, 1, H};

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
    const ls_param six = {"n", &narrow, 0, 4, 6};
    assert_error(ls_add_linear(g, &v, x, &six, NULL, "proj", &e), LS_INVALID_ARGUMENT, "\"proj\": input \"embed\" has 8 columns, needs 6");
    assert_error(ls_add_linear(g, &v, 7, &table, NULL, "proj", &e), LS_INVALID_ARGUMENT, "not an earlier node");
    assert_error(ls_add_rms_norm(g, &v, x, &norm, 1e-5f, 0, 3, "norm", &e), LS_INVALID_ARGUMENT, "does not divide");
    assert_error(ls_add_rms_norm(g, &v, x, &norm, 0.0f, 0, 0, "norm", &e), LS_INVALID_ARGUMENT, "eps");
    assert_error(ls_add_slice(g, &v, x, 6, 3, "slice", &e), LS_INVALID_ARGUMENT, "[6, 9) of 8");
    assert_error(ls_add_rope(g, &v, x, 2, 4, 0, "rope", &e), LS_INVALID_ARGUMENT, "does not exist");
    ls_attention_spec s = {.heads = 3, .kv_heads = 2, .head_dim = 4, .scale = 1};
    assert_error(ls_add_attention(g, &v, x, x, x, &s, "attn", &e), LS_INVALID_ARGUMENT, "3 heads over 2");
    assert_error(ls_add_embed(g, &v, &table, 1.0f, "embed", &e), LS_ALREADY_EXISTS, "\"embed\"");
    const ls_param up[2] = {{"e", &matrix, 0, V, H}, {"e", &matrix, 0, 4, H}}, down[2] = {{"d", &matrix, 0, H, V}, {"d", &matrix, 0, H, 4}};
    const ls_moe unequal = {.experts = 2, .top_k = 1, .gate = up, .up = up, .down = down};
    int router;
    assert_ok(ls_add_slice(g, &router, x, 0, 2, "router", &e));
    assert_error(ls_add_moe(g, &v, x, router, &unequal, LS_ACT_SILU, "moe", &e), LS_INVALID_ARGUMENT, "expert 1 is 4 wide inside, expert 0 16");
    assert_ok(ls_add_select_rows(g, &v, x, "select", &e));
    assert_error(ls_add_add(g, &v, v, x, "mix", &e), LS_INVALID_ARGUMENT, "mix all rows and selected rows");
    assert_int_equal(g->n_nodes, 3);
    ls_graph_destroy(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(text_changes_with_every_attribute), cmocka_unit_test(wrong_shapes_are_named)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
