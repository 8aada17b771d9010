/* The XLA executor: cuts a pass into pieces that fit modules, keeps the caches, hands out logits. */
#include "xla/executor.h"

#include <string.h>

#include "contract/exact.h"
#include "graph/batch.h"
#include "xla/executor_internal.h"

enum { MAX_PIECE = 256, SMALL_PIECE = 8 };

/* ---- Capacity ------------------------------------------------------------------------------------------------------------ */

static int64_t cache_floats(const ls_xla *x, int64_t capacity) { return x->sequences * (int64_t)x->g->n_caches * capacity * x->kv_heads * x->head_dim; }

static ls_code bucket_for(const ls_xla *x, int positions, int *out, ls_error *e) {
    for (int i = 0; i < x->xo.n_buckets; i++)
        if (x->xo.bucket[i] >= positions) {
            *out = x->xo.bucket[i];
            return LS_OK;
        }
    LS_FAIL(e, LS_RESOURCE_EXHAUSTED, "%d positions are more than the largest bucket of %d; raise the context size", positions,
            x->xo.bucket[x->xo.n_buckets - 1]);
}

/* A cache of |to| positions holding what |from| (of |held| positions, or NULL) holds. */
static ls_code resize_cache(ls_xla *x, ls_buffer **cache, int held, int to, int64_t planes, ls_error *e) {
    int64_t row = x->kv_heads * x->head_dim, layers = planes / x->sequences;
    ls_tensor_type t = {.dtype = LS_DT_F32, .rank = 5, .dim = {x->sequences, layers, to, x->kv_heads, x->head_dim}};
    float *was = NULL, *now = NULL;
    ls_buffer *made = NULL;
    ls_code rc;
    LS_GOTO(ls_calloc(&now, (size_t)(planes * to * row), sizeof *now, "cache", e));
    if (*cache) {
        size_t n = (size_t)(planes * held * row);
        LS_GOTO(ls_calloc(&was, n, sizeof *was, "cache", e));
        LS_GOTO(x->engine->ops->read(x->engine, *cache, was, n * sizeof *was, e));
        for (int64_t p = 0; p < planes; p++) memcpy(now + p * to * row, was + p * held * row, (size_t)(held < to ? held : to) * (size_t)row * sizeof *was);
    }
    LS_GOTO(x->engine->ops->upload(x->engine, &made, &t, now, e));
    x->engine->ops->free_buffer(x->engine, *cache);
    *cache = made;
out:
    ls_free(was);
    ls_free(now);
    return rc;
}

static bool all_free(const ls_xla *x) {
    for (int i = 0; i < x->o.max_seqs; i++)
        if (x->length[i]) return false;
    return true;
}

static ls_code resize(ls_xla *x, int to, ls_error *e) {
    int64_t planes = x->sequences * (int64_t)x->g->n_caches;
    if (x->alone) {
        for (int i = 0; i < x->g->n_caches; i++) {
            LS_TRY(resize_cache(x, &x->node_k[i], x->capacity, to, x->sequences, e));
            LS_TRY(resize_cache(x, &x->node_v[i], x->capacity, to, x->sequences, e));
        }
    } else {
        LS_TRY(resize_cache(x, &x->k, x->capacity, to, planes, e));
        LS_TRY(resize_cache(x, &x->v, x->capacity, to, planes, e));
    }
    x->capacity = to;
    return LS_OK;
}

ls_code ls_xla_grow(ls_xla *x, int positions, ls_error *e) {
    int to = 0;
    LS_TRY(bucket_for(x, positions, &to, e));
    return x->capacity < to ? resize(x, to, e) : LS_OK;
}

/* While no slot holds anything the capacity shrinks to fit; passes then stay within it. */
static ls_code reserve(ls_executor *base, int slot, int positions, ls_error *e) {
    ls_xla *x = (ls_xla *)(void *)base;
    int to = 0;
    (void)slot;
    LS_TRY(bucket_for(x, positions, &to, e));
    return x->capacity < to || (all_free(x) && x->capacity > to) ? resize(x, to, e) : LS_OK;
}

/* ---- Pieces ----------------------------------------------------------------------------------------------------------------- */

/* Few sizes, so few programs: 1, 8, 32, 128, 256. A piece may be padded when the padding fits the cache. Only a block makes longer ones. */
int ls_xla_row_bucket(int n, int room) {
    static const int sizes[] = {1, SMALL_PIECE, 32, 128, MAX_PIECE};
    int fits = 1;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (sizes[i] > room) break;
        fits = sizes[i];
        if (sizes[i] >= n) break;
    }
    return fits;
}

/* Rows of each slot in turn, in pieces. Gives the longest sequence after the pass. */
static ls_code cut(ls_xla *x, const ls_batch *b, int *longest, ls_error *e) {
    int n = 0;
    *longest = 0;
    for (int slot = 0; slot < x->o.max_seqs; slot++) {
        int begin = n;
        for (int i = 0; i < b->n_rows; i++)
            if (b->slot[i] == slot) x->order[n++] = i;
        int end = x->length[slot] + n - begin;
        if (end > x->o.context) LS_FAIL(e, LS_OUT_OF_RANGE, "slot %d is full: %d positions, its context has %d", slot, end, x->o.context);
        if (n > begin && end > *longest) *longest = end;
    }
    return LS_OK;
}

/* Rows of a piece longer than the largest size: whole 256s where they fit, else just the rows. */
static int long_rows(int n, int room) {
    int rows = (n + MAX_PIECE - 1) / MAX_PIECE * MAX_PIECE;
    return rows <= room ? rows : n;
}

/* The piece that begins at order[at], of a slot whose rows end before order[end]. A piece ends where every block of its rows does: as
 * late as the size allows, or at the first such place behind it. */
static ls_xla_piece next_piece(const ls_xla *x, const ls_batch *b, int at, int end, int place) {
    ls_xla_piece p = {.slot = b->slot[x->order[at]], .begin = at, .place = place, .entry = LS_ENTRY_EXTEND};
    int room = x->capacity - place, most = ls_xla_row_bucket(end - at, room), past = 0;
    for (int i = at; i < end && (i - at < most || !p.n); i++) {
        ls_span block = ls_block_of(b, x->order[i]);
        if (block.end > past) past = block.end;
        if (past <= place + i - at + 1) p.n = i - at + 1;
    }
    for (int i = at; i < at + p.n; i++) {
        ls_span block = ls_block_of(b, x->order[i]);
        if (ls_embedding_of(b, x->order[i]) || block.begin < block.end) p.entry = LS_ENTRY_EXTEND_EMBEDDINGS;
    }
    p.rows = ls_xla_row_bucket(p.n, room);
    if (p.rows < p.n) p.rows = long_rows(p.n, room);
    return p;
}

static void make_pieces(ls_xla *x, const ls_batch *b) {
    x->n_pieces = 0;
    for (int at = 0; at < b->n_rows;) {
        int slot = b->slot[x->order[at]], end = at, place = x->length[slot];
        while (end < b->n_rows && b->slot[x->order[end]] == slot) end++;
        while (at < end) {
            ls_xla_piece p = next_piece(x, b, at, end, place);
            x->piece[x->n_pieces++] = p;
            at += p.n;
            place += p.n;
        }
    }
}

/* ---- Extending one sequence ---------------------------------------------------------------------------------------------------- */

/* Index among the batch's wanted rows of batch row |row|, or -1. */
static int wanted(const ls_batch *b, int row) {
    for (int i = 0; i < b->n_out; i++)
        if (b->out_row[i] == row) return i;
    return -1;
}

int32_t *ls_xla_row_ints(ls_xla *x, int i) {
    int32_t *v = x->row_ints + (size_t)i * (size_t)x->piece_rows;
    memset(v, 0, (size_t)x->piece_rows * sizeof *v);
    return v;
}

ls_code ls_xla_upload_embeddings(ls_xla *x, const ls_batch *b, const ls_xla_piece *p, ls_buffer *out[2], ls_error *e) {
    int64_t cols = x->g->hidden;
    ls_tensor_type t = {.dtype = LS_DT_F32, .rank = 2, .dim = {p->rows, cols}};
    int32_t *given = ls_xla_row_ints(x, 0);
    float *v;
    LS_TRY(ls_calloc(&v, (size_t)(p->rows * cols), sizeof *v, "embeddings", e));
    for (int i = 0; i < p->n; i++) {
        const float *row = ls_embedding_of(b, x->order[p->begin + i]);
        given[i] = row != NULL;
        if (row) memcpy(v + i * cols, row, (size_t)cols * sizeof *v);
    }
    ls_code rc = x->engine->ops->upload(x->engine, &out[0], &t, v, e);
    if (!rc) rc = ls_xla_upload_i32(x, &out[1], given, p->rows, e);
    ls_free(v);
    return rc;
}

ls_code ls_xla_upload_blocks(ls_xla *x, const ls_batch *b, const ls_xla_piece *p, ls_buffer *out[2], ls_error *e) {
    int32_t *begin = ls_xla_row_ints(x, 0), *end = ls_xla_row_ints(x, 1);
    for (int i = 0; i < p->rows; i++) {
        ls_span own = {p->place + i, p->place + i + 1}, block = i < p->n ? ls_block_of(b, x->order[p->begin + i]) : own;
        if (block.begin == block.end) block = own;
        begin[i] = block.begin;
        end[i] = block.end;
    }
    LS_TRY(ls_xla_upload_i32(x, &out[0], begin, p->rows, e));
    return ls_xla_upload_i32(x, &out[1], end, p->rows, e);
}

enum { EXTEND_INPUTS = 8 };

/* Tokens, slot, place and wanted rows; then embeddings and blocks. *n_in: how many. */
static ls_code extend_inputs(ls_xla *x, const ls_batch *b, const ls_xla_piece *p, const int32_t *rows, int64_t n_rows, ls_buffer *in[EXTEND_INPUTS],
                             size_t *n_in, ls_error *e) {
    int32_t *token = ls_xla_row_ints(x, 0), slot = p->slot, place = p->place;
    for (int i = 0; i < p->n; i++) {
        int row = x->order[p->begin + i];
        token[i] = ls_embedding_of(b, row) ? 0 : b->token[row];
    }
    *n_in = 4;
    LS_TRY(ls_xla_upload_i32(x, &in[0], token, p->rows, e));
    LS_TRY(ls_xla_upload_i32(x, &in[1], &slot, 0, e));
    LS_TRY(ls_xla_upload_i32(x, &in[2], &place, 0, e));
    LS_TRY(ls_xla_upload_i32(x, &in[3], rows, n_rows, e));
    if (p->entry == LS_ENTRY_EXTEND) return LS_OK;
    *n_in = EXTEND_INPUTS;
    LS_TRY(ls_xla_upload_embeddings(x, b, p, &in[4], e));
    return ls_xla_upload_blocks(x, b, p, &in[6], e);
}

/* Runs |m| with the caches as its last two inputs, which its second and third results replace. */
static ls_code run_cached(ls_xla *x, const ls_xla_module *m, ls_buffer **in, size_t n, ls_buffer **out, ls_error *e) {
    ls_buffer *all[EXTEND_INPUTS + 2];
    memcpy(all, in, n * sizeof *in);
    all[n] = x->k;
    all[n + 1] = x->v;
    LS_TRY(ls_xla_run(x, m, all, n + 2, out, e));
    x->engine->ops->free_buffer(x->engine, x->k);
    x->engine->ops->free_buffer(x->engine, x->v);
    x->k = out[1];
    x->v = out[2];
    out[1] = out[2] = NULL;
    return LS_OK;
}

static ls_code read_logits(ls_xla *x, const ls_buffer *result, int64_t rows, ls_error *e) {
    size_t n = (size_t)rows * (size_t)x->g->vocab;
    if (n > x->scratch_floats) {
        ls_free(x->scratch);
        x->scratch = NULL;
        x->scratch_floats = 0;
        LS_TRY(ls_calloc(&x->scratch, n, sizeof(float), "logits", e));
        x->scratch_floats = n;
    }
    return x->engine->ops->read(x->engine, result, x->scratch, n * sizeof(float), e);
}

/* Copies captured results into the values of the whole pass. Piece row i is batch row order[begin + i]; selected nodes have the
 * module's wanted rows. */
static ls_code keep_captured(ls_xla *x, const ls_xla_module *m, ls_buffer **result, const int *to, const int *to_selected, ls_error *e) {
    for (size_t i = 0, r = 3; i < x->g->n_nodes; i++) {
        if (!x->observed[i]) continue;
        const ls_node *n = &x->g->nodes[i];
        const int *map = n->selected ? to_selected : to;
        int64_t rows = m->result[r].dim[0];
        float *v;
        LS_TRY(ls_calloc(&v, (size_t)(rows * n->cols), sizeof *v, "captured values", e));
        ls_code rc = x->engine->ops->read(x->engine, result[r++], v, (size_t)(rows * n->cols) * sizeof *v, e);
        for (int64_t k = 0; !rc && k < rows; k++)
            if (map[k] >= 0) memcpy(x->value[i] + (int64_t)map[k] * n->cols, v + k * n->cols, (size_t)n->cols * sizeof *v);
        ls_free(v);
        LS_TRY(rc);
    }
    return LS_OK;
}

static ls_code run_piece(ls_xla *x, const ls_batch *b, const ls_xla_piece *p, float *logits, ls_error *e) {
    int32_t *rows = ls_xla_row_ints(x, 2);
    int *to = ls_xla_map(x, 0), *place = ls_xla_map(x, 1), n_out = 0;
    for (int i = 0; i < x->piece_rows; i++) to[i] = place[i] = -1;
    for (int i = 0; i < p->n; i++) {
        int w = wanted(b, x->order[p->begin + i]);
        to[i] = x->order[p->begin + i];
        if (w < 0) continue;
        place[n_out] = w;
        rows[n_out++] = i;
    }
    int64_t out_rows = n_out <= 1 ? 1 : p->rows;
    ls_xla_module *m;
    ls_buffer *in[EXTEND_INPUTS] = {0}, **out = NULL;
    size_t n_in = 0;
    LS_TRY(ls_xla_get(x, &m, p->entry, LS_XLA_WHOLE, p->rows, out_rows, e));
    ls_code rc = ls_calloc(&out, m->n_results, sizeof(ls_buffer *), "results", e);
    if (!rc) rc = extend_inputs(x, b, p, rows, out_rows, in, &n_in, e);
    if (!rc) rc = run_cached(x, m, in, n_in, out, e);
    if (!rc && n_out) rc = read_logits(x, out[0], out_rows, e);
    for (int i = 0; !rc && i < n_out; i++)
        memcpy(logits + (int64_t)place[i] * x->g->vocab, x->scratch + (int64_t)i * x->g->vocab, (size_t)x->g->vocab * sizeof(float));
    if (!rc && x->o.observer) rc = keep_captured(x, m, out, to, place, e);
    ls_xla_free_buffers(x, in, EXTEND_INPUTS);
    if (out) ls_xla_free_buffers(x, out, m->n_results);
    ls_free(out);
    return rc;
}

/* ---- One token of several sequences --------------------------------------------------------------------------------------------- */

/* Every slot has at most one row, there are several (or just one slot), and every slot has room for one more: a free or resting slot computes on
 * the place after its last, which its next row overwrites. */
static bool is_ragged(const ls_xla *x) {
    if (x->n_pieces < 2 && x->sequences > 1) return false;
    for (int i = 0; i < x->n_pieces; i++)
        if (x->piece[i].n != 1 || x->piece[i].entry != LS_ENTRY_EXTEND || (i && x->piece[i].slot == x->piece[i - 1].slot)) return false;
    for (int i = 0; i < x->o.max_seqs; i++)
        if (x->length[i] >= x->capacity) return false;
    return true;
}

static ls_code ragged_inputs(ls_xla *x, const ls_batch *b, ls_buffer *in[3], int *to, int *place, ls_error *e) {
    int32_t token[LS_MAX_SLOTS] = {0}, pos[LS_MAX_SLOTS] = {0};
    for (int i = 0; i < x->sequences; i++) {
        to[i] = place[i] = -1;
        pos[i] = i < x->o.max_seqs ? x->length[i] : 0;
    }
    for (int i = 0; i < x->n_pieces; i++) {
        const ls_xla_piece *p = &x->piece[i];
        to[p->slot] = x->order[p->begin];
        place[p->slot] = wanted(b, to[p->slot]);
        token[p->slot] = b->token[to[p->slot]];
    }
    LS_TRY(ls_xla_upload_i32(x, &in[0], token, x->sequences, e));
    LS_TRY(ls_xla_upload_i32(x, &in[1], pos, x->sequences, e));
    return ls_xla_upload_i32(x, &in[2], pos, x->sequences, e);
}

static ls_code run_ragged(ls_xla *x, const ls_batch *b, float *logits, ls_error *e) {
    int to[LS_MAX_SLOTS], place[LS_MAX_SLOTS];
    ls_xla_module *m;
    ls_buffer *in[3] = {0}, **out = NULL;
    LS_TRY(ls_xla_get(x, &m, LS_ENTRY_DECODE_RAGGED, LS_XLA_WHOLE, x->sequences, 0, e));
    ls_code rc = ls_calloc(&out, m->n_results, sizeof(ls_buffer *), "results", e);
    if (!rc) rc = ragged_inputs(x, b, in, to, place, e);
    if (!rc) rc = run_cached(x, m, in, 3, out, e);
    if (!rc && b->n_out) rc = read_logits(x, out[0], x->sequences, e);
    for (int i = 0; !rc && i < x->sequences; i++)
        if (place[i] >= 0) memcpy(logits + (int64_t)place[i] * x->g->vocab, x->scratch + (int64_t)i * x->g->vocab, (size_t)x->g->vocab * sizeof(float));
    if (!rc && x->o.observer) rc = keep_captured(x, m, out, to, place, e);
    ls_xla_free_buffers(x, in, 3);
    if (out) ls_xla_free_buffers(x, out, m->n_results);
    ls_free(out);
    return rc;
}

/* ---- A pass ------------------------------------------------------------------------------------------------------------------------ */

static ls_code begin_values(ls_xla *x, const ls_batch *b, ls_error *e) {
    for (size_t i = 0; x->o.observer && i < x->g->n_nodes; i++) {
        const ls_node *n = &x->g->nodes[i];
        int64_t rows = n->selected ? b->n_out : b->n_rows;
        if (x->alone || x->observed[i]) LS_TRY(ls_calloc(&x->value[i], (size_t)(rows * n->cols), sizeof(float), "node output", e));
    }
    return LS_OK;
}

static void end_values(ls_xla *x, const ls_batch *b, bool show) {
    for (size_t i = 0; x->value && i < x->g->n_nodes; i++) {
        const ls_node *n = &x->g->nodes[i];
        if (show && x->observed[i]) x->o.observer(x->o.observer_user, n, x->value[i], n->selected ? b->n_out : b->n_rows, n->cols);
        ls_free(x->value[i]);
        x->value[i] = NULL;
    }
}

static ls_code run_pass(ls_xla *x, const ls_batch *b, float *logits, ls_error *e) {
    if (x->alone) return ls_xla_forward_nodes(x, b, logits, e);
    if (is_ragged(x)) return run_ragged(x, b, logits, e);
    for (int i = 0; i < x->n_pieces; i++) LS_TRY(run_piece(x, b, &x->piece[i], logits, e));
    return LS_OK;
}

/* A failure leaves the lengths as they were; what it may have written beyond them is overwritten by the next pass. */
static ls_code forward(ls_executor *base, const ls_batch *b, float *logits, ls_error *e) {
    ls_xla *x = (ls_xla *)(void *)base;
    int longest;
    LS_TRY(ls_batch_check(b, x->g, &x->o, e));
    if (x->g->image_rows) return ls_xla_forward_images(x, b, logits, e);
    LS_TRY(ls_batch_check_blocks(b, base, e));
    LS_TRY(cut(x, b, &longest, e));
    LS_TRY(ls_xla_grow(x, longest < x->o.context ? longest + 1 : longest, e));
    make_pieces(x, b);
    ls_code rc = begin_values(x, b, e);
    if (!rc) rc = run_pass(x, b, logits, e);
    end_values(x, b, !rc && !x->alone);
    if (rc) return rc;
    for (int i = 0; i < x->n_pieces; i++) x->length[x->piece[i].slot] += x->piece[i].n;
    return LS_OK;
}

/* ---- The rest of the interface --------------------------------------------------------------------------------------------------- */

static int length_of(const ls_executor *base, int slot) {
    const ls_xla *x = (const ls_xla *)(const void *)base;
    return slot < 0 || slot >= x->o.max_seqs ? 0 : x->length[slot];
}

static void truncate_slot(ls_executor *base, int slot, int length) {
    ls_xla *x = (ls_xla *)(void *)base;
    if (slot >= 0 && slot < x->o.max_seqs && length >= 0 && length < x->length[slot]) x->length[slot] = length;
}

static void memory_of(const ls_executor *base, size_t *weights, size_t *kv, size_t *work) {
    const ls_xla *x = (const ls_xla *)(const void *)base;
    *weights = x->weight_bytes;
    *kv = 2 * (size_t)cache_floats(x, x->capacity) * sizeof(float) + x->n_blocks * ls_xla_block_bytes(base);
    *work = x->scratch_floats * sizeof(float);
}

static void destroy(ls_executor *base) {
    ls_xla *x = (ls_xla *)(void *)base;
    const ls_engine_ops *ops = x->engine->ops;
    ops->free_buffer(x->engine, x->k);
    ops->free_buffer(x->engine, x->v);
    for (int i = 0; i < x->g->n_caches && x->node_k && x->node_v; i++) {
        ops->free_buffer(x->engine, x->node_k[i]);
        ops->free_buffer(x->engine, x->node_v[i]);
    }
    for (size_t i = 0; i < x->n_modules; i++) ls_xla_free_module(x->module[i]);
    for (size_t i = 0; i < x->n_programs; i++) ops->free_program(x->engine, x->program[i].program);
    for (size_t i = 0; i < x->n_weights; i++) {
        ops->free_buffer(x->engine, x->weight[i].buffer);
        ls_free(x->weight[i].key);
    }
    void *const arrays[] = {x->module, x->program, x->weight, x->node_k, x->node_v, x->length, x->piece, x->order,
                            x->row_ints, x->map, x->scratch, x->observed, x->value};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) ls_free(arrays[i]);
    ls_free(x);
}

/* ---- Creation ------------------------------------------------------------------------------------------------------------------------ */

static ls_code set_buckets(ls_xla *x, ls_error *e) {
    ls_xla_options *o = &x->xo;
    if (o->n_buckets < 0 || o->n_buckets > LS_XLA_MAX_BUCKETS)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "%d buckets; allowed are 1 to %d", o->n_buckets, LS_XLA_MAX_BUCKETS);
    int most = (x->o.context + LS_EXACT_KEY_RANGE - 1) / LS_EXACT_KEY_RANGE * LS_EXACT_KEY_RANGE;
    if (!o->n_buckets)
        for (int c = LS_EXACT_KEY_RANGE; o->n_buckets < LS_XLA_MAX_BUCKETS - 1 && c < most; c *= 4) o->bucket[o->n_buckets++] = c;
    for (int i = 0; i < o->n_buckets; i++) {
        o->bucket[i] = (o->bucket[i] + LS_EXACT_KEY_RANGE - 1) / LS_EXACT_KEY_RANGE * LS_EXACT_KEY_RANGE;
        if (o->bucket[i] < 1 || (i && o->bucket[i] <= o->bucket[i - 1]))
            LS_FAIL(e, LS_INVALID_ARGUMENT, "bucket %d holds %d positions; buckets must ascend", i, o->bucket[i]);
    }
    while (o->n_buckets && o->bucket[o->n_buckets - 1] >= most) o->n_buckets--;
    if (o->n_buckets == LS_XLA_MAX_BUCKETS) o->n_buckets--;
    o->bucket[o->n_buckets++] = most;
    return LS_OK;
}

static ls_code set_shape(ls_xla *x, ls_error *e) {
    if (x->g->input_cols && !x->g->image_rows) LS_FAIL(e, LS_UNIMPLEMENTED, "the graph takes rows that are no images; the XLA backend has no module for them");
    for (size_t i = 0; i < x->g->n_nodes; i++)
        if (x->g->nodes[i].op == LS_OP_ATTENTION) {
            x->kv_heads = x->g->nodes[i].kv_heads;
            x->head_dim = x->g->nodes[i].head_dim;
        }
    if (!x->head_dim && !x->g->image_rows) LS_FAIL(e, LS_UNIMPLEMENTED, "the graph has no attention; the XLA backend has nothing to cache");
    /* ragged decoding is compiled for 1, 4, 8, 16, ... sequences */
    for (x->sequences = 1; x->sequences < x->o.max_seqs;) x->sequences = x->sequences < 4 ? 4 : x->sequences * 2;
    return LS_OK;
}

static ls_code allocate(ls_xla *x, ls_error *e) {
    size_t nodes = x->g->n_nodes, layers = (size_t)x->g->n_caches, rows = (size_t)x->o.max_rows;
    LS_TRY(ls_calloc(&x->length, (size_t)x->o.max_seqs, sizeof *x->length, "slots", e));
    LS_TRY(ls_calloc(&x->piece, rows, sizeof *x->piece, "pieces", e));
    LS_TRY(ls_calloc(&x->order, rows, sizeof *x->order, "rows", e));
    x->piece_rows = (x->o.max_rows + MAX_PIECE - 1) / MAX_PIECE * MAX_PIECE;
    LS_TRY(ls_calloc(&x->row_ints, LS_XLA_ROW_ARRAYS * (size_t)x->piece_rows, sizeof *x->row_ints, "rows", e));
    LS_TRY(ls_calloc(&x->map, LS_XLA_MAPS * (size_t)x->piece_rows, sizeof *x->map, "rows", e));
    LS_TRY(ls_calloc(&x->node_k, layers, sizeof(ls_buffer *), "caches", e));
    LS_TRY(ls_calloc(&x->node_v, layers, sizeof(ls_buffer *), "caches", e));
    if (!x->o.observer) return LS_OK;
    LS_TRY(ls_calloc(&x->value, nodes, sizeof(float *), "node outputs", e));
    LS_TRY(ls_calloc(&x->observed, nodes, sizeof *x->observed, "observed nodes", e));
    for (size_t i = 0; i < nodes; i++) x->observed[i] = !x->o.observe || x->o.observe[i];
    return LS_OK;
}

ls_code ls_xla_create(ls_executor **out, const ls_graph *g, ls_checkpoint *c, ls_engine *engine, const ls_xla_options *xo, const ls_executor_options *o,
                      ls_error *e) {
    LS_TRY(ls_executor_options_check(o, g, e));
    LS_TRY(ls_graph_need_tensors(g, "backend xla", e));
    if (xo && xo->packed) LS_TRY(ls_emit_check_packed(g, e));
    ls_xla *x;
    LS_TRY(ls_calloc(&x, 1, sizeof *x, "XLA executor", e));
    x->base = (ls_executor){.name = "xla", .forward = forward, .length = length_of, .truncate = truncate_slot, .reserve = reserve, .memory = memory_of,
                            .destroy = destroy};
    x->g = g;
    x->c = c;
    x->engine = engine;
    x->o = *o;
    if (xo) x->xo = *xo;
    x->carrier = engine->traits.fast_int8_dot ? LS_CARRIER_I8 : engine->traits.keeps_f64 ? LS_CARRIER_F64 : LS_CARRIER_F32;
    x->alone = o->observer && !x->xo.observe_fused;
    if (!x->alone && !g->image_rows) x->base.sharing = &ls_xla_sharing;
    ls_code rc = set_buckets(x, e);
    if (!rc) rc = set_shape(x, e);
    if (!rc) rc = allocate(x, e);
    if (rc) {
        destroy(&x->base);
        return rc;
    }
    *out = &x->base;
    return LS_OK;
}

bool ls_xla_runs_nodes(const ls_executor *base) {
    const ls_xla *x = (const ls_xla *)(const void *)base;
    return x->alone || ls_xla_splits_images(x);
}

ls_xla_stats ls_xla_executor_stats(const ls_executor *base) { return ((const ls_xla *)(const void *)base)->stats; }
