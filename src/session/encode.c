/* A pass over whole images: see encode.h. */
#include "session/encode.h"

ls_executor_options ls_encode_options(const ls_vision *v, int images) {
    int rows = (int)v->graph->image_rows;
    return (ls_executor_options){.max_seqs = images, .context = rows, .max_rows = images * rows};
}

/* What a batch points to. */
typedef struct pass {
    float *rows;          /* [T, input_cols] */
    const float **row;    /* [T] */
    int32_t *slot;        /* [T] */
} pass;

static void pass_deinit(pass *p) {
    ls_free(p->rows);
    ls_free(p->row);
    ls_free(p->slot);
}

static ls_code pass_init(pass *p, const ls_vision *v, const float *const *pixels, int n, ls_error *e) {
    size_t each = (size_t)v->graph->image_rows, t = (size_t)n * each, cols = (size_t)v->graph->input_cols;
    LS_TRY(ls_calloc(&p->rows, t, cols * sizeof *p->rows, "patches", e));
    LS_TRY(ls_calloc(&p->row, t, sizeof(const float *), "patches", e));
    LS_TRY(ls_calloc(&p->slot, t, sizeof *p->slot, "patches", e));
    for (int i = 0; i < n; i++) ls_vision_patches(v, pixels[i], p->rows + (size_t)i * each * cols);
    for (size_t i = 0; i < t; i++) {
        p->row[i] = p->rows + i * cols;
        p->slot[i] = (int32_t)(i / each);
    }
    return LS_OK;
}

ls_code ls_encode_images(ls_executor *x, const ls_vision *v, const float *const *pixels, int n, float *out, ls_error *e) {
    pass p = {0};
    if (n < 1 || n > LS_MAX_SLOTS) LS_FAIL(e, LS_INVALID_ARGUMENT, "%d images in a pass; allowed are 1 to %d", n, LS_MAX_SLOTS);
    if (v->graph->image_rows > LS_MAX_CHUNK / n)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "%d images of %lld patches in a pass; allowed are %d patches", n, (long long)v->graph->image_rows, LS_MAX_CHUNK);
    ls_code rc = pass_init(&p, v, pixels, n, e);
    const ls_batch batch = {.n_rows = n * (int)v->graph->image_rows, .slot = p.slot, .n_out = n * (int)v->graph->image_out, .embedding = p.row};
    if (!rc) rc = x->forward(x, &batch, out, e);
    for (int i = 0; !rc && i < n; i++) x->truncate(x, i, 0);
    pass_deinit(&p);
    return rc;
}
