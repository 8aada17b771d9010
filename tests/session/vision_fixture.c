/* Vision fixtures: see vision_fixture.h. */
#include "vision_fixture.h"

#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "session/prepared.h"

static const char *const model_files[] = {"config.json", "generation_config.json", "model.safetensors", "preprocessor_config.json", "processor_config.json",
                                          "special_tokens_map.json", "tokenizer.json", "tokenizer_config.json", "chat_template.json"};

static const ls_tensor *tensor(const vision_fixture *f, const vision_case *c, const char *part) {
    char name[160];
    snprintf(name, sizeof name, "%s.%s", c->name, part);
    const ls_tensor *t = ls_checkpoint_find(f->golden, name);
    if (!t) fail_msg("golden %s is missing", name);
    return t;
}

static int append(const char *bytes, size_t n, void *user) { return ls_str_append(user, bytes, n, NULL) ? -1 : 0; }

/* The user's message of a case: texts, and numbers for images. */
static void write_messages(vision_case *c, const json_t *content) {
    json_t *parts = json_array(), *all;
    for (size_t i = 0; i < json_array_size(content); i++) {
        json_t *x = json_array_get(content, i);
        json_array_append_new(parts, json_is_string(x) ? json_pack("{s:s, s:O}", "type", "text", "text", x) : json_pack("{s:s}", "type", "image"));
    }
    all = json_pack("[{s:s, s:o}]", "role", "user", "content", parts);
    assert_int_equal(json_dump_callback(all, append, &c->messages, JSON_COMPACT), 0);
    json_decref(all);
}

void vision_read_question(vision_case *c, const json_t *j) {
    const json_t *images = json_object_get(j, "images");
    c->n_images = (int)json_array_size(images);
    assert_true(c->n_images <= VISION_IMAGES);
    for (int i = 0; i < c->n_images; i++) snprintf(c->image[i], sizeof c->image[i], "%s", json_string_value(json_array_get(images, (size_t)i)));
    write_messages(c, json_object_get(j, "content"));
}

static void read_case(vision_fixture *f, vision_case *c, const json_t *j) {
    vision_read_question(c, j);
    snprintf(c->name, sizeof c->name, "%s", json_string_value(json_object_get(j, "name")));
    c->logits_from = (size_t)json_integer_value(json_object_get(j, "logits_from"));
    const ls_tensor *ids = tensor(f, c, "input_ids");
    c->ids = ids->data;
    c->n_ids = (size_t)ids->shape[0];
    c->logits = tensor(f, c, "logits")->data;
    c->greedy = tensor(f, c, "greedy_ids")->data;
    if (!c->n_images) return;
    const ls_tensor *rows = tensor(f, c, "projected");
    c->projected = rows->data;
    c->n_projected = (size_t)(rows->shape[0] * rows->shape[1] * rows->shape[2]);
    c->pixels = tensor(f, c, "pixel_values");
    c->tower = tensor(f, c, "tower");
}

void vision_open(vision_fixture *f, const char *folder) {
    ls_error e = {0};
    char path[500];
    json_t *golden;
    *f = (vision_fixture){0};
    snprintf(f->folder, sizeof f->folder, "%s", folder);
    snprintf(path, sizeof path, "%s/golden.safetensors", folder);
    assert_ok(ls_checkpoint_open(&f->golden, path, &e));
    snprintf(path, sizeof path, "%s/golden.json", folder);
    assert_ok(ls_json_load(&golden, path, 1 << 24, &e));
    const json_t *cases = json_object_get(golden, "cases");
    for (size_t i = 0; i < json_array_size(cases) && f->n_cases < VISION_CASES; i++) read_case(f, &f->cases[f->n_cases++], json_array_get(cases, i));
    assert_true(f->n_cases > 0);
    json_decref(golden);
}

void vision_close(vision_fixture *f) {
    for (int i = 0; i < f->n_cases; i++) ls_str_deinit(&f->cases[i].messages);
    ls_checkpoint_close(f->golden);
}

ls_model *vision_model(const vision_fixture *f, const char *backend, const char *contract, int slots, int chunk) {
    ls_error e = {0};
    ls_model *m;
    size_t longest = 0;
    for (int i = 0; i < f->n_cases; i++)
        if (f->cases[i].n_ids > longest) longest = f->cases[i].n_ids;
    bool native = !strcmp(backend, "native");
    ls_model_options o = {.struct_size = sizeof o, .backend = backend, .contract = contract, .slots = slots, .chunk = chunk, .threads = native ? 2 : 0,
                          .context = (int)longest + VISION_NEW, .allow_unqualified = !strcmp(backend, "xla")};
    assert_ok(ls_model_open(&m, f->folder, &o, &e));
    if (ls_model_no_vision(m)) fail_msg("%s does not see: %s", f->folder, ls_model_no_vision(m));
    return m;
}

ls_prepared_prefill *vision_prepare(const vision_fixture *f, const vision_case *c, ls_model *m) {
    ls_error e = {0};
    char path[VISION_IMAGES][500];
    ls_picture picture[VISION_IMAGES] = {{0}};
    ls_prepared_prefill *p;
    for (int i = 0; i < c->n_images; i++) {
        snprintf(path[i], sizeof path[i], "%s/%s", f->folder, c->image[i]);
        picture[i].path = path[i];
    }
    ls_prepare_options o = {.struct_size = sizeof o, .text = c->messages.data, .len = c->messages.len, .chat = true, .pictures = picture,
                            .n_pictures = (size_t)c->n_images};
    assert_ok(ls_model_prepare(&p, m, &o, &e));
    return p;
}

void vision_submit(ls_session *s, vision_stream *r) {
    ls_error e = {0};
    ls_request q = {.struct_size = sizeof q, .prepared = r->prepared, .max_new = VISION_NEW, .ignore_eos = true, .hash_logits = true};
    r->n = 0;
    r->finish = LS_FINISH_NONE;
    assert_ok(ls_session_submit(s, &q, &r->id, &e));
}

static void collect(ls_session *s, vision_stream *r, int n) {
    for (ls_event v; ls_session_next_event(s, &v);)
        for (int i = 0; i < n; i++) {
            if (r[i].id != v.id) continue;
            r[i].finish = v.finish;
            if (v.finish) memcpy(r[i].sha, v.logits_sha256, sizeof v.logits_sha256);
            else r[i].out[r[i].n++] = v.token;
        }
}

void vision_run(ls_session *s, vision_stream *r, int n) {
    ls_error e = {0};
    for (; !ls_session_is_idle(s); collect(s, r, n)) assert_ok(ls_session_step(s, &e));
}

/* ---- Goldens ---------------------------------------------------------------------------------------------------------------------- */

static void check_golden(const vision_stream *s) {
    assert_int_equal(s->finish, LS_FINISH_LENGTH);
    for (size_t i = 0; i < VISION_NEW; i++)
        if (s->out[i] != s->of->greedy[i]) fail_msg("%s: token %zu is %d, transformers chose %d", s->of->name, i, (int)s->out[i], (int)s->of->greedy[i]);
}

/* Every case |rounds| times in one session, the first eight with one image, two images and text among them. Before round |fresh| no prompt begins as
 * one before it; from then on the prefix cache has all but the last token of each. s[rounds * n_cases]. */
static void serve(const vision_fixture *f, ls_model *m, const ls_session_options *o, int rounds, int fresh, vision_stream *s) {
    ls_error e = {0};
    ls_session *session;
    size_t found = 0;
    int n = rounds * f->n_cases;
    assert_ok(ls_session_create_with(&session, m, o, &e));
    assert_null(ls_session_note(session));
    for (int i = 0; i < n; i++) {
        const vision_case *c = &f->cases[(i + 2) % f->n_cases]; /* the last of ten is text */
        s[i] = (vision_stream){.of = c, .prepared = vision_prepare(f, c, m)};
        if (i >= fresh * f->n_cases) found += c->n_ids - 1;
        vision_submit(session, &s[i]);
        ls_prepared_destroy(s[i].prepared);
        s[i].prepared = NULL;
    }
    vision_run(session, s, n);
    for (int i = 0; i < n; i++) check_golden(&s[i]);
    assert_int_equal(ls_session_statistics(session).reused_tokens, found);
    assert_ok(ls_session_save(session, &e));
    ls_session_destroy(session);
}

void vision_goldens(const vision_fixture *f, const char *backend, const char *contract, int chunk, char sha[][65]) {
    static vision_stream s[VISION_CASES];
    ls_model *m = vision_model(f, backend, contract, 1, chunk);
    serve(f, m, NULL, 1, 1, s);
    for (int i = 0; i < f->n_cases; i++) memcpy(sha[s[i].of - f->cases], s[i].sha, sizeof s[i].sha);
    ls_model_destroy(m);
}

/* Without a prefix cache, and |rounds| times with |o|. */
static void serve_both(const vision_fixture *f, ls_model *m, const ls_session_options *o, int rounds, int fresh, char sha[][65]) {
    static vision_stream s[3 * VISION_CASES];
    serve(f, m, NULL, 1, 1, s);
    serve(f, m, o, rounds, fresh, s + f->n_cases);
    for (int i = 0; sha && i < (1 + rounds) * f->n_cases; i++)
        if (strcmp(s[i].sha, sha[s[i].of - f->cases]))
            fail_msg("%s, %d slots, %s prefix cache: logits differ", s[i].of->name, m->slots, i < f->n_cases ? "no" : "with a");
}

void vision_cached_goldens(const vision_fixture *f, const char *backend, const char *contract, int chunk, char sha[][65]) {
    char folder[] = "/tmp/lockstep-prefix-XXXXXX", path[600];
    assert_non_null(mkdtemp(folder));
    const ls_session_options o = {.struct_size = sizeof o, .prefix_cache_bytes = 64 << 20, .prefix_cache = folder};
    ls_model *m = vision_model(f, backend, contract, 8, chunk);
    serve_both(f, m, &o, 2, 1, sha);
    ls_model_destroy(m);
    m = vision_model(f, backend, contract, 1, chunk);
    serve_both(f, m, &o, 1, 0, sha);
    ls_model_destroy(m);
    DIR *d = opendir(folder);
    assert_non_null(d);
    for (struct dirent *entry; (entry = readdir(d));) {
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (entry->d_name[0] != '.') unlink(path);
    }
    closedir(d);
    assert_int_equal(rmdir(folder), 0);
}

/* ---- Numbers ---------------------------------------------------------------------------------------------------------------------- */

double vision_relative_rms(const float *a, const float *b, size_t n) {
    double d = 0, s = 0;
    for (size_t i = 0; i < n; i++) {
        d += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        s += (double)b[i] * (double)b[i];
    }
    return s > 0 ? sqrt(d / s) : sqrt(d);
}

void vision_check_numbers(const vision_fixture *f, const vision_case *c, ls_model *m, double rows_bound, double logits_bound) {
    ls_error e = {0};
    ls_prepared_prefill *p = vision_prepare(f, c, m);
    ls_prepared_fault why;
    const ls_prepared_limits l = {.hidden = m->graph->hidden, .vocab = m->graph->vocab, .context = m->context, .max_rows = 4096};
    assert_ok(ls_prepared_admit(p, &l, 1, &why, &e));
    assert_int_equal(p->n, c->n_ids);
    assert_memory_equal(p->token, c->ids, c->n_ids * sizeof *c->ids);
    if (c->n_images) {
        double d = vision_relative_rms(p->embeddings.data, c->projected, c->n_projected);
        if (!(d <= rows_bound)) fail_msg("%s: projected rows are off by %g relative rms", c->name, d);
    }
    size_t v = (size_t)m->graph->vocab, from = c->logits_from, rows = p->n - from;
    int32_t *slot = calloc(p->n, sizeof *slot), *out = calloc(p->n, sizeof *out);
    float *logits = calloc(p->n * v, sizeof *logits);
    for (size_t i = 0; i < rows; i++) out[i] = (int32_t)(from + i);
    ls_batch b = {.n_rows = (int)p->n, .token = p->token, .slot = slot, .n_out = (int)rows, .out_row = out, .embedding = p->row, .block = p->span};
    assert_ok(m->executor->forward(m->executor, &b, logits, &e));
    m->executor->truncate(m->executor, 0, 0);
    double most = 0;
    for (size_t i = 0; i < rows * v; i++) most = fmax(most, fabs((double)logits[i] - (double)c->logits[i]));
    if (!(most <= logits_bound)) fail_msg("%s: logits are off by up to %g", c->name, most);
    free(slot);
    free(out);
    free(logits);
    ls_prepared_destroy(p);
}

/* ---- Copies ----------------------------------------------------------------------------------------------------------------------- */

static void copy_file(const char *from_path, const char *to_path, const char *from, const char *to) {
    ls_error e = {0};
    ls_map map;
    assert_ok(ls_map_open(&map, from_path, &e));
    FILE *fp = fopen(to_path, "wb");
    assert_non_null(fp);
    const char *data = (const char *)map.data, *at = from && *from ? memmem(data, map.size, from, strlen(from)) : NULL;
    if (from && *from && !at) fail_msg("%s has no %s", from_path, from);
    size_t head = at ? (size_t)(at - data) : map.size, skip = at ? head + strlen(from) : map.size;
    fwrite(data, 1, head, fp);
    if (at) fwrite(to, 1, strlen(to), fp);
    fwrite(data + skip, 1, map.size - skip, fp);
    assert_int_equal(fclose(fp), 0);
    ls_map_close(&map);
}

void vision_copy(const vision_fixture *f, const char *file, const char *from, const char *to, char folder[400]) {
    char a[600], b[600];
    snprintf(folder, 400, "/tmp/lockstep-vision-XXXXXX");
    assert_non_null(mkdtemp(folder));
    for (size_t i = 0; i < sizeof model_files / sizeof *model_files; i++) {
        snprintf(a, sizeof a, "%s/%s", f->folder, model_files[i]);
        snprintf(b, sizeof b, "%s/%s", folder, model_files[i]);
        if (access(a, R_OK)) continue;
        bool here = !strcmp(file, model_files[i]);
        copy_file(a, b, here ? from : NULL, to);
    }
}

void vision_copy_remove(const char *folder) {
    char path[600];
    for (size_t i = 0; i < sizeof model_files / sizeof *model_files; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, model_files[i]);
        unlink(path);
    }
    rmdir(folder);
}
