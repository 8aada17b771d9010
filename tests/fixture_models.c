/* Small models of fixtures/models: see fixture_models.h. */
#include "fixture_models.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sha256.h"

static int by_name(const void *a, const void *b) { return strcmp(a, b); }

int fixture_names(char names[FIXTURE_MAX][128]) {
    DIR *d = opendir(LS_FIXTURES "/models");
    int n = 0;
    for (struct dirent *f; d && n < FIXTURE_MAX && (f = readdir(d));) {
        char path[512];
        snprintf(path, sizeof path, "%s/models/%.120s/golden.safetensors", LS_FIXTURES, f->d_name);
        if (f->d_name[0] != '.' && ls_file_exists(path)) snprintf(names[n++], 128, "%.120s", f->d_name);
    }
    if (d) closedir(d);
    qsort(names, (size_t)n, sizeof *names, by_name);
    return n;
}

static ls_code golden_tensor(fixture *f, const char *name, const void **data, int64_t *rows, ls_error *e) {
    const ls_tensor *t = ls_checkpoint_find(f->golden, name);
    if (!t) LS_FAIL(e, LS_NOT_FOUND, "%s: golden \"%s\" is missing", f->name, name);
    *data = t->data;
    *rows = t->shape[0];
    return LS_OK;
}

ls_code fixture_open(fixture *f, const char *name, ls_contract contract, ls_error *e) {
    *f = (fixture){0};
    snprintf(f->name, sizeof f->name, "%s", name);
    char folder[300], path[400];
    snprintf(folder, sizeof folder, "%s/models/%s", LS_FIXTURES, name);
    snprintf(path, sizeof path, "%s/golden.safetensors", folder);
    LS_TRY(ls_checkpoint_open(&f->checkpoint, folder, e));
    LS_TRY(ls_checkpoint_open(&f->golden, path, e));
    int64_t rows = 0;
    const void *p = NULL;
    LS_TRY(golden_tensor(f, "greedy_ids", &p, &rows, e));
    f->greedy = p;
    LS_TRY(golden_tensor(f, "logits", &p, &rows, e));
    f->logits = p;
    LS_TRY(golden_tensor(f, "prompt_ids", &p, &rows, e));
    f->prompt = p;
    f->n_prompt = (int)rows;
    ls_build_options options = {.contract = contract, .context = rows + 64};
    LS_TRY(ls_model_build(&f->graph, f->checkpoint, &options, e));
    f->vocab = (int)f->graph->vocab;
    const ls_tensor *wide = ls_checkpoint_find(f->golden, "logits_f64");
    f->logits_f64 = wide ? wide->data : NULL;
    return LS_OK;
}

void fixture_close(fixture *f) {
    ls_graph_destroy(f->graph);
    ls_checkpoint_close(f->checkpoint);
    ls_checkpoint_close(f->golden);
    *f = (fixture){0};
}

ls_code fixture_prefill(ls_executor *x, const int32_t *ids, int n, int slot, int chunk, int vocab, float *logits, ls_error *e) {
    int32_t slots[512], rows[512];
    for (int begin = 0; begin < n; begin += chunk) {
        int t = n - begin < chunk ? n - begin : chunk;
        for (int i = 0; i < t; i++) {
            slots[i] = slot;
            rows[i] = i;
        }
        ls_batch b = {.n_rows = t, .token = ids + begin, .slot = slots, .n_out = t, .out_row = rows};
        LS_TRY(x->forward(x, &b, logits + (size_t)begin * (size_t)vocab, e));
    }
    return LS_OK;
}

ls_code fixture_greedy(ls_executor *x, int slot, int vocab, const float *last, int n, int32_t *out, ls_error *e) {
    float *logits;
    LS_TRY(ls_calloc(&logits, (size_t)vocab, sizeof *logits, "logits", e));
    memcpy(logits, last, (size_t)vocab * sizeof *logits);
    ls_code rc = LS_OK;
    for (int i = 0; !rc && i < n; i++) {
        int best = 0;
        for (int k = 1; k < vocab; k++)
            if (logits[k] > logits[best]) best = k;
        out[i] = best;
        int32_t s = slot, row = 0;
        ls_batch b = {.n_rows = 1, .token = &out[i], .slot = &s, .n_out = 1, .out_row = &row};
        rc = x->forward(x, &b, logits, e);
    }
    ls_free(logits);
    return rc;
}

void fixture_digest(const float *values, size_t n, char hex[65]) {
    ls_sha256 h;
    uint8_t digest[32];
    ls_sha256_init(&h);
    for (size_t i = 0; i < n; i++) {
        uint32_t u;
        memcpy(&u, &values[i], 4);
        uint8_t b[4] = {(uint8_t)u, (uint8_t)(u >> 8), (uint8_t)(u >> 16), (uint8_t)(u >> 24)};
        ls_sha256_update(&h, b, 4);
    }
    ls_sha256_final(&h, digest);
    ls_sha256_hex(digest, hex);
}
