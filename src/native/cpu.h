/* Instruction-set levels: what the machine has, and which level the kernels use.
 *
 * A level is a set of instructions that kernels may use together. Every kernel exists at every level of its
 * architecture and gives the same bits at each, so a level only decides speed. The detected record is passed as data;
 * nothing here is global. */
#ifndef LS_NATIVE_CPU_H
#define LS_NATIVE_CPU_H

#include "base/status.h"

typedef enum ls_level {
    LS_LEVEL_C,            /* portable C */
    LS_LEVEL_AVX2,         /* AVX2, FMA, F16C, BMI1, BMI2 */
    LS_LEVEL_AVX512,       /* AVX-512 F, BW, DQ, VL, CD and VNNI */
    LS_LEVEL_AMX,          /* the same with AMX-TILE and AMX-INT8 */
    LS_LEVEL_NEON,         /* Advanced SIMD of Armv8-A */
    LS_LEVEL_NEON_DOTPROD, /* the same with FEAT_DotProd */
    LS_LEVEL_NEON_I8MM,    /* the same with FEAT_I8MM */
    LS_LEVEL_COUNT
} ls_level;

typedef struct ls_cpu {
    bool has[LS_LEVEL_COUNT]; /* the processor has the instructions, the system saves the registers, the build has the kernels */
    ls_level best;            /* highest level that is there */
} ls_cpu;

/* Asks the processor (CPUID) and the operating system (XCR0; on AArch64 the HWCAP words of the auxiliary vector). */
void ls_cpu_detect(ls_cpu *cpu);

/* Before kernels of level amx run: Linux saves tile registers only for processes that ask, and from then on wants alternate signal stacks to have room for
 * them. Where it refuses, the level is taken out of |cpu|. */
void ls_cpu_permit(ls_cpu *cpu);

/* "c", "avx2", "avx512", "amx", "neon", "neon-dotprod", "neon-i8mm"; a static string. */
const char *ls_level_name(ls_level level);

/* *out = the level called |name|, or the best one when |name| is NULL, "" or "best". INVALID_ARGUMENT for an unknown
 * name, FAILED_PRECONDITION for a level this machine or build does not have. Tools pass the value of the environment
 * variable LOCKSTEP_LEVEL here. The executor takes "random" besides: each call of a kernel then uses any available level. */
ls_code ls_level_parse(const ls_cpu *cpu, const char *name, ls_level *out, ls_error *e);

#endif
