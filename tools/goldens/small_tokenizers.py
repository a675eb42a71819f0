"""Small tokenizers of kinds that the data folder does not have, trained on the mixed text.

  python tools/goldens small_tokenizers OUT   all of them, into the folder OUT, for tools/compare_tokenizers.py
  python tools/goldens small_tokenizers       the committed ones (KEPT), each with its golden, in tests/goldens/tokenizers/made
"""
import io
import json
import os
import sys
from collections import Counter

import sentencepiece
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from goldens.data_tokenizers import golden
from goldens.files import MADE_TOKENIZERS, write_compact
from goldens.tokenizer_lines import line
from goldens.tokenizer_references import byte_level_alphabet, from_hugging_face, from_sentencepiece, load_json

N_GOLDEN_LINES = 2000
KEPT = ["added_tokens", "bert", "bpe_suffix", "bytelevel_roberta", "digits_punctuation", "metaspace_first", "normalizers", "split_behaviors",
        "unigram_fallback", "wordlevel", "sp_bpe_suffix", "sp_bpe_bytes", "sp_charsmap", "sp_unigram_bytes", "sp_unigram_user"]
# The decoded texts of these differ on purpose: `tokenizers` normalizes added tokens when it decodes them, and decodes a run of
# byte tokens with invalid UTF-8 as one U+FFFD per byte, valid bytes included.
NOT_DECODED = ["added_tokens", "unigram_fallback"]
TEXT = [t for t in (line(i) for i in range(201, 1200)) if t]
COMMON = {c for c, _ in Counter("".join(TEXT)).most_common(150)}
PLAIN = ["".join(c for c in text if c in COMMON).replace("<", "") for text in TEXT]  # for trainers that need every character in the vocabulary and no special token in the text
SPECIAL = ["<unk>", "<s>", "</s>", "<pad>", "<mask>"]


def bpe(vocab_size=420, byte_level=False, pre=None, normalizer=None, **options):
    """A BPE model; with byte fallback, the 256 byte pieces come last."""
    fallback = options.pop("byte_fallback", False)
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", **options))
    if normalizer:
        tokenizer.normalizer = normalizer
    if pre or byte_level:
        tokenizer.pre_tokenizer = pre or pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(vocab_size=vocab_size, special_tokens=SPECIAL, show_progress=False, limit_alphabet=150,
                                  initial_alphabet=sorted(byte_level_alphabet().values()) if byte_level else [],
                                  **{k: v for k, v in options.items() if k in ("continuing_subword_prefix", "end_of_word_suffix")})
    tokenizer.train_from_iterator(TEXT, trainer)
    if not fallback:
        return tokenizer
    content = json.loads(tokenizer.to_str())
    vocab = content["model"]["vocab"]
    for byte in range(256):
        vocab.setdefault(f"<0x{byte:02X}>", len(vocab))
    content["model"]["byte_fallback"] = True
    return Tokenizer.from_str(json.dumps(content))


def unigram(pre=None, fallback=False):
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre or pre_tokenizers.Metaspace()
    tokenizer.train_from_iterator(PLAIN, trainers.UnigramTrainer(vocab_size=400, special_tokens=SPECIAL, unk_token="<unk>", show_progress=False))
    content = json.loads(tokenizer.to_str())
    if fallback:
        low = min(score for _, score in content["model"]["vocab"])
        content["model"]["vocab"] += [[f"<0x{byte:02X}>", low - 5] for byte in range(256)]
        content["model"]["byte_fallback"] = True
    return Tokenizer.from_str(json.dumps(content))


def wordpiece(**options):
    tokenizer = Tokenizer(models.WordPiece(unk_token="<unk>", **options))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.train_from_iterator(TEXT, trainers.WordPieceTrainer(vocab_size=500, special_tokens=SPECIAL, limit_alphabet=200, show_progress=False))
    return tokenizer


def wordlevel(pre):
    tokenizer = Tokenizer(models.WordLevel(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre
    tokenizer.train_from_iterator(TEXT, trainers.WordLevelTrainer(vocab_size=500, special_tokens=SPECIAL, show_progress=False))
    return tokenizer


def around(tokenizer, normalizer=None, pre=None, post=None, decoder=None, added=()):
    """A copy of a tokenizer with some parts replaced."""
    copy = Tokenizer.from_str(tokenizer.to_str())
    for name, part in (("normalizer", normalizer), ("pre_tokenizer", pre), ("post_processor", post), ("decoder", decoder)):
        if part is not None:
            setattr(copy, name, part)
    for token in added:
        (copy.add_special_tokens if token.special else copy.add_tokens)([token])
    return copy


def hugging_face():
    """name → tokenizer."""
    N, P, D, S, R = normalizers, pre_tokenizers, decoders, processors, Regex
    bytes_, chars = bpe(byte_level=True), bpe(pre=P.Metaspace())
    fallback, words, uni = bpe(pre=P.Metaspace(), byte_fallback=True, fuse_unk=True), wordpiece(), unigram()
    level = bpe(vocab_size=500, byte_level=True, pre=P.WhitespaceSplit())
    made = {}
    for prefix in (False, True):
        for regex in (False, True):
            made[f"bytelevel_{'prefix' if prefix else 'plain'}_{'regex' if regex else 'whole'}"] = around(
                bytes_, pre=P.ByteLevel(add_prefix_space=prefix, use_regex=regex), decoder=D.ByteLevel())
    made["bytelevel_roberta"] = around(bytes_, pre=P.ByteLevel(add_prefix_space=True), decoder=D.ByteLevel(),
                                       post=S.RobertaProcessing(("</s>", 2), ("<s>", 1)), added=[AddedToken("<mask>", lstrip=True, special=True)])
    made["bytelevel_normalizer"] = around(bytes_, normalizer=N.Sequence([N.NFKC(), N.ByteLevel()]), pre=P.Split(R(r"Ġ?\w+|\W"), "isolated"),
                                          decoder=D.ByteLevel())
    made["bytelevel_post_sequence"] = around(bytes_, decoder=D.ByteLevel(), post=S.Sequence([
        S.ByteLevel(trim_offsets=False), S.TemplateProcessing("<s> $A </s> <pad>", "<s> $A </s> $B", [("<s>", 1), ("</s>", 2), ("<pad>", 3)])]))
    for scheme in ("always", "first", "never"):
        for split in (True, False):
            for base, name in ((chars, "metaspace"), (fallback, "fallback"), (uni, "unigram")):
                made[f"{name}_{scheme}_{'split' if split else 'whole'}"] = around(
                    base, pre=P.Metaspace("▁", scheme, split), decoder=D.Metaspace("▁", scheme, split), added=[AddedToken("<go>", special=True)])
    made["metaspace_first"] = around(fallback, pre=P.Metaspace("▁", "first", False), post=S.TemplateProcessing("<s> $A", None, [("<s>", 1)]),
                                     decoder=D.Sequence([D.Replace("▁", " "), D.ByteFallback(), D.Fuse(), D.Strip(" ", 1, 0)]))
    made["prepend_replace"] = around(fallback, normalizer=N.Sequence([N.Prepend("▁"), N.Replace(" ", "▁")]),
                                     decoder=D.Sequence([D.Replace("▁", " "), D.ByteFallback(), D.Fuse(), D.Strip(" ", 1, 0)]))
    made["prepend_replace"].pre_tokenizer = None
    made["unigram_fallback"] = around(unigram(fallback=True), decoder=D.Sequence([D.ByteFallback(), D.Metaspace()]))
    made["unigram_nmt"] = around(uni, normalizer=N.Sequence([N.Nmt(), N.NFKC(), N.Replace(R(" {2,}"), " ")]), decoder=D.Metaspace())
    made["unigram_whitespace_metaspace"] = around(uni, pre=P.Sequence([P.WhitespaceSplit(), P.Metaspace()]), decoder=D.Metaspace())
    for key, options in (("cased", dict(lowercase=False)), ("uncased", dict()), ("accents", dict(strip_accents=False)),
                         ("stripped", dict(lowercase=False, strip_accents=True)), ("unclean", dict(clean_text=False)),
                         ("chinese", dict(handle_chinese_chars=False))):
        made[f"bert_{key}"] = around(words, normalizer=N.BertNormalizer(**options), decoder=D.WordPiece(cleanup=key != "cased"))
    made["bert"] = around(words, post=S.BertProcessing(("</s>", 2), ("<s>", 1)), decoder=D.WordPiece())
    made["wordpiece_short"] = around(wordpiece(max_input_chars_per_word=6), decoder=D.WordPiece(prefix="##", cleanup=False))
    for key, pre in (("whitespace", P.Whitespace()), ("split", P.WhitespaceSplit()), ("digits", P.Sequence([P.Whitespace(), P.Digits(True)])),
                     ("delimiter", P.CharDelimiterSplit("e"))):
        made[f"wordlevel_{key}"] = wordlevel(pre)
    made["wordlevel"] = around(made["wordlevel_whitespace"], normalizer=N.Sequence([N.NFD(), N.StripAccents(), N.Lowercase(), N.Strip()]))
    forms = {"nfc": N.NFC(), "nfd": N.NFD(), "nfkc": N.NFKC(), "nfkd": N.NFKD(), "strip": N.Strip(), "lstrip": N.Strip(right=False),
             "lower": N.Lowercase(), "accents": N.Sequence([N.NFD(), N.StripAccents()]), "nmt": N.Nmt(),
             "replace": N.Replace(R(r"\s+|[a-c]{2}"), "_"), "string": N.Replace("e", ""), "prepend": N.Prepend("»")}
    for key, form in forms.items():
        made[f"normal_{key}"] = around(level, normalizer=form, pre=P.ByteLevel(add_prefix_space=False), decoder=D.ByteLevel())
    made["normalizers"] = around(level, pre=P.ByteLevel(add_prefix_space=False), decoder=D.ByteLevel(), normalizer=N.Sequence([
        N.Strip(), N.NFKD(), N.StripAccents(), N.Lowercase(), N.Replace(R(r"\p{N}+"), "#"), N.Replace("  ", " "), N.Prepend("_")]))
    for behavior in ("removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"):
        for invert in (False, True):
            made[f"split_{behavior}{'_invert' if invert else ''}"] = around(
                level, pre=P.Sequence([P.Split(R(r"[aeiou]+|\d|\s+"), behavior, invert), P.ByteLevel(False, use_regex=False)]), decoder=D.ByteLevel())
        made[f"split_string_{behavior}"] = around(level, pre=P.Sequence([P.Split(" ", behavior), P.ByteLevel(False, use_regex=False)]))
        made[f"punctuation_{behavior}"] = around(level, pre=P.Sequence([P.Punctuation(behavior), P.ByteLevel(False, use_regex=False)]))
    made["split_behaviors"] = around(level, decoder=D.ByteLevel(), pre=P.Sequence([
        P.Split(R(r"\s"), "merged_with_next"), P.Split(R(r"[.,!?]"), "merged_with_previous"), P.Split(R(r"\p{Lu}"), "merged_with_next"),
        P.Split("-", "contiguous"), P.Split(R(r"[^x]+"), "removed", True), P.ByteLevel(False, use_regex=False)]))
    made["digits"] = around(level, pre=P.Sequence([P.Digits(), P.ByteLevel(False, use_regex=False)]), decoder=D.ByteLevel())
    made["digits_punctuation"] = around(level, decoder=D.ByteLevel(),
                                        pre=P.Sequence([P.Digits(True), P.Punctuation("contiguous"), P.ByteLevel(True, use_regex=True)]))
    made["fixed_length"] = around(level, pre=P.Sequence([P.FixedLength(5), P.ByteLevel(False, use_regex=False)]), decoder=D.ByteLevel())
    made["bpe_suffix"] = around(bpe(pre=P.BertPreTokenizer(), normalizer=N.Lowercase(), end_of_word_suffix="</w>"), decoder=D.BPEDecoder("</w>"))
    made["bpe_prefix"] = bpe(pre=P.Whitespace(), continuing_subword_prefix="##")
    made["bpe_fuse_unk"] = bpe(pre=P.Whitespace(), fuse_unk=True)
    made["bpe_no_pre"] = bpe(vocab_size=600)
    tokens = [AddedToken("<l>", lstrip=True, special=True), AddedToken("<r>", rstrip=True, special=True), AddedToken("WORD", single_word=True),
              AddedToken("Straße", normalized=True), AddedToken("the", normalized=True, single_word=True), AddedToken("ﬁ", normalized=False),
              AddedToken("[B]", lstrip=True, rstrip=True), AddedToken("  ", normalized=False), AddedToken("<s", normalized=False), AddedToken("é", normalized=True),
              AddedToken("\n", normalized=False)]
    made["added_tokens"] = around(level, normalizer=N.Sequence([N.NFC(), N.Lowercase()]), pre=P.ByteLevel(True), decoder=D.ByteLevel(), added=tokens,
                                  post=S.TemplateProcessing("<s> $A </s>", None, [("<s>", 1), ("</s>", 2)]))
    made["added_tokens_metaspace"] = around(fallback, pre=P.Metaspace("▁", "first", True), added=tokens, decoder=D.Metaspace("▁", "first", True))
    made["added_tokens_bert"] = around(words, added=tokens, decoder=D.WordPiece())
    made["added_tokens_unigram"] = around(uni, normalizer=N.NFKC(), added=tokens, decoder=D.Metaspace())
    return made


def sentencepieces():
    """name → model file's bytes."""
    base = dict(vocab_size=420, character_coverage=1.0, hard_vocab_limit=False, minloglevel=2, num_threads=1, normalization_rule_name="identity")
    kinds = {
        "unigram_nfkc": dict(normalization_rule_name="nmt_nfkc"), "unigram_nfkc_cf": dict(normalization_rule_name="nmt_nfkc_cf"),
        "unigram_identity": dict(), "unigram_bytes": dict(byte_fallback=True), "bpe_bytes": dict(model_type="bpe", byte_fallback=True),
        "bpe": dict(model_type="bpe"), "bpe_nfkc": dict(model_type="bpe", normalization_rule_name="nfkc_cf"),
        "unigram_spaces": dict(remove_extra_whitespaces=False), "bpe_spaces": dict(model_type="bpe", remove_extra_whitespaces=False),
        "unigram_suffix": dict(treat_whitespace_as_suffix=True), "bpe_suffix": dict(model_type="bpe", treat_whitespace_as_suffix=True),
        "unigram_no_prefix": dict(add_dummy_prefix=False), "bpe_no_prefix": dict(model_type="bpe", add_dummy_prefix=False, remove_extra_whitespaces=False),
        "unigram_digits": dict(split_digits=True, split_by_unicode_script=False), "bpe_only_space": dict(model_type="bpe", split_by_whitespace=False),
        "unigram_user": dict(user_defined_symbols=["<go>", "Straße", "▁▁", "  ", "\n", "日", "<s"], control_symbols=["<ctl>"]),
        "bpe_user": dict(model_type="bpe", user_defined_symbols=["<go>", "the", "▁▁", "\t", "日本"], control_symbols=["<ctl>", "[B]"], byte_fallback=True),
        "no_bos": dict(bos_id=-1, eos_id=-1), "pad": dict(pad_id=0, unk_id=3, bos_id=1, eos_id=2, unk_surface="[?]"),
        "whitespace_only": dict(allow_whitespace_only_pieces=True, remove_extra_whitespaces=False),
    }
    made = {}
    for name, options in kinds.items():
        out = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(PLAIN), model_writer=out, **{**base, **options})
        made["sp_" + name] = out.getvalue()
    rules = "\n".join(" ".join(f"{ord(c):X}" for c in a) + "\t" + " ".join(f"{ord(c):X}" for c in b)
                      for a, b in (("ß", "ss"), ("é", "e"), ("e\u0301", "e"), ("...", "…"), ("\t", " "), ("A", "a"), ("ab", ""), ("日本", "nihon"), ("日", "")))
    with open("rules.tsv", "w", encoding="utf-8") as file:
        file.write(rules + "\n")
    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(PLAIN), model_writer=out, **{**base, "normalization_rule_name": ""},
                                             normalization_rule_tsv="rules.tsv")
    os.remove("rules.tsv")
    made["sp_charsmap"] = out.getvalue()
    return made


def main():
    goldens = len(sys.argv) < 2
    folder = MADE_TOKENIZERS if goldens else sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    for name, tokenizer in {**hugging_face(), **sentencepieces()}.items():
        if goldens and name not in KEPT:
            continue
        is_json = isinstance(tokenizer, Tokenizer)
        file = f"{folder}/{name}_tokenizer.json" if is_json else f"{folder}/{name}.model"
        with open(file, "wb") as out:
            out.write(tokenizer.to_str().encode() + b"\n" if is_json else tokenizer)
        if goldens:
            reference = from_hugging_face(name, file, load_json(file)) if is_json else from_sentencepiece(name, file)
            made = golden(reference, folder, N_GOLDEN_LINES, decoded=name not in NOT_DECODED)
            write_compact(f"{folder}/{name}.golden.json", made)
