/* The check a tensor passes before anything is computed from it: a readable format, and only finite numbers, under
 * the exact contracts within LS_WEIGHT_LIMIT, on which their overflow arguments rest. Half floats cannot reach it, nor can GGUF
 * blocks, whose factors are half floats. */
#include <math.h>

#include "weights/checkpoint.h"

static ls_code not_usable(const ls_tensor *t, const char *what, int64_t index, float value, ls_error *e) {
    if (isfinite(value))
        LS_FAIL(e, LS_INVALID_ARGUMENT,
                "tensor \"%s\" (%s): %s %lld is %g; weights must be below 2^40 in magnitude, so the file is damaged or no language model",
                t->name, t->dtype, what, (long long)index, (double)value);
    LS_FAIL(e, LS_INVALID_ARGUMENT, "tensor \"%s\" (%s): %s %lld is %s; the file is damaged or was converted wrongly",
            t->name, t->dtype, what, (long long)index, isnan(value) ? "NaN" : "infinite");
}

enum { RUN = 64 };

/* Whether one of the RUN 16-bit words at |p| has magnitude bits of |limit| or more, in a loop of which compilers make vectors. */
static bool run_has_large16(const uint8_t *p, uint16_t limit) {
    int16_t largest = 0;
    for (int i = 0; i < RUN; i++) {
        int16_t magnitude = (int16_t)(ls_load_u16(p + 2 * i) & 0x7FFF);
        largest = magnitude > largest ? magnitude : largest;
    }
    return largest >= limit;
}

/* The first of |n| 16-bit words at |p|, |stride| bytes apart, whose magnitude bits are |limit| or more, or -1. */
static int64_t find_large16(const uint8_t *p, int64_t n, int stride, uint16_t limit) {
    int64_t i = 0;
    while (stride == 2 && n - i >= RUN && !run_has_large16(p + 2 * i, limit)) i += RUN;
    for (; i < n; i++)
        if ((ls_load_u16(p + i * stride) & 0x7FFF) >= limit) return i;
    return -1;
}

static int64_t find_large32(const uint8_t *p, int64_t n, uint32_t limit) {
    for (int64_t i = 0; i < n; i++)
        if ((ls_load_u32(p + i * 4) & 0x7FFFFFFF) >= limit) return i;
    return -1;
}

/* Bits of the infinities, and of LS_WEIGHT_LIMIT = 2^40 in bf16 and f32. */
enum { F16_INFINITE = 0x7C00, BF16_INFINITE = 0x7F80, F32_INFINITE = 0x7F800000, BF16_LIMIT = (127 + 40) << 7, F32_LIMIT = (127 + 40) << 23 };

/* |n| floats of |format| at |data|; |bounded|: below LS_WEIGHT_LIMIT, otherwise finite. */
static ls_code check_floats(const ls_tensor *t, const char *what, ls_format format, const uint8_t *data, int64_t n, bool bounded,
                            ls_error *e) {
    uint16_t limit16 = format == LS_F16 ? F16_INFINITE : bounded ? BF16_LIMIT : BF16_INFINITE;
    int64_t at = format == LS_F32 ? find_large32(data, n, bounded ? F32_LIMIT : F32_INFINITE) : find_large16(data, n, 2, limit16);
    if (at < 0) return LS_OK;
    return not_usable(t, what, at, ls_load_float(format, data + at * ls_format_get(format)->block_bytes), e);
}

/* The f16 factors of every block: d, and dmin or m where the format has one. */
static ls_code check_blocks(const ls_tensor *t, ls_error *e) {
    static const struct {
        int d, min; /* byte offsets in a block; -1: none */
    } at[LS_FORMAT_COUNT] = {[LS_Q4_0] = {0, -1},  [LS_Q4_1] = {0, 2},   [LS_Q5_0] = {0, -1}, [LS_Q5_1] = {0, 2},
                             [LS_Q8_0] = {0, -1},  [LS_Q2_K] = {80, 82}, [LS_Q3_K] = {108, -1}, [LS_Q4_K] = {0, 2},
                             [LS_Q5_K] = {0, 2},   [LS_Q6_K] = {208, -1}, [LS_IQ4_NL] = {0, -1}};
    const ls_format_info *f = ls_format_get(t->format);
    int64_t blocks = (int64_t)(t->bytes / (size_t)f->block_bytes);
    for (int i = 0; i < 2; i++) {
        int offset = i ? at[t->format].min : at[t->format].d;
        int64_t bad =
            offset < 0 ? -1 : find_large16((const uint8_t *)t->data + offset, blocks, f->block_bytes, F16_INFINITE);
        if (bad < 0) continue;
        const uint8_t *p = (const uint8_t *)t->data + bad * f->block_bytes + offset;
        return not_usable(t, i ? "the minimum of the block of weight" : "the scale of the block of weight",
                          bad * f->block, ls_load_u16(p) & 0x3FF ? NAN : INFINITY, e);
    }
    return LS_OK;
}

/* Scales within the limit may still give a weight beyond it, or an infinite one in the dtype of the scales. The weight grows with q one way or the
 * other, and q = 0 gives the bias, so the largest q decides. */
static ls_code check_mlx_range(const ls_tensor *t, bool bounded, ls_error *e) {
    int size = ls_format_get(t->scale_format)->block_bytes;
    int64_t groups = (int64_t)(t->scale_bytes / (size_t)size);
    const uint8_t *s = t->scales, *b = t->biases;
    float top = (float)((1 << t->mlx_bits) - 1);
    for (int64_t g = 0; g < groups; g++) {
        float product = ls_round_float(t->scale_format, ls_load_float(t->scale_format, s + g * size) * top);
        float sum = ls_round_float(t->scale_format, product + ls_load_float(t->scale_format, b + g * size));
        if (!(fabsf(sum) < (bounded ? LS_WEIGHT_LIMIT : INFINITY))) return not_usable(t, "the largest weight of group", g, sum, e);
    }
    return LS_OK;
}

static ls_code check(const ls_tensor *t, bool bounded, ls_error *e) {
    if (t->format == LS_OTHER)
        LS_FAIL(e, LS_UNIMPLEMENTED,
                "tensor \"%s\": dtype %s cannot be computed with; use a float, GGUF or MLX affine checkpoint", t->name,
                t->dtype);
    if (!t->data || t->format == LS_I32 || t->format == LS_I64) return LS_OK;
    if (t->format == LS_MLX_AFFINE) {
        int64_t n = (int64_t)(t->scale_bytes / (size_t)ls_format_get(t->scale_format)->block_bytes);
        LS_TRY(check_floats(t, "scale", t->scale_format, t->scales, n, bounded, e));
        LS_TRY(check_floats(t, "bias", t->scale_format, t->biases, n, bounded, e));
        return check_mlx_range(t, bounded, e);
    }
    if (ls_format_get(t->format)->group) return check_blocks(t, e);
    return check_floats(t, "element", t->format, t->data,
                        (int64_t)(t->bytes / (size_t)ls_format_get(t->format)->block_bytes), bounded, e);
}

ls_code ls_tensor_check_finite(const ls_tensor *t, ls_error *e) { return check(t, false, e); }
ls_code ls_tensor_check_weight(const ls_tensor *t, ls_error *e) { return check(t, true, e); }

ls_code ls_tensor_check_weight_part(const ls_tensor *t, int part, int parts, ls_error *e) {
    const size_t size = (size_t)ls_format_get(t->format)->block_bytes;
    if (!t->data || !size) return part ? LS_OK : check(t, true, e);
    const size_t blocks = t->bytes / size, each = blocks / (size_t)parts, begin = each * (size_t)part;
    ls_tensor view = *t;
    view.data = (const uint8_t *)t->data + begin * size;
    view.bytes = (part + 1 < parts ? each : blocks - begin) * size;
    return check(&view, true, e);
}
