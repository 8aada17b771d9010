/* The tests behind `is`. */
#include <math.h>
#include <string.h>

#include "text/chat_template_builtin.h"

#define KIND_TEST(name, condition)                                                                \
    static ls_code test_##name(ls_jvm *vm, ls_jv v, const ls_jcall *call, ls_jv *out) {           \
        (void)vm;                                                                                 \
        (void)call;                                                                               \
        *out = ls_jv_bool(condition);                                                             \
        return LS_OK;                                                                             \
    }
KIND_TEST(defined, v.kind != LS_JV_UNDEFINED)
KIND_TEST(undefined, v.kind == LS_JV_UNDEFINED)
KIND_TEST(none, v.kind == LS_JV_NONE)
KIND_TEST(boolean, v.kind == LS_JV_BOOL)
KIND_TEST(true, v.kind == LS_JV_BOOL && v.b)
KIND_TEST(false, v.kind == LS_JV_BOOL && !v.b)
KIND_TEST(integer, v.kind == LS_JV_INT)
KIND_TEST(float, v.kind == LS_JV_FLOAT)
KIND_TEST(number, ls_jv_is_number(v))
KIND_TEST(string, v.kind == LS_JV_STR)
KIND_TEST(mapping, v.kind == LS_JV_DICT)
KIND_TEST(sequence, v.kind == LS_JV_STR || v.kind == LS_JV_LIST || v.kind == LS_JV_TUPLE || v.kind == LS_JV_DICT ||
                        v.kind == LS_JV_RANGE || v.kind == LS_JV_UNDEFINED)
KIND_TEST(iterable, v.kind == LS_JV_STR || v.kind == LS_JV_LIST || v.kind == LS_JV_TUPLE || v.kind == LS_JV_DICT ||
                        v.kind == LS_JV_RANGE || v.kind == LS_JV_UNDEFINED || v.kind == LS_JV_VIEW ||
                        v.kind == LS_JV_ITER || v.kind == LS_JV_LOOP)
KIND_TEST(callable,
          v.kind == LS_JV_FUNC || v.kind == LS_JV_METHOD || v.kind == LS_JV_MACRO || v.kind == LS_JV_UNDEFINED)
KIND_TEST(escaped, v.kind == LS_JV_STR && v.s->markup)

/* v % by == remainder, on numbers; anything else fails as Python's % does. */
static ls_code remainder_is(ls_jvm *vm, ls_jv v, ls_jv by, int64_t remainder, ls_jv *out) {
    bool same;
    LS_TRY(ls_jv_binary(vm, LS_JOP_MOD, v, by, &v));
    LS_TRY(ls_jv_equal(vm, v, ls_jv_int(remainder), &same));
    *out = ls_jv_bool(same);
    return LS_OK;
}

static ls_code test_odd(ls_jvm *vm, ls_jv v, const ls_jcall *call, ls_jv *out) {
    (void)call;
    return remainder_is(vm, v, ls_jv_int(2), 1, out);
}

static ls_code test_even(ls_jvm *vm, ls_jv v, const ls_jcall *call, ls_jv *out) {
    (void)call;
    return remainder_is(vm, v, ls_jv_int(2), 0, out);
}

static ls_code test_divisibleby(ls_jvm *vm, ls_jv v, const ls_jcall *call, ls_jv *out) {
    return remainder_is(vm, v, call->args[0], 0, out);
}

/* lower and upper: Python's islower and isupper of the text. */
static ls_code test_case(ls_jvm *vm, ls_jv v, const char *method, ls_jv *out) {
    const ls_jstr *s;
    const ls_jcall none = {0};
    LS_TRY(ls_jv_str(vm, v, &s));
    return ls_jbuiltin_call(vm, ls_jbuiltin_find(ls_jstr_methods, method, 7), ls_jv_of_str(s), &none, out);
}

static ls_code test_lower(ls_jvm *vm, ls_jv v, const ls_jcall *call, ls_jv *out) {
    (void)call;
    return test_case(vm, v, "islower", out);
}

static ls_code test_upper(ls_jvm *vm, ls_jv v, const ls_jcall *call, ls_jv *out) {
    (void)call;
    return test_case(vm, v, "isupper", out);
}

/* Identity: singletons and numbers by value, everything else by the object it is. */
static ls_code test_sameas(ls_jvm *vm, ls_jv v, const ls_jcall *call, ls_jv *out) {
    ls_jv other = call->args[0];
    bool scalar = v.kind == LS_JV_NONE || v.kind == LS_JV_BOOL || v.kind == LS_JV_INT, same = v.kind == other.kind;
    if (same && scalar) LS_TRY(ls_jv_equal(vm, v, other, &same));
    else if (same) same = (const void *)v.dict == (const void *)other.dict;
    *out = ls_jv_bool(same);
    return LS_OK;
}

static ls_code relation(ls_jvm *vm, ls_jop op, ls_jv a, ls_jv b, ls_jv *out) {
    bool holds;
    LS_TRY(ls_jv_relation(vm, op, a, b, &holds));
    *out = ls_jv_bool(holds);
    return LS_OK;
}

#define RELATION_TEST(name, op)                                                           \
    static ls_code test_##name(ls_jvm *vm, ls_jv v, const ls_jcall *call, ls_jv *out) {   \
        return relation(vm, op, v, call->args[0], out);                                   \
    }
RELATION_TEST(in, LS_JOP_IN)
RELATION_TEST(eq, LS_JOP_EQ)
RELATION_TEST(ne, LS_JOP_NE)
RELATION_TEST(gt, LS_JOP_GT)
RELATION_TEST(ge, LS_JOP_GE)
RELATION_TEST(lt, LS_JOP_LT)
RELATION_TEST(le, LS_JOP_LE)

static ls_code test_filter(ls_jvm *vm, ls_jv v, const ls_jcall *call, ls_jv *out) {
    (void)call;
    (void)vm;
    *out = ls_jv_bool(v.kind == LS_JV_STR && ls_jfilter_find(v.s->p, v.s->n));
    return LS_OK;
}

static const ls_jbuiltin tests[] = {{"defined", "", test_defined},
                                    {"undefined", "", test_undefined},
                                    {"none", "", test_none},
                                    {"boolean", "", test_boolean},
                                    {"true", "", test_true},
                                    {"false", "", test_false},
                                    {"integer", "", test_integer},
                                    {"float", "", test_float},
                                    {"number", "", test_number},
                                    {"string", "", test_string},
                                    {"mapping", "", test_mapping},
                                    {"sequence", "", test_sequence},
                                    {"iterable", "", test_iterable},
                                    {"callable", "", test_callable},
                                    {"escaped", "", test_escaped},
                                    {"odd", "", test_odd},
                                    {"even", "", test_even},
                                    {"divisibleby", "num", test_divisibleby},
                                    {"lower", "", test_lower},
                                    {"upper", "", test_upper},
                                    {"sameas", "other", test_sameas},
                                    {"in", "seq", test_in},
                                    {"eq", "b", test_eq},
                                    {"equalto", "b", test_eq},
                                    {"==", "b", test_eq},
                                    {"ne", "b", test_ne},
                                    {"!=", "b", test_ne},
                                    {"gt", "b", test_gt},
                                    {"greaterthan", "b", test_gt},
                                    {">", "b", test_gt},
                                    {"ge", "b", test_ge},
                                    {">=", "b", test_ge},
                                    {"lt", "b", test_lt},
                                    {"lessthan", "b", test_lt},
                                    {"<", "b", test_lt},
                                    {"le", "b", test_le},
                                    {"<=", "b", test_le},
                                    {"filter", "", test_filter},
                                    {NULL, NULL, NULL}};

const ls_jbuiltin *ls_jtest_find(const char *name, size_t len) { return ls_jbuiltin_find(tests, name, len); }

ls_code ls_jtest_apply(ls_jvm *vm, ls_jv name, ls_jv self, const ls_jcall *call, bool *out) {
    const ls_jstr *s;
    LS_TRY(ls_jv_want_str(vm, name, "the name of a test", &s));
    const ls_jbuiltin *fn = ls_jtest_find(s->p, s->n);
    if (!fn) LS_FAIL(vm->e, LS_UNIMPLEMENTED, "unknown test '%.*s'", s->n < 60 ? (int)s->n : 60, s->p);
    ls_jv result;
    LS_TRY(ls_jbuiltin_call(vm, fn, self, call, &result));
    *out = ls_jv_truth(result);
    return LS_OK;
}
