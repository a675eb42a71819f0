"""Makes tests/goldens/trained_merges.json: the merges of Hugging Face's trainer, as pairs of ids.

  python tools/goldens trained_merges DATA

DATA is the data folder. A case is {"text", or "file" in DATA,
"vocab_size", "vocab_out", "merges"}. Needs `tokenizers`.
"""
import json
import random
import sys
import tempfile

from goldens.files import GOLDENS, write_cases
from tokenizers import Tokenizer, models, pre_tokenizers, trainers


def train(path, vocab_size):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train([path], trainers.BpeTrainer(vocab_size=vocab_size, initial_alphabet=alphabet, show_progress=False))
    model = json.loads(tokenizer.to_str())["model"]
    return len(model["vocab"]), [[model["vocab"][left], model["vocab"][right]] for left, right in model["merges"]]


def texts():
    draw = random.Random(7)
    words = "the then there naïve Übermut être 東京 東京都 москва 12 1234 don't we'll (x+y) ... == 👍👍 a\u0301 \u00a0 \r".split(" ")
    yield "".join(draw.choice(words) + draw.choice([" ", " ", "  ", "\n", "\n\n", "\n\n\n", "\t"]) for _ in range(300)), 600
    yield " ".join("a" * draw.randint(1, 40) + "b" * draw.randint(0, 3) for _ in range(60)), 330


def main():
    (data,) = sys.argv[1:]
    cases = []
    for text, vocab_size in texts():
        with tempfile.NamedTemporaryFile() as file:
            file.write(text.encode())
            file.flush()
            n, merges = train(file.name, vocab_size)
        cases.append({"text": text, "vocab_size": vocab_size, "vocab_out": n, "merges": merges})
    for file, vocab_size in (("text/tinyshakespeare.txt", 1500),):
        n, merges = train(f"{data}/{file}", vocab_size)
        cases.append({"file": file, "vocab_size": vocab_size, "vocab_out": n, "merges": merges})
    write_cases(GOLDENS / "trained_merges.json", cases)
