/* Comparison of two arrays: see compare.h. */
#include "verify/compare.h"

#include <float.h>
#include <math.h>

#include "contract/exact.h"

/* Bits of a float as an integer that grows with the value. */
static int64_t ordered(float x) {
    uint32_t u = ls_bits(x);
    return u >> 31 ? -(int64_t)(u & 0x7fffffffu) : (int64_t)u;
}

uint64_t ls_ulp_distance(float a, float b) {
    int64_t d = ordered(a) - ordered(b);
    return (uint64_t)(d < 0 ? -d : d);
}

/* Adds one element's figures; returns whether it fails. */
static bool compare_one(ls_difference *d, float reference, float candidate, const ls_bound *bound) {
    bool finite = isfinite(reference) && isfinite(candidate), fails = ls_bits(reference) != ls_bits(candidate);
    double r = (double)reference, error = 0;
    if (isfinite(reference)) d->reference_square_sum += r * r;
    if (finite && fails) {
        error = fabs((double)candidate - r);
        double relative = error / fmax(fabs(r), (double)FLT_MIN);
        uint64_t ulp = ls_ulp_distance(reference, candidate);
        d->max_absolute = fmax(d->max_absolute, error);
        d->max_relative = fmax(d->max_relative, relative);
        d->square_sum += error * error;
        if (ulp > d->max_ulp) d->max_ulp = ulp;
    }
    if (!bound->bits) fails = !finite || error > bound->absolute + bound->relative * fabs(r);
    if (fails && !finite) d->non_finite++;
    return fails;
}

int64_t ls_compare(ls_difference *d, const float *reference, const float *candidate, int64_t n, const ls_bound *bound) {
    int64_t failures = 0;
    for (int64_t i = 0; i < n; i++) {
        if (!compare_one(d, reference[i], candidate[i], bound)) continue;
        failures++;
        if (d->first >= 0) continue;
        d->first = i;
        d->reference = reference[i];
        d->candidate = candidate[i];
    }
    d->elements += n;
    d->failures += failures;
    return failures;
}

void ls_difference_add(ls_difference *d, const ls_difference *from) {
    if (d->first < 0) {
        d->first = from->first;
        d->reference = from->reference;
        d->candidate = from->candidate;
    }
    d->elements += from->elements;
    d->failures += from->failures;
    d->non_finite += from->non_finite;
    d->max_absolute = fmax(d->max_absolute, from->max_absolute);
    d->max_relative = fmax(d->max_relative, from->max_relative);
    d->square_sum += from->square_sum;
    d->reference_square_sum += from->reference_square_sum;
    if (from->max_ulp > d->max_ulp) d->max_ulp = from->max_ulp;
}

double ls_difference_rms(const ls_difference *d) { return d->elements ? sqrt(d->square_sum / (double)d->elements) : 0; }
