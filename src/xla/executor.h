/* The XLA executor: runs a graph on any engine through the modules that the emitter writes.
 *
 * Weights are uploaded once and shared by all modules; keys and values stay on the device and are updated in place through
 * donation. Modules have static shapes: rows and capacity come from a few buckets, each compiled when first needed. */
#ifndef LS_XLA_EXECUTOR_H
#define LS_XLA_EXECUTOR_H

#include "graph/executor.h"
#include "xla/emit/emit.h"

enum { LS_XLA_MAX_BUCKETS = 16 };

typedef struct ls_xla_options {
    ls_precision precision;  /* float contract */
    bool packed;             /* float contract; refused as ls_emit_check_packed says */
    /* Capacities of the caches [n_buckets], ascending; 0: 256, 1024, 4096, ... up to the context. Each is rounded up to a
     * multiple of 256, and the last raised to hold the whole context. */
    int n_buckets, bucket[LS_XLA_MAX_BUCKETS];
    /* With an observer: show the values that the fused modules computed (writes are lost). Otherwise every node runs as a
     * module of its own, and what the observer writes is what later nodes read. */
    bool observe_fused;
} ls_xla_options;

/* Compiling so far, for reports. */
typedef struct ls_xla_stats {
    int programs, cache_hits;
    double compile_seconds;
} ls_xla_stats;

/* |engine| is borrowed and must outlive the executor, as must |g| and |c|. |xo| NULL: defaults. Weights go to the device
 * with the first module that needs them. Errors: as the emitter's and the engine's. */
ls_code ls_xla_create(ls_executor **out, const ls_graph *g, ls_checkpoint *c, ls_engine *engine, const ls_xla_options *xo, const ls_executor_options *o,
                      ls_error *e);

ls_xla_stats ls_xla_executor_stats(const ls_executor *x);

/* Every node is a module of its own: for an observer that writes, and for towers whose integers do not fit at once. */
bool ls_xla_runs_nodes(const ls_executor *x);

#endif
