/* lockstep bench --compare: beside other engines, by bench/compare.py. */
#ifndef LS_CLI_BENCH_COMPARE_H
#define LS_CLI_BENCH_COMPARE_H

#include "cli/options.h"

/* Becomes Python running compare.py on |model| with this program, |peers| ("llama.cpp,openvino,ort"), |rounds|, |sweep| (NULL: none) and, where given,
 * the threads and the contract of |o|. Returns the exit code when that fails. */
int cli_bench_compare(const cli_options *o, const char *model, const char *peers, const char *sweep, int rounds);

#endif
