/* Contracts: what an operator's numbers promise. docs/contracts.md is the normative text. */
#ifndef LS_CONTRACT_CONTRACT_H
#define LS_CONTRACT_CONTRACT_H

#include "base/status.h"

typedef enum ls_contract {
    LS_CONTRACT_EXACT16, /* 16-bit activation mantissas, equal bits everywhere */
    LS_CONTRACT_EXACT24, /* 24-bit mantissas, equal bits everywhere, error no larger than f32's own */
    LS_CONTRACT_FLOAT,   /* f32 operations; per-operator thresholds */
    LS_CONTRACT_EXACT16_KV8, /* exact16 with rotated keys, and keys and values of 8 bits, equal bits everywhere */
    LS_CONTRACT_COUNT
} ls_contract;

enum { LS_CONTRACT_VERSION = 1 }; /* of all exact definitions; a changed definition is a new version */

/* The contracts whose bits are defined, |i| below LS_EXACT_CONTRACTS. */
enum { LS_EXACT_CONTRACTS = 3 };
ls_contract ls_contract_exact_at(int i);

/* Whether activations have 24-bit mantissas; of an exact contract. */
static inline bool ls_contract_is_wide(ls_contract c) { return c == LS_CONTRACT_EXACT24; }

/* The contract that defines the linear operators of an exact contract: exact16-kv8 differs from exact16 in attention alone. */
static inline ls_contract ls_contract_of_products(ls_contract c) { return c == LS_CONTRACT_EXACT16_KV8 ? LS_CONTRACT_EXACT16 : c; }

/* "exact16", "exact24", "float", "exact16-kv8". */
const char *ls_contract_name(ls_contract c);

/* INVALID_ARGUMENT, listing the allowed names, when |name| is none of them. */
ls_code ls_contract_parse(const char *name, ls_contract *out, ls_error *e);

#endif
