/* Attributes, subscripts and slices, with the methods of dicts, lists and loops. The methods that would change a list
 * or dict are undefined, as in jinja2's immutable sandbox. */
#include <string.h>

#include "text/chat_template_builtin.h"

/* ---- dict ---------------------------------------------------------------------------------------------------- */

static ls_code new_view(ls_jvm *vm, ls_jv self, int part, ls_jv *out) {
    ls_jview *view;
    LS_TRY(ls_jvm_alloc(vm, &view, 1, sizeof *view));
    view->dict = self.dict;
    view->part = part;
    *out = (ls_jv){.kind = LS_JV_VIEW, .view = view};
    return LS_OK;
}

static ls_code dict_items(ls_jvm *vm, ls_jv self, const ls_jcall *call, ls_jv *out) {
    (void)call;
    return new_view(vm, self, LS_VIEW_ITEMS, out);
}

static ls_code dict_keys(ls_jvm *vm, ls_jv self, const ls_jcall *call, ls_jv *out) {
    (void)call;
    return new_view(vm, self, LS_VIEW_KEYS, out);
}

static ls_code dict_values(ls_jvm *vm, ls_jv self, const ls_jcall *call, ls_jv *out) {
    (void)call;
    return new_view(vm, self, LS_VIEW_VALUES, out);
}

static ls_code dict_get(ls_jvm *vm, ls_jv self, const ls_jcall *call, ls_jv *out) {
    LS_TRY(ls_jdict_get(vm, self.dict, call->args[0], out));
    if (out->kind == LS_JV_MISSING) *out = call->args[1].kind == LS_JV_MISSING ? ls_jv_none() : call->args[1];
    return LS_OK;
}

static ls_code dict_copy(ls_jvm *vm, ls_jv self, const ls_jcall *call, ls_jv *out) {
    (void)call;
    LS_TRY(ls_jv_dict(vm, LS_JV_DICT, out));
    for (size_t i = 0; i < self.dict->n; i++)
        LS_TRY(ls_jdict_set(vm, out->dict, self.dict->v[i].key, self.dict->v[i].value));
    return LS_OK;
}

static const ls_jbuiltin dict_methods[] = {{"items", "", dict_items},   {"keys", "", dict_keys},
                                           {"values", "", dict_values}, {"get", "/ key ?default", dict_get},
                                           {"copy", "", dict_copy},     {NULL, NULL, NULL}};

/* ---- list and tuple ------------------------------------------------------------------------------------------ */

static ls_code list_index(ls_jvm *vm, ls_jv self, const ls_jcall *call, ls_jv *out) {
    for (size_t i = 0; i < self.list->n; i++) {
        bool same;
        LS_TRY(ls_jv_equal(vm, self.list->v[i], call->args[0], &same));
        if (!same) continue;
        *out = ls_jv_int((int64_t)i);
        return LS_OK;
    }
    LS_FAIL(vm->e, LS_INVALID_ARGUMENT, "index: the value is not in the list");
}

static ls_code list_count(ls_jvm *vm, ls_jv self, const ls_jcall *call, ls_jv *out) {
    int64_t count = 0;
    for (size_t i = 0; i < self.list->n; i++) {
        bool same;
        LS_TRY(ls_jv_equal(vm, self.list->v[i], call->args[0], &same));
        count += same;
    }
    *out = ls_jv_int(count);
    return LS_OK;
}

static ls_code list_copy(ls_jvm *vm, ls_jv self, const ls_jcall *call, ls_jv *out) {
    (void)call;
    return ls_jv_list(vm, LS_JV_LIST, self.list->v, self.list->n, out);
}

static const ls_jbuiltin list_methods[] = {
    {"index", "/ value", list_index}, {"count", "/ value", list_count}, {"copy", "", list_copy}, {NULL, NULL, NULL}};
static const ls_jbuiltin tuple_methods[] = {
    {"index", "/ value", list_index}, {"count", "/ value", list_count}, {NULL, NULL, NULL}};

/* ---- loop ---------------------------------------------------------------------------------------------------- */

static ls_code loop_cycle(ls_jvm *vm, ls_jv self, const ls_jcall *call, ls_jv *out) {
    if (!call->n || call->n_kw)
        LS_FAIL(vm->e, LS_INVALID_ARGUMENT, "loop.cycle needs positional arguments to choose from");
    *out = call->args[self.loop->i % call->n];
    return LS_OK;
}

static ls_code loop_changed(ls_jvm *vm, ls_jv self, const ls_jcall *call, ls_jv *out) {
    ls_jv now;
    bool same = false;
    LS_TRY(ls_jv_list(vm, LS_JV_TUPLE, call->args, call->n, &now));
    if (self.loop->changed.kind != LS_JV_MISSING) LS_TRY(ls_jv_equal(vm, self.loop->changed, now, &same));
    self.loop->changed = now;
    *out = ls_jv_bool(!same);
    return LS_OK;
}

static const ls_jbuiltin loop_methods[] = {
    {"cycle", NULL, loop_cycle}, {"changed", NULL, loop_changed}, {NULL, NULL, NULL}};

/* A data attribute of loop; MISSING when there is none of that name. */
static ls_code loop_attribute(ls_jvm *vm, const ls_jloop *loop, const ls_jstr *name, ls_jv *out) {
    int64_t i = (int64_t)loop->i, n = (int64_t)loop->items->n;
    const struct {
        const char *name;
        int64_t value;
    } numbers[] = {{"index", i + 1},         {"index0", i}, {"length", n}, {"revindex", n - i},
                   {"revindex0", n - i - 1}, {"depth", 1},  {"depth0", 0}};
    *out = ls_jv_missing();
    for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++)
        if (ls_jstr_is(name, numbers[k].name)) *out = ls_jv_int(numbers[k].value);
    if (ls_jstr_is(name, "first")) *out = ls_jv_bool(i == 0);
    if (ls_jstr_is(name, "last")) *out = ls_jv_bool(i == n - 1);
    if (ls_jstr_is(name, "previtem")) {
        if (!i) return ls_jv_undefined(vm, NULL, NULL, "there is no previous item", out);
        *out = loop->items->v[i - 1];
    }
    if (ls_jstr_is(name, "nextitem")) {
        if (i == n - 1) return ls_jv_undefined(vm, NULL, NULL, "there is no next item", out);
        *out = loop->items->v[i + 1];
    }
    return LS_OK;
}

/* ---- Attributes ---------------------------------------------------------------------------------------------- */

static bool is_one_of(const ls_jstr *name, const char *const *list) {
    for (; *list; list++)
        if (ls_jstr_is(name, *list)) return true;
    return false;
}

static bool is_blocked(ls_jv obj, const ls_jstr *name) {
    static const char *const dict_blocked[] = {"clear", "pop", "popitem", "setdefault", "update", NULL};
    static const char *const list_blocked[] = {"append", "clear",  "pop",    "reverse", "insert",
                                               "sort",   "extend", "remove", NULL};
    if (name->n > 4 && !memcmp(name->p, "__", 2) && !memcmp(name->p + name->n - 2, "__", 2)) return true;
    return (obj.kind == LS_JV_DICT && is_one_of(name, dict_blocked)) ||
           (obj.kind == LS_JV_LIST && is_one_of(name, list_blocked));
}

static const ls_jbuiltin *methods_of(ls_jv obj) {
    switch (obj.kind) {
    case LS_JV_STR: return ls_jstr_methods;
    case LS_JV_DICT: return dict_methods;
    case LS_JV_LIST: return list_methods;
    case LS_JV_TUPLE: return tuple_methods;
    case LS_JV_LOOP: return loop_methods;
    default: return NULL;
    }
}

/* The Python attribute of |obj|; MISSING when it has none of that name. */
static ls_code python_attribute(ls_jvm *vm, ls_jv obj, const ls_jstr *name, ls_jv *out) {
    *out = ls_jv_missing();
    if (is_blocked(obj, name))
        return ls_jv_undefined(vm, name, NULL,
                               "this attribute is blocked in templates (it is internal or changes the object)", out);
    if (obj.kind == LS_JV_NAMESPACE) return ls_jdict_get(vm, obj.dict, ls_jv_of_str(name), out);
    if (obj.kind == LS_JV_LOOP) LS_TRY(loop_attribute(vm, obj.loop, name, out));
    if (obj.kind == LS_JV_TUPLE && obj.list->is_group && ls_jstr_is(name, "grouper")) *out = obj.list->v[0];
    if (obj.kind == LS_JV_TUPLE && obj.list->is_group && ls_jstr_is(name, "list")) *out = obj.list->v[1];
    const ls_jbuiltin *table = methods_of(obj), *fn = table ? ls_jbuiltin_find(table, name->p, name->n) : NULL;
    if (!fn) return LS_OK;
    ls_jmethod *method;
    LS_TRY(ls_jvm_alloc(vm, &method, 1, sizeof *method));
    *method = (ls_jmethod){obj, fn};
    *out = (ls_jv){.kind = LS_JV_METHOD, .method = method};
    return LS_OK;
}

ls_code ls_jv_getattr(ls_jvm *vm, ls_jv obj, const ls_jstr *name, ls_jv *out) {
    if (obj.kind == LS_JV_UNDEFINED) return ls_jv_fail_undefined(vm, obj);
    LS_TRY(python_attribute(vm, obj, name, out));
    if (out->kind == LS_JV_MISSING && obj.kind == LS_JV_DICT)
        LS_TRY(ls_jdict_get(vm, obj.dict, ls_jv_of_str(name), out));
    return out->kind == LS_JV_MISSING ? ls_jv_undefined(vm, name, ls_jv_type(obj), NULL, out) : LS_OK;
}

/* ---- Subscripts ---------------------------------------------------------------------------------------------- */

/* Resolves a negative index; false when it is outside [0, n). */
static bool resolve_index(int64_t *i, size_t n) {
    if (*i < 0) *i += (int64_t)n;
    return *i >= 0 && *i < (int64_t)n;
}

/* Item number |i| of a sequence; MISSING when there is none. */
static ls_code item_at(ls_jvm *vm, ls_jv obj, int64_t i, ls_jv *out) {
    size_t n;
    *out = ls_jv_missing();
    bool indexable =
        obj.kind == LS_JV_STR || obj.kind == LS_JV_LIST || obj.kind == LS_JV_TUPLE || obj.kind == LS_JV_RANGE;
    if (!indexable) return LS_OK;
    LS_TRY(ls_jv_len(vm, obj, &n));
    if (!resolve_index(&i, n)) return LS_OK;
    if (obj.kind == LS_JV_RANGE) {
        *out = ls_jv_int(obj.range->start + i * obj.range->step);
    } else if (obj.kind == LS_JV_STR) {
        size_t at = ls_utf8_offset(obj.s->p, obj.s->n, (size_t)i);
        return ls_jv_slice(vm, obj.s, at, at + ls_utf8_step(obj.s->p + at), out);
    } else {
        *out = obj.list->v[i];
    }
    return LS_OK;
}

ls_code ls_jv_getitem(ls_jvm *vm, ls_jv obj, ls_jv key, ls_jv *out) {
    if (obj.kind == LS_JV_UNDEFINED) return ls_jv_fail_undefined(vm, obj);
    *out = ls_jv_missing();
    int64_t i;
    if (obj.kind == LS_JV_DICT) {
        bool hashable = key.kind != LS_JV_LIST && key.kind != LS_JV_DICT;
        if (hashable) LS_TRY(ls_jdict_get(vm, obj.dict, key, out));
    } else if (ls_jv_as_int(key, &i)) {
        LS_TRY(item_at(vm, obj, i, out));
    }
    if (out->kind != LS_JV_MISSING) return LS_OK;
    if (key.kind != LS_JV_STR) return ls_jv_undefined(vm, NULL, NULL, "the object has no such element", out);
    LS_TRY(python_attribute(vm, obj, key.s, out));
    return out->kind == LS_JV_MISSING ? ls_jv_undefined(vm, key.s, ls_jv_type(obj), NULL, out) : LS_OK;
}

/* ---- Slices -------------------------------------------------------------------------------------------------- */

/* Python's rule for one bound of a slice over |n| items. */
static ls_code slice_bound(ls_jvm *vm, ls_jv v, int64_t n, bool forward, int64_t missing, int64_t *out) {
    if (v.kind == LS_JV_MISSING || v.kind == LS_JV_NONE) {
        *out = missing;
        return LS_OK;
    }
    if (!ls_jv_as_int(v, out))
        LS_FAIL(vm->e, LS_INVALID_ARGUMENT, "slice bounds must be integers, not %s", ls_jv_type(v));
    if (*out < 0) *out = *out < -n ? -1 : *out + n;
    if (*out < 0) *out = forward ? 0 : -1;
    if (*out > n - !forward) *out = n - !forward;
    return LS_OK;
}

static ls_code slice_str(ls_jvm *vm, const ls_jstr *s, int64_t first, int64_t step, size_t count, ls_jv *out) {
    if (step == 1) {
        size_t begin = ls_utf8_offset(s->p, s->n, (size_t)first);
        return ls_jv_slice(vm, s, begin, begin + ls_utf8_offset(s->p + begin, s->n - begin, count), out);
    }
    ls_jbuf b = {0};
    ls_jv all;
    const ls_jlist *chars;
    all = ls_jv_of_str(s);
    LS_TRY(ls_jv_items(vm, all, &chars));
    for (size_t k = 0; k < count; k++) LS_TRY(ls_jbuf_str(vm, &b, chars->v[first + (int64_t)k * step].s));
    return ls_jbuf_finish(vm, &b, out);
}

ls_code ls_jv_getslice(ls_jvm *vm, ls_jv obj, ls_jv begin, ls_jv end, ls_jv step, ls_jv *out) {
    if (obj.kind == LS_JV_UNDEFINED) return ls_jv_fail_undefined(vm, obj);
    bool sliceable =
        obj.kind == LS_JV_STR || obj.kind == LS_JV_LIST || obj.kind == LS_JV_TUPLE || obj.kind == LS_JV_RANGE;
    if (!sliceable) LS_FAIL(vm->e, LS_INVALID_ARGUMENT, "a value of type %s cannot be sliced", ls_jv_type(obj));
    size_t len;
    int64_t by = 1, first, last;
    LS_TRY(ls_jv_len(vm, obj, &len));
    int64_t n = (int64_t)len;
    if (step.kind != LS_JV_MISSING && step.kind != LS_JV_NONE)
        LS_TRY(ls_jv_want_int(vm, step, "the step of a slice", &by));
    if (!by) LS_FAIL(vm->e, LS_INVALID_ARGUMENT, "the step of a slice must not be zero");
    if (by > n + 1 || by < -n - 1) by = by > 0 ? n + 1 : -n - 1; /* the same items, without overflow below */
    LS_TRY(slice_bound(vm, begin, n, by > 0, by > 0 ? 0 : n - 1, &first));
    LS_TRY(slice_bound(vm, end, n, by > 0, by > 0 ? n : -1, &last));
    int64_t span = by > 0 ? last - first : first - last, stride = by > 0 ? by : -by;
    size_t count = span > 0 ? (size_t)((span - 1) / stride + 1) : 0;
    if (obj.kind == LS_JV_STR) return slice_str(vm, obj.s, count ? first : 0, by, count, out);
    if (obj.kind == LS_JV_RANGE) {
        ls_jrange *r;
        LS_TRY(ls_jvm_alloc(vm, &r, 1, sizeof *r));
        uint64_t start = (uint64_t)obj.range->start, width = (uint64_t)obj.range->step; /* an unused bound may wrap */
        r->start = (int64_t)(start + (uint64_t)first * width);
        r->stop = (int64_t)(start + (uint64_t)last * width);
        r->step = (int64_t)((uint64_t)by * width);
        r->n = (int64_t)count;
        *out = (ls_jv){.kind = LS_JV_RANGE, .range = r};
        return LS_OK;
    }
    ls_jv *v;
    LS_TRY(ls_jvm_alloc(vm, &v, count, sizeof *v));
    for (size_t k = 0; k < count; k++) v[k] = obj.list->v[first + (int64_t)k * by];
    return ls_jv_list(vm, obj.kind, v, count, out);
}
