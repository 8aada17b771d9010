/* The order of processors and the number of threads from made-up trees that hwloc reads: hardware threads, kinds of cores, memory nodes, containers; and the
 * pinning of this machine's pool. */
#include "test.h"

#include <errno.h>
#include <ftw.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "native/pool.h"
#include "native/topology.h"

/* ---- Trees --------------------------------------------------------------------------------------------------------- */

static char root[64], sys[72]; /* sys: root/sys */

static int make_root(void **state) {
    (void)state;
    strcpy(root, "/tmp/lockstep-sysfs-XXXXXX");
    if (!mkdtemp(root)) return -1;
    snprintf(sys, sizeof sys, "%s/sys", root);
    return mkdir(sys, 0700) || setenv("HWLOC_FSROOT", root, 1);
}

static int remove_entry(const char *path, const struct stat *s, int kind, struct FTW *at) {
    (void)s, (void)kind, (void)at;
    return remove(path);
}

static int remove_root(void **state) {
    (void)state;
    unsetenv("HWLOC_FSROOT");
    unsetenv("HWLOC_SYNTHETIC");
    return nftw(root, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

/* Folders of sys/|file|, and the file. */
static void put(const char *file, const char *text) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", sys, file);
    for (char *slash = path + strlen(sys) + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = 0;
        assert_true(!mkdir(path, 0700) || errno == EEXIST);
        *slash = '/';
    }
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f, "%s\n", text);
    assert_int_equal(fclose(f), 0);
}

/* |text| in a file of processor |cpu|. */
static void put_of(int cpu, const char *file, const char *text) {
    char path[128];
    snprintf(path, sizeof path, "devices/system/cpu/cpu%d/%s", cpu, file);
    put(path, text);
}

/* |siblings|: its core's processors as a hexadecimal mask. */
static void put_cpu(int cpu, unsigned siblings) {
    char mask[16];
    snprintf(mask, sizeof mask, "%x", siblings);
    put_of(cpu, "topology/core_cpus", mask);
}

/* Reads the tree for the processors of |allowed|, "0-3" being "0 1 2 3", and compares. */
static void check(const char *allowed, const char *order, int threads) {
    ls_topology t;
    cpu_set_t set;
    char got[256] = "";
    size_t at = 0;
    CPU_ZERO(&set);
    for (char *end; *allowed; allowed = *end ? end + 1 : end) CPU_SET((size_t)strtol(allowed, &end, 10), &set);
    ls_topology_read(&t, sys, &set);
    for (int i = 0; i < t.n; i++) at += (size_t)snprintf(got + at, sizeof got - at, "%s%d", i ? " " : "", t.cpu[i]);
    assert_string_equal(got, order);
    assert_int_equal(t.threads, threads);
}

static void hardware_threads_come_last(void **state) {
    (void)state;
    for (int cpu = 0; cpu < 4; cpu++) put_cpu(cpu, cpu % 2 ? 0xa : 0x5);
    check("0 1 2 3", "0 1 2 3", 2);
    check("0 2 3", "0 3 2", 2);
    check("2", "2", 1);
}

static void small_cores_wait_to_be_asked_for(void **state) {
    (void)state;
    put("devices/cpu_atom/cpus", "0-1,6-7");
    put("devices/cpu_core/cpus", "2-5");
    for (int cpu = 0; cpu < 8; cpu++) put_cpu(cpu, cpu == 2 || cpu == 3 ? 0xc : cpu == 4 || cpu == 5 ? 0x30 : 1U << cpu);
    check("0 1 2 3 4 5 6 7", "2 4 0 1 6 7 3 5", 2);
    check("0 1 6", "0 1 6", 3);
    put("devices/cpu_atom/cpus", "0-1");
    put("devices/cpu_lowpower/cpus", "6-7");
    check("0 1 2 3 4 5 6 7", "2 4 0 1 6 7 3 5", 2);
}

static void capacities_tell_kinds(void **state) {
    (void)state;
    static const char *const capacity[] = {"430", "1024", "1024", "870"};
    for (int cpu = 0; cpu < 4; cpu++) {
        put_cpu(cpu, 1U << cpu);
        put_of(cpu, "cpu_capacity", capacity[cpu]);
    }
    check("0 1 2 3", "1 2 3 0", 3);
}

/* How much slower the others are, a frequency does not tell: all are used. */
static void cores_of_higher_frequency_come_first(void **state) {
    (void)state;
    for (int cpu = 0; cpu < 4; cpu++) {
        put_cpu(cpu, 1U << cpu);
        put_of(cpu, "cpufreq/cpuinfo_max_freq", cpu < 2 ? "3300000" : "5100000");
    }
    check("0 1 2 3", "2 3 0 1", 4);
}

static void node_after_node(void **state) {
    (void)state;
    for (int cpu = 0; cpu < 8; cpu++) put_cpu(cpu, 0x11U << cpu % 4);
    put("devices/system/node/node0/cpumap", "55");
    put("devices/system/node/node1/cpumap", "aa");
    check("0 1 2 3 4 5 6 7", "0 2 1 3 4 6 5 7", 4);
    check("1 2 5 7", "2 1 7 5", 3);
}

/* Not from a tree, but as hwloc has it; the tree only says that the machine describes cores. */
static void two_sockets(void **state) {
    (void)state;
    put_cpu(0, 1);
    unsetenv("HWLOC_FSROOT");
    setenv("HWLOC_SYNTHETIC", "pack:2 [numa] core:2 pu:2(indexes=0,4,2,6,1,5,3,7)", 1);
    check("0 1 2 3 4 5 6 7", "0 2 1 3 4 6 5 7", 4);
}

static void processors_that_hwloc_does_not_know_are_cores(void **state) {
    (void)state;
    for (int cpu = 0; cpu < 2; cpu++) put_cpu(cpu, 3);
    check("0 1 7", "0 7 1", 2);
}

/* In silence, too: hwloc would write to the error stream. */
static void without_sysfs_all_are_alike(void **state) {
    (void)state;
    FILE *f = tmpfile();
    int errors = dup(STDERR_FILENO);
    assert_true(f && errors >= 0 && dup2(fileno(f), STDERR_FILENO) >= 0);
    ls_topology t = {0};
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(0, &set);
    ls_topology_read(&t, sys, &set);
    assert_true(dup2(errors, STDERR_FILENO) >= 0);
    close(errors);
    assert_int_equal(fseek(f, 0, SEEK_END) ? -1 : ftell(f), 0);
    fclose(f);
    check("0 3 9", "0 3 9", 3);
}

static void a_container_has_a_share(void **state) {
    (void)state;
    put("fs/cgroup/cpu.max", "max 100000");
    check("0 1 2 3", "0 1 2 3", 4);
    put("fs/cgroup/cpu.max", "250000 100000");
    check("0 1 2 3", "0 1 2 3", 3);
    put("fs/cgroup/cpu.max", "20000 100000");
    check("0 1 2 3", "0 1 2 3", 1);
    put("fs/cgroup/cpu.max", "9900000 100000");
    check("0 1 2 3", "0 1 2 3", 4);
}

static void an_older_container_too(void **state) {
    (void)state;
    put("fs/cgroup/cpu/cpu.cfs_quota_us", "-1");
    put("fs/cgroup/cpu/cpu.cfs_period_us", "100000");
    check("0 1 2 3", "0 1 2 3", 4);
    put("fs/cgroup/cpu/cpu.cfs_quota_us", "200000");
    check("0 1 2 3", "0 1 2 3", 2);
}

/* ---- The pool ------------------------------------------------------------------------------------------------------ */

enum { THREADS = 5 };

static void note_affinity(void *ctx, int thread, int threads) {
    cpu_set_t *set = ctx;
    (void)threads;
    if (sched_getaffinity(0, sizeof *set, &set[thread])) CPU_ZERO(&set[thread]);
}

static void pinned_workers_stay(void **state) {
    ls_pool *p;
    ls_error e = {0};
    ls_topology here;
    cpu_set_t before, set[THREADS];
    (void)state;
    ls_topology_here(&here);
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    for (int pin = 0; pin < 2; pin++) {
        assert_ok(ls_pool_create(&p, THREADS, pin, 0, &e));
        ls_pool_run(p, note_affinity, set);
        for (int i = 0; i < THREADS; i++) {
            assert_int_equal(CPU_COUNT(&set[i]), pin && i ? 1 : CPU_COUNT(&before));
            assert_true(CPU_ISSET((size_t)here.cpu[i % here.n], &set[i]));
        }
        ls_pool_destroy(p);
    }
    assert_ok(ls_pool_create(&p, 0, true, 0, &e));
    assert_int_equal(ls_pool_threads(p), here.threads);
    ls_pool_destroy(p);
}

int main(void) {
#define TREE(test) cmocka_unit_test_setup_teardown(test, make_root, remove_root)
    const struct CMUnitTest tests[] = {TREE(hardware_threads_come_last), TREE(small_cores_wait_to_be_asked_for), TREE(capacities_tell_kinds),
                                       TREE(node_after_node), TREE(cores_of_higher_frequency_come_first), TREE(two_sockets),
                                       TREE(processors_that_hwloc_does_not_know_are_cores), TREE(without_sysfs_all_are_alike), TREE(a_container_has_a_share),
                                       TREE(an_older_container_too), cmocka_unit_test(pinned_workers_stay)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
