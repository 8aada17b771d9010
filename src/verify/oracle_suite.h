/* The suite: every float probe on an engine, and every exact operator on an executor, one report each. */
#ifndef LS_VERIFY_ORACLE_SUITE_H
#define LS_VERIFY_ORACLE_SUITE_H

#include "graph/executor.h"
#include "verify/oracle_probes.h"

/* Makes the executor that is judged. |user| as in the target; |e| says why not. */
typedef ls_code (*ls_oracle_create)(void *user, ls_executor **out, const ls_graph *g, const ls_executor_options *o, ls_error *e);

/* What is judged. At least one of |engine| and |create| is given; probes that need the other are not part of its suite. */
typedef struct ls_oracle_target {
    ls_engine *engine;               /* runs the modules of the float probes; NULL: none */
    ls_oracle_create create;         /* makes executors of the exact probes' graphs; NULL: none */
    void *create_user;
    const ls_engine_identity *identity; /* of what runs: the engine's, or for an executor without an engine its own */
} ls_oracle_target;

/* Number of probes of |t|, float ones first, and the operation id of each: "micro-oracle.dense-matmul.f32",
 * "exact-oracle.linear.q4_0.exact16". */
size_t ls_oracle_count(const ls_oracle_target *t);
void ls_oracle_name(const ls_oracle_target *t, size_t i, char name[96]);

/* Runs probe |i|. Free the report with json_decref. Errors: those of compiling and running: the probe could not be compared. */
ls_code ls_oracle_run_probe(const ls_oracle_target *t, size_t i, json_t **report, ls_error *e);

/* One float probe on an engine (oracle_suite.c); probe |i| of the exact ones on an executor (oracle_graph.c). */
ls_code ls_oracle_float_report(const ls_probe *p, ls_engine *x, json_t **report, ls_error *e);
size_t ls_oracle_graph_count(void);
void ls_oracle_graph_name(size_t i, char name[96]);
ls_code ls_oracle_graph_report(size_t i, const ls_oracle_target *t, json_t **report, ls_error *e);

/* Digest chain of what ran, as 16 hex digits: entry, configuration, contracts, operand schema, generation with the module's digest.
 * The module's text stands where a manifest has the compiled bytes, which engines do not hand out. */
typedef struct ls_oracle_artifact {
    const char *entry, *config, *contract;
    size_t contract_len;
    const char *module; /* the text that ran */
    size_t module_len;
} ls_oracle_artifact;
ls_code ls_oracle_fingerprint(const ls_oracle_artifact *a, const ls_oracle_case *c, const ls_engine_identity *id, char hex[17], ls_error *e);

/* |id| as the candidate of a report; texts are cleaned copies in |a|. |fingerprint|, status and algorithm are the caller's. */
ls_code ls_oracle_candidate(ls_oracle_backend *out, const ls_engine_identity *id, ls_arena *a, ls_error *e);

/* Architecture of this build's processor: "x86_64", "aarch64". Static. */
const char *ls_oracle_host_arch(void);

#endif
