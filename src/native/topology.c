/* Reading sysfs: cores and their hardware threads, kinds of cores, memory nodes, and the limit of the control group. */
#include "native/topology.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FULL_SPEED = 1024 }; /* capacity of the fastest core, as the kernel scales it */

typedef struct processor {
    int cpu, core; /* core: the lowest number of its processors */
    int rank;      /* among the allowed ones of its core */
    int speed, node;
} processor;

/* The first line of <root>/<file>, or "". */
static void read_line(const char *root, const char *file, char *line, int size) {
    char path[512];
    line[0] = 0;
    snprintf(path, sizeof path, "%s/%s", root, file);
    FILE *f = fopen(path, "r");
    if (!f) return;
    if (!fgets(line, size, f)) line[0] = 0;
    fclose(f);
}

/* Whether a list such as "0-3,8" has |cpu|. */
static bool is_listed(const char *list, int cpu) {
    for (char *end; *list >= '0' && *list <= '9'; list = *end == ',' ? end + 1 : end) {
        long first = strtol(list, &end, 10), last = *end == '-' ? strtol(end + 1, &end, 10) : first;
        if (cpu >= first && cpu <= last) return true;
    }
    return false;
}

/* The core's first processor; |cpu| itself where nothing is known. */
static int core_of(const char *root, int cpu) {
    char file[100], line[256];
    snprintf(file, sizeof file, "devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
    read_line(root, file, line, sizeof line);
    return *line >= '0' && *line <= '9' ? (int)strtol(line, NULL, 10) : cpu;
}

/* Arm tells capacities; x86 only which cores are the small ones: about half as fast. */
static int speed_of(const char *root, const char *small, int cpu) {
    char file[100], line[64];
    snprintf(file, sizeof file, "devices/system/cpu/cpu%d/cpu_capacity", cpu);
    read_line(root, file, line, sizeof line);
    int capacity = (int)strtol(line, NULL, 10);
    return capacity > 0 ? capacity : is_listed(small, cpu) ? FULL_SPEED / 2 : FULL_SPEED;
}

static int node_of(const char *root, int cpu) {
    char path[512];
    int node = 0;
    snprintf(path, sizeof path, "%s/devices/system/cpu/cpu%d", root, cpu);
    DIR *d = opendir(path);
    for (struct dirent *f; d && (f = readdir(d));)
        if (!strncmp(f->d_name, "node", 4) && f->d_name[4] >= '0' && f->d_name[4] <= '9') node = (int)strtol(f->d_name + 4, NULL, 10);
    if (d) closedir(d);
    return node;
}

static int by_preference(const void *pa, const void *pb) {
    const processor *a = pa, *b = pb;
    if (a->rank != b->rank) return a->rank - b->rank;
    if (a->speed != b->speed) return b->speed - a->speed;
    return a->node != b->node ? a->node - b->node : a->cpu - b->cpu;
}

/* Processors' worth of time that the control group of a container may use; 0: no limit known. */
static int quota(const char *root) {
    char line[64], *end;
    read_line(root, "fs/cgroup/cpu.max", line, sizeof line); /* "QUOTA PERIOD" or "max PERIOD" */
    double most = strtod(line, &end), period = strtod(end, NULL);
    if (!*line) {
        read_line(root, "fs/cgroup/cpu/cpu.cfs_quota_us", line, sizeof line);
        most = strtod(line, NULL);
        read_line(root, "fs/cgroup/cpu/cpu.cfs_period_us", line, sizeof line);
        period = strtod(line, NULL);
    }
    if (!(most > 0 && period > 0)) return 0;
    double n = most / period;
    return n < 1 ? 1 : n < CPU_SETSIZE ? (int)(n + 0.5) : 0;
}

void ls_topology_read(ls_topology *t, const char *root, const cpu_set_t *allowed) {
    processor p[CPU_SETSIZE];
    char small[1024];
    int n = 0, limit = quota(root);
    read_line(root, "devices/cpu_atom/cpus", small, sizeof small);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, allowed)) continue;
        p[n] = (processor){.cpu = cpu, .core = core_of(root, cpu), .speed = speed_of(root, small, cpu), .node = node_of(root, cpu)};
        for (int i = 0; i < n; i++) p[n].rank += p[i].core == p[n].core;
        n++;
    }
    qsort(p, (size_t)n, sizeof *p, by_preference);
    *t = (ls_topology){.n = n};
    for (int i = 0; i < n; i++) {
        t->cpu[i] = p[i].cpu;
        t->threads += p[i].rank == 0 && 4 * p[i].speed >= 3 * p[0].speed;
    }
    if (limit && limit < t->threads) t->threads = limit;
}

void ls_topology_here(ls_topology *t) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) || !CPU_COUNT(&set)) {
        long n = sysconf(_SC_NPROCESSORS_ONLN);
        CPU_ZERO(&set);
        for (int cpu = 0; cpu < (n < 1 ? 1 : n < CPU_SETSIZE ? (int)n : CPU_SETSIZE); cpu++) CPU_SET(cpu, &set);
    }
    ls_topology_read(t, "/sys", &set);
}
