/* Modules of every family equal the goldens byte for byte: digests of all in fixtures/xla/emit_digests.txt, and a few whole
 * texts beside it, whose first differing line is shown.
 *
 *   test_emit_goldens            compares
 *   test_emit_goldens --print    writes the goldens again, after a change of the emitter that is meant
 *
 * A digest's module: `lockstep emit fixtures/models/FAMILY --entry ENTRY --contract CONTRACT --tokens 8 ...`. */
#include "test.h"

#include <stdlib.h>

#include "base/file.h"
#include "base/sha256.h"
#include "fixture_models.h"
#include "xla/emit/emit.h"

enum { ROWS = 8, CAPACITY = 256, MAX_GOLDENS = 1 << 20 };

/* What is emitted of one entry. */
typedef struct shape {
    const char *name;
    ls_entry entry;
    int64_t rows;
} shape;

static const shape shapes[] = {
    {"prefill", LS_ENTRY_PREFILL, ROWS},   {"decode", LS_ENTRY_DECODE, 1},
    {"extend", LS_ENTRY_EXTEND, ROWS},     {"prefill_embeddings", LS_ENTRY_PREFILL_EMBEDDINGS, ROWS},
    {"decode_ragged4", LS_ENTRY_DECODE_RAGGED, 4}, {"decode_ragged8", LS_ENTRY_DECODE_RAGGED, 8},
    {"extend_embeddings", LS_ENTRY_EXTEND_EMBEDDINGS, ROWS},
};

/* The ways to lower a contract; |shapes| of them are kept, from the list's beginning. */
typedef struct variant {
    const char *name;
    ls_contract contract;
    ls_emit_options o;
    size_t shapes;
} variant;

static const variant variants[] = {
    {"exact16", LS_CONTRACT_EXACT16, {.carrier = LS_CARRIER_F32}, 7},
    {"exact24", LS_CONTRACT_EXACT24, {.carrier = LS_CARRIER_F32}, 7},
    {"float", LS_CONTRACT_FLOAT, {.precision = LS_PRECISION_F32}, 7},
    {"exact16-f64", LS_CONTRACT_EXACT16, {.carrier = LS_CARRIER_F64}, 2},
    {"exact16-i8", LS_CONTRACT_EXACT16, {.carrier = LS_CARRIER_I8}, 2},
    {"exact24-f64", LS_CONTRACT_EXACT24, {.carrier = LS_CARRIER_F64}, 2},
    {"exact24-i8", LS_CONTRACT_EXACT24, {.carrier = LS_CARRIER_I8}, 2},
    {"float-f16", LS_CONTRACT_FLOAT, {.precision = LS_PRECISION_F16}, 2},
    {"float-bf16", LS_CONTRACT_FLOAT, {.precision = LS_PRECISION_BF16}, 2},
    {"float-argmax", LS_CONTRACT_FLOAT, {.argmax = true}, 2},
    {"exact16-kv8", LS_CONTRACT_EXACT16_KV8, {.carrier = LS_CARRIER_F32}, 2},
    {"exact16-kv8-i8", LS_CONTRACT_EXACT16_KV8, {.carrier = LS_CARRIER_I8}, 2},
    {"float-packed", LS_CONTRACT_FLOAT, {.packed = true}, 6}, /* MLX fixture only */
};
enum { N_VARIANTS = sizeof variants / sizeof *variants, N_SHAPES = sizeof shapes / sizeof *shapes };

static bool print;

static ls_emit_options options_of(const variant *v, const shape *s) {
    ls_emit_options o = v->o;
    o.entry = s->entry;
    o.rows = s->rows;
    o.capacity = CAPACITY;
    o.sequences = o.out_rows = 1;
    return o;
}

static bool applies(const variant *v, const fixture *f) { return !v->o.packed || strstr(f->name, "mlx"); }

/* ---- Digests -------------------------------------------------------------------------------------------------------- */

/* "family variant entry digest" of one family under one contract appended. */
static void digests_of(const char *name, ls_contract contract, ls_str *out) {
    ls_error e = {0};
    fixture f;
    assert_ok(fixture_open(&f, name, contract, &e));
    for (int v = 0; v < N_VARIANTS; v++)
        for (size_t s = 0; variants[v].contract == contract && applies(&variants[v], &f) && s < variants[v].shapes; s++) {
            ls_emit_options o = options_of(&variants[v], &shapes[s]);
            ls_emit_module m;
            char hex[65];
            assert_ok(ls_emit_entry(&m, f.graph, &o, &e));
            ls_sha256_hex_of(m.text.data, m.text.len, hex);
            assert_ok(ls_str_printf(out, &e, "%s %s %s %s\n", name, variants[v].name, shapes[s].name, hex));
            ls_emit_module_deinit(&m);
        }
    fixture_close(&f);
}

static void write_golden(const char *path, const ls_str *text) {
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(text->data, 1, text->len, f), text->len);
    assert_int_equal(fclose(f), 0);
}

/* Length of the line at |p|, without its line feed; 0 at the end. */
static size_t line_length(const char *p) { return strcspn(p, "\n"); }

static const char *next_line(const char *p) {
    p += line_length(p);
    return *p ? p + 1 : p;
}

/* Fails naming the first line that differs and how many do. */
static void compare_lines(const char *what, const char *got, const char *want) {
    int line = 0, lines = 0, differ = 0;
    const char *first_got = "", *first_want = "";
    for (; *got || *want; got = next_line(got), want = next_line(want)) {
        size_t a = line_length(got), b = line_length(want);
        lines++;
        if (a == b && !memcmp(got, want, a)) continue;
        if (differ++) continue;
        line = lines;
        first_got = got;
        first_want = want;
    }
    if (!differ) return;
    fail_msg("%s: %d of %d lines differ, the first is line %d:\n  got  %.*s\n  want %.*s\nIf the change is meant: test_emit_goldens --print", what, differ, lines, line,
             (int)line_length(first_got), first_got, (int)line_length(first_want), first_want);
}

static void compare_with_file(const char *name, const ls_str *got) {
    char path[400];
    ls_error e = {0};
    ls_str want = {0};
    snprintf(path, sizeof path, "%s/xla/%s", LS_FIXTURES, name);
    if (print) {
        write_golden(path, got);
        return;
    }
    assert_ok(ls_file_read(&want, path, MAX_GOLDENS, &e));
    compare_lines(name, got->data, want.data);
    ls_str_deinit(&want);
}

static void all_families(void **state) {
    (void)state;
    char names[FIXTURE_MAX][128];
    ls_str all = {0};
    int n = fixture_names(names);
    assert_true(n >= 30);
    for (int i = 0; i < n; i++)
        for (int c = 0; c < LS_CONTRACT_COUNT; c++) digests_of(names[i], (ls_contract)c, &all);
    compare_with_file("emit_digests.txt", &all);
    ls_str_deinit(&all);
}

/* ---- Whole texts ------------------------------------------------------------------------------------------------------ */

static void whole_entry(const char *family, const shape *s, const char *file) {
    ls_error e = {0};
    fixture f;
    ls_emit_module m;
    variant v = {.contract = LS_CONTRACT_FLOAT};
    ls_emit_options o = options_of(&v, s);
    assert_ok(fixture_open(&f, family, LS_CONTRACT_FLOAT, &e));
    assert_ok(ls_emit_entry(&m, f.graph, &o, &e));
    compare_with_file(file, &m.text);
    ls_emit_module_deinit(&m);
    fixture_close(&f);
}

static void float_entries(void **state) {
    (void)state;
    whole_entry("qwen2", &shapes[1], "qwen2_decode_float.mlir");
    whole_entry("gemma2", &shapes[0], "gemma2_prefill_float.mlir");
}

/* The first node of each operator of |family| under exact16, one module after another. */
static void exact_nodes(void **state) {
    (void)state;
    ls_error e = {0};
    fixture f;
    ls_str all = {0};
    bool done[LS_OP_COUNT] = {0};
    variant v = {.contract = LS_CONTRACT_EXACT16};
    ls_emit_options o = options_of(&v, &shapes[2]);
    assert_ok(fixture_open(&f, "qwen2", LS_CONTRACT_EXACT16, &e));
    for (size_t i = 0; i < f.graph->n_nodes; i++) {
        const ls_node *n = &f.graph->nodes[i];
        ls_emit_module m;
        if (done[n->op]) continue;
        done[n->op] = true;
        assert_ok(ls_emit_node_module(&m, f.graph, (int)i, &o, &e));
        assert_ok(ls_str_printf(&all, &e, "// %s: %s\n", n->name, ls_op_name(n->op)));
        assert_ok(ls_str_append(&all, m.text.data, m.text.len, &e));
        ls_emit_module_deinit(&m);
    }
    compare_with_file("qwen2_nodes_exact16.mlir", &all);
    ls_str_deinit(&all);
    fixture_close(&f);
}

int main(int argc, char **argv) {
    print = argc > 1 && !strcmp(argv[1], "--print");
    const struct CMUnitTest tests[] = {cmocka_unit_test(float_entries), cmocka_unit_test(exact_nodes), cmocka_unit_test(all_families)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
