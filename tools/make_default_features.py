"""Makes models/default/sae and models/default/transcoders with vitrine only.

    python3 tools/make_default_features.py build/vitrine STORIES.txt NOVEL.txt RUN   trains (continues if stopped), installs

STORIES.txt and NOVEL.txt are those of tools/make_default_model.py, and so are the tokens: the stories twice, the novel
once. All dictionaries learn in one run from the rows of one forward (models/default/features.toml). The SAE is installed
as a folder of SAELens, the transcoders as one folder of circuit-tracer, both in F16. The same files, config and machine
give the same bits. Needs only the standard library of Python 3.11.
"""

import argparse
import array
import json
import shutil
import struct
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from make_default_model import END, MODEL, NOVEL_DOCUMENTS, STORIES_SEEN, TRAINED_ON, novel_documents, pack, vitrine

LAYERS = 6
SAE = "blocks.3.hook_resid_post"


def prepare(program, stories, novel, run):
    """Writes RUN/train-tokens and RUN/held-out-tokens, with the model's tokenizer."""
    texts = [story.strip() for story in stories.read_text(encoding="utf-8").split(END)][:-1]
    parts = {"train": texts[:TRAINED_ON], "held-out": texts[TRAINED_ON:],
             "novel": novel_documents(novel.read_text(encoding="utf-8-sig"))}  # fmt: skip
    for name, documents in parts.items():
        (run / f"{name}.txt").write_text(f"\n{END}\n".join(documents), encoding="utf-8")
    shutil.copy(MODEL / "tokenizer.json", run / "tokenizer.json")
    pack(program, run, ["train"] * STORIES_SEEN + ["novel"], run / "train-tokens")


def read_tensors(path):
    """The float32 tensors of a safetensors file: name → (shape, array)."""
    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + size])
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        assert entry["dtype"] == "F32", name
        begin, end = entry["data_offsets"]
        tensors[name] = (entry["shape"], array.array("f", data[8 + size + begin : 8 + size + end]))
    return tensors


def transposed(tensor):
    (rows, cols), values = tensor
    return [cols, rows], array.array("f", (values[r * cols + c] for c in range(cols) for r in range(rows)))


def write_half(path, tensors):
    """Writes tensors in F16."""
    header, blocks, at = {"__metadata__": {"format": "pt"}}, [], 0
    for name, (shape, values) in tensors.items():
        block = struct.pack(f"<{len(values)}e", *values)
        header[name] = {"dtype": "F16", "shape": shape, "data_offsets": [at, at + len(block)]}
        blocks.append(block)
        at += len(block)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(blocks))


def install(run):
    last = run / "run" / "last"
    sae, transcoders = MODEL / "sae", MODEL / "transcoders"
    for folder in (sae, transcoders):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
    config = json.loads((last / SAE / "cfg.json").read_text())
    config["dtype"] = "float16"
    config["metadata"]["model_name"] = "vitrine-default"
    (sae / "cfg.json").write_text(json.dumps(config, indent=2) + "\n")
    write_half(sae / "sae_weights.safetensors", read_tensors(last / SAE / "sae_weights.safetensors"))
    for layer in range(LAYERS):
        own = read_tensors(last / f"blocks.{layer}.hook_mlp_out" / "sae_weights.safetensors")
        write_half(transcoders / f"layer_{layer}.safetensors",
                   {"W_enc": transposed(own["W_enc"]), "W_dec": own["W_dec"], "b_enc": own["b_enc"],
                    "b_dec": own["b_dec"], "activation_function.threshold": own["threshold"]})  # fmt: skip
    (transcoders / "config.yaml").write_text(
        "model_kind: transcoder_set\nmodel_name: vitrine-default\nfeature_input_hook: mlp.hook_in\n"
        "feature_output_hook: hook_mlp_out\nscan: vitrine-default\n"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=lambda text: str(Path(text).resolve()))
    for name in ("stories", "novel", "run"):
        parser.add_argument(name, type=Path)
    given = parser.parse_args()
    run = given.run.resolve()
    run.mkdir(parents=True, exist_ok=True)
    if not (run / "train-tokens").exists():
        prepare(given.program, given.stories, given.novel, run)
    (run / "features.toml").write_text((MODEL / "features.toml").read_text().replace("MODEL", str(MODEL)))
    resume = ["--resume"] if (run / "run").exists() else []
    vitrine(given.program, "train", "features.toml", *resume, folder=run)
    install(run)


if __name__ == "__main__":
    main()
