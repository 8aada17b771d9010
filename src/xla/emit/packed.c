/* Which weights stay packed: the MLX affine ones whose integers do not cross words, as operands of linear layers. */
#include "xla/emit/lower.h"

bool ls_lower_can_pack(const ls_param *w) {
    int bits = w->tensor->mlx_bits;
    return w->tensor->format == LS_MLX_AFFINE && (bits == 2 || bits == 4 || bits == 8);
}

enum { FORMAT_TEXT = 64 };

/* "MLX affine of 3 bits", "Q4_K". */
static const char *format_text(const ls_tensor *t, char text[FORMAT_TEXT]) {
    if (t->format == LS_MLX_AFFINE) snprintf(text, FORMAT_TEXT, "MLX affine of %d bits", t->mlx_bits);
    else snprintf(text, FORMAT_TEXT, "%s", ls_format_get(t->format)->name);
    return text;
}

static bool is_quantised(const ls_param *w) { return w->tensor->format == LS_MLX_AFFINE || ls_format_get(w->tensor->format)->group; }

/* A quantised operand of a product that would be made dense. */
static ls_code check_weight(const ls_param *w, bool expert, ls_error *e) {
    char text[FORMAT_TEXT];
    if (!is_quantised(w) || (!expert && ls_lower_can_pack(w))) return LS_OK;
    LS_FAIL(e, LS_UNIMPLEMENTED,
            "%s \"%s\" is %s and cannot stay packed; linear weights of MLX affine format with 2, 4 or 8 bits can. Choose quant dense",
            expert ? "the expert's weight" : "weight", w->name, format_text(w->tensor, text));
}

static ls_code check_experts(const ls_moe *moe, ls_error *e) {
    for (int i = 0; i < moe->experts; i++) {
        LS_TRY(check_weight(&moe->gate[i], true, e));
        LS_TRY(check_weight(&moe->up[i], true, e));
        LS_TRY(check_weight(&moe->down[i], true, e));
    }
    return LS_OK;
}

ls_code ls_emit_check_packed(const ls_graph *g, ls_error *e) {
    size_t packed = 0;
    for (size_t i = 0; i < g->n_nodes; i++) {
        const ls_node *n = &g->nodes[i];
        if (n->op == LS_OP_MOE) LS_TRY(check_experts(n->moe, e));
        if (n->op != LS_OP_LINEAR) continue;
        LS_TRY(check_weight(n->w[0], false, e));
        packed += ls_lower_can_pack(n->w[0]);
    }
    if (packed) return LS_OK;
    LS_FAIL(e, LS_INVALID_ARGUMENT, "no linear weight is quantised, so none can stay packed. Choose quant dense");
}
