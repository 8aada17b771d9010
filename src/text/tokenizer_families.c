/* Byte-level families by the name GGUF files give their pre-tokenizer (tokenizer.ggml.pre): the components that the
 * tokenizer.json published with those models has. */
#include <string.h>

#include "text/tokenizer_build.h"

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define SPACE_TAIL "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define WORDS "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+"
#define MARKS " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*"
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define CASED(tail) "[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+" tail "|[^\\r\\n\\p{L}\\p{N}]?" UPPER "+" LOWER "*" tail
#define LLAMA3 CONTRACTIONS "|" WORDS "|\\p{N}{1,3}|" MARKS SPACE_TAIL
#define QWEN2 CONTRACTIONS "|" WORDS "|\\p{N}|" MARKS SPACE_TAIL
#define QWEN35 CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*" SPACE_TAIL
#define GPT4O CASED(CONTRACTIONS "?") "|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" SPACE_TAIL
#define TEKKEN CASED("") "|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" SPACE_TAIL
#define SEED CONTRACTIONS "|" WORDS "|\\p{N}{1}| ?[^\\s\\p{L}\\p{N}\\r\\n]+" SPACE_TAIL
#define DEEPSEEK3 "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+|" \
                  " ?[\\p{P}\\p{S}]+[\\r\\n]*" SPACE_TAIL
#define CJK "[\xE4\xB8\x80-\xE9\xBE\xA5\xE3\x81\x80-\xE3\x82\x9F\xE3\x82\xA0-\xE3\x83\xBF]+"

typedef struct row {
    const char *names;       /* separated by spaces */
    const char *patterns[3]; /* Split, Isolated, in order */
    bool digits;             /* then every digit on its own */
    bool gpt2;               /* then ByteLevel's own expression */
    bool nfc;
    ls_pre_family family;
} row;

static const row rows[] = {
    {.names = "gpt-2 phi-2 mpt olmo jais trillion roberta-bpe gigachat jina-es jina-de exaone4 granite-docling", .gpt2 = true},
    {.names = "starcoder refact smollm codeshell exaone minerva-7b", .digits = true, .gpt2 = true},
    {.names = "command-r", .digits = true, .gpt2 = true, .nfc = true},
    {.names = "llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2", .patterns = {LLAMA3},
     .family = {.ignore_merges = true, .add_bos = true}},
    {.names = "dbrx smaug-bpe chatglm-bpe glm4", .patterns = {LLAMA3}},
    {.names = "qwen2 deepseek-r1-qwen megrez", .patterns = {QWEN2}, .nfc = true},
    {.names = "stablelm2 hunyuan grok-2 solar-open", .patterns = {QWEN2}},
    {.names = "qwen35", .patterns = {QWEN35}, .nfc = true},
    {.names = "gpt-4o llama4", .patterns = {GPT4O}},
    {.names = "tekken", .patterns = {TEKKEN}, .family = {.ignore_merges = true, .add_bos = true}},
    {.names = "seed-coder", .patterns = {SEED}},
    {.names = "deepseek-v3 hunyuan-dense", .patterns = {"\\p{N}{1,3}", CJK, DEEPSEEK3}},
};

/* Whether |name| is one of the words of |list|. */
static bool listed(const char *list, const char *name) {
    size_t n = strlen(name);
    for (const char *at = list; n && (at = strstr(at, name)); at += n)
        if ((at == list || at[-1] == ' ') && (at[n] == ' ' || !at[n])) return true;
    return false;
}

static ls_code append(json_t *list, json_t *item, ls_error *e) {
    if (!item || json_array_append_new(list, item)) LS_FAIL(e, LS_RESOURCE_EXHAUSTED, "tokenizer: out of memory");
    return LS_OK;
}

static ls_code add_steps(const row *r, json_t *steps, ls_error *e) {
    for (int i = 0; i < 3 && r->patterns[i]; i++)
        LS_TRY(append(steps, json_pack("{s:s, s:{s:s}, s:s, s:b}", "type", "Split", "pattern", "Regex", r->patterns[i], "behavior",
                                       "Isolated", "invert", 0), e));
    if (r->digits) LS_TRY(append(steps, json_pack("{s:s, s:b}", "type", "Digits", "individual_digits", 1), e));
    return append(steps, json_pack("{s:s, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", 0, "use_regex", r->gpt2), e);
}

ls_code ls_pre_family_parts(const char *pre, json_t **parts, ls_pre_family *family, ls_error *e) {
    const row *r = rows, *end = rows + sizeof rows / sizeof *rows;
    while (r < end && !listed(r->names, pre)) r++;
    if (r == end || strchr(pre, ' '))
        LS_FAIL(e, LS_UNIMPLEMENTED, "GGUF pre-tokenizer \"%.64s\" is not supported (known are llama-bpe, qwen2, tekken, gpt-4o, gpt-2, "
                "smollm and others); use the model's Hugging Face folder", pre);
    json_t *steps = json_array();
    ls_code rc = steps ? add_steps(r, steps, e) : LS_RESOURCE_EXHAUSTED;
    if (rc) {
        json_decref(steps);
        return rc;
    }
    *parts = json_pack("{s:{s:s, s:o}, s:{s:s}}", "pre_tokenizer", "type", "Sequence", "pretokenizers", steps, "decoder", "type", "ByteLevel");
    if (*parts && r->nfc) json_object_set_new(*parts, "normalizer", json_pack("{s:s}", "type", "NFC"));
    if (!*parts) LS_FAIL(e, LS_RESOURCE_EXHAUSTED, "tokenizer: out of memory");
    *family = r->family;
    return LS_OK;
}
