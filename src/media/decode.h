/* The decoders behind image.h, one file per format. For src/media alone. */
#ifndef LS_MEDIA_DECODE_H
#define LS_MEDIA_DECODE_H

#include "media/image.h"

/* A probe fills width, height, frames and orientation from the header; it checks no limit. A decoder gets an |out| of the probed size with black pixels.
 * Both read only data[len] and return DATA_LOSS with the library's own words for a file it cannot read. */
ls_code ls_png_probe(ls_image_info *out, const uint8_t *data, size_t len, ls_error *e);
ls_code ls_png_decode(ls_image *out, const uint8_t *data, size_t len, ls_error *e);
ls_code ls_jpeg_probe(ls_image_info *out, const uint8_t *data, size_t len, ls_error *e);
ls_code ls_jpeg_decode(ls_image *out, const uint8_t *data, size_t len, ls_error *e);
ls_code ls_webp_probe(ls_image_info *out, const uint8_t *data, size_t len, ls_error *e);
ls_code ls_webp_decode(ls_image *out, const uint8_t *data, size_t len, ls_error *e);

/* A range of the file; |len| 0: absent. */
typedef struct ls_bytes {
    const uint8_t *data;
    size_t len;
} ls_bytes;

/* EXIF orientation 1 to 8 from a TIFF structure (with or without "Exif\0\0" before it; CIPA DC-008, tag 0x0112 of the first directory), or else from
 * the text tiff:Orientation of an XMP packet, in Pillow's order; 1 when neither says. Never fails: broken metadata says nothing. */
int ls_orientation(ls_bytes exif, ls_bytes xmp);

#endif
