/* Shared options, their environment variables, and opening the model they describe. */
#include "cli/options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/build_info.h"
#include "cli/hub.h"

enum { DEFAULT_PREFIX_CACHE = 256 << 20 };

void cli_options_init(cli_options *o, const char *command) {
    *o = (cli_options){.command = command, .pictures = {.struct_size = sizeof(ls_prepare_options)},
                       .model = {.struct_size = sizeof(ls_model_options)}, .sampling = {.struct_size = sizeof(ls_sampling)},
                       .session = {.struct_size = sizeof(ls_session_options)}};
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
    case OPT_ALLOW_UNQUALIFIED: m->allow_unqualified = true; return 1;
    case OPT_THREADS: return cli_int(o->command, "--threads", value, 1, 1024, &m->threads) ? 1 : -1;
    case OPT_PIN: m->pin = true; return 1;
    case OPT_SHADOW: m->shadow = true; return 1;
    case OPT_CTX_SIZE: return cli_int(o->command, "--ctx-size", value, 1, LS_MAX_CONTEXT, &m->context) ? 1 : -1;
    case OPT_CHUNK: return cli_int(o->command, "--chunk", value, 1, LS_MAX_CHUNK, &m->chunk) ? 1 : -1;
    case OPT_AUDIO: cli_usage(o->command, "--audio is refused: this model and runtime bundle has no audio input; ask with text only"); return -1;
    default: return 0;
    }
}

static bool take_size(const cli_options *o, const char *option, const char *text, size_t *out);

static int take_picture(cli_options *o, const char *path) {
    if (!o->sees) cli_usage(o->command, "--image is refused: this command asks with text only");
    else if (o->pictures.n_pictures == CLI_MAX_IMAGES) cli_usage(o->command, "more than %d --image", CLI_MAX_IMAGES);
    else {
        o->picture[o->pictures.n_pictures++] = (ls_picture){.path = path};
        return 1;
    }
    return -1;
}

static int take_images(cli_options *o, int opt, const char *value) {
    size_t bytes;
    int pixels;
    switch (opt) {
    case OPT_IMAGE: return take_picture(o, value);
    case OPT_IMAGE_NO_ROTATE: o->pictures.ignore_orientation = true; return 1;
    case OPT_IMAGE_MAX_PIXELS:
        if (!cli_int(o->command, "--image-max-pixels", value, 1, INT32_MAX / 8, &pixels)) return -1;
        o->pictures.max_pixels = pixels;
        return 1;
    case OPT_IMAGE_MAX_BYTES:
        if (!take_size(o, "--image-max-bytes", value, &bytes)) return -1;
        o->pictures.max_bytes = bytes && bytes < INT64_MAX ? (int64_t)bytes : 1;
        return 1;
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

/* "512M", "2G", "1000000". */
static bool take_size(const cli_options *o, const char *option, const char *text, size_t *out) {
    char *end;
    errno = 0;
    unsigned long long v = strtoull(text, &end, 10);
    int shift = *end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0;
    if (shift) end++;
    if (end == text || *end || errno || *text == '-' || v > SIZE_MAX >> shift) {
        cli_usage(o->command, "%s is \"%s\"; give bytes, such as 512M or 2G", option, text);
        return false;
    }
    *out = (size_t)v << shift;
    return true;
}

static int take_session(cli_options *o, int opt, const char *value) {
    switch (opt) {
    case OPT_PREFIX_CACHE: o->session.prefix_cache = value; return 1;
    case OPT_PREFIX_CACHE_SIZE: o->prefix_size_given = true; return take_size(o, "--prefix-cache-size", value, &o->session.prefix_cache_bytes) ? 1 : -1;
    case OPT_LOOKUP: o->session.lookup = true; return 1;
    case OPT_DRAFT: o->draft = value; return 1;
    case OPT_GUESSES: return cli_int(o->command, "--guesses", value, 1, LS_MAX_GUESSES, &o->session.guesses) ? 1 : -1;
    default: return 0;
    }
}

int cli_options_take(cli_options *o, int opt, const char *value) {
    int taken = take_model(o, opt, value);
    if (!taken) taken = take_images(o, opt, value);
    if (!taken) taken = take_session(o, opt, value);
    return taken ? taken : take_sampling(o, opt, value);
}

/* ---- Environment ---------------------------------------------------------------------------------------------------- */

/* A variable and what it may hold; values without a list are checked where they are used. */
typedef struct variable {
    const char *name, **option;
    const char *allowed; /* "a, b, c" or NULL */
} variable;

/* The value of a variable; NULL when it is unset or empty. */
static const char *lookup(const char *name) {
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

static bool is_listed(const char *list, const char *value) {
    size_t n = strlen(value);
    for (const char *p = list; *p; p += strspn(p, ", ")) {
        size_t len = strcspn(p, ", ");
        if (len == n && !memcmp(p, value, n)) return true;
        p += len;
    }
    return false;
}

static bool take_variables(const cli_options *o, const variable *v, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const char *value = *v[i].option ? NULL : lookup(v[i].name);
        if (!value) continue;
        if (v[i].allowed && !is_listed(v[i].allowed, value)) {
            cli_usage(o->command, "%s is \"%s\"; allowed are %s", v[i].name, value, v[i].allowed);
            return false;
        }
        *v[i].option = value;
    }
    return true;
}

static bool is_bucket_list(const char *command, const char *name) {
    const char *value = lookup(name);
    if (!value || (strspn(value, "0123456789,") == strlen(value) && value[0] != ',')) return true;
    cli_usage(command, "%s is \"%s\"; give ascending capacities such as 256,1024", name, value);
    return false;
}

static bool take_xla_variables(cli_options *o) {
    ls_model_options *m = &o->model;
    const variable v[] = {
        {"LOCKSTEP_ENGINE", &m->engine, "pjrt, iree"},  {"LOCKSTEP_DEVICE", &m->device, "cpu, cuda, rocm, tpu, oneapi, metal, local-task, local-sync, hip"},
        {"LOCKSTEP_GPU_TARGET", &m->gpu_target, NULL},  {"LOCKSTEP_PRECISION", &m->precision, "f32, f16, bf16"},
        {"LOCKSTEP_QUANT", &m->quant, "dense, packed"}, {"LOCKSTEP_BUCKETS", &m->buckets, NULL}};
    const char *allow = lookup("LOCKSTEP_ALLOW_UNQUALIFIED");
    if (allow && strcmp(allow, "0") && strcmp(allow, "1")) {
        cli_usage(o->command, "LOCKSTEP_ALLOW_UNQUALIFIED is \"%s\"; allowed are 0, 1", allow);
        return false;
    }
    if (allow && *allow == '1') m->allow_unqualified = true;
    if (!m->buckets && !is_bucket_list(o->command, "LOCKSTEP_BUCKETS")) return false;
    return take_variables(o, v, sizeof v / sizeof *v);
}

/* Variables of one backend count only there, so that setting them does not hinder another. */
static bool take_environment(cli_options *o) {
    ls_model_options *m = &o->model;
    const variable v[] = {{"LOCKSTEP_CONTRACT", &m->contract, "exact16, exact16-kv8, exact24, float"},
                          {"LOCKSTEP_BACKEND", &m->backend, "native, reference, xla"}};
    const char *context = m->context ? NULL : lookup("LOCKSTEP_CTX_SIZE");
    if (context && !cli_int(o->command, "LOCKSTEP_CTX_SIZE", context, 1, LS_MAX_CONTEXT, &m->context)) return false;
    if (!take_variables(o, v, sizeof v / sizeof *v)) return false;
    if (m->backend && !strcmp(m->backend, "xla")) return take_xla_variables(o);
    const variable level = {"LOCKSTEP_LEVEL", &m->level, "best, c, avx2, avx512, amx, neon, neon-dotprod, neon-i8mm, random"};
    return (m->backend && strcmp(m->backend, "native")) || take_variables(o, &level, 1);
}

bool cli_options_finish(cli_options *o) {
    if (o->penalties_off) o->sampling.repetition_penalty = o->sampling.frequency_penalty = o->sampling.presence_penalty = 0;
    if (o->dry_off) o->sampling.dry_multiplier = 0;
    if (o->session.prefix_cache && !o->prefix_size_given) o->session.prefix_cache_bytes = DEFAULT_PREFIX_CACHE;
    if (o->session.guesses && !o->session.lookup && !o->draft) {
        cli_usage(o->command, "--guesses says how many, not who; give --lookup or --draft MODEL too");
        return false;
    }
    if (o->session.prefix_cache && !o->session.prefix_cache_bytes) {
        cli_usage(o->command, "--prefix-cache-size is 0, which leaves nothing for --prefix-cache to keep; give a size such as 512M");
        return false;
    }
    return take_environment(o);
}

int cli_options_help(const cli_options *o, const char *help) {
    const char *backend = o->model.backend ? o->model.backend : lookup("LOCKSTEP_BACKEND");
    fputs(help, stdout);
    if (backend && !strcmp(backend, "xla")) cli_list_backends(stdout);
    return fflush(stdout) ? CLI_FAILED : CLI_OK;
}

/* ---- The model ------------------------------------------------------------------------------------------------------------ */

void cli_say_unqualified(const ls_model *m) {
    const char *why = ls_model_unqualified(m);
    if (why) fprintf(stderr, "lockstep: unqualified: %s; lockstep qualify checks this family, contract and device\n", why);
}

/* The model's description, NULL when memory is out. */
static json_t *describe(const ls_model *m) {
    char *text;
    json_t *all = NULL;
    if (ls_model_describe(m, &text, NULL)) return NULL;
    ls_json_parse(&all, text, strlen(text), "description", NULL);
    ls_buffer_free(text);
    return all;
}

json_t *cli_describe_xla(const ls_model *m) {
    json_t *all = describe(m), *xla = json_incref(json_object_get(all, "xla"));
    json_decref(all);
    return xla;
}

void cli_report_execution(json_t *report, const ls_model *m) {
    json_t *all = describe(m), *native = json_object_get(all, "native"), *xla = json_object_get(all, "xla");
    json_object_set_new(report, "version", json_string(LS_VERSION_STRING));
    json_object_set_new(report, "compiler", json_string(LS_BUILD_COMPILER));
    json_object_set(report, "backend", json_object_get(all, "backend"));
    json_object_update(report, native);
    if (xla) json_object_set(report, "qualified", json_object_get(xla, "qualified"));
    json_object_set(report, "xla", xla);
    json_decref(all);
}

ls_code cli_check_pictures(const cli_options *o, const ls_model *m, ls_error *e) {
    const char *why = ls_model_no_vision(m);
    if (!o->pictures.n_pictures || !why) return LS_OK;
    LS_FAIL(e, LS_UNIMPLEMENTED, "--image is refused: %s; ask with text only", why);
}

/* Opens |name| as |o| says. */
static ls_code open_model(const char *name, const ls_model_options *o, ls_model **out, ls_error *e) {
    ls_arena *arena = NULL;
    const char *path = NULL;
    ls_code rc = ls_arena_create(&arena, e);
    if (!rc) rc = hub_resolve(arena, &path, name, e);
    if (!rc) rc = ls_model_open(out, path, o, e);
    cli_progress_done();
    ls_arena_destroy(arena);
    return rc;
}

ls_code cli_session(cli_options *o, ls_session **out, ls_model *m, ls_error *e) {
    if (o->draft) {
        ls_code rc = open_model(o->draft, &o->model, &o->draft_model, e);
        if (rc) return ls_error_wrap(e, rc, "draft model");
        o->session.draft = o->draft_model;
    }
    LS_TRY(ls_session_create_with(out, m, &o->session, e));
    if (ls_session_note(*out)) fprintf(stderr, "lockstep: %s\n", ls_session_note(*out));
    return LS_OK;
}

void cli_session_end(cli_options *o, ls_session *s) {
    ls_session_destroy(s);
    ls_model_destroy(o->draft_model);
    o->draft_model = NULL;
}

void cli_session_save(ls_session *s) {
    ls_error e = {0};
    if (s && ls_session_save(s, &e)) fprintf(stderr, "lockstep: the prefix cache is not saved: %s\n", e.text);
}

void cli_report_statistics(json_t *report, const ls_statistics *t) {
    json_object_set_new(report, "statistics", json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "reused_tokens", (json_int_t)t->reused_tokens, "prefix_blocks",
                                                        (json_int_t)t->prefix_blocks, "prefix_bytes", (json_int_t)t->prefix_bytes, "decode_passes",
                                                        (json_int_t)t->decode_passes, "drafted", (json_int_t)t->drafted, "accepted", (json_int_t)t->accepted));
}

bool cli_open(cli_options *o, const char *name, ls_model **out) {
    static char label[] = "loading";
    ls_error e = {0};
    o->model.progress = cli_progress;
    o->model.progress_user = label;
    if (!open_model(name, &o->model, out, &e)) return true;
    cli_fail(&e);
    return false;
}
