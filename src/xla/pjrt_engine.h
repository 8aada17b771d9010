/* The PJRT engine's own state, shared by opening (pjrt_open.c) and operations (pjrt.c). */
#ifndef LS_XLA_PJRT_ENGINE_H
#define LS_XLA_PJRT_ENGINE_H

#include "xla/exec_cache.h"
#include "xla/pjrt_internal.h"
#include "xla/signature.h"

typedef struct pjrt_engine {
    ls_engine base;
    ls_arena *arena; /* the identity's strings and this object */
    const PJRT_Api *api;
    PJRT_Client *client;
    PJRT_Device *device;
    int device_id;
    ls_exec_cache *cache;      /* NULL: off */
    ls_str options;            /* serialised compile options of every program */
    const char *identity_line; /* ls_engine_identity_text */
} pjrt_engine;

struct ls_buffer {
    PJRT_Buffer *pjrt;
    ls_tensor_type type;
    bool consumed; /* donated to a run */
};

extern const ls_engine_ops ls_pjrt_ops;

/* Compiles without cache or checks. */
ls_code ls_pjrt_compile_text(pjrt_engine *x, PJRT_LoadedExecutable **out, const char *text, size_t len, const ls_str *options, ls_error *e);

void ls_pjrt_engine_destroy(pjrt_engine *x); /* NULL and half-made engines are fine */

#endif
