/* Models that see, against what transformers computes in f32: prompt ids, projected rows, logits and 64 greedy tokens of every case of
 * fixtures/vision, on the reference and the native executor; alone, in chunks, in mixed batches of eight, with a prefix cache; and what
 * is kept, bound into identities and refused. */
#include "vision_fixture.h"

#include <stdlib.h>
#include <unistd.h>

#include "session/prepared.h"

enum { SLOTS = 8, PREFIX = 64 << 20 };

static vision_fixture random_model;

/* ---- Against transformers ------------------------------------------------------------------------------------------------------ */

static void numbers(const char *backend, const char *contract, double rows_bound, double logits_bound) {
    ls_model *m = vision_model(&random_model, backend, contract, 1, 512);
    for (int i = 0; i < random_model.n_cases; i++) vision_check_numbers(&random_model, &random_model.cases[i], m, rows_bound, logits_bound);
    ls_model_destroy(m);
}

static void near_transformers(void **state) {
    (void)state;
    numbers("reference", "float", 1e-4, 0.002);
    numbers("native", "exact24", 1e-4, 0.002);
    numbers("native", "exact16", 0.01, 0.1);
}

/* ---- Tokens, and equal bits ------------------------------------------------------------------------------------------------------ */

static void check_tokens(const vision_case *c, const vision_stream *s) {
    assert_int_equal(s->finish, LS_FINISH_LENGTH);
    for (size_t i = 0; i < VISION_NEW; i++)
        if (s->out[i] != c->greedy[i]) fail_msg("%s: token %zu is %d, transformers chose %d", c->name, i, (int)s->out[i], (int)c->greedy[i]);
}

/* Every case alone. */
static void answers(const vision_fixture *f, ls_model *m, vision_stream *s, bool as_golden) {
    ls_error e = {0};
    ls_session *session;
    assert_ok(ls_session_create(&session, m, &e));
    for (int i = 0; i < f->n_cases; i++) {
        s[i] = (vision_stream){.of = &f->cases[i], .prepared = vision_prepare(f, &f->cases[i], m)};
        vision_submit(session, &s[i]);
        vision_run(session, &s[i], 1);
        if (as_golden) check_tokens(&f->cases[i], &s[i]);
    }
    ls_session_destroy(session);
}

static void free_streams(vision_stream *s, int n) {
    for (int i = 0; i < n; i++) ls_prepared_destroy(s[i].prepared);
}

static void same(const char *what, const vision_stream *a, const vision_stream *b) {
    if (memcmp(a->out, b->out, sizeof a->out) || strcmp(a->sha, b->sha)) fail_msg("%s, %s: tokens or logits differ", what, a->of->name);
}

static void batch(const char *what, ls_model *m, const vision_stream *want, size_t prefix) {
    enum { N = 12 };
    ls_error e = {0};
    ls_session *s;
    vision_stream got[N];
    ls_session_options o = {.struct_size = sizeof o, .prefix_cache_bytes = prefix};
    assert_ok(ls_session_create_with(&s, m, &o, &e));
    for (int i = 0; i < N; i++) {
        const vision_case *c = &random_model.cases[i % random_model.n_cases];
        got[i] = (vision_stream){.of = c, .prepared = vision_prepare(&random_model, c, m)};
        vision_submit(s, &got[i]);
        ls_prepared_destroy(got[i].prepared);
        got[i].prepared = NULL;
    }
    vision_run(s, got, N);
    for (int i = 0; i < N; i++) same(what, &want[i % random_model.n_cases], &got[i]);
    ls_session_destroy(s);
}

/* The reference executor's bits on native: whole, in chunks, in batches of eight, with a prefix cache. */
static void equal_bits(const char *contract) {
    static const int chunks[] = {1, 7, 512};
    vision_stream want[VISION_CASES], got[VISION_CASES];
    ls_model *m = vision_model(&random_model, "reference", contract, 1, 512);
    answers(&random_model, m, want, true);
    free_streams(want, random_model.n_cases);
    ls_model_destroy(m);
    for (size_t c = 0; c < sizeof chunks / sizeof *chunks; c++) {
        m = vision_model(&random_model, "native", contract, 1, chunks[c]);
        answers(&random_model, m, got, true);
        for (int i = 0; i < random_model.n_cases; i++) same("native", &want[i], &got[i]);
        free_streams(got, random_model.n_cases);
        ls_model_destroy(m);
    }
    m = vision_model(&random_model, "native", contract, SLOTS, 32);
    batch("a mixed batch of eight", m, want, 0);
    batch("a mixed batch of eight with a prefix cache", m, want, PREFIX);
    ls_model_destroy(m);
}

static void tokens_and_bits(void **state) {
    (void)state;
    equal_bits("exact16");
    equal_bits("exact24");
}

static void float_tokens(void **state) {
    (void)state;
    vision_stream got[VISION_CASES];
    ls_model *m = vision_model(&random_model, "reference", "float", 1, 512);
    answers(&random_model, m, got, true);
    free_streams(got, random_model.n_cases);
    ls_model_destroy(m);
}

/* ---- Pictures that come again, and pictures that are swapped ------------------------------------------------------------------ */

static void seen_once(void **state) {
    (void)state;
    ls_error e = {0};
    ls_model *m = vision_model(&random_model, "native", "exact16", 1, 512);
    const vision_case *one = &random_model.cases[0], *two = &random_model.cases[1];
    vision_stream a = {.of = two, .prepared = vision_prepare(&random_model, two, m)}, b = a;
    assert_int_equal(m->eyes.cache.misses, 2);
    b.prepared = vision_prepare(&random_model, two, m);
    assert_int_equal(m->eyes.cache.misses, 2);
    assert_int_equal(m->eyes.cache.hits, 2);
    assert_memory_equal(a.prepared->embeddings.data, b.prepared->embeddings.data, a.prepared->embeddings.bytes);
    ls_prepared_destroy(b.prepared);
    vision_case swapped = *two;
    memcpy(swapped.image[0], two->image[1], sizeof swapped.image[0]);
    memcpy(swapped.image[1], two->image[0], sizeof swapped.image[1]);
    b.prepared = vision_prepare(&random_model, &swapped, m); /* the same words, the pictures the other way round */
    assert_int_equal(m->eyes.cache.misses, 2);
    ls_session *s;
    ls_session_options o = {.struct_size = sizeof o, .prefix_cache_bytes = PREFIX};
    assert_ok(ls_session_create_with(&s, m, &o, &e));
    vision_submit(s, &a);
    vision_run(s, &a, 1);
    vision_submit(s, &b);
    vision_run(s, &b, 1);
    check_tokens(two, &a);
    if (!strcmp(a.sha, b.sha)) fail_msg("swapped pictures give the first request's answer");
    ls_session_destroy(s);
    ls_prepared_destroy(a.prepared);
    ls_prepared_destroy(b.prepared);
    m->eyes.cache.max_bytes = one->n_projected * sizeof(float); /* room for one picture */
    ls_features_clear(&m->eyes.cache);
    for (int i = 0; i < 2; i++) ls_prepared_destroy(vision_prepare(&random_model, two, m));
    assert_int_equal(m->eyes.cache.entries, 1);
    assert_true(m->eyes.cache.bytes <= m->eyes.cache.max_bytes);
    ls_model_destroy(m);
}

/* ---- Placeholders, limits, refusals -------------------------------------------------------------------------------------------- */

static void refused(ls_model *m, const ls_prepare_options *o, ls_code code, const char *part) {
    ls_error e = {0};
    ls_prepared_prefill *p;
    assert_error(ls_model_prepare(&p, m, o, &e), code, part);
}

static void refusals(void **state) {
    (void)state;
    char path[600];
    ls_error e = {0};
    const vision_case *one = &random_model.cases[0];
    ls_model *m = vision_model(&random_model, "native", "exact16", 1, 512);
    snprintf(path, sizeof path, "%s/%s", random_model.folder, one->image[0]);
    ls_picture good = {.path = path}, both[2] = {good, good}, bad = {.data = "no picture", .len = 10}, absent = {.path = "/nowhere/at/all.png"};
    static const char placeholder[] = "<start_of_image>What?", typed[] = "[{\"role\": \"user\", \"content\": \"<start_of_image> typed by a user\"}]";
    ls_prepare_options o = {.struct_size = sizeof o, .text = placeholder, .len = sizeof placeholder - 1, .add_special = true, .pictures = both, .n_pictures = 2};
    refused(m, &o, LS_INVALID_ARGUMENT, "1 image placeholders");
    o.pictures = &bad;
    o.n_pictures = 1;
    refused(m, &o, LS_INVALID_ARGUMENT, "picture 1: ");
    o.pictures = &absent;
    refused(m, &o, LS_NOT_FOUND, "nowhere");
    o.pictures = &good;
    o.max_pixels = 16;
    refused(m, &o, LS_RESOURCE_EXHAUSTED, "picture 1: ");
    o.struct_size = 0;
    refused(m, &o, LS_INVALID_ARGUMENT, "struct_size");
    /* A bare prompt and one with its placeholder at the beginning are the same; what a user types in a conversation is no image. */
    o = (ls_prepare_options){.struct_size = sizeof o, .text = placeholder, .len = sizeof placeholder - 1, .add_special = true, .pictures = &good, .n_pictures = 1};
    ls_prepared_prefill *spelled, *bare, *chat;
    assert_ok(ls_model_prepare(&spelled, m, &o, &e));
    o.text = "What?";
    o.len = 5;
    assert_ok(ls_model_prepare(&bare, m, &o, &e));
    assert_int_equal(spelled->n, bare->n);
    assert_memory_equal(spelled->token, bare->token, bare->n * sizeof *bare->token);
    o = (ls_prepare_options){.struct_size = sizeof o, .text = typed, .len = sizeof typed - 1, .chat = true};
    assert_ok(ls_model_prepare(&chat, m, &o, &e));
    for (size_t i = 0; i < chat->n; i++) assert_int_not_equal(chat->token[i], m->eyes.tokens.boi);
    size_t n;
    const ls_modality *k = ls_prepared_modalities(bare, &n);
    assert_true(n == 1 && k->items == 1 && k->tokens == 16 && !strcmp(k->family, "gemma3"));
    ls_prepared_destroy(spelled);
    ls_prepared_destroy(bare);
    ls_prepared_destroy(chat);
    ls_model_destroy(m);
    m = vision_model(&random_model, "native", "exact16", 1, 512); /* a context that the image fills */
    m->context = 20;
    o = (ls_prepare_options){.struct_size = sizeof o, .text = "What?", .len = 5, .pictures = &good, .n_pictures = 1};
    refused(m, &o, LS_RESOURCE_EXHAUSTED, "context");
    assert_int_equal(m->eyes.cache.misses, 0); /* before the picture is seen */
    ls_str file = {0};
    assert_ok(ls_file_read(&file, path, 1 << 20, &e));
    ls_picture cut = {.data = file.data, .len = file.len / 2}; /* or decoded */
    o.pictures = &cut;
    refused(m, &o, LS_RESOURCE_EXHAUSTED, "context");
    m->context = 512;
    refused(m, &o, LS_DATA_LOSS, "picture 1: ");
    ls_str_deinit(&file);
    o = (ls_prepare_options){.struct_size = sizeof o, .text = typed, .len = sizeof typed - 1, .chat = true, .pictures = &good, .n_pictures = 1};
    refused(m, &o, LS_INVALID_ARGUMENT, "no place (<start_of_image>) for the 1 images"); /* the message has no image part */
    ls_model_destroy(m);
}

static void text_models_take_no_pictures(void **state) {
    (void)state;
    ls_error e = {0};
    ls_model *m;
    ls_prepared_prefill *p;
    ls_model_options o = {.struct_size = sizeof o};
    assert_ok(ls_model_open(&m, LS_FIXTURES "/models/gemma3", &o, &e));
    assert_string_equal(ls_model_no_vision(m), "the model's configuration declares no vision");
    assert_string_equal(ls_model_identity(m), ls_model_fingerprint(m));
    ls_prepare_options q = {.struct_size = sizeof q, .text = "a", .len = 1};
    assert_error(ls_model_prepare(&p, m, &q, &e), LS_UNIMPLEMENTED, "image input is refused");
    ls_session *s;
    assert_ok(ls_session_create(&s, m, &e));
    assert_false(ls_session_capabilities(s).multimodal);
    ls_session_destroy(s);
    ls_model_destroy(m);
}

/* ---- Identity -------------------------------------------------------------------------------------------------------------------- */

/* The identity of a copy of the model whose config.json or preprocessor_config.json has |from| replaced by |to|; "" when it no longer sees. */
static void identity_with(const char *file, const char *from, const char *to, int slots, char out[65]) {
    ls_error e = {0};
    char folder[400];
    ls_model *m;
    vision_copy(&random_model, file, from, to, folder);
    ls_model_options o = {.struct_size = sizeof o, .parts = LS_LOAD_GRAPH, .slots = slots};
    assert_ok(ls_model_open(&m, folder, &o, &e));
    snprintf(out, 65, "%s", ls_model_no_vision(m) ? "" : ls_model_identity(m));
    if (ls_model_no_vision(m)) assert_string_equal(ls_model_identity(m), ls_model_fingerprint(m));
    ls_model_destroy(m);
    vision_copy_remove(folder);
}

static void identity_binds(void **state) {
    (void)state;
    static const struct {
        const char *file, *from, *to;
    } changes[] = {
        {"config.json", "\"rope_theta\": 10000.0", "\"rope_theta\": 10000.5"},
        {"config.json", "\"rope_local_base_freq\": 100.0", "\"rope_local_base_freq\": 100.5"},
        {"config.json", "\"sliding_window\": 12", "\"sliding_window\": 13"},
        {"config.json", "\"pad_token_id\": 0", "\"pad_token_id\": 3"},
        {"config.json", "\"layer_norm_eps\": 1e-06", "\"layer_norm_eps\": 1e-05"},
        {"preprocessor_config.json", "\"resample\": 2", "\"resample\": 3"},
        {"preprocessor_config.json", "0.00392156862745098", "0.00392156862745"},
    };
    char usual[65], again[65], ragged[65], other[65];
    identity_with("config.json", "", "", 1, usual);
    identity_with("config.json", "", "", 1, again);
    identity_with("config.json", "", "", 4, ragged);
    assert_int_equal(strlen(usual), 64);
    assert_string_equal(usual, again);
    assert_string_not_equal(usual, ragged);
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        identity_with(changes[i].file, changes[i].from, changes[i].to, 1, other);
        if (!strcmp(other, usual) || !*other) fail_msg("%s with %s has the identity %s", changes[i].file, changes[i].to, *other ? "of the original" : "of a text model");
    }
}

/* A model that declares vision which this version cannot serve is a text model that says why. */
static void unqualified_wrappers(void **state) {
    (void)state;
    static const struct {
        const char *file, *from, *to, *part;
    } changes[] = {
        {"config.json", "\"model_type\": \"siglip_vision_model\"", "\"model_type\": \"clip_vision_model\"", "clip_vision_model"},
        {"config.json", "\"mm_tokens_per_image\": 16", "\"mm_tokens_per_image\": 15", "mm_tokens_per_image"},
        {"config.json", "\"image_token_index\": 9", "\"image_token_index\": 8", "differ"},
        {"config.json", "\"pad_token_id\": 0", "\"pad_token_id\": 9", "token of their own"},
        {"preprocessor_config.json", "\"height\": 64", "\"height\": 32", "resizes to"},
        {"preprocessor_config.json", "Gemma3ImageProcessor", "LlavaImageProcessor", "LlavaImageProcessor"},
        {"processor_config.json", "\"image_seq_length\": 16", "\"image_seq_length\": 4", "must be equal"},
        {"config.json", "\"boi_token_index\": 7", "\"boi_token_index\": 0", "they must be the same token"},
        {"tokenizer_config.json", "\"eoi_token\": \"<end_of_image>\"", "\"eoi_token\": \"<pad>\"", "they must be the same token"},
        {"config.json", "\"vision_config\": {", "\"vision_config\": 3, \"unused\": {", "\"vision_config\" must be an object"},
    };
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        ls_error e = {0};
        char folder[400];
        ls_model *m;
        vision_copy(&random_model, changes[i].file, changes[i].from, changes[i].to, folder);
        ls_model_options o = {.struct_size = sizeof o, .parts = LS_LOAD_GRAPH};
        assert_ok(ls_model_open(&m, folder, &o, &e));
        const char *why = ls_model_no_vision(m);
        if (!why || !strstr(why, changes[i].part)) fail_msg("%s: the reason is \"%s\"", changes[i].to, why ? why : "none");
        ls_model_destroy(m);
        vision_copy_remove(folder);
    }
}

/* ---- Pack files ------------------------------------------------------------------------------------------------------------------- */

static void pack_into(const char *model, const char *contract, char file[64]) {
    ls_error e = {0};
    char folder[] = "/tmp/ls_vision_XXXXXX";
    const ls_pack_options o = {.struct_size = sizeof o, .contract = contract, .threads = 1};
    assert_non_null(mkdtemp(folder));
    snprintf(file, 64, "%s/model.lspack", folder);
    assert_ok(ls_model_pack(model, file, &o, NULL, &e));
}

static void remove_packed(char file[64]) {
    unlink(file);
    *strrchr(file, '/') = 0;
    rmdir(file);
}

/* Logits and tokens of every case, and the identity, are those of the folder that was packed. */
static void pack_files_see(const vision_fixture *f, const char *contract) {
    ls_error e = {0};
    char file[64];
    vision_stream want[VISION_CASES], got[VISION_CASES];
    pack_into(f->folder, contract, file);
    const ls_model_options o = {.struct_size = sizeof o, .threads = 2, .context = 512};
    const ls_model_options own = {.struct_size = sizeof own, .threads = 2, .context = 512, .contract = contract};
    ls_model *packed, *m;
    assert_ok(ls_model_open(&packed, file, &o, &e));
    assert_ok(ls_model_open(&m, f->folder, &own, &e));
    if (ls_model_no_vision(packed)) fail_msg("%s: %s", file, ls_model_no_vision(packed));
    assert_string_equal(ls_model_identity(packed), ls_model_identity(m));
    answers(f, m, want, false);
    answers(f, packed, got, false);
    for (int i = 0; i < f->n_cases; i++) same("pack file", &want[i], &got[i]);
    free_streams(want, f->n_cases);
    free_streams(got, f->n_cases);
    ls_model_destroy(m);
    ls_model_destroy(packed);
    remove_packed(file);
}

static void packed_models_see(void **state) {
    (void)state;
    vision_fixture four_bits;
    vision_open(&four_bits, LS_FIXTURES "/vision/gemma3_shapes_mlx4");
    pack_files_see(&random_model, "exact16");
    pack_files_see(&random_model, "exact24");
    pack_files_see(&four_bits, "exact16");
    vision_close(&four_bits);
}

/* One that declares vision and does not see is packed for text, and its pack file says that it takes no pictures. */
static void packed_models_that_do_not_see(void **state) {
    (void)state;
    ls_error e = {0};
    char folder[400], file[64];
    ls_model *m;
    vision_copy(&random_model, "preprocessor_config.json", "Gemma3ImageProcessor", "LlavaImageProcessor", folder);
    pack_into(folder, NULL, file);
    assert_ok(ls_model_open(&m, file, &(ls_model_options){.struct_size = sizeof(ls_model_options), .parts = LS_LOAD_GRAPH}, &e));
    const char *why = ls_model_no_vision(m);
    if (!why || !strstr(why, "has no section image_processor")) fail_msg("the reason is \"%s\"", why ? why : "none");
    assert_string_equal(ls_model_identity(m), ls_model_fingerprint(m));
    ls_model_destroy(m);
    remove_packed(file);
    vision_copy_remove(folder);
}

static int open_fixture(void **state) {
    (void)state;
    vision_open(&random_model, LS_FIXTURES "/vision/gemma3_random");
    return 0;
}

static int close_fixture(void **state) {
    (void)state;
    vision_close(&random_model);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(near_transformers), cmocka_unit_test(tokens_and_bits), cmocka_unit_test(float_tokens),   cmocka_unit_test(seen_once),
        cmocka_unit_test(refusals),          cmocka_unit_test(identity_binds),  cmocka_unit_test(unqualified_wrappers), cmocka_unit_test(text_models_take_no_pictures),
        cmocka_unit_test(packed_models_see), cmocka_unit_test(packed_models_that_do_not_see),
    };
    return cmocka_run_group_tests(tests, open_fixture, close_fixture);
}
