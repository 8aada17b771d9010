/* Inside of a checkpoint: what the container readers fill and ls_checkpoint_open seals. Private to src/weights. */
#ifndef LS_WEIGHTS_CHECKPOINT_H
#define LS_WEIGHTS_CHECKPOINT_H

#include "weights/packfile.h"

enum {
    LS_MAX_TENSORS = 1 << 20,
    LS_MAX_FILES = 4096,
    LS_MAX_CONFIG_BYTES = 16 << 20,
    LS_MAX_INDEX_BYTES = 64 << 20,
    LS_MAX_NAME_BYTES = 1024
};

/* A mapped file. Its path is kept for messages. */
typedef struct ls_weight_file {
    ls_map map;
    const char *path;
} ls_weight_file;

typedef struct ls_entry {
    ls_tensor t;
    const char *path; /* of the file it came from */
    bool used;
    bool dropped;     /* folded into another tensor (MLX scales and biases); removed by the seal */
} ls_entry;

struct ls_checkpoint {
    ls_arena *arena;
    ls_weight_file *files;
    size_t n_files, cap_files;
    ls_entry *entries; /* in name order once sealed */
    size_t n, cap;
    json_t *config, *generation, *metadata;
    const char *folder;
    struct ls_packfile *pack; /* NULL unless the checkpoint is a pack file */
};

/* Maps |path| (arena or static) and parses it: a pack file by its first bytes, others by their ending, ".gguf" or ".safetensors". */
ls_code ls_checkpoint_add_file(ls_checkpoint *c, const char *path, ls_error *e);

/* Adds a tensor (copied; its strings must live in the arena or be static) that came from |path|. */
ls_code ls_checkpoint_add(ls_checkpoint *c, const ls_tensor *t, const char *path, ls_error *e);

/* Sorts by name, drops folded tensors and refuses two tensors of one name, naming both files. */
ls_code ls_checkpoint_seal(ls_checkpoint *c, ls_error *e);

/* Finds an entry of a sealed checkpoint without marking it; NULL when absent. */
ls_entry *ls_checkpoint_entry(const ls_checkpoint *c, const char *name);

/* Number of elements of |shape|; false when an axis is negative or the axes above 0 multiply past int64. */
bool ls_shape_elements(const int64_t *shape, int rank, int64_t *out);

/* An empty checkpoint with empty configurations, and the last step of opening: seals, folds MLX tensors or translates
 * GGUF metadata. Between the two come one or more of the readers below. */
ls_code ls_checkpoint_create(ls_checkpoint **out, ls_error *e);
ls_code ls_checkpoint_finish(ls_checkpoint *c, ls_error *e);

/* Container readers: check |size| bytes at |data| and add their tensors, which point into |data|. |path| (arena or
 * static) is for messages. The GGUF reader also sets c->metadata. */
ls_code ls_safetensors_parse(ls_checkpoint *c, const uint8_t *data, size_t size, const char *path, ls_error *e);
ls_code ls_gguf_parse(ls_checkpoint *c, const uint8_t *data, size_t size, const char *path, ls_error *e);
ls_code ls_packfile_parse(ls_checkpoint *c, const uint8_t *data, size_t size, const char *path, ls_error *e);

/* A Hugging Face folder: configurations and every weight file. */
ls_code ls_folder_add(ls_checkpoint *c, const char *path, ls_error *e);

/* Reads config.json and generation_config.json of |folder|; an absent file keeps an empty object unless |required|. */
ls_code ls_folder_configs(ls_checkpoint *c, const char *folder, bool required, ls_error *e);

/* Folds "<name>.weight" (U32), ".scales" and ".biases" into LS_MLX_AFFINE tensors, as the config's "quantization"
 * describes, and names stacked experts alike. Needs a sealed checkpoint; seal again afterwards. */
ls_code ls_mlx_fold(ls_checkpoint *c, ls_error *e);

/* Translates c->metadata of a sealed checkpoint into c->config and c->generation. */
ls_code ls_gguf_config(ls_checkpoint *c, ls_error *e);

/* Splits row |row| of a GGUF block format; the contract of ls_tensor_row_quant. */
void ls_blocks_row_quant(const ls_tensor *t, int64_t row, uint8_t *q, float *scale, float *min);

/* Reads one LS_F32, LS_F16 or LS_BF16 value from any address; rounds |x| to what such a value can hold, as a
 * computation in that dtype does after every step. */
float ls_load_float(ls_format f, const uint8_t *p);
float ls_round_float(ls_format f, float x);

/* |n| f16 values at any address, widened. */
void ls_f16_row_to_f32(const uint8_t *p, int64_t n, float *out);

/* Little-endian loads from any address. */
static inline uint16_t ls_load_u16(const uint8_t *p) { return (uint16_t)(p[0] | p[1] << 8); }
static inline uint32_t ls_load_u32(const uint8_t *p) { return ls_load_u16(p) | (uint32_t)ls_load_u16(p + 2) << 16; }
static inline uint64_t ls_load_u64(const uint8_t *p) { return ls_load_u32(p) | (uint64_t)ls_load_u32(p + 4) << 32; }

#endif
