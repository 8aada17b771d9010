/* lockstep emit: a model's StableHLO module for one entry. Needs no compiler, plugin or device. */
#include <string.h>

#include "cli/cli.h"
#include "cli/hub.h"
#include "contract/exact.h"
#include "models/model.h"
#include "xla/emit/artifact.h"

enum { OPT_ENTRY = 256, OPT_TOKENS, OPT_BATCH, OPT_CAPACITY, OPT_CONTRACT, OPT_PRECISION, OPT_QUANT, OPT_CARRIER, OPT_ARGMAX };

static const char help[] =
    "Usage: lockstep emit MODEL --entry NAME [OPTIONS]\n\n"
    "Writes the StableHLO text of one entry: weights are arguments, in order of first use, then the entry's inputs.\n"
    "Equal models and options give equal bytes. Operations carry the names of the graph's nodes as locations.\n\n"
    "  --entry NAME        prefill, prefill_embeddings, decode, decode_ragged, extend, extend_embeddings, or vision: the tower and\n"
    "                      projector of a model that sees, from the patches of one image to the rows that stand for it\n"
    "  --tokens N          rows of a prefill or extend; default: 64\n"
    "  --batch N           sequences of decode_ragged (4 or 8, any from 1 on) and of the extends; default: 4, extends 1\n"
    "  --capacity C        positions of the caches, a multiple of 256 that the model allows; default: 256\n"
    "  --contract NAME     exact16 (default), exact16-kv8, exact24 or float\n"
    "  --precision NAME    contract float: operands of products as f32 (default), f16 or bf16; sums stay f32\n"
    "  --quant NAME        contract float: dense (default), or packed: MLX weights are unpacked in the graph\n"
    "  --carrier NAME      exact contracts: numbers that carry integer products, f32 (default), f64 or i8; the same bits\n"
    "  --argmax            the token of the largest logit as the result, in place of the logits\n"
    "  -o, --output FILE   publishes FILE with its manifest FILE.aux.json, or keeps both when they verify; a manifest of another or\n"
    "                      newer program, or a damaged one, is refused. Default: standard output, the text alone\n"
    "  --help              this text\n\n"
    "Example: lockstep emit ./model --entry decode --capacity 1024 --contract exact24 -o decode.mlir\n";

typedef struct emit {
    const char *model, *output, *quant;
    ls_contract contract;
    ls_emit_options o;
    int tokens, batch, capacity; /* of the first two 0: not given */
    bool has_carrier, has_capacity;
} emit;

static ls_code carrier_of(const char *name, ls_carrier *out, ls_error *e) {
    static const char *const names[] = {"f32", "f64", "i8"};
    for (int i = 0; i < 3; i++)
        if (!strcmp(name, names[i])) {
            *out = (ls_carrier)i;
            return LS_OK;
        }
    LS_FAIL(e, LS_INVALID_ARGUMENT, "carrier \"%.80s\" is unknown; use f32, f64 or i8", name);
}

/* One option: 1 taken, 0 unknown, -1 bad (the message is printed). */
static int take(emit *m, int opt, const char *value) {
    ls_error e = {0};
    ls_code rc = LS_OK;
    switch (opt) {
    case OPT_ENTRY: rc = ls_entry_parse(value, &m->o.entry, &e); break;
    case OPT_TOKENS: return cli_int("emit", "--tokens", value, 1, LS_MAX_CHUNK, &m->tokens) ? 1 : -1;
    case OPT_BATCH: return cli_int("emit", "--batch", value, 1, LS_MAX_SLOTS, &m->batch) ? 1 : -1;
    case OPT_CAPACITY: m->has_capacity = true; return cli_int("emit", "--capacity", value, LS_EXACT_KEY_RANGE, LS_MAX_CONTEXT, &m->capacity) ? 1 : -1;
    case OPT_CONTRACT: rc = ls_contract_parse(value, &m->contract, &e); break;
    case OPT_PRECISION: rc = ls_precision_parse(value, &m->o.precision, &e); break;
    case OPT_QUANT: m->quant = value; break;
    case OPT_CARRIER: rc = carrier_of(value, &m->o.carrier, &e), m->has_carrier = true; break;
    case OPT_ARGMAX: m->o.argmax = true; break;
    case 'o': m->output = value; break;
    default: return 0;
    }
    if (!rc) return 1;
    cli_usage("emit", "%s", e.text);
    return -1;
}

static ls_code print_text(const ls_str *text, ls_error *e) {
    bool ok = fwrite(text->data, 1, text->len, stdout) == text->len;
    if (fflush(stdout) || !ok) LS_FAIL(e, LS_RESOURCE_EXHAUSTED, "writing standard output failed; is the disk full?");
    return LS_OK;
}

/* Positions past the model's maximum mean nothing. Capacities are multiples of LS_EXACT_KEY_RANGE, so the last one may exceed it. */
static ls_code check_capacity(const emit *m, const ls_graph *g, ls_error *e) {
    int64_t most = (g->max_context + LS_EXACT_KEY_RANGE - 1) / LS_EXACT_KEY_RANGE * LS_EXACT_KEY_RANGE;
    if (g->max_context && m->capacity > most)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "--capacity is %d; %s has %lld positions, so allowed are multiples of %d up to %lld", m->capacity, g->architecture,
                (long long)g->max_context, LS_EXACT_KEY_RANGE, (long long)most);
    return LS_OK;
}

static ls_code build_vision(emit *m, ls_vision *v, ls_checkpoint *c, const ls_build_options *build, ls_error *e) {
    LS_TRY(ls_vision_build(v, c, build, e));
    if (!v->graph) LS_FAIL(e, LS_INVALID_ARGUMENT, "entry vision: the model has no \"vision_config\", so it sees nothing");
    m->o.rows = v->graph->image_rows;
    m->o.out_rows = v->graph->image_out;
    m->o.capacity = 0;
    return LS_OK;
}

static ls_code run(emit *m, ls_error *e) {
    ls_arena *arena = NULL;
    ls_checkpoint *c = NULL;
    ls_graph *g = NULL;
    ls_vision vision = {0};
    const char *path;
    ls_emit_module module = {0};
    ls_published published;
    ls_code rc;
    ls_build_options build = {.contract = m->contract, .context = m->capacity};
    LS_GOTO(ls_arena_create(&arena, e));
    LS_GOTO(hub_resolve(arena, &path, m->model, e));
    LS_GOTO(ls_checkpoint_open(&c, path, e));
    if (m->o.entry == LS_ENTRY_VISION) LS_GOTO(build_vision(m, &vision, c, &build, e));
    else LS_GOTO(ls_model_build(&g, c, &build, e));
    if (g) LS_GOTO(check_capacity(m, g, e));
    const ls_graph *used = vision.graph ? vision.graph : g;
    LS_GOTO(ls_emit_entry(&module, used, &m->o, e));
    rc = m->output ? ls_emit_publish(m->output, &module, used, &m->o, &published, e) : print_text(&module.text, e);
out:
    ls_emit_module_deinit(&module);
    ls_vision_deinit(&vision);
    ls_graph_destroy(g);
    ls_checkpoint_close(c);
    ls_arena_destroy(arena);
    return rc;
}

static int finish_options(emit *m) {
    ls_entry entry = m->o.entry;
    bool ragged = entry == LS_ENTRY_DECODE_RAGGED;
    if (m->output && !*m->output) return cli_usage("emit", "-o is empty; name a file");
    if (entry == LS_ENTRY_VISION && (m->tokens || m->o.argmax || m->has_capacity))
        return cli_usage("emit", "--tokens, --capacity and --argmax are not for vision: the model's image decides");
    if (m->tokens && (ragged || entry == LS_ENTRY_DECODE)) return cli_usage("emit", "--tokens is for prefills and extends");
    if (m->batch && !ragged && entry != LS_ENTRY_EXTEND && entry != LS_ENTRY_EXTEND_EMBEDDINGS)
        return cli_usage("emit", "--batch is for decode_ragged and extends");
    if (m->has_carrier && m->contract == LS_CONTRACT_FLOAT) return cli_usage("emit", "--carrier is for exact contracts; float takes --precision");
    if (strcmp(m->quant, "dense") && strcmp(m->quant, "packed")) return cli_usage("emit", "quant \"%s\" is unknown; use dense or packed", m->quant);
    m->o.packed = !strcmp(m->quant, "packed");
    m->o.rows = ragged ? (m->batch ? m->batch : 4) : m->tokens ? m->tokens : 64;
    m->o.sequences = m->batch ? m->batch : 1;
    m->o.out_rows = 1;
    m->o.capacity = m->capacity;
    return CLI_OK;
}

int cli_emit(int argc, char **argv) {
    static const struct option options[] = {{"entry", required_argument, NULL, OPT_ENTRY}, {"tokens", required_argument, NULL, OPT_TOKENS},
                                            {"batch", required_argument, NULL, OPT_BATCH}, {"capacity", required_argument, NULL, OPT_CAPACITY},
                                            {"contract", required_argument, NULL, OPT_CONTRACT}, {"precision", required_argument, NULL, OPT_PRECISION},
                                            {"quant", required_argument, NULL, OPT_QUANT}, {"carrier", required_argument, NULL, OPT_CARRIER},
                                            {"argmax", no_argument, NULL, OPT_ARGMAX}, {"output", required_argument, NULL, 'o'},
                                            {"help", no_argument, NULL, 'h'}, {0}};
    emit m = {.capacity = LS_EXACT_KEY_RANGE, .quant = "dense", .o = {.entry = LS_ENTRY_COUNT}};
    ls_error e = {0};
    for (int opt; (opt = getopt_long(argc, argv, "o:h", options, NULL)) != -1;) {
        if (opt == 'h') return fputs(help, stdout) < 0;
        int taken = take(&m, opt, optarg);
        if (taken <= 0) return taken ? CLI_USAGE : cli_usage("emit", "wrong option");
    }
    if (argc - optind != 1) return cli_usage("emit", "give one model");
    if (m.o.entry == LS_ENTRY_COUNT)
        return cli_usage("emit", "give --entry: prefill, prefill_embeddings, decode, decode_ragged, extend, extend_embeddings or vision");
    m.model = argv[optind];
    int code = finish_options(&m);
    if (code) return code;
    return run(&m, &e) ? cli_fail(&e) : CLI_OK;
}
