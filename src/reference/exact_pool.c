/* Average pooling under the exact contracts (docs/contracts.md section 8): each mean is a sum of integers. */
#include "contract/exact.h"
#include "reference/exact_ops.h"

float ls_exact_pool_share(int pool) { return 1.0f / (float)(pool * pool); }

void ls_exact_avg_pool(float *y, const float *x, int64_t cols, int grid, int pool) {
    float share = ls_exact_pool_share(pool);
    for (int64_t c = 0; c < cols; c++) {
        uint32_t max = 0;
        int64_t sum = 0;
        for (int i = 0; i < pool * pool; i++) {
            uint32_t bits = ls_bits(x[((int64_t)(i / pool) * grid + i % pool) * cols + c]) & 0x7FFFFFFFu;
            if (bits > max) max = bits;
        }
        int e = ls_block_exponent(max);
        for (int i = 0; i < pool * pool; i++) sum += ls_mantissa(x[((int64_t)(i / pool) * grid + i % pool) * cols + c], e, LS_EXACT_POOL_P);
        y[c] = ls_canon(((float)sum * share) * ls_pow2(e - 127 - LS_EXACT_POOL_P));
    }
}
