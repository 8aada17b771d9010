/* lockstep oracle: single operators on a device compiler or executor against references. Its exit codes are its own: 0 all
 * passed, 1 a probe failed or a report claims too much, 2 a probe could not run. */
#include <string.h>

#include "base/sha256.h"
#include "cli/build_info.h"
#include "cli/cli.h"
#include "verify/oracle_suite.h"
#include "xla/executor.h"
#include "xla/host_target.h"
#include "xla/iree.h"
#include "xla/pjrt.h"

enum { ORACLE_PASSED = 0, ORACLE_FAILED = 1, ORACLE_NOT_RUN = 2 };

static const char help[] =
    "Usage: lockstep oracle [OPTIONS]\n\n"
    "Runs small probes of single operators and compares each with its reference: the float operators' probes on a device\n"
    "compiler, and every operator of the exact contracts, bit for bit, on an executor (docs/qualification.md).\n\n"
    "  --engine NAME   pjrt (default) or iree: float and exact probes; native or reference: exact probes alone\n"
    "  --plugin PATH   pjrt: the plugin; default: LOCKSTEP_PJRT_PLUGIN, or the first that is found\n"
    "  --device NAME   pjrt: cpu (default), cuda, rocm, ...; iree: local-task (default), local-sync, cuda, hip, metal\n"
    "  --target NAME   iree: the GPU architecture, e.g. gfx942\n"
    "  --only TEXT     only probes whose name contains TEXT\n"
    "  --list          names of the probes, without running them\n"
    "  --json          the reports as a JSON array on standard output\n"
    "  --help          this text\n"
    "\nExit codes: 0 all passed, 1 a probe failed, 2 a probe could not run.\n"
    "\nExample: lockstep oracle --engine pjrt --only softmax\n"
    "Example: lockstep oracle --engine native --json\n";

typedef struct oracle {
    const char *engine_name, *plugin, *device, *gpu, *only;
    bool json, list;
    ls_oracle_target target;
    ls_engine *engine;
    /* identity of an executor of this program */
    ls_engine_identity own;
    ls_str host;
    char sha[65];
} oracle;

/* ---- What is judged --------------------------------------------------------------------------------------------------------- */

static ls_code create_xla(void *user, ls_executor **out, const ls_graph *g, const ls_executor_options *o, ls_error *e) {
    return ls_xla_create(out, g, NULL, ((oracle *)user)->engine, NULL, o, e);
}

static ls_code create_native(void *user, ls_executor **out, const ls_graph *g, const ls_executor_options *o, ls_error *e) {
    (void)user;
    return ls_native_create(out, g, NULL, o, e);
}

static ls_code create_reference(void *user, ls_executor **out, const ls_graph *g, const ls_executor_options *o, ls_error *e) {
    (void)user;
    return ls_reference_create(out, g, o, e);
}

/* An executor of this program is identified by the program's own file. */
static ls_code identify_own(oracle *x, ls_error *e) {
    ls_map program;
    LS_TRY(ls_map_open(&program, "/proc/self/exe", e));
    ls_sha256_hex_of(program.data, program.size, x->sha);
    ls_map_close(&program);
    LS_TRY(ls_host_target(&x->host, e));
    x->own = (ls_engine_identity){.runtime = x->engine_name, .platform = "cpu", .version = LS_VERSION_STRING, .library = "lockstep", .library_sha256 = x->sha,
                                  .compiler = LS_BUILD_COMPILER, .flags = LS_BUILD_FLAGS, .target = x->host.data, .device = ls_native_level()};
    return LS_OK;
}

static ls_code open_target(oracle *x, ls_error *e) {
    bool native = !strcmp(x->engine_name, "native");
    if (native || !strcmp(x->engine_name, "reference")) {
        LS_TRY(identify_own(x, e));
        x->target = (ls_oracle_target){.create = native ? create_native : create_reference, .create_user = x, .identity = &x->own};
        return LS_OK;
    }
    if (!strcmp(x->engine_name, "pjrt")) LS_TRY(ls_pjrt_open(&x->engine, &(ls_pjrt_options){.plugin = x->plugin, .device = x->device}, e));
    else if (!strcmp(x->engine_name, "iree")) LS_TRY(ls_iree_open(&x->engine, &(ls_iree_options){.device = x->device, .target = x->gpu}, e));
    else LS_FAIL(e, LS_INVALID_ARGUMENT, "engine \"%s\" is unknown; use pjrt, iree, native or reference", x->engine_name);
    x->target = (ls_oracle_target){.engine = x->engine, .create = create_xla, .create_user = x, .identity = &x->engine->identity};
    return LS_OK;
}

static void close_target(oracle *x) {
    if (x->engine) x->engine->ops->destroy(x->engine);
    ls_str_deinit(&x->host);
}

/* ---- Running ---------------------------------------------------------------------------------------------------------------- */

static void print_line(const char *name, const json_t *report) {
    const json_t *comparison = json_object_get(report, "comparison"), *first = json_object_get(report, "first_divergence");
    const char *mode = json_string_value(json_object_get(json_object_get(comparison, "mode"), "kind"));
    bool passed = json_is_true(json_object_get(report, "passed")), qualified = json_is_true(json_object_get(report, "production_qualified"));
    printf("%-6s %-44s %7lld values  max abs %-12.6g %s%s\n", passed ? "pass" : "FAIL", name, (long long)json_integer_value(json_object_get(comparison,
            "elements")),
           json_real_value(json_object_get(comparison, "max_absolute")), mode, qualified ? ", qualified" : "");
    if (json_is_object(first))
        printf("       first of %lld at %lld: reference 0x%08llx, candidate 0x%08llx\n", (long long)json_integer_value(json_object_get(comparison, "failures")),
               (long long)json_integer_value(json_object_get(first, "flat_index")), (unsigned long long)json_integer_value(json_object_get(first,
                       "reference_bits")),
               (unsigned long long)json_integer_value(json_object_get(first, "candidate_bits")));
}

/* Runs one probe; the worse of |code| and its own. */
static int run_probe(const oracle *x, size_t i, const char *name, json_t *reports, int code) {
    ls_error e = {0};
    json_t *report = NULL;
    ls_code rc = ls_oracle_run_probe(&x->target, i, &report, &e);
    bool passed = !rc && json_is_true(json_object_get(report, "passed"));
    if (!x->json && !rc) print_line(name, report);
    if (rc) cli_fail(&e);
    if (report) json_array_append_new(reports, report);
    if (rc) return ORACLE_NOT_RUN;
    return passed || code > ORACLE_FAILED ? code : ORACLE_FAILED;
}

static int run_all(const oracle *x) {
    json_t *reports = json_array();
    int code = ORACLE_PASSED;
    size_t chosen = 0;
    for (size_t i = 0; i < ls_oracle_count(&x->target); i++) {
        char name[96];
        ls_oracle_name(&x->target, i, name);
        if (x->only && !strstr(name, x->only)) continue;
        chosen++;
        if (x->list) puts(name);
        else code = run_probe(x, i, name, reports, code);
    }
    if (!chosen) {
        json_decref(reports);
        fprintf(stderr, "lockstep oracle: no probe's name contains \"%s\"; --list shows them\n", x->only ? x->only : "");
        return ORACLE_NOT_RUN;
    }
    if (x->json && !x->list) return cli_print_json(reports) ? ORACLE_NOT_RUN : code;
    json_decref(reports);
    if (!x->list) printf("%zu probes: %s\n", chosen, code == ORACLE_PASSED ? "all passed" : code == ORACLE_FAILED ? "some failed" : "some could not run");
    return code;
}

int cli_oracle(int argc, char **argv) {
    enum { ENGINE = 256, PLUGIN, DEVICE, TARGET, ONLY, LIST, JSON };
    static const struct option options[] = {{"engine", required_argument, NULL, ENGINE}, {"plugin", required_argument, NULL, PLUGIN}, {"device",
            required_argument, NULL, DEVICE},
                                            {"target", required_argument, NULL, TARGET}, {"only", required_argument, NULL, ONLY}, {"list", no_argument, NULL,
                                                    LIST},
                                            {"json", no_argument, NULL, JSON}, {"help", no_argument, NULL, 'h'}, {0}};
    oracle x = {.engine_name = "pjrt"};
    for (int opt; (opt = getopt_long(argc, argv, "h", options, NULL)) != -1;) {
        if (opt == 'h') return fputs(help, stdout) < 0;
        if (opt == ENGINE) x.engine_name = optarg;
        else if (opt == PLUGIN) x.plugin = optarg;
        else if (opt == DEVICE) x.device = optarg;
        else if (opt == TARGET) x.gpu = optarg;
        else if (opt == ONLY) x.only = optarg;
        else if (opt == LIST) x.list = true;
        else if (opt == JSON) x.json = true;
        else return cli_usage("oracle", "wrong option");
    }
    if (optind != argc) return cli_usage("oracle", "takes no arguments besides options");
    bool pjrt = !strcmp(x.engine_name, "pjrt"), iree = !strcmp(x.engine_name, "iree");
    if (x.plugin && !pjrt) return cli_usage("oracle", "--plugin is for --engine pjrt");
    if (x.gpu && !iree) return cli_usage("oracle", "--target is for --engine iree");
    if (x.device && !pjrt && !iree) return cli_usage("oracle", "--device is for --engine pjrt and iree");
    ls_error e = {0};
    int code = open_target(&x, &e) ? ORACLE_NOT_RUN : run_all(&x);
    if (e.code) cli_fail(&e);
    close_target(&x);
    return code;
}
