/* Products of many rows for float weights under exact16: 16-bit by 16-bit integers, whose sums over a group of 64 take 36 bits. Three dot products for four
 * columns give them instead of four: the low 32 bits are sums modulo 2^32, and the high bytes alone tell the rest. With x = 256 xh + xl, w = 256 wh + wl,
 * 0 <= xl, wl <= 255,
 *
 *     S = sum of x w,   H = sum of xh wh,   |S - 2^16 H| <= 64 (256 (128 * 255 * 2) + 255^2) < 2^31
 *
 * so S - 2^16 H is what the low 32 bits of it say. Dot products of bytes want one operand unsigned: xh + 128, for which the sums H begin with -128 sum of wh.
 *
 * Four rows by two tiles have 16 sums; the sums of the group before wait in memory and are scaled meanwhile: scaling is long, each of its steps waits for the
 * one before, and most of them take other units than multiplying. An eighth of a group's columns is multiplied beside the scaling of one slot. Compilers take
 * such text apart, so it is assembly. Included by linear_body.h. */
#ifndef LS_NATIVE_KERNELS_LINEAR_WRAP_H
#define LS_NATIVE_KERNELS_LINEAR_WRAP_H

#include <stddef.h>

/* A slot is a row and a tile: row * V_TILES + tile. */
enum { WRAP_ROWS = 4, WRAP_SLOTS = WRAP_ROWS * V_TILES };

/* How a group's sums of the rows are aligned. */
typedef struct wrap_align {
    struct {
        int32_t half, drop;
    } row[WRAP_ROWS];
} wrap_align;

/* What the text reads and writes: the sums of the group before, and the sums of the rows. */
typedef struct wrap_state {
    __m512i before[WRAP_SLOTS][2];
    sums part[WRAP_SLOTS];
    int32_t first; /* of low sums: what rounds their shift */
} wrap_state;

/* The table has, for every four columns, two pairs of each tile and then their high bytes: columns 0, 2, 1, 3. */
enum { WRAP_QUAD = 3 * V_TILES * 64 };

/* Four columns of a row: low sums |a|, |b| and high sums |c|, |d| of the tiles. zmm16 to zmm19 are pairs, zmm20, zmm21 high bytes, zmm26 orders bytes. */
#define WRAP_DOT(x, a, b, c, d)                                                                                                                  \
    "vpbroadcastq " x ", %%zmm24\n\tvpbroadcastd " x ", %%zmm22\n\tvpbroadcastd 4" x ", %%zmm23\n\t"                                              \
    "vpshufb %%zmm26, %%zmm24, %%zmm24\n\tvpxord %%zmm25, %%zmm24, %%zmm24\n\t"                                                                  \
    "vpdpwssd %%zmm22, %%zmm16, " a "\n\tvpdpwssd %%zmm22, %%zmm17, " b "\n\tvpdpbusd %%zmm20, %%zmm24, " c "\n\tvpdpbusd %%zmm21, %%zmm24, " d "\n\t" \
    "vpdpwssd %%zmm23, %%zmm18, " a "\n\tvpdpwssd %%zmm23, %%zmm19, " b "\n\t"
#define WRAP_STEP                                                                                                                                \
    "vmovdqa64 (%[quads]), %%zmm16\n\tvmovdqa64 64(%[quads]), %%zmm17\n\tvmovdqa64 128(%[quads]), %%zmm18\n\tvmovdqa64 192(%[quads]), %%zmm19\n\t" \
    "vmovdqa64 256(%[quads]), %%zmm20\n\tvmovdqa64 320(%[quads]), %%zmm21\n\t"                                                                   \
    WRAP_DOT("(%[x])", "%%zmm0", "%%zmm2", "%%zmm1", "%%zmm3") WRAP_DOT("(%[x],%[xs])", "%%zmm4", "%%zmm6", "%%zmm5", "%%zmm7")                   \
    WRAP_DOT("(%[x],%[xs],2)", "%%zmm8", "%%zmm10", "%%zmm9", "%%zmm11") WRAP_DOT("(%[x],%[xs3])", "%%zmm12", "%%zmm14", "%%zmm13", "%%zmm15")     \
    "add $8, %[x]\n\tadd $384, %[quads]\n\t"

/* Scaling of slot |slot| of row |row| and tile |tile|; odd lanes of the scales are four bytes on. rshift(S, 6) = 2^10 H + rshift(S - 2^16 H, 6). */
#define WRAP_SCALE(slot, row, tile)                                                                                                              \
    "vmovdqa64 " slot "*128(%[state]), %%zmm28\n\tvmovdqa64 " slot "*128+64(%[state]), %%zmm29\n\t"                                              \
    "vpslld $16, %%zmm29, %%zmm30\n\tvpsubd %%zmm30, %%zmm28, %%zmm28\n\tvpsrad $6, %%zmm28, %%zmm28\n\t"                                        \
    "vpslld $10, %%zmm29, %%zmm29\n\tvpaddd %%zmm29, %%zmm28, %%zmm28\n\t"                                                                       \
    "vpaddd " row "*8(%[align])%{1to16%}, %%zmm28, %%zmm28\n\tvpsravd " row "*8+4(%[align])%{1to16%}, %%zmm28, %%zmm28\n\t"                      \
    "vpsrlq $32, %%zmm28, %%zmm29\n\tvpmuldq " tile "*64(%[scale]), %%zmm28, %%zmm28\n\tvpmuldq " tile "*64+4(%[scale]), %%zmm29, %%zmm29\n\t"   \
    "vpaddq %c[part]+" slot "*256(%[state]), %%zmm28, %%zmm28\n\tvpaddq %c[part]+" slot "*256+64(%[state]), %%zmm29, %%zmm29\n\t"                 \
    "vmovdqa64 %%zmm28, %c[part]+" slot "*256(%[state])\n\tvmovdqa64 %%zmm29, %c[part]+" slot "*256+64(%[state])\n\t"

/* The scaling of a slot of the group before, and an eighth of this group's columns. */
#define WRAP_SLOT(slot, row, tile) WRAP_SCALE(slot, row, tile) WRAP_STEP WRAP_STEP
#define WRAP_GROUP(SLOT)                                                                                                                         \
    SLOT("0", "0", "0") SLOT("1", "0", "1") SLOT("2", "1", "0") SLOT("3", "1", "1")                                                              \
    SLOT("4", "2", "0") SLOT("5", "2", "1") SLOT("6", "3", "0") SLOT("7", "3", "1")
#define WRAP_KEEP(slot, a, b) "vmovdqa64 " a ", " slot "*128(%[state])\n\tvmovdqa64 " b ", " slot "*128+64(%[state])\n\t"
#define WRAP_KEEP_ALL                                                                                                                            \
    WRAP_KEEP("0", "%%zmm0", "%%zmm1") WRAP_KEEP("1", "%%zmm2", "%%zmm3") WRAP_KEEP("2", "%%zmm4", "%%zmm5") WRAP_KEEP("3", "%%zmm6", "%%zmm7")     \
    WRAP_KEEP("4", "%%zmm8", "%%zmm9") WRAP_KEEP("5", "%%zmm10", "%%zmm11") WRAP_KEEP("6", "%%zmm12", "%%zmm13") WRAP_KEEP("7", "%%zmm14", "%%zmm15")
#define WRAP_START(a, b, c, d) \
    "vmovdqa64 %%zmm27, " a "\n\tvmovdqa64 (%[high]), " b "\n\tvmovdqa64 %%zmm27, " c "\n\tvmovdqa64 64(%[high]), " d "\n\t"

/* Adds the groups of the table's quads up to |end| > |quads| to s->part; their -128 sum of wh are |high|; low sums begin with what rounds. |scale| and |align|
 * begin with those of a group before the first, whose sums are 0, so that any will do; four bytes past the last scale are read. Rows of x are |stride| bytes
 * apart. */
static inline void wrap_groups(wrap_state *s, const uint8_t *quads, const uint8_t *end, const uint8_t *high, const uint8_t *scale,
                               const wrap_align *align, const int16_t *x, int64_t stride) {
    _Static_assert(sizeof(sums) == 256 && sizeof(wrap_align) == 32, "WRAP_SCALE");
    __asm__ volatile(
        "vpbroadcastd %c[first](%[state]), %%zmm27\n\tvpbroadcastd %[order], %%zmm26\n\tvpbroadcastd %[sign], %%zmm25\n\t"
        "2:\n\t"
        WRAP_START("%%zmm0", "%%zmm1", "%%zmm2", "%%zmm3") WRAP_START("%%zmm4", "%%zmm5", "%%zmm6", "%%zmm7")
        WRAP_START("%%zmm8", "%%zmm9", "%%zmm10", "%%zmm11") WRAP_START("%%zmm12", "%%zmm13", "%%zmm14", "%%zmm15")
        WRAP_GROUP(WRAP_SLOT)
        WRAP_KEEP_ALL
        "add $128, %[scale]\n\tadd $128, %[high]\n\tadd $32, %[align]\n\tcmp %[end], %[quads]\n\tjb 2b\n\t"
        WRAP_GROUP(WRAP_SCALE)
        : [quads] "+&r"(quads), [scale] "+&r"(scale), [align] "+&r"(align), [x] "+&r"(x), [high] "+&r"(high)
        : [state] "r"(s), [end] "r"(end), [xs] "r"(stride), [xs3] "r"(3 * stride), [part] "i"(offsetof(wrap_state, part)),
          [first] "i"(offsetof(wrap_state, first)), [order] "r"(0x07030501), [sign] "r"(0x80808080)
        : "memory", "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15",
          "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23", "xmm24", "xmm25", "xmm26", "xmm27", "xmm28", "xmm29", "xmm30");
}

/* Columns [16 * part, 16 * part + 16) of a span to |to|, and -128 times their high bytes to the sums |high|. */
V_BODY void wrap_unpack(int kind, const uint8_t *span, int part, uint8_t *to, lanes *high) {
    V_UNROLL for (int i = 0; i < 4; i++, to += WRAP_QUAD) {
        lanes first = float_pair(kind, span, part * 8 + 2 * i), second = float_pair(kind, span, part * 8 + 2 * i + 1);
        lanes bytes = _mm512_mask_blend_epi8(0xAAAAAAAAAAAAAAAA, v_field(first, 8, 255), second);
        v_store(to, first);
        v_store(to + V_TILES * 64, second);
        v_store(to + 2 * V_TILES * 64, bytes);
        *high = v_sub(*high, _mm512_dpbusd_epi32(v_set(0), v_set((int32_t)0x80808080), bytes));
    }
}

/* Alignments of |blocks| blocks of WRAP_ROWS rows that are |stride| blocks apart. */
V_BODY void wrap_alignments(wrap_align *to, const int32_t *half, const int32_t *drop, int64_t blocks, int64_t stride) {
    for (int64_t b = 0; b < blocks; b++)
        for (int r = 0; r < WRAP_ROWS; r++) to[b].row[r].half = half[r * stride + b], to[b].row[r].drop = drop[r * stride + b];
}

/* several_rows_block() for WRAP_ROWS rows. */
V_BODY void wrap_rows(int64_t begin, int64_t end, const table *t, const ls_acts *x, int64_t row, sums *z) {
    const int64_t blocks = (end - begin) / 2;
    wrap_align align[1 + LS_LINEAR_CHUNK / LS_EXACT_BLOCK];
    wrap_state s = {.first = 1 << 5};
    align[0] = (wrap_align){0};
    wrap_alignments(align + 1, x->half + row * x->blocks + begin / 2, x->drop + row * x->blocks + begin / 2, blocks, x->blocks);
    for (int i = 0; i < WRAP_SLOTS; i++) s.part[i] = z[i];
    wrap_groups(&s, t->pairs, t->pairs + blocks * (LS_EXACT_BLOCK / 4) * WRAP_QUAD, t->high, t->scale - V_TILES * 64, align,
                ls_acts_plane(x, row, 0) + begin * LS_SPAN, x->blocks * LS_EXACT_BLOCK * (int64_t)sizeof(int16_t));
    for (int i = 0; i < WRAP_SLOTS; i++) z[i] = s.part[i];
}

#endif
