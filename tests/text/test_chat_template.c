/* Chat templates against jinja2 as transformers sets it up (fixtures/text/template/, made by
 * tools/make_template_goldens.py), then refusals, limits and the origins of rendered text. LS_TEMPLATE_CASES names one
 * more file of cases, for checks by hand. */
#include "test.h"

#include <stdlib.h>
#include <time.h>

#include "base/alloc.h"
#include "text/chat_template.h"

/* ---- Goldens ------------------------------------------------------------------------------------------------- */

typedef struct tally {
    int cases, failures;
} tally;

static void report(const char *name, const char *what, const char *want, const char *got) {
    print_error("%s: %s\n  want: %s\n  got:  %s\n", name, what, want, got);
}

/* One case: {"name", "template", "context", "text" or "error": true}. */
static void check_case(const json_t *c, int64_t now, tally *t) {
    ls_error e = {0};
    ls_chat_template *tpl = NULL;
    ls_render r = {0};
    const char *name = json_string_value(json_object_get(c, "name"));
    const json_t *source = json_object_get(c, "template"), *want = json_object_get(c, "text");
    ls_code rc = ls_chat_template_compile(&tpl, json_string_value(source), json_string_length(source), &e);
    if (!rc) rc = ls_chat_template_render(tpl, json_object_get(c, "context"), now, &r, &e);
    t->cases++;
    bool same = !rc && want && r.text.len == json_string_length(want) &&
                (!r.text.len || !memcmp(r.text.data, json_string_value(want), r.text.len));
    if (rc && want) report(name, "failed", json_string_value(want), e.text);
    else if (!rc && !want) report(name, "must fail", "an error", r.text.data ? r.text.data : "");
    else if (!rc && !same) report(name, "differs", json_string_value(want), r.text.data ? r.text.data : "");
    t->failures += want ? !same : !rc;
    ls_render_deinit(&r);
    ls_chat_template_free(tpl);
}

/* A file {"now": seconds, "cases": [...]}; a case may give the index of a shared template or context instead. */
static void check_file(const char *path) {
    ls_error e = {0};
    json_t *root;
    tally t = {0};
    assert_ok(ls_json_load(&root, path, 64 << 20, &e));
    int64_t now = json_integer_value(json_object_get(root, "now"));
    const json_t *templates = json_object_get(root, "templates"), *contexts = json_object_get(root, "contexts");
    json_t *cases = json_object_get(root, "cases");
    for (size_t i = 0; i < json_array_size(cases); i++) {
        json_t *c = json_array_get(cases, i), *source = json_object_get(c, "template"),
               *context = json_object_get(c, "context");
        if (json_is_integer(source))
            json_object_set(c, "template", json_array_get(templates, (size_t)json_integer_value(source)));
        if (json_is_integer(context))
            json_object_set(c, "context", json_array_get(contexts, (size_t)json_integer_value(context)));
        check_case(c, now, &t);
    }
    json_decref(root);
    print_message("%s: %d cases, %d failures\n", path, t.cases, t.failures);
    assert_int_equal(t.failures, 0);
    assert_true(t.cases > 0);
}

static void battery_equals_jinja2(void **state) {
    (void)state;
    check_file(LS_FIXTURES "/text/template/battery.json");
}

static void families_equal_jinja2(void **state) {
    (void)state;
    check_file(LS_FIXTURES "/text/template/families.json");
}

static void extra_cases_equal_jinja2(void **state) {
    (void)state;
    const char *path = getenv("LS_TEMPLATE_CASES");
    if (!path) skip();
    check_file(path);
}

/* ---- Refusals and limits ------------------------------------------------------------------------------------- */

static ls_code compile_only(const char *source, ls_error *e) {
    ls_chat_template *t = NULL;
    ls_code rc = ls_chat_template_compile(&t, source, strlen(source), e);
    ls_chat_template_free(t);
    return rc;
}

static ls_code render_only(const char *source, const char *context, ls_error *e) {
    ls_chat_template *t = NULL;
    ls_render r = {0};
    json_t *json = NULL;
    ls_code rc = ls_json_parse(&json, context, strlen(context), "context", e);
    if (!rc) rc = ls_chat_template_compile(&t, source, strlen(source), e);
    if (!rc) rc = ls_chat_template_render(t, json, 0, &r, e);
    ls_render_deinit(&r);
    ls_chat_template_free(t);
    json_decref(json);
    return rc;
}

static void unknown_constructs_fail_at_compile(void **state) {
    (void)state;
    ls_error e = {0};
    assert_error(compile_only("a\n{{ x | nosuch }}", &e), LS_UNIMPLEMENTED, "line 2: unknown filter 'nosuch'");
    assert_error(compile_only("{{ x is nosuch }}", &e), LS_UNIMPLEMENTED, "line 1: unknown test 'nosuch'");
    assert_error(compile_only("\n\n{% include 'a' %}", &e), LS_UNIMPLEMENTED,
                 "line 3: unknown or misplaced tag 'include'");
    assert_error(compile_only("{% for x in y recursive %}{% endfor %}", &e), LS_UNIMPLEMENTED, "recursive");
    assert_error(compile_only("{{ 'a'.encode() }}", &e), LS_UNIMPLEMENTED, "encode");
    assert_error(compile_only("{% if x %}\n", &e), LS_INVALID_ARGUMENT, "endif");
    assert_error(compile_only("{% endif %}", &e), LS_INVALID_ARGUMENT, "'endif'");
    assert_error(compile_only("{{ (1 }}", &e), LS_INVALID_ARGUMENT, "line 1");
    assert_error(compile_only("{# open", &e), LS_INVALID_ARGUMENT, "comment");
    assert_error(compile_only("{{ 'a }}", &e), LS_INVALID_ARGUMENT, "string");
    assert_error(compile_only("{% break %}", &e), LS_INVALID_ARGUMENT, "break outside a loop");
    assert_error(compile_only("{{ 99999999999999999999 }}", &e), LS_OUT_OF_RANGE, "64 bits");
    assert_error(compile_only("\xff", &e), LS_INVALID_ARGUMENT, "UTF-8");
}

static void run_time_errors_name_the_line(void **state) {
    (void)state;
    ls_error e = {0};
    assert_error(render_only("a\nb\n{{ x.y }}", "{}", &e), LS_INVALID_ARGUMENT,
                 "chat template line 3: 'x' is undefined");
    assert_error(render_only("{{ raise_exception('roles must alternate') }}", "{}", &e), LS_INVALID_ARGUMENT,
                 "roles must alternate");
    assert_string_equal(e.text, "roles must alternate");
    assert_error(render_only("{% set _ = x.append(1) %}", "{\"x\": []}", &e), LS_INVALID_ARGUMENT, "append");
    assert_error(render_only("{{ 9223372036854775807 + 1 }}", "{}", &e), LS_OUT_OF_RANGE, "64 bits");
}

static void work_memory_and_depth_are_bounded(void **state) {
    (void)state;
    ls_error e = {0};
    const char *loops = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}";
    assert_error(render_only(loops, "{}", &e), LS_RESOURCE_EXHAUSTED, "memory");
    ls_str s = {0};
    assert_ok(ls_str_append(&s, "{% for a in range(99999) %}", SIZE_MAX, &e));
    for (int i = 0; i < 600; i++) assert_ok(ls_str_append(&s, "{% if 0 %}{% endif %}", SIZE_MAX, &e));
    assert_ok(ls_str_append(&s, "{% endfor %}", SIZE_MAX, &e));
    assert_error(render_only(s.data, "{}", &e), LS_RESOURCE_EXHAUSTED, "steps");
    ls_str_clear(&s);
    assert_error(render_only("{{ 'x' * 999999999999 }}", "{}", &e), LS_RESOURCE_EXHAUSTED, "chat template");
    assert_error(render_only("{{ [1] * 999999999999 }}", "{}", &e), LS_RESOURCE_EXHAUSTED, "memory");
    assert_error(render_only("{{ 'x'.center(999999999999) }}", "{}", &e), LS_RESOURCE_EXHAUSTED, "memory");
    assert_error(render_only("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "{}", &e), LS_RESOURCE_EXHAUSTED,
                 "levels");
    const char *deep =
        "{% set n = namespace(v=[]) %}{% for i in range(5000) %}{% set n.v = [n.v] %}{% endfor %}{{ n.v }}";
    assert_error(render_only(deep, "{}", &e), LS_RESOURCE_EXHAUSTED, "levels");
    for (int i = 0; i < 5000; i++) assert_ok(ls_str_append(&s, "{{ (((((((((", SIZE_MAX, &e));
    assert_error(compile_only(s.data, &e), LS_RESOURCE_EXHAUSTED, "deep");
    ls_str_clear(&s);
    assert_ok(ls_str_append(&s, "{{ 1", SIZE_MAX, &e));
    for (int i = 0; i < 50000; i++) assert_ok(ls_str_append(&s, "+1", SIZE_MAX, &e));
    assert_ok(ls_str_append(&s, "}}", SIZE_MAX, &e));
    assert_error(compile_only(s.data, &e), LS_RESOURCE_EXHAUSTED, "levels");
    ls_str_deinit(&s);
}

/* ---- Origins ------------------------------------------------------------------------------------------------- */

/* Renders and writes each span as T(...) or I(...). */
static void spans_of(const char *source, const char *context, char *out, size_t cap) {
    ls_error e = {0};
    ls_chat_template *t;
    ls_render r;
    json_t *json;
    assert_ok(ls_json_parse(&json, context, strlen(context), "context", &e));
    assert_ok(ls_chat_template_compile(&t, source, strlen(source), &e));
    assert_ok(ls_chat_template_render(t, json, 0, &r, &e));
    size_t n = 0, at = 0;
    out[0] = 0;
    for (size_t i = 0; i < r.n_spans; i++) {
        assert_int_equal(r.spans[i].begin, at);
        at = r.spans[i].end;
        n += (size_t)snprintf(out + n, cap - n, "%c(%.*s)", r.spans[i].from_input ? 'I' : 'T',
                              (int)(at - r.spans[i].begin), r.text.data + r.spans[i].begin);
    }
    assert_int_equal(at, r.text.len);
    ls_render_deinit(&r);
    ls_chat_template_free(t);
    json_decref(json);
}

static void origins_survive_text_operations(void **state) {
    (void)state;
    static const struct {
        const char *source, *spans;
    } cases[] = {{"<s>{{ m }}</s>", "T(<s>)I( <x> )T(</s>)"},
                 {"{{ bos_token ~ m.strip() + '|' }}", "T(BOS)I(<x>)T(|)"},
                 {"{{ ('<u>' + m + '</u>') | trim | replace('<x>', '[' ~ m | trim ~ ']') }}",
                  "T(<u>)I( )T([)I(<x>)T(])I( )T(</u>)"},
                 {"{% set a %}a{{ m }}b{% endset %}{{ a | upper }}", "T(A)I( <X> )T(B)"},
                 {"{{ d | tojson }}", "T({\")I(k)T(\": \")I(v\\n)T(\"})"},
                 {"{{ [m, 'q'] | join('-') }}", "I( <x> )T(-q)"},
                 {"{{ d }}", "T({')I(k)T(': ')I(v\\n)T('})"},
                 {"{{ ('a' ~ m ~ 'b')[1:4] }}{{ ('a' ~ m)[::-1] }}", "I( <x >x< )T(a)"},
                 {"{{ m.split('x')[0] }}{{ '%s!' % m }}{{ '{}?'.format(m) }}", "I( < <x> )T(!)I( <x> )T(?)"},
                 {"{% macro f(x) %}({{ x }}){% endmacro %}{{ f(m) }}", "T(()I( <x> )T())"},
                 {"{{ m | escape }}", "I( &lt;x&gt; )"},
                 {"{{ 1 }}{{ n }}{{ true }}", "T(17True)"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char got[300];
        spans_of(cases[i].source, "{\"m\": \" <x> \", \"bos_token\": \"BOS\", \"d\": {\"k\": \"v\\n\"}, \"n\": 7}", got,
                 sizeof got);
        assert_string_equal(got, cases[i].spans);
    }
}

static int use_utc(void **state) {
    (void)state;
    setenv("TZ", "UTC", 1);
    tzset();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(battery_equals_jinja2),
                                       cmocka_unit_test(families_equal_jinja2),
                                       cmocka_unit_test(extra_cases_equal_jinja2),
                                       cmocka_unit_test(unknown_constructs_fail_at_compile),
                                       cmocka_unit_test(run_time_errors_name_the_line),
                                       cmocka_unit_test(work_memory_and_depth_are_bounded),
                                       cmocka_unit_test(origins_survive_text_operations)};
    return cmocka_run_group_tests(tests, use_utc, NULL);
}
