"""Adding and removing hooks, and runs with hooks or a cache."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, Union

import torch

from ._slice import Slice
from .hook_points import Direction, HookFunction, HookPoint, LensHandle, Saver

if TYPE_CHECKING:
    from typing_extensions import Self

NamesFilter = Union[None, str, Sequence[str], Callable[[str], bool]]
NamedHook = tuple[Union[str, Callable[[str], bool]], HookFunction]

# The sites that exist only if a flag of the config says so.
_FLAGS = {
    "hook_result": "use_attn_result",
    "hook_q_input": "use_split_qkv_input",
    "hook_k_input": "use_split_qkv_input",
    "hook_v_input": "use_split_qkv_input",
    "hook_attn_in": "use_attn_in",
    "hook_mlp_in": "use_hook_mlp_in",
    "hook_tokens": "use_hook_tokens",
}


class HookedRootModule:
    """``hook_dict`` has TransformerLens's hook points; ``mod_dict`` also has vitrine's further sites."""

    cfg: Any
    hook_dict: dict[str, HookPoint]
    mod_dict: dict[str, HookPoint]
    context_level = 0
    is_caching = False

    def forward(self, *arguments: Any, **options: Any) -> Any:
        raise NotImplementedError

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return self.forward(*arguments, **options)

    def hook_points(self) -> list[HookPoint]:
        return list(self.hook_dict.values())

    def list_hooks(
        self, name_filter: NamesFilter = None, dir: Direction = "both", including_permanent: bool = True
    ) -> dict[str, list[LensHandle]]:
        """The functions at each hook point that has any."""
        found = {}
        for point in self._points(name_filter):
            handles = (point.fwd_hooks if dir != "bwd" else []) + (point.bwd_hooks if dir != "fwd" else [])
            handles = [handle for handle in handles if including_permanent or not handle.is_permanent]
            if handles:
                found[point.name] = handles
        return found

    def fires(self, name: str) -> bool:
        """Whether a pass has the value of this hook point."""
        flag = _FLAGS.get(name.rsplit(".", 1)[-1])
        return flag is None or bool(getattr(self.cfg, flag)) or name not in self.hook_dict

    def add_hook(
        self,
        name: str | Callable[[str], bool],
        hook: HookFunction,
        dir: Literal["fwd", "bwd"] = "fwd",
        is_permanent: bool = False,
        level: int | None = None,
        prepend: bool = False,
    ) -> None:
        for point in self._named(name):
            self.check_hooks_to_add(point.name)
            point.add_hook(hook, dir, is_permanent, level, prepend)

    def check_hooks_to_add(self, name: str) -> None:
        flag = _FLAGS.get(name.rsplit(".", 1)[-1])
        assert self.fires(name), f"Cannot add hook {name} if {flag} is False"

    def add_perma_hook(
        self, name: str | Callable[[str], bool], hook: HookFunction, dir: Literal["fwd", "bwd"] = "fwd"
    ) -> None:
        self.add_hook(name, hook, dir, is_permanent=True)

    def remove_all_hook_fns(
        self, direction: Direction = "both", including_permanent: bool = False, level: int | None = None
    ) -> None:
        for point in self.mod_dict.values():
            point.remove_hooks(direction, including_permanent, level)

    def clear_contexts(self) -> None:
        for point in self.mod_dict.values():
            point.clear_context()

    def reset_hooks(
        self,
        clear_contexts: bool = True,
        direction: Direction = "both",
        including_permanent: bool = False,
        level: int | None = None,
    ) -> None:
        if clear_contexts:
            self.clear_contexts()
        self.remove_all_hook_fns(direction, including_permanent, level)
        self.is_caching = False

    @contextmanager
    def hooks(
        self,
        fwd_hooks: Sequence[NamedHook] = (),
        bwd_hooks: Sequence[NamedHook] = (),
        reset_hooks_end: bool = True,
        clear_contexts: bool = False,
    ) -> Iterator[Self]:
        """Within the block, the model has these hooks: pairs of a name, or a function of names, and a hook."""
        self.context_level += 1
        try:
            for name, hook in fwd_hooks:
                for point in self._named(name):
                    point.add_hook(hook, "fwd", level=self.context_level)
            for name, hook in bwd_hooks:
                for point in self._named(name):
                    point.add_hook(hook, "bwd", level=self.context_level)
            yield self
        finally:
            if reset_hooks_end:
                self.reset_hooks(clear_contexts, level=self.context_level)
            self.context_level -= 1

    def run_with_hooks(
        self,
        *model_args: Any,
        fwd_hooks: Sequence[NamedHook] = (),
        bwd_hooks: Sequence[NamedHook] = (),
        reset_hooks_end: bool = True,
        clear_contexts: bool = False,
        **model_kwargs: Any,
    ) -> Any:
        """Runs the model with hooks. Backward hooks are called when the result's backward runs."""
        with self.hooks(fwd_hooks, bwd_hooks, reset_hooks_end, clear_contexts):
            return self.forward(*model_args, **model_kwargs)

    def add_caching_hooks(
        self,
        names_filter: NamesFilter = None,
        incl_bwd: bool = False,
        device: Any = None,
        remove_batch_dim: bool = False,
        cache: dict[str, torch.Tensor] | None = None,
    ) -> dict[str, torch.Tensor]:
        """Adds hooks that save values into a dict, which it returns. It runs nothing."""
        cache, fwd, bwd = self.get_caching_hooks(names_filter, incl_bwd, device, remove_batch_dim, cache)
        for name, hook in fwd:
            self.mod_dict[str(name)].add_hook(hook, "fwd")
        for name, hook in bwd:
            self.mod_dict[str(name)].add_hook(hook, "bwd")
        return cache

    def get_caching_hooks(
        self,
        names_filter: NamesFilter = None,
        incl_bwd: bool = False,
        device: Any = None,
        remove_batch_dim: bool = False,
        cache: dict[str, torch.Tensor] | None = None,
        pos_slice: Any = None,
    ) -> tuple[dict[str, torch.Tensor], list[NamedHook], list[NamedHook]]:
        """A dict, and hooks that save values into it. It adds no hooks."""
        cache = {} if cache is None else cache
        positions = Slice.unwrap(pos_slice)
        self.is_caching = True

        def part(name: str, value: torch.Tensor) -> torch.Tensor:
            value = value[0] if remove_batch_dim else value
            dim = -3 if name.endswith(("hook_q", "hook_k", "hook_v", "hook_z", "hook_result")) else -2
            return positions.apply(value, dim) if value.ndim >= -dim and positions.mode != "identity" else value

        names = [point.name for point in self._points(names_filter)]
        fwd: list[NamedHook] = [(name, Saver(cache, part, "")) for name in names]
        bwd: list[NamedHook] = [(name, Saver(cache, part, "_grad")) for name in names if incl_bwd]
        return cache, fwd, bwd

    def _run_with_cache(
        self,
        *model_args: Any,
        names_filter: NamesFilter = None,
        device: Any = None,
        remove_batch_dim: bool = False,
        incl_bwd: bool = False,
        reset_hooks_end: bool = True,
        clear_contexts: bool = False,
        pos_slice: Any = None,
        **model_kwargs: Any,
    ) -> tuple[Any, dict[str, torch.Tensor]]:
        cache, fwd, bwd = self.get_caching_hooks(
            names_filter, incl_bwd, device, remove_batch_dim=remove_batch_dim, pos_slice=pos_slice
        )
        with self.hooks(fwd, bwd, reset_hooks_end, clear_contexts):
            result = self(*model_args, **model_kwargs)
            if incl_bwd:
                result.backward()
        return result, cache

    def _named(self, name: str | Callable[[str], bool]) -> list[HookPoint]:
        if isinstance(name, str):
            return [self.mod_dict[name]]
        return [point for own, point in self.hook_dict.items() if name(own)]

    def _points(self, names_filter: NamesFilter) -> list[HookPoint]:
        """A name also selects sites that TransformerLens lacks, a function does not."""
        if names_filter is None:
            return list(self.hook_dict.values())
        if callable(names_filter):
            return self._named(names_filter)
        names = {names_filter} if isinstance(names_filter, str) else set(names_filter)
        return [point for name, point in self.mod_dict.items() if name in names]
