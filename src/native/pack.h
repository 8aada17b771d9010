/* Packed weight matrices: the form that every kernel of every instruction-set level reads.
 *
 * Sixteen consecutive output rows make a tile; inside it the rows are interleaved, so that each of sixteen 32-bit lanes
 * belongs to one row. A tile is one contiguous piece of memory, 64-byte aligned:
 *
 *     uint8 unit[16]   -R + 127 of each row: a stored scale times 2^-R, rounded, is the integer scale S
 *     uint8 out[16]    R + c + h + 127: 2^(R + c + h) turns the integer sum into a float
 *     scale entries    one per group, in the way of ls_scale_kind
 *     super entries    K quants only: per 256 columns f16 d[16], and f16 -dmin[16] when there are minima
 *     spans            one per 32 columns: the integers, as bit planes, or codes
 *
 * A span of a b-bit plane is 64 * b bytes: 4-byte words, sixteen (one a row) to a vector. A word holds 32 / b columns as
 * two 16-bit halves: column 2i in the low half and 2i + 1 in the high half, pair i of the vector at bit i * b of each
 * half. So one shift and one mask turn a vector into pairs of 16-bit integers, the operand of a dot product of pairs.
 * Mantissas of f16 and bf16 weights have few significant bits and are codes of 12 to 15 bits instead (pack_floats.c).
 * Scales are kept as the file has them (f16, bf16, small integers), from which kernels derive S and M exactly.
 * Rows past the end have zero scales. */
#ifndef LS_NATIVE_PACK_H
#define LS_NATIVE_PACK_H

#include "contract/weight_form.h"
#include "native/pool.h"

enum { LS_TILE = 16, LS_SPAN = 32 };

/* Version of this layout: of all that is described above, of the planes and scale kinds below, and of what ls_packed_plan derives from a tensor. It is
 * bound into pack files (docs/pack.md), so it grows with every change of a byte of packed data, and files of another version are refused. */
enum { LS_PACK_LAYOUT = 3 };

/* How integers are stored: W<bits> are plain unsigned integers in a plane of 8, 4 or 2 bits plus one of 2 or 1. */
typedef enum ls_pack_kind {
    LS_PACK_W2,
    LS_PACK_W3,
    LS_PACK_W4,
    LS_PACK_W5,
    LS_PACK_W6,
    LS_PACK_W8,
    LS_PACK_IQ4, /* 4-bit index into the IQ4_NL codebook */
    LS_PACK_F12, /* bf16 under exact16: codes of 12 bits; from here on kinds are of floats */
    LS_PACK_F14, /* f16 under exact16: codes of 14 bits */
    LS_PACK_F16, /* f32 under exact16: signed 16-bit mantissa */
    LS_PACK_F13, /* bf16 under exact24: codes of 13 bits */
    LS_PACK_F15, /* f16 under exact24: codes of 15 bits */
    LS_PACK_F24, /* f32 under exact24: signed 24-bit mantissa as two 12-bit halves: low | high << 12 */
    LS_PACK_COUNT
} ls_pack_kind;

/* Bits of the two planes of each kind; the second plane holds the bits above the first. Of codes the first has all bits. */
extern const int ls_pack_planes[LS_PACK_COUNT][2];

/* Float kinds whose mantissas are codes: their significant bits and bits, 0 for other kinds. Defined here so that kernels are specialised by them. */
static inline int ls_code_significand(int kind) {
    return kind == LS_PACK_F12 || kind == LS_PACK_F13 ? 8 : kind == LS_PACK_F14 || kind == LS_PACK_F15 ? 11 : 0;
}
static inline int ls_code_bits(int kind) {
    return kind == LS_PACK_F12 ? 12 : kind == LS_PACK_F13 ? 13 : kind == LS_PACK_F14 ? 14 : kind == LS_PACK_F15 ? 15 : 0;
}

/* A scale entry of one group; a second run of sixteen holds the minima when the format has them. */
typedef enum ls_scale_kind {
    LS_SCALE_F16,    /* f16 [16] */
    LS_SCALE_BF16,   /* bf16 [16] */
    LS_SCALE_F32,    /* f32 [16] */
    LS_SCALE_INT8,   /* int8 [16], a factor of the super entry's d or -dmin */
    LS_SCALE_NIBBLE, /* uint8 [16]: low half times d, high half times -dmin */
    LS_SCALE_DROP    /* uint8 [16]: S = 2^23 >> drop (float formats) */
} ls_scale_kind;

/* The sixteen values of the IQ4_NL codebook + 128. */
extern const uint8_t ls_iq4_codebook[16];

typedef struct ls_packed {
    ls_weight_form form;
    ls_pack_kind kind;
    ls_scale_kind scales;
    int64_t rows, tiles, spans;      /* N; ceil(N / 16); spans of a tile */
    int super;                       /* groups per super entry; 0: none */
    size_t entry_bytes, super_bytes, span_bytes;
    size_t super_at, span_at, tile_bytes; /* offsets inside a tile, which begins with its scale entries, and its size */
    size_t power_at;                 /* where the powers of all tiles begin, behind the tiles */
    uint8_t *data;                   /* [ls_packed_bytes()] 64-byte aligned */
    bool owned;                      /* |data| is freed with the matrix */
} ls_packed;

/* The exponents of two + 127 of a tile's rows, uint8 [2, 16]: what scales are multiplied by to be S, and the factor of the result. */
static inline uint8_t *ls_packed_powers(const ls_packed *w, int64_t tile) { return w->data + w->power_at + (size_t)tile * 2 * LS_TILE; }

/* Everything about |n| packed rows of |t| but the data: sizes and offsets follow from format, columns and contract. Errors: those of ls_weight_form_of. */
ls_code ls_packed_plan(ls_packed *w, const ls_tensor *t, int64_t n, ls_contract contract, ls_error *e);

/* The same on packed bytes that are there already, data[bytes] in a pack file's map, which must outlive |w|. DATA_LOSS when the size does not fit. */
ls_code ls_packed_map(ls_packed *w, const ls_tensor *t, int64_t n, ls_contract contract, const uint8_t *data, size_t bytes, ls_error *e);

/* *bytes = what |n| rows of |t| take when packed for |contract|, a multiple of 64. Errors: those of ls_weight_form_of. */
ls_code ls_pack_bytes(size_t *bytes, const ls_tensor *t, int64_t n, ls_contract contract, ls_error *e);

/* Packs rows [row_begin, row_begin + n) of |t| for |contract|, the rows split over the threads of |pool|, into |place| (64-byte
 * aligned, ls_pack_bytes long, the caller's; NULL: memory of its own). The tensor must have passed ls_tensor_check_weight. Pages of
 * |c|'s files (NULL: none) are given back as their rows have been packed. Errors: those of ls_weight_form_of, OUT_OF_RANGE for rows
 * the tensor lacks, RESOURCE_EXHAUSTED. */
ls_code ls_pack(ls_packed *out, const ls_tensor *t, int64_t row_begin, int64_t n, ls_contract contract, ls_checkpoint *c, ls_pool *pool, uint8_t *place,
                ls_error *e);
void ls_packed_deinit(ls_packed *w); /* fine on a zeroed struct */

/* Row |row| of |w|, of a format of integers (w->form.quantised), as ls_tensor_row_values gives it: f32 [K], but for the sign of a zero (pack_rows.c). */
void ls_packed_row(const ls_packed *w, int64_t row, float *out);

/* Bytes of |w|'s data. */
size_t ls_packed_bytes(const ls_packed *w);

/* FAILED_PRECONDITION when the matrices of pack file |p| are of another layout (executor_weights.c). */
struct ls_packfile;
ls_code ls_pack_check_layout(const struct ls_packfile *p, ls_error *e);

/* ---- Mantissas of float weights (pack_floats.c) ----------------------------------------------------------------- */

/* Writes one span of a float row, mantissas u [32] of |kind|, as lane |lane| of |span|. Under exact24 |u| <= 127 * 2^16, under exact16 127 * 2^8. */
void ls_pack_float_span(ls_pack_kind kind, uint8_t *span, int lane, const int32_t *u);

/* Bytes q [32] as lane |lane| of a plane of whole bytes (pack.c). */
void ls_pack_byte_span(uint8_t *span, int lane, const uint8_t *q);

/* ---- Scale entries (pack_scales.c) ----------------------------------------------------------------------------- */

/* How |t|'s scales are stored: sets scales, super, entry_bytes and super_bytes of |w|, whose form is set. */
void ls_pack_scales_layout(ls_packed *w, const ls_tensor *t);

/* Writes row |row| of |t| as lane |lane| of a tile's scale and super entries. scale, min: f32 [stored groups], as
 * ls_tensor_row_quant gives them. |factors|: scratch of 2 * stored groups + 256 floats. */
void ls_pack_scales_row(const ls_packed *w, const ls_tensor *t, int64_t row, uint8_t *tile, int lane, const float *scale, const float *min,
                        float *factors);

#endif
