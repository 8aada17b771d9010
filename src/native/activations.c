/* Layout of quantised activations, and the per-block part of their quantisation. */
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
        if (planes == 1) a->lead[i] = take(mem, &at, (cells << (3 - i)) * sizeof *a->lead[i]);
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

void ls_acts_put_sums(const ls_acts *a, int64_t row, int64_t block, const ls_block_sums *s) {
    for (int size = 0; size < LS_SUMS; size++) {
        if (!a->sum[size]) continue;
        const int n = 4 >> size, each = 1 << size; /* groups of the block; sixteens of a group */
        for (int p = 0; p < a->planes; p++) {
            int32_t *sum = ls_acts_sum(a, size, row, p) + block * n;
            for (int g = 0; g < n; g++) {
                sum[g] = 0;
                for (int i = 0; i < each; i++) sum[g] += s->plane[p][g * each + i];
            }
        }
        if (a->planes == 2) continue;
        uint32_t *lead = (uint32_t *)ls_acts_lead(a, size, row) + 2 * block * n;
        for (int g = 0; g < n; g++) {
            lead[2 * g] = 0;
            for (int i = 0; i < each; i++) lead[2 * g] += (uint32_t)s->cross[g * each + i];
        }
    }
}

static void forget_block(const ls_acts *a, int64_t row, int64_t block) {
    for (int i = 0; i < a->planes; i++) memset(ls_acts_plane(a, row, i) + block * LS_EXACT_BLOCK, 0, LS_EXACT_BLOCK * sizeof(int16_t));
    ls_acts_put_sums(a, row, block, &(ls_block_sums){0});
}

/* C of groups of one size in one block: |n| of them, whose mantissas shift by |drop|. */
static void finish_means(const ls_acts *a, int size, int64_t row, int64_t block, int n, int drop) {
    const int32_t *high = ls_acts_sum(a, size, row, 0) + block * n, *low = ls_acts_sum(a, size, row, a->planes - 1) + block * n;
    int32_t *out = ls_acts_mean(a, size, row) + block * n, half = (1 << drop) >> 1;
    for (int g = 0; g < n; g++) out[g] = ((a->planes == 1 ? high[g] : high[g] * 4096 + low[g]) + half) >> drop;
}

/* From sums of products what kernels begin with. */
static void finish_lead(const ls_acts *a, int size, int64_t row, int64_t block, int n, int drop) {
    uint32_t *lead = (uint32_t *)ls_acts_lead(a, size, row) + 2 * block * n, half = (1u << drop) >> 1;
    for (int g = 0; g < n; g++) {
        lead[2 * g] = half - lead[2 * g];
        lead[2 * g + 1] = (uint32_t)drop;
    }
}

void ls_acts_finish(const ls_acts *a, int64_t row) {
    int32_t *drop = a->drop + row * a->blocks, *half = a->half + row * a->blocks, e = LS_EXACT_MIN_EXP;
    for (int64_t b = 0; b < a->blocks; b++)
        if (drop[b] > e) e = drop[b];
    for (int64_t b = 0; b < a->blocks; b++) {
        drop[b] = e - drop[b];
        if (drop[b] > LS_EXACT_MAX_DROP) {
            drop[b] = 0;
            forget_block(a, row, b);
        }
        half[b] = (1 << drop[b]) >> 1;
    }
    for (int size = 0; size < LS_SUMS; size++)
        for (int64_t b = 0; b < a->blocks; b++) {
            if (a->mean[size]) finish_means(a, size, row, b, 4 >> size, drop[b]);
            if (a->lead[size]) finish_lead(a, size, row, b, 4 >> size, drop[b]);
        }
    a->factor[row] = ls_pow2(e - 127 - (a->planes == 1 ? LS_EXACT_P16 : LS_EXACT_P24));
}

void ls_acts_copy_row(const ls_acts *to, int64_t i, const ls_acts *from, int64_t j) {
    size_t blocks = (size_t)from->blocks;
    memcpy(ls_acts_plane(to, i, 0), ls_acts_plane(from, j, 0), (size_t)from->planes * blocks * LS_EXACT_BLOCK * sizeof(int16_t));
    for (int size = 0; size < LS_SUMS; size++) {
        size_t groups = blocks << (2 - size);
        if (from->sum[size]) memcpy(ls_acts_sum(to, size, i, 0), ls_acts_sum(from, size, j, 0), (size_t)from->planes * groups * sizeof(int32_t));
        if (from->mean[size]) memcpy(ls_acts_mean(to, size, i), ls_acts_mean(from, size, j), groups * sizeof(int32_t));
        if (from->lead[size]) memcpy(ls_acts_lead(to, size, i), ls_acts_lead(from, size, j), 2 * groups * sizeof(int32_t));
    }
    memcpy(to->drop + i * to->blocks, from->drop + j * from->blocks, blocks * sizeof *to->drop);
    memcpy(to->half + i * to->blocks, from->half + j * from->blocks, blocks * sizeof *to->half);
    to->factor[i] = from->factor[j];
}
