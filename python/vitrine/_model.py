"""Models."""

from __future__ import annotations

import contextlib
import json
import math
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

import numpy as np
import numpy.typing as npt

from . import _engine
from ._errors import BadInput
from ._options import GenerateOptions
from ._sites import Array, Find, Hook, HookMap, finder, matches
from ._tensors import entries_of, tensor_of
from ._tokenizer import Tokenizer

if TYPE_CHECKING:
    from typing_extensions import Unpack

DEFAULT_MODEL = Path(__file__).parent / "models" / "default"
"""The folder of the model that comes with the package."""

def _schema(schema: Any) -> str:
    """A JSON Schema as text: a dict, JSON, or a class with ``model_json_schema()``, as those of Pydantic."""
    if isinstance(schema, str):
        return schema
    describe = getattr(schema, "model_json_schema", None)
    return json.dumps(describe() if describe is not None else schema)


Prompt = Union[str, Sequence[int], npt.NDArray[np.integer[Any]]]
"""A text, or its ids: a list, or an integer array of one row."""


@dataclass(frozen=True)
class TokenProbability:
    """A token that may follow."""

    id: int
    piece: str
    logprob: float

    @property
    def prob(self) -> float:
        return math.exp(self.logprob)


@dataclass(frozen=True)
class TokenReport:
    """A generated token with its log-probability before sampling, and the most likely tokens at its place."""

    id: int
    piece: str
    logprob: float
    top: list[TokenProbability]
    removed: float | None = None  #: Under a constraint: the probability of all tokens that it excluded here.


@dataclass(frozen=True)
class Hypothesis:
    """A text that a search has found."""

    text: str
    ids: list[int]
    score: float  #: Its log-probability, divided by its length to the power of ``length_penalty``.


@dataclass(frozen=True)
class Generation:
    """A continuation, or what an encoder–decoder writes."""

    text: str
    ids: list[int]
    prompt_ids: list[int]
    finish_reason: str  #: "stop" or "length"
    stop_id: int | None  #: The id that ended the text; it is not among ids.
    seed: int
    logprobs: list[TokenReport]
    hypotheses: list[Hypothesis]  #: Of a search and of an encoder–decoder: the best texts, best first.

    @property
    def score(self) -> float | None:
        """That of the best text, if there are hypotheses."""
        return self.hypotheses[0].score if self.hypotheses else None


class Stream(Iterator[str]):
    """The text of a continuation, as it is generated. Leaving the loop stops the work."""

    def __init__(self, model: Model, stepper: _engine.Stepper, prompt_ids: list[int], seed: int) -> None:
        self._model = model
        self._stepper = stepper
        self._prompt_ids = prompt_ids
        self._seed = seed

    def __next__(self) -> str:
        piece = self._stepper.next()
        if piece is None:
            raise StopIteration
        return piece

    def close(self) -> None:
        """Stops the work."""
        self._stepper.close()

    @property
    def result(self) -> Generation:
        """The whole continuation, after the last piece."""
        return self._model._generation(self._stepper.result(), self._prompt_ids, self._seed)


class Model:
    """A model with its tokenizer. Open it with vitrine.load(). Threads may share it."""

    def __init__(self, engine: _engine.Model, reopen: tuple[Any, ...] | None = None) -> None:
        self._engine = engine
        self._local = threading.local()
        self._reopen = reopen

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and pickles hold the path and the options of load(), with which they are opened again."""
        if self._reopen is None:
            raise TypeError("cannot pickle a model that has no path: open one with vitrine.load()")
        return self._reopen

    def __repr__(self) -> str:
        return f"<vitrine.Model: {self.description}, {self.n_layers} layers, d_model {self.d_model}>"

    @property
    def description(self) -> str:
        return self._engine.description

    @property
    def vocab_size(self) -> int:
        return self._engine.vocab_size

    @property
    def max_seq_len(self) -> int:
        """The context: the maximum length of prompt and continuation together."""
        return self._engine.max_seq_len

    @property
    def d_model(self) -> int:
        return self._engine.d_model

    @property
    def n_layers(self) -> int:
        return self._engine.n_layers

    @property
    def config(self) -> dict[str, Any]:
        """config.json; empty if the format has none."""
        return dict(json.loads(self._engine.config_json or "{}"))

    def info(self) -> dict[str, Any]:
        """What ``vitrine info --json`` prints."""
        return dict(json.loads(self._engine.info_json()))

    @cached_property
    def tokenizer(self) -> Tokenizer:
        return Tokenizer._of_model(self._engine, self._reopen and (_tokenizer_of, (self,)))

    def ids(self, prompt: Prompt) -> list[int]:
        """The ids that a call with this prompt reads."""
        return self._engine.ids(_prompt(prompt))

    # Generation

    def generate(
        self, prompt: Prompt, *, hooks: HookMap | None = None, **options: Unpack[GenerateOptions]
    ) -> Generation:
        """Continues a text, or writes what an encoder–decoder makes of it, from a ``prefix`` on. What is not given is
        the checkpoint's choice, except ``max_tokens=128`` and ``seed=0``. With several beams, the text is searched for,
        not sampled. Hooks see the tokens as they are processed: up to 256 of the prompt at a time, then one by one, or
        that of each beam."""
        ids = self.ids(prompt)
        given = self._options("generate", hooks, options)
        return self._generation(_engine.generate(self._engine, _prompt(ids), given), ids, given["seed"])

    def stream(
        self, prompt: Prompt, *, hooks: HookMap | None = None, **options: Unpack[GenerateOptions]
    ) -> Stream:
        """The pieces of generate(), each as soon as it exists; the text of a search is one. Concatenated, they are its
        text."""
        ids = self.ids(prompt)
        given = self._options("stream", hooks, options)
        return Stream(self, _engine.Stepper(self._engine, _prompt(ids), given), ids, given["seed"])

    def _options(self, function: str, hooks: HookMap | None, options: GenerateOptions) -> dict[str, Any]:
        """What a generation reads of its options; None is not given."""
        for name in options.keys() - GenerateOptions.__annotations__.keys():
            raise TypeError(f"Model.{function}() got an unexpected keyword argument {name!r}")
        find, globs = self._watch(hooks)
        given: dict[str, Any] = {"max_tokens": 128, "seed": 0, "hooks": find, "hook_sites": globs}
        given.update((name, value) for name, value in options.items() if value is not None)
        if "prefix" in given:
            given["prefix"] = _prompt(given["prefix"])
        if "stop" in given:
            given["stop"] = _texts(given["stop"])
        if "choice" in given:
            given["choice"] = _texts(given["choice"])
        if "schema" in given:
            given["schema"] = _schema(given["schema"])
        return {name: value for name, value in given.items() if value is not None}

    def _piece(self, id: int) -> str:
        try:
            return self.tokenizer.convert_ids_to_tokens(id)
        except BadInput:  # no tokenizer, or a smaller vocabulary
            return ""

    def _top(self, top: list[tuple[int, float]]) -> list[TokenProbability]:
        return [TokenProbability(id, self._piece(id), logprob) for id, logprob in top]

    def _generation(self, result: _engine._Result, prompt_ids: list[int], seed: int) -> Generation:
        text, ids, reason, stop_id, logprobs, found = result
        reports = [
            TokenReport(id, self._piece(id), logprob, self._top(top), removed) for id, logprob, top, removed in logprobs
        ]
        hypotheses = [Hypothesis(*entry) for entry in found]
        return Generation(text, ids, prompt_ids, reason, stop_id, seed, reports, hypotheses)

    # Values. In an encoder–decoder, the encoder reads the prompt, and the decoder the target: a text, before which the
    # start symbol is put, or ids that begin with it. Rows of logits are then those of the target.

    def predict(self, prompt: Prompt, top: int = 10, *, target: Prompt | None = None) -> list[list[TokenProbability]]:
        """The most likely tokens after every prefix of the prompt, most likely first."""
        if target is None and self._watch()[0] is None:
            tops = self._engine.predict(_prompt(prompt), top)
        else:
            tops = _engine.top_of_rows(self.run(prompt, target=target), top)
        return [self._top(entry) for entry in tops]

    def logits(self, prompt: Prompt, *, target: Prompt | None = None) -> Array:
        """The logits of every position, [T, V]: row t scores the token after ids[0 … t]."""
        if target is None and self._watch()[0] is None:
            return self._engine.logits(_prompt(prompt))
        return self.run(prompt, target=target)

    def run(
        self,
        prompt: Prompt,
        hooks: HookMap | None = None,
        writes: Sequence[str] = (),
        *,
        target: Prompt | None = None,
    ) -> Array:
        """The logits [T, V] of one pass. A hook is called with the value of each site that its glob selects, and the
        site: ``f(value, site)``. The forward continues with the array that it returns, or else with the value, which
        it may have changed. Writes are as ``trace --set`` takes them: ``blocks.2.attn.hook_z[:,1]=0``."""
        values = self._trace(prompt, target, ["hook_logits"], writes, False, hooks)
        return values["hook_logits"]

    def run_with_cache(
        self,
        prompt: Prompt,
        sites: str | Sequence[str] | None = None,
        *,
        gradients: bool = False,
        hooks: HookMap | None = None,
        writes: Sequence[str] = (),
        target: Prompt | None = None,
    ) -> tuple[Array, dict[str, Array]]:
        """The logits, and the values of the sites that the globs select (None: all but those on demand), by name. With
        gradients, NAME_grad is the gradient of the mean next-token loss with respect to each of them."""
        globs = [] if sites is None else [sites] if isinstance(sites, str) else list(sites)
        if sites is not None and not globs:
            raise BadInput("[sites] expected globs, or None for the default sites; got an empty list")
        is_extra = bool(globs) and not any(matches("hook_logits", glob) for glob in globs)
        cache = self._trace(
            prompt, target, [*globs, "hook_logits"] if is_extra else globs, writes, gradients, hooks
        )
        logits = cache["hook_logits"]
        if is_extra:
            for name in ("hook_logits", "hook_logits_grad"):
                cache.pop(name, None)
        return logits, cache

    def features(self, prompt: Prompt, top: int = 5) -> dict[str, Any]:
        """The strongest features of the dictionaries of load() at each token: what ``vitrine features --json`` prints,
        ``{"ids", "pieces", "saes": [{"name", "site", "architecture", "d_in", "d_sae", "tokens"}]}``, where ``tokens``
        has a list of ``{"index", "value"}`` for each token, by falling value."""
        if top < 1:
            raise BadInput(f"[features] expected a top of at least 1, got {top}")
        return dict(json.loads(self._engine.features_json(_prompt(prompt), top)))

    def _trace(
        self,
        prompt: Prompt,
        target: Prompt | None,
        sites: list[str],
        writes: Sequence[str],
        gradients: bool,
        hooks: HookMap | None,
    ) -> dict[str, Array]:
        read = None if target is None else _prompt(target)
        return dict(self._engine.trace(_prompt(prompt), read, sites, list(writes), gradients, *self._watch(hooks)))

    @contextlib.contextmanager
    def hooks(self, hooks: HookMap) -> Iterator[Model]:
        """Within the block, every call of this thread on the model calls these hooks."""
        before: list[tuple[str, Hook]] = getattr(self._local, "hooks", [])
        self._local.hooks = [*before, *hooks.items()]
        try:
            yield self
        finally:
            self._local.hooks = before

    def _watch(self, given: HookMap | None = None) -> tuple[Find | None, list[str]]:
        """What the engine is given for the hooks of the thread and those of a call."""
        pairs = [*getattr(self._local, "hooks", []), *(given or {}).items()]
        return (finder(pairs), [glob for glob, _ in pairs]) if pairs else (None, [])

    # Parameters

    def grad(self, prompt: Prompt, *, target: Prompt | None = None) -> tuple[float, dict[str, Array]]:
        """The mean next-token cross-entropy over the ids (in an encoder–decoder, those of the target), in nats, and its
        gradient with respect to every parameter, with the file's names and shapes."""
        read = None if target is None else _prompt(target)
        loss, gradients = self._engine.grad(_prompt(prompt), read, *self._watch())
        return loss, dict(gradients)

    def state_dict(self) -> dict[str, Any]:
        """The tensors of the checkpoint under the file's names, read-only, in the model's own memory: NumPy arrays of
        float32 and float16, and BFloat16. Those of a model in training are copies."""
        return {name: tensor_of(kind, array) for name, kind, array in self._engine.state()}

    def save(self, folder: str | Path) -> None:
        """Writes a Hugging Face folder: the tensors as they are, config.json, the tokenizer. It replaces the folder."""
        self._engine.save(str(folder))


def _texts(stop: str | Sequence[str]) -> list[str]:
    return [stop] if isinstance(stop, str) else list(stop)



def _prompt(prompt: Prompt) -> str | npt.NDArray[np.int32]:
    if isinstance(prompt, str):
        return prompt
    ids = np.asarray(prompt)
    if ids.ndim == 2 and ids.shape[0] == 1:
        ids = ids[0]
    if ids.ndim != 1 or (ids.size > 0 and not np.issubdtype(ids.dtype, np.integer)):
        raise BadInput(f"[ids] expected a list of integers, got {ids.dtype} of shape {list(ids.shape)}")
    if ids.size > 0 and (ids.min() < -(2**31) or ids.max() >= 2**31):
        raise BadInput("[ids] expected ids of the vocabulary, got numbers of more than 32 bits")
    return np.ascontiguousarray(ids, dtype=np.int32)


def load(
    path: str | Path | None = None,
    tokenizer: str | Path | None = None,
    *,
    threads: int = 0,
    kv: str = "f32",
    compute: str = "auto",
    adapters: Mapping[str, float] | Sequence[str] = (),
    controls: Mapping[str, float | tuple[float, tuple[int, int]]] | Sequence[str] = (),
    saes: Sequence[str | Path] = (),
    sae_use: str | None = None,
    sae_skip: str | Sequence[int] = "none",
    allowed_config_keys: Sequence[str] = (),
    allowed_tensors: Sequence[str] = (),
) -> Model:
    """Opens a Hugging Face folder, a GGUF file, a llama2.c file or a name, ``hf:ORG/NAME[:QUANTIZATION][@REVISION]``,
    whose files are fetched if the cache lacks them; None: the model that comes with the package.
    ``threads=0``: all processors. ``adapters``: paths, or a mapping of paths to scales. ``controls``: the same of
    control vectors, whose scale may come with the first and the last block: ``{"joy.gguf": (0.5, (2, 9))}``.
    ``saes``: sparse autoencoders and transcoders, ``[NAME=]PATH[@SITE]``, whose values are sites; ``sae_use`` (``read``,
    ``error`` or ``replace``) and ``sae_skip`` (``special``, ``none`` or ids) are ``--sae-use`` and ``--sae-skip`` of the
    program.
    ``allowed_config_keys`` and ``allowed_tensors`` are unknown keys of config.json and tensors to ignore; ``"mtp.*"``
    stands for all tensors whose names begin so."""
    place = DEFAULT_MODEL if path is None else path
    scaled = list(adapters.items()) if isinstance(adapters, Mapping) else [(str(path), 1.0) for path in adapters]
    vectors = [_control(*item) for item in (controls.items() if isinstance(controls, Mapping) else zip(controls))]
    skipped = sae_skip if isinstance(sae_skip, str) else ",".join(map(str, sae_skip))
    dictionaries = ([str(sae) for sae in saes], sae_use or "", skipped)
    keys, names = list(allowed_config_keys), list(allowed_tensors)
    return _open(str(place), str(tokenizer or ""), threads, kv, compute, scaled, vectors, dictionaries, keys, names)


def _control(path: str, use: float | tuple[float, tuple[int, int]] = 1.0) -> tuple[str, float, int, int]:
    """A control vector as the engine takes it: its scale, and its first and last block."""
    scale, (first, last) = use if isinstance(use, tuple) else (use, (0, 2**31 - 1))
    return str(path), scale, first, last


def _open(*options: Any) -> Model:
    return Model(_engine.open_model(*options), (_open, options))


def _tokenizer_of(model: Model) -> Tokenizer:
    return model.tokenizer


def from_state_dict(
    config: Mapping[str, Any] | str | Path,
    tensors: Mapping[str, Any],
    tokenizer: str | Path | None = None,
    *,
    threads: int = 0,
    kv: str = "f32",
    compute: str = "auto",
    allowed_config_keys: Sequence[str] = (),
    allowed_tensors: Sequence[str] = (),
) -> Model:
    """A model of tensors in memory, with the names and shapes that a Hugging Face folder with this config.json (a dict,
    or a path) has: NumPy arrays, PyTorch tensors, BFloat16. Contiguous ones are shared, not copied: do not change them
    during a call. What may be ignored is as in load()."""
    text = json.dumps(dict(config)) if isinstance(config, Mapping) else Path(config).read_text()
    entries = entries_of(tensors)
    keys, names = list(allowed_config_keys), list(allowed_tensors)
    return Model(_engine.model_of_tensors(text, entries, str(tokenizer or ""), threads, kv, compute, keys, names))
