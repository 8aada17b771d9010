/* Products of many rows for weights and activations of one plane. Of each eight columns the last four take half as many multiplications (S. Winograd, "A new
 * algorithm for inner product", 1968):
 *
 *     (x0 + w1) (x1 + w0) = x0 w0 + x1 w1 + x0 x1 + w0 w1
 *
 * with x0, w0 of a pair of columns and x1, w1 of the next. Processors with AVX-512 add twice as often as they multiply, so that two products and the additions
 * of two others take the fewest cycles. The products of the operands with themselves do not depend on the other operand and are taken off in advance:
 * cross_unpack() sums those of weights, quantisation those of activations (ls_acts.lead). All is modulo 2^32, and what is left fits 32 bits as it does
 * without; |x + w| <= 127 * 2^8 + 255 fits 16.
 *
 * Four rows by four tiles have 16 sums of a group, and load each weight and activation once for four products; sums of the rows are in memory. Compilers take
 * such text apart and spill what it holds, so it is assembly. Tasks of few tiles take two tiles at a time. Included by linear_body.h. */
#ifndef LS_NATIVE_KERNELS_LINEAR_CROSS_H
#define LS_NATIVE_KERNELS_LINEAR_CROSS_H

/* Columns whose unpacked weights stay in the first-level cache. */
enum { CROSS_ROWS = 4, CROSS_TILES = LS_PRODUCT_TILES, CROSS_CHUNK = 192 };

/* Unpacked weights of CROSS_TILES tiles: pairs [pair, tile] with the zero point subtracted; scales, minima and sums of products of neighbours [group, tile]. */
typedef struct cross_table {
    uint8_t *pairs, *scale, *min, *cross;
    wide *sums; /* [LS_LINEAR_TOKENS, CROSS_TILES] */
} cross_table;

V_BODY cross_table cross_table_of(void *scratch) {
    enum { GROUPS = CROSS_CHUNK / 16 * CROSS_TILES * 64 };
    cross_table t = {.pairs = scratch};
    t.scale = t.pairs + CROSS_CHUNK / 2 * CROSS_TILES * 64;
    t.min = t.scale + GROUPS;
    t.cross = t.min + GROUPS;
    t.sums = (wide *)(t.cross + GROUPS);
    _Static_assert(CROSS_CHUNK / 2 * CROSS_TILES * 64 + 3 * GROUPS + LS_LINEAR_TOKENS * CROSS_TILES * sizeof(wide) <= LS_LINEAR_SCRATCH, "cross_table");
    return t;
}

/* Addresses of rows 0 to 3: a register, and multiples of the stride from it. */
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

/* Sums |a| to |d| of a row and the tiles, before the first product of a group. */
#define CROSS_START(FOUR, lead, a, b, c, d)                                                                                                     \
    "vpbroadcastd " lead ", %%zmm24\n\tvpsubd (%[cross]), %%zmm24, " a "\n\tvpsubd 64(%[cross]), %%zmm24, " b "\n\t"                              \
    FOUR("vpsubd 128(%[cross]), %%zmm24, " c "\n\tvpsubd 192(%[cross]), %%zmm24, " d "\n\t")

/* w0 of four columns to zmm16 to zmm19, tile by tile, w1 to zmm20 to zmm23; x0 of a row to zmm24, x1 to zmm25. */
#define CROSS_WEIGHTS(FOUR)                                                                                                                      \
    "vmovdqa64 (%[pairs]), %%zmm16\n\tvmovdqa64 64(%[pairs]), %%zmm17\n\tvmovdqa64 256(%[pairs]), %%zmm20\n\tvmovdqa64 320(%[pairs]), %%zmm21\n\t" \
    FOUR("vmovdqa64 128(%[pairs]), %%zmm18\n\tvmovdqa64 192(%[pairs]), %%zmm19\n\t"                                                               \
         "vmovdqa64 384(%[pairs]), %%zmm22\n\tvmovdqa64 448(%[pairs]), %%zmm23\n\t")
#define CROSS_X(x) "vpbroadcastd " x ", %%zmm24\n\tvpbroadcastd 4" x ", %%zmm25\n\t"
#define CROSS_NEXT "add $8, %[x]\n\tadd $512, %[pairs]\n\t"

/* Four columns of a row as they are, and by Winograd's product. */
#define CROSS_PLAIN(FOUR, x, a, b, c, d) CROSS_X(x)                                                                                              \
    "vpdpwssd %%zmm16, %%zmm24, " a "\n\tvpdpwssd %%zmm17, %%zmm24, " b "\n\t"                                                                    \
    FOUR("vpdpwssd %%zmm18, %%zmm24, " c "\n\tvpdpwssd %%zmm19, %%zmm24, " d "\n\t")                                                              \
    "vpdpwssd %%zmm20, %%zmm25, " a "\n\tvpdpwssd %%zmm21, %%zmm25, " b "\n\t"                                                                    \
    FOUR("vpdpwssd %%zmm22, %%zmm25, " c "\n\tvpdpwssd %%zmm23, %%zmm25, " d "\n\t")
#define CROSS_TILE(w0, w1, sum, p, q) "vpaddw " w1 ", %%zmm24, " p "\n\tvpaddw " w0 ", %%zmm25, " q "\n\tvpdpwssd " q ", " p ", " sum "\n\t"
#define CROSS_HALF(FOUR, x, a, b, c, d) CROSS_X(x)                                                                                               \
    CROSS_TILE("%%zmm16", "%%zmm20", a, "%%zmm26", "%%zmm27") CROSS_TILE("%%zmm17", "%%zmm21", b, "%%zmm28", "%%zmm29")                            \
    FOUR(CROSS_TILE("%%zmm18", "%%zmm22", c, "%%zmm30", "%%zmm31") CROSS_TILE("%%zmm19", "%%zmm23", d, "%%zmm26", "%%zmm27"))

/* The sum |a| of a group, shifted by zmm24, times the scales in |s| (their odd lanes in |s_odd|), added to the row's sums at |at|. */
#define CROSS_SCALE(a, s, s_odd, at, p, q)                                                                                                      \
    "vpsravd %%zmm24, " a ", " a "\n\tvpsrlq $32, " a ", " q "\n\tvpmuldq " s ", " a ", " p "\n\tvpmuldq " s_odd ", " q ", " q "\n\t"             \
    "vpaddq " at "(%[z]), " p ", " p "\n\tvpaddq 64+" at "(%[z]), " q ", " q "\n\tvmovdqa64 " p ", " at "(%[z])\n\tvmovdqa64 " q ", 64+" at "(%[z])\n\t"
#define CROSS_ROW_END(FOUR, lead, at, a, b, c, d)                                                                                                \
    "vpbroadcastd 4" lead ", %%zmm24\n\t"                                                                                                        \
    CROSS_SCALE(a, "%%zmm16", "%%zmm20", at, "%%zmm26", "%%zmm27") CROSS_SCALE(b, "%%zmm17", "%%zmm21", "128+" at, "%%zmm28", "%%zmm29")            \
    FOUR(CROSS_SCALE(c, "%%zmm18", "%%zmm22", "256+" at, "%%zmm30", "%%zmm31") CROSS_SCALE(d, "%%zmm19", "%%zmm23", "384+" at, "%%zmm26", "%%zmm27"))
#define CROSS_END(FOUR)                                                                                                                         \
    "vmovdqa64 (%[scale]), %%zmm16\n\tvmovdqa64 64(%[scale]), %%zmm17\n\tvpsrlq $32, %%zmm16, %%zmm20\n\tvpsrlq $32, %%zmm17, %%zmm21\n\t"         \
    FOUR("vmovdqa64 128(%[scale]), %%zmm18\n\tvmovdqa64 192(%[scale]), %%zmm19\n\tvpsrlq $32, %%zmm18, %%zmm22\n\tvpsrlq $32, %%zmm19, %%zmm23\n\t") \
    CROSS_ROW_END(FOUR, CROSS_LEAD0, "0", "%%zmm0", "%%zmm1", "%%zmm2", "%%zmm3") CROSS_ROW_END(FOUR, CROSS_LEAD1, "512", "%%zmm4", "%%zmm5", "%%zmm6", "%%zmm7") \
    CROSS_ROW_END(FOUR, CROSS_LEAD2, "1024", "%%zmm8", "%%zmm9", "%%zmm10", "%%zmm11")                                                           \
    CROSS_ROW_END(FOUR, CROSS_LEAD3, "1536", "%%zmm12", "%%zmm13", "%%zmm14", "%%zmm15")

#define CROSS_ALL(ROW, FOUR, at)                                                                                                                \
    ROW(FOUR, at##0, "%%zmm0", "%%zmm1", "%%zmm2", "%%zmm3") ROW(FOUR, at##1, "%%zmm4", "%%zmm5", "%%zmm6", "%%zmm7")                              \
    ROW(FOUR, at##2, "%%zmm8", "%%zmm9", "%%zmm10", "%%zmm11") ROW(FOUR, at##3, "%%zmm12", "%%zmm13", "%%zmm14", "%%zmm15")

#define CROSS_TEXT(FOUR)                                                                                                                        \
    __asm__ volatile(                                                                                                                           \
        "1:\n\t"                                                                                                                                \
        "lea (%[pairs],%[bytes]), %[group_end]\n\t"                                                                                              \
        CROSS_ALL(CROSS_START, FOUR, CROSS_LEAD)                                                                                                 \
        ".p2align 4\n\t"                                                                                                                        \
        "2:\n\t"                                                                                                                                \
        CROSS_WEIGHTS(FOUR) CROSS_ALL(CROSS_PLAIN, FOUR, CROSS_X) CROSS_NEXT                                                                      \
        CROSS_WEIGHTS(FOUR) CROSS_ALL(CROSS_HALF, FOUR, CROSS_X) CROSS_NEXT                                                                       \
        "cmp %[group_end], %[pairs]\n\t"                                                                                                        \
        "jb 2b\n\t"                                                                                                                             \
        CROSS_END(FOUR)                                                                                                                         \
        "add $256, %[cross]\n\t"                                                                                                                \
        "add $256, %[scale]\n\t"                                                                                                                \
        "add $8, %[lead]\n\t"                                                                                                                   \
        "cmp %[end], %[pairs]\n\t"                                                                                                              \
        "jb 1b\n\t"                                                                                                                             \
        : [pairs] "+&r"(pairs), [cross] "+&r"(cross), [scale] "+&r"(scale), [x] "+&r"(x), [lead] "+&r"(lead), [group_end] "=&r"(group_end)        \
        : [z] "r"(z), [bytes] "r"(pairs_bytes), [end] "r"(end), [xs] "r"(x_stride), [xs3] "r"(3 * x_stride), [ls] "r"(lead_stride),              \
          [ls3] "r"(3 * lead_stride)                                                                                                            \
        : "memory", "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13",    \
          "xmm14", "xmm15", "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23", "xmm24", "xmm25", "xmm26", "xmm27", "xmm28", \
          "xmm29", "xmm30", "xmm31")

/* Adds |groups| > 0 groups of |pairs_bytes| of the table's pairs to z [CROSS_ROWS, CROSS_TILES], of which two tiles where not all |four|; rows of x and lead
 * are so many bytes apart. */
static inline void cross_groups(wide *z, const cross_table *t, int64_t groups, int64_t pairs_bytes, const int16_t *x, int64_t x_stride, const int32_t *lead,
                                int64_t lead_stride, bool four) {
    const uint8_t *pairs = t->pairs, *cross = t->cross, *scale = t->scale, *end = pairs + groups * pairs_bytes, *group_end;
    _Static_assert(sizeof(wide) == 128 && CROSS_TILES == 4, "CROSS_END");
    if (four) CROSS_TEXT(CROSS_WITH);
    else CROSS_TEXT(CROSS_WITHOUT);
}

/* Adds the minima of |groups| groups of two tiles to z [CROSS_ROWS, CROSS_TILES]; rows of |mean| are |stride| apart. */
V_BODY void cross_minima(wide *z, const uint8_t *min, int64_t groups, const int32_t *mean, int64_t stride) {
    wide own[CROSS_ROWS][2];
    V_UNROLL for (int r = 0; r < CROSS_ROWS; r++)
        for (int c = 0; c < 2; c++) own[r][c] = z[r * CROSS_TILES + c];
    for (int64_t g = 0; g < groups; g++)
        for (int c = 0; c < 2; c++) {
            lanes m = v_load(min + (g * CROSS_TILES + c) * 64);
            V_UNROLL for (int r = 0; r < CROSS_ROWS; r++) own[r][c] = w_mul_add_one(own[r][c], mean[r * stride + g], m);
        }
    V_UNROLL for (int r = 0; r < CROSS_ROWS; r++)
        for (int c = 0; c < 2; c++) z[r * CROSS_TILES + c] = own[r][c];
}

/* Spans [begin, end) of |tiles| tiles from |tile| on, 2 or CROSS_TILES; the last may stand in for missing ones. */
typedef struct cross_piece {
    int64_t tile, begin, end;
    int tiles;
} cross_piece;

/* Fetches share |part| of |parts| of the weights of a piece. */
V_BODY void cross_fetch(const ls_packed *w, const cross_piece *p, int64_t part, int64_t parts) {
    const int64_t lines = (p->end - p->begin) * (int64_t)w->span_bytes / 64, entries = p->begin * LS_SPAN / w->form.group * (int64_t)w->entry_bytes;
    for (int c = 0; c < p->tiles; c++) {
        const uint8_t *tile = tile_data(w, p->tile + c, w->tiles), *spans = tile + w->span_at + (size_t)p->begin * w->span_bytes;
        for (int64_t i = lines * part / parts; i < lines * (part + 1) / parts; i++) LS_PREFETCH_NEXT(spans + i * 64);
        if (part < 4) LS_PREFETCH_NEXT(tile + entries + part * 64);
    }
}

/* Adds the spans of |p|, which the table holds, to the sums of |n| rows from |row| on, CROSS_ROWS at a time, and fetches those of |next| meanwhile. The same
 * for all kinds of weights, so not inlined into each kernel. */
LS_APART void cross_rows(const ls_packed *w, const cross_piece *p, const cross_piece *next, const cross_table *t, const ls_acts *x, int64_t row, int64_t n) {
    const int size = size_of(w), tiles = p->tiles;
    const int64_t begin = p->begin, end = p->end;
    const int64_t groups = (end - begin) * LS_SPAN >> (4 + size), first = begin * LS_SPAN >> (4 + size), stride = x->blocks << (2 - size);
    for (int64_t r = 0; r < n; r += CROSS_ROWS) {
        wide *z = t->sums + r * CROSS_TILES;
        cross_fetch(w, next, r / CROSS_ROWS, n / CROSS_ROWS);
        cross_groups(z, t, groups, (8 << size) * CROSS_TILES * 64, ls_acts_plane(x, row + r, 0) + begin * LS_SPAN,
                     x->blocks * LS_EXACT_BLOCK * (int64_t)sizeof(int16_t), ls_acts_lead(x, size, row + r) + 2 * first, 2 * stride * (int64_t)sizeof(int32_t),
                     tiles == CROSS_TILES);
        for (int c = 0; w->form.has_min && c < tiles; c += 2) cross_minima(z + c, t->min + c * 64, groups, ls_acts_mean(x, size, row + r) + first, stride);
    }
}

/* Spans [begin, end) of tile |data| into place |at| of the table. */
V_BODY void cross_unpack(const ls_packed *w, const uint8_t *tile, floats unit, int64_t begin, int64_t end, const cross_table *t, int at, int kind) {
    const int64_t parts = w->form.group / 16;
    lanes zero = v_set(w->form.zero | w->form.zero << 16), cross = v_set(0);
    uint8_t *to = t->pairs + at * 64, *cross_to = t->cross + at * 64;
    for (int64_t k = begin; k < end; k++)
        V_UNROLL for (int part = 0; part < 2; part++) {
            lanes p[8];
            V_UNROLL for (int i = 0; i < 8; i++, to += CROSS_TILES * 64) {
                weight_pair(kind, tile + w->span_at + (size_t)k * w->span_bytes, part * 8 + i, &p[i]);
                p[i] = v_sub16(p[i], zero);
                v_store(to, p[i]);
            }
            cross = v_dot(v_dot(cross, p[2], p[3]), p[6], p[7]);
            if ((2 * k + part + 1) % parts) continue;
            v_store(cross_to, cross);
            cross_to += CROSS_TILES * 64;
            cross = v_set(0);
        }
    unpack_scales(w, tile, unit, begin, end, t->scale + at * 64, t->min + at * 64, CROSS_TILES);
}

/* |tiles| tiles from |tile| on by rows [row_begin, row_end), a multiple of CROSS_ROWS. */
V_BODY void cross_tiles(const ls_packed *w, int64_t tile, int64_t tile_end, int tiles, const ls_acts *x, int64_t row_begin, int64_t row_end,
                        const ls_linear_out *out, const cross_table *t, int kind) {
    const int64_t chunk = piece_spans(w, CROSS_CHUNK);
    int64_t held = -1; /* first span of what the table holds */
    for (int64_t row = row_begin; row < row_end; row += LS_LINEAR_TOKENS) {
        int64_t n = row_end - row < LS_LINEAR_TOKENS ? row_end - row : LS_LINEAR_TOKENS;
        for (int64_t i = 0; i < n * CROSS_TILES; i++) t->sums[i] = w_zero();
        for (int64_t k = 0; k < w->spans; k += chunk) {
            const int64_t end = w->spans - k < chunk ? w->spans : k + chunk;
            const cross_piece piece = {tile, k, end, tiles}, after = {tile, end, w->spans - end < chunk ? w->spans : end + chunk, tiles};
            const cross_piece next_tiles = {tile + tiles, 0, chunk < w->spans ? chunk : w->spans, tiles};
            for (int c = 0; c < tiles && held != k; c++) cross_unpack(w, tile_data(w, tile + c, tile_end), tile_unit(w, tile + c, tile_end), k, end, t, c, kind);
            held = k;
            cross_rows(w, &piece, end < w->spans ? &after : &next_tiles, t, x, row, n);
        }
        for (int64_t r = 0; r < n; r++)
            for (int c = 0; c < tiles && tile + c < tile_end; c++)
                finish(w, (tile + c) * LS_TILE, &(sums){.acc = t->sums[r * CROSS_TILES + c]}, x, row + r, out, 1);
    }
}

V_BODY void cross_product(const ls_packed *w, int64_t tile_begin, int64_t tile_end, const ls_acts *x, int64_t row_begin, int64_t row_end,
                          const ls_linear_out *out, void *scratch, int kind) {
    const cross_table t = cross_table_of(scratch);
    for (int64_t i = tile_begin; i < tile_end; i += CROSS_TILES)
        cross_tiles(w, i, tile_end, tile_end - i > 2 ? CROSS_TILES : 2, x, row_begin, row_end, out, &t, kind);
}

#endif
