/* Opening a tower, and pictures to rows: see eyes.h. */
#include "session/eyes.h"

#include <string.h>

#include "session/encode.h"
#include "weights/packfile.h"

enum { IMAGE_CACHE_BYTES = 64 << 20, GEMMA3_BOI = 255999, GEMMA3_EOI = 256000, GEMMA3_IMAGE = 262144, GEMMA3_TOKENS = 256, TOKENIZER_CONFIG_BYTES = 16 << 20 };

/* ---- Opening ---------------------------------------------------------------------------------------------------------------- */

static ls_code read_id(const json_t *config, const char *key, int64_t usual, int32_t *out, ls_error *e) {
    int64_t v = usual;
    LS_TRY(ls_json_get_int(config, key, 0, INT32_MAX, &v, e));
    *out = (int32_t)v;
    return LS_OK;
}

static ls_code read_tokens(ls_eyes *x, const json_t *config, const ls_tokenizer *t, ls_error *e) {
    LS_TRY(read_id(config, "boi_token_index", GEMMA3_BOI, &x->tokens.boi, e));
    LS_TRY(read_id(config, "image_token_index", GEMMA3_IMAGE, &x->tokens.image, e));
    LS_TRY(read_id(config, "eoi_token_index", GEMMA3_EOI, &x->tokens.eoi, e));
    LS_TRY(read_id(config, "mm_tokens_per_image", GEMMA3_TOKENS, &x->tokens.count, e));
    LS_TRY(read_id(config, "pad_token_id", 0, &x->pad, e));
    if (!t) LS_FAIL(e, LS_FAILED_PRECONDITION, "the model has no tokenizer, which prompts with images need");
    if (x->pad == x->tokens.image)
        LS_FAIL(e, LS_FAILED_PRECONDITION, "pad_token_id and image_token_index are both %d; images need a token of their own", (int)x->pad);
    return ls_image_tokens_check(&x->tokens, t, e);
}

/* A token of tokenizer_config.json or of its "extra_special_tokens", as text or as an object with "content"; NULL: not there. */
static const char *token_text(const json_t *o, const char *key) {
    const json_t *v = json_object_get(o, key);
    return json_string_value(json_is_object(v) ? json_object_get(v, "content") : v);
}

/* transformers expands prompts with the texts that the tokenizer names and finds rows by config.json's id: they must be the same tokens. */
static ls_code check_texts(const ls_image_tokens *k, const ls_tokenizer *t, const json_t *o, ls_error *e) {
    const struct {
        const char *key;
        int32_t id;
    } tokens[] = {{"boi_token", k->boi}, {"image_token", k->image}, {"eoi_token", k->eoi}};
    for (size_t i = 0; i < 3; i++) {
        size_t len = 0;
        const char *named = token_text(o, tokens[i].key), *own = ls_tokenizer_token(t, tokens[i].id, &len);
        if (named && (strlen(named) != len || memcmp(named, own, len)))
            LS_FAIL(e, LS_FAILED_PRECONDITION, "tokenizer_config.json has \"%s\" \"%.80s\", and \"%s_index\" of config.json is %d, which is \"%.80s\"; "
                    "they must be the same token", tokens[i].key, named, tokens[i].key, (int)tokens[i].id, own);
    }
    return LS_OK;
}

static ls_code check_tokenizer_config(const ls_image_tokens *k, const ls_tokenizer *t, const char *folder, ls_error *e) {
    json_t *o = NULL;
    ls_arena *a = NULL;
    const char *path;
    ls_code rc;
    LS_TRY(ls_arena_create(&a, e));
    LS_GOTO(ls_path_join(a, &path, folder, "tokenizer_config.json", e));
    if (ls_file_exists(path)) LS_GOTO(ls_json_load(&o, path, TOKENIZER_CONFIG_BYTES, e));
    LS_GOTO(check_texts(k, t, o, e));
    LS_GOTO(check_texts(k, t, json_object_get(o, "extra_special_tokens"), e));
out:
    json_decref(o);
    ls_arena_destroy(a);
    return rc;
}

/* Processor, tower and prompt must agree on sizes. */
static ls_code check_sizes(const ls_eyes *x, const ls_vision *v, int64_t text_hidden, ls_error *e) {
    const ls_graph *g = v->graph;
    int side = v->image.image_size;
    if (x->processor.width != side || x->processor.height != side)
        LS_FAIL(e, LS_UNIMPLEMENTED, "preprocessor_config.json resizes to %d x %d; the tower takes %d x %d", (int)x->processor.width,
                (int)x->processor.height, side, side);
    if (g->image_out != x->tokens.count || x->processor.tokens != x->tokens.count)
        LS_FAIL(e, LS_UNIMPLEMENTED, "an image has %d tokens by config, %d by the processor and %lld rows by the tower; they must be equal",
                (int)x->tokens.count, (int)x->processor.tokens, (long long)g->image_out);
    if (g->vocab != text_hidden)
        LS_FAIL(e, LS_UNIMPLEMENTED, "the projector gives rows of %lld columns, the text model takes %lld", (long long)g->vocab, (long long)text_hidden);
    return LS_OK;
}

/* The processor of a pack file. Its tokens were compared with tokenizer_config.json when it was packed. */
static ls_code open_packed_processor(ls_eyes *x, const ls_packfile *p, ls_error *e) {
    const ls_pack_span *s = &p->section[LS_SECTION_IMAGES];
    const char *name = ls_section_name(LS_SECTION_IMAGES);
    json_t *files;
    if (!s->data)
        LS_FAIL(e, LS_UNIMPLEMENTED, "\"%s\" has no section %s: the model that was packed took no pictures, for a reason that `lockstep inspect` of it tells",
                p->path, name);
    LS_TRY(ls_json_parse(&files, (const char *)s->data, s->size, name, e));
    ls_code rc = ls_image_processor_from_files(&x->processor, files, e);
    json_decref(files);
    return rc ? ls_error_wrap(e, rc, "\"%s\": section %s", p->path, name) : LS_OK;
}

static ls_code open_processor(ls_eyes *x, const ls_checkpoint *c, const ls_tokenizer *t, ls_error *e) {
    const char *folder = ls_checkpoint_folder(c);
    if (ls_checkpoint_pack(c)) return open_packed_processor(x, ls_checkpoint_pack(c), e);
    if (!folder) LS_FAIL(e, LS_UNIMPLEMENTED, "images need a Hugging Face folder with its preprocessor_config.json");
    LS_TRY(check_tokenizer_config(&x->tokens, t, folder, e));
    return ls_image_processor_load(&x->processor, folder, e);
}

static ls_code open_parts(ls_eyes *x, const ls_vision *v, ls_checkpoint *c, const ls_tokenizer *t, int64_t text_hidden, ls_error *e) {
    LS_TRY(read_tokens(x, ls_checkpoint_config(c), t, e));
    LS_TRY(open_processor(x, c, t, e));
    return check_sizes(x, v, text_hidden, e);
}

ls_code ls_eyes_open(ls_eyes *x, const ls_vision *v, const ls_error *why, ls_checkpoint *c, const ls_tokenizer *t, int64_t text_hidden, ls_error *e) {
    *x = (ls_eyes){.cache = {.max_bytes = IMAGE_CACHE_BYTES}, .why = *why};
    if (!v->graph) return LS_OK;
    ls_code rc = open_parts(x, v, c, t, text_hidden, &x->why);
    if (rc == LS_RESOURCE_EXHAUSTED) LS_FAIL(e, rc, "%s", x->why.text);
    if (!rc) x->vision = v;
    return LS_OK;
}

void ls_eyes_deinit(ls_eyes *x) {
    if (x->executor) x->executor->destroy(x->executor);
    ls_features_clear(&x->cache);
    *x = (ls_eyes){0};
}

ls_code ls_eyes_need(const ls_eyes *x, ls_error *e) {
    if (x->vision) return LS_OK;
    if (x->why.code) LS_FAIL(e, LS_UNIMPLEMENTED, "image input is refused: %.900s", x->why.text);
    LS_FAIL(e, LS_UNIMPLEMENTED, "image input is refused: this model and runtime bundle has none; ask with text only");
}

/* ---- Seeing ----------------------------------------------------------------------------------------------------------------- */

static ls_code create_executor(ls_eyes *x, const ls_eyes_backend *b, ls_error *e) {
    const ls_graph *g = x->vision->graph;
    ls_executor_options o = ls_encode_options(x->vision, 1);
    o.threads = b->threads;
    o.pin = b->pin;
    o.level = b->level;
    if (!strcmp(b->name, "reference")) return ls_reference_create(&x->executor, g, &o, e);
    if (!strcmp(b->name, "native")) return ls_native_create(&x->executor, g, b->checkpoint, &o, e);
    ls_xla_options xo = {.precision = b->xla->options.precision};
    return ls_xla_create(&x->executor, g, b->checkpoint, b->xla->engine, &xo, &o, e);
}

static ls_code encode(ls_eyes *x, const ls_eyes_backend *b, const ls_pixel_values *v, float *rows, ls_error *e) {
    size_t pixels = 3 * (size_t)v->height * (size_t)v->width, each = (size_t)x->vision->graph->image_out * (size_t)x->vision->graph->vocab;
    if (!x->executor) LS_TRY(create_executor(x, b, e));
    for (int32_t i = 0; i < v->n; i++) {
        const float *one = v->values + (size_t)i * pixels;
        LS_TRY(ls_encode_images(x->executor, x->vision, &one, 1, rows + (size_t)i * each, e));
    }
    return LS_OK;
}

ls_code ls_eyes_see(ls_eyes *x, const ls_eyes_backend *b, const ls_image *picture, float **rows, size_t *n, ls_error *e) {
    char key[65];
    size_t each = (size_t)x->vision->graph->image_out * (size_t)x->vision->graph->vocab, kept;
    ls_pixel_values v = {0};
    *rows = NULL;
    LS_TRY(ls_image_key(&x->processor, picture, key, e));
    const float *known = ls_features_find(&x->cache, key, &kept);
    if (known) {
        *n = kept / each;
        LS_TRY(ls_calloc(rows, kept, sizeof **rows, "image rows", e));
        memcpy(*rows, known, kept * sizeof **rows);
        return LS_OK;
    }
    ls_code rc = ls_image_process(&x->processor, picture, &v, e);
    if (!rc) rc = ls_calloc(rows, (size_t)v.n * each, sizeof **rows, "image rows", e);
    if (!rc) rc = encode(x, b, &v, *rows, e);
    if (!rc) ls_features_put(&x->cache, key, *rows, (size_t)v.n * each);
    *n = (size_t)v.n;
    ls_pixel_values_deinit(&v);
    if (!rc) return LS_OK;
    ls_free(*rows);
    *rows = NULL;
    return rc;
}
