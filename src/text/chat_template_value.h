/* Values of the template language and the machine that owns them.
 *
 * A value is a small tagged union; everything it points to lives in the arena of its machine (one render) or of its
 * template (constants), is never changed once shared (namespaces and one-shot iterators excepted) and is never freed
 * on its own. Strings are UTF-8 and remember, byte by byte, whether they came from the context ("input") or from the
 * template. All functions return ls_code; on failure the render is over, so no function cleans up. */
#ifndef LS_TEXT_CHAT_TEMPLATE_VALUE_H
#define LS_TEXT_CHAT_TEMPLATE_VALUE_H

#include "base/json.h"

typedef enum ls_jkind {
    LS_JV_MISSING, /* no value: an argument that was not given */
    LS_JV_UNDEFINED,
    LS_JV_NONE,
    LS_JV_BOOL,
    LS_JV_INT,
    LS_JV_FLOAT,
    LS_JV_STR,
    LS_JV_LIST,
    LS_JV_TUPLE,
    LS_JV_DICT,
    LS_JV_RANGE,
    LS_JV_VIEW, /* dict.keys(), .values(), .items() */
    LS_JV_ITER, /* generators and reversed(): can be walked once, always true, no length */
    LS_JV_NAMESPACE,
    LS_JV_LOOP,
    LS_JV_FUNC,   /* a global function */
    LS_JV_METHOD, /* a method bound to its object */
    LS_JV_MACRO
} ls_jkind;

/* A string. Without |origin| all bytes are of one kind, told by |input|; else origin[i] is 1 for bytes of the context. */
typedef struct ls_jstr {
    const char *p;
    size_t n;
    const char *origin;
    bool input;
    bool markup; /* made by the filters safe and escape */
} ls_jstr;

typedef struct ls_jv {
    ls_jkind kind;
    union {
        bool b;
        int64_t i;
        double f;
        const ls_jstr *s;
        const struct ls_jlist *list; /* LIST and TUPLE */
        struct ls_jdict *dict;       /* DICT and NAMESPACE */
        const struct ls_jrange *range;
        const struct ls_jview *view;
        struct ls_jiter *iter;
        struct ls_jloop *loop;
        const struct ls_jbuiltin *func;
        const struct ls_jmethod *method;
        const struct ls_jmacro *macro;
        const struct ls_jundef *undef;
    };
} ls_jv;

typedef struct ls_jlist {
    const ls_jv *v;
    size_t n;
    bool is_group; /* a tuple of groupby: its items are also attributes grouper and list */
} ls_jlist;

typedef struct ls_jpair {
    ls_jv key, value;
} ls_jpair;

typedef struct ls_jdict { /* keys in order of insertion */
    ls_jpair *v;
    size_t n, cap;
} ls_jdict;

typedef struct ls_jrange {
    int64_t start, step, n;
    int64_t stop; /* as written, for printing */
} ls_jrange;

typedef struct ls_jview {
    const ls_jdict *dict;
    enum { LS_VIEW_KEYS, LS_VIEW_VALUES, LS_VIEW_ITEMS } part;
} ls_jview;

typedef struct ls_jiter {
    const ls_jlist *items;
    size_t next;
} ls_jiter;

typedef struct ls_jloop {
    const ls_jlist *items;
    size_t i;
    ls_jv changed; /* arguments of the last loop.changed(), MISSING before */
} ls_jloop;

/* Why a value is undefined, kept for the message of the error that using it raises. */
typedef struct ls_jundef {
    const ls_jstr *name; /* variable, attribute or key; NULL: |hint| alone */
    const char *owner;   /* type that lacks the attribute; NULL: a variable */
    const char *hint;
} ls_jundef;

/* The machine: memory, budgets and variables of one render. */
typedef struct ls_jvm {
    ls_arena *arena;
    ls_error *e;
    size_t bytes_left; /* memory this render may still take */
    size_t work_left;  /* steps it may still do: one per node, and one per 64 bytes or 8 elements walked */
    int depth;         /* nesting of evaluation now */
    bool told;         /* the error is complete: no line number goes before it */
    int64_t now;
    struct ls_jinterp *interp; /* private to the interpreter */
} ls_jvm;

typedef struct ls_jkw {
    const ls_jstr *name;
    ls_jv value;
} ls_jkw;

/* Arguments of a call as written. For a built-in with a signature, args[] holds one entry per parameter (MISSING when
 * not given) and there are no keywords. */
typedef struct ls_jcall {
    ls_jv *args;
    size_t n;
    ls_jkw *kw;
    size_t n_kw;
} ls_jcall;

/* A filter, test, method or global function. |self| is the piped or owning value (MISSING for functions). */
typedef ls_code (*ls_jfn)(ls_jvm *vm, ls_jv self, const ls_jcall *call, ls_jv *out);

typedef struct ls_jbuiltin {
    const char *name;
    const char *params; /* "old new ?count": names, '?' before optional ones, "/ " first when only positional arguments
                           are allowed; NULL: takes the call as written */
    ls_jfn fn;
} ls_jbuiltin;

typedef struct ls_jmethod {
    ls_jv self;
    const ls_jbuiltin *fn;
} ls_jmethod;

/* ---- Machine ------------------------------------------------------------------------------------------------- */

enum { LS_JVM_MAX_DEPTH = 600, LS_JVM_MAX_BYTES = 1 << 29, LS_JVM_MAX_WORK = 100 * 1000 * 1000 };

ls_code ls_jvm_alloc(ls_jvm *vm, void *out, size_t n, size_t elem); /* zeroed; counts against bytes_left */
ls_code ls_jvm_work(ls_jvm *vm, size_t steps);                      /* RESOURCE_EXHAUSTED when used up */
ls_code ls_jvm_enter(ls_jvm *vm); /* one level deeper; the caller does vm->depth-- on success */

/* ---- Making values ------------------------------------------------------------------------------------------- */

ls_jv ls_jv_none(void);
ls_jv ls_jv_bool(bool b);
ls_jv ls_jv_int(int64_t i);
ls_jv ls_jv_float(double f);
ls_jv ls_jv_of_str(const ls_jstr *s);
ls_jv ls_jv_missing(void);
ls_code ls_jv_undefined(ls_jvm *vm, const ls_jstr *name, const char *owner, const char *hint, ls_jv *out);
ls_code ls_jv_text(ls_jvm *vm, const char *p, size_t n, bool input, ls_jv *out); /* copies; n SIZE_MAX: strlen */
ls_code ls_jv_slice(ls_jvm *vm, const ls_jstr *s, size_t begin, size_t end,
                    ls_jv *out); /* bytes [begin, end) of s, shared */
ls_code ls_jv_list(ls_jvm *vm, ls_jkind kind, const ls_jv *v, size_t n, ls_jv *out); /* LIST or TUPLE; keeps |v| */
ls_code ls_jv_iter(ls_jvm *vm, const ls_jlist *items, ls_jv *out);
ls_code ls_jv_dict(ls_jvm *vm, ls_jkind kind, ls_jv *out); /* an empty DICT or NAMESPACE */

/* A JSON value; its strings are marked as input when |input|. */
ls_code ls_jv_from_json(ls_jvm *vm, const json_t *json, bool input, ls_jv *out);

/* ---- Building strings ---------------------------------------------------------------------------------------- */

/* Zero-initialise. Lives in the arena. */
typedef struct ls_jbuf {
    char *p, *origin; /* origin: NULL while all bytes are of one kind */
    size_t n, cap;
    bool input;
} ls_jbuf;

ls_code ls_jbuf_add(ls_jvm *vm, ls_jbuf *b, const char *p, size_t n, bool input);
ls_code ls_jbuf_text(ls_jvm *vm, ls_jbuf *b, const char *text); /* template text */
ls_code ls_jbuf_str(ls_jvm *vm, ls_jbuf *b, const ls_jstr *s);
ls_code ls_jbuf_part(ls_jvm *vm, ls_jbuf *b, const ls_jstr *s, size_t begin, size_t end);
ls_code ls_jbuf_pad(ls_jvm *vm, ls_jbuf *b, char c, int64_t count);
ls_code ls_jbuf_value(ls_jvm *vm, ls_jbuf *b, ls_jv v); /* str(v) */
ls_code ls_jbuf_repr(ls_jvm *vm, ls_jbuf *b, ls_jv v);  /* repr(v) */
ls_code ls_jbuf_finish(ls_jvm *vm, const ls_jbuf *b, ls_jv *out);

bool ls_jstr_is_input(const ls_jstr *s, size_t i); /* origin of byte i */
bool ls_jstr_is(const ls_jstr *s, const char *text);

/* ---- Reading values ------------------------------------------------------------------------------------------ */

const char *ls_jv_type(ls_jv v); /* Python's name of the type, for messages */
bool ls_jv_truth(ls_jv v);
bool ls_jv_is_number(ls_jv v); /* int, float or bool */
bool ls_jv_as_int(ls_jv v, int64_t *out); /* int or bool */
double ls_jv_as_real(ls_jv v);            /* of a number */
ls_code ls_jv_str(ls_jvm *vm, ls_jv v, const ls_jstr **out); /* str(v) */
ls_code ls_jv_want_str(ls_jvm *vm, ls_jv v, const char *what, const ls_jstr **out);
ls_code ls_jv_want_int(ls_jvm *vm, ls_jv v, const char *what, int64_t *out);
ls_code ls_jv_len(ls_jvm *vm, ls_jv v, size_t *out);         /* len(v) */
ls_code ls_jv_items(ls_jvm *vm, ls_jv v, const ls_jlist **out); /* list(v); walks a one-shot iterator to its end */
ls_code ls_jv_equal(ls_jvm *vm, ls_jv a, ls_jv b, bool *out);
ls_code ls_jv_compare(ls_jvm *vm, ls_jv a, ls_jv b, int *out); /* < 0, 0, > 0; error for types without an order */
ls_code ls_jv_contains(ls_jvm *vm, ls_jv seq, ls_jv x, bool *out); /* x in seq */

/* The error that using an undefined value raises; always fails. */
ls_code ls_jv_fail_undefined(ls_jvm *vm, ls_jv v);

ls_code ls_jdict_get(ls_jvm *vm, const ls_jdict *d, ls_jv key, ls_jv *out); /* MISSING when absent */
ls_code ls_jdict_set(ls_jvm *vm, ls_jdict *d, ls_jv key, ls_jv value);

/* ---- Text helpers -------------------------------------------------------------------------------------------- */

bool ls_py_isspace(uint32_t cp);                           /* str.isspace of one character */
size_t ls_py_strip_left(const char *p, size_t n);          /* bytes of leading white space */
size_t ls_py_strip_right(const char *p, size_t n);         /* length without trailing white space */
size_t ls_utf8_count(const char *p, size_t n);             /* characters of valid UTF-8 */
size_t ls_utf8_offset(const char *p, size_t n, size_t at); /* byte offset of character |at|, n past the end */
size_t ls_utf8_step(const char *p);                        /* bytes of the character at |p| of valid UTF-8 */
size_t ls_find_bytes(const char *p, size_t n, const char *sub, size_t m, size_t from); /* SIZE_MAX: absent */
void ls_py_float(double f, char out[40]);                  /* repr(f) */

#endif
