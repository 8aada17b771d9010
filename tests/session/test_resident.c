/* Resident memory of the two downloaded models, after loading and after a prompt and some decoding, and the most there ever
 * was: at most the file plus 10 %, plus keys and values. Skipped, saying so, when the files are not named by LS_SMOLLM2_GGUF
 * and LS_GEMMA3_GGUF (`make test` fetches them and sets both). Each test forks: what another has freed does not count.
 * Last, a table that is read from the mapped file though it lies packed in memory as well: an eighth of it stays resident. */
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "graph/batch.h"
#include "session/bundle.h"

enum { PROMPT = 400, ANSWER = 32 };

/* A line "|key|: N kB" of /proc/self/status, in bytes. */
static double status_bytes(const char *key) {
    char line[256];
    double kb = -1;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f))
        if (!strncmp(line, key, strlen(key)) && line[strlen(key)] == ':') kb = strtod(line + strlen(key) + 1, NULL);
    if (f) fclose(f);
    return kb * 1024;
}

static ls_code generate(ls_model *m, ls_error *e) {
    ls_session *s;
    int32_t prompt[PROMPT];
    uint64_t id;
    ls_event event;
    LS_TRY(ls_session_create(&s, m, e));
    for (int i = 0; i < PROMPT; i++) prompt[i] = i * 37 % 20000 + 5;
    ls_request r = {.struct_size = sizeof r, .prompt = prompt, .n_prompt = PROMPT, .max_new = ANSWER, .ignore_eos = true};
    ls_code rc = ls_session_submit(s, &r, &id, e);
    while (!rc && !ls_session_is_idle(s)) {
        rc = ls_session_step(s, e);
        while (ls_session_next_event(s, &event)) continue;
    }
    ls_session_destroy(s);
    return rc;
}

/* In the child: 0 when all is within the bound. */
static int measure(const char *path) {
    ls_model *m;
    ls_error e = {0};
    struct stat file;
    size_t weights, kv, work;
    if (stat(path, &file) || ls_model_open(&m, path, &(ls_model_options){.struct_size = sizeof(ls_model_options), .context = 512, .threads = 2}, &e)) return 2;
    double loaded = status_bytes("VmRSS");
    if (generate(m, &e)) return 2;
    m->executor->memory(m->executor, &weights, &kv, &work);
    double bound = 1.1 * (double)file.st_size, after = status_bytes("VmRSS"), peak = status_bytes("VmHWM");
    printf("file %.1f MB; resident %.1f after loading, %.1f after %d tokens, %.1f at most; allowed %.1f and %.1f for keys and values\n", (double)file.st_size / 1e6,
           loaded / 1e6, after / 1e6, PROMPT + ANSWER, peak / 1e6, bound / 1e6, (double)kv / 1e6);
    fflush(stdout);
    ls_model_destroy(m);
    return loaded > 0 && loaded <= bound && after <= bound + (double)kv && peak <= bound + (double)kv ? 0 : 1;
}

static void stays_small(const char *variable) {
    const char *path = getenv(variable);
    int status = -1;
    if (!path) {
        print_message("%s is not set: skipped\n", variable);
        skip();
    }
    pid_t child = fork();
    if (!child) _exit(measure(path));
    assert_true(child > 0 && waitpid(child, &status, 0) == child);
    assert_int_equal(status, 0);
}

enum { VOCAB = 65536, HIDDEN = 64, PIECE_ROWS = 256, PIECES = VOCAB / PIECE_ROWS }; /* rows of f32 in 64 KiB */

static int add_tensor(char *header, int at, const char *name, int rows, int cols, long *offset) {
    long end = *offset + 4L * rows * cols;
    at += snprintf(header + at, (size_t)(4096 - at), "%s\"%s\":{\"dtype\":\"F32\",\"shape\":[%d%s", at > 1 ? "," : "", name, rows,
                   cols > 1 ? "," : "");
    if (cols > 1) at += snprintf(header + at, (size_t)(4096 - at), "%d", cols);
    at += snprintf(header + at, (size_t)(4096 - at), "],\"data_offsets\":[%ld,%ld]}", *offset, end);
    *offset = end;
    return at;
}

/* One layer and a tied table of 16 MiB, all zeros. */
static int write_model(const char *folder) {
    static const struct { const char *name; int rows, cols; } tensors[] = {
        {"model.embed_tokens.weight", VOCAB, HIDDEN}, {"model.norm.weight", HIDDEN, 1},
        {"model.layers.0.input_layernorm.weight", HIDDEN, 1}, {"model.layers.0.post_attention_layernorm.weight", HIDDEN, 1},
        {"model.layers.0.self_attn.q_proj.weight", HIDDEN, HIDDEN}, {"model.layers.0.self_attn.k_proj.weight", HIDDEN, HIDDEN},
        {"model.layers.0.self_attn.v_proj.weight", HIDDEN, HIDDEN}, {"model.layers.0.self_attn.o_proj.weight", HIDDEN, HIDDEN},
        {"model.layers.0.mlp.gate_proj.weight", HIDDEN, HIDDEN}, {"model.layers.0.mlp.up_proj.weight", HIDDEN, HIDDEN},
        {"model.layers.0.mlp.down_proj.weight", HIDDEN, HIDDEN}};
    char path[300], header[4096] = "{";
    long offset = 0;
    int n = 1;
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++) n = add_tensor(header, n, tensors[i].name, tensors[i].rows, tensors[i].cols, &offset);
    header[n++] = '}';
    uint64_t length = (uint64_t)n;
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(&length, 8, 1, f) != 1 || fwrite(header, (size_t)n, 1, f) != 1 || fflush(f)) return -1;
    if (ftruncate(fileno(f), 8 + n + offset) || fclose(f)) return -1;
    snprintf(path, sizeof path, "%s/config.json", folder);
    f = fopen(path, "wb");
    if (!f) return -1;
    fprintf(f, "{\"model_type\":\"llama\",\"vocab_size\":%d,\"hidden_size\":%d,\"intermediate_size\":%d,\"num_hidden_layers\":1,", VOCAB, HIDDEN, HIDDEN);
    fprintf(f, "\"num_attention_heads\":1,\"num_key_value_heads\":1,\"rms_norm_eps\":1e-6,\"max_position_embeddings\":512,");
    fprintf(f, "\"hidden_act\":\"silu\",\"tie_word_embeddings\":true}");
    return fclose(f);
}

/* Reads a row of every 64 KiB of the table, most of them one a pass; 0 when the eighth of it and the pages of the program that came since are less than a
 * quarter of it. */
static int read_table(const char *folder) {
    ls_model *m;
    ls_error e = {0};
    int32_t slot[PIECES] = {0}, token[PIECES];
    if (ls_model_open(&m, folder, &(ls_model_options){.struct_size = sizeof(ls_model_options), .context = 300, .threads = 2, .chunk = 32}, &e)) return 2;
    double before = status_bytes("RssFile"), most = 0;
    for (int i = 0; i < PIECES; i++) token[i] = i * PIECE_ROWS;
    for (int i = 0, n; i < PIECES; i += n) {
        n = i < 64 ? 32 : 1;
        ls_batch b = {.n_rows = n, .token = token + i, .slot = slot};
        if (m->executor->forward(m->executor, &b, NULL, &e)) return 2;
        double now = status_bytes("RssFile") - before;
        if (now > most) most = now;
    }
    double bound = 4.0 * VOCAB * HIDDEN / 4;
    printf("file pages: %.2f MB came at most; allowed %.2f\n", most / 1e6, bound / 1e6);
    fflush(stdout);
    ls_model_destroy(m);
    return most <= bound ? 0 : 1;
}

static void a_tied_float_table_stays_in_its_file(void **state) {
    char folder[] = "/tmp/lockstep-table-XXXXXX", path[300];
    int status = -1;
    (void)state;
    assert_non_null(mkdtemp(folder));
    int made = write_model(folder);
    pid_t child = made ? -1 : fork();
    if (!child) _exit(read_table(folder));
    bool ended = child > 0 && waitpid(child, &status, 0) == child;
    static const char *const names[] = {"model.safetensors", "config.json"};
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        unlink(path);
    }
    rmdir(folder);
    assert_true(ended);
    assert_int_equal(status, 0);
}

static void smollm2_stays_small(void **state) { (void)state, stays_small("LS_SMOLLM2_GGUF"); }
static void gemma3_stays_small(void **state) { (void)state, stays_small("LS_GEMMA3_GGUF"); }

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(smollm2_stays_small), cmocka_unit_test(gemma3_stays_small),
                                       cmocka_unit_test(a_tied_float_table_stays_in_its_file)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
