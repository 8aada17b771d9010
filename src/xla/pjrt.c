/* The engine's operations: programs, buffers, execution. Opening one is in pjrt_open.c. */
#include "xla/pjrt.h"

#include <string.h>
#include <time.h>

#include "xla/pjrt_engine.h"

struct ls_program {
    PJRT_LoadedExecutable *loaded;
    ls_signature signature;
    PJRT_Buffer **args, **outs; /* scratch of execute: [n_params], [n_results] */
};

static const PJRT_Buffer_Type foreign_type[LS_DT_COUNT] = {
    [LS_DT_F32] = PJRT_Buffer_Type_F32, [LS_DT_F16] = PJRT_Buffer_Type_F16, [LS_DT_BF16] = PJRT_Buffer_Type_BF16, [LS_DT_F64] = PJRT_Buffer_Type_F64,
    [LS_DT_I1] = PJRT_Buffer_Type_PRED, [LS_DT_I8] = PJRT_Buffer_Type_S8,   [LS_DT_I16] = PJRT_Buffer_Type_S16,   [LS_DT_I32] = PJRT_Buffer_Type_S32,
    [LS_DT_I64] = PJRT_Buffer_Type_S64, [LS_DT_U8] = PJRT_Buffer_Type_U8,   [LS_DT_U32] = PJRT_Buffer_Type_U32,
};

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- Programs ------------------------------------------------------------------------------------------------------ */

/* The signature came from the text; what the compiler made must agree, above all a program out of the cache. */
static ls_code check_outputs(const PJRT_Api *api, PJRT_Executable *x, const ls_signature *s, ls_error *e) {
    PJRT_Executable_NumOutputs_Args *n = PJRT(PJRT_Executable_NumOutputs, .executable = x);
    LS_TRY(ls_pjrt_check(api, api->PJRT_Executable_NumOutputs(n), "counting outputs", e));
    PJRT_Executable_OutputElementTypes_Args *t = PJRT(PJRT_Executable_OutputElementTypes, .executable = x);
    LS_TRY(ls_pjrt_check(api, api->PJRT_Executable_OutputElementTypes(t), "reading output types", e));
    PJRT_Executable_OutputDimensions_Args *d = PJRT(PJRT_Executable_OutputDimensions, .executable = x);
    LS_TRY(ls_pjrt_check(api, api->PJRT_Executable_OutputDimensions(d), "reading output shapes", e));
    if (n->num_outputs != s->n_results || t->num_output_types != s->n_results || d->num_outputs != s->n_results)
        LS_FAIL(e, LS_INTERNAL, "the compiled program has %zu outputs, @main has %zu results", n->num_outputs, s->n_results);
    const int64_t *dim = d->dims;
    for (size_t i = 0; i < s->n_results; i++) {
        const ls_tensor_type *want = &s->results[i];
        bool same = t->output_types[i] == foreign_type[want->dtype] && d->dim_sizes[i] == (size_t)want->rank;
        for (size_t k = 0; k < d->dim_sizes[i]; k++) same = same && dim[k] == want->dim[k];
        if (!same) LS_FAIL(e, LS_INTERNAL, "output %zu of the compiled program does not have the type of @main's result", i);
        dim += d->dim_sizes[i];
    }
    return LS_OK;
}

static ls_code get_executable(pjrt_engine *x, PJRT_LoadedExecutable *loaded, PJRT_Executable **out, ls_error *e) {
    PJRT_LoadedExecutable_GetExecutable_Args *a = PJRT(PJRT_LoadedExecutable_GetExecutable, .loaded_executable = loaded);
    LS_TRY(ls_pjrt_check(x->api, x->api->PJRT_LoadedExecutable_GetExecutable(a), "reading the compiled program", e));
    *out = a->executable;
    return LS_OK;
}

static void destroy_executable(pjrt_engine *x, PJRT_Executable *executable) {
    if (executable) ls_pjrt_check(x->api, x->api->PJRT_Executable_Destroy(PJRT(PJRT_Executable_Destroy, .executable = executable)), "freeing", NULL);
}

static void destroy_loaded(pjrt_engine *x, PJRT_LoadedExecutable *loaded) {
    if (loaded) ls_pjrt_check(x->api, x->api->PJRT_LoadedExecutable_Destroy(PJRT(PJRT_LoadedExecutable_Destroy, .executable = loaded)), "freeing", NULL);
}

static ls_code checked(pjrt_engine *x, PJRT_LoadedExecutable *loaded, const ls_signature *s, ls_error *e) {
    PJRT_Executable *executable = NULL;
    ls_code rc = get_executable(x, loaded, &executable, e);
    if (!rc) rc = check_outputs(x->api, executable, s, e);
    destroy_executable(x, executable);
    return rc;
}

/* A program from the cache; NULL when there is none, it is damaged, or the plugin does not take it. */
static PJRT_LoadedExecutable *from_cache(pjrt_engine *x, const ls_exec_key *k, const ls_signature *s) {
    if (!x->cache || !PJRT_HAS(x->api, PJRT_Executable_DeserializeAndLoad) || !PJRT_HAS(x->api, PJRT_Executable_Serialize)) return NULL;
    ls_str blob = {0};
    PJRT_LoadedExecutable *loaded = NULL;
    if (!ls_exec_cache_load(x->cache, k, &blob, NULL)) {
        PJRT_Executable_DeserializeAndLoad_Args *a =
            PJRT(PJRT_Executable_DeserializeAndLoad, .client = x->client, .serialized_executable = blob.data, .serialized_executable_size = blob.len);
        if (!ls_pjrt_check(x->api, x->api->PJRT_Executable_DeserializeAndLoad(a), "loading", NULL)) loaded = a->loaded_executable;
    }
    ls_str_deinit(&blob);
    if (loaded && checked(x, loaded, s, NULL)) {
        destroy_loaded(x, loaded);
        loaded = NULL;
    }
    return loaded;
}

/* A program that cannot be stored still runs, so the answer is only whether it was. */
static bool to_cache(pjrt_engine *x, const ls_exec_key *k, PJRT_LoadedExecutable *loaded) {
    PJRT_Executable *executable;
    if (!x->cache || !PJRT_HAS(x->api, PJRT_Executable_DeserializeAndLoad) || !PJRT_HAS(x->api, PJRT_Executable_Serialize)) return false;
    if (get_executable(x, loaded, &executable, NULL)) return false;
    PJRT_Executable_Serialize_Args *a = PJRT(PJRT_Executable_Serialize, .executable = executable);
    bool stored = false;
    if (!ls_pjrt_check(x->api, x->api->PJRT_Executable_Serialize(a), "serialising", NULL)) {
        stored = !ls_exec_cache_store(x->cache, k, a->serialized_bytes, a->serialized_bytes_size, NULL);
        a->serialized_executable_deleter(a->serialized_executable);
    }
    destroy_executable(x, executable);
    return stored;
}

ls_code ls_pjrt_compile_text(pjrt_engine *x, PJRT_LoadedExecutable **out, const char *text, size_t len, const ls_str *options, ls_error *e) {
    PJRT_Program program = {.struct_size = PJRT_Program_STRUCT_SIZE, .code = (char *)(uintptr_t)text, .code_size = len, .format = "mlir", .format_size = 4};
    PJRT_Client_Compile_Args *a =
        PJRT(PJRT_Client_Compile, .client = x->client, .program = &program, .compile_options = options->data, .compile_options_size = options->len);
    LS_TRY(ls_pjrt_check(x->api, x->api->PJRT_Client_Compile(a), "compiling", e));
    *out = a->executable;
    return LS_OK;
}

static ls_code build_program(pjrt_engine *x, ls_program *p, const ls_exec_key *k, ls_compile_info *info, ls_error *e) {
    LS_TRY(ls_signature_parse(&p->signature, k->text, k->len, e));
    const ls_signature *s = &p->signature;
    LS_TRY(ls_calloc(&p->args, s->n_params, sizeof *p->args, "arguments of a program", e));
    LS_TRY(ls_calloc(&p->outs, s->n_results, sizeof *p->outs, "outputs of a program", e));
    p->loaded = from_cache(x, k, s);
    if (p->loaded) {
        info->cache_hit = true;
        return LS_OK;
    }
    ls_code rc = ls_pjrt_compile_text(x, &p->loaded, k->text, k->len, &x->options, e);
    /* XLA reports text that it cannot parse or verify as UNKNOWN. */
    if (rc == LS_UNKNOWN) rc = LS_INVALID_ARGUMENT;
    if (rc && e) e->code = rc;
    LS_TRY(rc);
    LS_TRY(checked(x, p->loaded, s, e));
    info->stored = to_cache(x, k, p->loaded);
    return LS_OK;
}

static void op_free_program(ls_engine *base, ls_program *p) {
    if (!p) return;
    destroy_loaded((pjrt_engine *)base, p->loaded);
    ls_signature_deinit(&p->signature);
    ls_free(p->args);
    ls_free(p->outs);
    ls_free(p);
}

static ls_code op_compile(ls_engine *base, ls_program **out, const char *text, size_t len, const char *identity, ls_compile_info *info, ls_error *e) {
    pjrt_engine *x = (pjrt_engine *)base;
    ls_compile_info local = {0};
    ls_program *p;
    *out = NULL;
    double begin = now();
    LS_TRY(ls_calloc(&p, 1, sizeof *p, "a program", e));
    ls_exec_key key = {.engine = x->identity_line, .identity = identity, .text = text, .len = len};
    ls_code rc = build_program(x, p, &key, &local, e);
    if (rc) {
        op_free_program(base, p);
        return rc;
    }
    local.seconds = now() - begin;
    if (info) *info = local;
    *out = p;
    return LS_OK;
}

/* ---- Buffers -------------------------------------------------------------------------------------------------------- */

static void op_free_buffer(ls_engine *base, ls_buffer *b) {
    if (!b) return;
    const PJRT_Api *api = ((pjrt_engine *)base)->api;
    if (b->pjrt) ls_pjrt_check(api, api->PJRT_Buffer_Destroy(PJRT(PJRT_Buffer_Destroy, .buffer = b->pjrt)), "freeing a buffer", NULL);
    ls_free(b);
}

static ls_code op_upload(ls_engine *base, ls_buffer **out, const ls_tensor_type *type, const void *data, ls_error *e) {
    pjrt_engine *x = (pjrt_engine *)base;
    size_t bytes;
    ls_buffer *b;
    *out = NULL;
    LS_TRY(ls_tensor_type_bytes(type, &bytes, e));
    if (bytes && !data) LS_FAIL(e, LS_INVALID_ARGUMENT, "upload of %zu bytes without data", bytes);
    LS_TRY(ls_calloc(&b, 1, sizeof *b, "a buffer", e));
    b->type = *type;
    PJRT_Client_BufferFromHostBuffer_Args *a =
        PJRT(PJRT_Client_BufferFromHostBuffer, .client = x->client, .data = data ? data : "", .type = foreign_type[type->dtype], .dims = b->type.dim,
             .num_dims = (size_t)type->rank, .host_buffer_semantics = PJRT_HostBufferSemantics_kImmutableUntilTransferCompletes, .device = x->device);
    ls_code rc = ls_pjrt_check(x->api, x->api->PJRT_Client_BufferFromHostBuffer(a), "uploading", e);
    if (!rc) {
        b->pjrt = a->buffer;
        rc = ls_pjrt_await(x->api, a->done_with_host_buffer, "uploading", e);
    }
    if (rc) {
        op_free_buffer(base, b);
        return rc;
    }
    *out = b;
    return LS_OK;
}

/* The copy is asked for in row-major order: a device may keep its own. */
static ls_code op_read(ls_engine *base, const ls_buffer *b, void *data, size_t bytes, ls_error *e) {
    pjrt_engine *x = (pjrt_engine *)base;
    size_t need;
    if (b->consumed) LS_FAIL(e, LS_FAILED_PRECONDITION, "read of a buffer that was donated to a run; read the run's output instead");
    LS_TRY(ls_tensor_type_bytes(&b->type, &need, e));
    if (bytes != need) LS_FAIL(e, LS_INVALID_ARGUMENT, "read of %zu bytes from a buffer of %zu", bytes, need);
    if (!bytes) return LS_OK;
    int64_t order[LS_XLA_MAX_RANK];
    for (int i = 0; i < b->type.rank; i++) order[i] = b->type.rank - 1 - i;
    PJRT_Buffer_MemoryLayout layout = {.struct_size = PJRT_Buffer_MemoryLayout_STRUCT_SIZE, .type = PJRT_Buffer_MemoryLayout_Type_Tiled};
    layout.tiled = (PJRT_Buffer_MemoryLayout_Tiled){
        .struct_size = PJRT_Buffer_MemoryLayout_Tiled_STRUCT_SIZE, .minor_to_major = order, .minor_to_major_size = (size_t)b->type.rank};
    PJRT_Buffer_ToHostBuffer_Args *a = PJRT(PJRT_Buffer_ToHostBuffer, .src = b->pjrt, .host_layout = &layout, .dst = data, .dst_size = bytes);
    LS_TRY(ls_pjrt_check(x->api, x->api->PJRT_Buffer_ToHostBuffer(a), "reading", e));
    return ls_pjrt_await(x->api, a->event, "reading", e);
}

/* ---- Execution ------------------------------------------------------------------------------------------------------ */

static ls_code type_mismatch(size_t i, const ls_tensor_type *want, const ls_tensor_type *got, ls_error *e) {
    ls_str a = {0}, b = {0};
    ls_code rc;
    LS_GOTO(ls_tensor_type_text(want, &a, e));
    LS_GOTO(ls_tensor_type_text(got, &b, e));
    rc = ls_error_set(e, LS_INVALID_ARGUMENT, __FILE__, __LINE__, "argument %zu is %s; @main takes %s", i, b.data, a.data);
out:
    ls_str_deinit(&a);
    ls_str_deinit(&b);
    return rc;
}

static ls_code check_args(const ls_signature *s, ls_buffer *const *args, size_t n_args, size_t n_outs, ls_error *e) {
    if (n_args != s->n_params) LS_FAIL(e, LS_INVALID_ARGUMENT, "%zu arguments; @main takes %zu", n_args, s->n_params);
    if (n_outs != s->n_results) LS_FAIL(e, LS_INVALID_ARGUMENT, "room for %zu outputs; @main has %zu results", n_outs, s->n_results);
    for (size_t i = 0; i < n_args; i++) {
        if (!args[i]) LS_FAIL(e, LS_INVALID_ARGUMENT, "argument %zu is NULL", i);
        if (args[i]->consumed) LS_FAIL(e, LS_FAILED_PRECONDITION, "argument %zu was donated to an earlier run; pass that run's output", i);
        if (!ls_tensor_type_equal(&args[i]->type, &s->params[i].type)) return type_mismatch(i, &s->params[i].type, &args[i]->type, e);
        for (size_t k = 0; s->params[i].alias >= 0 && k < n_args; k++)
            if (k != i && args[k] == args[i]) LS_FAIL(e, LS_INVALID_ARGUMENT, "argument %zu is donated and cannot be argument %zu as well", i, k);
    }
    return LS_OK;
}

/* Objects for the outputs come first: once the device has run, nothing may fail. */
static ls_code make_outputs(ls_engine *base, const ls_signature *s, ls_buffer **outs, ls_error *e) {
    for (size_t i = 0; i < s->n_results; i++) {
        ls_code rc = ls_calloc(&outs[i], 1, sizeof **outs, "an output buffer", e);
        if (!rc) {
            outs[i]->type = s->results[i];
            continue;
        }
        while (i--) op_free_buffer(base, outs[i]);
        return rc;
    }
    return LS_OK;
}

static ls_code op_execute(ls_engine *base, ls_program *p, ls_buffer *const *args, size_t n_args, ls_buffer **outs, size_t n_outs, ls_error *e) {
    pjrt_engine *x = (pjrt_engine *)base;
    const ls_signature *s = &p->signature;
    LS_TRY(check_args(s, args, n_args, n_outs, e));
    LS_TRY(make_outputs(base, s, outs, e));
    for (size_t i = 0; i < n_args; i++) p->args[i] = args[i]->pjrt;
    PJRT_ExecuteOptions options = {.struct_size = PJRT_ExecuteOptions_STRUCT_SIZE};
    PJRT_Buffer *const *arg_list = p->args;
    PJRT_Buffer **out_list = p->outs;
    PJRT_LoadedExecutable_Execute_Args *a = PJRT(PJRT_LoadedExecutable_Execute, .executable = p->loaded, .options = &options, .argument_lists = &arg_list,
                                                 .num_devices = 1, .num_args = n_args, .output_lists = &out_list);
    ls_code rc = ls_pjrt_check(x->api, x->api->PJRT_LoadedExecutable_Execute(a), "running", e);
    for (size_t i = 0; i < n_args; i++) args[i]->consumed = s->params[i].alias >= 0;
    for (size_t i = 0; i < n_outs; i++) {
        if (!rc) outs[i]->pjrt = p->outs[i];
        else op_free_buffer(base, outs[i]);
    }
    return rc;
}

static void op_destroy(ls_engine *base) { ls_pjrt_engine_destroy((pjrt_engine *)base); }

const ls_engine_ops ls_pjrt_ops = {
    .compile = op_compile,
    .upload = op_upload,
    .execute = op_execute,
    .read = op_read,
    .free_buffer = op_free_buffer,
    .free_program = op_free_program,
    .destroy = op_destroy,
};
