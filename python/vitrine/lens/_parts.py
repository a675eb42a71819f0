"""Parts of a model on their own: a block, attention, an MLP, a norm, the head."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from .._errors import Unsupported
from ._run import Span, run_pass
from .hook_points import HookPoint

if TYPE_CHECKING:
    from .. import _engine
    from .config import HookedTransformerConfig


class PartsMixin:
    """Runs parts of a forward in the engine, for a model with hook points."""

    cfg: HookedTransformerConfig
    _engine: _engine.Model

    def live_points(self) -> dict[str, HookPoint]:
        """The hook points with hooks that a pass calls, by the names of their sites."""
        raise NotImplementedError

    def has_site(self, name: str) -> bool:
        raise NotImplementedError

    def set_use_attn_result(self, use_attn_result: bool) -> None:
        self.cfg.use_attn_result = use_attn_result

    def set_use_split_qkv_input(self, use_split_qkv_input: bool) -> None:
        self.cfg.use_split_qkv_input = use_split_qkv_input

    def set_use_hook_mlp_in(self, use_hook_mlp_in: bool) -> None:
        self.cfg.use_hook_mlp_in = use_hook_mlp_in

    def value_of(self, tokens: Tensor, name: str) -> Tensor:
        """The value of a site, without hooks."""
        ids = torch.as_tensor(tokens)
        return run_pass(self._engine, ids[None] if ids.ndim == 1 else ids, {}, Span(None, name))[0]

    def part_of(self, name: str, value: Tensor, result: str, at: str | None = None) -> Tensor:
        """What a part of a block, with its hooks, makes of a value `[batch, pos, d_model]`: the value of the site
        ``result``. ``at``: the site whose value is given; None: the stream before the block."""
        for site in (result, at):
            if site is not None and not self.has_site(site):
                raise Unsupported(f"[{name}] expected a block with the site {site}: run the model with its hooks instead")
        points = {own: point for own, point in self.live_points().items() if own.startswith(f"{name}.")}
        if at is not None:
            points[at] = HookPoint(at)
            points[at].add_hook(lambda _, hook: value)
        ids = torch.zeros(value.shape[:2], dtype=torch.long)
        return run_pass(self._engine, ids, points, Span(int(name.split(".")[1]), result), value)[0]

    def end_of(self, rows: Tensor, result: str, at: str | None = None) -> Tensor:
        """What the final norm and the head make of any rows `[…, width]`: the value of a site. ``at``: the site whose value
        the rows are; None: the stream."""
        flat = rows.reshape(-1, 1, rows.shape[-1])  # each is a sequence, because there may be more than the context has
        points: dict[str, HookPoint] = {}
        stream = flat if at is None else torch.zeros(*flat.shape[:2], self.cfg.d_model)
        if at is not None:
            point = HookPoint(at)
            point.add_hook(lambda value, hook: flat)
            points[at] = point
        ids = torch.zeros(flat.shape[:2], dtype=torch.long)
        value, _ = run_pass(self._engine, ids, points, Span(self.cfg.n_layers, result), stream)
        return value.reshape(*rows.shape[:-1], -1)
