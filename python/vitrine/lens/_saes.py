"""SAELens's dictionaries at the sites of a HookedTransformer, as SAELens's HookedSAETransformer has them."""

# mypy: disable-error-code="import-not-found"
from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ._bridge_names import BridgeNames
from .hook_points import HookPoint

if TYPE_CHECKING:
    from typing_extensions import Self

_OWN = ("hook_sae_error", "hook_sae_output")


@dataclass
class _Attached:
    """A dictionary of SAELens at a site, with the hook points of its values."""

    sae: Any
    use_error_term: bool
    exclude_special_tokens: bool | list[int]
    input_site: str
    output_site: str
    name: str  #: of the output site, as the dictionary has it
    points: dict[str, Any] = field(default_factory=dict)
    given: Tensor | None = None  # a transcoder's input
    mask: Tensor | None = None  # where the dictionary does nothing

    def __post_init__(self) -> None:
        their_point = type(next(iter(self.sae.hook_dict.values())))
        self.points = {name: point for name, point in self.sae.hook_dict.items() if name not in _OWN}
        self.points.update({name: their_point() for name in _OWN})
        for name, point in self.points.items():
            point.name = f"{self.name}.{name}"

    @property
    def is_transcoder(self) -> bool:
        return self.input_site != self.output_site

    def keep(self, value: Tensor, hook: HookPoint) -> None:
        self.given = value

    def splice(self, value: Tensor, hook: HookPoint) -> Tensor:
        """What goes on instead of the value of the output site."""
        given = self.given if self.is_transcoder and self.given is not None else value
        self.given = None
        mask = None if self.mask is None else self.mask.reshape(*self.mask.shape, *([1] * (value.ndim - 2)))
        result = self.sae.decode(self.sae.encode(given))
        if self.use_error_term:
            error = self._error(given, value)
            error = error if mask is None else error.masked_fill(mask, 0)
            result = result + self.points["hook_sae_error"](error)
        result = result if mask is None else torch.where(mask, value, result)
        changed: Tensor = self.points["hook_sae_output"](result)
        return changed

    @torch.no_grad()
    def _error(self, given: Tensor, value: Tensor) -> Tensor:
        """What the dictionary misses, without its hooks."""
        from sae_lens.saes.sae import _disable_hooks

        with _disable_hooks(self.sae):
            error: Tensor = value - self.sae.decode(self.sae.encode(given))
        return error


class SaeMixin:
    """Dictionaries attached to a model. The value of a dictionary is that of a hook point ``SITE.hook_sae_…``."""

    mod_dict: dict[str, Any]
    hook_dict: dict[str, Any]
    cfg: Any
    tokenizer: Any

    def _init_saes(self) -> None:
        self._attached: dict[str, _Attached] = {}  # by the name of the input's hook point, as the dictionary has it
        self._names = BridgeNames(list(self.mod_dict), self.cfg.n_layers)

    @property
    def acts_to_saes(self) -> dict[str, Any]:
        return {name: own.sae for name, own in self._attached.items()}

    def add_sae(
        self, sae: Any, use_error_term: bool | None = None, exclude_special_tokens: bool | list[int] = False
    ) -> None:
        """Attaches a dictionary or transcoder at the hook points that its config names, until reset_saes(); one that is
        there already goes. ``use_error_term``: what it misses is added, so that only changed values change the model;
        None: the dictionary's own setting. At ``exclude_special_tokens`` (True: those of the tokenizer) it does
        nothing."""
        name = sae.cfg.metadata.hook_name
        name_out = sae.cfg.metadata.hook_name_out or name
        sites = []
        for own in (name, name_out):
            try:
                sites.append(self._names.site_of(own))
            except KeyError:
                warnings.warn(f"no hook point {own}: the dictionary is not attached; see model.hook_dict", stacklevel=2)
                return
        if name in self._attached:
            self._detach(name)
        for other in [other for other, own in self._attached.items() if own.output_site == sites[1]]:
            self._detach(other)
        uses_error = sae.use_error_term if use_error_term is None else use_error_term
        added = self._attached[name] = _Attached(sae, uses_error, exclude_special_tokens, sites[0], sites[1], name_out)
        self.hook_dict.pop(added.output_site, None)
        for point in added.points.values():
            self.mod_dict[point.name] = self.hook_dict[point.name] = point

    def reset_saes(self, act_names: str | Sequence[str] | None = None) -> None:
        """Removes the dictionaries at these hook points; None: all."""
        names = [act_names] if isinstance(act_names, str) else list(self._attached if act_names is None else act_names)
        for name in names:
            if name in self._attached:
                self._detach(name)
            else:
                warnings.warn(f"no dictionary is attached to {name}", stacklevel=2)

    def _detach(self, name: str) -> None:
        own = self._attached.pop(name)
        for point in own.points.values():
            point.remove_hooks("both", including_permanent=True)
            self.mod_dict.pop(point.name, None)
            self.hook_dict.pop(point.name, None)
        self.hook_dict[own.output_site] = self.mod_dict[own.output_site]

    @contextmanager
    def saes(
        self,
        saes: Any = (),
        reset_saes_end: bool = True,
        use_error_term: bool | None = None,
        exclude_special_tokens: bool | list[int] = False,
    ) -> Iterator[Self]:
        """Within the block, the model has these dictionaries. Those that they replace come back at its end."""
        before: list[tuple[str, _Attached | None]] = []
        try:
            for sae in saes if isinstance(saes, (list, tuple)) else [saes]:
                name = sae.cfg.metadata.hook_name
                before.append((name, self._attached.get(name)))
                self.add_sae(sae, use_error_term, exclude_special_tokens)
            yield self
        finally:
            for name, old in reversed(before) if reset_saes_end else ():
                if name in self._attached:
                    self._detach(name)
                if old is not None:
                    self.add_sae(old.sae, old.use_error_term, old.exclude_special_tokens)

    def run_with_saes(
        self, *model_args: Any, saes: Any = (), reset_saes_end: bool = True, use_error_term: bool | None = None,
        exclude_special_tokens: bool | list[int] = False, **model_kwargs: Any,
    ) -> Any:
        with self.saes(saes, reset_saes_end, use_error_term, exclude_special_tokens):
            return self(*model_args, **model_kwargs)  # type: ignore[operator]

    def run_with_cache_with_saes(
        self, *model_args: Any, saes: Any = (), reset_saes_end: bool = True, use_error_term: bool | None = None,
        exclude_special_tokens: bool | list[int] = False, **model_kwargs: Any,
    ) -> Any:
        with self.saes(saes, reset_saes_end, use_error_term, exclude_special_tokens):
            return self.run_with_cache(*model_args, **model_kwargs)  # type: ignore[attr-defined]

    def run_with_hooks_with_saes(
        self, *model_args: Any, saes: Any = (), reset_saes_end: bool = True,
        exclude_special_tokens: bool | list[int] = False, **model_kwargs: Any,
    ) -> Any:
        with self.saes(saes, reset_saes_end, None, exclude_special_tokens):
            return self.run_with_hooks(*model_args, **model_kwargs)  # type: ignore[attr-defined]

    def _with_saes(self, live: dict[str, HookPoint], ids: Tensor) -> dict[str, HookPoint]:
        """The hook points of a pass over tokens `[B, T]`, with those that run the dictionaries after all other hooks of
        their sites."""
        for own in self._attached.values():
            own.given, own.mask = None, self._mask_of(own, ids)
            hooks = [(own.output_site, own.splice)]
            for site, function in [(own.input_site, own.keep), *hooks] if own.is_transcoder else hooks:
                point = HookPoint(site)
                old = live.get(site)
                point.fwd_hooks, point.bwd_hooks = (list(old.fwd_hooks), list(old.bwd_hooks)) if old else ([], [])
                point.add_hook(function)
                live[site] = point
        return live

    def _mask_of(self, own: _Attached, ids: Tensor) -> Tensor | None:
        excluded = own.exclude_special_tokens
        if excluded is False:
            return None
        if not isinstance(excluded, (list, tuple)):
            from sae_lens.util import get_special_token_ids

            excluded = [] if self.tokenizer is None else list(get_special_token_ids(self.tokenizer))
        return torch.isin(ids, torch.tensor(excluded, dtype=ids.dtype))
