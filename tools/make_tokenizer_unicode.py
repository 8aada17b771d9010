#!/usr/bin/env python3
"""Writes src/text/tokenizer_unicode_tables.c: the character classes of the `tokenizers` package, asked from the package
itself, so that tokens do not depend on the Unicode version of the system's libraries.

Run from the repository root with tools/requirements-goldens.txt (Python 3.11: Unicode 14 is the common ground)."""
import os, unicodedata
from tokenizers import Regex, normalizers as N, pre_tokenizers as P

assert unicodedata.unidata_version == "14.0.0", "run with Python 3.11"
ALL = [c for c in range(1, 0x110000) if not 0xD800 <= c < 0xE000]
CATEGORIES = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf".split()


def ranges(points):
    out = []
    for c in sorted(points):
        if out and out[-1][1] == c - 1:
            out[-1][1] = c
        else:
            out.append([c, c])
    return out


def removed(pre):
    return {c for c in ALL if not pre.pre_tokenize_str(chr(c))}


def word(c):
    pieces = P.Whitespace().pre_tokenize_str("a" + chr(c))
    return len(pieces) == 1 and pieces[0][0] != "a"


def table(name, rows, width, fmt, kind):
    lines = [f"static const {kind} {name}[] = {{"]
    items = [fmt(r) for r in rows]
    for i in range(0, len(items), width):
        lines.append("    " + ", ".join(items[i:i + width]) + ",")
    return "\n".join(lines + ["};", ""])


def pair(r):
    return f"{{0x{r[0]:X}, 0x{r[1]:X}}}"


def main():
    late = []
    new = [c for c in ALL if unicodedata.category(chr(c)) == "Cn"]
    for category in CATEGORIES:
        pre = P.Split(Regex(rf"\p{{{category}}}"), "removed")
        late += [(a, b, category) for a, b in ranges(c for c in new if not pre.pre_tokenize_str(chr(c)))]
    late_points = {c for a, b, _ in late for c in range(a, b + 1)}
    whole = {c for c in ALL if c not in late_points and unicodedata.normalize("NFKD", chr(c)) != N.NFKD().normalize_str(chr(c))}
    assert all(N.NFKD().normalize_str(chr(c)) == chr(c) for c in whole | late_points)
    lower = [(c, ord(N.Lowercase().normalize_str(chr(c)))) for c in new if N.Lowercase().normalize_str(chr(c)) != chr(c)]
    text = '/* Character classes as `tokenizers` 0.22.2 has them. Written by tools/make_tokenizer_unicode.py: do not edit. */\n'
    text += '#include "text/tokenizer_unicode_tables.h"\n\n'
    for name, points in [("words", {c for c in ALL if word(c)}), ("numbers", {c for c in ALL if len(P.Digits(True).pre_tokenize_str(f"a{chr(c)}a")) == 3}),
                         ("punctuation", removed(P.Punctuation("removed"))), ("marks", {c for c in ALL if N.StripAccents().normalize_str(chr(c)) == ""}), ("whole", whole)]:
        text += table(name, ranges(points), 6, pair, "ls_char_range") + "\n"
    text += table("late", sorted(late), 5, lambda r: f'{{0x{r[0]:X}, 0x{r[1]:X}, "{r[2]}"}}', "ls_late_range") + "\n"
    text += table("late_lower", lower, 6, pair, "ls_char_range") + "\n"
    for name, kind in [("words", "range"), ("numbers", "range"), ("punctuation", "range"), ("marks", "range"), ("whole", "range"), ("late", "late"), ("late_lower", "range")]:
        text += f"const ls_{'late' if kind == 'late' else 'char'}_table ls_uc_{name} = {{{name}, sizeof {name} / sizeof *{name}}};\n"
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "src", "text", "tokenizer_unicode_tables.c")
    with open(path, "w", newline="\n") as f:
        f.write(text)


if __name__ == "__main__":
    main()
