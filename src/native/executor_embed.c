/* Rows of embedding tables. A table that is a product's matrix too, of a format of integers, is read from the packed matrix: the mapped file
 * is not touched. Any other is read from the file, where each row makes pages around it resident. That stays below the size of the file when
 * the table is nothing else; a float table that was packed as well counts the pieces it touched, and gives all back when they are many. */
#include <string.h>

#include "graph/batch.h"
#include "native/executor_internal.h"

enum {
    PIECE = 64 << 10, /* what the system maps around a page that is read */
    LEAST = 16,       /* pieces that may stay resident in any case */
    SHARE = 8         /* of the table that may */
};

ls_code ls_native_table_init(ls_native_table **out, const ls_tensor *t, ls_error *e) {
    ls_native_table *table;
    size_t pieces = t->bytes / PIECE + 2;
    LS_TRY(ls_calloc(&table, 1, sizeof *table + (pieces / 32 + 1) * sizeof *table->seen, "embedding table", e));
    table->words = pieces / 32 + 1;
    table->most = (int)(pieces / SHARE > LEAST ? pieces / SHARE : LEAST);
    *out = table;
    return LS_OK;
}

/* The counts need not be exact: another thread may come between. */
static void note(ls_native_table *table, ls_checkpoint *c, const ls_tensor *t, int64_t row) {
    size_t bytes = t->bytes / (size_t)ls_tensor_rows(t);
    uintptr_t base = (uintptr_t)t->data / PIECE, first = ((uintptr_t)t->data + (size_t)row * bytes) / PIECE - base,
              last = ((uintptr_t)t->data + (size_t)(row + 1) * bytes - 1) / PIECE - base;
    for (uintptr_t i = first; i <= last; i++) {
        unsigned bit = 1u << i % 32;
        if (atomic_fetch_or_explicit(&table->seen[i / 32], bit, memory_order_relaxed) & bit) continue;
        if (atomic_fetch_add_explicit(&table->touched, 1, memory_order_relaxed) + 1 != table->most) continue;
        ls_checkpoint_forget(c, t);
        for (size_t k = 0; k < table->words; k++) atomic_store_explicit(&table->seen[k], 0, memory_order_relaxed);
        atomic_store_explicit(&table->touched, 0, memory_order_relaxed);
    }
}

void ls_native_embed_row(const ls_native *x, int node, float *y, int row) {
    const ls_node *n = &x->g->nodes[node];
    const ls_node_weights *w = &x->weights.node[node];
    const ls_tensor *t = n->w[0]->tensor;
    const float *given = ls_embedding_of(x->batch, row);
    if (given) {
        ls_native_ops(x)->canon(y, given, n->cols);
        return;
    }
    int64_t token = x->batch->token[row];
    if (w->matrix) ls_packed_row(w->matrix, token, y);
    else ls_tensor_row_values(t, n->w[0]->row_begin + token, y);
    if (w->table) note(w->table, x->checkpoint, t, n->w[0]->row_begin + token);
    ls_native_ops(x)->canon(y, y, n->cols);
    if (n->scale != 1.0f) ls_native_ops(x)->scale(y, y, n->cols, n->scale);
}
