/* The stages of a comparison with pictures: see verify_image.h. */
#include "verify/verify_image.h"

#include <inttypes.h>
#include <string.h>

#include "base/sha256.h"
#include "session/prepared.h"
#include "verify/negative.h"

/* What all stages read. */
typedef struct stages {
    ls_verify_image_report *r;
    ls_model *m;
    const ls_verify_options *o;
    float *pixels;
    const float **image;     /* [r->n_images] into |pixels| */
    ls_prepared_prefill *prompt;
    bool fault_in_text;
} stages;

static const ls_side_spec *file_of(const ls_verify_options *o) {
    return o->left.kind == LS_SIDE_FILE ? &o->left : o->right.kind == LS_SIDE_FILE ? &o->right : NULL;
}

/* What comes before the comparisons, which take over from there; on a large tower it takes minutes. */
static void tell(const stages *x, const char *what) {
    const ls_verify_stage s = {.name = "preparing", .detail = what, .begins = true};
    if (x->o->stage) x->o->stage(x->o->stage_user, &s);
}

/* ---- Pixels ----------------------------------------------------------------------------------------------------------------- */

static size_t pixels_each(const ls_model *m) {
    const ls_image_shape *s = &m->vision.image;
    return (size_t)s->channels * (size_t)s->image_size * (size_t)s->image_size;
}

/* Pixel values are integers times constants: a file's must be equal. */
static ls_code compare_pixels(stages *x, ls_error *e) {
    const ls_side_spec *file = file_of(x->o);
    float *theirs = NULL;
    const float **image = NULL;
    size_t n, all = x->r->n_images * pixels_each(x->m);
    if (!file) return LS_OK;
    ls_code rc = ls_verify_read_pixels(file->name, &x->m->vision, &theirs, &image, &n, e);
    if (rc == LS_NOT_FOUND) return LS_OK;
    if (!rc && n != x->r->n_images)
        rc = ls_error_set(e, LS_INVALID_ARGUMENT, __FILE__, __LINE__, "\"%s\" has pixel_values of %zu images, the prompt has %zu", file->name, n,
                          x->r->n_images);
    for (size_t i = 0; !rc && i < all; i++) x->r->pixels_differ += memcmp(&theirs[i], &x->pixels[i], sizeof *theirs) != 0;
    if (!rc) x->r->pixel_values = (int64_t)all;
    ls_free(theirs);
    ls_free(image);
    return rc;
}

static ls_code take_pixels(stages *x, const ls_prepare_options *p, ls_error *e) {
    size_t each = pixels_each(x->m);
    LS_TRY(ls_model_pixels(x->m, p, &x->pixels, &x->r->n_images, e));
    LS_TRY(ls_calloc(&x->image, x->r->n_images, sizeof(float *), "images", e));
    for (size_t i = 0; i < x->r->n_images; i++) x->image[i] = x->pixels + i * each;
    ls_sha256_hex_of((const char *)x->pixels, x->r->n_images * each * sizeof *x->pixels, x->r->pixels_sha256);
    return compare_pixels(x, e);
}

/* ---- Prompt ----------------------------------------------------------------------------------------------------------------- */

static ls_code take_prompt(stages *x, const ls_prepare_options *p, ls_error *e) {
    ls_prepared_fault why;
    const ls_prepared_limits l = {.hidden = x->m->graph->hidden, .vocab = x->m->graph->vocab, .context = x->m->context, .max_rows = LS_MAX_CHUNK};
    LS_TRY(ls_model_prepare_on(&x->prompt, x->m, x->m->contract == LS_CONTRACT_FLOAT ? "reference" : "native", p, e));
    LS_TRY(ls_prepared_admit(x->prompt, &l, 0, &why, e));
    if (!x->o->negative) return LS_OK;
    const ls_fault_prompt prompt = {.embedding = x->prompt->row, .block = x->prompt->span, .n = x->prompt->n};
    ls_fault *fault = NULL;
    x->fault_in_text = !ls_fault_create(&fault, x->m->graph, &prompt, x->o->negative, NULL);
    ls_fault_destroy(fault);
    return LS_OK;
}

/* ---- Stages ----------------------------------------------------------------------------------------------------------------- */

/* A file need not have nodes of both models. */
static ls_code run_stage(const stages *x, const ls_verify_options *o, ls_verify_report *r, bool *has, ls_error *e) {
    ls_code rc = ls_verify_run(r, x->m, o, e);
    *has = !rc;
    return rc == LS_NOT_FOUND && file_of(x->o) ? LS_OK : rc;
}

static ls_code run_vision(stages *x, ls_error *e) {
    ls_verify_options o = *x->o;
    o.image = x->image;
    o.n_images = x->r->n_images;
    o.decode = 0;
    if (x->fault_in_text) o.negative = NULL;
    return run_stage(x, &o, &x->r->vision, &x->r->has_vision, e);
}

static ls_code run_text(stages *x, ls_error *e) {
    ls_verify_options o = *x->o;
    o.prompt = x->prompt->token;
    o.n_prompt = x->prompt->n;
    o.embedding = x->prompt->row;
    o.block = x->prompt->span;
    if (!x->fault_in_text) o.negative = NULL;
    return run_stage(x, &o, &x->r->text, &x->r->has_text, e);
}

static ls_code run_all(stages *x, const ls_prepare_options *p, ls_error *e) {
    ls_verify_image_report *r = x->r;
    tell(x, "pixel values");
    LS_TRY(take_pixels(x, p, e));
    tell(x, "image rows");
    LS_TRY(take_prompt(x, p, e));
    LS_TRY(run_vision(x, e));
    if (ls_verify_image_equal(r)) LS_TRY(run_text(x, e));
    if (!r->has_vision && !r->has_text)
        LS_FAIL(e, LS_NOT_FOUND, "\"%s\" cannot be read, or has no node of the tower and none of the text model", file_of(x->o)->name);
    return LS_OK;
}

bool ls_verify_image_equal(const ls_verify_image_report *r) {
    return !r->pixels_differ && (!r->has_vision || r->vision.first < 0) && (!r->has_text || r->text.first < 0);
}

ls_code ls_verify_image_run(ls_verify_image_report *r, ls_model *m, const ls_verify_options *o, const ls_prepare_options *p, ls_error *e) {
    *r = (ls_verify_image_report){.vision = {.first = -1}, .text = {.first = -1}};
    if (!m->graph) LS_FAIL(e, LS_FAILED_PRECONDITION, "the model was opened without its graph; open it with LS_LOAD_GRAPH");
    stages x = {.r = r, .m = m, .o = o};
    ls_code rc = run_all(&x, p, e);
    ls_free(x.image);
    ls_free(x.pixels);
    ls_prepared_destroy(x.prompt);
    if (rc) ls_verify_image_report_deinit(r);
    return rc;
}

void ls_verify_image_report_deinit(ls_verify_image_report *r) {
    ls_verify_report_deinit(&r->vision);
    ls_verify_report_deinit(&r->text);
}

/* ---- Reports ---------------------------------------------------------------------------------------------------------------- */

ls_code ls_verify_image_text(const ls_verify_image_report *r, ls_str *s, ls_error *e) {
    LS_TRY(ls_str_printf(s, e, "processor.pixel_values: %zu images, sha256 %s", r->n_images, r->pixels_sha256));
    if (r->pixels_differ) LS_TRY(ls_str_printf(s, e, "; DIVERGED, %" PRId64 " of %" PRId64 " values differ", r->pixels_differ, r->pixel_values));
    else if (r->pixel_values) LS_TRY(ls_str_append(s, "; equal to the file's", SIZE_MAX, e));
    LS_TRY(ls_str_append(s, "\n\nVision tower and projector\n", SIZE_MAX, e));
    LS_TRY(r->has_vision ? ls_verify_text(&r->vision, s, e) : ls_str_append(s, "not in the file\n", SIZE_MAX, e));
    LS_TRY(ls_str_append(s, "\nText model on the prepared rows\n", SIZE_MAX, e));
    if (r->has_text) return ls_verify_text(&r->text, s, e);
    bool stopped = r->pixels_differ || (r->has_vision && r->vision.first >= 0);
    return ls_str_append(s, stopped ? "not compared: an earlier stage diverged\n" : "not in the file\n", SIZE_MAX, e);
}

json_t *ls_verify_image_json(const ls_verify_image_report *r, const ls_model *m, const char *path) {
    json_t *pixels = json_pack("{s:I, s:s, s:I, s:I}", "images", (json_int_t)r->n_images, "sha256", r->pixels_sha256, "compared", (json_int_t)r->pixel_values,
                               "differ", (json_int_t)r->pixels_differ);
    return json_pack("{s:s, s:b, s:o, s:o, s:o}", "schema", "lockstep-verify-image-v1", "equal", ls_verify_image_equal(r), "pixels", pixels, "vision",
                     r->has_vision ? ls_verify_json(&r->vision, m, path) : json_null(), "text", r->has_text ? ls_verify_json(&r->text, m, path) : json_null());
}
