/* What the fuzz targets of the image formats share: the input behind a format's magic, decoded under small limits. */
#ifndef LS_TESTS_MEDIA_FUZZ_IMAGE_H
#define LS_TESTS_MEDIA_FUZZ_IMAGE_H

#include <stdlib.h>

#include "media/image.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Reads every pixel of what was accepted, and checks it against the header. */
static inline void fuzz_image(const uint8_t *data, size_t size, ls_image_format format) {
    ls_error e = {0};
    ls_image_options o = {.max_pixels = 1 << 16, .max_frames = 64};
    ls_image_info info;
    ls_image image;
    char hex[65];
    if (ls_image_probe(&info, data, size, &o, &e) || info.format != format) return;
    if (info.orientation < 1 || info.orientation > 8 || info.frames < 1) abort();
    if (ls_image_decode(&image, data, size, &o, &e)) {
        if (image.pixels || !e.text[0]) abort();
        return;
    }
    if ((int64_t)image.width * image.height != (int64_t)info.width * info.height) abort();
    ls_image_sha256(&image, hex);
    ls_image_deinit(&image);
}

#endif
