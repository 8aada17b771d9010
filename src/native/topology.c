/* The order of processors; around hwloc what it does not tell: the limit of the control group, and which cores of an x86 processor are the small ones. */
#include "native/topology.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "native/topology_hwloc.h"

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

/* x86 tells no capacities, only which cores are the small ones: about half as fast. hwloc looks there from 2.10 and 2.12 on. */
static void mark_small_cores(const char *root, ls_processor *p, int n) {
    static const char *const files[] = {"devices/cpu_atom/cpus", "devices/cpu_lowpower/cpus"};
    char small[1024];
    for (int f = 0; f < 2; f++) {
        read_line(root, files[f], small, sizeof small);
        for (int i = 0; i < n; i++)
            if (is_listed(small, p[i].cpu)) p[i].speed = LS_SPEED_FULL / 2;
    }
}

/* Where the system describes no cores, hwloc would say so on the error stream. */
static bool has_cores(const char *root, int cpu) {
    char path[512];
    snprintf(path, sizeof path, "%s/devices/system/cpu/cpu%d/topology", root, cpu);
    return !access(path, F_OK);
}

static int by_preference(const void *pa, const void *pb) {
    const ls_processor *a = pa, *b = pb;
    if (a->rank != b->rank) return a->rank - b->rank;
    if (a->speed != b->speed) return b->speed - a->speed;
    if (a->node != b->node) return a->node - b->node;
    return a->order != b->order ? b->order - a->order : a->cpu - b->cpu;
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
    ls_processor p[CPU_SETSIZE];
    int n = 0, limit = quota(root);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, allowed)) p[n++] = (ls_processor){.cpu = cpu, .core = -1 - cpu, .speed = LS_SPEED_FULL};
    if (n && has_cores(root, p[0].cpu)) ls_topology_ask_hwloc(p, n);
    mark_small_cores(root, p, n);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < i; k++) p[i].rank += p[k].core == p[i].core;
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
