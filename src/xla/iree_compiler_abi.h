/* The part of IREE's C embedding interface that lockstep calls, declared here so that no IREE header is needed to build.
 * Source: iree/compiler/embedding_api.h of IREE, whose interface is stable within a major version (1). */
#ifndef LS_XLA_IREE_COMPILER_ABI_H
#define LS_XLA_IREE_COMPILER_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LS_IREE_API_MAJOR = 1, LS_IREE_API_MINOR = 4 }; /* the major version spoken, the first minor that has every function below */

typedef struct ls_iree_c_error ls_iree_c_error;           /* NULL is success */
typedef struct ls_iree_c_session ls_iree_c_session;       /* flags and everything compiled under them */
typedef struct ls_iree_c_invocation ls_iree_c_invocation; /* one run of the compiler */
typedef struct ls_iree_c_source ls_iree_c_source;
typedef struct ls_iree_c_output ls_iree_c_output;

enum { LS_IREE_SEVERITY_NOTE, LS_IREE_SEVERITY_WARNING, LS_IREE_SEVERITY_ERROR, LS_IREE_SEVERITY_REMARK };
enum { LS_IREE_PIPELINE_STANDARD = 0 };

/* May be called from any thread of the compiler; |message| is not terminated. */
typedef void (*ls_iree_c_diagnostic)(int severity, const char *message, size_t len, void *user);

typedef struct ls_iree_compiler_abi {
    int (*api_version)(void); /* major in the upper 16 bits, minor in the lower */
    void (*global_initialize)(void);
    const char *(*revision)(void); /* lives as long as the library */

    const char *(*error_message)(ls_iree_c_error *); /* lives as long as the error */
    void (*error_destroy)(ls_iree_c_error *);

    ls_iree_c_session *(*session_create)(void);
    void (*session_destroy)(ls_iree_c_session *);
    ls_iree_c_error *(*session_set_flags)(ls_iree_c_session *, int n, const char *const *flags);

    ls_iree_c_invocation *(*invocation_create)(ls_iree_c_session *);
    void (*invocation_destroy)(ls_iree_c_invocation *);
    void (*invocation_diagnostics)(ls_iree_c_invocation *, int zero, ls_iree_c_diagnostic, void *user);
    bool (*invocation_parse)(ls_iree_c_invocation *, ls_iree_c_source *); /* the source must outlive the invocation */
    void (*invocation_stop_after)(ls_iree_c_invocation *, const char *phase);
    bool (*invocation_pipeline)(ls_iree_c_invocation *, int pipeline);
    ls_iree_c_error *(*invocation_output_ir)(ls_iree_c_invocation *, ls_iree_c_output *);
    ls_iree_c_error *(*invocation_output_bytecode)(ls_iree_c_invocation *, ls_iree_c_output *);

    /* Text is borrowed; |len| counts the terminating NUL that it must have. */
    ls_iree_c_error *(*source_wrap)(ls_iree_c_session *, const char *name, const char *text, size_t len, bool terminated, ls_iree_c_source **out);
    void (*source_destroy)(ls_iree_c_source *);

    ls_iree_c_error *(*output_open_memory)(ls_iree_c_output **out);
    ls_iree_c_error *(*output_map)(ls_iree_c_output *, void **data, uint64_t *len); /* lives as long as the output */
    void (*output_destroy)(ls_iree_c_output *);
} ls_iree_compiler_abi;

#endif
