"""More of what notebooks compute with TransformerLens, as in lens_results.py."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from lens_results import add, clean_and_corrupted, metric, result
from torch import Tensor

# Parts of a model


@result
def block_by_block(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    stream = model(tokens, stop_at_layer=0)
    for block in model.blocks:
        stream = block(stream)
    return model.unembed(model.ln_final(stream))


@result
def sublayers_by_hand(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    stream = model(tokens, stop_at_layer=1)
    block = model.blocks[1]
    normed = block.ln1(stream)
    middle = stream + block.attn(query_input=normed, key_input=normed, value_input=normed)
    return torch.stack([middle, block.mlp(block.ln2(middle))])


@result
def mlp_of_another_stream(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    """The MLP of layer 0 of single tokens, as studies of first layers use it."""
    return model.blocks[0].mlp(model.blocks[0].ln2(model.W_E[tokens]))


@result
def hooks_of_a_part(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    model.blocks[1].mlp.hook_post.add_hook(lambda value, hook: value * 2)
    model.blocks[1].hook_mlp_out.add_hook(lambda value, hook: value + 1)
    out = torch.stack([model.blocks[1](model(tokens, stop_at_layer=1)), model(tokens, stop_at_layer=2)])
    model.reset_hooks()
    return out


@result
def gradient_through_a_block(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    stream = model(tokens, stop_at_layer=1).detach().requires_grad_()
    model.blocks[1](stream).pow(2).sum().backward()
    return stream.grad


@result
def gradient_through_an_mlp(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    value = torch.linspace(-1, 1, 2 * model.cfg.d_model).reshape(1, 2, -1).requires_grad_()
    model.blocks[0].mlp(value)[0, 1, 3].backward()
    return value.grad


@result
def all_parameters(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    state = model.state_dict()
    names = sorted(name for name in state if name.split(".")[-1][:2] in ("W_", "_W", "b_", "_b", "w", "b"))
    sizes = [float(sum(value.numel() for value in model.parameters())), float(model.n_params_total), float(len(names))]
    return torch.cat([torch.tensor(sizes), *(state[name].flatten() for name in names)])


@result
def sizes(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    c = model.cfg
    numbers = [
        c.n_layers, c.d_model, c.n_ctx, c.d_head, c.n_heads, c.d_mlp, c.d_vocab, c.d_vocab_out, c.eps, c.attn_scale,
        c.n_params, c.n_key_value_heads or 0, c.gated_mlp, c.rotary_dim or 0, c.attn_only, c.parallel_attn_mlp,
        c.use_attn_result, c.normalization_type == "LN", c.positional_embedding_type == "rotary", len(model.blocks),
        len(model.hook_dict), c.window_size or 0, c.use_local_attn, c.final_rms, c.n_devices, c.act_fn == "silu",
    ]
    return torch.tensor([float(number) for number in numbers])


@result
def weights_of_a_head(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    attn = model.blocks[1].attn
    ov, qk = attn.OV, attn.QK
    parts = [attn.W_Q[1], attn.W_K[0].T, attn.W_V[1], attn.W_O[0].T, ov[1].AB, qk[0].AB]
    return torch.cat([part.flatten() for part in parts])


@result
def full_qk_circuit(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    layer, head = 0, 1
    qk = tl.FactoredMatrix(model.W_E @ model.W_Q[layer, head], model.W_K[layer, head].T @ model.W_E.T)
    return torch.cat([qk.AB.flatten(), qk.svd()[1].flatten(), qk.norm().flatten(), (2 * qk).T.get_corner(4).flatten()])


@result
def copying_scores(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    full = model.W_E @ model.OV @ model.W_U
    values = full.eigenvalues
    return torch.stack([values.real.sum(-1) / values.abs().sum(-1), full.norm()])


@result
def products_of_factors(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    left, right = model.OV[0, 0], model.QK[1, 1]
    both = left @ right
    pairs = tl.FactoredMatrix(model.W_V[0, 0], model.W_O[0, 0]).make_even()
    # The sign of each singular vector depends on the machine's LAPACK.
    collapsed = [left.collapse_l().abs(), right.collapse_r().abs()]
    parts = [both.AB, both.BA, pairs.A @ pairs.B, *collapsed, model.W_U.T @ left.AB]
    return torch.cat([part.flatten() for part in parts])


# Padding on the left, masks, pasts


def _mask(tokens: Tensor) -> Tensor:
    mask = torch.ones_like(tokens)
    mask[0, :3] = 0
    mask[2, :1] = 0
    return mask


def _seen(value: Tensor, tokens: Tensor) -> Tensor:
    """Without the rows of padding, whose values have no meaning."""
    return torch.cat([value[0, 3:].flatten(), value[1].flatten(), value[2, 1:].flatten()])


@result
def padding_on_the_left(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    return _seen(model(tokens, attention_mask=_mask(tokens)), tokens)


@result
def loss_with_a_mask(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    each = model(tokens, attention_mask=_mask(tokens), return_type="loss", loss_per_token=True)
    return torch.cat([each.flatten(), model(tokens, attention_mask=_mask(tokens), return_type="loss")[None]])


@result
def cache_with_a_mask(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    _, cache = model.run_with_cache(tokens, attention_mask=_mask(tokens))
    parts = [cache["z", 1], cache["resid_post", 0], cache["k", 1]]
    pattern = cache["pattern", 1][0, :, 3:]
    return torch.cat([*(_seen(part, tokens) for part in parts), pattern.flatten()])


@result
def hook_with_a_mask(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    def silence(value: Tensor, hook: Any) -> Tensor:
        value[:, 5] = 0
        return value

    hooks = [("blocks.0.hook_resid_post", silence), ("blocks.1.attn.hook_pattern", lambda value, hook: value.flip(1))]
    return _seen(model.run_with_hooks(tokens, attention_mask=_mask(tokens), fwd_hooks=hooks), tokens)


@result
def gradient_with_a_mask(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    found = {}
    names = ("blocks.0.hook_resid_post", "blocks.1.attn.hook_z")
    for name in names:
        model.add_hook(name, lambda gradient, hook: found.update({hook.name: gradient.detach()}), "bwd")
    model.add_hook("blocks.0.hook_mlp_out", lambda value, hook: value * 2)
    metric(model(tokens, attention_mask=_mask(tokens))).backward()
    model.reset_hooks()
    return torch.cat([_seen(found[name], tokens) for name in names])


@result
def padding_on_the_right(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    mask = torch.ones_like(tokens)
    mask[1, 5:] = 0
    each = model(tokens, attention_mask=mask, return_type="loss", loss_per_token=True)
    return torch.cat([each.flatten(), model(tokens, attention_mask=mask)[1, :5].flatten()])


def _cache_of(tl: Any, model: Any, batch: int) -> Any:
    return tl.TransformerLensKeyValueCache.init_cache(model.cfg, "cpu", batch)


@result
def past_kv_cache(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    past, ones = _cache_of(tl, model, len(tokens)), torch.ones_like(tokens)
    with torch.no_grad():
        parts = [
            model(tokens[:, begin:end], past_kv_cache=past, attention_mask=ones[:, begin:end])
            for begin, end in ((0, 4), (4, 5), (5, 8))
        ]
    return torch.cat(parts, dim=1)


@result
def frozen_past(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    past, ones = _cache_of(tl, model, len(tokens)), torch.ones_like(tokens)
    with torch.no_grad():
        model(tokens[:, :5], past_kv_cache=past, attention_mask=ones[:, :5])
        past.freeze()
        one = model(tokens[:, 5:], past_kv_cache=past, attention_mask=ones[:, 5:])
        _, cache = model.run_with_cache(tokens[:, :2], past_kv_cache=past, attention_mask=ones[:, :2])
    parts = [one, cache["pattern", 1], cache["q", 0], cache["v", 1], cache["resid_post", 1], cache["attn_scores", 0].clamp(min=-9)]
    return torch.cat([part.flatten() for part in parts])


@result
def hook_after_a_past(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    past, ones = _cache_of(tl, model, len(tokens)), torch.ones_like(tokens)

    def silence(value: Tensor, hook: Any) -> Tensor:
        value[:, 0] = 0
        return value

    with torch.no_grad():
        model(tokens[:, :6], past_kv_cache=past, attention_mask=ones[:, :6])
        with model.hooks(fwd_hooks=[("blocks.0.hook_attn_out", silence)]):
            return model(tokens[:, 6:], past_kv_cache=past, attention_mask=ones[:, 6:])


@result
def greedy_with_a_cache(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    model.reset_hooks()
    options = {"do_sample": False, "stop_at_eos": False, "verbose": False, "use_past_kv_cache": False}
    return model.generate(tokens[:1], max_new_tokens=5, return_type="tokens", **options).float()


# Heads


@result
def scores_of_heads(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    repeated = torch.cat([tokens, tokens], dim=1)
    _, cache = model.run_with_cache(repeated)
    found = []
    for offset in (0, -1, 1 - tokens.shape[1], -tokens.shape[1]):
        for layer in range(model.cfg.n_layers):
            found.append(cache["pattern", layer].diagonal(offset, -2, -1).mean((0, -1)))
    return torch.stack(found)


def _similarity(tl: Any, model: Any, tokens: Tensor, measure: str, exclude_bos: bool) -> Tensor:
    detector = tl.head_detector
    row = torch.cat([tokens[:1], tokens[:1]], dim=1)
    _, cache = model.run_with_cache(row, remove_batch_dim=True)
    patterns = [
        detector.get_previous_token_head_detection_pattern(row),
        detector.get_duplicate_token_head_detection_pattern(row),
        detector.get_induction_head_detection_pattern(row),
    ]
    scores = [
        detector.compute_head_attention_similarity_score(
            cache["pattern", layer, "attn"][head], expected, exclude_bos=exclude_bos, exclude_current_token=not exclude_bos,
            error_measure=measure,
        )
        for expected in patterns
        for layer in range(model.cfg.n_layers)
        for head in range(model.cfg.n_heads)
    ]
    return torch.tensor(scores)


add("similarity_mul", partial(_similarity, measure="mul", exclude_bos=True))
add("similarity_abs", partial(_similarity, measure="abs", exclude_bos=False))


@result
def entropy_of_patterns(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    _, cache = model.run_with_cache(tokens)
    pattern = cache.stack_activation("pattern")
    return -(pattern * (pattern + 1e-9).log()).sum(-1)


@result
def value_weighted_patterns(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    _, cache = model.run_with_cache(tokens)
    norms = cache["v", 1].norm(dim=-1)
    norms = norms.repeat_interleave(model.cfg.n_heads // norms.shape[-1], dim=-1)
    return cache["pattern", 1] * norms.transpose(1, 2)[:, :, None]


# Ablations and lenses


@result
def ablation_of_all_heads(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    scores = torch.zeros(model.cfg.n_layers, model.cfg.n_heads)
    for layer in range(model.cfg.n_layers):
        for head in range(model.cfg.n_heads):

            def silence(z: Tensor, hook: Any, head: int = head) -> Tensor:
                z[:, :, head, :] = 0.0
                return z

            hooks = [(tl.utilities.get_act_name("z", layer), silence)]
            scores[layer, head] = metric(model.run_with_hooks(tokens, fwd_hooks=hooks))
    return scores


@result
def resampled_ablation(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    _, cache = model.run_with_cache(tokens.flip(0), names_filter=lambda name: name.endswith("hook_mlp_out"))
    hooks = [(name, lambda value, hook: cache[hook.name]) for name in cache.keys()]
    return model.run_with_hooks(tokens, fwd_hooks=hooks, return_type="loss", loss_per_token=True)


@result
def neuron_set_to_a_value(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    def pin(value: Tensor, hook: Any) -> Tensor:
        value[..., 5] = 3.0
        return value

    return model.run_with_hooks(tokens, fwd_hooks=[("blocks.0.mlp.hook_post", pin)], return_type="both").logits


@result
def projected_out(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    """A direction removed at every layer."""
    direction = torch.linspace(-1, 1, model.cfg.d_model)
    direction = direction / direction.norm()

    def remove(value: Tensor, hook: Any) -> Tensor:
        return value - (value @ direction)[..., None] * direction

    return model.run_with_hooks(tokens, fwd_hooks=[(lambda name: name.endswith("resid_post"), remove)])


@result
def lens_of_every_layer(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    _, cache = model.run_with_cache(tokens)
    stack, labels = cache.accumulated_resid(layer=-1, incl_mid=True, pos_slice=-1, return_labels=True)
    assert labels[0] == "0_pre" and labels[-1] == "final_post"
    scaled = cache.apply_ln_to_stack(stack, layer=-1, pos_slice=-1)
    return scaled @ (model.W_U[:, 7] - model.W_U[:, 3])


@result
def difference_by_layer(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    _, cache = model.run_with_cache(tokens)
    directions = model.tokens_to_residual_directions(torch.tensor([[7, 3], [5, 9], [1, 2]]))
    directions = directions[:, 0] - directions[:, 1]
    stack = cache.decompose_resid(layer=-1, pos_slice=-1)
    scaled = cache.apply_ln_to_stack(stack, layer=-1, pos_slice=-1)
    return torch.einsum("...bd,bd->...", scaled, directions) / len(tokens)


@result
def difference_by_head(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    _, cache = model.run_with_cache(tokens)
    heads, labels = cache.stack_head_results(layer=-1, pos_slice=-1, return_labels=True)
    assert labels == model.all_head_labels() or list(labels) == list(model.all_head_labels())
    direction = model.W_U[:, 7] - model.W_U[:, 3]
    return (cache.apply_ln_to_stack(heads, layer=-1, pos_slice=-1) @ direction).mean(-1)


@result
def neurons_of_a_layer(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    _, cache = model.run_with_cache(tokens)
    return cache.get_neuron_results(1, neuron_slice=(0, 6), pos_slice=-1)


@result
def attributed_neurons(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    _, cache = model.run_with_cache(tokens)
    stack = cache.stack_neuron_results(layer=-1, pos_slice=-1, apply_ln=True)
    return cache.logit_attrs(cache.stack_neuron_results(layer=1, pos_slice=-1), 7, pos_slice=-1) + stack.sum() * 0


@result
def attributed_rows(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    _, cache = model.run_with_cache(tokens)
    stack = cache.decompose_resid()
    return cache.logit_attrs(stack, torch.tensor([7, 3, 5])[:, None].expand(tokens.shape), batch_slice=None)


@result
def variance_explained_by_norms(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    _, cache = model.run_with_cache(tokens)
    names = ("resid_pre", "resid_mid", "resid_post", "attn_out", "mlp_out")
    norms = [cache[name, layer].norm(dim=-1) for layer in range(model.cfg.n_layers) for name in names]
    return torch.stack(norms)


@result
def cosines_of_positions(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    _, cache = model.run_with_cache(tokens)
    stream = cache["resid_post", -1]
    return torch.nn.functional.cosine_similarity(stream[:, :, None], stream[:, None], dim=-1)


# Patching


def _patched_by_hand(tl: Any, model: Any, tokens: Tensor, kind: str) -> Tensor:
    _, cache, corrupted = clean_and_corrupted(model, tokens)
    return getattr(tl.patching, f"get_act_patch_{kind}")(model, corrupted, cache, metric)


for _kind in (
    "attn_head_q_by_pos", "attn_head_v_by_pos", "attn_head_out_all_pos", "attn_head_q_all_pos", "attn_head_k_all_pos",
    "attn_head_v_all_pos", "attn_head_pattern_dest_src_pos", "attn_head_by_pos_every",
):
    add(f"patch_{_kind}", partial(_patched_by_hand, kind=_kind))


@result
def own_patch(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    _, cache, corrupted = clean_and_corrupted(model, tokens)

    def setter(value: Tensor, index: Any, clean: Tensor) -> Tensor:
        layer, pos = index
        value[:, pos, 2:5] = clean[:, pos, 2:5]
        return value

    return tl.patching.generic_activation_patch(
        model, corrupted, cache, metric, setter, "post", index_axis_names=("layer", "pos")
    )


@result
def denoising_by_position(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    clean, cache, corrupted = clean_and_corrupted(model, tokens)
    base, best = metric(model(corrupted)), metric(model(clean))
    found = torch.zeros(model.cfg.n_layers, tokens.shape[1])
    for layer in range(model.cfg.n_layers):
        for pos in range(tokens.shape[1]):

            def patch(value: Tensor, hook: Any, pos: int = pos) -> Tensor:
                value[:, pos, :] = cache[hook.name][:, pos, :]
                return value

            with torch.no_grad():
                hooks = [(tl.utilities.get_act_name("resid_pre", layer), patch)]
                found[layer, pos] = metric(model.run_with_hooks(corrupted, fwd_hooks=hooks)) - base
    return found / (best - base).abs().clamp(min=1e-2)


@result
def frozen_attention(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    _, cache, corrupted = clean_and_corrupted(model, tokens)
    hooks = [(lambda name: name.endswith("hook_pattern"), lambda value, hook: cache[hook.name])]
    return model.run_with_hooks(corrupted, fwd_hooks=hooks)


# Backward


@result
def attributions_of_everything(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    """Attribution patching, with values and gradients from run_with_cache-like hooks."""
    _, clean, corrupted = clean_and_corrupted(model, tokens)
    model.reset_hooks()
    names = ("hook_q", "hook_k", "hook_v", "hook_attn_out", "hook_mlp_out", "hook_resid_pre", "hook_resid_mid")
    values, forward, backward = model.get_caching_hooks(lambda name: name.endswith(names), incl_bwd=True)
    with model.hooks(fwd_hooks=forward, bwd_hooks=backward):
        metric(model(corrupted)).backward()
    own = sorted(name for name in values if not name.endswith("_grad"))
    return torch.cat([((clean[name] - values[name]) * values[f"{name}_grad"]).flatten() for name in own])


@result
def retained_gradients(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    kept = {}

    def retain(value: Tensor, hook: Any) -> None:
        value.retain_grad()
        kept[hook.name] = value

    hooks = [("blocks.0.hook_resid_post", retain), ("blocks.1.attn.hook_pattern", retain)]
    logits = model.run_with_hooks(tokens, fwd_hooks=hooks)
    metric(logits).backward()
    return torch.cat([kept[name].grad.flatten() for name in sorted(kept)])


@result
def gradient_of_one_logprob(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    found = []
    for position in (3, 6):
        kept = {}
        model.add_hook("hook_embed", lambda gradient, hook, kept=kept: kept.update(g=gradient.detach()), "bwd")
        model(tokens).log_softmax(-1)[0, position, int(tokens[0, position + 1])].backward()
        model.reset_hooks()
        found.append(kept["g"])
    return torch.stack(found)


@result
def gradient_times_input(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    _, cache = model.run_with_cache(tokens, incl_bwd=True, return_type="loss")
    names = ["hook_embed", *(f"blocks.{i}.attn.hook_z" for i in range(model.cfg.n_layers))]
    return torch.cat([(cache[name] * cache[f"{name}_grad"]).sum(-1).flatten() for name in names])


@result
def saliency_of_patterns(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    _, cache = model.run_with_cache(tokens, incl_bwd=True, return_type="loss", names_filter=lambda n: "pattern" in n)
    return torch.stack([cache[name] * cache[f"{name}_grad"] for name in cache.keys() if not name.endswith("_grad")])


@result
def probe_of_the_stream(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    """A linear probe that learns on cached values, with a fixed start."""
    with torch.no_grad():
        _, cache = model.run_with_cache(tokens, names_filter="blocks.1.hook_resid_pre")
    rows = cache["resid_pre", 1].reshape(-1, model.cfg.d_model)
    labels = (tokens.reshape(-1) % 2).float()
    weight = torch.zeros(model.cfg.d_model, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    for _ in range(5):
        optimizer.zero_grad()
        torch.nn.functional.binary_cross_entropy_with_logits(rows @ weight, labels).backward()
        optimizer.step()
    return weight.detach()


@result
def learned_patch(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    """A low-rank change of a value (as in DAS) that learns through the model."""
    basis = torch.eye(model.cfg.d_model)[:2].clone().requires_grad_()
    source = model(tokens.flip(0), stop_at_layer=1).detach()

    def swap(value: Tensor, hook: Any) -> Tensor:
        return value + (source - value) @ basis.T @ basis

    optimizer = torch.optim.SGD([basis], lr=0.05)
    for _ in range(3):
        optimizer.zero_grad()
        loss = metric(model.run_with_hooks(tokens, fwd_hooks=[("blocks.1.hook_resid_pre", swap)]))
        loss.backward()
        optimizer.step()
    return torch.cat([basis.detach().flatten(), loss.detach()[None]])


# Small functions


@result
def small_functions(tl: Any, model: Any, tokens: Tensor) -> Tensor:
    utils = tl.utilities
    logits = model(tokens).detach()
    x = torch.linspace(-3, 3, 12).reshape(1, 3, 4)
    parts = [
        utils.lm_cross_entropy_loss(logits, tokens, per_token=True), utils.lm_cross_entropy_loss(logits, tokens)[None],
        utils.lm_accuracy(logits, tokens)[None], utils.lm_accuracy(logits, tokens, per_token=True).float(),
        utils.gelu_new(x), utils.gelu_fast(x), utils.solu(x), utils.get_corner(logits, 2),
        utils.repeat_along_head_dimension(x, 2), utils.get_cumsum_along_dim(x, 1, reverse=True),
        utils.get_offset_position_ids(1, torch.tensor([[0, 0, 1, 1], [1, 1, 1, 1]])).float(),
        utils.sample_logits(logits[:, -1], temperature=0.0).float(), torch.tensor(utils.to_numpy(x)),
        utils.composition_scores(model.OV[0], model.OV[1]), utils.transpose(x), utils.remove_batch_dim(x),
        torch.tensor([float(utils.get_nested_attr(model, "blocks.1.attn.W_Q").sum())]),
    ]
    names = [utils.get_act_name(*key) for key in (("q", 1), ("pre", 0, "mlp"), ("scale", None), ("k6",), ("scale4ln1",))]
    assert names == [
        "blocks.1.attn.hook_q", "blocks.0.mlp.hook_pre", "ln_final.hook_scale", "blocks.6.attn.hook_k",
        "blocks.4.ln1.hook_scale",
    ]
    return torch.cat([part.flatten() for part in parts])
