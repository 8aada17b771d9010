/* lockstep arch: the registry of model families. */
#include "cli/cli.h"
#include "models/model.h"

static const char help[] =
    "Usage: lockstep arch [--json]\n\n"
    "Lists the model families (model_type of config.json) that can be loaded.\n\n"
    "  --json     as a JSON array\n"
    "  --help     this text\n\n"
    "Example: lockstep arch\n";

int cli_arch(int argc, char **argv) {
    static const struct option options[] = {{"json", no_argument, NULL, 'j'}, {"help", no_argument, NULL, 'h'}, {0}};
    bool json = false;
    for (int opt; (opt = getopt_long(argc, argv, "h", options, NULL)) != -1;) {
        if (opt == 'h') return fputs(help, stdout) < 0;
        if (opt != 'j') return cli_usage("arch", "wrong option");
        json = true;
    }
    if (optind != argc) return cli_usage("arch", "takes no arguments");
    json_t *list = json_array();
    for (size_t i = 0; ls_family_at(i); i++) {
        const ls_family *f = ls_family_at(i);
        if (json) json_array_append_new(list, json_pack("{s:s, s:s}", "model_type", f->model_type, "description", f->description));
        else printf("%-14s %s\n", f->model_type, f->description);
    }
    if (json) return cli_print_json(list);
    json_decref(list);
    return CLI_OK;
}
