/* A prepared prefill from the inside: the owned payload, and what admission makes of it for forward passes. */
#ifndef LS_SESSION_PREPARED_H
#define LS_SESSION_PREPARED_H

#include "graph/executor.h"

enum { LS_FAMILY_BYTES = 32 };

/* What entered at positions from |position| on beside the token ids: a digest of embeddings, blocks and the tokens in blocks up to the next plain
 * position. */
typedef struct ls_prepared_extra {
    size_t position;
    uint8_t sha256[32];
} ls_prepared_extra;

struct ls_prepared_prefill {
    int holders;
    int32_t *token;        /* [n] */
    size_t n, length;
    ls_array embeddings, positions, bias; /* |data| owned */
    size_t *at;            /* [rows]; NULL: every position */
    bool causal;
    ls_prepared_block *block; /* [n_blocks] */
    size_t n_blocks;
    ls_modality *modality; /* [n_modalities], |family| within |family_text| */
    char (*family_text)[LS_FAMILY_BYTES];
    size_t n_modalities;
    /* Made by the first admission that succeeds. */
    const float **row;     /* [n] embedding of each position, or NULL */
    ls_span *span;         /* [n] block of each position */
    ls_prepared_extra *extra; /* [n_extra] ascending */
    size_t n_extra;
};

/* What a session can take. */
typedef struct ls_prepared_limits {
    int64_t hidden, vocab;
    int context, max_rows; /* max_rows: of one forward pass */
} ls_prepared_limits;

/* Checks |p| in the order of ls_prepared_fault and makes the rows of passes. *why receives the fault. */
ls_code ls_prepared_admit(ls_prepared_prefill *p, const ls_prepared_limits *l, int max_new, ls_prepared_fault *why, ls_error *e);

void ls_prepared_hold(ls_prepared_prefill *p);

/* Rows from |begin| on that one pass of about |most| rows takes without splitting a block: as many as fit, or the first block. At least one. */
size_t ls_prepared_piece(const ls_prepared_prefill *p, size_t begin, size_t most);

/* The mask as blocks (prepared_mask.c): from the bias where there is one. |span| [n] zeroed. */
ls_code ls_prepared_mask(const ls_prepared_prefill *p, ls_span *span, ls_prepared_fault *why, ls_error *e);

#endif
