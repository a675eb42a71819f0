#!/usr/bin/env python3
"""Races vitrine against PyTorch and llama.cpp: one machine, one model, one run.

    compare.py VITRINE MODEL [--gguf FILE.gguf] [--prompt 256] [--generate 32] [--threads 2] [--rounds 5]

MODEL is a Hugging Face folder (`vitrine init` makes one of any preset). Each round runs every engine once, one after the
other, with the same ids; what is printed are medians over the rounds, and medians of the ratios within a round, so that
a machine whose speed drifts slows all of them. Needs torch and transformers; llama-cpp-python, built for this processor,
where --gguf is given (`vitrine quantize MODEL FILE.gguf --type bf16`).
"""
import argparse
import json
import statistics
import subprocess
import time


class Vitrine:
    def __init__(self, args):
        self.command = [args.vitrine, "bench", args.model, "--prompt", str(args.prompt), "--generate",
                        str(args.generate), "--threads", str(args.threads), "--json"]

    def run(self):
        out = json.loads(subprocess.run(self.command, check=True, capture_output=True).stdout)
        self.last = out
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
        self.llama = Llama(args.gguf, n_ctx=args.prompt + args.generate + 1, n_threads=args.threads,
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


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("vitrine")
    parser.add_argument("model")
    parser.add_argument("--gguf")
    parser.add_argument("--prompt", type=int, default=256)
    parser.add_argument("--generate", type=int, default=32)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()

    engines = {"vitrine": Vitrine(args), "PyTorch": PyTorch(args)}
    if args.gguf:
        engines["llama.cpp"] = LlamaCpp(args)
    for engine in engines.values():
        engine.run()  # warms up
    rounds = [{name: engine.run() for name, engine in engines.items()} for _ in range(args.rounds)]

    print(f"{args.model}: prompt {args.prompt}, {args.generate} decoded, {args.threads} threads, {args.rounds} rounds")
    for name in engines:
        prefill, decode = (statistics.median(r[name][i] for r in rounds) for i in (0, 1))
        line = f"{name:10} prefill {prefill:9.1f} tokens/s   decode {decode:8.2f} tokens/s"
        if name != "vitrine":
            ratios = (statistics.median(r["vitrine"][i] / r[name][i] for r in rounds) for i in (0, 1))
            line += "   vitrine is {:.2f} and {:.2f} times as fast".format(*ratios)
        print(line)
    last = engines["vitrine"].last
    print(f"{last['isa']}; decode at {100 * last['decode_fraction_of_bandwidth']:.0f} % of {last['read_gb_per_s']:.1f} GB/s, "
          f"prefill at {100 * last['prefill_fraction_of_peak']:.0f} % of {last['gemm_gflops']['f32']:.0f} GFLOP/s")


if __name__ == "__main__":
    main()
