/* Values of the template language: the machine's budgets, making, comparing and walking values. */
#include "text/chat_template_value.h"

#include <math.h>
#include <string.h>

/* ---- Machine ------------------------------------------------------------------------------------------------- */

ls_code ls_jvm_alloc(ls_jvm *vm, void *out, size_t n, size_t elem) {
    size_t bytes;
    if (!ls_size_mul(n, elem, &bytes) || bytes > vm->bytes_left)
        LS_FAIL(vm->e, LS_RESOURCE_EXHAUSTED, "chat template needs more memory than the allowed %d bytes",
                LS_JVM_MAX_BYTES);
    vm->bytes_left -= bytes;
    LS_TRY(ls_jvm_work(vm, 1 + bytes / 1024));
    return ls_arena_alloc(vm->arena, out, n, elem, vm->e);
}

ls_code ls_jvm_work(ls_jvm *vm, size_t steps) {
    if (steps > vm->work_left)
        LS_FAIL(vm->e, LS_RESOURCE_EXHAUSTED, "chat template does more than the allowed %d steps", LS_JVM_MAX_WORK);
    vm->work_left -= steps;
    return LS_OK;
}

ls_code ls_jvm_enter(ls_jvm *vm) {
    if (vm->depth >= LS_JVM_MAX_DEPTH)
        LS_FAIL(vm->e, LS_RESOURCE_EXHAUSTED, "chat template nests or recurses more than %d levels", LS_JVM_MAX_DEPTH);
    vm->depth++;
    return LS_OK;
}

/* ---- Making values ------------------------------------------------------------------------------------------- */

ls_jv ls_jv_none(void) { return (ls_jv){.kind = LS_JV_NONE}; }
ls_jv ls_jv_bool(bool b) { return (ls_jv){.kind = LS_JV_BOOL, .b = b}; }
ls_jv ls_jv_int(int64_t i) { return (ls_jv){.kind = LS_JV_INT, .i = i}; }
ls_jv ls_jv_float(double f) { return (ls_jv){.kind = LS_JV_FLOAT, .f = f}; }
ls_jv ls_jv_of_str(const ls_jstr *s) { return (ls_jv){.kind = LS_JV_STR, .s = s}; }
ls_jv ls_jv_missing(void) { return (ls_jv){.kind = LS_JV_MISSING}; }

ls_code ls_jv_undefined(ls_jvm *vm, const ls_jstr *name, const char *owner, const char *hint, ls_jv *out) {
    ls_jundef *u;
    LS_TRY(ls_jvm_alloc(vm, &u, 1, sizeof *u));
    *u = (ls_jundef){name, owner, hint};
    *out = (ls_jv){.kind = LS_JV_UNDEFINED, .undef = u};
    return LS_OK;
}

static ls_code new_str(ls_jvm *vm, ls_jstr value, ls_jv *out) {
    ls_jstr *s;
    LS_TRY(ls_jvm_alloc(vm, &s, 1, sizeof *s));
    *s = value;
    *out = ls_jv_of_str(s);
    return LS_OK;
}

ls_code ls_jv_text(ls_jvm *vm, const char *p, size_t n, bool input, ls_jv *out) {
    if (n == SIZE_MAX) n = strlen(p);
    char *copy;
    LS_TRY(ls_jvm_alloc(vm, &copy, n + 1, 1));
    if (n) memcpy(copy, p, n);
    return new_str(vm, (ls_jstr){.p = copy, .n = n, .input = input}, out);
}

ls_code ls_jv_slice(ls_jvm *vm, const ls_jstr *s, size_t begin, size_t end, ls_jv *out) {
    ls_jstr part = *s;
    part.p += begin;
    part.n = end - begin;
    if (part.origin) part.origin += begin;
    return new_str(vm, part, out);
}

ls_code ls_jv_list(ls_jvm *vm, ls_jkind kind, const ls_jv *v, size_t n, ls_jv *out) {
    static const ls_jv nothing = {.kind = LS_JV_MISSING}; /* so that list->v is never NULL */
    ls_jlist *list;
    LS_TRY(ls_jvm_alloc(vm, &list, 1, sizeof *list));
    *list = (ls_jlist){.v = v ? v : &nothing, .n = n};
    *out = (ls_jv){.kind = kind, .list = list};
    return LS_OK;
}

ls_code ls_jv_iter(ls_jvm *vm, const ls_jlist *items, ls_jv *out) {
    ls_jiter *it;
    LS_TRY(ls_jvm_alloc(vm, &it, 1, sizeof *it));
    it->items = items;
    *out = (ls_jv){.kind = LS_JV_ITER, .iter = it};
    return LS_OK;
}

ls_code ls_jv_dict(ls_jvm *vm, ls_jkind kind, ls_jv *out) {
    ls_jdict *d;
    LS_TRY(ls_jvm_alloc(vm, &d, 1, sizeof *d));
    *out = (ls_jv){.kind = kind, .dict = d};
    return LS_OK;
}

static ls_code array_from_json(ls_jvm *vm, const json_t *json, bool input, ls_jv *out) {
    size_t n = json_array_size(json);
    ls_jv *v;
    LS_TRY(ls_jvm_alloc(vm, &v, n, sizeof *v));
    for (size_t i = 0; i < n; i++) LS_TRY(ls_jv_from_json(vm, json_array_get(json, i), input, &v[i]));
    return ls_jv_list(vm, LS_JV_LIST, v, n, out);
}

/* Keys of a JSON object are distinct, so the pairs are filled without searching. */
static ls_code object_from_json(ls_jvm *vm, const json_t *json, bool input, ls_jv *out) {
    LS_TRY(ls_jv_dict(vm, LS_JV_DICT, out));
    ls_jdict *d = out->dict;
    d->cap = json_object_size(json);
    LS_TRY(ls_jvm_alloc(vm, &d->v, d->cap, sizeof *d->v));
    json_t *object = (json_t *)json; /* jansson's iterators only read, but take a pointer to non-const */
    for (void *it = json_object_iter(object); it && d->n < d->cap; it = json_object_iter_next(object, it)) {
        ls_jpair *pair = &d->v[d->n++];
        LS_TRY(ls_jv_text(vm, json_object_iter_key(it), json_object_iter_key_len(it), input, &pair->key));
        LS_TRY(ls_jv_from_json(vm, json_object_iter_value(it), input, &pair->value));
    }
    return LS_OK;
}

ls_code ls_jv_from_json(ls_jvm *vm, const json_t *json, bool input, ls_jv *out) {
    LS_TRY(ls_jvm_enter(vm));
    switch (json_typeof(json)) {
    case JSON_OBJECT: LS_TRY(object_from_json(vm, json, input, out)); break;
    case JSON_ARRAY: LS_TRY(array_from_json(vm, json, input, out)); break;
    case JSON_STRING: LS_TRY(ls_jv_text(vm, json_string_value(json), json_string_length(json), input, out)); break;
    case JSON_INTEGER: *out = ls_jv_int(json_integer_value(json)); break;
    case JSON_REAL: *out = ls_jv_float(json_real_value(json)); break;
    case JSON_TRUE:
    case JSON_FALSE: *out = ls_jv_bool(json_is_true(json)); break;
    default: *out = ls_jv_none();
    }
    vm->depth--;
    return LS_OK;
}

/* ---- Reading values ------------------------------------------------------------------------------------------ */

const char *ls_jv_type(ls_jv v) {
    static const char *const names[] = {
        [LS_JV_MISSING] = "missing", [LS_JV_UNDEFINED] = "Undefined", [LS_JV_NONE] = "None", [LS_JV_BOOL] = "bool",
        [LS_JV_INT] = "int", [LS_JV_FLOAT] = "float", [LS_JV_STR] = "str", [LS_JV_LIST] = "list",
        [LS_JV_TUPLE] = "tuple", [LS_JV_DICT] = "dict", [LS_JV_RANGE] = "range", [LS_JV_VIEW] = "dict view",
        [LS_JV_ITER] = "iterator", [LS_JV_NAMESPACE] = "Namespace", [LS_JV_LOOP] = "LoopContext",
        [LS_JV_FUNC] = "function", [LS_JV_METHOD] = "method", [LS_JV_MACRO] = "Macro"};
    return names[v.kind];
}

bool ls_jv_truth(ls_jv v) {
    switch (v.kind) {
    case LS_JV_MISSING:
    case LS_JV_UNDEFINED:
    case LS_JV_NONE: return false;
    case LS_JV_BOOL: return v.b;
    case LS_JV_INT: return v.i != 0;
    case LS_JV_FLOAT: return v.f != 0;
    case LS_JV_STR: return v.s->n != 0;
    case LS_JV_LIST:
    case LS_JV_TUPLE: return v.list->n != 0;
    case LS_JV_DICT: return v.dict->n != 0;
    case LS_JV_RANGE: return v.range->n != 0;
    case LS_JV_VIEW: return v.view->dict->n != 0;
    case LS_JV_LOOP: return v.loop->items->n != 0;
    default: return true;
    }
}

bool ls_jv_is_number(ls_jv v) { return v.kind == LS_JV_INT || v.kind == LS_JV_FLOAT || v.kind == LS_JV_BOOL; }

bool ls_jv_as_int(ls_jv v, int64_t *out) {
    if (v.kind != LS_JV_INT && v.kind != LS_JV_BOOL) return false;
    *out = v.kind == LS_JV_BOOL ? v.b : v.i;
    return true;
}

double ls_jv_as_real(ls_jv v) { return v.kind == LS_JV_FLOAT ? v.f : v.kind == LS_JV_INT ? (double)v.i : v.b; }

ls_code ls_jv_fail_undefined(ls_jvm *vm, ls_jv v) {
    const ls_jundef *u = v.undef;
    if (!u->name) LS_FAIL(vm->e, LS_INVALID_ARGUMENT, "%s", u->hint);
    int n = u->name->n < 100 ? (int)u->name->n : 100;
    if (u->hint) LS_FAIL(vm->e, LS_INVALID_ARGUMENT, "'%.*s': %s", n, u->name->p, u->hint);
    if (!u->owner) LS_FAIL(vm->e, LS_INVALID_ARGUMENT, "'%.*s' is undefined", n, u->name->p);
    LS_FAIL(vm->e, LS_INVALID_ARGUMENT, "'%s' has no attribute '%.*s'", u->owner, n, u->name->p);
}

ls_code ls_jv_str(ls_jvm *vm, ls_jv v, const ls_jstr **out) {
    if (v.kind != LS_JV_STR) {
        ls_jbuf b = {0};
        LS_TRY(ls_jbuf_value(vm, &b, v));
        LS_TRY(ls_jbuf_finish(vm, &b, &v));
    }
    *out = v.s;
    return LS_OK;
}

ls_code ls_jv_want_str(ls_jvm *vm, ls_jv v, const char *what, const ls_jstr **out) {
    static const ls_jstr empty = {.p = ""};
    *out = &empty;
    if (v.kind == LS_JV_UNDEFINED) return ls_jv_fail_undefined(vm, v);
    if (v.kind != LS_JV_STR) LS_FAIL(vm->e, LS_INVALID_ARGUMENT, "%s must be a string, not %s", what, ls_jv_type(v));
    *out = v.s;
    return LS_OK;
}

ls_code ls_jv_want_int(ls_jvm *vm, ls_jv v, const char *what, int64_t *out) {
    *out = 0;
    if (v.kind == LS_JV_UNDEFINED) return ls_jv_fail_undefined(vm, v);
    if (!ls_jv_as_int(v, out))
        LS_FAIL(vm->e, LS_INVALID_ARGUMENT, "%s must be an integer, not %s", what, ls_jv_type(v));
    return LS_OK;
}

ls_code ls_jv_len(ls_jvm *vm, ls_jv v, size_t *out) {
    switch (v.kind) {
    case LS_JV_UNDEFINED: *out = 0; return LS_OK;
    case LS_JV_STR: *out = ls_utf8_count(v.s->p, v.s->n); return ls_jvm_work(vm, v.s->n / 64);
    case LS_JV_LIST:
    case LS_JV_TUPLE: *out = v.list->n; return LS_OK;
    case LS_JV_DICT: *out = v.dict->n; return LS_OK;
    case LS_JV_RANGE: *out = (size_t)v.range->n; return LS_OK;
    case LS_JV_VIEW: *out = v.view->dict->n; return LS_OK;
    case LS_JV_LOOP: *out = v.loop->items->n; return LS_OK;
    default: LS_FAIL(vm->e, LS_INVALID_ARGUMENT, "a value of type %s has no length", ls_jv_type(v));
    }
}

static ls_code chars_of(ls_jvm *vm, const ls_jstr *s, ls_jv *v) {
    size_t k = 0;
    ls_jstr plain = *s;
    plain.markup = false; /* walking Markup gives plain strings */
    for (size_t i = 0; i < s->n; k++) {
        size_t step = ls_utf8_step(s->p + i);
        LS_TRY(ls_jv_slice(vm, &plain, i, i + step, &v[k]));
        i += step;
    }
    return LS_OK;
}

static ls_code pairs_of(ls_jvm *vm, const ls_jdict *d, int part, ls_jv *v) {
    for (size_t i = 0; i < d->n; i++) {
        if (part != LS_VIEW_ITEMS) {
            v[i] = part == LS_VIEW_KEYS ? d->v[i].key : d->v[i].value;
            continue;
        }
        ls_jv *pair;
        LS_TRY(ls_jvm_alloc(vm, &pair, 2, sizeof *pair));
        pair[0] = d->v[i].key;
        pair[1] = d->v[i].value;
        LS_TRY(ls_jv_list(vm, LS_JV_TUPLE, pair, 2, &v[i]));
    }
    return LS_OK;
}

/* The rest of a one-shot iterator or loop, which is thereby used up. */
static ls_code rest_of(ls_jvm *vm, const ls_jlist *all, size_t from, const ls_jlist **out) {
    ls_jv rest;
    LS_TRY(ls_jv_list(vm, LS_JV_LIST, all->v + from, all->n - from, &rest));
    *out = rest.list;
    return LS_OK;
}

ls_code ls_jv_items(ls_jvm *vm, ls_jv v, const ls_jlist **out) {
    if (v.kind == LS_JV_LIST || v.kind == LS_JV_TUPLE) {
        *out = v.list;
        return LS_OK;
    }
    if (v.kind == LS_JV_ITER) {
        size_t from = v.iter->next;
        v.iter->next = v.iter->items->n;
        return rest_of(vm, v.iter->items, from, out);
    }
    bool walkable = v.kind == LS_JV_UNDEFINED || v.kind == LS_JV_STR || v.kind == LS_JV_DICT || v.kind == LS_JV_RANGE ||
                    v.kind == LS_JV_VIEW;
    if (!walkable) LS_FAIL(vm->e, LS_INVALID_ARGUMENT, "a value of type %s cannot be iterated", ls_jv_type(v));
    size_t n;
    ls_jv *items, list;
    LS_TRY(ls_jv_len(vm, v, &n));
    LS_TRY(ls_jvm_alloc(vm, &items, n, sizeof *items));
    if (v.kind == LS_JV_STR) LS_TRY(chars_of(vm, v.s, items));
    if (v.kind == LS_JV_DICT) LS_TRY(pairs_of(vm, v.dict, LS_VIEW_KEYS, items));
    if (v.kind == LS_JV_VIEW) LS_TRY(pairs_of(vm, v.view->dict, (int)v.view->part, items));
    for (size_t i = 0; v.kind == LS_JV_RANGE && i < n; i++)
        items[i] = ls_jv_int(v.range->start + (int64_t)i * v.range->step);
    LS_TRY(ls_jv_list(vm, LS_JV_LIST, items, n, &list));
    *out = list.list;
    return LS_OK;
}

/* ---- Comparing ----------------------------------------------------------------------------------------------- */

static int three_way(double a, double b) { return a < b ? -1 : a > b; }

static int compare_numbers(ls_jv a, ls_jv b) {
    int64_t x, y;
    if (ls_jv_as_int(a, &x) && ls_jv_as_int(b, &y)) return x < y ? -1 : x > y;
    return three_way(ls_jv_as_real(a), ls_jv_as_real(b));
}

static bool is_nan(ls_jv v) { return v.kind == LS_JV_FLOAT && isnan(v.f); }

static bool same_str(const ls_jstr *a, const ls_jstr *b) {
    return a->n == b->n && (a->p == b->p || !memcmp(a->p, b->p, a->n));
}

static ls_code equal_lists(ls_jvm *vm, const ls_jlist *a, const ls_jlist *b, bool *out) {
    *out = a->n == b->n;
    for (size_t i = 0; *out && i < a->n; i++) LS_TRY(ls_jv_equal(vm, a->v[i], b->v[i], out));
    return LS_OK;
}

static ls_code equal_dicts(ls_jvm *vm, const ls_jdict *a, const ls_jdict *b, bool *out) {
    *out = a->n == b->n;
    for (size_t i = 0; *out && i < a->n; i++) {
        ls_jv other;
        LS_TRY(ls_jdict_get(vm, b, a->v[i].key, &other));
        *out = other.kind != LS_JV_MISSING;
        if (*out) LS_TRY(ls_jv_equal(vm, a->v[i].value, other, out));
    }
    return LS_OK;
}

static bool equal_ranges(const ls_jrange *a, const ls_jrange *b) {
    return a->n == b->n && (!a->n || (a->start == b->start && (a->n == 1 || a->step == b->step)));
}

ls_code ls_jv_equal(ls_jvm *vm, ls_jv a, ls_jv b, bool *out) {
    *out = false;
    if (ls_jv_is_number(a) && ls_jv_is_number(b)) {
        *out = !is_nan(a) && !is_nan(b) && !compare_numbers(a, b);
        return LS_OK;
    }
    if (a.kind != b.kind) return LS_OK;
    LS_TRY(ls_jvm_enter(vm));
    LS_TRY(ls_jvm_work(vm, 1));
    switch (a.kind) {
    case LS_JV_STR:
        *out = same_str(a.s, b.s);
        LS_TRY(ls_jvm_work(vm, *out ? a.s->n / 64 : 0));
        break;
    case LS_JV_LIST:
    case LS_JV_TUPLE: LS_TRY(equal_lists(vm, a.list, b.list, out)); break;
    case LS_JV_DICT: LS_TRY(equal_dicts(vm, a.dict, b.dict, out)); break;
    case LS_JV_RANGE: *out = equal_ranges(a.range, b.range); break;
    case LS_JV_METHOD: *out = a.method == b.method; break;
    case LS_JV_VIEW: *out = a.view == b.view; break;
    case LS_JV_UNDEFINED:
    case LS_JV_NONE: *out = true; break;
    default: *out = (const void *)a.dict == (const void *)b.dict;
    }
    vm->depth--;
    return LS_OK;
}

static ls_code compare_lists(ls_jvm *vm, const ls_jlist *a, const ls_jlist *b, int *out) {
    for (size_t i = 0; i < a->n && i < b->n; i++) {
        bool same;
        LS_TRY(ls_jv_equal(vm, a->v[i], b->v[i], &same));
        if (!same) return ls_jv_compare(vm, a->v[i], b->v[i], out);
    }
    *out = a->n < b->n ? -1 : a->n > b->n;
    return LS_OK;
}

ls_code ls_jv_compare(ls_jvm *vm, ls_jv a, ls_jv b, int *out) {
    LS_TRY(ls_jvm_enter(vm));
    LS_TRY(ls_jvm_work(vm, 1));
    if (ls_jv_is_number(a) && ls_jv_is_number(b)) {
        *out = compare_numbers(a, b);
    } else if (a.kind == LS_JV_STR && b.kind == LS_JV_STR) {
        size_t n = a.s->n < b.s->n ? a.s->n : b.s->n;
        LS_TRY(ls_jvm_work(vm, n / 64));
        *out = n ? memcmp(a.s->p, b.s->p, n) : 0;
        if (!*out) *out = a.s->n < b.s->n ? -1 : a.s->n > b.s->n;
    } else if (a.kind == b.kind && (a.kind == LS_JV_LIST || a.kind == LS_JV_TUPLE)) {
        LS_TRY(compare_lists(vm, a.list, b.list, out));
    } else {
        if (a.kind == LS_JV_UNDEFINED) return ls_jv_fail_undefined(vm, a);
        if (b.kind == LS_JV_UNDEFINED) return ls_jv_fail_undefined(vm, b);
        LS_FAIL(vm->e, LS_INVALID_ARGUMENT, "values of types %s and %s have no order", ls_jv_type(a), ls_jv_type(b));
    }
    vm->depth--;
    return LS_OK;
}

ls_code ls_jv_contains(ls_jvm *vm, ls_jv seq, ls_jv x, bool *out) {
    *out = false;
    if (seq.kind == LS_JV_STR) {
        const ls_jstr *sub;
        LS_TRY(ls_jv_want_str(vm, x, "the left side of 'in'", &sub));
        LS_TRY(ls_jvm_work(vm, seq.s->n / 64));
        *out = ls_find_bytes(seq.s->p, seq.s->n, sub->p, sub->n, 0) != SIZE_MAX;
        return LS_OK;
    }
    if (seq.kind == LS_JV_DICT || (seq.kind == LS_JV_VIEW && seq.view->part == LS_VIEW_KEYS)) {
        ls_jv found;
        LS_TRY(ls_jdict_get(vm, seq.kind == LS_JV_DICT ? seq.dict : seq.view->dict, x, &found));
        *out = found.kind != LS_JV_MISSING;
        return LS_OK;
    }
    const ls_jlist *items;
    size_t from = seq.kind == LS_JV_ITER ? seq.iter->next : 0;
    LS_TRY(ls_jv_items(vm, seq, &items));
    for (size_t i = 0; !*out && i < items->n; i++) {
        LS_TRY(ls_jv_equal(vm, items->v[i], x, out));
        if (seq.kind == LS_JV_ITER) seq.iter->next = from + i + 1; /* the search stops where it finds */
    }
    return LS_OK;
}

/* ---- Dictionaries -------------------------------------------------------------------------------------------- */

static ls_code check_key(ls_jvm *vm, ls_jv key) {
    if (key.kind == LS_JV_LIST || key.kind == LS_JV_DICT)
        LS_FAIL(vm->e, LS_INVALID_ARGUMENT, "a %s cannot be a key of a dict", ls_jv_type(key));
    if (key.kind != LS_JV_TUPLE) return LS_OK;
    LS_TRY(ls_jvm_enter(vm));
    for (size_t i = 0; i < key.list->n; i++) LS_TRY(check_key(vm, key.list->v[i]));
    vm->depth--;
    return LS_OK;
}

static ls_code find_key(ls_jvm *vm, const ls_jdict *d, ls_jv key, ls_jpair **out) {
    *out = NULL;
    LS_TRY(check_key(vm, key));
    LS_TRY(ls_jvm_work(vm, d->n / 8));
    for (size_t i = 0; i < d->n; i++) {
        ls_jv k = d->v[i].key;
        bool same = false;
        if (k.kind == LS_JV_STR && key.kind == LS_JV_STR) same = same_str(k.s, key.s);
        else LS_TRY(ls_jv_equal(vm, k, key, &same));
        if (!same) continue;
        *out = &d->v[i];
        return LS_OK;
    }
    return LS_OK;
}

ls_code ls_jdict_get(ls_jvm *vm, const ls_jdict *d, ls_jv key, ls_jv *out) {
    ls_jpair *pair;
    LS_TRY(find_key(vm, d, key, &pair));
    *out = pair ? pair->value : ls_jv_missing();
    return LS_OK;
}

ls_code ls_jdict_set(ls_jvm *vm, ls_jdict *d, ls_jv key, ls_jv value) {
    ls_jpair *pair;
    LS_TRY(find_key(vm, d, key, &pair));
    if (pair) {
        pair->value = value;
        return LS_OK;
    }
    if (d->n == d->cap) {
        ls_jpair *grown;
        size_t cap = d->cap ? d->cap * 2 : 4;
        LS_TRY(ls_jvm_alloc(vm, &grown, cap, sizeof *grown));
        if (d->n) memcpy(grown, d->v, d->n * sizeof *grown);
        d->v = grown;
        d->cap = cap;
    }
    d->v[d->n++] = (ls_jpair){key, value};
    return LS_OK;
}
