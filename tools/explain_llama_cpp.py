#!/usr/bin/env python3
"""Shows why llama.cpp's logits differ from vitrine's: tools/explain_llama_cpp.py build/vitrine MODEL_FOLDER...

For each Hugging Face folder and for GGUF files of it in f32 and f16, differences over 1 + the largest logit:
  llama.cpp from vitrine, and both from transformers in float64 on the same weights (rounded to f16 for an f16 file);
  transformers in float32 from itself in float64: the smallest error that float32 can have;
  llama.cpp from transformers in float64 that rounds as llama.cpp's CPU kernels do: inputs of products with f16 weights
  to f16 (ggml: vec_dot_type of F16), GELU by a table of f16 values (GGML_GELU_FP16); and that transformers in float32
  from itself in float64: the difference between two implementations of the same rounding.
docs/agreement.md has the results. Needs torch, transformers and what tools/compare_gguf.py needs.
"""

import json
import os
import subprocess
import sys
import tempfile

import numpy as np
import torch
from transformers import AutoModelForCausalLM
from transformers.pytorch_utils import Conv1D

import compare_gguf

LINEAR = torch.nn.functional.linear
STORED_AS_F32 = ("wpe", "mlp.gate.weight", "block_sparse_moe.gate")  # positions and routers, in files of any type


def half(x):
    return x.half().to(x.dtype)


def linear_of_halves(x, weight, bias=None):
    return LINEAR(half(x) if bool((weight == half(weight)).all()) else x, weight, bias)


def gelu_of_table(exact):
    return lambda x: torch.where(x <= -10, 0 * x, torch.where(x >= 10, x, half(exact(half(x)))))


def transformers_logits(folder, ids, is_f16, dtype, rounds):
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager",
                                                 experts_implementation="eager").eval()
    for name, parameter in model.named_parameters():
        if is_f16 and parameter.ndim >= 2 and not any(part in name for part in STORED_AS_F32):
            parameter.data = half(parameter.data)
    model = model.to(dtype)
    linear = linear_of_halves if rounds and is_f16 else LINEAR
    torch.nn.functional.linear = linear
    Conv1D.forward = lambda self, x: linear(x, self.weight.T, self.bias)
    for module in model.modules():
        if rounds and "GELU" in type(module).__name__:
            module.forward = gelu_of_table(module.forward)
    with torch.no_grad():
        return model(torch.tensor([ids])).logits[0].double().numpy()


def explain(program, folder, scratch):
    config = json.load(open(folder + "/config.json"))
    length = min(24, config.get("max_position_embeddings") or config.get("n_positions"))
    ids = [int(i) for i in np.random.default_rng(5).integers(0, config["vocab_size"], length)]
    path = scratch + "/model.gguf"
    for kind in ("f32", "f16"):
        subprocess.run([program, "quantize", folder, path, "--type", kind], check=True, capture_output=True)
        vitrine = compare_gguf.logits(program, path, ids, scratch + "/a.npy")
        engine = compare_gguf.engine_logits(path, ids)
        exact, single, rounded, rounded_single = [
            transformers_logits(folder, ids, kind == "f16", dtype, rounds)
            for rounds in (False, True) for dtype in (torch.float64, torch.float32)]
        pairs = [(engine, vitrine), (engine, exact), (vitrine, exact), (single, exact), (engine, rounded),
                 (rounded_single, rounded)]
        print(f"{os.path.basename(folder):20}{kind:5}" + "".join(f"{compare_gguf.difference(a, b):12.1e}" for a, b in pairs),
              flush=True)


def main():
    torch.set_num_threads(1)
    print(f"{'':25}{'engine':>12}{'engine':>12}{'vitrine':>12}{'float32':>12}{'engine':>12}{'rounding f32':>12}\n"
          f"{'':25}{'- vitrine':>12}{'- float64':>12}{'- float64':>12}{'- float64':>12}{'- rounding':>12}{' - rounding':>12}")
    with tempfile.TemporaryDirectory() as scratch:
        for folder in sys.argv[2:]:
            explain(os.path.abspath(sys.argv[1]), folder.rstrip("/"), scratch)


if __name__ == "__main__":
    main()
