/* Records are <SHA-256 of the combination>-<SHA-256 of the model>.qualified.json. */
#include "session/qualification.h"

#include <dirent.h>
#include <string.h>

#include "base/lock.h"
#include "base/sha256.h"
#include "xla/exec_cache.h"

enum { NAME_DIGITS = 32 };

static const char suffix[] = ".qualified.json";

/* ---- The record ---------------------------------------------------------------------------------------------------- */

static ls_code packed(json_t **out, json_t *v, ls_error *e) {
    *out = v;
    if (!v) LS_FAIL(e, LS_RESOURCE_EXHAUSTED, "no memory for a qualification record");
    return LS_OK;
}

ls_code ls_qualification_combination(json_t **out, const ls_graph *g, const ls_engine_identity *engine, const ls_xla_options *xo, ls_error *e) {
    bool real = g->contract == LS_CONTRACT_FLOAT;
    /* The tower of a family is qualified apart from its text model. */
    char architecture[160];
    snprintf(architecture, sizeof architecture, "%.120s%s", g->architecture ? g->architecture : "unknown", g->input_cols ? " vision" : "");
    const char *precision = real ? ls_precision_name(xo->precision) : "by contract", *quant = !real ? "by contract" : xo->packed ? "packed" : "dense";
    ls_str identity = {0};
    ls_code rc = ls_engine_identity_text(engine, &identity, e);
    if (!rc)
        rc = packed(out, json_pack("{s:s, s:s, s:s, s:i, s:s, s:s, s:s}", "program", "lockstep " LS_VERSION_STRING, "architecture",
                                   architecture, "contract", ls_contract_name(g->contract), "contract_version",
                                   (int)LS_CONTRACT_VERSION, "precision", precision, "quant", quant, "engine", identity.data), e);
    ls_str_deinit(&identity);
    return rc;
}

/* Under an exact contract tokens pass with equal bits alone; under float nobody knows. */
static bool bits_follow(const json_t *bits, const char *contract, bool passed) {
    if (!strcmp(contract, ls_contract_name(LS_CONTRACT_FLOAT))) return json_is_null(bits);
    return json_is_boolean(bits) && (!passed || json_is_true(bits));
}

static ls_code check_fields(json_t *r, const char *name, ls_error *e) {
    json_error_t je;
    const char *schema, *text, *contract;
    json_t *bits, *first[2];
    int version, passed[2], qualified;
    json_int_t seen[4];
    if (json_unpack_ex(
            r, &je, JSON_STRICT,
            "{s:s, s:{s:s, s:s, s:s, s:i, s:s, s:s, s:s}, s:{s:s, s:s, s:s, s:s}, s:{s:b, s:s, s:s, s:I, s:I, s:o}, s:{s:b, s:s, s:I, s:I, s:o, s:o}, s:b}",
            "schema", &schema, "combination", "program", &text, "architecture", &text, "contract", &contract, "contract_version", &version, "precision", &text,
            "quant", &text, "engine", &text, "model", "name", &text, "fingerprint", &text, "weight_schema_sha256", &text, "weights_sha256", &text, "same_input",
            "passed", &passed[0], "left", &text, "rule", &text, "nodes", &seen[0], "positions", &seen[1], "first", &first[0], "tokens", "passed", &passed[1],
            "reference", &text, "prompts", &seen[2], "compared", &seen[3], "equal_bits", &bits, "first", &first[1], "qualified", &qualified))
        LS_FAIL(e, LS_INVALID_ARGUMENT, "\"%s\" is no qualification record: %s", name, je.text);
    if (strcmp(schema, LS_QUALIFICATION_SCHEMA))
        LS_FAIL(e, LS_INVALID_ARGUMENT, "\"%s\" has the schema \"%.60s\"; this program reads %s", name, schema, LS_QUALIFICATION_SCHEMA);
    bool claims = qualified == (passed[0] && passed[1]) && passed[0] == json_is_null(first[0]) && passed[1] == json_is_null(first[1]);
    claims = claims && bits_follow(bits, contract, passed[1]);
    if (passed[0]) claims = claims && seen[0] > 0 && seen[1] > 0;
    if (passed[1]) claims = claims && seen[2] > 0 && seen[3] > 0;
    if (!claims) LS_FAIL(e, LS_INVALID_ARGUMENT, "\"%s\" claims what its stages do not say", name);
    return LS_OK;
}

ls_code ls_qualification_parse(const char *text, size_t len, const char *name, json_t **out, ls_error *e) {
    json_t *r;
    LS_TRY(ls_json_parse(&r, text, len, name, e));
    ls_code rc = check_fields(r, name, e);
    if (rc) json_decref(r);
    else *out = r;
    return rc;
}

/* ---- Files ------------------------------------------------------------------------------------------------------------ */

static int append(const char *bytes, size_t n, void *user) { return ls_str_append(user, bytes, n, NULL) ? -1 : 0; }

static ls_code dump(const json_t *v, size_t flags, ls_str *out, ls_error *e) {
    if (json_dump_callback(v, append, out, flags)) LS_FAIL(e, LS_RESOURCE_EXHAUSTED, "no memory for a qualification record");
    return LS_OK;
}

/* The first digits of the SHA-256 of |v|'s canonical text. */
static ls_code digest(const json_t *v, char hex[NAME_DIGITS + 1], ls_error *e) {
    char all[65];
    ls_str text = {0};
    ls_code rc = dump(v, JSON_COMPACT | JSON_SORT_KEYS, &text, e);
    if (!rc) {
        ls_sha256_hex_of(text.data, text.len, all);
        memcpy(hex, all, NAME_DIGITS);
        hex[NAME_DIGITS] = 0;
    }
    ls_str_deinit(&text);
    return rc;
}

/* A model's name is no part of what it is. */
static ls_code record_name(const json_t *record, ls_str *out, ls_error *e) {
    char combination[NAME_DIGITS + 1], model[NAME_DIGITS + 1];
    json_t *m = json_deep_copy(json_object_get(record, "model"));
    json_object_del(m, "name");
    ls_code rc = digest(json_object_get(record, "combination"), combination, e);
    if (!rc) rc = digest(m, model, e);
    json_decref(m);
    return rc ? rc : ls_str_printf(out, e, "%s-%s%s", combination, model, suffix);
}

ls_code ls_qualification_store(const json_t *record, const char *folder, ls_str *path, ls_error *e) {
    ls_exec_cache *cache = NULL;
    ls_lock lock = {0};
    json_t *checked = NULL;
    ls_str text = {0}, name = {0}, lock_path = {0};
    ls_code rc;
    LS_GOTO(dump(record, JSON_INDENT(2), &text, e));
    LS_GOTO(ls_qualification_parse(text.data, text.len, "the new record", &checked, e));
    LS_GOTO(record_name(record, &name, e));
    LS_GOTO(ls_exec_cache_open(&cache, folder, e));
    LS_GOTO(ls_str_printf(path, e, "%s/%s", ls_exec_cache_folder(cache), name.data));
    LS_GOTO(ls_str_printf(&lock_path, e, "%s.lock", path->data));
    LS_GOTO(ls_lock_acquire(&lock, lock_path.data, -1, e));
    LS_GOTO(ls_exec_cache_put(cache, name.data, text.data, text.len, e));
out:
    ls_lock_release(&lock);
    json_decref(checked);
    ls_exec_cache_close(cache);
    ls_str_deinit(&text);
    ls_str_deinit(&name);
    ls_str_deinit(&lock_path);
    return rc;
}

/* ---- Looking for one -------------------------------------------------------------------------------------------------------- */

/* What the records of one combination say together. */
typedef struct findings {
    int passed, failed;
    ls_str model, problem; /* of the first that passed; why the first other one does not */
} findings;

static ls_code add_record(findings *f, const json_t *combination, const char *path, ls_error *e) {
    ls_error why = {0};
    ls_str text = {0};
    json_t *r = NULL;
    ls_code rc = LS_OK, found = ls_file_read(&text, path, LS_QUALIFICATION_MAX_BYTES, &why);
    if (!found) found = ls_qualification_parse(text.data ? text.data : "", text.len, path, &r, &why);
    const char *model = json_string_value(json_object_get(json_object_get(r, "model"), "name"));
    if (!found && !json_equal(json_object_get(r, "combination"), combination))
        found = ls_error_set(&why, LS_INVALID_ARGUMENT, __FILE__, __LINE__, "\"%s\" is about another combination", path);
    if (found) {
        if (!f->failed++) rc = ls_str_append(&f->problem, why.text, SIZE_MAX, e);
    } else if (json_is_true(json_object_get(r, "qualified"))) {
        if (!f->passed++) rc = ls_str_append(&f->model, model, SIZE_MAX, e);
    } else if (!f->failed++) {
        rc = ls_str_printf(&f->problem, e, "\"%s\" failed (record \"%s\")", model, path);
    }
    json_decref(r);
    ls_str_deinit(&text);
    return rc;
}

static ls_code look_through(findings *f, const json_t *combination, const char *folder, ls_error *e) {
    char prefix[NAME_DIGITS + 1];
    LS_TRY(digest(combination, prefix, e));
    DIR *d = opendir(folder);
    ls_code rc = LS_OK;
    for (const struct dirent *entry; !rc && d && f->passed + f->failed <= LS_QUALIFICATION_MAX_RECORDS && (entry = readdir(d));) {
        size_t n = strlen(entry->d_name), end = sizeof suffix - 1;
        if (strncmp(entry->d_name, prefix, NAME_DIGITS) || n < end || strcmp(entry->d_name + n - end, suffix)) continue;
        ls_str path = {0};
        rc = ls_str_printf(&path, e, "%s/%s", folder, entry->d_name);
        if (!rc) rc = add_record(f, combination, path.data, e);
        ls_str_deinit(&path);
    }
    if (d) closedir(d);
    if (rc || f->passed + f->failed <= LS_QUALIFICATION_MAX_RECORDS) return rc;
    /* One that failed may be among those that were not read. */
    f->failed++;
    f->problem.len = 0;
    return ls_str_printf(&f->problem, e, "\"%s\" holds more than %d records of it; delete those of models that are gone, named %s-*%s", folder,
                         LS_QUALIFICATION_MAX_RECORDS, prefix, suffix);
}

ls_code ls_qualification_find(const json_t *combination, const char *folder, bool *qualified, ls_str *why, ls_error *e) {
    ls_exec_cache *cache = NULL;
    findings f = {0};
    ls_code rc;
    *qualified = false;
    LS_GOTO(ls_exec_cache_open(&cache, folder, e));
    LS_GOTO(look_through(&f, combination, ls_exec_cache_folder(cache), e));
    *qualified = f.passed && !f.failed;
    LS_GOTO(ls_str_append(why, *qualified ? f.model.data : f.failed ? f.problem.data : "there is no record of it", SIZE_MAX, e));
out:
    ls_str_deinit(&f.model);
    ls_str_deinit(&f.problem);
    ls_exec_cache_close(cache);
    return rc;
}
