"""Compares variants of models/default/train.toml, the default model's config, by their held-out loss.

    python3 tools/search_default_model.py build/vitrine RUN NAME...     trains variants
    python3 tools/search_default_model.py build/vitrine RUN             writes the table again

RUN is the folder of tools/make_default_model.py, whose texts and tokenizer all variants share. Each
variant is trained in RUN/search/NAME and resumed if it was interrupted. The table of the finished runs is written to
tools/default_model_search.md. Needs only the standard library of Python 3.11.
"""

import argparse
import json
import re
import shutil
import sys
import tomllib
from pathlib import Path

from make_default_model import MODEL, ROOT, STORIES_SEEN, passes, vitrine

TABLE = ROOT / "tools" / "default_model_search.md"
CONFIG = MODEL / "train.toml"
SMALL = {"hidden_size": 192, "head_dim": 48, "query_pre_attn_scalar": 48, "intermediate_size": 528}
# Name: the tokens in RUN, and the keys that differ from the config.
VARIANTS = {
    "stories-dropout-0.2": ("stories-tokens", {"steps": 1500, "dropout": 0.2}),
    "stories-dropout-0.1": ("stories-tokens", {"steps": 1500}),
    "mixed": ("train-tokens", {"steps": 1500}),
    "mixed-small": ("train-tokens", {"steps": 1500, **SMALL}),
    "mixed-long": ("train-tokens", {}),
}


def train(program, run, name):
    tokens, changes = VARIANTS[name]
    folder = run / "search" / name
    if not folder.exists():
        text = CONFIG.read_text(encoding="utf-8")
        for key, value in changes.items():
            text, found = re.subn(rf"^{key} = .*$", f"{key} = {value}", text, flags=re.MULTILINE)
            if found != 1:
                sys.exit(f"{CONFIG} has {found} lines of {key}")
        folder.mkdir(parents=True)
        (folder / "train.toml").write_text(text, encoding="utf-8")
        shutil.copy(run / "tokenizer.json", folder)
        shutil.copytree(run / "held-out-tokens", folder / "held-out-tokens")
        shutil.copytree(run / tokens, folder / "train-tokens")
    vitrine(program, "train", "train.toml", *(["--resume"] if (folder / "run").exists() else []), folder=folder)


def row(program, run, name):
    tokens = VARIANTS[name][0]
    folder = run / "search" / name
    lines = [json.loads(line) for line in (folder / "run" / "metrics.jsonl").read_text().splitlines()]
    steps = [line for line in lines if "loss" in line]
    best = min((line for line in lines if "val_loss" in line), key=lambda line: line["val_loss"])
    config = tomllib.loads((folder / "train.toml").read_text(encoding="utf-8"))
    seen = passes(folder, run / tokens)
    model = json.loads(vitrine(program, "info", folder / "run" / "last", "--json"))
    last = sum(line["loss"] for line in steps[-10:]) / 10
    text, times = ("stories", seen) if tokens == "stories-tokens" else ("stories, novel", seen * STORIES_SEEN)
    return (f"| {text} | {times:.1f} | {model['params'] / 1e6:.2f} M | {config['train']['dropout']} "
            f"| {steps[-1]['step']:,} | {last:.3f} | {best['val_loss']:.4f} | {best['val_bits_per_byte']:.4f} |")  # fmt: skip


def finished(folder):
    if not (folder / "train.toml").exists():
        return False
    steps = tomllib.loads((folder / "train.toml").read_text(encoding="utf-8"))["train"]["steps"]
    return (folder / "run" / "checkpoints" / f"step-{steps:06}").exists()


def write_table(program, run):
    rows = [row(program, run, name) for name in VARIANTS if finished(run / "search" / name)]
    head = ("| text | passes over each story | parameters | dropout | steps | loss on the last 100 steps "
            "| held out, nats | bits per byte |")  # fmt: skip
    TABLE.write_text("\n".join([head, "|" + "---|" * 8, *rows]) + "\n", encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("vitrine", type=lambda path: str(Path(path).resolve()))
    parser.add_argument("run", type=lambda path: Path(path).resolve())
    parser.add_argument("names", nargs="*", choices=[*VARIANTS, []], metavar="NAME", help=", ".join(VARIANTS))
    arguments = parser.parse_args()
    for name in arguments.names:
        train(arguments.vitrine, arguments.run, name)
    write_table(arguments.vitrine, arguments.run)


if __name__ == "__main__":
    main()
