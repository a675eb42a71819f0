"""Makes models/default with vitrine only: from two text files to a Hugging Face folder and its card.

    python3 tools/make_default_model.py build/vitrine STORIES.txt NOVEL.txt RUN   trains (continues if stopped), installs
    python3 tools/make_default_model.py build/vitrine --card RUN                  only writes the card of a run

STORIES.txt is TinyStories (Eldan and Li, 2023; CDLA-Sharing-1.0) as published, with <|endoftext|> between the stories.
NOVEL.txt is War and Peace, translated by Louise and Aylmer Maude (public domain), from "CHAPTER I" on, with a blank line
between paragraphs. The card has the hashes of both. The folder RUN gets the split, the tokenizer, the shards, and a
checkpoint every 100 steps in run/checkpoints. The same files, config and machine give the same bits. Needs only the
standard library of Python 3.11.
"""

import argparse
import hashlib
import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MODEL = ROOT / "models" / "default"
END = "<|endoftext|>"
TRAINED_ON = 2200  # stories; the later ones are held out, except for the last, which the sample cuts off
STORIES_SEEN = 2  # of the stories for one pass of the novel
NOVEL_DOCUMENTS = slice(20, 959)  # 1.25 million letters; the first 20 documents are unused
PROMPT = "Once upon a time"
SHIPPED = ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")


def vitrine(program, *arguments, folder=None):
    """Runs a command and returns its stdout; stderr is shown."""
    done = subprocess.run([program, *map(str, arguments)], stdout=subprocess.PIPE, text=True, cwd=folder)
    if done.returncode != 0:
        sys.exit(done.returncode)
    return done.stdout


def novel_documents(text):
    """Paragraphs of more than 40 letters (no headings), joined until a document has more than 1,000."""
    documents, open_document = [], []
    for paragraph in (" ".join(part.split()) for part in re.split(r"\n\s*\n", text)):
        if len(paragraph) <= 40:
            continue
        open_document.append(paragraph)
        if sum(map(len, open_document)) > 1000:
            documents.append("\n\n".join(open_document))
            open_document = []
    return documents[NOVEL_DOCUMENTS]


def prepare(program, stories, novel, run):
    """Writes RUN/train.txt, held-out.txt, novel.txt and tokenizer.json, and the shards for training and validation."""
    for name, path in (("stories", stories), ("novel", novel)):
        (run / f"{name}.sha256").write_text(sha256(path))
    texts = [story.strip() for story in stories.read_text(encoding="utf-8").split(END)][:-1]
    parts = {"train": texts[:TRAINED_ON], "held-out": texts[TRAINED_ON:],
             "novel": novel_documents(novel.read_text(encoding="utf-8-sig"))}  # fmt: skip
    for name, documents in parts.items():
        (run / f"{name}.txt").write_text(f"\n{END}\n".join(documents), encoding="utf-8")
    vitrine(program, "tokenizer", "train", run / "train.txt", "--vocab-size", 4096, "--bos", END,
            "--out", run / "tokenizer.json")  # fmt: skip
    pack(program, run, ["train"] * STORIES_SEEN + ["novel"], run / "train-tokens")
    pack(program, run, ["train"], run / "stories-tokens")
    pack(program, run, ["held-out"], run / "held-out-tokens")


def pack(program, run, names, out):
    vitrine(program, "data", "pack", *(run / f"{name}.txt" for name in names), "--document-separator", END,
            "--tokenizer", run / "tokenizer.json", "--out", out)  # fmt: skip


def train(program, run):
    shutil.copy(MODEL / "train.toml", run / "train.toml")
    vitrine(program, "train", "train.toml", *(["--resume"] if (run / "run").exists() else []), folder=run)


def install(run):
    for name in SHIPPED:
        shutil.copy(run / "run" / "best" / name, MODEL / name)


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def tokens_in(shards):
    """The sum of the token counts in the shard headers: eight bytes at offset 40."""
    return sum(int.from_bytes(path.read_bytes()[40:48], "little") for path in shards.glob("*.tokens"))


def passes(folder, tokens):
    """The number of passes over `tokens` that the steps of a config make."""
    config = tomllib.loads((folder / "train.toml").read_text(encoding="utf-8"))["train"]
    return config["steps"] * config["batch"] * config["seq_len"] / tokens_in(tokens)


def card(program, run):
    """Writes models/default/README.md and loss.svg from the metrics of the run and outputs of the model."""
    vitrine(program, "plot", run / "run", "--out", MODEL / "loss.svg")
    lines = [json.loads(line) for line in (run / "run" / "metrics.jsonl").read_text().splitlines()]
    steps = [line for line in lines if "loss" in line]
    validated = [line for line in lines if "val_loss" in line]
    best = min(validated, key=lambda line: line["val_loss"])
    held_out = json.loads(vitrine(program, "eval", MODEL, run / "held-out.txt", "--json"))
    samples = [json.loads(vitrine(program, "generate", MODEL, PROMPT, "--temperature", 0.8, "--seed", seed,
                                  "--max-tokens", 80, "--json"))["text"] for seed in range(1, 11)]  # fmt: skip
    n_stories, n_all = tokens_in(run / "stories-tokens"), tokens_in(run / "train-tokens")
    seen = passes(run, run / "train-tokens")
    values = {
        "story_tokens": f"{n_stories:,}",
        "novel_tokens": f"{n_all - STORIES_SEEN * n_stories:,}",
        "story_passes": f"{seen * STORIES_SEEN:.1f}",
        "novel_passes": f"{seen:.1f}",
        "steps": f"{steps[-1]['step']:,}",
        "best_step": best["step"],
        "train_loss": f"{steps[-1]['loss']:.3f}",
        "val_loss": f"{best['val_loss']:.4f}",
        "val_bits": f"{best['val_bits_per_byte']:.4f}",
        "eval_bits": f"{held_out['bits_per_byte']:.4f}",
        "perplexity": f"{held_out['perplexity']:.2f}",
        "search": (ROOT / "tools" / "default_model_search.md").read_text(encoding="utf-8").strip(),
        "sha_stories": (run / "stories.sha256").read_text(),
        "sha_novel": (run / "novel.sha256").read_text(),
        "sha": sha256(MODEL / "model.safetensors"),
        "sha_200": sha256(run / "run" / "checkpoints" / "step-000200" / "model.safetensors"),
        "samples": "\n".join(f"{i}. {' '.join((PROMPT + text).split())}" for i, text in enumerate(samples, 1)),
    }
    text = (ROOT / "tools" / "default_model_card.md").read_text(encoding="utf-8")
    for name, value in values.items():
        text = text.replace(f"@{name}@", str(value))
    (MODEL / "README.md").write_text(text, encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("vitrine", type=lambda path: str(Path(path).resolve()))
    parser.add_argument("texts", type=Path, nargs="*", metavar="STORIES.txt NOVEL.txt")
    parser.add_argument("run", type=Path)
    parser.add_argument("--card", action="store_true")
    arguments = parser.parse_args()
    run = arguments.run.resolve()
    if not arguments.card:
        if len(arguments.texts) != 2:
            parser.error("STORIES.txt and NOVEL.txt are needed")
        run.mkdir(parents=True, exist_ok=True)
        if not (run / "held-out-tokens").exists():
            prepare(arguments.vitrine, *arguments.texts, run)
        train(arguments.vitrine, run)
        install(run)
    card(arguments.vitrine, run)


if __name__ == "__main__":
    main()
