/* Pictures and text to a prepared prefill: decoding, expansion, the tower, and the payload. */
#include <string.h>

#include "session/bundle.h"
#include "session/chat.h"
#include "session/prepared.h"

enum { MAX_PICTURES = 4096 };

/* What a request is made of on its way. */
typedef struct work {
    ls_model *m;
    const char *backend;    /* the tower's */
    const ls_prepare_options *o;
    int32_t *crops;         /* [n_pictures] by the headers */
    ls_str text;
    ls_byte_range *parse;   /* [n_parse] where |text| may spell control tokens */
    size_t n_parse;
    ls_image_prompt prompt;
    float **rows;           /* [n_pictures] of a picture and its crops */
} work;

static void work_deinit(work *w) {
    for (size_t i = 0; w->rows && i < w->o->n_pictures; i++) ls_free(w->rows[i]);
    ls_free(w->crops);
    ls_free(w->rows);
    ls_free(w->parse);
    ls_str_deinit(&w->text);
    ls_image_prompt_deinit(&w->prompt);
}

/* ---- Text ------------------------------------------------------------------------------------------------------------------- */

static ls_code render(work *w, ls_error *e) {
    json_t *list;
    ls_render r = {0};
    LS_TRY(ls_model_need_template(w->m, e));
    LS_TRY(ls_json_parse(&list, w->o->text, w->o->len, "messages", e));
    ls_code rc = json_is_array(list) ? LS_OK : ls_error_set(e, LS_INVALID_ARGUMENT, __FILE__, __LINE__, "messages must be a JSON array");
    if (!rc) rc = ls_chat_render(w->m->chat, w->m->tokenizer, list, w->o->now, &r, e);
    if (!rc) rc = ls_str_append(&w->text, r.text.data ? r.text.data : "", r.text.len, e);
    if (!rc) rc = ls_chat_ranges(&r, &w->parse, &w->n_parse, e);
    ls_render_deinit(&r);
    json_decref(list);
    return rc;
}

/* A raw prompt may spell control tokens anywhere. */
static ls_code take_text(work *w, ls_error *e) {
    LS_TRY(ls_str_append(&w->text, w->o->text ? w->o->text : "", w->o->len, e));
    LS_TRY(ls_calloc(&w->parse, 1, sizeof *w->parse, "prompt", e));
    w->parse[0] = (ls_byte_range){0, w->text.len};
    w->n_parse = w->text.len != 0;
    return LS_OK;
}

static ls_code expand(work *w, ls_error *e) {
    const ls_prompt_text in = {.text = w->text.data ? w->text.data : "", .len = w->text.len, .parse = w->parse, .n_parse = w->n_parse,
                               .add_special = !w->o->chat && w->o->add_special, .places_needed = w->o->chat};
    return ls_image_prompt_expand(&w->prompt, w->m->tokenizer, &w->m->eyes.tokens, &in, w->crops, w->o->n_pictures, (size_t)w->m->context, e);
}

/* ---- Pictures --------------------------------------------------------------------------------------------------------------- */

static ls_image_options limits_of(const work *w) {
    return (ls_image_options){.max_pixels = w->o->max_pixels, .max_bytes = w->o->max_bytes, .max_frames = w->o->max_frames,
                              .ignore_orientation = w->o->ignore_orientation};
}

/* Reads the header of picture |i|: how many crops it will have. */
static ls_code measure(work *w, size_t i, ls_error *e) {
    const ls_picture *p = &w->o->pictures[i];
    const ls_image_options limits = limits_of(w);
    ls_image_info info;
    int32_t width, height;
    ls_crop crops[LS_PROCESSOR_MAX_CROPS];
    LS_TRY(p->path ? ls_image_probe_file(&info, p->path, &limits, e) : ls_image_probe(&info, p->data, p->len, &limits, e));
    ls_image_shown_size(&info, &limits, &width, &height);
    return ls_image_processor_crops(&w->m->eyes.processor, width, height, crops, &w->crops[i], e);
}

static ls_code measure_all(work *w, ls_error *e) {
    size_t n = w->o->n_pictures;
    if (n > MAX_PICTURES) LS_FAIL(e, LS_RESOURCE_EXHAUSTED, "%zu pictures in one request; allowed are %d", n, MAX_PICTURES);
    LS_TRY(ls_calloc(&w->crops, n, sizeof *w->crops, "pictures", e));
    LS_TRY(ls_calloc(&w->rows, n, sizeof(float *), "pictures", e));
    for (size_t i = 0; i < n; i++) {
        ls_code rc = measure(w, i, e);
        if (rc) return ls_error_wrap(e, rc, "picture %zu", i + 1);
    }
    return LS_OK;
}

static ls_code decode(ls_image *out, const work *w, size_t i, ls_error *e) {
    const ls_picture *p = &w->o->pictures[i];
    const ls_image_options limits = limits_of(w);
    return p->path ? ls_image_open(out, p->path, &limits, e) : ls_image_decode(out, p->data, p->len, &limits, e);
}

/* The image path of a compiled backend has a qualification of its own; text is served without it. */
static ls_code check_qualified(const ls_model *m, ls_error *e) {
    bool qualified = true;
    ls_str why = {0};
    if (!m->xla.engine || m->allow_unqualified) return LS_OK;
    ls_code rc = ls_backend_xla_qualified(&m->xla, m->eyes.vision->graph, &qualified, &why, e);
    if (!rc && !qualified)
        rc = ls_error_set(e, LS_FAILED_PRECONDITION, __FILE__, __LINE__, "images of this family are not qualified on this device: %.500s. Run lockstep "
                          "qualify on this model with the same options, or allow unqualified results (--allow-unqualified); text is served",
                          why.data ? why.data : "no record");
    ls_str_deinit(&why);
    return rc;
}

/* One picture at a time: decoded, it may be a thousand times its file. */
static ls_code see_all(work *w, ls_error *e) {
    ls_model *m = w->m;
    const ls_eyes_backend b = {.name = w->backend, .checkpoint = m->checkpoint, .xla = &m->xla, .level = m->level[0] ? m->level : NULL,
                               .threads = m->threads, .pin = m->pin};
    for (size_t i = 0, n; i < w->o->n_pictures; i++) {
        ls_image picture;
        ls_code rc = decode(&picture, w, i, e);
        if (!rc) rc = ls_eyes_see(&m->eyes, &b, &picture, &w->rows[i], &n, e);
        ls_image_deinit(&picture);
        if (!rc && n != (size_t)w->crops[i] + 1)
            rc = ls_error_set(e, LS_DATA_LOSS, __FILE__, __LINE__, "%zu images with its crops where its header promised %d; did the file change meanwhile?", n,
                              (int)w->crops[i] + 1);
        if (rc) return ls_error_wrap(e, rc, "picture %zu", i + 1);
    }
    return LS_OK;
}

/* ---- Payload ---------------------------------------------------------------------------------------------------------------- */

static ls_code make_payload(ls_prepared_prefill **out, const work *w, ls_error *e) {
    const ls_image_prompt *p = &w->prompt;
    size_t tokens = (size_t)w->m->eyes.tokens.count, hidden = (size_t)w->m->graph->hidden, rows = p->n_blocks * tokens, each = tokens * hidden;
    float *values = NULL;
    size_t *at = NULL;
    ls_prepared_block *block = NULL;
    ls_code rc;
    LS_GOTO(ls_calloc(&values, rows, hidden * sizeof *values, "image rows", e));
    LS_GOTO(ls_calloc(&at, rows, sizeof *at, "image rows", e));
    LS_GOTO(ls_calloc(&block, p->n_blocks, sizeof *block, "image rows", e));
    for (size_t b = 0; b < p->n_blocks; b++) {
        const ls_image_block *k = &p->blocks[b];
        block[b] = (ls_prepared_block){k->begin, k->end};
        memcpy(values + b * each, w->rows[k->image] + (size_t)k->crop * each, each * sizeof *values);
        for (size_t i = 0; i < tokens; i++) at[b * tokens + i] = k->begin + i;
    }
    const ls_modality images = {.family = w->m->graph->architecture, .items = w->o->n_pictures, .tokens = rows};
    const ls_prepared_options o = {
        .struct_size = sizeof o, .tokens = p->ids.ids, .n_tokens = p->ids.n, .length = p->ids.n, .rows_at = at, .blocks = block, .n_blocks = p->n_blocks,
        .embeddings = {LS_ELEMENT_F32, 2, {(int64_t)rows, (int64_t)hidden}, values, rows * hidden * sizeof *values}, .modalities = &images, .n_modalities = 1};
    rc = ls_prepared_create(out, &o, NULL, e);
out:
    ls_free(values);
    ls_free(at);
    ls_free(block);
    return rc;
}

static ls_code prepare(ls_prepared_prefill **out, work *w, ls_error *e) {
    LS_TRY(measure_all(w, e));
    LS_TRY(w->o->chat ? render(w, e) : take_text(w, e));
    LS_TRY(expand(w, e));
    if (w->prompt.ids.n >= (size_t)w->m->context)
        LS_FAIL(e, LS_RESOURCE_EXHAUSTED, "the prompt with its images has %zu tokens, which leaves no room for an answer in the context of %d positions; raise "
                "the context size or use fewer images", w->prompt.ids.n, w->m->context);
    LS_TRY(see_all(w, e));
    return make_payload(out, w, e);
}

const char *ls_model_no_vision(const ls_model *m) {
    if (m->eyes.vision) return NULL;
    return m->eyes.why.code ? m->eyes.why.text : "the model's configuration declares no vision";
}

/* Appends the processed picture |i| and its crops. */
static ls_code add_pixels(work *w, size_t i, float **values, size_t *n, ls_error *e) {
    ls_pixel_values v = {0};
    ls_image picture;
    ls_code rc = decode(&picture, w, i, e);
    if (!rc) rc = ls_image_process(&w->m->eyes.processor, &picture, &v, e);
    ls_image_deinit(&picture);
    size_t each = 3 * (size_t)v.height * (size_t)v.width;
    if (!rc) rc = ls_realloc(values, (*n + (size_t)v.n) * each, sizeof **values, "pixel values", e);
    if (!rc) memcpy(*values + *n * each, v.values, (size_t)v.n * each * sizeof **values);
    if (!rc) *n += (size_t)v.n;
    ls_pixel_values_deinit(&v);
    return rc ? ls_error_wrap(e, rc, "picture %zu", i + 1) : LS_OK;
}

ls_code ls_model_pixels(ls_model *m, const ls_prepare_options *o, float **values, size_t *n, ls_error *e) {
    *values = NULL;
    *n = 0;
    LS_TRY(ls_eyes_need(&m->eyes, e));
    work w = {.m = m, .o = o};
    ls_code rc = measure_all(&w, e);
    for (size_t i = 0; !rc && i < o->n_pictures; i++) rc = add_pixels(&w, i, values, n, e);
    work_deinit(&w);
    if (!rc) return LS_OK;
    ls_free(*values);
    *values = NULL;
    return rc;
}

ls_code ls_model_prepare_on(ls_prepared_prefill **out, ls_model *m, const char *backend, const ls_prepare_options *o, ls_error *e) {
    LS_TRY(ls_eyes_need(&m->eyes, e));
    work w = {.m = m, .backend = backend, .o = o};
    ls_code rc = prepare(out, &w, e);
    work_deinit(&w);
    return rc;
}

ls_code ls_model_prepare(ls_prepared_prefill **out, ls_model *m, const ls_prepare_options *given, ls_error *e) {
    ls_prepare_options o = {0};
    if (!given->struct_size) LS_FAIL(e, LS_INVALID_ARGUMENT, "struct_size of the prepare options is 0; set it to sizeof(ls_prepare_options)");
    memcpy(&o, given, given->struct_size < sizeof o ? given->struct_size : sizeof o);
    LS_TRY(ls_eyes_need(&m->eyes, e));
    if (!m->executor) LS_FAIL(e, LS_FAILED_PRECONDITION, "the model was opened without an executor; open it with LS_LOAD_ALL");
    LS_TRY(check_qualified(m, e));
    return ls_model_prepare_on(out, m, m->backend, &o, e);
}
