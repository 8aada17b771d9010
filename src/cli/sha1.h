/* SHA-1 (FIPS 180-4): only to check git blob ids of downloaded files. */
#ifndef LS_CLI_SHA1_H
#define LS_CLI_SHA1_H

#include <stddef.h>
#include <stdint.h>

typedef struct sha1 {
    uint32_t state[5];
    uint64_t bytes;
    uint8_t block[64];
} sha1;

void sha1_init(sha1 *h);
void sha1_update(sha1 *h, const void *data, size_t len);
void sha1_final(sha1 *h, char hex[41]); /* lowercase, NUL-terminated */

#endif
