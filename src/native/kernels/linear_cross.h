/* Products of many rows by half as many multiplications, for weights and activations of one plane (S. Winograd, "A new algorithm for inner
 * product", 1968):
 *
 *     (x0 + w1) (x1 + w0) = x0 w0 + x1 w1 + x0 x1 + w0 w1
 *
 * with x0, w0 of pair 2i of columns and x1, w1 of pair 2i + 1. Processors with AVX-512 add twice as often as they multiply. The products of the
 * operands with themselves do not depend on the other operand and are taken off in advance: unpack() sums those of weights, quantisation those of
 * activations (ls_acts.lead). All is modulo 2^32, and what is left fits 32 bits as it does without; |x + w| <= 127 * 2^8 + 255 fits 16.
 *
 * Four rows by two tiles have 8 sums of a group and 16 registers of sums of the row, which leaves 8 for weights, activations and what is
 * multiplied: none to spare, which compilers do not manage (a quarter slower), so the text is assembly. Included by linear_body.h. */
#ifndef LS_NATIVE_KERNELS_LINEAR_CROSS_H
#define LS_NATIVE_KERNELS_LINEAR_CROSS_H

enum { CROSS_ROWS = 4 };

/* Addresses of rows 0 to 3: a register, and multiples of the stride from it. */
#define CROSS_X0 "(%[x])"
#define CROSS_X1 "(%[x],%[xs])"
#define CROSS_X2 "(%[x],%[xs],2)"
#define CROSS_X3 "(%[x],%[xs3])"
#define CROSS_LEAD0 "(%[lead])"
#define CROSS_LEAD1 "(%[lead],%[ls])"
#define CROSS_LEAD2 "(%[lead],%[ls],2)"
#define CROSS_LEAD3 "(%[lead],%[ls3])"

/* Sums |a| and |b| of a row, of the two tiles: before the first product of a group. */
#define CROSS_START(lead, a, b) "vpbroadcastd " lead ", %%zmm28\n\tvpsubd (%[cross]), %%zmm28, " a "\n\tvpsubd 64(%[cross]), %%zmm28, " b "\n\t"

/* Two pairs of a row's columns: zmm24, zmm25 are the tiles' w0, zmm26, zmm27 their w1. */
#define CROSS_STEP(x, a, b)                                                                                                                     \
    "vpbroadcastd " x ", %%zmm28\n\tvpbroadcastd 4" x ", %%zmm29\n\t"                                                                            \
    "vpaddw %%zmm26, %%zmm28, %%zmm30\n\tvpaddw %%zmm24, %%zmm29, %%zmm31\n\tvpdpwssd %%zmm31, %%zmm30, " a "\n\t"                               \
    "vpaddw %%zmm27, %%zmm28, %%zmm30\n\tvpaddw %%zmm25, %%zmm29, %%zmm31\n\tvpdpwssd %%zmm31, %%zmm30, " b "\n\t"

/* The sum |a| of a group, shifted by zmm28, times the scales in |s| (their odd lanes in |s_odd|), to the row's sums of even and odd lanes. */
#define CROSS_SCALE(a, s, s_odd, even, odd)                                                                                                     \
    "vpsravd %%zmm28, " a ", " a "\n\tvpmuldq " s ", " a ", %%zmm29\n\tvpsrlq $32, " a ", %%zmm30\n\tvpmuldq " s_odd ", %%zmm30, %%zmm30\n\t"    \
    "vpaddq %%zmm29, " even ", " even "\n\tvpaddq %%zmm30, " odd ", " odd "\n\t"
#define CROSS_END(lead, a, even_a, odd_a, b, even_b, odd_b)                                                                                     \
    "vpbroadcastd 4" lead ", %%zmm28\n\t" CROSS_SCALE(a, "%%zmm24", "%%zmm26", even_a, odd_a) CROSS_SCALE(b, "%%zmm25", "%%zmm27", even_b, odd_b)

/* Sums of a row between registers and memory: sums of two tiles are 512 bytes, of which the accx are not touched. */
#define CROSS_LOAD(at, a, b, c, d) \
    "vmovdqa64 " at "(%[z]), " a "\n\tvmovdqa64 64+" at "(%[z]), " b "\n\tvmovdqa64 256+" at "(%[z]), " c "\n\tvmovdqa64 320+" at "(%[z]), " d "\n\t"
#define CROSS_STORE(at, a, b, c, d) \
    "vmovdqa64 " a ", " at "(%[z])\n\tvmovdqa64 " b ", 64+" at "(%[z])\n\tvmovdqa64 " c ", 256+" at "(%[z])\n\tvmovdqa64 " d ", 320+" at "(%[z])\n\t"

/* Adds |groups| > 0 groups of |pairs_bytes| of the table's pairs to z [CROSS_ROWS, 2 tiles]; rows of x and lead are so many bytes apart. */
static inline void cross_groups(sums *z, const uint8_t *pairs, const uint8_t *cross, const uint8_t *scale, int64_t groups, int64_t pairs_bytes,
                                const int16_t *x, int64_t x_stride, const int32_t *lead, int64_t lead_stride) {
    const uint8_t *end = pairs + groups * pairs_bytes, *group_end;
    _Static_assert(sizeof(sums) == 256, "CROSS_LOAD and CROSS_STORE");
    __asm__ volatile(
        CROSS_LOAD("0", "%%zmm8", "%%zmm9", "%%zmm10", "%%zmm11") CROSS_LOAD("512", "%%zmm12", "%%zmm13", "%%zmm14", "%%zmm15")
        CROSS_LOAD("1024", "%%zmm16", "%%zmm17", "%%zmm18", "%%zmm19") CROSS_LOAD("1536", "%%zmm20", "%%zmm21", "%%zmm22", "%%zmm23")
        "1:\n\t"
        "lea (%[pairs],%[bytes]), %[group_end]\n\t"
        CROSS_START(CROSS_LEAD0, "%%zmm0", "%%zmm1") CROSS_START(CROSS_LEAD1, "%%zmm2", "%%zmm3")
        CROSS_START(CROSS_LEAD2, "%%zmm4", "%%zmm5") CROSS_START(CROSS_LEAD3, "%%zmm6", "%%zmm7")
        ".p2align 4\n\t"
        "2:\n\t"
        "vmovdqa64 (%[pairs]), %%zmm24\n\tvmovdqa64 64(%[pairs]), %%zmm25\n\tvmovdqa64 128(%[pairs]), %%zmm26\n\tvmovdqa64 192(%[pairs]), %%zmm27\n\t"
        CROSS_STEP(CROSS_X0, "%%zmm0", "%%zmm1") CROSS_STEP(CROSS_X1, "%%zmm2", "%%zmm3")
        CROSS_STEP(CROSS_X2, "%%zmm4", "%%zmm5") CROSS_STEP(CROSS_X3, "%%zmm6", "%%zmm7")
        "add $8, %[x]\n\t"
        "add $256, %[pairs]\n\t"
        "cmp %[group_end], %[pairs]\n\t"
        "jb 2b\n\t"
        "vmovdqa64 (%[scale]), %%zmm24\n\tvmovdqa64 64(%[scale]), %%zmm25\n\tvpsrlq $32, %%zmm24, %%zmm26\n\tvpsrlq $32, %%zmm25, %%zmm27\n\t"
        CROSS_END(CROSS_LEAD0, "%%zmm0", "%%zmm8", "%%zmm9", "%%zmm1", "%%zmm10", "%%zmm11")
        CROSS_END(CROSS_LEAD1, "%%zmm2", "%%zmm12", "%%zmm13", "%%zmm3", "%%zmm14", "%%zmm15")
        CROSS_END(CROSS_LEAD2, "%%zmm4", "%%zmm16", "%%zmm17", "%%zmm5", "%%zmm18", "%%zmm19")
        CROSS_END(CROSS_LEAD3, "%%zmm6", "%%zmm20", "%%zmm21", "%%zmm7", "%%zmm22", "%%zmm23")
        "add $128, %[cross]\n\t"
        "add $128, %[scale]\n\t"
        "add $8, %[lead]\n\t"
        "cmp %[end], %[pairs]\n\t"
        "jb 1b\n\t"
        CROSS_STORE("0", "%%zmm8", "%%zmm9", "%%zmm10", "%%zmm11") CROSS_STORE("512", "%%zmm12", "%%zmm13", "%%zmm14", "%%zmm15")
        CROSS_STORE("1024", "%%zmm16", "%%zmm17", "%%zmm18", "%%zmm19") CROSS_STORE("1536", "%%zmm20", "%%zmm21", "%%zmm22", "%%zmm23")
        : [pairs] "+&r"(pairs), [cross] "+&r"(cross), [scale] "+&r"(scale), [x] "+&r"(x), [lead] "+&r"(lead), [group_end] "=&r"(group_end)
        : [z] "r"(z), [bytes] "r"(pairs_bytes), [end] "r"(end), [xs] "r"(x_stride), [xs3] "r"(3 * x_stride), [ls] "r"(lead_stride), [ls3] "r"(3 * lead_stride)
        : "memory", "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15",
          "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23", "xmm24", "xmm25", "xmm26", "xmm27", "xmm28", "xmm29", "xmm30", "xmm31");
}

/* Adds the minima of |groups| groups to z [CROSS_ROWS, 2 tiles]; rows of |mean| are |stride| apart. */
V_BODY void cross_minima(sums *z, const uint8_t *min, int64_t groups, const int32_t *mean, int64_t stride) {
    wide own[CROSS_ROWS][V_TILES];
    V_UNROLL for (int r = 0; r < CROSS_ROWS; r++)
        for (int c = 0; c < V_TILES; c++) own[r][c] = z[r * V_TILES + c].acc;
    for (int64_t g = 0; g < groups; g++)
        for (int c = 0; c < V_TILES; c++) {
            lanes m = v_load(min + (g * V_TILES + c) * 64);
            V_UNROLL for (int r = 0; r < CROSS_ROWS; r++) own[r][c] = w_mul_add_one(own[r][c], mean[r * stride + g], m);
        }
    V_UNROLL for (int r = 0; r < CROSS_ROWS; r++)
        for (int c = 0; c < V_TILES; c++) z[r * V_TILES + c].acc = own[r][c];
}

/* several_rows_block() for CROSS_ROWS rows. */
V_BODY void cross_rows(const ls_packed *w, int64_t begin, int64_t end, const table *t, const ls_acts *x, int64_t row, sums *z) {
    const int size = size_of(w);
    const int64_t groups = (end - begin) * LS_SPAN >> (4 + size), first = begin * LS_SPAN >> (4 + size), stride = x->blocks << (2 - size);
    cross_groups(z, t->pairs, t->cross, t->scale, groups, (8 << size) * V_TILES * 64, ls_acts_plane(x, row, 0) + begin * LS_SPAN,
                 x->blocks * LS_EXACT_BLOCK * (int64_t)sizeof(int16_t), ls_acts_lead(x, size, row) + 2 * first, 2 * stride * (int64_t)sizeof(int32_t));
    if (w->form.has_min) cross_minima(z, t->min, groups, ls_acts_mean(x, size, row) + first, stride);
}

#endif
