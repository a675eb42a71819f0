"""Makes tests/goldens/sentence_changes.json: folders of tests/goldens/sentences with one thing changed, and what
sentence-transformers makes of them in float64.

    python tools/goldens changed_sentences

Needs sentence-transformers 6.2. A change is a JSON Patch of a file, or a change of one tensor. Its values are one number
for each text and role: the sum of all elements, each times a cosine of its number; null if the reference refuses it.
"""

import copy
import json
import math
import shutil
import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from goldens.files import GOLDENS
from goldens.sentences import TEXTS
from sentence_transformers import CrossEncoder, MultiVectorEncoder, SentenceTransformer, SparseEncoder

KINDS = {kind.__name__: kind for kind in (CrossEncoder, MultiVectorEncoder, SentenceTransformer, SparseEncoder)}
SOURCE = GOLDENS / "sentences"
WORK = SOURCE / ".work"
# Other values for texts of some keys; those of other keys get a letter more.
TEXTS_OF_KEYS = {
    "activation_function": [f"torch.nn.modules.activation.{name}" for name in ("ReLU", "GELU", "SiLU", "Sigmoid", "Mish", "LeakyReLU", "Softmax")]
    + ["torch.nn.modules.linear.Identity", "torch.nn.Tanh", "other.Tanh"],
    "activation_fn": ["torch.nn.modules.linear.Identity", "torch.nn.modules.activation.Tanh", "torch.nn.modules.activation.Softmax"],
    "pooling_mode": ["cls", "max", "mean", "lasttoken", "weightedmean", "mean_sqrt_len_tokens", "median"],
    "pooling_strategy": ["max", "sum", "mean"],
    "similarity_fn_name": ["dot", "maxsim", "other"],
    "strategy": ["min", "fixed", "other"],
    "transformer_task": ["fill-mask", "feature-extraction", "sequence-classification", "text-generation"],
    "module_input_name": ["token_embeddings", "sentence_embedding", "scores", "other"],
    "module_output_name": ["token_embeddings", "sentence_embedding", "scores", "other"],
    "method_output_name": ["logits", "last_hidden_state", "pooler_output"],
    "model_type": list(KINDS),
    "format": ["flat", "structured", "other"],
    "default_prompt_name": ["query", "nosuch", None],
}  # fmt: skip
TYPES = ["LSTM", "CNN", "WordWeights", "BoW", "WeightedLayerPooling", "Normalize", "Dropout", "LayerNorm", "Router"]


def others(value: object, key: str) -> list:
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1, max(0, value - 1), None]
    if isinstance(value, str):
        return TEXTS_OF_KEYS.get(key, [value + "x", ""])
    if isinstance(value, list):
        return [value[:-1], value + value[:1]] if value else [["x"]]
    return [3, "mean", True] if value is None else []


def walk(value: object, path: str = "") -> Iterator[tuple[str, str, object]]:
    """The pointers, keys and values of an object's entries, and of those within them."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        at = f"{path}/{key}"
        if isinstance(value, dict):
            yield at, key, inner
        yield from walk(inner, at)


def changes_of_json(file: str, content: object) -> Iterator[dict]:
    for at, key, value in walk(content):
        if "__version__" in at or key == "idx":  # no value depends on them
            continue
        for other in others(value, key):
            if (other, type(other)) != (value, type(value)):
                yield {"file": file, "patch": [{"op": "replace", "path": at, "value": other}]}
        yield {"file": file, "patch": [{"op": "remove", "path": at}]}
    if isinstance(content, dict):
        yield {"file": file, "patch": [{"op": "add", "path": "/some_new_key", "value": 1.5}]}


def changes_of_steps(modules: list) -> Iterator[dict]:
    for i, module in enumerate(modules):
        yield {"patch": [{"op": "remove", "path": f"/{i}"}]}
        if i + 1 < len(modules):
            yield {"patch": [{"op": "move", "from": f"/{i}", "path": f"/{i + 1}"}]}
        yield {"patch": [{"op": "add", "path": f"/{i + 1}", "value": module | {"name": "again", "idx": 9}}]}
        for name in TYPES:
            yield {"patch": [{"op": "replace", "path": f"/{i}/type", "value": f"sentence_transformers.models.{name}"}]}


def changes_of(folder: Path) -> Iterator[dict]:
    for file in sorted(folder.rglob("*.json")):
        name = str(file.relative_to(folder))
        if file.name in ("golden.json", "tokenizer.json", "tokenizer_config.json"):
            continue
        content = json.loads(file.read_text())
        if file.name == "config.json" and "model_type" in content:  # of transformers: only what is of sentence-transformers
            content = {key: value for key, value in content.items() if key == "sentence_transformers"}
            if not content:
                continue
        yield from changes_of_json(name, content)
        if name == "modules.json":
            yield from ({"file": name} | change for change in changes_of_steps(content))
    for file in sorted(folder.rglob("model.safetensors")):
        name = str(file.relative_to(folder))
        size = struct.unpack("<Q", file.read_bytes()[:8])[0]
        tensors = json.loads(file.read_bytes()[8 : 8 + size])
        tensors.pop("__metadata__", None)
        for tensor in tensors if len(tensors) <= 3 else ():  # a larger file is the model's
            yield from ({"file": name, "tensor": tensor, "change": change} for change in ("scaled", "renamed", "narrowed"))


def change_tensor(file: Path, name: str, change: str) -> None:
    """Multiplies the elements by 1.5, those of whole numbers by 0; or gives it another name, or half of its columns."""
    data = file.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header, body = json.loads(data[8 : 8 + size]), bytearray(data[8 + size :])
    begin, end = header[name]["data_offsets"]
    kind = {"F32": np.float32, "F64": np.float64, "I64": np.int64}[header[name]["dtype"]]
    if change == "scaled":
        values = np.frombuffer(bytes(body[begin:end]), kind)
        body[begin:end] = (values * (0 if kind is np.int64 else 1.5)).astype(kind).tobytes()
    elif change == "renamed":
        header["other"] = header.pop(name)
    else:
        header[name]["shape"] = [header[name]["shape"][0] * 2, *header[name]["shape"][1:]]
        header[name]["dtype"] = {"F32": "BF16", "F64": "F32", "I64": "I32"}[header[name]["dtype"]]
    text = json.dumps(header).encode()
    file.write_bytes(struct.pack("<Q", len(text)) + text + bytes(body))


def apply(change: dict, folder: Path) -> None:
    file = folder / change["file"]
    if "tensor" in change:
        return change_tensor(file, change["tensor"], change["change"])
    content = json.loads(file.read_text())
    for op in change["patch"]:
        *parents, last = [part for part in op["path"].split("/")[1:]]
        place = content
        for part in parents:
            place = place[int(part) if isinstance(place, list) else part]
        last = int(last) if isinstance(place, list) else last
        if op["op"] == "move":
            place.insert(last, place.pop(int(op["from"].split("/")[-1])))
        elif op["op"] == "remove":
            del place[last]
        elif isinstance(place, list):
            place.insert(last, copy.deepcopy(op["value"]))
        else:
            place[last] = op["value"]
    file.write_text(json.dumps(content))


def digest(values: object) -> float:
    flat = np.asarray(values.to_dense() if hasattr(values, "to_dense") else values, np.float64).ravel()
    return round(sum(x * math.cos(i) for i, x in enumerate(flat.tolist())), 8)


def values_of(folder: Path, kind: type) -> dict | None:
    try:
        model = kind(str(folder), device="cpu").double()
        if kind is CrossEncoder:
            return {"scores": [digest(x) for x in model.predict([(TEXTS[0], text) for text in TEXTS])]}
        roles = {"any": model.encode, "query": model.encode_query, "document": model.encode_document}
        return {role: [digest(x) for x in encode(TEXTS)] for role, encode in roles.items()}
    except Exception as error:  # whatever it is refused with
        print(json.dumps({"refused": str(error)[:80]}))
        return None


def main() -> None:
    all_changes = []
    for folder in sorted(path for path in SOURCE.iterdir() if path.is_dir()):
        if folder.name in ("pooled", "words_max", "tokens_attended", "table_with_factors"):
            changes = [change for change in changes_of(folder) if folder.name.startswith("table") or "patch" in change and "modules.json" != change["file"]]
        else:
            changes = list(changes_of(folder))
        inner = folder / "config_sentence_transformers.json"
        kind = KINDS[json.loads(inner.read_text())["model_type"]] if inner.exists() else SentenceTransformer
        for change in changes:
            shutil.rmtree(WORK, ignore_errors=True)
            shutil.copytree(folder, WORK)
            apply(change, WORK)
            named = json.loads((WORK / inner.name).read_text()).get("model_type", "SentenceTransformer") if inner.exists() else None
            values = values_of(WORK, KINDS.get(named, kind))
            if values is None or all(math.isfinite(x) for own in values.values() for x in own):
                all_changes.append({"folder": folder.name} | change | {"values": values})
        print(json.dumps({"folder": folder.name, "changes": len(changes)}))
    shutil.rmtree(WORK)
    lines = ",\n".join(json.dumps(change) for change in all_changes)
    (GOLDENS / "sentence_changes.json").write_text(f"[\n{lines}\n]\n")
