/* Weights: one read-only view over a checkpoint, whatever its container.
 *
 * A checkpoint is a GGUF file, one safetensors file, a Hugging Face folder, or a pack file (packfile.h). Opening it maps the files, checks every
 * size, and presents (a) the configuration as Hugging Face JSON, (b) tensors under their Hugging Face names
 * ("model.layers.0.self_attn.q_proj.weight"). Nothing is copied or converted at open: a tensor points into the map.
 *
 * Quantised tensors are presented as integers with scales:  w[r, k] = scale[r, g] * (q[r, k] - zero) + min[r, g],
 * g = k / group. |zero| is a constant of the format; |min| exists only in affine formats. */
#ifndef LS_WEIGHTS_WEIGHTS_H
#define LS_WEIGHTS_WEIGHTS_H

#include "base/json.h"

typedef enum ls_format {
    LS_F32, LS_F16, LS_BF16,
    LS_Q4_0, LS_Q4_1, LS_Q5_0, LS_Q5_1, LS_Q8_0, LS_Q2_K, LS_Q3_K, LS_Q4_K, LS_Q5_K, LS_Q6_K, LS_IQ4_NL, /* GGUF */
    LS_MLX_AFFINE,  /* u32 words, lowest bits first; scales and biases in separate tensors */
    LS_I32, LS_I64, /* only for tables such as token type ids; never a matrix operand */
    LS_OTHER,       /* a dtype that is listed but cannot be read; |dtype| of the tensor names it */
    LS_FORMAT_COUNT
} ls_format;

/* What a format is, without any tensor: constants for kernels, packers and messages. */
typedef struct ls_format_info {
    const char *name;      /* "Q4_K" */
    int bits;              /* of one stored integer; 16 or 32 for float formats */
    int group;             /* weights that share one scale; 0 for float formats and MLX (see the tensor) */
    int zero;              /* constant subtracted from the stored unsigned integer */
    bool has_min;          /* affine: has a per-group minimum (added) */
    int block, block_bytes;/* GGUF block: weights and bytes; 1 and the element size for float and integer formats; 0 for
                            * MLX and LS_OTHER */
} ls_format_info;

const ls_format_info *ls_format_get(ls_format f);

enum { LS_TENSOR_MAX_RANK = 6 };

/* One tensor. |data| points into the checkpoint's map (borrowed: valid until the checkpoint is closed; NULL when the
 * tensor is empty, or a pack file holds it only as packed matrices; no alignment is promised for safetensors).
 * Shape is row-major with the last axis fastest: a linear
 * weight is [out, in]; stacked experts are [experts, out, in] and named "...mlp.experts.gate_proj.weight", whether GGUF
 * ("ffn_gate_exps") or MLX ("switch_mlp.gate_proj") stacked them. Hugging Face's own files have one an expert. */
typedef struct ls_tensor {
    const char *name;   /* Hugging Face name */
    const char *dtype;  /* as the file spells it: "Q4_K", "BF16", "U32", "F8_E4M3" */
    ls_format format;
    int rank;           /* 0 to LS_TENSOR_MAX_RANK */
    int64_t shape[LS_TENSOR_MAX_RANK]; /* logical elements, also for packed formats */
    const void *data;
    size_t bytes;
    /* MLX affine only: */
    int mlx_bits, mlx_group;          /* 2 3 4 6 8; 32 64 128 */
    ls_format scale_format;           /* LS_F16, LS_BF16 or LS_F32 for both tensors below */
    const void *scales, *biases;      /* [..., out, in / group], |scale_bytes| each */
    size_t scale_bytes;
} ls_tensor;

typedef struct ls_checkpoint ls_checkpoint;

/* Opens |path|: a pack file, a .gguf file, a .safetensors file, or a folder with config.json and (sharded) safetensors or one .gguf.
 * Errors name the file or tensor: NOT_FOUND, INVALID_ARGUMENT, DATA_LOSS (truncated), UNIMPLEMENTED (format). */
ls_code ls_checkpoint_open(ls_checkpoint **out, const char *path, ls_error *e);
void ls_checkpoint_close(ls_checkpoint *c);

/* The configuration in Hugging Face form (for GGUF: translated from metadata; "model_type", "hidden_size", ...). A bare
 * safetensors file takes config.json beside it, or has an empty object. Borrowed. For GGUF these keys are added:
 *   "rope_interleaved": true     where the converter permuted q/k rows (llama architecture): rotate pairs (2i, 2i + 1);
 *   "norm_weight_has_one": true  where it stored 1 + weight (Gemma): multiply by the weight itself;
 *   "rope_scaling": {"rope_type": "llama3", "factors": [head_dim / 2 divisors of inv_freq]} from rope_freqs.weight. */
const json_t *ls_checkpoint_config(const ls_checkpoint *c);

/* generation_config.json, or its equivalent from GGUF metadata; an empty object when absent. Borrowed. */
const json_t *ls_checkpoint_generation_config(const ls_checkpoint *c);

/* Raw GGUF metadata for the tokenizer and template, as one flat JSON object ("tokenizer.ggml.tokens": [...]); NULL when
 * not a GGUF, or dropped. Strings hold the file's bytes, which may be no valid UTF-8; u64 values above INT64_MAX become reals. */
const json_t *ls_checkpoint_gguf_metadata(const ls_checkpoint *c);

/* Folder that holds the checkpoint's side files (tokenizer.json, ...), or NULL for a bare GGUF. */
const char *ls_checkpoint_folder(const ls_checkpoint *c);

/* Finds a tensor by Hugging Face name; NULL when absent. Marks it as consumed (not thread-safe). */
const ls_tensor *ls_checkpoint_find(ls_checkpoint *c, const char *name);

/* All tensors in name order. */
size_t ls_checkpoint_count(const ls_checkpoint *c);
const ls_tensor *ls_checkpoint_at(const ls_checkpoint *c, size_t i);
size_t ls_checkpoint_index(const ls_checkpoint *c, const ls_tensor *t); /* of |t|; SIZE_MAX when it is none of them */

/* Name of the i-th tensor nobody looked up, NULL past the end: reported after a model is built. */
const char *ls_checkpoint_unused(const ls_checkpoint *c, size_t i);

/* Tells the system that |t|'s mapped pages will not be read again (after packing). |c| NULL: the tensor is not in a file. */
void ls_checkpoint_forget(ls_checkpoint *c, const ls_tensor *t);

/* The same for rows [begin, begin + n) of |t|; whole pages only. Threads may call it at once. */
void ls_checkpoint_forget_rows(ls_checkpoint *c, const ls_tensor *t, int64_t begin, int64_t n);

/* The same for all files. */
void ls_checkpoint_forget_files(ls_checkpoint *c);

/* Gives back the GGUF metadata and the pages it was read from: a vocabulary takes as much memory there as in the tokenizer
 * built from it. ls_checkpoint_gguf_metadata gives NULL from then on. */
void ls_checkpoint_drop_metadata(ls_checkpoint *c);

enum { LS_SHAPE_TEXT = 128 };

/* The shape for a message: "3, 8, 8". */
void ls_shape_text(const ls_tensor *t, char out[LS_SHAPE_TEXT]);

/* SHA-256 (hex) of the weight schema (name, format, shape of every tensor in name order) and, separately, of all bytes
 * (name, data, scales and biases of every tensor in name order); of a pack file, the digest of the checkpoint it was made from. */
ls_code ls_checkpoint_schema_sha256(const ls_checkpoint *c, char hex[65], ls_error *e);
ls_code ls_checkpoint_bytes_sha256(const ls_checkpoint *c, char hex[65], ls_error *e);

/* Under an exact contract every weight is below this in magnitude (docs/contracts.md, section 1). */
#define LS_WEIGHT_LIMIT 0x1p40f

/* Checks that |t| may be computed with: a readable format (UNIMPLEMENTED otherwise) whose every scale and value is finite, or
 * for ls_tensor_check_weight also below LS_WEIGHT_LIMIT (INVALID_ARGUMENT naming the tensor and the flat index). Reads every
 * float, or every scale. */
ls_code ls_tensor_check_finite(const ls_tensor *t, ls_error *e);
ls_code ls_tensor_check_weight(const ls_tensor *t, ls_error *e);

/* Part |part| of |parts| of ls_tensor_check_weight, for threads to share: all are LS_OK exactly when it is. Indices in messages count from the part's
 * beginning. Part 0 has the whole of MLX tensors. */
ls_code ls_tensor_check_weight_part(const ls_tensor *t, int part, int parts, ls_error *e);

/* Dequantises row |row| (rows count over all leading axes) to f32 [in], by the format's own definition: equal bit for
 * bit to the `gguf` package's dequantize and to MLX's dequantize, which computes in the dtype of the scales: with f16
 * or bf16 scales the product is rounded to that dtype, then the sum. I32 and I64 convert (nearest even); LS_OTHER gives
 * NaN. */
void ls_tensor_row_f32(const ls_tensor *t, int64_t row, float *out);

/* The row as the numbers a model computes with: as ls_tensor_row_f32, except that MLX scales and biases are widened to f32
 * before q * scale is rounded and + bias is rounded. The rounding to their own dtype that MLX's `dequantize` adds belongs to
 * that function, not to the weights: MLX's matrix products do not have it either. */
void ls_tensor_row_values(const ls_tensor *t, int64_t row, float *out);

/* Splits row |row| into its integers. q [in]: stored unsigned integers (uint8; signed formats are offset by |zero|).
 * scale [in / group], min [in / group] (min untouched when the format has none): f32, exact products of the stored
 * factors (Q4_K: d * sc; min is -dmin * m). scale * (q - zero) + min in exact arithmetic is the weight before rounding.
 * IQ4_NL: q is the codebook entry + 128 (16 of the 256 values occur), zero 128. Only for quantised formats. */
void ls_tensor_row_quant(const ls_tensor *t, int64_t row, uint8_t *q, float *scale, float *min);

/* Group size of |t|'s scales (MLX: from the tensor), and its row count (product of all axes but the last). */
int ls_tensor_group(const ls_tensor *t);
int64_t ls_tensor_rows(const ls_tensor *t);

/* Half-precision widening, exact. */
float ls_f16_to_f32(uint16_t h);
float ls_bf16_to_f32(uint16_t h);
uint16_t ls_f32_to_f16(float f);  /* round to nearest even; overflow to infinity */
uint16_t ls_f32_to_bf16(float f); /* round to nearest even */

#endif
