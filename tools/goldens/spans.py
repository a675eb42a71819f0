"""Makes tests/goldens/spans: models that tag and answer, their tokenizers, and what transformers' pipelines find.

    python tools/goldens spans

Needs transformers 4 (4.57.1): version 5 has no pipeline that answers questions.
"""

import json
import shutil

import transformers
from goldens.files import GOLDENS, set_weights
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast, pipeline

TEXTS = [
    "Ada Lovelace lived in London, and wrote to Charles Babbage.",
    "Ein Hund bellt im Gärten: Äpfel, naïve café.",
    "日本 🙂 with emoji 👩‍👧 and ﬁne ligatures ①",
    "   leading  and   double spaces  \n\t tabs ",
    "e\u0301a\u0308 combining marks, x\u00a0y and [SEP] <unk>",
    "word " * 70 + "end of it, John Smith.",
    "Multi-hyphenated words don't fit the U.S.A. e-mail",
    "",
]
QUESTIONS = [
    ("Where did Ada live?", TEXTS[0], {}),
    ("Where did Ada live?", TEXTS[0], {"top_k": 4, "max_answer_len": 3}),
    ("Wo bellt der Hund? 🙂", TEXTS[1], {"top_k": 3}),
    ("What is fine?", TEXTS[2], {"top_k": 5}),
    ("What?", TEXTS[3], {"top_k": 2, "handle_impossible_answer": True}),
    ("Who is at the end?", TEXTS[5], {"top_k": 3}),
    ("Who is at the end?", TEXTS[5], {"max_seq_len": 40, "doc_stride": 5, "top_k": 3}),
    ("e-mail", TEXTS[6], {"top_k": 20}),
]
LABELS = dict(enumerate(["O", "B-PER", "I-PER", "B-LOC", "I-LOC", "OTHER-KIND"]))
SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}
NAMES = {"bos_token": "<s>", "cls_token": "<s>", "eos_token": "</s>", "sep_token": "</s>"}
LENGTH = 64


def wrapped(tokenizer: Tokenizer, names: dict[str, str]) -> PreTrainedTokenizerFast:
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=LENGTH, **names)


def word_piece() -> PreTrainedTokenizerFast:
    special = {"pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]", "unk_token": "[UNK]", "mask_token": "[MASK]"}
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    alphabet = list("abcdefghilmnorstuvwy,.'-")
    trainer = trainers.WordPieceTrainer(vocab_size=110, special_tokens=list(special.values()), limit_alphabet=24, initial_alphabet=alphabet)
    tokenizer.train_from_iterator(TEXTS, trainer)
    ids = [(name, tokenizer.token_to_id(name)) for name in ("[SEP]", "[CLS]")]
    tokenizer.post_processor = processors.BertProcessing(*ids)
    return wrapped(tokenizer, special)


def byte_level() -> PreTrainedTokenizerFast:
    special = NAMES | {"pad_token": "<pad>", "unk_token": "<unk>", "mask_token": "<mask>"}
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=300, special_tokens=sorted(set(special.values())), initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(TEXTS, trainer)
    ids = [(name, tokenizer.token_to_id(name)) for name in ("</s>", "<s>")]
    tokenizer.post_processor = processors.RobertaProcessing(*ids, trim_offsets=True, add_prefix_space=False)
    return wrapped(tokenizer, special)


def metaspace() -> PreTrainedTokenizerFast:
    special = NAMES | {"pad_token": "<pad>", "unk_token": "<unk>", "mask_token": "<mask>"}
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.Sequence([normalizers.Strip(), normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    tokenizer.decoder = decoders.Metaspace()
    trainer = trainers.UnigramTrainer(vocab_size=100, special_tokens=sorted(set(special.values())), unk_token="<unk>")
    tokenizer.train_from_iterator([TEXTS[0], TEXTS[5], TEXTS[6]], trainer)
    ids = [(name, tokenizer.token_to_id(name)) for name in ("<s>", "</s>")]
    template = {"single": "<s>:0 $A:0 </s>:0", "pair": "<s>:0 $A:0 </s>:0 $B:1 </s>:1"}
    tokenizer.post_processor = processors.TemplateProcessing(**template, special_tokens=ids)
    return wrapped(tokenizer, special)


def families() -> dict[str, tuple]:
    t = transformers
    deberta = {"relative_attention": True, "position_buckets": 8, "norm_rel_ebd": "layer_norm", "share_att_key": True,
               "pos_att_type": ["p2c", "c2p"], "position_biased_input": False, "type_vocab_size": 0}  # fmt: skip
    return {
        "word_piece": (word_piece, t.BertForTokenClassification, t.BertForQuestionAnswering, {"max_position_embeddings": LENGTH}),
        "byte_level": (byte_level, t.RobertaForTokenClassification, t.RobertaForQuestionAnswering, {"max_position_embeddings": LENGTH + 2, "type_vocab_size": 1, "pad_token_id": 1}),
        "metaspace": (metaspace, t.DebertaV2ForTokenClassification, t.DebertaV2ForQuestionAnswering, {"max_position_embeddings": LENGTH, **deberta}),
    }  # fmt: skip


def plain(found: list[dict] | dict) -> list[dict]:
    found = [found] if isinstance(found, dict) else found
    return [{key: float(value) if key == "score" else value for key, value in one.items()} for one in found]


def tags_of(model, tokenizer) -> list[dict]:
    cases = []
    for strategy in ("none", "simple", "first", "average", "max"):
        find = pipeline("token-classification", model, tokenizer=tokenizer, aggregation_strategy=strategy)
        for stride in (None, 6) if strategy in ("simple", "max") else (None,):
            for i, text in enumerate(TEXTS):
                more = {} if stride is None else {"stride": stride}
                cases.append({"aggregate": strategy, "stride": stride, "text": i, "spans": plain(find(text, **more)) if text else []})
    return cases


def answers_of(model, tokenizer) -> list[dict]:
    find = pipeline("question-answering", model, tokenizer=tokenizer)
    return [
        {"question": question, "text": TEXTS.index(text), "options": options, "answers": plain(find({"question": question, "context": text}, **options))}
        for question, text, options in QUESTIONS
    ]


def main() -> None:
    root = GOLDENS / "spans"
    shutil.rmtree(root, ignore_errors=True)
    for name, (make_tokenizer, tags, answers, more) in families().items():
        tokenizer = make_tokenizer()
        expected = {"texts": TEXTS}
        for kind, model_class in (("tags", tags), ("answers", answers)):
            config = model_class.config_class(vocab_size=len(tokenizer), **SIZES, **more)
            if kind == "tags":
                config.id2label = LABELS
            model = model_class(config)
            set_weights(model, 7, 0.4)
            if kind == "tags":
                model.classifier.bias.data[0] -= 1.5  # fewer tokens with O
            model.eval().save_pretrained(root / f"{name}_{kind}")
            tokenizer.save_pretrained(root / f"{name}_{kind}")
            (root / f"{name}_{kind}" / "special_tokens_map.json").unlink(missing_ok=True)
            expected[kind] = (tags_of if kind == "tags" else answers_of)(model, tokenizer)
        (root / f"{name}.json").write_text(json.dumps(expected, separators=(",", ":")) + "\n", encoding="ascii")
        print(name, len(tokenizer))
