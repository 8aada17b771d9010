/* The exact linear layer over the vector vocabulary of the including file (vec_*.h): v is sixteen 32-bit lanes, one per row
 * of a tile; q is sixteen 64-bit sums. Formulas: docs/contracts.md section 3; specification: reference/exact_linear.c.
 *
 * One row of activations reads each packed weight once and multiplies it as it is unpacked. Several rows share the
 * unpacking: a piece of a tile is spread into pairs of 16-bit integers that stay in the first-level cache while the rows
 * pass over it, TOKENS at a time. The integers are the same either way, so the bits are. */
#include <string.h>

#include "contract/exact.h"
#include "native/kernels/kernel.h"

enum { PAIRS = LS_SPAN / 2, BLOCK_PAIRS = LS_EXACT_BLOCK / 2 };

/* ---- Activations ---------------------------------------------------------------------------------------------- */

/* Quantises one block x [64]; its exponent goes to drop for ls_acts_finish. */
LS_INLINE void quantise_block(const ls_acts *a, int64_t row, int64_t b, const float *x, int wide) {
    v max = v_set(0);
    for (int i = 0; i < 4; i++) max = v_max(max, v_and(vf_bits(vf_load(x + 16 * i)), v_set(0x7FFFFFFF)));
    int e = ls_block_exponent((uint32_t)v_largest(max));
    vf unit = vf_set(ls_pow2_biased(127 + (wide ? LS_EXACT_P24 : LS_EXACT_P16) + 127 - e));
    a->drop[row * a->blocks + b] = e;
    for (int i = 0; i < 4; i++) {
        v m = vf_round(vf_mul(vf_load(x + 16 * i), unit)), high = m;
        int64_t at = b * LS_EXACT_BLOCK + 16 * i;
        if (wide) {
            high = v_sra(v_add(m, v_set(2048)), 12);
            v low = v_sub(m, v_sll(high, 12));
            v_store_i16(ls_acts_plane(a, row, 1) + at, low);
            ls_acts_sum(a, LS_SUM_16, row, 1)[at / 16] = v_sum(low);
        }
        v_store_i16(ls_acts_plane(a, row, 0) + at, high);
        ls_acts_sum(a, LS_SUM_16, row, 0)[at / 16] = v_sum(high);
    }
}

LS_INLINE void quantise_row(const ls_acts *a, int64_t row, const float *x, int wide) {
    for (int64_t b = 0; b < a->blocks; b++) {
        int64_t left = a->cols - b * LS_EXACT_BLOCK;
        if (left >= LS_EXACT_BLOCK) {
            quantise_block(a, row, b, x + b * LS_EXACT_BLOCK, wide);
            continue;
        }
        float tail[LS_EXACT_BLOCK] = {0};
        memcpy(tail, x + b * LS_EXACT_BLOCK, (size_t)left * sizeof *tail);
        quantise_block(a, row, b, tail, wide);
    }
    ls_acts_finish(a, row);
}

/* ---- Weights: integers and scales ------------------------------------------------------------------------------ */

/* Pair |i| of a span's plane of |bits| bits. */
LS_INLINE v plane_pair(const uint8_t *plane, int bits, int i) {
    int per = 16 / bits, mask = (1 << bits) - 1;
    return v_and(v_srl(v_load(plane + 64 * (i / per)), i % per * bits), v_set(mask | mask << 16));
}

LS_INLINE int first_bits(int kind) { return kind == LS_PACK_W8 ? 8 : kind == LS_PACK_W2 || kind == LS_PACK_W3 ? 2 : 4; }

/* Two columns of every row as unsigned 16-bit integers (quantised kinds). */
LS_INLINE v unsigned_pair(const uint8_t *span, int kind, int i) {
    int bits = first_bits(kind);
    v w = plane_pair(span, bits, i);
    if (kind == LS_PACK_IQ4) return v_codebook(w, ls_iq4_codebook);
    if (kind == LS_PACK_W3) return v_or(w, v_sll(plane_pair(span + 64 * bits, 1, i), bits));
    if (kind == LS_PACK_W5) return v_or(w, v_sll(plane_pair(span + 64 * bits, 1, i), bits));
    if (kind == LS_PACK_W6) return v_or(w, v_sll(plane_pair(span + 64 * bits, 2, i), bits));
    return w;
}

/* Two columns of a signed mantissa as two signed planes: high * 256 + low (F16) or high * 4096 + low (F24). */
LS_INLINE void signed_pair(const uint8_t *span, int kind, int i, v *high, v *low) {
    v w = v_load(span + 64 * i);
    if (kind == LS_PACK_F16) {
        *low = v_half_sra(v_half_sll(w, 8), 8);
        *high = v_half_sra(v_half_sub(w, *low), 8);
        return;
    }
    v top = v_half_sll(plane_pair(span + 64 * 16, 8, i), 4);
    *low = v_half_sra(v_half_sll(w, 4), 4);
    *high = v_half_sra(v_half_sll(v_or(v_half_srl(w, 12), top), 4), 4);
}

/* S (and M) of group g from the tile's entries. */
LS_INLINE void scales_of(const ls_packed *w, const uint8_t *tile, int64_t g, v *s, v *m) {
    const uint8_t *entry = tile + w->scale_at + (size_t)g * w->entry_bytes;
    if (w->scales == LS_SCALE_DROP) {
        *s = v_from_drop(entry);
        return;
    }
    vf unit = vf_load(tile);
    size_t second = w->entry_bytes / 2;
    bool min = w->form.has_min;
    if (w->super) {
        const uint8_t *super = tile + w->super_at + (size_t)(g / w->super) * w->super_bytes;
        bool nibble = w->scales == LS_SCALE_NIBBLE;
        *s = vf_round(vf_mul(vf_mul(vf_from_f16(super), unit), nibble ? vf_from_nibble(entry, 0) : vf_from_i8(entry)));
        if (min) *m = vf_round(vf_mul(vf_mul(vf_from_f16(super + 32), unit), nibble ? vf_from_nibble(entry, 4) : vf_from_i8(entry + second)));
    } else if (w->scales == LS_SCALE_F16) {
        *s = vf_round(vf_mul(vf_from_f16(entry), unit));
        if (min) *m = vf_round(vf_mul(vf_from_f16(entry + second), unit));
    } else if (w->scales == LS_SCALE_BF16) {
        *s = vf_round(vf_mul(vf_from_bf16(entry), unit));
        if (min) *m = vf_round(vf_mul(vf_from_bf16(entry + second), unit));
    } else {
        *s = vf_round(vf_mul(vf_load(entry), unit));
        if (min) *m = vf_round(vf_mul(vf_load(entry + second), unit));
    }
}

/* ---- One group ------------------------------------------------------------------------------------------------- */

/* rshift on lanes; the bounds of section 3 leave room for the addend. */
LS_INLINE v lanes_rshift(v a, int n) { return n ? v_sra(v_add(a, v_set(1 << (n - 1))), n) : a; }

/* Sums of products of the planes of activations and weights: [activation plane][weight plane]. */
typedef struct sums {
    v d[2][2];
} sums;

/* J of section 3 from the planes' sums. */
LS_INLINE v combine(const sums *s, int c, int wide, int kind) {
    bool split = kind == LS_PACK_F16 || kind == LS_PACK_F24;
    if (!wide && !split) return s->d[0][0];
    if (!wide) return v_add(v_sll(s->d[0][0], 8 - c), lanes_rshift(s->d[0][1], c));
    if (!split) return v_add(v_sll(s->d[0][0], 12 - c), lanes_rshift(s->d[1][0], c));
    v middle = v_add(s->d[0][1], s->d[1][0]), carry = v_sra(v_add(s->d[1][1], v_set(1 << 21)), 12);
    return v_add(v_sll(s->d[0][0], 2), v_sra(v_add(middle, carry), 10));
}

/* Adds group g's terms of one row of activations. */
LS_INLINE void add_group(q *acc, q *accx, const ls_packed *w, const sums *d, v s, v m, int drop, int32_t mean, int wide, int kind) {
    v a = lanes_rshift(combine(d, w->form.c, wide, kind), drop);
    *acc = wide ? q_mac4(*acc, s, a) : q_mac(*acc, s, a);
    if (!w->form.has_min) return;
    *accx = wide ? q_mac4(*accx, m, v_set(mean)) : q_mac(*accx, m, v_set(mean));
}

LS_INLINE void finish(const ls_packed *w, const uint8_t *tile, int64_t tile_index, q acc, q accx, const ls_acts *x, int64_t row, const ls_linear_out *out) {
    int64_t n = tile_index * LS_TILE;
    int lanes = w->rows - n < LS_TILE ? (int)(w->rows - n) : LS_TILE;
    if (w->form.has_min) acc = q_add_rshift(acc, accx, w->form.c);
    vf y = vf_canon(vf_mul(vf_mul(q_to_float(acc), vf_load(tile + 64)), vf_set(x->factor[row])));
    if (out->bias) y = vf_canon(vf_add(y, vf_canon(vf_load_n(out->bias + n, lanes))));
    vf_store_n(out->y + row * out->stride + n, y, lanes);
}

LS_INLINE v pair_at(const int16_t *q16, int64_t i) {
    int32_t pair;
    memcpy(&pair, q16 + 2 * i, sizeof pair);
    return v_set(pair);
}

/* What does not change within a call: sizes, zero point, which sums of activations belong to a group. */
typedef struct shape {
    int group_pairs, size, zero;
} shape;

LS_INLINE shape shape_of(const ls_packed *w) {
    int g = w->form.group;
    return (shape){g / 2, g == 16 ? LS_SUM_16 : g == 32 ? LS_SUM_32 : LS_SUM_64, w->form.zero};
}

/* Sums start at -zero * (sum of the activations), which makes them sums over u - zero. */
LS_INLINE void start(sums *d, const ls_acts *x, int64_t row, int64_t g, shape h, int wide) {
    for (int p = 0; p < 2; p++)
        for (int k = 0; k < 2; k++) d->d[p][k] = v_set(0);
    if (!h.zero) return;
    for (int p = 0; p <= wide; p++) d->d[p][0] = v_set(-h.zero * ls_acts_sum(x, h.size, row, p)[g]);
}

/* ---- One row of activations: unpack and multiply ---------------------------------------------------------------- */

LS_INLINE void one_row_tile(const ls_packed *w, int64_t tile_index, const ls_acts *x, int64_t row, const ls_linear_out *out, int wide, int kind) {
    const uint8_t *tile = w->data + (size_t)tile_index * w->tile_bytes;
    bool split = kind == LS_PACK_F16 || kind == LS_PACK_F24;
    shape h = shape_of(w);
    const int32_t *drop = x->drop + row * x->blocks, *mean = ls_acts_mean(x, h.size, row);
    const int16_t *plane[2] = {ls_acts_plane(x, row, 0), ls_acts_plane(x, row, wide)};
    q acc = q_zero(), accx = q_zero();
    for (int64_t g = 0; g < w->form.groups; g++) {
        sums d;
        v s = v_set(0), m = s, other = s, other_low = s;
        start(&d, x, row, g, h, wide);
        scales_of(w, tile, g, &s, &m);
        for (int64_t i = g * h.group_pairs; i < (g + 1) * h.group_pairs;) {
            const uint8_t *span = tile + w->span_at + (size_t)(i / PAIRS) * w->span_bytes;
            LS_PREFETCH(span + 2048);
            int first = (int)(i % PAIRS), n = h.group_pairs < PAIRS ? h.group_pairs : PAIRS;
            if (split) {
                LS_UNROLL
                for (int j = 0; j < PAIRS; j++) {
                    v high, low;
                    signed_pair(span, kind, j, &high, &low);
                    for (int p = 0; p <= wide; p++) {
                        v a = pair_at(plane[p], i + j);
                        d.d[p][0] = v_dot(d.d[p][0], high, a);
                        d.d[p][1] = v_dot(d.d[p][1], low, a);
                    }
                }
            } else if (n == PAIRS) {
                LS_UNROLL
                for (int j = 0; j < PAIRS; j++) {
                    v u = unsigned_pair(span, kind, j);
                    v *to = j & 1 ? &other : &d.d[0][0];
                    *to = v_dot(*to, u, pair_at(plane[0], i + j));
                    if (wide) {
                        v *to_low = j & 1 ? &other_low : &d.d[1][0];
                        *to_low = v_dot(*to_low, u, pair_at(plane[1], i + j));
                    }
                }
            } else {
                for (int j = 0; j < n; j++) {
                    v u = unsigned_pair(span, kind, first + j);
                    d.d[0][0] = v_dot(d.d[0][0], u, pair_at(plane[0], i + j));
                    if (wide) d.d[1][0] = v_dot(d.d[1][0], u, pair_at(plane[1], i + j));
                }
            }
            i += n;
        }
        d.d[0][0] = v_add(d.d[0][0], other);
        d.d[1][0] = v_add(d.d[1][0], other_low);
        add_group(&acc, &accx, w, &d, s, m, drop[g * h.group_pairs / BLOCK_PAIRS], mean[g], wide, kind);
    }
    finish(w, tile, tile_index, acc, accx, x, row, out);
}

/* ---- Several rows: unpack a piece once -------------------------------------------------------------------------- */

/* Working memory: pairs of a piece, [pair][planes][16]; scales and minima of its groups; sums of the rows. */
typedef struct bench {
    int32_t *pairs, *scale, *min;
    int64_t *acc, *accx;
} bench;

LS_INLINE bench bench_of(void *scratch) {
    uint8_t *p = scratch;
    const size_t pairs = (size_t)2 * LS_TILE * LS_LINEAR_CHUNK * 2 * 2, scales = (size_t)2 * LS_TILE * (LS_LINEAR_CHUNK / 16) * 4;
    return (bench){(int32_t *)(void *)p, (int32_t *)(void *)(p + pairs), (int32_t *)(void *)(p + pairs + scales),
                   (int64_t *)(void *)(p + pairs + 2 * scales), (int64_t *)(void *)(p + pairs + 2 * scales + (size_t)LS_LINEAR_TOKENS * LS_TILE * 8)};
}

LS_INLINE void unpack(const ls_packed *w, const uint8_t *tile, int64_t begin, int64_t end, const bench *b, int kind) {
    bool split = kind == LS_PACK_F16 || kind == LS_PACK_F24;
    int32_t *to = b->pairs;
    for (int64_t span = begin / LS_SPAN; span < end / LS_SPAN; span++) {
        const uint8_t *from = tile + w->span_at + (size_t)span * w->span_bytes;
        LS_UNROLL
        for (int j = 0; j < PAIRS; j++) {
            if (split) {
                v high, low;
                signed_pair(from, kind, j, &high, &low);
                v_store(to, high);
                v_store(to + 16, low);
                to += 32;
            } else {
                v_store(to, unsigned_pair(from, kind, j));
                to += 16;
            }
        }
    }
    for (int64_t g = begin / w->form.group, i = 0; g < end / w->form.group; g++, i++) {
        v s = v_set(0), m = s;
        scales_of(w, tile, g, &s, &m);
        v_store(b->scale + 16 * i, s);
        v_store(b->min + 16 * i, m);
    }
}

/* |n| rows (a constant) over the unpacked columns [begin, end). */
LS_INLINE void rows_piece(const ls_packed *w, const ls_acts *x, int64_t row, int n, int64_t token, int64_t begin, int64_t end, const bench *b, int wide, int kind) {
    bool split = kind == LS_PACK_F16 || kind == LS_PACK_F24;
    shape h = shape_of(w);
    const int width = split ? 32 : 16;
    for (int64_t g = begin / w->form.group, local = 0; g < end / w->form.group; g++, local++) {
        sums d[4];
        v s = v_load(b->scale + 16 * local), m = v_load(b->min + 16 * local);
        LS_UNROLL
        for (int t = 0; t < n; t++) start(&d[t], x, row + t, g, h, wide);
        const int32_t *u = b->pairs + local * h.group_pairs * width;
        int64_t first = g * h.group_pairs;
        for (int i = 0; i < h.group_pairs; i++, u += width) {
            v high = v_load(u), low = split ? v_load(u + 16) : high;
            LS_UNROLL
            for (int t = 0; t < n; t++)
                for (int p = 0; p <= wide; p++) {
                    v a = pair_at(ls_acts_plane(x, row + t, p), first + i);
                    d[t].d[p][0] = v_dot(d[t].d[p][0], high, a);
                    if (split) d[t].d[p][1] = v_dot(d[t].d[p][1], low, a);
                }
        }
        LS_UNROLL
        for (int t = 0; t < n; t++) {
            q acc = q_load(b->acc + (token + t) * 16), accx = w->form.has_min ? q_load(b->accx + (token + t) * 16) : q_zero();
            add_group(&acc, &accx, w, &d[t], s, m, x->drop[(row + t) * x->blocks + first / BLOCK_PAIRS], ls_acts_mean(x, h.size, row + t)[g], wide, kind);
            q_store(b->acc + (token + t) * 16, acc);
            if (w->form.has_min) q_store(b->accx + (token + t) * 16, accx);
        }
    }
}

LS_INLINE void rows_tile(const ls_packed *w, int64_t tile_index, const ls_acts *x, int64_t row, int64_t n, const ls_linear_out *out, void *scratch, int wide, int kind) {
    const uint8_t *tile = w->data + (size_t)tile_index * w->tile_bytes;
    bench b = bench_of(scratch);
    int64_t cols = w->spans * LS_SPAN;
    for (int64_t t = 0; t < n; t++) {
        q_store(b.acc + t * 16, q_zero());
        q_store(b.accx + t * 16, q_zero());
    }
    for (int64_t begin = 0; begin < cols; begin += LS_LINEAR_CHUNK) {
        int64_t end = begin + LS_LINEAR_CHUNK < cols ? begin + LS_LINEAR_CHUNK : cols, t = 0;
        unpack(w, tile, begin, end, &b, kind);
        for (; t + 4 <= n; t += 4) rows_piece(w, x, row + t, 4, t, begin, end, &b, wide, kind);
        for (; t < n; t++) rows_piece(w, x, row + t, 1, t, begin, end, &b, wide, kind);
    }
    for (int64_t t = 0; t < n; t++) finish(w, tile, tile_index, q_load(b.acc + t * 16), q_load(b.accx + t * 16), x, row + t, out);
}

LS_INLINE void linear(const ls_packed *w, int64_t tile_begin, int64_t tile_end, const ls_acts *x, int64_t row_begin, int64_t row_end,
                      const ls_linear_out *out, void *scratch, int wide, int kind) {
    for (int64_t tile = tile_begin; tile < tile_end; tile++) {
        if (row_end - row_begin == 1) {
            one_row_tile(w, tile, x, row_begin, out, wide, kind);
            continue;
        }
        for (int64_t row = row_begin; row < row_end; row += LS_LINEAR_TOKENS) {
            int64_t n = row_end - row < LS_LINEAR_TOKENS ? row_end - row : LS_LINEAR_TOKENS;
            rows_tile(w, tile, x, row, n, out, scratch, wide, kind);
        }
    }
}

/* ---- The kernels of this level: one function per line of kernels.def -------------------------------------------- */

#define LS_QUANTISE(contract, lv, LEVEL) LS_QUANTISE_##LEVEL(contract, lv)
#define LS_LINEAR(kd, KIND, contract, lv, LEVEL) LS_LINEAR_##LEVEL(kd, KIND, contract, lv)
#define DEFINE_QUANTISE(contract, lv) \
    void ls_quantise_exact##contract##_##lv(const ls_acts *a, int64_t row, const float *x) { quantise_row(a, row, x, contract == 24); }
#define DEFINE_LINEAR(kd, KIND, contract, lv)                                                                                         \
    void ls_linear_##kd##_exact##contract##_##lv(const ls_packed *w, int64_t tile_begin, int64_t tile_end, const ls_acts *x,            \
                                                 int64_t row_begin, int64_t row_end, const ls_linear_out *out, void *scratch) {        \
        linear(w, tile_begin, tile_end, x, row_begin, row_end, out, scratch, contract == 24, LS_PACK_##KIND);                          \
    }
#ifndef LS_QUANTISE_C
#define LS_QUANTISE_C(contract, lv)
#define LS_LINEAR_C(kd, KIND, contract, lv)
#endif
#ifndef LS_QUANTISE_AVX2
#define LS_QUANTISE_AVX2(contract, lv)
#define LS_LINEAR_AVX2(kd, KIND, contract, lv)
#endif
#ifndef LS_QUANTISE_AVX512
#define LS_QUANTISE_AVX512(contract, lv)
#define LS_LINEAR_AVX512(kd, KIND, contract, lv)
#endif
#include "native/kernels.def"
