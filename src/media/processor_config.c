/* Gemma 3's image processor: reading preprocessor_config.json and processor_config.json. */
#include <string.h>

#include "media/processor.h"

enum { CONFIG_BYTES = 1 << 20 };

static ls_code read_type(ls_image_processor *p, const json_t *o, ls_error *e) {
    const char *type = "Gemma3ImageProcessor";
    LS_TRY(ls_json_get_str(o, "image_processor_type", &type, e));
    p->fast = !strcmp(type, "Gemma3ImageProcessorFast");
    if (!p->fast && strcmp(type, "Gemma3ImageProcessor"))
        LS_FAIL(e, LS_UNIMPLEMENTED, "\"image_processor_type\" is \"%.80s\"; supported are Gemma3ImageProcessor and Gemma3ImageProcessorFast", type);
    p->rule = p->fast ? LS_RESIZE_TORCHVISION : LS_RESIZE_PILLOW;
    return LS_OK;
}

static ls_code read_size(ls_image_processor *p, const json_t *o, ls_error *e) {
    const json_t *size = json_object_get(o, "size");
    int64_t width = 224, height = 224;
    if (json_is_integer(size)) {
        LS_TRY(ls_json_get_int(o, "size", 1, LS_PROCESSOR_MAX_SIDE, &width, e));
        height = width;
    } else if (size && !json_is_null(size)) {
        if (!json_object_get(size, "height") || !json_object_get(size, "width"))
            LS_FAIL(e, LS_UNIMPLEMENTED, "\"size\" has no \"height\" and \"width\"; Gemma 3 resizes to a fixed size");
        LS_TRY(ls_json_get_int(size, "height", 1, LS_PROCESSOR_MAX_SIDE, &height, e));
        LS_TRY(ls_json_get_int(size, "width", 1, LS_PROCESSOR_MAX_SIDE, &width, e));
    }
    p->width = (int32_t)width;
    p->height = (int32_t)height;
    return LS_OK;
}

static ls_code read_filter(ls_image_processor *p, const json_t *o, ls_error *e) {
    int64_t filter = LS_FILTER_BILINEAR;
    LS_TRY(ls_json_get_int(o, "resample", 0, 5, &filter, e));
    if (filter > LS_FILTER_BICUBIC)
        LS_FAIL(e, LS_UNIMPLEMENTED, "\"resample\" is %d; supported are 0 nearest, 1 Lanczos, 2 bilinear, 3 bicubic", (int)filter);
    p->filter = (ls_filter)filter;
    return LS_OK;
}

/* Three numbers, or one for all channels. */
static ls_code read_channels(const json_t *o, const char *key, double out[3], ls_error *e) {
    const json_t *v = json_object_get(o, key);
    if (!v || json_is_null(v)) return LS_OK;
    bool array = json_is_array(v);
    if (array && json_array_size(v) != 3) LS_FAIL(e, LS_INVALID_ARGUMENT, "\"%s\" has %zu numbers; a picture has 3 channels", key, json_array_size(v));
    for (size_t c = 0; c < 3; c++) {
        const json_t *one = array ? json_array_get(v, c) : v;
        if (!json_is_number(one)) LS_FAIL(e, LS_INVALID_ARGUMENT, "\"%s\" must be a number or three", key);
        out[c] = json_number_value(one);
    }
    return LS_OK;
}

/* null switches a step of the slow processor off, which takes it as it stands; the fast one takes its default. */
static ls_code read_step(const ls_image_processor *p, const json_t *o, const char *key, bool *out, ls_error *e) {
    if (!p->fast && json_is_null(json_object_get(o, key))) *out = false;
    return ls_json_get_bool(o, key, out, e);
}

static ls_code read_arithmetic(ls_image_processor *p, const json_t *o, ls_error *e) {
    LS_TRY(read_step(p, o, "do_resize", &p->resize, e));
    LS_TRY(read_step(p, o, "do_rescale", &p->rescale, e));
    LS_TRY(read_step(p, o, "do_normalize", &p->normalize, e));
    LS_TRY(ls_json_get_real(o, "rescale_factor", &p->rescale_factor, e));
    LS_TRY(read_channels(o, "image_mean", p->mean, e));
    LS_TRY(read_channels(o, "image_std", p->std, e));
    if (!(p->rescale_factor > 1e-30 && p->rescale_factor < 1e30))
        LS_FAIL(e, LS_INVALID_ARGUMENT, "\"rescale_factor\" is %g; it must be above 0 (usual: 1/255)", p->rescale_factor);
    for (int c = 0; c < 3; c++)
        if (!(p->std[c] > 1e-30 && p->std[c] < 1e30 && p->mean[c] > -1e30 && p->mean[c] < 1e30))
            LS_FAIL(e, LS_INVALID_ARGUMENT, "channel %d has mean %g and std %g; std must be above 0", c, p->mean[c], p->std[c]);
    return LS_OK;
}

static ls_code read_crops(ls_image_processor *p, const json_t *o, ls_error *e) {
    int64_t size = 256, crops = 4;
    LS_TRY(ls_json_get_bool(o, "do_pan_and_scan", &p->pan_and_scan, e));
    LS_TRY(ls_json_get_int(o, "pan_and_scan_min_crop_size", 1, 1 << 20, &size, e));
    LS_TRY(ls_json_get_int(o, "pan_and_scan_max_num_crops", 1, LS_PROCESSOR_MAX_CROPS, &crops, e));
    LS_TRY(ls_json_get_real(o, "pan_and_scan_min_ratio_to_activate", &p->min_ratio, e));
    p->min_crop_size = (int32_t)size;
    p->max_crops = (int32_t)crops;
    return LS_OK;
}

ls_code ls_image_processor_from_json(ls_image_processor *out, const json_t *preprocessor, const json_t *processor, ls_error *e) {
    int64_t tokens = 256;
    *out = (ls_image_processor){.resize = true, .rescale = true, .normalize = true, .rescale_factor = 1 / 255.0, .mean = {0.5, 0.5, 0.5},
                                .std = {0.5, 0.5, 0.5}, .min_ratio = 1.2};
    LS_TRY(read_type(out, preprocessor, e));
    LS_TRY(read_size(out, preprocessor, e));
    LS_TRY(read_filter(out, preprocessor, e));
    LS_TRY(read_arithmetic(out, preprocessor, e));
    LS_TRY(read_crops(out, preprocessor, e));
    LS_TRY(ls_json_get_int(processor, "image_seq_length", 1, LS_PROCESSOR_MAX_TOKENS, &tokens, e));
    out->tokens = (int32_t)tokens;
    return LS_OK;
}

/* Reads |name|.json in |folder| into |files|; one that need not be there may be absent. */
static ls_code add_file(json_t *files, ls_arena *a, const char *folder, const char *name, bool needed, ls_error *e) {
    const char *path, *file;
    json_t *v = NULL;
    LS_TRY(ls_arena_printf(a, &file, e, "%s.json", name));
    LS_TRY(ls_path_join(a, &path, folder, file, e));
    if (!needed && !ls_file_exists(path)) return LS_OK;
    LS_TRY(ls_json_load(&v, path, CONFIG_BYTES, e));
    bool object = json_is_object(v);
    if (json_object_set_new(files, name, v)) LS_FAIL(e, LS_RESOURCE_EXHAUSTED, "%s: out of memory", file);
    if (!object) LS_FAIL(e, LS_INVALID_ARGUMENT, "\"%s\" is not a JSON object", file);
    return LS_OK;
}

ls_code ls_image_processor_files(json_t **out, const char *folder, ls_error *e) {
    ls_arena *a;
    LS_TRY(ls_arena_create(&a, e));
    json_t *files = json_object();
    ls_code rc = files ? LS_OK : ls_error_set(e, LS_RESOURCE_EXHAUSTED, __FILE__, __LINE__, "image processor: out of memory");
    if (!rc) rc = add_file(files, a, folder, "preprocessor_config", true, e);
    if (!rc) rc = add_file(files, a, folder, "processor_config", false, e);
    ls_arena_destroy(a);
    if (rc) json_decref(files);
    else *out = files;
    return rc;
}

ls_code ls_image_processor_from_files(ls_image_processor *out, const json_t *files, ls_error *e) {
    const json_t *preprocessor = json_object_get(files, "preprocessor_config"), *processor = json_object_get(files, "processor_config");
    if (!json_is_object(preprocessor)) LS_FAIL(e, LS_INVALID_ARGUMENT, "\"preprocessor_config\" is not a JSON object");
    return ls_image_processor_from_json(out, preprocessor, processor, e);
}

ls_code ls_image_processor_load(ls_image_processor *out, const char *folder, ls_error *e) {
    json_t *files;
    LS_TRY(ls_image_processor_files(&files, folder, e));
    ls_code rc = ls_image_processor_from_files(out, files, e);
    json_decref(files);
    return rc ? ls_error_wrap(e, rc, "image processor of %s", folder) : LS_OK;
}
