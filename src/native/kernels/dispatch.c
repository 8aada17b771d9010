/* Tables of kernels by level, made from kernels.def. */
#include "native/kernels/kernel.h"

static const ls_kernels tables[LS_LEVEL_COUNT] = {
#define LS_QUANTISE(contract, lv, LEVEL) [LS_LEVEL_##LEVEL].quantise[LS_CONTRACT_EXACT##contract] = ls_quantise_exact##contract##_##lv,
#define LS_LINEAR(kd, KIND, contract, lv, LEVEL) \
    [LS_LEVEL_##LEVEL].linear[LS_CONTRACT_EXACT##contract][LS_PACK_##KIND] = ls_linear_##kd##_exact##contract##_##lv,
#include "native/kernels.def"
#undef LS_QUANTISE
#undef LS_LINEAR
    [LS_LEVEL_C].level = LS_LEVEL_C,
    [LS_LEVEL_AVX2].level = LS_LEVEL_AVX2,
    [LS_LEVEL_AVX512].level = LS_LEVEL_AVX512,
    [LS_LEVEL_AMX].level = LS_LEVEL_AMX,
    [LS_LEVEL_NEON].level = LS_LEVEL_NEON,
    [LS_LEVEL_NEON_DOTPROD].level = LS_LEVEL_NEON_DOTPROD,
    [LS_LEVEL_NEON_I8MM].level = LS_LEVEL_NEON_I8MM,
};

static const ls_kernel_info infos[] = {
#define LS_QUANTISE(ct, lv, LEVEL)                \
    {.name = "quantise_exact" #ct "_" #lv,        \
     .level = LS_LEVEL_##LEVEL,                   \
     .contract = LS_CONTRACT_EXACT##ct,           \
     .quantise = ls_quantise_exact##ct##_##lv},
#define LS_LINEAR(kd, KIND, ct, lv, LEVEL)        \
    {.name = "linear_" #kd "_exact" #ct "_" #lv,  \
     .level = LS_LEVEL_##LEVEL,                   \
     .contract = LS_CONTRACT_EXACT##ct,           \
     .kind = LS_PACK_##KIND,                      \
     .linear = ls_linear_##kd##_exact##ct##_##lv},
#include "native/kernels.def"
#undef LS_QUANTISE
#undef LS_LINEAR
};

const ls_kernels *ls_kernels_of(ls_level level) {
    if ((unsigned)level >= LS_LEVEL_COUNT || !tables[level].quantise[0]) return NULL;
    return &tables[level];
}

const ls_kernel_info *ls_kernel_table(size_t *n) {
    *n = sizeof infos / sizeof *infos;
    return infos;
}
