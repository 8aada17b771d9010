/* Feature words come raw from the processor, so that code compiled for one machine is never taken for another's. */
#include "xla/host_target.h"

#include "native/cpu.h"

#if defined(__x86_64__)
#include <cpuid.h>

/* Leaf 1: EAX is family, model and stepping; EBX is left out, since it holds the number of the core that was asked. Leaf 7:
 * the feature words of subleaves 0 and 1. A leaf that is not there gives zeros. */
ls_code ls_host_target(ls_str *out, ls_error *e) {
    ls_cpu cpu;
    ls_cpu_detect(&cpu);
    unsigned a = 0, b = 0, c = 0, d = 0, f[8] = {0}, x;
    if (!__get_cpuid(1, &a, &b, &c, &d)) LS_FAIL(e, LS_FAILED_PRECONDITION, "this x86-64 processor does not answer CPUID leaf 1; its target is unknown");
    x = __get_cpuid_count(7, 0, &f[0], &f[1], &f[2], &f[3]) ? f[0] : 0;
    if (!x || !__get_cpuid_count(7, 1, &f[4], &f[5], &f[6], &f[7])) f[4] = 0;
    const char *level = cpu.best == LS_LEVEL_C ? "baseline" : ls_level_name(cpu.best == LS_LEVEL_AMX ? LS_LEVEL_AVX512 : cpu.best);
    return ls_str_printf(out, e, "x86-64 %s cpuid=%08x:%08x:%08x:%08x:%08x:%08x:%08x", level, a, c, d, f[1], f[2], f[3], f[4]);
}
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>

ls_code ls_host_target(ls_str *out, ls_error *e) {
    return ls_str_printf(out, e, "aarch64 hwcap=%lx hwcap2=%lx", getauxval(AT_HWCAP), getauxval(AT_HWCAP2));
}
#else
ls_code ls_host_target(ls_str *out, ls_error *e) {
    (void)out;
    LS_FAIL(e, LS_FAILED_PRECONDITION, "the host processor's target is unknown to this build; x86-64 and AArch64 Linux are known");
}
#endif
