/* Images to rows: one pass of an executor over a vision graph. */
#ifndef LS_SESSION_ENCODE_H
#define LS_SESSION_ENCODE_H

#include "graph/executor.h"
#include "models/model.h"

/* Options of an executor that takes |images| images in a pass: one slot each. Threads, level and observers are the caller's to add. */
ls_executor_options ls_encode_options(const ls_vision *v, int images);

/* pixels [n] images f32 [channels, image_size, image_size]; out f32 [n, graph->image_out, graph->vocab]. n at most x's slots and rows
 * allow; the slots must be empty and are so afterwards. */
ls_code ls_encode_images(ls_executor *x, const ls_vision *v, const float *const *pixels, int n, float *out, ls_error *e);

#endif
