/* The processors that this process may use, in the order in which threads should take them: from hwloc, and without it as if all were alike. */
#ifndef LS_NATIVE_TOPOLOGY_H
#define LS_NATIVE_TOPOLOGY_H

#include <sched.h>
#include <stddef.h>

typedef struct ls_topology {
    int n, cpu[CPU_SETSIZE]; /* first one processor of every core, the fastest kind first and node after node; then their siblings */
    int threads;             /* to run without being told: one for each core of the fastest kind, no more than the control group's share of time allows */
} ls_topology;

/* |root| is "/sys", or a folder laid out like it; where it describes cores hwloc is asked, which reads the tree above "/sys" in HWLOC_FSROOT instead when that
 * is set. |allowed|: processors of this process (sched_getaffinity); at least one. */
void ls_topology_read(ls_topology *t, const char *root, const cpu_set_t *allowed);

/* The same of this process on this machine. */
void ls_topology_here(ls_topology *t);

#endif
