#!/usr/bin/env python3
"""Compares steps of training on several ranks with those of one process, and with PyTorch's DistributedDataParallel.

    cluster_race.py VITRINE MODEL [--ranks 2] [--batch 16] [--seq 256] [--steps 6] [--rounds 5] [--shard none,optimizer]
                    [--tokenizer T] [--no-pytorch]

MODEL is a Hugging Face folder of a causal model (`vitrine init` makes one of any preset); its vocabulary has at least as
many tokens as the tokenizer's, by default 4,096. In float32 and without dropout,
these run on one machine, in turn:

    one           vitrine train with as many threads as there are ranks
    SHARD         the same on ranks of one thread each, started by mpirun, for every name in --shard
    PyTorch       DistributedDataParallel over Gloo, processes of one thread each

A step reads BATCH sequences of SEQ tokens, divided among the ranks: forward, loss, backward, the exchange of gradients,
clipping and AdamW (PyTorch: its fused one). The first step of every run warms up. Prints medians of the rounds, and
medians of the ratios within a round. Needs mpirun, and for PyTorch torch and transformers.
"""
import argparse
import json
import os
import random
import socket
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

DDP = """
import json, os, sys, time, torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from transformers import AutoModelForCausalLM
model_path, batch, seq, steps = sys.argv[1], *map(int, sys.argv[2:])
torch.set_num_threads(1)
dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
model = AutoModelForCausalLM.from_pretrained(model_path, dtype=torch.float32, attn_implementation="sdpa")
for module in model.modules():
    if isinstance(module, torch.nn.Dropout):
        module.p = 0.0
model.train()
n = model.config.vocab_size
run = DistributedDataParallel(model, gradient_as_bucket_view=True)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
times = []
for _ in range(steps + 1):
    ids = torch.randint(n, (batch // dist.get_world_size(), seq + 1))
    dist.barrier()
    begin = time.perf_counter()
    logits = run(ids[:, :-1], use_cache=False).logits
    torch.nn.functional.cross_entropy(logits.reshape(-1, n), ids[:, 1:].reshape(-1)).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    dist.barrier()
    times.append(time.perf_counter() - begin)
if dist.get_rank() == 0:
    print(json.dumps(times[1:]))
dist.destroy_process_group()
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def run_pytorch(args):
    """Seconds of a step."""
    words = [sys.executable, "-c", DDP, args.model, args.batch, args.seq, args.steps]
    port, processes = str(free_port()), []
    for rank in range(args.ranks):
        places = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "RANK": str(rank), "WORLD_SIZE": str(args.ranks),
                  "OMP_NUM_THREADS": "1", "TQDM_DISABLE": "1", "TRANSFORMERS_VERBOSITY": "error"}
        processes.append(subprocess.Popen([str(word) for word in words], stdout=subprocess.PIPE, text=True,
                                          env=dict(os.environ, **places)))
    out = [process.communicate()[0] for process in processes]
    if any(process.returncode != 0 for process in processes):
        sys.exit("PyTorch failed")
    return statistics.median(json.loads(out[0].splitlines()[-1]))


def run_vitrine(args, folder, shard=None):
    """Seconds of a step, with one process or with ranks."""
    out = folder / (shard or "one")
    config = folder / f"{shard or 'one'}.toml"
    config.write_text(f"""
[model]
from = {json.dumps(str(Path(args.model).absolute()))}
[data]
train = {json.dumps(str(folder / "tokens"))}
[train]
steps = {args.steps + 1}
batch = {args.batch}
micro_batches = {args.ranks if shard else 1}
seq_len = {args.seq}
[schedule]
name = "constant"
lr = 1e-4
[log]
every = 1
[out]
folder = {json.dumps(str(out))}
""")
    command = [args.vitrine, "train", str(config), "--threads", str(1 if shard else args.ranks)]
    if shard:
        command = ["mpirun", "-q", "--bind-to", "none", "-n", str(args.ranks), *command, "--shard", shard]
    ran = subprocess.run(command, capture_output=True, text=True)
    if ran.returncode != 0:
        sys.exit(ran.stderr)
    metrics = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return statistics.median(args.batch * args.seq / m["tokens_per_s"] for m in metrics[1:])


def write_tokens(args, folder):
    """Random words, packed by `vitrine data pack`."""
    draw, n = random.Random(7), (args.batch * args.seq + args.batch) * (args.steps + 3)
    words = ["".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=draw.randrange(2, 8))) for _ in range(1000)]
    text = folder / "text.txt"
    text.write_text(" ".join(draw.choices(words, k=n)))
    subprocess.run([args.vitrine, "data", "pack", str(text), "--tokenizer", args.tokenizer, "--out", str(folder / "tokens")],
                   check=True, capture_output=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("vitrine")
    parser.add_argument("model")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--seq", type=int, default=256)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--shard", default="none")
    parser.add_argument("--tokenizer", default=str(Path(__file__).parents[1] / "models/default"))
    parser.add_argument("--no-pytorch", action="store_true")
    args = parser.parse_args()
    rows = ["one", *args.shard.split(","), *([] if args.no_pytorch else ["PyTorch"])]
    rounds = []
    for _ in range(args.rounds):
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            write_tokens(args, folder)
            seconds = {}
            for row in rows:
                if row == "PyTorch":
                    seconds[row] = run_pytorch(args)
                else:
                    seconds[row] = run_vitrine(args, folder, None if row == "one" else row)
        rounds.append(seconds)
        print(", ".join(f"{row} {1000 * seconds[row]:.0f} ms" for row in rows), flush=True)
    first = args.shard.split(",")[0]
    for row in rows:
        others = "" if row == first else f", {first} is {statistics.median(r[row] / r[first] for r in rounds):.2f} times as fast"
        print(f"{row}: {args.batch * args.seq / statistics.median(r[row] for r in rounds):.0f} tokens/s{others}")


if __name__ == "__main__":
    main()
