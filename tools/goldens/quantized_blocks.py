"""Writes tests/quant/blocks.safetensors: random blocks of every quantized format, dequantized by gguf's own tools.

For each format: `NAME.blocks` (bytes) and `NAME.values` (float32). With --ggml, for formats that vitrine writes, what
that library (llama.cpp builds it as libggml-base) makes of the rows `source` (float32): `NAME.quantized` without weights,
`NAME.weighted` with those of `importance`. Without it, these are kept. MXFP4 is quantized by gguf's own tools. Needs numpy, gguf and safetensors.
"""

import argparse
import ctypes
import os

import numpy as np
from gguf import GGMLQuantizationType as Type
from gguf import quants
from gguf.constants import GGML_QUANT_SIZES
from goldens.files import TESTS
from safetensors.numpy import load_file, save_file

FORMATS = ["Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS", "MXFP4"]
HALVES = {  # the offsets of half-precision numbers in a block
    "Q8_0": [0], "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2],
    "Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "IQ4_NL": [0], "IQ4_XS": [0],
    "MXFP4": [],
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


def quantized(library, random, width=512):
    library.ggml_quantize_chunk.restype = ctypes.c_size_t
    source = sources(random, width)
    importance = (random.standard_normal(width) ** 2).astype(np.float32)
    tensors = {"source": source, "importance": importance}
    pointer = lambda array: array.ctypes.data_as(ctypes.c_void_p) if array is not None else None
    for name in [n for n in FORMATS if n != "MXFP4"]:
        elements, size = GGML_QUANT_SIZES[Type[name]]
        for suffix, weights in (("quantized", None), ("weighted", importance)):
            out = np.zeros((len(source), width // elements * size), np.uint8)
            library.ggml_quantize_chunk(int(Type[name]), pointer(source), pointer(out), ctypes.c_int64(0),
                                        ctypes.c_int64(len(source)), ctypes.c_int64(width), pointer(weights))
            tensors[f"{name.lower()}.{suffix}"] = out
    return tensors


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", nargs="?", default=TESTS / "quant/blocks.safetensors")
    parser.add_argument("--ggml", help="libggml-base.so")
    arguments = parser.parse_args()
    random = np.random.default_rng(6)
    tensors = {}
    for name in FORMATS:
        blocks = random_blocks(name, random)
        tensors[f"{name.lower()}.blocks"] = blocks
        tensors[f"{name.lower()}.values"] = quants.dequantize(blocks, Type[name]).astype(np.float32)
    if arguments.ggml:
        tensors |= quantized(ctypes.CDLL(arguments.ggml, mode=os.RTLD_LAZY), random)
    else:
        tensors |= {k: v for k, v in load_file(arguments.out).items() if k not in tensors}
    tensors["mxfp4.quantized"] = quants.quantize(tensors["source"], Type.MXFP4)
    save_file(tensors, arguments.out)
