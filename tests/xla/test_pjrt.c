/* The PJRT engine on the real CPU plugins that tools/fetch_plugins.py brings: every test that computes runs on all of them. */
#include "test.h"

#include <fcntl.h>
#include <fenv.h>
#include <glob.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "xla/pjrt_engine.h"
#include "xla/pjrt_trial.h"

enum { PLUGINS = 3 };
static const char *const plugin_files[PLUGINS] = {"xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so", "fastatomstruct_xla_cpu/libpjrt_cpu.so",
                                                  "lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so"};
static char cache[] = "/tmp/ls_pjrt_XXXXXX";

static const char *packages(void) {
    const char *folder = getenv("LS_PJRT_PLUGINS");
    return folder && *folder ? folder : LS_PLUGINS;
}

static void plugin_path(char out[400], int i) {
    snprintf(out, 400, "%s/%s", packages(), plugin_files[i]);
    if (!ls_file_exists(out)) fail_msg("%s is missing: run tools/fetch_plugins.py", out);
}

static ls_engine *open_plugin(int i) {
    ls_error e = {0};
    ls_engine *x;
    char path[400];
    plugin_path(path, i);
    assert_ok(ls_pjrt_open(&x, &(ls_pjrt_options){.plugin = path, .cache_folder = cache}, &e));
    return x;
}

static ls_program *compile(ls_engine *x, const char *text, const char *identity, ls_compile_info *info) {
    ls_error e = {0};
    ls_program *p;
    assert_ok(x->ops->compile(x, &p, text, strlen(text), identity, info, &e));
    return p;
}

static ls_buffer *upload(ls_engine *x, ls_tensor_type type, const void *data) {
    ls_error e = {0};
    ls_buffer *b;
    assert_ok(x->ops->upload(x, &b, &type, data, &e));
    return b;
}

/* Reads a result, compares it with |want| and frees it. */
static void expect(ls_engine *x, ls_buffer *b, const void *want, size_t bytes) {
    ls_error e = {0};
    char got[256];
    assert_true(bytes <= sizeof got);
    assert_ok(x->ops->read(x, b, got, bytes, &e));
    assert_memory_equal(got, want, bytes);
    x->ops->free_buffer(x, b);
}

/* Hashing the plugins takes seconds each, so it is done once, here. */
static int make_cache(void **state) {
    (void)state;
    ls_error e = {0};
    ls_exec_cache *c;
    if (!mkdtemp(cache)) return -1;
    assert_ok(ls_exec_cache_open(&c, cache, &e));
    for (int i = 0; i < PLUGINS; i++) {
        char path[400], hex[65];
        plugin_path(path, i);
        assert_ok(ls_exec_cache_file_hash(c, path, hex, &e));
    }
    ls_exec_cache_close(c);
    return 0;
}

static int remove_cache(void **state) {
    (void)state;
    char command[100];
    snprintf(command, sizeof command, "/bin/rm -rf %s", cache);
    return system(command);
}

/* ---- Computing ------------------------------------------------------------------------------------------------------ */

static const char dtypes_module[] =
    "module @dtypes {\n  func.func public @main(%a: tensor<2x3xi8>, %b: tensor<3x2xi8>, %c: tensor<2x3xi16>, %d: tensor<3x2xi16>, %e: tensor<2x3xi64>, %f: tensor<3x2xi64>,\n"
    "      %g: tensor<3xf32>, %h: tensor<f64>, %i: tensor<2xui8>, %j: tensor<2xui32>, %k: tensor<2xi1>)\n"
    "      -> (tensor<2x2xi32>, tensor<2x2xi32>, tensor<2x2xi64>, tensor<3xbf16>, tensor<3xf16>, tensor<f64>, tensor<2xui8>, tensor<2xui32>, tensor<2xi1>) {\n"
    "    %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<2x3xi8>, tensor<3x2xi8>) -> tensor<2x2xi32>\n"
    "    %1 = stablehlo.dot_general %c, %d, contracting_dims = [1] x [0] : (tensor<2x3xi16>, tensor<3x2xi16>) -> tensor<2x2xi32>\n"
    "    %2 = stablehlo.dot_general %e, %f, contracting_dims = [1] x [0] : (tensor<2x3xi64>, tensor<3x2xi64>) -> tensor<2x2xi64>\n"
    "    %3 = stablehlo.convert %g : (tensor<3xf32>) -> tensor<3xbf16>\n"
    "    %4 = stablehlo.convert %g : (tensor<3xf32>) -> tensor<3xf16>\n"
    "    %5 = stablehlo.multiply %h, %h : tensor<f64>\n"
    "    %6 = stablehlo.add %i, %i : tensor<2xui8>\n"
    "    %7 = stablehlo.multiply %j, %j : tensor<2xui32>\n"
    "    %8 = stablehlo.not %k : tensor<2xi1>\n"
    "    return %0, %1, %2, %3, %4, %5, %6, %7, %8 : tensor<2x2xi32>, tensor<2x2xi32>, tensor<2x2xi64>, tensor<3xbf16>, tensor<3xf16>, tensor<f64>, tensor<2xui8>, tensor<2xui32>, "
    "tensor<2xi1>\n  }\n}\n";

static void every_dtype(void **state) {
    (void)state;
    for (int i = 0; i < PLUGINS; i++) {
        ls_error e = {0};
        ls_engine *x = open_plugin(i);
        ls_program *p = compile(x, dtypes_module, NULL, NULL);
        const int8_t a[] = {127, -128, 3, -1, 100, 5}, b[] = {127, -128, -128, 127, 9, 1};
        const int16_t c[] = {32767, -32768, 3, 1, 2, 3}, d[] = {32767, 1, -32768, 2, 5, 6};
        const int64_t f[] = {1LL << 31, 3, -5, 7, 1LL << 40, 2}, g[] = {1LL << 31, 2, 3, -4, 6, 1LL << 20};
        const float h[] = {1.00390625f, -65504.0f, 1e-3f};
        const double k = 1.0 + 0x1p-40;
        const uint8_t m[] = {200, 7}, q[] = {1, 0};
        const uint32_t n[] = {65537, 3};
        const struct {
            ls_tensor_type type;
            const void *data;
        } in[] = {{{LS_DT_I8, 2, {2, 3}}, a},  {{LS_DT_I8, 2, {3, 2}}, b},  {{LS_DT_I16, 2, {2, 3}}, c}, {{LS_DT_I16, 2, {3, 2}}, d},
                  {{LS_DT_I64, 2, {2, 3}}, f}, {{LS_DT_I64, 2, {3, 2}}, g}, {{LS_DT_F32, 1, {3}}, h},    {{LS_DT_F64, 0, {0}}, &k},
                  {{LS_DT_U8, 1, {2}}, m},     {{LS_DT_U32, 1, {2}}, n},    {{LS_DT_I1, 1, {2}}, q}};
        enum { N_IN = sizeof in / sizeof *in };
        ls_buffer *args[N_IN], *outs[9];
        for (int t = 0; t < N_IN; t++) args[t] = upload(x, in[t].type, in[t].data);
        assert_ok(x->ops->execute(x, p, args, N_IN, outs, 9, &e));
        assert_true(ls_tensor_type_equal(&outs[2]->type, &(ls_tensor_type){LS_DT_I64, 2, {2, 2}}));

        int32_t dot8[4] = {0}, dot16[4] = {0};
        int64_t dot64[4] = {0};
        for (int r = 0; r < 2; r++)
            for (int s = 0; s < 2; s++)
                for (int t = 0; t < 3; t++) {
                    dot8[r * 2 + s] += a[r * 3 + t] * b[t * 2 + s];
                    dot16[r * 2 + s] = (int32_t)((uint32_t)dot16[r * 2 + s] + (uint32_t)(c[r * 3 + t] * d[t * 2 + s]));
                    dot64[r * 2 + s] += f[r * 3 + t] * g[t * 2 + s];
                }
        expect(x, outs[0], dot8, sizeof dot8);
        expect(x, outs[1], dot16, sizeof dot16);
        expect(x, outs[2], dot64, sizeof dot64);
        expect(x, outs[3], (uint16_t[]){0x3F80, 0xC780, 0x3A83}, 6); /* 1.00390625 is halfway and goes to the even 1.0 */
        expect(x, outs[4], (uint16_t[]){0x3C04, 0xFBFF, 0x1419}, 6);
        expect(x, outs[5], &(double){k * k}, 8);
        expect(x, outs[6], (uint8_t[]){144, 14}, 2);
        expect(x, outs[7], (uint32_t[]){131073, 9}, 8);
        expect(x, outs[8], (uint8_t[]){0, 1}, 2);
        for (int t = 0; t < N_IN; t++) x->ops->free_buffer(x, args[t]);
        x->ops->free_program(x, p);
        x->ops->destroy(x);
    }
}

/* main sets XLA_FLAGS to fast-math; the engine's own settings have the last word, so NaN stays NaN. And a rounding to bf16
 * between two operations, which the module asks for, is not skipped. */
static void settings_win_over_the_environment(void **state) {
    (void)state;
    static const char text[] =
        "func.func public @main(%x: tensor<2xf32>, %big: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xi1>) {\n"
        "  %a = stablehlo.convert %x : (tensor<2xf32>) -> tensor<2xbf16>\n  %0 = stablehlo.multiply %a, %a : tensor<2xbf16>\n"
        "  %1 = stablehlo.subtract %0, %a : tensor<2xbf16>\n  %2 = stablehlo.convert %1 : (tensor<2xbf16>) -> tensor<2xf32>\n"
        "  %3 = stablehlo.multiply %big, %big : tensor<2xf32>\n  %4 = stablehlo.subtract %3, %3 : tensor<2xf32>\n"
        "  %5 = stablehlo.compare NE, %4, %4 : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xi1>\n  return %2, %5 : tensor<2xf32>, tensor<2xi1>\n}\n";
    for (int i = 0; i < PLUGINS; i++) {
        ls_error e = {0};
        ls_engine *x = open_plugin(i);
        ls_program *p = compile(x, text, NULL, NULL);
        ls_tensor_type two = {LS_DT_F32, 1, {2}};
        ls_buffer *args[2] = {upload(x, two, (float[]){1.1f, 3.0f}), upload(x, two, (float[]){1e30f, 2.0f})}, *outs[2];
        assert_ok(x->ops->execute(x, p, args, 2, outs, 2, &e));
        expect(x, outs[0], (float[]){0.109375f, 6.0f}, 8);
        expect(x, outs[1], (uint8_t[]){1, 0}, 2);
        for (int k = 0; k < 2; k++) x->ops->free_buffer(x, args[k]);
        x->ops->free_program(x, p);
        x->ops->destroy(x);
    }
}

static void scalars_empty_tensors_and_no_arguments(void **state) {
    (void)state;
    static const char text[] = "func.func public @main() -> (tensor<0x4xf32>, tensor<i32>) {\n  %0 = stablehlo.constant dense<> : tensor<0x4xf32>\n"
                               "  %1 = stablehlo.constant dense<-7> : tensor<i32>\n  return %0, %1 : tensor<0x4xf32>, tensor<i32>\n}\n";
    for (int i = 0; i < PLUGINS; i++) {
        ls_error e = {0};
        ls_engine *x = open_plugin(i);
        ls_program *p = compile(x, text, NULL, NULL);
        ls_buffer *outs[2], *empty = upload(x, (ls_tensor_type){LS_DT_F32, 2, {0, 4}}, NULL);
        assert_ok(x->ops->execute(x, p, NULL, 0, outs, 2, &e));
        expect(x, outs[0], "", 0);
        expect(x, outs[1], &(int32_t){-7}, 4);
        expect(x, empty, "", 0);
        x->ops->free_program(x, p);
        x->ops->destroy(x);
    }
}

static const char donating_module[] =
    "module @donate {\n  func.func public @main(%kv: tensor<64x32xf32> {tf.aliasing_output = 1 : i32}, %row: tensor<1x32xf32>, %at: tensor<i32>) -> (tensor<f32>, tensor<64x32xf32>) {\n"
    "    %z = stablehlo.constant dense<0> : tensor<i32>\n    %one = stablehlo.constant dense<1.0> : tensor<f32>\n"
    "    %0 = stablehlo.dynamic_update_slice %kv, %row, %at, %z : (tensor<64x32xf32>, tensor<1x32xf32>, tensor<i32>, tensor<i32>) -> tensor<64x32xf32>\n"
    "    return %one, %0 : tensor<f32>, tensor<64x32xf32>\n  }\n}\n";

static uintptr_t address(const ls_engine *x, const ls_buffer *b) {
    const PJRT_Api *api = ((const pjrt_engine *)(const void *)x)->api;
    PJRT_Buffer_UnsafePointer_Args *a = PJRT(PJRT_Buffer_UnsafePointer, .buffer = b->pjrt);
    ls_error e = {0};
    assert_true(PJRT_HAS(api, PJRT_Buffer_UnsafePointer));
    assert_ok(ls_pjrt_check(api, api->PJRT_Buffer_UnsafePointer(a), "reading an address", &e));
    return a->buffer_pointer;
}

/* 20 steps on one buffer, fresh and from the cache: the same storage all along, and the donated buffer refuses to be used again. */
static void donation_is_in_place(void **state) {
    (void)state;
    for (int i = 0; i < PLUGINS * 2; i++) {
        ls_error e = {0};
        ls_engine *x = open_plugin(i / 2);
        ls_compile_info info;
        ls_program *p = compile(x, donating_module, NULL, &info);
        assert_int_equal(info.cache_hit, i % 2);
        float state_of_kv[64 * 32] = {0}, row[32], got[64 * 32], one;
        ls_buffer *kv = upload(x, (ls_tensor_type){LS_DT_F32, 2, {64, 32}}, state_of_kv);
        uintptr_t first = address(x, kv);
        for (int32_t step = 0; step < 20; step++) {
            for (int k = 0; k < 32; k++) row[k] = state_of_kv[step * 32 + k] = (float)(step * 100 + k);
            ls_buffer *args[3] = {kv, upload(x, (ls_tensor_type){LS_DT_F32, 2, {1, 32}}, row), upload(x, (ls_tensor_type){LS_DT_I32, 0, {0}}, &step)}, *outs[2];
            assert_ok(x->ops->execute(x, p, args, 3, outs, 2, &e));
            assert_error(x->ops->read(x, kv, got, sizeof got, &e), LS_FAILED_PRECONDITION, "donated");
            ls_buffer *again[2];
            assert_error(x->ops->execute(x, p, args, 3, again, 2, &e), LS_FAILED_PRECONDITION, "argument 0 was donated");
            assert_ok(x->ops->read(x, outs[0], &one, sizeof one, &e));
            assert_int_equal(first, address(x, outs[1]));
            for (int t = 0; t < 3; t++) x->ops->free_buffer(x, args[t]);
            x->ops->free_buffer(x, outs[0]);
            kv = outs[1];
        }
        assert_ok(x->ops->read(x, kv, got, sizeof got, &e));
        assert_memory_equal(got, state_of_kv, sizeof got);
        x->ops->free_buffer(x, kv);
        x->ops->free_program(x, p);
        x->ops->destroy(x);
    }
}

/* The host's memory is the caller's again after upload. */
static void upload_copies(void **state) {
    (void)state;
    for (int i = 0; i < PLUGINS; i++) {
        ls_error e = {0};
        ls_engine *x = open_plugin(i);
        enum { N = 1 << 18 };
        uint32_t *data, *got;
        assert_ok(ls_alloc_aligned(&data, N, sizeof *data, "data", &e));
        assert_ok(ls_calloc(&got, N, sizeof *got, "data", &e));
        for (uint32_t k = 0; k < N; k++) data[k] = k * 2654435761u;
        ls_buffer *b = upload(x, (ls_tensor_type){LS_DT_U32, 2, {64, N / 64}}, data);
        memset(data, 0xFF, N * sizeof *data);
        assert_ok(x->ops->read(x, b, got, N * sizeof *got, &e));
        for (uint32_t k = 0; k < N; k++) assert_int_equal(got[k], k * 2654435761u);
        x->ops->free_buffer(x, b);
        x->ops->destroy(x);
        ls_free(data);
        ls_free(got);
    }
}

/* Two engines on one plugin and one on each other, alive together and used in turn. */
static void engines_live_side_by_side(void **state) {
    (void)state;
    static const char text[] = "func.func public @main(%a: tensor<4xf32>) -> tensor<4xf32> {\n  %0 = stablehlo.add %a, %a : tensor<4xf32>\n  return %0 : tensor<4xf32>\n}\n";
    ls_error e = {0};
    ls_engine *x[PLUGINS + 1];
    ls_program *p[PLUGINS + 1];
    ls_buffer *b[PLUGINS + 1];
    for (int i = 0; i <= PLUGINS; i++) {
        x[i] = open_plugin(i % PLUGINS);
        p[i] = compile(x[i], text, NULL, NULL);
        b[i] = upload(x[i], (ls_tensor_type){LS_DT_F32, 1, {4}}, (float[]){1, 2, 3, (float)i});
    }
    for (int round = 0; round < 5; round++)
        for (int i = 0; i <= PLUGINS; i++) {
            ls_buffer *out;
            assert_ok(x[i]->ops->execute(x[i], p[i], &b[i], 1, &out, 1, &e));
            x[i]->ops->free_buffer(x[i], b[i]);
            b[i] = out;
        }
    /* No plugin leaves this thread flushing subnormals or rounding another way. */
    volatile float tiny = 0x1p-126f, half = 0.5f, big = 0x1p24f, one = 1.0f;
    assert_true(tiny * half != 0.0f && fegetround() == FE_TONEAREST && big + one == 0x1p24f);
    for (int i = PLUGINS; i >= 0; i--) {
        expect(x[i], b[i], (float[]){32, 64, 96, 32 * (float)i}, 16);
        x[i]->ops->free_program(x[i], p[i]);
        x[i]->ops->destroy(x[i]);
    }
}

/* One engine's life in a thread. */
typedef struct job {
    int plugin;
    const char *step; /* being taken; NULL: all went well */
    ls_error e;
} job;

/* The same in threads, an engine each, two on every plugin: opening, compiling, the cache and running do not disturb each other. */
static void *work_alone(void *user) {
    static const char text[] = "func.func public @main(%a: tensor<64xi32>) -> tensor<64xi32> {\n  %0 = stablehlo.add %a, %a : tensor<64xi32>\n  return %0 : tensor<64xi32>\n}\n";
    char path[400];
    ls_engine *x;
    ls_program *p;
    ls_buffer *b, *out;
    int32_t v[64] = {1, 2, 3};
    ls_tensor_type type = {LS_DT_I32, 1, {64}};
    job *j = user;
    snprintf(path, sizeof path, "%s/%s", packages(), plugin_files[j->plugin]);
    j->step = "open";
    if (ls_pjrt_open(&x, &(ls_pjrt_options){.plugin = path, .cache_folder = cache}, &j->e)) return NULL;
    j->step = "compile";
    if (x->ops->compile(x, &p, text, sizeof text - 1, "threads", NULL, &j->e)) return NULL;
    j->step = "upload";
    if (x->ops->upload(x, &b, &type, v, &j->e)) return NULL;
    j->step = "execute";
    for (int i = 0; i < 20; i++) {
        if (x->ops->execute(x, p, &b, 1, &out, 1, &j->e)) return NULL;
        x->ops->free_buffer(x, b);
        b = out;
    }
    j->step = "read";
    if (x->ops->read(x, b, v, sizeof v, &j->e)) return NULL;
    j->step = "compare";
    if (v[0] != 1 << 20 || v[2] != 3 << 20) return NULL;
    x->ops->free_buffer(x, b);
    x->ops->free_program(x, p);
    x->ops->destroy(x);
    j->step = NULL;
    return NULL;
}

static void survives(void *user) { (void)user; }
static void ends_the_process(void *user) {
    (void)user;
    fprintf(stderr, "F0000 00:00:00.00 1 flags.cc:1] no such flag\n");
    _exit(1);
}
static void is_stopped(void *user) {
    (void)user;
    raise(SIGALRM); /* as the trial's own alarm does when a lock of another thread is never given back */
}

static void trials(void **state) {
    (void)state;
    ls_error e = {0};
    assert_ok(ls_pjrt_trial(survives, NULL, "the plugin", &e));
    assert_ok(ls_pjrt_trial(is_stopped, NULL, "the plugin", &e));
    assert_error(ls_pjrt_trial(ends_the_process, NULL, "the plugin", &e), LS_FAILED_PRECONDITION, "the plugin ends the process: no such flag");
}

static void engines_in_threads(void **state) {
    (void)state;
    pthread_t threads[PLUGINS * 2];
    static job jobs[PLUGINS * 2];
    for (int i = 0; i < PLUGINS * 2; i++) {
        jobs[i].plugin = i % PLUGINS;
        assert_int_equal(pthread_create(&threads[i], NULL, work_alone, &jobs[i]), 0);
    }
    for (int i = 0; i < PLUGINS * 2; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < PLUGINS * 2; i++)
        if (jobs[i].step) fail_msg("%s, step %s: %s", plugin_files[jobs[i].plugin], jobs[i].step, jobs[i].e.text);
}

/* ---- Errors --------------------------------------------------------------------------------------------------------- */

static void bad_programs_and_calls(void **state) {
    (void)state;
    static const char text[] = "func.func public @main(%a: tensor<4xf32> {tf.aliasing_output = 0 : i32}, %b: tensor<4xf32>) -> tensor<4xf32> {\n"
                               "  %0 = stablehlo.add %a, %b : tensor<4xf32>\n  return %0 : tensor<4xf32>\n}\n";
    static const char unknown_op[] = "func.func public @main(%a: tensor<4xf32>) -> tensor<4xf32> {\n  %0 = stablehlo.frobnicate %a : tensor<4xf32>\n  return %0 : tensor<4xf32>\n}\n";
    static const char wrong_type[] = "func.func public @main(%a: tensor<4xf32>) -> tensor<5xf32> {\n  return %a : tensor<4xf32>\n}\n";
    for (int i = 0; i < PLUGINS; i++) {
        ls_error e = {0};
        ls_engine *x = open_plugin(i);
        ls_program *p, *none;
        assert_error(x->ops->compile(x, &none, "not a module", 12, NULL, NULL, &e), LS_INVALID_ARGUMENT, "no function @main");
        assert_error(x->ops->compile(x, &none, unknown_op, sizeof unknown_op - 1, NULL, NULL, &e), LS_INVALID_ARGUMENT, "stablehlo.frobnicate");
        assert_error(x->ops->compile(x, &none, wrong_type, sizeof wrong_type - 1, NULL, NULL, &e), LS_INVALID_ARGUMENT, "compiling");
        assert_null(none);
        p = compile(x, text, NULL, NULL);
        const float v[4] = {1, 2, 3, 4};
        float got[4];
        ls_buffer *a = upload(x, (ls_tensor_type){LS_DT_F32, 1, {4}}, v), *i32 = upload(x, (ls_tensor_type){LS_DT_I32, 1, {4}}, v),
                  *wide = upload(x, (ls_tensor_type){LS_DT_F32, 2, {1, 4}}, v), *outs[2];
        assert_error(x->ops->execute(x, p, (ls_buffer *[]){a}, 1, outs, 1, &e), LS_INVALID_ARGUMENT, "1 arguments; @main takes 2");
        assert_error(x->ops->execute(x, p, (ls_buffer *[]){a, i32}, 2, outs, 2, &e), LS_INVALID_ARGUMENT, "room for 2 outputs");
        assert_error(x->ops->execute(x, p, (ls_buffer *[]){a, i32}, 2, outs, 1, &e), LS_INVALID_ARGUMENT, "argument 1 is tensor<4xi32>; @main takes tensor<4xf32>");
        assert_error(x->ops->execute(x, p, (ls_buffer *[]){wide, a}, 2, outs, 1, &e), LS_INVALID_ARGUMENT, "argument 0 is tensor<1x4xf32>");
        assert_error(x->ops->execute(x, p, (ls_buffer *[]){a, NULL}, 2, outs, 1, &e), LS_INVALID_ARGUMENT, "argument 1 is NULL");
        assert_error(x->ops->execute(x, p, (ls_buffer *[]){a, a}, 2, outs, 1, &e), LS_INVALID_ARGUMENT, "argument 0 is donated and cannot be argument 1");
        assert_error(x->ops->read(x, a, got, 12, &e), LS_INVALID_ARGUMENT, "read of 12 bytes from a buffer of 16");
        assert_error(x->ops->upload(x, &outs[0], &(ls_tensor_type){LS_DT_F32, 7, {1}}, v, &e), LS_INVALID_ARGUMENT, "rank 7");
        assert_error(x->ops->upload(x, &outs[0], &(ls_tensor_type){LS_DT_F32, 1, {-1}}, v, &e), LS_INVALID_ARGUMENT, "must not be negative");
        assert_error(x->ops->upload(x, &outs[0], &(ls_tensor_type){LS_DT_F32, 1, {4}}, NULL, &e), LS_INVALID_ARGUMENT, "without data");
        expect(x, a, v, 16); /* a refused call consumes nothing */
        x->ops->free_buffer(x, i32);
        x->ops->free_buffer(x, wide);
        x->ops->free_buffer(x, NULL);
        x->ops->free_program(x, NULL);
        x->ops->free_program(x, p);
        x->ops->destroy(x);
    }
}

static void expect_open_error(ls_pjrt_options o, ls_code code, const char *part) {
    ls_error e = {0};
    ls_engine *x;
    o.cache_folder = cache;
    assert_error(ls_pjrt_open(&x, &o, &e), code, part);
    assert_null(x);
}

static void open_refuses(void **state) {
    (void)state;
    char path[400], text[300];
    plugin_path(path, 2);
    expect_open_error((ls_pjrt_options){.plugin = "/nonexistent/plugin.so"}, LS_NOT_FOUND, "\"/nonexistent/plugin.so\" is not a file");
    expect_open_error((ls_pjrt_options){.plugin = packages()}, LS_INVALID_ARGUMENT, "is not a file");
    snprintf(text, sizeof text, "%s/text.so", cache);
    FILE *f = fopen(text, "w");
    fputs("this is text, and long enough to hold an ELF header of sixty-four bytes, though it holds none", f);
    fclose(f);
    expect_open_error((ls_pjrt_options){.plugin = text}, LS_INVALID_ARGUMENT, "invalid ELF header");
    expect_open_error((ls_pjrt_options){.plugin = LS_NO_PLUGIN}, LS_INVALID_ARGUMENT, "it has no function GetPjrtApi");
    expect_open_error((ls_pjrt_options){.plugin = path, .device = "npu"}, LS_INVALID_ARGUMENT, "device \"npu\" is unknown; use cpu, cuda");
    expect_open_error((ls_pjrt_options){.plugin = path, .device = "cuda"}, LS_FAILED_PRECONDITION, "drives \"cpu\", but the device asked for is \"cuda\"");
    expect_open_error((ls_pjrt_options){.plugin = path, .ordinal = 1000}, LS_NOT_FOUND, "device cpu:1000 is not there");
    expect_open_error((ls_pjrt_options){.plugin = path, .ordinal = -1}, LS_NOT_FOUND, "device cpu:-1");
    expect_open_error((ls_pjrt_options){.plugin = path, .client_options = "cpu_device_count"}, LS_INVALID_ARGUMENT, "must have the form name=value");
    expect_open_error((ls_pjrt_options){.plugin = path, .client_options = "no_such_option=1.5"}, LS_INVALID_ARGUMENT, "no_such_option");
    expect_open_error((ls_pjrt_options){.plugin = path, .client_options = "cpu_device_count=2", .ordinal = 2}, LS_NOT_FOUND, "the plugin has 2, from 0");
}

static void plugins_that_do_not_fit(void **state) {
    (void)state;
    static const struct {
        const char *fault;
        ls_code code;
        const char *part;
    } cases[] = {
        {"nothing", LS_FAILED_PRECONDITION, "GetPjrtApi returned nothing"},
        {"major", LS_FAILED_PRECONDITION, "PJRT API version 1.7; this build speaks major version 0"},
        {"tiny", LS_FAILED_PRECONDITION, "table has 16 bytes"},
        {"short", LS_FAILED_PRECONDITION, "(PJRT API 0.7, table of 600 bytes) has no PJRT_Buffer_ToHostBuffer"},
        {"hole", LS_FAILED_PRECONDITION, "has no PJRT_Client_Compile"},
        {"initialise", LS_UNAVAILABLE, "initialising the plugin: no driver for this device"},
        {"code", LS_UNKNOWN, "no driver for this device"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        setenv("LS_FAKE_PLUGIN", cases[i].fault, 1);
        expect_open_error((ls_pjrt_options){.plugin = LS_FAKE_PLUGIN}, cases[i].code, cases[i].part);
    }
}

/* ---- Cache ---------------------------------------------------------------------------------------------------------- */

/* A matrix product and a tanh: code whose bits depend on the compiler. */
static const char float_module[] =
    "func.func public @main(%a: tensor<16x64xf32>, %b: tensor<64x16xf32>) -> tensor<16x16xf32> {\n"
    "  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<16x64xf32>, tensor<64x16xf32>) -> tensor<16x16xf32>\n"
    "  %1 = stablehlo.tanh %0 : tensor<16x16xf32>\n  return %1 : tensor<16x16xf32>\n}\n";

/* Compiles and runs float_module; the result's bits go to |bits|. */
static ls_compile_info run_float(ls_engine *x, const char *identity, float bits[256]) {
    ls_error e = {0};
    ls_compile_info info;
    ls_program *p = compile(x, float_module, identity, &info);
    float a[1024], b[1024];
    for (int i = 0; i < 1024; i++) {
        a[i] = (float)((i * 37) % 101 - 50) / 97.0f;
        b[i] = (float)((i * 53) % 89 - 44) / 83.0f;
    }
    ls_buffer *args[2] = {upload(x, (ls_tensor_type){LS_DT_F32, 2, {16, 64}}, a), upload(x, (ls_tensor_type){LS_DT_F32, 2, {64, 16}}, b)}, *out;
    assert_ok(x->ops->execute(x, p, args, 2, &out, 1, &e));
    assert_ok(x->ops->read(x, out, bits, 1024, &e));
    for (int i = 0; i < 2; i++) x->ops->free_buffer(x, args[i]);
    x->ops->free_buffer(x, out);
    x->ops->free_program(x, p);
    return info;
}

/* Entries of a folder; *g belongs to the caller. */
static void entries(const char *folder, glob_t *g) {
    char pattern[400];
    snprintf(pattern, sizeof pattern, "%s/*.exec", folder);
    *g = (glob_t){0};
    glob(pattern, 0, NULL, g);
}

static void damage(const char *path, long offset) {
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    fseek(f, offset, offset < 0 ? SEEK_END : SEEK_SET);
    int c = fgetc(f);
    fseek(f, -1, SEEK_CUR);
    fputc(c ^ 1, f);
    fclose(f);
}

static void cached_programs_equal_fresh_ones(void **state) {
    (void)state;
    for (int i = 0; i < PLUGINS; i++) {
        ls_error e = {0};
        char folder[300], path[400];
        float fresh[256], bits[256];
        plugin_path(path, i);
        char command[1200];
        snprintf(folder, sizeof folder, "%s/plugin%d", cache, i);
        snprintf(command, sizeof command, "mkdir -m 700 %s && cp -p %s/*.hash %s", folder, cache, folder);
        assert_int_equal(system(command), 0);
        ls_engine *x;
        assert_ok(ls_pjrt_open(&x, &(ls_pjrt_options){.plugin = path, .cache_folder = folder}, &e));
        ls_compile_info info = run_float(x, "model A", fresh);
        assert_true(!info.cache_hit && info.stored && info.seconds > 0);
        info = run_float(x, "model A", bits);
        assert_true(info.cache_hit && !info.stored);
        assert_memory_equal(bits, fresh, sizeof bits);
        x->ops->destroy(x);
        assert_ok(ls_pjrt_open(&x, &(ls_pjrt_options){.plugin = path, .cache_folder = folder}, &e)); /* another session */
        assert_true(run_float(x, "model A", bits).cache_hit);
        assert_memory_equal(bits, fresh, sizeof bits);
        assert_false(run_float(x, "model B", bits).cache_hit); /* another identity, another entry */
        assert_false(run_float(x, NULL, bits).cache_hit);

        glob_t g;
        entries(folder, &g);
        assert_int_equal(g.gl_pathc, 3);
        for (size_t k = 0; k < 3; k++) damage(g.gl_pathv[k], k ? -1 : 30);
        assert_int_equal(truncate(g.gl_pathv[2], 200), 0);
        for (int k = 0; k < 2; k++) { /* damaged ones are compiled again, and are whole afterwards */
            assert_int_equal(run_float(x, "model A", bits).cache_hit, k);
            assert_memory_equal(bits, fresh, sizeof bits);
            assert_int_equal(run_float(x, "model B", bits).cache_hit, k);
            assert_int_equal(run_float(x, NULL, bits).cache_hit, k);
        }
        /* One program's entry under another's name is refused for its header. */
        snprintf(command, sizeof command, "/bin/cp %s %s && /bin/cp %s %s", g.gl_pathv[0], g.gl_pathv[1], g.gl_pathv[0], g.gl_pathv[2]);
        assert_int_equal(system(command), 0);
        assert_int_equal(run_float(x, "model A", bits).cache_hit + run_float(x, "model B", bits).cache_hit + run_float(x, NULL, bits).cache_hit, 1);
        globfree(&g);
        x->ops->destroy(x);
        assert_ok(ls_pjrt_open(&x, &(ls_pjrt_options){.plugin = path, .cache_folder = folder, .ordinal = 1}, &e)); /* another device */
        assert_false(run_float(x, "model A", bits).cache_hit);
        x->ops->destroy(x);
    }
}

static void cache_off(void **state) {
    (void)state;
    ls_error e = {0};
    char path[400];
    float bits[256];
    ls_engine *x;
    plugin_path(path, 0);
    glob_t before, after;
    entries(cache, &before);
    assert_ok(ls_pjrt_open(&x, &(ls_pjrt_options){.plugin = path, .cache_folder = cache, .no_cache = true}, &e));
    for (int i = 0; i < 2; i++) {
        ls_compile_info info = run_float(x, "off", bits);
        assert_true(!info.cache_hit && !info.stored);
    }
    x->ops->destroy(x);
    entries(cache, &after);
    assert_int_equal(before.gl_pathc, after.gl_pathc);
    globfree(&before);
    globfree(&after);
}

static void cache_folders(void **state) {
    (void)state;
    ls_error e = {0};
    ls_exec_cache *c;
    char folder[300], text[400], hex[65], again[65];
    struct stat st;
    snprintf(text, sizeof text, "%s/text.so/sub", cache);
    assert_error(ls_exec_cache_open(&c, text, &e), LS_FAILED_PRECONDITION, "cannot make the cache folder");
    assert_error(ls_exec_cache_open(&c, "", &e), LS_INVALID_ARGUMENT, "empty");
    snprintf(folder, sizeof folder, "%s/open", cache);
    assert_int_equal(mkdir(folder, 0777), 0);
    assert_int_equal(chmod(folder, 0777), 0);
    assert_error(ls_exec_cache_open(&c, folder, &e), LS_FAILED_PRECONDITION, "writable by everybody");
    assert_int_equal(chmod(folder, 0770), 0);
    assert_error(ls_exec_cache_open(&c, folder, &e), LS_FAILED_PRECONDITION, "writable by its group");

    snprintf(folder, sizeof folder, "%s/default", cache);
    setenv("XDG_CACHE_HOME", folder, 1);
    assert_ok(ls_exec_cache_open(&c, NULL, &e));
    snprintf(text, sizeof text, "%s/lockstep/xla", folder);
    assert_string_equal(ls_exec_cache_folder(c), text);
    assert_int_equal(stat(text, &st), 0);
    assert_int_equal(st.st_mode & 077, 0);

    snprintf(text, sizeof text, "%s/library", cache);
    FILE *f = fopen(text, "w");
    fputs("abc", f);
    fclose(f);
    assert_ok(ls_exec_cache_file_hash(c, text, hex, &e));
    assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_ok(ls_exec_cache_file_hash(c, text, again, &e));
    assert_string_equal(hex, again);
    f = fopen(text, "a");
    fputs("d", f);
    fclose(f);
    assert_ok(ls_exec_cache_file_hash(c, text, again, &e)); /* a file that changed is hashed again */
    assert_string_equal(again, "88d4266fd4e6338d13b845fcf289579d209c897823b9217da3e161936f031589");
    ls_exec_cache_close(c);
    unsetenv("XDG_CACHE_HOME");
}

/* A child that is killed while it writes an entry leaves half of one. */
static void killed_writers_leave_nothing(void **state) {
    (void)state;
    ls_error e = {0};
    ls_exec_cache *c;
    char folder[300], half[400], held[400], other[400];
    snprintf(folder, sizeof folder, "%s/killed", cache);
    assert_ok(ls_exec_cache_open(&c, folder, &e));
    ls_exec_cache_close(c);
    snprintf(half, sizeof half, "%s/entry.exec.tmp.00112233445566aa", folder);
    snprintf(held, sizeof held, "%s/entry.exec.tmp.00112233445566bb", folder);
    snprintf(other, sizeof other, "%s/entry.exec", folder);
    int ends[2];
    char byte;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (!child) {
        int fd = open(half, O_WRONLY | O_CREAT | O_EXCL, 0600);
        bool ok = fd >= 0 && !flock(fd, LOCK_EX) && write(fd, "half", 4) == 4 && write(ends[1], "x", 1) == 1;
        if (ok) pause();
        _exit(1);
    }
    close(ends[1]);
    assert_int_equal(read(ends[0], &byte, 1), 1);
    close(ends[0]);
    assert_ok(ls_exec_cache_open(&c, folder, &e)); /* its writer lives */
    ls_exec_cache_close(c);
    assert_true(ls_file_exists(half));
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);

    int fd = open(held, O_WRONLY | O_CREAT | O_EXCL, 0600);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    close(open(other, O_WRONLY | O_CREAT | O_EXCL, 0600));
    assert_ok(ls_exec_cache_open(&c, folder, &e));
    ls_exec_cache_close(c);
    assert_false(ls_file_exists(half));
    assert_true(ls_file_exists(held));
    assert_true(ls_file_exists(other));
    close(fd);
}

/* ---- Identity and discovery ------------------------------------------------------------------------------------------ */

static void identity_says_what_it_is(void **state) {
    (void)state;
    static const char *const versions[PLUGINS] = {"pjrt 0.81, ", "pjrt 0.106, ", "pjrt 0.115, "};
    static const char *const hashes[PLUGINS] = {"88c3f28c5900f48ad4a82cab9e79bba9537809743395e341485f8794268820dc",
                                                "0a0fe56ca17be9efc7b942e89e534e5e0ad4a0f1e369b66d27b62184509015b9",
                                                "ad1309ac822b1b24d51b7f9947c7c9fa9ef5d67f390584cbc3d1fa2428fed9c2"};
    for (int i = 0; i < PLUGINS; i++) {
        ls_engine *x = open_plugin(i);
        const ls_engine_identity *id = &x->identity;
        assert_string_equal(id->runtime, "pjrt");
        assert_string_equal(id->platform, "cpu");
        assert_memory_equal(id->version, versions[i], strlen(versions[i]));
        assert_string_equal(id->library, strrchr(plugin_files[i], '/') + 1);
        assert_string_equal(id->library_sha256, hashes[i]);
        assert_non_null(strstr(id->compiler, "stablehlo_current_version 1."));
        assert_string_equal(id->flags, "tf32=off xla_allow_excess_precision=false xla_cpu_enable_fast_math=false xla_cpu_enable_fast_min_max=false"
                                       " XLA_FLAGS=\"--xla_cpu_enable_fast_math=true\" NPROC=\"\"");
        assert_non_null(strstr(id->target, "x86-64 "));
        assert_non_null(strstr(id->device, "cpu, ordinal 0, host threads "));
        assert_true(x->traits.cpu && x->traits.keeps_f64 && !x->traits.fast_int8_dot);
        x->ops->destroy(x);
    }
}

static void plugins_are_found(void **state) {
    (void)state;
    static const char *const found[PLUGINS][2] = {{"lammps-jax-pjrt-cpu", "0.11.2"}, {"fastatomstruct-xla-cpu", "2026.6.23"}, {"xla-cpu-pjrt", "0.0.1"}};
    static const char *const cleared[] = {"VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONPATH", "PATH", "HOME", "LOCKSTEP_PYTHON_ENV", "LOCKSTEP_PJRT_PLUGIN"};
    ls_error e = {0};
    ls_pjrt_list l = {0};
    ls_engine *x;
    for (size_t i = 0; i < sizeof cleared / sizeof *cleared; i++) unsetenv(cleared[i]);
    assert_ok(ls_pjrt_find(&l, &e));
    assert_int_equal(l.n, 0);
    ls_pjrt_list_deinit(&l);
    expect_open_error((ls_pjrt_options){0}, LS_NOT_FOUND, "no PJRT plugin for device \"cpu\" in this Python environment: pip install lammps-jax-pjrt-cpu");
    expect_open_error((ls_pjrt_options){.device = "tpu"}, LS_NOT_FOUND, "pip install libtpu");

    setenv("LOCKSTEP_PYTHON_ENV", packages(), 1);
    assert_ok(ls_pjrt_find(&l, &e));
    assert_int_equal(l.n, PLUGINS);
    assert_null(l.override);
    for (int i = 0; i < PLUGINS; i++) {
        assert_string_equal(l.found[i].device, "cpu");
        assert_string_equal(l.found[i].package, found[i][0]);
        assert_string_equal(l.found[i].version, found[i][1]);
        assert_true(ls_file_exists(l.found[i].path));
    }
    ls_pjrt_list_deinit(&l);
    assert_ok(ls_pjrt_open(&x, &(ls_pjrt_options){.cache_folder = cache}, &e)); /* the preferred one */
    assert_string_equal(x->identity.library, "pjrt_c_api_cpu_plugin.so");
    x->ops->destroy(x);
    expect_open_error((ls_pjrt_options){.device = "rocm"}, LS_NOT_FOUND, "pip install jax-rocm7-pjrt");

    char path[400];
    plugin_path(path, 1);
    setenv("LOCKSTEP_PJRT_PLUGIN", path, 1);
    assert_ok(ls_pjrt_find(&l, &e));
    assert_string_equal(l.override, path);
    ls_pjrt_list_deinit(&l);
    assert_ok(ls_pjrt_open(&x, &(ls_pjrt_options){.cache_folder = cache}, &e));
    assert_string_equal(x->identity.library, "libpjrt_cpu.so");
    x->ops->destroy(x);
    unsetenv("LOCKSTEP_PJRT_PLUGIN");
    for (size_t i = 0; ls_pjrt_device_at(i); i++) assert_non_null(ls_pjrt_install_hint(ls_pjrt_device_at(i)));
    assert_null(ls_pjrt_install_hint("npu"));
}

int main(void) {
    setenv("XLA_FLAGS", "--xla_cpu_enable_fast_math=true", 1); /* plugins read it once, when they are loaded */
    setenv("TF_CPP_MIN_LOG_LEVEL", "3", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(engines_in_threads), /* first, so that it loads the plugins */
        cmocka_unit_test(trials),
        cmocka_unit_test(every_dtype),
        cmocka_unit_test(settings_win_over_the_environment),
        cmocka_unit_test(scalars_empty_tensors_and_no_arguments),
        cmocka_unit_test(donation_is_in_place),
        cmocka_unit_test(upload_copies),
        cmocka_unit_test(engines_live_side_by_side),
        cmocka_unit_test(bad_programs_and_calls),
        cmocka_unit_test(open_refuses),
        cmocka_unit_test(plugins_that_do_not_fit),
        cmocka_unit_test(cached_programs_equal_fresh_ones),
        cmocka_unit_test(cache_off),
        cmocka_unit_test(cache_folders),
        cmocka_unit_test(killed_writers_leave_nothing),
        cmocka_unit_test(identity_says_what_it_is),
        cmocka_unit_test(plugins_are_found),
    };
    return cmocka_run_group_tests(tests, make_cache, remove_cache);
}
