/* Manifests: the digest chain, strict reading, and what may be replaced. */
#include "contract/manifest.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/sha256.h"

static const char *const schema_prefix[LS_MANIFEST_FAMILIES] = {"lockstep-artifact-v", "mlxcel-xla-aux-artifact-v"};
static const char *const schemas[LS_MANIFEST_FAMILIES][LS_MANIFEST_VERSIONS] = {
    {"lockstep-artifact-v1", "lockstep-artifact-v2-numeric-dtype", "lockstep-artifact-v3-operator-numeric"},
    {"mlxcel-xla-aux-artifact-v1", "mlxcel-xla-aux-artifact-v2-numeric-dtype", "mlxcel-xla-aux-artifact-v3-operator-numeric"}};
static const char *const field_names[LS_MF_COUNT] = {"entry_sha256", "config_sha256", "numeric_dtype_contract_sha256", "operator_numeric_contract_sha256",
                                                     "weight_schema_sha256", "generation_sha256", "vmfb_sha256", "artifact_sha256"};

const char *ls_manifest_schema(const ls_manifest *m) { return schemas[m->family][m->version - 1]; }

ls_code ls_weight_schema_add(ls_str *out, size_t index, const char *name, const char *dtype, const int64_t *shape, int rank, ls_error *e) {
    LS_TRY(ls_str_printf(out, e, "%zu:%s:%s:[", index, name, dtype));
    for (int i = 0; i < rank; i++) LS_TRY(ls_str_printf(out, e, "%s%lld", i ? ", " : "", (long long)shape[i]));
    return ls_str_append(out, "]\n", 2, e);
}

/* ---- The chain ----------------------------------------------------------------------------------------------------- */

static void chain(ls_manifest *m) {
    ls_sha256 h;
    uint8_t digest[32];
    ls_sha256_init(&h);
    ls_sha256_update(&h, ls_manifest_schema(m), strlen(ls_manifest_schema(m)));
    for (int f = 0; f < LS_MF_ARTIFACT; f++) {
        if (!m->sha[f][0]) continue;
        ls_sha256_update(&h, "", 1);
        ls_sha256_update(&h, m->sha[f], 64);
    }
    ls_sha256_final(&h, digest);
    ls_sha256_hex(digest, m->sha[LS_MF_ARTIFACT]);
}

ls_code ls_manifest_compute(ls_manifest *out, const ls_artifact_identity *id, const void *binary, size_t len, ls_error *e) {
    const struct {
        ls_manifest_field field;
        const char *what, *text;
        size_t len;
        bool required;
    } texts[] = {{LS_MF_ENTRY, "entry", id->entry, SIZE_MAX, true}, {LS_MF_CONFIG, "configuration", id->config, SIZE_MAX, true},
                 {LS_MF_DTYPE_CONTRACT, "", id->dtype_contract, SIZE_MAX, false}, {LS_MF_OPERATOR_CONTRACT, "", id->operator_contracts,
                                                                                   id->operator_contracts_len, false},
                 {LS_MF_WEIGHT_SCHEMA, "", id->weight_schema ? id->weight_schema : "", SIZE_MAX, false}, {LS_MF_GENERATION, "generation", id->generation,
                         SIZE_MAX, true}};
    *out = (ls_manifest){.family = id->family, .version = id->operator_contracts ? 3 : id->dtype_contract ? 2 : 1};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const char *text = texts[i].text;
        if (texts[i].required && (!text || !*text)) LS_FAIL(e, LS_INVALID_ARGUMENT, "the %s text of the artifact is empty; an identity needs one",
                                                            texts[i].what);
        if (text) ls_sha256_hex_of(text, texts[i].len == SIZE_MAX ? strlen(text) : texts[i].len, out->sha[texts[i].field]);
    }
    ls_sha256_hex_of(binary, len, out->sha[LS_MF_BINARY]);
    chain(out);
    return LS_OK;
}

uint64_t ls_manifest_fingerprint(const ls_manifest *m) {
    char head[17];
    memcpy(head, m->sha[LS_MF_ARTIFACT], 16);
    head[16] = 0;
    uint64_t v = strtoull(head, NULL, 16);
    return v ? v : 1;
}

/* ---- JSON ---------------------------------------------------------------------------------------------------------- */

ls_code ls_manifest_write(const ls_manifest *m, ls_str *out, ls_error *e) {
    LS_TRY(ls_str_printf(out, e, "{\n  \"schema\": \"%s\"", ls_manifest_schema(m)));
    for (int f = 0; f < LS_MF_COUNT; f++)
        if (m->sha[f][0]) LS_TRY(ls_str_printf(out, e, ",\n  \"%s\": \"%s\"", field_names[f], m->sha[f]));
    return ls_str_append(out, "\n}\n", SIZE_MAX, e);
}

/* The schema's family and version; version 0 when it is none of the known ones. |newer|: a known family, a higher version. */
static void classify(const char *schema, ls_manifest *m, bool *newer) {
    *newer = false;
    for (int f = 0; f < LS_MANIFEST_FAMILIES; f++) {
        size_t n = strlen(schema_prefix[f]);
        if (strncmp(schema, schema_prefix[f], n)) continue;
        m->family = (ls_manifest_family)f;
        for (int v = 0; v < LS_MANIFEST_VERSIONS; v++)
            if (!strcmp(schema, schemas[f][v])) m->version = v + 1;
        *newer = !m->version && schema[n] >= '1' && schema[n] <= '9' && strtol(schema + n, NULL, 10) > LS_MANIFEST_VERSIONS;
    }
}

static ls_code take_field(ls_manifest *m, const char *key, const json_t *value, const char *name, ls_error *e) {
    int f = 0;
    while (f < LS_MF_COUNT && strcmp(key, field_names[f])) f++;
    if (f == LS_MF_COUNT) LS_FAIL(e, LS_INVALID_ARGUMENT, "manifest \"%s\": field \"%s\" is unknown; it was made by another program, or damaged", name, key);
    if (json_is_null(value)) LS_FAIL(e, LS_INVALID_ARGUMENT, "manifest \"%s\": field \"%s\" is null; an absent field must be left out", name, key);
    const char *text = json_string_value(value);
    if (!text || json_string_length(value) != 64 || strspn(text, "0123456789abcdef") != 64)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "manifest \"%s\": field \"%s\" is no SHA-256 of 64 lowercase hex digits", name, key);
    memcpy(m->sha[f], text, 65);
    return LS_OK;
}

static ls_code check_presence(const ls_manifest *m, const char *name, ls_error *e) {
    for (int f = 0; f < LS_MF_COUNT; f++) {
        bool dtype = f == LS_MF_DTYPE_CONTRACT, op = f == LS_MF_OPERATOR_CONTRACT, has = m->sha[f][0];
        bool needed = dtype ? m->version == 2 : op ? m->version == 3 : true, allowed = dtype ? m->version >= 2 : op ? m->version == 3 : true;
        if (needed && !has) LS_FAIL(e, LS_INVALID_ARGUMENT, "manifest \"%s\": field \"%s\" is missing, which schema \"%s\" needs", name, field_names[f],
                                    ls_manifest_schema(m));
        if (has && !allowed) LS_FAIL(e, LS_INVALID_ARGUMENT, "manifest \"%s\": field \"%s\" does not belong to schema \"%s\"", name, field_names[f],
                                     ls_manifest_schema(m));
    }
    return LS_OK;
}

static ls_code read_object(ls_manifest *m, json_t *object, const char *name, bool *newer, ls_error *e) {
    const json_t *id = json_object_get(object, "schema");
    const char *schema = json_string_value(id);
    if (!schema || json_string_length(id) != strlen(schema)) LS_FAIL(e, LS_INVALID_ARGUMENT, "manifest \"%s\": there is no field \"schema\" with a text", name);
    classify(schema, m, newer);
    if (!m->version) LS_FAIL(e, LS_INVALID_ARGUMENT, "manifest \"%s\": schema \"%.80s\" is unknown%s", name, schema, *newer ? "; a newer program made it" : "");
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value) if (strcmp(key, "schema")) LS_TRY(take_field(m, key, value, name, e));
    return check_presence(m, name, e);
}

static ls_code parse(ls_manifest *m, const char *text, size_t len, const char *name, bool *newer, ls_error *e) {
    json_t *object;
    *m = (ls_manifest){0};
    *newer = false;
    LS_TRY(ls_json_parse(&object, text, len, name, e));
    ls_code rc = read_object(m, object, name, newer, e);
    json_decref(object);
    return rc;
}

ls_code ls_manifest_parse(ls_manifest *out, const char *text, size_t len, const char *name, ls_error *e) {
    bool newer;
    return parse(out, text, len, name, &newer, e);
}

/* ---- Rules --------------------------------------------------------------------------------------------------------- */

ls_code ls_manifest_verify(const ls_manifest *found, const ls_manifest *wanted, const char *name, ls_error *e) {
    static const ls_manifest_field order[] = {LS_MF_DTYPE_CONTRACT, LS_MF_OPERATOR_CONTRACT, LS_MF_ENTRY, LS_MF_CONFIG, LS_MF_WEIGHT_SCHEMA,
                                              LS_MF_GENERATION, LS_MF_BINARY, LS_MF_ARTIFACT};
    if (found->family != wanted->family || found->version != wanted->version)
        LS_FAIL(e, LS_FAILED_PRECONDITION, "manifest \"%s\": schema is \"%s\"; needed is \"%s\"", name, ls_manifest_schema(found), ls_manifest_schema(wanted));
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        const char *a = found->sha[order[i]], *b = wanted->sha[order[i]];
        if (strcmp(a, b))
            LS_FAIL(e, LS_FAILED_PRECONDITION, "manifest \"%s\": %s is %s; needed is %s. The artifact was made for something else, or changed", name,
                    field_names[order[i]],
                    *a ? a : "absent", *b ? b : "absent");
    }
    return LS_OK;
}

ls_code ls_manifest_may_replace(const char *text, size_t len, const char *name, const ls_manifest *wanted, ls_error *e) {
    ls_manifest found;
    ls_error cause = {0};
    bool newer;
    ls_code rc = parse(&found, text, len, name, &newer, &cause);
    if (newer)
        LS_FAIL(e, LS_FAILED_PRECONDITION,
                "manifest \"%s\" was made by a newer program than this one (schema up to version %d); nothing was deleted. Delete it yourself to go back",
                name, LS_MANIFEST_VERSIONS);
    if (!rc) {
        ls_manifest again = found;
        chain(&again);
        if (strcmp(again.sha[LS_MF_ARTIFACT], found.sha[LS_MF_ARTIFACT]))
            rc = ls_error_set(&cause, LS_INVALID_ARGUMENT, __FILE__, __LINE__, "manifest \"%s\": artifact_sha256 does not follow from the other fields", name);
    }
    if (rc) LS_FAIL(e, LS_FAILED_PRECONDITION, "%s. Nothing was deleted; delete the artifact and its manifest yourself if they are not needed", cause.text);
    if (found.family != wanted->family || found.version > wanted->version)
        LS_FAIL(e, LS_FAILED_PRECONDITION, "manifest \"%s\" has schema \"%s\", which one of schema \"%s\" must not replace; nothing was deleted", name,
                ls_manifest_schema(&found),
                ls_manifest_schema(wanted));
    return LS_OK;
}
