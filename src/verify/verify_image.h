/* verify on prompts with pictures: processor, tower and projector, then the text model with the rows that they prepared. */
#ifndef LS_VERIFY_VERIFY_IMAGE_H
#define LS_VERIFY_VERIFY_IMAGE_H

#include "verify/report.h"

typedef struct ls_verify_image_report {
    char pixels_sha256[65];  /* of all pixel values, f32 little endian */
    size_t n_images;         /* whole pictures and crops */
    int64_t pixel_values, pixels_differ; /* beside a file that has pixel_values; pixel_values 0: not compared */
    bool has_vision, has_text; /* false: the file has no node of it, or an earlier stage diverged */
    ls_verify_report vision, text;
} ls_verify_image_report;

/* Whether all that was compared is equal. */
bool ls_verify_image_equal(const ls_verify_image_report *r);

/* Compares in order: pixel values (with a file), the tower on them, and, when these are equal, the text model on the prompt of |p| with
 * the image rows that the tower gives under the model's contract. |o|: as ls_verify_run, without prompt and images; a negative is planted
 * in the text model where it applies there, else in the tower. Errors: those of ls_verify_run and ls_model_prepare. */
ls_code ls_verify_image_run(ls_verify_image_report *r, ls_model *m, const ls_verify_options *o, const ls_prepare_options *p, ls_error *e);
void ls_verify_image_report_deinit(ls_verify_image_report *r); /* fine on a zeroed struct */

/* Lines for people, and JSON (schema lockstep-verify-image-v1) with the reports of both stages. */
ls_code ls_verify_image_text(const ls_verify_image_report *r, ls_str *s, ls_error *e);
json_t *ls_verify_image_json(const ls_verify_image_report *r, const ls_model *m, const char *path);

#endif
