/* One row of the exact linear operator, straight from packed weights to the result, one tile after the other: what is read at the memory's speed is read
 * best as one stream. Included by linear_body.h. */
#ifndef LS_NATIVE_KERNELS_LINEAR_LINE_H
#define LS_NATIVE_KERNELS_LINEAR_LINE_H

/* What the product of one row and one tile reads. */
typedef struct line {
    const int16_t *x[2];
    const int32_t *drop, *half, *mean, *sum[2];
    const int32_t *start[2]; /* of integers: what each group's sums begin with */
} line;

V_BODY line line_of(const ls_acts *x, int64_t row, int xp, int size) {
    line l = {.drop = x->drop + row * x->blocks, .half = x->half + row * x->blocks, .mean = ls_acts_mean(x, size, row)};
    for (int i = 0; i < xp; i++) {
        l.x[i] = ls_acts_plane(x, row, i);
        l.sum[i] = ls_acts_sum(x, size, row, i);
    }
    return l;
}

/* The sums of one tile are kept in chains, so that their latencies overlap: [chain][plane]. */
enum { CHAINS = 4 };

enum { POWERS_AHEAD = 4 }; /* tiles between the one that is read and the one whose powers are fetched */

/* Where little is computed for a byte, fetches wait for addresses too: the system below may have mapped what are huge pages here in pages of 4 KiB. So of
 * every such page one line is fetched long before the others, which brings its address. */
enum { PAGE = 4096, PAGES_AHEAD = 131072 };

V_BODY void fetch_page(int kind, const uint8_t *at, size_t step) {
    if (kind == LS_PACK_W8 && ((uintptr_t)at & (PAGE - 1)) < step) LS_PREFETCH_NEXT(at + PAGES_AHEAD);
}

/* Fetches a line from AHEAD bytes on down to a part of it: processors drop fetches while too many are under way, and one of a line that has come costs next
 * to nothing. */
V_BODY void fetch(const uint8_t *from) {
    V_UNROLL for (int i = FETCHES; i > 0; i--) LS_PREFETCH(from + (size_t)AHEAD / FETCHES * (size_t)i);
}

/* Pairs of columns in one word of a kind's first plane; floats go one by one. */
V_BODY int word_pairs(int kind) { return weight_planes(kind) == 2 ? 1 : kind == LS_PACK_W8 ? 2 : kind == LS_PACK_W2 || kind == LS_PACK_W3 ? 8 : 4; }

/* Where the second plane of a kind of integers begins, and its lines in a span; 0 without one. */
V_BODY int second_at(int kind) { return kind == LS_PACK_W3 ? 128 : 256; }
V_BODY int second_lines(int kind) { return kind == LS_PACK_W6 ? 2 : kind == LS_PACK_W3 || kind == LS_PACK_W5 ? 1 : 0; }

/* Bits |mask| of both halves from bit |from| on, at bit |to|. */
V_BODY lanes moved_bits(lanes a, int from, int to, int mask) {
    return from >= to ? v_field(a, from - to, mask << to) : v_field(v_shl16(a, to - from), 0, mask << to);
}

/* Pair |i| of a span for chain |*chain|; |first| and |second| are the words that hold it, of integers. 4-bit integers in the upper bytes of the
 * halves stay there, which saves shifts: the sums of chains 2 and 3 are 256 times too large. A chain's fits, with at most 16 columns of
 * |x| <= 32512 or 32 of |x| <= 8128: 16 * 15 * 2^8 * 32512 < 2^31. */
V_BODY void line_pair(int kind, const uint8_t *span, lanes first, lanes second, int i, int *chain, lanes w[2]) {
    *chain = i % CHAINS;
    switch (kind) {
    case LS_PACK_W3: w[0] = v_field_or(first, i % 8 * 2, 3, moved_bits(second, i, 2, 1)); break;
    case LS_PACK_W4: w[0] = v_field(first, i % 2 * 4, i % 4 < 2 ? 15 : 15 << 8); break;
    case LS_PACK_W5: w[0] = v_field_or(first, i % 4 * 4, 15, moved_bits(second, i, 4, 1)); break;
    case LS_PACK_W6: w[0] = v_field_or(first, i % 4 * 4, 15, moved_bits(second, i % 8 * 2, 4, 3)); break;
    case LS_PACK_W8: w[0] = v_field(first, i % 2 * 8, 255); break;
    default: weight_pair(kind, span, i, w); break;
    }
}

/* Adds columns [16 * part, 16 * part + 16) of the span at column |col|. */
V_BODY void line_dot(int kind, int xp, const uint8_t *span, int part, const line *l, int64_t col, lanes acc[CHAINS][3]) {
    const int wp = weight_planes(kind), pairs = word_pairs(kind), lines = second_lines(kind);
    lanes first = v_set(0), second = v_set(0);
    V_UNROLL for (int i = lines_before(kind, part); i < lines_before(kind, part + 1); i++) fetch(span + i * 64);
    if (lines == 1 || lines == 2) second = v_load(span + second_at(kind) + (lines == 2 ? part * 64 : 0));
    V_UNROLL for (int i = part * 8; i < part * 8 + 8; i++) {
        lanes w[2], x[2];
        int chain;
        if (wp == 1 && i % pairs == 0) {
            first = v_load(span + i / pairs * 64);
            V_PIN(first); /* one load, not one for each field */
        }
        for (int p = 0; p < xp && wp == 2; p++) x[p] = v_pair(l->x[p] + col + 2 * i);
        line_pair(kind, span, first, second, i, &chain, w);
        if (wp == 2) dot_step(acc[chain], w, wp, x, xp);
        for (int p = 0; p < xp && wp == 1; p++) acc[chain][p] = v_dot_pair(acc[chain][p], w[0], l->x[p] + col + 2 * i);
        for (int j = 0; j < xp + wp - 1; j++) V_PIN(acc[chain][j]);
    }
}

/* What the sums of groups begin with, for weights of one plane; the same for all tiles. -z * X takes the zero point out of every product. What rounds both
 * shifts is added here: half, 0 or a power of two, is a multiple of plane 0's unit 2^(12 - c), or small enough beside the sums of plane 1, since
 * rshift(v, c) + half = (v + 2^(c - 1) + half * 2^c) >> c. */
V_BODY void line_starts(const ls_packed *w, const line *l, int xp, int size, int32_t start[2][LS_EXACT_MAX_COLS / 16]) {
    const int zero = w->form.zero, c = w->form.c, each = 4 >> size;
    for (int64_t b = 0; b < (w->spans + 1) / 2; b++) {
        const int32_t half = l->half[b], units = half >> (12 - c);
        for (int64_t g = b * each; g < (b + 1) * each; g++) {
            start[0][g] = (xp == 1 ? half : units) - zero * l->sum[0][g];
            if (xp == 2) start[1][g] = ((1 << c) >> 1) + (units ? 0 : half * (1 << c)) - zero * l->sum[1][g];
        }
    }
}

V_BODY void start_line(int kind, int xp, const line *l, int64_t g, lanes acc[CHAINS][3]) {
    for (int n = 0; n < CHAINS; n++)
        for (int i = 0; i < 3; i++) acc[n][i] = v_set(n || i >= xp || weight_planes(kind) == 2 ? 0 : l->start[i][g]);
}

/* The sum of a plane over its chains. The two that are 256 times too large together fit all but groups of 64 columns under exact16. */
V_BODY lanes join_chains(int kind, int xp, int size, const lanes acc[CHAINS][3], int i) {
    const bool up = kind == LS_PACK_W4, apart = up && xp == 1 && size == LS_SUM_64;
    lanes low = v_add(acc[0][i], acc[1][i]), high = apart ? v_add(v_sar(acc[2][i], 8), v_sar(acc[3][i], 8)) : v_add(acc[2][i], acc[3][i]);
    return v_add(low, up && !apart ? v_sar(high, 8) : high);
}

/* A of section 3. */
V_BODY lanes line_aligned(const ls_packed *w, int kind, int xp, int size, const line *l, int64_t block, const lanes acc[CHAINS][3]) {
    const int wp = weight_planes(kind), c = w->form.c;
    lanes total[3];
    for (int i = 0; i < xp + wp - 1; i++) total[i] = join_chains(kind, xp, size, acc, i);
    if (wp == 1 && xp == 1) return v_sar_each(total[0], v_set(l->drop[block]));
    if (wp == 1) return v_sar_each(v_add(v_shl(total[0], 12 - c), v_sar(total[1], c)), v_set(l->drop[block]));
    return aligned(total, wp, xp, c, l->half[block], l->drop[block]);
}

V_BODY void end_line(const ls_packed *w, const uint8_t *tile, int kind, int xp, int size, const line *l, int64_t g, int64_t block, floats unit,
                     const lanes acc[CHAINS][3], const uint8_t *entry, sums *part) {
    lanes s, m = v_set(0), a = line_aligned(w, kind, xp, size, l, block, acc);
    if (kind != LS_PACK_W8) LS_PREFETCH(entry + AHEAD);
    if (weight_planes(kind) == 2) { /* known to the compiler, unlike what load_scales() looks at */
        add_scaled(part, a, drop_scales(w, tile, g), xp);
        return;
    }
    load_entry(w, tile, entry, g, unit, &s, &m);
    add_scaled(part, a, s, xp);
    if (w->form.has_min) add_mean(part, l->mean[g], m, xp);
}

/* Spans [begin, end) of a tile by one row, added to |part|; 16 << size is the group. */
V_BODY void line_spans(const ls_packed *w, const uint8_t *tile, int64_t begin, int64_t end, int kind, int xp, int size, const line *l, floats unit,
                       sums *part) {
    const int step = size == LS_SUM_64 ? 2 : 1, group = 16 << size;
    size_t at = w->span_at + (size_t)begin * w->span_bytes, entry = ((size_t)begin * 2 >> size) * w->entry_bytes;
    lanes acc[CHAINS][3];
    for (int64_t k = begin; k < end; k += step) {
        fetch_page(kind, tile + at, (size_t)step * w->span_bytes);
        V_UNROLL for (int p = 0; p < 2 * step; p++) {
            int64_t g = (k * 2 + p) >> size;
            if (p * 16 % group == 0) start_line(kind, xp, l, g, acc);
            line_dot(kind, xp, tile + at, p % 2, l, (k + p / 2) * LS_SPAN, acc);
            if (p % 2) at += w->span_bytes;
            if ((p + 1) * 16 % group) continue;
            end_line(w, tile, kind, xp, size, l, g, k / 2, unit, acc, tile + entry, part);
            entry += w->entry_bytes;
        }
    }
}

V_BODY void line_tile(const ls_packed *w, int64_t tile, const ls_acts *x, int64_t row, const line *l, const ls_linear_out *out, int kind, int xp, int size) {
    const int64_t most = part_spans(w, xp, size);
    const uint8_t *data = w->data + (size_t)tile * w->tile_bytes;
    const floats unit = f_power(ls_packed_powers(w, tile));
    sums z = {w_zero(), w_zero()};
    LS_PREFETCH(ls_packed_powers(w, tile + POWERS_AHEAD));
    for (int64_t k = 0; k < w->spans; k += most) {
        sums part = first_part(&z, xp);
        line_spans(w, data, k, w->spans - k < most ? w->spans : k + most, kind, xp, size, l, unit, &part);
        add_part(&z, &part, xp);
    }
    finish(w, tile, &z, x, row, out, xp);
}

V_BODY void one_row(const ls_packed *w, int64_t tile_begin, int64_t tile_end, const ls_acts *x, int64_t row, const ls_linear_out *out, int kind, int xp,
                    int size) {
    line l = line_of(x, row, xp, size);
    int32_t start[2][LS_EXACT_MAX_COLS / 16];
    if (weight_planes(kind) == 1) line_starts(w, &l, xp, size, start);
    for (int i = 0; i < 2; i++) l.start[i] = start[i];
    for (int64_t i = tile_begin; i < tile_end; i++) line_tile(w, i, x, row, &l, out, kind, xp, size);
}

#endif
