/* What lockstep knows about each GGUF architecture: its Hugging Face names, and what the converter did to the weights.
 * Private to src/weights. */
#ifndef LS_WEIGHTS_GGUF_ARCH_H
#define LS_WEIGHTS_GGUF_ARCH_H

#include "weights/checkpoint.h"

/* "attn_q" -> "self_attn.q_proj". Inside a block both are relative to the block. */
typedef struct ls_gguf_rename {
    const char *gguf, *hf;
} ls_gguf_rename;

typedef enum ls_gguf_flag {
    LS_GGUF_PERMUTED = 1,     /* q and k rows are reordered so that rotary pairs are neighbours */
    LS_GGUF_NORM_HAS_ONE = 2, /* norm weights are stored as 1 + weight */
    LS_GGUF_SANDWICH = 4,     /* norms before and after both halves of a block: ffn_norm is the one before the MLP */
    LS_GGUF_GELU_TANH = 8     /* the activation is tanh-approximated GELU; SiLU otherwise */
} ls_gguf_flag;

typedef struct ls_gguf_arch {
    const char *name;       /* general.architecture */
    const char *model_type; /* of config.json */
    const char *class_name; /* of config.json's "architectures" */
    unsigned flags;
    const ls_gguf_rename *own; /* renames that go before the common ones; ends with a NULL name; may be NULL */
    int window_pattern;        /* every n-th layer attends to everything; 0: no such pattern */
} ls_gguf_arch;

/* NULL when not supported. */
const ls_gguf_arch *ls_gguf_arch_find(const char *name);

/* Hugging Face name of GGUF tensor |name|, in |out|; a name without a translation is kept. *split is set when the
 * tensor stacks one tensor per head along its first axis: |out| then has one "%d" for the head. */
ls_code ls_gguf_name(const ls_gguf_arch *arch, const char *name, char out[LS_MAX_NAME_BYTES], bool *split, ls_error *e);

#endif
