/* Several rows of the exact linear operator straight from packed weights: every register of weights is unpacked once and multiplied by up to DIRECT_ROWS
 * rows. Sums stay in registers over a part of the row of weights, under exact16 the whole, where there are enough. Included by linear_body.h for levels
 * with the registers for it. */
#ifndef LS_NATIVE_KERNELS_LINEAR_ROWS_H
#define LS_NATIVE_KERNELS_LINEAR_ROWS_H

/* Bytes of activations that are multiplied by all tiles of a task before the next ones are: they should stay in the second-level cache. */
enum { ROWS_BYTES = 256 << 10, DIRECT_ROWS = 8, DIRECT_TILES = 2 };

/* What a block of rows by tiles reads: row r's columns are r * stride integers on, its blocks r * blocks, its groups r * groups. */
typedef struct patch {
    const uint8_t *tile[DIRECT_TILES];
    floats unit[DIRECT_TILES]; /* of the tiles' scales */
    const int16_t *x;
    int64_t plane, stride, blocks, groups;
    const int32_t *drop, *half, *mean, *sum;
    const uint8_t *next; /* what is fetched of the tiles after these: |lines| of 64 bytes at each step of columns */
    int lines;
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

V_BODY void end_patch(const ls_packed *w, const patch *p, int kind, int xp, int64_t g, int64_t block,
                      lanes acc[DIRECT_ROWS][DIRECT_TILES][3], sums z[DIRECT_ROWS][DIRECT_TILES], int n, int tiles) {
    const int wp = weight_planes(kind);
    V_UNROLL for (int t = 0; t < tiles; t++) {
        lanes s, m = v_set(0);
        if (wp == 2) s = drop_scales(w, p->tile[t], g);
        else load_scales(w, p->tile[t], g, p->unit[t], &s, &m);
        V_UNROLL for (int r = 0; r < n; r++)
            add_scaled(&z[r][t], aligned(acc[r][t], wp, xp, w->form.c, p->half[r * p->blocks + block], p->drop[r * p->blocks + block]), s, xp);
        if (wp == 2 || !w->form.has_min) continue;
        V_UNROLL for (int r = 0; r < n; r++) add_mean(&z[r][t], p->mean[r * p->groups + g], m, xp);
    }
}

/* Spans [begin, end) of |tiles| tiles by |n| rows, added to |sum|; 16 << size is the group. */
V_BODY void patch_spans(const ls_packed *w, const patch *p, int64_t begin, int64_t end, int kind, int xp, int size, sums sum[DIRECT_ROWS][DIRECT_TILES],
                        int n, int tiles) {
    const int step = size == LS_SUM_64 ? 2 : 1, group = 16 << size;
    lanes acc[DIRECT_ROWS][DIRECT_TILES][3];
    const uint8_t *next = p->next + begin / step * p->lines * 64;
    for (int64_t k = begin; k < end; k += step) {
        size_t at = w->span_at + (size_t)k * w->span_bytes;
        int64_t block = k / 2;
        for (int i = 0; i < p->lines; i++) LS_PREFETCH_NEXT(next + i * 64);
        next += p->lines * 64;
        V_UNROLL for (int part = 0; part < 2 * step; part++) {
            int64_t g = (k * 2 + part) >> size;
            if (part * 16 % group == 0) start_patch(p, kind, xp, w->form.zero, g, block, acc, n, tiles);
            dot_patch(p, kind, xp, at + (size_t)(part / 2) * w->span_bytes, part % 2, (k + part / 2) * LS_SPAN, acc, n, tiles);
            if ((part + 1) * 16 % group == 0) end_patch(w, p, kind, xp, g, block, acc, sum, n, tiles);
        }
    }
}

/* |n| rows by |tiles| tiles. */
V_BODY void multiply_patch(const ls_packed *w, const patch *p, int kind, int xp, int size, sums z[DIRECT_ROWS][DIRECT_TILES], int n, int tiles) {
    const int64_t most = part_spans(w, xp, size);
    sums part[DIRECT_ROWS][DIRECT_TILES];
    V_UNROLL for (int r = 0; r < n; r++)
        V_UNROLL for (int t = 0; t < tiles; t++) z[r][t] = (sums){w_zero(), w_zero()};
    for (int64_t k = 0; k < w->spans; k += most) {
        V_UNROLL for (int r = 0; r < n; r++)
            V_UNROLL for (int t = 0; t < tiles; t++) part[r][t] = first_part(&z[r][t], xp);
        patch_spans(w, p, k, w->spans - k < most ? w->spans : k + most, kind, xp, size, part, n, tiles);
        V_UNROLL for (int r = 0; r < n; r++)
            V_UNROLL for (int t = 0; t < tiles; t++) add_part(&z[r][t], &part[r][t], xp);
    }
}

/* Rows [begin, end) multiply one or two tiles, several rows in a pass, before the next tiles; a row left over goes alone. */
typedef struct rows_by_tiles {
    int64_t tile, tile_end, begin, end;
} rows_by_tiles;

/* 64-byte lines of the |tiles| tiles at |tile|; 0 past the end. */
V_BODY int64_t tile_lines(const ls_packed *w, int64_t tile, int64_t tile_end, int tiles) {
    int64_t count = tile_end - tile < tiles ? tile_end - tile : tiles;
    return count > 0 ? count * (int64_t)(w->tile_bytes / 64) : 0;
}

/* Shares the reading of the next tiles among the passes over these: a pass that read its tiles alone would wait for memory, and the passes after it, which
 * have them in the cache, would leave memory idle. Tiles past the end of a task are most often the thread's next. */
V_BODY void fetch_next(patch *p, const ls_packed *w, const rows_by_tiles *a, int64_t row, int n, int tiles, int size) {
    int64_t rows = (a->end - a->begin) / 2 * 2, steps = size == LS_SUM_64 ? (w->spans + 1) / 2 : w->spans;
    int64_t next = a->tile + tiles, lines = tile_lines(w, next, w->tiles, tiles);
    p->lines = (int)((lines * n + rows * steps - 1) / (rows * steps));
    p->next = lines ? w->data + (size_t)next * w->tile_bytes + (size_t)(lines * (row - a->begin) / rows) * 64 : w->data;
}

/* Nothing has fetched the first tiles of a task. */
V_BODY void fetch_first(const ls_packed *w, int64_t tile, int64_t tile_end, int tiles) {
    enum { MOST = ROWS_BYTES / 64 };
    const uint8_t *data = w->data + (size_t)tile * w->tile_bytes;
    for (int64_t i = 0, lines = tile_lines(w, tile, tile_end, tiles); i < lines && i < MOST; i++) LS_PREFETCH_NEXT(data + i * 64);
}

V_BODY void patch_rows(const ls_packed *w, const rows_by_tiles *a, const ls_acts *x, int64_t row, const ls_linear_out *out, int kind, int xp, int size, int n,
                       int tiles) {
    sums z[DIRECT_ROWS][DIRECT_TILES];
    patch p = patch_of(x, row, xp, size);
    for (int t = 0; t < tiles; t++) {
        p.tile[t] = tile_data(w, a->tile + t, a->tile_end);
        p.unit[t] = tile_unit(w, a->tile + t, a->tile_end);
    }
    fetch_next(&p, w, a, row, n, tiles, size);
    multiply_patch(w, &p, kind, xp, size, z, n, tiles);
    for (int r = 0; r < n; r++)
        for (int t = 0; t < tiles && a->tile + t < a->tile_end; t++) finish(w, a->tile + t, &z[r][t], x, row + r, out, xp);
}

V_BODY void direct_rows(const ls_packed *w, int64_t tile_begin, int64_t tile_end, const ls_acts *x, int64_t row_begin, int64_t row_end,
                        const ls_linear_out *out, int kind, int xp, int size) {
    const bool planes = xp + weight_planes(kind) > 2, coded = ls_code_bits(kind) > 0;
    const int n = coded ? DIRECT_ROWS / xp : planes ? 2 : 4, tiles = coded ? 1 : DIRECT_TILES; /* codes take long to unpack */
    int64_t held = ROWS_BYTES / (x->blocks * LS_EXACT_BLOCK * 2 * xp) / n * n;
    if (held < n) held = n;
    for (int64_t begin = row_begin; begin < row_end; begin += held) {
        fetch_first(w, tile_begin, tile_end, tiles);
        rows_by_tiles a = {.tile = tile_begin, .tile_end = tile_end, .begin = begin, .end = row_end - begin < held ? row_end : begin + held};
        for (; a.tile < tile_end; a.tile += tiles) {
            int64_t row = begin, last = tile_end - a.tile < tiles ? tile_end : a.tile + tiles;
            for (; row + n <= a.end; row += n) patch_rows(w, &a, x, row, out, kind, xp, size, n, tiles);
            for (; n > 4 && row + 4 <= a.end; row += 4) patch_rows(w, &a, x, row, out, kind, xp, size, 4, tiles);
            for (; n > 2 && row + 2 <= a.end; row += 2) patch_rows(w, &a, x, row, out, kind, xp, size, 2, tiles);
            for (; row < a.end; row++) one_row(w, a.tile, last, x, row, out, kind, xp, size);
        }
    }
}

#endif
