/* The linear kernels of level AMX a second time, with tile registers emulated in memory (lanes_amx_emulated.h): they need AVX-512 only. */
#include "checkkern.h"

#if defined(__x86_64__)
#include "lanes_amx_emulated.h"

#include "native/kernels/linear_body.h"
#include "native/kernels/linear_amx.h"

#define EMULATED_AMX(kind, KIND, contract)                                                                                                  \
    static void emulated_##kind##_##contract(const ls_packed *w, int64_t tile_begin, int64_t tile_end, const ls_acts *x, int64_t row_begin, \
                                             int64_t row_end, const ls_linear_out *out, void *scratch) {                                    \
        linear(w, tile_begin, tile_end, x, row_begin, row_end, out, scratch, LS_PACK_##KIND, contract == 16 ? 1 : 2);                       \
        refuse_unless(!emulated.configured);                                                                                                   \
    }
#define EMULATED_C(kind, KIND, contract)
#define EMULATED_AVX2(kind, KIND, contract)
#define EMULATED_AVX512(kind, KIND, contract)
#define LS_QUANTISE(contract, level, LEVEL)
#define LS_LINEAR(kind, KIND, contract, level, LEVEL) EMULATED_##LEVEL(kind, KIND, contract)
#include "native/kernels.def"
#undef LS_LINEAR
#undef EMULATED_AMX

static const ls_kernel_info infos[] = {
#define EMULATED_AMX(kd, KIND, ct)                          \
    {.name = "linear_" #kd "_exact" #ct "_amx-emulated",    \
     .level = LS_LEVEL_AVX512,                              \
     .contract = LS_CONTRACT_EXACT##ct,                     \
     .kind = LS_PACK_##KIND,                                \
     .linear = emulated_##kd##_##ct},
#define LS_LINEAR(kind, KIND, contract, level, LEVEL) EMULATED_##LEVEL(kind, KIND, contract)
#include "native/kernels.def"
};

const ls_kernel_info *ck_emulated(size_t *n) {
    *n = sizeof infos / sizeof *infos;
    return infos;
}
#else
const ls_kernel_info *ck_emulated(size_t *n) {
    *n = 0;
    return NULL;
}
#endif
