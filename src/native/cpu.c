/* Detection of instruction-set levels. */
#include "native/cpu.h"

#include <string.h>

static const char *const names[LS_LEVEL_COUNT] = {"c", "avx2", "avx512", "amx", "neon", "neon-dotprod", "neon-i8mm"};

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

static bool all(unsigned value, unsigned mask) { return (value & mask) == mask; }

/* Tile registers are state that Linux saves for processes that ask: arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA). Asking again does no harm. */
static bool may_use_tiles(void) {
#if defined(__linux__)
    return !syscall(SYS_arch_prctl, 0x1023, 18);
#else
    return false;
#endif
}

/* Bit numbers follow the instruction-set reference: leaf 1 ECX (FMA 12, OSXSAVE 27, AVX 28, F16C 29), leaf 7 EBX (BMI1 3,
 * AVX2 5, BMI2 8, F 16, DQ 17, CD 28, BW 30, VL 31), leaf 7 ECX (VNNI 11), leaf 7 EDX (AMX-TILE 24, AMX-INT8 25). XCR0: SSE
 * and AVX state are bits 1 and 2, the AVX-512 state bits 5 to 7, the tiles' configuration and data bits 17 and 18. */
static void detect(ls_cpu *cpu) {
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !all(c, 1u << 12 | 1u << 27 | 1u << 28 | 1u << 29)) return;
    unsigned xcr0 = (unsigned)_xgetbv(0);
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !all(xcr0, 0x6)) return;
    cpu->has[LS_LEVEL_AVX2] = all(b, 1u << 3 | 1u << 5 | 1u << 8);
    cpu->has[LS_LEVEL_AVX512] =
        cpu->has[LS_LEVEL_AVX2] && all(xcr0, 0xE6) && all(b, 1u << 16 | 1u << 17 | 1u << 28 | 1u << 30 | 1u << 31) && all(c, 1u << 11);
    cpu->has[LS_LEVEL_AMX] = cpu->has[LS_LEVEL_AVX512] && all(xcr0, 3u << 17) && all(d, 3u << 24);
}
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>

/* Bit numbers follow the ELF hwcaps of arm64 Linux: AT_HWCAP ASIMD 1, ASIMDDP 20; AT_HWCAP2 I8MM 13. */
static void detect(ls_cpu *cpu) {
    unsigned long words = getauxval(AT_HWCAP);
    cpu->has[LS_LEVEL_NEON] = words >> 1 & 1;
    cpu->has[LS_LEVEL_NEON_DOTPROD] = cpu->has[LS_LEVEL_NEON] && words >> 20 & 1;
    cpu->has[LS_LEVEL_NEON_I8MM] = cpu->has[LS_LEVEL_NEON_DOTPROD] && getauxval(AT_HWCAP2) >> 13 & 1;
}
#else
static void detect(ls_cpu *cpu) { (void)cpu; }
#endif

static void choose_best(ls_cpu *cpu) {
    for (int l = 0; l < LS_LEVEL_COUNT; l++)
        if (cpu->has[l]) cpu->best = (ls_level)l;
}

void ls_cpu_detect(ls_cpu *cpu) {
    *cpu = (ls_cpu){.has = {[LS_LEVEL_C] = true}};
    detect(cpu);
    choose_best(cpu);
}

void ls_cpu_permit(ls_cpu *cpu) {
#if defined(__x86_64__)
    if (cpu->has[LS_LEVEL_AMX] && !may_use_tiles()) cpu->has[LS_LEVEL_AMX] = false;
#endif
    choose_best(cpu);
}

const char *ls_level_name(ls_level level) { return (unsigned)level < LS_LEVEL_COUNT ? names[level] : "unknown"; }

ls_code ls_level_parse(const ls_cpu *cpu, const char *name, ls_level *out, ls_error *e) {
    if (!name || !*name || !strcmp(name, "best")) {
        *out = cpu->best;
        return LS_OK;
    }
    for (int l = 0; l < LS_LEVEL_COUNT; l++) {
        if (strcmp(name, names[l])) continue;
        if (!cpu->has[l])
            LS_FAIL(e, LS_FAILED_PRECONDITION, "instruction-set level \"%s\" is not available here; the best of this machine and build is \"%s\"", name,
                    names[cpu->best]);
        *out = (ls_level)l;
        return LS_OK;
    }
    LS_FAIL(e, LS_INVALID_ARGUMENT, "instruction-set level \"%s\" is unknown; use best, c, avx2, avx512, amx, neon, neon-dotprod, neon-i8mm or random", name);
}
