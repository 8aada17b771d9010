/* Pictures: recognising a format, limits, orientation, and the digest of pixels. */
#include "media/image.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/sha256.h"
#include "media/decode.h"

static const struct {
    const char *name;
    ls_code (*probe)(ls_image_info *, const uint8_t *, size_t, ls_error *);
    ls_code (*decode)(ls_image *, const uint8_t *, size_t, ls_error *);
} formats[] = {[LS_IMAGE_PNG] = {"PNG", ls_png_probe, ls_png_decode},
               [LS_IMAGE_JPEG] = {"JPEG", ls_jpeg_probe, ls_jpeg_decode},
               [LS_IMAGE_WEBP] = {"WebP", ls_webp_probe, ls_webp_decode}};

const char *ls_image_format_name(ls_image_format format) { return formats[format].name; }

static bool starts(const uint8_t *data, size_t len, size_t at, const char *magic, size_t n) { return len >= at + n && !memcmp(data + at, magic, n); }

/* The name of a picture format that is not read, for the message. */
static const char *foreign(const uint8_t *data, size_t len) {
    if (starts(data, len, 0, "GIF8", 4)) return "GIF";
    if (starts(data, len, 0, "BM", 2)) return "BMP";
    if (starts(data, len, 0, "II*\0", 4) || starts(data, len, 0, "MM\0*", 4)) return "TIFF";
    if (starts(data, len, 4, "ftypavif", 8)) return "AVIF";
    if (starts(data, len, 4, "ftyphei", 7) || starts(data, len, 4, "ftypmif1", 8)) return "HEIF";
    if (starts(data, len, 0, "\xff\x0a", 2)) return "JPEG XL";
    return NULL;
}

static ls_code recognise(ls_image_format *out, const uint8_t *data, size_t len, ls_error *e) {
    if (!len) LS_FAIL(e, LS_INVALID_ARGUMENT, "the image is empty: 0 bytes");
    if (starts(data, len, 0, "\x89PNG\r\n\x1a\n", 8))
        *out = LS_IMAGE_PNG;
    else if (starts(data, len, 0, "\xff\xd8\xff", 3))
        *out = LS_IMAGE_JPEG;
    else if (starts(data, len, 0, "RIFF", 4) && starts(data, len, 8, "WEBP", 4))
        *out = LS_IMAGE_WEBP;
    else if (foreign(data, len))
        LS_FAIL(e, LS_UNIMPLEMENTED, "the image is %s; read are PNG, JPEG and WebP: convert it", foreign(data, len));
    else
        LS_FAIL(e, LS_INVALID_ARGUMENT, "%zu bytes are no image: they begin as none of PNG, JPEG and WebP does", len);
    return LS_OK;
}

static ls_code check_limits(const ls_image_info *info, const ls_image_options *o, ls_error *e) {
    int64_t pixels = (int64_t)info->width * info->height, most = o->max_pixels ? o->max_pixels : LS_IMAGE_MAX_PIXELS;
    int64_t frames = o->max_frames ? o->max_frames : LS_IMAGE_MAX_FRAMES;
    if (most > LS_IMAGE_PIXELS_CEILING) most = LS_IMAGE_PIXELS_CEILING;
    if (info->width < 1 || info->height < 1)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "the %s image is %" PRId32 " x %" PRId32 " pixels; both sides must be 1 or more", ls_image_format_name(info->format),
                info->width, info->height);
    if (pixels > most)
        LS_FAIL(e, LS_RESOURCE_EXHAUSTED, "the %s image is %" PRId32 " x %" PRId32 " = %" PRId64 " pixels; at most %" PRId64 " are allowed: scale it down",
                ls_image_format_name(info->format), info->width, info->height, pixels, most);
    if (info->frames > frames)
        LS_FAIL(e, LS_RESOURCE_EXHAUSTED, "the %s image has %" PRId32 " frames; at most %" PRId64 " are allowed", ls_image_format_name(info->format),
                info->frames, frames);
    return LS_OK;
}

ls_code ls_image_probe(ls_image_info *out, const uint8_t *data, size_t len, const ls_image_options *options, ls_error *e) {
    static const ls_image_options defaults = {0};
    const ls_image_options *o = options ? options : &defaults;
    size_t most = (size_t)(o->max_bytes ? o->max_bytes : LS_IMAGE_MAX_BYTES);
    memset(out, 0, sizeof *out);
    if (len > most) LS_FAIL(e, LS_RESOURCE_EXHAUSTED, "the image is %zu bytes; at most %zu are allowed", len, most);
    LS_TRY(recognise(&out->format, data, len, e));
    out->frames = out->orientation = 1;
    LS_TRY(formats[out->format].probe(out, data, len, e));
    return check_limits(out, o, e);
}

/* Read, not mapped: a file that shrinks or fails meanwhile is an error then, and no signal. */
static ls_code read_file(ls_str *out, const char *path, const ls_image_options *o, ls_error *e) {
    size_t most = (size_t)(o && o->max_bytes ? o->max_bytes : LS_IMAGE_MAX_BYTES);
    *out = (ls_str){.max = most + 1}; /* and its end */
    return ls_file_read(out, path, most, e);
}

ls_code ls_image_probe_file(ls_image_info *out, const char *path, const ls_image_options *options, ls_error *e) {
    ls_str file;
    ls_code rc = read_file(&file, path, options, e);
    if (!rc) {
        rc = ls_image_probe(out, (const uint8_t *)file.data, file.len, options, e);
        if (rc) rc = ls_error_wrap(e, rc, "%s", path);
    }
    ls_str_deinit(&file);
    return rc;
}

void ls_image_shown_size(const ls_image_info *info, const ls_image_options *options, int32_t *width, int32_t *height) {
    bool swaps = info->orientation >= 5 && !(options && options->ignore_orientation);
    *width = swaps ? info->height : info->width;
    *height = swaps ? info->width : info->height;
}

ls_code ls_image_create(ls_image *out, int32_t width, int32_t height, ls_error *e) {
    memset(out, 0, sizeof *out);
    if (width < 1 || height < 1 || (int64_t)width * height > LS_IMAGE_PIXELS_CEILING)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "an image of %" PRId32 " x %" PRId32 " pixels; 1 to %d are allowed", width, height, LS_IMAGE_PIXELS_CEILING);
    LS_TRY(ls_calloc(&out->pixels, (size_t)width * (size_t)height, 3, "pixels of an image", e));
    out->width = width;
    out->height = height;
    return LS_OK;
}

void ls_image_deinit(ls_image *image) {
    ls_free(image->pixels);
    memset(image, 0, sizeof *image);
}

/* Where pixel (0, 0) of the turned image lies in the stored one, and the steps in it, in pixels, for one to the right and one down. */
typedef struct turn {
    int64_t origin, right, down;
    bool swaps; /* width and height change places */
} turn;

static turn turn_of(int orientation, int64_t w, int64_t h) {
    int64_t last_column = w - 1, last_row = (h - 1) * w;
    switch (orientation) {
        case 2: return (turn){last_column, -1, w, false};
        case 3: return (turn){last_row + last_column, -1, -w, false};
        case 4: return (turn){last_row, 1, -w, false};
        case 5: return (turn){0, w, 1, true};
        case 6: return (turn){last_row, -w, 1, true};
        case 7: return (turn){last_row + last_column, -w, -1, true};
        case 8: return (turn){last_column, w, -1, true};
        default: return (turn){0, 1, w, false};
    }
}

/* Turns as EXIF orientation 2 to 8 asks, so that the first row is the top and the first column the left. */
static ls_code orient(ls_image *image, int orientation, ls_error *e) {
    turn t = turn_of(orientation, image->width, image->height);
    ls_image turned;
    LS_TRY(ls_image_create(&turned, t.swaps ? image->height : image->width, t.swaps ? image->width : image->height, e));
    uint8_t *to = turned.pixels;
    for (int32_t y = 0; y < turned.height; y++) {
        const uint8_t *from = image->pixels + 3 * (t.origin + y * t.down);
        for (int32_t x = 0; x < turned.width; x++, to += 3) memcpy(to, from + 3 * x * t.right, 3);
    }
    ls_image_deinit(image);
    *image = turned;
    return LS_OK;
}

ls_code ls_image_decode(ls_image *out, const uint8_t *data, size_t len, const ls_image_options *options, ls_error *e) {
    ls_image_info info;
    ls_code rc;
    memset(out, 0, sizeof *out);
    LS_TRY(ls_image_probe(&info, data, len, options, e));
    LS_TRY(ls_image_create(out, info.width, info.height, e));
    LS_GOTO(formats[info.format].decode(out, data, len, e));
    if (info.orientation > 1 && !(options && options->ignore_orientation)) LS_GOTO(orient(out, info.orientation, e));
    return LS_OK;
out:
    ls_image_deinit(out);
    return rc;
}

ls_code ls_image_open(ls_image *out, const char *path, const ls_image_options *options, ls_error *e) {
    ls_str file;
    memset(out, 0, sizeof *out);
    ls_code rc = read_file(&file, path, options, e);
    if (!rc) {
        rc = ls_image_decode(out, (const uint8_t *)file.data, file.len, options, e);
        if (rc) rc = ls_error_wrap(e, rc, "%s", path);
    }
    ls_str_deinit(&file);
    return rc;
}

void ls_image_sha256(const ls_image *image, char hex[65]) {
    char head[64];
    uint8_t digest[32];
    ls_sha256 h;
    int n = snprintf(head, sizeof head, "lockstep image 1 %" PRId32 " %" PRId32 " RGB8\n", image->width, image->height);
    ls_sha256_init(&h);
    ls_sha256_update(&h, head, (size_t)n);
    ls_sha256_update(&h, image->pixels, (size_t)image->width * (size_t)image->height * 3);
    ls_sha256_final(&h, digest);
    ls_sha256_hex(digest, hex);
}
