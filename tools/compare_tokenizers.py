"""Compares the ids of `vitrine tokenize --lines` with those of the reference implementations.

  compare_tokenizers.py VITRINE DATA [--mix mixed|scalars|bytes|pieces|specials|runs]… [--seed N]… [--lines N] [NAME…]
      every tokenizer of the data folder (or those named), both policies; one line for each: lines, differences
  compare_tokenizers.py VITRINE FILE… [same options]
      tokenizer.json and SentencePiece files

Exits with 1 if anything differs.
"""
import argparse
import json
import os
import re
import subprocess
import sys

from goldens.tokenizer_lines import MIXES, N_LINES, line, raw_line
from goldens.tokenizer_references import catalogue, from_hugging_face, from_sentencepiece, load_json


def ask(program, file, no_special, texts):
    """The ids, or the program's error message."""
    command = [program, "tokenize", file, "--lines"] + (["--no-special"] if no_special else [])
    out = subprocess.run(command, input="".join(json.dumps(t) + "\n" for t in texts), capture_output=True, text=True)
    if out.returncode != 0:
        return out.stderr.strip()
    return [json.loads(answer)["ids"] for answer in out.stdout.split("\n")[:-1]]


def compare_decoding(program, reference, n_lines):
    """The text of the ids. Consecutive U+FFFD, the replacement for invalid UTF-8, become one."""
    different = 0
    for i in range(n_lines):
        ids = reference.encode["none"](line(i)) or []
        if ids:
            out = subprocess.run([program, "detokenize", reference.file, *map(str, ids)], capture_output=True)
            ours, theirs = (re.sub("\ufffd+", "\ufffd", t) for t in (out.stdout.decode("utf-8", "replace"), reference.decode(ids)))
            if out.returncode != 0 or ours != theirs:
                different += 1
                if different <= 2:
                    print(f"  line {i}: {ids[:20]}\n    ours   {ours[:120]!r} {out.stderr.decode()}\n    theirs {theirs[:120]!r}")
    print(f"{reference.name:32} decode: {n_lines} lines, {different} different", flush=True)
    return different


def compare_bytes(program, reference, n_lines):
    """Invalid UTF-8, if the reference accepts bytes."""
    different = 0
    for i in range(n_lines if reference.takes_bytes else 0):
        raw = raw_line(i)
        out = subprocess.run([program, "tokenize", reference.file, "-", "--no-special", "--json"], input=raw, capture_output=True)
        ours, theirs = json.loads(out.stdout)["ids"] if out.returncode == 0 else out.stderr, reference.encode["none"](raw)
        if ours != theirs:
            different += 1
            if different <= 2:
                print(f"  {raw}\n    ours {ours}\n    theirs {theirs}")
    if n_lines and reference.takes_bytes:
        print(f"{reference.name:32} raw bytes: {n_lines} lines, {different} different", flush=True)
    return different


def compare(program, reference, mix, seed, n_lines, n_shown):
    texts = [line(i, mix, seed, reference.pieces, reference.tokens) for i in range(n_lines)]
    n_different = 0
    for policy, encode in sorted(reference.encode.items()):
        answers = ask(program, reference.file, policy == "none", texts)
        where = f"{reference.name:32} {policy:6} {mix} {seed}"
        if isinstance(answers, str):
            print(f"{where}: {answers}")
            n_different += n_lines
            continue
        different = left_out = 0
        for index, (text, ours) in enumerate(zip(texts, answers, strict=True)):
            theirs = encode(text)
            if theirs is None:
                left_out += 1
                continue
            if ours == theirs:
                continue
            different += 1
            if different <= n_shown:
                at = next((i for i, (a, b) in enumerate(zip(ours, theirs)) if a != b), min(len(ours), len(theirs)))
                print(f"  line {index}: {text[:100]!r}\n    at id {at}: ours {ours[at:at + 8]}, theirs {theirs[at:at + 8]}")
        print(f"{where}: {n_lines - left_out} lines, {different} different", flush=True)
        n_different += different
    return n_different


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("source", nargs="+", help="a data folder and names, or files")
    parser.add_argument("--mix", action="append", choices=MIXES)
    parser.add_argument("--seed", action="append", type=int)
    parser.add_argument("--lines", type=int, default=N_LINES)
    parser.add_argument("--show", type=int, default=3, help="differences shown for each")
    parser.add_argument("--decode", type=int, default=0, help="lines to compare detokenize with, one process each")
    parser.add_argument("--raw", type=int, default=0, help="lines of raw bytes, one process each, if the reference accepts them")
    o = parser.parse_args()
    if os.path.isdir(o.source[0]):
        known = catalogue(o.source[0])
        made = [known[name] for name in o.source[1:] or known]
    else:
        made = [lambda f=f: from_hugging_face(f, f, load_json(f)) if f.endswith(".json") else from_sentencepiece(f, f)
                for f in o.source]
    n_different = 0
    for make in made:
        reference = make()
        if o.decode:
            n_different += compare_decoding(o.program, reference, o.decode)
        n_different += compare_bytes(o.program, reference, o.raw)
        for mix in o.mix or ["mixed"]:
            for seed in o.seed or [0]:
                n_different += compare(o.program, reference, mix, seed, o.lines, o.show)
    sys.exit(1 if n_different else 0)


if __name__ == "__main__":
    main()
