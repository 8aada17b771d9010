/* Discovery: plugins in the packages of Python environments, found by looking at folders; neither Python nor a plugin runs. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "xla/pjrt_internal.h"
#include "xla/python_env.h"

/* What drives each device. |file| is a pattern below a packages folder. Packages of one device stand in order of preference. */
static const struct {
    const char *device, *package, *file;
} known[] = {
    {"cpu", "lammps-jax-pjrt-cpu", "lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so"},
    {"cpu", "fastatomstruct-xla-cpu", "fastatomstruct_xla_cpu/libpjrt_cpu.so"},
    {"cpu", "xla-cpu-pjrt", "xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so"},
    {"cuda", "jax-cuda13-pjrt", "jax_plugins/xla_cuda13/*plugin*.so"},
    {"cuda", "jax-cuda12-pjrt", "jax_plugins/xla_cuda12/*plugin*.so"},
    {"cuda", "xla-cuda13-pjrt", "xla_plugins/xla_cuda13_pjrt/*pjrt*.so"},
    {"cuda", "xla-cuda12-pjrt", "xla_plugins/xla_cuda12_pjrt/*pjrt*.so"},
    {"rocm", "jax-rocm10-pjrt", "jax_plugins/xla_rocm10/*plugin*.so"},
    {"rocm", "jax-rocm7-pjrt", "jax_plugins/xla_rocm7/*plugin*.so"},
    {"rocm", "jax-rocm60-pjrt", "jax_plugins/xla_rocm60/*plugin*.so"},
    {"tpu", "libtpu", "libtpu/libtpu.so"},
    {"oneapi", "jax-oneapi-pjrt", "jax_plugins/*oneapi*/*.so"},
    {"oneapi", "intel-extension-for-openxla", "jax_plugins/intel_extension_for_openxla/pjrt_plugin_xpu.so"},
    {"metal", "jax-metal", "jax_plugins/metal_plugin/pjrt_plugin_metal_*.dylib"},
};

/* Devices, the names that plugins give their platform, and the package that README and errors recommend. */
static const struct {
    const char *device, *platforms[4], *install;
} devices[] = {
    {"cpu", {"cpu"}, "pip install lammps-jax-pjrt-cpu"},
    {"cuda", {"cuda", "gpu"}, "pip install jax-cuda13-pjrt (and the CUDA libraries it names)"},
    {"rocm", {"rocm"}, "pip install jax-rocm7-pjrt (and ROCm)"},
    {"tpu", {"tpu"}, "pip install libtpu"},
    {"oneapi", {"oneapi", "sycl", "xpu"}, "pip install jax-oneapi-pjrt (and oneAPI)"},
    {"metal", {"metal", "mps"}, "pip install jax-metal"},
};
enum { DEVICES = sizeof devices / sizeof *devices, KNOWN = sizeof known / sizeof *known };

const char *ls_pjrt_device_at(size_t i) { return i < DEVICES ? devices[i].device : NULL; }

const char *ls_pjrt_install_hint(const char *device) {
    for (size_t i = 0; i < DEVICES; i++)
        if (!strcmp(devices[i].device, device)) return devices[i].install;
    return NULL;
}

bool ls_pjrt_is_device(const char *device, const char *platform) {
    for (size_t i = 0; i < DEVICES; i++) {
        if (strcmp(devices[i].device, device)) continue;
        for (size_t p = 0; p < 4 && devices[i].platforms[p]; p++)
            if (!strcasecmp(devices[i].platforms[p], platform)) return true;
    }
    return false;
}

/* The version in the name of the package's metadata folder: xla_cpu_pjrt-0.0.1.dist-info. |folder| has one entry. */
static ls_code package_version(ls_arena *a, const char **out, const ls_python_env *folder, const char *package, ls_error *e) {
    char name[64];
    const char *pattern, *metadata;
    size_t n = strlen(package);
    for (size_t i = 0; i <= n && i < sizeof name; i++) name[i] = package[i] == '-' ? '_' : package[i];
    name[sizeof name - 1] = 0;
    LS_TRY(ls_arena_printf(a, &pattern, e, "%s-*.dist-info/METADATA", name));
    LS_TRY(ls_python_env_file(folder, a, pattern, &metadata, e));
    if (!metadata) return ls_arena_strdup(a, out, "unknown", SIZE_MAX, e);
    const char *version = metadata + strlen(folder->folder[0]) + 1 + n + 1;
    return ls_arena_strdup(a, out, version, strlen(version) - strlen(".dist-info/METADATA"), e);
}

static ls_code look_for(ls_pjrt_list *l, const ls_python_env *env, size_t k, ls_error *e) {
    for (size_t i = 0; i < env->n; i++) {
        ls_python_env one = {.folder = {env->folder[i]}, .n = 1};
        const char *path;
        LS_TRY(ls_python_env_file(&one, l->arena, known[k].file, &path, e));
        if (!path) continue;
        LS_TRY(ls_grow(&l->found, l->n, &l->cap, sizeof *l->found, LS_PYTHON_ENV_MAX * KNOWN, "plugins", e));
        ls_pjrt_found *p = &l->found[l->n];
        *p = (ls_pjrt_found){.device = known[k].device, .package = known[k].package, .path = path};
        LS_TRY(package_version(l->arena, &p->version, &one, p->package, e));
        l->n++;
    }
    return LS_OK;
}

ls_code ls_pjrt_find(ls_pjrt_list *l, ls_error *e) {
    LS_TRY(ls_arena_create(&l->arena, e));
    ls_python_env env;
    const char *override = getenv("LOCKSTEP_PJRT_PLUGIN");
    if (override && *override) LS_TRY(ls_arena_strdup(l->arena, &l->override, override, SIZE_MAX, e));
    LS_TRY(ls_python_env_find(&env, l->arena, e));
    for (size_t k = 0; k < KNOWN; k++) LS_TRY(look_for(l, &env, k, e));
    return LS_OK;
}

void ls_pjrt_list_deinit(ls_pjrt_list *l) {
    ls_free(l->found);
    ls_arena_destroy(l->arena);
    *l = (ls_pjrt_list){0};
}

ls_code ls_pjrt_locate(ls_str *path, const char *device, ls_error *e) {
    ls_pjrt_list l = {0};
    const char *found = NULL;
    ls_code rc;
    LS_GOTO(ls_pjrt_find(&l, e));
    found = l.override;
    for (size_t i = 0; i < l.n && !found; i++)
        if (!strcmp(l.found[i].device, device)) found = l.found[i].path;
    if (!found)
        LS_FAIL_GOTO(e, LS_NOT_FOUND,
                     "no PJRT plugin for device \"%s\" in this Python environment: %s, name an environment in LOCKSTEP_PYTHON_ENV, "
                     "or a plugin file in LOCKSTEP_PJRT_PLUGIN",
                     device, ls_pjrt_install_hint(device));
    rc = ls_str_append(path, found, SIZE_MAX, e);
out:
    ls_pjrt_list_deinit(&l);
    return rc;
}
