/* Hash tables of the tokenizers. */
#include "text/tokenizer_vocab.h"

#include <string.h>

static uint64_t mix(uint64_t x) {
    x ^= x >> 32;
    x *= 0x9E3779B97F4A7C15u;
    x ^= x >> 29;
    x *= 0xBF58476D1CE4E5B9u;
    return x ^ x >> 32;
}

/* One of |slots| < 2^32 places by the high half of a mixed number. */
static size_t slot_of(uint64_t mixed, size_t slots) { return (size_t)((mixed >> 32) * slots >> 32); }

static size_t map_slot(const ls_u64_map *m, uint64_t key) {
    size_t i = slot_of(mix(key), m->slots);
    while (m->pairs[i].value != LS_U64_FREE && m->pairs[i].key != key) i = i + 1 < m->slots ? i + 1 : 0;
    return i;
}

static ls_code map_resize(ls_u64_map *m, size_t slots, ls_error *e) {
    ls_u64_map other = {.slots = slots, .n = m->n};
    if (slots > UINT32_MAX) LS_FAIL(e, LS_RESOURCE_EXHAUSTED, "tokenizer map: %zu slots; at most %u", slots, UINT32_MAX);
    LS_TRY(ls_calloc(&other.pairs, slots, sizeof *other.pairs, "tokenizer map", e));
    for (size_t i = 0; i < slots; i++) other.pairs[i].value = LS_U64_FREE;
    for (size_t i = 0; i < m->slots; i++)
        if (m->pairs[i].value != LS_U64_FREE) other.pairs[map_slot(&other, m->pairs[i].key)] = m->pairs[i];
    ls_free(m->pairs);
    *m = other;
    return LS_OK;
}

ls_code ls_u64_map_put(ls_u64_map *m, uint64_t key, uint64_t value, ls_error *e) {
    if (m->n + 1 > m->slots / 8 * 5) LS_TRY(map_resize(m, m->slots ? m->slots * 2 : 16, e));
    ls_u64_pair *p = &m->pairs[map_slot(m, key)];
    m->n += p->value == LS_U64_FREE;
    *p = (ls_u64_pair){key, value};
    return LS_OK;
}

bool ls_u64_map_get(const ls_u64_map *m, uint64_t key, uint64_t *value) {
    if (!m->slots) return false;
    const ls_u64_pair *p = &m->pairs[map_slot(m, key)];
    if (p->value == LS_U64_FREE) return false;
    *value = p->value;
    return true;
}

ls_code ls_u64_map_fit(ls_u64_map *m, ls_error *e) {
    size_t slots = m->n / 3 * 4 + 16;
    return slots < m->slots ? map_resize(m, slots, e) : LS_OK;
}

void ls_u64_map_deinit(ls_u64_map *m) {
    ls_free(m->pairs);
    *m = (ls_u64_map){0};
}

static uint64_t hash_bytes(const char *s, size_t len) {
    uint64_t h = 0xCBF29CE484222325u ^ len;
    for (; len >= 8; s += 8, len -= 8) {
        uint64_t w;
        memcpy(&w, s, 8);
        h = (h ^ w) * 0x9E3779B97F4A7C15u;
        h ^= h >> 29;
    }
    for (size_t i = 0; i < len; i++) h = (h ^ (unsigned char)s[i]) * 0x100000001B3u;
    return mix(h);
}

/* Length of the text at |offset|: a byte before it, or four before a byte of LONG. */
static size_t length_at(const char *bytes, uint32_t offset) {
    uint32_t len = (unsigned char)bytes[offset - 1];
    if (len == LS_VOCAB_LONG) memcpy(&len, bytes + offset - 1 - sizeof len, sizeof len);
    return len;
}

/* The slot that holds |text|, or the free slot where it would go. */
static size_t vocab_slot(const ls_vocab *v, const char *text, size_t len) {
    size_t i = slot_of(hash_bytes(text, len), v->n_slots);
    for (; v->slots[i]; i = i + 1 < v->n_slots ? i + 1 : 0) {
        uint32_t at = v->entries[v->slots[i] - 1];
        if (length_at(v->bytes.data, at) == len && !memcmp(v->bytes.data + at, text, len)) break;
    }
    return i;
}

static ls_code resize_slots(ls_vocab *v, size_t n_new, ls_error *e) {
    uint32_t *old = v->slots, *fresh = NULL;
    size_t n_old = v->n_slots;
    LS_TRY(ls_calloc(&fresh, n_new, sizeof *fresh, "vocabulary", e));
    v->slots = fresh;
    v->n_slots = n_new;
    for (size_t i = 0; i < n_old; i++) {
        if (!old[i]) continue;
        uint32_t at = v->entries[old[i] - 1];
        fresh[vocab_slot(v, v->bytes.data + at, length_at(v->bytes.data, at))] = old[i];
    }
    ls_free(old);
    return LS_OK;
}

static ls_code reach_id(ls_vocab *v, size_t id, ls_error *e) {
    if (id < v->n_ids) return LS_OK;
    if (id >= v->cap_ids) {
        size_t cap = v->cap_ids > 256 ? v->cap_ids : 256, had = v->cap_ids;
        while (cap <= id) cap *= 2;
        LS_TRY(ls_realloc(&v->entries, cap, sizeof *v->entries, "vocabulary", e));
        memset(v->entries + had, 0, (cap - had) * sizeof *v->entries);
        v->cap_ids = cap;
    }
    v->n_ids = id + 1;
    return LS_OK;
}

static ls_code append_text(ls_vocab *v, const char *text, size_t len, uint32_t *offset, ls_error *e) {
    const uint32_t whole = (uint32_t)len;
    const char byte = (char)(unsigned char)(len < LS_VOCAB_LONG ? len : LS_VOCAB_LONG);
    if (len >= LS_VOCAB_LONG) LS_TRY(ls_str_append(&v->bytes, (const char *)&whole, sizeof whole, e));
    LS_TRY(ls_str_append(&v->bytes, &byte, 1, e));
    *offset = (uint32_t)v->bytes.len;
    LS_TRY(ls_str_append(&v->bytes, text, len, e));
    return ls_str_append(&v->bytes, "", 1, e);
}

ls_code ls_vocab_add(ls_vocab *v, const char *text, size_t len, int64_t id, ls_error *e) {
    if (id < 0) LS_FAIL(e, LS_INVALID_ARGUMENT, "token \"%.64s\": id %lld is negative", text, (long long)id);
    if (id >= LS_VOCAB_MAX_IDS || (id > (1 << 17) && (uint64_t)id > 64 * (uint64_t)(v->n + 1)))
        LS_FAIL(e, LS_RESOURCE_EXHAUSTED, "token \"%.64s\": id %lld is out of proportion to the %zu tokens before it (limit %d)",
                text, (long long)id, v->n, LS_VOCAB_MAX_IDS);
    if (len > LS_VOCAB_MAX_TOKEN_BYTES)
        LS_FAIL(e, LS_RESOURCE_EXHAUSTED, "token %lld has %zu bytes; at most %d are allowed", (long long)id, len, LS_VOCAB_MAX_TOKEN_BYTES);
    if ((size_t)id < v->n_ids && v->entries[id])
        LS_FAIL(e, LS_INVALID_ARGUMENT, "tokens \"%.64s\" and \"%.64s\" share id %lld", v->bytes.data + v->entries[id], text, (long long)id);
    v->bytes.max = LS_VOCAB_MAX_BYTES;
    if (v->n + 1 > v->n_slots / 8 * 5) LS_TRY(resize_slots(v, v->n_slots ? v->n_slots * 2 : 64, e));
    LS_TRY(reach_id(v, (size_t)id, e));
    size_t slot = vocab_slot(v, text, len);
    LS_TRY(append_text(v, text, len, &v->entries[id], e));
    v->slots[slot] = (uint32_t)id + 1;
    v->n++;
    return LS_OK;
}

int32_t ls_vocab_find(const ls_vocab *v, const char *text, size_t len) {
    return v->n_slots ? (int32_t)v->slots[vocab_slot(v, text, len)] - 1 : -1;
}

const char *ls_vocab_text(const ls_vocab *v, int32_t id, size_t *len) {
    if (id < 0 || (size_t)id >= v->n_ids || !v->entries[id]) return NULL;
    if (len) *len = length_at(v->bytes.data, v->entries[id]);
    return v->bytes.data + v->entries[id];
}

bool ls_vocab_is_inside(const char *bytes, size_t size, uint32_t offset) {
    if (!offset || offset >= size) return false;
    if ((unsigned char)bytes[offset - 1] == LS_VOCAB_LONG && offset < 1 + sizeof(uint32_t)) return false;
    size_t len = length_at(bytes, offset);
    return len <= LS_VOCAB_MAX_TOKEN_BYTES && len < size - offset && !bytes[offset + len];
}

ls_code ls_vocab_fit(ls_vocab *v, ls_error *e) {
    size_t slots = v->n / 3 * 4 + 16;
    if (v->n_ids < v->cap_ids) LS_TRY(ls_realloc(&v->entries, v->n_ids, sizeof *v->entries, "vocabulary", e));
    v->cap_ids = v->n_ids;
    return slots < v->n_slots ? resize_slots(v, slots, e) : LS_OK;
}

void ls_vocab_deinit(ls_vocab *v) {
    ls_str_deinit(&v->bytes);
    ls_free(v->entries);
    ls_free(v->slots);
    *v = (ls_vocab){0};
}
