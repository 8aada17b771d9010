/* Post-processors reduce to two lists of ids, since only single sequences are encoded here. */
#include "text/tokenizer_post.h"

#include <string.h>

#include "text/tokenizer_model.h"

enum { MAX_FRAME = 1024 };

static ls_code add_id(ls_token_ids *ids, const json_t *id, ls_error *e) {
    if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) >= LS_VOCAB_MAX_IDS)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "post_processor: a token id must be an integer from 0 to %d", LS_VOCAB_MAX_IDS - 1);
    if (ids->n >= MAX_FRAME) LS_FAIL(e, LS_RESOURCE_EXHAUSTED, "post_processor: more than %d special tokens", MAX_FRAME);
    return ls_token_ids_add(ids, (int32_t)json_integer_value(id), e);
}

/* All ids of the special token |name| as the template's table has them. */
static ls_code add_special(ls_token_ids *to, const json_t *table, const char *name, ls_error *e) {
    const json_t *ids = json_object_get(json_object_get(table, name), "ids"), *id;
    if (!json_is_array(ids)) LS_FAIL(e, LS_INVALID_ARGUMENT, "post_processor: special token \"%.64s\" has no ids", name);
    size_t i;
    json_array_foreach(ids, i, id) LS_TRY(add_id(to, id, e));
    return LS_OK;
}

/* A list of new ids goes outside what earlier processors of a Sequence put there: prepended before, appended after. */
static ls_code prepend(ls_token_ids *to, const ls_token_ids *front, ls_error *e) {
    size_t had = to->n;
    for (size_t i = 0; i < front->n; i++) LS_TRY(ls_token_ids_add(to, 0, e));
    if (!front->n) return LS_OK;
    memmove(to->ids + front->n, to->ids, had * sizeof *to->ids);
    memcpy(to->ids, front->ids, front->n * sizeof *to->ids);
    return LS_OK;
}

static ls_code template(ls_post *p, const json_t *node, ls_error *e) {
    const json_t *single = json_object_get(node, "single"), *table = json_object_get(node, "special_tokens"), *part;
    bool seen = false;
    size_t i;
    ls_token_ids front = {0};
    ls_code rc = LS_OK;
    if (!json_is_array(single)) LS_FAIL(e, LS_INVALID_ARGUMENT, "post_processor: TemplateProcessing needs an array \"single\"");
    json_array_foreach(single, i, part) {
        const json_t *special = json_object_get(part, "SpecialToken"), *sequence = json_object_get(part, "Sequence");
        const char *name = json_string_value(json_object_get(special ? special : sequence, "id"));
        if (!name || (sequence && (strcmp(name, "A") || seen)))
            LS_FAIL_GOTO(e, LS_UNIMPLEMENTED, "post_processor: \"single\" must be special tokens around one sequence A");
        if (sequence) seen = true;
        else LS_GOTO(add_special(seen ? &p->after : &front, table, name, e));
    }
    if (!seen) LS_FAIL_GOTO(e, LS_UNIMPLEMENTED, "post_processor: \"single\" has no sequence A");
    rc = prepend(&p->before, &front, e);
out:
    ls_free(front.ids);
    return rc;
}

/* Bert and Roberta: {"cls": [text, id], "sep": [text, id]} put before and after. */
static ls_code cls_sep(ls_post *p, const json_t *node, ls_error *e) {
    ls_token_ids front = {0};
    ls_code rc = add_id(&front, json_array_get(json_object_get(node, "cls"), 1), e);
    if (!rc) rc = prepend(&p->before, &front, e);
    ls_free(front.ids);
    return rc ? rc : add_id(&p->after, json_array_get(json_object_get(node, "sep"), 1), e);
}

static ls_code add_step(void *user, const char *type, const json_t *node, ls_error *e) {
    ls_post *p = user;
    if (!strcmp(type, "TemplateProcessing")) return template(p, node, e);
    if (!strcmp(type, "BertProcessing") || !strcmp(type, "RobertaProcessing")) return cls_sep(p, node, e);
    if (!strcmp(type, "ByteLevel")) return LS_OK; /* only moves offsets */
    return ls_component_unknown("post_processor", type, "TemplateProcessing, BertProcessing, RobertaProcessing, ByteLevel", e);
}

ls_code ls_post_load(ls_post *p, const json_t *node, ls_error *e) {
    return ls_component_each(node, "post_processor", "processors", add_step, p, e);
}

void ls_post_deinit(ls_post *p) {
    ls_free(p->before.ids);
    ls_free(p->after.ids);
    *p = (ls_post){0};
}
