#!/usr/bin/env python3
"""Measures how cost grows: curves.py VITRINE MODEL... [--context N...] [--batch N...] [--threads N...] [--generate 16]

Runs `vitrine bench` on every model, then on the first one with other contexts, batches and numbers of threads. Each of
these runs follows a plain run (a prompt of 256, one sequence, all threads), and the ratio of the two is printed, because
ratios drift less than the speed of the machine. Prints Markdown. A decode step at context C follows C tokens; a context
of 1 is practically empty. Batches, and the plain runs before them, have prompts of 16 tokens, because only decoding is
compared.
"""
import argparse
import json
import subprocess


def bench(args, model, **options):
    command = [args.vitrine, "bench", model, "--generate", str(args.generate), "--json"]
    for name, value in options.items():
        command += [f"--{name}", str(value)]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)


def row(what, out, plain=None):
    def rate(key):
        ratio = f" ({out[key] / plain[key]:.2f})" if plain else ""
        return f"{out[key]:.4g}{ratio}"

    print(f"| {what} | {rate('prefill_tokens_per_s')} | {out['prefill_fraction_of_peak']:.0%} "
          f"| {rate('decode_tokens_per_s')} | {out['decode_bytes_per_token'] / 1e9:.3g} GB "
          f"| {out['decode_fraction_of_bandwidth']:.0%} | {out['read_gb_per_s']:.0f} GB/s "
          f"| {out['peak_rss_bytes'] / 1e6:.0f} MB |", flush=True)  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("vitrine")
    parser.add_argument("models", nargs="+", metavar="MODEL")
    parser.add_argument("--context", type=int, nargs="*", default=[1, 1024, 4096])
    parser.add_argument("--batch", type=int, nargs="*", default=[2, 4, 8, 16, 32])
    parser.add_argument("--threads", type=int, nargs="*", default=[1])
    parser.add_argument("--generate", type=int, default=16)
    args = parser.parse_args()
    print("| | prefill, tokens/s | of the limit | decode, tokens/s | read a token | of the limit | reading | peak |\n"
          "|---|---|---|---|---|---|---|---|")  # fmt: skip
    for model in args.models:
        row(model, bench(args, model))
    for option, values in (("context", args.context), ("batch", args.batch), ("threads", args.threads)):
        for value in values:
            prompt = {"prompt": 16} if option == "batch" else {}
            plain = bench(args, args.models[0], **prompt)
            options = {"prompt": value} if option == "context" else {option: value, **prompt}
            row(f"{option} {value}", bench(args, args.models[0], **options), plain)


if __name__ == "__main__":
    main()
