/* Emitted modules on a PJRT CPU plugin, with every input and result on the host. One engine a process; a text is compiled once. */
#ifndef LS_TESTS_EMIT_ENGINE_H
#define LS_TESTS_EMIT_ENGINE_H

#include "xla/emit/emit.h"

/* Opens $LS_EMIT_PLUGIN, or the first plugin of LS_PLUGINS. */
void emit_engine_open(void);
void emit_engine_close(void);

typedef struct emit_program emit_program;

/* Takes |m| (deinits it), uploads its weights. */
emit_program *emit_load(ls_emit_module *m, const ls_graph *g);
void emit_unload(emit_program *p);

/* Uploads in [n_inputs], runs, reads into out [n_results]; NULL: the result is not wanted. */
void emit_run(const emit_program *p, const void *const *in, void *const *out);

/* Elements of input or result |i|. */
size_t emit_input_count(const emit_program *p, size_t i);
size_t emit_result_count(const emit_program *p, size_t i);

#endif
