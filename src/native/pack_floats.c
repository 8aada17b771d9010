/* Packing of float weights: mantissas as they are, or as codes.
 *
 * A block's mantissas are whole multiples of its last place, so the mantissa of an f16 keeps at most 11 significant bits and that of a bf16 8, wherever
 * they lie: u = v * 2^k, -2^S <= v < 2^S. A code of B bits has, from the top, the sign of v; v's lowest S - 1 bits; and c of B - S bits. c = 0: k = 0 and
 * bit S - 1 of v is its sign. Otherwise k = c - 1 and that bit is the opposite of the sign: for the least k, v lies in the outer half of its range.
 *
 * Of the T = 16 - B bits that a code leaves of a 16-bit half: the halves of a span's words 0 to B - 1 hold the codes of pairs 0 to B - 1 in their upper
 * bits, and those of the last T pairs piece by piece in their lower T. Pair B + j has pieces in n = B / T words from word n * j on, the highest bits in the
 * first. What B / T leaves over is a word more, for B = 13: the last bits of the T codes, the first in the highest place. */
#include <string.h>

#include "base/bits.h"
#include "native/pack.h"

/* Codes of a span's mantissas, the halves of the words of its pairs. A float's exponent is the length of u, or of ~u, where -2^S counts as 2^S - 1; in
 * loops without branches or shifts by k, which compilers make vectors of: most of the time of loading a model goes here. */
static inline void codes_of(const int32_t *u, int significand, int exponent_bits, uint32_t word[LS_SPAN / 2]) {
    const int32_t low = (1 << (significand - 1)) - 1;
    uint32_t code[LS_SPAN];
    for (int i = 0; i < LS_SPAN; i++) {
        int32_t sign = u[i] >> 31, c = (int32_t)(ls_bits((float)(u[i] ^ sign)) >> 23) - 127 - significand + 2;
        c = c > 0 ? c : 0;
        int32_t k = c > 1 ? c - 1 : 0, v = (int32_t)((float)u[i] * ls_from_bits((uint32_t)(127 - k) << 23));
        code[i] = (uint32_t)(((sign & (low + 1)) | (v & low)) << exponent_bits | c);
    }
    for (int i = 0; i < LS_SPAN / 2; i++) word[i] = code[2 * i] | code[2 * i + 1] << 16;
}

/* The lower bits of both halves of the words: pieces of the pairs of codes after theirs. */
static inline void pieces_of(const uint32_t *code, int bits, int spare, uint32_t piece[LS_SPAN / 2]) {
    const int words = bits / spare;
    const uint32_t one = 0x00010001u, mask = ((1u << spare) - 1) * one;
    for (int j = 0; j < spare; j++)
        for (int n = 0; n < words; n++) piece[j * words + n] = code[bits + j] >> (bits - spare * (n + 1)) & mask;
    if (words * spare == bits) return;
    uint32_t last = 0;
    for (int j = 0; j < spare; j++) last = last << 1 | (code[bits + j] & one);
    piece[bits - 1] = last;
}

/* Inlined for its constants. */
static inline void put_codes(int significand, int bits, uint8_t *span, int lane, const int32_t *u) {
    const int spare = 16 - bits;
    uint32_t code[LS_SPAN / 2], piece[LS_SPAN / 2];
    codes_of(u, significand, bits - significand, code);
    pieces_of(code, bits, spare, piece);
    for (int i = 0; i < bits; i++) {
        uint32_t word = code[i] << spare | piece[i];
        memcpy(span + 64 * i + 4 * lane, &word, sizeof word);
    }
}

/* Pairs of 16-bit halves. */
static void put_halves(uint8_t *span, int lane, const int32_t *u) {
    for (int c = 0; c < LS_SPAN / 2; c++) {
        uint32_t word = ((uint32_t)u[2 * c] & 0xFFFFu) | (uint32_t)u[2 * c + 1] << 16;
        memcpy(span + 64 * c + 4 * lane, &word, sizeof word);
    }
}

/* u = 4096 * high + low: a plane of the low 16 bits of low | high << 12, and one of the 8 above. */
static void put_planes(uint8_t *span, int lane, const int32_t *u) {
    int32_t joined[LS_SPAN];
    uint8_t above[LS_SPAN];
    for (int k = 0; k < LS_SPAN; k++) {
        int32_t high = (u[k] + 2048) >> 12, low = u[k] - high * 4096;
        joined[k] = (int32_t)(((uint32_t)low & 0xFFFu) | ((uint32_t)high & 0xFFFu) << 12);
        above[k] = (uint8_t)((uint32_t)joined[k] >> 16);
    }
    put_halves(span, lane, joined);
    ls_pack_byte_span(span + 64 * 16, lane, above);
}

void ls_pack_float_span(ls_pack_kind kind, uint8_t *span, int lane, const int32_t *u) {
    switch (kind) {
    case LS_PACK_F12: put_codes(8, 12, span, lane, u); break;
    case LS_PACK_F13: put_codes(8, 13, span, lane, u); break;
    case LS_PACK_F14: put_codes(11, 14, span, lane, u); break;
    case LS_PACK_F15: put_codes(11, 15, span, lane, u); break;
    case LS_PACK_F16: put_halves(span, lane, u); break;
    default: put_planes(span, lane, u); break; /* LS_PACK_F24 */
    }
}
