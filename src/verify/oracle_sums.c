/* StableHLO modules of the sums whose association is written out, add by add, so that a compiler has nothing to choose. */
#include "contract/exact.h"
#include "verify/oracle_probes.h"

/* ---- The one-block scan -------------------------------------------------------------------------------------------------- */

/* Inclusive scan of |in| [rows, (warps,) 32] along its last dimension by padded shifts: five adds; the result is %<name>5.
 * Lanes below the offset add +0.0, which only turns a -0.0 into +0.0: no output shows it, since `local` is never -0.0. */
static ls_code add_scan(ls_str *out, const char *in, const char *name, int rows, int warps, bool per_warp, ls_error *e) {
    char dims[48], from[96], low[32], zeros[32], start[48], limit[32];
    snprintf(dims, sizeof dims, per_warp ? "%dx%dx" : "%dx", rows, warps);
    snprintf(zeros, sizeof zeros, per_warp ? "0, 0, 0" : "0, 0");
    for (int step = 1, offset = 1; offset < LS_SCAN_WARP; step++, offset *= 2) {
        char old[32];
        if (step == 1) snprintf(old, sizeof old, "%s", in);
        else snprintf(old, sizeof old, "%%%s%d", name, step - 1);
        snprintf(from, sizeof from, "tensor<%s%dxf32>", dims, LS_SCAN_WARP - offset);
        snprintf(low, sizeof low, per_warp ? "0, 0, %d" : "0, %d", offset);
        snprintf(start, sizeof start, per_warp ? "0:%d, 0:%d, " : "0:%d, ", rows, warps);
        snprintf(limit, sizeof limit, "0:%d", LS_SCAN_WARP - offset);
        LS_TRY(ls_str_printf(out, e, "    %%%s_c%d = stablehlo.slice %s [%s%s] : (tensor<%s%dxf32>) -> %s\n", name, step, old, start, limit, dims,
                             LS_SCAN_WARP, from));
        LS_TRY(ls_str_printf(out, e,
                             "    %%%s_p%d = stablehlo.pad %%%s_c%d, %%zero, low = [%s], high = [%s], interior = [%s] : (%s, tensor<f32>) -> tensor<%s%dxf32>\n", name, step,
                             name, step, low, zeros, zeros, from, dims, LS_SCAN_WARP));
        LS_TRY(ls_str_printf(out, e, "    %%%s%d = stablehlo.add %s, %%%s_p%d : tensor<%s%dxf32>\n", name, step, old, name, step, dims, LS_SCAN_WARP));
    }
    return LS_OK;
}

/* %local [R, W, 32, 4], the running sums inside each thread, and %sum [R, W, 32], the thread sums: three serial adds and one of
 * 0. The barrier keeps that 0: XLA drops the addition of a constant zero, although it turns -0.0 into +0.0. */
static ls_code add_threads(ls_str *out, int rows, int warps, ls_error *e) {
    const char *const before[] = {"", "%l0", "%l1", "%l2"};
    for (int i = 0; i < LS_SCAN_PER_THREAD; i++) {
        LS_TRY(ls_str_printf(out, e, "    %%%s%d = stablehlo.slice %%block [0:%d, 0:%d, 0:%d, %d:%d] : (tensor<%dx%dx%dx%dxf32>) -> tensor<%dx%dx%dx1xf32>\n",
                             i ? "v" : "l", i, rows,
                             warps, LS_SCAN_WARP, i, i + 1, rows, warps, LS_SCAN_WARP, LS_SCAN_PER_THREAD, rows, warps, LS_SCAN_WARP));
        if (i) LS_TRY(ls_str_printf(out, e, "    %%l%d = stablehlo.add %%v%d, %s : tensor<%dx%dx%dx1xf32>\n", i, i, before[i], rows, warps, LS_SCAN_WARP));
    }
    LS_TRY(ls_str_printf(out, e,
                         "    %%joined = stablehlo.concatenate %%l0, %%l1, %%l2, %%l3, dim = 3 : (tensor<%dx%dx%dx1xf32>, tensor<%dx%dx%dx1xf32>, tensor<%dx%dx%dx1xf32>, "
                         "tensor<%dx%dx%dx1xf32>) -> tensor<%dx%dx%dx%dxf32>\n", rows, warps, LS_SCAN_WARP, rows, warps, LS_SCAN_WARP, rows, warps,
                                 LS_SCAN_WARP, rows, warps,
                         LS_SCAN_WARP, rows, warps, LS_SCAN_WARP, LS_SCAN_PER_THREAD));
    LS_TRY(ls_str_printf(out, e, "    %%kept = stablehlo.optimization_barrier %%zero : tensor<f32>\n"
                         "    %%zeros = stablehlo.broadcast_in_dim %%kept, dims = [] : (tensor<f32>) -> tensor<%dx%dx%dx%dxf32>\n"
                         "    %%local = stablehlo.add %%joined, %%zeros : tensor<%dx%dx%dx%dxf32>\n", rows, warps, LS_SCAN_WARP, LS_SCAN_PER_THREAD, rows,
                                 warps, LS_SCAN_WARP,
                         LS_SCAN_PER_THREAD));
    return ls_str_printf(out, e, "    %%sum = stablehlo.reshape %%l3 : (tensor<%dx%dx%dx1xf32>) -> tensor<%dx%dx%dxf32>\n", rows, warps, LS_SCAN_WARP, rows,
                         warps, LS_SCAN_WARP);
}

/* %before [R, W, 32]: what the lanes before each thread sum to; %total [R, 32]: the warp totals, padded with zeros. */
static ls_code add_warps(ls_str *out, int rows, int warps, ls_error *e) {
    LS_TRY(add_scan(out, "%sum", "t", rows, warps, true, e));
    LS_TRY(ls_str_printf(out, e, "    %%tcut = stablehlo.slice %%t5 [0:%d, 0:%d, 0:%d] : (tensor<%dx%dx%dxf32>) -> tensor<%dx%dx%dxf32>\n"
                         "    %%tzero = stablehlo.broadcast_in_dim %%zero, dims = [] : (tensor<f32>) -> tensor<%dx%dx1xf32>\n", rows, warps, LS_SCAN_WARP - 1,
                                 rows, warps, LS_SCAN_WARP,
                         rows, warps, LS_SCAN_WARP - 1, rows, warps));
    LS_TRY(ls_str_printf(out, e,
                         "    %%before = stablehlo.concatenate %%tzero, %%tcut, dim = 2 : (tensor<%dx%dx1xf32>, tensor<%dx%dx%dxf32>) -> tensor<%dx%dx%dxf32>\n", rows, warps, rows,
                         warps, LS_SCAN_WARP - 1, rows, warps, LS_SCAN_WARP));
    for (int i = 0; i < 2; i++)
        LS_TRY(ls_str_printf(out, e, "    %%last%d = stablehlo.slice %s [0:%d, 0:%d, %d:%d] : (tensor<%dx%dx%dxf32>) -> tensor<%dx%dx1xf32>\n", i,
                             i ? "%sum" : "%before", rows, warps,
                             LS_SCAN_WARP - 1, LS_SCAN_WARP, rows, warps, LS_SCAN_WARP, rows, warps));
    return ls_str_printf(out, e,
                         "    %%ends = stablehlo.add %%last0, %%last1 : tensor<%dx%dx1xf32>\n    %%endsr = stablehlo.reshape %%ends : (tensor<%dx%dx1xf32>) -> tensor<%dx%dxf32>\n"
                         "    %%total = stablehlo.pad %%endsr, %%zero, low = [0, 0], high = [0, %d], interior = [0, 0] : (tensor<%dx%dxf32>, tensor<f32>) -> tensor<%dx%dxf32>\n", rows,
                         warps, rows, warps, rows, warps, LS_SCAN_WARP - warps, rows, warps, rows, LS_SCAN_WARP);
}

/* %all: (local + sum of the warps before) + sum of the threads before. */
static ls_code add_prefixes(ls_str *out, int rows, int warps, ls_error *e) {
    LS_TRY(add_scan(out, "%total", "w", rows, warps, false, e));
    LS_TRY(ls_str_printf(out, e, "    %%wcut = stablehlo.slice %%w5 [0:%d, 0:%d] : (tensor<%dx%dxf32>) -> tensor<%dx%dxf32>\n"
                         "    %%wzero = stablehlo.broadcast_in_dim %%zero, dims = [] : (tensor<f32>) -> tensor<%dx1xf32>\n", rows, LS_SCAN_WARP - 1, rows,
                                 LS_SCAN_WARP, rows,
                         LS_SCAN_WARP - 1, rows));
    LS_TRY(ls_str_printf(out, e, "    %%wall = stablehlo.concatenate %%wzero, %%wcut, dim = 1 : (tensor<%dx1xf32>, tensor<%dx%dxf32>) -> tensor<%dx%dxf32>\n"
                         "    %%wbefore = stablehlo.slice %%wall [0:%d, 0:%d] : (tensor<%dx%dxf32>) -> tensor<%dx%dxf32>\n", rows, rows, LS_SCAN_WARP - 1,
                                 rows, LS_SCAN_WARP, rows, warps,
                         rows, LS_SCAN_WARP, rows, warps));
    LS_TRY(ls_str_printf(out, e, "    %%wb = stablehlo.broadcast_in_dim %%wbefore, dims = [0, 1] : (tensor<%dx%dxf32>) -> tensor<%dx%dx%dx%dxf32>\n"
                         "    %%tb = stablehlo.broadcast_in_dim %%before, dims = [0, 1, 2] : (tensor<%dx%dx%dxf32>) -> tensor<%dx%dx%dx%dxf32>\n", rows, warps,
                                 rows, warps, LS_SCAN_WARP,
                         LS_SCAN_PER_THREAD, rows, warps, LS_SCAN_WARP, rows, warps, LS_SCAN_WARP, LS_SCAN_PER_THREAD));
    return ls_str_printf(out, e,
                         "    %%with = stablehlo.add %%local, %%wb : tensor<%dx%dx%dx%dxf32>\n    %%all = stablehlo.add %%with, %%tb : tensor<%dx%dx%dx%dxf32>\n", rows, warps,
                         LS_SCAN_WARP, LS_SCAN_PER_THREAD, rows, warps, LS_SCAN_WARP, LS_SCAN_PER_THREAD);
}

ls_code ls_module_scan(const ls_probe *p, const ls_oracle_case *c, ls_str *out, ls_error *e) {
    int rows = p->size.rows, cols = p->size.cols, warps = (cols + LS_SCAN_BLOCK - 1) / LS_SCAN_BLOCK, padded = warps * LS_SCAN_BLOCK;
    char type[64];
    if (rows < 1 || cols < 1 || cols > LS_SCAN_LIMIT) LS_FAIL(e, LS_INVALID_ARGUMENT,
                                                              "probe \"%s\": a scan of %d rows of width %d; allowed are widths 1 to %d", p->key, rows, cols,
                                                                      LS_SCAN_LIMIT);
    snprintf(type, sizeof type, "tensor<%dx%dxf32>", rows, cols);
    LS_TRY(ls_module_begin(p, c, type, out, e));
    LS_TRY(ls_str_printf(out, e, "    %%zero = stablehlo.constant dense<0x00000000> : tensor<f32>\n"
                         "    %%padded = stablehlo.pad %%arg1, %%zero, low = [0, 0], high = [0, %d], interior = [0, 0] : (%s, tensor<f32>) -> tensor<%dx%dxf32>\n"
                         "    %%block = stablehlo.reshape %%padded : (tensor<%dx%dxf32>) -> tensor<%dx%dx%dx%dxf32>\n", padded - cols, type, rows, padded,
                                 rows, padded, rows, warps,
                         LS_SCAN_WARP, LS_SCAN_PER_THREAD));
    LS_TRY(add_threads(out, rows, warps, e));
    LS_TRY(add_warps(out, rows, warps, e));
    LS_TRY(add_prefixes(out, rows, warps, e));
    LS_TRY(ls_str_printf(out, e, "    %%flat = stablehlo.reshape %%all : (tensor<%dx%dx%dx%dxf32>) -> tensor<%dx%dxf32>\n"
                         "    %%y = stablehlo.slice %%flat [0:%d, 0:%d] : (tensor<%dx%dxf32>) -> %s\n", rows, warps, LS_SCAN_WARP, LS_SCAN_PER_THREAD, rows,
                                 padded, rows, cols, rows, padded,
                         type));
    return ls_module_end("%y", type, out, e);
}

/* ---- Trees ------------------------------------------------------------------------------------------------------------- */

/* One level: |in| [rows, width] seen as pairs, the two of each added. Neighbours pair up. */
static ls_code add_level(ls_str *out, const char *in, int level, int rows, int width, ls_error *e) {
    int n = width / 2;
    LS_TRY(ls_str_printf(out, e, "    %%q%d = stablehlo.reshape %s : (tensor<%dx%dxf32>) -> tensor<%dx%dx2xf32>\n", level, in, rows, width, rows, n));
    for (int i = 0; i < 2; i++)
        LS_TRY(ls_str_printf(out, e, "    %%q%d_%d = stablehlo.slice %%q%d [0:%d, 0:%d, %d:%d] : (tensor<%dx%dx2xf32>) -> tensor<%dx%dx1xf32>\n", level, i,
                             level, rows, n, i, i + 1, rows, n,
                             rows, n));
    return ls_str_printf(out, e,
                         "    %%a%d = stablehlo.add %%q%d_0, %%q%d_1 : tensor<%dx%dx1xf32>\n    %%s%d = stablehlo.reshape %%a%d : (tensor<%dx%dx1xf32>) -> tensor<%dx%dxf32>\n",
                         level, level, level, rows, n, level, level, rows, n, rows, n);
}

static ls_code begin_sum(const ls_probe *p, const ls_oracle_case *c, int width, ls_str *out, ls_error *e) {
    char type[64];
    snprintf(type, sizeof type, "tensor<%dxf32>", p->size.rows);
    LS_TRY(ls_module_begin(p, c, type, out, e));
    return ls_str_printf(out, e, "    %%zero = stablehlo.constant dense<0x00000000> : tensor<f32>\n"
                         "    %%s0 = stablehlo.pad %%arg1, %%zero, low = [0, 0], high = [0, %d], interior = [0, 0] : (tensor<%dx%dxf32>, tensor<f32>) -> tensor<%dx%dxf32>\n",
                         width - p->size.cols, p->size.rows, p->size.cols, p->size.rows, width);
}

static ls_code end_sum(const ls_probe *p, const char *value, ls_str *out, ls_error *e) {
    char type[64];
    snprintf(type, sizeof type, "tensor<%dxf32>", p->size.rows);
    LS_TRY(ls_str_printf(out, e, "    %%y = stablehlo.reshape %s : (tensor<%dx1xf32>) -> %s\n", value, p->size.rows, type));
    return ls_module_end("%y", type, out, e);
}

ls_code ls_module_pairwise(const ls_probe *p, const ls_oracle_case *c, ls_str *out, ls_error *e) {
    if (p->size.rows < 1 || p->size.cols < 2 || p->size.cols > LS_SCAN_LIMIT)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "probe \"%s\": %d rows of %d columns; allowed are 2 to %d columns", p->key, p->size.rows, p->size.cols, LS_SCAN_LIMIT);
    int width = 1 << ls_ceil_log2((uint64_t)p->size.cols), level = 0;
    char value[16] = "%s0";
    LS_TRY(begin_sum(p, c, width, out, e));
    for (; width > 1; width /= 2) {
        LS_TRY(add_level(out, value, ++level, p->size.rows, width, e));
        snprintf(value, sizeof value, "%%s%d", level);
    }
    return end_sum(p, value, out, e);
}

/* %x0 [rows, 32]: ((0 + v0) + v1) + v2) + v3 of each lane. */
static ls_code add_lanes(ls_str *out, int rows, ls_error *e) {
    LS_TRY(ls_str_printf(out, e, "    %%lanes = stablehlo.reshape %%s0 : (tensor<%dx%dxf32>) -> tensor<%dx32x4xf32>\n"
                         "    %%kept = stablehlo.optimization_barrier %%zero : tensor<f32>\n"
                         "    %%c0 = stablehlo.broadcast_in_dim %%kept, dims = [] : (tensor<f32>) -> tensor<%dx32x1xf32>\n", rows, LS_XOR_LIMIT, rows, rows));
    for (int i = 0; i < 4; i++)
        LS_TRY(ls_str_printf(out, e, "    %%v%d = stablehlo.slice %%lanes [0:%d, 0:32, %d:%d] : (tensor<%dx32x4xf32>) -> tensor<%dx32x1xf32>\n"
                             "    %%c%d = stablehlo.add %%c%d, %%v%d : tensor<%dx32x1xf32>\n", i, rows, i, i + 1, rows, rows, i + 1, i, i, rows));
    return ls_str_printf(out, e, "    %%x0 = stablehlo.reshape %%c4 : (tensor<%dx32x1xf32>) -> tensor<%dx32xf32>\n", rows, rows);
}

ls_code ls_module_xor_sum(const ls_probe *p, const ls_oracle_case *c, ls_str *out, ls_error *e) {
    int rows = p->size.rows;
    if (rows < 1 || p->size.cols < 1 || p->size.cols > LS_XOR_LIMIT)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "probe \"%s\": %d rows of %d columns; allowed are 1 to %d columns", p->key, rows, p->size.cols, LS_XOR_LIMIT);
    LS_TRY(begin_sum(p, c, LS_XOR_LIMIT, out, e));
    LS_TRY(add_lanes(out, rows, e));
    for (int mask = 16, step = 1; mask; mask /= 2, step++) {
        int outer = 16 / mask; /* lanes as [outer, 2, mask]: reversing the middle one exchanges i and i xor mask */
        LS_TRY(ls_str_printf(out, e, "    %%g%d = stablehlo.reshape %%x%d : (tensor<%dx32xf32>) -> tensor<%dx%dx2x%dxf32>\n"
                             "    %%h%d = stablehlo.reverse %%g%d, dims = [2] : tensor<%dx%dx2x%dxf32>\n", step, step - 1, rows, rows, outer, mask, step, step,
                                     rows, outer, mask));
        LS_TRY(ls_str_printf(out, e,
                             "    %%k%d = stablehlo.reshape %%h%d : (tensor<%dx%dx2x%dxf32>) -> tensor<%dx32xf32>\n    %%x%d = stablehlo.add %%x%d, %%k%d : tensor<%dx32xf32>\n",
                             step, step, rows, outer, mask, rows, step, step - 1, step, rows));
    }
    LS_TRY(ls_str_printf(out, e, "    %%first = stablehlo.slice %%x5 [0:%d, 0:1] : (tensor<%dx32xf32>) -> tensor<%dx1xf32>\n", rows, rows, rows));
    return end_sum(p, "%first", out, e);
}
