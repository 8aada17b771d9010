/* libcurl, loaded when something is to be downloaded: linked, it and the libraries that it needs would stay in the memory of every run. */
#ifndef LS_CLI_HTTP_LIBRARY_H
#define LS_CLI_HTTP_LIBRARY_H

#include <curl/curl.h>

#include "base/status.h"

#define HTTP_FUNCTIONS(F) \
    F(global_init) F(global_cleanup) F(easy_init) F(easy_cleanup) F(easy_reset) F(easy_setopt) F(easy_perform) F(easy_getinfo) F(easy_strerror) F(version)

/* curl_|name| of libcurl. */
typedef struct http_library {
#define MEMBER(name) __typeof__(curl_##name) *name;
    HTTP_FUNCTIONS(MEMBER)
#undef MEMBER
} http_library;

/* UNAVAILABLE when the library, or one of its functions, is not there. It stays loaded until the program ends. */
ls_code http_library_open(http_library *lib, ls_error *e);

#endif
