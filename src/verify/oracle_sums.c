/* StableHLO modules of the sums whose association is written out, add by add, so that a compiler has nothing to choose.
 *
 * They begin from +0.0, which turns a -0.0 into +0.0; XLA drops the addition of a constant zero, so that zero stands
 * behind a barrier. */
#include "contract/exact.h"
#include "verify/oracle_probes.h"

enum { WARP = LS_SCAN_WARP, PER_THREAD = LS_SCAN_PER_THREAD };

static ls_val add(ls_mlir *m, ls_val a, ls_val b) { return ls_m_binary(m, "add", a, b); }

/* +0.0 everywhere, which the compiler must take for a value of unknown content. */
static ls_val kept_zero(ls_mlir *m, ls_tensor_type t) {
    ls_val zero = ls_m_unary(m, "stablehlo.optimization_barrier", ls_m_f32(m, (ls_tensor_type){.dtype = LS_DT_F32}, 0));
    return ls_m_broadcast(m, zero, t, NULL);
}

/* ---- The one-block scan -------------------------------------------------------------------------------------------------- */

ls_code ls_check_scan(const ls_probe *p, ls_error *e) {
    if (p->size.rows < 1 || p->size.cols < 1 || p->size.cols > LS_SCAN_LIMIT)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "probe \"%s\": a scan of %d rows of width %d; allowed are widths 1 to %d", p->key, p->size.rows, p->size.cols,
                LS_SCAN_LIMIT);
    return LS_OK;
}

/* Inclusive Hillis-Steele scan along the last axis, of width 32: five adds. Lanes below an offset add the padding's +0.0,
 * which only turns a -0.0 into +0.0; no output shows it. */
static ls_val warp_scan(ls_mlir *m, ls_val v) {
    int axis = v.t.rank - 1;
    for (int offset = 1; offset < WARP; offset *= 2) v = add(m, v, ls_m_pad(m, ls_m_slice(m, v, axis, 0, WARP - offset), axis, offset, 0));
    return v;
}

/* What comes before each lane: the scan moved up by one, 0 in the first. */
static ls_val exclusive(ls_mlir *m, ls_val scan) {
    int axis = scan.t.rank - 1;
    ls_tensor_type first = scan.t;
    first.dim[axis] = 1;
    const ls_val both[] = {ls_m_f32(m, first, 0), ls_m_slice(m, scan, axis, 0, WARP - 1)};
    return ls_m_concat(m, both, 2, axis);
}

/* (local + sum of the warps before) + sum of the threads before; local are the running sums of each thread's four values. */
ls_val ls_body_scan(ls_mlir *m, const ls_probe *p, const ls_val *arg) {
    int rows = p->size.rows, cols = p->size.cols, warps = (cols + LS_SCAN_BLOCK - 1) / LS_SCAN_BLOCK;
    ls_tensor_type block = LS_TYPE(LS_DT_F32, rows, warps, WARP, PER_THREAD);
    ls_val x = LS_RESHAPE(m, ls_m_pad_end(m, arg[1], 1, warps * LS_SCAN_BLOCK - cols), rows, warps, WARP, PER_THREAD), part[PER_THREAD];
    for (int i = 0; i < PER_THREAD; i++) {
        part[i] = ls_m_slice(m, x, 3, i, i + 1);
        if (i) part[i] = add(m, part[i], part[i - 1]);
    }
    ls_val local = add(m, ls_m_concat(m, part, PER_THREAD, 3), kept_zero(m, block));
    ls_val sums = LS_RESHAPE(m, part[PER_THREAD - 1], rows, warps, WARP);
    ls_val threads = exclusive(m, warp_scan(m, sums));
    ls_val totals = add(m, ls_m_slice(m, threads, 2, WARP - 1, WARP), ls_m_slice(m, sums, 2, WARP - 1, WARP));
    ls_val all = exclusive(m, warp_scan(m, ls_m_pad_end(m, LS_RESHAPE(m, totals, rows, warps), 1, WARP - warps)));
    ls_val with = add(m, local, LS_BROADCAST(m, ls_m_slice(m, all, 1, 0, warps), block, 0, 1));
    ls_val y = add(m, with, LS_BROADCAST(m, threads, block, 0, 1, 2));
    return ls_m_slice(m, LS_RESHAPE(m, y, rows, warps * LS_SCAN_BLOCK), 1, 0, cols);
}

/* ---- Trees ------------------------------------------------------------------------------------------------------------- */

ls_code ls_check_pairwise(const ls_probe *p, ls_error *e) {
    if (p->size.rows < 1 || p->size.cols < 2 || p->size.cols > LS_SCAN_LIMIT)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "probe \"%s\": %d rows of %d columns; allowed are 2 to %d columns", p->key, p->size.rows, p->size.cols, LS_SCAN_LIMIT);
    return LS_OK;
}

ls_code ls_check_xor_sum(const ls_probe *p, ls_error *e) {
    if (p->size.rows < 1 || p->size.cols < 1 || p->size.cols > LS_XOR_LIMIT)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "probe \"%s\": %d rows of %d columns; allowed are 1 to %d columns", p->key, p->size.rows, p->size.cols, LS_XOR_LIMIT);
    return LS_OK;
}

/* Neighbours are added until one is left. */
ls_val ls_body_pairwise(ls_mlir *m, const ls_probe *p, const ls_val *arg) {
    int rows = p->size.rows, width = 1 << ls_ceil_log2((uint64_t)p->size.cols);
    ls_val v = ls_m_pad_end(m, arg[1], 1, width - p->size.cols);
    for (int n = width / 2; n; n /= 2) {
        ls_val pairs = LS_RESHAPE(m, v, rows, n, 2);
        v = add(m, ls_m_slice(m, pairs, 2, 0, 1), ls_m_slice(m, pairs, 2, 1, 2));
    }
    return LS_RESHAPE(m, v, rows);
}

/* Lane i xor |mask| in lane i: lanes as [outer, 2, mask] with the two of the middle axis exchanged. */
static ls_val partners(ls_mlir *m, ls_val v, int rows, int mask) {
    ls_val halves = LS_RESHAPE(m, v, rows, 16 / mask, 2, mask);
    const ls_val swapped[] = {ls_m_slice(m, halves, 2, 1, 2), ls_m_slice(m, halves, 2, 0, 1)};
    return LS_RESHAPE(m, ls_m_concat(m, swapped, 2, 2), rows, 32);
}

/* ((0 + v0) + v1) + v2) + v3 in each of 32 lanes, then the butterfly. */
ls_val ls_body_xor_sum(ls_mlir *m, const ls_probe *p, const ls_val *arg) {
    int rows = p->size.rows;
    ls_val x = LS_RESHAPE(m, ls_m_pad_end(m, arg[1], 1, LS_XOR_LIMIT - p->size.cols), rows, 32, 4);
    ls_val v = kept_zero(m, LS_TYPE(LS_DT_F32, rows, 32, 1));
    for (int i = 0; i < 4; i++) v = add(m, v, ls_m_slice(m, x, 2, i, i + 1));
    v = LS_RESHAPE(m, v, rows, 32);
    for (int mask = 16; mask; mask /= 2) v = add(m, v, partners(m, v, rows, mask));
    return LS_RESHAPE(m, ls_m_slice(m, v, 1, 0, 1), rows);
}
