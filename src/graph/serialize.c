/* Canonical text of a graph and its fingerprint. One line per rotary table and node; every attribute is written, floats
 * as hexadecimal bit patterns, so two graphs have the same text exactly when they compute the same thing on the same
 * weights. The format is versioned by its first line. */
#include <inttypes.h>

#include "base/bits.h"
#include "base/sha256.h"
#include "graph/graph.h"

static ls_code write_rope(const ls_rope *r, size_t index, ls_str *s, ls_error *e) {
    LS_TRY(ls_str_printf(s, e, "rope %zu rot_dim=%d interleaved=%d amplitude=%08" PRIx32 " inv_freq=", index, r->rot_dim, r->interleaved,
                         ls_bits(r->amplitude)));
    for (int i = 0; i < r->rot_dim / 2; i++) LS_TRY(ls_str_printf(s, e, "%s%016" PRIx64, i ? "," : "", ls_bits64(r->inv_freq[i])));
    return ls_str_append(s, "\n", 1, e);
}

static ls_code write_param(const ls_param *p, ls_str *s, ls_error *e) {
    if (!p) return ls_str_append(s, " -", 2, e);
    const ls_format_info *f = ls_format_get(p->tensor->format);
    LS_TRY(ls_str_printf(s, e, " %s:%s:[%" PRId64 "+%" PRId64 ",%" PRId64 "]", p->name, f->name, p->row_begin, p->rows, p->cols));
    if (p->tensor->format == LS_MLX_AFFINE) LS_TRY(ls_str_printf(s, e, ":bits=%d:group=%d", p->tensor->mlx_bits, p->tensor->mlx_group));
    if (p->layout) LS_TRY(ls_str_printf(s, e, ":%s", ls_layout_name(p->layout)));
    return LS_OK;
}

static ls_code write_moe(const ls_moe *m, ls_str *s, ls_error *e) {
    LS_TRY(ls_str_printf(s, e, " experts=%d top_k=%d normalize=%d", m->experts, m->top_k, m->normalize));
    for (int i = 0; i < m->experts; i++) {
        LS_TRY(write_param(&m->gate[i], s, e));
        LS_TRY(write_param(&m->up[i], s, e));
        LS_TRY(write_param(&m->down[i], s, e));
    }
    return LS_OK;
}

static ls_code write_node(const ls_node *n, size_t index, ls_str *s, ls_error *e) {
    LS_TRY(ls_str_printf(s, e, "node %zu %s %s contract=%s/%d in=", index, ls_op_name(n->op), n->name, ls_contract_name(n->contract),
                         LS_CONTRACT_VERSION));
    for (int i = 0; i < n->n_in; i++) LS_TRY(ls_str_printf(s, e, "%s%d", i ? "," : "", n->in[i]));
    LS_TRY(ls_str_printf(s, e, " cols=%" PRId64 " selected=%d scale=%08" PRIx32 " eps=%08" PRIx32 " offset=%08" PRIx32 " limit=%08" PRIx32,
                         n->cols, n->selected, ls_bits(n->scale), ls_bits(n->eps), ls_bits(n->weight_offset), ls_bits(n->limit)));
    LS_TRY(ls_str_printf(s, e, " group=%" PRId64 " begin=%" PRId64 " heads=%d kv_heads=%d head_dim=%d rope=%d window=%d layer=%d act=%s w=",
                         n->group, n->begin, n->heads, n->kv_heads, n->head_dim, n->rope, n->window, n->layer, ls_act_name(n->act)));
    LS_TRY(write_param(n->w[0], s, e));
    LS_TRY(write_param(n->w[1], s, e));
    if (n->moe) LS_TRY(write_moe(n->moe, s, e));
    if (n->bidirectional) LS_TRY(ls_str_append(s, " bidirectional=1", SIZE_MAX, e)); /* absent is 0, in texts from before it existed too */
    if (n->op == LS_OP_AVG_POOL) LS_TRY(ls_str_printf(s, e, " grid=%d pool=%d", n->grid, n->pool));
    return ls_str_append(s, "\n", 1, e);
}

ls_code ls_graph_serialize(const ls_graph *g, ls_str *out, ls_error *e) {
    LS_TRY(ls_str_printf(out, e, "lockstep-graph-1 architecture=%s hidden=%" PRId64 " vocab=%" PRId64 "\n",
                         g->architecture ? g->architecture : "-", g->hidden, g->vocab));
    for (size_t i = 0; i < g->n_rope; i++) LS_TRY(write_rope(&g->rope[i], i, out, e));
    for (size_t i = 0; i < g->n_nodes; i++) LS_TRY(write_node(&g->nodes[i], i, out, e));
    return LS_OK;
}

ls_code ls_graph_fingerprint(const ls_graph *g, char hex[65], ls_error *e) {
    ls_str s = {0};
    ls_code rc = ls_graph_serialize(g, &s, e);
    if (!rc) {
        ls_sha256 h;
        uint8_t digest[32];
        ls_sha256_init(&h);
        ls_sha256_update(&h, s.data, s.len);
        ls_sha256_final(&h, digest);
        ls_sha256_hex(digest, hex);
    }
    ls_str_deinit(&s);
    return rc;
}
