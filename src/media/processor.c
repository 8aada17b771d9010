/* Gemma 3's image processor: crops, resizing, pixel values, identity. */
#include "media/processor.h"

#include <inttypes.h>
#include <string.h>

#include "base/bits.h"
#include "base/sha256.h"

/* ---- Pan-and-scan --------------------------------------------------------------------------------------------------------- */

/* Number of crops along the |longer| side; 0: none. Quotients are f64, as Python's. */
static int32_t count_crops(const ls_image_processor *p, int32_t longer, int32_t shorter) {
    double ratio = (double)longer / (double)shorter;
    if (ratio < p->min_ratio) return 0;
    int32_t n = ratio + 0.5 < LS_PROCESSOR_MAX_CROPS ? (int32_t)(ratio + 0.5) : LS_PROCESSOR_MAX_CROPS, most = longer / p->min_crop_size;
    if (n > most) n = most;
    if (n < 2) n = 2;
    if (n > p->max_crops) n = p->max_crops;
    int32_t size = (longer + n - 1) / n;
    return size < p->min_crop_size || shorter < p->min_crop_size ? 0 : n;
}

ls_code ls_image_processor_crops(const ls_image_processor *p, int32_t width, int32_t height, ls_crop crops[LS_PROCESSOR_MAX_CROPS], int32_t *n, ls_error *e) {
    bool wide = width >= height;
    int32_t longer = wide ? width : height, shorter = wide ? height : width;
    *n = p->pan_and_scan ? count_crops(p, longer, shorter) : 0;
    for (int32_t i = 0; i < *n; i++) {
        int32_t size = (longer + *n - 1) / *n, at = size * i, len = longer - at < size ? longer - at : size;
        if (len < 1)
            LS_FAIL(e, LS_INVALID_ARGUMENT, "pan-and-scan: %" PRId32 " crops of %" PRId32 " pixels leave none for the last; allow fewer crops", *n, size);
        crops[i] = wide ? (ls_crop){at, 0, len, height} : (ls_crop){0, at, width, len};
    }
    return LS_OK;
}

/* ---- Pixel values --------------------------------------------------------------------------------------------------------- */

/* The f32 value of every 8-bit level of one channel, each step in the type in which numpy (slow) or torch (fast) takes it. */
static void levels(const ls_image_processor *p, int channel, float out[256]) {
    float mean = (float)p->mean[channel], std = (float)p->std[channel];
    if (p->fast && p->rescale && p->normalize) {
        float inverse = (float)(1.0 / p->rescale_factor);
        mean *= inverse;
        std *= inverse;
    }
    for (int v = 0; v < 256; v++) {
        float x = (float)v;
        if (p->rescale && !p->fast)
            x = (float)((double)v * p->rescale_factor);
        else if (p->rescale && !p->normalize)
            x *= (float)p->rescale_factor;
        if (p->normalize) {
            x -= mean;
            x /= std;
        }
        out[v] = x;
    }
}

static ls_image_view view_of(const ls_image *image, ls_crop c) {
    size_t stride = (size_t)image->width * 3;
    return (ls_image_view){image->pixels + (size_t)c.y * stride + (size_t)c.x * 3, stride, c.width, c.height};
}

/* RGB pixels to planes [3, height, width]. */
static void to_planes(const ls_image *image, float table[3][256], float *out) {
    size_t n = (size_t)image->width * (size_t)image->height;
    for (int c = 0; c < 3; c++) {
        const uint8_t *from = image->pixels + c;
        for (size_t i = 0; i < n; i++, from += 3) *out++ = table[c][*from];
    }
}

static ls_code check_size(const ls_image_processor *p, ls_crop c, ls_error *e) {
    if (p->resize || (c.width == p->width && c.height == p->height)) return LS_OK;
    LS_FAIL(e, LS_INVALID_ARGUMENT, "the picture is %" PRId32 " x %" PRId32 ", the processor does not resize, and the tower reads %" PRId32 " x %" PRId32,
            c.width, c.height, p->width, p->height);
}

ls_code ls_image_process(const ls_image_processor *p, const ls_image *image, ls_pixel_values *out, ls_error *e) {
    ls_crop crops[1 + LS_PROCESSOR_MAX_CROPS];
    float table[3][256];
    ls_image small = {0};
    ls_code rc;
    memset(out, 0, sizeof *out);
    crops[0] = (ls_crop){0, 0, image->width, image->height};
    LS_TRY(ls_image_processor_crops(p, image->width, image->height, crops + 1, &out->n, e));
    bool cropped = out->n++ > 0;
    size_t n = (size_t)p->width * (size_t)p->height * 3;
    LS_GOTO(ls_calloc(&out->values, (size_t)out->n, n * sizeof *out->values, "pixel values", e));
    for (int c = 0; c < 3; c++) levels(p, c, table[c]);
    for (int32_t i = 0; i < out->n; i++) {
        if (!cropped || !p->fast) LS_GOTO(check_size(p, crops[i], e));
        LS_GOTO(ls_resize(&small, view_of(image, crops[i]), p->width, p->height, p->filter, p->rule, e));
        to_planes(&small, table, out->values + (size_t)i * n);
        ls_image_deinit(&small);
    }
    out->width = p->width;
    out->height = p->height;
    return LS_OK;
out:
    ls_image_deinit(&small);
    ls_pixel_values_deinit(out);
    return rc;
}

void ls_pixel_values_deinit(ls_pixel_values *v) {
    ls_free(v->values);
    memset(v, 0, sizeof *v);
}

/* ---- Identity ------------------------------------------------------------------------------------------------------------- */

ls_code ls_image_processor_text(const ls_image_processor *p, ls_str *out, ls_error *e) {
    static const char *const rules[] = {[LS_RESIZE_PILLOW] = "pillow-13", [LS_RESIZE_PILLOW_12] = "pillow-12", [LS_RESIZE_TORCHVISION] = "torchvision"};
    static const char *const filters[] = {
        [LS_FILTER_NEAREST] = "nearest", [LS_FILTER_LANCZOS] = "lanczos", [LS_FILTER_BILINEAR] = "bilinear", [LS_FILTER_BICUBIC] = "bicubic"};
    LS_TRY(ls_str_printf(out, e, "lockstep image processor 1\narithmetic %s\n", p->fast ? "torch" : "numpy"));
    if (p->resize || p->pan_and_scan) LS_TRY(ls_str_printf(out, e, "resize %s %s\n", rules[p->rule], filters[p->filter]));
    LS_TRY(ls_str_printf(out, e, "size %" PRId32 " %" PRId32 "\n", p->height, p->width));
    if (p->rescale) LS_TRY(ls_str_printf(out, e, "rescale %016" PRIx64 "\n", ls_bits64(p->rescale_factor)));
    for (int c = 0; p->normalize && c < 3; c++)
        LS_TRY(ls_str_printf(out, e, "normalize %d %016" PRIx64 " %016" PRIx64 "\n", c, ls_bits64(p->mean[c]), ls_bits64(p->std[c])));
    if (p->pan_and_scan)
        LS_TRY(ls_str_printf(out, e, "pan_and_scan %" PRId32 " %" PRId32 " %016" PRIx64 "\n", p->min_crop_size, p->max_crops, ls_bits64(p->min_ratio)));
    return ls_str_printf(out, e, "tokens %" PRId32 "\n", p->tokens);
}

ls_code ls_image_key(const ls_image_processor *p, const ls_image *image, char hex[65], ls_error *e) {
    ls_str text = {0};
    char pixels[65];
    ls_code rc;
    ls_image_sha256(image, pixels);
    LS_GOTO(ls_image_processor_text(p, &text, e));
    LS_GOTO(ls_str_printf(&text, e, "pixels %s\n", pixels));
    ls_sha256_hex_of(text.data, text.len, hex);
out:
    ls_str_deinit(&text);
    return rc;
}
