/* The exact linear operator by dot products of bytes, for weights of up to 8 bits and one plane of activations. Included by
 * linear_body.h for levels that have such an instruction.
 *
 * An activation is two signed bytes, x = 256 h + l, and so are two sums of products in 32 bits: |h| <= 127 and |l|, |w| <= 128
 * keep a group of 64 within 2^20. Unpacked weights stay in the order that the planes leave them in, four columns of a row to a lane,
 * and the bytes of activations are brought into it. */
#ifndef LS_NATIVE_KERNELS_LINEAR_BYTES_H
#define LS_NATIVE_KERNELS_LINEAR_BYTES_H

/* Rows whose sums are kept at once; bytes between what is multiplied and what is fetched. */
enum { BYTE_ROWS = 2, BYTE_AHEAD = 8192 };

/* Kinds whose integers take the sign bit of a byte are lowered by 128. */
V_BODY int byte_offset(int kind) { return kind == LS_PACK_W8 || kind == LS_PACK_IQ4 ? 128 : 0; }

/* Columns of sixteen in the order of byte_weights: vector 0's four bytes, vector 1's, ... */
V_BODY const uint8_t *byte_order(int kind) {
    static const uint8_t two[16] = {0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15};
    static const uint8_t four[16] = {0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15};
    static const uint8_t eight[16] = {0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15};
    return kind == LS_PACK_W8 ? eight : kind == LS_PACK_W2 || kind == LS_PACK_W3 ? two : four;
}

/* Fields of |mask| of each half, |apart| bits apart and the first at |shift|: to bit |up| of its two bytes. */
V_BODY lanes byte_field(lanes plane, int shift, int mask, int apart, int up) {
    lanes t = v_field(plane, shift, mask | mask << apart);
    return v_field(v_or(v_shl16(t, up), v_shl16(t, up + 8 - apart)), 0, mask << up | mask << (up + 8));
}

/* Vector |u| of four of columns [16 * part, 16 * part + 16): the integers less byte_offset, one to a byte. */
V_BODY lanes byte_weights(int kind, const uint8_t *span, int part, int u) {
    if (kind == LS_PACK_W8) return v_flip_signs(v_load(span + (part * 4 + u) * 64));
    if (kind == LS_PACK_W2 || kind == LS_PACK_W3) {
        lanes w = v_field(v_load(span + part * 64), 2 * u, 0x0303);
        return kind == LS_PACK_W2 ? w : v_or(w, byte_field(v_load(span + 128), 8 * part + u, 1, 4, 2));
    }
    int word = part * 2 + u / 2, odd = u % 2;
    lanes w = v_field(v_load(span + word * 64), 4 * odd, 0x0F0F);
    switch (kind) {
    case LS_PACK_W5: return v_or(w, byte_field(v_load(span + 256), 4 * word + odd, 1, 2, 4));
    case LS_PACK_W6: return v_or(w, byte_field(v_load(span + 256 + part * 64), 8 * (word % 2) + 2 * odd, 3, 4, 4));
    case LS_PACK_IQ4: return v_flip_signs(v_lookup8(ls_iq4_codebook, w));
    default: return w;
    }
}

/* |n| rows from |row| on by one tile; 16 << size is the group. */
V_BODY void byte_tile(const ls_packed *w, const uint8_t *tile, floats unit, int kind, int size, const line l[BYTE_ROWS], sums z[BYTE_ROWS], int n) {
    const int step = size == LS_SUM_64 ? 2 : 1, group = 16 << size, zero = w->form.zero - byte_offset(kind);
    const bytes order = b_load(byte_order(kind));
    byte_sums acc[BYTE_ROWS]; /* of one row over a group */
    V_UNROLL for (int r = 0; r < n; r++) z[r] = (sums){w_zero(), w_zero()};
    for (int64_t k = 0; k < w->spans; k += step) {
        int64_t block = k / 2;
        V_UNROLL for (int part = 0; part < 2 * step; part++) {
            const uint8_t *span = tile + w->span_at + (size_t)(k + part / 2) * w->span_bytes;
            int64_t g = (k * 2 + part) >> size;
            if (part * 16 % group == 0)
                V_UNROLL for (int r = 0; r < n; r++) acc[r] = b_first(l[r].half[block] - zero * l[r].sum[0][g]);
            V_UNROLL for (int i = lines_before(kind, part % 2); i < lines_before(kind, part % 2 + 1); i++) LS_PREFETCH(span + BYTE_AHEAD + i * 64);
            byte_acts v[BYTE_ROWS];
            V_UNROLL for (int r = 0; r < n; r++) v[r] = b_split(l[r].x[0] + (k * 2 + part) * 16, order);
            V_UNROLL for (int i = 0; i < 2; i++) {
                byte_pair pair = b_join(byte_weights(kind, span, part % 2, 2 * i), byte_weights(kind, span, part % 2, 2 * i + 1));
                V_UNROLL for (int r = 0; r < n; r++) acc[r] = b_dot(acc[r], pair, v[r], i);
            }
            if ((part + 1) * 16 % group) continue;
            lanes s, m = v_set(0);
            load_scales(w, tile, g, unit, &s, &m);
            V_UNROLL for (int r = 0; r < n; r++) {
                add_scaled(&z[r], v_sar_each(b_total(acc[r]), v_set(l[r].drop[block])), s, 1);
                if (w->form.has_min) add_mean(&z[r], l[r].mean[g], m, 1);
            }
        }
    }
}

V_BODY void byte_rows(const ls_packed *w, int64_t tile_begin, int64_t tile_end, const ls_acts *x, int64_t row, const ls_linear_out *out, int kind, int size,
                      int n) {
    line l[BYTE_ROWS];
    for (int r = 0; r < n; r++) l[r] = line_of(x, row + r, 1, size);
    for (int64_t i = tile_begin; i < tile_end; i++) {
        const uint8_t *tile = w->data + (size_t)i * w->tile_bytes;
        sums z[BYTE_ROWS];
        byte_tile(w, tile, f_power(ls_packed_powers(w, i)), kind, size, l, z, n);
        for (int r = 0; r < n; r++) finish(w, i, &z[r], x, row + r, out, 1);
    }
}

/* One tile at a time, so that it is read from memory once for all rows. */
V_BODY void linear_bytes(const ls_packed *w, int64_t tile_begin, int64_t tile_end, const ls_acts *x, int64_t row_begin, int64_t row_end,
                         const ls_linear_out *out, int kind, int size) {
    if (row_end - row_begin == 1) {
        byte_rows(w, tile_begin, tile_end, x, row_begin, out, kind, size, 1);
        return;
    }
    for (int64_t i = tile_begin; i < tile_end; i++) {
        int64_t row = row_begin;
        for (; row + BYTE_ROWS <= row_end; row += BYTE_ROWS) byte_rows(w, i, i + 1, x, row, out, kind, size, BYTE_ROWS);
        if (row < row_end) byte_rows(w, i, i + 1, x, row, out, kind, size, 1);
    }
}

#endif
