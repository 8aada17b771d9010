/* lockstep bench --vision: how long a picture takes. */
#ifndef LS_CLI_BENCH_VISION_H
#define LS_CLI_BENCH_VISION_H

#include "cli/options.h"

/* Times |repeats| passes of one image through |m|'s tower and projector on the native or reference backend, after one that is not counted, and
 * prints the best and the mean. |m| was opened with LS_LOAD_GRAPH. The exit code. */
int cli_bench_vision(const cli_options *common, const char *model_name, const ls_model *m, int repeats, bool json);

#endif
