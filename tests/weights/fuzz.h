/* What the fuzz targets of src/weights share: reading all that an accepted input promises. */
#ifndef LS_TESTS_WEIGHTS_FUZZ_H
#define LS_TESTS_WEIGHTS_FUZZ_H

#include <stdlib.h>

#include "weights/checkpoint.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* First and last row of every tensor through every view, and both identities. */
static inline void read_everything(ls_checkpoint *c) {
    ls_error e = {0};
    char hex[65];
    for (size_t i = 0; i < ls_checkpoint_count(c); i++) {
        const ls_tensor *t = ls_checkpoint_at(c, i);
        int64_t n = t->rank ? t->shape[t->rank - 1] : 1, rows = ls_tensor_rows(t);
        (void)ls_tensor_check_finite(t, &e);
        if (!t->bytes || n > 1 << 20) continue;
        float *out = malloc((size_t)n * 3 * sizeof *out);
        uint8_t *q = malloc((size_t)n);
        for (int64_t r = 0; out && q && r < rows; r += rows > 1 ? rows - 1 : 1) {
            ls_tensor_row_f32(t, r, out);
            if (ls_tensor_group(t)) ls_tensor_row_quant(t, r, q, out + n, out + 2 * n);
        }
        free(out);
        free(q);
    }
    (void)ls_checkpoint_schema_sha256(c, hex, &e);
    (void)ls_checkpoint_bytes_sha256(c, hex, &e);
    for (size_t i = 0; i < 3; i++) (void)ls_checkpoint_unused(c, i);
}

#endif
