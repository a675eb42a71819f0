"""models/default: trained by vitrine alone, from a file of stories to a Hugging Face folder and its card.

    python3 tools/make_default_model.py build/vitrine STORIES.txt RUN     trains (goes on where it was stopped), installs
    python3 tools/make_default_model.py build/vitrine --card RUN          writes the card of a run again

STORIES.txt: TinyStories (Eldan and Li, 2023; CDLA-Sharing-1.0) as it is published, <|endoftext|> between the stories; the
card says which. RUN, a folder, comes to hold the split, the tokenizer, the shards, and run/checkpoints: one every 100
steps. The same file, config and machine give the same bits. Only Python's standard library is needed.
"""

import argparse
import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MODEL = ROOT / "models" / "default"
END = "<|endoftext|>"
TRAINED_ON = 2200  # stories; those behind them are held out, but for the last, which the sample cuts off
PROMPT = "Once upon a time"
SHIPPED = ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")


def vitrine(program, *arguments, folder=None):
    """Stdout of a command, whose progress and messages are shown."""
    done = subprocess.run([program, *map(str, arguments)], stdout=subprocess.PIPE, text=True, cwd=folder)
    if done.returncode != 0:
        sys.exit(done.returncode)
    return done.stdout


def prepare(program, stories, run):
    """RUN/train.txt, held-out.txt, tokenizer.json and the shards of both texts."""
    (run / "stories.sha256").write_text(sha256(stories))
    texts = [story.strip() for story in stories.read_text(encoding="utf-8").split(END)][:-1]
    for name, part in (("train", texts[:TRAINED_ON]), ("held-out", texts[TRAINED_ON:])):
        (run / f"{name}.txt").write_text(f"\n{END}\n".join(part), encoding="utf-8")
    tokenizer = run / "tokenizer.json"
    vitrine(program, "tokenizer", "train", run / "train.txt", "--vocab-size", 4096, "--bos", END, "--out", tokenizer)
    for name in ("train", "held-out"):
        vitrine(program, "data", "pack", run / f"{name}.txt", "--document-separator", END, "--tokenizer", tokenizer,
                "--out", run / f"{name}-tokens")  # fmt: skip


def train(program, run):
    shutil.copy(MODEL / "train.toml", run / "train.toml")
    vitrine(program, "train", "train.toml", *(["--resume"] if (run / "run").exists() else []), folder=run)


def install(run):
    for name in SHIPPED:
        shutil.copy(run / "run" / "best" / name, MODEL / name)


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def card(program, run):
    """models/default/README.md and loss.svg, from what the run says and what the model does."""
    vitrine(program, "plot", run / "run", "--out", MODEL / "loss.svg")
    lines = [json.loads(line) for line in (run / "run" / "metrics.jsonl").read_text().splitlines()]
    steps = [line for line in lines if "loss" in line]
    validated = [line for line in lines if "val_loss" in line]
    best = min(validated, key=lambda line: line["val_loss"])
    shards = json.loads(vitrine(program, "data", "pack", run / "train.txt", "--document-separator", END, "--tokenizer",
                                MODEL, "--out", run / "count-tokens", "--json"))  # fmt: skip
    shutil.rmtree(run / "count-tokens")
    held_out = json.loads(vitrine(program, "eval", MODEL, run / "held-out.txt", "--json"))
    samples = [json.loads(vitrine(program, "generate", MODEL, PROMPT, "--temperature", 0.8, "--seed", seed,
                                  "--max-tokens", 80, "--json"))["text"] for seed in range(1, 11)]  # fmt: skip
    values = {
        "tokens": f"{shards['tokens']:,}",
        "steps": steps[-1]["step"],
        "best_step": best["step"],
        "train_loss": f"{steps[-1]['loss']:.3f}",
        "val_loss": f"{best['val_loss']:.4f}",
        "val_bits": f"{best['val_bits_per_byte']:.4f}",
        "eval_bits": f"{held_out['bits_per_byte']:.4f}",
        "perplexity": f"{held_out['perplexity']:.2f}",
        "sha_text": (run / "stories.sha256").read_text(),
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
    parser.add_argument("stories", type=Path, nargs="?")
    parser.add_argument("run", type=Path)
    parser.add_argument("--card", action="store_true")
    arguments = parser.parse_args()
    run = arguments.run.resolve()
    if not arguments.card:
        if arguments.stories is None:
            parser.error("STORIES.txt is needed")
        run.mkdir(parents=True, exist_ok=True)
        if not (run / "held-out-tokens").exists():
            prepare(arguments.vitrine, arguments.stories, run)
        train(arguments.vitrine, run)
        install(run)
    card(arguments.vitrine, run)


if __name__ == "__main__":
    main()
