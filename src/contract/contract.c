/* Contract names. */
#include "contract/contract.h"

#include <string.h>

static const char *const names[LS_CONTRACT_COUNT] = {"exact16", "exact24", "float", "exact16-kv8"};

const char *ls_contract_name(ls_contract c) { return (unsigned)c < LS_CONTRACT_COUNT ? names[c] : "unknown"; }

ls_contract ls_contract_exact_at(int i) {
    static const ls_contract exact[LS_EXACT_CONTRACTS] = {LS_CONTRACT_EXACT16, LS_CONTRACT_EXACT24, LS_CONTRACT_EXACT16_KV8};
    return exact[i];
}

ls_code ls_contract_parse(const char *name, ls_contract *out, ls_error *e) {
    for (int c = 0; c < LS_CONTRACT_COUNT; c++)
        if (!strcmp(name, names[c])) {
            *out = (ls_contract)c;
            return LS_OK;
        }
    LS_FAIL(e, LS_INVALID_ARGUMENT, "contract \"%s\" is unknown; use exact16, exact16-kv8, exact24 or float", name);
}
