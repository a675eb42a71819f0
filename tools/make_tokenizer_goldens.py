"""Mixed text and the ids that Hugging Face's `tokenizers` gives for it: goldens, and a direct comparison.

  make_tokenizer_goldens.py text                      writes tests/goldens/tokenizers/text.json.gz's content to stdout
  make_tokenizer_goldens.py goldens DATA OUT          one golden for each tokenizer of DATA (see TOKENIZERS)
  make_tokenizer_goldens.py compare VITRINE FILE [--no-special]
                                                      compares `VITRINE tokenize FILE --lines` with `tokenizers`
"""
import hashlib
import json
import random
import subprocess
import sys

from tokenizers import Tokenizer
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel

N_LINES = 10_000
BLOCK = 100  # lines under one hash
TOKENIZERS = ["llama2/tokenizer.json", "qwen2/tokenizer.json", "t5/tokenizer.json", "gpt2"]
FULL_EVERY = 100  # of every so many lines the ids themselves are kept

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


def line(index):
    rng = random.Random(f"vitrine tokenizer line {index}")
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


def merge_pair(line, vocab):
    ways = [(line[:i], line[i + 1:]) for i, c in enumerate(line) if c == " "]
    return next([a, b] for a, b in ways if a in vocab and b in vocab and a + b in vocab)


def load(path):
    if path.endswith("gpt2"):
        tokenizer = Tokenizer(BPE.from_file(f"{path}/vocab.json", f"{path}/merges.txt"))
        tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False)
        tokenizer.add_special_tokens(["<|endoftext|>"])
        return tokenizer
    with open(path, encoding="utf-8") as file:
        content = json.load(file)
    model = content["model"]
    if model.get("merges") and isinstance(model["merges"][0], str):  # `tokenizers` refuses pieces with spaces written so
        model["merges"] = [merge_pair(merge, model["vocab"]) for merge in model["merges"]]
    tokenizer = Tokenizer.from_str(json.dumps(content) if "merges" in model else open(path, encoding="utf-8").read())
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def encode(tokenizer, text, no_special):
    tokenizer.encode_special_tokens = no_special
    return tokenizer.encode(text, add_special_tokens=not no_special).ids


def compare(program, path, no_special):
    lines = [line(i) for i in range(N_LINES)]
    command = [program, "tokenize", path, "--lines"] + (["--no-special"] if no_special else [])
    out = subprocess.run(command, input="".join(json.dumps(t) + "\n" for t in lines), capture_output=True, text=True)
    if out.returncode != 0:
        sys.exit(out.stderr)
    tokenizer = load(path)
    different = 0
    for index, (text, answer) in enumerate(zip(lines, out.stdout.split("\n")[:-1], strict=True)):
        ours, theirs = json.loads(answer)["ids"], encode(tokenizer, text, no_special)
        if ours == theirs:
            continue
        different += 1
        if different <= 5:
            at = next((i for i, (a, b) in enumerate(zip(ours, theirs)) if a != b), min(len(ours), len(theirs)))
            print(f"  line {index}: {text[:80]!r}\n    at {at}: ours {ours[at:at + 8]}, theirs {theirs[at:at + 8]} "
                  f"{[tokenizer.id_to_token(i) for i in theirs[at:at + 4]]}")
    print(f"{path}{' --no-special' if no_special else ''}: {N_LINES} lines, {different} different")
    return different


def golden(tokenizer):
    """{"blocks": a hash of the ids of each BLOCK lines, "lines": {index: ids}}, for either policy."""
    result = {}
    for policy, no_special in (("apply", False), ("none", True)):
        blocks, full = [], {}
        for first in range(0, N_LINES, BLOCK):
            digest = hashlib.blake2b(digest_size=8)
            state = 0xCBF29CE484222325  # FNV-1a over little-endian int32 ids, each line ended by -1
            for index in range(first, first + BLOCK):
                ids = encode(tokenizer, line(index), no_special)
                if index % FULL_EVERY == 0:
                    full[str(index)] = ids
                for byte in b"".join(i.to_bytes(4, "little", signed=True) for i in ids + [-1]):
                    state = (state ^ byte) * 0x100000001B3 % 2**64
            blocks.append(f"{state:016x}")
        result[policy] = {"blocks": blocks, "lines": full}
    return result


def main():
    if len(sys.argv) > 3 and sys.argv[1] == "compare":
        sys.exit(1 if compare(sys.argv[2], sys.argv[3], "--no-special" in sys.argv) else 0)
    if len(sys.argv) == 4 and sys.argv[1] == "goldens":
        with open(f"{sys.argv[3]}/text.jsonl", "w", encoding="utf-8") as out:
            out.writelines(json.dumps(line(i), ensure_ascii=False) + "\n" for i in range(N_LINES))
        for name in TOKENIZERS:
            with open(f"{sys.argv[3]}/{name.split('/')[0]}.json", "w", encoding="ascii") as out:
                json.dump(golden(load(f"{sys.argv[2]}/{name}")), out, separators=(",", ":"))
                out.write("\n")
        return
    sys.exit(__doc__)


if __name__ == "__main__":
    main()
