/* Loading libcurl. */
#include "cli/http_library.h"

#include <dlfcn.h>
#include <stddef.h>

#include "base/library.h"

static const char library_name[] = "libcurl.so.4"; /* curl 7.16 and later */

static const ls_symbol symbols[] = {
#define SYMBOL(name) {offsetof(http_library, name), "curl_" #name},
    HTTP_FUNCTIONS(SYMBOL)
#undef SYMBOL
};

ls_code http_library_open(http_library *lib, ls_error *e) {
    void *library = dlopen(library_name, RTLD_NOW | RTLD_LOCAL);
    if (!library) LS_FAIL(e, LS_UNAVAILABLE, "downloads need libcurl, which cannot be loaded: %s; install it (Debian: libcurl4)", dlerror());
    const char *missing = ls_library_find(library, symbols, sizeof symbols / sizeof *symbols, lib);
    if (missing) LS_FAIL(e, LS_UNAVAILABLE, "%s has no function %s; downloads need curl 7.85 or later", library_name, missing);
    return LS_OK;
}
