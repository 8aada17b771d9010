/* SHA-256, written from FIPS 180-4; processors with the SHA instructions use them (sha256_x86.c), with the same digests. */
#include "base/sha256.h"

#include <stdatomic.h>
#include <string.h>

#include "base/sha256_blocks.h"

const uint32_t ls_sha256_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be,
    0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa,
    0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85,
    0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3,
    0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f,
    0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t rotr(uint32_t x, int n) { return x >> n | x << (32 - n); }

static void compress_one(uint32_t s[8], const uint8_t *p) {
    uint32_t w[64];
    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)p[4 * i] << 24 | (uint32_t)p[4 * i + 1] << 16 | (uint32_t)p[4 * i + 2] << 8 | p[4 * i + 3];
    for (int i = 16; i < 64; i++) {
        uint32_t a = w[i - 15], b = w[i - 2];
        w[i] = w[i - 16] + (rotr(a, 7) ^ rotr(a, 18) ^ a >> 3) + w[i - 7] + (rotr(b, 17) ^ rotr(b, 19) ^ b >> 10);
    }
    uint32_t v[8];
    memcpy(v, s, sizeof v);
    for (int i = 0; i < 64; i++) {
        uint32_t s1 = rotr(v[4], 6) ^ rotr(v[4], 11) ^ rotr(v[4], 25), ch = (v[4] & v[5]) ^ (~v[4] & v[6]);
        uint32_t t1 = v[7] + s1 + ch + ls_sha256_constants[i] + w[i];
        uint32_t s0 = rotr(v[0], 2) ^ rotr(v[0], 13) ^ rotr(v[0], 22), maj = (v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]);
        memmove(v + 1, v, 7 * sizeof *v);
        v[4] += t1;
        v[0] = t1 + s0 + maj;
    }
    for (int i = 0; i < 8; i++) s[i] += v[i];
}

void ls_sha256_blocks_c(uint32_t state[8], const uint8_t *data, size_t blocks) {
    for (; blocks; blocks--, data += 64) compress_one(state, data);
}

/* Chosen at the first call; threads that choose at once choose alike. */
static void compress(uint32_t state[8], const uint8_t *data, size_t blocks) {
    static _Atomic(ls_sha256_blocks_fn *) chosen;
    ls_sha256_blocks_fn *f = atomic_load_explicit(&chosen, memory_order_relaxed);
    if (!f) {
        f = ls_sha256_blocks_x86();
        if (!f) f = ls_sha256_blocks_c;
        atomic_store_explicit(&chosen, f, memory_order_relaxed);
    }
    f(state, data, blocks);
}

void ls_sha256_init(ls_sha256 *h) {
    static const uint32_t init[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    memcpy(h->state, init, sizeof init);
    h->bytes = 0;
}

void ls_sha256_update(ls_sha256 *h, const void *data, size_t len) {
    const uint8_t *p = data;
    size_t fill = h->bytes % 64;
    h->bytes += len;
    if (fill) {
        size_t n = len < 64 - fill ? len : 64 - fill;
        memcpy(h->block + fill, p, n);
        p += n;
        len -= n;
        if (fill + n < 64) return;
        compress(h->state, h->block, 1);
    }
    if (len >= 64) compress(h->state, p, len / 64);
    if (len % 64) memcpy(h->block, p + len / 64 * 64, len % 64);
}

void ls_sha256_final(ls_sha256 *h, uint8_t digest[32]) {
    uint64_t bits = h->bytes * 8;
    uint8_t pad[72] = {0x80};
    size_t n = (h->bytes % 64 < 56 ? 56 : 120) - h->bytes % 64;
    for (int i = 0; i < 8; i++) pad[n + (size_t)i] = (uint8_t)(bits >> (56 - 8 * i));
    ls_sha256_update(h, pad, n + 8);
    for (int i = 0; i < 32; i++) digest[i] = (uint8_t)(h->state[i / 4] >> (24 - 8 * (i % 4)));
}

void ls_sha256_hex(const uint8_t digest[32], char hex[65]) {
    for (int i = 0; i < 32; i++) {
        hex[2 * i] = "0123456789abcdef"[digest[i] >> 4];
        hex[2 * i + 1] = "0123456789abcdef"[digest[i] & 15];
    }
    hex[64] = 0;
}

void ls_sha256_of(const void *data, size_t len, uint8_t digest[32]) {
    ls_sha256 h;
    ls_sha256_init(&h);
    ls_sha256_update(&h, data, len);
    ls_sha256_final(&h, digest);
}

void ls_sha256_hex_of(const void *data, size_t len, char hex[65]) {
    uint8_t digest[32];
    ls_sha256_of(data, len, digest);
    ls_sha256_hex(digest, hex);
}
