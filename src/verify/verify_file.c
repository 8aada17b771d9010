/* Sides that are recorded tensors: a safetensors file with a tensor per node, named like the node, [T, cols]. */
#include <string.h>

#include "verify/verify_side.h"

static bool is_float(ls_format f) { return f == LS_F32 || f == LS_F16 || f == LS_BF16; }

static ls_code read_ids(const ls_tensor *t, int32_t *out, int64_t vocab, ls_error *e) {
    for (int64_t i = 0; i < t->shape[0]; i++) {
        int64_t id = 0;
        if (t->format == LS_I64) memcpy(&id, (const char *)t->data + i * 8, 8);
        else {
            memcpy(&out[i], (const char *)t->data + i * 4, 4);
            id = out[i];
        }
        if (id < 0 || id >= vocab)
            LS_FAIL(e, LS_INVALID_ARGUMENT, "tensor \"%s\": token %lld at index %lld; the vocabulary has %lld", t->name, (long long)id, (long long)i,
                    (long long)vocab);
        out[i] = (int32_t)id;
    }
    return LS_OK;
}

/* |name| [n] of I32 or I64, or nothing. */
static ls_code find_ids(ls_checkpoint *c, const char *name, const ls_tensor **t, size_t *n, ls_error *e) {
    *t = ls_checkpoint_find(c, name);
    *n = 0;
    if (!*t) return LS_OK;
    if (((*t)->format != LS_I32 && (*t)->format != LS_I64) || (*t)->rank != 1 || (*t)->shape[0] > LS_VERIFY_MAX_TOKENS)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "tensor \"%s\" is %s of rank %d; it must be I32 or I64 of one dimension, at most %d ids", name, (*t)->dtype, (*t)->rank,
                LS_VERIFY_MAX_TOKENS);
    *n = (size_t)(*t)->shape[0];
    return LS_OK;
}

static ls_code load_ids(ls_side *s, int64_t vocab, ls_error *e) {
    const ls_tensor *prompt, *greedy;
    LS_TRY(find_ids(s->file, "prompt_ids", &prompt, &s->n_prompt, e));
    LS_TRY(find_ids(s->file, "greedy_ids", &greedy, &s->n_greedy, e));
    LS_TRY(ls_calloc(&s->ids, s->n_prompt + s->n_greedy, sizeof *s->ids, "token ids", e));
    if (s->n_prompt) LS_TRY(read_ids(prompt, s->ids, vocab, e));
    return s->n_greedy ? read_ids(greedy, s->ids + s->n_prompt, vocab, e) : LS_OK;
}

static ls_code find_node(ls_side *s, const ls_graph *g, size_t i, ls_error *e) {
    const ls_node *n = &g->nodes[i];
    const ls_tensor *t = ls_checkpoint_find(s->file, n->name), *logits = i + 1 == g->n_nodes && !g->image_rows ? ls_checkpoint_find(s->file, "logits") : NULL;
    if (!t) t = logits;
    if (!t) return LS_OK;
    if (!is_float(t->format)) LS_FAIL(e, LS_INVALID_ARGUMENT, "tensor \"%s\" is %s; a node's values must be F32, F16 or BF16", t->name, t->dtype);
    if (t->rank != 2 || t->shape[1] != n->cols)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "tensor \"%s\" has %d dimensions, the last of %lld; the node is [tokens, %lld]", t->name, t->rank,
                (long long)(t->rank ? t->shape[t->rank - 1] : 0), (long long)n->cols);
    s->tensor[i] = t;
    return LS_OK;
}

ls_code ls_side_open_file(ls_side *s, const ls_side_spec *spec, const ls_graph *g, ls_error *e) {
    *s = (ls_side){.spec = spec};
    LS_TRY(ls_checkpoint_open(&s->file, spec->name, e));
    LS_TRY(ls_calloc(&s->tensor, g->n_nodes, sizeof *s->tensor, "recorded nodes", e));
    if (!g->image_rows) LS_TRY(load_ids(s, g->vocab, e));
    size_t found = 0;
    for (size_t i = 0; i < g->n_nodes; i++) {
        LS_TRY(find_node(s, g, i, e));
        found += s->tensor[i] != NULL;
    }
    if (!found)
        LS_FAIL(e, LS_NOT_FOUND, "\"%s\" has no tensor named like a node of the model (such as \"%s\"); make it with tools/dump_reference.py",
                spec->name, g->nodes[0].name);
    while (ls_checkpoint_unused(s->file, s->n_unknown)) s->n_unknown++;
    return LS_OK;
}

ls_code ls_side_check_rows(const ls_side *s, const ls_graph *g, int64_t n, ls_error *e) {
    for (size_t i = 0; g->image_rows && i < g->n_nodes; i++) {
        int64_t rows = n * (g->nodes[i].selected ? g->image_out : g->image_rows);
        if (s->tensor[i] && s->tensor[i]->shape[0] < rows)
            LS_FAIL(e, LS_INVALID_ARGUMENT, "tensor \"%s\" has %lld rows; %lld images need %lld", s->tensor[i]->name, (long long)s->tensor[i]->shape[0],
                    (long long)n, (long long)rows);
    }
    for (size_t i = 0; !g->image_rows && i < g->n_nodes; i++)
        if (s->tensor[i] && s->tensor[i]->shape[0] < n)
            LS_FAIL(e, LS_INVALID_ARGUMENT, "tensor \"%s\" has %lld rows; prompt and decoded tokens need %lld (fewer with -n)", s->tensor[i]->name,
                    (long long)s->tensor[i]->shape[0], (long long)n);
    return LS_OK;
}

void ls_side_file_rows(const ls_side *s, size_t node, int64_t position, int64_t rows, float *out) {
    const ls_tensor *t = s->tensor[node];
    for (int64_t i = 0; i < rows; i++) ls_tensor_row_f32(t, position + i, out + i * t->shape[1]);
}

/* ---- Pixels --------------------------------------------------------------------------------------------------------------- */

static ls_code pixels_error(const ls_tensor *t, const ls_vision *v, const char *path, ls_error *e) {
    char shape[LS_SHAPE_TEXT];
    ls_shape_text(t, shape);
    LS_FAIL(e, LS_INVALID_ARGUMENT, "tensor \"pixel_values\" of \"%s\" is %s [%s]; the tower takes F32 [1 to %d, %d, %d, %d]", path, t->dtype, shape,
            LS_MAX_SLOTS, v->image.channels, v->image.image_size, v->image.image_size);
}

static ls_code check_pixels(const ls_tensor *t, const ls_vision *v, const char *path, ls_error *e) {
    if (!t) LS_FAIL(e, LS_NOT_FOUND, "\"%s\" has no tensor \"pixel_values\"; make it with tools/dump_hf_vision.py", path);
    if (t->format != LS_F32 || t->rank != 4 || t->shape[0] < 1 || t->shape[0] > LS_MAX_SLOTS || t->shape[1] != v->image.channels ||
        t->shape[2] != v->image.image_size || t->shape[3] != v->image.image_size)
        return pixels_error(t, v, path, e);
    return LS_OK;
}

ls_code ls_verify_read_pixels(const char *path, const ls_vision *v, float **data, const float ***image, size_t *n, ls_error *e) {
    ls_checkpoint *c;
    *data = NULL;
    *image = NULL;
    LS_TRY(ls_checkpoint_open(&c, path, e));
    const ls_tensor *t = ls_checkpoint_find(c, "pixel_values");
    size_t each = 0;
    ls_code rc;
    LS_GOTO(check_pixels(t, v, path, e));
    *n = (size_t)t->shape[0];
    each = (size_t)v->image.channels * (size_t)v->image.image_size * (size_t)v->image.image_size;
    LS_GOTO(ls_calloc(data, *n * each, sizeof **data, "pixels", e));
    LS_GOTO(ls_calloc(image, *n, sizeof(const float *), "pixels", e));
    memcpy(*data, t->data, *n * each * sizeof **data);
    for (size_t i = 0; i < *n; i++) (*image)[i] = *data + i * each;
out:
    ls_checkpoint_close(c);
    return rc;
}
