/* Reading the component trees of tokenizer.json: normalizer, pre_tokenizer, decoder and post_processor are each null,
 * one component, or a Sequence of components. */
#ifndef LS_TEXT_TOKENIZER_COMPONENT_H
#define LS_TEXT_TOKENIZER_COMPONENT_H

#include "base/json.h"
#include "text/tokenizer_regex.h"

/* One component, which is not a Sequence, in order. |type| is its "type". */
typedef ls_code (*ls_component_fn)(void *user, const char *type, const json_t *node, ls_error *e);

/* Calls |fn| for every leaf of |node| (NULL or null: none). |part| names the tree in messages ("normalizer"), |list| is
 * the key of a Sequence's children. Errors: INVALID_ARGUMENT, RESOURCE_EXHAUSTED (over 64 components or 8 levels). */
ls_code ls_component_each(const json_t *node, const char *part, const char *list, ls_component_fn fn, void *user, ls_error *e);

/* UNIMPLEMENTED: names the part and the type, and lists what is supported. */
ls_code ls_component_unknown(const char *part, const char *type, const char *supported, ls_error *e);

/* {"String": s} or {"Regex": s} under |key|. */
ls_code ls_component_pattern(const json_t *node, const char *key, ls_regex **out, ls_error *e);

/* A required string, with its length (may contain NUL). Borrowed. */
ls_code ls_component_text(const json_t *node, const char *key, const char **text, size_t *len, ls_error *e);

/* A required string of exactly one character. */
ls_code ls_component_char(const json_t *node, const char *key, uint32_t *cp, ls_error *e);

/* A growable array of components has at most this many entries. */
enum { LS_MAX_COMPONENTS = 64 };

#endif
