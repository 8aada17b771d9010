/* Chat templates: the Jinja subset that published chat templates use, rendered byte for byte as Hugging Face does
 * (jinja2 ImmutableSandboxedEnvironment with trim_blocks, lstrip_blocks and loopcontrols, and transformers' tojson).
 *
 * A template is compiled once (unknown constructs fail here, naming line and construct) and rendered many times with
 * bounds on steps and output size. Immutable after compilation. */
#ifndef LS_TEXT_CHAT_TEMPLATE_H
#define LS_TEXT_CHAT_TEMPLATE_H

#include "base/json.h"

typedef struct ls_chat_template ls_chat_template;

ls_code ls_chat_template_compile(ls_chat_template **out, const char *source, size_t len, ls_error *e);
void ls_chat_template_free(ls_chat_template *t);

/* What one rendered byte range came from: template text, or a string supplied in the context (message content and the
 * like). Ranges of user content are tokenised without parsing special tokens, so typed control text stays text. */
typedef struct ls_render_span {
    size_t begin, end; /* bytes of the output */
    bool from_input;   /* true: the bytes come from a context string, not from the template's own text */
} ls_render_span;

typedef struct ls_render {
    ls_str text;
    ls_render_span *spans; /* owned; cover the text without gaps, in order */
    size_t n_spans, cap_spans;
} ls_render;

/* Renders with the variables of the JSON object |context| (messages, tools, add_generation_prompt, bos_token, ...).
 * |now| is the clock of strftime_now (seconds since the epoch, local time zone). raise_exception in a template gives
 * INVALID_ARGUMENT with its text. Errors: RESOURCE_EXHAUSTED past the step or size limit. Strings of the
 * top-level keys bos_token, eos_token, pad_token, unk_token, sep_token, cls_token and mask_token count as template text
 * in spans; every other string of the context, keys of objects included, is input, also after tojson and formatting.
 * |out| is set up here and empty on failure; free it with ls_render_deinit. */
ls_code ls_chat_template_render(const ls_chat_template *t, const json_t *context, int64_t now, ls_render *out,
                                ls_error *e);
void ls_render_deinit(ls_render *r);

#endif
