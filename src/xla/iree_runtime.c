/* The IREE engine over IREE's C runtime: one instance and one device; a program is a session with its module. */
#include "xla/iree.h"

#include <iree/runtime/api.h>
#include <stdio.h>
#include <string.h>

#include "xla/signature.h"

typedef struct iree_engine {
    ls_engine base; /* first: engines are cast to it and back */
    ls_iree_compiler *compiler;
    iree_runtime_instance_t *instance;
    iree_hal_device_t *device;
} iree_engine;

struct ls_program {
    ls_signature signature;
    uint8_t *module; /* the session reads it as long as it lives */
    iree_runtime_session_t *session;
    iree_vm_function_t function;
};

struct ls_buffer {
    ls_tensor_type type;
    iree_hal_buffer_view_t *view; /* NULL once given away as a donated argument */
};

bool ls_iree_has_runtime(void) { return true; }

/* IREE's status codes have lockstep's numbers. Consumes |s|. */
static ls_code check(iree_status_t s, const char *step, ls_error *e) {
    if (iree_status_is_ok(s)) return LS_OK;
    char text[800] = "";
    iree_host_size_t len = 0;
    ls_code rc = (ls_code)iree_status_code(s);
    if (!iree_status_format(s, sizeof text, text, &len) && !text[0]) snprintf(text, sizeof text, "%s", iree_status_code_string(iree_status_code(s)));
    text[sizeof text - 1] = 0;
    iree_status_ignore(s);
    LS_FAIL(e, rc, "IREE cannot %s: %s", step, text);
}

/* ---- Buffers ---------------------------------------------------------------------------------------------------- */

/* Signless integers are what modules state; they state ui8 and ui32 as such. */
static const iree_hal_element_type_t element_types[LS_DT_COUNT] = {
    [LS_DT_F32] = IREE_HAL_ELEMENT_TYPE_FLOAT_32, [LS_DT_F16] = IREE_HAL_ELEMENT_TYPE_FLOAT_16, [LS_DT_BF16] = IREE_HAL_ELEMENT_TYPE_BFLOAT_16,
    [LS_DT_F64] = IREE_HAL_ELEMENT_TYPE_FLOAT_64, [LS_DT_I1] = IREE_HAL_ELEMENT_TYPE_BOOL_8,    [LS_DT_I8] = IREE_HAL_ELEMENT_TYPE_INT_8,
    [LS_DT_I16] = IREE_HAL_ELEMENT_TYPE_INT_16,   [LS_DT_I32] = IREE_HAL_ELEMENT_TYPE_INT_32,   [LS_DT_I64] = IREE_HAL_ELEMENT_TYPE_INT_64,
    [LS_DT_U8] = IREE_HAL_ELEMENT_TYPE_UINT_8,    [LS_DT_U32] = IREE_HAL_ELEMENT_TYPE_UINT_32,
};

static void free_buffer(ls_engine *x, ls_buffer *b) {
    (void)x;
    if (!b) return;
    iree_hal_buffer_view_release(b->view);
    ls_free(b);
}

static ls_code upload(ls_engine *x, ls_buffer **out, const ls_tensor_type *type, const void *data, ls_error *e) {
    iree_engine *ie = (iree_engine *)x;
    size_t bytes;
    ls_buffer *b;
    iree_hal_dim_t shape[LS_XLA_MAX_RANK];
    *out = NULL;
    LS_TRY(ls_tensor_type_bytes(type, &bytes, e));
    LS_TRY(ls_calloc(&b, 1, sizeof *b, "buffer", e));
    b->type = *type;
    for (int i = 0; i < type->rank; i++) shape[i] = (iree_hal_dim_t)type->dim[i];
    iree_hal_buffer_params_t params = {.usage = IREE_HAL_BUFFER_USAGE_DEFAULT, .type = IREE_HAL_MEMORY_TYPE_DEVICE_LOCAL};
    iree_status_t s = iree_hal_buffer_view_allocate_buffer_copy(ie->device, iree_hal_device_allocator(ie->device), (iree_host_size_t)type->rank, shape,
                                                                element_types[type->dtype], IREE_HAL_ENCODING_TYPE_DENSE_ROW_MAJOR, params,
                                                                iree_make_const_byte_span(data, bytes), &b->view);
    ls_code rc = check(s, "copy a tensor to the device", e);
    if (rc) free_buffer(x, b);
    else *out = b;
    return rc;
}

static ls_code read_buffer(ls_engine *x, const ls_buffer *b, void *data, size_t bytes, ls_error *e) {
    iree_engine *ie = (iree_engine *)x;
    size_t need;
    LS_TRY(ls_tensor_type_bytes(&b->type, &need, e));
    if (bytes != need) LS_FAIL(e, LS_INVALID_ARGUMENT, "the tensor has %zu bytes, but room for %zu was given; it must be exact", need, bytes);
    if (!b->view) LS_FAIL(e, LS_FAILED_PRECONDITION, "the tensor was donated to a program and is consumed");
    if (!bytes) return LS_OK;
    return check(iree_hal_device_transfer_d2h(ie->device, iree_hal_buffer_view_buffer(b->view), 0, data, bytes, IREE_HAL_TRANSFER_BUFFER_FLAG_DEFAULT,
                                              iree_infinite_timeout()),
                 "copy a tensor from the device", e);
}

/* ---- Programs --------------------------------------------------------------------------------------------------- */

static void free_program(ls_engine *x, ls_program *p) {
    (void)x;
    if (!p) return;
    iree_runtime_session_release(p->session);
    ls_signature_deinit(&p->signature);
    ls_free(p->module);
    ls_free(p);
}

/* The module's function "main", whatever the module's name. It is the last of the session's modules. */
static ls_code load_module(iree_engine *ie, ls_program *p, size_t bytes, ls_error *e) {
    iree_runtime_session_options_t options;
    iree_runtime_session_options_initialize(&options);
    iree_allocator_t host = iree_runtime_instance_host_allocator(ie->instance);
    LS_TRY(check(iree_runtime_session_create_with_device(ie->instance, &options, ie->device, host, &p->session), "create a session", e));
    LS_TRY(check(iree_runtime_session_append_bytecode_module_from_memory(p->session, iree_make_const_byte_span(p->module, bytes), iree_allocator_null()),
                 "load a compiled module (are compiler and runtime of the same release?)", e));
    iree_vm_context_t *context = iree_runtime_session_context(p->session);
    iree_vm_module_t *module = iree_vm_context_module_at(context, iree_vm_context_module_count(context) - 1);
    return check(iree_vm_module_lookup_function_by_name(module, IREE_VM_FUNCTION_LINKAGE_EXPORT, iree_make_cstring_view("main"), &p->function),
                 "find function main", e);
}

static ls_code build(iree_engine *ie, ls_program *p, const char *text, size_t len, const char *identity, ls_compile_info *info, ls_error *e) {
    ls_str vmfb = {0};
    ls_code rc;
    LS_GOTO(ls_signature_parse(&p->signature, text, len, e));
    LS_GOTO(ls_iree_compile(ie->compiler, &vmfb, text, len, identity, info, e));
    LS_GOTO(ls_alloc_aligned(&p->module, vmfb.len, 1, "IREE module", e));
    memcpy(p->module, vmfb.data, vmfb.len);
    LS_GOTO(load_module(ie, p, vmfb.len, e));
out:
    ls_str_deinit(&vmfb);
    return rc;
}

static ls_code compile(ls_engine *x, ls_program **out, const char *text, size_t len, const char *identity, ls_compile_info *info, ls_error *e) {
    ls_program *p;
    *out = NULL;
    LS_TRY(ls_calloc(&p, 1, sizeof *p, "program", e));
    ls_code rc = build((iree_engine *)x, p, text, len, identity, info, e);
    if (rc) free_program(x, p);
    else *out = p;
    return rc;
}

/* ---- Execution -------------------------------------------------------------------------------------------------- */

static ls_code type_mismatch(const ls_tensor_type *found, const ls_tensor_type *wanted, size_t i, ls_error *e) {
    ls_str text = {0};
    ls_code rc = ls_str_printf(&text, e, "argument %zu is ", i);
    if (!rc) rc = ls_tensor_type_text(found, &text, e);
    if (!rc) rc = ls_str_printf(&text, e, ", but the program takes ");
    if (!rc) rc = ls_tensor_type_text(wanted, &text, e);
    if (!rc) rc = ls_error_set(e, LS_INVALID_ARGUMENT, __FILE__, __LINE__, "%s", text.data);
    ls_str_deinit(&text);
    return rc;
}

/* A donated argument is written while the others are read, so it can stand in one place only. */
static ls_code check_arg(const ls_signature *s, ls_buffer *const *args, size_t i, ls_error *e) {
    if (!args[i]->view) LS_FAIL(e, LS_FAILED_PRECONDITION, "argument %zu was donated to a program before and is consumed", i);
    if (!ls_tensor_type_equal(&args[i]->type, &s->params[i].type)) return type_mismatch(&args[i]->type, &s->params[i].type, i, e);
    for (size_t j = 0; s->params[i].alias >= 0 && j < s->n_params; j++)
        if (j != i && args[j] == args[i]) LS_FAIL(e, LS_INVALID_ARGUMENT, "argument %zu is donated, so it cannot be argument %zu as well", i, j);
    return LS_OK;
}

static ls_code check_args(const ls_signature *s, ls_buffer *const *args, size_t n_args, size_t n_outs, ls_error *e) {
    if (n_args != s->n_params) LS_FAIL(e, LS_INVALID_ARGUMENT, "the program takes %zu arguments, but %zu were given", s->n_params, n_args);
    if (n_outs != s->n_results) LS_FAIL(e, LS_INVALID_ARGUMENT, "the program has %zu results, but room for %zu was given", s->n_results, n_outs);
    for (size_t i = 0; i < n_args; i++) LS_TRY(check_arg(s, args, i, e));
    return LS_OK;
}

/* The call holds donated views until it ends. */
static ls_code pass_args(const ls_signature *s, iree_runtime_call_t *call, ls_buffer *const *args, ls_error *e) {
    for (size_t i = 0; i < s->n_params; i++) {
        LS_TRY(check(iree_runtime_call_inputs_push_back_buffer_view(call, args[i]->view), "pass an argument", e));
        if (s->params[i].alias < 0) continue;
        iree_hal_buffer_view_release(args[i]->view);
        args[i]->view = NULL;
    }
    return LS_OK;
}

static ls_code take_outputs(ls_engine *x, const ls_signature *s, iree_runtime_call_t *call, ls_buffer **outs, ls_error *e) {
    ls_code rc = LS_OK;
    size_t i = 0;
    for (; !rc && i < s->n_results; i++) {
        rc = ls_calloc(&outs[i], 1, sizeof *outs[i], "buffer", e);
        if (rc) break;
        outs[i]->type = s->results[i];
        rc = check(iree_runtime_call_outputs_pop_front_buffer_view(call, &outs[i]->view), "take a result", e);
    }
    for (size_t j = 0; rc && j < s->n_results; j++) {
        free_buffer(x, outs[j]);
        outs[j] = NULL;
    }
    return rc;
}

/* A call of a module without fences returns when its work is done. */
static ls_code execute(ls_engine *x, ls_program *p, ls_buffer *const *args, size_t n_args, ls_buffer **outs, size_t n_outs, ls_error *e) {
    iree_runtime_call_t call;
    for (size_t i = 0; i < n_outs; i++) outs[i] = NULL;
    LS_TRY(check_args(&p->signature, args, n_args, n_outs, e));
    LS_TRY(check(iree_runtime_call_initialize(p->session, p->function, &call), "prepare a call", e));
    ls_code rc = pass_args(&p->signature, &call, args, e);
    if (!rc) rc = check(iree_runtime_call_invoke(&call, 0), "run the program", e);
    if (!rc) rc = take_outputs(x, &p->signature, &call, outs, e);
    iree_runtime_call_deinitialize(&call);
    return rc;
}

/* ---- The engine ------------------------------------------------------------------------------------------------- */

static void destroy(ls_engine *x) {
    if (!x) return;
    iree_engine *ie = (iree_engine *)x;
    iree_hal_device_release(ie->device);
    iree_runtime_instance_release(ie->instance);
    ls_iree_compiler_destroy(ie->compiler);
    ls_free(ie);
}

static const ls_engine_ops ops = {compile, upload, execute, read_buffer, free_buffer, free_program, destroy};

static ls_code open_device(iree_engine *ie, ls_error *e) {
    iree_runtime_instance_options_t options;
    iree_runtime_instance_options_initialize(&options);
    iree_runtime_instance_options_use_all_available_drivers(&options);
    LS_TRY(check(iree_runtime_instance_create(&options, iree_allocator_system(), &ie->instance), "start its runtime", e));
    iree_string_view_t name = iree_make_cstring_view(ie->base.identity.platform);
    return check(iree_runtime_instance_try_create_default_device(ie->instance, name, &ie->device), "open the device", e);
}

ls_code ls_iree_open(ls_engine **out, const ls_iree_options *o, ls_error *e) {
    iree_engine *ie;
    *out = NULL;
    LS_TRY(ls_calloc(&ie, 1, sizeof *ie, "IREE engine", e));
    ie->base.ops = &ops;
    ls_code rc = ls_iree_compiler_create(&ie->compiler, o ? o : &(ls_iree_options){0}, e);
    if (!rc) {
        ie->base.identity = *ls_iree_compiler_identity(ie->compiler);
        ie->base.traits = *ls_iree_compiler_traits(ie->compiler);
        rc = open_device(ie, e);
    }
    if (rc) destroy(&ie->base);
    else *out = &ie->base;
    return rc;
}
