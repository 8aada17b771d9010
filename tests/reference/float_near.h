/* Comparing float-contract outputs with a formula evaluated in f64. */
#ifndef LS_TESTS_FLOAT_NEAR_H
#define LS_TESTS_FLOAT_NEAR_H

#include <math.h>
#include <stdbool.h>

/* |got| came from an evaluation in f64 rounded to f32 (|wide|), or in f32, where |terms| roundings of values no larger
 * than |size| may add up. */
static inline bool is_near(float got, double want, bool wide, double size, int terms) {
    double bound = wide ? 0x1.01p-24 * fabs(want) + 0x1p-45 * size : 0x1p-24 * size * (double)terms;
    return fabs((double)got - want) <= bound;
}

#define assert_near(got, want, wide, size, terms) \
    do { \
        double want_ = (want); \
        float got_ = (got); \
        if (!is_near(got_, want_, (wide), (size), (terms))) \
            fail_msg("%s: got %.9g, want %.17g (%s)", #got, (double)got_, want_, (wide) ? "f64" : "f32"); \
    } while (0)

#endif
