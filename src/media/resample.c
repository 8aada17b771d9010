/* Resizing 8-bit pictures in two integer passes. */
#include "media/resample.h"

#include <inttypes.h>
#include <string.h>

#include "base/detmath.h"

ls_image_view ls_image_whole(const ls_image *image) { return (ls_image_view){image->pixels, (size_t)image->width * 3, image->width, image->height}; }

/* ---- Filters: support in source pixels at scale 1, and value at distance x ------------------------------------------------ */

static double bilinear(double x) {
    if (x < 0) x = -x;
    return x < 1 ? 1 - x : 0;
}

/* R. Keys, Cubic convolution interpolation for digital image processing, 1981, with a = -1/2. */
static double bicubic(double x) {
    const double a = -0.5;
    if (x < 0) x = -x;
    if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
    if (x < 2) return (((x - 5) * x + 8) * x - 4) * a;
    return 0;
}

static double sinc(double x) {
    const double pi = 3.14159265358979323846;
    if (x == 0) return 1;
    x *= pi;
    return ls_det_sin(x) / x;
}

static double lanczos(double x) { return x >= -3 && x < 3 ? sinc(x) * sinc(x / 3) : 0; }

static const struct {
    double support;
    double (*value)(double);
} filters[] = {
    [LS_FILTER_NEAREST] = {0, NULL}, [LS_FILTER_LANCZOS] = {3, lanczos}, [LS_FILTER_BILINEAR] = {1, bilinear}, [LS_FILTER_BICUBIC] = {2, bicubic}};

/* ---- One axis: which source pixels make each target pixel, with which integer weights ----------------------------------- */

typedef struct axis {
    int32_t n, taps;  /* target pixels; room for weights of each */
    int32_t *first;   /* [n] first source pixel */
    int32_t *count;   /* [n] source pixels */
    int32_t *weights; /* [n, taps] */
    int bits;         /* fraction bits of the weights */
} axis;

static void axis_deinit(axis *a) {
    ls_free(a->first);
    ls_free(a->count);
    ls_free(a->weights);
}

static ls_code axis_alloc(axis *a, int32_t n, int32_t taps, ls_error *e) {
    size_t weights;
    memset(a, 0, sizeof *a);
    a->n = n;
    a->taps = taps;
    if (!ls_size_mul((size_t)n, (size_t)taps, &weights)) LS_FAIL(e, LS_RESOURCE_EXHAUSTED, "resampling weights: %" PRId32 " x %" PRId32, n, taps);
    LS_TRY(ls_calloc(&a->first, (size_t)n, sizeof *a->first, "resampling table", e));
    LS_TRY(ls_calloc(&a->count, (size_t)n, sizeof *a->count, "resampling table", e));
    return ls_calloc(&a->weights, weights, sizeof *a->weights, "resampling weights", e);
}

/* f64 weights of target pixel |i|, which add up to 1; returns the largest. Source pixels are taken whose centres lie in the stretched support. */
static double weigh(axis *a, double *w, int32_t i, int32_t in, double scale, ls_filter filter) {
    double stretch = scale < 1 ? 1 : scale, support = filters[filter].support * stretch, center = (i + 0.5) * scale, inverse = 1 / stretch, sum = 0, most = 0;
    int64_t first = (int64_t)(center - support + 0.5), end = (int64_t)(center + support + 0.5);
    if (first < 0) first = 0;
    if (end > in) end = in;
    if (end - first > a->taps) end = first + a->taps;
    a->first[i] = (int32_t)first;
    a->count[i] = (int32_t)(end - first);
    for (int32_t j = 0; j < a->count[i]; j++) sum += w[j] = filters[filter].value((j + (double)first - center + 0.5) * inverse);
    for (int32_t j = 0; j < a->count[i]; j++) {
        if (sum != 0) w[j] /= sum;
        if (w[j] > most) most = w[j];
    }
    return most;
}

/* Fraction bits: 22 under Pillow's rule; under torchvision's the most with which |most| rounds below 2^15, at most 22. */
static int fraction_bits(double most, ls_resize_rule rule) {
    int bits = 0;
    if (rule != LS_RESIZE_TORCHVISION) return 22;
    while (bits < 22 && (int64_t)(0.5 + most * (double)(1 << (bits + 1))) < 1 << 15) bits++;
    return bits;
}

static ls_code axis_build(axis *a, int32_t in, int32_t n, ls_filter filter, ls_resize_rule rule, ls_error *e) {
    double scale = (double)in / n, support = filters[filter].support * (scale < 1 ? 1 : scale), most = 0, *w = NULL;
    ls_code rc;
    int32_t taps = (int32_t)support;
    taps = (taps + (taps < support)) * 2 + 1;
    LS_GOTO(axis_alloc(a, n, taps, e));
    LS_GOTO(ls_calloc(&w, (size_t)taps, sizeof *w, "resampling weights", e));
    for (int32_t i = 0; i < n; i++) {
        double m = weigh(a, w, i, in, scale, filter);
        if (m > most) most = m;
    }
    a->bits = fraction_bits(most, rule);
    for (int32_t i = 0; i < n; i++) {
        (void)weigh(a, w, i, in, scale, filter);
        for (int32_t j = 0; j < a->count[i]; j++) {
            double v = w[j] * (double)(1 << a->bits);
            a->weights[(size_t)i * (size_t)taps + (size_t)j] = (int32_t)(v < 0 ? v - 0.5 : v + 0.5);
        }
    }
out:
    ls_free(w);
    return rc;
}

/* ---- The passes ---------------------------------------------------------------------------------------------------------- */

/* Sums are kept modulo 2^32, because Pillow keeps them in 32 bits. */
static uint8_t round_and_clip(uint32_t sum, int bits) {
    int32_t v = (int32_t)sum >> bits;
    return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
}

static void filter_row(uint8_t *to, const uint8_t *from, const axis *a) {
    const uint32_t half = (uint32_t)1 << (a->bits - 1);
    for (int32_t x = 0; x < a->n; x++, to += 3) {
        const uint8_t *p = from + 3 * (size_t)a->first[x];
        const int32_t *w = a->weights + (size_t)x * (size_t)a->taps;
        uint32_t r = half, g = half, b = half;
        for (int32_t j = 0; j < a->count[x]; j++, p += 3) {
            r += (uint32_t)w[j] * p[0];
            g += (uint32_t)w[j] * p[1];
            b += (uint32_t)w[j] * p[2];
        }
        to[0] = round_and_clip(r, a->bits);
        to[1] = round_and_clip(g, a->bits);
        to[2] = round_and_clip(b, a->bits);
    }
}

/* Target row |y| from rows of |n| bytes; |sums| [n]. */
static void filter_column(uint8_t *to, ls_image_view in, size_t n, const axis *a, int32_t y, uint32_t *sums) {
    const int32_t *w = a->weights + (size_t)y * (size_t)a->taps;
    for (size_t i = 0; i < n; i++) sums[i] = (uint32_t)1 << (a->bits - 1);
    for (int32_t j = 0; j < a->count[y]; j++) {
        const uint8_t *from = in.pixels + (size_t)(a->first[y] + j) * in.stride;
        for (size_t i = 0; i < n; i++) sums[i] += (uint32_t)w[j] * from[i];
    }
    for (size_t i = 0; i < n; i++) to[i] = round_and_clip(sums[i], a->bits);
}

static ls_code filter_columns(ls_image *out, ls_image_view in, int32_t width, ls_filter filter, ls_resize_rule rule, ls_error *e) {
    axis a = {0};
    ls_code rc;
    LS_GOTO(axis_build(&a, in.width, width, filter, rule, e));
    LS_GOTO(ls_image_create(out, width, in.height, e));
    for (int32_t y = 0; y < in.height; y++) filter_row(out->pixels + (size_t)y * (size_t)width * 3, in.pixels + (size_t)y * in.stride, &a);
out:
    axis_deinit(&a);
    return rc;
}

static ls_code filter_rows(ls_image *out, ls_image_view in, int32_t height, ls_filter filter, ls_resize_rule rule, ls_error *e) {
    axis a = {0};
    uint32_t *sums = NULL;
    ls_code rc;
    size_t n = (size_t)in.width * 3;
    LS_GOTO(axis_build(&a, in.height, height, filter, rule, e));
    LS_GOTO(ls_calloc(&sums, n, sizeof *sums, "a row of sums", e));
    LS_GOTO(ls_image_create(out, in.width, height, e));
    for (int32_t y = 0; y < height; y++) filter_column(out->pixels + (size_t)y * n, in, n, &a, y, sums);
out:
    axis_deinit(&a);
    ls_free(sums);
    return rc;
}

/* Source index of every target pixel. Pillow steps an f64 position (-1: past the end, black); torch's nearest-exact multiplies. */
static void nearest_indices(int32_t *at, int32_t n, int32_t in, ls_resize_rule rule) {
    double step = (double)in / n, position = step * 0.5;
    float scale = (float)in / (float)n;
    for (int32_t i = 0; i < n; i++, position += step) {
        int64_t v = rule == LS_RESIZE_TORCHVISION ? (int64_t)(float)((i + 0.5) * (double)scale) : (int64_t)position;
        at[i] = v < in ? (int32_t)v : rule == LS_RESIZE_TORCHVISION ? in - 1 : -1;
    }
}

static ls_code resize_nearest(ls_image *out, ls_image_view in, int32_t width, int32_t height, ls_resize_rule rule, ls_error *e) {
    int32_t *column = NULL, *row = NULL;
    ls_code rc;
    LS_GOTO(ls_calloc(&column, (size_t)width, sizeof *column, "columns", e));
    LS_GOTO(ls_calloc(&row, (size_t)height, sizeof *row, "rows", e));
    LS_GOTO(ls_image_create(out, width, height, e));
    nearest_indices(column, width, in.width, rule);
    nearest_indices(row, height, in.height, rule);
    uint8_t *to = out->pixels;
    for (int32_t y = 0; y < height; y++)
        for (int32_t x = 0; x < width; x++, to += 3)
            if (row[y] >= 0 && column[x] >= 0) memcpy(to, in.pixels + (size_t)row[y] * in.stride + 3 * (size_t)column[x], 3);
out:
    ls_free(column);
    ls_free(row);
    return rc;
}

static ls_code copy(ls_image *out, ls_image_view in, ls_error *e) {
    size_t n = (size_t)in.width * 3;
    LS_TRY(ls_image_create(out, in.width, in.height, e));
    for (int32_t y = 0; y < in.height; y++) memcpy(out->pixels + (size_t)y * n, in.pixels + (size_t)y * in.stride, n);
    return LS_OK;
}

/* Found by comparing both orders with Pillow 13.0.0 over 3,406 sizes. */
static bool rows_first(ls_image_view in, int32_t width, int32_t height, ls_resize_rule rule) {
    return rule == LS_RESIZE_PILLOW && height < in.height && (int64_t)in.height - height > 2 * ((int64_t)in.width - width);
}

ls_code ls_resize(ls_image *out, ls_image_view in, int32_t width, int32_t height, ls_filter filter, ls_resize_rule rule, ls_error *e) {
    ls_image half = {0};
    ls_code rc;
    memset(out, 0, sizeof *out);
    if (in.width < 1 || in.height < 1) LS_FAIL(e, LS_INVALID_ARGUMENT, "an image of %" PRId32 " x %" PRId32 " pixels cannot be resized", in.width, in.height);
    if (width < 1 || height < 1 || (int64_t)width * height > LS_IMAGE_PIXELS_CEILING || (int64_t)width * in.height > LS_IMAGE_PIXELS_CEILING)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "resizing %" PRId32 " x %" PRId32 " to %" PRId32 " x %" PRId32 " pixels; at most %d are allowed on the way", in.width,
                in.height, width, height, LS_IMAGE_PIXELS_CEILING);
    if (width == in.width && height == in.height) return copy(out, in, e);
    if (filter == LS_FILTER_NEAREST) return resize_nearest(out, in, width, height, rule, e);
    if (width == in.width) return filter_rows(out, in, height, filter, rule, e);
    if (height == in.height) return filter_columns(out, in, width, filter, rule, e);
    if (rows_first(in, width, height, rule)) {
        LS_GOTO(filter_rows(&half, in, height, filter, rule, e));
        LS_GOTO(filter_columns(out, ls_image_whole(&half), width, filter, rule, e));
    } else {
        LS_GOTO(filter_columns(&half, in, width, filter, rule, e));
        LS_GOTO(filter_rows(out, ls_image_whole(&half), height, filter, rule, e));
    }
out:
    ls_image_deinit(&half);
    return rc;
}
