/* Fuzz target: any bytes as a config.json, of two checkpoints: one whose only module is packed the MLX way, and the test model of the
 * family that the config names, whose graph is then built under every contract. */
#include <stdio.h>
#include <string.h>

#include "fuzz.h"
#include "models/model.h"

static const char header[] =
    "{\"m.weight\":{\"dtype\":\"U32\",\"shape\":[1,24],\"data_offsets\":[0,96]},"
    "\"m.scales\":{\"dtype\":\"F16\",\"shape\":[1,3],\"data_offsets\":[96,102]},"
    "\"m.biases\":{\"dtype\":\"F16\",\"shape\":[1,3],\"data_offsets\":[102,108]}}";

/* A checkpoint of the bytes |image| with |config|; NULL when it is refused. */
static ls_checkpoint *open_image(const uint8_t *image, size_t size, json_t *config) {
    ls_error e = {0};
    ls_checkpoint *c;
    if (ls_checkpoint_create(&c, &e)) return NULL;
    json_decref(c->config);
    c->config = json_deep_copy(config);
    if (c->config && !ls_safetensors_parse(c, image, size, "image", &e) && !ls_checkpoint_finish(c, &e)) return c;
    ls_checkpoint_close(c);
    return NULL;
}

static void fold_packed(json_t *config) {
    uint8_t image[8 + sizeof header - 1 + 108] = {(uint8_t)(sizeof header - 1), (uint8_t)((sizeof header - 1) >> 8)};
    memcpy(image + 8, header, sizeof header - 1);
    ls_checkpoint *c = open_image(image, sizeof image, config);
    if (c) read_everything(c);
    ls_checkpoint_close(c);
}

/* The weights of the test model of |family| (its place in the registry), or Llama's where there is none; mapped once and kept. */
static const ls_map *weights_of(size_t family) {
    static ls_map kept[64];
    static const char *const folders[][2] = {{"gemma3", "gemma3_nested"}, {"gemma3_text", "gemma3"}}; /* others: their model_type */
    ls_error e = {0};
    char path[500];
    if (family >= sizeof kept / sizeof *kept) abort();
    if (kept[family].data) return &kept[family];
    const char *folder = ls_family_at(family)->model_type;
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        if (!strcmp(ls_family_at(family)->model_type, folders[i][0])) folder = folders[i][1];
    snprintf(path, sizeof path, "%s/models/%s/model.safetensors", LS_FIXTURES, folder);
    if (!ls_map_open(&kept[family], path, &e)) return &kept[family];
    if (ls_map_open(&kept[family], LS_FIXTURES "/models/llama/model.safetensors", &e)) abort();
    return &kept[family];
}

static void build_family(json_t *config) {
    const char *model_type = json_string_value(json_object_get(config, "model_type"));
    size_t family = 0;
    while (model_type && ls_family_at(family) && strcmp(ls_family_at(family)->model_type, model_type)) family++;
    if (!model_type || !ls_family_at(family)) return;
    const ls_map *map = weights_of(family);
    ls_checkpoint *c = open_image(map->data, map->size, config);
    for (int contract = 0; c && contract < LS_CONTRACT_COUNT; contract++) {
        ls_error e = {0};
        ls_graph *g = NULL;
        char fingerprint[65];
        ls_build_options o = {.contract = (ls_contract)contract, .context = contract * 600};
        if (!ls_model_build(&g, c, &o, &e) && ls_graph_fingerprint(g, fingerprint, &e)) abort();
        ls_graph_destroy(g);
    }
    ls_checkpoint_close(c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    ls_error e = {0};
    json_t *config = NULL;
    if (ls_json_parse(&config, (const char *)data, size, "input", &e)) return 0;
    fold_packed(config);
    build_family(config);
    json_decref(config);
    return 0;
}
