/* Gemma 3's image processor: a picture to the pixel values of the vision tower, bit for bit as transformers 4.57.6.
 *
 * Steps: crops when pan-and-scan is on, resize to a fixed size, times rescale_factor, minus mean, divided by std. transformers has two implementations with
 * different bits; which one it uses by default is written in preprocessor_config.json: Gemma3ImageProcessor (the published Gemma 3 checkpoints) is the slow
 * one, Pillow's resize and f64/f32 arithmetic of numpy; Gemma3ImageProcessorFast is torchvision's resize and f32 arithmetic with mean and std scaled first.
 * A file that names neither is the slow one's. */
#ifndef LS_MEDIA_PROCESSOR_H
#define LS_MEDIA_PROCESSOR_H

#include "base/json.h"
#include "media/resample.h"

enum {
    LS_PROCESSOR_MAX_SIDE = 8192,  /* of the resized picture */
    LS_PROCESSOR_MAX_CROPS = 64,   /* of one picture, besides the whole */
    LS_PROCESSOR_MAX_TOKENS = 1 << 16
};

/* Settings. A plain value without ownership; a caller may change fields after loading. */
typedef struct ls_image_processor {
    int32_t width, height; /* of the resized picture: 1 to LS_PROCESSOR_MAX_SIDE */
    bool resize, rescale, normalize;
    bool fast;             /* arithmetic of Gemma3ImageProcessorFast */
    ls_resize_rule rule;   /* follows |fast| when loaded */
    ls_filter filter;      /* "resample" */
    double rescale_factor, mean[3], std[3];
    bool pan_and_scan;     /* do_pan_and_scan. transformers' Gemma3Processor ignores the file's value unless its caller passes one; here the file's counts */
    int32_t min_crop_size, max_crops; /* absent: 256 and 4, Gemma3Processor's own */
    double min_ratio;      /* pan_and_scan_min_ratio_to_activate; absent: 1.2 */
    int32_t tokens;        /* image_seq_length: soft tokens of each picture or crop in the prompt */
} ls_image_processor;

/* From the JSON of preprocessor_config.json and processor_config.json (NULL: absent). Absent or null keys have Gemma3ImageProcessor's defaults.
 * Errors: UNIMPLEMENTED (another processor's type, a size that is not height and width, a filter other than 0 to 3), INVALID_ARGUMENT (types, ranges). */
ls_code ls_image_processor_from_json(ls_image_processor *out, const json_t *preprocessor, const json_t *processor, ls_error *e);

/* The files of |folder| that say it all, as one object: "preprocessor_config", and "processor_config" where there is one. *out is the caller's. NOT_FOUND: no
 * preprocessor_config.json; INVALID_ARGUMENT: no JSON objects. */
ls_code ls_image_processor_files(json_t **out, const char *folder, ls_error *e);

/* From such an object. Errors as ls_image_processor_from_json. */
ls_code ls_image_processor_from_files(ls_image_processor *out, const json_t *files, ls_error *e);

/* From the files in |folder|. Errors of both. */
ls_code ls_image_processor_load(ls_image_processor *out, const char *folder, ls_error *e);

/* A rectangle of the picture. */
typedef struct ls_crop {
    int32_t x, y, width, height;
} ls_crop;

/* Pan-and-scan: writes the crops of a |width| x |height| picture, left to right or top to bottom, and their number (0: off, or not elongated enough).
 * INVALID_ARGUMENT: a crop would be empty, where transformers fails too. */
ls_code ls_image_processor_crops(const ls_image_processor *p, int32_t width, int32_t height, ls_crop crops[LS_PROCESSOR_MAX_CROPS], int32_t *n, ls_error *e);

/* What the tower reads: the whole picture, then its crops. */
typedef struct ls_pixel_values {
    float *values;         /* [n, 3, height, width]; owned */
    int32_t n, height, width;
} ls_pixel_values;

/* |out| is set up here and empty on failure. Errors as ls_resize and ls_image_processor_crops; INVALID_ARGUMENT also for a picture of another size when
 * resizing is off. */
ls_code ls_image_process(const ls_image_processor *p, const ls_image *image, ls_pixel_values *out, ls_error *e);
void ls_pixel_values_deinit(ls_pixel_values *v); /* fine on a zeroed struct */

/* Appends the canonical text of the settings: one "name value" line each, floats as the hexadecimal bits of their f64. Equal texts give equal pixel values
 * for equal pictures; it is part of a model's identity. */
ls_code ls_image_processor_text(const ls_image_processor *p, ls_str *out, ls_error *e);

/* SHA-256 of that text and of the digest of the picture (ls_image_sha256): the key of everything computed from its pixel values. */
ls_code ls_image_key(const ls_image_processor *p, const ls_image *image, char hex[65], ls_error *e);

#endif
