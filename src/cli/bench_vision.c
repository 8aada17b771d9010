/* lockstep bench --vision: the tower and projector on an image of fixed pseudo-random pixels. */
#include "cli/bench_vision.h"

#include <string.h>
#include <time.h>

#include "session/bundle.h"
#include "session/encode.h"

typedef struct result {
    double best, sum;
    size_t weights, kv, work;
    int threads;
    const char *level;
} result;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static ls_code open_executor(const cli_options *common, const ls_model *m, ls_executor **x, ls_error *e) {
    const char *backend = common->model.backend ? common->model.backend : "native";
    ls_executor_options o = ls_encode_options(&m->vision, 1);
    o.threads = common->model.threads;
    o.level = common->model.level;
    if (!strcmp(backend, "native")) return ls_native_create(x, m->vision.graph, m->checkpoint, &o, e);
    if (!strcmp(backend, "reference")) return ls_reference_create(x, m->vision.graph, &o, e);
    LS_FAIL(e, LS_INVALID_ARGUMENT, "bench --vision measures the backends native and reference, not \"%.40s\"", backend);
}

/* Values in [-1, 1). */
static ls_code make_pixels(const ls_vision *v, float **pixels, ls_error *e) {
    size_t n = (size_t)v->image.channels * (size_t)v->image.image_size * (size_t)v->image.image_size;
    uint32_t state = 1;
    LS_TRY(ls_calloc(pixels, n, sizeof **pixels, "pixels", e));
    for (size_t i = 0; i < n; i++) {
        state = state * 1664525u + 1013904223u;
        (*pixels)[i] = (float)(int32_t)(state >> 8) * 0x1p-23f - 1.0f;
    }
    return LS_OK;
}

static ls_code measure(const cli_options *common, const ls_model *m, int repeats, result *r, ls_error *e) {
    const ls_vision *v = &m->vision;
    ls_executor *x = NULL;
    float *pixels = NULL, *rows = NULL;
    ls_code rc;
    LS_GOTO(ls_model_need_vision(m, e));
    LS_GOTO(open_executor(common, m, &x, e));
    LS_GOTO(make_pixels(v, &pixels, e));
    LS_GOTO(ls_calloc(&rows, (size_t)(v->graph->image_out * v->graph->vocab), sizeof *rows, "image rows", e));
    for (int i = 0; i <= repeats; i++) {
        const float *image = pixels;
        double begin = now();
        LS_GOTO(ls_encode_images(x, v, &image, 1, rows, e));
        double seconds = now() - begin;
        if (!i) continue;
        r->sum += seconds;
        if (i == 1 || seconds < r->best) r->best = seconds;
    }
    x->memory(x, &r->weights, &r->kv, &r->work);
    r->threads = x->threads;
    r->level = x->level;
out:
    if (x) x->destroy(x);
    ls_free(pixels);
    ls_free(rows);
    return rc;
}

int cli_bench_vision(const cli_options *common, const char *model_name, const ls_model *m, int repeats, bool json) {
    ls_error e = {0};
    result r = {0};
    if (measure(common, m, repeats, &r, &e)) return cli_fail(&e);
    int size = m->vision.image.image_size, patches = (int)m->vision.graph->image_rows, rows = (int)m->vision.graph->image_out;
    if (json) {
        json_t *o = json_pack("{s:s, s:s, s:i, s:i, s:i, s:i, s:f, s:f, s:I, s:I, s:i, s:s?}", "model", model_name, "contract", ls_model_contract(m),
                              "image_size", size, "patches", patches, "rows", rows, "repeats", repeats, "vision_seconds_best", r.best,
                              "vision_seconds_mean", r.sum / repeats, "weight_bytes", (json_int_t)r.weights, "work_bytes", (json_int_t)(r.kv + r.work),
                              "threads", r.threads, "level", r.level);
        return cli_print_json(o);
    }
    printf("model    %s, %s\n", model_name, ls_model_contract(m));
    printf("vision   1 image of %d x %d, %d patches to %d rows: best %.3f s, mean %.3f s\n", size, size, patches, rows, r.best, r.sum / repeats);
    printf("memory   weights %.1f MB, work %.1f MB\n", (double)r.weights / 1e6, (double)(r.kv + r.work) / 1e6);
    return CLI_OK;
}
