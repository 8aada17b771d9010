/* tokenizer.model: a reader for the few protobuf fields of a sentencepiece ModelProto that matter.
 *
 *   ModelProto      1 pieces (repeated)  2 trainer_spec  3 normalizer_spec
 *   SentencePiece   1 piece (string)  2 score (float)  3 type (enum)
 *   TrainerSpec     3 model_type (1 unigram, 2 BPE)  35 byte_fallback  40 unk_id  41 bos_id  42 eos_id
 *   NormalizerSpec  2 precompiled_charsmap  3 add_dummy_prefix  4 remove_extra_whitespaces
 */
#include <math.h>
#include <string.h>

#include "text/tokenizer_build.h"

enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };

typedef struct reader {
    const uint8_t *p, *end;
} reader;

typedef struct field {
    uint32_t number, wire;
    uint64_t value;    /* VARINT, FIXED32, FIXED64 */
    reader bytes;      /* BYTES */
} field;

typedef struct proto {
    ls_sp_model m;
    size_t cap;
    int64_t model_type;
} proto;

static ls_code varint(reader *r, uint64_t *v, ls_error *e) {
    *v = 0;
    for (int shift = 0; shift < 64 && r->p < r->end; shift += 7) {
        uint8_t b = *r->p++;
        *v |= (uint64_t)(b & 0x7F) << shift;
        if (!(b & 0x80)) return LS_OK;
    }
    LS_FAIL(e, LS_DATA_LOSS, "tokenizer.model: a number is cut off or longer than 64 bits");
}

static ls_code fixed(reader *r, size_t n, uint64_t *v, ls_error *e) {
    if ((size_t)(r->end - r->p) < n) LS_FAIL(e, LS_DATA_LOSS, "tokenizer.model: a field is cut off");
    *v = 0;
    for (size_t i = 0; i < n; i++) *v |= (uint64_t)r->p[i] << 8 * i;
    r->p += n;
    return LS_OK;
}

static ls_code next_field(reader *r, field *f, ls_error *e) {
    uint64_t key, len;
    LS_TRY(varint(r, &key, e));
    *f = (field){.number = (uint32_t)(key >> 3), .wire = (uint32_t)(key & 7)};
    switch (f->wire) {
    case VARINT: return varint(r, &f->value, e);
    case FIXED64: return fixed(r, 8, &f->value, e);
    case FIXED32: return fixed(r, 4, &f->value, e);
    case BYTES:
        LS_TRY(varint(r, &len, e));
        if (len > (uint64_t)(r->end - r->p))
            LS_FAIL(e, LS_DATA_LOSS, "tokenizer.model: field %u has %llu bytes, the file gives %zu", (unsigned)f->number,
                    (unsigned long long)len, (size_t)(r->end - r->p));
        f->bytes = (reader){r->p, r->p + len};
        r->p += len;
        return LS_OK;
    default: LS_FAIL(e, LS_INVALID_ARGUMENT, "tokenizer.model: wire type %u; not a sentencepiece model", (unsigned)f->wire);
    }
}

typedef ls_code (*field_fn)(proto *p, const field *f, ls_error *e);

static ls_code each_field(reader r, field_fn fn, proto *p, ls_error *e) {
    field f;
    while (r.p < r.end) {
        LS_TRY(next_field(&r, &f, e));
        LS_TRY(fn(p, &f, e));
    }
    return LS_OK;
}

static ls_code piece_field(proto *p, const field *f, ls_error *e) {
    ls_sp_piece *piece = &p->m.pieces[p->m.n - 1];
    if (f->number == 1 && f->wire == BYTES) {
        piece->text = (const char *)f->bytes.p;
        piece->len = (size_t)(f->bytes.end - f->bytes.p);
    }
    if (f->number == 2 && f->wire == FIXED32) {
        uint32_t bits = (uint32_t)f->value;
        memcpy(&piece->score, &bits, sizeof bits);
        if (!isfinite(piece->score)) LS_FAIL(e, LS_INVALID_ARGUMENT, "tokenizer.model: the score of piece %zu is not finite", p->m.n - 1);
    }
    if (f->number == 3 && f->wire == VARINT) {
        if (f->value < LS_PIECE_NORMAL || f->value > LS_PIECE_BYTE)
            LS_FAIL(e, LS_INVALID_ARGUMENT, "tokenizer.model: piece %zu has type %llu; 1 to 6 are known", p->m.n - 1,
                    (unsigned long long)f->value);
        piece->type = (ls_piece_type)f->value;
    }
    return LS_OK;
}

static ls_code trainer_field(proto *p, const field *f, ls_error *e) {
    (void)e;
    if (f->wire != VARINT) return LS_OK;
    int64_t v = (int32_t)(uint32_t)f->value;
    switch (f->number) {
    case 3: p->model_type = v; break;
    case 35: p->m.byte_fallback = v != 0; break;
    case 40: p->m.unk = v; break;
    case 41: p->m.bos = v; break;
    case 42: p->m.eos = v; break;
    default: break;
    }
    return LS_OK;
}

static ls_code normalizer_field(proto *p, const field *f, ls_error *e) {
    (void)e;
    if (f->number == 2 && f->wire == BYTES) {
        p->m.charsmap = f->bytes.p;
        p->m.charsmap_len = (size_t)(f->bytes.end - f->bytes.p);
    }
    if (f->number == 3 && f->wire == VARINT) p->m.prefix_space = f->value != 0;
    if (f->number == 4 && f->wire == VARINT) p->m.trim_spaces = f->value != 0;
    return LS_OK;
}

static ls_code model_field(proto *p, const field *f, ls_error *e) {
    if (f->wire != BYTES) return LS_OK;
    if (f->number == 2) return each_field(f->bytes, trainer_field, p, e);
    if (f->number == 3) return each_field(f->bytes, normalizer_field, p, e);
    if (f->number != 1) return LS_OK;
    LS_TRY(ls_grow(&p->m.pieces, p->m.n, &p->cap, sizeof *p->m.pieces, LS_VOCAB_MAX_IDS, "tokenizer.model", e));
    p->m.pieces[p->m.n++] = (ls_sp_piece){.text = "", .type = LS_PIECE_NORMAL};
    return each_field(f->bytes, piece_field, p, e);
}

/* What tokenizer_config.json may change. */
static ls_code configure(proto *p, const json_t *config, ls_error *e) {
    bool legacy = true;
    LS_TRY(ls_json_get_bool(config, "legacy", &legacy, e));
    LS_TRY(ls_json_get_bool(config, "add_prefix_space", &p->m.prefix_space, e));
    p->m.prefix_every = legacy;
    if (p->model_type != 1 && p->model_type != 2)
        LS_FAIL(e, LS_UNIMPLEMENTED, "tokenizer.model: model type %lld; supported are 1 (unigram) and 2 (BPE)", (long long)p->model_type);
    p->m.unigram = p->model_type == 1;
    return LS_OK;
}

ls_code ls_tokenizer_from_sp_bytes(ls_tokenizer *t, const uint8_t *data, size_t size, const char *name, const json_t *config, ls_error *e) {
    proto p = {.m = {.prefix_space = true, .trim_spaces = true, .unk = 0, .bos = 1, .eos = 2}, .model_type = 1};
    ls_code rc = LS_OK;
    if (size) LS_GOTO(each_field((reader){data, data + size}, model_field, &p, e));
    if (!p.m.n) LS_FAIL_GOTO(e, LS_INVALID_ARGUMENT, "%s: has no pieces; not a sentencepiece model", name);
    LS_GOTO(configure(&p, config, e));
    rc = ls_tokenizer_from_sp(t, &p.m, e);
out:
    ls_free(p.m.pieces);
    return rc;
}

ls_code ls_tokenizer_from_sp_file(ls_tokenizer *t, const char *path, const json_t *config, ls_error *e) {
    ls_map map = {0};
    LS_TRY(ls_map_open(&map, path, e));
    ls_code rc = ls_tokenizer_from_sp_bytes(t, map.data, map.size, path, config, e);
    ls_map_close(&map);
    return rc;
}
