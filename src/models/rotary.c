/* Rotary tables: the inverse frequencies of every scaling, as the f32 values transformers computes.
 *
 * transformers evaluates powers in f32 and everything after them in f32; so does this file, with powers rounded from
 * detmath's f64. Formulas: `modeling_rope_utils.py` of transformers 4.57. */
#include <math.h>
#include <string.h>

#include "base/detmath.h"
#include "models/builder.h"

enum { MAX_PAIRS = 1024 };

typedef struct rotary {
    int dims, pairs;
    double theta;
    float freq[MAX_PAIRS];
    double amplitude;
    const json_t *scaling;
    const char *type;
} rotary;

/* ---- The scaling object ---------------------------------------------------------------------------------------- */

static const json_t *member(const rotary *r, const char *key) {
    const json_t *v = json_object_get(r->scaling, key);
    return json_is_null(v) ? NULL : v;
}

static double number(ls_build *b, const rotary *r, const char *key, double fallback) {
    double v = fallback;
    if (!b->rc) b->rc = ls_json_get_real(r->scaling, key, &v, b->e);
    return v;
}

/* A number that must be there and be positive. */
static double required(ls_build *b, const rotary *r, const char *key) {
    double v = number(b, r, key, 0);
    if (!(v > 0))
        LS_BUILD_FAIL(b, LS_INVALID_ARGUMENT, "config \"rope_scaling\" of type \"%s\" needs a positive \"%s\"", r->type,
                      key);
    return v;
}

/* Refuses keys that this type of scaling does not define: they would change the result. */
static void check_keys(ls_build *b, const rotary *r, const char *const *known) {
    static const char *const always[] = {
        "rope_type", "type", "rope_theta", "partial_rotary_factor", "factor", "original_max_position_embeddings", NULL};
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)r->scaling, key, value) {
        bool fine = json_is_null(value);
        for (size_t i = 0; !fine && always[i]; i++) fine = !strcmp(key, always[i]);
        for (size_t i = 0; !fine && known[i]; i++) fine = !strcmp(key, known[i]);
        if (!fine)
            LS_BUILD_FAIL(b, LS_UNIMPLEMENTED, "config \"rope_scaling\" of type \"%s\" has the unknown field \"%.80s\"",
                          r->type, key);
    }
}

/* Reads |key|, an array of one number per pair. */
static void factors(ls_build *b, const rotary *r, const char *key, float *out) {
    const json_t *list = member(r, key);
    if (json_array_size(list) != (size_t)r->pairs) {
        LS_BUILD_FAIL(b, LS_INVALID_ARGUMENT,
                      "config \"rope_scaling\": \"%s\" has %zu numbers, %d rotating columns need %d", key,
                      json_array_size(list), r->dims, r->pairs);
        return;
    }
    for (int i = 0; i < r->pairs; i++) {
        double v = json_number_value(json_array_get(list, (size_t)i));
        if (!(v > 0))
            LS_BUILD_FAIL(b, LS_INVALID_ARGUMENT, "config \"rope_scaling\": \"%s\"[%d] is not a positive number", key,
                          i);
        out[i] = (float)v;
    }
}

/* ---- Frequencies ----------------------------------------------------------------------------------------------- */

/* theta^(2i / dims) in f32. */
static float power(const rotary *r, int i) {
    float exponent = (float)(2 * i) / (float)r->dims;
    return (float)ls_det_exp2((double)exponent * ls_det_log2((double)(float)r->theta));
}

static double natural_log(double x) { return ls_det_log2(x) * 0x1.62e42fefa39efp-1; }

static void scale_none(ls_build *b, rotary *r) {
    static const char *const keys[] = {NULL};
    check_keys(b, r, keys);
    for (int i = 0; i < r->pairs; i++) r->freq[i] = 1.0f / power(r, i);
}

static void scale_linear(ls_build *b, rotary *r) {
    scale_none(b, r);
    float factor = (float)required(b, r, "factor");
    for (int i = 0; i < r->pairs; i++) r->freq[i] /= factor;
}

/* Dynamic NTK changes nothing up to max_position_embeddings, and the whole table beyond, token by token. */
static void scale_dynamic(ls_build *b, rotary *r) {
    scale_none(b, r);
    if (b->context > b->max_positions)
        LS_BUILD_FAIL(b, LS_UNIMPLEMENTED,
                      "config \"rope_scaling\" of type \"dynamic\" serves at most max_position_embeddings = %lld "
                      "positions, asked %lld",
                      (long long)b->max_positions, (long long)b->context);
}

/* Llama 3.1: long wavelengths divided by the factor, short ones kept, a ramp between. */
static void scale_llama3(ls_build *b, rotary *r) {
    static const char *const keys[] = {"low_freq_factor", "high_freq_factor", "factors", NULL};
    check_keys(b, r, keys);
    for (int i = 0; i < r->pairs; i++) r->freq[i] = 1.0f / power(r, i);
    if (member(r, "factors")) { /* GGUF stores the divisors instead of the rule */
        float divisor[MAX_PAIRS];
        factors(b, r, "factors", divisor);
        for (int i = 0; !b->rc && i < r->pairs; i++) r->freq[i] /= divisor[i];
        return;
    }
    double low = required(b, r, "low_freq_factor"), high = required(b, r, "high_freq_factor");
    double length = required(b, r, "original_max_position_embeddings");
    float factor = (float)required(b, r, "factor");
    if (b->rc) return;
    for (int i = 0; i < r->pairs; i++) {
        float kept = r->freq[i], wavelength = 0x1.921fb54442d18p+2f / kept;
        bool is_long = wavelength > (float)(length / low), is_short = wavelength < (float)(length / high);
        float smooth = ((float)length / wavelength - (float)low) / (float)(high - low);
        if (is_long) r->freq[i] = kept / factor;
        else if (!is_short) r->freq[i] = (1.0f - smooth) * kept / factor + smooth * kept;
    }
}

static double yarn_amplitude(ls_build *b, const rotary *r, double factor) {
    double mscale = number(b, r, "mscale", 0), all = number(b, r, "mscale_all_dim", 0);
    double log_factor = factor > 1 ? natural_log(factor) : 0;
    double plain = 0.1 * log_factor + 1.0;
    if (mscale != 0 && all != 0) plain = (0.1 * mscale * log_factor + 1.0) / (0.1 * all * log_factor + 1.0);
    return number(b, r, "attention_factor", plain);
}

/* The pair that turns |turns| times over |length| positions. */
static double yarn_pair(const rotary *r, double turns, double length) {
    return r->dims * natural_log(length / (turns * 0x1.921fb54442d18p+2)) / (2 * natural_log(r->theta));
}

static void scale_yarn(ls_build *b, rotary *r) {
    static const char *const keys[] = {"attention_factor", "beta_fast", "beta_slow", "mscale",
                                       "mscale_all_dim",   "truncate",  "finetuned", NULL};
    check_keys(b, r, keys);
    double factor = required(b, r, "factor"), fast = number(b, r, "beta_fast", 32), slow = number(b, r, "beta_slow", 1);
    double length = number(b, r, "original_max_position_embeddings", (double)b->max_positions);
    bool truncate = !json_is_false(member(r, "truncate"));
    if (!(length > 0 && fast > 0 && slow > 0))
        LS_BUILD_FAIL(b, LS_INVALID_ARGUMENT,
                      "config \"rope_scaling\" of type \"yarn\" needs positive beta_fast, beta_slow and length");
    if (b->rc) return;
    double low = yarn_pair(r, fast, length), high = yarn_pair(r, slow, length);
    if (truncate) {
        low = floor(low);
        high = ceil(high);
    }
    low = low > 0 ? low : 0;
    high = high < r->dims - 1 ? high : r->dims - 1;
    if (low == high) high += 0.001;
    for (int i = 0; i < r->pairs; i++) {
        float p = power(r, i), ramp = ((float)i - (float)low) / (float)(high - low);
        float kept = 1.0f - (ramp < 0 ? 0 : ramp > 1 ? 1 : ramp);
        r->freq[i] = (1.0f / ((float)factor * p)) * (1.0f - kept) + (1.0f / p) * kept;
    }
    r->amplitude = yarn_amplitude(b, r, factor);
}

/* LongRoPE: a divisor per pair, from one of two lists: the long one when more positions than trained will be used. The
 * choice is made once, from the session's context, so that a token's rotation never changes while a text grows. */
static void scale_longrope(ls_build *b, rotary *r) {
    static const char *const keys[] = {"short_factor", "long_factor", "attention_factor", NULL};
    check_keys(b, r, keys);
    int64_t trained = ls_cfg_int(b, "original_max_position_embeddings", 1, INT32_MAX, 0), inner = 0;
    if (!b->rc) b->rc = ls_json_get_int(r->scaling, "original_max_position_embeddings", 1, INT32_MAX, &inner, b->e);
    double factor = number(b, r, "factor", 1);
    if (!trained) trained = inner;
    if (trained) factor = (double)b->max_positions / (double)trained;
    else trained = b->max_positions;
    if (trained < 2)
        LS_BUILD_FAIL(b, LS_INVALID_ARGUMENT,
                      "config \"rope_scaling\" of type \"longrope\" needs original_max_position_embeddings above 1");
    float divisor[MAX_PAIRS];
    int64_t used = b->context ? b->context : b->max_positions;
    factors(b, r, used > trained ? "long_factor" : "short_factor", divisor);
    if (b->rc) return;
    for (int i = 0; i < r->pairs; i++) r->freq[i] = 1.0f / (divisor[i] * power(r, i));
    r->amplitude = number(b, r, "attention_factor",
                          factor > 1 ? sqrt(1 + natural_log(factor) / natural_log((double)trained)) : 1);
}

/* ---- The table ------------------------------------------------------------------------------------------------- */

static const struct {
    const char *type;
    void (*scale)(ls_build *b, rotary *r);
} scalings[] = {{"default", scale_none},  {"linear", scale_linear}, {"dynamic", scale_dynamic},
                {"llama3", scale_llama3}, {"yarn", scale_yarn},     {"longrope", scale_longrope},
                {"su", scale_longrope}};

static void apply_scaling(ls_build *b, rotary *r) {
    if (!b->rc) b->rc = ls_json_get_str(r->scaling, "type", &r->type, b->e);
    if (!b->rc) b->rc = ls_json_get_str(r->scaling, "rope_type", &r->type, b->e);
    if (b->rc) return;
    for (size_t i = 0; i < sizeof scalings / sizeof *scalings; i++)
        if (!strcmp(r->type, scalings[i].type)) {
            scalings[i].scale(b, r);
            return;
        }
    LS_BUILD_FAIL(
        b, LS_UNIMPLEMENTED,
        "config \"rope_scaling\" has type \"%.80s\"; supported are default, linear, dynamic, llama3, yarn and longrope",
        r->type);
}

int ls_build_rope(ls_build *b, int dims, double theta, const json_t *scaling, bool interleaved) {
    rotary r = {.dims = dims,
                .pairs = dims / 2,
                .theta = theta,
                .amplitude = 1,
                .scaling = json_is_null(scaling) ? NULL : scaling,
                .type = "default"};
    if (b->rc) return 0;
    if (r.scaling && !json_is_object(r.scaling))
        LS_BUILD_FAIL(b, LS_INVALID_ARGUMENT, "config \"rope_scaling\" is not an object");
    if (dims < 2 || dims % 2 || r.pairs > MAX_PAIRS)
        LS_BUILD_FAIL(b, LS_INVALID_ARGUMENT,
                      "rotary embedding of %d columns a head; allowed are even counts from 2 to %d", dims,
                      2 * MAX_PAIRS);
    if (!(theta > 1 && theta < 1e30))
        LS_BUILD_FAIL(b, LS_INVALID_ARGUMENT, "config \"rope_theta\" is %g; allowed are 1 to 1e30", theta);
    if (!b->rc) apply_scaling(b, &r);
    double wide[MAX_PAIRS];
    for (int i = 0; !b->rc && i < r.pairs; i++) {
        wide[i] = r.freq[i];
        if (!(r.freq[i] >= 0 && r.freq[i] <= 1e6f))
            LS_BUILD_FAIL(b, LS_INVALID_ARGUMENT, "config \"rope_scaling\" gives frequency %g of pair %d", wide[i], i);
    }
    if (!(r.amplitude > 0 && r.amplitude < 1e6))
        LS_BUILD_FAIL(b, LS_INVALID_ARGUMENT, "config \"rope_scaling\" gives amplitude %g", r.amplitude);
    int index = 0;
    ls_rope rope = {.rot_dim = dims, .interleaved = interleaved, .amplitude = (float)r.amplitude, .inv_freq = wide};
    if (!b->rc) b->rc = ls_graph_add_rope(b->g, &index, &rope, b->e);
    return index;
}

/* Newer files put theta, scaling and the rotating share of a head into one object, or one for each kind of layer. Finds the
 * one for |kind|, or NULL: the older keys count. A table of a kind of its own (sliding layers) is not in a flat object. */
static const json_t *rope_parameters(ls_build *b, const char *kind, bool flat_too) {
    const json_t *p = json_object_get(b->config, "rope_parameters"), *own = kind ? json_object_get(p, kind) : NULL;
    if (!p || json_is_null(p)) return NULL;
    if (!json_is_object(p)) LS_BUILD_FAIL(b, LS_INVALID_ARGUMENT, "config \"rope_parameters\" is not an object");
    if (ls_cfg_has(b, "rope_scaling") && !json_equal(p, json_object_get(b->config, "rope_scaling")))
        LS_BUILD_FAIL(b, LS_UNIMPLEMENTED, "config has \"rope_parameters\" and another \"rope_scaling\"; keep the one that counts");
    if (json_is_object(own)) return own;
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)p, key, value)
        if (json_is_object(value))
            LS_BUILD_FAIL(b, LS_UNIMPLEMENTED, "config \"rope_parameters\" has an object \"%.80s\"; this architecture reads %s%s", key,
                          kind ? "numbers, or an object " : "numbers only", kind ? kind : "");
    return flat_too ? p : NULL;
}

static const json_t *place_of(ls_build *b, const json_t *parameters) { return parameters ? parameters : json_object_get(b->config, "rope_scaling"); }

/* The share of each head that rotates: of |p|, or of the config. */
static double rotating_share(ls_build *b, const json_t *p, double fallback) {
    double share = ls_cfg_real(b, "partial_rotary_factor", fallback);
    if (p && !b->rc) b->rc = ls_json_get_real(p, "partial_rotary_factor", &share, b->e);
    return share;
}

static int table_of(ls_build *b, const json_t *p, const json_t *scaling, int dims, double theta, bool interleaved) {
    if (p && !b->rc) b->rc = ls_json_get_real(p, "rope_theta", &theta, b->e);
    return ls_build_rope(b, dims, theta, scaling, interleaved);
}

static int whole_head(ls_build *b, const json_t *p, const json_t *scaling, double theta, bool interleaved) {
    double share = rotating_share(b, p, 1);
    if (share != 1)
        LS_BUILD_FAIL(b, LS_UNIMPLEMENTED, "config \"partial_rotary_factor\" is %g; this architecture supports only 1", share);
    return table_of(b, p, scaling, b->head_dim, theta, interleaved);
}

int ls_build_rope_whole(ls_build *b, const char *kind, double theta, bool interleaved) {
    const json_t *p = rope_parameters(b, kind, true);
    return whole_head(b, p, place_of(b, p), theta, interleaved);
}

int ls_build_rope_sliding(ls_build *b, double theta, bool interleaved) {
    const json_t *p = rope_parameters(b, "sliding_attention", false);
    return whole_head(b, p, p, theta, interleaved);
}

int ls_build_rope_default(ls_build *b) {
    return ls_build_rope_whole(b, NULL, ls_cfg_real(b, "rope_theta", 10000), ls_cfg_bool(b, "rope_interleaved", false));
}

int ls_build_rope_partial(ls_build *b, double fallback) {
    const json_t *p = rope_parameters(b, NULL, true);
    double factor = rotating_share(b, p, fallback);
    if (!(factor > 0 && factor <= 1))
        LS_BUILD_FAIL(b, LS_INVALID_ARGUMENT, "config \"partial_rotary_factor\" is %g; allowed are 0 to 1", factor);
    int dims = b->rc ? 2 : (int)(b->head_dim * factor + 1e-6);
    return table_of(b, p, place_of(b, p), dims, ls_cfg_real(b, "rope_theta", 10000), ls_cfg_bool(b, "rope_interleaved", false));
}
