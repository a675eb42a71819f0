"""Continuations of texts and tokens, one whole pass for each token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ._text import USE_DEFAULT_VALUE
from .utils import sample_logits


class GenerateMixin:
    def generate(
        self,
        input: str | Sequence[str] | Tensor = "",
        max_new_tokens: int = 10,
        stop_at_eos: bool = True,
        eos_token_id: int | Sequence[int] | None = None,
        do_sample: bool = True,
        top_k: int | None = None,
        top_p: float | None = None,
        temperature: float = 1.0,
        freq_penalty: float = 0.0,
        use_past_kv_cache: bool = True,
        prepend_bos: bool | None = USE_DEFAULT_VALUE,
        padding_side: str | None = USE_DEFAULT_VALUE,
        return_type: str = "input",
        verbose: bool = True,
    ) -> Any:
        """Continues a text or tokens. Every token is a pass over all of them, whose hooks see all positions."""
        options = {
            "do_sample": do_sample, "top_k": top_k, "top_p": top_p, "temperature": temperature,
            "freq_penalty": freq_penalty,
        }
        return _generate(self, input, max_new_tokens, stop_at_eos, eos_token_id, return_type, prepend_bos, options)


@torch.no_grad()
def _generate(
    model: Any,
    input: str | Sequence[str] | Tensor,
    max_new_tokens: int,
    stop_at_eos: bool,
    eos_token_id: int | Sequence[int] | None,
    return_type: str,
    prepend_bos: bool | None,
    options: dict[str, Any],
) -> Any:
    """``options``: those of sample_logits; ``do_sample=False`` takes the most likely token."""
    assert return_type in ("input", "str", "tokens"), "return_type must be one of ['input', 'str', 'tokens']"
    is_text = not isinstance(input, Tensor)
    tokens = input if isinstance(input, Tensor) else model.to_tokens(input, prepend_bos=prepend_bos)
    if isinstance(input, (list, tuple)) and len({len(model.to_str_tokens(text)) for text in input}) > 1:
        raise NotImplementedError("generate() needs texts of the same number of tokens; call it for each")
    stop = _stop_ids(model, eos_token_id) if stop_at_eos else []
    is_finished = torch.zeros(len(tokens), dtype=torch.bool)
    do_sample = options.pop("do_sample", True)
    for _ in range(max_new_tokens):
        last = model(tokens)[:, -1]
        sampled = sample_logits(last, tokens=tokens, **options) if do_sample else last.argmax(-1)
        if stop:
            sampled[is_finished] = stop[0]
            is_finished |= torch.isin(sampled, torch.tensor(stop))
        tokens = torch.cat([tokens, sampled[:, None]], dim=1)
        if bool(is_finished.all()):
            break
    if return_type == "tokens" or (return_type == "input" and not is_text):
        return tokens
    tokenizer = model._text_of_tokens()
    texts = [tokenizer.decode(row.tolist(), skip_special_tokens=True) for row in tokens]
    return texts[0] if len(texts) == 1 else texts


def _stop_ids(model: Any, given: int | Sequence[int] | None) -> list[int]:
    if given is not None:
        return [given] if isinstance(given, int) else list(given)
    eos = None if model.tokenizer is None else model._special_id("eos_token_id")
    assert eos is not None, "Must pass a eos_token_id if stop_at_eos is True and there is no tokenizer with one"
    return [eos]
