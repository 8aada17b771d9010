/* The inner function of SHA-256, one per instruction set. Private to src/base/sha256*.c and its test. */
#ifndef LS_BASE_SHA256_BLOCKS_H
#define LS_BASE_SHA256_BLOCKS_H

#include <stddef.h>
#include <stdint.h>

/* Takes |blocks| blocks of 64 bytes at |data| into |state|. */
typedef void ls_sha256_blocks_fn(uint32_t state[8], const uint8_t *data, size_t blocks);

extern const uint32_t ls_sha256_constants[64]; /* K of FIPS 180-4, section 4.2.2 */

ls_sha256_blocks_fn ls_sha256_blocks_c;

/* The function on the SHA instructions of x86; NULL where the build or the processor has none. */
ls_sha256_blocks_fn *ls_sha256_blocks_x86(void);

#endif
