"""The configuration of a model, under TransformerLens's names."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from typing import Any

import torch

from .._model import Model


@dataclass
class HookedTransformerConfig:
    """What notebooks read, and the flags that they set. The model itself is configured by its checkpoint."""

    n_layers: int
    d_model: int
    n_ctx: int
    d_head: int
    n_heads: int
    d_mlp: int
    d_vocab: int
    d_vocab_out: int
    act_fn: str
    eps: float
    normalization_type: str | None
    positional_embedding_type: str
    attn_scale: float
    n_params: int
    model_name: str = "custom"
    original_architecture: str | None = None
    tokenizer_name: str | None = None
    n_key_value_heads: int | None = None
    gated_mlp: bool = False
    attn_only: bool = False
    parallel_attn_mlp: bool = False
    rotary_dim: int | None = None
    rotary_base: float = 10000
    window_size: int | None = None
    use_local_attn: bool = False
    attn_types: list[str] | None = None
    attention_dir: str = "causal"
    num_experts: int | None = None
    experts_per_token: int | None = None
    use_normalization_before_and_after: bool = False
    attn_scores_soft_cap: float = -1.0
    output_logits_soft_cap: float = -1.0
    use_attn_scale: bool = True
    final_rms: bool = False
    device: str = "cpu"
    n_devices: int = 1
    dtype: torch.dtype = torch.float32
    seed: int | None = None
    default_prepend_bos: bool = True
    tokenizer_prepends_bos: bool | None = None
    use_attn_result: bool = False
    use_split_qkv_input: bool = False
    use_hook_mlp_in: bool = False
    use_attn_in: bool = False
    use_hook_tokens: bool = False
    ungroup_grouped_query_attention: bool = False

    def to_dict(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}


def config_of(model: Model, name: str) -> HookedTransformerConfig:
    info, file = model.info(), model.config
    stack, layers = info["config"], info["layers"]
    first = layers[0]
    types = {layer: _attention_type(kind) for kind in layers for layer in kind["layers"]}
    norm = "".join(str(first[f"norm_{where}_attention"]) for where in ("before", "of_sum_after", "after"))
    heads, kv_heads, d_head, d_model = first["n_heads"], first["n_kv_heads"], first["head_dim"], stack["d_model"]
    n_layers, n_experts, expert = stack["n_layers"], first.get("n_experts"), str(first.get("expert"))
    d_mlp = int(re.findall(r"d_ff (\d+)", expert)[0]) if n_experts else first["d_ff"]
    is_gated = "gated" in expert if n_experts else first["gated"]
    n_mlp = d_model * d_mlp * (3 if is_gated else 2)
    if n_experts:
        n_mlp = (n_mlp + d_model) * n_experts
    rope = re.match(r"theta ([0-9.e+]+), dim (\d+)", str(first["rope"]))
    is_local = len(set(types.values())) > 1 or first["window"] != "none"
    has_layer_norm = "layer" in norm
    return HookedTransformerConfig(
        n_layers=n_layers, d_model=d_model, n_ctx=stack["max_seq_len"], d_head=d_head, n_heads=heads, d_mlp=d_mlp,
        d_vocab=stack["vocab_size"], d_vocab_out=stack["vocab_size"], act_fn=_activation(file, expert if n_experts else first["activation"]),
        eps=_eps(norm), normalization_type="LN" if has_layer_norm else "RMS" if "rms" in norm else None,
        positional_embedding_type="rotary" if rope else "standard", attn_scale=1 / first["score_scale"],
        n_params=n_layers * (4 * d_model * d_head * heads + n_mlp), model_name=name,
        original_architecture=(file.get("architectures") or [None])[0], tokenizer_name=name,
        n_key_value_heads=None if kv_heads == heads else kv_heads, gated_mlp=is_gated,
        parallel_attn_mlp=str(first["residual"]).startswith("parallel"), rotary_dim=int(rope[2]) if rope else None,
        rotary_base=float(rope[1]) if rope else 10000, window_size=_number(first["window"], None), use_local_attn=is_local,
        attn_types=[types[i] for i in range(n_layers)] if is_local else None,
        num_experts=n_experts, experts_per_token=first.get("top_k"),
        use_normalization_before_and_after=first["norm_after_attention"] != "none",
        attn_scores_soft_cap=_number(first["score_softcap"], -1.0), output_logits_soft_cap=_number(stack["logit_softcap"], -1.0),
        final_rms="rms" in str(stack["final_norm"]) and not has_layer_norm,
    )


def _attention_type(kind: dict[str, Any]) -> str:
    return "global" if kind["window"] == "none" else "local"


def _number(value: Any, without: Any) -> Any:
    return without if value == "none" else value


def _eps(norm: str) -> float:
    found = re.search(r"eps ([0-9.e+-]+)", norm)
    return float(found[1].rstrip(",")) if found else 1e-5


def _activation(file: dict[str, Any], ffn: str) -> str:
    for key in ("hidden_act", "activation_function", "hidden_activation"):
        if isinstance(file.get(key), str):
            return str(file[key])
    return "silu" if "silu" in ffn else "gelu_new" if "tanh" in ffn else "gelu"
