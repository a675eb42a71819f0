"""The names of sites: which of them TransformerLens has, and where they are."""

from __future__ import annotations

import re

import numpy as np

from .. import _engine
from .._errors import BadInput
from .._sites import Array

# Those that exist only if a name asks for them.
_ON_DEMAND = ["hook_attn_in", "hook_q_input", "hook_k_input", "hook_v_input", "hook_result", "hook_mlp_in"]
# vitrine's own.
_OTHERS = {"hook_tokens", "hook_scores_raw", "hook_router_logits", "hook_logits", "hook_loss", "hook_token_type_embed"}


def names_of(engine: _engine.Model) -> list[str]:
    """The names of all sites, in the order of a forward, from a pass over one token."""
    shapes: dict[str, tuple[int, ...]] = {}

    def tap(name: str, array: Array) -> None:
        shapes[name] = array.shape

    ids = np.zeros((1, 1), np.int32)
    try:
        engine.run(ids, tap, ["*", *(f"*{name}" for name in _ON_DEMAND)], True, None, None, [], None, None, None)
    except BadInput:  # some of those on demand do not exist
        shapes.clear()
        engine.run(ids, tap, [], True, None, None, [], None, None, None)
    names: dict[str, None] = {}
    for name in shapes:
        for own in _of_all_experts(name, shapes):
            names[own] = None
    return list(names)


def _of_all_experts(name: str, shapes: dict[str, tuple[int, ...]]) -> list[str]:
    """The pass has the values of the chosen experts only."""
    found = re.fullmatch(r"(.*\.mlp\.)experts\.\d+\.(\w+)", name)
    if not found:
        return [name]
    n_experts = shapes[f"{found[1]}hook_expert_weights"][-1]
    return [f"{found[1]}experts.{expert}.{found[2]}" for expert in range(n_experts)]


def is_of_transformer_lens(name: str) -> bool:
    last = name.rsplit(".", 1)[-1]
    is_own_out = last == "hook_out" and name != "unembed.hook_out"
    return not (last in _OTHERS or last.startswith("hook_lora") or is_own_out)


def layer_of(name: str, n_layers: int) -> int:
    """−1 for the embedding, n_layers for what follows the last layer."""
    if name.startswith("blocks."):
        return int(name.split(".")[1])
    return -1 if "embed" in name.split(".")[0] and not name.startswith("unembed") or name == "hook_tokens" else n_layers


def stream_before(layer: int) -> str:
    """The site whose value a pass that stops before a layer returns."""
    return f"blocks.{layer - 1}.hook_resid_post" if layer > 0 else "blocks.0.hook_resid_pre"
