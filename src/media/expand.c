/* Prompts with pictures: expansion of the text, tokenising, and where the soft tokens came to lie. */
#include "media/expand.h"

#include <inttypes.h>
#include <string.h>

ls_code ls_image_tokens_check(const ls_image_tokens *k, const ls_tokenizer *t, ls_error *e) {
    const struct {
        const char *name;
        int32_t id;
    } tokens[] = {{"boi_token_index", k->boi}, {"image_token_index", k->image}, {"eoi_token_index", k->eoi}};
    for (size_t i = 0; i < 3; i++) {
        size_t len = 0;
        const char *text = ls_tokenizer_token(t, tokens[i].id, &len);
        if (!text || !len || !ls_tokenizer_is_special(t, tokens[i].id))
            LS_FAIL(e, LS_FAILED_PRECONDITION, "\"%s\" is %" PRId32 ", which is no special token of the tokenizer; images need one", tokens[i].name,
                    tokens[i].id);
    }
    if (k->boi == k->image || k->image == k->eoi || k->boi == k->eoi)
        LS_FAIL(e, LS_FAILED_PRECONDITION, "image tokens %" PRId32 ", %" PRId32 " and %" PRId32 " must differ", k->boi, k->image, k->eoi);
    if (k->count < 1) LS_FAIL(e, LS_FAILED_PRECONDITION, "an image has %" PRId32 " soft tokens; it needs 1 or more", k->count);
    return LS_OK;
}

/* The text that grows, and where it may spell control tokens. */
typedef struct expansion {
    const ls_image_tokens *k;
    const ls_tokenizer *t;
    const int32_t *crops;
    size_t n_images;
    ls_str text;
    ls_byte_range *parse;
    size_t n_parse, cap_parse;
} expansion;

static int32_t crops_of(const expansion *x, size_t image) { return x->crops ? x->crops[image] : 0; }

static ls_code add_range(expansion *x, size_t begin, size_t end, ls_error *e) {
    if (begin == end) return LS_OK;
    LS_TRY(ls_grow(&x->parse, x->n_parse, &x->cap_parse, sizeof *x->parse, (size_t)1 << 24, "template ranges", e));
    x->parse[x->n_parse++] = (ls_byte_range){begin, end};
    return LS_OK;
}

static ls_code add_token(expansion *x, int32_t id, ls_error *e) {
    size_t len = 0;
    const char *text = ls_tokenizer_token(x->t, id, &len);
    return ls_str_append(&x->text, text, len, e);
}

static ls_code add_block(expansion *x, ls_error *e) {
    LS_TRY(ls_str_append(&x->text, "\n\n", 2, e));
    LS_TRY(add_token(x, x->k->boi, e));
    for (int32_t i = 0; i < x->k->count; i++) LS_TRY(add_token(x, x->k->image, e));
    LS_TRY(add_token(x, x->k->eoi, e));
    return ls_str_append(&x->text, "\n\n", 2, e);
}

/* What stands in the place of picture |image|'s placeholder. */
static ls_code add_image(expansion *x, size_t image, ls_error *e) {
    int32_t crops = crops_of(x, image);
    if (!crops) return add_block(x, e);
    LS_TRY(ls_str_append(&x->text, "Here is the original image ", SIZE_MAX, e));
    LS_TRY(add_block(x, e));
    LS_TRY(ls_str_append(&x->text, " and here are some crops to help you see better", SIZE_MAX, e));
    for (int32_t i = 0; i < crops; i++) {
        LS_TRY(ls_str_append(&x->text, " ", 1, e));
        LS_TRY(add_block(x, e));
    }
    return LS_OK;
}

/* The next spelling of a token at or after |at| that lies whole in a range; in->len when there is none. */
static size_t next_spelled(const ls_prompt_text *in, const char *token, size_t len, size_t at) {
    for (size_t i = 0; i < in->n_parse; i++) {
        size_t begin = in->parse[i].begin > at ? in->parse[i].begin : at, end = in->parse[i].end;
        const char *found = begin < end ? memmem(in->text + begin, end - begin, token, len) : NULL;
        if (found) return (size_t)(found - in->text);
    }
    return in->len;
}

static size_t count_placeholders(const ls_prompt_text *in, const char *boi, size_t boi_len) {
    size_t n = 0;
    for (size_t at = 0; (at = next_spelled(in, boi, boi_len, at)) < in->len; at += boi_len) n++;
    return n;
}

/* Copies in->text[begin, end) and the parts of ranges in it. */
static ls_code copy(expansion *x, const ls_prompt_text *in, size_t begin, size_t end, ls_error *e) {
    for (size_t i = 0; i < in->n_parse; i++) {
        size_t b = in->parse[i].begin > begin ? in->parse[i].begin : begin, z = in->parse[i].end < end ? in->parse[i].end : end;
        if (b < z) LS_TRY(add_range(x, x->text.len + b - begin, x->text.len + z - begin, e));
    }
    return ls_str_append(&x->text, in->text + begin, end - begin, e);
}

static ls_code insert(expansion *x, size_t image, ls_error *e) {
    size_t begin = x->text.len;
    LS_TRY(add_image(x, image, e));
    return add_range(x, begin, x->text.len, e);
}

/* True when the text begins with BOS where it may spell control tokens. */
static bool spells_bos(const ls_tokenizer *t, const ls_prompt_text *in, size_t *len) {
    const char *bos = ls_tokenizer_bos(t) >= 0 ? ls_tokenizer_token(t, ls_tokenizer_bos(t), len) : NULL;
    return bos && *len && *len <= in->len && in->n_parse && in->parse[0].begin == 0 && in->parse[0].end >= *len && !memcmp(in->text, bos, *len);
}

/* Soft tokens come from the expansion alone: one more would stand for a row that no picture gives. */
static ls_code refuse_soft_tokens(const expansion *x, const ls_prompt_text *in, ls_error *e) {
    size_t len = 0;
    const char *soft = ls_tokenizer_token(x->t, x->k->image, &len);
    size_t at = next_spelled(in, soft, len, 0);
    if (at == in->len) return LS_OK;
    LS_FAIL(e, LS_INVALID_ARGUMENT, "the prompt spells the image token %.80s at byte %zu; those of a picture are written for it: leave it out", soft, at);
}

static ls_code expand_text(expansion *x, const ls_prompt_text *in, ls_error *e) {
    size_t boi_len = 0, at = 0;
    const char *boi = ls_tokenizer_token(x->t, x->k->boi, &boi_len);
    size_t found = count_placeholders(in, boi, boi_len);
    if (found && found != x->n_images)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "the prompt has %zu image placeholders (%.80s) and the request %zu images; give as many%s", found, boi, x->n_images,
                in->places_needed ? "" : ", or no placeholder");
    if (!found && in->places_needed && x->n_images)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "the conversation has no place (%.80s) for the %zu images of the request: no message has an image part, or the chat "
                "template leaves images out", boi, x->n_images);
    LS_TRY(refuse_soft_tokens(x, in, e));
    if (!found) {
        if (!spells_bos(x->t, in, &at)) at = 0;
        LS_TRY(copy(x, in, 0, at, e));
        for (size_t i = 0; i < x->n_images; i++) LS_TRY(insert(x, i, e));
    }
    for (size_t i = 0; i < found; i++) {
        size_t next = next_spelled(in, boi, boi_len, at);
        LS_TRY(copy(x, in, at, next, e));
        LS_TRY(insert(x, i, e));
        at = next + boi_len;
    }
    return copy(x, in, at, in->len, e);
}

/* Joins ranges that touch, so that a spelling across the end of a copied part counts as it did. */
static void join_ranges(expansion *x) {
    size_t n = 0;
    for (size_t i = 0; i < x->n_parse; i++) {
        if (n && x->parse[n - 1].end == x->parse[i].begin)
            x->parse[n - 1].end = x->parse[i].end;
        else
            x->parse[n++] = x->parse[i];
    }
    x->n_parse = n;
}

/* Blocks of all pictures, or a refusal when BOI, soft tokens and EOI of all alone exceed |capacity|. */
static ls_code count_blocks(const expansion *x, size_t capacity, size_t *blocks, ls_error *e) {
    size_t rows = 0, more;
    *blocks = x->n_images > capacity ? x->n_images : 0;
    for (size_t i = 0; i < x->n_images && x->n_images <= capacity; i++) {
        if (crops_of(x, i) < 0) LS_FAIL(e, LS_INVALID_ARGUMENT, "image %zu has %" PRId32 " crops", i, crops_of(x, i));
        if (!ls_size_add(*blocks, 1 + (size_t)crops_of(x, i), blocks)) LS_FAIL(e, LS_RESOURCE_EXHAUSTED, "too many image crops to count");
    }
    if (!ls_size_add((size_t)x->k->count, 2, &more) || !ls_size_mul(*blocks, more, &rows) || rows > capacity)
        LS_FAIL(e, LS_RESOURCE_EXHAUSTED, "%zu images and crops of %" PRId32 " + 2 tokens each do not fit the context of %zu; use fewer images or raise the "
                "context size", *blocks, x->k->count, capacity);
    return LS_OK;
}

static ls_code encode(ls_token_ids *out, const expansion *x, const ls_prompt_text *in, ls_error *e) {
    size_t unused;
    if (in->add_special && !spells_bos(x->t, in, &unused)) {
        LS_TRY(ls_tokenizer_encode(x->t, "", 0, LS_ENCODE_ADD_SPECIAL, out, e));
        if (out->n > 1 || (out->n == 1 && out->ids[0] != ls_tokenizer_bos(x->t)))
            LS_FAIL(e, LS_UNIMPLEMENTED, "the tokenizer adds other special tokens than BOS; prompts with images support only that");
    }
    return ls_tokenizer_encode_ranges(x->t, x->text.data ? x->text.data : "", x->text.len, x->parse, x->n_parse, out, e);
}

/* Finds the blocks among the ids. That they are all there and whole follows from the expansion; a tokenizer could break it, so it is checked. */
static ls_code find_blocks(ls_image_prompt *out, const expansion *x, size_t blocks, ls_error *e) {
    const int32_t *ids = out->ids.ids;
    size_t n = out->ids.n, count = (size_t)x->k->count, image = 0;
    int32_t crop = 0;
    LS_TRY(ls_calloc(&out->blocks, blocks, sizeof *out->blocks, "image blocks", e));
    for (size_t i = 0; i < n; i++) {
        if (ids[i] != x->k->image) continue;
        size_t end = i;
        while (end < n && ids[end] == x->k->image) end++;
        if (out->n_blocks == blocks || end - i != count || i == 0 || ids[i - 1] != x->k->boi || end == n || ids[end] != x->k->eoi)
            LS_FAIL(e, LS_FAILED_PRECONDITION, "the tokenizer did not keep the tokens of image %zu together", image);
        out->blocks[out->n_blocks++] = (ls_image_block){i, end, (int32_t)image, crop};
        if (crop++ == crops_of(x, image)) image++, crop = 0;
        i = end;
    }
    if (out->n_blocks != blocks) LS_FAIL(e, LS_FAILED_PRECONDITION, "the tokenizer kept %zu of %zu image blocks", out->n_blocks, blocks);
    return LS_OK;
}

ls_code ls_image_prompt_expand(ls_image_prompt *out, const ls_tokenizer *t, const ls_image_tokens *k, const ls_prompt_text *in, const int32_t *crops,
                               size_t n_images, size_t capacity, ls_error *e) {
    expansion x = {.k = k, .t = t, .crops = crops, .n_images = n_images};
    size_t blocks;
    ls_code rc;
    if (capacity > LS_IMAGE_PROMPT_MAX) capacity = LS_IMAGE_PROMPT_MAX;
    memset(out, 0, sizeof *out);
    LS_GOTO(ls_image_tokens_check(k, t, e));
    LS_GOTO(count_blocks(&x, capacity, &blocks, e));
    LS_GOTO(expand_text(&x, in, e));
    join_ranges(&x);
    LS_GOTO(encode(&out->ids, &x, in, e));
    if (out->ids.n > capacity)
        LS_FAIL_GOTO(e, LS_RESOURCE_EXHAUSTED, "the prompt with its images is %zu tokens; the context holds %zu: shorten the prompt, use fewer images "
                     "or raise the context size", out->ids.n, capacity);
    LS_GOTO(find_blocks(out, &x, blocks, e));
out:
    ls_str_deinit(&x.text);
    ls_free(x.parse);
    if (rc) ls_image_prompt_deinit(out);
    return rc;
}

void ls_image_prompt_deinit(ls_image_prompt *p) {
    ls_free(p->ids.ids);
    ls_free(p->blocks);
    memset(p, 0, sizeof *p);
}
