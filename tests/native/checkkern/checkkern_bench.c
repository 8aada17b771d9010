/* Timing of the linear kernels, from the table that checks them: one row of activations (GB of packed weights per second)
 * and 64 rows (billions of multiply-adds per second), on a matrix that fits the second-level cache and on a large one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "checkkern.h"

enum { COLS = 1536, SMALL = 576, LARGE = 16384, ROWS = 64, BATCHES = 15 };

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

typedef struct timing {
    double min, median; /* seconds a call */
} timing;

static timing measure(ls_linear_fn *fn, const ls_packed *w, const ls_acts *x, int64_t rows, float *y, void *scratch) {
    ls_linear_out out = {.y = y, .stride = w->rows};
    double batch[BATCHES];
    int repeats = 1;
    fn(w, 0, w->tiles, x, 0, rows, &out, scratch);
    double first = now();
    fn(w, 0, w->tiles, x, 0, rows, &out, scratch);
    first = now() - first;
    while (repeats < 1000 && first * repeats < 4e-3) repeats *= 2;
    for (int i = 0; i < BATCHES; i++) {
        double t = now();
        for (int j = 0; j < repeats; j++) fn(w, 0, w->tiles, x, 0, rows, &out, scratch);
        batch[i] = (now() - t) / repeats;
    }
    qsort(batch, BATCHES, sizeof *batch, ascending);
    return (timing){batch[0], batch[BATCHES / 2]};
}

/* The format that stands for a kind of storage. */
static const char *format_of(ls_pack_kind kind) {
    static const char *const names[LS_PACK_COUNT] = {"Q2_K", "Q3_K", "Q4_1", "Q5_1", "Q6_K", "Q8_0", "IQ4_NL", "BF16", "F16", "F32", "BF16", "F16", "F32"};
    return names[kind];
}

static void bench_kernel(const ls_kernel_info *k, const ls_kernels *level, const ck_format *f, int64_t n, ls_pool *pool) {
    ls_error e = {0};
    ck_rng r = {n};
    ck_tensor t;
    ls_packed w;
    ls_acts a;
    void *mem = NULL;
    float *x = NULL, *y = NULL;
    ck_tensor_init(&t, f, n, COLS, CK_W_RANDOM, &r);
    if (ls_pack(&w, &t.t, 0, n, k->contract, NULL, pool, NULL, &e) || 
        ls_alloc_aligned(&mem, ls_acts_bytes(k->contract, ROWS, COLS, LS_ACTS_ALL), 1, "bench", &e) ||
        ls_calloc(&x, ROWS * COLS, sizeof *x, "bench", &e) || ls_calloc(&y, (size_t)(ROWS * n), sizeof *y, "bench", &e)) {
        fprintf(stderr, "checkkern: %s\n", e.text);
        exit(2);
    }
    ck_fill(x, ROWS * COLS, CK_X_RANDOM, &r);
    ls_acts_bind(&a, mem, k->contract, ROWS, COLS, ls_acts_needs_of(&w.form));
    for (int i = 0; i < ROWS; i++) level->quantise[k->contract](&a, i, x + i * COLS);
    timing one = measure(k->linear, &w, &a, 1, y, ls_pool_scratch(pool, 0)), many = measure(k->linear, &w, &a, ROWS, y, ls_pool_scratch(pool, 0));
    double gb = 1e-9 * (double)ls_packed_bytes(&w), macs = 1e-9 * (double)n * COLS * ROWS;
    printf("%-28s %-7s %6lld x %d  %7.2f %7.2f GB/s  %7.1f %7.1f Gmac/s\n", k->name, f->name, (long long)n, COLS, gb / one.min, gb / one.median,
           macs / many.min, macs / many.median);
    fflush(stdout);
    ck_tensor_deinit(&t);
    ls_packed_deinit(&w);
    ls_free(mem);
    ls_free(x);
    ls_free(y);
}

void ck_bench(const ls_cpu *cpu, const char *only, ls_pool *pool) {
    size_t n;
    const ls_kernel_info *k = ls_kernel_table(&n);
    printf("%-28s %-7s %-14s  one row: best, median   %d rows: best, median\n", "kernel", "format", "outputs x K", ROWS);
    for (size_t i = 0; i < n; i++) {
        if (!k[i].linear || !cpu->has[k[i].level] || (only && !strstr(k[i].name, only))) continue;
        for (size_t f = 0; f < ck_n_formats; f++) {
            if (strcmp(ck_formats[f].name, format_of(k[i].kind))) continue;
            bench_kernel(&k[i], ls_kernels_of(k[i].level), &ck_formats[f], SMALL, pool);
            if (k[i].kind == LS_PACK_W4 || k[i].kind == LS_PACK_W8) bench_kernel(&k[i], ls_kernels_of(k[i].level), &ck_formats[f], LARGE, pool);
        }
    }
}
