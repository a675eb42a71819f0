"""What a notebook computes with TransformerLens: each function takes the library, a model and tokens `[3, T]`, and returns
a tensor. tools/goldens lens runs them with TransformerLens 3.9, test_lens.py with vitrine.lens."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

Result = Callable[[Any, Any, Tensor], Tensor]
RESULTS: dict[str, Result] = {}


def result(function: Result) -> Result:
    RESULTS[function.__name__] = function
    return function


def add(name: str, function: Result) -> None:
    RESULTS[name] = function


def metric(logits: Tensor) -> Tensor:
    """A difference of logits at the last position, by the batch."""
    return (logits[:, -1, 7] - logits[:, -1, 3]).mean()


def clean_and_corrupted(model: Any, tokens: Tensor) -> tuple[Tensor, Any, Tensor]:
    corrupted = tokens.clone()
    corrupted[:, 2] = (corrupted[:, 2] + 5) % model.cfg.d_vocab
    _, cache = model.run_with_cache(tokens)
    return tokens, cache, corrupted


# Runs


@result
def logits(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    return model(tokens)


@result
def logits_of_one_row(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    return model(tokens[0])


@result
def loss(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    return model(tokens, return_type="loss")


@result
def loss_per_token(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    return model(tokens, return_type="loss", loss_per_token=True)


@result
def both(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    out = model(tokens, return_type="both")
    return out.logits.sum(-1) + out.loss


@result
def stop_at_layer(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    return torch.stack([model(tokens, stop_at_layer=stop) for stop in (0, 1, -1)])


@result
def start_at_layer(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    stream = model(tokens, stop_at_layer=1)
    return model(2 * stream, start_at_layer=1)


@result
def greedy(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    options = {"do_sample": False, "stop_at_eos": False, "verbose": False}
    return model.generate(tokens, max_new_tokens=4, use_past_kv_cache=False, **options).float()


# The cache


@result
def number_of_values(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    return torch.tensor(float(len(model.run_with_cache(tokens)[1])))


def _sum_of_cache(tl: Any, model: Any, tokens: Tensor, suffix: str) -> Tensor:
    _, cache = model.run_with_cache(tokens, names_filter=lambda name: name.endswith(suffix))
    return torch.stack([value.float().masked_fill(value == -torch.inf, 0) for value in cache.values()])


for _suffix in ("hook_pattern", "hook_attn_scores", "hook_z", "hook_k", "ln2.hook_normalized", "hook_post", "hook_scale"):
    add(f"cache_{_suffix}", partial(_sum_of_cache, suffix=_suffix))


@result
def cache_of_one_position(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    _, cache = model.run_with_cache(tokens, pos_slice=-1, names_filter=["blocks.0.attn.hook_v", "blocks.1.hook_resid_post"])
    return torch.cat([value.flatten() for value in cache.values()])


@result
def cache_without_batch(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    _, cache = model.run_with_cache(tokens[:1], remove_batch_dim=True)
    return cache["pattern", -1]


@result
def short_keys(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    _, cache = model.run_with_cache(tokens)
    return cache["q0"].sum(-1) + cache["q", 0].sum(-1) + cache["scale", 0, "ln1"] + cache["scale"]


@result
def head_results_on_demand(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    model.set_use_attn_result(True)
    _, cache = model.run_with_cache(tokens, names_filter="blocks.1.attn.hook_result")
    model.set_use_attn_result(False)
    return cache["result", 1]


@result
def accumulated(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    _, cache = model.run_with_cache(tokens)
    return cache.accumulated_resid(incl_mid=True)


@result
def accumulated_normed(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    _, cache = model.run_with_cache(tokens)
    return cache.accumulated_resid(apply_ln=True, pos_slice=-1)


@result
def decomposed(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    _, cache = model.run_with_cache(tokens)
    return cache.decompose_resid(apply_ln=True)


@result
def decomposed_attention(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    _, cache = model.run_with_cache(tokens)
    return cache.decompose_resid(1, mode="attn", incl_embeds=False, mlp_input=True)


@result
def head_stack(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    _, cache = model.run_with_cache(tokens)
    return cache.stack_head_results(apply_ln=True, incl_remainder=True, pos_slice=-1)


@result
def neuron_stack(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    _, cache = model.run_with_cache(tokens)
    return cache.stack_neuron_results(-1, pos_slice=(2, 5), neuron_slice=(0, 12), incl_remainder=True)


@result
def stacked_patterns(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    _, cache = model.run_with_cache(tokens)
    return cache.stack_activation("pattern")


@result
def full_decomposition(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    _, cache = model.run_with_cache(tokens)
    return cache.get_full_resid_decomposition(expand_neurons=False, pos_slice=-1).sum(0)


@result
def one_of_the_batch(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    _, cache = model.run_with_cache(tokens)
    return cache.apply_slice_to_batch_dim(1)["z", 1]


# Lenses and attribution


@result
def logit_lens(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    _, cache = model.run_with_cache(tokens)
    return model.unembed(model.ln_final(cache.accumulated_resid()[1])).log_softmax(-1)


@result
def attribution_of_heads(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    _, cache = model.run_with_cache(tokens)
    return cache.logit_attrs(cache.stack_head_results(), tokens.roll(-1, 1))


@result
def attribution_of_a_difference(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    _, cache = model.run_with_cache(tokens)
    stack = cache.decompose_resid(pos_slice=-1)
    return cache.logit_attrs(stack, 7, incorrect_tokens=3, pos_slice=-1)


@result
def direct_paths(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    return model.W_E @ model.W_U


@result
def circuits(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    ov = model.W_E @ model.OV[1, model.cfg.n_heads - 1] @ model.W_U
    qk = model.QK[0].AB
    return torch.cat([ov.AB.flatten(), qk.flatten(), model.OV.norm().flatten(), model.QK.S.flatten()])


@result
def eigenvalues(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    values = model.OV.eigenvalues
    return values.sum(-1).real / values.abs().sum(-1)


@result
def composition(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    return torch.stack([model.all_composition_scores(mode) for mode in "QKV"])


@result
def weights(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    names = ["W_E", "W_U", "b_U", "W_Q", "W_K", "W_V", "W_O", "b_Q", "b_K", "b_V", "b_O", "W_in", "W_out", "b_in", "b_out"]
    parts = [getattr(model, name).flatten() for name in names]
    return torch.cat([*parts, model.blocks[1].ln2.w, model.ln_final.w, model.accumulated_bias(2)])


# Ablations


def _ablated_head(tl: Any, model: Any, tokens: Tensor, layer: int, head: int) -> Tensor:
    def silence(z: Tensor, hook: Any) -> Tensor:
        assert hook.layer() == layer
        z[:, :, head] = 0
        return z

    return model.run_with_hooks(tokens, fwd_hooks=[(tl.utilities.get_act_name("z", layer), silence)], return_type="loss")


for _layer in range(2):
    add(f"ablated_head_{_layer}", partial(_ablated_head, layer=_layer, head=1 - _layer))


@result
def mean_ablation(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    def mean(value: Tensor, hook: Any) -> Tensor:
        return value.mean(0, keepdim=True).expand_as(value)

    return model.run_with_hooks(tokens, fwd_hooks=[("blocks.0.hook_mlp_out", mean)])


@result
def in_place_without_return(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    def silence(value: Tensor, hook: Any) -> None:
        value[:, 1] = 0

    with torch.no_grad():
        return model.run_with_hooks(tokens, fwd_hooks=[("blocks.1.hook_attn_out", silence)])


@result
def knockout_of_attention(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    def cut(scores: Tensor, hook: Any) -> Tensor:
        scores[:, 0, 3:, 1] = -torch.inf
        return scores

    return model.run_with_hooks(tokens, fwd_hooks=[(lambda name: name.endswith("attn_scores"), cut)])


@result
def pattern_of_another_text(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    return model.run_with_hooks(tokens, fwd_hooks=[("blocks.0.attn.hook_pattern", lambda value, hook: value.flip(0))])


@result
def frozen_norm(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    _, cache, corrupted = clean_and_corrupted(model, tokens)
    hook = lambda value, hook: cache[hook.name]  # noqa: E731
    return model.run_with_hooks(corrupted, fwd_hooks=[(lambda name: name.endswith("hook_scale"), hook)])


@result
def steering(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    vector = torch.linspace(-1, 1, model.cfg.d_model)
    with model.hooks(fwd_hooks=[("blocks.1.hook_resid_pre", lambda value, hook: value + vector)]):
        return model(tokens)


@result
def context_of_hooks(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    def keep(value: Tensor, hook: Any) -> None:
        hook.ctx["mean"] = value.mean()

    def use(value: Tensor, hook: Any) -> Tensor:
        return value + hook.ctx["mean"]

    name = "blocks.0.hook_mlp_out"
    model.add_hook(name, keep)
    model.add_hook(name, use)
    out = model(tokens)
    model.reset_hooks()
    return out


@result
def permanent_hooks(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    model.add_perma_hook("hook_embed", lambda value, hook: value * 2)
    model.reset_hooks()
    out = model(tokens)
    model.reset_hooks(including_permanent=True)
    return out - model(tokens)


@result
def hooks_in_their_order(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    hooks = [("blocks.0.hook_resid_post", lambda v, hook: v + 1), ("blocks.0.hook_resid_post", lambda v, hook: v * v)]
    return model.run_with_hooks(tokens, fwd_hooks=hooks)


@result
def query_input_of_a_head(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    model.set_use_split_qkv_input(True)

    def silence(value: Tensor, hook: Any) -> Tensor:
        value[:, :, 1] = 0
        return value

    out = model.run_with_hooks(tokens, fwd_hooks=[("blocks.1.hook_q_input", silence)])
    model.set_use_split_qkv_input(False)
    return out


# Patching


def _patched(tl: Any, model: Any, tokens: Tensor, kind: str) -> Tensor:
    _, cache, corrupted = clean_and_corrupted(model, tokens)
    return getattr(tl.patching, f"get_act_patch_{kind}")(model, corrupted, cache, metric)


for _kind in (
    "resid_pre", "resid_mid", "attn_out", "mlp_out", "attn_head_out_by_pos", "attn_head_k_by_pos",
    "attn_head_pattern_by_pos", "attn_head_all_pos_every", "attn_head_pattern_all_pos", "block_every",
):
    add(f"patch_{_kind}", partial(_patched, kind=_kind))


@result
def path_patching(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    """The path from a head of layer 0 to the queries of layer 1."""
    _, cache, corrupted = clean_and_corrupted(model, tokens)

    def patch_head(z: Tensor, hook: Any) -> Tensor:
        z[:, :, 1] = cache[hook.name][:, :, 1]
        return z

    queries = "blocks.1.attn.hook_q"
    with model.hooks(fwd_hooks=[("blocks.0.attn.hook_z", patch_head)]):
        _, patched = model.run_with_cache(corrupted, names_filter=queries)
    return metric(model.run_with_hooks(corrupted, fwd_hooks=[(queries, lambda value, hook: patched[hook.name])]))


# Backward


def _gradients(model: Any, tokens: Tensor, function: Callable[[Tensor], Tensor], names: Any, hooks: Any = ()) -> Any:
    """The values and gradients at hook points, as notebooks collect them."""
    model.reset_hooks()
    values: dict[str, Tensor] = {}
    gradients: dict[str, Tensor] = {}

    def keep_value(value: Tensor, hook: Any) -> None:
        values[hook.name] = value.detach()

    def keep_gradient(value: Tensor, hook: Any) -> None:
        gradients[hook.name] = value.detach()

    for name, hook in hooks:
        model.add_hook(name, hook, "fwd")
    model.add_hook(names, keep_value, "fwd")
    model.add_hook(names, keep_gradient, "bwd")
    function(model(tokens)).backward()
    model.reset_hooks()
    return values, gradients


def _all_gradients(tl: Any, model: Any, tokens: Tensor, suffix: str) -> Tensor:
    _, gradients = _gradients(model, tokens, metric, lambda name: name.endswith(suffix))
    return torch.cat([gradients[name].flatten() for name in sorted(gradients)])


for _suffix in ("resid_post", "hook_z", "hook_pattern", "hook_attn_scores", "hook_q", "hook_k", "ln2.hook_scale", "hook_post", "embed"):
    add(f"gradient_{_suffix}", partial(_all_gradients, suffix=_suffix))


@result
def attribution_patching(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    _, clean, corrupted = clean_and_corrupted(model, tokens)
    values, gradients = _gradients(model, corrupted, metric, lambda name: name.endswith("hook_z"))
    parts = [(gradients[name] * (clean[name] - values[name])).sum((0, 3)) for name in sorted(values)]
    return torch.stack(parts)


@result
def gradients_of_the_loss(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    _, cache = model.run_with_cache(tokens, return_type="loss", incl_bwd=True)
    return torch.cat([cache["blocks.0.hook_mlp_out_grad"].flatten(), cache["ln_final.hook_normalized_grad"].flatten()])


@result
def gradients_through_hooks(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    """A hook that scales, one that adds a function of the value, and one that replaces a part."""
    fixed = torch.linspace(-1, 1, model.cfg.d_model)

    def replace(value: Tensor, hook: Any) -> Tensor:
        value = value.clone()
        value[:, 1] = fixed
        return value

    hooks = [
        ("blocks.0.hook_attn_out", lambda value, hook: value * 3),
        ("blocks.0.hook_mlp_out", lambda value, hook: value + torch.tanh(value)),
        ("blocks.1.hook_attn_out", replace),
    ]
    _, gradients = _gradients(model, tokens, metric, lambda name: name.endswith("resid_pre"), hooks)
    return torch.cat([gradients[name].flatten() for name in sorted(gradients)])


@result
def changed_gradient(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    """A backward hook that silences a head's gradient."""
    found = {}

    def silence(gradient: Tensor, hook: Any) -> Any:
        gradient = gradient.clone()
        gradient[:, :, 1] = 0
        return (gradient,)

    def keep(gradient: Tensor, hook: Any) -> None:
        found[hook.name] = gradient.detach()

    with model.hooks(bwd_hooks=[("blocks.1.attn.hook_z", silence), ("hook_embed", keep)]):
        metric(model(tokens)).backward()
    return found["hook_embed"]


@result
def steering_vector_learns(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    vector = torch.zeros(model.cfg.d_model, requires_grad=True)
    for _ in range(2):
        logits = model.run_with_hooks(tokens, fwd_hooks=[("blocks.1.hook_resid_pre", lambda value, hook: value + vector)])
        metric(logits).backward()
        with torch.no_grad():
            vector += 0.1 * vector.grad
    return torch.cat([vector.detach(), vector.grad])


@result
def mask_of_heads_learns(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    mask = torch.ones(model.cfg.n_layers, model.cfg.n_heads, requires_grad=True)

    def gate(z: Tensor, hook: Any) -> Tensor:
        return z * mask[hook.layer()][:, None]

    logits = model.run_with_hooks(tokens, fwd_hooks=[(lambda name: name.endswith("hook_z"), gate)])
    logits.log_softmax(-1)[:, :-1].gather(-1, tokens[:, 1:, None]).mean().backward()
    return mask.grad


@result
def gradient_of_an_early_stream(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    found = {}
    model.add_hook("hook_embed", lambda gradient, hook: found.update({hook.name: gradient.detach()}), "bwd")
    model(tokens, stop_at_layer=1).pow(2).sum().backward()
    model.reset_hooks()
    return found["hook_embed"]


@result
def gradient_between_hooks(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    """A hook that uses the value of another one."""
    kept = {}
    hooks = [
        ("blocks.0.hook_mlp_out", lambda value, hook: kept.update({"value": value})),
        ("blocks.1.hook_attn_out", lambda value, hook: value + kept["value"] ** 2),
    ]
    _, gradients = _gradients(model, tokens, metric, lambda name: name.endswith("resid_pre"), hooks)
    return torch.cat([gradients[name].flatten() for name in sorted(gradients)])


def _loss_of_a_kept_value(tl: Any, model: Any, tokens: Tensor, factor: float) -> Tensor:
    """A loss of a neuron's activation, which a hook has kept, and of the logits."""
    kept, found = {}, {}
    model.add_hook("blocks.1.mlp.hook_pre", lambda value, hook: kept.update({"value": value}))
    for name in ("blocks.0.hook_resid_post", "blocks.1.attn.hook_z"):
        model.add_hook(name, lambda gradient, hook: found.update({hook.name: gradient.detach()}), "bwd")
    logits = model(tokens)
    (kept["value"][:, -1, 3].pow(2).sum() + factor * metric(logits)).backward()
    model.reset_hooks()
    return torch.cat([found[name].flatten() for name in sorted(found)])


add("loss_of_a_kept_value", partial(_loss_of_a_kept_value, factor=0.0))
add("loss_of_a_kept_value_and_the_logits", partial(_loss_of_a_kept_value, factor=1.0))


@result
def gradient_changed_in_place(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    found = {}

    def silence(gradient: Tensor, hook: Any) -> None:
        gradient[:, :, 1] = 0

    model.add_hook("hook_embed", lambda gradient, hook: found.update({hook.name: gradient.detach()}), "bwd")
    with model.hooks(bwd_hooks=[("blocks.1.attn.hook_z", silence)]):
        metric(model(tokens)).backward()
    model.reset_hooks()
    return found["hook_embed"]


@result
def backward_hooks_of_a_run(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    """They are called although the run has removed them."""
    found = {}
    keep = lambda gradient, hook: found.update({hook.name: gradient.detach()})  # noqa: E731
    logits = model.run_with_hooks(tokens, bwd_hooks=[("blocks.0.hook_resid_post", keep)])
    metric(logits).backward()
    return found["blocks.0.hook_resid_post"]


@result
def two_metrics_of_one_run(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    vector = torch.zeros(model.cfg.d_model, requires_grad=True)
    logits = model.run_with_hooks(tokens, fwd_hooks=[("blocks.1.hook_resid_pre", lambda value, hook: value * (1 + vector))])
    metric(logits).backward(retain_graph=True)
    first = vector.grad.clone()
    logits.logsumexp(-1).sum().backward()
    return torch.cat([first, vector.grad])


@result
def gradients_on_demand(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    model.set_use_attn_result(True)
    model.set_use_split_qkv_input(True)
    model.set_use_hook_mlp_in(True)
    names = ("hook_result", "hook_q_input", "hook_k_input", "hook_v_input", "hook_mlp_in")
    _, gradients = _gradients(model, tokens, metric, lambda name: name.endswith(names))
    model.set_use_attn_result(False)
    model.set_use_split_qkv_input(False)
    model.set_use_hook_mlp_in(False)
    return torch.cat([gradients[name].flatten() for name in sorted(gradients)])


@result
def cache_of_early_layers(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    with model.hooks(fwd_hooks=[("blocks.0.hook_resid_post", lambda value, hook: value * 2)]):
        stream, cache = model.run_with_cache(tokens, stop_at_layer=1)
    return torch.cat([stream.flatten(), cache["resid_post", 0].flatten(), torch.tensor([float(len(cache))])])


@result
def input_of_the_unembedding(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    hook = lambda value, hook: value.roll(1, 1)  # noqa: E731
    return model.run_with_hooks(tokens, fwd_hooks=[("unembed.hook_in", hook), ("unembed.hook_out", lambda v, hook: v / 2)])


@result
def greedy_with_hooks(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    options = {"do_sample": False, "stop_at_eos": False, "verbose": False, "use_past_kv_cache": False}
    with model.hooks(fwd_hooks=[("blocks.0.hook_mlp_out", lambda value, hook: value * -1)]):
        return model.generate(tokens, max_new_tokens=3, **options).float()


@result
def induction_scores(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    repeated = torch.cat([tokens, tokens], dim=1)
    _, cache = model.run_with_cache(repeated, names_filter=lambda name: name.endswith("pattern"))
    n = tokens.shape[1]
    return torch.stack([cache["pattern", i].diagonal(1 - n, -2, -1).mean((0, -1)) for i in range(model.cfg.n_layers)])


@result
def projected_decomposition(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    _, cache = model.run_with_cache(tokens)
    directions = model.W_U[:, :3]
    options = {"expand_neurons": True, "apply_ln": True, "project_output_onto": directions, "pos_slice": (3, 6)}
    return cache.get_full_resid_decomposition(**options)


@result
def hook_points_as_attributes(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    model.blocks[0].attn.hook_pattern.add_hook(lambda value, hook: value * (1 + hook.layer()) / 2)
    model.hook_embed.add_hook(lambda value, hook: value.clamp(-1, 1))
    out = model(tokens)
    model.reset_hooks()
    return out


@result
def integrated_gradients(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    total = torch.zeros(())
    for step in (0.25, 0.5, 0.75, 1.0):
        hooks = [("hook_embed", lambda value, hook, step=step: value * step)]
        _, gradients = _gradients(model, tokens, metric, "blocks.0.hook_resid_pre", hooks)
        total = total + gradients["blocks.0.hook_resid_pre"]
    return total
