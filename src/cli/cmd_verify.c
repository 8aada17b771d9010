/* lockstep verify: two executors, or an executor and recorded tensors, node by node. Its exit codes are its own: 0 equal,
 * 1 diverged, 2 could not compare. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/build_info.h"
#include "cli/options.h"
#include "cli/verify_progress.h"
#include "verify/negative.h"
#include "verify/verify_image.h"

enum { VERIFY_EQUAL = 0, VERIFY_DIVERGED = 1, VERIFY_NOT_COMPARED = 2 };

enum { OPT_LEFT = OPT_COMMAND, OPT_RIGHT, OPT_IDS, OPT_NO_SPECIAL, OPT_SAME_INPUT, OPT_BISECT, OPT_PROBES, OPT_NEGATIVE, OPT_ATOL, OPT_RTOL, OPT_JSON, OPT_HTML,
       OPT_QUIET, OPT_HEARTBEAT, OPT_PIXELS };

static const char help[] =
    "Usage: lockstep verify MODEL --right SIDE [-p PROMPT | --ids IDS] [OPTIONS]\n\n"
    "Runs two sides on the same tokens and compares every node in graph order: names the first that differs.\n"
    "MODEL is a .gguf file, a Hugging Face folder, or org/name from the cache (lockstep pull).\n"
    "\nSides:\n"
    "  --left SIDE         default: native\n"
    "  --right SIDE        native, reference, reference:f64, xla:pjrt, xla:iree, or FILE.safetensors with recorded tensors\n"
    "                      (tools/dump_reference.py). An executor takes options after commas: contract=NAME, level=NAME,\n"
    "                      threads=N, as in native,contract=exact24,level=avx2; xla: device=NAME, plugin=PATH,\n"
    "                      target=NAME (iree on a GPU), precision=f32|f16|bf16, quant=dense|packed, modules=fused|nodes\n"
    "  --contract NAME     exact16 (default), exact16-kv8, exact24 or float: of sides that do not say\n"
    "  --level NAME, --threads N   the same\n"
    "  --ctx-size N        positions the model is set up for\n"
    "\nTokens:\n"
    "  -p, --prompt TEXT   the prompt; - reads standard input. A file that records its prompt needs none\n"
    "  --ids IDS           token ids instead of text, e.g. 1,15,27\n"
    "  --no-special        do not add the tokenizer's BOS\n"
    "  -n, --decode N      tokens after the prompt, one pass each: the left side's greedy choices, or those of the file\n"
    "                      (default: 0, or all that the file holds)\n"
    "  --chunk N           prompt rows of a pass; default: 64\n"
    "  --pixels FILE       in place of tokens: the vision tower and projector on the processed pictures of FILE (pixel_values,\n"
    "                      f32 [n, channels, size, size]; tools/dump_hf_vision.py writes them beside the nodes), one a pass\n"
    "  --image FILE        a picture before the prompt, in one user's turn of the chat template; repeatable. Compared are, in this order:\n"
    "                      the processor's pixel values (with a file), the tower and projector, the text model on the prepared rows\n"
    "\nComparing:\n"
    "  --same-input        give each node of the right side the left side's inputs, so each is judged alone\n"
    "  --bisect            observe a few nodes at a time and halve the failing interval\n"
    "  --probes N          nodes of one bisection step, 2 to 256; default: 8\n"
    "  --negative NAME     plant a fault in the right side, which must be reported; --negative help lists them\n"
    "  --atol X --rtol X   fail where |c - r| > atol + rtol * |r|, for every node (one left out is 0). Not where both sides\n"
    "                      compute one exact contract, which promises equal bits. Default: docs/verify.md\n"
    "\nReports:\n"
    "  --json              one JSON object on standard output (schema lockstep-verify-v1, docs/verify.md)\n"
    "  --html FILE         a page with a heat map of layers by operators, tokens and identities\n"
    "  --quiet             no progress\n"
    "  --heartbeat N       seconds between signs of life of a long stage; default: 60\n"
    "  --help              this text\n"
    "\nExit codes: 0 equal, 1 diverged, 2 could not compare.\n"
    "\nExample: lockstep verify ./model.gguf --right reference -p \"The capital of France is\" -n 8\n"
    "Example: lockstep verify ./model --contract float --left reference --right ./reference.safetensors --html report.html\n"
    "Example: lockstep verify ./model.gguf --right reference --ids 1,2,3 --negative rope-off-by-one\n";

typedef struct verify {
    cli_options common;
    ls_verify_options run;
    const char *left, *right, *prompt, *ids_text, *html, *model_name, *pixels;
    bool json, no_special, quiet;
    int heartbeat;
} verify;

static int not_compared(const ls_error *e) {
    cli_fail(e);
    return VERIFY_NOT_COMPARED;
}

static int list_faults(void) {
    for (size_t i = 0; ls_fault_name(i); i++) printf("%-24s %s\n", ls_fault_name(i), ls_fault_meaning(i));
    return VERIFY_EQUAL;
}

/* ---- Arguments -------------------------------------------------------------------------------------------------------------- */

/* False after a message. */
static bool take_option(verify *v, int opt, const char *value) {
    ls_verify_options *o = &v->run;
    switch (opt) {
    case 'p': v->prompt = value; return true;
    case 'n': return cli_int("verify", "-n", value, 0, LS_MAX_CONTEXT, &o->decode);
    case OPT_LEFT: v->left = value; return true;
    case OPT_RIGHT: v->right = value; return true;
    case OPT_IDS: v->ids_text = value; return true;
    case OPT_NO_SPECIAL: return v->no_special = true;
    case OPT_SAME_INPUT: return o->same_input = true;
    case OPT_BISECT: return o->bisect = true;
    case OPT_PROBES: return cli_int("verify", "--probes", value, 2, 256, &o->probes);
    case OPT_NEGATIVE: o->negative = value; return true;
    case OPT_ATOL: return o->has_bound = cli_double("verify", "--atol", value, &o->absolute);
    case OPT_RTOL: return o->has_bound = cli_double("verify", "--rtol", value, &o->relative);
    case OPT_PIXELS: v->pixels = value; return true;
    case OPT_JSON: return v->json = true;
    case OPT_HTML: v->html = value; return true;
    case OPT_QUIET: return v->quiet = true;
    case OPT_HEARTBEAT: return cli_int("verify", "--heartbeat", value, 1, 86400, &v->heartbeat);
    default: cli_usage("verify", "wrong option"); return false;
    }
}

static bool read_sides(verify *v) {
    ls_error e = {0};
    if (!v->right) return cli_usage("verify", "give the side to compare with: --right reference, or a .safetensors file") == CLI_OK;
    if (!ls_side_parse(&v->run.left, v->left ? v->left : "native", &e) && !ls_side_parse(&v->run.right, v->right, &e)) return true;
    return cli_usage("verify", "%s", e.text) == CLI_OK;
}

/* 0 to go on, otherwise the exit code + 1. */
static int parse(verify *v, int argc, char **argv) {
    static const struct option options[] = {
        CLI_MODEL_OPTIONS, {"left", required_argument, NULL, OPT_LEFT}, {"right", required_argument, NULL, OPT_RIGHT}, {"prompt", required_argument, NULL, 'p'},
        {"ids", required_argument, NULL, OPT_IDS}, {"no-special", no_argument, NULL, OPT_NO_SPECIAL}, {"decode", required_argument, NULL, 'n'},
        {"same-input", no_argument, NULL, OPT_SAME_INPUT}, {"bisect", no_argument, NULL, OPT_BISECT}, {"probes", required_argument, NULL, OPT_PROBES},
        {"negative", required_argument, NULL, OPT_NEGATIVE}, {"atol", required_argument, NULL, OPT_ATOL}, {"rtol", required_argument, NULL, OPT_RTOL},
        {"json", no_argument, NULL, OPT_JSON}, {"html", required_argument, NULL, OPT_HTML}, {"quiet", no_argument, NULL, OPT_QUIET},
        {"heartbeat", required_argument, NULL, OPT_HEARTBEAT}, {"pixels", required_argument, NULL, OPT_PIXELS}, {"help", no_argument, NULL, 'h'}, {0}};
    for (int opt; (opt = getopt_long(argc, argv, "p:n:h", options, NULL)) != -1;) {
        if (opt == OPT_BACKEND) return cli_usage("verify", "--backend is no option here; name the sides with --left and --right") + 1;
        if (opt == OPT_ALLOW_UNQUALIFIED) return cli_usage("verify", "--allow-unqualified is no option here; any side may be compared") + 1;
        int taken = cli_options_take(&v->common, opt, optarg);
        if (taken < 0) return VERIFY_NOT_COMPARED + 1;
        if (taken) continue;
        if (opt == 'h') return (fputs(help, stdout) < 0) + 1;
        if (!take_option(v, opt, optarg)) return VERIFY_NOT_COMPARED + 1;
    }
    if (v->run.negative && !strcmp(v->run.negative, "help")) return list_faults() + 1;
    if (argc - optind != 1) return cli_usage("verify", "give one model") + 1;
    v->model_name = argv[optind];
    if (v->pixels && (v->prompt || v->ids_text)) return cli_usage("verify", "--pixels compares the vision tower alone; leave out -p and --ids") + 1;
    if (v->common.pictures.n_pictures && (v->pixels || v->ids_text)) return cli_usage("verify", "--image takes a text; leave out --pixels and --ids") + 1;
    v->run.level = v->common.model.level;
    v->run.threads = v->common.model.threads;
    v->run.chunk = v->common.model.chunk;
    v->common.model.parts = LS_LOAD_GRAPH;
    return read_sides(v) ? 0 : VERIFY_NOT_COMPARED + 1;
}

/* ---- Running ---------------------------------------------------------------------------------------------------------------- */

/* A prompt only where one is given: a file brings its own. */
static ls_code read_prompt(const verify *v, const ls_model *m, int32_t **ids, size_t *n, ls_error *e) {
    bool file = v->run.left.kind == LS_SIDE_FILE || v->run.right.kind == LS_SIDE_FILE;
    if (v->ids_text || v->pixels || (!v->prompt && file)) return LS_OK;
    ls_str text = {0};
    ls_code rc = cli_text(v->prompt ? v->prompt : "-", &text, e);
    if (!rc) rc = ls_model_encode(m, text.data, text.len, !v->no_special, ids, n, e);
    ls_str_deinit(&text);
    return rc;
}

static ls_code write_all(FILE *f, const char *path, const ls_str *s, ls_error *e) {
    if (!f) LS_FAIL(e, LS_PERMISSION_DENIED, "cannot write \"%s\": %s", path, strerror(errno));
    bool ok = fwrite(s->data, 1, s->len, f) == s->len;
    if (fclose(f) || !ok) LS_FAIL(e, LS_DATA_LOSS, "cannot write all of \"%s\"; is the disk full?", path);
    return LS_OK;
}

/* A regular file appears, or is replaced, whole: an earlier report survives a full disk. Pipes and devices are written to. */
static ls_code write_file(const char *path, const ls_str *s, ls_error *e) {
    struct stat st;
    ls_str temporary = {0};
    ls_code rc;
    if (!stat(path, &st) && !S_ISREG(st.st_mode)) return write_all(fopen(path, "wb"), path, s, e);
    LS_GOTO(ls_str_printf(&temporary, e, "%s.%ld.tmp", path, (long)getpid()));
    rc = write_all(fopen(temporary.data, "wbx"), path, s, e);
    if (!rc && rename(temporary.data, path)) rc = ls_error_set(e, LS_PERMISSION_DENIED, __FILE__, __LINE__, "cannot write \"%s\": %s", path, strerror(errno));
    if (rc) unlink(temporary.data);
out:
    ls_str_deinit(&temporary);
    return rc;
}

static ls_code write_html(const verify *v, const ls_model *m, const ls_verify_report *r, ls_error *e) {
    ls_str page = {0};
    ls_code rc = ls_verify_html(r, m, v->model_name, &page, e);
    if (!rc) rc = write_file(v->html, &page, e);
    ls_str_deinit(&page);
    return rc;
}

/* Writes |text|, which it deinits, unless |rc| says that it could not be made. */
static int print_lines(ls_str *text, ls_code rc, ls_error *e) {
    if (!rc && (fwrite(text->data, 1, text->len, stdout) != text->len || fflush(stdout)))
        rc = ls_error_set(e, LS_DATA_LOSS, __FILE__, __LINE__, "cannot write the report");
    ls_str_deinit(text);
    return rc ? not_compared(e) : VERIFY_EQUAL;
}

static int print_text(const ls_verify_report *r) {
    ls_str text = {0};
    ls_error e = {0};
    ls_code rc = ls_verify_text(r, &text, &e);
    return print_lines(&text, rc, &e);
}

static int print_reports(const verify *v, const ls_model *m, const ls_verify_report *r) {
    ls_error e = {0};
    if (v->html && write_html(v, m, r, &e)) return not_compared(&e);
    int failed = v->json ? cli_print_json(ls_verify_json(r, m, v->model_name)) : print_text(r);
    return failed ? VERIFY_NOT_COMPARED : r->first >= 0 ? VERIFY_DIVERGED : VERIFY_EQUAL;
}

static ls_code read_pixels(verify *v, const ls_model *m, float **pixels, const float ***image, ls_error *e) {
    LS_TRY(ls_model_need_vision(m, e));
    LS_TRY(ls_verify_read_pixels(v->pixels, &m->vision, pixels, image, &v->run.n_images, e));
    v->run.image = *image;
    return LS_OK;
}

/* ---- With pictures ---------------------------------------------------------------------------------------------------------- */

static int append(const char *bytes, size_t n, void *user) { return ls_str_append(user, bytes, n, NULL) ? -1 : 0; }

/* One user's turn: the pictures, then the text. */
static ls_code write_messages(const verify *v, ls_str *out, ls_error *e) {
    ls_str text = {0};
    LS_TRY(cli_text(v->prompt ? v->prompt : "Describe the picture.", &text, e));
    json_t *parts = json_array(), *said = json_stringn(text.data ? text.data : "", text.len), *all = NULL;
    for (size_t i = 0; i < v->common.pictures.n_pictures; i++) json_array_append_new(parts, json_pack("{s:s}", "type", "image"));
    if (said) json_array_append_new(parts, json_pack("{s:s, s:o}", "type", "text", "text", said));
    if (said) all = json_pack("[{s:s, s:o}]", "role", "user", "content", parts);
    bool failed = !all || json_dump_callback(all, append, out, JSON_COMPACT);
    json_decref(all);
    ls_str_deinit(&text);
    if (failed) LS_FAIL(e, LS_INVALID_ARGUMENT, "the prompt is no valid UTF-8");
    return LS_OK;
}

static int print_images(const verify *v, const ls_model *m, const ls_verify_image_report *r) {
    ls_error e = {0};
    ls_str text = {0};
    int failed;
    if (v->html && write_html(v, m, r->has_text ? &r->text : &r->vision, &e)) return not_compared(&e);
    if (v->json) failed = cli_print_json(ls_verify_image_json(r, m, v->model_name));
    else failed = print_lines(&text, ls_verify_image_text(r, &text, &e), &e);
    return failed ? VERIFY_NOT_COMPARED : ls_verify_image_equal(r) ? VERIFY_EQUAL : VERIFY_DIVERGED;
}

static int run_images(verify *v, ls_model *m) {
    ls_error e = {0};
    ls_str messages = {0};
    ls_verify_image_report r = {.n_images = 0};
    verify_progress *progress = NULL;
    ls_prepare_options o = v->common.pictures;
    ls_code rc = cli_check_pictures(&v->common, m, &e);
    if (!rc) rc = write_messages(v, &messages, &e);
    o.text = messages.data;
    o.len = messages.len;
    o.chat = true;
    o.pictures = v->common.picture;
    if (!rc) rc = verify_progress_create(&progress, v->quiet, v->heartbeat, &e);
    v->run.stage = verify_progress_stage;
    v->run.stage_user = progress;
    if (!rc) rc = ls_verify_image_run(&r, m, &v->run, &o, &e);
    verify_progress_destroy(progress);
    int code = rc ? not_compared(&e) : print_images(v, m, &r);
    if (!rc) ls_verify_image_report_deinit(&r);
    ls_str_deinit(&messages);
    return code;
}

/* ---- With tokens, or a tower alone ------------------------------------------------------------------------------------------ */

static int run(verify *v, ls_model *m, int32_t *prompt, size_t n_prompt) {
    ls_error e = {0};
    ls_verify_report r = {.first = -1};
    verify_progress *progress = NULL;
    float *pixels = NULL;
    const float **image = NULL;
    if (v->pixels && read_pixels(v, m, &pixels, &image, &e)) return not_compared(&e);
    ls_code rc = verify_progress_create(&progress, v->quiet, v->heartbeat, &e);
    v->run.prompt = prompt;
    v->run.n_prompt = n_prompt;
    v->run.stage = verify_progress_stage;
    v->run.stage_user = progress;
    if (!rc) rc = ls_verify_run(&r, m, &v->run, &e);
    verify_progress_destroy(progress);
    int code = rc ? not_compared(&e) : print_reports(v, m, &r);
    ls_verify_report_deinit(&r);
    ls_free(image);
    ls_free(pixels);
    return code;
}

int cli_verify(int argc, char **argv) {
    verify v = {.run = {.decode = -1, .compiler = LS_BUILD_COMPILER}, .heartbeat = CLI_HEARTBEAT_SECONDS};
    cli_options_init(&v.common, "verify");
    v.common.sees = true;
    int done = parse(&v, argc, argv);
    if (done) return done - 1;
    ls_model *m = NULL;
    ls_error e = {0};
    int32_t *prompt = NULL;
    size_t n = 0;
    if (v.ids_text && !cli_ids("verify", v.ids_text, &prompt, &n)) return VERIFY_NOT_COMPARED;
    int code = VERIFY_NOT_COMPARED;
    bool open = cli_open(&v.common, v.model_name, &m);
    if (open && v.common.pictures.n_pictures) code = run_images(&v, m);
    else if (open) code = read_prompt(&v, m, &prompt, &n, &e) ? not_compared(&e) : run(&v, m, prompt, n);
    ls_free(prompt);
    ls_model_destroy(m);
    return code;
}
