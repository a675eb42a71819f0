"""Compares vitrine with AutoTokenizer on folders that transformers writes and people publish.

Trains small vocabularies, writes folders of each tokenizer class in many variants (with and without tokenizer.json,
older files, flags, tokens added, removed and changed), and compares ids, decoded texts and the ids of the GGUF file
that `vitrine quantize` writes. Needs transformers 5.24.0, sentencepiece and numpy.

    compare_folder_tokenizers.py --vitrine build/vitrine --corpus text.txt [--folder KEEP]
"""
import argparse
import itertools
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_VERBOSITY"] = "critical"
import numpy
import sentencepiece
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import AutoTokenizer

TEXTS = [
    "the bridge", " The  BRIDGE", "Café naïve, ｆｕｌｌ １２３ ½", "", " ", "a\nb\t c", "<|turn|>user the bridge<|stop|>",
    "<s>the</s> x <pad> <mask> y", "[CLS] the [SEP] [MASK]", "<|bos|>the<|eos|> new", "the <extra_id_0> dark<extra_id_1>",
    "don't do 12345 things! He 's , I 'm ' so ' sure . . do n't  ?", "日本語 emoji 🦙 ok", "<unk> <bos>a<eos> <|endoftext|>", "word<|turn|> word <keep> it", "▁a ▁ b",
]
ADDED = {"<|turn|>": True, "<|stop|>": True, "<keep>": False}


def spm_model(folder, corpus, kind, **options):
    prefix = os.path.join(folder, kind + "".join(map(str, options.values())))
    if not os.path.exists(prefix + ".model"):
        sentencepiece.SentencePieceTrainer.train(
            input=corpus, model_prefix=prefix, vocab_size=400, model_type=kind, hard_vocab_limit=False,
            input_sentence_size=20000, minloglevel=2, character_coverage=0.995, **options)
    return prefix + ".model"


def pair_files(folder, corpus, start):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(vocab_size=380, special_tokens=start, show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train([corpus], trainer)
    tokenizer.model.save(folder)


def words_file(path, corpus, start):
    tokenizer = Tokenizer(models.WordPiece(unk_token=start[1]))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.train([corpus], trainers.WordPieceTrainer(vocab_size=600, special_tokens=start, show_progress=False))
    vocabulary = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
    with open(path, "w", encoding="utf-8") as file:
        file.write("".join(piece + "\n" for piece, _ in vocabulary))


CLASSES = {
    "BertTokenizer": ("bert", "words", {}),
    "DistilBertTokenizer": ("distilbert", "words", {}),
    "MPNetTokenizer": ("mpnet", "words", {}),
    "GPT2Tokenizer": ("gpt2", "pair", {}),
    "RobertaTokenizer": ("roberta", "pair", {}),
    "Qwen2Tokenizer": ("qwen3", "pair", {}),
    "GPTNeoXTokenizer": ("gpt_neox", "pair", {}),
    "CohereTokenizer": ("cohere", "pair", {}),
    "LlamaTokenizer": ("llama", "tokenizer.model", {"model_type": "bpe", "byte_fallback": True, "normalization_rule_name": "identity", "remove_extra_whitespaces": False}),
    "CodeLlamaTokenizer": ("code_llama", "tokenizer.model", {"model_type": "bpe", "byte_fallback": True, "normalization_rule_name": "identity", "remove_extra_whitespaces": False}),
    "GemmaTokenizer": ("gemma2", "tokenizer.model", {"model_type": "bpe", "byte_fallback": True, "normalization_rule_name": "identity", "remove_extra_whitespaces": False, "add_dummy_prefix": False, "user_defined_symbols": "<keep>", "unk_piece": "<unk>", "bos_piece": "<bos>", "eos_piece": "<eos>", "pad_id": 3}),
    "TokenizersBackend": ("mistral", "tokenizer.model", {"model_type": "bpe", "byte_fallback": True, "normalization_rule_name": "identity", "remove_extra_whitespaces": False}),
    "T5Tokenizer": ("t5", "spiece.model", {"model_type": "unigram", "pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1}),
    "AlbertTokenizer": ("albert", "spiece.model", {"model_type": "unigram", "pad_id": 0, "unk_id": 1, "bos_id": 2, "eos_id": 3, "bos_piece": "[CLS]", "eos_piece": "[SEP]", "user_defined_symbols": "[MASK]"}),
    "DebertaV2Tokenizer": ("deberta-v2", "spm.model", {"model_type": "unigram", "pad_id": 0, "unk_id": 3, "bos_id": 1, "eos_id": 2, "pad_piece": "[PAD]", "bos_piece": "[CLS]", "eos_piece": "[SEP]", "unk_piece": "[UNK]"}),
    "XLMRobertaTokenizer": ("xlm-roberta", "sentencepiece.bpe.model", {"model_type": "unigram"}),
    "MBartTokenizer": ("mbart", "sentencepiece.bpe.model", {"model_type": "unigram"}),
    "MBart50Tokenizer": ("mbart50", "sentencepiece.bpe.model", {"model_type": "unigram"}),
    "NllbTokenizer": ("m2m_100", "sentencepiece.bpe.model", {"model_type": "bpe"}),
    "PegasusTokenizer": ("pegasus", "spiece.model", {"model_type": "unigram", "pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1}),
}
FLAGS = [
    {}, {"add_bos_token": True}, {"add_bos_token": False, "add_eos_token": True}, {"legacy": True}, {"legacy": False},
    {"do_lower_case": False}, {"strip_accents": False}, {"add_prefix_space": True}, {"add_prefix_space": False},
    {"keep_accents": True}, {"split_by_punct": True}, {"extra_ids": 10}, {"src_lang": "fr_XX"}, {"src_lang": "fra_Latn"},
    {"legacy_behaviour": True, "src_lang": "deu_Latn"}, {"unk_token": "<|eos|>"}, {"eos_token": "<|stop|>", "pad_token": None},
    {"clean_up_tokenization_spaces": True}, {"tokenize_chinese_chars": False},
]


def vocabulary(name, folder, work, corpus):
    _, kind, options = CLASSES[name]
    start = {"MPNetTokenizer": ["<s>", "[UNK]", "</s>", "<pad>", "<mask>"], "RobertaTokenizer": ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]}
    if kind == "words":
        words_file(folder + "/vocab.txt", corpus, start.get(name, ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]))
    elif kind == "pair":
        pair_files(folder, corpus, start.get(name, ["<|bos|>", "<|eos|>", "<|endoftext|>"]))
    else:
        rest = dict(options)
        shutil.copy(spm_model(work, corpus, rest.pop("model_type"), **rest), os.path.join(folder, kind))


def size_of(folder, name):
    kind = CLASSES[name][1]
    if kind == "words":
        return len(open(folder + "/vocab.txt").read().splitlines())
    if kind == "pair":
        return len(json.load(open(folder + "/vocab.json")))
    return sentencepiece.SentencePieceProcessor(model_file=os.path.join(folder, kind)).get_piece_size()


def write(path, value):
    with open(path, "w", encoding="utf-8") as file:
        json.dump(value, file)


def variants(name, base, out):
    """Yields folders: each has the vocabulary, configurations and tokens in one of the forms that exist."""
    model_type = CLASSES[name][0]
    n = size_of(base, name) + (120 if CLASSES[name][1].endswith(".model") else 0)  # beyond what the class appends
    tokens = {str(n + i): {"content": text, "lstrip": False, "rstrip": text == "<keep>", "normalized": not special,
                           "single_word": False, "special": special}
              for i, (text, special) in enumerate(ADDED.items())}
    forms = {
        "plain": ({}, {}), "decoder": ({"added_tokens_decoder": tokens}, {}),
        "files": ({}, {"added_tokens.json": {text: n + i for i, text in enumerate(ADDED)},
                       "special_tokens_map.json": {"eos_token": "<|stop|>", "additional_special_tokens": ["<|turn|>"]}}),
        "additional": ({"additional_special_tokens": ["<|turn|>", "<|stop|>"]}, {}),
        "extra": ({"extra_special_tokens": ["<|turn|>"], "image_token": "<keep>"}, {}),
        "objects": ({}, {"special_tokens_map.json": {"eos_token": {"content": "<|stop|>", "lstrip": True, "rstrip": False, "normalized": False, "single_word": False}}}),
    }
    index = 0
    for (form, (extra, files)), flags, named in itertools.product(forms.items(), FLAGS, ["class", "none", "fast", "backend"]):
        if named != "class" and (form != "plain" and flags):
            continue
        config = {**extra, **flags}
        if name == "NllbTokenizer" and "extra_special_tokens" not in config:
            config["extra_special_tokens"] = ["eng_Latn", "fra_Latn", "deu_Latn"]
        if named == "class":
            config["tokenizer_class"] = name
        elif named == "fast":
            config["tokenizer_class"] = name + "Fast"
        elif named == "backend":
            config["tokenizer_class"] = "PreTrainedTokenizerFast"
        folder = os.path.join(out, f"{name}_{index}")
        index += 1
        shutil.copytree(base, folder)
        write(folder + "/config.json", {"model_type": model_type})
        write(folder + "/tokenizer_config.json", config)
        for file, value in files.items():
            write(os.path.join(folder, file), value)
        yield folder, f"{form} {named} {flags}"


def saved(folder, tokenizer, index):
    """Folders with a tokenizer.json: as transformers 5 saves it, and with the older files left in place."""
    for kind in ("new", "both", "edited"):
        target = f"{folder}_{kind}"
        tokenizer.save_pretrained(target)
        shutil.copy(folder + "/config.json", target)
        if kind == "both":
            for file in os.listdir(folder):
                if file != "tokenizer_config.json" and not os.path.exists(os.path.join(target, file)):
                    shutil.copy(os.path.join(folder, file), target)
            write(target + "/tokenizer_config.json", json.load(open(folder + "/tokenizer_config.json")))
        if kind == "edited":
            config = json.load(open(target + "/tokenizer_config.json"))
            config.update(FLAGS[index % len(FLAGS)])
            config["added_tokens_decoder"] = {str(len(tokenizer)): {"content": "new", "special": False}}
            write(target + "/tokenizer_config.json", config)
        yield target, kind


def safetensors(path, tensors):
    header, data = {}, b""
    for name, values in tensors.items():
        raw = values.astype("<f4").tobytes()
        header[name] = {"dtype": "F32", "shape": list(values.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def llama(folder, n):
    """Makes the folder a small Llama, whose type does not change the class that transformers chooses."""
    write(folder + "/config.json", {
        "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 8, "intermediate_size": 8,
        "num_hidden_layers": 1, "num_attention_heads": 1, "num_key_value_heads": 1, "vocab_size": n,
        "max_position_embeddings": 64, "rms_norm_eps": 1e-6, "hidden_act": "silu", "bos_token_id": 1, "eos_token_id": 2})
    one, square = numpy.ones(8), numpy.eye(8)
    layer = "model.layers.0."
    safetensors(folder + "/model.safetensors", {
        "model.embed_tokens.weight": numpy.ones((n, 8)), "lm_head.weight": numpy.ones((n, 8)), "model.norm.weight": one,
        layer + "input_layernorm.weight": one, layer + "post_attention_layernorm.weight": one,
        **{layer + f"self_attn.{p}_proj.weight": square for p in "qkvo"},
        **{layer + f"mlp.{p}_proj.weight": square for p in ("gate", "up", "down")}})


class Vitrine:
    def __init__(self, program):
        self.program = program

    def run(self, *arguments, text=None):
        return subprocess.run([self.program, *arguments], input=text, capture_output=True, text=True)

    def ids(self, path, special=True):
        flags = [] if special else ["--no-special"]
        lines = "".join(json.dumps(text) + "\n" for text in TEXTS)
        done = self.run("tokenize", path, "--lines", "--threads", "1", *flags, text=lines)
        if done.returncode:
            return done.stderr.strip().splitlines()[-1]
        return [json.loads(line)["ids"] for line in done.stdout.splitlines()]

    def text(self, path, ids):
        return self.run("detokenize", path, ",".join(map(str, ids))).stdout


def check(folder, what, vitrine, counts, with_gguf):
    try:
        reference = AutoTokenizer.from_pretrained(folder)
        want = [reference.encode(text) for text in TEXTS]
    except Exception as error:
        counts["no reference"] += 1
        counts["whys"].add(f"{os.path.basename(folder).split('_')[0]} {type(error).__name__} {str(error)[:90]}")
        return None
    counts["folders"] += 1
    got = vitrine.ids(folder)
    if isinstance(got, str):
        counts["refused"] += 1
        print("REFUSED", folder, what, got)
        return reference
    bad = [(t, w, g) for t, w, g in zip(TEXTS, want, got) if w != g]
    if bad:
        counts["ids differ"] += 1
        print("IDS", folder, what, type(reference).__name__, len(bad), *bad[:2], sep="\n   ")
    for text, ids in list(zip(TEXTS, want))[:2] + [(TEXTS[6], want[6]), (TEXTS[11], want[11])]:
        if not ids or bad:
            continue
        wanted = reference.decode(ids)
        if vitrine.text(folder, ids) != wanted:
            counts["texts differ"] += 1
            print("TEXT", folder, what, ids, repr(wanted), repr(vitrine.text(folder, ids)), sep="\n   ")
            break
    if with_gguf and not bad:
        check_gguf(folder, what, reference, vitrine, counts)
    return reference


def check_gguf(folder, what, reference, vitrine, counts):
    target = folder + "_gguf"
    shutil.copytree(folder, target)
    llama(target, len(reference))
    try:
        same = AutoTokenizer.from_pretrained(target)
        want = [same.encode(text) for text in TEXTS]
    except Exception:
        return
    done = vitrine.run("quantize", target, target + "/out.gguf", "--type", "f32")
    if done.returncode or "no tokenizer" in done.stderr:
        counts["GGUF refused"] += 1
        return
    counts["GGUF"] += 1
    got = vitrine.ids(target + "/out.gguf")
    bad = [(t, w, g) for t, w, g in zip(TEXTS, want, got) if w != g] if not isinstance(got, str) else got
    if bad:
        counts["GGUF differ"] += 1
        print("GGUF", target, what, *bad[:2], sep="\n   ")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--vitrine", default="build/vitrine")
    parser.add_argument("--corpus", required=True)
    parser.add_argument("--folder")
    parser.add_argument("--classes", nargs="*", default=list(CLASSES))
    o = parser.parse_args()
    out = o.folder or tempfile.mkdtemp()
    os.makedirs(out, exist_ok=True)
    vitrine = Vitrine(o.vitrine)
    total = 0
    for name in o.classes:
        counts = dict.fromkeys(["folders", "refused", "ids differ", "texts differ", "GGUF", "GGUF refused", "GGUF differ", "no reference"], 0)
        counts["whys"] = set()
        base = os.path.join(out, name)
        shutil.rmtree(base, ignore_errors=True)
        os.makedirs(base)
        vocabulary(name, base, out, o.corpus)
        for index, (folder, what) in enumerate(list(variants(name, base, os.path.join(out, "v")))):
            reference = check(folder, what, vitrine, counts, index % 5 == 0)
            if reference is None or index % 3:
                continue
            for other, kind in saved(folder, reference, index):
                check(other, what + " " + kind, vitrine, counts, index % 6 == 0)
        shutil.rmtree(os.path.join(out, "v"), ignore_errors=not o.folder)
        whys = counts.pop("whys")
        print(name, counts, *sorted(whys), sep="\n  ", flush=True)
        total += counts["ids differ"] + counts["texts differ"] + counts["GGUF differ"]
    sys.exit(total != 0)


if __name__ == "__main__":
    main()
