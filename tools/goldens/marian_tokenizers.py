"""Small folders of transformers' MarianTokenizer, with goldens of the ids of their source and target texts.

In tests/goldens/tokenizers/made. `marian` has one vocabulary, `marian_two` has two. Needs transformers and sentencepiece, and no sacremoses.
"""
import io
import json
import os
import warnings

import sentencepiece
from transformers import MarianTokenizer

from goldens.files import MADE_TOKENIZERS, write_compact
from goldens.small_tokenizers import N_GOLDEN_LINES, PLAIN
from goldens.data_tokenizers import golden
from goldens.tokenizer_references import Reference

BASE = dict(vocab_size=420, character_coverage=1.0, hard_vocab_limit=False, minloglevel=2, num_threads=1,
            normalization_rule_name="identity")
CODES = [">>deu<<", ">>fra<<"]


def trained(path, texts, **options):
    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(texts), model_writer=out, **{**BASE, **options})
    with open(path, "wb") as file:
        file.write(out.getvalue())
    model = sentencepiece.SentencePieceProcessor(model_proto=out.getvalue())
    return [model.id_to_piece(i) for i in range(len(model)) if not model.is_control(i) and not model.is_unknown(i)]


def vocabulary(pieces, codes=()):
    """Every eleventh piece is missing. In target texts, transformers gives special tokens the ids of the source vocabulary, so
    these are the same in both."""
    kept = [piece for i, piece in enumerate(sorted(set(pieces))) if i % 11]
    return {piece: i for i, piece in enumerate(["</s>", "<unk>", "<pad>", *kept, *codes])}


def write_json(path, content):
    with open(path, "w", encoding="utf-8") as file:
        json.dump(content, file, ensure_ascii=False)
        file.write("\n")


def folders(out):
    one, two = f"{out}/marian", f"{out}/marian_two"
    for folder in (one, two):
        os.makedirs(folder, exist_ok=True)
    source = trained(f"{one}/source.spm", PLAIN[::2])
    target = trained(f"{one}/target.spm", PLAIN[1::2], user_defined_symbols=["the"])
    write_json(f"{one}/vocab.json", vocabulary(source + target, CODES))
    source = trained(f"{two}/source.spm", PLAIN[::2], model_type="bpe", user_defined_symbols=["Straße"])
    target = trained(f"{two}/target.spm", PLAIN[1::2], model_type="bpe", byte_fallback=True, vocab_size=700)
    write_json(f"{two}/vocab.json", vocabulary(source))
    write_json(f"{two}/target_vocab.json", vocabulary(target))
    write_json(f"{two}/tokenizer_config.json", {"separate_vocabs": True, "source_lang": "en", "target_lang": "de"})
    return {"marian": one, "marian_two": two}


def load(folder):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return MarianTokenizer.from_pretrained(folder)


def reference(name, folder, target):
    """`none` gives the pieces of the text alone: MarianTokenizer itself always recognizes a language code."""
    tokenizer = load(folder)
    model = tokenizer.spm_target if target else tokenizer.spm_source
    vocab = tokenizer.target_encoder if target and tokenizer.separate_vocabs else tokenizer.encoder
    unk = vocab[tokenizer.unk_token]
    apply = (lambda text: tokenizer(text_target=text).input_ids) if target else (lambda text: tokenizer(text).input_ids)
    return Reference(name, folder, {"apply": apply,
                                    "none": lambda text: [vocab.get(p, unk) for p in model.encode(text, out_type=str)]})


def main():
    out = MADE_TOKENIZERS
    for name, folder in folders(out).items():
        for target in (False, True):
            result = golden(reference(name, folder, target), out, N_GOLDEN_LINES)
            if target:
                result["target"] = True
            write_compact(f"{out}/{name}{'_target' if target else ''}.golden.json", result)
