/* An ls_engine for tests that compiles with lockstep's own code (iree_compiler.h) and runs the modules in another process,
 * over the Python module of the iree-base-runtime wheel: IREE without a linked runtime. The wheel is searched as
 * python_env.h does and runs under the python3 on PATH, or under LOCKSTEP_TEST_PYTHON. */
#ifndef LS_TESTS_IREE_PYTHON_ENGINE_H
#define LS_TESTS_IREE_PYTHON_ENGINE_H

#include "xla/iree_compiler.h"

/* |script|: path of iree_python_engine.py. Every engine has a process of its own. Errors: those of the compiler; NOT_FOUND
 * without the wheel; UNAVAILABLE when the process ends early (its own words are on standard error). */
ls_code iree_python_engine_open(ls_engine **out, const ls_iree_options *o, const char *script, ls_error *e);

#endif
