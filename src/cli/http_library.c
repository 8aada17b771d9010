/* Loading libcurl. */
#include "cli/http_library.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

static const char library_name[] = "libcurl.so.4"; /* curl 7.16 and later */

static const struct {
    size_t offset;
    const char *name;
} symbols[] = {
#define SYMBOL(name) {offsetof(http_library, name), "curl_" #name},
    HTTP_FUNCTIONS(SYMBOL)
#undef SYMBOL
};

ls_code http_library_open(http_library *lib, ls_error *e) {
    void *library = dlopen(library_name, RTLD_NOW | RTLD_LOCAL);
    if (!library) LS_FAIL(e, LS_UNAVAILABLE, "downloads need libcurl, which cannot be loaded: %s; install it (Debian: libcurl4)", dlerror());
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *p = dlsym(library, symbols[i].name);
        if (!p) LS_FAIL(e, LS_UNAVAILABLE, "%s has no function %s; downloads need curl 7.85 or later", library_name, symbols[i].name);
        memcpy((char *)lib + symbols[i].offset, &p, sizeof p); /* ISO C has no such conversion; POSIX guarantees that the bits may be copied */
    }
    return LS_OK;
}
