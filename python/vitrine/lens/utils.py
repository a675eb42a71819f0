"""Small functions that notebooks use."""

from __future__ import annotations

import importlib.util
import re
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from .._errors import Unsupported
from ._slice import Slice
from .factored_matrix import FactoredMatrix

__all__ = [
    "Slice", "SliceInput", "USE_DEFAULT_VALUE", "composition_scores", "filter_dict_by_prefix", "gelu_fast", "gelu_new",
    "get_act_name", "get_attention_mask", "get_corner", "get_cumsum_along_dim", "get_device", "get_matrix_corner",
    "get_nested_attr", "get_offset_position_ids", "is_library_available", "is_lower_triangular", "is_square", "lm_accuracy",
    "lm_cross_entropy_loss", "logits_to_df", "remove_batch_dim", "repeat_along_head_dimension", "sample_logits",
    "set_nested_attr", "solu", "test_prompt", "to_numpy", "transpose",
]

SliceInput = Any
USE_DEFAULT_VALUE: Any = None

_LAYER_TYPES = {"a": "attn", "m": "mlp", "b": "", "block": "", "blocks": "", "attention": "attn"}
_ALIASES = {
    "attn": "pattern", "attn_logits": "attn_scores", "key": "k", "query": "q", "value": "v", "mlp_pre": "pre",
    "mlp_mid": "mid", "mlp_post": "post",
}
_OF_ATTENTION = {"k", "v", "q", "z", "rot_k", "rot_q", "result", "pattern", "attn_scores"}
_OF_MLP = {"pre", "post", "mid", "pre_linear"}


def get_act_name(name: str, layer: int | str | None = None, layer_type: str | None = None) -> str:
    """The name of a hook point from a short form: ``("q", 3)``, ``("scale", 4, "ln1")``, ``"k6"``, ``"scale4ln1"``. A
    name that is complete is returned as it is."""
    if ("." in name or name.startswith("hook_")) and layer is None and layer_type is None:
        return name
    parts = re.match(r"([a-z]+)(\d+)([a-z]?.*)", name)
    if parts:
        name, layer, layer_type = parts[1], parts[2], parts[3]
    name = _ALIASES.get(name, name)
    if name in _OF_ATTENTION:
        layer_type = "attn"
    elif name in _OF_MLP:
        layer_type = "mlp"
    elif layer_type in _LAYER_TYPES:
        layer_type = _LAYER_TYPES[layer_type]
    prefix = "" if layer is None else f"blocks.{layer}."
    if layer is None and name in ("scale", "normalized"):
        prefix = "ln_final."
    return prefix + (f"{layer_type}." if layer_type else "") + f"hook_{name}"


def lm_cross_entropy_loss(
    logits: Tensor, tokens: Tensor, attention_mask: Tensor | None = None, per_token: bool = False
) -> Tensor:
    """The cross-entropy of the next tokens, in nats: the mean, or of each position but the last."""
    losses = -F.log_softmax(logits, dim=-1)[..., :-1, :].gather(-1, tokens[..., 1:, None])[..., 0]
    if attention_mask is None:
        return losses if per_token else losses.sum() / losses.numel()
    counts = torch.logical_and(attention_mask[:, :-1], attention_mask[:, 1:])
    losses = losses.masked_fill(~counts, 0.0)
    return losses if per_token else losses.sum() / counts.sum()


def lm_accuracy(logits: Tensor, tokens: Tensor, per_token: bool = False) -> Tensor:
    """How often the most likely token is the next one."""
    correct = logits.argmax(-1)[:, :-1] == tokens[:, 1:]
    return correct if per_token else correct.sum() / correct.numel()


def sample_logits(
    final_logits: Tensor,
    top_k: int | None = None,
    top_p: float | None = None,
    temperature: float = 1.0,
    freq_penalty: float = 0.0,
    repetition_penalty: float = 1.0,
    tokens: Tensor | None = None,
) -> Tensor:
    """Samples a token for each row `[batch, d_vocab]`, with PyTorch's random numbers; with a temperature of 0, the most
    likely one."""
    logits = final_logits.clone()
    if repetition_penalty != 1.0 and tokens is not None:
        for row, own in zip(logits, tokens, strict=True):
            seen = own.unique()
            row[seen] = torch.where(row[seen] > 0, row[seen] / repetition_penalty, row[seen] * repetition_penalty)
    if temperature == 0.0:
        return logits.argmax(-1)
    logits = logits / temperature
    if freq_penalty > 0:
        assert tokens is not None, "Must provide input_tokens if applying a frequency penalty"
        for row, own in zip(logits, tokens, strict=True):
            row -= freq_penalty * torch.bincount(own, minlength=logits.shape[-1])
    if top_k is not None:
        assert top_k > 0, "top_k has to be greater than 0"
        lowest = logits.topk(min(top_k, logits.shape[-1]), dim=-1).values[..., -1:]
        logits = logits.masked_fill(logits < lowest, -float("inf"))
    elif top_p is not None:
        assert 0.0 < top_p <= 1.0, "top_p has to be in (0, 1]"
        ordered, order = logits.sort(descending=True)
        goes = (ordered.softmax(-1).cumsum(-1) > top_p).roll(1, -1)  # the first token above top_p stays
        goes[..., 0] = False
        logits = logits.masked_fill(goes.scatter(-1, order, goes), -float("inf"))
    return torch.multinomial(logits.float().softmax(-1), 1, replacement=True)[:, 0]


def composition_scores(left: FactoredMatrix, right: FactoredMatrix, broadcast_dims: bool = True) -> Tensor:
    """‖left · right‖ / (‖left‖ ‖right‖), in norms of Frobenius, for all pairs of their leading dimensions."""
    if broadcast_dims:
        n_left, n_right = left.ndim - 2, right.ndim - 2
        for i in range(n_left):
            right = right.unsqueeze(i)
        for i in range(n_right):
            left = left.unsqueeze(i + n_left)
    assert left.rdim == right.ldim, f"sizes differ: {tuple(left.shape)}, {tuple(right.shape)}"
    # Orthogonal factors on the outer sides do not change a norm.
    small_left, small_right = left.collapse_l(), right.collapse_r()
    norm: Tensor = torch.linalg.matrix_norm(small_left @ small_right)
    of_both: Tensor = torch.linalg.matrix_norm(small_left) * torch.linalg.matrix_norm(small_right)
    return norm / of_both


def test_prompt(
    prompt: str,
    answer: str | list[str],
    model: Any,
    prepend_space_to_answer: bool = True,
    print_details: bool = True,
    prepend_bos: bool | None = None,
    top_k: int = 10,
) -> None:
    """Prints how a model ranks the tokens of an answer after a prompt; of several answers, their first tokens."""
    answers = [answer] if isinstance(answer, str) else answer
    if prepend_space_to_answer:
        answers = [own if own.startswith(" ") else f" {own}" for own in answers]
    options = {} if prepend_bos is None else {"prepend_bos": prepend_bos}
    prompt_tokens = model.to_tokens(prompt, **options)
    length, ranks = prompt_tokens.shape[1], []
    for own in answers:
        own_tokens = model.to_tokens(own, prepend_bos=False)[:, : 1 if len(answers) > 1 else None]
        logits = model(torch.cat([prompt_tokens, own_tokens], dim=1))[0].detach()
        for i, token in enumerate(own_tokens[0]):
            row = logits[length - 1 + i]
            order = row.sort(descending=True).indices
            rank, name = int((order == token).nonzero()), model.to_single_str_token(int(token))
            ranks.append((name, rank))
            if not print_details:
                continue
            print(f"Rank: {rank:<8} Logit: {row[token]:5.2f} Prob: {row.softmax(-1)[token]:6.2%} Token: |{name}|")
            for place, best in enumerate(order[:top_k]):
                name = model.to_single_str_token(int(best))
                print(f"Top {place}th token. Logit: {row[best]:5.2f} Prob: {row.softmax(-1)[best]:6.2%} Token: |{name}|")
    print(f"Ranks of the answer tokens: {ranks}")


test_prompt.__test__ = False  # type: ignore[attr-defined]  # pytest: this is no test


def to_numpy(tensor: Any) -> np.ndarray[Any, Any]:
    if isinstance(tensor, Tensor):
        tensor = tensor.detach().cpu()
        array: np.ndarray[Any, Any] = (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()
        return array
    if isinstance(tensor, (np.ndarray, list, tuple, int, float, bool, str)):
        return np.asarray(tensor)
    raise ValueError(f"Input to to_numpy has invalid type: {type(tensor)}")


def get_corner(tensor: Any, n: int = 3) -> Any:
    return tensor[tuple(slice(n) for _ in range(tensor.ndim))]


def get_matrix_corner(matrix: FactoredMatrix, n: int = 3) -> Tensor:
    corner: FactoredMatrix = get_corner(matrix, n)
    return corner.AB


def remove_batch_dim(tensor: Tensor) -> Tensor:
    return tensor.squeeze(0) if tensor.shape[0] == 1 else tensor


def transpose(tensor: Tensor) -> Tensor:
    return tensor.transpose(-1, -2)


def is_square(x: Tensor) -> bool:
    return x.ndim == 2 and x.shape[0] == x.shape[1]


def is_lower_triangular(x: Tensor) -> bool:
    return is_square(x) and x.equal(x.tril())


def get_device() -> torch.device:
    """The engine computes on the processor."""
    return torch.device("cpu")


def filter_dict_by_prefix(dictionary: dict[str, Any], prefix: str) -> dict[str, Any]:
    start = prefix if prefix.endswith(".") else f"{prefix}."
    return {key[len(start) :]: value for key, value in dictionary.items() if key.startswith(start)}


def get_cumsum_along_dim(tensor: Tensor, dim: int, reverse: bool = False) -> Tensor:
    return tensor.flip(dim).cumsum(dim).flip(dim) if reverse else tensor.cumsum(dim)


def get_attention_mask(tokenizer: Any, tokens: Tensor, prepend_bos: bool, padding_side: str | None = None) -> Tensor:
    """`[batch, pos]`: 0 for padding before or after the tokens of a row. Of tokens before them that are also BOS, the last
    one is BOS."""
    mask = torch.ones_like(tokens)
    if tokenizer is None:
        return mask
    is_left = (padding_side or tokenizer.padding_side) == "left"
    padding = get_cumsum_along_dim(tokens != tokenizer.pad_token_id, -1, not is_left) == 0
    mask[padding] = 0
    if is_left and prepend_bos and tokenizer.bos_token_id == tokenizer.pad_token_id:
        mask[torch.arange(len(mask)), padding.sum(-1) - 1] = 1
    return mask


def get_offset_position_ids(past_kv_pos_offset: int, attention_mask: Tensor) -> Tensor:
    """The positions of tokens, counted from the first that is seen."""
    return (attention_mask.cumsum(dim=1) - 1).clamp(min=0)[:, past_kv_pos_offset:]


def repeat_along_head_dimension(tensor: Tensor, n_heads: int, clone_tensor: bool = True) -> Tensor:
    """`[batch, pos, n_heads, d_model]`"""
    repeated = tensor[:, :, None].expand(-1, -1, n_heads, -1)
    return repeated.clone() if clone_tensor else repeated


def gelu_new(input: Tensor) -> Tensor:
    return F.gelu(input, approximate="tanh")


def gelu_fast(input: Tensor) -> Tensor:
    return F.gelu(input, approximate="tanh")


def solu(input: Tensor) -> Tensor:
    return input * input.softmax(-1)


def logits_to_df(logits: Tensor, tokenizer: Any = None, top_k: int | None = None) -> Any:
    """A table of the logits `[d_vocab]` of one position, the most likely token first. It needs pandas."""
    import pandas  # type: ignore[import-untyped,import-not-found,unused-ignore]

    logprobs = logits.float().log_softmax(-1)
    order = logprobs.argsort(descending=True)[:top_k]
    columns: dict[str, Any] = {"token_index": order.tolist()}
    if tokenizer is not None:
        columns["token_string"] = [tokenizer.decode([id]) for id in order.tolist()]
    columns["logit"] = logits[order].tolist()
    columns["log_prob"] = logprobs[order].tolist()
    columns["probability"] = logprobs[order].exp().tolist()
    return pandas.DataFrame(columns)


def get_nested_attr(obj: Any, attr_str: str) -> Any:
    for name in attr_str.split("."):
        obj = getattr(obj, name)
    return obj


def set_nested_attr(obj: Any, attr_str: str, value: Any) -> None:
    *path, last = attr_str.split(".")
    setattr(get_nested_attr(obj, ".".join(path)) if path else obj, last, value)


def is_library_available(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


_MISSING = {
    "LocallyOverridenDefaults", "check_structure", "clear_huggingface_cache", "download_file_from_hf", "get_dataset",
    "get_input_with_manually_prepended_bos", "get_tokenizer_with_bos", "get_tokens_with_bos_removed",
    "keep_single_column", "print_gpu_mem", "tokenize_and_concatenate",
}


def __getattr__(name: str) -> Any:
    if name in _MISSING:
        raise Unsupported(f"[utils.{name}] expected a function of vitrine.lens.utils: it downloads and prepares no data sets")
    raise AttributeError(f"module {__name__} has no attribute {name}")
