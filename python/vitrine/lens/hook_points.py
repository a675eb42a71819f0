"""The places of a forward at which functions are called."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch

HookFunction = Callable[..., Any]
"""``f(value, hook=point)`` returns the value to go on with, or None."""
Direction = str
"""``"fwd"``, ``"bwd"`` or ``"both"``."""


@dataclass
class LensHandle:
    """A function at a hook point."""

    user_hook: HookFunction
    is_permanent: bool = False
    context_level: int | None = None
    only_reads: bool = False  #: It keeps a detached value and changes nothing.


class HookPoint:
    """A place of the forward, such as ``blocks.3.attn.hook_z``."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.fwd_hooks: list[LensHandle] = []
        self.bwd_hooks: list[LensHandle] = []
        self.ctx: dict[Any, Any] = {}

    def add_hook(
        self,
        hook: HookFunction,
        dir: Literal["fwd", "bwd"] = "fwd",
        is_permanent: bool = False,
        level: int | None = None,
        prepend: bool = False,
    ) -> None:
        if dir not in ("fwd", "bwd"):
            raise ValueError(f"Invalid direction {dir}")
        hooks = self.fwd_hooks if dir == "fwd" else self.bwd_hooks
        handle = LensHandle(hook, is_permanent, level, isinstance(hook, Saver))
        hooks.insert(0 if prepend else len(hooks), handle)

    def add_perma_hook(self, hook: HookFunction, dir: Literal["fwd", "bwd"] = "fwd") -> None:
        self.add_hook(hook, dir, is_permanent=True)

    def has_hooks(self, dir: Direction = "both", including_permanent: bool = True, level: int | None = None) -> bool:
        return any(
            (including_permanent or not handle.is_permanent) and (level is None or handle.context_level == level)
            for hooks in self._hooks(dir)
            for handle in hooks
        )

    def remove_hooks(self, dir: Direction = "fwd", including_permanent: bool = False, level: int | None = None) -> None:
        def stays(handle: LensHandle) -> bool:
            if including_permanent:
                return False
            return handle.is_permanent or (level is not None and handle.context_level != level)

        for hooks in self._hooks(dir):
            hooks[:] = [handle for handle in hooks if stays(handle)]

    def _hooks(self, dir: Direction) -> list[list[LensHandle]]:
        if dir not in ("fwd", "bwd", "both"):
            raise ValueError(f"Invalid direction {dir}")
        return ([self.fwd_hooks] if dir != "bwd" else []) + ([self.bwd_hooks] if dir != "fwd" else [])

    def clear_context(self) -> None:
        self.ctx = {}

    def layer(self) -> int:
        """The layer of a name of the form ``blocks.{layer}.…``."""
        return int(self.name.split(".")[1])

    def __repr__(self) -> str:
        counts = [(len(self.fwd_hooks), "fwd"), (len(self.bwd_hooks), "bwd")]
        return f"HookPoint({', '.join([f'name={self.name!r}', *(f'{n} {dir}' for n, dir in counts if n)])})"


class Saver:
    """A hook that saves values into a dict."""

    def __init__(self, cache: dict[str, torch.Tensor], part: Callable[[str, torch.Tensor], torch.Tensor], suffix: str):
        self.cache, self.part, self.suffix = cache, part, suffix

    def __call__(self, value: torch.Tensor, hook: HookPoint) -> None:
        self.cache[hook.name + self.suffix] = self.part(hook.name, value.detach())


def __getattr__(name: str) -> Any:
    if name != "HookedRootModule":
        raise AttributeError(f"module {__name__} has no attribute {name}")
    from .hooked_root_module import HookedRootModule  # notebooks import it from here

    return HookedRootModule
