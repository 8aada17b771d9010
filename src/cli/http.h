/* HTTP for downloads, over libcurl: small texts, headers, and resumable files. */
#ifndef LS_CLI_HTTP_H
#define LS_CLI_HTTP_H

#include "base/str.h"

typedef struct http http;

/* |token| (NULL: none) is sent as a bearer token to the host that is asked, never to one it redirects to. */
ls_code http_create(http **out, const char *token, ls_error *e);
void http_destroy(http *h);

/* Appends the body of |url|; at most |max| bytes. NOT_FOUND (404), UNAUTHENTICATED (401, 403), UNAVAILABLE (other). */
ls_code http_get(http *h, const char *url, size_t max, ls_str *body, ls_error *e);

enum { HTTP_MAX_HEADER = 256 };

typedef struct http_info {
    char etag[HTTP_MAX_HEADER];   /* X-Linked-Etag or ETag, without quotes and W/; "" when absent */
    char commit[HTTP_MAX_HEADER]; /* X-Repo-Commit */
    uint64_t size;                /* X-Linked-Size or Content-Length; 0: unknown */
} http_info;

/* Headers of |url|, following redirects on the same host only: the linked headers describe the file behind the others. */
ls_code http_head(http *h, const char *url, http_info *out, ls_error *e);

/* Appends to the open file |fd|, which holds |have| bytes of |url| already (a server that cannot resume makes it start
 * again from nothing). Progress goes to |progress| as a fraction of |size| (0: unknown, no progress). */
ls_code http_download(http *h, const char *url, int fd, uint64_t have, uint64_t size, void (*progress)(void *, double), void *user, ls_error *e);

#endif
