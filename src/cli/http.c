/* HTTP over libcurl. One easy handle is reused, so that connections are. */
#include "cli/http.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "cli/http_library.h"

enum { CONNECT_SECONDS = 30, STALL_SECONDS = 60, MAX_REDIRECTS = 5 };

struct http {
    http_library lib;
    CURL *curl;
    const char *token;
    char message[CURL_ERROR_SIZE];
};

ls_code http_create(http **out, const char *token, ls_error *e) {
    http *h;
    LS_TRY(ls_calloc(&h, 1, sizeof *h, "HTTP client", e));
    ls_code rc;
    LS_GOTO(http_library_open(&h->lib, e));
    if (h->lib.global_init(CURL_GLOBAL_DEFAULT) || !(h->curl = h->lib.easy_init())) LS_FAIL_GOTO(e, LS_UNAVAILABLE, "libcurl cannot be initialised");
    if (h->lib.easy_setopt(h->curl, CURLOPT_PROTOCOLS_STR, "http,https"))
        LS_FAIL_GOTO(e, LS_UNAVAILABLE, "libcurl is %s; downloads need 7.85 or later", h->lib.version());
    h->token = token && *token ? token : NULL;
    *out = h;
    return LS_OK;
out:
    if (h->curl) h->lib.easy_cleanup(h->curl);
    ls_free(h);
    return rc;
}

void http_destroy(http *h) {
    if (!h) return;
    h->lib.easy_cleanup(h->curl);
    h->lib.global_cleanup();
    ls_free(h);
}

static void prepare(http *h, const char *url) {
    h->lib.easy_reset(h->curl);
    h->message[0] = 0;
    h->lib.easy_setopt(h->curl, CURLOPT_URL, url);
    h->lib.easy_setopt(h->curl, CURLOPT_ERRORBUFFER, h->message);
    h->lib.easy_setopt(h->curl, CURLOPT_PROTOCOLS_STR, "http,https");
    h->lib.easy_setopt(h->curl, CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
    h->lib.easy_setopt(h->curl, CURLOPT_MAXREDIRS, (long)MAX_REDIRECTS);
    h->lib.easy_setopt(h->curl, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_SECONDS);
    h->lib.easy_setopt(h->curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
    h->lib.easy_setopt(h->curl, CURLOPT_LOW_SPEED_TIME, (long)STALL_SECONDS);
    h->lib.easy_setopt(h->curl, CURLOPT_NOSIGNAL, 1L);
    h->lib.easy_setopt(h->curl, CURLOPT_FAILONERROR, 1L);
    h->lib.easy_setopt(h->curl, CURLOPT_USERAGENT, "lockstep/" LS_VERSION_STRING);
    if (h->token) {
        h->lib.easy_setopt(h->curl, CURLOPT_HTTPAUTH, (long)CURLAUTH_BEARER);
        h->lib.easy_setopt(h->curl, CURLOPT_XOAUTH2_BEARER, h->token);
    }
}

static ls_code failure(http *h, CURLcode rc, const char *url, ls_error *e) {
    long status = 0;
    h->lib.easy_getinfo(h->curl, CURLINFO_RESPONSE_CODE, &status);
    const char *why = h->message[0] ? h->message : h->lib.easy_strerror(rc);
    if (status == 404) LS_FAIL(e, LS_NOT_FOUND, "%s: the server has no such file or model (404)", url);
    if (status == 401 || status == 403)
        LS_FAIL(e, LS_UNAUTHENTICATED, "%s: access refused (%ld); for a gated or private model set HF_TOKEN", url, status);
    LS_FAIL(e, LS_UNAVAILABLE, "%s: %s", url, why);
}

/* ---- Texts -------------------------------------------------------------------------------------------------------------- */

static size_t append_body(char *data, size_t size, size_t n, void *user) { return ls_str_append(user, data, size * n, NULL) ? 0 : size * n; }

ls_code http_get(http *h, const char *url, size_t max, ls_str *body, ls_error *e) {
    body->max = max;
    prepare(h, url);
    h->lib.easy_setopt(h->curl, CURLOPT_FOLLOWLOCATION, 1L);
    h->lib.easy_setopt(h->curl, CURLOPT_WRITEFUNCTION, append_body);
    h->lib.easy_setopt(h->curl, CURLOPT_WRITEDATA, body);
    CURLcode rc = h->lib.easy_perform(h->curl);
    if (rc == CURLE_WRITE_ERROR) LS_FAIL(e, LS_RESOURCE_EXHAUSTED, "%s: the answer is larger than %zu bytes", url, max);
    return rc ? failure(h, rc, url, e) : ls_str_append(body, "", 0, e);
}

/* ---- Headers ------------------------------------------------------------------------------------------------------------- */

typedef struct head_state {
    http_info *info;
    char location[1024];
    bool linked_etag, linked_size;
} head_state;

/* Copies a header's value without surrounding blanks, quotes and the weak mark. False when |line| is another header. */
static bool header(const char *line, size_t len, const char *name, char *out, size_t size) {
    size_t n = strlen(name);
    if (len <= n || strncasecmp(line, name, n) || line[n] != ':') return false;
    const char *begin = line + n + 1, *end = line + len;
    while (begin < end && strchr(" \t", *begin)) begin++;
    while (end > begin && strchr(" \t\r\n", end[-1])) end--;
    if (end - begin > 2 && begin[0] == 'W' && begin[1] == '/') begin += 2;
    if (end - begin >= 2 && *begin == '"' && end[-1] == '"') {
        begin++;
        end--;
    }
    size_t value = (size_t)(end - begin);
    if (value >= size) value = 0;
    memcpy(out, begin, value);
    out[value] = 0;
    return true;
}

static size_t take_header(char *line, size_t size, size_t count, void *user) {
    head_state *s = user;
    char value[HTTP_MAX_HEADER];
    size_t len = size * count;
    if (header(line, len, "X-Linked-Etag", value, sizeof value)) {
        memcpy(s->info->etag, value, sizeof value);
        s->linked_etag = true;
    } else if (!s->linked_etag && header(line, len, "ETag", value, sizeof value)) {
        memcpy(s->info->etag, value, sizeof value);
    } else if (header(line, len, "X-Linked-Size", value, sizeof value)) {
        s->info->size = strtoull(value, NULL, 10);
        s->linked_size = true;
    } else if (!s->linked_size && header(line, len, "Content-Length", value, sizeof value)) {
        s->info->size = strtoull(value, NULL, 10);
    } else if (header(line, len, "X-Repo-Commit", value, sizeof value)) {
        memcpy(s->info->commit, value, sizeof value);
    } else {
        header(line, len, "Location", s->location, sizeof s->location);
    }
    return len;
}

static ls_code head_once(http *h, const char *url, head_state *s, long *status, ls_error *e) {
    *s->info = (http_info){0};
    s->location[0] = 0;
    s->linked_etag = s->linked_size = false;
    prepare(h, url);
    h->lib.easy_setopt(h->curl, CURLOPT_NOBODY, 1L);
    h->lib.easy_setopt(h->curl, CURLOPT_HEADERFUNCTION, take_header);
    h->lib.easy_setopt(h->curl, CURLOPT_HEADERDATA, s);
    CURLcode rc = h->lib.easy_perform(h->curl);
    if (rc) return failure(h, rc, url, e);
    h->lib.easy_getinfo(h->curl, CURLINFO_RESPONSE_CODE, status);
    return LS_OK;
}

/* Puts the place a relative redirect points to into |out|: scheme and host of |url|, then |path|. */
static ls_code same_host(const char *url, const char *path, ls_str *out, ls_error *e) {
    const char *host = strstr(url, "://"), *rest = host ? strchr(host + 3, '/') : NULL;
    ls_str_clear(out);
    LS_TRY(ls_str_append(out, url, rest ? (size_t)(rest - url) : SIZE_MAX, e));
    return ls_str_append(out, path, SIZE_MAX, e);
}

ls_code http_head(http *h, const char *url, http_info *out, ls_error *e) {
    head_state s = {.info = out};
    ls_str at = {0};
    long status = 0;
    ls_code rc = ls_str_append(&at, url, SIZE_MAX, e);
    for (int hop = 0; !rc && hop <= MAX_REDIRECTS; hop++) {
        rc = head_once(h, at.data, &s, &status, e);
        if (rc || status < 300 || status >= 400 || s.linked_etag || s.location[0] != '/') break;
        rc = same_host(url, s.location, &at, e);
    }
    /* A redirect's own length says nothing about the file. */
    if (!rc && status >= 300 && !s.linked_size) out->size = 0;
    ls_str_deinit(&at);
    return rc;
}

/* ---- Files ---------------------------------------------------------------------------------------------------------------- */

typedef struct download {
    http *h;
    int fd;
    uint64_t have, size;
    bool checked, failed;
    void (*progress)(void *, double);
    void *user;
} download;

static size_t append_file(char *data, size_t size, size_t n, void *user) {
    download *d = user;
    size_t len = size * n;
    if (!d->checked) {
        long status = 0;
        d->h->lib.easy_getinfo(d->h->curl, CURLINFO_RESPONSE_CODE, &status);
        d->checked = true;
        if (d->have && status != 206) { /* the whole file comes again */
            d->have = 0;
            if (ftruncate(d->fd, 0) || lseek(d->fd, 0, SEEK_SET) < 0) d->failed = true;
        }
    }
    for (size_t done = 0; !d->failed && done < len;) {
        ssize_t w = write(d->fd, data + done, len - done);
        if (w < 0 && errno != EINTR) d->failed = true;
        if (w > 0) done += (size_t)w;
    }
    d->have += len;
    if (d->progress && d->size) d->progress(d->user, (double)d->have / (double)d->size);
    return d->failed ? 0 : len;
}

ls_code http_download(http *h, const char *url, int fd, uint64_t have, uint64_t size, void (*progress)(void *, double), void *user, ls_error *e) {
    download d = {.h = h, .fd = fd, .have = have, .size = size, .progress = progress, .user = user};
    char range[32];
    prepare(h, url);
    h->lib.easy_setopt(h->curl, CURLOPT_FOLLOWLOCATION, 1L);
    h->lib.easy_setopt(h->curl, CURLOPT_WRITEFUNCTION, append_file);
    h->lib.easy_setopt(h->curl, CURLOPT_WRITEDATA, &d);
    if (have) {
        snprintf(range, sizeof range, "%llu-", (unsigned long long)have);
        h->lib.easy_setopt(h->curl, CURLOPT_RANGE, range);
    }
    if (lseek(fd, (off_t)have, SEEK_SET) < 0) LS_FAIL(e, LS_UNKNOWN, "cannot seek in a partial download: %s", strerror(errno));
    CURLcode rc = h->lib.easy_perform(h->curl);
    if (d.failed) LS_FAIL(e, LS_RESOURCE_EXHAUSTED, "cannot write the downloaded file: %s", strerror(errno));
    return rc ? failure(h, rc, url, e) : LS_OK;
}
