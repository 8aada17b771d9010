/* SHA-1, written from FIPS 180-4. */
#include "cli/sha1.h"

#include <string.h>

static uint32_t rotl(uint32_t x, int n) { return x << n | x >> (32 - n); }

static uint32_t mix(int round, const uint32_t v[5]) {
    if (round < 20) return ((v[1] & v[2]) | (~v[1] & v[3])) + 0x5A827999;
    if (round < 40) return (v[1] ^ v[2] ^ v[3]) + 0x6ED9EBA1;
    if (round < 60) return ((v[1] & v[2]) | (v[1] & v[3]) | (v[2] & v[3])) + 0x8F1BBCDC;
    return (v[1] ^ v[2] ^ v[3]) + 0xCA62C1D6;
}

static void compress(uint32_t s[5], const uint8_t *p) {
    uint32_t w[80], v[5];
    for (int i = 0; i < 16; i++) w[i] = (uint32_t)p[4 * i] << 24 | (uint32_t)p[4 * i + 1] << 16 | (uint32_t)p[4 * i + 2] << 8 | p[4 * i + 3];
    for (int i = 16; i < 80; i++) w[i] = rotl(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
    memcpy(v, s, sizeof v);
    for (int i = 0; i < 80; i++) {
        uint32_t t = rotl(v[0], 5) + mix(i, v) + v[4] + w[i];
        v[4] = v[3];
        v[3] = v[2];
        v[2] = rotl(v[1], 30);
        v[1] = v[0];
        v[0] = t;
    }
    for (int i = 0; i < 5; i++) s[i] += v[i];
}

void sha1_init(sha1 *h) { *h = (sha1){.state = {0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476, 0xC3D2E1F0}}; }

void sha1_update(sha1 *h, const void *data, size_t len) {
    const uint8_t *p = data;
    for (size_t n; len; p += n, len -= n) {
        size_t fill = h->bytes % 64;
        n = len < 64 - fill ? len : 64 - fill;
        memcpy(h->block + fill, p, n);
        h->bytes += n;
        if (fill + n == 64) compress(h->state, h->block);
    }
}

void sha1_final(sha1 *h, char hex[41]) {
    uint64_t bits = h->bytes * 8;
    uint8_t pad[72] = {0x80};
    size_t n = (h->bytes % 64 < 56 ? 56 : 120) - h->bytes % 64;
    for (int i = 0; i < 8; i++) pad[n + (size_t)i] = (uint8_t)(bits >> (56 - 8 * i));
    sha1_update(h, pad, n + 8);
    for (int i = 0; i < 40; i++) hex[i] = "0123456789abcdef"[h->state[i / 8] >> (28 - 4 * (i % 8)) & 15];
    hex[40] = 0;
}
