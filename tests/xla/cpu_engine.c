/* See cpu_engine.h. */
#include "cpu_engine.h"

#include "test.h"

#include <stdlib.h>

#include "base/file.h"
#include "xla/pjrt.h"

ls_engine *cpu_engine;

int cpu_engine_open(void **state) {
    (void)state;
    ls_error e = {0};
    const char *plugin = getenv("LS_EMIT_PLUGIN");
    if (!plugin || !*plugin) plugin = LS_PLUGINS "/lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so";
    if (!ls_file_exists(plugin)) fail_msg("%s is missing: run tools/fetch_plugins.py", plugin);
    assert_ok(ls_pjrt_open(&cpu_engine, &(ls_pjrt_options){.plugin = plugin}, &e));
    return 0;
}

int cpu_engine_close(void **state) {
    (void)state;
    cpu_engine->ops->destroy(cpu_engine);
    return 0;
}
