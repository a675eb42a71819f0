"""Passes of the engine with hooks, and their backward.

Nothing of a forward is computed here. A pass calls the hooks at its sites. Its result belongs to PyTorch's graph through
one function, whose backward is a second, taped pass with the same bits: it repeats what the hooks have returned, without
calling them, and asks PyTorch only for the derivatives of the hooks."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from .. import _engine
from ._positions import Positions, is_joined
from .hook_points import HookPoint, LensHandle

Array = npt.NDArray[np.float32]


@dataclass
class Span:
    """The part of the model that a pass runs, and what comes out of it."""

    start: int | None = None  #: The layer before which the stream is given; None: the embedding.
    result: str | None = None  #: The site whose value is the result; None: the logits.


@dataclass
class _Edit:
    """What hooks have made of a value, in PyTorch's graph."""

    leaf: torch.Tensor  # the value before the hooks
    result: torch.Tensor
    values: Array | None  # of the result, if it differs
    link: torch.Tensor  # empty; by it the result of the pass depends on what hooks were given


@dataclass
class Pass:
    """One forward, and what its backward needs."""

    engine: _engine.Model
    ids: npt.NDArray[np.int32]  # [B, T]
    span: Span
    stream: Array | None
    points: dict[str, HookPoint]  # with hooks of either direction
    is_taped: bool
    positions: Positions
    edits: dict[str, _Edit] = field(default_factory=dict)
    found: torch.Tensor | None = None
    seed: torch.Tensor | None = None  # the gradient of the result, before the backward
    is_asked: bool = False  # a backward follows
    is_running: bool = False
    of_given: dict[str, torch.Tensor] | None = None  # in a backward to values that hooks were given: their gradients

    def __post_init__(self) -> None:
        self.forward_points = {name: point for name, point in self.points.items() if point.fwd_hooks}
        # As in PyTorch, backward hooks are those that exist during the forward.
        self.backward_hooks = {name: list(p.bwd_hooks) for name, p in self.points.items() if p.bwd_hooks}

    def run(self) -> torch.Tensor:
        """The logits `[B, T, V]`, or the value of the result's site."""
        wanted = self.span.result
        sites = list(dict.fromkeys([*self.forward_points, *([wanted] if wanted else [])]))
        tap = self._tap if sites else None
        logits = self.engine.run(self.ids, tap, sites, wanted is None, None, None, [], self.span.start, self.stream, None)
        if logits is not None:
            return self._shown("hook_logits", torch.from_numpy(logits).reshape(*self.ids.shape, -1))
        assert self.found is not None
        return self.found

    def _tap(self, name: str, array: Array) -> Array | None:
        of_engine = self._shaped(name, array)
        value = self._shown(name, of_engine)
        handles = self.forward_points[name].fwd_hooks if name in self.forward_points else []
        replacement = None
        if all(handle.only_reads for handle in handles):
            self._call(name, handles, value)
        elif self.is_taped:
            edit = self.edits[name] = self._edit(name, handles, value, of_engine)
            value, replacement = edit.result, edit.values
        else:
            shape = value.shape
            value = self._call(name, handles, value)
            replacement = self._values(name, value, shape, of_engine)
        if name == self.span.result:
            self.found = value.detach()
        return replacement

    def _call(self, name: str, handles: Sequence[LensHandle], value: torch.Tensor) -> torch.Tensor:
        """What the hooks make of a value."""
        for handle in handles:
            result = handle.user_hook(value, hook=self.points[name])
            value = value if result is None else result
        return value

    def _edit(
        self, name: str, handles: Sequence[LensHandle], value: torch.Tensor, of_engine: torch.Tensor
    ) -> _Edit:
        leaf = value.detach().requires_grad_()
        leaf.register_post_accumulate_grad_hook(_asker(self))  # type: ignore[no-untyped-call]
        given = leaf.clone()  # hooks may write to it
        link = _Link.apply(given, self, name)  # type: ignore[no-untyped-call]
        result = self._call(name, handles, given)
        is_same = result is given and given._version == 0
        return _Edit(leaf, result, None if is_same else self._values(name, result, leaf.shape, of_engine), link)

    def _shaped(self, name: str, array: Array) -> torch.Tensor:
        """The value of a site, with the batch as its first dimension."""
        value = torch.from_numpy(array)
        batch, length = self.ids.shape
        if is_joined(name, array.ndim) or ".experts." in name or len(array) != batch * length:
            return value
        return value.reshape(batch, length, *array.shape[1:])

    def _shown(self, name: str, of_engine: torch.Tensor) -> torch.Tensor:
        """What hooks see of a value."""
        has_positions = of_engine.ndim > 2 and len(of_engine) == len(self.ids)
        return self.positions.of(name, of_engine) if has_positions else of_engine

    def _values(self, name: str, value: Any, shape: Sequence[int], of_engine: torch.Tensor) -> Array:
        """A tensor of a hook, or a gradient, as the engine takes it."""
        checked = _checked(name, value, shape)
        if not self.positions.is_identity and tuple(shape) == tuple(self._shown(name, of_engine).shape):
            checked = self.positions.back(name, checked, of_engine.detach())
        return np.ascontiguousarray(checked.numpy())

    # Backward

    def begin_backward(self, gradient: torch.Tensor) -> torch.Tensor | None:
        """Runs the backward from the gradient of the result, and returns that of the stream. Without a stream, the
        backward runs when PyTorch has computed all gradients from which it begins."""
        self.seed = gradient.detach()
        self.of_given = {} if self._is_for_given() else None
        if self.of_given is not None or self.span.start is not None:
            return self.backward()
        self.ask()
        return None

    def _is_for_given(self) -> bool:
        """Whether PyTorch wants gradients of what hooks were given, as by ``torch.autograd.grad(…, value)``. It then
        goes no further than these values; a plain ``backward()`` goes on to their leaves."""
        node = next((torch.autograd.graph.get_gradient_edge(edit.leaf).node for edit in self.edits.values()), None)
        return node is not None and not torch._C._will_engine_execute_node(node)  # type: ignore[attr-defined]

    def ask(self) -> None:
        if not self.is_asked and not self.is_running:
            self.is_asked = True
            torch.autograd.Variable._execution_engine.queue_callback(self._answer)

    def _answer(self) -> None:
        self.backward()

    def backward(self) -> torch.Tensor | None:
        wanted, n_rows = self.span.result, self.ids.size
        of_logits = np.zeros((n_rows, self.engine.vocab_size), np.float32)
        if wanted is None and self.seed is not None:
            zeros = torch.from_numpy(of_logits).reshape(*self.ids.shape, -1)
            of_logits[:] = self.positions.back("hook_logits", self.seed, zeros).reshape(n_rows, -1).numpy()
        replaced = [name for name, edit in self.edits.items() if edit.values is not None]
        watched = list(dict.fromkeys([*self.edits, *self.backward_hooks, *([wanted] if wanted else [])]))

        def repeat(name: str, array: Array) -> Array | None:
            return self.edits[name].values

        def turn(name: str, array: Array) -> Array | None:
            return self._turn(name, self._shaped(name, array))

        of_stream: list[Array] = []
        keep = None if self.span.start is None else lambda _, array: of_stream.append(array)
        self.is_asked, self.is_running = False, True
        try:
            self.engine.run(
                self.ids, repeat if replaced else None, replaced, False, of_logits, turn if watched else None, watched,
                self.span.start, self.stream, keep,
            )
        finally:
            self.is_running, self.seed = False, None
            for edit in self.edits.values():
                edit.leaf.grad = None
        return torch.from_numpy(of_stream[0]).reshape(*self.ids.shape, -1) if of_stream else None

    def _turn(self, name: str, of_engine: torch.Tensor) -> Array | None:
        """The gradient with respect to a value before its hooks, from that with respect to the value after them."""
        given = gradient = self._shown(name, of_engine)
        if name == self.span.result and self.seed is not None:
            gradient = gradient + self.seed
        result = None
        for handle in self.backward_hooks.get(name, []):
            own = handle.user_hook(gradient, hook=self.points[name])
            result = result if own is None else own[0] if isinstance(own, tuple) else own
        edit = self.edits.get(name)
        if result is None and edit is not None:
            result = self._before_hooks(edit, gradient)
        elif result is None:
            is_same = gradient is given and gradient._version == 0  # a hook may write to it
            result = None if is_same else gradient
        if self.of_given is not None and edit is not None and result is not None:
            self.of_given[name] = result.detach().clone()
        return None if result is None else self._values(name, result, gradient.shape, of_engine)

    def _before_hooks(self, edit: _Edit, gradient: torch.Tensor) -> torch.Tensor:
        """The gradient of the value that hooks were given, by PyTorch's derivative of the hooks."""
        if self.of_given is not None:
            if not edit.result.requires_grad:
                return torch.zeros_like(gradient)
            found = torch.autograd.grad([edit.result], [edit.leaf], [gradient], retain_graph=True, allow_unused=True)[0]
            return torch.zeros_like(gradient) if found is None else found
        if edit.result.requires_grad:
            torch.autograd.backward([edit.result], [gradient], retain_graph=True)
        before = edit.leaf.grad
        return torch.zeros_like(gradient) if before is None else before


def _asker(own: Pass) -> Callable[[torch.Tensor], None]:
    """Begins a backward at a value that a hook has kept. The value does not keep the pass, which keeps the value."""
    weak = weakref.ref(own)

    def ask(_: torch.Tensor) -> None:
        alive = weak()
        if alive is None:
            raise RuntimeError("keep the result of the forward until the backward of a value that its hook has kept")
        alive.ask()

    return ask


class _Differentiable(torch.autograd.Function):
    """A pass as a function of its stream, or of nothing, and of the links of its edits."""

    @staticmethod
    def forward(ctx: Any, origin: torch.Tensor, own: Pass, result: torch.Tensor, *links: torch.Tensor) -> torch.Tensor:
        ctx.own, ctx.shape, ctx.n_links = own, origin.shape, len(links)
        return result

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        of_stream = ctx.own.begin_backward(gradients[0])
        links = [None if ctx.own.of_given is None else torch.zeros(0)] * ctx.n_links
        return (None if of_stream is None else of_stream.reshape(ctx.shape)), None, None, *links


class _Link(torch.autograd.Function):
    """An empty tensor, by which a pass depends on a value that hooks were given. Its backward passes on the gradient
    that the backward of the pass has found."""

    @staticmethod
    def forward(ctx: Any, given: torch.Tensor, own: Pass, name: str) -> torch.Tensor:
        ctx.own, ctx.name = weakref.ref(own), name
        ctx.set_materialize_grads(False)
        return given.new_empty(0)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, None, None]:
        own = ctx.own()
        found = None if own is None or own.of_given is None else own.of_given.pop(ctx.name, None)
        return found, None, None


def run_pass(
    engine: _engine.Model,
    tokens: torch.Tensor,
    points: dict[str, HookPoint],
    span: Span,
    stream: torch.Tensor | None = None,
    positions: Positions = Positions(),  # noqa: B008
) -> tuple[torch.Tensor, Pass]:
    """Runs tokens `[B, T]`. `points` are those that fire, with hooks; `stream` `[B, T, d]` if the span has a start."""
    ids = np.ascontiguousarray(positions.to_engine(tokens.detach().cpu()).numpy(), dtype=np.int32)
    rows = None if stream is None else np.ascontiguousarray(stream.detach().to(torch.float32).numpy())
    is_taped = torch.is_grad_enabled() and not torch.is_inference_mode_enabled()
    own = Pass(engine, ids, span, rows, points, is_taped, positions)
    result = own.run()
    if not is_taped:
        return result, own
    has_origin = stream is not None and stream.requires_grad
    origin = stream if has_origin and stream is not None else torch.zeros((), requires_grad=True)
    links = [edit.link for edit in own.edits.values()]
    return _Differentiable.apply(origin, own, result, *links), own  # type: ignore[no-untyped-call]


def _checked(name: str, value: Any, shape: Sequence[int]) -> torch.Tensor:
    """A tensor of a hook, as float32."""
    if not isinstance(value, torch.Tensor):
        raise TypeError(f"[{name}] a hook must return None or a tensor, got {type(value).__name__}")
    if tuple(value.shape) != tuple(shape):
        raise ValueError(f"[{name}] a hook must return a tensor of shape {list(shape)}, got {list(value.shape)}")
    return value.detach().to("cpu", torch.float32)
