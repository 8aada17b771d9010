/* Resizing pictures, bit for bit as Pillow's Image.resize and as torchvision's antialiased resize (transforms.v2.functional, torch 2.13 on a CPU).
 *
 * Both filter along one side, round to 8 bits, then along the other, with integer weights; they differ in which side is first, and in the weights'
 * precision: Pillow gives every weight 22 fraction bits, torchvision as many as let the side's largest weight fit 16 bits. A side that keeps its size is
 * not filtered. When a side shrinks, the filter is stretched over the pixels that become one. */
#ifndef LS_MEDIA_RESAMPLE_H
#define LS_MEDIA_RESAMPLE_H

#include "media/image.h"

/* Numbered as PIL.Image.Resampling and "resample" of preprocessor_config.json. */
typedef enum ls_filter { LS_FILTER_NEAREST = 0, LS_FILTER_LANCZOS = 1, LS_FILTER_BILINEAR = 2, LS_FILTER_BICUBIC = 3 } ls_filter;

typedef enum ls_resize_rule {
    LS_RESIZE_PILLOW,       /* of Pillow 13.0: the rows are filtered first where the height shrinks by more than twice what the width shrinks by */
    LS_RESIZE_PILLOW_12,    /* of Pillow up to 12.3: the columns are filtered first */
    LS_RESIZE_TORCHVISION,  /* the columns are filtered first; nearest is torch's nearest-exact, which transformers takes for Pillow's */
} ls_resize_rule;

/* A rectangle of an image. Borrowed. */
typedef struct ls_image_view {
    const uint8_t *pixels; /* of the upper left corner */
    size_t stride;         /* bytes from one row to the next */
    int32_t width, height;
} ls_image_view;

ls_image_view ls_image_whole(const ls_image *image);

/* Resizes |in| to |width| x |height| pixels into |out|, which is set up here and empty on failure. Errors: INVALID_ARGUMENT (a side below 1, more pixels than
 * LS_IMAGE_PIXELS_CEILING), RESOURCE_EXHAUSTED. */
ls_code ls_resize(ls_image *out, ls_image_view in, int32_t width, int32_t height, ls_filter filter, ls_resize_rule rule, ls_error *e);

#endif
