/* Engines: device compilers behind one small interface. An engine compiles StableHLO text, holds tensors on its device,
 * runs programs and says exactly what it is. PJRT plugins (pjrt.h) and IREE (iree.h) implement it; the XLA executor and
 * the micro-oracle use it. Every call refuses with a status; nothing aborts.
 *
 * One engine serves one thread. Programs and buffers must be freed before their engine. */
#ifndef LS_XLA_ENGINE_H
#define LS_XLA_ENGINE_H

#include "base/alloc.h"
#include "base/str.h"

/* Element types that cross the interface. MLIR names: f32 f16 bf16 f64 i1 i8 i16 i32 i64 ui8 ui32. */
typedef enum ls_dtype { LS_DT_F32, LS_DT_F16, LS_DT_BF16, LS_DT_F64, LS_DT_I1, LS_DT_I8, LS_DT_I16, LS_DT_I32, LS_DT_I64, LS_DT_U8, LS_DT_U32,
                       LS_DT_COUNT } ls_dtype;

enum { LS_XLA_MAX_RANK = 6 };

/* A dense row-major tensor type. Rank 0 is a scalar. */
typedef struct ls_tensor_type {
    ls_dtype dtype;
    int rank;
    int64_t dim[LS_XLA_MAX_RANK];
} ls_tensor_type;

const char *ls_dtype_name(ls_dtype t);   /* the MLIR spelling; static */
size_t ls_dtype_bytes(ls_dtype t);       /* 1, 2, 4 or 8 (i1: 1) */
/* Bytes of a tensor; RESOURCE_EXHAUSTED on overflow, INVALID_ARGUMENT for a negative dimension or rank. */
ls_code ls_tensor_type_bytes(const ls_tensor_type *t, size_t *bytes, ls_error *e);

typedef struct ls_engine ls_engine;
typedef struct ls_program ls_program; /* a compiled module with one entry function */
typedef struct ls_buffer ls_buffer;   /* a tensor on the device */

/* How a program was made available: for reports. */
typedef struct ls_compile_info {
    bool cache_hit;
    bool stored;    /* after compiling: the program is now in the cache (not so when that is off, full or read-only) */
    double seconds; /* compiling, or loading from the cache */
} ls_compile_info;

typedef struct ls_engine_ops {
    /* Compiles |text| [len] (StableHLO; one public function "main"). |identity| (canonical text, may be NULL) joins the key of
     * the executable cache. |info| may be NULL. Errors: INVALID_ARGUMENT with the compiler's message. */
    ls_code (*compile)(ls_engine *x, ls_program **out, const char *text, size_t len, const char *identity, ls_compile_info *info, ls_error *e);
    /* Copies |data| (dense, little-endian) to the device. The caller may reuse |data| after the call. */
    ls_code (*upload)(ls_engine *x, ls_buffer **out, const ls_tensor_type *type, const void *data, ls_error *e);
    /* Runs |p|. args [n_args] are borrowed, except that arguments which the module donates (tf.aliasing_output) are
     * consumed: their storage may become an output's and they must only be freed afterwards, also when the run fails after
     * the checks. outs [n_outs] belong to the caller. Counts and types are checked against the program: INVALID_ARGUMENT
     * naming the position; FAILED_PRECONDITION for an argument that was consumed before. */
    ls_code (*execute)(ls_engine *x, ls_program *p, ls_buffer *const *args, size_t n_args, ls_buffer **outs, size_t n_outs, ls_error *e);
    /* Waits for |b| and copies it to |data| [bytes], which must be its exact size. */
    ls_code (*read)(ls_engine *x, const ls_buffer *b, void *data, size_t bytes, ls_error *e);
    void (*free_buffer)(ls_engine *x, ls_buffer *b);    /* NULL is fine */
    void (*free_program)(ls_engine *x, ls_program *p);  /* NULL is fine */
    void (*destroy)(ls_engine *x);
} ls_engine_ops;

/* What an engine is, for identities and reports. Strings belong to the engine; none is NULL or empty. */
typedef struct ls_engine_identity {
    const char *runtime;      /* "pjrt", "iree" */
    const char *platform;     /* "cpu", "cuda", "rocm", "tpu", "metal", "local-task", "local-sync", "hip" */
    const char *version;      /* API version and platform version, or the compiler's version text */
    const char *library;      /* file name of the plugin or compiler library, without folders */
    const char *library_sha256; /* lowercase hex of that file */
    const char *compiler;     /* the compiler's own version text */
    const char *flags;        /* the compile flags or options, as one line */
    const char *target;       /* ISA or GPU target the compiler generates for, e.g. "x86-64 avx512", "sm_90" */
    const char *device;       /* device description */
} ls_engine_identity;

/* Properties of the compiler that the emitter chooses its lowering by. Every choice gives the same bits. */
typedef struct ls_engine_traits {
    bool fast_int8_dot;   /* int8 dot_general with int32 sums runs on integer units */
    bool keeps_f64;       /* f64 is not demoted */
    bool cpu;
} ls_engine_traits;

struct ls_engine {
    const ls_engine_ops *ops;
    ls_engine_identity identity;
    ls_engine_traits traits;
};

/* Identity as one canonical line: "runtime=;platform=;version=;library=;sha256=;compiler=;flags=;target=;device=" with
 * values in which semicolons, line feeds and carriage returns are replaced by commas. */
ls_code ls_engine_identity_text(const ls_engine_identity *id, ls_str *out, ls_error *e);

#endif
