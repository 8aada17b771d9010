/* What the library hwloc says of processors: cores, kinds of cores, memory nodes. It is loaded for the moment of asking: as part of the program it and what
 * it needs would keep a megabyte of every process resident. */
#ifndef LS_NATIVE_TOPOLOGY_HWLOC_H
#define LS_NATIVE_TOPOLOGY_HWLOC_H

enum { LS_SPEED_FULL = 1024 }; /* of the fastest kind of cores, as Linux scales capacities */

typedef struct ls_processor {
    int cpu, core; /* processors of one core have the same |core| */
    int rank;      /* among the allowed ones of its core */
    int speed;     /* of its kind of cores: the capacity that Linux tells on Arm */
    int order;     /* of its kind of cores among all, the slowest first; the same for all where hwloc cannot tell */
    int node;
} ls_processor;

/* Sets |core|, |speed|, |order| and |node| of the |n| processors |p|, and leaves those that hwloc does not know as they are. Sets nothing where
 * there is no hwloc of 2.4 or a later 2.x, or it finds nothing. Its variables hold, such as HWLOC_FSROOT and HWLOC_SYNTHETIC. */
void ls_topology_ask_hwloc(ls_processor *p, int n);

#endif
