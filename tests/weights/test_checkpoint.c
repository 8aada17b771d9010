/* Checkpoints as models see them: every GGUF architecture's names and configuration, safetensors files and folders, MLX
 * folding rules, lookups, leftovers and identities; and the two real models where their paths are given. */
#include "support.h"

#include <math.h>

/* ---- GGUF architectures ---------------------------------------------------------------------------------------- */

static json_t *load_json(const char *path) {
    json_t *v = NULL;
    ls_error e = {0};
    assert_ok(ls_json_load(&v, path, 1 << 20, &e));
    return v;
}

/* Numbers compare by value (1 == 1.0), everything else as JSON. */
static bool same(const json_t *a, const json_t *b) {
    if (json_is_number(a) && json_is_number(b)) return json_number_value(a) == json_number_value(b);
    if (json_is_array(a) && json_is_array(b) && json_array_size(a) == json_array_size(b)) {
        for (size_t i = 0; i < json_array_size(a); i++)
            if (!same(json_array_get(a, i), json_array_get(b, i))) return false;
        return true;
    }
    if (json_is_object(a) && json_is_object(b) && json_object_size(a) == json_object_size(b)) {
        const char *key;
        json_t *v;
        json_object_foreach((json_t *)(uintptr_t)a, key, v)
            if (!same(v, json_object_get(b, key))) return false;
        return true;
    }
    return json_equal(a, b);
}

static void check_values(const char *arch, const json_t *want, const json_t *got) {
    const char *key;
    json_t *v;
    json_object_foreach((json_t *)(uintptr_t)want, key, v) {
        const json_t *mine = json_object_get(got, key);
        if (mine && same(v, mine)) continue;
        char *a = json_dumps(v, JSON_ENCODE_ANY), *b = mine ? json_dumps(mine, JSON_ENCODE_ANY) : NULL;
        fail_msg("%s: \"%s\" is %s, want %s", arch, key, b ? b : "absent", a);
    }
}

static void check_tensors(const char *arch, const json_t *want, ls_checkpoint *c) {
    const char *name;
    json_t *shape;
    json_object_foreach((json_t *)(uintptr_t)want, name, shape) {
        const ls_tensor *t = ls_checkpoint_find(c, name);
        if (!t) fail_msg("%s: tensor \"%s\" is absent", arch, name);
        if ((size_t)t->rank != json_array_size(shape)) fail_msg("%s: \"%s\" has rank %d", arch, name, t->rank);
        for (int i = 0; i < t->rank; i++)
            assert_int_equal(t->shape[i], json_integer_value(json_array_get(shape, (size_t)i)));
    }
    assert_int_equal(ls_checkpoint_count(c), json_object_size(want));
    assert_null(ls_checkpoint_unused(c, 0));
}

static void every_architecture_translates(void **state) {
    (void)state;
    static const char *const names[] = {"llama",    "qwen2",      "qwen3",    "gemma",     "gemma2",  "gemma3",
                                        "smollm3",  "phi3",       "granite",  "command-r", "cohere2", "olmo2",
                                        "stablelm", "starcoder2", "qwen2moe", "qwen3moe",  "olmoe",   "seed_oss",
                                        "minicpm",  "mimo",       "exaone"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[512];
        ls_error e = {0};
        ls_checkpoint *c;
        snprintf(path, sizeof path, "%s/weights/arch/%s.gguf", LS_FIXTURES, names[i]);
        assert_ok(ls_checkpoint_open(&c, path, &e));
        snprintf(path, sizeof path, "%s/weights/arch/%s.json", LS_FIXTURES, names[i]);
        json_t *want = load_json(path);
        check_values(names[i], json_object_get(want, "config"), ls_checkpoint_config(c));
        check_values(names[i], json_object_get(want, "generation"), ls_checkpoint_generation_config(c));
        check_tensors(names[i], json_object_get(want, "tensors"), c);
        assert_null(ls_checkpoint_folder(c));
        assert_int_equal(json_array_size(json_object_get(ls_checkpoint_gguf_metadata(c), "tokenizer.ggml.tokens")), 24);
        json_decref(want);
        ls_checkpoint_close(c);
    }
}

static void gguf_version_2_reads_like_3(void **state) {
    (void)state;
    size_t size;
    ls_error e = {0};
    uint8_t *image = slurp(LS_FIXTURES "/weights/arch/llama.gguf", &size);
    image[4] = 2;
    folder f;
    make_folder(&f);
    const char *path = put_file(&f, "v2.gguf", image, size);
    ls_checkpoint *a, *b;
    assert_ok(ls_checkpoint_open(&a, path, &e));
    assert_ok(ls_checkpoint_open(&b, LS_FIXTURES "/weights/arch/llama.gguf", &e));
    char ha[65], hb[65];
    assert_ok(ls_checkpoint_bytes_sha256(a, ha, &e));
    assert_ok(ls_checkpoint_bytes_sha256(b, hb, &e));
    assert_string_equal(ha, hb);
    ls_checkpoint_close(a);
    /* In a folder the file is found by itself, and the folder is known. */
    assert_ok(ls_checkpoint_open(&a, f.path, &e));
    assert_string_equal(ls_checkpoint_folder(a), f.path);
    ls_checkpoint_close(a);
    ls_checkpoint_close(b);
    put_file(&f, "other.gguf", image, size);
    assert_error(ls_checkpoint_open(&a, f.path, &e), LS_INVALID_ARGUMENT, "2 .gguf files");
    free(image);
    drop_folder(&f);
}

/* ---- safetensors ----------------------------------------------------------------------------------------------- */

static void plain_safetensors_reads(void **state) {
    (void)state;
    ls_error e = {0};
    ls_checkpoint *c;
    assert_ok(ls_checkpoint_open(&c, LS_FIXTURES "/weights/plain.safetensors", &e));
    assert_int_equal(ls_checkpoint_count(c), 5);
    assert_int_equal(json_object_size(ls_checkpoint_config(c)), 0);
    assert_null(ls_checkpoint_gguf_metadata(c));
    float row[8];
    const ls_tensor *t = ls_checkpoint_find(c, "a.weight");
    ls_tensor_row_f32(t, 1, row);
    assert_true(row[0] == 3 && row[1] == 4 && row[2] == 5);
    t = ls_checkpoint_find(c, "b.ids");
    assert_int_equal(t->format, LS_I64);
    ls_tensor_row_f32(t, 0, row);
    assert_true(row[0] == 0 && row[3] == 3);
    t = ls_checkpoint_find(c, "c.empty");
    assert_true(t->bytes == 0 && t->data == NULL && t->shape[1] == 5);
    assert_ok(ls_tensor_check_finite(t, &e));
    t = ls_checkpoint_find(c, "d.scalar");
    assert_int_equal(t->rank, 0);
    ls_tensor_row_f32(t, 0, row);
    assert_true(row[0] == 2.5f);
    assert_string_equal(ls_checkpoint_unused(c, 0), "e.bytes");
    assert_null(ls_checkpoint_unused(c, 1));
    assert_error(ls_tensor_check_finite(ls_checkpoint_find(c, "e.bytes"), &e), LS_UNIMPLEMENTED, "U8");
    assert_null(ls_checkpoint_unused(c, 0));
    assert_null(ls_checkpoint_find(c, "absent"));
    assert_null(ls_checkpoint_at(c, 5));
    ls_checkpoint_forget(c, ls_checkpoint_at(c, 0));
    ls_tensor_row_f32(ls_checkpoint_at(c, 0), 1, row); /* forgotten pages read again from the file */
    assert_true(row[2] == 5);
    ls_checkpoint_close(c);
    ls_checkpoint_close(NULL);
}

static void empty_metadata_and_no_tensors_are_fine(void **state) {
    (void)state;
    static const char *const headers[] = {"{}", "{\"__metadata__\":{}}   ", "{\"__metadata__\":null}",
                                          "{\"x\":{\"dtype\":\"F16\",\"shape\":[3,0],\"data_offsets\":[0,0]}}"};
    for (size_t i = 0; i < 4; i++) {
        ls_error e = {0};
        ls_checkpoint *c;
        size_t size;
        uint8_t *image = make_safetensors(headers[i], 0, &size);
        assert_ok(ls_checkpoint_create(&c, &e));
        assert_ok(ls_safetensors_parse(c, image, size, "image", &e));
        assert_ok(ls_checkpoint_finish(c, &e));
        assert_int_equal(ls_checkpoint_count(c), i == 3);
        ls_checkpoint_close(c);
        free(image);
    }
}

/* ---- Folders --------------------------------------------------------------------------------------------------- */

static void put_text(folder *f, const char *name, const char *text) { put_file(f, name, text, strlen(text)); }

static void put_weights(folder *f, const char *name, const char *header, size_t n_data) {
    size_t size;
    uint8_t *image = make_safetensors(header, n_data, &size);
    put_file(f, name, image, size);
    free(image);
}

#define ONE(name) "{\"" name "\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}"

static void sharded_folder_opens(void **state) {
    (void)state;
    ls_error e = {0};
    ls_checkpoint *c;
    folder f;
    make_folder(&f);
    assert_error(ls_checkpoint_open(&c, f.path, &e), LS_NOT_FOUND, "no .safetensors and no .gguf");
    put_text(&f, "model.safetensors.index.json",
             "{\"metadata\":{},\"weight_map\":{\"b\":\"model-2.safetensors\",\"a\":\"model-1.safetensors\"}}");
    put_weights(&f, "model-1.safetensors", ONE("a"), 8);
    assert_error(ls_checkpoint_open(&c, f.path, &e), LS_NOT_FOUND, "model-2.safetensors");
    put_weights(&f, "model-2.safetensors", ONE("b"), 8);
    assert_error(ls_checkpoint_open(&c, f.path, &e), LS_NOT_FOUND, "config.json");
    put_text(&f, "config.json", "{\"model_type\":\"gemma3\",\"text_config\":{\"hidden_size\":8}}");
    put_text(&f, "generation_config.json", "{\"eos_token_id\":[1,106]}");
    put_weights(&f, "unrelated.safetensors", ONE("c"), 8);
    assert_ok(ls_checkpoint_open(&c, f.path, &e));
    assert_int_equal(ls_checkpoint_count(c), 2);
    assert_string_equal(ls_checkpoint_at(c, 0)->name, "a");
    assert_string_equal(ls_checkpoint_folder(c), f.path);
    assert_int_equal(
        json_integer_value(json_object_get(json_object_get(ls_checkpoint_config(c), "text_config"), "hidden_size")), 8);
    assert_int_equal(json_array_size(json_object_get(ls_checkpoint_generation_config(c), "eos_token_id")), 2);
    ls_checkpoint_close(c);
    /* One file alone takes the folder's configuration. */
    char path[128];
    snprintf(path, sizeof path, "%s/model-2.safetensors", f.path);
    assert_ok(ls_checkpoint_open(&c, path, &e));
    assert_int_equal(ls_checkpoint_count(c), 1);
    assert_string_equal(json_string_value(json_object_get(ls_checkpoint_config(c), "model_type")), "gemma3");
    ls_checkpoint_close(c);
    drop_folder(&f);
}

static void folder_errors_name_the_thing(void **state) {
    (void)state;
    ls_error e = {0};
    ls_checkpoint *c;
    folder f;
    make_folder(&f);
    put_text(&f, "config.json", "{}");
    put_weights(&f, "model-1.safetensors", ONE("a"), 8);
    put_weights(&f, "model-2.safetensors", ONE("a"), 8);
    assert_error(ls_checkpoint_open(&c, f.path, &e), LS_INVALID_ARGUMENT, "tensor \"a\" occurs twice");
    assert_true(strstr(e.text, "model-1.safetensors") && strstr(e.text, "model-2.safetensors"));
    put_text(&f, "model.safetensors.index.json",
             "{\"weight_map\":{\"a\":\"model-1.safetensors\",\"gone\":\"model-1.safetensors\"}}");
    assert_error(ls_checkpoint_open(&c, f.path, &e), LS_NOT_FOUND,
                 "tensor \"gone\" is missing from \"model-1.safetensors\"");
    f.n--;
    put_text(&f, "model.safetensors.index.json", "{\"weight_map\":{\"a\":\"../secret.safetensors\"}}");
    assert_error(ls_checkpoint_open(&c, f.path, &e), LS_INVALID_ARGUMENT, "\"a\"");
    f.n--;
    put_text(&f, "model.safetensors.index.json", "{\"weight_map\":[]}");
    assert_error(ls_checkpoint_open(&c, f.path, &e), LS_INVALID_ARGUMENT, "weight_map");
    f.n--;
    put_text(&f, "model.safetensors.index.json", "{\"weight_map\":{\"a\":\"old-1-of-9.safetensors\"}}");
    put_weights(&f, "model.safetensors", ONE("only"), 8);
    assert_ok(ls_checkpoint_open(&c, f.path, &e)); /* a stale index, and the file of a later conversion */
    assert_int_equal(ls_checkpoint_count(c), 1);
    ls_checkpoint_close(c);
    put_text(&f, "generation_config.json", "[]");
    assert_error(ls_checkpoint_open(&c, f.path, &e), LS_INVALID_ARGUMENT, "generation_config.json");
    drop_folder(&f);
    assert_error(ls_checkpoint_open(&c, "/nonexistent/model.gguf", &e), LS_NOT_FOUND, "/nonexistent/model.gguf");
    assert_error(ls_checkpoint_open(&c, "/nonexistent/model.bin", &e), LS_NOT_FOUND, "cannot open");
    assert_error(ls_checkpoint_open(&c, LS_FIXTURES "/models/llama/config.json", &e), LS_INVALID_ARGUMENT, "is no checkpoint");
}

/* ---- MLX folding ----------------------------------------------------------------------------------------------- */

/* Opens one packed module "m" of 2 rows, |words| a row, with |groups| F16 scales, under |config|. */
static ls_code open_mlx(ls_checkpoint **c, const char *module, int words, int groups, const char *biases,
                        const char *config, ls_error *e) {
    char header[1024];
    int w = 2 * words * 4, s = 2 * groups * 2;
    snprintf(header, sizeof header,
             "{\"%s.weight\":{\"dtype\":\"U32\",\"shape\":[2,%d],\"data_offsets\":[0,%d]},"
             "\"%s.scales\":{\"dtype\":\"F16\",\"shape\":[2,%d],\"data_offsets\":[%d,%d]},"
             "\"%s.%s\":{\"dtype\":\"F16\",\"shape\":[2,%d],\"data_offsets\":[%d,%d]}}",
             module, words, w, module, groups, w, w + s, module, biases, groups, w + s, w + 2 * s);
    size_t size;
    uint8_t *image = make_safetensors(header, (size_t)(w + 2 * s), &size);
    folder f;
    make_folder(&f);
    put_file(&f, "model.safetensors", image, size);
    put_text(&f, "config.json", config);
    ls_code rc = ls_checkpoint_open(c, f.path, e);
    drop_folder(&f);
    free(image);
    return rc;
}

#define M "model.layers.0.mlp.down_proj"

static void mlx_modules_fold_by_config(void **state) {
    (void)state;
    ls_error e = {0};
    ls_checkpoint *c;
    assert_ok(open_mlx(&c, M, 8, 1, "biases", "{\"quantization\":{\"bits\":4,\"group_size\":64}}", &e));
    assert_int_equal(ls_checkpoint_count(c), 1);
    const ls_tensor *t = ls_checkpoint_find(c, M ".weight");
    assert_true(t->format == LS_MLX_AFFINE && t->shape[1] == 64 && t->mlx_bits == 4 && t->mlx_group == 64);
    assert_int_equal(ls_tensor_group(t), 64);
    ls_checkpoint_close(c);
    /* An override, under the other spelling; the override may give only what differs. */
    assert_ok(open_mlx(&c, M, 8, 1, "biases",
                       "{\"quantization_config\":{\"bits\":4,\"group_size\":32,\"" M "\":{\"bits\":8}}}", &e));
    t = ls_checkpoint_find(c, M ".weight");
    assert_true(t->shape[1] == 32 && t->mlx_bits == 8 && t->mlx_group == 32);
    ls_checkpoint_close(c);
    /* Embeddings fold alike, and stacked experts take the name they have in GGUF files. */
    assert_ok(
        open_mlx(&c, "model.embed_tokens", 8, 1, "biases", "{\"quantization\":{\"bits\":4,\"group_size\":64}}", &e));
    assert_int_equal(ls_checkpoint_find(c, "model.embed_tokens.weight")->format, LS_MLX_AFFINE);
    ls_checkpoint_close(c);
    assert_ok(open_mlx(&c, "x.mlp.switch_mlp.up_proj", 8, 1, "biases",
                       "{\"quantization\":{\"bits\":8,\"group_size\":32}}", &e));
    assert_non_null(ls_checkpoint_find(c, "x.mlp.experts.up_proj.weight"));
    ls_checkpoint_close(c);
}

static void mlx_contradictions_are_refused(void **state) {
    (void)state;
    static const struct {
        int words, groups;
        const char *biases, *config;
        ls_code code;
        const char *text;
    } cases[] = {
        {8, 1, "biases", "{}", LS_INVALID_ARGUMENT, "no \"quantization\""},
        {8, 1, "biases", "{\"quantization\":{\"bits\":3,\"group_size\":64}}", LS_INVALID_ARGUMENT, "do not hold"},
        {8, 1, "biases", "{\"quantization\":{\"bits\":5,\"group_size\":64}}", LS_UNIMPLEMENTED, "5 bits"},
        {8, 1, "biases", "{\"quantization\":{\"bits\":4,\"group_size\":16}}", LS_UNIMPLEMENTED, "groups of 16"},
        {8, 1, "biases", "{\"quantization\":{\"bits\":4,\"group_size\":64,\"mode\":\"mxfp4\"}}", LS_UNIMPLEMENTED,
         "mxfp4"},
        {8, 1, "biases", "{\"quantization\":{\"bits\":\"4\",\"group_size\":64}}", LS_INVALID_ARGUMENT, "bits"},
        {8, 1, "biases", "{\"quantization\":{\"bits\":4,\"group_size\":64,\"" M "\":false}}", LS_INVALID_ARGUMENT,
         "not quantised"},
        {8, 1, "biases", "{\"quantization\":{\"bits\":4,\"group_size\":64,\"" M "\":7}}", LS_INVALID_ARGUMENT,
         "neither"},
        {8, 1, "extra", "{\"quantization\":{\"bits\":4,\"group_size\":64}}", LS_NOT_FOUND, M ".biases"},
        {8, 2, "biases", "{\"quantization\":{\"bits\":4,\"group_size\":64}}", LS_INVALID_ARGUMENT, "do not hold"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ls_error e = {0};
        ls_checkpoint *c;
        assert_error(open_mlx(&c, M, cases[i].words, cases[i].groups, cases[i].biases, cases[i].config, &e),
                     cases[i].code, cases[i].text);
    }
}

/* ---- Identities ------------------------------------------------------------------------------------------------ */

static void identities_follow_what_they_name(void **state) {
    (void)state;
    static const struct {
        const char *header;
        size_t flip; /* data byte to change; 99: none */
        bool same_schema, same_bytes;
    } cases[] = {{ONE("a"), 99, true, true},
                 {ONE("a"), 3, true, false},
                 {ONE("b"), 99, false, false},
                 {"{\"a\":{\"dtype\":\"I32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 99, false, true},
                 {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[0,8]}}", 99, false, true}};
    char schema[5][65], bytes[5][65];
    for (size_t i = 0; i < 5; i++) {
        ls_error e = {0};
        ls_checkpoint *c;
        size_t size;
        uint8_t *image = make_safetensors(cases[i].header, 8, &size);
        if (cases[i].flip != 99) image[size - 8 + cases[i].flip] ^= 1;
        assert_ok(ls_checkpoint_create(&c, &e));
        assert_ok(ls_safetensors_parse(c, image, size, "image", &e));
        assert_ok(ls_checkpoint_finish(c, &e));
        assert_ok(ls_checkpoint_schema_sha256(c, schema[i], &e));
        assert_ok(ls_checkpoint_bytes_sha256(c, bytes[i], &e));
        assert_int_equal(!strcmp(schema[i], schema[0]), cases[i].same_schema);
        assert_int_equal(!strcmp(bytes[i], bytes[0]), cases[i].same_bytes);
        ls_checkpoint_close(c);
        free(image);
    }
}

/* ---- Real models ----------------------------------------------------------------------------------------------- */

/* FNV-1a over the bits of sampled rows, so that a real file pins its dequantised values in one number. */
static uint64_t sample_rows(ls_checkpoint *c) {
    uint64_t h = 0xCBF29CE484222325u;
    for (size_t i = 0; i < ls_checkpoint_count(c); i++) {
        const ls_tensor *t = ls_checkpoint_at(c, i);
        int64_t rows = ls_tensor_rows(t), n = t->shape[t->rank - 1], step = rows > 8 ? rows / 7 : 1;
        float *row = malloc((size_t)n * 4);
        for (int64_t r = 0; r < rows; r += step) {
            ls_tensor_row_f32(t, r, row);
            const uint8_t *p = (const uint8_t *)row;
            for (int64_t b = 0; b < n * 4; b++) h = (h ^ p[b]) * 0x100000001B3u;
        }
        free(row);
    }
    return h;
}

static void check_real(const char *variable, size_t tensors, const char *model_type, int layers, uint64_t rows) {
    const char *path = getenv(variable);
    if (!path || !*path) skip();
    ls_error e = {0};
    ls_checkpoint *c;
    assert_ok(ls_checkpoint_open(&c, path, &e));
    assert_int_equal(ls_checkpoint_count(c), tensors);
    assert_string_equal(json_string_value(json_object_get(ls_checkpoint_config(c), "model_type")), model_type);
    assert_int_equal(json_integer_value(json_object_get(ls_checkpoint_config(c), "num_hidden_layers")), layers);
    for (size_t i = 0; i < tensors; i++) {
        assert_ok(ls_tensor_check_finite(ls_checkpoint_at(c, i), &e));
        assert_true(!strncmp(ls_checkpoint_at(c, i)->name, "model.", 6));
    }
    assert_true(sample_rows(c) == rows);
    ls_checkpoint_close(c);
}

/* The numbers were taken over rows that equal the gguf package's bit for bit. */
static void smollm2_opens(void **state) {
    (void)state;
    check_real("LS_SMOLLM2_GGUF", 272, "llama", 30, 0x0fd1bdbf8e95b782u);
}

static void gemma3_opens(void **state) {
    (void)state;
    check_real("LS_GEMMA3_GGUF", 236, "gemma3_text", 18, 0x46bab198a65df442u);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_architecture_translates),
        cmocka_unit_test(gguf_version_2_reads_like_3),
        cmocka_unit_test(plain_safetensors_reads),
        cmocka_unit_test(empty_metadata_and_no_tensors_are_fine),
        cmocka_unit_test(sharded_folder_opens),
        cmocka_unit_test(folder_errors_name_the_thing),
        cmocka_unit_test(mlx_modules_fold_by_config),
        cmocka_unit_test(mlx_contradictions_are_refused),
        cmocka_unit_test(identities_follow_what_they_name),
        cmocka_unit_test(smollm2_opens),
        cmocka_unit_test(gemma3_opens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
