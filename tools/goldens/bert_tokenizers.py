"""Folders with BERT's vocab.txt, with goldens of the ids of texts and of pairs of texts.

The folders are bert_vocab and bert_vocab_cased in tests/goldens/tokenizers/made; its pairs.json has a hash of the ids and one of the types of
each 100 pairs of consecutive lines. Needs transformers and `tokenizers`.
"""
import json
import os

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers
from transformers import BertTokenizer

from goldens.files import MADE_TOKENIZERS, write_compact
from goldens.small_tokenizers import N_GOLDEN_LINES, TEXT
from goldens.data_tokenizers import BLOCK, golden, hash_of
from goldens.tokenizer_lines import line
from goldens.tokenizer_references import from_hugging_face, load_json

CASED = {"do_lower_case": False, "tokenize_chinese_chars": False, "cls_token": "[START]", "tokenizer_class": "BertTokenizer",
         "sep_token": {"__type": "AddedToken", "content": "[END]", "lstrip": False, "normalized": False, "rstrip": False, "single_word": False}}


def write_vocab(path, specials, **normalizer):
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(**normalizer)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.train_from_iterator(TEXT, trainers.WordPieceTrainer(vocab_size=500, special_tokens=specials, limit_alphabet=200, show_progress=False))
    vocab = tokenizer.get_vocab()
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(piece + "\n" for piece in sorted(vocab, key=vocab.get))


def pairs(file, tokenizer, n_lines=1000):
    texts, result = [line(i) for i in range(n_lines + 1)], {"file": file, "policies": {}}
    for policy in ("apply", "none"):
        tokenizer.encode_special_tokens = policy == "none"
        encodings = [tokenizer.encode(texts[i], texts[i + 1], add_special_tokens=policy == "apply") for i in range(n_lines)]
        blocks = [encodings[i:i + BLOCK] for i in range(0, n_lines, BLOCK)]
        result["policies"][policy] = [[hash_of(e.ids for e in block), hash_of(e.type_ids for e in block)] for block in blocks]
    return result


def main():
    made = MADE_TOKENIZERS
    for name in ("bert_vocab", "bert_vocab_cased"):
        os.makedirs(f"{made}/{name}", exist_ok=True)
    write_vocab(f"{made}/bert_vocab/vocab.txt", ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    write_vocab(f"{made}/bert_vocab_cased/vocab.txt", ["[UNK]", "[END]", "[START]", "[PAD]", "[MASK]"], lowercase=False)
    with open(f"{made}/bert_vocab_cased/tokenizer_config.json", "w", encoding="ascii") as file:
        json.dump(CASED, file)
        file.write("\n")
    paired = []
    for name in ("bert_vocab", "bert_vocab_cased"):
        tokenizer = BertTokenizer.from_pretrained(f"{made}/{name}").backend_tokenizer
        write_compact(f"{made}/{name}.golden.json",
                     golden(from_hugging_face(name, f"{made}/{name}", tokenizer), made, N_GOLDEN_LINES, decoded=True))
        paired.append(pairs(f"made/{name}", tokenizer))
    for name in ("bert", "bytelevel_roberta"):
        paired.append(pairs(f"made/{name}_tokenizer.json", load_json(f"{made}/{name}_tokenizer.json")))
    write_compact(f"{made}/pairs.json", paired)
