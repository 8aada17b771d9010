/* Emitted modules as artifacts: a file of StableHLO text with a manifest beside it that says what it was emitted from. */
#ifndef LS_XLA_EMIT_ARTIFACT_H
#define LS_XLA_EMIT_ARTIFACT_H

#include "contract/publish.h"
#include "xla/emit/emit.h"

/* Publishes |m|, emitted from |g| with |o|, as |path| and "<path>.aux.json" (ls_artifact_publish: reused when both verify, refused
 * before anything is deleted when the manifest there may not be replaced). The identity: the entry's name; the graph's fingerprint
 * and every option; under an exact contract its operators (schema version 3), under float the element types (version 2); the weight
 * arguments by key; lockstep's version and the text's digest. A |path| that is there and no regular file, such as a device or a
 * link, is INVALID_ARGUMENT. */
ls_code ls_emit_publish(const char *path, const ls_emit_module *m, const ls_graph *g, const ls_emit_options *o, ls_published *out, ls_error *e);

#endif
