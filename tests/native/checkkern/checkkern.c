/* checkkern: the driver. Planted bugs first, then golden digests of the reference, then every kernel of every level.
 *
 *     checkkern [--only TEXT] [--seed N]   check the kernels whose name contains TEXT
 *     checkkern --bench [--only TEXT]      time them
 *     checkkern --digests                  print the digests of fixtures/native/linear_digests.txt
 *
 * Names that end in "-emulated" are kernels whose instructions are emulated in part.
 * LS_REQUIRE_LEVELS ("avx2,avx512" or "neon,neon-dotprod,neon-i8mm") makes a level that this machine lacks a failure instead of a skip. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sha256.h"
#include "checkkern.h"

enum { MAX_FAILURES = 10 };

static int passed, failed;

static void report(const char *name, int bad, const char *why) {
    printf("%s %s%s%s\n", bad ? "[  FAILED  ]" : "[       OK ]", name, bad ? ": " : "", bad ? why : "");
    if (bad) failed++;
    else passed++;
}

/* ---- The cases of one format ---------------------------------------------------------------------------------------- */

typedef void case_fn(void *ctx, ck_ready *z);

static void with_case(const ck_case *c, ls_pool *pool, case_fn *fn, void *ctx) {
    ck_ready z;
    ck_ready_init(&z, c, pool);
    fn(ctx, &z);
    ck_ready_deinit(&z);
}

/* Sizes around every unit: tiles of 16, spans of 32, blocks of 64, pieces of 384 and 2048 columns, 4, 8, 32 and 256 rows. */
static void sweep(const ck_format *f, ls_contract contract, uint64_t seed, ls_pool *pool, case_fn *fn, void *ctx) {
    static const int64_t outputs[] = {1, 15, 16, 17, 31, 33, 48, 66}, rows[] = {1, 2, 3, 4, 5, 7, 8, 9, 16, 31, 33, 65, 97};
    int granule = ck_granule(f), i = 0;
    ck_case c = {.format = f, .contract = contract};
    for (int64_t k = granule; k <= (granule == 1 ? 200 : granule < 256 ? 12 * granule : 3 * granule); k += granule, i++)
        for (int side = 0; side < 2; side++) {
            c = (ck_case){f, contract, outputs[(i + side) % 8], k, rows[(i + 3 * side) % 13], (ck_weights)(i % 4 ? 0 : i / 4 % CK_W_KINDS),
                          (ck_inputs)(i % 3 ? 0 : i / 3 % CK_X_KINDS), (ck_side)side, i % 2 == 1, seed + (uint64_t)(2 * i + side)};
            with_case(&c, pool, fn, ctx);
        }
    for (int w = 0; w < CK_W_KINDS; w++)
        for (int x = 0; x < CK_X_KINDS; x++, i++) {
            int64_t k = (granule == 1 ? 333 : granule) * (x + 1);
            c = (ck_case){f, contract, 17, k, rows[i % 13], (ck_weights)w, (ck_inputs)x, (ck_side)(i & 1), i % 2 == 0, seed + 1000 + (uint64_t)i};
            with_case(&c, pool, fn, ctx);
        }
    static const int64_t wide[] = {2048, 2304, 4352, LS_LINEAR_CHUNK * 16};
    for (int j = 0; j < 4; j++, i++) {
        const int64_t n = j == 3 ? 34 : 18, t = j == 3 ? 5 : j == 2 ? 32 : 70 / (j + 1);
        c = (ck_case){f, contract, n, wide[j], t, j == 3 ? CK_W_ONES : CK_W_RANDOM, j == 3 ? CK_X_LARGEST : CK_X_RANDOM,
                      (ck_side)(j & 1), false, seed + 2000 + (uint64_t)j};
        with_case(&c, pool, fn, ctx);
    }
    const int64_t tall[] = {granule <= 32 ? 352 : 256, granule <= 32 ? 416 : 512, 768};
    for (int j = 0; j < 3; j++) {
        c = (ck_case){f, contract, 34, tall[j], LS_LINEAR_TOKENS + 3, CK_W_RANDOM, CK_X_RANDOM, (ck_side)(j & 1), true, seed + 3000 + (uint64_t)j};
        with_case(&c, pool, fn, ctx);
    }
}

/* The largest sums of many rows, blocks of activations whose sums are shifted out, and every code of float weights, for kernels only: digests are of
 * sweep(). */
static void extremes(const ck_format *f, ls_contract contract, uint64_t seed, ls_pool *pool, case_fn *fn, void *ctx) {
    static const ck_weights weights[] = {CK_W_ONES, CK_W_ALTERNATING};
    static const ck_inputs inputs[] = {CK_X_LARGEST, CK_X_ALTERNATING};
    static const int64_t odd[] = {320, 544, 2080, 320}, even[] = {256, 576, 2112, 256}; /* spans: odd in one piece, and in the last of several */
    for (int j = 0; j < 4; j++) {
        const int64_t k = ck_granule(f) <= 32 ? odd[j] : ck_granule(f) <= 64 ? even[j] : 256;
        ck_case c = {f, contract, 17, k, 34, weights[j / 2], inputs[j % 2], (ck_side)(j & 1), false, seed + 4000 + (uint64_t)j};
        with_case(&c, pool, fn, ctx);
    }
    static const int64_t rows[] = {1, 15, 34}; /* alone; in all blocks of rows; many */
    for (int j = 0; j < 3; j++) {
        ck_case c = {f, contract, 64, 1024, rows[j], CK_W_RANDOM, CK_X_APART, (ck_side)(j & 1), false, seed + 6000 + (uint64_t)j};
        with_case(&c, pool, fn, ctx);
    }
    if (f->format != LS_F16 && f->format != LS_BF16) return;
    for (int j = 0; j < 3; j++) {
        ck_case c = {f, contract, 131, 832, rows[j], CK_W_EVERY, CK_X_RANDOM, (ck_side)(j & 1), false, seed + 5000 + (uint64_t)j};
        with_case(&c, pool, fn, ctx);
    }
}

static void sweep_all(uint64_t seed, ls_pool *pool, case_fn *fn, void *ctx) {
    for (size_t f = 0; f < ck_n_formats; f++)
        for (int contract = 0; contract < 2; contract++) {
            sweep(&ck_formats[f], (ls_contract)contract, seed, pool, fn, ctx);
            extremes(&ck_formats[f], (ls_contract)contract, seed, pool, fn, ctx);
        }
}

static void describe(char *to, size_t n, const ck_case *c, const char *why) {
    snprintf(to, n, "%s %s n=%lld k=%lld t=%lld weights=%d inputs=%d side=%d bias=%d seed=%llu: %s", c->format->name, ls_contract_name(c->contract),
             (long long)c->n, (long long)c->k, (long long)c->t, (int)c->weights, (int)c->inputs, (int)c->side, c->bias, (unsigned long long)c->seed, why);
}

/* ---- Planted bugs ------------------------------------------------------------------------------------------------- */

typedef struct bug_run {
    const ck_bug *bug;
    int cases, caught;
    char why[600];
} bug_run;

static void try_bug(void *ctx, ck_ready *z) {
    bug_run *b = ctx;
    char why[256] = "";
    if (b->caught) return;
    ck_bugs_see(z);
    b->cases++;
    if (!(b->bug->linear ? ck_check_linear(z, b->bug->linear, why) : ck_check_quantise(z, b->bug->quantise, why))) return;
    b->caught = 1;
    describe(b->why, sizeof b->why, &z->c, why);
}

static void check_bugs(uint64_t seed, ls_pool *pool) {
    static const char *const formats[] = {"Q4_0", "Q4_1", "F32"};
    for (size_t i = 0; i < ck_n_bugs; i++) {
        bug_run b = {.bug = &ck_bugs[i]};
        for (size_t f = 0; f < ck_n_formats && !b.caught; f++)
            for (int j = 0; j < 3; j++)
                if (!strcmp(ck_formats[f].name, formats[j])) sweep(&ck_formats[f], LS_CONTRACT_EXACT16, seed, pool, try_bug, &b);
        char name[128];
        bool right = !strncmp(b.bug->name, "no mistake", 10);
        snprintf(name, sizeof name, "planted: %s", b.bug->name);
        report(name, b.caught == right, right ? b.why : "no case saw it");
    }
}

/* ---- Digests of the reference -------------------------------------------------------------------------------------- */

static void hash_case(void *ctx, ck_ready *z) { ls_sha256_update(ctx, z->want, (size_t)(z->c.t * z->c.n) * sizeof *z->want); }

static void digest_of(const ck_format *f, ls_contract contract, ls_pool *pool, char hex[65]) {
    ls_sha256 h;
    uint8_t digest[32];
    ls_sha256_init(&h);
    sweep(f, contract, 1, pool, hash_case, &h);
    ls_sha256_final(&h, digest);
    ls_sha256_hex(digest, hex);
}

static void print_digests(ls_pool *pool) {
    for (size_t f = 0; f < ck_n_formats; f++)
        for (int c = 0; c < 2; c++) {
            char hex[65];
            digest_of(&ck_formats[f], (ls_contract)c, pool, hex);
            printf("%s %s %s\n", ck_formats[f].name, ls_contract_name((ls_contract)c), hex);
        }
}

static void check_digests(ls_pool *pool) {
    FILE *in = fopen(LS_FIXTURES "/native/linear_digests.txt", "r");
    char name[64], contract[16], want[80], hex[65], label[128];
    int seen = 0;
    while (in && fscanf(in, "%63s %15s %79s", name, contract, want) == 3)
        for (size_t f = 0; f < ck_n_formats; f++) {
            if (strcmp(name, ck_formats[f].name)) continue;
            digest_of(&ck_formats[f], strcmp(contract, "exact24") ? LS_CONTRACT_EXACT16 : LS_CONTRACT_EXACT24, pool, hex);
            snprintf(label, sizeof label, "digest of the reference: %s %s", name, contract);
            report(label, strcmp(hex, want) != 0, hex);
            seen++;
        }
    if (in) fclose(in);
    report("digests of all formats", seen != (int)(2 * ck_n_formats), "fixtures/native/linear_digests.txt is incomplete");
}

/* ---- Kernels ------------------------------------------------------------------------------------------------------- */

enum { MAX_KERNELS = 256 };

typedef struct kernel_run {
    const ls_cpu *cpu;
    const char *only;
    size_t n;
    ls_kernel_info kernels[MAX_KERNELS];
    int cases[MAX_KERNELS], bad[MAX_KERNELS], rows_cases, rows_bad;
} kernel_run;

/* Adds those of |k| that this machine can run and |only| asks for. */
static void add_kernels(kernel_run *run, const ls_kernel_info *k, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (!run->cpu->has[k[i].level] || (run->only && !strstr(k[i].name, run->only))) continue;
        if (run->n == MAX_KERNELS) exit(2);
        run->kernels[run->n++] = k[i];
    }
}

static void try_rows(kernel_run *run, const ck_ready *z) {
    char why[256] = "", text[600];
    if (!z->packed.form.quantised) return;
    run->rows_cases++;
    if (!ck_check_row(z, why) || run->rows_bad++ >= MAX_FAILURES) return;
    describe(text, sizeof text, &z->c, why);
    printf("rows: %s\n", text);
}

static void try_kernels(void *ctx, ck_ready *z) {
    kernel_run *run = ctx;
    const ls_kernel_info *k = run->kernels;
    try_rows(run, z);
    for (size_t i = 0; i < run->n; i++) {
        char why[256] = "", text[600];
        if (k[i].contract != z->c.contract) continue;
        if (k[i].linear && k[i].kind != z->packed.kind) continue;
        run->cases[i]++;
        if (!(k[i].linear ? ck_check_linear(z, k[i].linear, why) : ck_check_quantise(z, k[i].quantise, why))) continue;
        if (run->bad[i]++ >= MAX_FAILURES) continue;
        describe(text, sizeof text, &z->c, why);
        printf("%s: %s\n", k[i].name, text);
    }
}

static void check_kernels(const ls_cpu *cpu, const char *only, uint64_t seed, ls_pool *pool) {
    kernel_run run = {.cpu = cpu, .only = only};
    size_t n, emulated;
    const ls_kernel_info *k = ls_kernel_table(&n), *more = ck_emulated(&emulated);
    add_kernels(&run, k, n);
    add_kernels(&run, more, emulated);
    sweep_all(seed, pool, try_kernels, &run);
    report("rows of packed matrices", run.rows_bad || !run.rows_cases, "see above");
    for (size_t i = 0; i < run.n; i++) {
        char name[128];
        snprintf(name, sizeof name, "%s (%d cases)", run.kernels[i].name, run.cases[i]);
        report(name, run.bad[i] || !run.cases[i], run.cases[i] ? "see above" : "no case reaches it");
    }
}

static void check_levels(const ls_cpu *cpu) {
    const char *required = getenv("LS_REQUIRE_LEVELS");
    for (int l = 0; l < LS_LEVEL_COUNT; l++) {
        const char *name = ls_level_name((ls_level)l);
        bool must = required && strstr(required, name);
        if (cpu->has[l]) continue;
        printf("level %s: skipped, this machine or build does not have it\n", name);
        if (must) report(name, 1, "LS_REQUIRE_LEVELS names it");
    }
}

int main(int argc, char **argv) {
    const char *only = NULL;
    uint64_t seed = 1;
    bool bench = false, digests = false;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--bench")) bench = true;
        else if (!strcmp(argv[i], "--digests")) digests = true;
        else if (!strcmp(argv[i], "--only") && i + 1 < argc) only = argv[++i];
        else if (!strcmp(argv[i], "--seed") && i + 1 < argc) seed = strtoull(argv[++i], NULL, 0);
        else return fprintf(stderr, "usage: checkkern [--bench | --digests] [--only TEXT] [--seed N]\n"), 2;
    }
    ls_cpu cpu;
    ls_pool *pool;
    ls_error e = {0};
    ls_cpu_detect(&cpu);
    ls_cpu_permit(&cpu);
    if (ls_pool_create(&pool, 1, false, LS_LINEAR_SCRATCH, &e)) return fprintf(stderr, "checkkern: %s\n", e.text), 2;
    if (bench) ck_bench(&cpu, only, pool);
    else if (digests) print_digests(pool);
    else {
        check_bugs(seed, pool);
        check_digests(pool);
        check_levels(&cpu);
        check_kernels(&cpu, only, seed, pool);
        printf("%d passed, %d failed\n", passed, failed);
    }
    ls_pool_destroy(pool);
    return failed != 0;
}
