"""Time and memory of `vitrine tokenize` and Hugging Face's `tokenizers`, one thread each, in turn; and of worst-case inputs.

  tokenizer_speed.py VITRINE DATA [--mb 100] [--line-mb 10] [--repeats 1]   text, and one line without spaces
  tokenizer_speed.py VITRINE DATA --worst [NAME…]                            1 MB and 2 MB of each worst input, the ratio of their times

Seconds are wall and user time of a process, minus the time of the same process with an empty text; likewise for memory.
Memory is the peak resident set per byte of text. The process of `tokenizers` keeps only the ids.
"""
import argparse
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[0] = os.path.join(HERE, "..", "tools")  # in place of this folder: this file has the name of the package

REFERENCE = """
import sys
sys.path.insert(0, sys.argv[1])
from goldens.tokenizer_references import load_json, load_pair
tokenizer = (load_json if sys.argv[2].endswith(".json") else load_pair)(sys.argv[2])
text = open(sys.argv[3], encoding="utf-8", newline="").read()
print(len(tokenizer.encode(text, add_special_tokens=False).ids))
"""

MEASURED = """
import os, resource, subprocess, sys, time
start = time.monotonic()
code = subprocess.call(sys.argv[2:], stdin=open(sys.argv[1], "rb"), stdout=subprocess.DEVNULL)
use = resource.getrusage(resource.RUSAGE_CHILDREN)
print(code, time.monotonic() - start, use.ru_utime, use.ru_maxrss * 1024)
"""


def measure(command, stdin):
    """(wall seconds, user seconds, peak bytes) of a process, measured by one of its own."""
    environment = {**os.environ, "RAYON_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "RUST_BACKTRACE": "0"}
    out = subprocess.run([sys.executable, "-c", MEASURED, stdin, *command], capture_output=True, text=True, env=environment)
    code, *numbers = out.stdout.split()
    if code != "0":
        sys.exit(f"{command[0]} failed: {out.stderr[-400:]}")
    return tuple(map(float, numbers))


def text_of(data, n_bytes):
    """The texts of the data folder in turn, each time with other words between the lines."""
    rng, parts, size = random.Random(1), [], 0
    sources = []
    for name in sorted(os.listdir(f"{data}/text")):
        path = f"{data}/text/{name}"
        if os.path.isfile(path) and not name.endswith((".md", ".gz", ".parquet", ".bin")):
            sources.append(open(path, encoding="utf-8", errors="replace").read())
    while size < n_bytes:
        for source in sources:
            at = rng.randrange(max(1, len(source) - 200_000))
            part = source[at:at + 200_000] + f"\n{rng.random()} {rng.getrandbits(64):x}\n"
            parts.append(part)
            size += len(part.encode())
    return "".join(parts).encode()[:n_bytes].decode("utf-8", "ignore")


def one_line(n_bytes):
    rng = random.Random(2)
    return "".join(rng.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(n_bytes))


def versus(o, folder):
    for label, text in ((f"{o.line_mb} MB without spaces", one_line(o.line_mb * 1_000_000)), (f"{o.mb} MB of text", text_of(o.data, o.mb * 1_000_000))):
        file, empty = f"{folder}/text", f"{folder}/empty"
        for path, content in ((file, text), (empty, "")):
            with open(path, "w", encoding="utf-8", newline="") as out:
                out.write(content)
        n_bytes = os.path.getsize(file)
        for name, path in (("gpt2", f"{o.data}/tokenizers/gpt2"), ("llama2", f"{o.data}/tokenizers/llama2/tokenizer.json")):
            ours = lambda stdin: measure([o.program, "tokenize", path, "-", "--no-special", "--threads", "1", "--json"], stdin)
            theirs = lambda stdin: measure([sys.executable, "-c", REFERENCE, f"{HERE}/../tools", path, stdin], stdin)
            for _ in range(o.repeats):
                for who, run in (("vitrine", ours), ("tokenizers", theirs)):
                    base, full = run(empty), run(file)
                    wall, user, memory = (a - b for a, b in zip(full, base))
                    print(f"{label:24} {name:8} {who:10} wall {wall:8.2f} s  user {user:8.2f} s  {memory / n_bytes:7.1f} bytes a byte", flush=True)


def worst_inputs(n, reference):
    longest = max((p for p in reference.pieces if p.strip()), key=lambda p: len(p.encode()))
    token = max(reference.tokens, key=len) if reference.tokens else "<|endoftext|>"
    rng = random.Random(3)
    units = {"one letter": "a", "alternating": "ab", "spaces": " ", "newlines": "\n", "emoji": "👨‍👩‍👧", "unknown": "\U00014600", "digits": "7",
             "longest piece": longest, "special's front": token[:-1], "merges": "aaab", "marks": "\u0301\u0316"}
    for name, unit in units.items():
        yield name, (unit * (n // len(unit.encode()) + 1))
    yield "random bytes", "".join(chr(rng.randrange(256)) for _ in range(n * 2 // 3))


def worst(o, folder):
    """Seconds of user CPU; those of an empty text are taken off."""
    from goldens.tokenizer_references import catalogue
    known = catalogue(o.data)

    def seconds(reference, text):
        file = f"{folder}/text"
        with open(file, "w", encoding="utf-8") as out:
            out.write(json.dumps(text) + "\n")
        return measure([o.program, "tokenize", reference.file, "--lines", "--no-special"], file)[1]

    for name in o.names or known:
        reference = known[name]()
        base = min(seconds(reference, "") for _ in range(3))
        for (label, one), (_, two) in zip(worst_inputs(1_000_000, reference), worst_inputs(2_000_000, reference)):
            a, b = (max(seconds(reference, text) - base, 0.001) for text in (one, two))
            print(f"{name:30} {label:16} 1 MB {a:6.2f} s  2 MB {b:6.2f} s  ratio {b / a:5.2f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("data")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--worst", action="store_true")
    parser.add_argument("--mb", type=int, default=100)
    parser.add_argument("--line-mb", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=1)
    o = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        (worst if o.worst else versus)(o, folder)


if __name__ == "__main__":
    main()
