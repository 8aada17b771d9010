#!/usr/bin/env python3
"""Builds fixtures/text/tokenizer: small tokenizers of every family, a corpus, and the ids and texts that the `tokenizers`
and `sentencepiece` packages give for it. Deterministic; run from the repository root with tools/requirements-goldens.txt:

    python3 tools/make_tokenizer_goldens.py [--gguf smollm2=FILE] [--gguf gemma3=FILE]

corpus.json          list of texts; {"repeat": text, "times": n} stands for a long run
NAME.json            a tokenizer.json; NAME.golden.json its results:
    before, after    ids that add_special_tokens puts around every text
    ids              per corpus text, run-length: "5 7*3" is 5 7 7 7
    plain            {index: ids} where encode_special_tokens changes them
    text             {index: decoded} where decoding the ids does not give the corpus text back
    skipped          the same with skip_special_tokens
    random           SHA-256 over the ids of blocks of generated texts (the generator is in test_tokenizer.c too)
probe.json           list of components on one model that shows where pieces end
sp_*/                folders with tokenizer.model
gguf_*.golden.json   results for real GGUF files, which are not part of the repository
"""
import argparse, hashlib, json, os, sys, unicodedata
import sentencepiece as spm
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fixtures", "text", "tokenizer")
CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
TAIL = r"|\s*[\r\n]+|\s+(?!\S)|\s+"
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
CASED = rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+%s|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*%s"
LLAMA3 = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*" + TAIL
QWEN2 = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*" + TAIL
GPT4O = CASED % (CONTRACTIONS + "?", CONTRACTIONS + "?") + r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*" + TAIL
TEKKEN = CASED % ("", "") + r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*" + TAIL
SEED = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+" + TAIL
PHI4 = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
DEEPSEEK3 = (r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*"""
             + TAIL)
EXAONE = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+"
COMMAND = r"\d{1,3}(?=(?:\d{3})*\b)"

# ---- Corpus --------------------------------------------------------------------------------------------------------

WORDS = """the quick brown fox jumps over a lazy dog while seven engines compute integer sums in any order and agree on
every bit because addition of whole numbers does not care who goes first so a block of sixty four mantissas shares one
exponent I'm sure you've seen it's what they'd do we'll say don't can't won't SHE'S THEY'RE HTTPServer getElementById
snake_case camelCase kebab-case x86_64 fp16 bf16 int32_t std::vector<int> printf("%d\\n", i); for (int i = 0; i < n; i++)
def f(x): return x**2 if x >= 0 else -x  # comment <html><body class="a">text</body></html> https://example.org/a?b=c&d=1
1234567890 3.14159 1,000,000 2024-12-31 12:34:56 0xDEADBEEF 100% $5.00 a@b.c (parenthesis) [bracket] {brace} "quote" """.split("\n")

SCRIPTS = """Größe naïve café Ærøskøbing Żółć gęślą jaźń Đorđe İstanbul ışık ŒUVRE straße ﬁnal ﬂow ǅungla ŉ
Съешь же ещё этих мягких французских булок, да выпей чаю. Ґанок їжак Ћирилица
Ξεσκεπάζω την ψυχοφθόρα βδελυγμία. ΟΔΟΣ Ὀδυσσεύς ᾳ ΐ
זה כיף סתם לשמוע איך תנצח קרפד עץ טוב בגן. שָׁלוֹם עֲלֵיכֶם
نص حكيم له سر قاطع وذو شأن عظيم مكتوب على ثوب أخضر. ١٢٣٤٥ الكِتَابُ ﷺ ﻼ
یک متن فارسی با نیم‌فاصله و رقم ۱۲۳
ऋषियों को सताने वाले दुष्ट राक्षसों के राजा रावण का सर्वनाश। क्षत्रिय १२३ हिन्दी
আমার সোনার বাংলা আমি তোমায় ভালোবাসি। ১২৩
அறம் செய விரும்பு ஆறுவது சினம் ௧௨௩ கொ
ഒരു മലയാളം വാചകം ന്‍റെ తెలుగు వాక్యం ಕನ್ನಡ ಪದ ਪੰਜਾਬੀ ગુજરાતી ଓଡ଼ିଆ සිංහල ශ්‍රී
เป็นมนุษย์สุดประเสริฐเลิศคุณค่า กว่าบรรดาฝูงสัตว์เดรัจฉาน ๑๒๓ น้ำ
ພາສາລາວ မြန်မာဘာသာ ភាសាខ្មែរ བོད་ཡིག ༡༢༣ ᠮᠣᠩᠭᠣᠯ አማርኛ ᏣᎳᎩ ᐃᓄᒃᑎᑐᑦ ქართული ᲥᲐᲠᲗᲣᲚᲘ Հայերեն և
天地玄黃，宇宙洪荒。日月盈昃，辰宿列張。简体中文：你好，世界！１２３ＡＢＣ㈱㍻㌔①②③Ⅳⅳ½¾
いろはにほへと ちりぬるを ワカヨタレソ ツネナラム。ｶﾀｶﾅ ﾊﾟﾋﾟ が が ゟヿ 々〆ヶ
키스의 고유조건은 입술끼리 만나야 하고 특별한 기술은 필요치 않다. 각 ㅎㅏㄴ
Tiếng Việt có dấu: ắằẳẵặ ộồổỗ ự Yorùbá ọ́ ẹ̀ ʻŌlelo Hawaiʻi
𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𝕄𝕒𝕥𝕙 𝟘𝟙𝟚 𐍈 𐌰𐌱 𒀀𒁀 𓀀𓂀 𠀀𠮷 ꙮ 𞤀𞤣 ℌ ℵ Å K ſ ẞ ﬀ""".split("\n")

SYMBOLS = ["😀😃🎉🚀", "👨‍👩‍👧‍👦 family", "👍🏽👎🏿", "🏳️‍🌈 🇩🇪🇯🇵🇺🇳", "❤️ ☎︎ ☎️ ♥", "1️⃣2️⃣#️⃣*️⃣", "🧑🏻‍🦰🧟‍♀️", "e\u0301 a\u0308\u0323 o\u0323\u0302 \u0301x",
           "Z͑ͫ̓ͪ̂ͫ̽͏̴̙̤̞͉͚̯̞̠͍A̴̵̜̰͔ͫ͗͢L̠ͨͧͩ͘G̴̻͈͍͔̹̑͗̎̅͛́Ǫ̵̹̻̝̳͂̌̌͘!͖̬̰̙̗̿̋ͥͥ̂ͣ̐́́͜͞", "→←⇒∀∃∑∏√∞≠≤≥±×÷∂∫", "─│┌┐└┘█▓▒░", "€£¥₹₿¢©®™§¶†‡•…‰",
           "“curly” ‘quotes’ «guillemets» „low“ – — ― ‐ ‑ − ·", "a\u00a0b\u2003c\u3000d\u200be\u2060f\ufeffg\u00adh\u180ei\u1680j\u2028k\u2029l\u0085m",
           "\ue000\uf8ff\U000f0000\U0010fffd", "\ufffd\ufffe\uffff\ufdd0\U0001ffff", "\x00", "a\x00b\x00\x00c", "\x01\x02\x07\x08\x0b\x0c\x1b[0m\x7f\x80\x9f",
           "\u202etfel-ot-thgir\u202c \u2066iso\u2069 \u200f\u200e", "\u0600\u0601 \u06dd \u2062\u2064", "﹏＿﹍ ＃＄％ ！？", "ᄀ가각ᆨ 한 각", "ä ä Ä ﬁ ﬃ Å Å Ω Ω", "ẛ̣ ẛ̣ ᾭ ᾂ",
           "ǰ ΰ և ﬗ İi̇ ı", "x²+y³=z⁴ H₂O 10⁻³ ½ ⅓ ⁄", "\u0b47\u0b3e \u1b06 \u1100\u1161\u11a8\u11a9", "\u0f71\u0f74\u0f72 \u0f73", "\U0001d15e\U0001d1bb\U0001d15f"]

SPACES = ["", " ", "  ", "   ", "\n", "\n\n", "\n\n\n", "\r\n", "\r\n\r\n", "\r", "\t", "\t\t", " \n", "\n ", " \n ", "  \n\n  ", " a", "a ", " a ", "  a  ", "a  b", "a   b", "a\nb",
          "a\n b", "a \nb", "a\r\nb", "a\tb", "\ta", "a\t", " \t \t ", "a \t b", "\n\n\na", "a\n\n\n", "if x:\n    y = 1\n        z\n\n\treturn  y\r\n", "\u2581", "\u2581\u2581a", "a\u2581b",
          " \u2581a", "\u2581 a", "\u00a0a", "\u3000a\u3000\u3000b", "a\u2028b", "a\u0085b", "a\x0bb", "a\x0cb", "\u2009\u200aa", "\x1ca\x1d\x1e\x1fb"]

EDGES = ["a", "A", "1", "12", "123", "1234", "12345", "1234567", "1a2b3c", "abc123def", "a1", "1a", " 1", "  1", "1 ", "1 2 3", "-1", "+1.5e-10", "1.", ".1", "1,234,567.89", "١٢٣٤", "²³", "ⅷ", "x1y22z333",
         "don't", "DON'T", "Don'T", "'s", "'S", "'ll", "'LL", "'lL", "'re've'm", "'tis", "it''s", "'", "''", "'ſ", "'\u0131", "I'M I'D I'LL", "a'b'c", "'dog", "don’t", "rock'n'roll", "'veX", "s's", "\n's",
         "!", "!!", "!!!", "...", "....", "?!", "a.b.c", "a,b", "(a)", "((a))", "[a]", "a/b/c", "//", "/*c*/", "\\", "\\n", "\"", "`code`", "#tag", "@user", "a_b", "__init__", "--flag", "->", "=>", "==", "!=", "<>", "&&",
         "||", "::", "$x", "100%", "~", "^", "*bold*", "e.g.", "U.S.A.", "Mr. X", "C++", "C#", ".NET", "a;b", ";;", "😀a", "a😀", "a😀b", "😀 ", " 😀", "😀\n", "!\n", "!\n\n", "! \n", " !\n", "a!\n", "/\n", "!/\n/", ".\r\n",
         "HELLO", "Hello", "hELLO", "HelloWorld", "helloWorld", "XMLHttpRequest", "ABCdef", "abcDEF", "ÄÖÜäöü", "ΑΒΓαβγ", "АБВабв", "ǅ", "ǆǅǄ", "ʰʱ", "ªº", "日本語", "日本 語", "日本語です", "カタカナひらがな", "abc日本語def",
         "中文abc", "中文 123", "123中文", "한국어 텍스트", "ไทย", "ह", "हि", "a\u0301", "\u0301", "\u0301a", " \u0301", "a \u0301b", "\u200d", "\u200c", "a\u200db", "\ufe0f", "_", "__", "a__b", "‿", "⁀a", "Ⓐⓑ🄰🅐🅰",
         "<0x0A>", "<0xE2>", "<0xZZ>", "<unk>", "[UNK]", "##a", "</w>", "Ġ", "ĠĠ", "Ċ", "Ã©", "âĢĻ"]

SPECIAL = ["<s>", "</s>", "<s>a", "a<s>", "<s>a</s>", "a <s> b", "<s><s>", "<s> ", " <s>", "<|im_start|>user\nhello<|im_end|>\n", "<|im_start|>", "<|im_start|", "|im_start|>", "<|im_start|><|im_end|>",
           "<tool_call>\n{\"a\": 1}\n</tool_call>", "<tool_call>", "x<tool_call>y", "<|begin_of_text|>a", "<bos>a<eos>", "<mask>", "a <mask> b", "a<mask>b", "a  <mask>  b", "\t<mask>\n", "<mask><mask>", "<mask> <mask>",
           "WORDY", "a WORDY b", "aWORDYb", "WORDYb", "aWORDY", "WORDY!", "(WORDY)", "_WORDY", "éWORDY", "WORDY WORDY", "Norm", "norm", "NORM", "xNormx", " Norm ", "a Norm b", "NormNorm", "<LONG>", "<LONG><LONGER>",
           "<LONGER>", "<LONG", "<LO<LONG>", "<|im_start|>\u00e9<|im_end|>", "<s >", "< s>", "<S>", "＜s＞", "a<s>b<s>c</s>d"]


def corpus():
    texts = [w for w in WORDS if w] + SCRIPTS + SYMBOLS + SPACES + EDGES + SPECIAL
    texts += [" ".join(SCRIPTS[i::5]) for i in range(2)] + ["\n".join(WORDS)] + ["".join(SYMBOLS)]
    for t, n in [("a", 1000), (" ", 300), ("\n", 200), ("\r\n", 100), ("\t", 70), ("1", 500), ("ab", 600), (" a", 300), ("é", 300), ("e\u0301", 200), ("\u0301\u0323", 150), ("👨‍👩‍👧‍👦", 30), ("日本", 300),
                 ("!", 300), ("'s", 100), ("<s>", 50), ("\u2581", 100), ("\x00", 100), ("😀", 100), ("  \n", 100), ("the ", 200), ("aA", 200), ("\u0e33", 50), ("한", 100)]:
        texts.append({"repeat": t, "times": n})
    return texts


def expand(t):
    return t if isinstance(t, str) else t["repeat"] * t["times"]


# ---- Generated texts: the same little generator is in test_tokenizer.c -----------------------------------------------

RANGES = [(0x20, 0x7E)] * 5 + [(0x00, 0x1F), (0x80, 0x24F), (0x250, 0x5FF), (0x600, 0x6FF), (0x900, 0xDFF), (0xE00, 0x10FF), (0x1100, 0x11FF), (0x1E00, 0x206F), (0x2070, 0x2BFF), (0x3000, 0x30FF), (0x4E00, 0x9FA5),
                                  (0xAC00, 0xD7A3), (0xFB00, 0xFDCF), (0xFE00, 0xFFFD), (0x1F300, 0x1F64F), (0x0300, 0x036F)]
BITS = [" ", "  ", "\n", "\r\n", "\t", "'s", "'ll", "'RE", "the", "The", "ing", "123", "0", "\u2581", "e\u0301", "<s>", "<mask>", "WORDY", "Norm", "<|im_start|>", "\u200d", "\u3000", "!\n", " a", "日本"]
RANDOM_TEXTS, RANDOM_BLOCK = 2000, 100


def random_texts():
    state = 1

    def draw(n):
        nonlocal state
        state = (state * 6364136223846793005 + 1442695040888963407) & (2**64 - 1)
        return (state >> 33) % n

    for _ in range(RANDOM_TEXTS):
        text = ""
        for _ in range(draw(24)):
            kind = draw(3)
            if kind == 0:
                text += BITS[draw(len(BITS))]
            else:
                lo, hi = RANGES[draw(len(RANGES))]
                for _ in range(1 + draw(3 if kind == 1 else 8)):
                    c = lo + draw(hi - lo + 1)
                    if unicodedata.category(chr(c)) == "Cn":
                        c = 0x41
                    text += chr(c)
        yield text


def assigned_bitmap():
    """Code points below 0x20000 that this Python knows as unassigned, as [first, last] pairs, for the generator in C."""
    pairs = []
    for c in range(0x20000):
        if unicodedata.category(chr(c)) != "Cn":
            continue
        if pairs and pairs[-1][1] == c - 1:
            pairs[-1][1] = c
        else:
            pairs.append([c, c])
    return [p for p in pairs if any(lo <= p[1] and p[0] <= hi for lo, hi in RANGES)]


def digest_blocks(encode):
    out, h, n = [], hashlib.sha256(), 0
    for text in random_texts():
        h.update((" ".join(map(str, encode(text))) + "\n").encode())
        n += 1
        if n % RANDOM_BLOCK == 0:
            out.append(h.hexdigest()[:16])
            h = hashlib.sha256()
    return out


# ---- Results -------------------------------------------------------------------------------------------------------


def runs(ids):
    out, i = [], 0
    while i < len(ids):
        j = i
        while j < len(ids) and ids[j] == ids[i]:
            j += 1
        out.append(str(ids[i]) if j - i == 1 else f"{ids[i]}*{j - i}")
        i = j
    return " ".join(out)


def plain_tokenizer(tok):
    """The tokenizer for text whose special tokens are plain text. `tokenizers` lets a Unigram model still find them as
    pieces of its own; here they get a spelling that no text has."""
    data = json.loads(tok.to_str())
    if data["model"]["type"] == "Unigram":
        special = {t["content"] for t in data["added_tokens"] if t["special"]}
        data["added_tokens"] = [t for t in data["added_tokens"] if not t["special"]]
        data["post_processor"] = None
        data["model"]["vocab"] = [["\U0010abcd" + t if t in special else t, s] for t, s in data["model"]["vocab"]]
    plain = Tokenizer.from_str(json.dumps(data))
    plain.encode_special_tokens = True
    return plain


def results(tok, texts):
    """What `tokenizers` makes of |texts|."""
    texts = [expand(t) for t in texts]
    plain = plain_tokenizer(tok)
    bare = tok.encode("a", add_special_tokens=False).ids
    full = tok.encode("a").ids
    at = next(i for i in range(len(full) + 1) if full[i:i + len(bare)] == bare)
    g = {"before": full[:at], "after": full[at + len(bare):], "ids": [], "plain": {}, "text": {}, "skipped": {}}
    for i, t in enumerate(texts):
        ids = tok.encode(t, add_special_tokens=False).ids
        assert tok.encode(t).ids == g["before"] + ids + g["after"], (i, t)
        g["ids"].append(runs(ids))
        p = plain.encode(t, add_special_tokens=False).ids
        if p != ids:
            g["plain"][str(i)] = runs(p)
        d, s = tok.decode(ids, skip_special_tokens=False), tok.decode(ids)
        if d != t:
            g["text"][str(i)] = d
        if s != d:
            g["skipped"][str(i)] = s
    g["random"] = digest_blocks(lambda t: tok.encode(t, add_special_tokens=False).ids)
    return g


def dump(name, value, **kw):
    path = os.path.join(OUT, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8", newline="\n") as f:
        json.dump(value, f, ensure_ascii=True, separators=(",", ":"), **kw)
        f.write("\n")


# ---- Byte-level families --------------------------------------------------------------------------------------------


def training_texts():
    return WORDS * 3 + SCRIPTS + EDGES + SYMBOLS[:10] + ["    return x\n\n        if y:\n"] * 5


def isolated(pattern):
    return pre_tokenizers.Split(Regex(pattern), "isolated")


def byte_level(name, steps, texts, *, normalizer=None, size=420, special=("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<s>", "</s>"), added=(),
               template=None, ignore_merges=False, decoder=None, add_prefix_space=False, use_regex=False):
    tok = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    if normalizer:
        tok.normalizer = normalizer
    tok.pre_tokenizer = pre_tokenizers.Sequence(steps + [pre_tokenizers.ByteLevel(add_prefix_space=add_prefix_space, use_regex=use_regex)])
    tok.decoder = decoder or decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=size, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()), show_progress=False, special_tokens=list(special))
    tok.train_from_iterator(training_texts(), trainer)
    for t in added:
        tok.add_tokens([t])
    if template:
        tok.post_processor = processors.TemplateProcessing(single=template, special_tokens=[(t, tok.token_to_id(t)) for t in template.split() if t != "$A"])
    finish(name, tok, texts)
    return tok


def finish(name, tok, texts, old_merges=False):
    data = json.loads(tok.to_str())
    if old_merges:
        data["model"]["merges"] = [" ".join(m) for m in data["model"]["merges"]]
    dump(f"{name}.json", data)
    dump(f"{name}.golden.json", results(tok, texts))


def byte_level_families(texts):
    tools = [AddedToken("<tool_call>", special=False, normalized=False), AddedToken("</tool_call>", special=False, normalized=False)]
    byte_level("gpt2", [], texts, use_regex=True, add_prefix_space=True)
    byte_level("llama3", [isolated(LLAMA3)], texts, ignore_merges=True, special=("<|begin_of_text|>", "<|end_of_text|>", "<s>"), template="<|begin_of_text|> $A")
    byte_level("qwen2", [isolated(QWEN2)], texts, normalizer=normalizers.NFC(), added=tools + [AddedToken("Norm", normalized=True), AddedToken("WORDY", single_word=True)])
    byte_level("smollm", [pre_tokenizers.Digits(individual_digits=True)], texts, use_regex=True)
    byte_level("command-r", [pre_tokenizers.Digits(individual_digits=True)], texts, normalizer=normalizers.NFC(), use_regex=True, template="<s> $A </s>")
    byte_level("command-a", [isolated(COMMAND), isolated(GPT4O)], texts)
    byte_level("deepseek-v3", [isolated(r"\p{N}{1,3}"), isolated("[一-龥\u3040-ゟ゠-ヿ]+"), isolated(DEEPSEEK3)], texts, added=[AddedToken("<mask>", lstrip=True, rstrip=True, special=True)])
    byte_level("tekken", [isolated(TEKKEN)], texts, ignore_merges=True, template="<s> $A")
    byte_level("gpt-4o", [isolated(GPT4O)], texts)
    byte_level("phi4", [isolated(PHI4)], texts)
    byte_level("seed", [isolated(SEED)], texts)
    byte_level("exaone", [isolated(EXAONE)], texts, normalizer=normalizers.NFC())
    byte_level("olmo2", [isolated(LLAMA3)], texts, added=[AddedToken(" " * n, normalized=False) for n in range(2, 6)])


# ---- SentencePiece-like families ------------------------------------------------------------------------------------


def sp_training_texts():
    return [t for t in (WORDS * 3 + SCRIPTS[:3] + EDGES[:150] + ["    return x\u3000y   if z"] * 5) * 2 if t.strip() and "\x00" not in t]


def train_sp(name, kind, folder=None, **options):
    path = os.path.join(OUT, folder or "tmp", "tokenizer") if folder else os.path.join("/tmp", "sp_" + name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    spm.SentencePieceTrainer.train(sentence_iterator=iter(sp_training_texts()), model_prefix=path, model_type=kind,
                                   minloglevel=2, num_threads=1, **options)
    os.remove(path + ".vocab")
    return path + ".model"


def load_proto(path):
    from sentencepiece import sentencepiece_model_pb2 as pb
    p = pb.ModelProto()
    p.ParseFromString(open(path, "rb").read())
    return p


def merges_from_scores(vocab):
    """Merges of a SentencePiece vocabulary [(piece, score)]: every split into two pieces, by descending (score, lengths)."""
    ids = {p: i for i, (p, _) in enumerate(vocab)}
    merges = []
    for piece, score in vocab:
        local = [(piece[:k], piece[k:], score) for k in range(1, len(piece)) if piece[:k] in ids and piece[k:] in ids]
        merges += sorted(local, key=lambda m: (ids[m[0]], ids[m[1]]))
    return [(a, b) for a, b, _ in sorted(merges, key=lambda m: (m[2], len(m[0]), len(m[1])), reverse=True)]


def sp_bpe(vocab, special, user):
    tok = Tokenizer(models.BPE({p: i for i, (p, _) in enumerate(vocab)}, merges_from_scores(vocab), unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tok.add_special_tokens([AddedToken(t, normalized=False, special=True) for t in special])
    tok.add_tokens([AddedToken(t, normalized=False, special=False) for t in user])
    return tok


SPACE_DECODER = [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()]


def sentencepiece_families(texts):
    proto = load_proto(train_sp("bpe", "bpe", vocab_size=900, byte_fallback=True, character_coverage=0.98, normalization_rule_name="identity", remove_extra_whitespaces=False,
                                split_digits=True, allow_whitespace_only_pieces=True, user_defined_symbols=["\n\n", "\n\n\n", "\u2581\u2581", "\u2581\u2581\u2581", "<mask>"]))
    vocab = [(p.piece, p.score) for p in proto.pieces]
    special, user = [p.piece for p in proto.pieces if p.type in (2, 3)], [p.piece for p in proto.pieces if p.type == 4]
    bos = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])

    legacy = sp_bpe(vocab, special, user)
    legacy.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    legacy.decoder = decoders.Sequence(SPACE_DECODER + [decoders.Strip(" ", 1, 0)])
    legacy.add_tokens([AddedToken("Norm", normalized=True), AddedToken("WORDY", single_word=True, normalized=False), AddedToken("<LONG>", rstrip=True, normalized=False)])
    legacy.post_processor = bos
    finish("llama2", legacy, texts, old_merges=True)

    modern = sp_bpe(vocab, special, user)
    modern.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    modern.decoder = decoders.Sequence(SPACE_DECODER + [decoders.Strip(" ", 1, 0)])
    modern.post_processor = bos
    finish("mistral", modern, texts)

    gemma = sp_bpe(vocab, special, user)
    gemma.normalizer = normalizers.Replace(" ", "\u2581")
    gemma.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    gemma.decoder = decoders.Sequence(SPACE_DECODER)
    gemma.post_processor = bos
    finish("gemma", gemma, texts)
    gguf_like("gguf_llama", proto, vocab, texts, True)
    gguf_like("gguf_gemma", proto, vocab, texts, False)

    rules = os.path.join("/tmp", "sp_rules.tsv")
    with open(rules, "w") as f:
        for a, b in [("ﬁ", "fi"), ("ﬃ", "ffi"), ("①", "1"), ("Ⅳ", "IV"), ("\u304b\u3099", "\u304c"), ("\u00a0", " "), ("\u3000", " "), ("\t", " "), ("\n", " "), ("\r\n", " "), ("e\u0301", "\u00e9"), ("\u200b", ""), ("㍻", "平成"), ("Ａ", "A"), ("…", "..."), ("\u0e33", "\u0e4d\u0e32"), ("\u2028", " ")]:
            f.write(" ".join(f"{ord(c):X}" for c in a) + "\t" + " ".join(f"{ord(c):X}" for c in b) + "\n")
    proto = load_proto(train_sp("uni", "unigram", vocab_size=600, byte_fallback=True, normalization_rule_tsv=rules, character_coverage=0.98))
    charsmap = proto.normalizer_spec.precompiled_charsmap
    vocab = [(p.piece, p.score) for p in proto.pieces]
    for name, fallback in [("unigram", False), ("unigram-bytes", True)]:
        tok = Tokenizer(models.Unigram(vocab, 0, fallback))
        tok.normalizer = normalizers.Sequence([normalizers.Precompiled(charsmap), normalizers.Strip(left=fallback, right=True), normalizers.Replace(Regex(" {2,}"), "\u2581")])
        tok.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first" if fallback else "always")
        tok.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace()]) if fallback else decoders.Metaspace()
        tok.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in ("<unk>", "<s>", "</s>")] + [AddedToken("<mask>", lstrip=True, special=True)])
        tok.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 1)) if fallback else processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 2)])
        finish(name, tok, texts)

    for folder, kind, options in [("sp_bpe", "bpe", dict(normalization_rule_name="identity", remove_extra_whitespaces=False, character_coverage=0.98)),
                                  ("sp_unigram", "unigram", dict(normalization_rule_tsv=rules, character_coverage=0.98))]:
        sp_golden(folder, train_sp(folder, kind, folder, vocab_size=600, byte_fallback=True, **options), texts)


def sp_golden(folder, path, texts):
    sp = spm.SentencePieceProcessor(model_file=path)
    dump(f"{folder}/golden.json", {"ids": [runs(sp.encode(expand(t))) for t in texts], "random": digest_blocks(lambda t: sp.encode(t))})
    dump(f"{folder}/tokenizer_config.json", {"tokenizer_class": "LlamaTokenizer", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "add_bos_token": True,
                                             "chat_template": "{{ bos_token }}{% for m in messages %}{{ m.content }}{% endfor %}"})


def gguf_like(name, proto, vocab, texts, prefix):
    """GGUF metadata of the same vocabulary as JSON, spelled as converters do, with the results of the equal tokenizer."""
    arch = "llama" if prefix else "gemma2"
    tokens = [p.piece.replace("\u2581", " ") if p.type == 4 else p.piece for p in proto.pieces]
    meta = {"general.architecture": arch, "tokenizer.ggml.model": "llama", "tokenizer.ggml.pre": "default", "tokenizer.ggml.tokens": tokens, "tokenizer.ggml.scores": [-1000.0 if p.type in (3, 4) else p.score for p in proto.pieces],
            "tokenizer.ggml.token_type": [p.type for p in proto.pieces], "tokenizer.ggml.bos_token_id": 1, "tokenizer.ggml.eos_token_id": 2, "tokenizer.ggml.unknown_token_id": 0,
            "tokenizer.ggml.add_space_prefix": prefix, "tokenizer.chat_template": "{{ messages }}"}
    if not prefix:
        vocab = [("\t" if p == "<0x09>" else p, s) for p, s in vocab]
    tok = sp_bpe([(p.piece if v != "\t" else "\t", 0.0 if p.type == 4 else p.score if p.type != 3 else -1000.0) for p, (v, _) in zip(proto.pieces, vocab)],
                 [p.piece for p in proto.pieces if p.type in (2, 3)], [p.piece for p in proto.pieces if p.type == 4])
    tok.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")]) if prefix else normalizers.Replace(" ", "\u2581")
    tok.decoder = decoders.Sequence(SPACE_DECODER + ([decoders.Strip(" ", 1, 0)] if prefix else []))
    tok.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    dump(f"{name}.json", meta)
    dump(f"{name}.golden.json", results(tok, texts))


# ---- Components, on a model that shows where pieces end ---------------------------------------------------------------


def probe_model(**kw):
    letters = sorted(set("".join(EDGES + SPACES + SCRIPTS[:3]) + "\u2581ĠĊĉ"))
    vocab = {"<unk>": 0}
    for c in letters:
        for t in (c, c + "</w>"):
            vocab.setdefault(t, len(vocab))
    return models.BPE(vocab, [], unk_token="<unk>", end_of_word_suffix="</w>", **kw)


def probes(texts):
    P, N, D = pre_tokenizers, normalizers, decoders
    behaviors = ["isolated", "removed", "merged_with_previous", "merged_with_next", "contiguous"]
    cases = [dict(pre=P.Split(p, b, invert=i)) for p in (" ", "a", Regex(r"\s+|'|\d"), Regex(r"\w+"), Regex(r"(?=[A-Z])"), Regex(r"(?:)"), Regex(r"[^\S\n]+"), Regex(r"\b"), Regex(r"^.|.$"))
             for b in behaviors for i in (False, True) if not (i and b == "merged_with_next" and isinstance(p, str))]
    cases += [dict(pre=P.Punctuation(b)) for b in behaviors] + [dict(pre=P.Digits(i)) for i in (False, True)]
    cases += [dict(pre=P.Whitespace()), dict(pre=P.WhitespaceSplit()), dict(pre=P.BertPreTokenizer()), dict(pre=P.CharDelimiterSplit("a")), dict(pre=P.Sequence([P.WhitespaceSplit(), P.Punctuation(), P.Digits(True)]))]
    cases += [dict(pre=P.Metaspace("\u2581", s, split=x), dec=D.Metaspace("\u2581", s, split=x)) for s in ("always", "first", "never") for x in (False, True)]
    cases += [dict(pre=P.ByteLevel(a, use_regex=r)) for a in (False, True) for r in (False, True)]
    cases += [dict(pre=P.Split(Regex(r), "isolated")) for r in (r"\p{Han}+|\p{Greek}+|\p{Latin}+", r"\p{^L}+", r"[^\W\d]+" if False else r"[\w-]+", r"(?i)[a-c]{2}?", r"a{2}+", r"(?<=a)b|(?<!a)c", r"(?>a+)b?", r"[\u0041-\u0043\x{44}]+", r"\S+\s*", r"(?m:.)+", r".+", r"\p{Lu}\p{Ll}*", r"[[]" if False else r"[\[\]]", r"x|", r"\p{N}{,2}")]
    cases += [dict(norm=n) for n in (N.NFC(), N.NFD(), N.NFKC(), N.NFKD(), N.Lowercase(), N.StripAccents(), N.Strip(True, False), N.Strip(False, True), N.Strip(), N.Prepend("_"), N.Replace("a", "bb"), N.Replace(Regex(r"\s+"), " "),
                                     N.Replace(Regex(r"[A-Z]"), ""), N.ByteLevel(), N.Nmt(), N.Sequence([N.NFD(), N.StripAccents(), N.Lowercase(), N.Strip()]))]
    cases += [dict(norm=N.Strip(), pre=P.Metaspace("\u2581", "first")), dict(norm=N.NFKD(), pre=P.Sequence([P.Digits(True), P.Punctuation("contiguous")]))]
    cases += [dict(dec=d) for d in (D.ByteLevel(), D.ByteFallback(), D.Fuse(), D.BPEDecoder("</w>"), D.Strip("a", 1, 0), D.Strip("a", 2, 0), D.Strip(">", 0, 1), D.Replace("a", "xyz"), D.Replace(Regex("[ab]<"), "!"), D.Metaspace("a", "always"), D.Metaspace("a", "never"),
                                   D.Sequence([D.Fuse(), D.Strip("a", 3, 0)]), D.Sequence([D.Fuse(), D.Replace("</w>", " "), D.Strip(">", 0, 1)]), D.Sequence([D.BPEDecoder("</w>"), D.Fuse(), D.Strip("a", 1, 0)]))]
    cases += [dict(model=dict(fuse_unk=True)), dict(model=dict(fuse_unk=True), pre=P.Whitespace())]
    few = [t for t in EDGES + SPACES + SCRIPTS[:6] + SYMBOLS[7:9] + ["Aé b'c1 2\n D-E_f  Gaab abab aaa!"]]
    out = []
    for c in cases:
        tok = Tokenizer(probe_model(**c.get("model", {})))
        if "norm" in c:
            tok.normalizer = c["norm"]
        if "pre" in c:
            tok.pre_tokenizer = c["pre"]
        if "dec" in c:
            tok.decoder = c["dec"]
        data = json.loads(tok.to_str())
        ids = [tok.encode(t).ids for t in few]
        h = lambda rows: [hashlib.sha256("\n".join(rows[i:i + 16]).encode()).hexdigest()[:12] for i in range(0, len(rows), 16)]
        out.append({"parts": {k: data[k] for k in ("normalizer", "pre_tokenizer", "decoder")}, "fuse_unk": data["model"]["fuse_unk"],
                    "ids": h([" ".join(map(str, i)) for i in ids]), "text": h([(tok.decode(i) if i else "").replace("\n", "\\n") for i in ids])})
    dump("probe.json", {"model": json.loads(Tokenizer(probe_model()).to_str())["model"], "texts": few, "cases": out})

    bert = Tokenizer(models.BPE({t: i for i, t in enumerate(["[UNK]", "a", "b", "c", "##a", "##b", "##c", "ab", "##ab", "abc", "##bc", "é"])}, [("a", "##b"), ("ab", "##c"), ("##b", "##c"), ("##a", "##b")], unk_token="[UNK]", continuing_subword_prefix="##"))
    bert.normalizer = N.Sequence([N.NFC(), N.Lowercase()])
    bert.pre_tokenizer = P.BertPreTokenizer()
    finish("affixes", bert, texts)


# ---- Real GGUF files -------------------------------------------------------------------------------------------------


def gguf_metadata(path):
    from gguf import GGUFReader
    return {k: f.contents() for k, f in GGUFReader(path).fields.items() if k.startswith(("tokenizer.", "general."))}


def real_smollm2(path, texts):
    """transformers' reading of the file, with what a byte-level tokenizer.json has: no unknown token or byte fallback, and
    the split of digits, which transformers leaves out and which the rule that GGUF names "smollm" contains."""
    from transformers import AutoTokenizer
    data = json.loads(AutoTokenizer.from_pretrained(os.path.dirname(path), gguf_file=os.path.basename(path)).backend_tokenizer.to_str())
    data["model"].update(unk_token=None, fuse_unk=False, byte_fallback=False)
    tok = Tokenizer.from_str(json.dumps(data))
    tok.normalizer = normalizers.Sequence([])
    tok.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)])
    tok.decoder = decoders.ByteLevel()
    tok.post_processor = processors.ByteLevel()
    dump("gguf_smollm2.golden.json", results(tok, texts))


def real_gemma3(path, texts):
    """Byte-pair encoding with merges from the scores, which is what Gemma is; transformers reads this file as unigram."""
    meta = gguf_metadata(path)
    kind, score = meta["tokenizer.ggml.token_type"], meta["tokenizer.ggml.scores"]
    vocab = []
    for i, t in enumerate(meta["tokenizer.ggml.tokens"]):
        t = "\t" if t == "<0x09>" and "\t" not in meta["tokenizer.ggml.tokens"] else "\u2581" * len(t) if kind[i] == 4 and t and not t.strip(" ") else t
        vocab.append((t, 0.0 if kind[i] == 4 else score[i]))
    tok = sp_bpe(vocab, [t for (t, _), k in zip(vocab, kind) if k in (2, 3)], [t for (t, _), k in zip(vocab, kind) if k == 4])
    tok.normalizer = normalizers.Replace(" ", "\u2581")
    tok.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    tok.decoder = decoders.Sequence(SPACE_DECODER)
    tok.post_processor = processors.TemplateProcessing(single="<bos> $A", special_tokens=[("<bos>", 2)])
    dump("gguf_gemma3.golden.json", results(tok, texts))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--gguf", action="append", default=[], help="smollm2=FILE or gemma3=FILE")
    ap.add_argument("--only-gguf", action="store_true")
    args = ap.parse_args()
    texts = corpus()
    if not args.only_gguf:
        dump("corpus.json", texts)
        dump("generator.json", {"texts": RANDOM_TEXTS, "block": RANDOM_BLOCK, "ranges": RANGES, "bits": BITS, "unassigned": assigned_bitmap()})
        byte_level_families(texts)
        sentencepiece_families(texts)
        probes(texts)
    for arg in args.gguf:
        name, path = arg.split("=", 1)
        {"smollm2": real_smollm2, "gemma3": real_gemma3}[name](path, texts)


if __name__ == "__main__":
    sys.exit(main())
