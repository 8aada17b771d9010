/* One engine a test program on a real PJRT CPU plugin, as cmocka's group setup and teardown. */
#ifndef LS_TESTS_CPU_ENGINE_H
#define LS_TESTS_CPU_ENGINE_H

#include "xla/engine.h"

extern ls_engine *cpu_engine; /* between the two calls */

/* Opens $LS_EMIT_PLUGIN, or the newest plugin of LS_PLUGINS. Both return 0 and use nothing of |state|. */
int cpu_engine_open(void **state);
int cpu_engine_close(void **state);

#endif
