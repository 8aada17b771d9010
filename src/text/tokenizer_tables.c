/* Writing and opening the tables of a tokenizer. A fixed head, a directory of arrays, the arrays. Little-endian, as the machines are that map them. */
#include "text/tokenizer_tables.h"

#include <math.h>
#include <string.h>

#include "text/tokenizer_build.h"

/* The arrays, in the order of the directory and of the file. */
typedef enum table {
    TABLE_PARTS,         /* JSON text of normalizer, pre_tokenizer and decoder */
    TABLE_CHARSMAP,      /* SentencePiece's character map */
    TABLE_TEXT,          /* texts of the vocabulary, each behind its length and with a NUL */
    TABLE_ENTRIES,       /* u32 by id: where its text begins; 0 for none */
    TABLE_SLOTS,         /* u32 hash table of ids + 1 */
    TABLE_MERGES,        /* u64 by left and right token: tokenizer_merges.h */
    TABLE_LEFT,          /* u32 [ids + 1] where the merges of each left token begin; empty without merges of byte-pair encoding */
    TABLE_EDGES,         /* ls_u64_pair hash table of the trie */
    TABLE_VALUES,        /* i32 by node of the trie */
    TABLE_ROOT,          /* u32 [256] children of node 0; empty without a trie */
    TABLE_SCORES,        /* f64 by id */
    TABLE_ADDED,         /* records of added tokens */
    TABLE_BEFORE,        /* i32 ids before a sequence */
    TABLE_AFTER,         /* i32 ids after a sequence */
    TABLE_PREFIX,        /* text with NUL, or empty */
    TABLE_SUFFIX,
    TABLE_COUNT
} table;

typedef struct shape {
    const char *name;
    size_t element;
} shape;

static const shape shapes[TABLE_COUNT] = {{"parts", 1},  {"charsmap", 1}, {"text", 1},   {"entries", 4}, {"slots", 4},
                                          {"merges", 8}, {"left", 4},    {"edges", 16}, {"values", 4}, {"root", 4},
                                          {"scores", 8}, {"added", 1},    {"before", 4}, {"after", 4},  {"prefix", 1},  {"suffix", 1}};

_Static_assert(sizeof(ls_u64_pair) == 16, "the tables are the arrays of tokenizer_vocab.h");

/* The head of the tables: 64-bit fields, so that it has no padding. */
typedef struct head {
    uint32_t version, flags;
    int32_t unk, bos, eos, reserved;
    double unk_score;
    uint64_t at[TABLE_COUNT], count[TABLE_COUNT]; /* byte offset from the head, and elements */
} head;

enum { ALIGN = 16 };

enum { FLAG_UNIGRAM = 1, FLAG_BYTE_FALLBACK = 2, FLAG_FUSE_UNK = 4, FLAG_IGNORE_MERGES = 8, FLAG_SINGLE = 16, FLAG_SENTENCEPIECE = 32, FLAG_TRIM = 64,
       FLAGS_ALL = 127 };

/* An added token's record: id, flags, bytes of its text, the text. */
enum { ADDED_SPECIAL = 1, ADDED_WORD = 2, ADDED_LSTRIP = 4, ADDED_RSTRIP = 8, ADDED_NORMALIZED = 16, ADDED_ALL = 31 };

/* ---- Writing ------------------------------------------------------------------------------------------------------- */

static ls_code put(head *h, ls_str *out, size_t begin, table i, const void *data, size_t count, ls_error *e) {
    static const char zero[ALIGN];
    size_t pad = (ALIGN - (out->len - begin) % ALIGN) % ALIGN;
    LS_TRY(ls_str_append(out, zero, pad, e));
    h->at[i] = out->len - begin;
    h->count[i] = count;
    return count ? ls_str_append(out, data, count * shapes[i].element, e) : LS_OK;
}

static int append(const char *bytes, size_t n, void *user) { return ls_str_append(user, bytes, n, NULL) ? -1 : 0; }

static ls_code put_added(const ls_added *a, ls_str *records, ls_error *e) {
    for (size_t i = 0; i < a->n; i++) {
        const ls_added_token *t = &a->tokens[i];
        uint32_t flags = (t->special ? ADDED_SPECIAL : 0) | (t->single_word ? ADDED_WORD : 0) | (t->lstrip ? ADDED_LSTRIP : 0) |
                         (t->rstrip ? ADDED_RSTRIP : 0) | (t->normalized ? ADDED_NORMALIZED : 0);
        const uint32_t fields[3] = {(uint32_t)t->id, flags, (uint32_t)t->len};
        LS_TRY(ls_str_append(records, (const char *)fields, sizeof fields, e));
        LS_TRY(ls_str_append(records, t->text, t->len, e));
    }
    return LS_OK;
}

static ls_code put_arrays(const ls_tokenizer *t, head *h, ls_str *out, size_t begin, const ls_str *parts, const ls_str *added, ls_error *e) {
    const ls_token_model *m = &t->model;
    const ls_vocab *v = &m->vocab;
    LS_TRY(put(h, out, begin, TABLE_PARTS, parts->data, parts->len, e));
    LS_TRY(put(h, out, begin, TABLE_CHARSMAP, t->sources.charsmap.data, t->sources.charsmap.len, e));
    LS_TRY(put(h, out, begin, TABLE_TEXT, v->bytes.data, v->bytes.len, e));
    LS_TRY(put(h, out, begin, TABLE_ENTRIES, v->entries, v->n_ids, e));
    LS_TRY(put(h, out, begin, TABLE_SLOTS, v->slots, v->n_slots, e));
    LS_TRY(put(h, out, begin, TABLE_MERGES, m->merges.packed, m->merges.n, e));
    LS_TRY(put(h, out, begin, TABLE_LEFT, m->merges.begin, m->merges.begin ? v->n_ids + 1 : 0, e));
    LS_TRY(put(h, out, begin, TABLE_EDGES, m->trie.edges.pairs, m->trie.edges.slots, e));
    LS_TRY(put(h, out, begin, TABLE_VALUES, m->trie.values, m->trie.n_nodes, e));
    LS_TRY(put(h, out, begin, TABLE_ROOT, m->trie.root, m->trie.n_nodes ? 256 : 0, e));
    LS_TRY(put(h, out, begin, TABLE_SCORES, m->scores, m->scores ? v->n_ids : 0, e));
    LS_TRY(put(h, out, begin, TABLE_ADDED, added->data, added->len, e));
    LS_TRY(put(h, out, begin, TABLE_BEFORE, t->post.before.ids, t->post.before.n, e));
    LS_TRY(put(h, out, begin, TABLE_AFTER, t->post.after.ids, t->post.after.n, e));
    LS_TRY(put(h, out, begin, TABLE_PREFIX, m->prefix, m->prefix ? strlen(m->prefix) + 1 : 0, e));
    return put(h, out, begin, TABLE_SUFFIX, m->suffix, m->suffix ? strlen(m->suffix) + 1 : 0, e);
}

ls_code ls_tokenizer_write_tables(const ls_tokenizer *t, ls_str *out, ls_error *e) {
    const ls_token_model *m = &t->model;
    head h = {.version = LS_TOKENIZER_TABLES, .unk = m->unk, .bos = t->bos, .eos = t->eos, .unk_score = m->unk_score};
    h.flags = (m->kind == LS_MODEL_UNIGRAM ? FLAG_UNIGRAM : 0) | (m->byte_fallback ? FLAG_BYTE_FALLBACK : 0) | (m->fuse_unk ? FLAG_FUSE_UNK : 0) |
              (m->ignore_merges ? FLAG_IGNORE_MERGES : 0) | (m->single ? FLAG_SINGLE : 0) | (t->sources.sentencepiece ? FLAG_SENTENCEPIECE : 0) |
              (t->sources.trim ? FLAG_TRIM : 0);
    ls_str parts = {0}, added = {0};
    size_t begin = out->len;
    ls_code rc;
    if (json_dump_callback(t->sources.parts, append, &parts, JSON_COMPACT))
        LS_FAIL_GOTO(e, LS_INVALID_ARGUMENT, "tokenizer: its components are no valid UTF-8");
    LS_GOTO(put_added(&t->added, &added, e));
    LS_GOTO(ls_str_append(out, (const char *)&h, sizeof h, e));
    LS_GOTO(put_arrays(t, &h, out, begin, &parts, &added, e));
    memcpy(out->data + begin, &h, sizeof h);
out:
    ls_str_deinit(&parts);
    ls_str_deinit(&added);
    return rc;
}

/* ---- Opening ------------------------------------------------------------------------------------------------------- */

/* The tables being read. */
typedef struct tables {
    const uint8_t *data;
    size_t size;
    head h;
} tables;

static ls_code bad(table i, const char *what, ls_error *e) { LS_FAIL(e, LS_DATA_LOSS, "section tokenizer: table \"%s\": %s", shapes[i].name, what); }

static const void *array(const tables *x, table i) { return x->data + x->h.at[i]; }

/* Arrays follow each other, aligned, to the end of the section. */
static ls_code read_head(tables *x, ls_error *e) {
    if (x->size < sizeof x->h) LS_FAIL(e, LS_DATA_LOSS, "section tokenizer has %zu bytes; its head has %zu", x->size, sizeof x->h);
    memcpy(&x->h, x->data, sizeof x->h);
    if (x->h.version != LS_TOKENIZER_TABLES)
        LS_FAIL(e, LS_FAILED_PRECONDITION, "section tokenizer: version %u; this lockstep reads version %d: pack the model again", x->h.version,
                LS_TOKENIZER_TABLES);
    if (x->h.flags & ~(uint32_t)FLAGS_ALL || x->h.reserved) LS_FAIL(e, LS_DATA_LOSS, "section tokenizer: flags %#x are unknown", x->h.flags);
    size_t end = sizeof x->h;
    for (int i = 0; i < TABLE_COUNT; i++) {
        size_t begin = (end + ALIGN - 1) / ALIGN * ALIGN;
        if (x->h.at[i] != begin || begin > x->size) return bad((table)i, "it does not begin where the one before it ends", e);
        if (x->h.count[i] > (x->size - begin) / shapes[i].element) return bad((table)i, "it is longer than the section", e);
        end = begin + (size_t)x->h.count[i] * shapes[i].element;
    }
    if (end != x->size) LS_FAIL(e, LS_DATA_LOSS, "section tokenizer has %zu bytes after its tables", x->size - end);
    return LS_OK;
}

static ls_code open_merges(const tables *x, ls_token_model *m, ls_error *e) {
    size_t n = (size_t)x->h.count[TABLE_MERGES], n_ids = m->vocab.n_ids;
    bool bpe = m->kind == LS_MODEL_BPE;
    if (n > LS_MERGES_MAX || (n && !bpe)) return bad(TABLE_MERGES, "it is too long", e);
    if (x->h.count[TABLE_LEFT] != (bpe ? n_ids + 1 : 0)) return bad(TABLE_LEFT, "it does not fit the vocabulary", e);
    m->merges = (ls_merges){.packed = (uint64_t *)(uintptr_t)array(x, TABLE_MERGES), .begin = (uint32_t *)(uintptr_t)array(x, TABLE_LEFT), .n = n,
                            .n_ids = n_ids};
    return !bpe || ls_merges_are_sound(&m->merges) ? LS_OK : bad(TABLE_MERGES, "it is not sorted, or points past the end", e);
}

/* A free slot ends every search. */
static ls_code open_edges(const tables *x, ls_u64_map *m, size_t nodes, ls_error *e) {
    const ls_u64_pair *pairs = array(x, TABLE_EDGES);
    size_t slots = (size_t)x->h.count[TABLE_EDGES], used = 0;
    if (slots > UINT32_MAX) return bad(TABLE_EDGES, "it is too long", e);
    for (size_t k = 0; k < slots; k++) {
        if (pairs[k].value == LS_U64_FREE) continue;
        used++;
        if (pairs[k].value >= nodes) return bad(TABLE_EDGES, "it points past the end", e);
    }
    if (slots && used == slots) return bad(TABLE_EDGES, "it has no free slot", e);
    *m = (ls_u64_map){.pairs = (ls_u64_pair *)(uintptr_t)pairs, .n = used, .slots = slots};
    return LS_OK;
}

static ls_code open_vocab(const tables *x, ls_vocab *v, ls_error *e) {
    const uint32_t *entries = array(x, TABLE_ENTRIES);
    const uint32_t *slots = array(x, TABLE_SLOTS);
    const char *text = array(x, TABLE_TEXT);
    size_t n_ids = (size_t)x->h.count[TABLE_ENTRIES], n_slots = (size_t)x->h.count[TABLE_SLOTS], bytes = (size_t)x->h.count[TABLE_TEXT], n = 0, used = 0;
    if (n_ids > LS_VOCAB_MAX_IDS || n_slots > UINT32_MAX || bytes > LS_VOCAB_MAX_BYTES) return bad(TABLE_ENTRIES, "the vocabulary is too large", e);
    for (size_t i = 0; i < n_ids; i++) {
        if (!entries[i]) continue;
        n++;
        if (!ls_vocab_is_inside(text, bytes, entries[i])) return bad(TABLE_ENTRIES, "a text is not inside table \"text\"", e);
    }
    for (size_t i = 0; i < n_slots; i++) {
        if (!slots[i]) continue;
        used++;
        if (slots[i] > n_ids || !entries[slots[i] - 1]) return bad(TABLE_SLOTS, "it has an id that the vocabulary lacks", e);
    }
    if (n_slots && used == n_slots) return bad(TABLE_SLOTS, "it has no free slot", e);
    *v = (ls_vocab){.bytes = {.data = (char *)(uintptr_t)text, .len = bytes, .cap = bytes, .max = LS_VOCAB_MAX_BYTES},
                    .entries = (uint32_t *)(uintptr_t)entries, .n_ids = n_ids, .cap_ids = n_ids, .n = n,
                    .slots = (uint32_t *)(uintptr_t)slots, .n_slots = n_slots};
    return LS_OK;
}

static ls_code open_trie(const tables *x, ls_trie *t, size_t n_ids, ls_error *e) {
    size_t nodes = (size_t)x->h.count[TABLE_VALUES], root = (size_t)x->h.count[TABLE_ROOT];
    const int32_t *values = array(x, TABLE_VALUES);
    const uint32_t *children = array(x, TABLE_ROOT);
    if (root != (nodes ? 256 : 0) || nodes > INT32_MAX) return bad(TABLE_ROOT, "it does not fit the trie", e);
    LS_TRY(open_edges(x, &t->edges, nodes, e));
    for (size_t i = 0; i < nodes; i++)
        if (values[i] < -1 || (values[i] >= 0 && (size_t)values[i] >= n_ids)) return bad(TABLE_VALUES, "it has an id that the vocabulary lacks", e);
    for (size_t i = 0; i < root; i++) {
        if (children[i] >= nodes) return bad(TABLE_ROOT, "it points past the end", e);
        t->root[i] = children[i];
    }
    t->values = (int32_t *)(uintptr_t)values;
    t->n_nodes = t->cap = nodes;
    return LS_OK;
}

static ls_code open_scores(const tables *x, ls_token_model *m, ls_error *e) {
    size_t n = (size_t)x->h.count[TABLE_SCORES];
    const double *scores = array(x, TABLE_SCORES);
    bool unigram = m->kind == LS_MODEL_UNIGRAM;
    if (n != (unigram ? m->vocab.n_ids : 0)) return bad(TABLE_SCORES, "it does not fit the vocabulary", e);
    for (size_t i = 0; i < n; i++)
        if (!isfinite(scores[i])) return bad(TABLE_SCORES, "a score is not finite", e);
    if (unigram && !isfinite(m->unk_score)) return bad(TABLE_SCORES, "the unknown score is not finite", e);
    if (n) m->scores = (double *)(uintptr_t)scores;
    return LS_OK;
}

static ls_code copy_text(const tables *x, table i, char **out, ls_error *e) {
    size_t n = (size_t)x->h.count[i];
    if (!n) return LS_OK;
    const char *text = array(x, i);
    if (text[n - 1] || strlen(text) != n - 1) return bad(i, "it is no text", e);
    LS_TRY(ls_calloc(out, n, 1, "tokenizer", e));
    memcpy(*out, text, n);
    return LS_OK;
}

static bool is_id(const ls_tokenizer *t, int32_t id) { return id >= -1 && (id < 0 || (size_t)id < t->model.vocab.n_ids); }

static ls_code open_model(const tables *x, ls_tokenizer *t, ls_error *e) {
    ls_token_model *m = &t->model;
    m->borrowed = true;
    m->kind = x->h.flags & FLAG_UNIGRAM ? LS_MODEL_UNIGRAM : LS_MODEL_BPE;
    m->byte_fallback = x->h.flags & FLAG_BYTE_FALLBACK;
    m->fuse_unk = x->h.flags & FLAG_FUSE_UNK;
    m->ignore_merges = x->h.flags & FLAG_IGNORE_MERGES;
    m->single = x->h.flags & FLAG_SINGLE;
    m->unk = x->h.unk;
    m->unk_score = x->h.unk_score;
    LS_TRY(open_vocab(x, &m->vocab, e));
    LS_TRY(open_merges(x, m, e));
    LS_TRY(open_trie(x, &m->trie, m->vocab.n_ids, e));
    LS_TRY(open_scores(x, m, e));
    LS_TRY(copy_text(x, TABLE_PREFIX, &m->prefix, e));
    LS_TRY(copy_text(x, TABLE_SUFFIX, &m->suffix, e));
    if (!is_id(t, m->unk)) LS_FAIL(e, LS_DATA_LOSS, "section tokenizer: unknown token %d; the vocabulary has %zu ids", (int)m->unk, m->vocab.n_ids);
    ls_token_model_find_bytes(m);
    return LS_OK;
}

static ls_code open_ids(const tables *x, table i, ls_token_ids *ids, ls_error *e) {
    const int32_t *v = array(x, i);
    for (size_t k = 0; k < (size_t)x->h.count[i]; k++) {
        if (v[k] < 0 || v[k] >= LS_VOCAB_MAX_IDS) return bad(i, "an id is out of range", e);
        LS_TRY(ls_token_ids_add(ids, v[k], e));
    }
    return LS_OK;
}

static ls_code open_added(const tables *x, ls_tokenizer *t, ls_error *e) {
    const uint8_t *p = array(x, TABLE_ADDED);
    size_t left = (size_t)x->h.count[TABLE_ADDED];
    while (left) {
        uint32_t fields[3];
        if (left < sizeof fields) return bad(TABLE_ADDED, "it ends in the middle of a token", e);
        memcpy(fields, p, sizeof fields);
        left -= sizeof fields;
        p += sizeof fields;
        if (fields[2] > left || !fields[2] || fields[0] >= LS_VOCAB_MAX_IDS || fields[1] & ~(uint32_t)ADDED_ALL)
            return bad(TABLE_ADDED, "a token is malformed", e);
        ls_added_token a = {.text = (char *)(uintptr_t)p, .len = fields[2], .id = (int32_t)fields[0], .special = fields[1] & ADDED_SPECIAL,
                            .single_word = fields[1] & ADDED_WORD, .lstrip = fields[1] & ADDED_LSTRIP, .rstrip = fields[1] & ADDED_RSTRIP,
                            .normalized = fields[1] & ADDED_NORMALIZED};
        LS_TRY(ls_added_put(&t->added, &a, e));
        p += fields[2];
        left -= fields[2];
    }
    return LS_OK;
}

static ls_code open_parts(const tables *x, ls_tokenizer *t, ls_error *e) {
    json_t *parts = NULL;
    ls_code rc = ls_json_parse(&parts, array(x, TABLE_PARTS), (size_t)x->h.count[TABLE_PARTS], "section tokenizer: table \"parts\"", e);
    if (rc) return rc;
    if (x->h.flags & FLAG_SENTENCEPIECE)
        LS_GOTO(ls_tokenizer_add_charsmap(t, array(x, TABLE_CHARSMAP), (size_t)x->h.count[TABLE_CHARSMAP], x->h.flags & FLAG_TRIM, e));
    rc = ls_tokenizer_add_parts(t, parts, e);
out:
    json_decref(parts);
    return rc;
}

static ls_code open_all(const tables *x, ls_tokenizer *t, ls_error *e) {
    t->bos = x->h.bos;
    t->eos = x->h.eos;
    LS_TRY(open_model(x, t, e));
    LS_TRY(open_parts(x, t, e));
    LS_TRY(open_added(x, t, e));
    LS_TRY(open_ids(x, TABLE_BEFORE, &t->post.before, e));
    LS_TRY(open_ids(x, TABLE_AFTER, &t->post.after, e));
    LS_TRY(ls_tokenizer_finish_added(t, e));
    if (t->bos < -1 || t->eos < -1 || t->bos >= (int64_t)t->n_ids || t->eos >= (int64_t)t->n_ids)
        LS_FAIL(e, LS_DATA_LOSS, "section tokenizer: BOS %d or EOS %d is none of its %zu tokens", (int)t->bos, (int)t->eos, t->n_ids);
    return LS_OK;
}

ls_code ls_tokenizer_open_tables(ls_tokenizer **out, const uint8_t *data, size_t size, const char *chat_template, size_t len, ls_error *e) {
    tables x = {.data = data, .size = size};
    ls_tokenizer *t = NULL;
    LS_TRY(read_head(&x, e));
    LS_TRY(ls_tokenizer_new(&t, e));
    ls_code rc = open_all(&x, t, e);
    if (!rc && chat_template) rc = ls_tokenizer_set_template(t, chat_template, len, e);
    if (rc) ls_tokenizer_close(t);
    else *out = t;
    return rc;
}
