/* MLX affine quantisation: joins "<module>.weight" (packed u32), ".scales" and ".biases" into one tensor, guided by the
 * config's "quantization" (or "quantization_config") with its per-module overrides. */
#include <stdio.h>
#include <string.h>

#include "weights/checkpoint.h"

typedef struct affine {
    int64_t bits, group;
} affine;

static ls_code read_affine(const json_t *from, const char *module, affine *a, ls_error *e) {
    LS_TRY(ls_json_get_int(from, "bits", 1, 32, &a->bits, e));
    LS_TRY(ls_json_get_int(from, "group_size", 1, 4096, &a->group, e));
    const char *mode = "affine";
    LS_TRY(ls_json_get_str(from, "mode", &mode, e));
    if (strcmp(mode, "affine"))
        LS_FAIL(e, LS_UNIMPLEMENTED, "module \"%s\": quantization mode \"%.40s\" is not supported; \"affine\" is",
                module, mode);
    bool bits_ok = a->bits == 2 || a->bits == 3 || a->bits == 4 || a->bits == 6 || a->bits == 8;
    bool group_ok = a->group == 32 || a->group == 64 || a->group == 128;
    if (!bits_ok || !group_ok)
        LS_FAIL(e, LS_UNIMPLEMENTED,
                "module \"%s\": %lld bits in groups of %lld; supported are 2, 3, 4, 6, 8 bits in groups of 32, 64, 128",
                module, (long long)a->bits, (long long)a->group);
    return LS_OK;
}

static bool is_half_or_f32(ls_format f) { return f == LS_F16 || f == LS_BF16 || f == LS_F32; }

/* Shape rules: packed [..., out, in * bits / 32], scales and biases [..., out, in / group]. */
static ls_code check_parts(const ls_tensor *w, const ls_tensor *s, const ls_tensor *b, const affine *a, int64_t *in,
                           ls_error *e) {
    if (!is_half_or_f32(s->format) || b->format != s->format)
        LS_FAIL(e, LS_UNIMPLEMENTED, "tensor \"%s\": scales are %s and biases %s; both must be F16, BF16 or F32 alike",
                w->name, s->dtype, b->dtype);
    bool same = w->rank >= 2 && s->rank == w->rank && b->rank == w->rank;
    for (int i = 0; same && i < w->rank; i++)
        same = s->shape[i] == b->shape[i] && (i == w->rank - 1 || s->shape[i] == w->shape[i]);
    if (!same)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "tensor \"%s\": the shapes of its scales and biases do not fit it", w->name);
    int64_t words = w->shape[w->rank - 1], groups = s->shape[w->rank - 1];
    if (groups > INT64_MAX / a->group)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "tensor \"%s\": %lld groups are too many", w->name, (long long)groups);
    *in = groups * a->group;
    if (words > INT64_MAX / 32 || *in > INT64_MAX / a->bits || words * 32 != *in * a->bits)
        LS_FAIL(
            e, LS_INVALID_ARGUMENT,
            "tensor \"%s\": %lld words a row do not hold %lld groups of %lld weights of %lld bits; check the config's "
            "\"quantization\"",
            w->name, (long long)words, (long long)groups, (long long)a->group, (long long)a->bits);
    return LS_OK;
}

static ls_code fold_one(ls_entry *w, ls_entry *s, ls_entry *b, const affine *a, ls_error *e) {
    int64_t in = 0;
    LS_TRY(check_parts(&w->t, &s->t, &b->t, a, &in, e));
    ls_tensor *t = &w->t;
    t->format = LS_MLX_AFFINE;
    t->shape[t->rank - 1] = in;
    t->mlx_bits = (int)a->bits;
    t->mlx_group = (int)a->group;
    t->scale_format = s->t.format;
    t->scales = s->t.data;
    t->biases = b->t.data;
    t->scale_bytes = s->t.bytes;
    s->dropped = b->dropped = true;
    return LS_OK;
}

/* The override of |module|, or the defaults; *quantised is false when the config says so. */
static ls_code module_affine(const json_t *q, const char *module, affine *a, bool *quantised, ls_error *e) {
    const json_t *own = json_object_get(q, module);
    *quantised = !json_is_false(own);
    if (!*quantised) return LS_OK;
    if (own && !json_is_object(own) && !json_is_true(own))
        LS_FAIL(e, LS_INVALID_ARGUMENT,
                "config \"quantization\": the entry of \"%s\" is neither an object nor a boolean", module);
    *a = (affine){4, 64};
    LS_TRY(read_affine(q, module, a, e));
    return json_is_object(own) ? read_affine(own, module, a, e) : LS_OK;
}

static ls_code fold_module(ls_checkpoint *c, const json_t *q, ls_entry *w, ls_error *e) {
    char name[LS_MAX_NAME_BYTES + 16], module[LS_MAX_NAME_BYTES];
    size_t len = strlen(w->t.name) - strlen(".weight");
    memcpy(module, w->t.name, len);
    module[len] = 0;
    snprintf(name, sizeof name, "%s.scales", module);
    ls_entry *s = ls_checkpoint_entry(c, name);
    if (!s) return LS_OK;
    snprintf(name, sizeof name, "%s.biases", module);
    ls_entry *b = ls_checkpoint_entry(c, name);
    if (!q)
        LS_FAIL(e, LS_INVALID_ARGUMENT,
                "tensor \"%s\" is packed, but the config has no \"quantization\" with bits and group_size", w->t.name);
    affine a = {0, 0};
    bool quantised = true;
    LS_TRY(module_affine(q, module, &a, &quantised, e));
    if (!quantised)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "tensor \"%s\" has scales, but the config says that it is not quantised",
                w->t.name);
    if (!b) LS_FAIL(e, LS_NOT_FOUND, "tensor \"%s\" is missing: \"%s\" has scales", name, w->t.name);
    return fold_one(w, s, b, &a, e);
}

/* Stacked experts are named as those of a GGUF file: "...switch_mlp.up_proj.weight" -> "...experts.up_proj.weight". */
static ls_code rename_experts(ls_checkpoint *c, ls_tensor *t, ls_error *e) {
    static const char old[] = ".switch_mlp.";
    const char *at = strstr(t->name, old);
    return at ? ls_arena_printf(c->arena, &t->name, e, "%.*s.experts.%s", (int)(at - t->name), t->name,
                                at + strlen(old))
              : LS_OK;
}

ls_code ls_mlx_fold(ls_checkpoint *c, ls_error *e) {
    const json_t *q = json_object_get(c->config, "quantization");
    if (!json_is_object(q)) q = json_object_get(c->config, "quantization_config");
    if (!json_is_object(q)) q = NULL;
    for (size_t i = 0; i < c->n; i++) {
        const char *end = strrchr(c->entries[i].t.name, '.');
        if (!strcmp(c->entries[i].t.dtype, "U32") && end && !strcmp(end, ".weight"))
            LS_TRY(fold_module(c, q, &c->entries[i], e));
    }
    for (size_t i = 0; i < c->n; i++) LS_TRY(rename_experts(c, &c->entries[i].t, e));
    return LS_OK;
}
