#!/usr/bin/env python3
"""Measures how cost grows: curves.py VITRINE MODEL... [--context N...] [--kv K[:V]...] [--batch N...] [--threads N...]

Runs `vitrine bench` on every model, then on the first one with other contexts, for each type of keys and values, and with
other batches and numbers of threads. Each of these runs follows a plain run (a prompt of 256, one sequence, all threads,
the same keys and values), and the ratio of the two is printed, because ratios drift less than the speed of the machine.
Prints Markdown. GB/s is what decoding reads (weights and K/V of a step) times steps a second; its ratio tells whether
K/V are read as fast as weights. At context C the prompt and the decoded tokens are C tokens together. Batches, and the
plain runs before them, have prompts of 16 tokens, because only decoding is compared.
"""
import argparse
import json
import subprocess


def bench(args, model, **options):
    command = [args.vitrine, "bench", model, "--generate", str(args.generate), "--repeats", str(args.repeats), "--json"]
    for name, value in options.items():
        command += [f"--{name}", str(value)]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)


def row(what, out, plain=None):
    def rate(figure):
        ratio = f" ({figure(out) / figure(plain):.2f})" if plain else ""
        return f"{figure(out):.4g}{ratio}"

    prefill = rate(lambda run: run["prefill_tokens_per_s"])
    decode = rate(lambda run: run["decode_tokens_per_s"])
    read = rate(lambda run: run["decode_tokens_per_s"] * run["decode_bytes_per_token"] / 1e9)
    print(f"| {what} | {prefill} | {out['prefill_fraction_of_peak']:.0%} | {decode} "
          f"| {out['decode_bytes_per_token'] / 1e9:.3g} GB | {read} | {out['decode_fraction_of_bandwidth']:.0%} "
          f"| {out['read_gb_per_s']:.0f} | {out['peak_rss_bytes'] / 1e6:.0f} MB |", flush=True)  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("vitrine")
    parser.add_argument("models", nargs="+", metavar="MODEL")
    parser.add_argument("--context", type=int, nargs="*", default=[32, 1024, 4096, 8192])
    parser.add_argument("--kv", nargs="*", default=["f16", "int8", "int8:int4"])
    parser.add_argument("--batch", type=int, nargs="*", default=[2, 4, 8, 16, 32])
    parser.add_argument("--threads", type=int, nargs="*", default=[1])
    parser.add_argument("--generate", type=int, default=16)
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    print("| | prefill, tokens/s | of the limit | decode, tokens/s | read a token | GB/s | of the limit | reading, GB/s "
          "| peak |\n|---|---|---|---|---|---|---|---|---|")  # fmt: skip
    for model in args.models:
        row(model, bench(args, model))
    model = args.models[0]
    for kv in args.kv:
        for context in args.context:
            plain = bench(args, model, kv=kv)
            prompt = max(1, context - args.generate)
            row(f"context {context}, {kv}", bench(args, model, kv=kv, prompt=prompt), plain)
    for option, values in (("batch", args.batch), ("threads", args.threads)):
        for value in values:
            prompt = {"prompt": 16} if option == "batch" else {}
            plain = bench(args, model, **prompt)
            row(f"{option} {value}", bench(args, model, **{option: value}, **prompt), plain)


if __name__ == "__main__":
    main()
