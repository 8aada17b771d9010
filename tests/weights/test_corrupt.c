/* Damaged files: every truncation, hundreds of wrong headers and thousands of random ones. Each gives an error (or,
 * when the damage is harmless, a readable checkpoint), reads nothing outside the file (a guard page follows it), and
 * allocates in proportion to the file. Then every allocation fails once, and nothing leaks. */
#include <sys/mman.h>

#include "support.h"

/* ---- Counting allocator (linked with --wrap, and given to jansson) ---------------------------------------------- */

static struct {
    size_t calls, largest, live, fail_at; /* fail_at: number of the call that fails; 0: none */
} heap;

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void __real_free(void *p);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
void __wrap_free(void *p);

static bool admit(size_t n) {
    if (n > heap.largest) heap.largest = n;
    return ++heap.calls != heap.fail_at;
}

static void *counted(void *p, bool fresh) {
    if (p && fresh) heap.live++;
    return p;
}

void *__wrap_malloc(size_t n) { return admit(n) ? counted(__real_malloc(n), true) : NULL; }
void *__wrap_calloc(size_t n, size_t size) { return admit(n * size) ? counted(__real_calloc(n, size), true) : NULL; }
void *__wrap_realloc(void *p, size_t n) { return admit(n) ? counted(__real_realloc(p, n), !p) : NULL; }

void __wrap_free(void *p) {
    if (p) heap.live--;
    __real_free(p);
}

/* ---- Images before a guard page ---------------------------------------------------------------------------------- */

enum { AREA = 1 << 20 };
static uint8_t *area; /* AREA readable bytes, then a page that is not */

static int make_area(void **state) {
    (void)state;
    json_set_alloc_funcs(__wrap_malloc, __wrap_free);
    area = mmap(NULL, AREA + 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return area == MAP_FAILED || mprotect(area + AREA, 65536, PROT_NONE);
}

typedef ls_code parse_fn(ls_checkpoint *c, const uint8_t *data, size_t size, const char *path, ls_error *e);

/* Whatever opened must be readable to its last byte. */
static void read_all(ls_checkpoint *c) {
    for (size_t i = 0; i < ls_checkpoint_count(c); i++) {
        const ls_tensor *t = ls_checkpoint_at(c, i);
        int64_t n = t->rank ? t->shape[t->rank - 1] : 1;
        ls_error e = {0};
        (void)ls_tensor_check_finite(t, &e);
        if (!t->bytes || n > AREA) continue;
        float *row = malloc((size_t)n * sizeof *row);
        ls_tensor_row_f32(t, ls_tensor_rows(t) - 1, row);
        free(row);
    }
}

/* Opens |size| bytes; the config of MLX cases is |config| (NULL: none). */
static ls_code attempt(parse_fn *parse, const uint8_t *image, size_t size, const char *config, ls_error *e) {
    assert_true(size <= AREA);
    uint8_t *at = area + AREA - size;
    if (size) memcpy(at, image, size);
    heap.calls = heap.largest = 0;
    size_t before = heap.live;
    ls_checkpoint *c = NULL;
    ls_code rc = ls_checkpoint_create(&c, e);
    if (!rc && config) {
        json_decref(c->config);
        c->config = NULL;
        rc = ls_json_parse(&c->config, config, strlen(config), "config", e);
    }
    if (!rc) rc = parse(c, at, size, "image", e);
    if (!rc) rc = ls_checkpoint_finish(c, e);
    assert_true(heap.largest <= (1u << 20) + size);
    assert_true(heap.calls > 0 && heap.calls <= 10000 + 4 * size); /* stands for a bound on time */
    if (!rc) read_all(c);
    ls_checkpoint_close(c);
    assert_int_equal(heap.live, before);
    return rc;
}

/* ---- Truncation -------------------------------------------------------------------------------------------------- */

static void check_truncations(parse_fn *parse, const char *file, size_t spare) {
    char path[256];
    size_t size;
    ls_error e = {0};
    snprintf(path, sizeof path, "%s/weights/%s", LS_FIXTURES, file);
    uint8_t *image = slurp(path, &size);
    assert_ok(attempt(parse, image, size, NULL, &e));
    for (size_t n = 0; n + spare < size; n++) {
        if (!attempt(parse, image, n, NULL, &e)) fail_msg("%s cut to %zu of %zu bytes opened", file, n, size);
        assert_true(e.code == LS_DATA_LOSS || e.code == LS_INVALID_ARGUMENT);
    }
    if (parse == ls_gguf_parse || !strcmp(file, "plain.safetensors")) {
        assert_error(attempt(parse, image, size - spare - 1, NULL, &e), LS_DATA_LOSS, "tensor \"");
        assert_non_null(strstr(e.text, "truncated"));
    }
    free(image);
}

static void truncated_files_name_the_tensor(void **state) {
    (void)state;
    check_truncations(ls_safetensors_parse, "plain.safetensors", 0);
    check_truncations(ls_gguf_parse, "arch/exaone.gguf", 0);
    check_truncations(ls_gguf_parse, "blocks.gguf", 0);
}

/* ---- safetensors headers ------------------------------------------------------------------------------------------
 */

#define T(dtype, shape, from, to) "{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":[" #from "," #to "]}"

static void wrong_safetensors_headers_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *header;
        size_t n_data;
        const char *text;
    } cases[] = {
        {"[]", 0, "'{'"},
        {" {}", 0, "'{'"},
        {"", 0, "'{'"},
        {"{", 0, "image"},
        {"{}x", 0, "image"},
        {"{\"a\"}", 0, "image"},
        {"{\"a\":" T("F32", "[1]", 0, 4) ",\"a\":" T("F32", "[1]", 0, 4) "}", 4, "duplicate"},
        {"{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F16\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "duplicate"},
        {"{\"a\":3}", 0, "\"a\""},
        {"{\"a\":null}", 0, "\"a\""},
        {"{\"a\":{}}", 0, "dtype"},
        {"{\"a\":{\"dtype\":5,\"shape\":[],\"data_offsets\":[0,4]}}", 4, "dtype"},
        {"{\"a\":" T("F33", "[1]", 0, 4) "}", 4, "unknown dtype \"F33\""},
        {"{\"a\":" T("f32", "[1]", 0, 4) "}", 4, "unknown dtype"},
        {"{\"a\":" T("F32", "1", 0, 4) "}", 4, "not an array"},
        {"{\"a\":" T("F32", "[1.0]", 0, 4) "}", 4, "dimension 0"},
        {"{\"a\":" T("F32", "[-1]", 0, 4) "}", 4, "dimension 0"},
        {"{\"a\":" T("F32", "[1,\"1\"]", 0, 4) "}", 4, "dimension 1"},
        {"{\"a\":" T("F32", "[1,1,1,1,1,1,1]", 0, 4) "}", 4, "7 dimensions"},
        {"{\"a\":" T("F32", "[18446744073709551617]", 0, 4) "}", 4, "image"},
        {"{\"a\":" T("F32", "[4611686018427387905,4]", 0, 4) "}", 4, "address space"},
        {"{\"a\":" T("F32", "[4294967296,4294967296]", 0, 0) "}", 0, "address space"},
        {"{\"a\":" T("F32", "[4611686018427387904,4611686018427387904,0]", 0, 0) "}", 0, "address space"},
        {"{\"a\":" T("F32", "[9223372036854775807]", 0, 4) "}", 4, "address space"},
        {"{\"a\":" T("F32", "[2305843009213693953]", 0, 4) "}", 4, "address space"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "data_offsets"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]}}", 4, "pair"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4,8]}}", 4, "pair"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":{\"0\":4}}}", 4, "pair"},
        {"{\"a\":" T("F32", "[1]", -4, 0) "}", 4, "0 or more"},
        {"{\"a\":" T("F32", "[1]", 0.5, 4) "}", 4, "0 or more"},
        {"{\"a\":" T("F32", "[1]", 4, 0) "}", 4, "before its begin"},
        {"{\"a\":" T("F32", "[1]", 4, 8) "}", 4, "truncated"},
        {"{\"a\":" T("F32", "[1]", 9223372036854775803, 9223372036854775807) "}", 4, "truncated"},
        {"{\"a\":" T("F32", "[2]", 0, 4) "}", 4, "need 8 bytes"},
        {"{\"a\":" T("F32", "[0]", 0, 4) "}", 4, "need 0 bytes"},
        {"{\"a\":" T("F32", "[]", 0, 0) "}", 0, "need 4 bytes"},
        {"{\"a\":" T("F4", "[3]", 0, 1) "}", 1, "elements of F4"},
        {"{\"a\":" T("F32", "[1]", 0, 4) ",\"b\":" T("F32", "[1]", 0, 4) "}", 4, "before the previous"},
        {"{\"a\":" T("F32", "[1]", 0, 4) ",\"b\":" T("F32", "[1]", 2, 6) "}", 6, "before the previous"},
        {"{\"a\":" T("F32", "[1]", 0, 4) ",\"b\":" T("F32", "[1]", 6, 10) "}", 10, "leaving a hole"},
        {"{\"a\":" T("F32", "[1]", 1, 5) "}", 5, "leaving a hole"},
        {"{\"a\":" T("F32", "[1]", 0, 4) "}", 5, "cover 4 of 5"},
        {"{}", 1, "cover 0 of 1"},
        {"{\"__metadata__\":[]}", 0, "__metadata__"},
        {"{\"__metadata__\":\"x\"}", 0, "__metadata__"},
        {"{\"a\\u0000b\":" T("F32", "[1]", 0, 4) "}", 4, "image"},
        {"{\"\xFF\":" T("F32", "[1]", 0, 4) "}", 4, "image"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t size;
        ls_error e = {0};
        uint8_t *image = make_safetensors(cases[i].header, cases[i].n_data, &size);
        ls_code rc = attempt(ls_safetensors_parse, image, size, NULL, &e);
        if (!rc || !strstr(e.text, cases[i].text))
            fail_msg("case %zu (%s): code %d, text \"%s\"", i, cases[i].header, rc, e.text);
        free(image);
    }
}

static void wrong_header_lengths_are_refused(void **state) {
    (void)state;
    static const uint64_t lengths[] = {
        0, 1, 3, 65, 1000, 100 << 20, (100 << 20) + 1, 1ull << 32, 1ull << 63, UINT64_MAX, UINT64_MAX - 7};
    size_t size;
    uint8_t *image = make_safetensors("{\"a\":" T("F32", "[1]", 0, 4) "}", 4, &size);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        ls_error e = {0};
        store_u64(image, lengths[i]);
        if (!attempt(ls_safetensors_parse, image, size, NULL, &e))
            fail_msg("header length %llu opened", (unsigned long long)lengths[i]);
    }
    free(image);
}

/* ---- GGUF headers ---------------------------------------------------------------------------------------------------
 */

/* A GGUF image under construction. */
typedef struct writer {
    uint8_t data[4096];
    size_t n;
} writer;

static void put_uint(writer *w, uint64_t v, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) w->data[w->n++] = (uint8_t)(v >> 8 * i);
}

static void put_text(writer *w, const char *s) {
    put_uint(w, strlen(s), 8);
    memcpy(w->data + w->n, s, strlen(s));
    w->n += strlen(s);
}

static void put_key(writer *w, const char *key, uint64_t v) {
    put_text(w, key);
    put_uint(w, 4, 4);
    put_uint(w, v, 4);
}

/* What one case changes in an otherwise right file of two tensors, F32 [4] at 0 and Q8_0 [2, 32] at 32. */
typedef struct change {
    const char *text; /* expected in the message */
    const char *magic, *arch, *name;
    uint64_t version, tensors, keys, alignment, rank, d0, d1, type, offset, extra_type, extra_count, extra_item;
    size_t cut;
} change;

static const change right = {.magic = "GGUF",
                             .arch = "llama",
                             .name = "output_norm.weight",
                             .version = 3,
                             .tensors = 2,
                             .keys = 7,
                             .alignment = 32,
                             .rank = 2,
                             .d0 = 32,
                             .d1 = 2,
                             .type = 8,
                             .offset = 32,
                             .extra_type = 4,
                             .extra_count = 1,
                             .extra_item = 5};

static void build_gguf(writer *w, const change *c) {
    w->n = 0;
    memcpy(w->data, c->magic, 4);
    w->n = 4;
    put_uint(w, c->version, 4);
    put_uint(w, c->tensors, 8);
    put_uint(w, c->keys, 8);
    put_text(w, "general.architecture");
    put_uint(w, 8, 4);
    put_text(w, c->arch);
    put_key(w, "llama.block_count", 1);
    put_key(w, "llama.embedding_length", 4);
    put_key(w, "llama.attention.head_count", 1);
    put_key(w, "general.alignment", c->alignment);
    put_key(w, "llama.context_length", 8);
    put_text(w, "extra"); /* an array of one u32, unless changed */
    put_uint(w, 9, 4);
    put_uint(w, c->extra_type, 4);
    put_uint(w, c->extra_count, 8);
    put_uint(w, c->extra_item, 4);
    put_text(w, "token_embd.weight");
    put_uint(w, c->rank, 4);
    put_uint(w, c->d0, 8);
    put_uint(w, c->d1, 8);
    put_uint(w, c->type, 4);
    put_uint(w, c->offset, 8);
    put_text(w, c->name);
    put_uint(w, 1, 4);
    put_uint(w, 4, 8);
    put_uint(w, 0, 4);
    put_uint(w, 0, 8);
    size_t pad = c->alignment && c->alignment < 1000 ? (c->alignment - w->n % c->alignment) % c->alignment : 0;
    memset(w->data + w->n, 0, pad + 32 + 68);
    w->n += pad + 32 + 68;
    w->n -= c->cut;
}

static void wrong_gguf_headers_are_refused(void **state) {
    (void)state;
#define CASE(message, ...) {.text = message, __VA_ARGS__}
    static const change changes[] = {
        CASE("not a GGUF", .magic = "GGUG"),
        CASE("big-endian", .version = 0x03000000),
        CASE("version 1", .version = 1),
        CASE("version 4", .version = 4),
        CASE("not supported", .arch = "mamba"),
        CASE("not supported", .arch = "x"),
        CASE("tensors do not fit", .tensors = UINT64_MAX),
        CASE("tensors do not fit", .tensors = 1ull << 32),
        CASE("tensor name", .tensors = 3),
        CASE("keys do not fit", .keys = UINT64_MAX),
        CASE("keys do not fit", .keys = 70000),
        CASE("", .keys = 8),
        CASE("", .keys = 6),
        CASE("power of two", .alignment = 24),
        CASE("general.alignment", .alignment = 1 << 21),
        CASE("allows 4", .rank = 5),
        CASE("allows 4", .rank = UINT32_MAX),
        CASE("multiple of the 32", .d0 = 33),
        CASE("address space", .d0 = 1ull << 62),
        CASE("address space", .d0 = 1ull << 33, .d1 = 1ull << 33),
        CASE("too large", .d0 = 1ull << 63),
        CASE("too large", .d1 = UINT64_MAX),
        CASE("truncated", .d1 = 3),
        CASE("truncated", .d1 = 1ull << 40),
        CASE("type 9 (Q8_1)", .type = 9),
        CASE("type 16 (IQ2_XXS)", .type = 16),
        CASE("type 26 (I32)", .type = 26),
        CASE("type 39 (MXFP4)", .type = 39),
        CASE("type 4294967295", .type = UINT32_MAX),
        CASE("\"token_embd.weight\": type 4 ", .type = 4),
        CASE("not a multiple of the alignment", .offset = 33),
        CASE("truncated", .offset = 64),
        CASE("truncated", .offset = UINT64_MAX - 31),
        CASE("overlaps", .offset = 0),
        CASE("overlaps", .alignment = 8, .offset = 8),
        CASE("occurs twice", .name = "token_embd.weight"),
        CASE("1 to 1023", .name = ""),
        CASE("printable", .name = "\xC3"),
        CASE("printable", .name = "a\nb"),
        CASE("unknown element type", .extra_type = 13),
        CASE("unknown element type", .extra_type = UINT32_MAX),
        CASE("do not fit", .extra_count = UINT64_MAX),
        CASE("do not fit", .extra_count = 1ull << 61),
        CASE("extra", .extra_count = 300, .extra_type = 0),
        CASE("a boolean is", .extra_type = 7, .extra_count = 4, .extra_item = 0x01010102),
        CASE("truncated", .cut = 1),
        CASE("truncated", .cut = 68),
        CASE("truncated", .cut = 100),
    };
    writer w;
    ls_error e = {0};
    build_gguf(&w, &right);
    assert_ok(attempt(ls_gguf_parse, w.data, w.n, NULL, &e));
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        change c = right;
        const change *d = &changes[i];
        c.text = d->text;
        if (d->magic) c.magic = d->magic;
        if (d->arch) c.arch = d->arch;
        if (d->name) c.name = d->name;
        static const size_t fields[] = {
            offsetof(change, version),     offsetof(change, tensors),   offsetof(change, keys),
            offsetof(change, alignment),   offsetof(change, rank),      offsetof(change, d0),
            offsetof(change, d1),          offsetof(change, type),      offsetof(change, extra_type),
            offsetof(change, extra_count), offsetof(change, extra_item)};
        for (size_t k = 0; k < sizeof fields / sizeof *fields; k++) {
            uint64_t v;
            memcpy(&v, (const char *)d + fields[k], sizeof v);
            if (v) memcpy((char *)&c + fields[k], &v, sizeof v);
        }
        if (d->offset || !strcmp(d->text, "overlaps")) c.offset = d->offset;
        c.cut = d->cut;
        build_gguf(&w, &c);
        ls_code rc = attempt(ls_gguf_parse, w.data, w.n, NULL, &e);
        if (!rc || !strstr(e.text, d->text))
            fail_msg("change %zu (\"%s\"): code %d, text \"%s\"", i, d->text, rc, e.text);
    }
}

/* ---- Random damage
 * ---------------------------------------------------------------------------------------------------- */

static void check_random(parse_fn *parse, const char *file, const char *config, size_t header, int rounds) {
    char path[256];
    size_t size;
    snprintf(path, sizeof path, "%s/weights/%s", LS_FIXTURES, file);
    uint8_t *image = slurp(path, &size), *copy = malloc(size);
    uint64_t seed = 7;
    int refused = 0;
    for (int i = 0; i < rounds; i++) {
        static const uint8_t values[] = {0, 1, 0x7F, 0x80, 0xFF, '"', '{', ']', '-', '9'};
        ls_error e = {0};
        memcpy(copy, image, size);
        for (uint64_t k = 1 + splitmix(&seed) % 6; k; k--) {
            uint64_t r = splitmix(&seed);
            uint8_t *at = &copy[r % (header < size ? header : size)];
            *at = r >> 60 < 8    ? values[(r >> 40) % sizeof values]
                  : r >> 60 < 12 ? (uint8_t)(*at ^ 1u << (r >> 40) % 8)
                                 : (uint8_t)(r >> 32);
        }
        refused += attempt(parse, copy, size, config, &e) != LS_OK;
    }
    assert_true(refused > rounds / 10);
    free(image);
    free(copy);
}

static void random_damage_never_crashes(void **state) {
    (void)state;
    static const char config[] =
        "{\"quantization\":{\"bits\":4,\"group_size\":64,\"b3g32\":{\"bits\":3,\"group_size\":32}}}";
    check_random(ls_safetensors_parse, "plain.safetensors", NULL, 400, 3000);
    check_random(ls_safetensors_parse, "mlx_f16/model.safetensors", config, 3200, 1000);
    check_random(ls_gguf_parse, "arch/phi3.gguf", NULL, 3000, 2000);
    check_random(ls_gguf_parse, "arch/stablelm.gguf", NULL, 3000, 2000);
    check_random(ls_gguf_parse, "blocks.gguf", NULL, 1000, 1000);
}

/* ---- Memory runs out
 * ----------------------------------------------------------------------------------------------------- */

static void check_exhaustion(const char *path) {
    for (size_t n = 1;; n++) {
        ls_error e = {0};
        ls_checkpoint *c = NULL;
        size_t before = heap.live;
        heap.calls = 0;
        heap.fail_at = n;
        ls_code rc = ls_checkpoint_open(&c, path, &e);
        bool reached = heap.calls >= n;
        heap.fail_at = 0;
        if (!rc) {
            /* jansson may survive the loss of an allocation it only wanted for speed; nothing else may. */
            ls_checkpoint_close(c);
            assert_int_equal(heap.live, before);
            if (!reached) return;
            continue;
        }
        assert_true(e.text[0] != 0);
        assert_int_equal(heap.live, before);
    }
}

static void every_failed_allocation_is_an_error_without_a_leak(void **state) {
    (void)state;
    static const char *const files[] = {"plain.safetensors", "mlx_bf16", "arch/llama.gguf", "arch/phi3.gguf",
                                        "arch/stablelm.gguf", "arch/smollm3.gguf", "arch/qwen2moe.gguf",
                                        "arch/minicpm.gguf", "arch/gemma3.gguf"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[256];
        snprintf(path, sizeof path, "%s/weights/%s", LS_FIXTURES, files[i]);
        check_exhaustion(path);
    }
}

static void sharded_folders_survive_failed_allocations(void **state) {
    (void)state;
    static const char index[] = "{\"weight_map\":{\"a\":\"model-1.safetensors\",\"b\":\"model-2.safetensors\"}}";
    size_t size;
    folder f;
    make_folder(&f);
    for (int i = 1; i <= 2; i++) {
        uint8_t *image = make_safetensors(
            i == 1 ? "{\"a\":" T("F32", "[1]", 0, 4) "}" : "{\"b\":" T("F32", "[1]", 0, 4) "}", 4, &size);
        put_file(&f, i == 1 ? "model-1.safetensors" : "model-2.safetensors", image, size);
        free(image);
    }
    put_file(&f, "config.json", "{}", 2);
    check_exhaustion(f.path); /* by listing */
    put_file(&f, "model.safetensors.index.json", index, strlen(index));
    check_exhaustion(f.path); /* by index */
    drop_folder(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(truncated_files_name_the_tensor),
        cmocka_unit_test(wrong_safetensors_headers_are_refused),
        cmocka_unit_test(wrong_header_lengths_are_refused),
        cmocka_unit_test(wrong_gguf_headers_are_refused),
        cmocka_unit_test(random_damage_never_crashes),
        cmocka_unit_test(every_failed_allocation_is_an_error_without_a_leak),
        cmocka_unit_test(sharded_folders_survive_failed_allocations),
    };
    return cmocka_run_group_tests(tests, make_area, NULL);
}
