/* Fuzz target: 8 bytes of picture size and prompt settings, preprocessor_config.json, a zero byte, a prompt. Settings that are accepted must give pixel
 * values of the promised shape, crops that tile the picture, and prompts whose blocks hold soft tokens only. */
#include <stdlib.h>
#include <string.h>

#include "media/expand.h"
#include "media/processor.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_crops(const ls_image_processor *p, const ls_image *image, int32_t n, const ls_crop *crops) {
    int64_t area = 0;
    for (int32_t i = 0; i < n; i++) {
        if (crops[i].width < 1 || crops[i].height < 1 || crops[i].x + crops[i].width > image->width || crops[i].y + crops[i].height > image->height) abort();
        area += (int64_t)crops[i].width * crops[i].height;
    }
    if (n > p->max_crops || (n && area != (int64_t)image->width * image->height)) abort();
}

static int32_t process(const ls_image_processor *p, const ls_image *image) {
    ls_error e = {0};
    ls_crop crops[LS_PROCESSOR_MAX_CROPS];
    ls_pixel_values v;
    char key[65];
    int32_t n;
    if (ls_image_processor_crops(p, image->width, image->height, crops, &n, &e)) return 0;
    check_crops(p, image, n, crops);
    if ((int64_t)p->width * p->height > 1 << 12) return n;
    if (!ls_image_process(p, image, &v, &e)) {
        if (v.n != 1 + n || v.width != p->width || v.height != p->height) abort();
        ls_pixel_values_deinit(&v);
    }
    if (ls_image_key(p, image, key, &e)) abort();
    return n;
}

/* A tokenizer of bytes and the three image tokens, made once. */
static const ls_tokenizer *tokenizer(void) {
    static ls_tokenizer *t;
    ls_error e = {0};
    if (t) return t;
    json_t *root = NULL;
    if (ls_json_load(&root, LS_FIXTURES "/text/tokenizer/gemma.json", 16 << 20, &e)) abort();
    static const char *const names[] = {"<b>", "<i>", "<e>"};
    for (int i = 0; i < 3; i++)
        json_array_append_new(json_object_get(root, "added_tokens"),
                              json_pack("{s:i, s:s, s:b, s:b, s:b, s:b, s:b}", "id", 2000 + i, "content", names[i], "single_word", 0, "lstrip", 0, "rstrip", 0,
                                        "normalized", 0, "special", 1));
    if (ls_tokenizer_open_json(&t, root, NULL, &e)) abort();
    json_decref(root);
    return t;
}

static void expand(const char *text, size_t len, size_t images, size_t typed, int32_t crops) {
    ls_error e = {0};
    ls_image_tokens k = {2000, 2001, 2002, 1 + (int32_t)images};
    ls_byte_range parse[2] = {{0, len - typed}, {len - typed / 2, len}};
    ls_prompt_text in = {.text = text, .len = len, .parse = parse, .n_parse = 2};
    int32_t all[8] = {crops, 0, crops, 1, 0, crops, 2, 0};
    ls_image_prompt p;
    if (ls_image_prompt_expand(&p, tokenizer(), &k, &in, all, images, 4096, &e)) return;
    size_t soft = 0;
    for (size_t i = 0; i < p.ids.n; i++) soft += p.ids.ids[i] == k.image;
    for (size_t i = 0; i < p.n_blocks; i++) {
        if (p.blocks[i].end - p.blocks[i].begin != (size_t)k.count || p.ids.ids[p.blocks[i].begin - 1] != k.boi || p.ids.ids[p.blocks[i].end] != k.eoi) abort();
        soft -= (size_t)k.count;
    }
    if (soft || p.ids.n > 4096) abort();
    ls_image_prompt_deinit(&p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    ls_error e = {0};
    ls_image_processor p;
    ls_image image;
    json_t *settings = NULL;
    if (size < 8) return 0;
    const char *text = (const char *)data + 8;
    const char *zero = memchr(text, 0, size - 8);
    size_t len = zero ? (size_t)(zero - text) : size - 8, prompt = zero ? size - 9 - len : 0;
    int32_t crops = 0;
    if (!ls_json_parse(&settings, text, len, "settings", &e) && !ls_image_processor_from_json(&p, settings, settings, &e)) {
        if (ls_image_create(&image, 1 + data[0] + (data[1] & 1) * 256, 1 + data[2] + (data[3] & 1) * 256, &e)) abort();
        crops = process(&p, &image);
        ls_image_deinit(&image);
    }
    json_decref(settings);
    if (zero) expand(zero + 1, prompt, data[4] % 9, prompt ? data[5] % (prompt + 1) : 0, crops);
    return 0;
}
