/* Built-in operations on values: attributes, subscripts, operators, calls, and the tables of filters, tests, methods
 * and global functions. Each function follows the Python operation that its comment names. */
#ifndef LS_TEXT_CHAT_TEMPLATE_BUILTIN_H
#define LS_TEXT_CHAT_TEMPLATE_BUILTIN_H

#include "text/chat_template_ast.h"

enum { LS_JCALL_MAX_PARAMS = 8 };

/* Calls |fn| on |self|, sorting the arguments into its parameters. INVALID_ARGUMENT when they do not fit. */
ls_code ls_jbuiltin_call(ls_jvm *vm, const ls_jbuiltin *fn, ls_jv self, const ls_jcall *call, ls_jv *out);
const ls_jbuiltin *ls_jbuiltin_find(const ls_jbuiltin *table, const char *name,
                                    size_t len); /* table ends with a NULL name */

/* Any callable value: function, method or macro. */
ls_code ls_jv_call(ls_jvm *vm, ls_jv callee, const ls_jcall *call, ls_jv *out);

/* obj.name: Python attributes (methods) first, then obj["name"]. An absent one is undefined, not an error. */
ls_code ls_jv_getattr(ls_jvm *vm, ls_jv obj, const ls_jstr *name, ls_jv *out);
/* obj[key]: items first, then attributes. */
ls_code ls_jv_getitem(ls_jvm *vm, ls_jv obj, ls_jv key, ls_jv *out);
/* obj[begin:end:step]; MISSING or None for a bound that is not given. */
ls_code ls_jv_getslice(ls_jvm *vm, ls_jv obj, ls_jv begin, ls_jv end, ls_jv step, ls_jv *out);

ls_code ls_jv_binary(ls_jvm *vm, ls_jop op, ls_jv a, ls_jv b, ls_jv *out);   /* + - * / // % ** */
ls_code ls_jv_relation(ls_jvm *vm, ls_jop op, ls_jv a, ls_jv b, bool *out);  /* == != < <= > >= in, not in */
ls_code ls_jv_negate(ls_jvm *vm, ls_jv a, ls_jv *out);

/* A filter called from another one (map) and a test (select), by name. */
ls_code ls_jfilter_apply(ls_jvm *vm, ls_jv name, ls_jv self, const ls_jcall *call, ls_jv *out);
ls_code ls_jtest_apply(ls_jvm *vm, ls_jv name, ls_jv self, const ls_jcall *call, bool *out);

/* A stable sort of v[n], in place, by v[i].key (see ls_jv_compare). */
ls_code ls_jv_sort(ls_jvm *vm, ls_jpair *v, size_t n, bool reverse);

extern const ls_jbuiltin ls_jstr_methods[];
extern const ls_jbuiltin ls_jglobals[];         /* range, namespace, dict, raise_exception, strftime_now */
extern const ls_jbuiltin ls_jstr_filters[];     /* filters on text */
extern const ls_jbuiltin ls_jseq_filters[];     /* filters on sequences and mappings */
extern const ls_jbuiltin ls_jnumber_filters[];  /* filters on numbers, and the general ones */

ls_code ls_jtojson(ls_jvm *vm, ls_jv self, const ls_jcall *call, ls_jv *out); /* transformers' tojson filter */
/* "%s and %d" % args, and "{} and {x}".format(...) of Python. */
ls_code ls_jformat_percent(ls_jvm *vm, const ls_jstr *format, ls_jv args, ls_jv *out);
ls_code ls_jformat_braces(ls_jvm *vm, const ls_jstr *format, const ls_jcall *call, ls_jv *out);
/* datetime.fromtimestamp(now).strftime(format) in the local time zone. */
ls_code ls_jstrftime(ls_jvm *vm, const ls_jstr *format, int64_t now, ls_jv *out);

/* Python's str.upper, lower, title and capitalize, with the characters that change length. */
typedef enum ls_jcase { LS_CASE_UPPER, LS_CASE_LOWER, LS_CASE_CAPITALIZE, LS_CASE_TITLE, LS_CASE_SWAP } ls_jcase;
ls_code ls_jstr_case(ls_jvm *vm, const ls_jstr *s, ls_jcase how, ls_jv *out);
/* markupsafe.escape */
ls_code ls_jstr_escape(ls_jvm *vm, ls_jv v, ls_jv *out);
/* str.replace(old, new, count); count < 0: all. */
ls_code ls_jstr_replace(ls_jvm *vm, const ls_jstr *s, const ls_jstr *old, const ls_jstr *by, int64_t count, ls_jv *out);
/* str.strip(chars); |chars| NULL: white space. |sides|: 1 left, 2 right, 3 both. */
ls_code ls_jstr_strip(ls_jvm *vm, const ls_jstr *s, const ls_jstr *chars, int sides, ls_jv *out);
/* str.splitlines() */
ls_code ls_jstr_splitlines(ls_jvm *vm, const ls_jstr *s, bool keep_ends, ls_jv *out);
/* sep.join(items), each through str() when |convert|. */
ls_code ls_jstr_join(ls_jvm *vm, const ls_jstr *sep, const ls_jlist *items, bool convert, ls_jv *out);
/* Python's int(text) and float(text); false when they would raise ValueError. */
bool ls_jstr_to_int(const ls_jstr *s, int base, int64_t *out);
bool ls_jstr_to_float(const ls_jstr *s, double *out);
/* Python's round(x, ndigits). */
double ls_py_round(double x, int64_t digits);

#endif
