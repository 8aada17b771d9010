/* Qualification records: which family, contract and device have passed `lockstep qualify`, and whether one may be opened.
 *
 * A record is a small JSON file in the cache of compiled programs. What it qualifies is its combination: this program's version (which
 * writes the modules), architecture, contract and version, precision and form of the weights, and the engine's whole identity (runtime,
 * version, hash of the library, flags, target, device). A combination is qualified when there is a record of it, and none that
 * failed. docs/qualification.md. */
#ifndef LS_SESSION_QUALIFICATION_H
#define LS_SESSION_QUALIFICATION_H

#include "base/json.h"
#include "xla/executor.h"

#define LS_QUALIFICATION_SCHEMA "lockstep-qualification-v1"

enum { LS_QUALIFICATION_MAX_BYTES = 64 << 10, LS_QUALIFICATION_MAX_RECORDS = 4096 };

/* The combination of a graph on an engine; the caller's. |precision| and |packed| count under the float contract. */
ls_code ls_qualification_combination(json_t **out, const ls_graph *g, const ls_engine_identity *engine, const ls_xla_options *xo, ls_error *e);

/* Checks a record: every field there, none unknown, and "qualified" exactly what the two stages say. INVALID_ARGUMENT naming |name|. */
ls_code ls_qualification_parse(const char *text, size_t len, const char *name, json_t **out, ls_error *e);

/* Writes |record| in place of an earlier one of the same combination and model, under a lock and by rename; its path is appended to
 * |path|. |folder| NULL: the cache's default. Errors: those of ls_exec_cache_open and ls_lock_acquire. */
ls_code ls_qualification_store(const json_t *record, const char *folder, ls_str *path, ls_error *e);

/* Whether |combination| is qualified. |why|, appended to: the model of the record that says so, or what is missing and what to run.
 * An unreadable record does not qualify, nor do more than LS_QUALIFICATION_MAX_RECORDS of one combination. Errors: no memory, no cache folder. */
ls_code ls_qualification_find(const json_t *combination, const char *folder, bool *qualified, ls_str *why, ls_error *e);

#endif
