/* Products of many rows for weights of one plane and activations of two, whose outputs have two sums of products. The sums of a group are scaled while the
 * next group is multiplied: scaling is long, each of its steps waits for the one before, and most of them take other units than multiplying.
 *
 * Four rows by two tiles have 16 sums; the sums of the group before wait in memory, and so do most of those of the row: registers are left for three of eight
 * slots. An eighth of a group's columns is multiplied beside the scaling of one slot. Compilers take such text apart, so it is assembly. Included by
 * linear_body.h. */
#ifndef LS_NATIVE_KERNELS_LINEAR_OVERLAP_H
#define LS_NATIVE_KERNELS_LINEAR_OVERLAP_H

#include <stddef.h>

/* A slot is a row and a tile: row * V_TILES + tile. */
enum { OVERLAP_ROWS = 4, OVERLAP_SLOTS = OVERLAP_ROWS * V_TILES };

/* How a group's sums of the rows are aligned. */
typedef struct overlap_align {
    struct {
        int32_t half, drop;
    } row[OVERLAP_ROWS];
} overlap_align;

/* What the text reads and writes: the sums of the group before, those of plane 1 with what rounds their shift; and the sums of the rows. */
typedef struct overlap_state {
    __m512i before[OVERLAP_SLOTS][2];
    sums part[OVERLAP_SLOTS];
    int32_t shift[2]; /* of plane 0 to the left, of plane 1 to the right */
    int32_t first;    /* of sums of plane 1: what rounds that shift */
} overlap_state;

/* A pair of columns of all rows; the planes of rows 0 and 1, and of 2 and 3, are multiples of a distance from a register. zmm16, zmm17: weights. */
#define OVERLAP_DOT(x, a, b) "vpbroadcastd " x ", %%zmm18\n\tvpdpwssd %%zmm18, %%zmm16, " a "\n\tvpdpwssd %%zmm18, %%zmm17, " b "\n\t"
#define OVERLAP_STEP                                                                                                                             \
    "vmovdqa64 (%[pairs]), %%zmm16\n\tvmovdqa64 64(%[pairs]), %%zmm17\n\t"                                                                       \
    OVERLAP_DOT("(%[x])", "%%zmm0", "%%zmm2") OVERLAP_DOT("(%[x],%[xs])", "%%zmm1", "%%zmm3")                                                    \
    OVERLAP_DOT("(%[x],%[xs],2)", "%%zmm4", "%%zmm6") OVERLAP_DOT("(%[x],%[xs3])", "%%zmm5", "%%zmm7")                                           \
    OVERLAP_DOT("(%[x2])", "%%zmm8", "%%zmm10") OVERLAP_DOT("(%[x2],%[xs])", "%%zmm9", "%%zmm11")                                                \
    OVERLAP_DOT("(%[x2],%[xs],2)", "%%zmm12", "%%zmm14") OVERLAP_DOT("(%[x2],%[xs3])", "%%zmm13", "%%zmm15")                                     \
    "add $4, %[x]\n\tadd $4, %[x2]\n\tadd $128, %[pairs]\n\t"

/* Scaling of slot |slot|, of row |row| and tile |tile|, to zmm20 and zmm21: odd lanes of the scales are four bytes on. Contributions are rounded to multiples
 * of 16 by zmm31 and zmm30, see w_mul_part. */
#define OVERLAP_SCALE(slot, row, tile)                                                                                                           \
    "vmovdqa64 " slot "*128(%[state]), %%zmm20\n\tvmovdqa64 " slot "*128+64(%[state]), %%zmm21\n\t"                                              \
    "vpsllvd %%zmm28, %%zmm20, %%zmm20\n\tvpsravd %%zmm29, %%zmm21, %%zmm21\n\tvpaddd %%zmm20, %%zmm21, %%zmm20\n\t"                             \
    "vpaddd " row "*8(%[align])%{1to16%}, %%zmm20, %%zmm20\n\tvpsravd " row "*8+4(%[align])%{1to16%}, %%zmm20, %%zmm20\n\t"                      \
    "vpsrlq $32, %%zmm20, %%zmm21\n\tvpmuldq " tile "*64(%[scale]), %%zmm20, %%zmm20\n\tvpmuldq " tile "*64+4(%[scale]), %%zmm21, %%zmm21\n\t"   \
    "vpaddq %%zmm31, %%zmm20, %%zmm20\n\tvpaddq %%zmm31, %%zmm21, %%zmm21\n\tvpandq %%zmm30, %%zmm20, %%zmm20\n\tvpandq %%zmm30, %%zmm21, %%zmm21\n\t"
/* And what that adds to: the sums of three slots are in registers, for which there are no more, those of the others in memory. */
#define OVERLAP_ADD(slot, row, tile) OVERLAP_SCALE(slot, row, tile)                                                                              \
    "vpaddq %c[part]+" slot "*256(%[state]), %%zmm20, %%zmm20\n\tvpaddq %c[part]+" slot "*256+64(%[state]), %%zmm21, %%zmm21\n\t"                 \
    "vmovdqa64 %%zmm20, %c[part]+" slot "*256(%[state])\n\tvmovdqa64 %%zmm21, %c[part]+" slot "*256+64(%[state])\n\t"
#define OVERLAP_HELD(slot, row, tile, even, odd) OVERLAP_SCALE(slot, row, tile) "vpaddq %%zmm20, " even ", " even "\n\tvpaddq %%zmm21, " odd ", " odd "\n\t"

/* A slot's share of this group's pairs. */
#define OVERLAP_PAIRS "mov %[pairs], %[stop]\n\tadd %[bytes], %[stop]\n\t.p2align 4\n\t1:\n\t" OVERLAP_STEP "cmp %[stop], %[pairs]\n\tjb 1b\n\t"

/* The scaling of the slots of the group before, |PAIRS| beside each. */
#define OVERLAP_GROUP(PAIRS)                                                                                                                 \
    OVERLAP_HELD("0", "0", "0", "%%zmm19", "%%zmm22") PAIRS OVERLAP_ADD("1", "0", "1") PAIRS OVERLAP_ADD("2", "1", "0") PAIRS                     \
    OVERLAP_HELD("3", "1", "1", "%%zmm23", "%%zmm24") PAIRS OVERLAP_ADD("4", "2", "0") PAIRS OVERLAP_ADD("5", "2", "1") PAIRS                     \
    OVERLAP_HELD("6", "3", "0", "%%zmm25", "%%zmm26") PAIRS OVERLAP_ADD("7", "3", "1") PAIRS

#define OVERLAP_START(a, b) "vpxord " a ", " a ", " a "\n\tvmovdqa64 %%zmm27, " b "\n\t"
#define OVERLAP_KEEP(slot, a, b) "vmovdqa64 " a ", " slot "*128(%[state])\n\tvmovdqa64 " b ", " slot "*128+64(%[state])\n\t"
#define OVERLAP_NONE(a, b) "vpxord " a ", " a ", " a "\n\tvpxord " b ", " b ", " b "\n\t"
#define OVERLAP_STORE(slot, a, b) "vmovdqa64 " a ", %c[part]+" slot "*256(%[state])\n\tvmovdqa64 " b ", %c[part]+" slot "*256+64(%[state])\n\t"
#define OVERLAP_KEEP_ALL                                                                                                                         \
    OVERLAP_KEEP("0", "%%zmm0", "%%zmm1") OVERLAP_KEEP("1", "%%zmm2", "%%zmm3") OVERLAP_KEEP("2", "%%zmm4", "%%zmm5")                            \
    OVERLAP_KEEP("3", "%%zmm6", "%%zmm7") OVERLAP_KEEP("4", "%%zmm8", "%%zmm9") OVERLAP_KEEP("5", "%%zmm10", "%%zmm11")                          \
    OVERLAP_KEEP("6", "%%zmm12", "%%zmm13") OVERLAP_KEEP("7", "%%zmm14", "%%zmm15")

/* Adds the groups of the table's pairs up to |end| > |pairs|, of |slot_bytes| * OVERLAP_SLOTS each, to s->part, which is 0. |scale| and |align| begin with
 * those of a group before the first, whose sums are 0, so that any will do; four bytes past the last scale are read. Planes of x are |plane| bytes apart. */
static inline void overlap_groups(overlap_state *s, const uint8_t *pairs, const uint8_t *end, const uint8_t *scale, const overlap_align *align,
                                  int64_t slot_bytes, const int16_t *x, int64_t plane) {
    const uint8_t *stop;
    const int16_t *x2 = x + 2 * plane; /* four planes of two bytes on */
    _Static_assert(sizeof(sums) == 256 && sizeof(overlap_align) == 32, "OVERLAP_SCALE");
    __asm__ volatile(
        "vpbroadcastd %c[shift](%[state]), %%zmm28\n\tvpbroadcastd 4+%c[shift](%[state]), %%zmm29\n\tvpbroadcastd %c[first](%[state]), %%zmm27\n\t"
        "vpternlogd $255, %%zmm30, %%zmm30, %%zmm30\n\tvpsrlq $63, %%zmm30, %%zmm31\n\tvpsllq $3, %%zmm31, %%zmm31\n\tvpsllq $4, %%zmm30, %%zmm30\n\t"
        OVERLAP_NONE("%%zmm19", "%%zmm22") OVERLAP_NONE("%%zmm23", "%%zmm24") OVERLAP_NONE("%%zmm25", "%%zmm26")
        "2:\n\t"
        OVERLAP_START("%%zmm0", "%%zmm1") OVERLAP_START("%%zmm2", "%%zmm3") OVERLAP_START("%%zmm4", "%%zmm5") OVERLAP_START("%%zmm6", "%%zmm7")
        OVERLAP_START("%%zmm8", "%%zmm9") OVERLAP_START("%%zmm10", "%%zmm11") OVERLAP_START("%%zmm12", "%%zmm13") OVERLAP_START("%%zmm14", "%%zmm15")
        OVERLAP_GROUP(OVERLAP_PAIRS)
        OVERLAP_KEEP_ALL
        "add $128, %[scale]\n\tadd $32, %[align]\n\tcmp %[end], %[pairs]\n\tjb 2b\n\t"
        OVERLAP_GROUP("")
        OVERLAP_STORE("0", "%%zmm19", "%%zmm22") OVERLAP_STORE("3", "%%zmm23", "%%zmm24") OVERLAP_STORE("6", "%%zmm25", "%%zmm26")
        : [pairs] "+&r"(pairs), [scale] "+&r"(scale), [align] "+&r"(align), [x] "+&r"(x), [x2] "+&r"(x2), [stop] "=&r"(stop)
        : [state] "r"(s), [end] "r"(end), [bytes] "r"(slot_bytes), [xs] "r"(plane), [xs3] "r"(3 * plane), [part] "i"(offsetof(overlap_state, part)),
          [shift] "i"(offsetof(overlap_state, shift)), [first] "i"(offsetof(overlap_state, first))
        : "memory", "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15",
          "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23", "xmm24", "xmm25", "xmm26", "xmm27", "xmm28", "xmm29", "xmm30", "xmm31");
}

/* Alignments of the groups of blocks [0, |blocks|) of OVERLAP_ROWS rows that are |stride| blocks apart; 16 << size is the group. */
V_BODY void overlap_alignments(overlap_align *to, const int32_t *half, const int32_t *drop, int64_t blocks, int64_t stride, int size) {
    for (int64_t b = 0; b < blocks; b++) {
        overlap_align a;
        for (int r = 0; r < OVERLAP_ROWS; r++) a.row[r].half = half[r * stride + b], a.row[r].drop = drop[r * stride + b];
        for (int i = 0; i < 4 >> size; i++) *to++ = a;
    }
}

/* Adds the minima of |groups| groups to the slots' parts; rows of |mean| are |stride| apart. */
V_BODY void overlap_minima(sums *part, const uint8_t *min, int64_t groups, const int32_t *mean, int64_t stride) {
    sums own[OVERLAP_SLOTS];
    V_UNROLL for (int i = 0; i < OVERLAP_SLOTS; i++) own[i] = part[i];
    for (int64_t g = 0; g < groups; g++)
        V_UNROLL for (int t = 0; t < V_TILES; t++) {
            lanes m = v_load(min + (g * V_TILES + t) * 64);
            V_UNROLL for (int r = 0; r < OVERLAP_ROWS; r++) add_mean(&own[r * V_TILES + t], mean[r * stride + g], m, 2);
        }
    V_UNROLL for (int i = 0; i < OVERLAP_SLOTS; i++) part[i] = own[i];
}

/* several_rows_block() for OVERLAP_ROWS rows of two planes. */
V_BODY void overlap_rows(const ls_packed *w, int64_t begin, int64_t end, const table *t, const ls_acts *x, int64_t row, sums *z) {
    const int size = size_of(w), c = w->form.c;
    const int64_t plane = x->blocks * LS_EXACT_BLOCK, groups = (end - begin) * LS_SPAN >> (4 + size), first = begin * LS_SPAN >> (4 + size);
    const int64_t slot_bytes = (int64_t)V_TILES * 64 << size;
    overlap_align align[1 + LS_LINEAR_CHUNK / 16];
    overlap_state s = {.shift = {12 - c, c}, .first = (1 << c) >> 1};
    align[0] = (overlap_align){0};
    overlap_alignments(align + 1, x->half + row * x->blocks + begin / 2, x->drop + row * x->blocks + begin / 2, (end - begin + 1) / 2, x->blocks, size);
    overlap_groups(&s, t->pairs, t->pairs + groups * OVERLAP_SLOTS * slot_bytes, t->scale - V_TILES * 64, align, slot_bytes,
                   ls_acts_plane(x, row, 0) + begin * LS_SPAN, plane * (int64_t)sizeof(int16_t));
    if (w->form.has_min) overlap_minima(s.part, t->min, groups, ls_acts_mean(x, size, row) + first, x->blocks << (2 - size));
    for (int i = 0; i < OVERLAP_SLOTS; i++) add_part(&z[i], &s.part[i], 2);
}

#endif
