# Functions of the extension are objects of nanobind's own types, so they are declared as variables.
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from typing_extensions import disjoint_base

_Prompt = str | npt.NDArray[np.int32]
_Array = npt.NDArray[np.float32]
_Find = Callable[[str], tuple[Any, list[Any]]]
_Change = Callable[[str, _Array], _Array | None]
_Top = list[tuple[int, float]]
_Hypotheses = list[tuple[str, list[int], float]]
_Result = tuple[str, list[int], str, int | None, list[tuple[int, float, _Top, float | None]], _Hypotheses]
_State = list[tuple[str, str, npt.NDArray[Any]]]

class _Bound(type): ...

@disjoint_base
class Model(metaclass=_Bound):
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    @property
    def description(self) -> str: ...
    @property
    def vocab_size(self) -> int: ...
    @property
    def max_seq_len(self) -> int: ...
    @property
    def d_model(self) -> int: ...
    @property
    def n_layers(self) -> int: ...
    @property
    def config_json(self) -> str: ...
    def info_json(self) -> str: ...
    def ids(self, prompt: _Prompt) -> list[int]: ...
    def predict(self, prompt: _Prompt, top: int) -> list[_Top]: ...
    def logits(self, prompt: _Prompt) -> _Array: ...
    def trace(
        self,
        prompt: _Prompt,
        target: _Prompt | None,
        sites: list[str],
        writes: list[str],
        gradients: bool,
        hooks: _Find | None,
        hook_sites: list[str],
    ) -> list[tuple[str, _Array]]: ...
    def features_json(self, prompt: _Prompt, top: int) -> str: ...
    def grad(
        self, prompt: _Prompt, target: _Prompt | None, hooks: _Find | None, hook_sites: list[str]
    ) -> tuple[float, list[tuple[str, _Array]]]: ...
    def run(
        self,
        ids: npt.NDArray[np.int32],
        tap: _Change | None,
        sites: list[str],
        wants_logits: bool,
        logit_gradients: _Array | None,
        on_gradient: _Change | None,
        gradient_sites: list[str],
        start: int | None,
        stream: _Array | None,
        on_stream_gradient: _Change | None,
    ) -> _Array | None: ...
    def parameter(self, name: str) -> _Array: ...
    def state(self) -> _State: ...
    def save(self, folder: str) -> None: ...

@disjoint_base
class Stepper(metaclass=_Bound):
    def __init__(self, model: Model, prompt: _Prompt, options: dict[str, Any]) -> None: ...
    def next(self) -> str | None: ...
    def close(self) -> None: ...
    def result(self) -> _Result: ...

@disjoint_base
class Tokenizer(metaclass=_Bound):
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    def encode(self, text: str, policy: str) -> list[int]: ...
    def decode(self, ids: list[int]) -> str: ...
    def piece(self, id: int) -> str: ...
    def bytes(self, id: int) -> bytes: ...
    @property
    def vocab_size(self) -> int: ...
    @property
    def bos(self) -> int | None: ...
    @property
    def stop_ids(self) -> list[int]: ...

@disjoint_base
class Trainer(metaclass=_Bound):
    def __init__(
        self,
        config: str,
        is_json: bool,
        threads: int,
        resume: bool,
        seed: int | None,
        tokenizer: str,
        message: Callable[[str], object] | None,
    ) -> None: ...
    def step(self) -> tuple[int, int, float, float, float, float, float | None] | None: ...
    def finish(self) -> tuple[int, float, float | None, str]: ...
    def model(self) -> Model: ...

bfloat16_of: Callable[[npt.NDArray[np.uint16]], Any]
generate: Callable[[Model, _Prompt, dict[str, Any]], _Result]
model_of_tensors: Callable[[str, _State, str, int, str, str, list[str], list[str]], Model]
open_model: Callable[
    [
        str,
        str,
        int,
        str,
        str,
        list[tuple[str, float]],
        list[tuple[str, float, int, int]],
        tuple[list[str], str, str],
        list[str],
        list[str],
    ],
    Model,
]
open_tokenizer: Callable[[str, str], Tokenizer]
set_main_thread: Callable[[int], None]
tokenizer_of_model: Callable[[Model], Tokenizer]
top_of_rows: Callable[[_Array, int], list[_Top]]
version: Callable[[], str]
