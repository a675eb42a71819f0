#!/usr/bin/env python3
"""Compares files of `vitrine quantize` with those of llama-quantize, type by type.

    compare_quantized.py VITRINE LLAMA_QUANTIZE MODEL.gguf [--imatrix F.gguf] [--type T...] [--ids 1,2,3] [--squares]

MODEL.gguf has weights in f32. For each type, without and with the importance matrix: whether all tensors have the same
type; the error Σ w (x − y)² of each tensor, as a fraction of that in the file of llama-quantize (largest, mean), where w
is the importance or 1, or x² with --squares. With --ids also how far the logits of llama.cpp and vitrine are apart on
either file (root mean square, keys and values in f32). Needs numpy and gguf, and for --ids llama-cpp-python.
"""
import argparse
import subprocess
import tempfile
from pathlib import Path

import numpy as np
from gguf import GGUFReader, dequantize

TYPES = ("q8_0 q6_k q5_k_m q5_k_s q5_1 q5_0 q4_k_m q4_k_s q4_1 q4_0 iq4_nl iq4_xs q3_k_l q3_k_m q3_k_s q2_k").split()


def tensors_of(path):
    return {t.name: t for t in GGUFReader(path).tensors}


def floats_of(tensor):
    return dequantize(tensor.data, tensor.tensor_type).astype(np.float64)


def importance_of(path):
    """Mean squares by tensor, [experts, columns]."""
    parts, out = {name: t.data for name, t in tensors_of(path).items()}, {}
    for name in parts:
        if name.endswith(".in_sum2"):
            counts = parts[name.removesuffix(".in_sum2") + ".counts"].reshape(-1, 1)
            sums = parts[name].reshape(len(counts), -1)
            out[name.removesuffix(".in_sum2")] = np.where(counts > 0, sums / np.maximum(counts, 1), 1.0)
    return out


def error(original, tensor, importance, squares):
    difference = (floats_of(tensor) - original) ** 2
    if squares:
        difference *= original**2
    if importance is not None:
        difference = difference * (importance if len(importance) == 1 else importance[:, None, :])
    return difference.sum()


def compare_files(own, other, originals, importance, squares):
    """The ratios of the errors, and the names of tensors whose types differ."""
    own, ratios, differ = tensors_of(own), [], []
    for name, tensor in tensors_of(other).items():
        if tensor.tensor_type != own[name].tensor_type:
            differ.append(name)
        elif tensor.n_elements > 0 and tensor.tensor_type.name not in ("F32", "F16", "BF16"):
            a, b = (error(originals[name], t, importance.get(name), squares) for t in (own[name], tensor))
            ratios.append(a / b if b > 0 else 1.0 if a == 0 else np.inf)
    return ratios, differ


def logits_of_llama_cpp(path, ids):
    import llama_cpp

    llama = llama_cpp.Llama(str(path), n_ctx=len(ids), n_batch=len(ids), n_ubatch=len(ids), logits_all=True, type_k=0,
                            type_v=0, flash_attn=False, verbose=False)
    llama.eval(ids)
    return np.array(llama.scores[: len(ids)], np.float64)


def logits_apart(vitrine, path, ids, folder):
    out = folder / "logits.npy"
    subprocess.run([vitrine, "logits", path, "--ids", ",".join(map(str, ids)), "--out", out], check=True,
                   capture_output=True)
    return np.sqrt(((np.load(out) - logits_of_llama_cpp(path, ids)) ** 2).mean())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("vitrine")
    parser.add_argument("llama_quantize")
    parser.add_argument("model")
    parser.add_argument("--imatrix")
    parser.add_argument("--type", nargs="*", default=TYPES)
    parser.add_argument("--ids", type=lambda text: [int(id) for id in text.split(",")])
    parser.add_argument("--squares", action="store_true")
    args = parser.parse_args()
    originals = {name: floats_of(tensor) for name, tensor in tensors_of(args.model).items()}
    with tempfile.TemporaryDirectory() as folder:
        own, other = Path(folder) / "own.gguf", Path(folder) / "other.gguf"
        for type_name in args.type:
            for matrix in [None, args.imatrix] if args.imatrix else [None]:
                option = ["--imatrix", matrix] if matrix else []
                subprocess.run([args.vitrine, "quantize", args.model, own, "--type", type_name, *option], check=True,
                               capture_output=True)
                subprocess.run([args.llama_quantize, *option, args.model, other, type_name], check=True,
                               capture_output=True)
                importance = importance_of(matrix) if matrix else {}
                ratios, differ = compare_files(own, other, originals, importance, args.squares)
                line = f"{type_name:7} {'matrix' if matrix else '':6} {len(differ)} of {len(originals)} types differ"
                if ratios:
                    line += f"   error: largest {max(ratios):.4f}, mean {sum(ratios) / len(ratios):.4f} of llama.cpp's"
                if args.ids:
                    apart = [logits_apart(args.vitrine, path, args.ids, Path(folder)) for path in (own, other)]
                    line += "   logits: {:.2e} apart on vitrine's file, {:.2e} on llama.cpp's".format(*apart)
                print(line, *differ[:5], flush=True)


if __name__ == "__main__":
    main()
