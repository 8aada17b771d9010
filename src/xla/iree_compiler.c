/* Flags per device, the target that the compiler resolves them to, and the cache in front of the compiler. */
#include "xla/iree_compiler.h"

#include <ctype.h>
#include <string.h>
#include <time.h>

#include "xla/exec_cache.h"
#include "xla/iree_library.h"

enum { FLAGS_MAX = 8 };

struct ls_iree_compiler {
    ls_arena *arena; /* owns every string */
    ls_iree_library lib;
    ls_exec_cache *cache; /* NULL: none */
    ls_str identity_line;
    const char *flags[FLAGS_MAX];
    int n_flags;
    ls_engine_identity identity;
    ls_engine_traits traits;
};

typedef struct device {
    const char *name;
    const char *target_flag, *target_prefix, *example; /* NULL: takes no target */
    const char *flags[3];
    ls_engine_traits traits;
} device;

#define CPU_FLAGS {"--iree-hal-target-device=local", "--iree-hal-local-target-device-backends=llvm-cpu", "--iree-llvmcpu-target-cpu=host"}

/* Metal has no f64: a module that uses it is refused by the compiler. */
static const device devices[] = {
    {"local-task", NULL, NULL, NULL, CPU_FLAGS, {.keeps_f64 = true, .cpu = true}},
    {"local-sync", NULL, NULL, NULL, CPU_FLAGS, {.keeps_f64 = true, .cpu = true}},
    {"cuda", "--iree-cuda-target=", "sm_", "sm_80", {"--iree-hal-target-device=cuda"}, {.fast_int8_dot = true, .keeps_f64 = true}},
    {"hip", "--iree-rocm-target=", "gfx", "gfx942", {"--iree-hal-target-device=hip"}, {.fast_int8_dot = true, .keeps_f64 = true}},
    {"metal", NULL, NULL, NULL, {"--iree-hal-target-device=metal"}, {0}},
};

/* Types are never narrowed: without the second flag IREE turns f64 into f32. */
static const char *const common_flags[] = {"--iree-input-type=stablehlo", "--iree-input-demote-f64-to-f32=false", "--iree-input-demote-i64-to-i32=false"};

static ls_code find_device(const char *name, const device **out, ls_error *e) {
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++)
        if (!strcmp(devices[i].name, name)) {
            *out = &devices[i];
            return LS_OK;
        }
    LS_FAIL(e, LS_INVALID_ARGUMENT, "IREE device \"%.60s\" is unknown; allowed are local-task, local-sync, cuda, hip and metal", name);
}

/* One architecture by its number. IREE crashes on some other spellings, so nothing else reaches it. */
static bool is_target(const device *d, const char *target) {
    size_t n = strlen(d->target_prefix), digits = 0;
    if (strncmp(target, d->target_prefix, n)) return false;
    for (const char *p = target + n; *p; p++, digits++)
        if (!isxdigit((unsigned char)*p) || isupper((unsigned char)*p)) return false;
    return digits >= 2 && digits <= 4;
}

static ls_code check_target(const device *d, const char *target, ls_error *e) {
    if (!d->target_flag && target) LS_FAIL(e, LS_INVALID_ARGUMENT, "IREE device %s takes no target, but \"%.60s\" was given", d->name, target);
    if (!d->target_flag) return LS_OK;
    if (!target || !*target) LS_FAIL(e, LS_INVALID_ARGUMENT, "IREE device %s needs exactly one target architecture, for example %s", d->name, d->example);
    if (!is_target(d, target))
        LS_FAIL(e, LS_INVALID_ARGUMENT, "target \"%.60s\" of IREE device %s is not understood; give exactly one architecture, for example %s", target, d->name,
                d->example);
    return LS_OK;
}

static ls_code set_flags(ls_iree_compiler *c, const device *d, const char *target, ls_error *e) {
    ls_str line = {0};
    for (size_t i = 0; i < sizeof common_flags / sizeof *common_flags; i++) c->flags[c->n_flags++] = common_flags[i];
    for (size_t i = 0; i < sizeof d->flags / sizeof *d->flags && d->flags[i]; i++) c->flags[c->n_flags++] = d->flags[i];
    if (d->target_flag) LS_TRY(ls_arena_printf(c->arena, &c->flags[c->n_flags++], e, "%s%s", d->target_flag, target));
    ls_code rc = LS_OK;
    for (int i = 0; !rc && i < c->n_flags; i++) rc = ls_str_printf(&line, e, "%s%s", i ? " " : "", c->flags[i]);
    if (!rc) rc = ls_arena_strdup(c->arena, &c->identity.flags, line.data, line.len, e);
    ls_str_deinit(&line);
    return rc;
}

/* ---- The target, as the compiler understands it ---------------------------------------------------------------- */

/* The quoted value behind |key| in MLIR text, as start and length; false when it is absent. */
static bool quoted_after(const char *text, const char *key, const char **value, size_t *len) {
    const char *p = strstr(text, key);
    if (!p) return false;
    *value = p + strlen(key);
    *len = strcspn(*value, "\"");
    return (*value)[*len] == '"';
}

/* Appends the features that are on, each once, in the compiler's order. */
static ls_code append_features(ls_str *out, const char *list, size_t len, ls_error *e) {
    size_t begin = out->len;
    for (size_t i = 0, n; i < len; i += n + 1) {
        n = strcspn(list + i, ",\"");
        if (list[i] != '+') continue;
        bool seen = false;
        for (const char *p = out->data + begin; !seen && (p = strchr(p, '+')); p++) seen = !strncmp(p, list + i, n) && (p[n] == 0 || p[n] == ',');
        if (seen) continue;
        LS_TRY(ls_str_printf(out, e, "%s%.*s", out->len > begin ? "," : " ", (int)n, list + i));
    }
    return LS_OK;
}

static ls_code cpu_target(const char *mlir, ls_str *out, ls_error *e) {
    const char *isa, *cpu, *features;
    size_t n_isa, n_cpu, n_features;
    if (!quoted_after(mlir, "\"llvm-cpu\", \"embedded-elf-", &isa, &n_isa) || !quoted_after(mlir, "{cpu = \"", &cpu, &n_cpu) || !n_cpu)
        LS_FAIL(e, LS_FAILED_PRECONDITION, "the IREE compiler does not say which processor it compiles for");
    LS_TRY(ls_str_printf(out, e, "%.*s %.*s", (int)n_isa, isa, (int)n_cpu, cpu));
    return quoted_after(mlir, "cpu_features = \"", &features, &n_features) ? append_features(out, features, n_features, e) : LS_OK;
}

static ls_code gpu_target(const char *mlir, const device *d, const char *target, ls_str *out, ls_error *e) {
    const char *arch;
    size_t n;
    if (!quoted_after(mlir, "arch = \"", &arch, &n) || (target && (strlen(target) != n || strncmp(arch, target, n))))
        LS_FAIL(e, LS_FAILED_PRECONDITION, "this IREE compiler does not know target %s of device %s; give one that it knows, for example %s",
                target ? target : "(default)",
                d->name, d->example ? d->example : "a Metal device's");
    return ls_str_printf(out, e, "%.*s", (int)n, arch);
}

/* A module of one addition, taken as far as the phase in which devices are assigned. */
static ls_code resolve_target(ls_iree_compiler *c, const device *d, const char *target, ls_error *e) {
    static const char probe[] = "func.func public @main(%a: tensor<f32>) -> tensor<f32> {\n"
                                "  %0 = stablehlo.add %a, %a : tensor<f32>\n  return %0 : tensor<f32>\n}\n";
    ls_str mlir = {0}, line = {0};
    ls_code rc = ls_iree_library_run(&c->lib, c->flags, c->n_flags, "preprocessing", probe, sizeof probe - 1, &mlir, e);
    if (!rc) rc = d->traits.cpu ? cpu_target(mlir.data, &line, e) : gpu_target(mlir.data, d, target, &line, e);
    if (!rc) rc = ls_arena_strdup(c->arena, &c->identity.target, line.data, line.len, e);
    ls_str_deinit(&mlir);
    ls_str_deinit(&line);
    return rc;
}

/* ---- Creation --------------------------------------------------------------------------------------------------- */

static ls_code set_identity(ls_iree_compiler *c, const device *d, ls_error *e) {
    ls_engine_identity *id = &c->identity;
    const char *slash = strrchr(c->lib.path, '/'), *revision = c->lib.abi.revision();
    char hex[65];
    int version = c->lib.abi.api_version();
    id->runtime = "iree";
    id->platform = id->device = d->name;
    id->library = slash ? slash + 1 : c->lib.path;
    LS_TRY(ls_exec_cache_file_hash(c->cache, c->lib.path, hex, e));
    LS_TRY(ls_arena_strdup(c->arena, &id->library_sha256, hex, 64, e));
    LS_TRY(ls_arena_printf(c->arena, &id->version, e, "compiler API %d.%d", version >> 16, version & 0xffff));
    return ls_arena_strdup(c->arena, &id->compiler, revision && *revision ? revision : "unversioned", SIZE_MAX, e);
}

static ls_code create(ls_iree_compiler *c, const ls_iree_options *o, const device *d, ls_error *e) {
    c->traits = d->traits;
    if (!o->no_cache) LS_TRY(ls_exec_cache_open(&c->cache, o->cache_folder, e));
    LS_TRY(set_flags(c, d, o->target, e));
    LS_TRY(ls_iree_library_open(&c->lib, c->arena, o->compiler, e));
    LS_TRY(set_identity(c, d, e));
    LS_TRY(resolve_target(c, d, o->target, e));
    return ls_engine_identity_text(&c->identity, &c->identity_line, e);
}

ls_code ls_iree_compiler_create(ls_iree_compiler **out, const ls_iree_options *o, ls_error *e) {
    ls_iree_compiler *c;
    const device *d = NULL;
    *out = NULL;
    LS_TRY(find_device(o->device ? o->device : "local-task", &d, e));
    LS_TRY(check_target(d, o->target, e));
    LS_TRY(ls_calloc(&c, 1, sizeof *c, "IREE compiler", e));
    ls_code rc = ls_arena_create(&c->arena, e);
    if (!rc) rc = create(c, o, d, e);
    if (rc) ls_iree_compiler_destroy(c);
    else *out = c;
    return rc;
}

void ls_iree_compiler_destroy(ls_iree_compiler *c) {
    if (!c) return;
    ls_exec_cache_close(c->cache);
    ls_str_deinit(&c->identity_line);
    ls_arena_destroy(c->arena);
    ls_free(c);
}

const ls_engine_identity *ls_iree_compiler_identity(const ls_iree_compiler *c) { return &c->identity; }
const ls_engine_traits *ls_iree_compiler_traits(const ls_iree_compiler *c) { return &c->traits; }

/* ---- Compiling -------------------------------------------------------------------------------------------------- */

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

ls_code ls_iree_compile(ls_iree_compiler *c, ls_str *vmfb, const char *text, size_t len, const char *identity, ls_compile_info *info, ls_error *e) {
    double start = now();
    size_t begin = vmfb->len;
    const ls_exec_key key = {.engine = c->identity_line.data, .identity = identity, .text = text, .len = len};
    bool stored = false, hit = c->cache && !ls_exec_cache_load(c->cache, &key, vmfb, NULL);
    if (!hit) {
        LS_TRY(ls_iree_library_run(&c->lib, c->flags, c->n_flags, NULL, text, len, vmfb, e));
        stored = c->cache && !ls_exec_cache_store(c->cache, &key, vmfb->data + begin, vmfb->len - begin, NULL);
    }
    if (info) *info = (ls_compile_info){.cache_hit = hit, .stored = stored, .seconds = now() - start};
    return LS_OK;
}
