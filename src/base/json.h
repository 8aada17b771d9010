/* JSON through jansson, with bounds and messages that name the file and key. Values are jansson's json_t. */
#ifndef LS_BASE_JSON_H
#define LS_BASE_JSON_H

#include <jansson.h>

#include "base/file.h"

/* Parses |len| bytes, rejecting duplicate keys and trailing text. |name| is used in messages. Free with json_decref. */
ls_code ls_json_parse(json_t **out, const char *text, size_t len, const char *name, ls_error *e);

/* Reads and parses a file of at most |max| bytes. */
ls_code ls_json_load(json_t **out, const char *path, size_t max, ls_error *e);

/* Typed reads from an object. A missing or null key keeps *out (the default); a value of another type is
 * INVALID_ARGUMENT naming the key. |obj| may be NULL (as if empty). Integers accept a real with an integral value. */
ls_code ls_json_get_int(const json_t *obj, const char *key, int64_t lo, int64_t hi, int64_t *out, ls_error *e);
ls_code ls_json_get_real(const json_t *obj, const char *key, double *out, ls_error *e);
ls_code ls_json_get_bool(const json_t *obj, const char *key, bool *out, ls_error *e);
ls_code ls_json_get_str(const json_t *obj, const char *key, const char **out, ls_error *e); /* borrowed from |obj| */

#endif
