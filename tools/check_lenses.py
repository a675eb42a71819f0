#!/usr/bin/env python3
"""Compares trained lenses with TransformerLens and PyTorch: tools/check_lenses.py build/vitrine [--keep FOLDER]

Makes tiny random models of GPT-2 and Gemma 2 with transformers, and lists of ids. Runs `vitrine train` with [lens]:

  jacobian   the matrices, and the logits of `lens --jacobian`, against transformer_lens.tools.analysis.jacobian_lens
  tuned      each loss of 40 steps from given maps, the maps at the end, and the logits of `lens --tuned`, against
             PyTorch in float64

Prints the largest difference of each, relative to the largest value; the exit status is 1 above 1e-4. Needs torch,
transformers, safetensors and transformer-lens 4.3.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile

import torch
from safetensors.torch import load_file, save_file
from transformer_lens.model_bridge import TransformerBridge
from transformer_lens.tools.analysis import jacobian_lens
from transformers import AutoModelForCausalLM, Gemma2Config, GPT2Config, logging

logging.disable_progress_bar()

LIMIT = 1e-4
STEPS, BATCH = 40, 3
CONFIGS = {
    "gpt2": GPT2Config(vocab_size=61, n_positions=96, n_embd=28, n_layer=4, n_head=4, n_inner=52, bos_token_id=0,
                       eos_token_id=1),
    "gemma2": Gemma2Config(vocab_size=61, hidden_size=36, intermediate_size=44, num_hidden_layers=3,
                           num_attention_heads=4, num_key_value_heads=2, head_dim=10, max_position_embeddings=96,
                           sliding_window=7, bos_token_id=0, eos_token_id=1, pad_token_id=None,
                           query_pre_attn_scalar=17, attn_logit_softcapping=9.0, final_logit_softcapping=11.0),
}


def run(program, *arguments):
    done = subprocess.run([program, *arguments], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(arguments)}: {done.stderr}")
    return done.stdout


def make_model(folder, config, seed):
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(config)
    for parameter in model.parameters():
        parameter.data += 0.15 * torch.randn_like(parameter)
    model.eval().save_pretrained(folder)


def write_config(path, model, ids, out, lens, more=""):
    with open(path, "w") as file:
        file.write(f"model.from = '{model}'\ndata.ids = '{ids}'\nout.folder = '{out}'\n{more}\n[lens]\n{lens}\n")
    return path


def logits_of(program, model, option, lens, ids):
    """By state: the logits of the last token."""
    found = json.loads(run(program, "lens", model, option, lens, "--ids", ",".join(map(str, ids)), "--json", "--top",
                           "61", "--compute", "f32"))
    logits = {}
    for state, row in zip(found["states"], found["lens"]):
        values = torch.zeros(61)
        for token in row[-1]["top"]:
            values[token["id"]] = token["logit"]
        logits[state] = values
    return logits


def difference(found, expected):
    expected = expected.double()
    return float((found.double() - expected).abs().max() / max(1.0, float(expected.abs().max())))


def check_jacobian(program, folder, model, ids_file, lists):
    config = write_config(f"{folder}/jacobian.toml", model, ids_file, f"{folder}/jacobian", "kind = 'jacobian'")
    run(program, "train", config)
    hf = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32, attn_implementation="eager")
    bridge = TransformerBridge.boot_transformers(model, device="cpu", hf_model=hf).eval()
    layers = list(range(bridge.cfg.n_layers - 1))
    sums = {layer: 0 for layer in layers}
    used = [ids for ids in lists if len(ids) > 17]
    with jacobian_lens._frozen_parameters(bridge):
        for ids in used:
            own = jacobian_lens._jacobian_for_prompt(
                bridge, torch.tensor([ids]), source_layers=layers, dim_batch=8, skip_first_positions=16,
                backward_provider=jacobian_lens._ordinary_vjp)
            for layer in layers:
                sums[layer] = sums[layer] + own[layer]
    means = {layer: sums[layer] / len(used) for layer in layers}
    found = load_file(f"{folder}/jacobian/last/lens.safetensors")
    assert sorted(found) == [f"layers.{layer}" for layer in layers], sorted(found)
    worst = max(difference(found[f"layers.{layer}"], means[layer]) for layer in layers)
    lens = jacobian_lens.JacobianLens(means, n_prompts=len(used), d_model=bridge.cfg.d_model)
    readout = lens.readout(bridge, torch.tensor([lists[0]]), return_full_logits=True)
    logits = logits_of(program, model, "--jacobian", f"{folder}/jacobian/last", lists[0])
    assert sorted(logits) == [f"blocks.{layer}.hook_resid_post" for layer in range(bridge.cfg.n_layers)]
    read = max(difference(logits[f"blocks.{layer}.hook_resid_post"], readout.lens_logits[layer][-1])
               for layer in range(bridge.cfg.n_layers))
    return {"jacobian": worst, "lens --jacobian": read}


def last_step(model, states):
    base = model.transformer if hasattr(model, "transformer") else model.model
    logits = model.lm_head((base.ln_f if hasattr(base, "ln_f") else base.norm)(states))
    cap = getattr(model.config, "final_logit_softcapping", None)
    return logits if cap is None else cap * torch.tanh(logits / cap)


def streams(model, ids):
    """The stream before each block, and the logits."""
    base = model.transformer if hasattr(model, "transformer") else model.model
    inputs = []
    hooks = [layer.register_forward_pre_hook(lambda _, args, kwargs: inputs.append(
        args[0] if args else kwargs["hidden_states"]), with_kwargs=True)
        for layer in (base.h if hasattr(base, "h") else base.layers)]
    with torch.no_grad():
        logits = model(torch.tensor([ids])).logits[0]
    for hook in hooks:
        hook.remove()
    return [value[0].detach() for value in inputs], logits


def check_tuned(program, folder, model, ids_file, lists):
    hf = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float64, attn_implementation="eager").eval()
    texts = [streams(hf, ids) for ids in lists]
    n_layers, d = len(texts[0][0]), texts[0][0][0].shape[-1]
    torch.manual_seed(5)
    start = {}
    for layer in range(n_layers):
        start[f"layers.{layer}"] = 0.05 * torch.randn(d, d)
        start[f"layers.{layer}.bias"] = 0.05 * torch.randn(d)
    save_file(start, f"{folder}/start.safetensors")
    config = write_config(
        f"{folder}/tuned.toml", model, ids_file, f"{folder}/tuned",
        f"kind = 'tuned'\nstart = '{folder}/start.safetensors'",
        f"train.steps = {STEPS}\ntrain.batch = {BATCH}\ndata.order = 'file'\nschedule.name = 'constant'\n"
        "schedule.lr = 3e-3\noptimizer.weight_decay = 0.01")
    run(program, "train", config)

    maps = {name: torch.nn.Parameter(value.double()) for name, value in start.items()}
    optimizer = torch.optim.AdamW([
        {"params": [value for value in maps.values() if value.ndim == 2], "weight_decay": 0.01},
        {"params": [value for value in maps.values() if value.ndim == 1], "weight_decay": 0.0}], lr=3e-3)

    def translated(states, layer):
        return states + states @ maps[f"layers.{layer}"].T + maps[f"layers.{layer}.bias"]

    losses = []
    for step in range(STEPS):
        batch = [texts[(step * BATCH + i) % len(texts)] for i in range(BATCH)]
        n_rows = sum(len(logits) for _, logits in batch)
        loss = 0
        for inputs, logits in batch:
            target = logits.log_softmax(-1)
            for layer, states in enumerate(inputs):
                lens = last_step(hf, translated(states, layer)).log_softmax(-1)
                loss = loss + (target.exp() * (target - lens)).sum() / n_rows
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(maps.values(), 1.0)
        optimizer.step()
    with open(f"{folder}/tuned/metrics.jsonl") as file:
        found_losses = torch.tensor([json.loads(line)["loss"] for line in file], dtype=torch.float64)
    expected = torch.tensor(losses, dtype=torch.float64)
    found = load_file(f"{folder}/tuned/last/lens.safetensors")
    assert sorted(found) == sorted(maps)
    logits = logits_of(program, model, "--tuned", f"{folder}/tuned/last/lens.safetensors", lists[0])
    with torch.no_grad():
        read = max(difference(logits[f"blocks.{max(layer - 1, 0)}.hook_resid_{'post' if layer else 'pre'}"],
                              last_step(hf, translated(states, layer))[-1])
                   for layer, states in enumerate(texts[0][0]))
    return {"tuned losses": float(((found_losses - expected).abs() / expected).max()),
            "tuned maps": max(difference(found[name], maps[name].detach()) for name in maps), "lens --tuned": read}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--keep", metavar="FOLDER")
    arguments = parser.parse_args()
    program = os.path.abspath(arguments.program)
    torch.set_num_threads(1)
    worst = 0
    with contextlib.ExitStack() as stack:
        root = arguments.keep or stack.enter_context(tempfile.TemporaryDirectory())
        for seed, (name, config) in enumerate(CONFIGS.items()):
            folder = os.path.abspath(f"{root}/{name}")
            model = f"{folder}/model"
            os.makedirs(model, exist_ok=True)
            make_model(model, config, seed)
            generator = torch.Generator().manual_seed(seed + 7)
            lists = [torch.randint(0, 61, (n,), generator=generator).tolist() for n in (33, 18, 11, 26, 47)]
            ids_file = f"{folder}/ids.jsonl"
            with open(ids_file, "w") as file:
                file.writelines(json.dumps(ids) + "\n" for ids in lists)
            found = check_jacobian(program, folder, model, ids_file, lists)
            found |= check_tuned(program, folder, model, ids_file, lists)
            for what, value in found.items():
                print(f"{name:8} {what:16} {value:.2e}")
                worst = max(worst, value)
    sys.exit(0 if worst <= LIMIT else 1)


if __name__ == "__main__":
    main()
