/* Graphs of every family: fingerprints, consumed tensors, refusals, and configurations with any field replaced by nonsense.
 * What the graphs compute is tested on the executors (tests/reference). */
#include "test.h"

#include <stdlib.h>
#include <unistd.h>

#include "fixture_models.h"

static const ls_family *family_of(const char *type) {
    const ls_family *f;
    for (size_t i = 0; (f = ls_family_at(i)); i++)
        if (!strcmp(f->model_type, type)) return f;
    return NULL;
}

/* Builds |c|'s family from |config| instead of the checkpoint's own; the fingerprint when it succeeds. */
static ls_code build(ls_checkpoint *c, const json_t *config, int64_t context, char hex[65], ls_error *e) {
    ls_graph *g;
    ls_build_options o = {.contract = LS_CONTRACT_FLOAT, .context = context};
    const ls_family *f = family_of(json_string_value(json_object_get(ls_checkpoint_config(c), "model_type")));
    LS_TRY(ls_graph_create(&g, LS_CONTRACT_FLOAT, e));
    ls_code rc = f->build(g, c, config, &o, e);
    if (!rc) rc = ls_graph_fingerprint(g, hex, e);
    ls_graph_destroy(g);
    return rc;
}

static ls_checkpoint *open_fixture(const char *name) {
    char path[300];
    ls_error e = {0};
    ls_checkpoint *c;
    snprintf(path, sizeof path, LS_FIXTURES "/models/%s", name);
    assert_ok(ls_checkpoint_open(&c, path, &e));
    return c;
}

/* The config of |c| with |key| replaced by the JSON |value|. */
static json_t *changed(const ls_checkpoint *c, const char *key, const char *value) {
    json_t *config = json_deep_copy(ls_checkpoint_config(c)), *v = json_loads(value, JSON_DECODE_ANY, NULL);
    assert_non_null(v);
    assert_int_equal(json_object_set_new(config, key, v), 0);
    return config;
}

/* ---- Fingerprints ---------------------------------------------------------------------------------------------- */

static void fingerprints_are_as_committed(void **state) {
    (void)state;
    static const ls_contract contracts[] = {LS_CONTRACT_FLOAT, LS_CONTRACT_EXACT16, LS_CONTRACT_EXACT24};
    char names[FIXTURE_MAX][128], hex[65];
    ls_error e = {0};
    json_t *golden;
    int n = fixture_names(names), different = 0;
    assert_true(n >= 31);
    assert_ok(ls_json_load(&golden, LS_FIXTURES "/models/fingerprints.json", 1 << 20, &e));
    for (int i = 0; i < n; i++) {
        const json_t *row = json_object_get(golden, names[i]);
        for (int k = 0; k < 3; k++) {
            fixture f;
            assert_ok(fixture_open(&f, names[i], contracts[k], &e));
            assert_ok(ls_graph_fingerprint(f.graph, hex, &e));
            const char *want = json_string_value(json_object_get(row, ls_contract_name(contracts[k])));
            if (!want || strcmp(want, hex)) {
                print_message("%s %s %s\n", names[i], ls_contract_name(contracts[k]), hex);
                different++;
            }
            fixture_close(&f);
        }
    }
    assert_int_equal(different, 0);
    assert_int_equal(json_object_size(golden), n);
    json_decref(golden);
}

static void every_tensor_is_consumed(void **state) {
    (void)state;
    char names[FIXTURE_MAX][128];
    ls_error e = {0};
    int n = fixture_names(names);
    for (int i = 0; i < n; i++) {
        fixture f;
        assert_ok(fixture_open(&f, names[i], LS_CONTRACT_FLOAT, &e));
        const char *left = ls_checkpoint_unused(f.checkpoint, 0);
        if (left) fail_msg("%s: nothing reads \"%s\"", names[i], left);
        assert_int_equal(f.graph->nodes[0].op, LS_OP_EMBED);
        assert_int_equal(f.graph->nodes[f.graph->n_nodes - 1].cols, f.graph->vocab);
        assert_true(f.graph->nodes[f.graph->n_nodes - 1].selected);
        fixture_close(&f);
    }
}

/* Each of these fields reaches the result, so each must reach the fingerprint. */
static void fields_change_fingerprints(void **state) {
    (void)state;
    static const char *const changes[][3] = {{"llama", "rope_theta", "10001"},
                                             {"llama", "rms_norm_eps", "1e-5"},
                                             {"llama", "hidden_act", "\"gelu\""},
                                             {"llama", "rope_scaling", "null"},
                                             {"llama", "rope_interleaved", "true"},
                                             {"llama_bias", "attention_bias", "false"},
                                             {"mistral", "sliding_window", "7"},
                                             {"qwen2", "max_window_layers", "0"},
                                             {"qwen2", "use_sliding_window", "false"},
                                             {"gemma", "norm_weight_has_one", "true"},
                                             {"gemma2", "attn_logit_softcapping", "2.5"},
                                             {"gemma2", "final_logit_softcapping", "null"},
                                             {"gemma2", "query_pre_attn_scalar", "21"},
                                             {"gemma3", "sliding_window_pattern", "2"},
                                             {"gemma3", "rope_local_base_freq", "101"},
                                             {"smollm3", "no_rope_layers", "[1, 1, 1]"},
                                             {"phi3", "partial_rotary_factor", "null"},
                                             {"phi3", "original_max_position_embeddings", "64"},
                                             {"granite", "embedding_multiplier", "2"},
                                             {"granite", "logits_scaling", "3"},
                                             {"granite", "residual_multiplier", "1"},
                                             {"granite", "attention_multiplier", "0.3"},
                                             {"cohere", "logit_scale", "1"},
                                             {"cohere", "use_qk_norm", "false"},
                                             {"cohere2", "sliding_window_pattern", "3"},
                                             {"stablelm", "use_parallel_residual", "true"},
                                             {"minicpm", "scale_depth", "1"},
                                             {"minicpm", "dim_model_base", "8"},
                                             {"minicpm", "scale_emb", "1"},
                                             {"qwen2_moe", "norm_topk_prob", "true"},
                                             {"qwen2_moe", "num_experts_per_tok", "3"},
                                             {"olmoe", "clip_qkv", "null"},
                                             {"exaone4", "sliding_window", "null"}};
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        const char *const *c = changes[i];
        char before[65], after[65];
        ls_error e = {0};
        ls_checkpoint *model = open_fixture(c[0]);
        json_t *config = changed(model, c[1], c[2]);
        bool shorter = !strcmp(c[1], "partial_rotary_factor");
        if (shorter) json_object_del(config, "rope_scaling");
        assert_ok(build(model, ls_checkpoint_config(model), 84, before, &e));
        assert_ok(build(model, config, 84, after, &e));
        if (!strcmp(before, after)) fail_msg("%s: \"%s\" = %s changes nothing", c[0], c[1], c[2]);
        json_decref(config);
        ls_checkpoint_close(model);
    }
}

/* A configuration in the newer form, everything rotary in rope_parameters, gives the graph of the older one. */
static void rope_parameters_mean_the_older_keys(void **state) {
    (void)state;
    static const char *const forms[][2] = {
        {"gemma3", "{\"sliding_attention\": {\"rope_type\": \"default\", \"rope_theta\": 100},"
                   " \"full_attention\": {\"rope_type\": \"linear\", \"factor\": 4, \"rope_theta\": 10000}}"},
        {"cohere", NULL}, {"qwen3", NULL}, {"stablelm", NULL}, {"phi3", NULL}};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        char before[65], after[65];
        ls_error e = {0};
        ls_checkpoint *model = open_fixture(forms[i][0]);
        json_t *config = json_deep_copy(ls_checkpoint_config(model));
        assert_ok(build(model, config, 84, before, &e));
        json_t *p = forms[i][1] ? json_loads(forms[i][1], 0, NULL) : json_object();
        static const char *const moved[] = {"rope_theta", "partial_rotary_factor"};
        if (!forms[i][1]) json_object_update(p, json_object_get(config, "rope_scaling"));
        for (int k = 0; k < 2 && !forms[i][1]; k++)
            if (json_is_number(json_object_get(config, moved[k]))) json_object_set(p, moved[k], json_object_get(config, moved[k]));
        static const char *const older[] = {"rope_theta", "rope_scaling", "rope_local_base_freq", "partial_rotary_factor"};
        for (int k = 0; k < 4; k++) json_object_del(config, older[k]);
        json_object_set_new(config, "rope_parameters", p);
        assert_ok(build(model, config, 84, after, &e));
        assert_string_equal(before, after);
        json_decref(config);
        ls_checkpoint_close(model);
    }
}

/* ---- Refusals -------------------------------------------------------------------------------------------------- */

typedef struct refusal {
    const char *fixture, *key, *value;
    ls_code code;
    const char *part; /* of the message */
} refusal;

static const refusal refusals[] = {
    {"llama", "hidden_act", "\"mish\"", LS_UNIMPLEMENTED, "\"hidden_act\" is \"mish\""},
    {"llama", "rope_scaling", "{\"rope_type\": \"ntk\"}", LS_UNIMPLEMENTED, "type \"ntk\""},
    {"llama", "rope_scaling", "{\"type\": \"linear\", \"factor\": 2, \"alpha\": 1}", LS_UNIMPLEMENTED,
     "unknown field \"alpha\""},
    {"llama", "rope_scaling", "{\"type\": \"default\", \"mrope_section\": [2, 3, 3]}", LS_UNIMPLEMENTED,
     "\"mrope_section\""},
    {"llama", "rope_scaling", "{\"type\": \"linear\"}", LS_INVALID_ARGUMENT, "positive \"factor\""},
    {"llama", "rope_scaling", "\"linear\"", LS_INVALID_ARGUMENT, "not an object"},
    {"llama", "rope_theta", "0", LS_INVALID_ARGUMENT, "\"rope_theta\" is 0"},
    {"llama", "rope_parameters", "{\"rope_type\": \"linear\", \"factor\": 2}", LS_UNIMPLEMENTED, "\"rope_parameters\" and another"},
    {"mistral", "rope_parameters", "{\"full_attention\": {\"rope_theta\": 10000}}", LS_UNIMPLEMENTED, "object \"full_attention\""},
    {"mistral", "rope_parameters", "{\"rope_theta\": 10000, \"partial_rotary_factor\": 0.5}", LS_UNIMPLEMENTED,
     "\"partial_rotary_factor\" is 0.5"},
    {"mistral", "rope_parameters", "[1]", LS_INVALID_ARGUMENT, "not an object"},
    {"cohere", "rope_parameters", "{\"rope_type\": \"ntk\"}", LS_UNIMPLEMENTED, "type \"ntk\""},
    {"llama", "rms_norm_eps", "0", LS_INVALID_ARGUMENT, "eps"},
    {"llama", "partial_rotary_factor", "0.5", LS_UNIMPLEMENTED, "\"partial_rotary_factor\" is 0.5"},
    {"llama", "num_hidden_layers", "4", LS_NOT_FOUND, "\"model.layers.3.input_layernorm.weight\""},
    {"llama", "num_hidden_layers", "2", LS_INVALID_ARGUMENT, "layer 2; config \"num_hidden_layers\" 2 allows layers 0 to 1"},
    {"exaone", "num_layers", "1", LS_INVALID_ARGUMENT, "layer 1; config \"num_layers\" 1 allows layers 0 to 0"},
    {"llama", "num_hidden_layers", "2000", LS_OUT_OF_RANGE, "num_hidden_layers"},
    {"llama", "hidden_size", "66", LS_INVALID_ARGUMENT, "66"},
    {"llama", "head_dim", "7", LS_INVALID_ARGUMENT, "7 columns"},
    {"llama", "intermediate_size", "97", LS_INVALID_ARGUMENT, "[97, 64]"},
    {"llama", "vocab_size", "null", LS_INVALID_ARGUMENT, "no \"vocab_size\""},
    {"llama", "num_attention_heads", "\"4\"", LS_INVALID_ARGUMENT, "num_attention_heads"},
    {"llama_bias", "tie_word_embeddings", "false", LS_NOT_FOUND, "\"lm_head.weight\""},
    {"gemma3", "use_bidirectional_attention", "true", LS_UNIMPLEMENTED, "causal"},
    {"gemma3", "attn_logit_softcapping", "50", LS_UNIMPLEMENTED, "\"attn_logit_softcapping\""},
    {"gemma3", "layer_types", "[\"chunked_attention\"]", LS_UNIMPLEMENTED, "\"chunked_attention\" for layer 0"},
    {"gemma3", "layer_types", "[\"full_attention\"]", LS_INVALID_ARGUMENT, "layer 1 of 4"},
    {"gemma3", "query_pre_attn_scalar", "0", LS_INVALID_ARGUMENT, "scale"},
    {"phi3", "attention_bias", "true", LS_UNIMPLEMENTED, "\"attention_bias\""},
    {"phi3", "partial_rotary_factor", "0.5", LS_INVALID_ARGUMENT, "need 4"},
    {"phi3", "rope_scaling", "{\"type\": \"longrope\", \"short_mscale\": 1.2}", LS_UNIMPLEMENTED, "\"short_mscale\""},
    {"minicpm", "sparse_config", "{\"block_size\": 64}", LS_UNIMPLEMENTED, "\"sparse_config\""},
    {"minicpm", "num_experts", "8", LS_UNIMPLEMENTED, "\"num_experts\" is 8"},
    {"cohere", "rotary_pct", "0.5", LS_UNIMPLEMENTED, "\"rotary_pct\""},
    {"qwen2_moe", "num_experts_per_tok", "6", LS_INVALID_ARGUMENT, "top 6 of 5 experts"},
    {"qwen2_moe", "num_experts", "6", LS_INVALID_ARGUMENT, "mlp.gate.weight"},
    {"smollm3", "no_rope_layers", "[1]", LS_INVALID_ARGUMENT, "layer 1 of 3"},
    {"exaone4", "sliding_window_pattern", "\"\"", LS_INVALID_ARGUMENT, "is empty"},
    {"granite", "logits_scaling", "0", LS_INVALID_ARGUMENT, "\"logits_scaling\" is 0"},
};

static void unsupported_fields_are_refused_by_name(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        const refusal *r = &refusals[i];
        char hex[65];
        ls_error e = {0};
        ls_checkpoint *model = open_fixture(r->fixture);
        json_t *config = changed(model, r->key, r->value);
        assert_error(build(model, config, 84, hex, &e), r->code, r->part);
        json_decref(config);
        ls_checkpoint_close(model);
    }
}

static void dynamic_scaling_has_an_end(void **state) {
    (void)state;
    char hex[65];
    ls_error e = {0};
    ls_checkpoint *model = open_fixture("internlm3");
    assert_ok(build(model, ls_checkpoint_config(model), 512, hex, &e));
    assert_error(build(model, ls_checkpoint_config(model), 513, hex, &e), LS_UNIMPLEMENTED, "\"dynamic\"");
    ls_checkpoint_close(model);
}

/* A folder with |config| and the weights of the llama fixture. */
static ls_code build_folder(const char *config, ls_error *e) {
    char folder[] = "/tmp/lockstep-models-XXXXXX", path[100];
    ls_checkpoint *c = NULL;
    ls_graph *g = NULL;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/config.json", folder);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(config, f);
    fclose(f);
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    assert_int_equal(symlink(LS_FIXTURES "/models/llama/model.safetensors", path), 0);
    ls_code rc = ls_checkpoint_open(&c, folder, e);
    ls_build_options o = {.contract = LS_CONTRACT_FLOAT};
    if (!rc) rc = ls_model_build(&g, c, &o, e);
    ls_graph_destroy(g);
    ls_checkpoint_close(c);
    unlink(path);
    snprintf(path, sizeof path, "%s/config.json", folder);
    unlink(path);
    rmdir(folder);
    return rc;
}

static void architectures_and_quantisations_are_refused_by_name(void **state) {
    (void)state;
    ls_error e = {0};
    assert_error(build_folder("{}", &e), LS_INVALID_ARGUMENT, "no \"model_type\"");
    assert_error(build_folder("{\"model_type\": 7}", &e), LS_INVALID_ARGUMENT, "model_type");
    assert_error(build_folder("{\"model_type\": \"mamba\"}", &e), LS_UNIMPLEMENTED,
                 "architecture \"mamba\" is not supported; supported are cohere, ");
    assert_error(build_folder("{\"model_type\": \"mamba\"}", &e), LS_UNIMPLEMENTED, "starcoder2");
    assert_error(
        build_folder("{\"model_type\": \"llama\", \"quantization_config\": {\"quant_method\": \"gptq\", \"bits\": 4}}",
                     &e),
        LS_UNIMPLEMENTED, "\"gptq\"");
    assert_error(
        build_folder(
            "{\"model_type\": \"llama\", \"quantization\": {\"mode\": \"mxfp4\", \"bits\": 4, \"group_size\": 32}}",
            &e),
        LS_UNIMPLEMENTED, "\"mxfp4\"");
    assert_error(build_folder("{\"model_type\": \"llama\"}", &e), LS_INVALID_ARGUMENT,
                 "llama: config has no \"hidden_size\"");
}

/* Every field of every config, and of its rope_scaling, replaced by values of every type: a graph or an error, no crash. */
static void nonsense_gives_errors(void **state) {
    (void)state;
    static const char *const values[] = {"null",
                                         "true",
                                         "-1",
                                         "0",
                                         "1",
                                         "3",
                                         "1e30",
                                         "0.5",
                                         "\"x\"",
                                         "[]",
                                         "[1, 2]",
                                         "{}",
                                         "{\"rope_type\": \"yarn\"}",
                                         "2147483647"};
    char names[FIXTURE_MAX][128], hex[65];
    int n = fixture_names(names), built = 0, refused = 0;
    for (int i = 0; i < n; i++) {
        ls_checkpoint *model = open_fixture(names[i]);
        const json_t *own = ls_checkpoint_config(model);
        const char *key;
        json_t *value;
        json_object_foreach((json_t *)own, key, value) for (size_t k = 0; k < sizeof values / sizeof *values; k++) {
            json_t *config = changed(model, key, values[k]);
            ls_error e = {0};
            ls_code rc = build(model, config, 84, hex, &e);
            if (rc) assert_true(rc != LS_INTERNAL && e.text[0]);
            rc ? refused++ : built++;
            json_decref(config);
        }
        ls_checkpoint_close(model);
    }
    print_message("%d configurations built, %d refused\n", built, refused);
    assert_true(built > 1000 && refused > 1000);
}

/* ---- Vision -------------------------------------------------------------------------------------------------------------- */

static ls_code build_vision(const char *folder, const char *config, ls_vision *v, ls_checkpoint **c, ls_error *e) {
    const ls_build_options o = {.contract = LS_CONTRACT_EXACT16};
    json_t *changes = config ? json_loads(config, 0, NULL) : NULL;
    LS_TRY(ls_checkpoint_open(c, folder, e));
    if (changes) json_object_update_recursive((json_t *)(uintptr_t)ls_checkpoint_config(*c), changes);
    json_decref(changes);
    return ls_vision_build(v, *c, &o, e);
}

static void towers_are_built_or_refused_by_name(void **state) {
    (void)state;
    static const struct {
        const char *config;
        ls_code code;
        const char *part;
    } cases[] = {
        {"{\"vision_config\": {\"model_type\": \"clip_vision_model\"}}", LS_UNIMPLEMENTED, "model_type \"clip_vision_model\"; supported is siglip_vision_model"},
        {"{\"vision_config\": {\"num_channels\": 4}}", LS_UNIMPLEMENTED, "\"num_channels\" is 4"},
        {"{\"vision_config\": {\"hidden_act\": \"mish\"}}", LS_UNIMPLEMENTED, "\"hidden_act\" is \"mish\""},
        {"{\"vision_config\": {\"image_size\": 73}}", LS_INVALID_ARGUMENT, "\"image_size\" 73"},
        {"{\"vision_config\": {\"image_size\": 76}}", LS_INVALID_ARGUMENT, "position_embedding.weight\" has shape [324, 144]; the configuration needs [361, 144]"},
        {"{\"vision_config\": {\"patch_size\": 6}}", LS_INVALID_ARGUMENT, "patch_embedding.weight\" has shape [144, 3, 4, 4]; the configuration needs [144, 108]"},
        {"{\"mm_tokens_per_image\": 8}", LS_INVALID_ARGUMENT, "\"mm_tokens_per_image\" is 8"},
        {"{\"mm_tokens_per_image\": 16}", LS_INVALID_ARGUMENT, "the 18 patches"},
        {"{\"text_config\": {\"hidden_size\": 48}}", LS_INVALID_ARGUMENT, "mm_input_projection_weight\" has shape [144, 32]; the configuration needs [144, 48]"},
        {"{\"vision_config\": {\"num_hidden_layers\": 3}}", LS_NOT_FOUND, "vision_tower.vision_model.encoder.layers.2.layer_norm1.weight"},
        {"{\"vision_config\": {\"num_hidden_layers\": 1}}", LS_INVALID_ARGUMENT, "tensor \"vision_tower.vision_model.encoder.layers.1.layer_norm1.bias\" belongs to layer 1"},
        {"{\"model_type\": \"llama\"}", LS_UNIMPLEMENTED, "architecture \"llama\" declares \"vision_config\""},
    };
    ls_error e = {0};
    ls_checkpoint *c = NULL;
    ls_vision v;
    assert_ok(build_vision(LS_FIXTURES "/vision/tower", NULL, &v, &c, &e));
    assert_string_equal(v.graph->nodes[0].name, "vision_tower.vision_model.embeddings.patches");
    assert_string_equal(v.graph->nodes[v.graph->n_nodes - 1].name, "multi_modal_projector.mm_input_projection");
    ls_graph *text;
    const ls_build_options o = {.contract = LS_CONTRACT_EXACT16};
    assert_ok(ls_model_build(&text, c, &o, &e));
    for (size_t i = 0; ls_checkpoint_unused(c, i); i++) fail_msg("tensor %s is not used", ls_checkpoint_unused(c, i));
    ls_graph_destroy(text);
    ls_vision_deinit(&v);
    ls_checkpoint_close(c);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_error(build_vision(LS_FIXTURES "/vision/tower", cases[i].config, &v, &c, &e), cases[i].code, cases[i].part);
        assert_null(v.graph);
        ls_checkpoint_close(c);
    }
    assert_ok(build_vision(LS_FIXTURES "/models/gemma3_nested", NULL, &v, &c, &e)); /* a wrapper without "vision_config" is a text model */
    assert_null(v.graph);
    ls_checkpoint_close(c);
}

/* Every field of the tower's configuration with every kind of nonsense: an error, or a graph where the field does not matter. */
static void nonsense_about_vision_gives_errors(void **state) {
    (void)state;
    static const char *const fields[] = {"hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "image_size", "patch_size", "num_channels",
                                         "layer_norm_eps", "hidden_act", "model_type", "vision_use_head"};
    static const char *const values[] = {"0", "-1", "1", "7", "1048576", "9223372036854775807", "1e300", "0.5", "null", "true", "\"\"", "\"gelu\"", "[]", "{}"};
    int built = 0, refused = 0;
    for (size_t f = 0; f < sizeof fields / sizeof *fields; f++)
        for (size_t k = 0; k < sizeof values / sizeof *values; k++) {
            char config[200];
            ls_error e = {0};
            ls_checkpoint *c;
            ls_vision v;
            snprintf(config, sizeof config, "{\"vision_config\": {\"%s\": %s}}", fields[f], values[k]);
            ls_code rc = build_vision(LS_FIXTURES "/vision/tower", config, &v, &c, &e);
            if (rc && !e.text[0]) fail_msg("%s: no message", config);
            if (!rc != (v.graph != NULL)) fail_msg("%s: code %d", config, (int)rc);
            built += !rc;
            refused += rc != LS_OK;
            ls_vision_deinit(&v);
            ls_checkpoint_close(c);
        }
    assert_true(built > 0 && refused > built);
}

/* Tensors of the tower's goldens, seen as matrices that lie otherwise. */
static void layouts_move_numbers(void **state) {
    (void)state;
    enum { SIDE = 72, COLS = 3 * SIDE * SIDE, WIDE = 144, ROWS = 648 };
    ls_error e = {0};
    ls_checkpoint *c;
    ls_graph *g;
    const ls_param *p;
    static float row[COLS];
    assert_ok(ls_checkpoint_open(&c, LS_FIXTURES "/vision/tower/golden.safetensors", &e));
    assert_ok(ls_graph_create(&g, LS_CONTRACT_EXACT16, &e));
    const char *pixels = "pixel_values", *tower = "vision_tower.vision_model.post_layernorm";
    const float *x = ls_checkpoint_find(c, pixels)->data, *y = ls_checkpoint_find(c, tower)->data;
    assert_ok(ls_graph_param_layout(g, &p, c, 2, COLS, LS_LAYOUT_FLAT, 0, &e, "%s", pixels));
    ls_tensor_row_f32(p->tensor, 1, row);
    assert_memory_equal(row, x + COLS, sizeof row);
    /* [2, y 3, x 72, channel 72]: columns become (channel, y, x) */
    assert_ok(ls_graph_param_layout(g, &p, c, 2, COLS, LS_LAYOUT_CHANNELS_LAST, SIDE, &e, "%s", pixels));
    ls_tensor_row_f32(p->tensor, 1, row);
    for (int channel = 0; channel < SIDE; channel++)
        for (int at = 0; at < 3 * SIDE; at++) assert_true(row[channel * 3 * SIDE + at] == x[COLS + at * SIDE + channel]);
    assert_ok(ls_graph_param_layout(g, &p, c, WIDE, ROWS, LS_LAYOUT_TRANSPOSED, 0, &e, "%s", tower));
    ls_tensor_row_f32(p->tensor, 5, row);
    for (int k = 0; k < ROWS; k++) assert_true(row[k] == y[k * WIDE + 5]);
    assert_error(ls_graph_param_layout(g, &p, c, WIDE, ROWS, LS_LAYOUT_FLAT, 0, &e, "%s", tower), LS_INVALID_ARGUMENT, "has shape [648, 144]");
    assert_error(ls_graph_param_layout(g, &p, c, 2, COLS, LS_LAYOUT_CHANNELS_LAST, 3, &e, "%s", pixels), LS_INVALID_ARGUMENT, "has shape [2, 3, 72, 72]");
    assert_error(ls_graph_param_layout(g, &p, c, 18, 32, LS_LAYOUT_FLAT, 0, &e, "nothing"), LS_NOT_FOUND, "\"nothing\"");
    ls_graph_destroy(g);
    ls_checkpoint_close(c);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(fingerprints_are_as_committed),
                                       cmocka_unit_test(every_tensor_is_consumed),
                                       cmocka_unit_test(fields_change_fingerprints),
                                       cmocka_unit_test(rope_parameters_mean_the_older_keys),
                                       cmocka_unit_test(unsupported_fields_are_refused_by_name),
                                       cmocka_unit_test(dynamic_scaling_has_an_end),
                                       cmocka_unit_test(architectures_and_quantisations_are_refused_by_name),
                                       cmocka_unit_test(nonsense_gives_errors),
                                       cmocka_unit_test(towers_are_built_or_refused_by_name),
                                       cmocka_unit_test(layouts_move_numbers),
                                       cmocka_unit_test(nonsense_about_vision_gives_errors)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
