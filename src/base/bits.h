/* The bits of floats, and floats from their bits. */
#ifndef LS_BASE_BITS_H
#define LS_BASE_BITS_H

#include <stdint.h>
#include <string.h>

/* f32 */
static inline uint32_t ls_bits(float x) {
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static inline float ls_from_bits(uint32_t u) {
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

/* f64 */
static inline uint64_t ls_bits64(double x) {
    uint64_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static inline double ls_from_bits64(uint64_t u) {
    double x;
    memcpy(&x, &u, sizeof x);
    return x;
}

#endif
