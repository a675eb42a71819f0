"""Makes tests/goldens/trained_vocabularies.json: the word and WordPiece vocabularies of Hugging Face's trainers, by id.

A case is {"model", "text", "vocab_size", "pieces"}. WordPieceTrainer numbers the symbols with ## in the order of a hash table, which
changes from run to run and decides ties. Here all symbols are given to it as special tokens, in the order of vitrine. Needs `tokenizers`.
"""
import random
import tempfile

from goldens.files import GOLDENS, write_cases
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

SPECIAL = ["[UNK]", "[EOS]"]


def by_id(tokenizer):
    vocab = tokenizer.get_vocab()
    return sorted(vocab, key=vocab.get)


def wordpiece(path, text, vocab_size):
    normalizer, split = normalizers.BertNormalizer(lowercase=False), pre_tokenizers.BertPreTokenizer()
    words = [word for word, _ in split.pre_tokenize_str(normalizer.normalize_str(text))]
    symbols = sorted({c for word in words for c in word}) + sorted({"##" + c for word in words for c in word[1:]})
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizer, split
    tokenizer.train([path], trainers.WordPieceTrainer(vocab_size=vocab_size, special_tokens=SPECIAL + symbols, show_progress=False))
    return by_id(tokenizer)


def word(path, text, vocab_size):
    tokenizer = Tokenizer(models.WordLevel(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.train([path], trainers.WordLevelTrainer(vocab_size=vocab_size, special_tokens=SPECIAL, show_progress=False))
    return by_id(tokenizer)


def texts():
    draw = random.Random(11)
    words = "the then there naïve Übermut être 東京 東京都 москва 12 1234 don't we'll (x+y) ... == 👍👍 a\u0301 \u00a0 \r ##b a##".split(" ")
    yield "".join(draw.choice(words) + draw.choice([" ", " ", "  ", "\n", "\n\n", "\t"]) for _ in range(300)), 160
    yield " ".join("a" * draw.randint(1, 40) + "b" * draw.randint(0, 3) for _ in range(60)), 60


def main():
    cases = []
    for text, vocab_size in texts():
        for name, train in (("word", word), ("wordpiece", wordpiece)):
            with tempfile.NamedTemporaryFile() as file:
                file.write(text.encode())
                file.flush()
                pieces = train(file.name, text, vocab_size if name == "wordpiece" else 20)
            cases.append({"model": name, "text": text, "vocab_size": len(pieces), "pieces": pieces})
    write_cases(GOLDENS / "trained_vocabularies.json", cases)
