#!/usr/bin/env python3
"""Compares `vitrine tokenizer train` with Hugging Face's trainer on one machine and one corpus, in one run.

    tokenizer_training.py VITRINE FILE… [--vocab-size 32000] [--repeat 1] [--threads 2] [--rounds 3]

The corpus is the concatenation of all files, `repeat` times. Each round runs both programs. Prints medians of wall time
and of peak memory (of the process, and for Hugging Face's also without the memory of Python and the package). The
merges must be the same. Needs `tokenizers`.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

HUGGING_FACE = """
import resource, sys
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
tokenizer = Tokenizer(models.BPE())
tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
trainer = trainers.BpeTrainer(vocab_size=int(sys.argv[3]), initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                              show_progress=False)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
tokenizer.train([sys.argv[1]], trainer)
tokenizer.save(sys.argv[2])
"""

def timed(command, env):
    begin = time.perf_counter()
    process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True)
    out = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit(f"{command[0]} failed")
    return time.perf_counter() - begin, usage.ru_maxrss / 1024, out

def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("vitrine")
    parser.add_argument("files", nargs="+")
    parser.add_argument("--vocab-size", type=int, default=32000)
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        corpus, ours, theirs = (os.path.join(folder, name) for name in ("corpus.txt", "ours.json", "theirs.json"))
        with open(corpus, "wb") as out:
            for _ in range(args.repeat):
                for path in args.files:
                    with open(path, "rb") as file:
                        out.write(file.read())
        env = dict(os.environ, RAYON_NUM_THREADS=str(args.threads), TOKENIZERS_PARALLELISM="true")
        size = str(args.vocab_size)
        commands = {
            "vitrine": [args.vitrine, "tokenizer", "train", corpus, "--vocab-size", size, "--ties", "smaller-id",
                        "--threads", str(args.threads), "--out", ours],
            "tokenizers": [sys.executable, "-c", HUGGING_FACE, corpus, theirs, size],
        }
        runs = {name: [] for name in commands}
        for _ in range(args.rounds):
            for name, command in commands.items():
                runs[name].append(timed(command, env))
        with open(ours) as a, open(theirs) as b:
            a, b = json.load(a)["model"], json.load(b)["model"]
        print(f"{os.path.getsize(corpus) / 1e6:.1f} MB, vocabulary {size}, {args.threads} threads, {args.rounds} rounds;",
              "the same merges and vocabulary" if a["merges"] == b["merges"] and a["vocab"] == b["vocab"] else "DIFFERENT")
        for name, list_of in runs.items():
            seconds, memory = (statistics.median(run[i] for run in list_of) for i in (0, 1))
            base = f" ({memory - int(list_of[0][2]) / 1024:.0f} MB of it beyond the start)" if name == "tokenizers" else ""
            print(f"{name:10}  {seconds:6.2f} s  {memory:6.0f} MB{base}")
        print(f"ratio       {statistics.median(t[0] / v[0] for v, t in zip(runs['vitrine'], runs['tokenizers'])):6.1f}")

main()
