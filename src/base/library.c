/* Looking up functions of a loaded library. */
#include "base/library.h"

#include <dlfcn.h>
#include <string.h>

/* ISO C has no conversion from object to function pointers; POSIX guarantees that the bits may be copied. */
const char *ls_library_find(void *library, const ls_symbol *symbol, size_t n, void *out) {
    for (size_t i = 0; i < n; i++) {
        void *p = dlsym(library, symbol[i].name);
        if (!p) return symbol[i].name;
        memcpy((char *)out + symbol[i].offset, &p, sizeof p);
    }
    return NULL;
}
