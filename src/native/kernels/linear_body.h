/* The exact linear operator on packed weights, in the operations of lanes_<level>.h. Included once per level.
 *
 * Integers of both operands are planes of 16-bit halves: w = sum over j of plane j of the weight, high first, likewise x.
 * Products of planes i and j are summed in 32 bits at index i + j, those of two planes each as dot_step() says; combine() puts the sums together
 * into rshift(I, c), which leaves room for a rounding addend in 32 bits. One row goes straight from packed weights to the result (linear_line.h),
 * up to V_DIRECT rows do so too (linear_rows.h), and more rows share weights that are unpacked once into the scratch. Functions are specialised
 * by their constant arguments kind, xp (activation planes) and size (16 << size is the group). */
#ifndef LS_NATIVE_KERNELS_LINEAR_BODY_H
#define LS_NATIVE_KERNELS_LINEAR_BODY_H

V_BODY int weight_planes(int kind) { return kind >= LS_PACK_F12 ? 2 : 1; }

#include "native/kernels/linear_coded.h"

/* Pair |i| (columns 2i and 2i + 1) of a span: w[0], and for two planes w[1]. Plain integers keep their zero point. */
V_BODY void weight_pair(int kind, const uint8_t *span, int i, lanes w[2]) {
    lanes raw;
    switch (kind) {
    case LS_PACK_W2: w[0] = v_field(v_load(span + i / 8 * 64), i % 8 * 2, 3); break;
    case LS_PACK_W3:
        w[0] = v_field(v_load(span + i / 8 * 64), i % 8 * 2, 3);
        w[0] = v_or(w[0], v_shl16(v_field(v_load(span + 128), i, 1), 2));
        break;
    case LS_PACK_W4: w[0] = v_field(v_load(span + i / 4 * 64), i % 4 * 4, 15); break;
    case LS_PACK_W5:
        w[0] = v_field(v_load(span + i / 4 * 64), i % 4 * 4, 15);
        w[0] = v_or(w[0], v_shl16(v_field(v_load(span + 256), i, 1), 4));
        break;
    case LS_PACK_W6:
        w[0] = v_field(v_load(span + i / 4 * 64), i % 4 * 4, 15);
        w[0] = v_or(w[0], v_shl16(v_field(v_load(span + 256 + i / 8 * 64), i % 8 * 2, 3), 4));
        break;
    case LS_PACK_W8: w[0] = v_field(v_load(span + i / 2 * 64), i % 2 * 8, 255); break;
    case LS_PACK_IQ4: w[0] = v_lookup16(ls_iq4_codebook, v_field(v_load(span + i / 4 * 64), i % 4 * 4, 15)); break;
    case LS_PACK_F12:
    case LS_PACK_F14:
    case LS_PACK_F16: /* w = 256 * w[0] + w[1], w[1] unsigned */
        raw = float_pair(kind, span, i);
        w[0] = v_sar16(raw, 8);
        w[1] = v_field(raw, 0, 255);
        break;
    case LS_PACK_F13:
    case LS_PACK_F15: wide_pair(kind, span, i, w); break;
    default: /* LS_PACK_F24: w = 4096 * w[0] + w[1], both signed */
        raw = v_load(span + i * 64);
        w[1] = v_sar16(v_shl16(raw, 4), 4);
        w[0] = v_load(span + 1024 + i / 2 * 64);
        w[0] = v_sar16(i % 2 ? v_shl16(v_field(w[0], 8, 255), 8) : v_shl16(w[0], 8), 4);
        w[0] = v_or(w[0], v_field(raw, 12, 15));
        break;
    }
}

/* Two planes of each operand: three products instead of four (A. Karatsuba and Yu. Ofman, "Multiplication of multidigit numbers on automata", 1962).
 * Sum 1 is of (w[0] + w[1]) (x[0] + x[1]), from which combine() takes sums 0 and 2: modulo 2^32, but what is left fits. So do the operands fit 16 bits:
 * |w[0] + w[1]| <= 2032 + 2048, |x[0] + x[1]| <= 8128 + 2048. */
V_BODY void dot_step(lanes acc[3], const lanes w[2], int wp, const lanes x[2], int xp) {
    if (wp == 2 && xp == 2) {
        acc[0] = v_dot(acc[0], w[0], x[0]);
        acc[1] = v_dot(acc[1], v_add16(w[0], w[1]), v_add16(x[0], x[1]));
        acc[2] = v_dot(acc[2], w[1], x[1]);
        return;
    }
    for (int i = 0; i < xp; i++)
        for (int j = 0; j < wp; j++) acc[i + j] = v_dot(acc[i + j], w[j], x[i]);
}

/* (v + 2^(n-1)) >> n in 32 bits. */
V_BODY lanes v_rshift(lanes v, int n) { return v_sar(v_add(v, v_set((1 << n) >> 1)), n); }

/* rshift(I, c) from the sums of plane products. The high part is a multiple of 2^c, so only the rest is rounded. */
V_BODY lanes combine(const lanes acc[3], int wp, int xp, int c) {
    if (xp == 1) return v_add(v_shl(acc[0], 2), v_rshift(acc[1], 6));                   /* c = 6: 256 = 4 * 2^6 */
    if (wp == 1) return v_add(v_shl(acc[0], 12 - c), v_rshift(acc[1], c));              /* 0 <= c <= 8 */
    lanes middle = v_sub(v_sub(acc[1], acc[0]), acc[2]);
    lanes rest = v_add(middle, v_sar(v_add(acc[2], v_set(1 << 22)), 12));               /* c = 23: 2^24 = 2 * 2^23 */
    return v_add(v_shl(acc[0], 1), v_sar(rest, 11));
}

/* A of section 3. One plane of each operand has c = 0, and its sum began with |half|: see first_sum. */
V_BODY lanes aligned(const lanes acc[3], int wp, int xp, int c, int32_t half, int32_t drop) {
    lanes i = wp == 1 && xp == 1 ? acc[0] : v_add(combine(acc, wp, xp, c), v_set(half));
    return v_sar_each(i, v_set(drop));
}

/* What sum 0 starts from when nothing else does: the addend that rounds, where it may be added first. */
V_BODY int32_t first_sum(int wp, int xp, int32_t half) { return wp == 1 && xp == 1 ? half : 0; }

/* S of the sixteen rows of a float matrix for group |g|. */
V_BODY lanes drop_scales(const ls_packed *w, const uint8_t *tile, int64_t g) {
    return v_shr_each(v_set(1 << LS_EXACT_SCALE_BITS), v_bytes(tile + (size_t)g * w->entry_bytes));
}

/* The scales that those of group |g| are multiples of; a row has one, or each 256 columns. */
V_BODY const uint8_t *super_scales(const ls_packed *w, const uint8_t *tile, int64_t g) {
    return tile + w->super_at + (w->super ? (size_t)g * (size_t)w->form.group / 256 * w->super_bytes : 0);
}

/* S and M of the sixteen rows for group |g|, whose entry is |entry|; M only when the format has minima. */
V_BODY void load_entry(const ls_packed *w, const uint8_t *tile, const uint8_t *entry, int64_t g, floats unit, lanes *s, lanes *m) {
    const size_t second = w->entry_bytes / 2;
    bool has_min = w->form.has_min;
    if (w->scales == LS_SCALE_F16) { /* most often, and a jump table is foreseen less well */
        *s = v_round(f_mul(f_half(entry), unit));
        if (has_min) *m = v_round(f_mul(f_half(entry + second), unit));
        return;
    }
    const uint8_t *super = super_scales(w, tile, g);
    switch (w->scales) {
    case LS_SCALE_BF16:
        *s = v_round(f_mul(f_bfloat(entry), unit));
        if (has_min) *m = v_round(f_mul(f_bfloat(entry + second), unit));
        break;
    case LS_SCALE_F32:
        *s = v_round(f_mul(f_load(entry), unit));
        if (has_min) *m = v_round(f_mul(f_load(entry + second), unit));
        break;
    case LS_SCALE_INT8:
        *s = v_round(f_mul(f_int8(entry), f_mul(f_half(super), unit)));
        if (has_min) *m = v_round(f_mul(f_int8(entry + second), f_mul(f_half(super + 32), unit)));
        break;
    case LS_SCALE_NIBBLE:
        *s = v_round(f_mul(f_nibble(entry, 0), f_mul(f_half(super), unit)));
        *m = v_round(f_mul(f_nibble(entry, 4), f_mul(f_half(super + 32), unit)));
        break;
    default: /* LS_SCALE_DROP */ *s = drop_scales(w, tile, g); break;
    }
}

V_BODY void load_scales(const ls_packed *w, const uint8_t *tile, int64_t g, floats unit, lanes *s, lanes *m) {
    load_entry(w, tile, tile + (size_t)g * w->entry_bytes, g, unit, s, m);
}

/* The running sums of one row and one tile. Under exact16 quantised formats have c = 0, so both go into |acc|. */
typedef struct sums {
    wide acc, accx;
} sums;

/* Under exact24 a part of a row is summed before it is shifted: where shifting is dear, contributions are rounded to multiples of 16 and add_part()
 * shifts their sum (w_mul_part). At most PART_GROUPS: 512 * |S A| < 2^63. */
enum { PART_GROUPS = 512 };

/* Spans of a part. */
V_BODY int64_t part_spans(const ls_packed *w, int xp, int size) { return xp == 1 ? w->spans : (int64_t)PART_GROUPS * (16 << size) / LS_SPAN; }

V_BODY void add_scaled(sums *part, lanes a, lanes s, int xp) {
    part->acc = xp == 1 ? w_mul_add(part->acc, a, s) : w_mul_part(part->acc, a, s);
}

V_BODY void add_mean(sums *part, int32_t mean, lanes m, int xp) {
    if (xp == 1) part->acc = w_mul_add_one(part->acc, mean, m);
    else part->accx = w_mul_part_one(part->accx, mean, m);
}

/* What a part begins with, and what it adds to the sums |z| of the row: under exact16 it goes on with them. */
V_BODY sums first_part(const sums *z, int xp) { return xp == 1 ? *z : (sums){w_zero(), w_zero()}; }

V_BODY void add_part(sums *z, const sums *part, int xp) {
    if (xp == 1) *z = *part;
    else *z = (sums){w_add_part(z->acc, part->acc), w_add_part(z->accx, part->accx)};
}

/* What turns the sums of one tile into at most sixteen outputs: its powers and biases, how many there are, and where those of row 0 go. */
typedef struct ending {
    floats power, bias;
    bool biased;
    int count;
    float *y;
} ending;

V_BODY ending ending_of(const ls_packed *w, int64_t tile, const ls_linear_out *out) {
    const int64_t n = tile * LS_TILE;
    ending e = {.power = f_power(ls_packed_powers(w, tile) + LS_TILE), .biased = out->bias, .y = out->y + (n - out->first)};
    e.count = w->rows - n < LS_TILE ? (int)(w->rows - n) : LS_TILE;
    e.bias = out->bias ? f_canon(f_load_n(out->bias + n, e.count)) : f_set(0);
    return e;
}

/* Writes one tile of one output row, |at| behind row 0. */
V_BODY void finish_row(const ls_packed *w, const ending *e, const sums *z, float factor, int64_t at, int xp) {
    wide total = xp == 2 && w->form.has_min ? w_add_shifted(z->acc, z->accx, w->form.c) : z->acc;
    floats y = f_canon(f_mul(f_mul(w_to_floats(&total), e->power), f_set(factor)));
    if (e->biased) y = f_canon(f_add(y, e->bias));
    f_store_n(e->y + at, y, e->count);
}

V_BODY void finish(const ls_packed *w, int64_t tile, const sums *z, const ls_acts *x, int64_t row, const ls_linear_out *out, int xp) {
    const ending e = ending_of(w, tile, out);
    finish_row(w, &e, z, x->factor[row], row * out->stride, xp);
}

/* Bytes between what is multiplied and what is fetched first, and how often a line is fetched before it is multiplied. */
enum { AHEAD = 12288, FETCHES = 3 };

/* 64-byte lines of a span. */
V_BODY int span_lines(int kind) {
    switch (kind) {
    case LS_PACK_W2: return 2;
    case LS_PACK_W3: return 3;
    case LS_PACK_W4:
    case LS_PACK_IQ4: return 4;
    case LS_PACK_W5: return 5;
    case LS_PACK_W6: return 6;
    case LS_PACK_W8: return 8;
    case LS_PACK_F16: return 16;
    case LS_PACK_F24: return 24;
    default: return ls_code_bits(kind);
    }
}

/* Lines fetched before those of half |part|: about half of them, all when |part| is 2. */
V_BODY int lines_before(int kind, int part) { return part == 2 ? span_lines(kind) : part * ((span_lines(kind) + 3) / 4 * 2); }

#include "native/kernels/linear_line.h"

/* Which sums of activations belong to a group. */
V_BODY int size_of(const ls_packed *w) { return w->form.group == 16 ? LS_SUM_16 : w->form.group == 32 ? LS_SUM_32 : LS_SUM_64; }

/* Scales and minima of spans [begin, end) of |tile|, those of |tiles| tiles beside each other. */
V_BODY void unpack_scales(const ls_packed *w, const uint8_t *tile, floats unit, int64_t begin, int64_t end, uint8_t *scale, uint8_t *min, int tiles) {
    const int64_t last = end * LS_SPAN / w->form.group;
    for (int64_t g = begin * LS_SPAN / w->form.group; g < last; g++, scale += tiles * 64, min += tiles * 64) {
        lanes s, m = v_set(0);
        load_scales(w, tile, g, unit, &s, &m);
        v_store(scale, s);
        v_store(min, m);
    }
}

/* A tile's data, and what its scales are multiplied by; the last tile stands in for missing ones. */
V_BODY const uint8_t *tile_data(const ls_packed *w, int64_t tile, int64_t tile_end) {
    return w->data + (size_t)(tile < tile_end ? tile : tile_end - 1) * w->tile_bytes;
}
V_BODY floats tile_unit(const ls_packed *w, int64_t tile, int64_t tile_end) {
    return f_power(ls_packed_powers(w, tile < tile_end ? tile : tile_end - 1));
}

/* Spans that are unpacked at a time, of at most |cols| columns: a row is cut into about equal pieces of whole blocks. */
V_BODY int64_t piece_spans(const ls_packed *w, int64_t cols) {
    const int64_t most = cols / LS_SPAN, pieces = (w->spans + most - 1) / most;
    return ((w->spans + pieces - 1) / pieces + 1) / 2 * 2;
}

#ifndef V_AMX /* which has many rows to itself, see linear_amx.h */
/* ---- Several rows ------------------------------------------------------------------------------------------------- */

/* Unpacked weights of V_TILES tiles: pairs [pair, plane, tile] with the zero point subtracted, scales and minima [group, tile]. For floats under exact16 the
 * table is that of linear_wrap.h, which begins with the sums |high| [group, tile]. */
typedef struct table {
    uint8_t *pairs, *scale, *min, *high;
    sums *sums; /* [LS_LINEAR_TOKENS, V_TILES] */
} table;

V_BODY table table_of(void *scratch) {
    table t = {.pairs = scratch};
    t.scale = t.pairs + 2 * LS_TILE * LS_LINEAR_CHUNK * 2 * 2;
    t.min = t.scale + 2 * LS_TILE * (LS_LINEAR_CHUNK / 16) * 4;
    t.high = t.min + 2 * LS_TILE * (LS_LINEAR_CHUNK / 16) * 4;
    t.sums = (sums *)(t.high + 2 * LS_TILE * (LS_LINEAR_CHUNK / 16) * 4);
    return t;
}

#if V_ASSEMBLY
#include "native/kernels/linear_wrap.h"
#endif

/* Columns [16 * part, 16 * part + 16) of a span to |to|; for floats under exact16 see wrap_unpack(). */
V_BODY void unpack_part(int kind, int xp, const uint8_t *span, int part, lanes zero, uint8_t *to, lanes *high) {
    const int wp = weight_planes(kind);
#if V_ASSEMBLY
    if (wp == 2 && xp == 1) {
        wrap_unpack(kind, span, part, to, high);
        return;
    }
#endif
    (void)xp, (void)high;
    lanes p[2];
    V_UNROLL for (int i = 0; i < 8; i++) {
        weight_pair(kind, span, part * 8 + i, p);
        if (wp == 1) p[0] = v_sub16(p[0], zero);
        for (int j = 0; j < wp; j++) v_store(to + (i * wp + j) * V_TILES * 64, p[j]);
    }
}

/* Bytes of such a part in the table, all tiles. */
V_BODY int part_bytes(int kind, int xp) { return (V_ASSEMBLY && weight_planes(kind) == 2 && xp == 1 ? 12 : weight_planes(kind) * 8) * V_TILES * 64; }

/* Spans [begin, end) of tile |data| into place |at| of the table. */
V_BODY void unpack(const ls_packed *w, const uint8_t *tile, floats unit, int64_t begin, int64_t end, const table *t, int at, int kind, int xp) {
    const int64_t parts = w->form.group / 16;
    lanes zero = v_set(w->form.zero | w->form.zero << 16), high = v_set(0);
    uint8_t *to = t->pairs + at * 64, *high_to = t->high + at * 64;
    for (int64_t k = begin; k < end; k++) {
        const uint8_t *span = tile + w->span_at + (size_t)k * w->span_bytes;
        V_UNROLL for (int part = 0; part < 2; part++, to += part_bytes(kind, xp)) {
            unpack_part(kind, xp, span, part, zero, to, &high);
            if (!V_ASSEMBLY || xp == 2 || (2 * k + part + 1) % parts) continue;
            v_store(high_to, high);
            high_to += V_TILES * 64;
            high = v_set(0);
        }
    }
    unpack_scales(w, tile, unit, begin, end, t->scale + at * 64, t->min + at * 64, V_TILES);
}

/* Sums of plane products of |n| rows and all tiles over one group: |pairs| unpacked weights, |x| the first row's columns,
 * rows |stride| and planes |plane| integers apart; |half| the first row's, rows |blocks| apart. */
V_BODY void dot_group(const uint8_t *pairs, int count, const int16_t *x, int64_t stride, int64_t plane, const int32_t *half, int64_t blocks,
                      lanes acc[V_ROWS][V_TILES][3], int n, int wp, int xp) {
    for (int r = 0; r < n; r++)
        for (int t = 0; t < V_TILES; t++)
            for (int i = 0; i < 3; i++) acc[r][t][i] = v_set(i ? 0 : first_sum(wp, xp, half[r * blocks]));
    const uint8_t *end = pairs + count * wp * V_TILES * 64;
    do { /* tested at the end: compilers then keep each sum in one register */
        lanes w[V_TILES][2];
        for (int t = 0; t < V_TILES; t++)
            for (int j = 0; j < wp; j++) w[t][j] = v_load(pairs + (j * V_TILES + t) * 64);
        V_UNROLL for (int r = 0; r < n; r++) {
            lanes v[2];
            for (int p = 0; p < xp; p++) v[p] = v_pair(x + r * stride + p * plane);
            for (int t = 0; t < V_TILES; t++) dot_step(acc[r][t], w[t], wp, v, xp);
        }
        pairs += wp * V_TILES * 64;
        x += 2;
    } while (pairs < end);
}

/* Adds spans [begin, end) to the sums of |n| rows from |row| on. */
V_BODY void several_rows_block(const ls_packed *w, int64_t begin, int64_t end, const table *t, const ls_acts *x, int64_t row, sums *z, int n, int wp, int xp) {
    const int size = size_of(w), group = 16 << size;
    const int64_t plane = x->blocks * LS_EXACT_BLOCK, stride = plane * xp, groups = (end - begin) * LS_SPAN >> (4 + size);
    sums own[V_ROWS][V_TILES]; /* in registers over the whole chunk where the level has them */
    V_UNROLL for (int r = 0; r < n; r++)
        V_UNROLL for (int c = 0; c < V_TILES; c++) own[r][c] = first_part(&z[r * V_TILES + c], xp);
    for (int64_t i = 0; i < groups; i++) {
        int64_t g = (begin * LS_SPAN >> (4 + size)) + i;
        const int32_t *drop = x->drop + row * x->blocks + (g >> (2 - size)), *half = x->half + row * x->blocks + (g >> (2 - size));
        lanes acc[V_ROWS][V_TILES][3], s[V_TILES], m[V_TILES];
        dot_group(t->pairs + i * (group / 2) * wp * V_TILES * 64, group / 2, ls_acts_plane(x, row, 0) + g * group, stride, plane, half,
                  x->blocks, acc, n, wp, xp);
        for (int c = 0; c < V_TILES; c++) {
            s[c] = v_load(t->scale + (i * V_TILES + c) * 64);
            m[c] = v_load(t->min + (i * V_TILES + c) * 64);
        }
        V_UNROLL for (int r = 0; r < n; r++) {
            for (int c = 0; c < V_TILES; c++) {
                sums *at = &own[r][c];
                add_scaled(at, aligned(acc[r][c], wp, xp, w->form.c, half[r * x->blocks], drop[r * x->blocks]), s[c], xp);
                if (w->form.has_min) add_mean(at, ls_acts_mean(x, size, row + r)[g], m[c], xp);
            }
        }
    }
    V_UNROLL for (int r = 0; r < n; r++)
        V_UNROLL for (int c = 0; c < V_TILES; c++) add_part(&z[r * V_TILES + c], &own[r][c], xp);
}

/* All |n| rows, in blocks of the largest size whose sums fit the registers. */
V_BODY void several_rows_blocks(const ls_packed *w, int64_t begin, int64_t end, const table *t, const ls_acts *x, int64_t row, int64_t n, int wp, int xp) {
    const int most = wp == 1 && xp == 1 ? V_ROWS : V_ROWS_WIDE;
    int64_t r = 0;
#if V_ASSEMBLY
    for (; wp == 2 && xp == 1 && r + WRAP_ROWS <= n; r += WRAP_ROWS) wrap_rows(begin, end, t, x, row + r, t->sums + r * V_TILES);
#endif
    for (; r + most <= n; r += most) several_rows_block(w, begin, end, t, x, row + r, t->sums + r * V_TILES, most, wp, xp);
    for (; r + 2 <= n; r += 2) several_rows_block(w, begin, end, t, x, row + r, t->sums + r * V_TILES, 2, wp, xp);
    for (; r < n; r++) several_rows_block(w, begin, end, t, x, row + r, t->sums + r * V_TILES, 1, wp, xp);
}

/* The same for all kinds of weights, so not inlined into each kernel. */
typedef void rows_fn(const ls_packed *w, int64_t begin, int64_t end, const table *t, const ls_acts *x, int64_t row, int64_t n);

LS_APART void rows_1_1(const ls_packed *w, int64_t begin, int64_t end, const table *t, const ls_acts *x, int64_t row, int64_t n) {
    several_rows_blocks(w, begin, end, t, x, row, n, 1, 1);
}
LS_APART void rows_1_2(const ls_packed *w, int64_t begin, int64_t end, const table *t, const ls_acts *x, int64_t row, int64_t n) {
    several_rows_blocks(w, begin, end, t, x, row, n, 1, 2);
}
LS_APART void rows_2_1(const ls_packed *w, int64_t begin, int64_t end, const table *t, const ls_acts *x, int64_t row, int64_t n) {
    several_rows_blocks(w, begin, end, t, x, row, n, 2, 1);
}
LS_APART void rows_2_2(const ls_packed *w, int64_t begin, int64_t end, const table *t, const ls_acts *x, int64_t row, int64_t n) {
    several_rows_blocks(w, begin, end, t, x, row, n, 2, 2);
}

/* V_TILES tiles from |tile| on (the last may stand in for missing ones) by rows [row_begin, row_end). */
V_BODY void several_rows_tiles(const ls_packed *w, int64_t tile, int64_t tile_end, const ls_acts *x, int64_t row_begin, int64_t row_end,
                                  const ls_linear_out *out, const table *t, int kind, int xp) {
    rows_fn *const rows = weight_planes(kind) == 1 ? (xp == 1 ? rows_1_1 : rows_1_2) : (xp == 1 ? rows_2_1 : rows_2_2);
    const int64_t chunk = piece_spans(w, LS_LINEAR_CHUNK);
    const uint8_t *data[V_TILES];
    for (int c = 0; c < V_TILES; c++) data[c] = tile_data(w, tile + c, tile_end);
    int64_t held = -1; /* first span of what the table holds */
    for (int64_t row = row_begin; row < row_end; row += LS_LINEAR_TOKENS) {
        int64_t n = row_end - row < LS_LINEAR_TOKENS ? row_end - row : LS_LINEAR_TOKENS;
        for (int64_t i = 0; i < n * V_TILES; i++) t->sums[i] = (sums){w_zero(), w_zero()};
        for (int64_t k = 0; k < w->spans; k += chunk) {
            int64_t end = w->spans - k < chunk ? w->spans : k + chunk;
            for (int c = 0; c < V_TILES && held != k; c++) unpack(w, data[c], tile_unit(w, tile + c, tile_end), k, end, t, c, kind, xp);
            held = k;
            rows(w, k, end, t, x, row, n);
        }
        for (int64_t r = 0; r < n; r++)
            for (int c = 0; c < V_TILES && tile + c < tile_end; c++)
                finish(w, tile + c, &t->sums[r * V_TILES + c], x, row + r, out, xp);
    }
}

#if V_ASSEMBLY
#include "native/kernels/linear_cross.h"
_Static_assert(V_DIRECT >= LS_FEW_ROWS, "cross_rows() reads ls_acts.lead");
#endif
#if V_DIRECT
#include "native/kernels/linear_rows.h"
#endif
#ifdef V_BYTES
#include "native/kernels/linear_bytes.h"
#endif

/* ---- Kernels ------------------------------------------------------------------------------------------------------ */

V_BODY void linear_size(const ls_packed *w, int64_t tile_begin, int64_t tile_end, const ls_acts *x, int64_t row_begin, int64_t row_end,
                        const ls_linear_out *out, void *scratch, int kind, int xp, int size) {
#ifdef V_BYTES
    if (weight_planes(kind) == 1 && xp == 1) {
        linear_bytes(w, tile_begin, tile_end, x, row_begin, row_end, out, kind, size);
        return;
    }
#endif
    if (row_end - row_begin == 1) {
        one_row(w, tile_begin, tile_end, x, row_begin, out, kind, xp, size);
        return;
    }
#if V_DIRECT
    if (row_end - row_begin <= V_DIRECT) {
        direct_rows(w, tile_begin, tile_end, x, row_begin, row_end, out, kind, xp, size);
        return;
    }
#endif
#if V_ASSEMBLY
    _Static_assert((int)WRAP_ROWS == (int)CROSS_LINES, "rows at a time");
    const int most = weight_planes(kind) + xp == 4 ? 1 : CROSS_LINES / xp; /* rows at a time */
    if ((row_end - row_begin) % most) {
        int64_t rest = row_end - (row_end - row_begin) % most;
        direct_rows(w, tile_begin, tile_end, x, rest, row_end, out, kind, xp, size);
        row_end = rest;
    }
    if (weight_planes(kind) == 1) {
        cross_product(w, tile_begin, tile_end, x, row_begin, row_end, out, scratch, kind, xp);
        return;
    }
#endif
    table t = table_of(scratch);
    for (int64_t i = tile_begin; i < tile_end; i += V_TILES) several_rows_tiles(w, i, tile_end, x, row_begin, row_end, out, &t, kind, xp);
}

/* The body of every linear kernel. Groups of 16 exist in formats of 2, 3 and 6 bits only. */
V_BODY void linear(const ls_packed *w, int64_t tile_begin, int64_t tile_end, const ls_acts *x, int64_t row_begin, int64_t row_end, const ls_linear_out *out,
                      void *scratch, int kind, int xp) {
    const bool sixteens = kind == LS_PACK_W2 || kind == LS_PACK_W3 || kind == LS_PACK_W6;
    if (weight_planes(kind) == 2 || w->form.group == 64) linear_size(w, tile_begin, tile_end, x, row_begin, row_end, out, scratch, kind, xp, LS_SUM_64);
    else if (sixteens && w->form.group == 16) linear_size(w, tile_begin, tile_end, x, row_begin, row_end, out, scratch, kind, xp, LS_SUM_16);
    else linear_size(w, tile_begin, tile_end, x, row_begin, row_end, out, scratch, kind, xp, LS_SUM_32);
}

#endif
#endif
