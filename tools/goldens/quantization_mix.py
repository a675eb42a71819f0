"""Writes tests/checkpoint/mix_goldens.json: the types that llama-quantize gives the tensors of small models.

For each model its config.json and, for each file type, without and with an importance matrix, the types of its tensors:
of the layers as runs ("3 Q6_K 5 Q4_K"), by the name without the layer. Needs llama-cpp-python, gguf and numpy.
"""

import argparse
import ctypes
import json
import os
import re
import subprocess
import tempfile

import llama_cpp
from gguf import GGUFReader
from goldens.files import TESTS

TYPES = {"q4_0": 2, "q4_1": 3, "q8_0": 7, "q5_0": 8, "q5_1": 9, "q2_k": 10, "q3_k_s": 11, "q3_k_m": 12, "q3_k_l": 13,
         "q4_k_s": 14, "q4_k_m": 15, "q5_k_s": 16, "q5_k_m": 17, "q6_k": 18, "iq4_nl": 25, "iq4_xs": 30, "f16": 1,
         "bf16": 32}


def llama(**changes):
    return {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 256, "intermediate_size": 256,
            "num_hidden_layers": 17, "num_attention_heads": 8, "num_key_value_heads": 2, "vocab_size": 64,
            "max_position_embeddings": 64, "tie_word_embeddings": False, **changes}


MODELS = {
    "llama": llama(),
    "tied, as many key heads": llama(num_key_value_heads=8, tie_word_embeddings=True, num_hidden_layers=8),
    "rows of 288": llama(hidden_size=288, num_attention_heads=6, num_key_value_heads=3, num_hidden_layers=4),
    "rows of 272 in down": llama(intermediate_size=272, num_hidden_layers=4),
    "80 layers": llama(num_hidden_layers=80, intermediate_size=32, num_attention_heads=4, head_dim=8,
                       num_key_value_heads=2),
    "mixtral": llama(architectures=["MixtralForCausalLM"], model_type="mixtral", num_local_experts=8,
                     num_experts_per_tok=2, num_hidden_layers=9),
    "four experts": llama(architectures=["MixtralForCausalLM"], model_type="mixtral", num_local_experts=4,
                          num_experts_per_tok=2, num_hidden_layers=3, intermediate_size=32),
    "qwen3": llama(architectures=["Qwen3ForCausalLM"], model_type="qwen3", head_dim=32, num_hidden_layers=16,
                   num_key_value_heads=4, attention_bias=False, rms_norm_eps=1e-6, rope_theta=1e6),
    "gemma2": llama(architectures=["Gemma2ForCausalLM"], model_type="gemma2", head_dim=32, num_hidden_layers=26,
                    query_pre_attn_scalar=32, sliding_window=32, attn_logit_softcapping=50.0,
                    final_logit_softcapping=30.0, tie_word_embeddings=True, hidden_activation="gelu_pytorch_tanh",
                    rms_norm_eps=1e-6),
    "falcon": {"architectures": ["FalconForCausalLM"], "model_type": "falcon", "hidden_size": 256,
               "num_hidden_layers": 32, "num_attention_heads": 8, "vocab_size": 64, "multi_query": True, "bias": False,
               "parallel_attn": True, "new_decoder_architecture": False, "alibi": False, "layer_norm_epsilon": 1e-5,
               "max_position_embeddings": 64},
}


def quantize(source, out, number, weighted):
    params = llama_cpp.llama_model_quantize_default_params()
    params.nthread, params.ftype = 2, number
    none = ctypes.c_float(1)
    matrix = (llama_cpp.llama_model_imatrix_data * 2)()
    if weighted:  # an entry that no tensor has: only its presence counts
        matrix[0].name, matrix[0].data, matrix[0].size = b"other", ctypes.pointer(none), 1
        params.imatrix = matrix
    if llama_cpp.llama_model_quantize(source.encode(), out.encode(), ctypes.byref(params)) != 0:
        return None
    return {tensor.name: tensor.tensor_type.name for tensor in GGUFReader(out).tensors}


def runs(types):
    """`types` by tensor as runs of layers by the name without the layer."""
    by_name = {}
    for name, kind in types.items():
        layer = re.match(r"blk\.(\d+)\.", name)
        by_name.setdefault(name[layer.end():] if layer else name, {})[int(layer[1]) if layer else 0] = kind
    text = {}
    for name, layers in sorted(by_name.items()):
        out = []
        for _, kind in sorted(layers.items()):
            if out and out[-1][1] == kind:
                out[-1][0] += 1
            else:
                out.append([1, kind])
        text[name] = " ".join(f"{n} {kind}" for n, kind in out)
    return {name: value for name, value in text.items() if not name.endswith(("norm.weight", ".bias"))}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", help="vitrine")
    parser.add_argument("out", nargs="?", default=TESTS / "checkpoint/mix_goldens.json")
    arguments = parser.parse_args()
    goldens = []
    for name, config in MODELS.items():
        with tempfile.TemporaryDirectory() as folder:
            config_path, model = os.path.join(folder, "config.json"), os.path.join(folder, "model")
            source, out = os.path.join(folder, "f32.gguf"), os.path.join(folder, "out.gguf")
            with open(config_path, "w") as file:
                json.dump(config, file)
            subprocess.run([arguments.program, "init", config_path, model], check=True, capture_output=True)
            subprocess.run([arguments.program, "quantize", model, source, "--type", "f32"], check=True,
                           capture_output=True)
            types = {}
            for kind, number in TYPES.items():
                for weighted in (False, True):
                    result = quantize(source, out, number, weighted)
                    if result is None:
                        raise SystemExit(f"{name}, {kind}: llama-quantize failed")
                    types[kind + (" weighted" if weighted else "")] = runs(result)
            goldens.append({"name": name, "config": config, "types": types})
    with open(arguments.out, "w") as file:
        json.dump(goldens, file, indent=1, sort_keys=True)
        file.write("\n")
