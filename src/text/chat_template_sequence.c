/* Filters on sequences and mappings. Those that are generators in jinja2 give a value that can be walked once. */
#include <string.h>

#include "text/chat_template_builtin.h"

/* ---- Attribute paths: "a.b.0" --------------------------------------------------------------------------------- */

typedef struct getter {
    ls_jv attribute; /* MISSING or None: the item itself */
    ls_jv fallback;  /* for undefined results; MISSING: none */
    bool fold_case;  /* lower case for strings */
} getter;

static ls_code get_part(ls_jvm *vm, ls_jv item, const ls_jstr *path, size_t begin, size_t end, ls_jv *out) {
    ls_jv key;
    int64_t number;
    bool digits = end > begin;
    for (size_t i = begin; i < end; i++) digits = digits && path->p[i] >= '0' && path->p[i] <= '9';
    LS_TRY(ls_jv_slice(vm, path, begin, end, &key));
    if (digits && ls_jstr_to_int(key.s, 10, &number)) key = ls_jv_int(number);
    return ls_jv_getitem(vm, item, key, out);
}

static ls_code get(ls_jvm *vm, const getter *g, ls_jv item, ls_jv *out) {
    *out = item;
    if (g->attribute.kind == LS_JV_STR) {
        const ls_jstr *path = g->attribute.s;
        for (size_t begin = 0, end; begin <= path->n; begin = end + 1) {
            end = ls_find_bytes(path->p, path->n, ".", 1, begin);
            if (end == SIZE_MAX) end = path->n;
            LS_TRY(get_part(vm, *out, path, begin, end, out));
            if (out->kind == LS_JV_UNDEFINED && g->fallback.kind != LS_JV_MISSING) *out = g->fallback;
        }
    } else if (g->attribute.kind != LS_JV_MISSING && g->attribute.kind != LS_JV_NONE) {
        LS_TRY(ls_jv_getitem(vm, *out, g->attribute, out));
        if (out->kind == LS_JV_UNDEFINED && g->fallback.kind != LS_JV_MISSING) *out = g->fallback;
    }
    return g->fold_case && out->kind == LS_JV_STR ? ls_jstr_case(vm, out->s, LS_CASE_LOWER, out) : LS_OK;
}

/* The key of sort: a list of one value, or of several for "a,b". (Lists compare equal items without ordering them, so
 * equal values of types that have no order can be sorted.) */
static ls_code get_multi(ls_jvm *vm, const getter *g, ls_jv item, ls_jv *out) {
    const ls_jstr *all = g->attribute.kind == LS_JV_STR ? g->attribute.s : NULL;
    size_t count = 1, n = 0;
    for (size_t i = 0; all && i < all->n; i++) count += all->p[i] == ',';
    ls_jv *keys;
    LS_TRY(ls_jvm_alloc(vm, &keys, count, sizeof *keys));
    if (!all) {
        LS_TRY(get(vm, g, item, &keys[0]));
        return ls_jv_list(vm, LS_JV_LIST, keys, 1, out);
    }
    for (size_t begin = 0, end; begin <= all->n; begin = end + 1) {
        end = ls_find_bytes(all->p, all->n, ",", 1, begin);
        if (end == SIZE_MAX) end = all->n;
        getter one = *g;
        LS_TRY(ls_jv_slice(vm, all, begin, end, &one.attribute));
        LS_TRY(get(vm, &one, item, &keys[n++]));
    }
    return ls_jv_list(vm, LS_JV_LIST, keys, n, out);
}

static ls_code keyed_items(ls_jvm *vm, ls_jv seq, const getter *g, bool multi, ls_jpair **out, size_t *n) {
    const ls_jlist *items;
    LS_TRY(ls_jv_items(vm, seq, &items));
    *n = items->n;
    LS_TRY(ls_jvm_alloc(vm, out, items->n, sizeof **out));
    for (size_t i = 0; i < items->n; i++) {
        LS_TRY(ls_jvm_work(vm, 1));
        (*out)[i].value = items->v[i];
        LS_TRY(multi ? get_multi(vm, g, items->v[i], &(*out)[i].key) : get(vm, g, items->v[i], &(*out)[i].key));
    }
    return LS_OK;
}

static ls_code values_of(ls_jvm *vm, const ls_jpair *pairs, size_t n, bool one_shot, ls_jv *out) {
    ls_jv *v;
    LS_TRY(ls_jvm_alloc(vm, &v, n, sizeof *v));
    for (size_t i = 0; i < n; i++) v[i] = pairs[i].value;
    LS_TRY(ls_jv_list(vm, LS_JV_LIST, v, n, out));
    return one_shot ? ls_jv_iter(vm, out->list, out) : LS_OK;
}

/* ---- Whole sequences ------------------------------------------------------------------------------------------ */

static ls_code filter_list(ls_jvm *vm, ls_jv self, const ls_jcall *call, ls_jv *out) {
    (void)call;
    const ls_jlist *items;
    LS_TRY(ls_jv_items(vm, self, &items));
    return ls_jv_list(vm, LS_JV_LIST, items->v, items->n, out);
}

static ls_code filter_first(ls_jvm *vm, ls_jv self, const ls_jcall *call, ls_jv *out) {
    (void)call;
    const ls_jlist *items;
    size_t next = self.kind == LS_JV_ITER ? self.iter->next + 1 : 0;
    LS_TRY(ls_jv_items(vm, self, &items));
    if (self.kind == LS_JV_ITER && items->n) self.iter->next = next; /* only one item is taken */
    if (!items->n) return ls_jv_undefined(vm, NULL, NULL, "no first item, the sequence was empty", out);
    *out = items->v[0];
    return LS_OK;
}

static ls_code filter_last(ls_jvm *vm, ls_jv self, const ls_jcall *call, ls_jv *out) {
    (void)call;
    const ls_jlist *items;
    if (self.kind == LS_JV_ITER)
        LS_FAIL(vm->e, LS_INVALID_ARGUMENT, "last: an iterator cannot be reversed; use list first");
    LS_TRY(ls_jv_items(vm, self, &items));
    if (!items->n) return ls_jv_undefined(vm, NULL, NULL, "no last item, the sequence was empty", out);
    *out = items->v[items->n - 1];
    return LS_OK;
}

static ls_code filter_reverse(ls_jvm *vm, ls_jv self, const ls_jcall *call, ls_jv *out) {
    (void)call;
    const ls_jlist *items;
    ls_jv *v;
    LS_TRY(ls_jv_items(vm, self, &items));
    LS_TRY(ls_jvm_alloc(vm, &v, items->n, sizeof *v));
    for (size_t i = 0; i < items->n; i++) v[i] = items->v[items->n - 1 - i];
    LS_TRY(ls_jv_list(vm, LS_JV_LIST, v, items->n, out));
    if (self.kind == LS_JV_ITER) return LS_OK;
    if (self.kind != LS_JV_STR) return ls_jv_iter(vm, out->list, out);
    const ls_jstr empty = {.p = ""};
    return ls_jstr_join(vm, &empty, out->list, true, out);
}

static ls_code filter_join(ls_jvm *vm, ls_jv self, const ls_jcall *call, ls_jv *out) {
    static const ls_jstr empty = {.p = ""};
    const ls_jstr *sep = &empty;
    const getter g = {.attribute = call->args[1], .fallback = ls_jv_missing()};
    ls_jpair *pairs;
    size_t n;
    if (call->args[0].kind != LS_JV_MISSING) LS_TRY(ls_jv_str(vm, call->args[0], &sep));
    LS_TRY(keyed_items(vm, self, &g, false, &pairs, &n));
    for (size_t i = 0; i < n; i++) pairs[i].value = pairs[i].key;
    LS_TRY(values_of(vm, pairs, n, false, out));
    return ls_jstr_join(vm, sep, out->list, true, out);
}

static ls_code filter_sum(ls_jvm *vm, ls_jv self, const ls_jcall *call, ls_jv *out) {
    const getter g = {.attribute = call->args[0], .fallback = ls_jv_missing()};
    ls_jpair *pairs;
    size_t n;
    *out = call->args[1].kind == LS_JV_MISSING ? ls_jv_int(0) : call->args[1];
    if (out->kind == LS_JV_STR) LS_FAIL(vm->e, LS_INVALID_ARGUMENT, "sum does not add strings; use join");
    LS_TRY(keyed_items(vm, self, &g, false, &pairs, &n));
    for (size_t i = 0; i < n; i++) LS_TRY(ls_jv_binary(vm, LS_JOP_ADD, *out, pairs[i].key, out));
    return LS_OK;
}

static ls_code extreme(ls_jvm *vm, ls_jv self, const ls_jcall *call, int want, ls_jv *out) {
    const getter g = {
        .attribute = call->args[1], .fallback = ls_jv_missing(), .fold_case = !ls_jv_truth(call->args[0])};
    ls_jpair *pairs;
    size_t n, best = 0;
    LS_TRY(keyed_items(vm, self, &g, false, &pairs, &n));
    if (!n) return ls_jv_undefined(vm, NULL, NULL, "no aggregated item, the sequence was empty", out);
    for (size_t i = 1; i < n; i++) {
        int order;
        LS_TRY(ls_jv_compare(vm, pairs[i].key, pairs[best].key, &order));
        if (want < 0 ? order < 0 : order > 0) best = i;
    }
    *out = pairs[best].value;
    return LS_OK;
}

static ls_code filter_min(ls_jvm *vm, ls_jv self, const ls_jcall *call, ls_jv *out) {
    return extreme(vm, self, call, -1, out);
}
static ls_code filter_max(ls_jvm *vm, ls_jv self, const ls_jcall *call, ls_jv *out) {
    return extreme(vm, self, call, 1, out);
}

static ls_code filter_sort(ls_jvm *vm, ls_jv self, const ls_jcall *call, ls_jv *out) {
    const getter g = {
        .attribute = call->args[2], .fallback = ls_jv_missing(), .fold_case = !ls_jv_truth(call->args[1])};
    ls_jpair *pairs;
    size_t n;
    LS_TRY(keyed_items(vm, self, &g, true, &pairs, &n));
    LS_TRY(ls_jv_sort(vm, pairs, n, ls_jv_truth(call->args[0])));
    return values_of(vm, pairs, n, false, out);
}

static ls_code filter_unique(ls_jvm *vm, ls_jv self, const ls_jcall *call, ls_jv *out) {
    const getter g = {
        .attribute = call->args[1], .fallback = ls_jv_missing(), .fold_case = !ls_jv_truth(call->args[0])};
    ls_jpair *pairs;
    size_t n, kept = 0;
    ls_jv seen;
    LS_TRY(keyed_items(vm, self, &g, false, &pairs, &n));
    LS_TRY(ls_jv_dict(vm, LS_JV_DICT, &seen));
    for (size_t i = 0; i < n; i++) {
        ls_jv old;
        LS_TRY(ls_jdict_get(vm, seen.dict, pairs[i].key, &old));
        if (old.kind != LS_JV_MISSING) continue;
        LS_TRY(ls_jdict_set(vm, seen.dict, pairs[i].key, ls_jv_none()));
        pairs[kept++] = pairs[i];
    }
    return values_of(vm, pairs, kept, true, out);
}

/* ---- Mappings -------------------------------------------------------------------------------------------------- */

static ls_code filter_items(ls_jvm *vm, ls_jv self, const ls_jcall *call, ls_jv *out) {
    (void)call;
    const ls_jlist *items;
    if (self.kind != LS_JV_DICT && self.kind != LS_JV_UNDEFINED)
        LS_FAIL(vm->e, LS_INVALID_ARGUMENT, "items needs a mapping, not %s", ls_jv_type(self));
    const ls_jview view = {self.dict, LS_VIEW_ITEMS};
    ls_jv v = {.kind = LS_JV_VIEW, .view = &view};
    LS_TRY(ls_jv_items(vm, self.kind == LS_JV_DICT ? v : self, &items));
    return ls_jv_iter(vm, items, out);
}

static ls_code filter_dictsort(ls_jvm *vm, ls_jv self, const ls_jcall *call, ls_jv *out) {
    bool by_value = false;
    if (call->args[1].kind != LS_JV_MISSING) {
        const ls_jstr *by;
        LS_TRY(ls_jv_want_str(vm, call->args[1], "the argument by of dictsort", &by));
        by_value = ls_jstr_is(by, "value");
        if (!by_value && !ls_jstr_is(by, "key"))
            LS_FAIL(vm->e, LS_INVALID_ARGUMENT, "dictsort: by must be \"key\" or \"value\"");
    }
    if (self.kind == LS_JV_UNDEFINED) return ls_jv_fail_undefined(vm, self);
    if (self.kind != LS_JV_DICT) LS_FAIL(vm->e, LS_INVALID_ARGUMENT, "dictsort needs a dict, not %s", ls_jv_type(self));
    const ls_jview view = {self.dict, LS_VIEW_ITEMS};
    const ls_jv items = {.kind = LS_JV_VIEW, .view = &view};
    const getter g = {
        .attribute = ls_jv_int(by_value), .fallback = ls_jv_missing(), .fold_case = !ls_jv_truth(call->args[0])};
    ls_jpair *pairs;
    size_t n;
    LS_TRY(keyed_items(vm, items, &g, false, &pairs, &n));
    LS_TRY(ls_jv_sort(vm, pairs, n, ls_jv_truth(call->args[2])));
    return values_of(vm, pairs, n, false, out);
}

static ls_code filter_groupby(ls_jvm *vm, ls_jv self, const ls_jcall *call, ls_jv *out) {
    bool fold = !ls_jv_truth(call->args[2]);
    getter g = {.attribute = call->args[0], .fallback = call->args[1], .fold_case = fold};
    if (g.fallback.kind == LS_JV_NONE) g.fallback = ls_jv_missing();
    ls_jpair *pairs;
    size_t n, count = 0;
    ls_jv *groups;
    LS_TRY(keyed_items(vm, self, &g, false, &pairs, &n));
    LS_TRY(ls_jv_sort(vm, pairs, n, false));
    LS_TRY(ls_jvm_alloc(vm, &groups, n, sizeof *groups));
    g.fold_case = false;
    for (size_t i = 0, end; i < n; i = end) {
        bool same = true;
        for (end = i + 1; end < n; end++) {
            LS_TRY(ls_jv_equal(vm, pairs[i].key, pairs[end].key, &same));
            if (!same) break;
        }
        ls_jv *group;
        LS_TRY(ls_jvm_alloc(vm, &group, 2, sizeof *group));
        LS_TRY(get(vm, &g, pairs[i].value, &group[0]));
        LS_TRY(values_of(vm, pairs + i, end - i, false, &group[1]));
        ls_jlist *tuple;
        LS_TRY(ls_jvm_alloc(vm, &tuple, 1, sizeof *tuple));
        *tuple = (ls_jlist){.v = group, .n = 2, .is_group = true};
        groups[count++] = (ls_jv){.kind = LS_JV_TUPLE, .list = tuple};
    }
    return ls_jv_list(vm, LS_JV_LIST, groups, count, out);
}

/* ---- map, select and their relatives --------------------------------------------------------------------------- */

static ls_code empty_iter(ls_jvm *vm, ls_jv *out) {
    LS_TRY(ls_jv_list(vm, LS_JV_LIST, NULL, 0, out));
    return ls_jv_iter(vm, out->list, out);
}

/* map(attribute=..., default=...) */
static ls_code map_attribute(ls_jvm *vm, ls_jv self, const ls_jcall *call, ls_jv *out) {
    getter g = {.attribute = ls_jv_missing(), .fallback = ls_jv_missing()};
    for (size_t i = 0; i < call->n_kw; i++) {
        if (ls_jstr_is(call->kw[i].name, "attribute")) g.attribute = call->kw[i].value;
        else if (ls_jstr_is(call->kw[i].name, "default")) g.fallback = call->kw[i].value;
        else
            LS_FAIL(vm->e, LS_INVALID_ARGUMENT, "map: unexpected argument '%.*s'",
                    call->kw[i].name->n < 60 ? (int)call->kw[i].name->n : 60, call->kw[i].name->p);
    }
    if (g.attribute.kind == LS_JV_MISSING) LS_FAIL(vm->e, LS_INVALID_ARGUMENT, "map needs a filter or attribute=");
    if (g.fallback.kind == LS_JV_NONE) g.fallback = ls_jv_missing();
    ls_jpair *pairs;
    size_t n;
    LS_TRY(keyed_items(vm, self, &g, false, &pairs, &n));
    for (size_t i = 0; i < n; i++) pairs[i].value = pairs[i].key;
    return values_of(vm, pairs, n, true, out);
}

static ls_code filter_map(ls_jvm *vm, ls_jv self, const ls_jcall *call, ls_jv *out) {
    if (!ls_jv_truth(self)) return empty_iter(vm, out);
    if (!call->n) return map_attribute(vm, self, call, out);
    const ls_jcall rest = {.args = call->args + 1, .n = call->n - 1, .kw = call->kw, .n_kw = call->n_kw};
    const ls_jlist *items;
    ls_jv *v;
    LS_TRY(ls_jv_items(vm, self, &items));
    LS_TRY(ls_jvm_alloc(vm, &v, items->n, sizeof *v));
    for (size_t i = 0; i < items->n; i++) LS_TRY(ls_jfilter_apply(vm, call->args[0], items->v[i], &rest, &v[i]));
    LS_TRY(ls_jv_list(vm, LS_JV_LIST, v, items->n, out));
    return ls_jv_iter(vm, out->list, out);
}

static ls_code keep(ls_jvm *vm, ls_jv self, const ls_jcall *call, bool by_attribute, bool want, ls_jv *out) {
    if (!ls_jv_truth(self)) return empty_iter(vm, out);
    size_t off = by_attribute ? 1 : 0, kept = 0;
    if (call->n < off) LS_FAIL(vm->e, LS_INVALID_ARGUMENT, "selectattr and rejectattr need the name of an attribute");
    const getter g = {.attribute = by_attribute ? call->args[0] : ls_jv_missing(), .fallback = ls_jv_missing()};
    bool tested = call->n > off;
    ls_jcall rest = {.kw = call->kw, .n_kw = call->n_kw};
    if (tested)
        rest = (ls_jcall){.args = call->args + off + 1, .n = call->n - off - 1, .kw = call->kw, .n_kw = call->n_kw};
    const ls_jlist *items;
    ls_jv *v, item;
    LS_TRY(ls_jv_items(vm, self, &items));
    LS_TRY(ls_jvm_alloc(vm, &v, items->n, sizeof *v));
    for (size_t i = 0; i < items->n; i++) {
        LS_TRY(ls_jvm_work(vm, 1));
        LS_TRY(get(vm, &g, items->v[i], &item));
        bool holds = ls_jv_truth(item);
        if (tested) LS_TRY(ls_jtest_apply(vm, call->args[off], item, &rest, &holds));
        if (holds == want) v[kept++] = items->v[i];
    }
    LS_TRY(ls_jv_list(vm, LS_JV_LIST, v, kept, out));
    return ls_jv_iter(vm, out->list, out);
}

static ls_code filter_select(ls_jvm *vm, ls_jv self, const ls_jcall *call, ls_jv *out) {
    return keep(vm, self, call, false, true, out);
}
static ls_code filter_reject(ls_jvm *vm, ls_jv self, const ls_jcall *call, ls_jv *out) {
    return keep(vm, self, call, false, false, out);
}
static ls_code filter_selectattr(ls_jvm *vm, ls_jv self, const ls_jcall *call, ls_jv *out) {
    return keep(vm, self, call, true, true, out);
}
static ls_code filter_rejectattr(ls_jvm *vm, ls_jv self, const ls_jcall *call, ls_jv *out) {
    return keep(vm, self, call, true, false, out);
}

const ls_jbuiltin ls_jseq_filters[] = {{"list", "", filter_list},
                                       {"first", "", filter_first},
                                       {"last", "", filter_last},
                                       {"reverse", "", filter_reverse},
                                       {"join", "?d ?attribute", filter_join},
                                       {"sum", "?attribute ?start", filter_sum},
                                       {"min", "?case_sensitive ?attribute", filter_min},
                                       {"max", "?case_sensitive ?attribute", filter_max},
                                       {"sort", "?reverse ?case_sensitive ?attribute", filter_sort},
                                       {"unique", "?case_sensitive ?attribute", filter_unique},
                                       {"items", "", filter_items},
                                       {"dictsort", "?case_sensitive ?by ?reverse", filter_dictsort},
                                       {"groupby", "attribute ?default ?case_sensitive", filter_groupby},
                                       {"map", NULL, filter_map},
                                       {"select", NULL, filter_select},
                                       {"reject", NULL, filter_reject},
                                       {"selectattr", NULL, filter_selectattr},
                                       {"rejectattr", NULL, filter_rejectattr},
                                       {NULL, NULL, NULL}};
