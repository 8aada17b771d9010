/* lockstep: the command line. Finds the command and hands over. */
#include <stdlib.h>
#include <string.h>

#include "cli/build_info.h"
#include "cli/cli.h"
#include "contract/contract.h"

static const cli_command commands[] = {
    {"run", "chat with a model, or answer one question", cli_run, CLI_FAILED},
    {"generate", "continue a raw prompt; greedy unless told otherwise", cli_generate, CLI_FAILED},
    {"tokenize", "text to token ids and back", cli_tokenize, CLI_FAILED},
    {"inspect", "what a model is and needs", cli_inspect, CLI_FAILED},
    {"arch", "list the supported model families", cli_arch, CLI_FAILED},
    {"bench", "measure prefill and decode speed", cli_bench, CLI_FAILED},
    {"pack", "write a model as one file that starts at once", cli_pack, CLI_FAILED},
    {"verify", "compare two executors node by node", cli_verify, 2},
    {"emit", "write a model as a StableHLO module", cli_emit, CLI_FAILED},
    {"oracle", "check single operators of a device compiler or executor", cli_oracle, 2},
    {"qualify", "check a model on a device compiler, so that backend xla serves it", cli_qualify, 2},
    {"list", "list the models in the cache", cli_list, CLI_FAILED},
#ifdef LS_HAVE_CURL
    {"pull", "download a model into the cache", cli_pull, CLI_FAILED},
#endif
    {"rm", "delete a model from the cache", cli_rm, CLI_FAILED},
};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

static int print_help(FILE *out) {
    fprintf(out, "lockstep: language models whose answers do not move\n\nUsage: lockstep COMMAND [OPTIONS]\n\nCommands:\n");
    for (int i = 0; i < N_COMMANDS; i++) fprintf(out, "  %-10s %s\n", commands[i].name, commands[i].summary);
    fprintf(out, "\n  lockstep COMMAND --help   options and an example\n  lockstep --version        version, compiler, flags, level, contracts\n"
                 "\nExample: lockstep run ./SmolLM2-135M-Instruct.Q4_1.gguf -p \"What is the capital of France?\"\n"
                 "\nExit codes: 0 success, 1 failure, 2 wrong usage, 130 interrupted.\n");
    return CLI_OK;
}

static int print_version(void) {
    printf("lockstep %s\ncompiler: %s\nflags: %s\ntarget: %s\n", LS_VERSION_STRING, LS_BUILD_COMPILER, LS_BUILD_FLAGS, LS_BUILD_TARGET);
    printf("backends:");
    for (size_t i = 0; ls_backend_at(i); i++) printf(" %s", ls_backend_at(i));
    printf("\nlevel: %s\ncontracts:", ls_machine_level());
    for (int c = 0; c < LS_CONTRACT_COUNT; c++)
        printf(" %s version %d%s", ls_contract_name((ls_contract)c), LS_CONTRACT_VERSION, c + 1 < LS_CONTRACT_COUNT ? "," : "\n");
    return CLI_OK;
}

/* A result that standard output did not take is neither a success nor a verdict. */
static int finish(int code, int lost) {
    if (code >= lost || (!fflush(stdout) && !ferror(stdout))) return code;
    fprintf(stderr, "lockstep: cannot write to standard output\n");
    return lost;
}

int main(int argc, char **argv) {
    const char *name = argc > 1 ? argv[1] : "";
    setenv("TF_CPP_MIN_LOG_LEVEL", "3", 0); /* PJRT plugins otherwise write notes to standard error */
    if (!strcmp(name, "--help") || !strcmp(name, "-h") || !strcmp(name, "help")) return finish(print_help(stdout), CLI_FAILED);
    if (!strcmp(name, "--version") || !strcmp(name, "-V")) return finish(print_version(), CLI_FAILED);
    for (int i = 0; i < N_COMMANDS; i++)
        if (!strcmp(name, commands[i].name)) return finish(commands[i].run(argc - 1, argv + 1), commands[i].lost);
    if (*name) fprintf(stderr, "lockstep: \"%s\" is no command\n\n", name);
    print_help(stderr);
    return CLI_USAGE;
}
