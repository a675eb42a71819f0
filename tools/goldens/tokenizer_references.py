"""The tokenizers of a data folder with their reference implementations: `tokenizers`, `sentencepiece`, `tiktoken`.

A Reference has the file that vitrine reads and, for each policy, a function from text to ids:
  apply   recognizes and adds special tokens, as the tokenizer's own policy requires
  none    does neither (`--no-special`)
The ids are None for a text without a reference result.
"""
import base64
import json
import os
import struct
from dataclasses import dataclass, field

import sentencepiece
import tiktoken
from sentencepiece import sentencepiece_model_pb2
from tokenizers import AddedToken, Tokenizer
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel

# meta-llama/llama3, llama/tokenizer.py
LLAMA3_PATTERN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")


@dataclass
class Reference:
    name: str
    file: str  # the path that vitrine reads
    encode: dict  # policy: text (or, for SentencePiece, bytes) → ids
    pieces: list = field(default_factory=list)  # texts of the vocabulary
    tokens: list = field(default_factory=list)  # the spellings of special tokens
    decode: object = None  # ids → text
    takes_bytes: bool = False


def merge_pair(line, vocab):
    ways = [(line[:i], line[i + 1:]) for i, c in enumerate(line) if c == " "]
    return next([a, b] for a, b in ways if a in vocab and b in vocab and a + b in vocab)


def from_hugging_face(name, file, tokenizer):
    def encode(text, no_special):
        tokenizer.encode_special_tokens = no_special
        try:
            return tokenizer.encode(text, add_special_tokens=not no_special).ids
        except BaseException as error:  # a panic of the library is not an Exception
            if type(error).__name__ != "PanicException":
                raise
            return None

    vocab = tokenizer.get_vocab(with_added_tokens=False)
    byte_of = {c: byte for byte, c in byte_level_alphabet().items()}

    def text_of(piece):
        if all(c in byte_of for c in piece):
            return bytes(byte_of[c] for c in piece).decode("utf-8", "replace")
        return piece.replace("▁", " ")

    return Reference(name, file, {"apply": lambda text: encode(text, False), "none": lambda text: encode(text, True)},
                     sorted(text_of(p) for p in vocab), [t.content for t in tokenizer.get_added_tokens_decoder().values()],
                     lambda ids: tokenizer.decode(ids, skip_special_tokens=True))


def byte_level_alphabet():
    """GPT-2's bytes_to_unicode: {byte: character}."""
    kept = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in kept]
    return {**{b: chr(b) for b in kept}, **{b: chr(256 + i) for i, b in enumerate(others)}}


def load_json(file):
    """A tokenizer.json; merges of copies of Llama 2's file whose pieces contain spaces are rewritten so that `tokenizers` accepts them."""
    with open(file, encoding="utf-8") as source:
        text = source.read()
    content = json.loads(text)
    model = content["model"]
    if model.get("merges") and isinstance(model["merges"][0], str):
        model["merges"] = [merge_pair(merge, model["vocab"]) for merge in model["merges"]]
        text = json.dumps(content)
    tokenizer = Tokenizer.from_str(text)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def load_pair(folder):
    tokenizer = Tokenizer(BPE.from_file(f"{folder}/vocab.json", f"{folder}/merges.txt"))
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False)
    tokenizer.add_special_tokens(["<|endoftext|>"])
    return tokenizer


def from_sentencepiece(name, file, proto=None):
    """`apply` as in transformers' LlamaTokenizer (legacy=False), which used this library: the text is split at control
    pieces and the unknown piece; only the part at the start of the text gets the dummy prefix; BOS comes first."""
    proto = proto or open(file, "rb").read()
    whole = sentencepiece.SentencePieceProcessor(model_proto=proto)
    spec = sentencepiece_model_pb2.ModelProto.FromString(proto)
    has_prefix = spec.normalizer_spec.add_dummy_prefix
    trims = spec.normalizer_spec.remove_extra_whitespaces
    spec.normalizer_spec.add_dummy_prefix = False
    inner = sentencepiece.SentencePieceProcessor(model_proto=spec.SerializeToString())
    n = whole.vocab_size()
    special = {whole.id_to_piece(i): i for i in range(n) if whole.is_control(i) or whole.is_unknown(i)}
    spec.normalizer_spec.precompiled_charsmap = b""
    spec.normalizer_spec.remove_extra_whitespaces = False
    plain = sentencepiece.SentencePieceProcessor(model_proto=spec.SerializeToString())

    def encode_inner(text):
        """Leading spaces are not at the start of the text, so at least one of them is kept."""
        normal = inner.normalize("x" + text)[1:] if trims else ""
        return plain.encode(normal) if normal.startswith("▁") else inner.encode(text)

    def apply(text):
        ids = [whole.bos_id()] if whole.bos_id() >= 0 else []
        begin = at = 0
        while at <= len(text):
            found = max((p for p in special if text.startswith(p, at)), key=len, default=None)
            if found is None and at < len(text):
                at += 1
                continue
            ids += (whole.encode if begin == 0 else encode_inner)(text[begin:at])
            if found is None:
                break
            ids.append(special[found])
            begin = at = at + len(found)
        return ids

    suffix = spec.trainer_spec.treat_whitespace_as_suffix and has_prefix
    encoders = {"none": whole.encode}
    if not suffix:
        encoders["apply"] = apply
    pieces = [whole.id_to_piece(i).replace("▁", " ") for i in range(n)]
    tokens = list(special) + [whole.id_to_piece(i) for i in range(n) if spec.pieces[i].type == 4]
    return Reference(name, file, encoders, pieces, tokens, whole.decode, takes_bytes=True)


def from_tiktoken(name, file):
    with open(file, "rb") as lines:
        ranks = {base64.b64decode(piece): int(rank) for piece, rank in (line.split() for line in lines if line.strip())}
    encoding = tiktoken.Encoding(name, pat_str=LLAMA3_PATTERN, mergeable_ranks=ranks, special_tokens={})
    pieces = [piece.decode("utf-8", "replace") for piece in ranks]
    return Reference(name, file, {"apply": encoding.encode_ordinary, "none": encoding.encode_ordinary}, pieces, [],
                     lambda ids: encoding.decode_bytes(ids).decode("utf-8", "replace"))


def read_gguf(file):
    """The metadata of a GGUF file. Source: ggml-org/ggml, docs/gguf.md."""
    with open(file, "rb") as source:
        data = source.read()
    at = 0

    def take(form):
        nonlocal at
        value = struct.unpack_from("<" + form, data, at)
        at += struct.calcsize("<" + form)
        return value[0]

    def string():
        nonlocal at
        size = take("Q")
        at += size
        return data[at - size:at].decode("utf-8", "surrogateescape")

    def value(kind):
        if kind == 8:
            return string()
        if kind == 9:
            inner, count = take("I"), take("Q")
            return [value(inner) for _ in range(count)]
        return take({0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}[kind])

    take("I"), take("I"), take("Q")
    return {key: value(take("I")) for key in [None] * take("Q") for key in [string()]}


def from_gguf_scores(name, file):
    """The pieces and scores of the file in a SentencePiece model: the parts that llama.cpp takes from one."""
    data = read_gguf(file)
    proto = sentencepiece_model_pb2.ModelProto()
    proto.trainer_spec.model_type = 2
    proto.trainer_spec.byte_fallback = True
    proto.normalizer_spec.name = "identity"
    proto.normalizer_spec.remove_extra_whitespaces = False
    added = []
    for i, (text, score, kind) in enumerate(zip(*(data[f"tokenizer.ggml.{key}"] for key in ("tokens", "scores", "token_type")))):
        proto.pieces.add(piece=text, score=score, type=2 if i == data["tokenizer.ggml.unknown_token_id"] else kind if kind in (1, 6) else 3)
        added += [text] if kind == 4 else []  # no merge applies to them
    reference = from_sentencepiece(name, file, proto.SerializeToString())
    whole = reference.encode["none"]
    # llama.cpp's own test cases cover its policy and its treatment of added tokens.
    reference.encode = {"none": lambda text: None if any(t in text for t in added) else whole(text)}
    reference.takes_bytes = False
    return reference


def from_gguf_merges(name, file, pre_tokenizer_of):
    """The vocabulary and merges of the file, with the pre-tokenizer of a tokenizer.json of the same model family."""
    data = read_gguf(file)
    vocab = {text: i for i, text in enumerate(data["tokenizer.ggml.tokens"])}
    merges = []
    for merge in data["tokenizer.ggml.merges"]:
        at = merge.index(" ", 1)
        merges.append((merge[:at], merge[at + 1:]))
    tokenizer = Tokenizer(BPE(vocab, merges))
    tokenizer.pre_tokenizer = pre_tokenizer_of.pre_tokenizer
    kinds = data["tokenizer.ggml.token_type"]
    tokenizer.add_tokens([AddedToken(text, normalized=False) for text, i in vocab.items() if kinds[i] == 4])
    tokenizer.add_special_tokens([AddedToken(text, normalized=False) for text, i in vocab.items() if kinds[i] == 3])
    reference = from_hugging_face(name, file, tokenizer)
    del reference.encode["apply"]
    return reference


def catalogue(data):
    """Every tokenizer of the data folder, by name; each is created when it is first used."""
    root = f"{data}/tokenizers"
    made = {}
    for name in ("llama2", "qwen2", "t5"):
        made[name] = lambda n=name: from_hugging_face(n, f"{root}/{n}/tokenizer.json", load_json(f"{root}/{n}/tokenizer.json"))
    made["gpt2"] = lambda: from_hugging_face("gpt2", f"{root}/gpt2", load_pair(f"{root}/gpt2"))
    for name in ("gemma", "llama2", "mistral"):
        made[f"{name}_spm"] = lambda n=name: from_sentencepiece(f"{n}_spm", f"{root}/{n}/tokenizer.model")
    made["stories260K_spm"] = lambda: from_sentencepiece("stories260K_spm", f"{data}/models/stories260K/tok512.model")
    made["llama3"] = lambda: from_tiktoken("llama3", f"{root}/llama3/tokenizer.model")
    for file in sorted(os.listdir(f"{root}/small")):
        name = file.removesuffix("_tokenizer.json").removesuffix(".model")
        if file.endswith("_tokenizer.json"):
            made[name] = lambda n=name, f=f"{root}/small/{file}": from_hugging_face(n, f, load_json(f))
        elif file.endswith(".model"):
            made[name] = lambda n=name, f=f"{root}/small/{file}": from_sentencepiece(n, f)
    gguf = f"{root}/gguf_vocab"
    for name in ("llama-spm", "phi-3"):
        made[f"gguf_{name}"] = lambda n=name: from_gguf_scores(f"gguf_{n}", f"{gguf}/{n}.gguf")
    made["gguf_gpt-2"] = lambda: from_gguf_merges("gguf_gpt-2", f"{gguf}/gpt-2.gguf", load_pair(f"{root}/gpt2"))
    made["gguf_deepseek-llm"] = lambda: from_gguf_merges(
        "gguf_deepseek-llm", f"{gguf}/deepseek-llm.gguf", load_json(f"{root}/small/tiny_bpe_split_deepseek_tokenizer.json"))
    return made
