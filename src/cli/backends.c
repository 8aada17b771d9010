/* What can run backend xla on this machine, and what is missing for the rest: for --backend xla --help. */
#include <string.h>

#include "cli/options.h"
#include "xla/iree.h"
#include "xla/iree_library.h"
#include "xla/pjrt.h"

static void print_engine(FILE *out, const char *name, const char *device, ls_code rc, ls_engine *x, const ls_error *e) {
    if (rc) fprintf(out, "  %-4s  %-10s  no: %s\n", name, device, e->text);
    else fprintf(out, "  %-4s  %-10s  yes: %s, %s, %s\n", name, device, x->identity.device, x->identity.version, x->identity.library);
    if (!rc) x->ops->destroy(x);
}

/* Opening is the only way to know: a plugin may be there without its device or libraries. */
static void list_pjrt(FILE *out) {
    for (size_t i = 0; ls_pjrt_device_at(i); i++) {
        ls_engine *x = NULL;
        ls_error e = {0};
        ls_code rc = ls_pjrt_open(&x, &(ls_pjrt_options){.device = ls_pjrt_device_at(i)}, &e);
        if (rc == LS_NOT_FOUND) snprintf(e.text, sizeof e.text, "no plugin found; %s", ls_pjrt_install_hint(ls_pjrt_device_at(i)));
        print_engine(out, "pjrt", ls_pjrt_device_at(i), rc, x, &e);
    }
}

static void list_packages(FILE *out) {
    ls_pjrt_list l = {0};
    if (!ls_pjrt_find(&l, NULL))
        for (size_t i = 0; i < l.n; i++) fprintf(out, "  plugin  %s %s: %s\n", l.found[i].package, l.found[i].version, l.found[i].path);
    ls_pjrt_list_deinit(&l);
}

static void list_iree(FILE *out) {
    static const char *const devices[] = {"local-task", "local-sync"};
    ls_arena *a = NULL;
    ls_iree_library lib;
    ls_error e = {0};
    ls_code rc = ls_arena_create(&a, &e);
    if (!rc) rc = ls_iree_library_open(&lib, a, NULL, &e);
    if (rc) {
        fprintf(out, "  iree  compiler    no: %s\n", e.text);
    } else {
        fprintf(out, "  iree  compiler    yes: %s\n", lib.path);
        for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
            ls_engine *x = NULL;
            rc = ls_iree_open(&x, &(ls_iree_options){.device = devices[i]}, &e);
            print_engine(out, "iree", devices[i], rc, x, &e);
            if (!ls_iree_has_runtime()) break;
        }
    }
    if (ls_iree_has_runtime()) fprintf(out, "  iree  cuda, hip, metal  where the runtime has their drivers; cuda and hip with --gpu-target\n");
    ls_arena_destroy(a);
}

void cli_list_backends(FILE *out) {
    fprintf(out, "\nBackend xla on this machine (engine, device):\n");
    list_pjrt(out);
    list_iree(out);
    list_packages(out);
    fprintf(out, "Plugins are looked for in Python environments; LOCKSTEP_PYTHON_ENV names one, LOCKSTEP_PJRT_PLUGIN a plugin file.\n");
}
