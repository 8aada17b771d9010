/* Stop strings: held tails, earliest completion, and independence of how the text is cut. */
#include "test.h"

#include "session/stop.h"

/* Feeds |text| in pieces of |step| bytes and compares all that was shown, and the string that ended it. */
static void check(const char *const *stops, size_t n, const char *text, const char *want, int want_found) {
    ls_error e = {0};
    for (size_t step = 1; step <= strlen(text) + 1; step++) {
        ls_stop s;
        ls_str out = {0};
        assert_ok(ls_stop_init(&s, stops, n, &e));
        assert_ok(ls_str_append(&out, "", 0, &e));
        for (size_t i = 0; i < strlen(text); i += step) {
            size_t len = strlen(text) - i < step ? strlen(text) - i : step;
            assert_ok(ls_stop_push(&s, text + i, len, &out, &e));
        }
        int found = s.found;
        assert_ok(ls_stop_flush(&s, &out, &e));
        assert_string_equal(out.data, want);
        assert_int_equal(found, want_found);
        ls_str_deinit(&out);
        ls_stop_deinit(&s);
    }
}

static void test_matches(void **state) {
    (void)state;
    static const char *const one[] = {"END"}, *const two[] = {"abc", "b"}, *const nested[] = {"c", "abc"}, *const self[] = {"aab"};
    check(one, 1, "hello END more", "hello ", 0);
    check(one, 1, "hello EN", "hello EN", -1);
    check(one, 1, "EENEND", "EEN", 0);
    check(two, 2, "xabc", "xa", 1);         /* "b" is complete before "abc" */
    check(nested, 2, "xabc", "x", 1);       /* both complete at once: the longer one */
    check(self, 1, "aaaab", "aa", 0);       /* overlapping with itself */
    check(NULL, 0, "anything", "anything", -1);
    check(one, 1, "\xF0\x9F\x98\x80" "END", "\xF0\x9F\x98\x80", 0);
}

static void test_tail_is_held(void **state) {
    (void)state;
    static const char *const stops[] = {"\nUser:"};
    ls_error e = {0};
    ls_stop s;
    ls_str out = {0};
    assert_ok(ls_stop_init(&s, stops, 1, &e));
    assert_ok(ls_stop_push(&s, "Hi\nUs", 5, &out, &e));
    assert_string_equal(out.data, "Hi");
    assert_ok(ls_stop_push(&s, "x", 1, &out, &e));
    assert_string_equal(out.data, "Hi\nUsx");
    assert_ok(ls_stop_push(&s, "\nUser: no", 9, &out, &e));
    assert_string_equal(out.data, "Hi\nUsx");
    assert_ok(ls_stop_push(&s, "dropped", 7, &out, &e));
    assert_ok(ls_stop_flush(&s, &out, &e));
    assert_string_equal(out.data, "Hi\nUsx");
    ls_str_deinit(&out);
    ls_stop_deinit(&s);
}

static void test_limits(void **state) {
    (void)state;
    ls_error e = {0};
    ls_stop s;
    const char *many[LS_MAX_STOPS + 1], *empty[] = {"a", ""};
    for (size_t i = 0; i <= LS_MAX_STOPS; i++) many[i] = "x";
    assert_error(ls_stop_init(&s, many, LS_MAX_STOPS + 1, &e), LS_INVALID_ARGUMENT, "65 stop strings");
    assert_error(ls_stop_init(&s, empty, 2, &e), LS_INVALID_ARGUMENT, "stop string 1 has 0 bytes");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_matches), cmocka_unit_test(test_tail_is_held), cmocka_unit_test(test_limits)};
    return cmocka_run_group_tests_name("stop", tests, NULL, NULL);
}
