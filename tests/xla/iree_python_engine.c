/* The calling side of iree_python_engine.py: one process, two pipes, requests answered in order. */
#include "iree_python_engine.h"

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "xla/python_env.h"
#include "xla/signature.h"

typedef struct python_engine {
    ls_engine base; /* first: engines are cast to it and back */
    ls_iree_compiler *compiler;
    pid_t pid;
    FILE *to, *from;
    uint64_t next; /* number of the next tensor or module */
} python_engine;

struct ls_program {
    uint64_t id;
    ls_signature signature;
};

struct ls_buffer {
    uint64_t id;
    ls_tensor_type type;
    bool consumed; /* given away as a donated argument */
};

/* ---- Requests ----------------------------------------------------------------------------------------------------- */

static ls_code request(python_engine *p, const char *line, const void *data, size_t len, ls_error *e) {
    fputs(line, p->to);
    fputc('\n', p->to);
    if (len) fwrite(data, 1, len, p->to);
    if (fflush(p->to)) LS_FAIL(e, LS_UNAVAILABLE, "the process that runs IREE has ended");
    return LS_OK;
}

static ls_code answer(python_engine *p, void *data, size_t len, ls_error *e) {
    char line[64], text[900];
    size_t n = 0;
    if (!fgets(line, sizeof line, p->from)) LS_FAIL(e, LS_UNAVAILABLE, "the process that runs IREE has ended");
    if (!strcmp(line, "ok\n")) {
        if (len && fread(data, 1, len, p->from) != len) LS_FAIL(e, LS_UNAVAILABLE, "the process that runs IREE has ended");
        return LS_OK;
    }
    if (sscanf(line, "error %zu", &n) != 1) LS_FAIL(e, LS_INTERNAL, "answer \"%s\" is not understood", line);
    size_t kept = 0;
    for (int c; n > 0 && (c = fgetc(p->from)) != EOF; n--)
        if (kept + 1 < sizeof text) text[kept++] = (char)c;
    text[kept] = 0;
    LS_FAIL(e, LS_UNKNOWN, "IREE in Python: %s", text);
}

static ls_code call(python_engine *p, const char *line, const void *data, size_t len, ls_error *e) {
    LS_TRY(request(p, line, data, len, e));
    return answer(p, NULL, 0, e);
}

/* ---- The engine's operations ---------------------------------------------------------------------------------------- */

static void free_buffer(ls_engine *x, ls_buffer *b) {
    char line[64];
    if (!b) return;
    snprintf(line, sizeof line, "free %" PRIu64, b->id);
    (void)call((python_engine *)x, line, NULL, 0, NULL);
    ls_free(b);
}

static ls_code upload(ls_engine *x, ls_buffer **out, const ls_tensor_type *type, const void *data, ls_error *e) {
    python_engine *p = (python_engine *)x;
    size_t bytes;
    char line[256];
    *out = NULL;
    LS_TRY(ls_tensor_type_bytes(type, &bytes, e));
    uint64_t id = p->next++;
    int n = snprintf(line, sizeof line, "upload %" PRIu64 " %s %d", id, ls_dtype_name(type->dtype), type->rank);
    for (int i = 0; i < type->rank; i++) n += snprintf(line + n, sizeof line - (size_t)n, " %" PRId64, type->dim[i]);
    snprintf(line + n, sizeof line - (size_t)n, " %zu", bytes);
    LS_TRY(call(p, line, data, bytes, e));
    LS_TRY(ls_calloc(out, 1, sizeof **out, "buffer", e));
    **out = (ls_buffer){.id = id, .type = *type};
    return LS_OK;
}

static ls_code read_buffer(ls_engine *x, const ls_buffer *b, void *data, size_t bytes, ls_error *e) {
    char line[96];
    size_t need;
    LS_TRY(ls_tensor_type_bytes(&b->type, &need, e));
    if (bytes != need) LS_FAIL(e, LS_INVALID_ARGUMENT, "the tensor has %zu bytes, but room for %zu was given; it must be exact", need, bytes);
    if (b->consumed) LS_FAIL(e, LS_FAILED_PRECONDITION, "the tensor was donated to a program and is consumed");
    snprintf(line, sizeof line, "read %" PRIu64 " %zu", b->id, bytes);
    LS_TRY(request((python_engine *)x, line, NULL, 0, e));
    return answer((python_engine *)x, data, bytes, e);
}

static void free_program(ls_engine *x, ls_program *p) {
    char line[64];
    if (!p) return;
    snprintf(line, sizeof line, "unload %" PRIu64, p->id);
    if (p->id) (void)call((python_engine *)x, line, NULL, 0, NULL);
    ls_signature_deinit(&p->signature);
    ls_free(p);
}

static ls_code load(python_engine *p, ls_program *prog, const char *text, size_t len, const char *identity, ls_compile_info *info, ls_error *e) {
    ls_str vmfb = {0};
    char line[96];
    uint64_t id = p->next++;
    ls_code rc = ls_signature_parse(&prog->signature, text, len, e);
    if (!rc) rc = ls_iree_compile(p->compiler, &vmfb, text, len, identity, info, e);
    snprintf(line, sizeof line, "module %" PRIu64 " %zu", id, vmfb.len);
    if (!rc) rc = call(p, line, vmfb.data, vmfb.len, e);
    if (!rc) prog->id = id;
    ls_str_deinit(&vmfb);
    return rc;
}

static ls_code compile(ls_engine *x, ls_program **out, const char *text, size_t len, const char *identity, ls_compile_info *info, ls_error *e) {
    ls_program *prog;
    *out = NULL;
    LS_TRY(ls_calloc(&prog, 1, sizeof *prog, "program", e));
    ls_code rc = load((python_engine *)x, prog, text, len, identity, info, e);
    if (rc) free_program(x, prog);
    else *out = prog;
    return rc;
}

static ls_code check_arg(const ls_signature *s, ls_buffer *const *args, size_t i, ls_error *e) {
    if (args[i]->consumed) LS_FAIL(e, LS_FAILED_PRECONDITION, "argument %zu was donated to a program before and is consumed", i);
    if (!ls_tensor_type_equal(&args[i]->type, &s->params[i].type)) LS_FAIL(e, LS_INVALID_ARGUMENT, "argument %zu has another type than the program takes", i);
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

static ls_code run(python_engine *p, const ls_program *prog, ls_buffer *const *args, size_t n_args, ls_buffer **outs, size_t n_outs, ls_error *e) {
    ls_str line = {0};
    ls_code rc = ls_str_printf(&line, e, "run %" PRIu64 " %zu", prog->id, n_args);
    for (size_t i = 0; !rc && i < n_args; i++) rc = ls_str_printf(&line, e, " %" PRIu64, args[i]->id);
    if (!rc) rc = ls_str_printf(&line, e, " %zu", n_outs);
    for (size_t i = 0; !rc && i < n_outs; i++) rc = ls_str_printf(&line, e, " %" PRIu64, outs[i]->id);
    if (!rc) rc = call(p, line.data, NULL, 0, e);
    ls_str_deinit(&line);
    return rc;
}

static ls_code execute(ls_engine *x, ls_program *prog, ls_buffer *const *args, size_t n_args, ls_buffer **outs, size_t n_outs, ls_error *e) {
    python_engine *p = (python_engine *)x;
    ls_code rc = LS_OK;
    for (size_t i = 0; i < n_outs; i++) outs[i] = NULL;
    LS_TRY(check_args(&prog->signature, args, n_args, n_outs, e));
    for (size_t i = 0; !rc && i < n_outs; i++) {
        rc = ls_calloc(&outs[i], 1, sizeof *outs[i], "buffer", e);
        if (!rc) *outs[i] = (ls_buffer){.id = p->next++, .type = prog->signature.results[i]};
    }
    for (size_t i = 0; !rc && i < n_args; i++) args[i]->consumed = prog->signature.params[i].alias >= 0;
    if (!rc) rc = run(p, prog, args, n_args, outs, n_outs, e);
    for (size_t i = 0; rc && i < n_outs; i++) {
        ls_free(outs[i]);
        outs[i] = NULL;
    }
    return rc;
}

/* ---- The process ------------------------------------------------------------------------------------------------------ */

static void destroy(ls_engine *x) {
    python_engine *p = (python_engine *)x;
    if (!p) return;
    if (p->to) fclose(p->to);
    if (p->from) fclose(p->from);
    if (p->pid > 0) waitpid(p->pid, NULL, 0);
    ls_iree_compiler_destroy(p->compiler);
    ls_free(p);
}

static const ls_engine_ops ops = {compile, upload, execute, read_buffer, free_buffer, free_program, destroy};

/* The folder above iree/, as PYTHONPATH; NOT_FOUND without the wheel. */
static ls_code find_wheel(ls_arena *a, const char **folder, ls_error *e) {
    static const char pattern[] = "iree/_runtime_libs/_runtime*.so";
    ls_python_env env;
    const char *file;
    LS_TRY(ls_python_env_find(&env, a, e));
    LS_TRY(ls_python_env_file(&env, a, pattern, &file, e));
    if (!file) LS_FAIL(e, LS_NOT_FOUND, "no IREE runtime for Python: install it with \"pip install iree-base-runtime\"");
    return ls_arena_strdup(a, folder, file, (size_t)(strstr(file, "/iree/_runtime_libs/") - file), e);
}

static void run_child(const char *folder, const char *script, const char *device, const int in[2], const int out[2]) {
    const char *python = getenv("LOCKSTEP_TEST_PYTHON");
    if (!python || !*python) python = "python3";
    dup2(in[0], 0);
    dup2(out[1], 1);
    setenv("PYTHONPATH", folder, 1);
    execlp(python, python, script, device, (char *)NULL);
    fprintf(stderr, "cannot run %s\n", python);
    _exit(127);
}

static ls_code start(python_engine *p, const char *script, ls_error *e) {
    ls_arena *a;
    const char *folder;
    int in[2], out[2];
    LS_TRY(ls_arena_create(&a, e));
    ls_code rc = find_wheel(a, &folder, e);
    if (!rc && (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC))) rc = ls_error_set(e, LS_RESOURCE_EXHAUSTED, __FILE__, __LINE__, "no pipe can be made");
    if (!rc) {
        signal(SIGPIPE, SIG_IGN); /* a process that ended is reported by the failing write */
        p->pid = fork();
        if (p->pid == 0) run_child(folder, script, p->base.identity.platform, in, out);
        close(in[0]), close(out[1]);
        p->to = fdopen(in[1], "wb");
        p->from = fdopen(out[0], "rb");
        if (p->pid < 0 || !p->to || !p->from) rc = ls_error_set(e, LS_RESOURCE_EXHAUSTED, __FILE__, __LINE__, "no process can be started");
    }
    ls_arena_destroy(a);
    return rc;
}

ls_code iree_python_engine_open(ls_engine **out, const ls_iree_options *o, const char *script, ls_error *e) {
    python_engine *p;
    *out = NULL;
    LS_TRY(ls_calloc(&p, 1, sizeof *p, "engine", e));
    p->base.ops = &ops;
    p->next = 1;
    ls_code rc = ls_iree_compiler_create(&p->compiler, o ? o : &(ls_iree_options){0}, e);
    if (!rc) {
        p->base.identity = *ls_iree_compiler_identity(p->compiler);
        p->base.traits = *ls_iree_compiler_traits(p->compiler);
        rc = start(p, script, e);
    }
    if (rc) destroy(&p->base);
    else *out = &p->base;
    return rc;
}
