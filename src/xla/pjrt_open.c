/* Opening a PJRT engine: plugin, client, device, accepted compile settings, identity, cache. */
#include <ctype.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "xla/host_target.h"
#include "xla/pjrt_engine.h"
#include "xla/pjrt_trial.h"

/* Compiled once per setting to see what this plugin accepts. */
static const char probe[] = "func.func public @main(%arg0: tensor<f32>) -> tensor<f32> {\n  return %arg0 : tensor<f32>\n}\n";

static ls_code copy(pjrt_engine *x, const char **out, const char *s, size_t n, ls_error *e) { return ls_arena_strdup(x->arena, out, n ? s : "", n, e); }

/* ---- Client and device ------------------------------------------------------------------------------------------------ */

static ls_code create_client(pjrt_engine *x, const char *client_options, ls_error *e) {
    const PJRT_NamedValue *values;
    size_t n;
    LS_TRY(ls_pjrt_named_values(x->arena, client_options, &values, &n, e));
    PJRT_Client_Create_Args *a = PJRT(PJRT_Client_Create, .create_options = values, .num_options = n);
    LS_TRY(ls_pjrt_check(x->api, x->api->PJRT_Client_Create(a), "making a client", e));
    x->client = a->client;
    return LS_OK;
}

static ls_code read_platform(pjrt_engine *x, const char *device, const char *path, ls_error *e) {
    PJRT_Client_PlatformName_Args *name = PJRT(PJRT_Client_PlatformName, .client = x->client);
    LS_TRY(ls_pjrt_check(x->api, x->api->PJRT_Client_PlatformName(name), "reading the platform's name", e));
    LS_TRY(copy(x, &x->base.identity.platform, name->platform_name, name->platform_name_size, e));
    if (!ls_pjrt_is_device(device, x->base.identity.platform))
        LS_FAIL(e, LS_FAILED_PRECONDITION, "the plugin \"%s\" drives \"%s\", but the device asked for is \"%s\"; name another plugin or device", path,
                x->base.identity.platform, device);
    x->base.identity.platform = device;
    PJRT_Client_PlatformVersion_Args *v = PJRT(PJRT_Client_PlatformVersion, .client = x->client);
    LS_TRY(ls_pjrt_check(x->api, x->api->PJRT_Client_PlatformVersion(v), "reading the platform's version", e));
    return ls_arena_printf(x->arena, &x->base.identity.version, e, "pjrt %d.%d, platform %.*s", x->api->pjrt_api_version.major_version,
                           x->api->pjrt_api_version.minor_version, (int)v->platform_version_size, v->platform_version_size ? v->platform_version : "");
}

static ls_code pick_device(pjrt_engine *x, int ordinal, PJRT_DeviceDescription **description, ls_error *e) {
    PJRT_Client_AddressableDevices_Args *d = PJRT(PJRT_Client_AddressableDevices, .client = x->client);
    LS_TRY(ls_pjrt_check(x->api, x->api->PJRT_Client_AddressableDevices(d), "listing devices", e));
    if (ordinal < 0 || (size_t)ordinal >= d->num_addressable_devices)
        LS_FAIL(e, LS_NOT_FOUND, "device %s:%d is not there; the plugin has %zu, from 0", x->base.identity.platform, ordinal, d->num_addressable_devices);
    x->device = d->addressable_devices[ordinal];
    PJRT_Device_GetDescription_Args *g = PJRT(PJRT_Device_GetDescription, .device = x->device);
    LS_TRY(ls_pjrt_check(x->api, x->api->PJRT_Device_GetDescription(g), "describing the device", e));
    *description = g->device_description;
    PJRT_DeviceDescription_Id_Args *id = PJRT(PJRT_DeviceDescription_Id, .device_description = g->device_description);
    LS_TRY(ls_pjrt_check(x->api, x->api->PJRT_DeviceDescription_Id(id), "describing the device", e));
    x->device_id = id->id;
    return LS_OK;
}

/* ---- Settings -------------------------------------------------------------------------------------------------------- */

static bool applies(const ls_pjrt_setting *s, const char *platform) { return !s->devices || strstr(s->devices, platform); }

static ls_code accepts(pjrt_engine *x, unsigned mask, ls_error *e) {
    ls_str options = {0};
    PJRT_LoadedExecutable *loaded;
    ls_code rc = ls_pjrt_compile_options(&options, x->device_id, mask, e);
    if (!rc) rc = ls_pjrt_compile_text(x, &loaded, probe, sizeof probe - 1, &options, e);
    if (!rc) rc = ls_pjrt_check(x->api, x->api->PJRT_LoadedExecutable_Destroy(PJRT(PJRT_LoadedExecutable_Destroy, .executable = loaded)), "freeing", e);
    ls_str_deinit(&options);
    return rc;
}

/* All that apply at once, as nearly every release takes them; otherwise one by one. A device that compiles nothing fails here. */
static ls_code choose_settings(pjrt_engine *x, unsigned *mask, ls_error *e) {
    unsigned all = 0;
    for (unsigned i = 0; i < LS_PJRT_SETTINGS; i++) all |= applies(&ls_pjrt_settings[i], x->base.identity.platform) ? 1u << i : 0;
    *mask = all;
    if (!accepts(x, all, NULL)) return LS_OK;
    *mask = 0;
    LS_TRY(accepts(x, 0, e));
    for (unsigned i = 0; i < LS_PJRT_SETTINGS; i++)
        if (all >> i & 1 && !accepts(x, 1u << i, NULL)) *mask |= 1u << i;
    return LS_OK;
}

/* Environment variables that change what a plugin compiles or computes. NPROC is XLA's number of host threads. */
static ls_code add_environment(ls_str *s, const char *platform, ls_error *e) {
    static const struct {
        const char *variable, *devices;
    } known[] = {{"XLA_FLAGS", NULL}, {"NPROC", "cpu"}, {"NVIDIA_TF32_OVERRIDE", "cuda"}, {"LIBTPU_INIT_ARGS", "tpu"}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (known[i].devices && !strstr(known[i].devices, platform)) continue;
        const char *value = getenv(known[i].variable);
        LS_TRY(ls_str_printf(s, e, " %s=\"%s\"", known[i].variable, value ? value : ""));
    }
    return LS_OK;
}

/* Whether f32 products may narrow their operands. XLA's CPU compiler has nothing to narrow to; elsewhere the module's operand
 * precision decides, which the emitter sets, and on NVIDIA the variable has the last word. */
static const char *narrowing(const char *platform) {
    const char *tf32 = getenv("NVIDIA_TF32_OVERRIDE");
    if (!strcmp(platform, "cpu") || (!strcmp(platform, "cuda") && tf32 && !strcmp(tf32, "0"))) return "tf32=off";
    return "tf32=by-operand-precision";
}

static ls_code describe_flags(pjrt_engine *x, unsigned mask, const char *client_options, ls_error *e) {
    ls_str s = {0};
    const char *platform = x->base.identity.platform;
    ls_code rc;
    LS_GOTO(ls_str_append(&s, narrowing(platform), SIZE_MAX, e));
    for (unsigned i = 0; i < LS_PJRT_SETTINGS; i++) {
        const ls_pjrt_setting *o = &ls_pjrt_settings[i];
        if (!applies(o, platform)) continue;
        LS_GOTO(ls_str_printf(&s, e, " %s=%s", o->name, mask >> i & 1 ? (o->value ? "true" : "false") : "refused"));
    }
    if (client_options && *client_options) LS_GOTO(ls_str_printf(&s, e, " client=\"%s\"", client_options));
    LS_GOTO(add_environment(&s, platform, e));
    rc = copy(x, &x->base.identity.flags, s.data, s.len, e);
out:
    ls_str_deinit(&s);
    return rc;
}

/* ---- Identity -------------------------------------------------------------------------------------------------------- */

static ls_code add_attribute(ls_str *s, const PJRT_NamedValue *v, ls_error *e) {
    LS_TRY(ls_str_printf(s, e, "%s%.*s ", s->len ? ", " : "", (int)v->name_size, v->name));
    if (v->type == PJRT_NamedValue_kString) return ls_str_append(s, v->string_value, v->value_size, e);
    if (v->type == PJRT_NamedValue_kInt64) return ls_str_printf(s, e, "%lld", (long long)v->int64_value);
    for (size_t i = 0; v->type == PJRT_NamedValue_kInt64List && i < v->value_size; i++)
        LS_TRY(ls_str_printf(s, e, "%s%lld", i ? "." : "", (long long)v->int64_array_value[i]));
    if (v->type == PJRT_NamedValue_kFloat) return ls_str_printf(s, e, "%g", (double)v->float_value);
    if (v->type == PJRT_NamedValue_kBool) return ls_str_append(s, v->bool_value ? "true" : "false", SIZE_MAX, e);
    return LS_OK;
}

/* The plugin's attributes name the releases of XLA's interface and of StableHLO. */
static ls_code describe_compiler(pjrt_engine *x, ls_error *e) {
    ls_str s = {0};
    ls_code rc = LS_OK;
    if (PJRT_HAS(x->api, PJRT_Plugin_Attributes)) {
        PJRT_Plugin_Attributes_Args *a = PJRT(PJRT_Plugin_Attributes, .attributes = NULL);
        LS_GOTO(ls_pjrt_check(x->api, x->api->PJRT_Plugin_Attributes(a), "reading the plugin's attributes", e));
        for (size_t i = 0; i < a->num_attributes; i++) LS_GOTO(add_attribute(&s, &a->attributes[i], e));
    }
    if (!s.len) LS_GOTO(ls_str_append(&s, "not stated", SIZE_MAX, e));
    rc = copy(x, &x->base.identity.compiler, s.data, s.len, e);
out:
    ls_str_deinit(&s);
    return rc;
}

/* Host threads are part of the identity: XLA splits work by them when it compiles. */
static ls_code describe_device(pjrt_engine *x, PJRT_DeviceDescription *d, int ordinal, const char **kind, ls_error *e) {
    PJRT_DeviceDescription_Kind_Args *k = PJRT(PJRT_DeviceDescription_Kind, .device_description = d);
    LS_TRY(ls_pjrt_check(x->api, x->api->PJRT_DeviceDescription_Kind(k), "describing the device", e));
    LS_TRY(copy(x, kind, k->device_kind, k->device_kind_size, e));
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    int threads = x->base.traits.cpu && !sched_getaffinity(0, sizeof cpus, &cpus) ? CPU_COUNT(&cpus) : 0;
    if (threads) return ls_arena_printf(x->arena, &x->base.identity.device, e, "%s, ordinal %d, host threads %d", **kind ? *kind : "unnamed", ordinal, threads);
    return ls_arena_printf(x->arena, &x->base.identity.device, e, "%s, ordinal %d", **kind ? *kind : "unnamed", ordinal);
}

/* *out = the device's "compute_capability" ("9.0" on CUDA, "gfx942" on ROCm); "" without. */
static ls_code compute_capability(pjrt_engine *x, PJRT_DeviceDescription *d, const char **out, ls_error *e) {
    *out = "";
    if (!PJRT_HAS(x->api, PJRT_DeviceDescription_Attributes)) return LS_OK;
    PJRT_DeviceDescription_Attributes_Args *a = PJRT(PJRT_DeviceDescription_Attributes, .device_description = d);
    LS_TRY(ls_pjrt_check(x->api, x->api->PJRT_DeviceDescription_Attributes(a), "describing the device", e));
    static const char name[] = "compute_capability";
    for (size_t i = 0; i < a->num_attributes; i++) {
        const PJRT_NamedValue *v = &a->attributes[i];
        if (v->type == PJRT_NamedValue_kString && v->name_size == sizeof name - 1 && !memcmp(v->name, name, sizeof name - 1))
            return copy(x, out, v->string_value, v->value_size, e);
    }
    return LS_OK;
}

/* "9.0" becomes "sm_90", as the compilers spell it; other texts stay. */
static ls_code describe_target(pjrt_engine *x, PJRT_DeviceDescription *d, const char *kind, ls_error *e) {
    ls_str s = {0};
    const char *capability;
    ls_code rc;
    if (x->base.traits.cpu) {
        LS_GOTO(ls_host_target(&s, e));
    } else {
        LS_GOTO(compute_capability(x, d, &capability, e));
        if (isdigit((unsigned char)*capability)) LS_GOTO(ls_str_append(&s, "sm_", SIZE_MAX, e));
        for (const char *p = *capability ? capability : kind; *p; p++)
            if (*p != '.' || !isdigit((unsigned char)*capability)) LS_GOTO(ls_str_append(&s, p, 1, e));
    }
    if (!s.len) LS_FAIL_GOTO(e, LS_FAILED_PRECONDITION, "the plugin names neither a kind nor a compute capability for its device; its target is unknown");
    rc = copy(x, &x->base.identity.target, s.data, s.len, e);
out:
    ls_str_deinit(&s);
    return rc;
}

static ls_code describe_library(pjrt_engine *x, const char *path, ls_error *e) {
    const char *slash = strrchr(path, '/');
    char hex[65];
    LS_TRY(copy(x, &x->base.identity.library, slash ? slash + 1 : path, SIZE_MAX, e));
    LS_TRY(ls_exec_cache_file_hash(x->cache, path, hex, e));
    return copy(x, &x->base.identity.library_sha256, hex, 64, e);
}

/* XLA's CPU compiler runs one-row int8 products far slower than f32 ones; GPUs and TPUs have units for them. Only the CPU and
 * the two GPU back ends are known to compute f64 as f64. */
static ls_engine_traits traits_of(const char *device) {
    bool gpu = !strcmp(device, "cuda") || !strcmp(device, "rocm"), cpu = !strcmp(device, "cpu");
    return (ls_engine_traits){.cpu = cpu, .keeps_f64 = cpu || gpu, .fast_int8_dot = gpu || !strcmp(device, "tpu")};
}

/* ---- Open -------------------------------------------------------------------------------------------------------------- */

/* What is opened and what of it runs the plugin's code for the first time. */
typedef struct start {
    pjrt_engine *x;
    const ls_pjrt_options *o;
    const char *path, *device;
    PJRT_DeviceDescription *description;
    unsigned mask;
} start;

static ls_code start_plugin(start *s, ls_error *e) {
    pjrt_engine *x = s->x;
    LS_TRY(ls_pjrt_load(&x->api, s->path, e));
    LS_TRY(create_client(x, s->o->client_options, e));
    LS_TRY(read_platform(x, s->device, s->path, e));
    x->base.traits = traits_of(s->device);
    LS_TRY(pick_device(x, s->o->ordinal, &s->description, e));
    return choose_settings(x, &s->mask, e);
}

static void attempt(void *user) { start_plugin(user, NULL); }

/* A plugin reads XLA_FLAGS once, when it first makes a client, and ends the process when it does not like them. */
static ls_code try_flags(start *s, ls_error *e) {
    const char *flags = getenv("XLA_FLAGS");
    char what[256];
    if (!flags || !*flags || ls_pjrt_is_loaded(s->path)) return LS_OK;
    snprintf(what, sizeof what, "with XLA_FLAGS=\"%.160s\", which must be corrected or unset, the plugin", flags);
    return ls_pjrt_trial(attempt, s, what, e);
}

/* One plugin starts at a time. A trial's child has copies of all locks and of this thread only: what another thread held, the child would
 * wait for in vain. So flags are tried before the first plugin, whose threads would be such others, and not again for a second one. */
static ls_code start_alone(start *s, ls_error *e) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static bool started;
    pthread_mutex_lock(&lock);
    ls_code rc = started ? LS_OK : try_flags(s, e);
    if (!rc) {
        rc = start_plugin(s, e);
        started = true;
    }
    pthread_mutex_unlock(&lock);
    return rc;
}

static ls_code fill(pjrt_engine *x, const ls_pjrt_options *o, const char *path, const char *device, ls_error *e) {
    start s = {.x = x, .o = o, .path = path, .device = device};
    const char *kind = "";
    ls_str line = {0};
    LS_TRY(start_alone(&s, e));
    unsigned mask = s.mask;
    LS_TRY(ls_pjrt_compile_options(&x->options, x->device_id, mask, e));
    LS_TRY(describe_flags(x, mask, o->client_options, e));
    LS_TRY(describe_compiler(x, e));
    LS_TRY(describe_device(x, s.description, o->ordinal, &kind, e));
    LS_TRY(describe_target(x, s.description, kind, e));
    LS_TRY(describe_library(x, path, e));
    ls_code rc = ls_engine_identity_text(&x->base.identity, &line, e);
    if (!rc) rc = copy(x, &x->identity_line, line.data, line.len, e);
    ls_str_deinit(&line);
    return rc;
}

ls_code ls_pjrt_open(ls_engine **out, const ls_pjrt_options *o, ls_error *e) {
    static const ls_pjrt_options defaults;
    pjrt_engine *x = NULL;
    ls_arena *arena = NULL;
    ls_str path = {0};
    const char *device = "cpu";
    ls_code rc;
    *out = NULL;
    if (!o) o = &defaults;
    for (size_t i = 0; o->device && (device = ls_pjrt_device_at(i)) && strcmp(device, o->device); i++) continue;
    if (!device) LS_FAIL(e, LS_INVALID_ARGUMENT, "device \"%s\" is unknown; use cpu, cuda, rocm, tpu, oneapi or metal", o->device);
    LS_GOTO(ls_arena_create(&arena, e));
    LS_GOTO(ls_arena_alloc(arena, &x, 1, sizeof *x, e));
    x->arena = arena;
    arena = NULL;
    x->base.ops = &ls_pjrt_ops;
    x->base.identity.runtime = "pjrt";
    LS_GOTO(o->plugin ? ls_str_append(&path, o->plugin, SIZE_MAX, e) : ls_pjrt_locate(&path, device, e));
    if (!o->no_cache) LS_GOTO(ls_exec_cache_open(&x->cache, o->cache_folder, e));
    LS_GOTO(fill(x, o, path.data, device, e));
    *out = &x->base;
    x = NULL;
out:
    ls_pjrt_engine_destroy(x);
    ls_arena_destroy(arena);
    ls_str_deinit(&path);
    return rc;
}

void ls_pjrt_engine_destroy(pjrt_engine *x) {
    if (!x) return;
    if (x->client) ls_pjrt_check(x->api, x->api->PJRT_Client_Destroy(PJRT(PJRT_Client_Destroy, .client = x->client)), "freeing the client", NULL);
    ls_str_deinit(&x->options);
    ls_exec_cache_close(x->cache);
    ls_arena_destroy(x->arena);
}
