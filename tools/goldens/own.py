"""Makes tests/goldens/own and the own_… cases of tests/goldens/pairs: small models of model_type "vitrine".

With every value of a forward and every gradient, from own_reference.py.

    python tools/goldens own
"""

from __future__ import annotations

import json
from pathlib import Path

import torch
from goldens.files import GOLDENS
from goldens.own_reference import Config, OwnModel, encoder_of
from safetensors.torch import save_file
from torch.nn import functional

SMALL: Config = {"model_type": "vitrine", "d_model": 7, "vocab_size": 40, "max_seq_len": 24, "n_layers": 2}
CELLS = SMALL | {"d_hidden": 9}
PAIR = CELLS | {"decoder_start_token_id": 1, "pad_token_id": 0, "eos_token_id": 2}
ATTENTION: Config = {
    "d_model": 12, "n_heads": 3, "d_ff": 14, "gated": False, "activation": "relu", "positions": "sinusoidal",
    "norm": "layer", "norm_bias": True, "qkv_bias": True, "out_bias": True, "ffn_bias": True,
}  # fmt: skip

STACKS: dict[str, Config] = {
    "rnn": CELLS | {"layers": "rnn"},
    "rnn_relu": CELLS | {"layers": "rnn", "activation": "relu", "n_layers": 1, "embedding_scale": 1.5},
    "gru": CELLS | {"layers": "gru", "final_norm": True, "head_bias": True},
    "lstm": CELLS | {"layers": "lstm", "positions": "learned", "n_layers": 3},
    "lstm_tied": CELLS | {"layers": "lstm", "d_hidden": 7, "tied": True},
    "dense": CELLS | {"layers": "dense", "context": 4, "activation": "tanh", "pad_token_id": 3},
    "gru_both": CELLS | {"layers": "gru", "bidirectional": True, "embedding_norm": True},
    "lstm_both": CELLS | {"layers": "lstm", "bidirectional": True, "n_types": 2},
}  # fmt: skip
PAIRS: dict[str, Config] = {
    "own_rnn": PAIR | {"layers": "rnn", "encoder": {}},
    "own_lstm": PAIR | {
        "layers": "lstm", "bridge": "linear", "shared_embedding": False,
        "encoder": {"bidirectional": True, "d_hidden": 5, "d_model": 8, "vocab_size": 43},
    },
    "own_additive": PAIR | {
        "layers": "gru", "attention": "additive", "d_attention": 6, "bridge": "linear",
        "encoder": {"bidirectional": True},
    },
    "own_additive_lstm": PAIR | {"layers": "lstm", "attention": "additive", "encoder": {"d_hidden": 9}},
    "own_attention_to_gru": PAIR | {
        "layers": "gru", "attention": "additive", "shared_embedding": False,
        "encoder": {"layers": "attention"} | ATTENTION,
    },
    "own_lstm_to_attention": PAIR | ATTENTION | {
        "tied": True, "encoder": {"layers": "lstm", "positions": "none", "bidirectional": True},
    },
}  # fmt: skip


def floats(values: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: value.detach().float().contiguous() for name, value in values.items()}


def make(folder: Path, c: Config) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    model = OwnModel(c, seed=sum(map(ord, folder.name)))
    encoder = encoder_of(c)
    n_ids = (encoder or c)["vocab_size"] - 3
    ids = torch.tensor([3 + (7 * i * i + 3 * i) % n_ids for i in range(17)])
    target = torch.tensor([1] + [3 + (5 * i * i + i) % 37 for i in range(1, 12)]) if encoder else None
    logits = model.forward(ids, target)
    read = ids if target is None else target
    losses = functional.cross_entropy(logits[:-1], read[1:], reduction="none")
    loss = losses.mean()
    loss.backward()
    sites = model.sites if c.get("bidirectional") and not encoder else model.sites | {"hook_loss": losses}
    (folder / "config.json").write_text(json.dumps(c, indent=2) + "\n")
    save_file(floats(model.params), folder / "model.safetensors")
    save_file(floats(sites), folder / "golden.safetensors")
    gradients = {name: p.grad for name, p in model.params.items() if p.grad is not None}
    save_file(floats(gradients | {"loss": loss[None]}), folder / "gradients.safetensors")
    print(json.dumps({"case": folder.name, "parameters": sum(p.numel() for p in model.params.values())}))


def main() -> None:
    for name, c in STACKS.items():
        make(GOLDENS / "own" / name, c)
    for name, c in PAIRS.items():
        make(GOLDENS / "pairs" / name, c)
