"""Writes src/tokenizer/unicode_tables.h: what `tokenizers` takes for a number, punctuation, …, asked of itself.

  make_unicode_tables.py > src/tokenizer/unicode_tables.h && clang-format-14 -i src/tokenizer/unicode_tables.h

The libraries at hand (PCRE2, utf8proc) know one version of Unicode each, `tokenizers` another one for each of its parts.
Needs the packages `tokenizers` and `unicodedata2`.
"""
import bisect
import unicodedata

import unicodedata2
from tokenizers import Regex, normalizers, pre_tokenizers

ALL = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
KNOWN = "14.0.0"  # the oldest Unicode of a library in use (PCRE2 10.40 and later)
# Older characters that are Alphabetic in newer versions only: no likeness of one that is.
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


def table(name, comment, rows):
    print(f"\n/// {comment}\nconstexpr Range {name}[] = {{")
    line = "   "
    for first, last in rows:
        item = f" {{0x{first:X}, 0x{last:X}}},"
        if len(line) + len(item) > 120:
            print(line)
            line = "   "
        line += item
    print(line + "\n};")


def inert():
    """Characters that today's Unicode decomposes or reorders and `tokenizers` does not: they are newer than its tables."""
    nfd, nfkd = normalizers.NFD(), normalizers.NFKD()

    def is_ordered(c):
        return nfd.normalize_str("\u0315" + chr(c))[0] != "\u0315" or nfd.normalize_str(chr(c) + "\u0334")[0] == "\u0334"

    return {c for c in ALL if (unicodedata2.combining(chr(c)) and not is_ordered(c)) or
            (unicodedata2.decomposition(chr(c)) and nfkd.normalize_str(chr(c)) == chr(c))}


def newer():
    """Runs of characters newer than KNOWN, or of another category by now, with an older character for each: of the same
    category and length, Alphabetic or not as it is."""
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


def main():
    bert = {"clean_text": False, "handle_chinese_chars": False, "strip_accents": False, "lowercase": False}
    cleaner = normalizers.BertNormalizer(**{**bert, "clean_text": True})
    print("// What `tokenizers` 0.23.3 says of characters. Made by tools/make_unicode_tables.py: not to be edited.\n#pragma once\n\n#include <cstdint>\n\n"
          "namespace vitrine::unicode_tables {\n\nstruct Range {\n  std::uint32_t first, last;\n};")
    table("kNumeric", "The pre-tokenizer Digits.", ranges(kept_apart(pre_tokenizers.Digits(True))))
    table("kPunctuation", "The pre-tokenizer Punctuation.", ranges(kept_apart(pre_tokenizers.Punctuation("isolated"))))
    table("kCombiningMark", "The normalizer StripAccents.", ranges(removed(normalizers.StripAccents())))
    stripper, nfd = normalizers.BertNormalizer(**{**bert, "strip_accents": True}), normalizers.NFD()
    accents = {c for c in ALL if nfd.normalize_str(chr(c)) == chr(c) and stripper.normalize_str(chr(c)) == ""}
    table("kNonspacingMark", "BertNormalizer's strip_accents.", ranges(accents))
    table("kControl", "What BertNormalizer's clean_text drops.", ranges({c for c in ALL if cleaner.normalize_str(chr(c)) == ""}))
    words = {c for c in ALL if len(pre_tokenizers.Whitespace().pre_tokenize_str("a" + chr(c) + "a")) == 1}
    table("kWord", "\\\\w of the pre-tokenizer Whitespace, and single_word of added tokens.".replace("\\\\", "\\"), ranges(words))
    table("kInert", "Decomposed or reordered by newer tables of Unicode only.", ranges(inert()))
    rows = newer()
    print("\n/// Characters newer than Unicode 14, or of another category since, with an older one of the same kind and as many bytes.\nstruct Newer {\n  std::uint32_t first, last, like;\n};\n"
          "constexpr Newer kNewer[] = {")
    line = "   "
    for first, last, like in rows:
        item = f" {{0x{first:X}, 0x{last:X}, 0x{like:X}}},"
        if len(line) + len(item) > 120:
            print(line)
            line = "   "
        line += item
    print(line + "\n};")
    lower = normalizers.Lowercase()
    print("\n/// Lower case that is newer than Unicode 14.\nstruct Lower {\n  std::uint32_t upper, lower;\n};\nconstexpr Lower kLower[] = {")
    line = "   "
    for c in ALL:
        low = lower.normalize_str(chr(c))
        if low != chr(c) and len(low) == 1 and unicodedata.category(chr(c)) == "Cn":
            item = f" {{0x{c:X}, 0x{ord(low):X}}},"
            if len(line) + len(item) > 120:
                print(line)
                line = "   "
            line += item
    print(line + "\n};\n\n}  // namespace vitrine::unicode_tables")


if __name__ == "__main__":
    main()
