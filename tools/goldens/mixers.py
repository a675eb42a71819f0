"""The sites of layers with a state: short convolutions, gated delta nets (with a decay by head or by channel), Mamba 1 and 2.

`observe_scans` records what transformers passes to its convolution and to its scan. The state after each token, which no
function returns, comes from the recurrence itself, one token after another, and must lead to the scan's own result.
"""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import torch
from goldens.values import Sites, assert_close
from torch import Tensor, nn
from transformers.activations import ACT2FN

SCANS = (
    "mamba_selective_scan",
    "mamba2_chunk_scan",
    "torch_chunk_gated_delta_rule",
    "chunk_kimi_delta_attention",
)


@dataclass
class Call:
    """One call of a scan or of a convolution."""

    args: tuple[Tensor, ...]
    options: dict[str, Any]
    result: Any


@dataclass
class Scans:
    """The calls of one forward, in its order."""

    convolutions: list[Call] = field(default_factory=list)
    scans: list[Call] = field(default_factory=list)


def observe_scans(family: Any, calls: Scans, observed: ExitStack) -> None:
    """Records the calls in `family`, the module with the model's functions."""

    def observer(function: Callable, to: list[Call]) -> Callable:
        def observe(*args, **options):
            result = function(*args, **options)
            to.append(Call(args, options, result))
            return result

        return observe

    for name, to in [("causal_conv1d_fn", calls.convolutions), *((name, calls.scans) for name in SCANS)]:
        if hasattr(family, name):
            observed.enter_context(patch.object(family, name, observer(getattr(family, name), to)))


def mixer_of(block: nn.Module) -> tuple[str, str] | None:
    """The name of the block's module with a state, and that of its sites; None if it has none."""
    for name in ("mixer", "mamba", "linear_attn", "conv", "self_attn"):
        module = getattr(block, name, None)
        if hasattr(module, "D"):
            return name, "mixer"
        if hasattr(module, "conv1d"):
            return name, "linear_attn"
        if isinstance(getattr(module, "conv", None), nn.Conv1d):
            return name, "conv"
    return None


def mixer_sites(module: nn.Module, slot: str, outputs: dict, name: str, calls: Scans) -> Sites:
    """The sites of one mixer, the module `name`, without the prefix of its block. Takes its calls from `calls`."""
    convolution = calls.convolutions.pop(0)
    if slot == "conv":
        sites = {"in.hook_out": outputs[f"{name}.in_proj"]} | convolution_sites(convolution, "conv")
    elif slot == "linear_attn":
        sites = delta_sites(module, outputs, name, convolution, calls.scans.pop(0))
    elif module.A_log.ndim == 2:
        sites = mamba_sites(module, outputs, name, convolution, calls.scans.pop(0))
    else:
        sites = mamba2_sites(module, outputs, name, convolution, calls.scans.pop(0))
    return {f"{slot}.{site}": value for site, value in sites.items()} | {f"{slot}.hook_out": outputs[name]}


def convolution_sites(call: Call, site: str) -> Sites:
    """What the convolution reads and what it makes of that before the activation, [T, C]."""
    x = call.args[0][0].T
    options = dict(zip(("weight", "bias", "activation"), call.args[1:])) | call.options
    weight, bias = options["weight"], options.get("bias")
    width = weight.shape[-1]
    before = torch.cat((x.new_zeros(width - 1, x.shape[1]), x))
    out = sum((before[j : j + len(x)] * weight[:, j] for j in range(width)), x.new_zeros(()))
    out = out if bias is None else out + bias
    activation = options.get("activation")
    assert_close(ACT2FN[activation](out) if activation else out, call.result[0].T, "convolution")
    return {f"{site}.hook_in": x, f"{site}.hook_out": out}


def mamba_sites(module: nn.Module, outputs: dict, name: str, convolution: Call, call: Call) -> Sites:
    """Mamba 1: each channel has a decay and a state [N] of its own."""
    x, dt, A, B, C = call.args
    dt = dt[0].T + call.options["delta_bias"]
    x, B, C = x[0].T, B[0].T, C[0].T
    sites = {"in_proj.hook_out": outputs[f"{name}.in_proj"]} | convolution_sites(convolution, "conv1d")
    sites |= {"x_proj.hook_out": outputs[f"{name}.x_proj"], "dt_proj.hook_out": dt}
    dt = nn.functional.softplus(dt)
    states, state = [], x.new_zeros(A.shape)
    for t in range(len(x)):
        state = torch.exp(dt[t, :, None] * A) * state + (dt[t] * x[t])[:, None] * B[t]
        states.append(state)
    all_states = torch.stack(states)
    y = (all_states * C[:, None]).sum(-1) + call.options["D"] * x
    assert_close(y * nn.functional.silu(call.options["z"][0].T), call.result[0].T, f"{name}: scan")
    sites |= {"hook_ssm_dt": dt, "hook_ssm_B": B[:, None], "hook_ssm_C": C[:, None]}
    return sites | {"hook_ssm_state": all_states}


def mamba2_sites(module: nn.Module, outputs: dict, name: str, convolution: Call, call: Call) -> Sites:
    """Mamba 2: a head has one decay and a state [P, N]; consecutive heads share B and C."""
    x, dt, A, B, C = (arg[0] if arg.ndim > 1 else arg for arg in call.args)
    sites = {"in_proj.hook_out": outputs[f"{name}.in_proj"]} | convolution_sites(convolution, "conv1d")
    dt = nn.functional.softplus(dt + call.options["dt_bias"]).clamp(*call.options["dt_limit"])
    heads = x.shape[1] // B.shape[1]
    b, c = (each.repeat_interleave(heads, dim=1) for each in (B, C))
    states, state = [], x.new_zeros(*x.shape[1:], B.shape[-1])
    for t in range(len(x)):
        write = (dt[t, :, None] * x[t])[:, :, None] * b[t, :, None]
        state = torch.exp(dt[t] * A)[:, None, None] * state + write
        states.append(state)
    all_states = torch.stack(states)
    y = (all_states * c[:, :, None]).sum(-1) + call.options["D"][:, None] * x
    assert_close(y, call.result[0], f"{name}: scan")
    sites |= {"hook_ssm_dt": dt, "hook_ssm_B": B, "hook_ssm_C": C, "hook_ssm_state": all_states}
    if f"{name}.norm" not in outputs:
        return sites
    multiplier = module.mup_vector[0, 0, 0] if hasattr(module, "mup_vector") else 1.0
    gate = outputs[f"{name}.in_proj"][:, : y[0].numel()] * multiplier
    sites |= {"inner_norm.hook_in": y.flatten(1), "inner_norm.hook_gate": gate}
    return sites | {"inner_norm.hook_out": outputs[f"{name}.norm"]}


def delta_sites(module: nn.Module, outputs: dict, name: str, convolution: Call, call: Call) -> Sites:
    """Gated delta nets: a state [dk, dv] for each head of values; the decay is one number or, by channel, dk numbers."""
    q, k, v = (arg[0] for arg in call.args)
    decay, beta = call.options["g"][0], call.options["beta"][0]
    tokens, heads, dv = v.shape
    if hasattr(module, "in_proj_qkvz"):  # interleaved by heads of keys
        both = (outputs[f"{name}.{part}"][None] for part in ("in_proj_qkvz", "in_proj_ba"))
        _, _, _, gate, logit, _ = (part[0] for part in module.fix_query_key_value_ordering(*both))
    else:
        gate_name, logit_name = (
            next(f"{name}.{part}" for part in parts if f"{name}.{part}" in outputs)
            for parts in (("in_proj_z", "g_proj", "g_b_proj"), ("in_proj_b", "b_proj"))
        )
        gate, logit = outputs[gate_name], outputs[logit_name]
    sites = convolution_sites(convolution, "conv1d")
    before = sites["conv1d.hook_in"].split([x[0].numel() for x in (q, k, v)], dim=1)
    for letter, x, own in zip("qkv", (q, k, v), before, strict=True):
        sites[f"hook_{letter}_pre_conv"] = own.reshape(x.shape)
        sites[f"hook_{letter}"] = x
    factor = 2.0 if getattr(module, "allow_neg_eigval", False) else 1.0
    assert_close(logit.sigmoid() * factor, beta, f"{name}: beta")
    q, k = (x / (x.square().sum(-1, keepdim=True) + 1e-6).sqrt() for x in (q, k))
    q, k = (x.repeat_interleave(heads // x.shape[1], dim=1) for x in (q / q.shape[-1] ** 0.5, k))
    keep = decay.exp().reshape(tokens, heads, -1, 1)
    states, outs, state = [], [], v.new_zeros(heads, k.shape[-1], dv)
    for t in range(tokens):
        state = keep[t] * state
        delta = beta[t, :, None] * (v[t] - torch.einsum("hkv,hk->hv", state, k[t]))
        state = state + k[t, :, :, None] * delta[:, None]
        states.append(state)
        outs.append(torch.einsum("hkv,hk->hv", state, q[t]))
    out = call.result[0][0]
    assert_close(torch.stack(outs), out, f"{name}: recurrence")
    return sites | {
        "hook_beta_logit": logit,
        "hook_beta": beta,
        "hook_log_decay": decay,
        "hook_ssm_state": torch.stack(states),
        "hook_recurrence_out": out,
        "hook_gate_input": gate.reshape(out.shape),
    }
