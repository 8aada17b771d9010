/* The operations of src/native/kernels/lanes_amx.h with tile registers in memory, in portable C: what the AMX kernels compute is checked wherever there is
 * AVX-512. Registers follow the instruction-set reference, and what AMX would refuse raises SIGILL. */
#ifndef LS_TESTS_LANES_AMX_EMULATED_H
#define LS_TESTS_LANES_AMX_EMULATED_H

#include "native/kernels/lanes_avx512.h"

#define V_AMX 1

typedef struct emulated_tiles {
    bool configured;
    uint8_t bytes[8][16][64];
    int rows[8], row_bytes[8];
} emulated_tiles;

static _Thread_local emulated_tiles emulated;

static inline void refuse_unless(bool right) {
    if (!right) __builtin_trap();
}

/* Byte 0: the palette, 16 to 31: bytes of a row of each register, 48 to 55: rows. */
static inline void emulated_configure(const void *config) {
    const uint8_t *c = config;
    memset(&emulated, 0, sizeof emulated);
    refuse_unless(c[0] == 1);
    for (int i = 1; i < 64; i++) refuse_unless(!c[i] || (i >= 16 && i < 32) || (i >= 48 && i < 56));
    for (int n = 0; n < 8; n++) {
        emulated.row_bytes[n] = c[16 + 2 * n] | c[17 + 2 * n] << 8;
        emulated.rows[n] = c[48 + n];
        refuse_unless(emulated.rows[n] <= 16 && emulated.row_bytes[n] <= 64 && !emulated.rows[n] == !emulated.row_bytes[n]);
    }
    emulated.configured = true;
}

static inline void emulated_zero(int n) {
    refuse_unless(emulated.configured && emulated.rows[n]);
    memset(emulated.bytes[n], 0, sizeof emulated.bytes[n]);
}

static inline void emulated_load(int n, const void *p, int64_t stride) {
    emulated_zero(n);
    for (int r = 0; r < emulated.rows[n]; r++) memcpy(emulated.bytes[n][r], (const uint8_t *)p + r * stride, (size_t)emulated.row_bytes[n]);
}

static inline void emulated_store(int n, void *p, int64_t stride) {
    refuse_unless(emulated.configured && emulated.rows[n]);
    for (int r = 0; r < emulated.rows[n]; r++) memcpy((uint8_t *)p + r * stride, emulated.bytes[n][r], (size_t)emulated.row_bytes[n]);
}

/* a_sign, b_sign: 128 when bytes of the operand are signed, which (v ^ 128) - 128 extends. */
static inline void emulated_dot(int c, int a, int b, int a_sign, int b_sign) {
    refuse_unless(emulated.configured && c != a && c != b && a != b && emulated.rows[c] && emulated.row_bytes[a] % 4 == 0);
    refuse_unless(emulated.rows[c] == emulated.rows[a] && emulated.row_bytes[c] == emulated.row_bytes[b] && emulated.row_bytes[a] == 4 * emulated.rows[b]);
    for (int r = 0; r < emulated.rows[c]; r++) {
        int32_t sum[16];
        memcpy(sum, emulated.bytes[c][r], sizeof sum);
        for (int k = 0; k < emulated.row_bytes[a]; k++) {
            const int x = (emulated.bytes[a][r][k] ^ a_sign) - a_sign;
            for (int o = 0; o < emulated.row_bytes[c] / 4; o++)
                sum[o] = (int32_t)((uint32_t)sum[o] + (uint32_t)(x * ((emulated.bytes[b][k / 4][4 * o + k % 4] ^ b_sign) - b_sign)));
        }
        memcpy(emulated.bytes[c][r], sum, sizeof sum);
    }
}

#define T_CONFIGURE(config) emulated_configure(config)
#define T_RELEASE() ((void)(emulated.configured = false))
#define T_ZERO(n) emulated_zero(n)
#define T_LOAD(n, p, stride) emulated_load(n, p, stride)
#define T_STORE(n, p, stride) emulated_store(n, p, stride)
#define T_DOT_SS(c, a, b) emulated_dot(c, a, b, 128, 128)
#define T_DOT_SU(c, a, b) emulated_dot(c, a, b, 128, 0)
#define T_DOT_US(c, a, b) emulated_dot(c, a, b, 0, 128)
#define T_DOT_UU(c, a, b) emulated_dot(c, a, b, 0, 0)

#endif
