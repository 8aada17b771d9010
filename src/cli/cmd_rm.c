/* lockstep rm: deletes one model's folder from the Hugging Face cache. */
#include <errno.h>
#include <ftw.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/hub.h"

static const char help[] =
    "Usage: lockstep rm ORG/NAME [--yes]\n\n"
    "Deletes a model from the Hugging Face cache, all revisions of it.\n\n"
    "  -y, --yes  do not ask\n"
    "  --help     this text\n\n"
    "Example: lockstep rm HuggingFaceTB/SmolLM2-135M-Instruct --yes\n";

static int delete_entry(const char *path, const struct stat *st, int type, struct FTW *ftw) {
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

static bool is_confirmed(const char *name, const char *folder) {
    char answer[8] = "";
    if (!isatty(STDIN_FILENO)) {
        cli_usage("rm", "refusing to delete %s without --yes when standard input is no terminal", name);
        return false;
    }
    fprintf(stderr, "Delete %s (%s)? [y/N] ", name, folder);
    return fgets(answer, sizeof answer, stdin) && (*answer == 'y' || *answer == 'Y');
}

static ls_code delete_model(const char *folder, ls_error *e) {
    if (!ls_is_folder(folder)) LS_FAIL(e, LS_NOT_FOUND, "\"%s\" is not in the cache; see lockstep list", folder);
    if (nftw(folder, delete_entry, 16, FTW_DEPTH | FTW_PHYS)) LS_FAIL(e, LS_PERMISSION_DENIED, "cannot delete \"%s\": %s", folder, strerror(errno));
    return LS_OK;
}

int cli_rm(int argc, char **argv) {
    static const struct option options[] = {{"yes", no_argument, NULL, 'y'}, {"help", no_argument, NULL, 'h'}, {0}};
    bool yes = false;
    for (int opt; (opt = getopt_long(argc, argv, "hy", options, NULL)) != -1;) {
        if (opt == 'h') return fputs(help, stdout) < 0;
        if (opt != 'y') return cli_usage("rm", "wrong option");
        yes = true;
    }
    if (argc - optind != 1) return cli_usage("rm", "give one model name, org/name");
    ls_error e = {0};
    ls_arena *a = NULL;
    const char *folder;
    ls_code rc = ls_arena_create(&a, &e);
    if (!rc) rc = hub_check_name(argv[optind], &e);
    if (!rc) rc = hub_repo_folder(a, &folder, argv[optind], &e);
    int code = CLI_OK;
    if (!rc && !yes && ls_is_folder(folder) && !is_confirmed(argv[optind], folder)) code = CLI_USAGE;
    else if (!rc) rc = delete_model(folder, &e);
    ls_arena_destroy(a);
    return rc ? cli_fail(&e) : code;
}
