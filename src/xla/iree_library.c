/* Loading of libIREECompiler and one run of it. Diagnostics arrive by callback, possibly from the compiler's own threads. */
#include "xla/iree_library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/library.h"
#include "xla/python_env.h"

#ifdef __APPLE__
static const char wheel_file[] = "iree/compiler/_mlir_libs/libIREECompiler.dylib";
#else
static const char wheel_file[] = "iree/compiler/_mlir_libs/libIREECompiler.so";
#endif

enum { DIAGNOSTIC_MAX = 4096, DIAGNOSTICS_MAX = 1 << 16 }; /* bytes of one, and of all of a run */

static const ls_symbol symbols[] = {
#define SYMBOL(member, name) {offsetof(ls_iree_compiler_abi, member), "ireeCompiler" name}
    SYMBOL(api_version, "GetAPIVersion"),
    SYMBOL(global_initialize, "GlobalInitialize"),
    SYMBOL(revision, "GetRevision"),
    SYMBOL(error_message, "ErrorGetMessage"),
    SYMBOL(error_destroy, "ErrorDestroy"),
    SYMBOL(session_create, "SessionCreate"),
    SYMBOL(session_destroy, "SessionDestroy"),
    SYMBOL(session_set_flags, "SessionSetFlags"),
    SYMBOL(invocation_create, "InvocationCreate"),
    SYMBOL(invocation_destroy, "InvocationDestroy"),
    SYMBOL(invocation_diagnostics, "InvocationEnableCallbackDiagnostics"),
    SYMBOL(invocation_parse, "InvocationParseSource"),
    SYMBOL(invocation_stop_after, "InvocationSetCompileToPhase"),
    SYMBOL(invocation_pipeline, "InvocationPipeline"),
    SYMBOL(invocation_output_ir, "InvocationOutputIR"),
    SYMBOL(invocation_output_bytecode, "InvocationOutputVMBytecode"),
    SYMBOL(source_wrap, "SourceWrapBuffer"),
    SYMBOL(source_destroy, "SourceDestroy"),
    SYMBOL(output_open_memory, "OutputOpenMembuffer"),
    SYMBOL(output_map, "OutputMapMemory"),
    SYMBOL(output_destroy, "OutputDestroy"),
#undef SYMBOL
};

static ls_code find_path(ls_arena *a, const char *path, const char **out, ls_error *e) {
    ls_python_env env;
    const char *named = path ? path : getenv("LOCKSTEP_IREE_COMPILER");
    if (named && *named) {
        if (!ls_file_exists(named)) LS_FAIL(e, LS_NOT_FOUND, "the IREE compiler library \"%s\" is not a file", named);
        /* Without a slash dlopen would look in the system's folders instead. */
        return ls_arena_printf(a, out, e, "%s%s", strchr(named, '/') ? "" : "./", named);
    }
    LS_TRY(ls_python_env_find(&env, a, e));
    LS_TRY(ls_python_env_file(&env, a, wheel_file, out, e));
    if (*out) return LS_OK;
    LS_FAIL(e, LS_NOT_FOUND,
            "no IREE compiler: %zu Python package folders were searched for %s; install it with \"pip install iree-base-compiler\", or name the library in "
            "LOCKSTEP_IREE_COMPILER",
            env.n, wheel_file);
}

static ls_code load_symbols(ls_iree_library *lib, void *handle, ls_error *e) {
    const char *missing = ls_library_find(handle, symbols, sizeof symbols / sizeof *symbols, &lib->abi);
    if (missing) LS_FAIL(e, LS_UNIMPLEMENTED, "\"%s\" has no function %s: it is not an IREE compiler library that lockstep can call", lib->path, missing);
    int version = lib->abi.api_version(), major = version >> 16, minor = version & 0xffff;
    if (major != LS_IREE_API_MAJOR || minor < LS_IREE_API_MINOR)
        LS_FAIL(e, LS_UNIMPLEMENTED, "\"%s\" speaks version %d.%d of IREE's compiler interface; lockstep needs %d.%d or a later %d.x", lib->path, major, minor,
                LS_IREE_API_MAJOR, LS_IREE_API_MINOR, LS_IREE_API_MAJOR);
    return LS_OK;
}

/* Initialisation is counted inside the library and its last shutdown is final, so it is never shut down. */
ls_code ls_iree_library_open(ls_iree_library *lib, ls_arena *a, const char *path, ls_error *e) {
    *lib = (ls_iree_library){0};
    LS_TRY(find_path(a, path, &lib->path, e));
    void *handle = dlopen(lib->path, RTLD_NOW | RTLD_LOCAL);
    if (!handle) LS_FAIL(e, LS_UNAVAILABLE, "cannot load the IREE compiler: %s", dlerror());
    ls_code rc = load_symbols(lib, handle, e);
    if (rc) {
        dlclose(handle);
        return rc;
    }
    lib->abi.global_initialize();
    return LS_OK;
}

/* ---- One run -------------------------------------------------------------------------------------------------- */

typedef struct run {
    const ls_iree_compiler_abi *abi;
    ls_str text, diagnostics; /* |text| is a terminated copy */
    bool has_error;           /* |diagnostics| begins with an error */
    pthread_mutex_t lock;
    ls_iree_c_session *session;
    ls_iree_c_invocation *invocation;
    ls_iree_c_source *source;
    ls_iree_c_output *output;
} run;

/* Errors matter most, so the first one throws away the remarks and warnings before it. */
static void on_diagnostic(int severity, const char *message, size_t len, void *user) {
    run *r = user;
    bool error = severity == LS_IREE_SEVERITY_ERROR;
    pthread_mutex_lock(&r->lock);
    if (error && !r->has_error) {
        ls_str_clear(&r->diagnostics);
        r->has_error = true;
    }
    if (r->diagnostics.len) (void)ls_str_append(&r->diagnostics, "; ", 2, NULL);
    (void)ls_str_append(&r->diagnostics, message, len < DIAGNOSTIC_MAX ? len : DIAGNOSTIC_MAX, NULL);
    pthread_mutex_unlock(&r->lock);
}

static ls_code refuse(run *r, const char *step, ls_error *e) {
    LS_FAIL(e, LS_INVALID_ARGUMENT, "IREE cannot %s: %.800s", step, r->diagnostics.len ? r->diagnostics.data : "the compiler gives no reason");
}

static ls_code check(run *r, ls_iree_c_error *error, const char *step, ls_error *e) {
    if (!error) return LS_OK;
    ls_code rc = ls_error_set(e, LS_INVALID_ARGUMENT, __FILE__, __LINE__, "IREE cannot %s: %.800s", step, r->abi->error_message(error));
    r->abi->error_destroy(error);
    return rc;
}

static ls_code run_steps(run *r, const char *const *flags, int n, const char *phase, ls_str *out, ls_error *e) {
    const ls_iree_compiler_abi *abi = r->abi;
    void *data = NULL;
    uint64_t len = 0;
    r->session = abi->session_create();
    LS_TRY(check(r, abi->session_set_flags(r->session, n, flags), "take its flags", e));
    r->invocation = abi->invocation_create(r->session);
    abi->invocation_diagnostics(r->invocation, 0, on_diagnostic, r);
    LS_TRY(check(r, abi->source_wrap(r->session, "module", r->text.data, r->text.len + 1, true, &r->source), "read the module", e));
    if (!abi->invocation_parse(r->invocation, r->source)) return refuse(r, "parse the module", e);
    abi->invocation_stop_after(r->invocation, phase ? phase : "end");
    if (!abi->invocation_pipeline(r->invocation, LS_IREE_PIPELINE_STANDARD)) return refuse(r, "compile the module", e);
    LS_TRY(check(r, abi->output_open_memory(&r->output), "open a buffer", e));
    LS_TRY(check(r, (phase ? abi->invocation_output_ir : abi->invocation_output_bytecode)(r->invocation, r->output), "write its result", e));
    LS_TRY(check(r, abi->output_map(r->output, &data, &len), "hand over its result", e));
    if (len > LS_STR_DEFAULT_MAX)
        LS_FAIL(e, LS_RESOURCE_EXHAUSTED, "the compiled module has %llu bytes; at most %d are allowed", (unsigned long long)len, LS_STR_DEFAULT_MAX);
    return ls_str_append(out, data, (size_t)len, e);
}

static void run_close(run *r) {
    if (r->output) r->abi->output_destroy(r->output);
    if (r->invocation) r->abi->invocation_destroy(r->invocation);
    if (r->source) r->abi->source_destroy(r->source);
    if (r->session) r->abi->session_destroy(r->session);
    pthread_mutex_destroy(&r->lock);
    ls_str_deinit(&r->diagnostics);
    ls_str_deinit(&r->text);
}

ls_code ls_iree_library_run(const ls_iree_library *lib, const char *const *flags, int n, const char *phase, const char *text, size_t len, ls_str *out,
                            ls_error *e) {
    run r = {.abi = &lib->abi, .diagnostics.max = DIAGNOSTICS_MAX};
    pthread_mutex_init(&r.lock, NULL);
    ls_code rc = ls_str_append(&r.text, text, len, e);
    if (!rc) rc = run_steps(&r, flags, n, phase, out, e);
    run_close(&r);
    return rc;
}
