/* Loading hwloc, and its topology of nothing but processors, cores and memory nodes. */
#include "native/topology_hwloc.h"

#include <dlfcn.h>
#include <hwloc.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/library.h"

static const char library_name[] = "libhwloc.so.15"; /* hwloc 2 */

#define FUNCTIONS(F) \
    F(topology_init) F(topology_destroy) F(topology_set_all_types_filter) F(topology_set_type_filter) F(topology_set_components) F(topology_set_flags) \
    F(topology_load) F(get_type_depth) F(get_obj_by_depth) F(bitmap_first) F(cpukinds_get_by_cpuset) F(cpukinds_get_info)

typedef struct functions {
#define MEMBER(name) __typeof__(hwloc_##name) *name;
    FUNCTIONS(MEMBER)
#undef MEMBER
} functions;

static const ls_symbol symbols[] = {
#define SYMBOL(name) {offsetof(functions, name), "hwloc_" #name},
    FUNCTIONS(SYMBOL)
#undef SYMBOL
};

/* A group is what hwloc attaches a memory node to where nothing else has the same processors; without, each node would have all processors of the machine.
 * Discovery by x86 instructions is slow, and moves this thread from processor to processor. Processors that a control group forbids stay: who asks knows
 * which are allowed. A version that does not know a flag takes none. */
static bool load(const functions *h, hwloc_topology_t t) {
    h->topology_set_all_types_filter(t, HWLOC_TYPE_FILTER_KEEP_NONE);
    h->topology_set_type_filter(t, HWLOC_OBJ_CORE, HWLOC_TYPE_FILTER_KEEP_ALL);
    h->topology_set_type_filter(t, HWLOC_OBJ_GROUP, HWLOC_TYPE_FILTER_KEEP_STRUCTURE);
    h->topology_set_components(t, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, "x86");
    h->topology_set_flags(t, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED | HWLOC_TOPOLOGY_FLAG_NO_DISTANCES | HWLOC_TOPOLOGY_FLAG_NO_MEMATTRS);
    return !h->topology_load(t);
}

static void set_kind(const functions *h, hwloc_topology_t t, hwloc_obj_t unit, ls_processor *p) {
    struct hwloc_info_s *info;
    unsigned n;
    int kind = h->cpukinds_get_by_cpuset(t, unit->cpuset, 0);
    if (kind < 0 || h->cpukinds_get_info(t, (unsigned)kind, NULL, &p->order, &n, &info, 0)) return;
    for (unsigned i = 0; i < n; i++) {
        long capacity = strcmp(info[i].name, "LinuxCapacity") ? 0 : strtol(info[i].value, NULL, 10);
        if (capacity > 0 && capacity <= LS_SPEED_FULL) p->speed = (int)capacity;
    }
}

/* Of several memory nodes as near the first. */
static void set_processor(const functions *h, hwloc_topology_t t, hwloc_obj_t unit, ls_processor *p) {
    hwloc_obj_t o = unit;
    while (o && o->type != HWLOC_OBJ_CORE) o = o->parent;
    if (o) p->core = (int)o->logical_index;
    p->node = h->bitmap_first(unit->nodeset);
    set_kind(h, t, unit, p);
}

void ls_topology_ask_hwloc(ls_processor *p, int n) {
    functions h;
    hwloc_topology_t t;
    hwloc_obj_t unit;
    void *library = dlopen(library_name, RTLD_LAZY | RTLD_LOCAL);
    if (!library) return;
    if (!ls_library_find(library, symbols, sizeof symbols / sizeof *symbols, &h) && !h.topology_init(&t)) {
        bool loaded = load(&h, t);
        for (unsigned i = 0; loaded && (unit = h.get_obj_by_depth(t, h.get_type_depth(t, HWLOC_OBJ_PU), i)); i++)
            for (int k = 0; k < n; k++)
                if (p[k].cpu == (int)unit->os_index) set_processor(&h, t, unit, &p[k]);
        h.topology_destroy(t);
    }
    dlclose(library);
}
