/* Pack files: one file that holds a model ready to run, made by `lockstep pack`. docs/pack.md is the normative description.
 *
 * A header, a table of sections, and the sections in a fixed order, each at a multiple of 4096 bytes. A pack file is opened like any checkpoint:
 * its tensors keep their names, formats and shapes, but only those that are read as they are (norms, biases, embedding tables) have |data|. Matrices
 * are there in the form that the native executor computes with, under ls_checkpoint_matrix, and are used where they are mapped.
 *
 * Nothing in a file is trusted: the header, the section table and every section but the two large ones are checked against their digests when the
 * file is opened, and every count, offset and size against the file. The large sections are checked part by part by ls_packfile_check. */
#ifndef LS_WEIGHTS_PACKFILE_H
#define LS_WEIGHTS_PACKFILE_H

#include "weights/weights.h"

enum {
    LS_PACK_FORMAT = 1,       /* version of the file format */
    LS_PACK_HEADER = 256,     /* bytes before the section table */
    LS_PACK_ENTRY = 64,       /* bytes of an entry of the section table */
    LS_PACK_ALIGN = 4096,     /* of sections */
    LS_PACK_PART_ALIGN = 64,  /* of tensors and matrices inside their sections */
    LS_PACK_SMALL = 256 << 10 /* bytes of a stored tensor up to which it is checked when the file is opened */
};

#define LS_PACK_MAGIC "LSPACK\x1A\n"

/* In the order of the file; the numbers of the section table are these plus one. */
typedef enum ls_section {
    LS_SECTION_CONFIG,        /* configuration, JSON */
    LS_SECTION_GENERATION,    /* generation configuration, JSON */
    LS_SECTION_TENSORS,       /* names, formats and shapes of all tensors */
    LS_SECTION_MATRICES,      /* which matrices are packed, and where */
    LS_SECTION_TOKENIZER,     /* tables of the tokenizer; optional */
    LS_SECTION_CHAT_TEMPLATE, /* optional, only with a tokenizer */
    LS_SECTION_TENSOR_DATA,   /* tensors as the checkpoint has them */
    LS_SECTION_WEIGHTS,       /* packed matrices */
    LS_SECTION_IMAGES,        /* settings of the image processor, JSON; only of a model that sees */
    LS_SECTION_COUNT
} ls_section;

const char *ls_section_name(ls_section s); /* "config"; static */

/* What a pack file was made from and for. Digests are SHA-256. */
typedef struct ls_pack_identity {
    uint32_t layout;                     /* version of the native executor's layout of packed matrices */
    uint32_t contract, contract_version; /* number (ls_contract) and version */
    uint8_t fingerprint[32];             /* of the graph with the model's own context */
    uint8_t schema[32];                  /* ls_checkpoint_schema_sha256 */
    uint8_t weights[32];                 /* ls_checkpoint_bytes_sha256 of the checkpoint that was packed */
} ls_pack_identity;

/* Rows [row_begin, row_begin + rows) of |tensor|, packed. */
typedef struct ls_pack_matrix {
    const ls_tensor *tensor;
    int64_t row_begin, rows;
    const uint8_t *data; /* [bytes] in the map, aligned to LS_PACK_PART_ALIGN */
    size_t bytes;
    uint8_t sha256[32];
} ls_pack_matrix;

typedef struct ls_pack_span {
    const uint8_t *data; /* NULL: the file has no such section */
    size_t size;
} ls_pack_span;

/* What an open pack file is. Belongs to the checkpoint. */
typedef struct ls_packfile {
    const char *path;
    ls_pack_identity id;
    ls_pack_span file, section[LS_SECTION_COUNT];
    ls_pack_matrix *matrices;        /* [n_matrices] ascending by tensor, row_begin, rows */
    size_t n_matrices;
    const uint8_t (*stored)[32];     /* [tensors] digests of stored tensors; zero where a tensor is not */
} ls_packfile;

/* Whether these first |size| bytes are those of a pack file. */
bool ls_packfile_is(const uint8_t *data, size_t size);

/* The pack file behind |c|; NULL when |c| is no pack file. */
const ls_packfile *ls_checkpoint_pack(const ls_checkpoint *c);

/* The packed matrix of these rows; NULL when the file has none (or |c| is no pack file). */
const ls_pack_matrix *ls_checkpoint_matrix(const ls_checkpoint *c, const ls_tensor *t, int64_t row_begin, int64_t rows);

/* Checks what opening does not: every stored tensor, every packed matrix and the padding. Reads the whole file. |progress| may be NULL. DATA_LOSS naming
 * the section and the tensor. */
ls_code ls_packfile_check(const ls_checkpoint *c, void (*progress)(void *user, double fraction), void *user, ls_error *e);

/* ---- Writing (packfile_write.c) ------------------------------------------------------------------------------------ */

typedef struct ls_pack_source {
    const ls_checkpoint *checkpoint; /* whose configurations and tensors go into the file */
    ls_pack_identity id;
    ls_pack_span tokenizer, chat_template, image_processor; /* data NULL: none */
    const bool *stored;              /* [tensors] goes into the file as it is */
    const ls_pack_matrix *matrices;  /* [n_matrices] ascending; tensors of |checkpoint|; |data| and |sha256| are not read */
    size_t n_matrices;
    /* Gives the bytes of matrix |i|, called once for each in order; valid until the next call. */
    ls_code (*matrix)(void *user, size_t i, const uint8_t **data, ls_error *e);
    void *user;
    void (*progress)(void *user, double fraction); /* NULL: none */
    void *progress_user;
} ls_pack_source;

/* Writes |path| by way of a temporary file beside it, which is synced and renamed at the end and deleted on failure; those that killed processes left of
 * |path| are deleted first. */
ls_code ls_packfile_write(const char *path, const ls_pack_source *s, ls_error *e);

#endif
