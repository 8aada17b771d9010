/* Manifests: what a compiled artifact is, as a chain of SHA-256 digests in a sidecar file "<artifact>.aux.json".
 *
 * Nothing is loaded whose manifest does not say exactly what is asked for: parsing is strict, verification names the
 * first field that differs, and a manifest that this program cannot classify is never overwritten. The schema id follows
 * from the content: version 3 when operator contracts are given, 2 when only an element-type contract is, else 1. Fields
 * and chain are those of mlxcel; artifacts made here have schema names of their own, mlxcel's are read as well. */
#ifndef LS_CONTRACT_MANIFEST_H
#define LS_CONTRACT_MANIFEST_H

#include "base/str.h"

#define LS_MANIFEST_SUFFIX ".aux.json"

enum { LS_MANIFEST_VERSIONS = 3, LS_MANIFEST_MAX_BYTES = 64 << 10 };

/* Whose schema names: "lockstep-artifact-v1", "-v2-numeric-dtype", "-v3-operator-numeric"; "mlxcel-xla-aux-artifact-v1", and so on. */
typedef enum ls_manifest_family { LS_MANIFEST_LOCKSTEP, LS_MANIFEST_MLXCEL, LS_MANIFEST_FAMILIES } ls_manifest_family;

/* Digests in the order in which they are written. */
typedef enum ls_manifest_field {
    LS_MF_ENTRY, LS_MF_CONFIG, LS_MF_DTYPE_CONTRACT, LS_MF_OPERATOR_CONTRACT, LS_MF_WEIGHT_SCHEMA, LS_MF_GENERATION, LS_MF_BINARY, LS_MF_ARTIFACT, LS_MF_COUNT
} ls_manifest_field;

typedef struct ls_manifest {
    ls_manifest_family family;
    int version;              /* 1 to 3 */
    char sha[LS_MF_COUNT][65]; /* lowercase hex; "" for an absent contract */
} ls_manifest;

/* What an artifact is asked to be. Strings are borrowed. */
typedef struct ls_artifact_identity {
    ls_manifest_family family;
    const char *entry, *config, *generation; /* non-empty: entry name, configuration text, compiler with flags and module digest */
    const char *dtype_contract;              /* ls_dtype_contract_text; NULL: none */
    const char *operator_contracts;          /* ls_operator_contracts_text [operator_contracts_len]; NULL: none */
    size_t operator_contracts_len;
    const char *weight_schema;               /* lines of ls_weight_schema_add; "" without weights */
} ls_artifact_identity;

/* Appends "index:name:dtype:[2, 3]" and a line feed. */
ls_code ls_weight_schema_add(ls_str *out, size_t index, const char *name, const char *dtype, const int64_t *shape, int rank, ls_error *e);

/* The manifest of an artifact whose file has the bytes |binary| [len]. INVALID_ARGUMENT for an empty entry, configuration or
 * generation text. artifact_sha256 is over the schema id and, for each present digest in order, a NUL and its hex text. */
ls_code ls_manifest_compute(ls_manifest *out, const ls_artifact_identity *id, const void *binary, size_t len, ls_error *e);

const char *ls_manifest_schema(const ls_manifest *m);        /* static */

/* First 16 hex digits of artifact_sha256 as a number; 1 instead of 0. */
uint64_t ls_manifest_fingerprint(const ls_manifest *m);

/* Appends the JSON text. */
ls_code ls_manifest_write(const ls_manifest *m, ls_str *out, ls_error *e);

/* Strict: INVALID_ARGUMENT (naming |name| and the key) for an unknown, duplicate, null or missing field, a digest that is
 * no 64 lowercase hex digits, an unknown schema, or contracts that do not fit the schema's version. */
ls_code ls_manifest_parse(ls_manifest *out, const char *text, size_t len, const char *name, ls_error *e);

/* FAILED_PRECONDITION naming the first field that differs, in the order schema, element-type contract, operator contracts,
 * entry, configuration, weight schema, generation, binary, artifact. */
ls_code ls_manifest_verify(const ls_manifest *found, const ls_manifest *wanted, const char *name, ls_error *e);

/* May a manifest of |wanted|'s schema take the place of the text? Yes for a valid one of the same family and the same or an
 * older version. FAILED_PRECONDITION for a newer version, a corrupt text, another family or anything unclassifiable. */
ls_code ls_manifest_may_replace(const char *text, size_t len, const char *name, const ls_manifest *wanted, ls_error *e);

#endif
