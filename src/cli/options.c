/* Shared options, and opening the model they describe. */
#include "cli/options.h"

#include "cli/hub.h"

void cli_options_init(cli_options *o, const char *command) {
    *o = (cli_options){.command = command, .model = {.struct_size = sizeof(ls_model_options)}, .sampling = {.struct_size = sizeof(ls_sampling)}};
}

/* A window as the user counts it: -1 is all, 0 switches the stage off. */
static bool take_window(const cli_options *o, const char *option, const char *value, int *window, bool *off) {
    int n;
    if (!cli_int(o->command, option, value, -1, LS_MAX_CONTEXT, &n)) return false;
    *off = n == 0;
    *window = n < 0 ? 0 : n;
    return true;
}

static int take_model(cli_options *o, int opt, const char *value) {
    ls_model_options *m = &o->model;
    switch (opt) {
    case OPT_CONTRACT: m->contract = value; return 1;
    case OPT_BACKEND: m->backend = value; return 1;
    case OPT_LEVEL: m->level = value; return 1;
    case OPT_ENGINE: m->engine = value; return 1;
    case OPT_DEVICE: m->device = value; return 1;
    case OPT_PLUGIN: m->plugin = value; return 1;
    case OPT_GPU_TARGET: m->gpu_target = value; return 1;
    case OPT_PRECISION: m->precision = value; return 1;
    case OPT_QUANT: m->quant = value; return 1;
    case OPT_BUCKETS: m->buckets = value; return 1;
    case OPT_THREADS: return cli_int(o->command, "--threads", value, 1, 1024, &m->threads) ? 1 : -1;
    case OPT_CTX_SIZE: return cli_int(o->command, "--ctx-size", value, 1, LS_MAX_CONTEXT, &m->context) ? 1 : -1;
    case OPT_CHUNK: return cli_int(o->command, "--chunk", value, 1, LS_MAX_CHUNK, &m->chunk) ? 1 : -1;
    case OPT_IMAGE:
    case OPT_AUDIO:
        cli_usage(o->command, "--%s is refused: this model and runtime bundle has no %s input; ask with text only", opt == OPT_IMAGE ? "image" : "audio",
                  opt == OPT_IMAGE ? "image" : "audio");
        return -1;
    default: return 0;
    }
}

static int take_sampling(cli_options *o, int opt, const char *value) {
    const char *c = o->command;
    ls_sampling *s = &o->sampling;
    switch (opt) {
    case OPT_TEMP: return cli_double(c, "--temp", value, &s->temperature) ? 1 : -1;
    case OPT_TOP_K: return cli_int(c, "--top-k", value, 0, INT32_MAX, &s->top_k) ? 1 : -1;
    case OPT_TOP_P: return cli_double(c, "--top-p", value, &s->top_p) ? 1 : -1;
    case OPT_MIN_P: return cli_double(c, "--min-p", value, &s->min_p) ? 1 : -1;
    case OPT_SEED: return cli_u64(c, "--seed", value, &s->seed) ? 1 : -1;
    case OPT_REPEAT_PENALTY: return cli_double(c, "--repeat-penalty", value, &s->repetition_penalty) ? 1 : -1;
    case OPT_FREQUENCY_PENALTY: return cli_double(c, "--frequency-penalty", value, &s->frequency_penalty) ? 1 : -1;
    case OPT_PRESENCE_PENALTY: return cli_double(c, "--presence-penalty", value, &s->presence_penalty) ? 1 : -1;
    case OPT_REPEAT_LAST_N: return take_window(o, "--repeat-last-n", value, &s->penalty_window, &o->penalties_off) ? 1 : -1;
    case OPT_DRY_MULTIPLIER: return cli_double(c, "--dry-multiplier", value, &s->dry_multiplier) ? 1 : -1;
    case OPT_DRY_BASE: return cli_double(c, "--dry-base", value, &s->dry_base) ? 1 : -1;
    case OPT_DRY_ALLOWED_LENGTH: return cli_int(c, "--dry-allowed-length", value, 1, LS_MAX_CONTEXT, &s->dry_allowed_length) ? 1 : -1;
    case OPT_DRY_LAST_N: return take_window(o, "--dry-penalty-last-n", value, &s->dry_window, &o->dry_off) ? 1 : -1;
    default: return 0;
    }
}

int cli_options_take(cli_options *o, int opt, const char *value) {
    int taken = take_model(o, opt, value);
    return taken ? taken : take_sampling(o, opt, value);
}

void cli_options_finish(cli_options *o) {
    if (o->penalties_off) o->sampling.repetition_penalty = o->sampling.frequency_penalty = o->sampling.presence_penalty = 0;
    if (o->dry_off) o->sampling.dry_multiplier = 0;
}

bool cli_open(cli_options *o, const char *name, ls_model **out) {
    static char label[] = "loading";
    ls_error e = {0};
    ls_arena *arena = NULL;
    const char *path = NULL;
    o->model.progress = cli_progress;
    o->model.progress_user = label;
    ls_code rc = ls_arena_create(&arena, &e);
    if (!rc) rc = hub_resolve(arena, &path, name, &e);
    if (!rc) rc = ls_model_open(out, path, &o->model, &e);
    cli_progress_done();
    ls_arena_destroy(arena);
    if (rc) cli_fail(&e);
    return !rc;
}
