/* Elementary functions whose bits do not depend on a C library: every step is one f64 addition, subtraction,
 * multiplication or division, which IEEE 754 rounds alike everywhere. Used for rotary tables and other constants that are
 * made once on the host; not for inner loops. The build keeps contraction off, which these need. */
#ifndef LS_BASE_DETMATH_H
#define LS_BASE_DETMATH_H

/* log2(x), relative error below 2^-50 for positive normal |x|. NaN for anything else. */
double ls_det_log2(double x);

/* 2^x, relative error below 2^-50 for -1022 <= x < 1024; 0 below that, infinity above, NaN for NaN. */
double ls_det_exp2(double x);

/* cos(x), sin(x) for |x| <= 2^40, absolute error below 2^-52; NaN for anything else. */
double ls_det_cos(double x);
double ls_det_sin(double x);

#endif
