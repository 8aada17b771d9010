/* The faults of negative.h. */
#include "verify/negative.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/detmath.h"
#include "contract/exact.h"
#include "graph/batch.h"

enum { KV_ROWS_MAX = 1 << 20, BIT_MAX = 22 };

/* Rows that one attention node has seen: the fault that computes attention needs all of them. */
typedef struct seen {
    float *q, *k, *v; /* of the pass [rows, heads * head_dim]; of all passes [n, kv_heads * head_dim] */
    size_t cap_q, cap_k, cap_v, n;
} seen;

typedef struct kind kind;

struct ls_fault {
    const kind *kind;
    const ls_graph *g;
    ls_fault_prompt prompt;
    bool causal;      /* passes lose their blocks */
    ls_graph copy;    /* nodes: a copy; the rest borrowed */
    size_t node;      /* node: which */
    int bit;
    bool planted;     /* faults that happen once */
    bool expressed;   /* this run's tokens gave it something to change */
    seen *attention;  /* [n_nodes], mask-multiplied */
    float *row;       /* one row of heads, identity-permutation */
    size_t cap_row;
    ls_code failed;
};

struct kind {
    const char *name, *meaning;
    /* Checks that the fault applies; may change f->copy.nodes. */
    ls_code (*prepare)(ls_fault *f, const char *argument, ls_error *e);
    bool (*needs)(const ls_fault *f, size_t node); /* NULL: none */
    void (*before)(ls_fault *f, size_t node, float *values, int64_t rows, int64_t cols, int64_t position);
    void (*after)(ls_fault *f, size_t node, float *values, int64_t rows, int64_t cols);
};

static const ls_node *node_at(const ls_fault *f, size_t i) { return &f->g->nodes[i]; }

/* ---- Faults that are attributes of the graph ----------------------------------------------------------------------------- */

static ls_code scale_embedding(ls_fault *f, const char *argument, ls_error *e) {
    (void)argument;
    bool scaled = false;
    for (size_t i = 0; i < f->g->n_nodes; i++) {
        if (node_at(f, i)->op != LS_OP_EMBED || node_at(f, i)->scale == 1.0f) continue;
        f->copy.nodes[i].scale *= node_at(f, i)->scale;
        scaled = true;
    }
    if (!scaled) LS_FAIL(e, LS_FAILED_PRECONDITION, "embedding-scaled-twice does not apply: %s does not scale its embeddings", f->g->architecture);
    return LS_OK;
}

static ls_code drop_prescale(ls_fault *f, const char *argument, ls_error *e) {
    (void)argument;
    bool scaled = false;
    for (size_t i = 0; i < f->g->n_nodes; i++) {
        if (node_at(f, i)->op != LS_OP_ATTENTION || node_at(f, i)->scale == 1.0f) continue;
        f->copy.nodes[i].scale = 1.0f;
        scaled = true;
    }
    if (!scaled) LS_FAIL(e, LS_FAILED_PRECONDITION, "prescale-missing does not apply: %s attends without a scale", f->g->architecture);
    return LS_OK;
}

static bool is_scaled_embedding(const ls_fault *f, size_t node) { return node_at(f, node)->op == LS_OP_EMBED && node_at(f, node)->scale != 1.0f; }

static void see_embedding(ls_fault *f, size_t node, float *values, int64_t rows, int64_t cols, int64_t position) {
    (void)position;
    for (int64_t i = 0; is_scaled_embedding(f, node) && i < rows * cols; i++) f->expressed |= values[i] != 0.0f;
}

static bool is_scaled_attention(const ls_fault *f, size_t node) { return node_at(f, node)->op == LS_OP_ATTENTION && node_at(f, node)->scale != 1.0f; }

/* The softmax of a single score is 1, however it is scaled. */
static void see_attention(ls_fault *f, size_t node, float *values, int64_t rows, int64_t cols, int64_t position) {
    (void)values;
    (void)cols;
    f->expressed |= is_scaled_attention(f, node) && position + rows > 1;
}

static ls_span block_at(const ls_fault *f, int64_t position) {
    return f->prompt.block && (size_t)position < f->prompt.n ? f->prompt.block[position] : (ls_span){0, 0};
}

static bool has_blocks(const ls_fault *f) {
    for (size_t i = 0; f->prompt.block && i < f->prompt.n; i++)
        if (f->prompt.block[i].end - f->prompt.block[i].begin > 1) return true;
    return false;
}

/* Image blocks of a prompt are the pass's, not the graph's: there only a tower has bidirectional nodes. */
static ls_code make_causal(ls_fault *f, const char *argument, ls_error *e) {
    (void)argument;
    bool changed = f->causal = has_blocks(f);
    for (size_t i = 0; i < f->g->n_nodes; i++) {
        changed |= node_at(f, i)->bidirectional;
        f->copy.nodes[i].bidirectional = false;
    }
    if (changed) return LS_OK;
    LS_FAIL(e, LS_FAILED_PRECONDITION, "causal-mask does not apply: every attention of %s is causal, none is meant to be bidirectional", f->g->architecture);
}

static bool is_bidirectional(const ls_fault *f, size_t node) {
    return node_at(f, node)->bidirectional || (f->causal && node_at(f, node)->op == LS_OP_ATTENTION);
}

static void see_causal(ls_fault *f, size_t node, float *values, int64_t rows, int64_t cols, int64_t position) {
    (void)values;
    (void)cols;
    bool later = !f->causal && rows > 1;
    for (int64_t i = 0; f->causal && i < rows; i++) later |= block_at(f, position + i).end > position + i + 1;
    f->expressed |= is_bidirectional(f, node) && later;
}

/* ---- Rotary positions off by one --------------------------------------------------------------------------------------------- */

static ls_code need_rope(ls_fault *f, const char *argument, ls_error *e) {
    (void)argument;
    for (size_t i = 0; i < f->g->n_nodes; i++)
        if (node_at(f, i)->op == LS_OP_ROPE) return LS_OK;
    LS_FAIL(e, LS_FAILED_PRECONDITION, "rope-off-by-one does not apply: %s has no rotary embedding", f->g->architecture);
}

static bool is_rope(const ls_fault *f, size_t node) { return node_at(f, node)->op == LS_OP_ROPE; }

/* Turns one head by the angles of one more position. */
static void turn(float *head, const ls_rope *r) {
    int half = r->rot_dim / 2;
    for (int i = 0; i < half; i++) {
        float *a = head + (r->interleaved ? 2 * i : i), *b = head + (r->interleaved ? 2 * i + 1 : i + half);
        double c = ls_det_cos(r->inv_freq[i]), s = ls_det_sin(r->inv_freq[i]), x = (double)*a, y = (double)*b;
        *a = ls_canon((float)(x * c - y * s));
        *b = ls_canon((float)(y * c + x * s));
    }
}

static void turn_more(ls_fault *f, size_t node, float *values, int64_t rows, int64_t cols, int64_t position) {
    (void)position;
    const ls_node *n = node_at(f, node);
    if (n->op != LS_OP_ROPE) return;
    f->expressed = true;
    for (int64_t i = 0; i < rows; i++)
        for (int h = 0; h < n->heads; h++) turn(values + i * cols + (int64_t)h * n->head_dim, &f->g->rope[n->rope]);
}

/* ---- Query heads read the key heads in the order of their numbers -------------------------------------------------------------- */

static bool is_grouped(const ls_node *n) { return n->op == LS_OP_ATTENTION && n->kv_heads > 1 && n->heads > n->kv_heads; }

static ls_code need_groups(ls_fault *f, const char *argument, ls_error *e) {
    (void)argument;
    for (size_t i = 0; i < f->g->n_nodes; i++)
        if (is_grouped(node_at(f, i))) return LS_OK;
    LS_FAIL(e, LS_FAILED_PRECONDITION, "identity-permutation does not apply: in %s every query head has its own key head, or all have one", f->g->architecture);
}

/* The grouped attention whose queries |node| are, or NULL. */
static const ls_node *queries_of(const ls_fault *f, size_t node) {
    for (size_t i = node + 1; i < f->g->n_nodes; i++)
        if (is_grouped(node_at(f, i)) && node_at(f, i)->in[0] == (int)node) return node_at(f, i);
    return NULL;
}

static bool is_permuted(const ls_fault *f, size_t node) { return is_grouped(node_at(f, node)) || queries_of(f, node); }

/* Head h belongs to key head h / group; the fault gives it h % kv_heads, by moving its query to a place of that key head
 * (|back| false) and the result back from there. */
static void permute(ls_fault *f, const ls_node *attention, float *values, int64_t rows, bool back) {
    int heads = attention->heads, kv = attention->kv_heads, d = attention->head_dim;
    size_t need = (size_t)heads * (size_t)d;
    if (f->cap_row < need) {
        if (ls_realloc(&f->row, need, sizeof *f->row, "fault", NULL)) {
            f->failed = LS_RESOURCE_EXHAUSTED;
            return;
        }
        f->cap_row = need;
    }
    for (int64_t i = 0; i < rows; i++) {
        float *row = values + i * (int64_t)need;
        memcpy(f->row, row, need * sizeof *row);
        for (int h = 0; h < heads; h++) {
            int place = h % kv * (heads / kv) + h / kv, to = back ? h : place, from = back ? place : h;
            memcpy(row + (size_t)to * (size_t)d, f->row + (size_t)from * (size_t)d, (size_t)d * sizeof *row);
        }
        f->expressed |= memcmp(f->row, row, need * sizeof *row) != 0;
    }
}

static void permute_queries(ls_fault *f, size_t node, float *values, int64_t rows, int64_t cols) {
    (void)cols;
    const ls_node *a = queries_of(f, node);
    if (a) permute(f, a, values, rows, false);
}

static void restore_heads(ls_fault *f, size_t node, float *values, int64_t rows, int64_t cols, int64_t position) {
    (void)cols;
    (void)position;
    if (is_grouped(node_at(f, node))) permute(f, node_at(f, node), values, rows, true);
}

/* ---- Scores times the mask ------------------------------------------------------------------------------------------------------- */

static ls_code need_attention(ls_fault *f, const char *argument, ls_error *e) {
    (void)argument;
    for (size_t i = 0; i < f->g->n_nodes; i++)
        if (node_at(f, i)->bidirectional)
            LS_FAIL(e, LS_FAILED_PRECONDITION, "mask-multiplied does not apply: the tower of %s hides no row from another", f->g->architecture);
    return ls_calloc(&f->attention, f->g->n_nodes, sizeof *f->attention, "fault", e);
}

static bool is_attended(const ls_fault *f, size_t node) {
    if (node_at(f, node)->op == LS_OP_ATTENTION) return true;
    for (size_t i = node + 1; i < f->g->n_nodes; i++)
        for (int j = 0; j < 3; j++)
            if (node_at(f, i)->op == LS_OP_ATTENTION && node_at(f, i)->in[j] == (int)node) return true;
    return false;
}

/* Copies |n| floats to place |at| of a growing array. */
static void keep(ls_fault *f, float **to, size_t *cap, size_t at, const float *values, size_t n) {
    if (at + n > *cap) {
        size_t bigger = 2 * (at + n);
        if (ls_realloc(to, bigger, sizeof **to, "fault", NULL)) {
            f->failed = LS_RESOURCE_EXHAUSTED;
            return;
        }
        *cap = bigger;
    }
    memcpy(*to + at, values, n * sizeof **to);
}

static void keep_inputs(ls_fault *f, size_t node, float *values, int64_t rows, int64_t cols) {
    size_t n = (size_t)rows * (size_t)cols;
    for (size_t i = node + 1; i < f->g->n_nodes; i++) {
        const ls_node *a = node_at(f, i);
        seen *s = &f->attention[i];
        if (a->op != LS_OP_ATTENTION || s->n > KV_ROWS_MAX) continue;
        if (a->in[0] == (int)node) keep(f, &s->q, &s->cap_q, 0, values, n);
        if (a->in[1] == (int)node) keep(f, &s->k, &s->cap_k, s->n * (size_t)cols, values, n);
        if (a->in[2] == (int)node) keep(f, &s->v, &s->cap_v, s->n * (size_t)cols, values, n);
    }
}

/* One head with a mask of ones and zeros that multiplies the scores: hidden keys get the score 0 and stay in the sum. Whether there
 * was a hidden key. */
static bool attend(const ls_node *n, const seen *s, const float *q, int kv_head, ls_span sees, int64_t keys, float *y) {
    int64_t stride = (int64_t)n->kv_heads * n->head_dim;
    double sum = 0, out[512] = {0};
    int d = n->head_dim < 512 ? n->head_dim : 512;
    bool hidden = false;
    for (int64_t j = 0; j < keys; j++) {
        const float *k = s->k + j * stride + (int64_t)kv_head * n->head_dim, *v = s->v + j * stride + (int64_t)kv_head * n->head_dim;
        bool visible = j >= sees.begin && j < sees.end;
        double score = 0;
        hidden |= !visible;
        for (int c = 0; visible && c < d; c++) score += (double)q[c] * (double)k[c];
        double w = ls_det_exp2(fmin(fmax(score * (double)n->scale * 1.4426950408889634, -500), 500));
        sum += w;
        for (int c = 0; c < d; c++) out[c] += w * (double)v[c];
    }
    for (int c = 0; c < d; c++) y[c] = ls_canon((float)(out[c] / sum));
    return hidden;
}

static void multiply_mask(ls_fault *f, size_t node, float *values, int64_t rows, int64_t cols, int64_t position) {
    const ls_node *n = node_at(f, node);
    seen *s = &f->attention[node];
    if (n->op != LS_OP_ATTENTION || f->failed) return;
    s->n += (size_t)rows;
    for (int64_t i = 0; i < rows; i++)
        for (int h = 0; h < n->heads; h++) {
            int64_t at = i * cols + (int64_t)h * n->head_dim;
            ls_span sees = ls_sees((int32_t)(position + i), n->window, block_at(f, position + i));
            f->expressed |= attend(n, s, s->q + at, h / (n->heads / n->kv_heads), sees, (int64_t)s->n, values + at);
        }
}

/* ---- Rows in the wrong order, and single bits ------------------------------------------------------------------------------------ */

static ls_code prepare_swap(ls_fault *f, const char *argument, ls_error *e) {
    (void)argument;
    if (!f->g->n_nodes || (f->g->nodes[0].op != LS_OP_EMBED && f->g->nodes[0].op != LS_OP_INPUT))
        LS_FAIL(e, LS_FAILED_PRECONDITION, "swapped-rows does not apply: %s does not begin with an embedding or patches", f->g->architecture);
    return LS_OK;
}

static bool is_first(const ls_fault *f, size_t node) {
    (void)f;
    return !node;
}

static void swap_rows(ls_fault *f, size_t node, float *values, int64_t rows, int64_t cols, int64_t position) {
    (void)position;
    if (node || rows < 2 || f->planted) return;
    f->planted = true;
    f->expressed = memcmp(values, values + cols, (size_t)cols * sizeof *values) != 0;
    for (int64_t c = 0; c < cols; c++) {
        float x = values[c];
        values[c] = values[cols + c];
        values[cols + c] = x;
    }
}

/* ---- Image rows of a prompt ---------------------------------------------------------------------------------------------------- */

static const float *image_row(const ls_fault *f, int64_t position) {
    return f->prompt.embedding && (size_t)position < f->prompt.n ? f->prompt.embedding[position] : NULL;
}

static bool is_embedding(const ls_fault *f, size_t node) { return node_at(f, node)->op == LS_OP_EMBED; }

static ls_code need_images(ls_fault *f, const char *argument, ls_error *e) {
    (void)argument;
    for (size_t i = 0; i < f->prompt.n; i++)
        if (image_row(f, (int64_t)i)) return LS_OK;
    LS_FAIL(e, LS_FAILED_PRECONDITION, "%s does not apply: the prompt has no image; give --image", f->kind->name);
}

/* As if rows that the projector made to be used as they are were scaled like a token's. */
static void scale_images(ls_fault *f, size_t node, float *values, int64_t rows, int64_t cols, int64_t position) {
    float scale = node_at(f, node)->scale;
    if (!is_embedding(f, node)) return;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t k = 0; image_row(f, position + i) && k < cols; k++) {
            float *v = &values[i * cols + k], was = *v;
            *v = ls_canon(was * scale);
            f->expressed |= *v != was;
        }
}

/* Begin of the |which|-th block of the prompt, or -1. */
static int64_t block_begin(const ls_fault *f, int which) {
    for (int64_t i = 0; f->prompt.block && (size_t)i < f->prompt.n; i = f->prompt.block[i].end > i ? f->prompt.block[i].end : i + 1)
        if (f->prompt.block[i].end > i && which-- == 0) return i;
    return -1;
}

static ls_code need_two_images(ls_fault *f, const char *argument, ls_error *e) {
    (void)argument;
    int64_t a = block_begin(f, 0), b = block_begin(f, 1);
    if (a < 0 || b < 0 || block_at(f, a).end - a != block_at(f, b).end - b)
        LS_FAIL(e, LS_FAILED_PRECONDITION, "swapped-images does not apply: the prompt has fewer than two images of equal length; give --image twice");
    return need_images(f, argument, e);
}

static void swap_images(ls_fault *f, size_t node, float *values, int64_t rows, int64_t cols, int64_t position) {
    int64_t a = block_begin(f, 0), b = block_begin(f, 1), n = block_at(f, a).end - a;
    if (!is_embedding(f, node)) return;
    for (int64_t i = 0; i < rows; i++) {
        int64_t p = position + i, other = p >= a && p < a + n ? p - a + b : p >= b && p < b + n ? p - b + a : -1;
        const float *from = other < 0 ? NULL : image_row(f, other);
        for (int64_t k = 0; from && k < cols; k++) {
            float v = ls_canon(from[k]);
            f->expressed |= v != values[i * cols + k];
            values[i * cols + k] = v;
        }
    }
}

/* ---- The last norm of a tower left out ------------------------------------------------------------------------------------------- */

static ls_code find_post_norm(ls_fault *f, const char *argument, ls_error *e) {
    (void)argument;
    for (f->node = 0; f->node < f->g->n_nodes; f->node++) {
        const char *last = strrchr(node_at(f, f->node)->name, '.');
        if (last && !strcmp(last, ".post_layernorm")) return LS_OK;
    }
    LS_FAIL(e, LS_FAILED_PRECONDITION, "post-layernorm-missing does not apply: %s has no post_layernorm; it is a fault of vision towers", f->g->architecture);
}

static bool is_around_norm(const ls_fault *f, size_t node) { return node == f->node || (int)node == node_at(f, f->node)->in[0]; }

static void keep_norm_input(ls_fault *f, size_t node, float *values, int64_t rows, int64_t cols) {
    if ((int)node == node_at(f, f->node)->in[0]) keep(f, &f->row, &f->cap_row, 0, values, (size_t)rows * (size_t)cols);
}

static void skip_norm(ls_fault *f, size_t node, float *values, int64_t rows, int64_t cols, int64_t position) {
    (void)position;
    size_t bytes = (size_t)rows * (size_t)cols * sizeof *values;
    if (node != f->node || f->failed) return;
    f->expressed |= memcmp(values, f->row, bytes) != 0;
    memcpy(values, f->row, bytes);
}

/* NAME or NAME@BIT. */
static ls_code find_node(ls_fault *f, const char *argument, ls_error *e) {
    const char *at = strrchr(argument, '@');
    size_t len = at ? (size_t)(at - argument) : strlen(argument);
    if (at) {
        char *end;
        long bit = strtol(at + 1, &end, 10);
        if (end == at + 1 || *end || bit < 0 || bit > BIT_MAX)
            LS_FAIL(e, LS_INVALID_ARGUMENT, "fault \"node:%.200s\": the bit after @ must be 0 to %d", argument, BIT_MAX);
        f->bit = (int)bit;
    }
    for (f->node = 0; f->node < f->g->n_nodes; f->node++) {
        const char *name = node_at(f, f->node)->name;
        if (strlen(name) == len && !memcmp(name, argument, len)) return LS_OK;
    }
    LS_FAIL(e, LS_NOT_FOUND, "fault \"node:%.200s\": the model has no such node; its first is \"%s\" and its last \"%s\"", argument, node_at(f, 0)->name,
            node_at(f, f->g->n_nodes - 1)->name);
}

static bool is_the_node(const ls_fault *f, size_t node) { return node == f->node; }

/* The largest magnitude of the last row, since later operators round small ones away. */
static void flip_bit(ls_fault *f, size_t node, float *values, int64_t rows, int64_t cols, int64_t position) {
    (void)position;
    if (node != f->node || !rows || f->planted) return;
    f->planted = f->expressed = true;
    float *row = values + (rows - 1) * cols, *largest = row;
    for (int64_t c = 1; c < cols; c++)
        if (fabsf(row[c]) > fabsf(*largest)) largest = row + c;
    *largest = *largest == 0.0f ? 1.0f : ls_from_bits(ls_bits(*largest) ^ 1u << f->bit);
}

/* ---- The table --------------------------------------------------------------------------------------------------------------------- */

static const kind kinds[] = {
    {"causal-mask", "a causal mask where attention is meant to be bidirectional", make_causal, is_bidirectional, see_causal, NULL},
    {"mask-multiplied", "scores are multiplied by the mask, so hidden keys keep the score 0", need_attention, is_attended, multiply_mask, keep_inputs},
    {"embedding-scaled-twice", "the factor of the embeddings is applied twice", scale_embedding, is_scaled_embedding, see_embedding, NULL},
    {"prescale-missing", "attention scores are not scaled", drop_prescale, is_scaled_attention, see_attention, NULL},
    {"rope-off-by-one", "queries and keys are turned as if one position later", need_rope, is_rope, turn_more, NULL},
    {"identity-permutation", "query head h reads key head h mod kv_heads instead of its group's", need_groups, is_permuted, restore_heads, permute_queries},
    {"post-layernorm-missing", "the last norm of a vision tower is left out", find_post_norm, is_around_norm, skip_norm, keep_norm_input},
    {"image-prescale-missing", "image rows are scaled like those of tokens", need_images, is_embedding, scale_images, NULL},
    {"swapped-images", "the rows of the first two images change places", need_two_images, is_embedding, swap_images, NULL},
    {"swapped-rows", "the first two rows of the embeddings or patches change places", prepare_swap, is_first, swap_rows, NULL},
    {"node:NAME[@BIT]", "one bit (0, the lowest, to 22) of one value of a node is flipped, once", find_node, is_the_node, flip_bit, NULL},
};
enum { N_KINDS = sizeof kinds / sizeof *kinds };

const char *ls_fault_name(size_t i) { return i < N_KINDS ? kinds[i].name : NULL; }
const char *ls_fault_meaning(size_t i) { return i < N_KINDS ? kinds[i].meaning : NULL; }

static const kind *find_kind(const char *name) {
    if (!strncmp(name, "node:", 5)) return &kinds[N_KINDS - 1];
    for (int i = 0; i < N_KINDS - 1; i++)
        if (!strcmp(kinds[i].name, name)) return &kinds[i];
    return NULL;
}

/* ---- Life ---------------------------------------------------------------------------------------------------------------------------- */

ls_code ls_fault_create(ls_fault **out, const ls_graph *g, const ls_fault_prompt *prompt, const char *name, ls_error *e) {
    const kind *k = find_kind(name);
    if (!k)
        LS_FAIL(e, LS_NOT_FOUND,
                "there is no fault \"%.100s\"; use causal-mask, mask-multiplied, embedding-scaled-twice, prescale-missing, rope-off-by-one, "
                "identity-permutation, post-layernorm-missing, image-prescale-missing, swapped-images, swapped-rows or node:NAME", name);
    ls_fault *f;
    LS_TRY(ls_calloc(&f, 1, sizeof *f, "fault", e));
    f->kind = k;
    f->g = g;
    if (prompt) f->prompt = *prompt;
    f->copy = *g;
    f->copy.nodes = NULL;
    ls_code rc = ls_calloc(&f->copy.nodes, g->n_nodes, sizeof *g->nodes, "fault", e);
    if (!rc) memcpy(f->copy.nodes, g->nodes, g->n_nodes * sizeof *g->nodes);
    if (!rc) rc = k->prepare(f, strncmp(name, "node:", 5) ? "" : name + 5, e);
    if (rc) {
        ls_fault_destroy(f);
        return rc;
    }
    *out = f;
    return LS_OK;
}

void ls_fault_destroy(ls_fault *f) {
    if (!f) return;
    for (size_t i = 0; f->attention && i < f->g->n_nodes; i++) {
        ls_free(f->attention[i].q);
        ls_free(f->attention[i].k);
        ls_free(f->attention[i].v);
    }
    ls_free(f->attention);
    ls_free(f->row);
    ls_free(f->copy.nodes);
    ls_free(f);
}

const ls_graph *ls_fault_graph(const ls_fault *f) { return &f->copy; }

void ls_fault_pass(const ls_fault *f, ls_batch *b) {
    if (f->causal) b->block = NULL;
}

void ls_fault_observe(const ls_fault *f, bool *mask) {
    for (size_t i = 0; f->kind->needs && i < f->g->n_nodes; i++)
        if (f->kind->needs(f, i)) mask[i] = true;
}

void ls_fault_reset(ls_fault *f) {
    f->planted = f->expressed = false;
    for (size_t i = 0; f->attention && i < f->g->n_nodes; i++) f->attention[i].n = 0;
}

void ls_fault_before(ls_fault *f, size_t node, float *values, int64_t rows, int64_t cols, int64_t position) {
    if (f->kind->before) f->kind->before(f, node, values, rows, cols, position);
}

void ls_fault_after(ls_fault *f, size_t node, float *values, int64_t rows, int64_t cols) {
    if (f->kind->after) f->kind->after(f, node, values, rows, cols);
}

ls_code ls_fault_status(const ls_fault *f, ls_error *e) {
    if (f->failed) LS_FAIL(e, f->failed, "the fault could not be planted: out of memory");
    return f->expressed ? LS_OK : ls_fault_unseen(f, e);
}

ls_code ls_fault_unseen(const ls_fault *f, ls_error *e) {
    LS_FAIL(e, LS_FAILED_PRECONDITION,
            "%s changes no value on these tokens, so nothing can report it; give a longer prompt of different tokens, in one pass (--chunk)", f->kind->name);
}
