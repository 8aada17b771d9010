/* Inside the PJRT engine: a loaded plugin, checked calls into it, compile options. */
#ifndef LS_XLA_PJRT_INTERNAL_H
#define LS_XLA_PJRT_INTERNAL_H

#include "xla/pjrt.h"
#include "xla/pjrt_abi.h"

/* An argument struct with its size set: PJRT(PJRT_Client_Destroy, .client = c). */
#define PJRT(function, ...) (&(function##_Args){.struct_size = function##_Args_STRUCT_SIZE, __VA_ARGS__})

/* Whether a plugin has a function that not all have; those that lockstep cannot work without are checked at load. */
#define PJRT_HAS(api, function) ((api)->struct_size >= offsetof(PJRT_Api, function) + sizeof((api)->function) && (api)->function)

/* dlopen, GetPjrtApi, version and functions, one-time initialisation. |*api| lives as long as the process. One thread
 * at a time: a library must not be initialised twice. Errors as ls_pjrt_open. */
ls_code ls_pjrt_load(const PJRT_Api **api, const char *path, ls_error *e);

/* Whether the library of this path is in the process already. */
bool ls_pjrt_is_loaded(const char *path);

/* Turns a plugin's error, which it destroys, into ours: same code, "what: " and the plugin's text. NULL is LS_OK. */
ls_code ls_pjrt_check(const PJRT_Api *api, PJRT_Error *error, const char *what, ls_error *e);

/* Waits for an event, destroys it and checks its error. NULL is a finished event. */
ls_code ls_pjrt_await(const PJRT_Api *api, PJRT_Event *event, const char *what, ls_error *e);

/* The first plugin for |device| (a known name), or $LOCKSTEP_PJRT_PLUGIN; appended to |path|. NOT_FOUND with what to install. */
ls_code ls_pjrt_locate(ls_str *path, const char *device, ls_error *e);

/* True when a plugin that calls its platform |platform| drives |device|. */
bool ls_pjrt_is_device(const char *device, const char *platform);

/* ---- Options (pjrt_options.c) -------------------------------------------------------------------------------------------- */

/* One debug option of XLA that lockstep sets because a default could change bits. */
typedef struct ls_pjrt_setting {
    const char *name;
    bool value;
    const char *devices; /* names of the devices it matters to, NULL: all */
} ls_pjrt_setting;

extern const ls_pjrt_setting ls_pjrt_settings[];
enum { LS_PJRT_SETTINGS = 6 };

/* Appends a serialised CompileOptionsProto: one replica, one partition, on the device with that id, and the settings whose
 * bit of |mask| is set. */
ls_code ls_pjrt_compile_options(ls_str *out, int device_id, unsigned mask, ls_error *e);

/* Parses "name=value,..." into named values that point into |a|. INVALID_ARGUMENT for an item without "=". */
ls_code ls_pjrt_named_values(ls_arena *a, const char *text, const PJRT_NamedValue **out, size_t *n, ls_error *e);

#endif
