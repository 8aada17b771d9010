/* Layout of quantised activations. */
#include "native/activations.h"

#include <string.h>

#include "contract/exact.h"

static size_t round64(size_t n) { return (n + 63) & ~(size_t)63; }

/* Gives the next array of |bytes| bytes at *at and moves on; |mem| NULL only counts. */
static void *take(void *mem, size_t *at, size_t bytes) {
    void *p = mem ? (uint8_t *)mem + *at : NULL;
    *at += round64(bytes);
    return p;
}

ls_acts_needs ls_acts_needs_of(const ls_weight_form *f) {
    if (!f->quantised) return 0;
    ls_acts_needs sum = 1u << (f->group == 16 ? LS_SUM_16 : f->group == 32 ? LS_SUM_32 : LS_SUM_64);
    return f->has_min ? sum | sum << LS_SUMS : sum;
}

static size_t lay_out(ls_acts *a, void *mem, ls_contract contract, int64_t rows, int64_t cols, ls_acts_needs needs) {
    *a = (ls_acts){.contract = contract, .planes = ls_contract_is_wide(contract) ? 2 : 1, .rows = rows, .cols = cols};
    a->blocks = (cols + LS_EXACT_BLOCK - 1) / LS_EXACT_BLOCK;
    size_t cells = (size_t)rows * (size_t)a->blocks, planes = (size_t)a->planes, at = 0;
    a->q = take(mem, &at, cells * planes * LS_EXACT_BLOCK * sizeof *a->q);
    a->drop = take(mem, &at, cells * sizeof *a->drop);
    a->half = take(mem, &at, cells * sizeof *a->half);
    for (int i = 0; i < LS_SUMS; i++) {
        if (!(needs >> i & 1)) continue;
        a->sum[i] = take(mem, &at, (cells * planes << (2 - i)) * sizeof *a->sum[i]);
        if (needs >> (LS_SUMS + i) & 1) a->mean[i] = take(mem, &at, (cells << (2 - i)) * sizeof *a->mean[i]);
        a->lead[i] = take(mem, &at, (cells * planes << (3 - i)) * sizeof *a->lead[i]);
    }
    a->factor = take(mem, &at, (size_t)rows * sizeof *a->factor);
    return at;
}

size_t ls_acts_bytes(ls_contract contract, int64_t rows, int64_t cols, ls_acts_needs needs) {
    ls_acts a;
    return lay_out(&a, NULL, contract, rows, cols, needs);
}

void ls_acts_bind(ls_acts *a, void *mem, ls_contract contract, int64_t rows, int64_t cols, ls_acts_needs needs) {
    lay_out(a, mem, contract, rows, cols, needs);
}

void ls_acts_copy_row(const ls_acts *to, int64_t i, const ls_acts *from, int64_t j) {
    size_t blocks = (size_t)from->blocks;
    memcpy(ls_acts_plane(to, i, 0), ls_acts_plane(from, j, 0), (size_t)from->planes * blocks * LS_EXACT_BLOCK * sizeof(int16_t));
    for (int size = 0; size < LS_SUMS; size++) {
        size_t groups = blocks << (2 - size);
        if (from->sum[size]) memcpy(ls_acts_sum(to, size, i, 0), ls_acts_sum(from, size, j, 0), (size_t)from->planes * groups * sizeof(int32_t));
        if (from->mean[size]) memcpy(ls_acts_mean(to, size, i), ls_acts_mean(from, size, j), groups * sizeof(int32_t));
        if (from->lead[size]) memcpy(ls_acts_lead(to, size, i, 0), ls_acts_lead(from, size, j, 0), 2 * (size_t)from->planes * groups * sizeof(int32_t));
    }
    memcpy(to->drop + i * to->blocks, from->drop + j * from->blocks, blocks * sizeof *to->drop);
    memcpy(to->half + i * to->blocks, from->half + j * from->blocks, blocks * sizeof *to->half);
    to->factor[i] = from->factor[j];
}
