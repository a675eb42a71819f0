#!/usr/bin/env python3
"""Compares the speed of vitrine, PyTorch and llama.cpp on one machine and one model, in one run.

    compare.py VITRINE MODEL [--gguf FILE.gguf] [--prompt 256] [--generate 32] [--threads 2] [--rounds 5]
    compare.py VITRINE FILE.gguf [--compute bf16,f32] [--prompt 256] [--generate 32] [--threads 2] [--rounds 5]
    compare.py VITRINE MODEL --train [--batch 4] [--seq 256] [--threads 2] [--rounds 3]

MODEL is a Hugging Face folder (`vitrine init` makes one of any preset). A GGUF file of any type, quantized or not, is
compared with llama.cpp alone, which runs the same file. --compute may name several: the first is compared with the
others, too. Each round runs every engine once, one after the
other, with the same ids. Prints medians over the rounds, and medians of the ratios within a round, which drift less than
the speed of the machine. Needs torch and transformers, and for GGUF files llama-cpp-python, built for this processor
(`vitrine quantize MODEL FILE.gguf --type bf16` writes the file).

--train compares whole steps in float32: forward, loss, backward, clipping, AdamW. PyTorch uses its fused AdamW, and the
faster of the plain model and torch.compile ("nan" if torch.compile fails on this machine).
"""
import argparse
import json
import math
import statistics
import subprocess
import sys
import time


class Vitrine:
    def __init__(self, args, compute):
        self.command = [args.vitrine, "bench", args.model, "--prompt", str(args.prompt), "--generate",
                        str(args.generate), "--threads", str(args.threads), "--compute", compute, "--json"]
        self.runs = []

    def run(self):
        out = json.loads(subprocess.run(self.command, check=True, capture_output=True).stdout)
        self.runs.append(out)
        return out["prefill_tokens_per_s"], out["decode_tokens_per_s"]


class PyTorch:
    def __init__(self, args):
        import torch
        from transformers import AutoModelForCausalLM

        torch.set_num_threads(args.threads)
        self.torch, self.args = torch, args
        self.model = AutoModelForCausalLM.from_pretrained(args.model, dtype="auto").eval()
        n = self.model.config.vocab_size
        self.ids = torch.tensor([[(t * 7919 + 13) % n for t in range(args.prompt)]])

    def run(self):
        with self.torch.inference_mode():
            begin = time.perf_counter()
            out = self.model(self.ids, use_cache=True, logits_to_keep=1)
            token = out.logits[:, -1:].argmax(-1)
            middle = time.perf_counter()
            for _ in range(self.args.generate):
                out = self.model(token, past_key_values=out.past_key_values, use_cache=True)
                token = out.logits[:, -1:].argmax(-1)
            end = time.perf_counter()
        return self.args.prompt / (middle - begin), self.args.generate / (end - middle)


class LlamaCpp:
    def __init__(self, args):
        from llama_cpp import Llama

        self.args = args
        self.llama = Llama(args.gguf or args.model, n_ctx=args.prompt + args.generate + 1, n_threads=args.threads,
                           n_threads_batch=args.threads, n_batch=args.prompt, n_ubatch=args.prompt, verbose=False)
        n = self.llama.n_vocab()
        self.ids = [(t * 7919 + 13) % n for t in range(args.prompt)]

    def run(self):
        self.llama.reset()
        begin = time.perf_counter()
        self.llama.eval(self.ids)
        middle = time.perf_counter()
        for i in range(self.args.generate):
            self.llama.eval([self.ids[i % len(self.ids)]])
        end = time.perf_counter()
        return self.args.prompt / (middle - begin), self.args.generate / (end - middle)


def train_vitrine(args):
    command = [args.vitrine, "bench", args.model, "--prompt", "8", "--generate", "1", "--train", "--batch",
               str(args.batch), "--seq", str(args.seq), "--threads", str(args.threads), "--json"]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)


def train_pytorch(args, compiled):
    """Steps a second, in a process of its own, so that its peak of memory is its own."""
    code = """
import resource, sys, time, torch
from transformers import AutoModelForCausalLM
model_path, batch, seq, threads, compiled = sys.argv[1], *map(int, sys.argv[2:])
torch.set_num_threads(threads)
model = AutoModelForCausalLM.from_pretrained(model_path, dtype=torch.float32)
for module in model.modules():
    if isinstance(module, torch.nn.Dropout):
        module.p = 0.0
model.train()
n = model.config.vocab_size
run = torch.compile(model) if compiled else model
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
ids = torch.tensor([[(i * 7919 + 13) % n for i in range(batch * seq + 1)]])
x, y = ids[:, :-1].view(batch, seq), ids[:, 1:].view(batch, seq)
times = []
for _ in range(6):
    begin = time.perf_counter()
    logits = run(x, use_cache=False).logits
    torch.nn.functional.cross_entropy(logits.view(-1, n), y.reshape(-1)).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    times.append(time.perf_counter() - begin)
print(batch * seq / sorted(times[1:])[2], resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""
    words = [args.model, args.batch, args.seq, args.threads, int(compiled)]
    out = subprocess.run([sys.executable, "-c", code, *map(str, words)], check=not compiled, capture_output=True, text=True)
    if out.returncode != 0:
        return math.nan, math.nan  # torch.compile does not run on this machine
    speed, memory = out.stdout.split()[-2:]
    return float(speed), float(memory)


def race_training(args):
    ratios, fractions = [], []
    for _ in range(args.rounds):
        ours = train_vitrine(args)
        eager, memory = train_pytorch(args, False)
        compiled, _ = train_pytorch(args, True)
        ratios.append(ours["train_tokens_per_s"] / max(eager, 0 if math.isnan(compiled) else compiled))
        fractions.append(ours["train_fraction_of_peak"])
        print(f"vitrine {ours['train_tokens_per_s']:.1f} tokens/s ({100 * fractions[-1]:.0f} % of the f32 limit), "
              f"{ours['train_peak_rss_bytes'] / 1e6:.0f} MB; PyTorch {eager:.1f}, compiled {compiled:.1f}, "
              f"{memory / 1e6:.0f} MB", flush=True)
    print(f"median of ratios {statistics.median(ratios):.2f}, of the limit {100 * statistics.median(fractions):.0f} %")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("vitrine")
    parser.add_argument("model")
    parser.add_argument("--gguf")
    parser.add_argument("--compute", default="auto")
    parser.add_argument("--train", action="store_true")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--seq", type=int, default=256)
    parser.add_argument("--prompt", type=int, default=256)
    parser.add_argument("--generate", type=int, default=32)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    if args.train:
        return race_training(args)

    engines = {f"vitrine {compute}": Vitrine(args, compute) for compute in args.compute.split(",")}
    first, *_ = ours = list(engines)
    if not args.model.endswith(".gguf"):
        engines["PyTorch"] = PyTorch(args)
    if args.gguf or args.model.endswith(".gguf"):
        engines["llama.cpp"] = LlamaCpp(args)
    for engine in engines.values():
        engine.run()  # warms up
    rounds = [{name: engine.run() for name, engine in engines.items()} for _ in range(args.rounds)]

    print(f"{args.model}: prompt {args.prompt}, {args.generate} decoded, {args.threads} threads, {args.rounds} rounds")
    for name in engines:
        prefill, decode = (statistics.median(r[name][i] for r in rounds) for i in (0, 1))
        line = f"{name:12} prefill {prefill:9.1f} tokens/s   decode {decode:8.2f} tokens/s"
        if name != first:
            ratios = (statistics.median(r[first][i] / r[name][i] for r in rounds) for i in (0, 1))
            line += "   {} is {:.2f} and {:.2f} times as fast".format(first, *ratios)
        print(line)
    for name in ours:
        runs = engines[name].runs[1:]
        decode, prefill = (statistics.median(run[figure] for run in runs)
                           for figure in ("decode_fraction_of_bandwidth", "prefill_fraction_of_peak"))
        last = runs[-1]
        print(f"{last['isa']}, {last['compute']}; medians: decode at {100 * decode:.0f} % of the reading "
              f"({last['read_gb_per_s']:.1f} GB/s), prefill at {100 * prefill:.0f} % of the product "
              f"({last['gemm_gflops'][last['compute']]:.0f} G/s)")


if __name__ == "__main__":
    main()
