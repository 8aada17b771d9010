/* What this machine can do, beside which bench/compare.py puts what engines reach: reading memory in huge pages, and 16-bit dot
 * products. usage: machine THREADS; prints one line of JSON: GB/s of the best of five readings, 10^9 multiply-adds per second. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#ifdef __AVX512VNNI__
#include <immintrin.h>
#endif

enum { BYTES = 512 << 20, HUGE_PAGE = 2 << 20, READINGS = 5, DOTS = 8000000 };

typedef struct share {
    const uint64_t *from;
    size_t n;
    uint64_t sum;
} share;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *read_share(void *arg) {
    share *s = arg;
    uint64_t sum[8] = {0};
    for (size_t i = 0; i < s->n; i += 64)
        for (int k = 0; k < 8; k++)
            for (int j = 0; j < 8; j++) sum[j] += s->from[i + 8 * (size_t)k + (size_t)j];
    for (int k = 0; k < 8; k++) s->sum += sum[k];
    return NULL;
}

static void *multiply(void *arg) {
    share *s = arg;
#ifdef __AVX512VNNI__
    __m512i x = _mm512_set1_epi32((int)s->n), a = x, b = x, c = x, d = x, e = x, f = x, g = x, h = x;
    for (int i = 0; i < DOTS; i++) {
        a = _mm512_dpwssd_epi32(a, x, x);
        b = _mm512_dpwssd_epi32(b, x, x);
        c = _mm512_dpwssd_epi32(c, x, x);
        d = _mm512_dpwssd_epi32(d, x, x);
        e = _mm512_dpwssd_epi32(e, x, x);
        f = _mm512_dpwssd_epi32(f, x, x);
        g = _mm512_dpwssd_epi32(g, x, x);
        h = _mm512_dpwssd_epi32(h, x, x);
        __asm__ volatile("" : "+v"(a), "+v"(b), "+v"(c), "+v"(d), "+v"(e), "+v"(f), "+v"(g), "+v"(h)); /* eight products a round, not one */
    }
    a = _mm512_xor_si512(_mm512_xor_si512(_mm512_xor_si512(a, b), _mm512_xor_si512(c, d)), _mm512_xor_si512(_mm512_xor_si512(e, f), _mm512_xor_si512(g, h)));
    s->sum += (uint64_t)_mm512_reduce_add_epi32(a);
#endif
    return NULL;
}

/* Seconds for all threads to do their share. */
static double timed(void *(*fn)(void *), share *s, int threads) {
    pthread_t id[64];
    double start = now();
    for (int i = 1; i < threads; i++) pthread_create(&id[i], NULL, fn, &s[i]);
    fn(&s[0]);
    for (int i = 1; i < threads; i++) pthread_join(id[i], NULL);
    return now() - start;
}

int main(int argc, char **argv) {
    int threads = argc > 1 ? atoi(argv[1]) : 1;
    if (threads < 1 || threads > 64) return 2;
    uint64_t *memory = aligned_alloc(HUGE_PAGE, BYTES);
    share s[64] = {{0}};
    double best = 1e9, products = 1e9;
    if (!memory) return 1;
    madvise(memory, BYTES, MADV_HUGEPAGE);
    memset(memory, 1, BYTES);
    for (int i = 0; i < threads; i++) s[i] = (share){.from = memory + (size_t)(BYTES / 8 / threads * i), .n = (size_t)(BYTES / 8 / threads) & ~(size_t)63};
    for (int r = 0; r < READINGS; r++) {
        double t = timed(read_share, s, threads);
        if (t < best) best = t;
        t = timed(multiply, s, threads);
        if (t < products) products = t;
    }
    printf("{\"read_gb_per_second\": %.2f, \"gmac_per_second\": ", BYTES * 1e-9 / best);
#ifdef __AVX512VNNI__
    printf("%.1f}\n", threads * (double)DOTS * 8 * 32 * 1e-9 / products);
#else
    printf("null}\n");
#endif
    free(memory);
    return s[0].sum == 42;
}
