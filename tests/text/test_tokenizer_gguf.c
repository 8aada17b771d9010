/* The tokenizers of real GGUF files, named by LS_SMOLLM2_GGUF and LS_GEMMA3_GGUF, against recorded results. */
#include "text/test_tokenizer_cases.h"

#include <stdlib.h>

#include "weights/weights.h"

static void check_file(const char *variable, const char *name) {
    const char *path = getenv(variable);
    if (!path || !*path) {
        printf("SKIPPED: %s is not set; it names the GGUF file whose tokenizer this test compares\n", variable);
        skip();
    }
    ls_error e = {0};
    ls_checkpoint *c = NULL;
    ls_tokenizer *t = NULL;
    char file[64];
    assert_ok(ls_checkpoint_open(&c, path, &e));
    assert_non_null(ls_checkpoint_gguf_metadata(c));
    assert_ok(ls_tokenizer_open_gguf(&t, ls_checkpoint_gguf_metadata(c), &e));
    ls_checkpoint_close(c);
    snprintf(file, sizeof file, "gguf_%s.golden.json", name);
    json_t *golden = load_case(file);
    check_golden(name, t, golden);
    json_decref(golden);
    ls_tokenizer_close(t);
}

static void smollm2(void **state) {
    (void)state;
    check_file("LS_SMOLLM2_GGUF", "smollm2");
}

static void gemma3(void **state) {
    (void)state;
    check_file("LS_GEMMA3_GGUF", "gemma3");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(smollm2), cmocka_unit_test(gemma3)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
