/* Several rows of the exact linear operator straight from packed weights: every register of weights is unpacked once and multiplied by
 * DIRECT_ROWS rows. Sums stay in registers over the whole row of weights. Included by linear_body.h for levels with the registers for it. */
#ifndef LS_NATIVE_KERNELS_LINEAR_ROWS_H
#define LS_NATIVE_KERNELS_LINEAR_ROWS_H

/* Bytes of activations that are multiplied by all tiles of a task before the next ones are: they should stay in the second-level cache. */
enum { ROWS_BYTES = 256 << 10, DIRECT_ROWS = 4, DIRECT_TILES = 2 };

/* What a block of rows by tiles reads: row r's columns are r * stride integers on, its blocks r * blocks, its groups r * groups. */
typedef struct patch {
    const uint8_t *tile[DIRECT_TILES];
    const int16_t *x;
    int64_t plane, stride, blocks, groups;
    const int32_t *drop, *half, *mean, *sum;
} patch;

V_BODY patch patch_of(const ls_acts *x, int64_t row, int xp, int size) {
    patch p = {.x = ls_acts_plane(x, row, 0), .plane = x->blocks * LS_EXACT_BLOCK, .blocks = x->blocks, .groups = x->blocks << (2 - size)};
    p.stride = p.plane * xp;
    p.drop = x->drop + row * x->blocks;
    p.half = x->half + row * x->blocks;
    p.mean = ls_acts_mean(x, size, row);
    p.sum = ls_acts_sum(x, size, row, 0);
    return p;
}

/* Sums begin with -z * X, which takes the zero point out of every product. */
V_BODY void start_patch(const patch *p, int kind, int xp, int zero, int64_t g, int64_t block, lanes acc[DIRECT_ROWS][DIRECT_TILES][3], int n, int tiles) {
    const int wp = weight_planes(kind);
    V_UNROLL for (int r = 0; r < n; r++) {
        int32_t half = first_sum(wp, xp, p->half[r * p->blocks + block]);
        for (int i = 0; i < 3; i++) {
            int32_t first = i ? 0 : half;
            if (wp == 1 && i < xp) first -= zero * p->sum[(r * xp + i) * p->groups + g];
            for (int t = 0; t < tiles; t++) acc[r][t][i] = v_set(first);
        }
    }
}

/* Adds columns [16 * part, 16 * part + 16) of the span at column |col|, |at| bytes into the tiles. */
V_BODY void dot_patch(const patch *p, int kind, int xp, size_t at, int part, int64_t col, lanes acc[DIRECT_ROWS][DIRECT_TILES][3], int n, int tiles) {
    const int16_t *x = p->x + col + part * 16;
    V_UNROLL for (int i = 0; i < 8; i++) {
        lanes w[DIRECT_TILES][2];
        for (int t = 0; t < tiles; t++) weight_pair(kind, p->tile[t] + at, part * 8 + i, w[t]);
        V_UNROLL for (int r = 0; r < n; r++) {
            lanes v[2];
            for (int j = 0; j < xp; j++) v[j] = v_pair(x + r * p->stride + j * p->plane + 2 * i);
            for (int t = 0; t < tiles; t++) {
                dot_step(acc[r][t], w[t], weight_planes(kind), v, xp);
                for (int j = 0; j < xp + weight_planes(kind) - 1; j++) V_PIN(acc[r][t][j]);
            }
        }
    }
}

V_BODY void end_patch(const ls_packed *w, const patch *p, int kind, int xp, int64_t g, int64_t block, const floats unit[DIRECT_TILES],
                      lanes acc[DIRECT_ROWS][DIRECT_TILES][3], sums z[DIRECT_ROWS][DIRECT_TILES], int n, int tiles) {
    const int wp = weight_planes(kind);
    V_UNROLL for (int t = 0; t < tiles; t++) {
        lanes s, m = v_set(0);
        load_scales(w, p->tile[t], g, unit[t], &s, &m);
        V_UNROLL for (int r = 0; r < n; r++)
            add_scaled(&z[r][t], aligned(acc[r][t], wp, xp, w->form.c, p->half[r * p->blocks + block], p->drop[r * p->blocks + block]), s, xp);
        if (!w->form.has_min) continue;
        V_UNROLL for (int r = 0; r < n; r++) add_mean(&z[r][t], p->mean[r * p->groups + g], m, xp);
    }
}

/* |n| rows by |tiles| tiles; 16 << size is the group. */
V_BODY void multiply_patch(const ls_packed *w, const patch *p, int kind, int xp, int size, sums z[DIRECT_ROWS][DIRECT_TILES], int n, int tiles) {
    const int step = size == LS_SUM_64 ? 2 : 1, group = 16 << size;
    floats unit[DIRECT_TILES];
    lanes acc[DIRECT_ROWS][DIRECT_TILES][3];
    for (int t = 0; t < tiles; t++) unit[t] = f_power(p->tile[t]);
    for (int r = 0; r < n; r++)
        for (int t = 0; t < tiles; t++) z[r][t] = (sums){w_zero(), w_zero()};
    for (int64_t k = 0; k < w->spans; k += step) {
        size_t at = w->span_at + (size_t)k * w->span_bytes;
        int64_t block = k / 2;
        V_UNROLL for (int part = 0; part < 2 * step; part++) {
            int64_t g = (k * 2 + part) >> size;
            if (part * 16 % group == 0) start_patch(p, kind, xp, w->form.zero, g, block, acc, n, tiles);
            for (int t = 0; t < tiles; t++)
                V_UNROLL for (int i = 0; i < half_lines(kind); i++) LS_PREFETCH(p->tile[t] + at + AHEAD + (part * half_lines(kind) + i) * 64);
            dot_patch(p, kind, xp, at + (size_t)(part / 2) * w->span_bytes, part % 2, (k + part / 2) * LS_SPAN, acc, n, tiles);
            if ((part + 1) * 16 % group == 0) end_patch(w, p, kind, xp, g, block, unit, acc, z, n, tiles);
        }
    }
}

V_BODY void patch_rows(const ls_packed *w, int64_t tile, int64_t tile_end, const ls_acts *x, int64_t row, const ls_linear_out *out, int kind, int xp, int size,
                       int n, int tiles) {
    sums z[DIRECT_ROWS][DIRECT_TILES];
    patch p = patch_of(x, row, xp, size);
    for (int t = 0; t < tiles; t++) p.tile[t] = w->data + (size_t)(tile + t < tile_end ? tile + t : tile_end - 1) * w->tile_bytes;
    multiply_patch(w, &p, kind, xp, size, z, n, tiles);
    for (int r = 0; r < n; r++)
        for (int t = 0; t < tiles && tile + t < tile_end; t++) finish(w, p.tile[t], (tile + t) * LS_TILE, &z[r][t], x, row + r, out, xp);
}

V_BODY void direct_rows(const ls_packed *w, int64_t tile_begin, int64_t tile_end, const ls_acts *x, int64_t row_begin, int64_t row_end,
                        const ls_linear_out *out, int kind, int xp, int size) {
    const bool planes = xp + weight_planes(kind) > 2;
    const int n = planes ? DIRECT_ROWS / 2 : DIRECT_ROWS;
    int64_t held = ROWS_BYTES / (x->blocks * LS_EXACT_BLOCK * 2 * xp) / n * n;
    if (held < n) held = n;
    for (int64_t begin = row_begin; begin < row_end; begin += held) {
        int64_t end = row_end - begin < held ? row_end : begin + held;
        for (int64_t tile = tile_begin; tile < tile_end; tile += DIRECT_TILES) {
            int64_t row = begin, last = tile_end - tile < DIRECT_TILES ? tile_end : tile + DIRECT_TILES;
            for (; row + n <= end; row += n) patch_rows(w, tile, tile_end, x, row, out, kind, xp, size, n, DIRECT_TILES);
            for (; !planes && row + 2 <= end; row += 2) patch_rows(w, tile, tile_end, x, row, out, kind, xp, size, 2, DIRECT_TILES);
            for (; row < end; row++) one_row(w, tile, last, x, row, out, kind, xp, size);
        }
    }
}

#endif
