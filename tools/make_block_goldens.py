#!/usr/bin/env python3
"""Writes tests/quant/blocks.safetensors: random blocks of every quantized format, dequantized by gguf's own tools.

For each format: `NAME.blocks` (bytes) and `NAME.values` (float32). For formats that vitrine writes also `NAME.source`
(float32) and `NAME.quantized` (bytes); with --ggml these come from that library (llama.cpp builds it as libggml-base).
Needs numpy, gguf and safetensors.
"""

import argparse
import ctypes

import numpy as np
from gguf import GGMLQuantizationType as Type
from gguf import quants
from gguf.constants import GGML_QUANT_SIZES
from safetensors.numpy import save_file

FORMATS = ["Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"]
HALVES = {  # the offsets of half-precision numbers in a block
    "Q8_0": [0], "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2],
    "Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208],
}


def random_blocks(name, random, n=6):
    _, size = GGML_QUANT_SIZES[Type[name]]
    blocks = random.integers(0, 256, (n, size), dtype=np.uint8)
    for at in HALVES[name]:
        scales = (random.standard_normal(n) * 0.05).astype(np.float16)
        scales[-1] = np.float16(6e-8)  # the smallest subnormal
        blocks[:, at:at + 2] = scales.view(np.uint8).reshape(n, 2)
    return blocks


def sources(random, width, n=12):
    """Rows to quantize: many magnitudes, zeros, two largest values of the same magnitude, exact halves."""
    x = random.standard_normal((n, width)).astype(np.float32)
    x[1] *= 1e-3
    x[2] *= 1e3
    x[3] = 0
    x[4, ::2] = 0
    x[5] = np.sign(x[5]) * 0.75
    x[6] = np.round(x[6] * 16) / 8
    x[7] *= 1e-30
    return x


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", nargs="?", default="tests/quant/blocks.safetensors")
    parser.add_argument("--ggml", help="libggml-base.so")
    arguments = parser.parse_args()
    random = np.random.default_rng(6)
    tensors = {}
    for name in FORMATS:
        blocks = random_blocks(name, random)
        tensors[f"{name.lower()}.blocks"] = blocks
        tensors[f"{name.lower()}.values"] = quants.dequantize(blocks, Type[name]).astype(np.float32)
    library = ctypes.CDLL(arguments.ggml) if arguments.ggml else None
    for name in ["Q8_0", "Q4_0"] + (["Q6_K"] if library else []):
        elements, size = GGML_QUANT_SIZES[Type[name]]
        x = sources(random, 2 * elements)
        out = np.zeros((len(x), 2 * size), np.uint8)
        if library:
            getattr(library, f"quantize_row_q{name[1:]}_ref")(
                x.ctypes.data_as(ctypes.c_void_p), out.ctypes.data_as(ctypes.c_void_p), ctypes.c_int64(x.size))
        else:
            out = quants.quantize(x, Type[name])
        tensors[f"{name.lower()}.source"] = x
        tensors[f"{name.lower()}.quantized"] = out
    save_file(tensors, arguments.out)


if __name__ == "__main__":
    main()
