#!/usr/bin/env python3
"""Compares vitrine's GGUF files with other tools: tools/compare_gguf.py build/vitrine MODEL_FOLDER...

For each Hugging Face folder (Llama, Mistral, Mixtral, Qwen 2 and 3 with and without experts, Gemma 1 to 3, GPT-2; small,
as its weights are loaded in float32):
  theirs   a GGUF file written by the gguf package, with rows permuted and norms changed as in llama.cpp's converter:
           vitrine's logits on it are compared with vitrine's logits on the folder
  ours     a file that `vitrine quantize` writes, read by the gguf package: every tensor is compared with the other file
  engine   the same file run by llama.cpp (llama-cpp-cffi), if that is installed: its logits are compared with vitrine's
Prints the largest difference over 1 + the largest logit. The exit status is 1 if one exceeds its tolerance. Needs
numpy, gguf and safetensors.
"""

import argparse
import glob
import importlib.util
import json
import math
import os
import re
import subprocess
import sys
import tempfile

import numpy as np
import gguf
from safetensors import safe_open

# general.architecture, if it is not the model_type
ARCHITECTURE = {"mistral": "llama", "mixtral": "llama", "qwen2_moe": "qwen2moe", "qwen3_moe": "qwen3moe",
                "gemma3_text": "gemma3", "gpt_neox": "gptneox", "cohere": "command-r"}


def tensors_of(folder):
    for path in sorted(glob.glob(folder + "/*.safetensors")):
        if path.endswith("golden.safetensors"):
            continue
        with safe_open(path, "pt") as f:
            for name in f.keys():
                yield name, f.get_tensor(name).float().numpy()


def stacked_experts(tensors):
    """Stacks the tensors of single experts as llama.cpp's converter does."""
    stacks = {}
    for name, tensor in tensors:
        expert = re.search(r"\.experts\.(\d+)\.", name)
        if expert is None:
            yield name, tensor
            continue
        name = name.replace(expert[0], ".experts.")
        name = re.sub(r"block_sparse_moe\.experts", "feed_forward.experts", name).replace("model.layers", "layers")
        name = name if "feed_forward" in name else "model." + name
        stacks.setdefault(name, {})[int(expert[1])] = tensor
    for name, stack in stacks.items():
        yield name, np.stack([stack[i] for i in range(len(stack))])


def gguf_name(name, names):
    """The tensor's name in gguf's table of names."""
    if name.split(".")[0] in ("wte", "wpe", "h", "ln_f"):
        name = "transformer." + name
    return names.get_name(name, try_suffixes=(".weight", ".bias"))


def permute(weights, n_head):
    """llama.cpp's conversion: from halves to pairs."""
    return (weights.reshape(n_head, 2, weights.shape[0] // n_head // 2, *weights.shape[1:])
            .swapaxes(1, 2).reshape(weights.shape))


def write_theirs(folder, path):
    config = json.load(open(folder + "/config.json"))
    family = config["model_type"]
    get = config.get
    kind = ARCHITECTURE.get(family, family)
    number = next(n for n, name in gguf.MODEL_ARCH_NAMES.items() if name == kind)
    names = gguf.get_tensor_name_map(number, get("num_hidden_layers") or get("n_layer"))
    writer = gguf.GGUFWriter(path, kind)
    heads = get("num_attention_heads") or get("n_head")
    kv_heads = get("num_key_value_heads") or heads
    width = get("hidden_size") or get("n_embd")
    writer.add_context_length(get("max_position_embeddings") or get("n_positions"))
    writer.add_embedding_length(width)
    writer.add_block_count(get("num_hidden_layers") or get("n_layer"))
    writer.add_feed_forward_length(get("intermediate_size") or get("n_inner") or 4 * width)
    writer.add_head_count(heads)
    rope = get("rope_parameters") or get("rope_scaling") or {}
    if family == "gpt2":
        writer.add_layer_norm_eps(config["layer_norm_epsilon"])
    else:
        head_dim = get("head_dim") or width // heads
        writer.add_head_count_kv(kv_heads)
        writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
        writer.add_rope_freq_base(rope.get("rope_theta") or get("rope_theta") or 10000.0)
        writer.add_key_length(head_dim)
        writer.add_value_length(head_dim)
        scaling = rope.get("rope_type") or rope.get("type")
        if scaling == "linear":
            writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
            writer.add_rope_scaling_factor(rope["factor"])
        if scaling == "llama3":
            writer.add_tensor("rope_freqs.weight", llama3_factors(rope, head_dim))
    experts = get("num_experts") or get("num_local_experts")
    if experts:
        writer.add_expert_count(experts)
        writer.add_expert_used_count(config["num_experts_per_tok"])
    if get("moe_intermediate_size"):
        writer.add_expert_feed_forward_length(config["moe_intermediate_size"])
    if get("shared_expert_intermediate_size"):
        writer.add_expert_shared_feed_forward_length(config["shared_expert_intermediate_size"])
    if family == "gemma3_text":
        writer.add_sliding_window(config["sliding_window"])
        if get("sliding_window_pattern", 6) != 6:
            writer.add_uint32("gemma3.attention.sliding_window_pattern", config["sliding_window_pattern"])
        if get("rope_local_base_freq", 10000.0) != 10000.0:
            writer.add_float32("gemma3.rope.freq_base_swa", config["rope_local_base_freq"])
    if family == "gemma2":
        writer.add_sliding_window(config["sliding_window"])
        writer.add_attn_logit_softcapping(config["attn_logit_softcapping"])
        writer.add_final_logit_softcapping(config["final_logit_softcapping"])
    tied = get("tie_word_embeddings", family not in ("llama", "mistral", "mixtral", "qwen2", "qwen2_moe"))
    vocab = 0
    for name, tensor in stacked_experts(tensors_of(folder)):
        new = gguf_name(name, names)
        if new is None or "inv_freq" in name or (new == "output.weight" and tied):
            continue
        if kind == "llama" and ".attn_q." in new:
            tensor = permute(tensor, heads)
        if kind == "llama" and ".attn_k." in new:
            tensor = permute(tensor, kv_heads)
        if family.startswith("gemma") and new.endswith("norm.weight"):
            tensor = tensor + 1
        if family == "gpt2" and tensor.ndim == 2 and "embd" not in new and new != "output.weight":
            tensor = tensor.T
        if new == "token_embd.weight":
            vocab = len(tensor)
        if "shared_expert_gate" in name:
            tensor = tensor.squeeze()
        writer.add_tensor(new, np.ascontiguousarray(tensor, np.float32))
    writer.add_vocab_size(vocab)
    writer.add_tokenizer_model("no_vocab")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return vocab


def llama3_factors(rope, dim):
    factors = []
    for i in range(0, dim, 2):
        wavelength = 2 * math.pi * rope["rope_theta"] ** (i / dim)
        original, low, high = rope["original_max_position_embeddings"], rope["low_freq_factor"], rope["high_freq_factor"]
        if wavelength < original / high:
            factors.append(1.0)
        elif wavelength > original / low:
            factors.append(rope["factor"])
        else:
            smooth = (original / wavelength - low) / (high - low)
            factors.append(1 / ((1 - smooth) / rope["factor"] + smooth))
    return np.array(factors, np.float32)


def logits(program, model, ids, out):
    run = subprocess.run([program, "logits", model, "--ids", ",".join(map(str, ids)), "--out", out,
                          "--compute", "f32"],
                         capture_output=True, text=True)
    if run.returncode:
        raise RuntimeError(run.stderr.strip())
    return np.load(out)


def engine_logits(path, ids):
    """llama.cpp's logits at every position, with keys and values in float32."""
    ffi, lib = engine()
    lib.llama_log_set(engine_log(ffi), ffi.NULL)
    lib.llama_backend_init()
    model = lib.llama_model_load_from_file(path.encode(), lib.llama_model_default_params())
    if model == ffi.NULL:
        raise RuntimeError(f"{path}: llama.cpp does not load it: {''.join(LOG[-4:])}")
    params = lib.llama_context_default_params()
    params.n_ctx = params.n_batch = params.n_ubatch = max(256, len(ids))
    params.type_k = params.type_v = 0
    params.flash_attn = False
    context = lib.llama_init_from_model(model, params)
    batch = lib.llama_batch_init(len(ids), 0, 1)
    batch.n_tokens = len(ids)
    for i, token in enumerate(ids):
        batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.logits[i] = token, i, 1, 1
        batch.seq_id[i][0] = 0
    if lib.llama_decode(context, batch) != 0:
        raise RuntimeError(f"{path}: llama.cpp does not run it")
    n = lib.llama_vocab_n_tokens(lib.llama_model_get_vocab(model))
    rows = [np.frombuffer(ffi.buffer(lib.llama_get_logits_ith(context, i), 4 * n), np.float32).copy()
            for i in range(len(ids))]
    lib.llama_batch_free(batch)
    lib.llama_free(context)
    lib.llama_model_free(model)
    return np.stack(rows)


def engine():
    """llama.cpp's C interface, as llama-cpp-cffi wraps it; the package itself imports more than is needed here."""
    package = importlib.util.find_spec("llama")
    found = glob.glob(package.submodule_search_locations[0] + "/_llama_cpp_cpu*.so") if package else []
    if not found:
        raise ImportError
    spec = importlib.util.spec_from_file_location("_llama_cpp_cpu", found[0])
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.ffi, module.lib


LOG, KEEP = [], []


def engine_log(ffi):
    if not KEEP:
        KEEP.append(ffi.callback("void(int, const char *, void *)",
                                 lambda _level, text, _data: LOG.append(ffi.string(text).decode())))
    return ffi.cast("ggml_log_callback", KEEP[0])


def difference(a, b):
    return float(np.abs(a - b).max() / (1 + np.abs(b).max()))


def compare(program, folder, scratch):
    failed = False

    def report(what, value, tolerance):
        nonlocal failed
        failed = failed or not value <= tolerance
        print(f"{folder}  {what:28}{value:.2e}  {'' if value <= tolerance else 'ABOVE ' + str(tolerance)}")

    theirs, ours = scratch + "/theirs.gguf", scratch + "/ours.gguf"
    vocab = write_theirs(folder, theirs)
    config = json.load(open(folder + "/config.json"))
    context = config.get("max_position_embeddings") or config.get("n_positions")
    ids = [int(i) for i in np.random.default_rng(5).integers(0, vocab, min(24, context))]
    reference = logits(program, folder, ids, scratch + "/a.npy")
    report("theirs, logits", difference(logits(program, theirs, ids, scratch + "/b.npy"), reference), 2e-6)
    for dtype, tolerance in [("f32", 1e-4), ("f16", 1e-3)]:
        subprocess.run([program, "quantize", folder, ours, "--type", dtype], check=True, capture_output=True)
        if dtype == "f32":
            a = {t.name: t for t in gguf.GGUFReader(ours).tensors}
            b = {t.name: t for t in gguf.GGUFReader(theirs).tensors}
            if a.keys() != b.keys():
                raise RuntimeError(f"{folder}: other tensors: {sorted(a.keys() ^ b.keys())}")
            worst = max(difference(np.array(a[n].data), np.array(b[n].data)) for n in a)
            report("ours, tensors", worst, 1e-6)
        mine = logits(program, ours, ids, scratch + "/c.npy")
        try:
            report(f"engine, {dtype} logits", difference(engine_logits(ours, ids), mine), tolerance)
        except ImportError:
            print(f"{folder}  engine: llama-cpp-cffi is not installed")
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("folders", nargs="+")
    arguments = parser.parse_args()
    failed = False
    with tempfile.TemporaryDirectory() as scratch:
        for folder in arguments.folders:
            try:
                failed = compare(os.path.abspath(arguments.program), folder.rstrip("/"), scratch) or failed
            except (RuntimeError, subprocess.CalledProcessError) as error:
                print(f"{folder}  {getattr(error, 'stderr', None) or error}")
                failed = True
    sys.exit(failed)


if __name__ == "__main__":
    main()
