"""What the default model should be: variants of models/default/train.toml, trained and compared by the held-out loss.

    python3 tools/search_default_model.py build/vitrine RUN NAME... [--prose PROSE.txt]     trains variants
    python3 tools/search_default_model.py build/vitrine RUN                                 writes the table again

RUN is the folder of tools/make_default_model.py, whose text and tokenizer all variants share. Each of them becomes
RUN/search/NAME, and goes on where it was stopped. PROSE.txt: public-domain text, documents of a paragraph or two with
<|endoftext|> between them, for the variant that has it. The table of the finished runs is written to tools/default_model_search.md.
Only Python's (3.11) standard library is needed.
"""

import argparse
import json
import re
import shutil
import sys
import tomllib
from pathlib import Path

from make_default_model import END, MODEL, ROOT, vitrine

TABLE = ROOT / "tools" / "default_model_search.md"
CONFIG = MODEL / "train.toml"
SMALL = {"hidden_size": 192, "head_dim": 48, "query_pre_attn_scalar": 48, "intermediate_size": 528}
LARGE = {"hidden_size": 320, "num_attention_heads": 5, "num_key_value_heads": 1, "num_hidden_layers": 8,
         "intermediate_size": 896}  # fmt: skip
# Name: the keys that differ from the config, and how often the stories stand beside the prose (0: without it).
VARIANTS = {
    "dropout-0": ({"dropout": 0.0}, 0),
    "dropout-0.1": ({"dropout": 0.1}, 0),
    "dropout-0.2": ({"dropout": 0.2}, 0),
    "dropout-0.3": ({"dropout": 0.3}, 0),
    "small": ({"dropout": 0.1, **SMALL}, 0),
    "large": ({"dropout": 0.2, **LARGE}, 0),
    "short": ({"dropout": 0.1, "steps": 1000}, 0),
    "long": ({"dropout": 0.2, "steps": 2250}, 0),
    "mixed": ({"dropout": 0.1}, 2),
}


def pack_mixed(program, run, folder, prose, times):
    copies = []
    for i in range(times):
        copies.append(folder / f"stories-{i}.txt")
        shutil.copy(run / "train.txt", copies[-1])
    vitrine(program, "data", "pack", *copies, prose, "--document-separator", END, "--tokenizer", run / "tokenizer.json",
            "--out", folder / "train-tokens")  # fmt: skip


def train(program, run, name, prose):
    changes, times = VARIANTS[name]
    folder = run / "search" / name
    if not folder.exists():
        folder.mkdir(parents=True)
        text = CONFIG.read_text(encoding="utf-8")
        for key, value in changes.items():
            text, found = re.subn(rf"^{key} = .*$", f"{key} = {value}", text, flags=re.MULTILINE)
            if found != 1:
                sys.exit(f"{CONFIG} has {found} lines of {key}")
        (folder / "train.toml").write_text(text, encoding="utf-8")
        shutil.copy(run / "tokenizer.json", folder)
        shutil.copytree(run / "held-out-tokens", folder / "held-out-tokens")
        if times > 0:
            pack_mixed(program, run, folder, prose, times)
        else:
            shutil.copytree(run / "train-tokens", folder / "train-tokens")
    vitrine(program, "train", "train.toml", *(["--resume"] if (folder / "run").exists() else []), folder=folder)


def tokens_in(shards):
    """From the header of each shard: eight bytes at 40."""
    return sum(int.from_bytes(path.read_bytes()[40:48], "little") for path in shards.glob("*.tokens"))


def row(program, run, name):
    times = VARIANTS[name][1]
    folder = run / "search" / name
    lines = [json.loads(line) for line in (folder / "run" / "metrics.jsonl").read_text().splitlines()]
    steps = [line for line in lines if "loss" in line]
    best = min((line for line in lines if "val_loss" in line), key=lambda line: line["val_loss"])
    config = tomllib.loads((folder / "train.toml").read_text(encoding="utf-8"))
    stories, all_tokens = tokens_in(run / "train-tokens"), tokens_in(folder / "train-tokens")
    share = times * stories / all_tokens if times > 0 else 1
    seen = steps[-1]["step"] * config["train"]["batch"] * config["train"]["seq_len"] * share / stories
    text = "stories" if times == 0 else f"{share:.0%} stories, the rest prose"
    model = json.loads(vitrine(program, "info", folder / "run" / "last", "--json"))
    last = sum(line["loss"] for line in steps[-10:]) / 10
    return (f"| {model['params'] / 1e6:.2f} M | {config['train']['dropout']} | {text} | {steps[-1]['step']} "
            f"| {seen:.1f} | {last:.3f} | {best['val_loss']:.4f} | {best['val_bits_per_byte']:.4f} |")  # fmt: skip


def finished(folder):
    if not (folder / "train.toml").exists():
        return False
    steps = tomllib.loads((folder / "train.toml").read_text(encoding="utf-8"))["train"]["steps"]
    return (folder / "run" / "checkpoints" / f"step-{steps:06}").exists()


def write_table(program, run):
    rows = [row(program, run, name) for name in VARIANTS if finished(run / "search" / name)]
    head = ("| parameters | dropout | text | steps | times each story was seen | loss on the last 100 steps "
            "| held out, nats | bits a byte |")  # fmt: skip
    TABLE.write_text("\n".join([head, "|" + "---|" * 8, *rows]) + "\n", encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("vitrine", type=lambda path: str(Path(path).resolve()))
    parser.add_argument("run", type=lambda path: Path(path).resolve())
    parser.add_argument("names", nargs="*", choices=[*VARIANTS, []], metavar="NAME", help=", ".join(VARIANTS))
    parser.add_argument("--prose", type=lambda path: Path(path).resolve())
    arguments = parser.parse_args()
    for name in arguments.names:
        if VARIANTS[name][1] > 0 and arguments.prose is None:
            parser.error(f"{name} needs --prose")
        train(arguments.vitrine, arguments.run, name, arguments.prose)
    write_table(arguments.vitrine, arguments.run)


if __name__ == "__main__":
    main()
