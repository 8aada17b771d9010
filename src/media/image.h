/* Pictures: PNG, JPEG and WebP files to RGB pixels, as Pillow's Image.open(...).convert("RGB") gives them.
 *
 * Dimensions are read and checked before anything of their size is allocated. What the result is: palettes looked up, grey copied to three channels,
 * alpha dropped (not blended), 16-bit channels cut to their high byte (16-bit grey: clipped at 255, as Pillow does), CMYK and YCCK taken as Adobe's
 * inverted ink; colour profiles and gamma do not apply; of an animation the first frame, an APNG's default image. A file that is cut off or corrupt in
 * what the pixels need is an error; damage elsewhere is not. */
#ifndef LS_MEDIA_IMAGE_H
#define LS_MEDIA_IMAGE_H

#include "base/file.h"

/* RGB, 8 bits each, rows from top to bottom without padding: pixels[(y * width + x) * 3 + channel]. */
typedef struct ls_image {
    uint8_t *pixels; /* owned: free with ls_image_deinit */
    int32_t width, height;
} ls_image;

typedef enum ls_image_format { LS_IMAGE_PNG, LS_IMAGE_JPEG, LS_IMAGE_WEBP } ls_image_format;

enum {
    LS_IMAGE_MAX_PIXELS = 89478485,         /* default of max_pixels: where Pillow begins to warn of decompression bombs */
    LS_IMAGE_MAX_BYTES = 64 << 20,          /* default of max_bytes */
    LS_IMAGE_MAX_FRAMES = 4096,             /* default of max_frames */
    LS_IMAGE_PIXELS_CEILING = 0x7fffffff / 8 /* no option allows more */
};

/* Zero-initialise: a zero limit means the default above. */
typedef struct ls_image_options {
    int64_t max_pixels;      /* width * height of the file's canvas */
    int64_t max_bytes;       /* of the encoded file */
    int64_t max_frames;      /* that an animation declares, although only the first is decoded */
    bool ignore_orientation; /* false: turned as EXIF (or, without it, XMP) says, as transformers' load_image does for paths and URLs; true: as stored,
                                as transformers treats an image object that was handed over */
} ls_image_options;

typedef struct ls_image_info {
    ls_image_format format;
    int32_t width, height; /* as stored, before orientation */
    int32_t frames;        /* 1 for stills */
    int orientation;       /* EXIF value 1 to 8; 1 when the file has none or a wrong one */
} ls_image_info;

/* Reads the header of data[len] and checks it against the limits of |options| (NULL: defaults). Decodes no pixel and allocates nothing of the image's size.
 * Errors: INVALID_ARGUMENT (empty, no picture), DATA_LOSS (corrupt or cut off), UNIMPLEMENTED (another format, named when known), RESOURCE_EXHAUSTED
 * (over a limit). */
ls_code ls_image_probe(ls_image_info *out, const uint8_t *data, size_t len, const ls_image_options *options, ls_error *e);

/* Decodes data[len]; |out| is set up here, and empty on failure. Errors as ls_image_probe. Allocates at most 3 bytes per pixel, twice that while turning,
 * and what the format's library needs (JPEG: up to 12 bytes per pixel when progressive). */
ls_code ls_image_decode(ls_image *out, const uint8_t *data, size_t len, const ls_image_options *options, ls_error *e);

/* Reads the header of the file |path| as ls_image_probe does; messages name it. Errors also as ls_file_read. */
ls_code ls_image_probe_file(ls_image_info *out, const char *path, const ls_image_options *options, ls_error *e);

/* Width and height of the decoded picture: those stored, or exchanged where the orientation, unless ignored, says so. */
void ls_image_shown_size(const ls_image_info *info, const ls_image_options *options, int32_t *width, int32_t *height);

/* Decodes the file |path|; messages name it. Errors also as ls_file_read. */
ls_code ls_image_open(ls_image *out, const char *path, const ls_image_options *options, ls_error *e);

/* A black image of |width| x |height| (both 1 or more, at most LS_IMAGE_PIXELS_CEILING pixels). */
ls_code ls_image_create(ls_image *out, int32_t width, int32_t height, ls_error *e);

void ls_image_deinit(ls_image *image); /* fine on a zeroed struct, and zeroes it */

const char *ls_image_format_name(ls_image_format format); /* "PNG" */

/* SHA-256 of "lockstep image 1 <width> <height> RGB8\n" and the pixels, in lower-case hex: what a cache of image results is keyed by. */
void ls_image_sha256(const ls_image *image, char hex[65]);

#endif
