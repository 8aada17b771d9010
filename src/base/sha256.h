/* SHA-256 (FIPS 180-4), for fingerprints and identities. */
#ifndef LS_BASE_SHA256_H
#define LS_BASE_SHA256_H

#include <stddef.h>
#include <stdint.h>

typedef struct ls_sha256 {
    uint32_t state[8];
    uint64_t bytes;
    uint8_t block[64];
} ls_sha256;

void ls_sha256_init(ls_sha256 *h);
void ls_sha256_update(ls_sha256 *h, const void *data, size_t len);
void ls_sha256_final(ls_sha256 *h, uint8_t digest[32]);
void ls_sha256_hex(const uint8_t digest[32], char hex[65]); /* lowercase, NUL-terminated */

/* The digest of |len| bytes, as bytes and as hex. */
void ls_sha256_of(const void *data, size_t len, uint8_t digest[32]);
void ls_sha256_hex_of(const void *data, size_t len, char hex[65]);

#endif
