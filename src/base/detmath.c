/* Deterministic log2, exp2, cos and sin: argument reduction with exact products, then short Taylor series. */
#include "base/detmath.h"

#include <math.h>
#include <stdint.h>

#include "base/bits.h"

static const double LN2 = 0x1.62e42fefa39efp-1;
static const double LOG2_E = 0x1.71547652b82fep+0;
static const double TWO_OVER_PI = 0x1.45f306dc9c883p-1;
/* pi/2 as the sum of three f64. */
static const double HALF_PI[3] = {0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54, -0x1.f1976b7ed8fbcp-110};
static const double LARGEST_ANGLE = 0x1p40;

/* Nearest integer, ties to even, for |x| < 2^51: the sum has no fraction bits left. */
static double nearest(double x) { return (x + 0x1.8p52) - 0x1.8p52; }

/* log(m) = 2 atanh(t), t = (m - 1) / (m + 1), with m in [sqrt(1/2), sqrt(2)): t^2 < 0.03, so 12 terms reach 2^-60. */
double ls_det_log2(double x) {
    if (!(x >= 0x1p-1022) || x > 0x1.fffffffffffffp1023) return NAN;
    uint64_t u = ls_bits64(x);
    int exponent = (int)(u >> 52) - 1023;
    double m = ls_from_bits64((u & UINT64_C(0xfffffffffffff)) | UINT64_C(0x3ff0000000000000));
    if (m > 0x1.6a09e667f3bcdp0) {
        m *= 0.5;
        exponent++;
    }
    double t = (m - 1.0) / (m + 1.0), t2 = t * t, sum = 0;
    for (int k = 12; k >= 1; k--) sum = (sum + 1.0 / (2 * k + 1)) * t2;
    return exponent + (2.0 * t + 2.0 * t * sum) * LOG2_E;
}

/* 2^x = 2^n e^(f ln 2) with |f| <= 1/2; 14 terms of the exponential reach 2^-58. */
double ls_det_exp2(double x) {
    if (x != x) return x;
    if (x >= 1024.0) return INFINITY;
    if (x < -1022.0) return 0.0;
    double n = nearest(x), t = (x - n) * LN2, sum = 1.0;
    for (int k = 14; k >= 1; k--) sum = 1.0 + sum * t / k;
    int64_t biased = (int64_t)n + 1023; /* 2^1024 and 2^-1022 take two steps */
    double half = ls_from_bits64((uint64_t)(biased / 2 + 512) << 52), rest = ls_from_bits64((uint64_t)(biased - biased / 2 + 511) << 52);
    return sum * half * rest;
}

/* a * b = *hi + *lo exactly (Dekker, with Veltkamp's splitting into 26-bit halves). */
static void exact_product(double a, double b, double *hi, double *lo) {
    const double split = 0x1p27 + 1.0;
    double ca = split * a, cb = split * b;
    double ah = ca - (ca - a), bh = cb - (cb - b), al = a - ah, bl = b - bh;
    *hi = a * b;
    *lo = ((ah * bh - *hi) + ah * bl + al * bh) + al * bl;
}

/* a + b = *hi + *lo exactly (Knuth). */
static void exact_sum(double a, double b, double *hi, double *lo) {
    *hi = a + b;
    double bb = *hi - a;
    *lo = (a - (*hi - bb)) + (b - bb);
}

/* Quadrant of |x| in *quadrant; returns r = x - n pi/2 in [-pi/4, pi/4] (a little more by rounding), *tail its remainder.
 * With n <= 2^41 the third word of pi/2 leaves an error below 2^-110. */
static double reduce(double x, int *quadrant, double *tail) {
    double n = nearest(x * TWO_OVER_PI), p, p_lo, q, q_lo, r, r_lo, s, s_lo;
    *quadrant = (int)((int64_t)n & 3);
    exact_product(n, HALF_PI[0], &p, &p_lo);
    exact_product(n, HALF_PI[1], &q, &q_lo);
    exact_sum(x, -p, &r, &r_lo);
    exact_sum(r, -p_lo, &r, &s);
    exact_sum(r, -q, &r, &s_lo);
    *tail = r_lo + s + s_lo - q_lo - n * HALF_PI[2];
    return r;
}

/* Taylor series on |r| <= pi/4: the first term left out is below 2^-60. */
static double sin_series(double r, double tail) {
    double r2 = r * r, sum = 0;
    for (int k = 8; k >= 1; k--) sum = (1.0 + sum) * -r2 / ((2 * k) * (2 * k + 1));
    return r + (r * sum + tail * (1.0 - 0.5 * r2));
}

static double cos_series(double r, double tail) {
    double r2 = r * r, sum = 0;
    for (int k = 9; k >= 1; k--) sum = (1.0 + sum) * -r2 / ((2 * k - 1) * (2 * k));
    return 1.0 + (sum - tail * r);
}

double ls_det_sin(double x) {
    if (!(x >= -LARGEST_ANGLE && x <= LARGEST_ANGLE)) return NAN;
    int quadrant;
    double tail, r = reduce(x, &quadrant, &tail);
    double v = quadrant & 1 ? cos_series(r, tail) : sin_series(r, tail);
    return quadrant & 2 ? -v : v;
}

double ls_det_cos(double x) {
    if (!(x >= -LARGEST_ANGLE && x <= LARGEST_ANGLE)) return NAN;
    int quadrant;
    double tail, r = reduce(x, &quadrant, &tail);
    double v = quadrant & 1 ? sin_series(r, tail) : cos_series(r, tail);
    return quadrant == 1 || quadrant == 2 ? -v : v;
}
