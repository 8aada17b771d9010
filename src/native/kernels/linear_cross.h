/* Products of many rows for weights of one plane. Of each eight columns the last four take half as many multiplications (S. Winograd, "A new algorithm for
 * inner product", 1968):
 *
 *     (x0 + w1) (x1 + w0) = x0 w0 + x1 w1 + x0 x1 + w0 w1
 *
 * with x0, w0 of a pair of columns and x1, w1 of the next. Processors with AVX-512 add twice as often as they multiply, so that two products and the additions
 * of two others take the fewest cycles. The products of the operands with themselves do not depend on the other operand and are taken off in advance:
 * cross_unpack() sums those of weights, quantisation those of activations (ls_acts.lead). All is modulo 2^32, and what is left fits 32 bits as it does
 * without; |x + w| <= 127 * 2^8 + 255 fits 16.
 *
 * Four lines by four tiles have 16 sums of a group, and load each weight and activation once for four products; a line is a plane of a row, so that is four
 * rows or two. Sums of the rows are in memory. Compilers take such text apart and spill what it holds, so it is assembly. Tasks of few tiles take two tiles at
 * a time. Included by linear_body.h. */
#ifndef LS_NATIVE_KERNELS_LINEAR_CROSS_H
#define LS_NATIVE_KERNELS_LINEAR_CROSS_H

#include <stddef.h>
#include <string.h>

/* Columns whose unpacked weights stay in the first-level cache. */
enum { CROSS_LINES = 4, CROSS_TILES = LS_PRODUCT_TILES, CROSS_CHUNK = 192, CROSS_GROUPS = CROSS_CHUNK / 16 };

/* Unpacked weights of CROSS_TILES tiles and the sums of the rows. */
typedef struct cross_table {
    uint8_t pairs[CROSS_CHUNK / 2][CROSS_TILES][64]; /* with the zero point subtracted */
    uint8_t scale[CROSS_GROUPS][CROSS_TILES][64], min[CROSS_GROUPS][CROSS_TILES][64];
    uint8_t cross[CROSS_GROUPS][CROSS_TILES][64]; /* sums of products of neighbours */
    wide acc[LS_LINEAR_TOKENS][CROSS_TILES], accx[LS_LINEAR_TOKENS][CROSS_TILES];
} cross_table;
_Static_assert(sizeof(cross_table) <= LS_LINEAR_SCRATCH, "LS_LINEAR_SCRATCH");

/* How sums of two planes are put together, see combine(): shifts of plane 0 to the left and of plane 1 to the right, and what rounds that; and what rounds
 * rshift(S A, 4). */
typedef struct cross_planes {
    int32_t left, right, first, unused;
    int64_t round;
} cross_planes;

/* Addresses of lines 0 to 3: a register, and multiples of the stride from it. */
#define CROSS_X0 "(%[x])"
#define CROSS_X1 "(%[x],%[xs])"
#define CROSS_X2 "(%[x],%[xs],2)"
#define CROSS_X3 "(%[x],%[xs3])"
#define CROSS_LEAD0 "(%[lead])"
#define CROSS_LEAD1 "(%[lead],%[ls])"
#define CROSS_LEAD2 "(%[lead],%[ls],2)"
#define CROSS_LEAD3 "(%[lead],%[ls3])"

/* A text for four tiles, and for two without what FOUR() encloses. */
#define CROSS_WITH(...) __VA_ARGS__
#define CROSS_WITHOUT(...)

/* The registers of sums of each line and the tiles. */
#define CROSS_LINE0 "%%zmm0", "%%zmm1", "%%zmm2", "%%zmm3"
#define CROSS_LINE1 "%%zmm4", "%%zmm5", "%%zmm6", "%%zmm7"
#define CROSS_LINE2 "%%zmm8", "%%zmm9", "%%zmm10", "%%zmm11"
#define CROSS_LINE3 "%%zmm12", "%%zmm13", "%%zmm14", "%%zmm15"
#define CROSS_CALL(MACRO, ...) MACRO(__VA_ARGS__)
#define CROSS_ALL(LINE, FOUR, at)                                                                                                               \
    CROSS_CALL(LINE, FOUR, at##0, CROSS_LINE0) CROSS_CALL(LINE, FOUR, at##1, CROSS_LINE1) CROSS_CALL(LINE, FOUR, at##2, CROSS_LINE2)               \
    CROSS_CALL(LINE, FOUR, at##3, CROSS_LINE3)

/* Sums |a| to |d| of a line and the tiles, before the first product of a group; |MORE| is added. */
#define CROSS_START_WITH(FOUR, lead, MORE, a, b, c, d)                                                                                          \
    "vpbroadcastd " lead ", %%zmm24\n\t" MORE "vpsubd %c[cross](%[scale]), %%zmm24, " a "\n\tvpsubd %c[cross]+64(%[scale]), %%zmm24, " b "\n\t" \
    FOUR("vpsubd %c[cross]+128(%[scale]), %%zmm24, " c "\n\tvpsubd %c[cross]+192(%[scale]), %%zmm24, " d "\n\t")
#define CROSS_START(FOUR, lead, a, b, c, d) CROSS_START_WITH(FOUR, lead, "", a, b, c, d)
#define CROSS_START_LOW(FOUR, lead, a, b, c, d) CROSS_START_WITH(FOUR, lead, "vpaddd 8(%[planes])%{1to16%}, %%zmm24, %%zmm24\n\t", a, b, c, d)
#define CROSS_STARTS_1(FOUR) CROSS_ALL(CROSS_START, FOUR, CROSS_LEAD)
#define CROSS_STARTS_2(FOUR)                                                                                                                    \
    CROSS_CALL(CROSS_START, FOUR, CROSS_LEAD0, CROSS_LINE0) CROSS_CALL(CROSS_START_LOW, FOUR, CROSS_LEAD1, CROSS_LINE1)                            \
    CROSS_CALL(CROSS_START, FOUR, CROSS_LEAD2, CROSS_LINE2) CROSS_CALL(CROSS_START_LOW, FOUR, CROSS_LEAD3, CROSS_LINE3)

/* w0 of four columns to zmm16 to zmm19, tile by tile, w1 to zmm20 to zmm23; x0 of a line to zmm24, x1 to zmm25. */
#define CROSS_WEIGHTS(FOUR)                                                                                                                      \
    "vmovdqa64 (%[pairs]), %%zmm16\n\tvmovdqa64 64(%[pairs]), %%zmm17\n\tvmovdqa64 256(%[pairs]), %%zmm20\n\tvmovdqa64 320(%[pairs]), %%zmm21\n\t" \
    FOUR("vmovdqa64 128(%[pairs]), %%zmm18\n\tvmovdqa64 192(%[pairs]), %%zmm19\n\t"                                                               \
         "vmovdqa64 384(%[pairs]), %%zmm22\n\tvmovdqa64 448(%[pairs]), %%zmm23\n\t")
#define CROSS_X(x) "vpbroadcastd " x ", %%zmm24\n\tvpbroadcastd 4" x ", %%zmm25\n\t"
#define CROSS_NEXT "add $8, %[x]\n\tadd $512, %[pairs]\n\t"

/* Four columns of a line as they are, and by Winograd's product. */
#define CROSS_PLAIN(FOUR, x, a, b, c, d) CROSS_X(x)                                                                                              \
    "vpdpwssd %%zmm16, %%zmm24, " a "\n\tvpdpwssd %%zmm17, %%zmm24, " b "\n\t"                                                                    \
    FOUR("vpdpwssd %%zmm18, %%zmm24, " c "\n\tvpdpwssd %%zmm19, %%zmm24, " d "\n\t")                                                              \
    "vpdpwssd %%zmm20, %%zmm25, " a "\n\tvpdpwssd %%zmm21, %%zmm25, " b "\n\t"                                                                    \
    FOUR("vpdpwssd %%zmm22, %%zmm25, " c "\n\tvpdpwssd %%zmm23, %%zmm25, " d "\n\t")
#define CROSS_TILE(w0, w1, sum, p, q) "vpaddw " w1 ", %%zmm24, " p "\n\tvpaddw " w0 ", %%zmm25, " q "\n\tvpdpwssd " q ", " p ", " sum "\n\t"
#define CROSS_HALF(FOUR, x, a, b, c, d) CROSS_X(x)                                                                                               \
    CROSS_TILE("%%zmm16", "%%zmm20", a, "%%zmm26", "%%zmm27") CROSS_TILE("%%zmm17", "%%zmm21", b, "%%zmm28", "%%zmm29")                            \
    FOUR(CROSS_TILE("%%zmm18", "%%zmm22", c, "%%zmm30", "%%zmm31") CROSS_TILE("%%zmm19", "%%zmm23", d, "%%zmm26", "%%zmm27"))

/* The scales of a group to zmm16 to zmm19, their odd lanes to zmm20 to zmm23. */
#define CROSS_SCALES(FOUR)                                                                                                                       \
    "vmovdqa64 (%[scale]), %%zmm16\n\tvmovdqa64 64(%[scale]), %%zmm17\n\tvpsrlq $32, %%zmm16, %%zmm20\n\tvpsrlq $32, %%zmm17, %%zmm21\n\t"         \
    FOUR("vmovdqa64 128(%[scale]), %%zmm18\n\tvmovdqa64 192(%[scale]), %%zmm19\n\tvpsrlq $32, %%zmm18, %%zmm22\n\tvpsrlq $32, %%zmm19, %%zmm23\n\t")

/* The even lanes in |p| and the odd ones in |q| of a group's contributions, added to the sums of the row at |at|. */
#define CROSS_ADD(at, p, q)                                                                                                                     \
    "vpaddq " at "(%[z]), " p ", " p "\n\tvpaddq 64+" at "(%[z]), " q ", " q "\n\tvmovdqa64 " p ", " at "(%[z])\n\tvmovdqa64 " q ", 64+" at "(%[z])\n\t"

/* One plane: the sum |a| of a group, shifted by zmm24, times the scales in |s| and |s_odd|. */
#define CROSS_SCALE(a, s, s_odd, at, p, q)                                                                                                      \
    "vpsravd %%zmm24, " a ", " a "\n\tvpsrlq $32, " a ", " q "\n\tvpmuldq " s ", " a ", " p "\n\tvpmuldq " s_odd ", " q ", " q "\n\t"             \
    CROSS_ADD(at, p, q)
#define CROSS_END(FOUR, lead, at, a, b, c, d)                                                                                                   \
    "vpbroadcastd 4" lead ", %%zmm24\n\t"                                                                                                        \
    CROSS_SCALE(a, "%%zmm16", "%%zmm20", at, "%%zmm26", "%%zmm27") CROSS_SCALE(b, "%%zmm17", "%%zmm21", "128+" at, "%%zmm28", "%%zmm29")            \
    FOUR(CROSS_SCALE(c, "%%zmm18", "%%zmm22", "256+" at, "%%zmm30", "%%zmm31") CROSS_SCALE(d, "%%zmm19", "%%zmm23", "384+" at, "%%zmm26", "%%zmm27"))
#define CROSS_ENDS_1(FOUR) CROSS_SCALES(FOUR)                                                                                                   \
    CROSS_CALL(CROSS_END, FOUR, CROSS_LEAD0, "0", CROSS_LINE0) CROSS_CALL(CROSS_END, FOUR, CROSS_LEAD1, "512", CROSS_LINE1)                        \
    CROSS_CALL(CROSS_END, FOUR, CROSS_LEAD2, "1024", CROSS_LINE2) CROSS_CALL(CROSS_END, FOUR, CROSS_LEAD3, "1536", CROSS_LINE3)

/* Two planes: the sums |h| and |l| of a group become rshift(S A, 4); zmm24 and zmm25 are the shifts, zmm26 rounds; the row's half and drop are four bytes past
 * |lead_h| and |lead_l|. */
#define CROSS_SCALE_2(h, l, lead_h, lead_l, s, s_odd, at)                                                                                       \
    "vpsllvd %%zmm24, " h ", " h "\n\tvpsravd %%zmm25, " l ", " l "\n\tvpaddd " l ", " h ", " h "\n\t"                                          \
    "vpaddd 4" lead_h "%{1to16%}, " h ", " h "\n\tvpsravd 4" lead_l "%{1to16%}, " h ", " h "\n\t"                                              \
    "vpsrlq $32, " h ", " l "\n\tvpmuldq " s ", " h ", " h "\n\tvpmuldq " s_odd ", " l ", " l "\n\t"                                           \
    "vpaddq %%zmm26, " h ", " h "\n\tvpaddq %%zmm26, " l ", " l "\n\tvpsraq $4, " h ", " h "\n\tvpsraq $4, " l ", " l "\n\t" CROSS_ADD(at, h, l)
#define CROSS_END_2(FOUR, lead_h, lead_l, at, ha, hb, hc, hd, la, lb, lc, ld)                                                                   \
    CROSS_SCALE_2(ha, la, lead_h, lead_l, "%%zmm16", "%%zmm20", at) CROSS_SCALE_2(hb, lb, lead_h, lead_l, "%%zmm17", "%%zmm21", "128+" at)         \
    FOUR(CROSS_SCALE_2(hc, lc, lead_h, lead_l, "%%zmm18", "%%zmm22", "256+" at) CROSS_SCALE_2(hd, ld, lead_h, lead_l, "%%zmm19", "%%zmm23", "384+" at))
#define CROSS_ENDS_2(FOUR) CROSS_SCALES(FOUR)                                                                                                   \
    "vpbroadcastd (%[planes]), %%zmm24\n\tvpbroadcastd 4(%[planes]), %%zmm25\n\tvpbroadcastq 16(%[planes]), %%zmm26\n\t"                        \
    CROSS_CALL(CROSS_END_2, FOUR, CROSS_LEAD0, CROSS_LEAD1, "0", CROSS_LINE0, CROSS_LINE1)                                                       \
    CROSS_CALL(CROSS_END_2, FOUR, CROSS_LEAD2, CROSS_LEAD3, "512", CROSS_LINE2, CROSS_LINE3)

#define CROSS_TEXT(FOUR, STARTS, ENDS)                                                                                                          \
    __asm__ volatile(                                                                                                                           \
        "1:\n\t"                                                                                                                                \
        "lea (%[pairs],%[bytes]), %[group_end]\n\t"                                                                                              \
        STARTS(FOUR)                                                                                                                            \
        ".p2align 4\n\t"                                                                                                                        \
        "2:\n\t"                                                                                                                                \
        CROSS_WEIGHTS(FOUR) CROSS_ALL(CROSS_PLAIN, FOUR, CROSS_X) CROSS_NEXT                                                                      \
        CROSS_WEIGHTS(FOUR) CROSS_ALL(CROSS_HALF, FOUR, CROSS_X) CROSS_NEXT                                                                       \
        "cmp %[group_end], %[pairs]\n\t"                                                                                                        \
        "jb 2b\n\t"                                                                                                                             \
        ENDS(FOUR)                                                                                                                              \
        "add $256, %[scale]\n\t"                                                                                                                \
        "add $8, %[lead]\n\t"                                                                                                                   \
        "cmp %[end], %[pairs]\n\t"                                                                                                              \
        "jb 1b\n\t"                                                                                                                             \
        : [pairs] "+&r"(pairs), [scale] "+&r"(scale), [x] "+&r"(x), [lead] "+&r"(lead), [group_end] "=&r"(group_end)                              \
        : [z] "r"(z), [bytes] "r"(bytes), [end] "r"(end), [xs] "r"(x_step), [xs3] "r"(3 * x_step), [ls] "r"(lead_step), [ls3] "r"(3 * lead_step), \
          [planes] "r"(planes), [cross] "i"(offsetof(cross_table, cross) - offsetof(cross_table, scale))                                          \
        : "memory", "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13",    \
          "xmm14", "xmm15", "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23", "xmm24", "xmm25", "xmm26", "xmm27", "xmm28", \
          "xmm29", "xmm30", "xmm31")

/* Adds |groups| > 0 groups of |bytes| of the table's pairs to z [rows, CROSS_TILES], of CROSS_TILES tiles or two; lines of x and lead are so many bytes apart.
 * |planes|: how two planes of a row are put together, NULL where rows have one. */
static inline void cross_groups(wide *z, const cross_table *t, int64_t groups, int64_t bytes, const int16_t *x, int64_t x_step, const int32_t *lead,
                                int64_t lead_step, int tiles, const cross_planes *planes) {
    const uint8_t *pairs = (const uint8_t *)t->pairs, *scale = (const uint8_t *)t->scale, *end = pairs + groups * bytes, *group_end;
    _Static_assert(sizeof(wide) == 128 && CROSS_TILES == 4 && offsetof(cross_planes, first) == 8 && offsetof(cross_planes, round) == 16, "CROSS_TEXT");
    if (!planes && tiles == CROSS_TILES) CROSS_TEXT(CROSS_WITH, CROSS_STARTS_1, CROSS_ENDS_1);
    else if (!planes) CROSS_TEXT(CROSS_WITHOUT, CROSS_STARTS_1, CROSS_ENDS_1);
    else if (tiles == CROSS_TILES) CROSS_TEXT(CROSS_WITH, CROSS_STARTS_2, CROSS_ENDS_2);
    else CROSS_TEXT(CROSS_WITHOUT, CROSS_STARTS_2, CROSS_ENDS_2);
}

/* Adds the minima |min| of |groups| groups of two tiles to the sums |z| [|rows|, CROSS_TILES]; rows of |mean| are |stride| apart. */
V_BODY void cross_minima(wide *z, const uint8_t *min, int64_t groups, const int32_t *mean, int64_t stride, int rows, int xp) {
    sums own[CROSS_LINES][2];
    V_UNROLL for (int r = 0; r < rows; r++)
        for (int c = 0; c < 2; c++) own[r][c] = (sums){xp == 1 ? z[r * CROSS_TILES + c] : w_zero(), w_zero()};
    for (int64_t g = 0; g < groups; g++)
        for (int c = 0; c < 2; c++) {
            lanes m = v_load(min + (g * CROSS_TILES + c) * 64);
            V_UNROLL for (int r = 0; r < rows; r++) add_mean(&own[r][c], mean[r * stride + g], m, xp);
        }
    V_UNROLL for (int r = 0; r < rows; r++)
        for (int c = 0; c < 2; c++) z[r * CROSS_TILES + c] = xp == 1 ? own[r][c].acc : w_add_part(z[r * CROSS_TILES + c], own[r][c].accx);
}

/* Spans [begin, end) of |tiles| tiles from |tile| on, 2 or CROSS_TILES; the last may stand in for missing ones. */
typedef struct cross_piece {
    int64_t tile, begin, end;
    int tiles;
} cross_piece;

/* What is fetched of a piece while another is multiplied: |lines| of the spans of each tile and |scales| of their scales, |each| at a time. */
typedef struct cross_ahead {
    const uint8_t *spans[CROSS_TILES], *entries[CROSS_TILES];
    int64_t lines, scales, each;
    int tiles;
} cross_ahead;

V_BODY cross_ahead cross_ahead_of(const ls_packed *w, const cross_piece *p, int64_t steps) {
    cross_ahead a = {.lines = (p->end - p->begin) * (int64_t)w->span_bytes / 64, .scales = (int64_t)CROSS_GROUPS * (int64_t)w->entry_bytes / 64 + 1};
    a.each = (a.lines + steps - 1) / steps;
    for (; a.tiles < p->tiles && p->tile + a.tiles < w->tiles; a.tiles++) {
        const uint8_t *data = tile_data(w, p->tile + a.tiles, w->tiles);
        a.spans[a.tiles] = data + w->span_at + (size_t)p->begin * w->span_bytes;
        a.entries[a.tiles] = data + (size_t)(p->begin * LS_SPAN / w->form.group) * w->entry_bytes;
    }
    return a;
}

/* The lines of step |step|. */
V_BODY void cross_fetch(const cross_ahead *a, int64_t step) {
    const int64_t begin = step * a->each, end = a->lines - begin < a->each ? a->lines : begin + a->each;
    for (int c = 0; c < a->tiles; c++) {
        for (int64_t i = begin; i < end; i++) LS_PREFETCH_NEXT(a->spans[c] + i * 64);
        if (step < a->scales) LS_PREFETCH_NEXT(a->entries[c] + step * 64);
    }
}

/* Adds the spans of |p|, which the table holds, to the sums of |n| rows from |row| on, and fetches those of |next| meanwhile. */
V_BODY void cross_rows(const ls_packed *w, const cross_piece *p, const cross_piece *next, cross_table *t, const ls_acts *x, int64_t row, int64_t n,
                       int xp) {
    const int size = size_of(w), c = w->form.c, rows = CROSS_LINES / xp;
    const int64_t groups = (p->end - p->begin) * LS_SPAN >> (4 + size), first = p->begin * LS_SPAN >> (4 + size), stride = x->blocks << (2 - size);
    const int64_t x_step = x->blocks * LS_EXACT_BLOCK, lead_step = 2 * stride, bytes = (8 << size) * CROSS_TILES * 64;
    const cross_planes planes = {.left = 12 - c, .right = c, .first = (1 << c) >> 1, .round = 8};
    const cross_ahead ahead = cross_ahead_of(w, next, (n + rows - 1) / rows);
    const int16_t *q = ls_acts_plane(x, row, 0) + p->begin * LS_SPAN;
    const int32_t *lead = ls_acts_lead(x, size, row, 0) + 2 * first, *mean = ls_acts_mean(x, size, row);
    for (int64_t r = 0, step = 0; r < n; r += rows, step++, q += CROSS_LINES * x_step, lead += CROSS_LINES * lead_step) {
        cross_fetch(&ahead, step);
        cross_groups(t->acc[r], t, groups, bytes, q, x_step * (int64_t)sizeof *q, lead, lead_step * (int64_t)sizeof *lead, p->tiles,
                     xp == 2 ? &planes : NULL);
        for (int i = 0; w->form.has_min && i < p->tiles; i += 2)
            cross_minima((xp == 1 ? t->acc : t->accx)[r] + i, (const uint8_t *)t->min + i * 64, groups, mean + r * stride + first, stride, rows, xp);
    }
}

/* The same for all kinds of weights, so not inlined into each kernel. */
typedef void cross_rows_fn(const ls_packed *w, const cross_piece *p, const cross_piece *next, cross_table *t, const ls_acts *x, int64_t row, int64_t n);

LS_APART void cross_rows_1(const ls_packed *w, const cross_piece *p, const cross_piece *next, cross_table *t, const ls_acts *x, int64_t row, int64_t n) {
    cross_rows(w, p, next, t, x, row, n, 1);
}
LS_APART void cross_rows_2(const ls_packed *w, const cross_piece *p, const cross_piece *next, cross_table *t, const ls_acts *x, int64_t row, int64_t n) {
    cross_rows(w, p, next, t, x, row, n, 2);
}

/* Tile |at| of piece |p| into the table. */
V_BODY void cross_unpack(const ls_packed *w, const cross_piece *p, int at, int64_t tile_end, cross_table *t, int kind) {
    const int parts = w->form.group / 16;
    const size_t span_bytes = w->span_bytes;
    const uint8_t *tile = tile_data(w, p->tile + at, tile_end), *span = tile + w->span_at + (size_t)p->begin * span_bytes;
    lanes zero = v_set(w->form.zero | w->form.zero << 16), cross = v_set(0);
    uint8_t *to = (uint8_t *)t->pairs + at * 64, *cross_to = (uint8_t *)t->cross + at * 64;
    int left = parts; /* of the group */
    for (int64_t k = p->begin; k < p->end; k++, span += span_bytes)
        V_UNROLL for (int part = 0; part < 2; part++) {
            lanes w16[8];
            V_UNROLL for (int i = 0; i < 8; i++, to += CROSS_TILES * 64) {
                weight_pair(kind, span, part * 8 + i, &w16[i]);
                w16[i] = v_sub16(w16[i], zero);
                v_store(to, w16[i]);
            }
            cross = v_dot(v_dot(cross, w16[2], w16[3]), w16[6], w16[7]);
            if (--left) continue;
            left = parts;
            v_store(cross_to, cross);
            cross_to += CROSS_TILES * 64;
            cross = v_set(0);
        }
    unpack_scales(w, tile, tile_unit(w, p->tile + at, tile_end), p->begin, p->end, (uint8_t *)t->scale + at * 64, (uint8_t *)t->min + at * 64, CROSS_TILES);
}

/* |tiles| tiles from |tile| on by rows [row_begin, row_end), a multiple of those of CROSS_LINES. */
V_BODY void cross_tiles(const ls_packed *w, int64_t tile, int64_t tile_end, int tiles, const ls_acts *x, int64_t row_begin, int64_t row_end,
                        const ls_linear_out *out, cross_table *t, int kind, int xp) {
    cross_rows_fn *const add_rows = xp == 1 ? cross_rows_1 : cross_rows_2;
    const int64_t chunk = piece_spans(w, CROSS_CHUNK);
    const bool apart = xp == 2 && w->form.has_min; /* minima have sums of their own */
    const int ends = tile_end - tile < tiles ? (int)(tile_end - tile) : tiles;
    ending end[CROSS_TILES];
    for (int c = 0; c < ends; c++) end[c] = ending_of(w, tile + c, out);
    int64_t held = -1; /* first span of what the table holds */
    for (int64_t row = row_begin; row < row_end; row += LS_LINEAR_TOKENS) {
        const int64_t n = row_end - row < LS_LINEAR_TOKENS ? row_end - row : LS_LINEAR_TOKENS;
        memset(t->acc, 0, (size_t)n * sizeof *t->acc);
        if (apart) memset(t->accx, 0, (size_t)n * sizeof *t->accx);
        for (int64_t k = 0; k < w->spans; k += chunk) {
            const int64_t next = w->spans - k < chunk ? w->spans : k + chunk;
            const cross_piece piece = {tile, k, next, tiles}, after = {tile, next, w->spans - next < chunk ? w->spans : next + chunk, tiles};
            const cross_piece next_tiles = {tile + tiles, 0, chunk < w->spans ? chunk : w->spans, tiles};
            for (int c = 0; c < tiles && held != k; c++) cross_unpack(w, &piece, c, tile_end, t, kind);
            held = k;
            add_rows(w, &piece, next < w->spans ? &after : &next_tiles, t, x, row, n);
        }
        for (int64_t r = 0; r < n; r++)
            for (int c = 0; c < ends; c++)
                finish_row(w, &end[c], &(sums){t->acc[r][c], apart ? t->accx[r][c] : w_zero()}, x->factor[row + r], (row + r) * out->stride, xp);
    }
}

V_BODY void cross_product(const ls_packed *w, int64_t tile_begin, int64_t tile_end, const ls_acts *x, int64_t row_begin, int64_t row_end,
                          const ls_linear_out *out, void *scratch, int kind, int xp) {
    for (int64_t i = tile_begin; i < tile_end; i += CROSS_TILES)
        cross_tiles(w, i, tile_end, tile_end - i > 2 ? CROSS_TILES : 2, x, row_begin, row_end, out, scratch, kind, xp);
}

#endif
