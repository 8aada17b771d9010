/* Blocks of keys and values of the XLA executor, for the prefix cache: they rest on the host, and two modules copy one between there and a slot's
 * place in the caches. A block is f32 [2, L, LS_XLA_BLOCK, kv, d], keys first, and has one holder: slots keep copies. */
#include "xla/executor_internal.h"

static ls_tensor_type block_type(const ls_xla *x) {
    return (ls_tensor_type){.dtype = LS_DT_F32, .rank = 5, .dim = {2, x->g->n_caches, LS_XLA_BLOCK, x->kv_heads, x->head_dim}};
}

static size_t block_floats(const ls_xla *x) { return 2 * (size_t)x->g->n_caches * LS_XLA_BLOCK * (size_t)x->kv_heads * (size_t)x->head_dim; }

size_t ls_xla_block_bytes(const ls_executor *base) { return block_floats((const ls_xla *)(const void *)base) * sizeof(float); }

static ls_code create(ls_executor *base, void **block, ls_error *e) {
    ls_xla *x = (ls_xla *)(void *)base;
    float *made;
    LS_TRY(ls_calloc(&made, block_floats(x), sizeof *made, "block of keys and values", e));
    x->n_blocks++;
    *block = made;
    return LS_OK;
}

static void release(ls_executor *base, void *block) {
    if (block) ((ls_xla *)(void *)base)->n_blocks--;
    ls_free(block);
}

static uint8_t *contents(void *block) { return block; }

/* The places of block |index| of |slot|: in[0] and in[1], the caller's to free. */
static ls_code upload_place(ls_xla *x, int slot, int index, ls_buffer *in[2], ls_error *e) {
    int32_t number = slot, place = index * LS_XLA_BLOCK;
    LS_TRY(ls_xla_upload_i32(x, &in[0], &number, 0, e));
    return ls_xla_upload_i32(x, &in[1], &place, 0, e);
}

static ls_code read_block(ls_xla *x, int slot, int index, float *to, ls_error *e) {
    ls_xla_module *m;
    ls_buffer *in[4] = {0}, *result = NULL;
    LS_TRY(ls_xla_get(x, &m, LS_ENTRY_EXTEND, LS_XLA_READ_BLOCK, LS_XLA_BLOCK, 1, e));
    ls_code rc = upload_place(x, slot, index, in, e);
    in[2] = x->k;
    in[3] = x->v;
    if (!rc) rc = ls_xla_run(x, m, in, 4, &result, e);
    if (!rc) rc = x->engine->ops->read(x->engine, result, to, block_floats(x) * sizeof *to, e);
    ls_xla_free_buffers(x, in, 2);
    x->engine->ops->free_buffer(x->engine, result);
    return rc;
}

/* The caches are donated: what the module gives takes their place. */
static ls_code write_block(ls_xla *x, int slot, int index, const float *from, ls_error *e) {
    ls_tensor_type t = block_type(x);
    ls_xla_module *m;
    ls_buffer *in[5] = {0}, *result[2] = {0};
    LS_TRY(ls_xla_get(x, &m, LS_ENTRY_EXTEND, LS_XLA_WRITE_BLOCK, LS_XLA_BLOCK, 1, e));
    ls_code rc = upload_place(x, slot, index, in, e);
    if (!rc) rc = x->engine->ops->upload(x->engine, &in[2], &t, from, e);
    in[3] = x->k;
    in[4] = x->v;
    if (!rc) rc = ls_xla_run(x, m, in, 5, result, e);
    ls_xla_free_buffers(x, in, 3);
    if (rc) return rc;
    ls_xla_free_buffers(x, &x->k, 1);
    ls_xla_free_buffers(x, &x->v, 1);
    x->k = result[0];
    x->v = result[1];
    return LS_OK;
}

static ls_code hold(ls_executor *base, int slot, int index, void **out, ls_error *e) {
    void *block;
    LS_TRY(create(base, &block, e));
    ls_code rc = read_block((ls_xla *)(void *)base, slot, index, block, e);
    if (rc) release(base, block);
    else *out = block;
    return rc;
}

/* Blocks end within the capacity, which is a multiple of their size; what the last one holds past |length| is overwritten by the next rows. */
static ls_code attach(ls_executor *base, int slot, void *const *block, int n, int length, ls_error *e) {
    ls_xla *x = (ls_xla *)(void *)base;
    if (slot < 0 || slot >= x->o.max_seqs || x->length[slot]) LS_FAIL(e, LS_INVALID_ARGUMENT, "slot %d does not exist or is not empty", slot);
    if (length > x->o.context) LS_FAIL(e, LS_OUT_OF_RANGE, "%d positions do not fit the context of %d", length, x->o.context);
    if (length < 1 || n != (length + LS_XLA_BLOCK - 1) / LS_XLA_BLOCK)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "%d positions in %d blocks of %d", length, n, (int)LS_XLA_BLOCK);
    LS_TRY(ls_xla_grow(x, length, e));
    for (int i = 0; i < n; i++) LS_TRY(write_block(x, slot, i, block[i], e));
    x->length[slot] = length;
    return LS_OK;
}

const ls_block_sharing ls_xla_sharing = {.layout = "xla-kv/1", .positions = LS_XLA_BLOCK, .bytes = ls_xla_block_bytes, .hold = hold, .release = release,
                                         .attach = attach, .create = create, .contents = contents};
