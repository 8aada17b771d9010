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

static size_t lay_out(ls_acts *a, void *mem, ls_contract contract, int64_t rows, int64_t cols) {
    *a = (ls_acts){.contract = contract, .planes = ls_contract_is_wide(contract) ? 2 : 1, .rows = rows, .cols = cols};
    a->blocks = (cols + LS_EXACT_BLOCK - 1) / LS_EXACT_BLOCK;
    size_t cells = (size_t)rows * (size_t)a->blocks, planes = (size_t)a->planes, at = 0;
    a->q = take(mem, &at, cells * planes * LS_EXACT_BLOCK * sizeof *a->q);
    a->drop = take(mem, &at, cells * sizeof *a->drop);
    a->half = take(mem, &at, cells * sizeof *a->half);
    for (int i = 0; i < LS_SUMS; i++) {
        a->sum[i] = take(mem, &at, (cells * planes << (2 - i)) * sizeof *a->sum[i]);
        a->mean[i] = take(mem, &at, (cells << (2 - i)) * sizeof *a->mean[i]);
        if (planes == 1) a->lead[i] = take(mem, &at, (cells << (3 - i)) * sizeof *a->lead[i]);
    }
    a->factor = take(mem, &at, (size_t)rows * sizeof *a->factor);
    return at;
}

size_t ls_acts_bytes(ls_contract contract, int64_t rows, int64_t cols) {
    ls_acts a;
    return lay_out(&a, NULL, contract, rows, cols);
}

void ls_acts_bind(ls_acts *a, void *mem, ls_contract contract, int64_t rows, int64_t cols) { lay_out(a, mem, contract, rows, cols); }

static void forget_block(const ls_acts *a, int64_t row, int64_t b) {
    if (a->planes == 1) memset(ls_acts_lead(a, LS_SUM_16, row) + b * 8, 0, 8 * sizeof(int32_t));
    for (int i = 0; i < a->planes; i++) {
        memset(ls_acts_plane(a, row, i) + b * LS_EXACT_BLOCK, 0, LS_EXACT_BLOCK * sizeof(int16_t));
        memset(ls_acts_sum(a, LS_SUM_16, row, i) + b * 4, 0, 4 * sizeof(int32_t));
    }
}

/* Sums of 32 and 64 columns from sums of 16, then C of every size. */
static void finish_sums(const ls_acts *a, int64_t row, const int32_t *drop) {
    for (int i = 0; i < a->planes; i++)
        for (int size = LS_SUM_32; size < LS_SUMS; size++) {
            const int32_t *in = ls_acts_sum(a, size - 1, row, i);
            int32_t *out = ls_acts_sum(a, size, row, i);
            for (int64_t g = 0; g < a->blocks << (2 - size); g++) out[g] = in[2 * g] + in[2 * g + 1];
        }
    for (int size = 0; size < LS_SUMS; size++) {
        const int32_t *high = ls_acts_sum(a, size, row, 0), *low = ls_acts_sum(a, size, row, a->planes - 1);
        int32_t *out = ls_acts_mean(a, size, row);
        for (int64_t g = 0; g < a->blocks << (2 - size); g++) {
            int32_t x = a->planes == 1 ? high[g] : high[g] * 4096 + low[g], n = drop[g >> (2 - size)];
            out[g] = (x + ((1 << n) >> 1)) >> n;
        }
    }
}

/* From sums of products over 16 columns those over 32 and 64, then what kernels begin with. */
static void finish_lead(const ls_acts *a, int64_t row, const int32_t *drop, const int32_t *half) {
    for (int size = LS_SUM_32; size < LS_SUMS; size++) {
        const uint32_t *in = (const uint32_t *)ls_acts_lead(a, size - 1, row);
        uint32_t *out = (uint32_t *)ls_acts_lead(a, size, row);
        for (int64_t g = 0; g < a->blocks << (2 - size); g++) out[2 * g] = in[4 * g] + in[4 * g + 2];
    }
    for (int size = 0; size < LS_SUMS; size++) {
        uint32_t *lead = (uint32_t *)ls_acts_lead(a, size, row);
        for (int64_t g = 0; g < a->blocks << (2 - size); g++) {
            lead[2 * g] = (uint32_t)half[g >> (2 - size)] - lead[2 * g];
            lead[2 * g + 1] = (uint32_t)drop[g >> (2 - size)];
        }
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
    finish_sums(a, row, drop);
    if (a->planes == 1) finish_lead(a, row, drop, half);
    a->factor[row] = ls_pow2(e - 127 - (a->planes == 1 ? LS_EXACT_P16 : LS_EXACT_P24));
}

void ls_acts_copy_row(const ls_acts *to, int64_t i, const ls_acts *from, int64_t j) {
    size_t blocks = (size_t)from->blocks;
    for (int p = 0; p < from->planes; p++) {
        memcpy(ls_acts_plane(to, i, p), ls_acts_plane(from, j, p), blocks * LS_EXACT_BLOCK * sizeof(int16_t));
        for (int size = 0; size < LS_SUMS; size++)
            memcpy(ls_acts_sum(to, size, i, p), ls_acts_sum(from, size, j, p), (blocks << (2 - size)) * sizeof(int32_t));
    }
    for (int size = 0; size < LS_SUMS; size++) {
        memcpy(ls_acts_mean(to, size, i), ls_acts_mean(from, size, j), (blocks << (2 - size)) * sizeof(int32_t));
        if (from->planes == 1) memcpy(ls_acts_lead(to, size, i), ls_acts_lead(from, size, j), (blocks << (3 - size)) * sizeof(int32_t));
    }
    memcpy(to->drop + i * to->blocks, from->drop + j * from->blocks, blocks * sizeof *to->drop);
    memcpy(to->half + i * to->blocks, from->half + j * from->blocks, blocks * sizeof *to->half);
    to->factor[i] = from->factor[j];
}
