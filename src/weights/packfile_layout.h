/* Places inside a pack file's header and section table, and the digests that reader, checker and writer share. Private to src/weights/packfile*.c. */
#ifndef LS_WEIGHTS_PACKFILE_LAYOUT_H
#define LS_WEIGHTS_PACKFILE_LAYOUT_H

#include "weights/packfile.h"

/* Byte offsets in the header; the magic is at 0. */
enum {
    LS_AT_FORMAT = 8, LS_AT_SECTIONS = 12, LS_AT_SIZE = 16, LS_AT_LAYOUT = 24, LS_AT_CONTRACT = 28, LS_AT_CONTRACT_VERSION = 32, LS_AT_FINGERPRINT = 40,
    LS_AT_SCHEMA = 72, LS_AT_WEIGHTS = 104, LS_AT_DIGEST = 224
};

/* Byte offsets in an entry of the section table; its number is at 0. */
enum { LS_AT_OFFSET = 8, LS_AT_BYTES = 16, LS_AT_SHA256 = 24 };

/* Digest of the header before LS_AT_DIGEST and of the section table behind it. */
void ls_packfile_header_sha256(const uint8_t *file, uint32_t sections, uint8_t digest[32]);

/* Digest of a stored tensor: its data, then MLX's scales and biases. */
void ls_packfile_tensor_sha256(const ls_tensor *t, uint8_t digest[32]);

#endif
