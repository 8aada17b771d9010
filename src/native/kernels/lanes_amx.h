/* The lanes of AVX-512 and, beside them, AMX: eight tile registers of up to sixteen rows by 64 bytes, which multiply bytes. Numbers of registers are
 * parts of instructions, so operations on them are macros of literal numbers. tests/native/checkkern/lanes_amx_emulated.h has the same in portable C. */
#ifndef LS_NATIVE_KERNELS_LANES_AMX_H
#define LS_NATIVE_KERNELS_LANES_AMX_H

#include "native/kernels/lanes_avx512.h"

#define V_AMX 1

/* gcc 12 does not know that these read memory: stores to it must come first. */
#define T_AFTER_STORES __asm__ volatile("" ::: "memory")

/* Rows and bytes of a row of all registers from a tile_config; until T_RELEASE, which hands the registers back. */
#define T_CONFIGURE(config)        \
    do {                           \
        T_AFTER_STORES;            \
        _tile_loadconfig(config);  \
    } while (0)
#define T_RELEASE() _tile_release()

/* Register |n|: zero, from and to rows at |p| that are |stride| bytes apart. */
#define T_ZERO(n) _tile_zero(n)
#define T_LOAD(n, p, stride)         \
    do {                             \
        T_AFTER_STORES;              \
        _tile_loadd(n, p, stride);   \
    } while (0)
#define T_STORE(n, p, stride) _tile_stored(n, p, stride)

/* c[r][o] += the sum over k of a[r][k] b[k / 4][4 o + k % 4], bytes to 32 bits modulo 2^32; S: signed, U: unsigned bytes of a, of b. */
#define T_DOT_SS(c, a, b) _tile_dpbssd(c, a, b)
#define T_DOT_SU(c, a, b) _tile_dpbsud(c, a, b)
#define T_DOT_US(c, a, b) _tile_dpbusd(c, a, b)
#define T_DOT_UU(c, a, b) _tile_dpbuud(c, a, b)

#endif
