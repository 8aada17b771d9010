/* Reading a family's configuration: typed values with defaults, and refusals by name. */
#include <stdio.h>
#include <string.h>

#include "models/builder.h"

bool ls_cfg_has(const ls_build *b, const char *key) {
    const json_t *v = json_object_get(b->config, key);
    return v && !json_is_null(v);
}

int64_t ls_cfg_int(ls_build *b, const char *key, int64_t lo, int64_t hi, int64_t fallback) {
    int64_t v = fallback;
    if (!b->rc) b->rc = ls_json_get_int(b->config, key, lo, hi, &v, b->e);
    return v;
}

double ls_cfg_real(ls_build *b, const char *key, double fallback) {
    double v = fallback;
    if (!b->rc) b->rc = ls_json_get_real(b->config, key, &v, b->e);
    return v;
}

bool ls_cfg_bool(ls_build *b, const char *key, bool fallback) {
    bool v = fallback;
    if (!b->rc) b->rc = ls_json_get_bool(b->config, key, &v, b->e);
    return v;
}

const char *ls_cfg_str(ls_build *b, const char *key, const char *fallback) {
    const char *v = fallback;
    if (!b->rc) b->rc = ls_json_get_str(b->config, key, &v, b->e);
    return v;
}

ls_act ls_cfg_act(ls_build *b, const char *key, const char *fallback) {
    static const struct {
        const char *name;
        ls_act act;
    } known[] = {{"silu", LS_ACT_SILU},
                 {"swish", LS_ACT_SILU},
                 {"gelu", LS_ACT_GELU},
                 {"gelu_pytorch_tanh", LS_ACT_GELU_TANH},
                 {"gelu_new", LS_ACT_GELU_TANH},
                 {"gelu_fast", LS_ACT_GELU_TANH},
                 {"quick_gelu", LS_ACT_GELU_QUICK},
                 {"relu", LS_ACT_RELU},
                 {"sigmoid", LS_ACT_SIGMOID}};
    const char *name = ls_cfg_str(b, key, fallback);
    for (size_t i = 0; !b->rc && i < sizeof known / sizeof *known; i++)
        if (!strcmp(name, known[i].name)) return known[i].act;
    LS_BUILD_FAIL(
        b, LS_UNIMPLEMENTED,
        "config \"%s\" is \"%.80s\"; supported are silu, gelu, gelu_pytorch_tanh, gelu_new, quick_gelu, relu, sigmoid",
        key, name);
    return LS_ACT_SILU;
}

void ls_cfg_refuse(ls_build *b, const char *key, const char *why) {
    if (ls_cfg_has(b, key) && !json_is_false(json_object_get(b->config, key)))
        LS_BUILD_FAIL(b, LS_UNIMPLEMENTED, "config \"%s\" is set: %s", key, why);
}

void ls_cfg_only(ls_build *b, const char *key, double value) {
    double v = ls_cfg_real(b, key, value);
    if (v != value)
        LS_BUILD_FAIL(b, LS_UNIMPLEMENTED, "config \"%s\" is %g; this architecture supports only %g", key, v, value);
}

bool ls_cfg_layer_is(ls_build *b, const char *key, int layer, const char *text, bool *known) {
    *known = ls_cfg_has(b, key);
    if (!*known) return false;
    const char *v = json_string_value(json_array_get(json_object_get(b->config, key), (size_t)layer));
    if (!v)
        LS_BUILD_FAIL(b, LS_INVALID_ARGUMENT, "config \"%s\" has no string for layer %d of %d", key, layer, b->layers);
    return v && !strcmp(v, text);
}

int ls_cfg_window(ls_build *b, int layer, int window, int64_t pattern) {
    bool known, full = ls_cfg_layer_is(b, "layer_types", layer, "full_attention", &known);
    if (known) {
        if (!full && !ls_cfg_layer_is(b, "layer_types", layer, "sliding_attention", &known))
            LS_BUILD_FAIL(
                b, LS_UNIMPLEMENTED,
                "config \"layer_types\" has \"%.80s\" for layer %d; supported are full_attention and sliding_attention",
                json_string_value(json_array_get(json_object_get(b->config, "layer_types"), (size_t)layer)), layer);
        return full ? 0 : window;
    }
    return pattern && (layer + 1) % pattern == 0 ? 0 : window;
}

ls_bias ls_cfg_bias(ls_build *b, const char *key) {
    if (!ls_cfg_has(b, key)) return LS_BIAS_IF_STORED;
    return ls_cfg_bool(b, key, false) ? LS_BIAS_REQUIRED : LS_BIAS_NONE;
}
