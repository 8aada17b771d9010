/* Mantissas of float weights that are packed as codes (pack_floats.c). Included by linear_body.h. */
#ifndef LS_NATIVE_KERNELS_LINEAR_CODED_H
#define LS_NATIVE_KERNELS_LINEAR_CODED_H

/* Pieces of a code in words [begin, end), the first highest. */
V_BODY lanes code_run(const uint8_t *words, int begin, int end, int spare) {
    const int mask = (1 << spare) - 1;
    lanes run = v_field(v_load(words + begin * 64), 0, mask);
    V_UNROLL for (int n = begin + 1; n < end; n++) run = v_field_or(v_load(words + n * 64), 0, mask, v_shl16(run, spare));
    return run;
}

/* Pieces that are put together one after the other: fifteen of them would take longer than the rest of a span. */
enum { RUN = 5 };

/* The codes of pair |i| of a span, in the upper bits of both halves; the lower bits are of no meaning. */
V_BODY lanes code_pair(int kind, const uint8_t *span, int i) {
    const int bits = ls_code_bits(kind), spare = 16 - bits, words = bits / spare, j = i - bits;
    if (j < 0) return v_load(span + i * 64);
    lanes code = v_set(0);
    V_UNROLL for (int n = 0, next; n < words; n = next) {
        next = n + RUN < words ? n + RUN : words;
        lanes run = code_run(span + j * words * 64, n, next, spare);
        code = n ? v_or(v_shl16(code, (next - n) * spare), run) : run;
    }
    if (bits % spare == 0) return v_shl16(code, spare);
    return v_shl16(v_or(v_shl16(code, 1), v_field(v_load(span + words * spare * 64), spare - 1 - j, 1)), spare);
}

/* v * 2^up of u = v * 2^k. */
V_BODY lanes code_significand(int kind, lanes code, int up) {
    const int s = ls_code_significand(kind), bits = ls_code_bits(kind);
    return v_field_xor(v_sar16(code, 16 - s - up), 0x10000 - (1 << up), v_where(code, 16 - bits, bits - s, 1 << (s - 1 + up)));
}

/* Pair |i| of a span under exact16: mantissas of 16 bits. */
V_BODY lanes coded_pair(int kind, const uint8_t *span, int i) {
    const int bits = ls_code_bits(kind);
    lanes code = code_pair(kind, span, i);
    return v_scaled(code_significand(kind, code, 0), code, 16 - bits, bits - ls_code_significand(kind));
}
V_BODY lanes float_pair(int kind, const uint8_t *span, int i) { return kind == LS_PACK_F16 ? v_load(span + i * 64) : coded_pair(kind, span, i); }

/* The same under exact24: 4096 * w[0] + w[1], both signed. */
V_BODY void wide_pair(int kind, const uint8_t *span, int i, lanes w[2]) {
    const int bits = ls_code_bits(kind);
    lanes code = code_pair(kind, span, i), low;
    w[0] = v_scaled_wide(code_significand(kind, code, 4), code, 16 - bits, bits - ls_code_significand(kind), &low); /* of 16 u */
    w[1] = v_sar16(low, 4);
}

#endif
