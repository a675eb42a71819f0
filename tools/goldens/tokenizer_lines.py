"""Lines of text that are hard for tokenizers: a mix of everything, and mixes with one difficulty each.

A line depends only on mix, seed and index.
"""
import random

N_LINES = 10_000

ENGLISH = ("the of and to in is that it was for on are with as his they be at one have this from or had by not but what "
           "some we can out other were all there when up use your how said an each she which do their time if will way "
           "about many then them write would like so these her long make thing see him two has look more day could go "
           "come did number sound no most people my over know water than call first who may down side been now find "
           "don't it's we'll I'm you've they'd tokenization unbelievable antidisestablishmentarianism QUALITY McDonald "
           "iPhone HTTPServer naïve café résumé").split()
GERMAN = ("der die das und ist nicht über für Straße Größe Äpfel Übung Donaudampfschifffahrtsgesellschaft schön "
          "möglich Häuser weiß ausländisch Überraschung Müller ẞ").split()
JAPANESE = ["日本語", "こんにちは", "世界", "カタカナ", "東京都", "人工知能", "。", "、", "ー", "々", "ｶﾀｶﾅ", "１２３", "㍿", "ガ", "が", "「引用」"]
ARABIC = ["مرحبا", "العالم", "كِتَابٌ", "لا", "ﷺ", "١٢٣", "اللُّغَة", "\u200f", "ﻻ", "؟"]
OTHER = ["Привет", "мир", "Ελληνικά", "ὀδυσσεύς", "हिन्दी", "ภาษาไทย", "กำ", "한국어", "각", "עברית", "தமிழ்", "Việt Nam", "ǅ", "İstanbul",
         "ﬁ", "ſ", "K", "Å", "½", "²", "Ⅷ", "①", "ª", "𝔘𝔫𝔦", "𝟘𝟙", "𠀀𠀁", "Ｆｕｌｌ", "ŉ", "ß", "ς", "΅", "ΐ"]
EMOJI = ["😀", "👍🏽", "👨‍👩‍👧‍👦", "🏳️‍🌈", "🇩🇪", "🇯🇵🇺", "❤️", "☺", "🧑🏿‍🚀", "1️⃣", "\u200d", "\ufe0f", "🫠", "🥲🥲🥲"]
CODE = ["def f(x):\n    return x + 1\n", "for (int i = 0; i < n; ++i) {", "std::vector<std::string>", "a[i]+=b->c;", "<div class=\"x\">",
        "#include <stdio.h>\n", "\t\tif x == None:", "0x1F3A", "SELECT * FROM t WHERE a='b';", "https://example.com/a?b=c&d=%20e#f",
        "user@example.org", "C:\\path\\to", "/* comment */", "${HOME}", "'''", "--flag=value", "a=b;c", "!!", "...", "->", "$$$"]
SPACES = [" ", " ", " ", "  ", "   ", "\t", "\n", "\r\n", "\n\n", " \n", "\n ", "\u00a0", "\u3000", "\u2003", "\u200b", "\u2028", "\u0085",
          "\u180e", "\u1680", "\u202f", " " * 7, " " * 33, "\t\t\t", "\n\n\n\n", " \t \n ", "\r", "\x0b", "\x0c", "▁", "▁▁"]
CONTROL = ["\x00", "\x01", "\x07", "\x1b[0m", "\x7f", "\x9f", "\ufeff", "\ufffd", "\u00ad", "\u200e", "\ue000", "\U000e0041", "\U0010fffd", "\u0378"]
MARKS = ["e\u0301", "a\u0308\u0301", "o\u0323\u0302", "q\u0307\u0323", "\u0301", "n\u0303\u0303\u0303", "\u1100\u1161\u11a8", "\u0915\u093c",
         "Z\u0351\u036b\u0343\u032a\u0302\u036b", "\u0344", "\u0f73", "i\u0307", "\u1e9b\u0323", "x\u20dd"]
SPECIAL = ["<s>", "</s>", "<unk>", "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<pad>", "<extra_id_0>", "<extra_id_99>", " <extra_id_7> ",
           "[CLS]", "[SEP]", "[MASK]", "[UNK]", "[PAD]", "<mask>", "<0x0A>", "<0xE2>", "<|im_start", "<S>", "<s><s>", "##ing", "Ġ", "Ċ", "</w>"]


def number(rng):
    kind = rng.randrange(6)
    if kind == 0:
        return str(rng.randrange(10))
    if kind == 1:
        return str(rng.randrange(10 ** rng.randrange(1, 20)))
    if kind == 2:
        return f"{rng.random() * 1000:.4f}"
    if kind == 3:
        return f"{rng.randrange(10**9):,}"
    if kind == 4:
        return f"{rng.randrange(1900, 2100)}-{rng.randrange(1, 13):02}-{rng.randrange(1, 29):02}"
    return "0" * rng.randrange(1, 9)


def any_character(rng):
    while True:
        c = rng.choice([rng.randrange(0x80), rng.randrange(0x800), rng.randrange(0x3000), rng.randrange(0x10000), rng.randrange(0x110000)])
        if not 0xD800 <= c < 0xE000:
            return chr(c)


def word(rng):
    kind = rng.randrange(100)
    for limit, words in ((30, ENGLISH), (38, GERMAN), (46, JAPANESE), (51, ARABIC), (58, OTHER), (64, EMOJI), (72, CODE), (75, CONTROL),
                         (79, MARKS), (84, SPECIAL)):
        if kind < limit:
            return rng.choice(words)
    if kind < 90:
        return number(rng)
    if kind < 92:
        return "".join(any_character(rng) for _ in range(rng.randrange(1, 5)))
    if kind < 94:
        return rng.choice("a!.ñ日😀 -_=") * rng.randrange(1, 40)
    if kind < 97:
        return rng.choice(ENGLISH).upper() + rng.choice(["", "'s", "'LL", "'T", "n't", "’s"])
    return "".join(rng.choice("abcdefghijklmnopqrstuvwxyzABCXYZ0123456789_'.,-") for _ in range(rng.randrange(1, 30)))


def mixed(rng, index):
    if index == 0:
        return ""
    if index <= 200:  # one word alone, then with spaces around it
        return rng.choice(["", " ", "  ", "\n"]) + word(rng) + rng.choice(["", " ", "\n"])
    parts = []
    for _ in range(rng.randrange(1, 24)):
        parts.append(word(rng))
        if rng.random() < 0.75:
            parts.append(rng.choice(SPACES[:3]) if rng.random() < 0.8 else rng.choice(SPACES))
    if rng.random() < 0.1:
        parts.insert(0, rng.choice(SPACES))
    return "".join(parts)


def scalars(rng):
    """Code points over all planes; half of the lines stay within one block of 256, where neighbors may combine."""
    n = rng.randrange(1, 30)
    if rng.random() < 0.5:
        return "".join(any_character(rng) for _ in range(n))
    block = ord(any_character(rng)) & ~0xFF
    return "".join(chr(block + rng.randrange(256)) if rng.random() < 0.8 else rng.choice(" ae\n1'") for _ in range(n))


def any_bytes(rng):
    """Random bytes, weighted so that pieces of UTF-8 are among them."""
    kinds = ([rng.randrange(256)], [rng.randrange(0x20, 0x7F)], list(rng.choice(JAPANESE + EMOJI + GERMAN).encode()),
             [rng.randrange(0x80, 0xC0)], [rng.choice([0xC0, 0xE0, 0xED, 0xF0, 0xF4, 0xF8, 0xFF])], [0x20])
    out = [byte for _ in range(rng.randrange(1, 30)) for byte in rng.choice(kinds)]
    return bytes(out[:-1] if rng.random() < 0.3 else out)


def raw_line(index, seed=0):
    """Line `index` of the mix of bytes, unmodified: mostly not valid UTF-8."""
    return any_bytes(random.Random(f"raw {seed} {index}"))


def joined_pieces(rng, pieces):
    parts = [rng.choice(pieces) for _ in range(rng.randrange(1, 20))]
    return rng.choice(["", "", " ", "\n"]).join(parts)


def specials(rng, tokens):
    """Special tokens: spelled out, cut off, and without a space between them and other text."""
    parts = []
    for _ in range(rng.randrange(1, 12)):
        token = rng.choice(tokens)
        kind = rng.randrange(8)
        if kind == 0:
            token = token[:rng.randrange(len(token) + 1)]
        elif kind == 1:
            token = token[rng.randrange(len(token)):]
        elif kind == 2:
            token = token.upper()
        elif kind == 3:
            token = rng.choice(["", " ", "\u00a0", "é", "_", "\t"]).join(token)
        parts.append(token)
        parts.append(rng.choice(["", "", " ", "  ", "\n", "\t ", "a", "Wort", "é", "1", "_", "▁", "\u0301", "\u3000", ".", "\u200d", "<"]))
    return rng.choice(["", " ", "x"]) + "".join(parts)


def runs(rng):
    unit = rng.choice(["a", " ", "\n", "\t", "0", "9", "!", "é", "e\u0301", "\u0301", "日", "😀", "👨\u200d", "\u200d", "▁", "\u00a0", "\ufffd", "\x00", "'",
                       "'s", "ab", "A", " a", "\r\n", "ﷺ", "x ", "\U000e0041", any_character(rng), any_character(rng)])
    text = unit * rng.choice([1, 2, 3, rng.randrange(1, 100), rng.randrange(1, 1000), 10_000 // len(unit)])
    return rng.choice(["", "", " ", "a", "\n"]) + text + rng.choice(["", "", " ", "a", "\n"])


MIXES = ["mixed", "scalars", "bytes", "pieces", "specials", "runs"]


def line(index, mix="mixed", seed=0, pieces=None, tokens=None):
    """Line `index` of a mix. `pieces` and `tokens` are the vocabulary and the special tokens of the tokenizer at hand."""
    key = f"vitrine tokenizer line {index}" if mix == "mixed" and seed == 0 else f"{mix} {seed} {index}"
    rng = random.Random(key)
    if mix == "mixed":
        return mixed(rng, index)
    if mix == "scalars":
        return scalars(rng)
    if mix == "bytes":
        raw = any_bytes(rng)
        return raw.decode("utf-8", "replace") if rng.random() < 0.5 else raw.decode("latin-1")
    if mix == "pieces":
        return joined_pieces(rng, pieces)
    if mix == "specials":
        return specials(rng, list(tokens or []) + SPECIAL)
    if mix == "runs":
        return runs(rng)
    raise ValueError(f"expected one of {MIXES}, got {mix}")
