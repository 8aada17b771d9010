/* The exact linear operator by AMX: products of many rows by dot products of bytes in tile registers.
 *
 * Both operands are planes of bytes, the highest first and signed, the others unsigned: mantissas of activations are two bytes (exact16, |q| <= 127 * 2^8)
 * or four (exact24, |q| <= 127 * 2^18), weights one (of quantised formats, less what makes them signed), two or three (floats under exact16, exact24).
 * Products of plane i of activations and plane j of weights are summed in 32 bits at index i + j, so the group's sum is I = sum over n of
 * 256^(last - n) * sum n. At most three pairs of planes meet in a sum: 3 * 64 * 255 * 255 < 2^24, so none overflows. From there on it is the arithmetic of
 * linear_body.h.
 *
 * One call of multiply_group() makes the sums of up to sixteen rows by two tiles over a group. They go through memory, and those of one group are scaled
 * while the tile registers multiply the next: scaling is the longer part. */
#ifndef LS_NATIVE_KERNELS_LINEAR_AMX_H
#define LS_NATIVE_KERNELS_LINEAR_AMX_H

/* Rows of a tile register; columns whose bytes of weights and activations are held, which the first-level cache should keep; sums of a product. */
enum { AMX_ROWS = 16, AMX_CHUNK = 512, AMX_SUMS = 6, AMX_GROUPS = AMX_CHUNK / 16 };

/* What LDTILECFG reads. */
typedef struct tile_config {
    uint8_t palette, start_row, zero[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} tile_config;

/* The working memory. */
typedef struct amx_work {
    uint8_t w[3][V_TILES][AMX_CHUNK / 4][LS_TILE * 4];         /* weights: plane, tile, columns by four, and of each output its four */
    uint8_t x[4][AMX_ROWS][AMX_CHUNK];                         /* activations: plane, row, column */
    int32_t sum[2][V_TILES][AMX_SUMS][AMX_ROWS][LS_TILE];      /* of a group and the one before */
    int32_t scale[AMX_GROUPS][V_TILES][LS_TILE], min[AMX_GROUPS][V_TILES][LS_TILE];
    sums part[AMX_ROWS][V_TILES], rows[LS_LINEAR_TOKENS][V_TILES];
} amx_work;

_Static_assert(sizeof(tile_config) == 64, "LDTILECFG");
_Static_assert(sizeof(amx_work) <= LS_LINEAR_SCRATCH, "amx_work lies in the scratch");

/* Planes of bytes of weights of |wp| planes of 16 bits, and of activations of |xp|; sums of their products. */
V_BODY int weight_bytes(int wp, int xp) { return wp == 1 ? 1 : 1 + xp; }
V_BODY int act_bytes(int xp) { return 2 * xp; }
V_BODY int byte_sums(int wp, int xp) { return act_bytes(xp) + weight_bytes(wp, xp) - 1; }

/* ---- Planes of bytes ---------------------------------------------------------------------------------------------- */

/* The upper and lower 16 bits of 4096 h + l, -2048 <= l < 2048, both halves of each lane on their own. */
V_BODY lanes upper_half(lanes h, lanes l) { return v_sar16(v_add16(h, v_sar16(l, 15)), 4); }
V_BODY lanes lower_half(lanes h, lanes l) { return v_add16(v_shl16(h, 12), l); }

/* Lanes of the low bytes of a's halves, then of b's. */
V_BODY lanes low_bytes(lanes a, lanes b) {
    const __m128i first = _mm_setr_epi8(0, 2, -1, -1, 4, 6, -1, -1, 8, 10, -1, -1, 12, 14, -1, -1);
    const __m128i second = _mm_setr_epi8(-1, -1, 0, 2, -1, -1, 4, 6, -1, -1, 8, 10, -1, -1, 12, 14);
    return v_or(_mm512_shuffle_epi8(a, _mm512_broadcast_i32x4(first)), _mm512_shuffle_epi8(b, _mm512_broadcast_i32x4(second)));
}

/* What is taken off the integers of one plane so that they fit a signed byte: the zero point, or 128 where all eight bits are in use. */
V_BODY int lowered(const ls_packed *w, int kind) { return kind == LS_PACK_W8 || kind == LS_PACK_IQ4 ? 128 : w->form.zero; }

/* Columns [4 * i, 4 * i + 4) of a span to row |at| of the planes. */
V_BODY void unpack_columns(int kind, int xp, const uint8_t *span, int i, lanes low, amx_work *k, int tile, int64_t at) {
    lanes a[2], b[2];
    weight_pair(kind, span, 2 * i, a);
    weight_pair(kind, span, 2 * i + 1, b);
    if (weight_planes(kind) == 2 && xp == 2) {
        lanes lower_a = lower_half(a[0], a[1]), lower_b = lower_half(b[0], b[1]);
        v_store(k->w[0][tile][at], low_bytes(upper_half(a[0], a[1]), upper_half(b[0], b[1])));
        v_store(k->w[1][tile][at], low_bytes(v_field(lower_a, 8, 255), v_field(lower_b, 8, 255)));
        v_store(k->w[2][tile][at], low_bytes(lower_a, lower_b));
    } else if (weight_planes(kind) == 2) {
        for (int j = 0; j < 2; j++) v_store(k->w[j][tile][at], low_bytes(a[j], b[j]));
    } else v_store(k->w[0][tile][at], low_bytes(v_sub16(a[0], low), v_sub16(b[0], low)));
}

/* Spans [begin, end) of |data|, whose scales are multiplied by |unit|, as tile |tile|. */
V_BODY void unpack_bytes(const ls_packed *w, const uint8_t *data, floats unit, int64_t begin, int64_t end, amx_work *k, int tile, int kind, int xp) {
    const int take = lowered(w, kind);
    const lanes low = v_set(take | take << 16);
    for (int64_t s = begin; s < end; s++) {
        const uint8_t *span = data + w->span_at + (size_t)s * w->span_bytes;
        V_UNROLL for (int i = 0; i < LS_SPAN / 4; i++) unpack_columns(kind, xp, span, i, low, k, tile, (s - begin) * (LS_SPAN / 4) + i);
    }
    unpack_scales(w, data, unit, begin, end, (uint8_t *)k->scale[0][tile], (uint8_t *)k->min[0][tile], V_TILES);
}

/* Both bytes of the halves of |v|, 32 columns, to planes |p| and p + 1. */
V_BODY void split_halves(amx_work *k, int p, int64_t r, int64_t col, lanes v) {
    const __m512i apart = _mm512_broadcast_i32x4(_mm_setr_epi8(1, 3, 5, 7, 9, 11, 13, 15, 0, 2, 4, 6, 8, 10, 12, 14));
    v = _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7), _mm512_shuffle_epi8(v, apart));
    _mm256_storeu_si256((void *)&k->x[p][r][col], _mm512_castsi512_si256(v));
    _mm256_storeu_si256((void *)&k->x[p + 1][r][col], _mm512_extracti64x4_epi64(v, 1));
}

/* Spans [begin, end) of |n| rows of activations. */
V_BODY void split_rows(const ls_acts *x, int64_t begin, int64_t end, int64_t row, int64_t n, amx_work *k, int xp) {
    for (int64_t r = 0; r < n; r++) {
        const int16_t *high = ls_acts_plane(x, row + r, 0) + begin * LS_SPAN, *low = ls_acts_plane(x, row + r, xp - 1) + begin * LS_SPAN;
        for (int64_t col = 0; col < (end - begin) * LS_SPAN; col += LS_SPAN) {
            lanes h = v_load(high + col), l = v_load(low + col);
            split_halves(k, 0, r, col, xp == 1 ? h : upper_half(h, l));
            if (xp == 2) split_halves(k, 2, r, col, lower_half(h, l));
        }
    }
}

/* ---- Products of a group ------------------------------------------------------------------------------------------ */

/* Registers 0 to 3 are sums, 4 and 5 activations, 6 and 7 weights; |col| is the group's first column among those held. */
#define LOAD_ACTS(n, p) T_LOAD(n, &k->x[p][0][col], AMX_CHUNK)
#define LOAD_WEIGHTS(n, j, tile) T_LOAD(n, k->w[j][tile][col / 4], LS_TILE * 4)
#define STORE_SUMS(n, tile, i) T_STORE(n, sum[tile][i], LS_TILE * 4)

/* Planes p and p + 1 of activations by both tiles of one plane of weights: sums p and p + 1. */
V_BODY void multiply_pair(const amx_work *k, int64_t col, int p, int32_t (*sum)[AMX_SUMS][AMX_ROWS][LS_TILE]) {
    T_ZERO(0);
    T_ZERO(1);
    T_ZERO(2);
    T_ZERO(3);
    LOAD_ACTS(4, p);
    LOAD_WEIGHTS(6, 0, 0);
    LOAD_WEIGHTS(7, 0, 1);
    LOAD_ACTS(5, p + 1);
    if (p == 0) {
        T_DOT_SS(0, 4, 6);
        T_DOT_SS(2, 4, 7);
    } else {
        T_DOT_US(0, 4, 6);
        T_DOT_US(2, 4, 7);
    }
    T_DOT_US(1, 5, 6);
    T_DOT_US(3, 5, 7);
    STORE_SUMS(0, 0, p);
    STORE_SUMS(1, 0, p + 1);
    STORE_SUMS(2, 1, p);
    STORE_SUMS(3, 1, p + 1);
}

/* Two planes of both operands. */
V_BODY void multiply_two_planes(const amx_work *k, int64_t col, int32_t (*sum)[AMX_SUMS][AMX_ROWS][LS_TILE]) {
    LOAD_ACTS(4, 0);
    LOAD_ACTS(5, 1);
    for (int t = 0; t < V_TILES; t++) {
        T_ZERO(0);
        T_ZERO(1);
        T_ZERO(2);
        LOAD_WEIGHTS(6, 0, t);
        LOAD_WEIGHTS(7, 1, t);
        T_DOT_SS(0, 4, 6);
        T_DOT_SU(1, 4, 7);
        T_DOT_UU(2, 5, 7);
        T_DOT_US(1, 5, 6);
        STORE_SUMS(0, t, 0);
        STORE_SUMS(1, t, 1);
        STORE_SUMS(2, t, 2);
    }
}

/* Four planes of activations by three of weights: the upper two planes of activations make sums 0 to 3, the lower two 2 to 5. Register 2 is sum 2 and
 * register 3 sum 3 throughout; 0 and 1 are sums 0 and 1, then 4 and 5. */
V_BODY void multiply_three_planes(const amx_work *k, int64_t col, int t, int32_t (*sum)[AMX_SUMS][AMX_ROWS][LS_TILE]) {
    T_ZERO(0);
    T_ZERO(1);
    T_ZERO(2);
    T_ZERO(3);
    LOAD_ACTS(4, 0);
    LOAD_ACTS(5, 1);
    LOAD_WEIGHTS(6, 0, t);
    LOAD_WEIGHTS(7, 1, t);
    T_DOT_SS(0, 4, 6);
    T_DOT_US(1, 5, 6);
    T_DOT_UU(2, 5, 7);
    T_DOT_SU(1, 4, 7);
    LOAD_WEIGHTS(6, 2, t);
    T_DOT_SU(2, 4, 6);
    T_DOT_UU(3, 5, 6);
    STORE_SUMS(0, t, 0);
    STORE_SUMS(1, t, 1);
    T_ZERO(0);
    T_ZERO(1);
    LOAD_ACTS(4, 2);
    LOAD_ACTS(5, 3);
    T_DOT_UU(3, 4, 7);
    T_DOT_UU(0, 4, 6);
    T_DOT_UU(1, 5, 6);
    T_DOT_UU(0, 5, 7);
    LOAD_WEIGHTS(7, 0, t);
    T_DOT_US(2, 4, 7);
    T_DOT_US(3, 5, 7);
    STORE_SUMS(2, t, 2);
    STORE_SUMS(3, t, 3);
    STORE_SUMS(0, t, 4);
    STORE_SUMS(1, t, 5);
}

/* sum [tile, sum, row, output] = the group from column |col| on. */
V_BODY void multiply_group(const amx_work *k, int64_t col, int32_t (*sum)[AMX_SUMS][AMX_ROWS][LS_TILE], int wp, int xp) {
    if (wp == 1) {
        for (int p = 0; p < 2 * xp; p += 2) multiply_pair(k, col, p, sum);
    } else if (xp == 1) {
        multiply_two_planes(k, col, sum);
    } else {
        for (int t = 0; t < V_TILES; t++) multiply_three_planes(k, col, t, sum);
    }
}

/* ---- Scaling ------------------------------------------------------------------------------------------------------ */

/* rshift(I, c), less |low| * 2^-c that the caller adds to what is shifted. Modulo 2^32: the result fits, with room for a rounding addend. */
V_BODY lanes join_sums(int32_t (*sum)[AMX_ROWS][LS_TILE], int64_t r, int c, int32_t low, int wp, int xp) {
    lanes s[AMX_SUMS];
    for (int i = 0; i < byte_sums(wp, xp); i++) s[i] = v_load(sum[i][r]);
    if (wp == 1 && xp == 1) return v_add(v_shl(s[0], 8), s[1]); /* c = 0 */
    if (wp == 1) {                                              /* 0 <= c <= 8 */
        lanes high = v_add(v_add(v_shl(s[0], 24 - c), v_shl(s[1], 16 - c)), v_shl(s[2], 8 - c));
        return v_add(high, v_sar(v_add(s[3], v_set(low)), c));
    }
    if (xp == 1) return v_add(v_add(v_shl(s[0], 10), v_shl(s[1], 2)), v_sar(v_add(s[2], v_set(low)), 6)); /* c = 6 */
    /* c = 23: sums 4 and 5 are of unsigned planes, at most 2 and 1 times 64 * 255 * 255, so 256 * sum 4 + sum 5 + 2^22 < 2^31. */
    lanes rest = v_add(s[3], v_sar(v_add(v_add(v_shl(s[4], 8), s[5]), v_set(low)), 16));
    return v_add(v_add(v_add(v_shl(s[0], 17), v_shl(s[1], 9)), v_shl(s[2], 1)), v_sar(rest, 7));
}

/* What the scaling of a group reads of the first row: other rows' are |blocks|, or |groups|, further on; |sum| of the planes, |groups| apart. */
typedef struct group_acts {
    const int32_t *half, *drop, *mean, *sum;
    int64_t blocks, groups;
} group_acts;

V_BODY group_acts group_acts_of(const ls_acts *x, int64_t row, int64_t g, int size) {
    group_acts a = {.blocks = x->blocks, .groups = x->blocks << (2 - size)};
    const int64_t block = row * a.blocks + (g >> (2 - size));
    a.half = x->half + block;
    a.drop = x->drop + block;
    if (x->mean[size]) a.mean = ls_acts_mean(x, size, row) + g;
    if (x->sum[size]) a.sum = ls_acts_sum(x, size, row, 0) + g;
    return a;
}

/* What rounds: |low| is added before the shift by c, |after| after it. Both also take out |left|, what is left of the zero point. */
typedef struct addends {
    int32_t low, after;
} addends;

V_BODY addends addends_of(const group_acts *x, int64_t r, int c, int left, int xp) {
    addends a = {.low = (1 << c) >> 1, .after = x->half[r * x->blocks]};
    if (!left) return a;
    const int32_t *sum = x->sum + r * xp * x->groups;
    a.after -= left * sum[0] * (xp == 1 ? 1 : 1 << (12 - c)); /* 128 * 64 * 8128 * 2^4 < 2^30: eight bits have c = 8, or 7 and groups of 32 */
    if (xp == 2) a.low -= left * sum[x->groups];
    return a;
}

/* Scales the sums [tile, sum, row, output] of |n| rows with group |i| of those that are held, and adds them to the rows' parts. */
V_BODY void scale_rows(amx_work *k, int64_t i, const group_acts *x, int64_t n, int c, bool has_min, int left, int wp, int xp) {
    lanes scale[V_TILES], min[V_TILES];
    for (int t = 0; t < V_TILES; t++) {
        scale[t] = v_load(k->scale[i][t]);
        min[t] = v_load(k->min[i][t]);
    }
    for (int64_t r = 0; r < n; r++) {
        const addends add = addends_of(x, r, c, left, xp);
        const lanes after = v_set(add.after), drop = v_set(x->drop[r * x->blocks]);
        V_UNROLL for (int t = 0; t < V_TILES; t++) {
            lanes a = v_sar_each(v_add(join_sums(k->sum[i % 2][t], r, c, add.low, wp, xp), after), drop);
            sums part = k->part[r][t];
            add_scaled(&part, a, scale[t], xp);
            if (has_min) add_mean(&part, x->mean[r * x->groups], min[t], xp);
            k->part[r][t].acc = part.acc;
            if (has_min && xp == 2) k->part[r][t].accx = part.accx;
        }
    }
}

/* The same of group |g|, of rows from |row| on. */
V_BODY void scale_group(const ls_packed *w, amx_work *k, int64_t i, int64_t g, const ls_acts *x, int64_t row, int64_t n, int left, int wp, int xp) {
    const group_acts a = group_acts_of(x, row, g, size_of(w));
    if (left) scale_rows(k, i, &a, n, w->form.c, w->form.has_min, left, wp, xp);
    else if (w->form.has_min) scale_rows(k, i, &a, n, w->form.c, true, 0, wp, xp);
    else scale_rows(k, i, &a, n, w->form.c, false, 0, wp, xp);
}

/* Adds spans [begin, end), which are held, to the sums |z| of |n| rows from |row| on. */
V_BODY void amx_rows(const ls_packed *w, int64_t begin, int64_t end, amx_work *k, const ls_acts *x, int64_t row, int64_t n, sums (*z)[V_TILES],
                     int wp, int xp) {
    const int left = wp == 1 ? w->form.zero - lowered(w, w->kind) : 0, group = w->form.group;
    const int64_t first = begin * LS_SPAN / group, groups = end * LS_SPAN / group - first;
    split_rows(x, begin, end, row, n, k, xp);
    for (int64_t r = 0; r < n; r++)
        for (int t = 0; t < V_TILES; t++) k->part[r][t] = first_part(&z[r][t], xp);
    for (int64_t i = 0; i <= groups; i++) {
        if (i < groups) multiply_group(k, i * group, k->sum[i % 2], wp, xp);
        if (i) scale_group(w, k, i - 1, first + i - 1, x, row, n, left, wp, xp);
    }
    for (int64_t r = 0; r < n; r++)
        for (int t = 0; t < V_TILES; t++) add_part(&z[r][t], &k->part[r][t], xp);
}

/* The same for all kinds of weights, so not inlined into each kernel. */
typedef void amx_rows_fn(const ls_packed *w, int64_t begin, int64_t end, amx_work *k, const ls_acts *x, int64_t row, int64_t n, sums (*z)[V_TILES]);

LS_APART void amx_rows_1_1(const ls_packed *w, int64_t begin, int64_t end, amx_work *k, const ls_acts *x, int64_t row, int64_t n, sums (*z)[V_TILES]) {
    amx_rows(w, begin, end, k, x, row, n, z, 1, 1);
}
LS_APART void amx_rows_1_2(const ls_packed *w, int64_t begin, int64_t end, amx_work *k, const ls_acts *x, int64_t row, int64_t n, sums (*z)[V_TILES]) {
    amx_rows(w, begin, end, k, x, row, n, z, 1, 2);
}
LS_APART void amx_rows_2_1(const ls_packed *w, int64_t begin, int64_t end, amx_work *k, const ls_acts *x, int64_t row, int64_t n, sums (*z)[V_TILES]) {
    amx_rows(w, begin, end, k, x, row, n, z, 2, 1);
}
LS_APART void amx_rows_2_2(const ls_packed *w, int64_t begin, int64_t end, amx_work *k, const ls_acts *x, int64_t row, int64_t n, sums (*z)[V_TILES]) {
    amx_rows(w, begin, end, k, x, row, n, z, 2, 2);
}

/* ---- Kernels ------------------------------------------------------------------------------------------------------ */

/* Rows [row, row + n), n <= LS_LINEAR_TOKENS, |step| at a time, by the tiles |data|; *held is the first span of the weights in |k|, or -1. */
V_BODY void amx_tiles(const ls_packed *w, const uint8_t *const data[V_TILES], const floats unit[V_TILES], const ls_acts *x, int64_t row, int64_t n,
                      int64_t step, amx_work *k, int64_t *held, int kind, int xp) {
    amx_rows_fn *const rows = weight_planes(kind) == 1 ? (xp == 1 ? amx_rows_1_1 : amx_rows_1_2) : (xp == 1 ? amx_rows_2_1 : amx_rows_2_2);
    const int64_t chunk = piece_spans(w, AMX_CHUNK);
    for (int64_t r = 0; r < n; r++)
        for (int t = 0; t < V_TILES; t++) k->rows[r][t] = (sums){w_zero(), w_zero()};
    for (int64_t s = 0; s < w->spans; s += chunk) {
        int64_t end = w->spans - s < chunk ? w->spans : s + chunk;
        for (int t = 0; t < V_TILES && *held != s; t++) unpack_bytes(w, data[t], unit[t], s, end, k, t, kind, xp);
        *held = s;
        for (int64_t r = 0; r < n; r += step) rows(w, s, end, k, x, row + r, n - r < step ? n - r : step, k->rows + r);
    }
}

/* V_TILES tiles from |tile| on (the last may stand in for missing ones) by rows [row_begin, row_end), |step| at a time. */
V_BODY void amx_outputs(const ls_packed *w, int64_t tile, int64_t tile_end, const ls_acts *x, int64_t row_begin, int64_t row_end, int64_t step,
                        const ls_linear_out *out, amx_work *k, int kind, int xp) {
    const int64_t most = LS_LINEAR_TOKENS / step * step;
    const uint8_t *data[V_TILES];
    floats unit[V_TILES];
    int64_t held = -1;
    for (int t = 0; t < V_TILES; t++) {
        data[t] = tile_data(w, tile + t, tile_end);
        unit[t] = tile_unit(w, tile + t, tile_end);
    }
    for (int64_t row = row_begin; row < row_end; row += most) {
        int64_t n = row_end - row < most ? row_end - row : most;
        amx_tiles(w, data, unit, x, row, n, step, k, &held, kind, xp);
        for (int64_t r = 0; r < n; r++)
            for (int t = 0; t < V_TILES && tile + t < tile_end; t++) finish(w, tile + t, &k->rows[r][t], x, row + r, out, xp);
    }
}

/* Tiles of |rows| rows by groups of |group| columns. */
V_BODY tile_config config_of(int64_t rows, int group) {
    tile_config c = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        c.rows[i] = (uint8_t)(i < 6 ? rows : group / 4);
        c.row_bytes[i] = (uint16_t)(i < 4 || i > 5 ? LS_TILE * 4 : group);
    }
    return c;
}

/* The body of every linear kernel. Rows are shared out evenly to tile registers, so that one configuration serves all: what the last rows' registers hold
 * beyond them is not looked at. */
V_BODY void linear(const ls_packed *w, int64_t tile_begin, int64_t tile_end, const ls_acts *x, int64_t row_begin, int64_t row_end, const ls_linear_out *out,
                   void *scratch, int kind, int xp) {
    const int64_t rows = row_end - row_begin;
    if (rows <= V_DIRECT) {
        const ls_kernels *few = ls_kernels_of(LS_LEVEL_AVX512);
        few->linear[xp == 1 ? LS_CONTRACT_EXACT16 : LS_CONTRACT_EXACT24][kind](w, tile_begin, tile_end, x, row_begin, row_end, out, scratch);
        return;
    }
    const int64_t registers = (rows + AMX_ROWS - 1) / AMX_ROWS, step = (rows + registers - 1) / registers;
    const tile_config config = config_of(step, w->form.group);
    T_CONFIGURE(&config);
    for (int64_t tile = tile_begin; tile < tile_end; tile += V_TILES) amx_outputs(w, tile, tile_end, x, row_begin, row_end, step, out, scratch, kind, xp);
    T_RELEASE();
}

#undef LOAD_ACTS
#undef LOAD_WEIGHTS
#undef STORE_SUMS
#endif
