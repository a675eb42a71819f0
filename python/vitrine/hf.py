"""The classes of Hugging Face transformers over vitrine's engine. They need PyTorch.

    from vitrine.hf import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(folder)
    out = model(**AutoTokenizer.from_pretrained(folder)(text, return_tensors="pt"), output_attentions=True)

The values are those of transformers in float32 with attn_implementation="eager". There is no autograd through the model.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from types import EllipsisType
from typing import Any, Union

import numpy as np
import torch

from ._errors import BadInput, Unsupported
from ._model import Model, load
from ._tokenizer import Tokenizer

__all__ = ["AutoModelForCausalLM", "AutoTokenizer", "CausalLM", "CausalLMOutput", "Config"]

_SCORES = "blocks.*.attn.hook_attn_scores"
_HIDDEN = ["blocks.*.hook_resid_pre", "ln_final.hook_out"]
_PATTERN = ["blocks.*.attn.hook_pattern"]
Ids = Union[torch.Tensor, Sequence[Sequence[int]]]


class Config(dict[str, Any]):
    """The keys of config.json, also as attributes; hidden_size, num_hidden_layers and vocab_size always exist."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def to_dict(self) -> dict[str, Any]:
        return dict(self)


class CausalLMOutput(dict[str, Any]):
    """Like transformers' ModelOutput: what a call returns, by key, as attributes, and by position. An attribute that
    was not requested is None, and has no key and no position."""

    def __getattr__(self, name: str) -> Any:
        if name in ("loss", "logits", "past_key_values", "hidden_states", "attentions"):
            return self.get(name)
        raise AttributeError(name)

    def __getitem__(self, key: Any) -> Any:
        return super().__getitem__(key) if isinstance(key, str) else self.to_tuple()[key]

    def to_tuple(self) -> tuple[Any, ...]:
        return tuple(self.values())


class CausalLM:
    """A causal language model. Make one with AutoModelForCausalLM.from_pretrained()."""

    device = torch.device("cpu")
    dtype = torch.float32

    def __init__(self, model: Model, generation_config: dict[str, Any]) -> None:
        self.vitrine = model  #: The model itself.
        sizes = {"hidden_size": model.d_model, "num_hidden_layers": model.n_layers, "vocab_size": model.vocab_size}
        self.config = Config({**sizes, **model.config})
        self.generation_config = Config(
            {name: value for name, value in {**_generation_keys(model), **generation_config}.items() if value is not None}
        )

    def eval(self) -> CausalLM:
        return self

    def to(self, device: Any) -> CausalLM:
        if torch.device(device) != self.device:
            raise Unsupported(f"[device] expected cpu, got {device}")
        return self

    def __call__(self, input_ids: Ids, *arguments: Any, **named: Any) -> Any:
        return self.forward(input_ids, *arguments, **named)

    def forward(
        self,
        input_ids: Ids,
        attention_mask: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        output_hidden_states: bool = False,
        output_attentions: bool = False,
        return_dict: bool = True,
        use_cache: bool = False,
    ) -> Any:
        """``loss`` (with labels), ``logits`` [B, T, V], ``hidden_states`` (a tuple of n_layers + 1: the embedding, the
        output of each block, the last one after the final norm, [B, T, d]), ``attentions`` (a tuple of n_layers, [B, H,
        T, T]). There is no cache: ``use_cache`` is ignored. Where the mask is 0 before the first 1, values have no
        meaning."""
        ids, mask = _batch(input_ids, attention_mask)
        sites = (_HIDDEN if output_hidden_states else []) + (_PATTERN if output_attentions else [])
        rows = [self._run(row.tolist(), seen, sites) for row, seen in zip(ids, mask.tolist())]
        out = CausalLMOutput()
        logits = _stacked([logits for logits, _ in rows])
        if labels is not None:
            out["loss"] = _loss(logits, torch.as_tensor(labels))
        out["logits"] = logits
        layers = range(self.vitrine.n_layers)
        if output_hidden_states:
            names = [f"blocks.{i}.hook_resid_pre" for i in layers] + ["ln_final.hook_out"]
            out["hidden_states"] = tuple(_stacked([cache[name] for _, cache in rows]) for name in names)
        if output_attentions:
            names = [f"blocks.{i}.attn.hook_pattern" for i in layers]
            out["attentions"] = tuple(_stacked([cache[name] for _, cache in rows]) for name in names)
        return out if return_dict else out.to_tuple()

    def _run(self, ids: list[int], mask: list[int], sites: list[str]) -> tuple[Any, dict[str, Any]]:
        writes = _mask_writes(mask)
        if not sites and not writes:
            return self.vitrine.logits(ids), {}
        return self.vitrine.run_with_cache(ids, sites or "hook_logits", writes=writes)

    def generate(
        self,
        input_ids: Ids,
        attention_mask: torch.Tensor | None = None,
        *,
        max_new_tokens: int | None = None,
        do_sample: bool | None = None,
        eos_token_id: int | Sequence[int] | None | EllipsisType = ...,
        pad_token_id: int | None = None,
        temperature: float | None = None,
        top_k: int | None = None,
        top_p: float | None = None,
        repetition_penalty: float | None = None,
    ) -> torch.Tensor:
        """The ids of prompts and continuations [B, T + n], padded at the end. What is not given is that of
        generation_config.json, else transformers' default; with ``eos_token_id=None``, no id ends a text. Samples depend on torch.manual_seed, but are not those of
        transformers."""
        ids, mask = _batch(input_ids, attention_mask)
        saved = self.generation_config

        def choose(name: str, given: Any, default: Any) -> Any:
            stored = saved.get(name)
            return given if given is not None else default if stored is None else stored

        ends = saved.get("eos_token_id") if isinstance(eos_token_id, EllipsisType) else eos_token_id
        stop_ids = [] if ends is None else [ends] if isinstance(ends, int) else list(ends)
        length = choose("max_new_tokens", max_new_tokens, max(0, saved.get("max_length", ids.shape[1] + 20) - ids.shape[1]))
        options: dict[str, Any] = {"greedy": True}
        if choose("do_sample", do_sample, False):
            options = {
                "temperature": choose("temperature", temperature, 1.0),
                "top_k": choose("top_k", top_k, 50),
                "top_p": choose("top_p", top_p, 1.0),
                "min_p": choose("min_p", None, 0.0),
            }
        options["repeat_penalty"] = choose("repetition_penalty", repetition_penalty, 1.0)
        texts = []
        for row, seen in zip(ids, mask.bool()):
            seed = 0 if "greedy" in options else int(torch.randint(2**31, (1,)))
            result = self.vitrine.generate(
                row[seen].tolist(), max_tokens=length, stop_ids=stop_ids, seed=seed, **options
            )
            texts.append(row.tolist() + result.ids + ([] if result.stop_id is None else [result.stop_id]))
        pad = choose("pad_token_id", pad_token_id, stop_ids[0] if stop_ids else 0)
        longest = max(map(len, texts))
        return torch.tensor([text + [pad] * (longest - len(text)) for text in texts], dtype=torch.int64)


class AutoModelForCausalLM:
    """``AutoModelForCausalLM.from_pretrained(folder)`` opens a model."""

    @staticmethod
    def from_pretrained(
        path: str | Path,
        *,
        dtype: Any = None,
        torch_dtype: Any = None,
        attn_implementation: str = "eager",
        tokenizer: str | Path | None = None,
        threads: int = 0,
        allowed_config_keys: Sequence[str] = (),
        allowed_tensors: Sequence[str] = (),
    ) -> CausalLM:
        """A Hugging Face folder, or another model that vitrine.load() opens. Weights of bfloat16 stay bfloat16 in
        memory, and are multiplied as float32."""
        for given in (dtype, torch_dtype):
            if given not in (None, "auto", "float32", torch.float32):
                raise Unsupported(f"[dtype] expected float32, got {given}")
        if attn_implementation not in ("eager", "sdpa"):
            raise Unsupported(f"[attn_implementation] expected eager or sdpa, got {attn_implementation}")
        model = load(
            path,
            tokenizer,
            threads=threads,
            compute="f32",
            allowed_config_keys=allowed_config_keys,
            allowed_tensors=allowed_tensors,
        )
        try:
            generation = json.loads((Path(path) / "generation_config.json").read_text())
        except OSError:
            generation = {}
        return CausalLM(model, generation)


class AutoTokenizer:
    """``AutoTokenizer.from_pretrained(folder)`` opens a tokenizer."""

    @staticmethod
    def from_pretrained(path: str | Path, *, padding_side: str = "right") -> Tokenizer:
        tokenizer = Tokenizer(path)
        tokenizer.padding_side = padding_side
        return tokenizer


def _generation_keys(model: Model) -> dict[str, Any]:
    """What transformers takes from config.json if there is no generation_config.json. A GGUF file has no config.json,
    but its tokenizer has the ids."""
    if not model.config:
        return {"eos_token_id": model.tokenizer.eos_token_ids, "pad_token_id": model.tokenizer.pad_token_id}
    return {name: model.config.get(name) for name in ("eos_token_id", "pad_token_id")}


def _batch(input_ids: Ids, attention_mask: Any) -> tuple[torch.Tensor, torch.Tensor]:
    ids = torch.as_tensor(input_ids)
    if ids.ndim != 2 or ids.is_floating_point():
        raise BadInput(f"[input_ids] expected integers of shape [batch, tokens], got {ids.dtype} of {list(ids.shape)}")
    mask = torch.ones_like(ids) if attention_mask is None else torch.as_tensor(attention_mask)
    if mask.shape != ids.shape:
        raise BadInput(f"[attention_mask] expected the shape {list(ids.shape)}, got {list(mask.shape)}")
    return ids, (mask != 0).to(torch.int64)


def _mask_writes(mask: list[int]) -> list[str]:
    """Writes after which no token attends to those whose mask is 0."""
    edges = np.flatnonzero(np.diff([1, *mask, 1])).tolist()  # begin and end of each run of zeros
    runs = list(zip(edges[::2], edges[1::2]))
    writes = [f"{_SCORES}[:,:,{begin}:{end}]=-inf" for begin, end in runs]
    if runs and runs[0][0] == 0:  # these rows see only each other
        writes.append(f"{_SCORES}[:,:{runs[0][1]},:{runs[0][1]}]=0")
    return writes


def _stacked(rows: list[Any]) -> torch.Tensor:
    tensors = [torch.from_numpy(row) for row in rows]
    return tensors[0][None] if len(tensors) == 1 else torch.stack(tensors)


def _loss(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """The mean cross-entropy of the labels other than -100, each predicted from the tokens before it."""
    return torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten().long())
