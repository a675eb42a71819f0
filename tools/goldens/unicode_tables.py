"""Writes src/tokenizer/unicode_tables.h: the characters that `tokenizers` treats as numbers, punctuation, ….

  python tools/goldens unicode_tables > src/tokenizer/unicode_tables.h && clang-format-14 -i src/tokenizer/unicode_tables.h

PCRE2 and utf8proc each implement one version of Unicode; `tokenizers` implements a different one in each of its parts.
A property is a set of categories with exceptions, so that it is the same with every utf8proc from Unicode 14 to 18.
Needs the packages `tokenizers` and `unicodedata2` (Unicode 18), and a Python whose unicodedata has Unicode 14 (3.11).
"""
import bisect
import unicodedata

import unicodedata2
from tokenizers import Regex, normalizers, pre_tokenizers

ALL = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
KNOWN = "14.0.0"  # the oldest Unicode of a library in use (PCRE2 10.40 and later)
# Older characters that are Alphabetic in newer versions only: they cannot replace a newer Alphabetic character.
NEWLY_ALPHABETIC = {*range(0x363, 0x370), 0xC04, 0xF82, 0xF83, *range(0x1DD3, 0x1DE7), 0x11080, 0x11081}


def chunks():
    for i in range(0, len(ALL), 4096):
        yield ALL[i:i + 4096]


def kept_apart(pre):
    return {c for c in ALL if len(pre.pre_tokenize_str("a" + chr(c) + "a")) == 3}


def removed(normalizer):
    out = set()
    for some in chunks():
        out |= set(some) - set(map(ord, normalizer.normalize_str("".join(map(chr, some)))))
    return out


def ranges(members):
    out = []
    for c in sorted(members):
        if out and out[-1][1] == c - 1:
            out[-1][1] = c
        else:
            out.append([c, c])
    return out


def exceptions(members, categories):
    """Ranges of characters that all have the property or all lack it. They cover every character for which the category
    gives the wrong answer in the oldest or the newest version of Unicode."""
    out = []
    last = None  # the answer of the last range, while all characters since then have the same one; else None
    for c in ALL:
        has = c in members
        if has != last:
            last = None
        if all((version.category(chr(c)) in categories) == has for version in (unicodedata, unicodedata2)):
            continue
        if last is None:
            out.append([c, c, has])
        out[-1][1] = c
        last = has
    return [(first, end, str(has).lower()) for first, end, has in out]


def table(type_, name, comment, rows):
    print(f"\n/// {comment}\nconstexpr {type_} {name}[] = {{")
    line = "   "
    for row in rows:
        item = " {" + ", ".join(v if isinstance(v, str) else f"0x{v:X}" for v in row) + "},"
        if len(line) + len(item) > 120:
            print(line)
            line = "   "
        line += item
    print(line + "\n};")


def inert():
    """Characters that Unicode 18 decomposes or reorders and `tokenizers` does not, because they are newer than its tables."""
    nfd, nfkd = normalizers.NFD(), normalizers.NFKD()

    def is_ordered(c):
        return nfd.normalize_str("\u0315" + chr(c))[0] != "\u0315" or nfd.normalize_str(chr(c) + "\u0334")[0] == "\u0334"

    return {c for c in ALL if (unicodedata2.combining(chr(c)) and not is_ordered(c)) or
            (unicodedata2.decomposition(chr(c)) and nfkd.normalize_str(chr(c)) == chr(c))}


def newer():
    """Runs of characters that are newer than KNOWN or have changed their category since. Each run has an older character
    of the same category and length, which is Alphabetic if and only if the run is."""
    assert unicodedata.unidata_version == KNOWN
    category = {}
    for name in ("Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No", "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "Sm", "Sc", "Sk", "So", "Cf"):
        category.update(dict.fromkeys(removed(normalizers.Replace(Regex(f"\\p{{{name}}}"), "")), name))
    alphabetic = removed(normalizers.Replace(Regex(r"\p{Alphabetic}"), ""))
    kind = {c: (name, c in alphabetic, len(chr(c).encode())) for c, name in category.items()}
    old = {}
    for c in sorted(kind):
        if unicodedata.category(chr(c)) == category[c] and c not in NEWLY_ALPHABETIC:
            old.setdefault(kind[c], []).append(c)
    rows = []
    for c in sorted(category):
        if unicodedata.category(chr(c)) == category[c]:
            continue
        at = bisect.bisect(old[kind[c]], c)
        like = min(old[kind[c]][max(at - 1, 0):at + 1], key=lambda o: abs(o - c))
        same = rows and rows[-1][1] == c - 1 and kind[rows[-1][0]] == kind[c]
        if same:
            rows[-1][1] = c
        else:
            rows.append([c, c, like])
    return rows


def lower():
    """Runs of characters newer than KNOWN whose lower-case characters are also consecutive."""
    normalizer = normalizers.Lowercase()
    rows = []
    for c in ALL:
        low = normalizer.normalize_str(chr(c))
        if low == chr(c) or len(low) != 1 or unicodedata.category(chr(c)) != "Cn":
            continue
        if rows and rows[-1][1] == c - 1 and ord(low) - c == rows[-1][2] - rows[-1][0]:
            rows[-1][1] = c
        else:
            rows.append([c, c, ord(low)])
    return rows


def main():
    assert (unicodedata.unidata_version, unicodedata2.unidata_version) == (KNOWN, "18.0.0")
    bert = {"clean_text": False, "handle_chinese_chars": False, "strip_accents": False, "lowercase": False}
    cleaner = normalizers.BertNormalizer(**{**bert, "clean_text": True})
    stripper, nfd = normalizers.BertNormalizer(**{**bert, "strip_accents": True}), normalizers.NFD()
    accents = {c for c in ALL if nfd.normalize_str(chr(c)) == chr(c) and stripper.normalize_str(chr(c)) == ""}
    words = {c for c in ALL if len(pre_tokenizers.Whitespace().pre_tokenize_str("a" + chr(c) + "a")) == 1}
    letters, marks = {"Lu", "Ll", "Lt", "Lm", "Lo"}, {"Mn", "Mc", "Me"}
    print("// Properties of characters in `tokenizers` 0.23.3. Generated by `tools/goldens unicode_tables`; do not edit.\n"
          "#pragma once\n\n#include <cstdint>\n\nnamespace vitrine::unicode_tables {\n\n"
          "struct Range {\n  std::uint32_t first, last;\n};\n\n"
          "/// Characters that have a property, or lack it, whatever their category. With these exceptions, a property does"
          " not\n/// depend on the version of Unicode from which the categories are, 14 to 18.\n"
          "struct Exception {\n  std::uint32_t first, last;\n  bool has;\n};")
    for name, comment, members, categories in (
            ("kNumeric", "The pre-tokenizer Digits.", kept_apart(pre_tokenizers.Digits(True)), {"Nd", "Nl", "No"}),
            ("kPunctuation", "The pre-tokenizer Punctuation.", kept_apart(pre_tokenizers.Punctuation("isolated")),
             {"Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po"}),
            ("kCombiningMark", "The normalizer StripAccents.", removed(normalizers.StripAccents()), marks),
            ("kNonspacingMark", "BertNormalizer's strip_accents.", accents, {"Mn"}),
            ("kControl", "Characters that BertNormalizer's clean_text removes.",
             {c for c in ALL if cleaner.normalize_str(chr(c)) == ""}, {"Cc", "Cf", "Co"}),
            ("kWord", "\\w of the pre-tokenizer Whitespace, and single_word of added tokens.", words,
             {*letters, *marks, "Nd", "Nl", "Pc"})):
        table("Exception", name, comment, exceptions(members, categories))
    table("Range", "kInert", "Characters that only newer versions of Unicode decompose or reorder.", ranges(inert()))
    print("\n/// A range, and an older character of the same category and the same number of bytes.\n"
          "struct Newer {\n  std::uint32_t first, last, like;\n};")
    table("Newer", "kNewer", "Characters that are newer than Unicode 14 or have changed their category since.", newer())
    print("\n/// A range whose characters become `lower` and those that follow it.\n"
          "struct Lower {\n  std::uint32_t first, last, lower;\n};")
    table("Lower", "kLower", "Lower case of characters newer than Unicode 14.", lower())
    print("\n}  // namespace vitrine::unicode_tables")
