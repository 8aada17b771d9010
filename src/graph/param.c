/* Parameters of a graph: finding a checkpoint's tensors, checking their shapes, and laying out those whose numbers do not lie as
 * the matrix that the graph computes with. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "graph/graph.h"

static ls_code shape_error(const ls_tensor *t, int64_t rows, int64_t cols, ls_error *e) {
    char shape[LS_SHAPE_TEXT];
    ls_shape_text(t, shape);
    LS_FAIL(e, LS_INVALID_ARGUMENT, "tensor \"%s\" has shape [%s]; the configuration needs [%lld, %lld]", t->name, shape, (long long)rows,
            (long long)cols);
}

static ls_code find_param(ls_graph *g, const ls_param **out, ls_checkpoint *c, int64_t rows, int64_t cols, const char *name, ls_error *e) {
    *out = NULL;
    const ls_tensor *t = ls_checkpoint_find(c, name);
    if (!t) return LS_OK;
    int64_t count = 1, last = t->rank ? t->shape[t->rank - 1] : 1;
    for (int i = 0; i < t->rank; i++) count *= t->shape[i];
    if (count != rows * cols || (rows > 1 && last != cols)) return shape_error(t, rows, cols, e);
    ls_param *p;
    LS_TRY(ls_arena_alloc(g->arena, &p, 1, sizeof *p, e));
    *p = (ls_param){.name = t->name, .tensor = t, .rows = rows, .cols = cols};
    *out = p;
    return LS_OK;
}

static ls_code format_name(ls_graph *g, const char **name, const char *fmt, va_list ap, ls_error *e) {
    char buf[512];
    int n = vsnprintf(buf, sizeof buf, fmt, ap);
    if (n < 0 || (size_t)n >= sizeof buf) LS_FAIL(e, LS_INVALID_ARGUMENT, "tensor name pattern \"%s\" is too long", fmt);
    return ls_arena_strdup(g->arena, name, buf, (size_t)n, e);
}

ls_code ls_graph_param_optional(ls_graph *g, const ls_param **out, ls_checkpoint *c, int64_t rows, int64_t cols, ls_error *e,
                                const char *fmt, ...) {
    const char *name = NULL;
    va_list ap;
    va_start(ap, fmt);
    ls_code rc = format_name(g, &name, fmt, ap, e);
    va_end(ap);
    return rc ? rc : find_param(g, out, c, rows, cols, name, e);
}

ls_code ls_graph_param(ls_graph *g, const ls_param **out, ls_checkpoint *c, int64_t rows, int64_t cols, ls_error *e, const char *fmt, ...) {
    const char *name = NULL;
    va_list ap;
    va_start(ap, fmt);
    ls_code rc = format_name(g, &name, fmt, ap, e);
    va_end(ap);
    if (!rc) rc = find_param(g, out, c, rows, cols, name, e);
    if (!rc && !*out)
        rc = ls_error_set(e, LS_NOT_FOUND, __FILE__, __LINE__, "tensor \"%s\" [%lld, %lld] is missing from the checkpoint", name,
                          (long long)rows, (long long)cols);
    return rc;
}

/* ---- Tensors that lie otherwise --------------------------------------------------------------------------------- */

/* Where element (r, k) of the matrix [rows, cols] lies in the checkpoint's tensor. */
static int64_t place(ls_layout layout, int64_t rows, int64_t cols, int64_t channels, int64_t r, int64_t k) {
    if (layout == LS_LAYOUT_TRANSPOSED) return k * rows + r;
    int64_t area = cols / channels;
    return r * cols + k % area * channels + k / area;
}

static ls_code layout_error(const ls_tensor *t, int64_t rows, int64_t cols, ls_layout layout, ls_error *e) {
    return layout == LS_LAYOUT_TRANSPOSED ? shape_error(t, cols, rows, e) : shape_error(t, rows, cols, e);
}

static bool shape_fits(const ls_tensor *t, int64_t rows, int64_t cols, ls_layout layout, int64_t channels) {
    int64_t count = 1;
    for (int i = 0; i < t->rank; i++) count *= t->shape[i];
    if (t->rank < 2 || count != rows * cols) return false;
    if (layout == LS_LAYOUT_TRANSPOSED) return t->rank == 2 && t->shape[0] == cols;
    if (layout == LS_LAYOUT_CHANNELS_LAST) return t->rank == 4 && t->shape[0] == rows && t->shape[3] == channels;
    return t->shape[0] == rows;
}

/* The numbers of |t| as [rows, cols], in the graph's arena. */
static ls_code lay_out(ls_graph *g, ls_tensor *out, const ls_tensor *t, ls_layout layout, int64_t channels, ls_error *e) {
    size_t size = (size_t)ls_format_get(t->format)->block_bytes;
    int64_t rows = out->shape[0], cols = out->shape[1];
    uint8_t *to;
    LS_TRY(ls_arena_alloc(g->arena, &to, (size_t)(rows * cols), size, e));
    for (int64_t r = 0; r < rows; r++)
        for (int64_t k = 0; k < cols; k++)
            memcpy(to + (size_t)(r * cols + k) * size, (const uint8_t *)t->data + (size_t)place(layout, rows, cols, channels, r, k) * size, size);
    out->data = to;
    return LS_OK;
}

static ls_code find_layout(ls_graph *g, const ls_param **out, ls_checkpoint *c, int64_t rows, int64_t cols, ls_layout layout, int64_t channels,
                           const char *name, ls_error *e) {
    const ls_tensor *t = ls_checkpoint_find(c, name);
    if (!t) LS_FAIL(e, LS_NOT_FOUND, "tensor \"%s\" [%lld, %lld] is missing from the checkpoint", name, (long long)rows, (long long)cols);
    if (!shape_fits(t, rows, cols, layout, channels)) return layout_error(t, rows, cols, layout, e);
    if (!t->data || (t->format != LS_F32 && t->format != LS_F16 && t->format != LS_BF16))
        LS_FAIL(e, LS_UNIMPLEMENTED, "tensor \"%s\" is %s; where it is laid out anew it must be F32, F16 or BF16", t->name, t->dtype);
    ls_param *p;
    ls_tensor *view;
    LS_TRY(ls_arena_alloc(g->arena, &p, 1, sizeof *p, e));
    LS_TRY(ls_arena_alloc(g->arena, &view, 1, sizeof *view, e));
    *view = *t;
    view->rank = 2;
    view->shape[0] = rows;
    view->shape[1] = cols;
    if (layout != LS_LAYOUT_FLAT) LS_TRY(lay_out(g, view, t, layout, channels, e));
    *p = (ls_param){.name = t->name, .tensor = view, .rows = rows, .cols = cols, .layout = layout};
    *out = p;
    return LS_OK;
}

ls_code ls_graph_param_layout(ls_graph *g, const ls_param **out, ls_checkpoint *c, int64_t rows, int64_t cols, ls_layout layout, int64_t channels, ls_error *e,
                              const char *fmt, ...) {
    const char *name = NULL;
    va_list ap;
    va_start(ap, fmt);
    ls_code rc = format_name(g, &name, fmt, ap, e);
    va_end(ap);
    return rc ? rc : find_layout(g, out, c, rows, cols, layout, channels, name, e);
}

/* ---- Pack files --------------------------------------------------------------------------------------------------- */

static ls_code need_tensor(const ls_param *p, const char *node, const char *who, ls_error *e) {
    if (p && p->tensor->bytes && !p->tensor->data)
        LS_FAIL(e, LS_FAILED_PRECONDITION,
                "node \"%s\": %s reads tensors as the checkpoint has them; this pack file has \"%s\" only in the form of backend native: give the model that "
                "was packed, or use backend native",
                node, who, p->tensor->name);
    return LS_OK;
}

ls_code ls_graph_need_tensors(const ls_graph *g, const char *who, ls_error *e) {
    for (size_t i = 0; i < g->n_nodes; i++) {
        const ls_node *n = &g->nodes[i];
        for (int k = 0; k < 2; k++) LS_TRY(need_tensor(n->w[k], n->name, who, e));
        for (int k = 0; n->moe && k < n->moe->experts; k++) {
            LS_TRY(need_tensor(&n->moe->gate[k], n->name, who, e));
            LS_TRY(need_tensor(&n->moe->up[k], n->name, who, e));
            LS_TRY(need_tensor(&n->moe->down[k], n->name, who, e));
        }
    }
    return LS_OK;
}
