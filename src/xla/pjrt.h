/* The PJRT engine: any OpenXLA plugin (CPU, CUDA, ROCm, TPU, oneAPI, Metal) behind the engine interface, loaded at run time.
 *
 *     ls_engine *x;
 *     LS_TRY(ls_pjrt_open(&x, &(ls_pjrt_options){.device = "cpu"}, e));
 *     x->ops->compile(x, &program, text, len, NULL, NULL, e); ...
 *     x->ops->destroy(x);
 *
 * Programs are compiled for one device. Execution may still be running when execute returns; read waits for it. A failure
 * of the device itself therefore may show up at read. */
#ifndef LS_XLA_PJRT_H
#define LS_XLA_PJRT_H

#include "xla/engine.h"

typedef struct ls_pjrt_options {
    const char *plugin;         /* path of the plugin; NULL: $LOCKSTEP_PJRT_PLUGIN, else the first that ls_pjrt_find knows for the device */
    const char *device;         /* "cpu" (NULL), "cuda", "rocm", "tpu", "oneapi", "metal"; a plugin for another is refused */
    int ordinal;                /* which of the plugin's devices */
    const char *client_options; /* "name=value,..." for PJRT_Client_Create; true/false, integers, decimals, else strings. NULL: none */
    const char *cache_folder;   /* of compiled programs; NULL: ls_exec_cache_open's default */
    bool no_cache;              /* compile every time and hash the plugin at every start */
} ls_pjrt_options;

/* Loads the plugin, makes a client and fills identity and traits. |o| NULL: all defaults. The plugin stays loaded until
 * the process ends (plugins do not survive being unloaded). Errors: INVALID_ARGUMENT (device name, option, a file that is no
 * plugin), NOT_FOUND (no plugin for the device: the text says what to install; no such file or ordinal), FAILED_PRECONDITION
 * (other device, other major version, a function missing, unknown target), UNAVAILABLE (the plugin's libraries or device are
 * missing). */
ls_code ls_pjrt_open(ls_engine **out, const ls_pjrt_options *o, ls_error *e);

/* ---- Discovery --------------------------------------------------------------------------------------------------------- */

/* A plugin on this machine. Strings belong to the list. */
typedef struct ls_pjrt_found {
    const char *device;  /* as in ls_pjrt_options */
    const char *package; /* Python package that carries it */
    const char *version; /* of the package; "unknown" without metadata */
    const char *path;
} ls_pjrt_found;

typedef struct ls_pjrt_list {
    ls_arena *arena;
    const char *override; /* $LOCKSTEP_PJRT_PLUGIN; NULL when unset */
    ls_pjrt_found *found; /* [n]; by device, the preferred plugin of a device first */
    size_t n, cap;
} ls_pjrt_list;

/* Looks for plugins, without loading one, in the Python packages that python_env.h finds. Zero-initialise |l|; deinit it after
 * a failure as well. */
ls_code ls_pjrt_find(ls_pjrt_list *l, ls_error *e);
void ls_pjrt_list_deinit(ls_pjrt_list *l);

/* Names of devices; NULL past the end. */
const char *ls_pjrt_device_at(size_t i);

/* What to install for a device: "pip install lammps-jax-pjrt-cpu"; NULL for an unknown device. Static. */
const char *ls_pjrt_install_hint(const char *device);

#endif
