/* PNG (W3C PNG, third edition) through libpng. Chunks are walked here for what Pillow reads beside the pixels; libpng reads the pixels. */
#include <png.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include "media/decode.h"

enum { SIGNATURE = 8, CHUNK = 12, IHDR = 13 }; /* bytes; a chunk without data: length, type, CRC */

static uint32_t be32(const uint8_t *p) { return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3]; }
static bool is_type(const uint8_t *chunk, const char *type) { return !memcmp(chunk + 4, type, 4); }

/* The uncompressed text of an iTXt chunk when it is an XMP packet. */
static ls_bytes xmp_text(const uint8_t *text, size_t len) {
    static const char keyword[] = "XML:com.adobe.xmp"; /* its NUL counts */
    ls_bytes none = {0};
    if (len < sizeof keyword + 2 || memcmp(text, keyword, sizeof keyword) || text[sizeof keyword]) return none;
    const uint8_t *p = text + sizeof keyword + 2, *end = text + len;
    for (int strings = 0; strings < 2; strings++) { /* language, translated keyword */
        p = memchr(p, 0, (size_t)(end - p));
        if (!p) return none;
        p++;
    }
    return (ls_bytes){p, (size_t)(end - p)};
}

/* Walks the chunks behind IHDR as far as they are whole: frames of an animation, EXIF, XMP. */
static void walk(ls_image_info *out, const uint8_t *data, size_t len) {
    ls_bytes exif = {0}, xmp = {0};
    for (size_t at = SIGNATURE + CHUNK + IHDR, n; len - at >= CHUNK; at += CHUNK + n) {
        const uint8_t *chunk = data + at, *body = chunk + 8;
        n = be32(chunk);
        if (n > len - at - CHUNK || is_type(chunk, "IEND")) break;
        if (is_type(chunk, "acTL") && n >= 4) out->frames = be32(body) > 0x7fffffff ? 0x7fffffff : (int32_t)be32(body);
        if (is_type(chunk, "eXIf")) exif = (ls_bytes){body, n};
        if (is_type(chunk, "iTXt") && xmp_text(body, n).len) xmp = xmp_text(body, n);
    }
    if (out->frames < 1) out->frames = 1;
    out->orientation = ls_orientation(exif, xmp);
}

ls_code ls_png_probe(ls_image_info *out, const uint8_t *data, size_t len, ls_error *e) {
    if (len < SIGNATURE + CHUNK + IHDR || be32(data + SIGNATURE) != IHDR || !is_type(data + SIGNATURE, "IHDR"))
        LS_FAIL(e, LS_DATA_LOSS, "the PNG image is cut off or corrupt: no IHDR chunk at byte %d", SIGNATURE);
    uint32_t width = be32(data + 16), height = be32(data + 20);
    if (!width || !height || width > 0x7fffffff || height > 0x7fffffff)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "the PNG image claims %u x %u pixels; 1 to 2147483647 are allowed on each side", width, height);
    out->width = (int32_t)width;
    out->height = (int32_t)height;
    walk(out, data, len);
    return LS_OK;
}

/* libpng reports errors by a jump; all that must outlive it is here. */
typedef struct reader {
    const uint8_t *data;
    size_t len, at;
    png_structp png;
    png_infop info;
    png_bytep *rows;
    png_color palette[256];
    char message[160];
} reader;

static void on_error(png_structp png, png_const_charp text) {
    reader *r = png_get_error_ptr(png);
    snprintf(r->message, sizeof r->message, "%s", text);
    longjmp(png_jmpbuf(png), 1);
}

static void on_warning(png_structp png, png_const_charp text) {
    (void)png;
    (void)text;
}

static void on_read(png_structp png, png_bytep to, size_t n) {
    reader *r = png_get_io_ptr(png);
    if (n > r->len - r->at) png_error(png, "the file ends too early");
    memcpy(to, r->data + r->at, n);
    r->at += n;
}

/* Asks libpng for one byte of palette index, two bytes of 16-bit grey or three of RGB a pixel; returns which. */
static int set_up(reader *r) {
    png_structp png = r->png;
    int depth = png_get_bit_depth(png, r->info), colour = png_get_color_type(png, r->info), stored = 3;
    if (colour == PNG_COLOR_TYPE_PALETTE) {
        png_colorp palette;
        int n = 0;
        png_set_packing(png);
        if (png_get_PLTE(png, r->info, &palette, &n)) memcpy(r->palette, palette, (size_t)n * sizeof *palette);
        stored = 1;
    } else if (colour == PNG_COLOR_TYPE_GRAY && depth == 16) {
        stored = 2;
    } else {
        if (depth == 16) png_set_strip_16(png);
        if (depth < 8) png_set_expand_gray_1_2_4_to_8(png);
        if (colour & PNG_COLOR_MASK_ALPHA) png_set_strip_alpha(png);
        if (!(colour & PNG_COLOR_MASK_COLOR)) png_set_gray_to_rgb(png);
    }
    png_set_interlace_handling(png);
    png_read_update_info(png, r->info);
    return stored;
}

/* Row |p| of w pixels holds |stored| bytes a pixel at its end; spreads them to RGB in place, which never overtakes the reading. An index past the
 * palette is black and 16-bit grey is clipped, as in Pillow. */
static void spread(const reader *r, uint8_t *p, int32_t w, int stored) {
    const uint8_t *from = p + (size_t)w * (size_t)(3 - stored);
    for (int32_t x = 0; x < w; x++, p += 3) {
        if (stored == 1) {
            const png_color *c = &r->palette[*from++];
            p[0] = c->red, p[1] = c->green, p[2] = c->blue;
        } else {
            uint8_t v = from[0] ? 255 : from[1];
            from += 2;
            p[0] = p[1] = p[2] = v;
        }
    }
}

/* All that may jump. */
static void read_pixels(reader *r, ls_image *out) {
    png_set_user_limits(r->png, 0x7fffffff, 0x7fffffff);
    png_set_keep_unknown_chunks(r->png, PNG_HANDLE_CHUNK_NEVER, NULL, -1);
    png_set_read_fn(r->png, r, on_read);
    png_read_info(r->png, r->info);
    int stored = set_up(r);
    if (png_get_image_width(r->png, r->info) != (png_uint_32)out->width || png_get_image_height(r->png, r->info) != (png_uint_32)out->height ||
        png_get_rowbytes(r->png, r->info) != (size_t)out->width * (size_t)stored)
        png_error(r->png, "two headers that disagree");
    for (int32_t y = 0; y < out->height; y++) r->rows[y] = out->pixels + (size_t)out->width * ((size_t)y * 3 + 3 - (size_t)stored);
    png_read_image(r->png, r->rows);
    for (int32_t y = 0; stored < 3 && y < out->height; y++) spread(r, out->pixels + (size_t)y * (size_t)out->width * 3, out->width, stored);
}

static bool read_or_jump(reader *r, ls_image *out) {
    if (setjmp(png_jmpbuf(r->png))) return false;
    read_pixels(r, out);
    return true;
}

ls_code ls_png_decode(ls_image *out, const uint8_t *data, size_t len, ls_error *e) {
    ls_code rc = LS_OK;
    reader *r = NULL;
    LS_TRY(ls_calloc(&r, 1, sizeof *r, "PNG reader", e));
    r->data = data;
    r->len = len;
    LS_GOTO(ls_calloc(&r->rows, (size_t)out->height, sizeof *r->rows, "rows of a PNG image", e));
    r->png = png_create_read_struct(PNG_LIBPNG_VER_STRING, r, on_error, on_warning);
    if (r->png) r->info = png_create_info_struct(r->png);
    if (!r->info) LS_FAIL_GOTO(e, LS_RESOURCE_EXHAUSTED, "libpng cannot start: %s", *r->message ? r->message : "no memory");
    if (!read_or_jump(r, out)) LS_FAIL_GOTO(e, LS_DATA_LOSS, "the PNG image is cut off or corrupt: %s", r->message);
out:
    png_destroy_read_struct(&r->png, &r->info, NULL);
    ls_free(r->rows);
    ls_free(r);
    return rc;
}
