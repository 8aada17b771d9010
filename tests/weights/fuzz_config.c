/* Fuzz target: any bytes as the config.json of a folder whose one module is packed the MLX way. */
#include <string.h>

#include "fuzz.h"

static const char header[] =
    "{\"m.weight\":{\"dtype\":\"U32\",\"shape\":[1,24],\"data_offsets\":[0,96]},"
    "\"m.scales\":{\"dtype\":\"F16\",\"shape\":[1,3],\"data_offsets\":[96,102]},"
    "\"m.biases\":{\"dtype\":\"F16\",\"shape\":[1,3],\"data_offsets\":[102,108]}}";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    ls_error e = {0};
    ls_checkpoint *c;
    uint8_t image[8 + sizeof header - 1 + 108] = {(uint8_t)(sizeof header - 1), (uint8_t)((sizeof header - 1) >> 8)};
    memcpy(image + 8, header, sizeof header - 1);
    if (ls_checkpoint_create(&c, &e)) return 0;
    json_t *config = NULL;
    if (!ls_json_parse(&config, (const char *)data, size, "input", &e)) {
        json_decref(c->config);
        c->config = config;
        if (!ls_safetensors_parse(c, image, sizeof image, "image", &e) && !ls_checkpoint_finish(c, &e))
            read_everything(c);
    }
    ls_checkpoint_close(c);
    return 0;
}
