"""Training."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Union

from . import _engine
from ._errors import Error
from ._model import Model

Config = Union[str, Path, Mapping[str, Any]]
"""The path of a .toml file, or its tables as a dict."""


@dataclass(frozen=True)
class Step:
    """A step of training."""

    step: int  #: Steps done.
    steps: int  #: All steps of the run.
    loss: float  #: Nats per token.
    lr: float
    grad_norm: float
    tokens_per_s: float
    val_loss: float | None  #: The last one.


@dataclass(frozen=True)
class TrainResult:
    step: int
    loss: float
    val_loss: float | None
    checkpoint: str  #: The folder of the last checkpoint.


class Trainer(Iterator[Step]):
    """A run, step by step: ``for step in vitrine.Trainer(config): …``. It writes what ``vitrine train`` writes. After
    the last step, it saves a checkpoint; if you leave the loop earlier, finish() does."""

    def __init__(
        self,
        config: Config,
        *,
        resume: bool = False,
        threads: int = 0,
        seed: int | None = None,
        tokenizer: str | Path | None = None,
        on_message: Callable[[str], object] | None = None,
    ) -> None:
        is_json = isinstance(config, Mapping)
        text = json.dumps(dict(config)) if isinstance(config, Mapping) else str(config)
        self._engine = _engine.Trainer(text, is_json, threads, resume, seed, str(tokenizer or ""), on_message)
        self._model: Model | None = None

    def __next__(self) -> Step:
        step = self._engine.step()
        if step is None:
            self.finish()
            raise StopIteration
        return Step(*step)

    def finish(self) -> TrainResult:
        """Saves a checkpoint of the last step, unless it has one."""
        return TrainResult(*self._engine.finish())

    @property
    def model(self) -> Model:
        """The model in training, which changes with every step."""
        if self._model is None:
            self._model = Model(self._engine.model())
        return self._model


def train(
    config: Config,
    *,
    resume: bool = False,
    on_step: Callable[[Step], object] | None = None,
    threads: int = 0,
    seed: int | None = None,
    tokenizer: str | Path | None = None,
    on_message: Callable[[str], object] | None = None,
) -> TrainResult:
    """Trains as a config specifies. An exception of ``on_step``, and Ctrl-C, end the run, after a checkpoint has been
    saved."""
    trainer = Trainer(
        config, resume=resume, threads=threads, seed=seed, tokenizer=tokenizer, on_message=on_message
    )
    try:
        for step in trainer:
            if on_step is not None:
                on_step(step)
    except BaseException:
        with contextlib.suppress(Error):  # the exception that ended the run says more
            trainer.finish()
        raise
    return trainer.finish()
