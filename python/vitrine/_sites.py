"""Sites, and the functions that are called at them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float32]
Hook = Callable[[Array, "Site"], Any]
HookMap = Mapping[str, Hook]
Find = Callable[[str], tuple["Site", list[Hook]]]
"""Returns the site of a name, and the functions to call there."""


@dataclass(frozen=True)
class Site:
    """A place in the forward: ``blocks.3.attn.hook_q``, ``decoder.3.cross_attn.hook_q``."""

    name: str

    @property
    def layer(self) -> int | None:
        """The number of the block, in an encoder–decoder that of its stack; None outside the blocks."""
        match = re.match(r"(?:blocks|encoder|decoder)\.(\d+)\.", self.name)
        return int(match[1]) if match else None


_WILDCARD = re.compile(r"[*?[]")


def matches(name: str, glob: str) -> bool:
    return fnmatchcase(name, glob)


def finder(pairs: Sequence[tuple[str, Hook]]) -> Find:
    """Of functions for globs over sites, in the order in which they are called."""
    named: dict[str, list[tuple[int, Hook]]] = {}
    globs: list[tuple[int, str, Hook]] = []
    for i, (glob, function) in enumerate(pairs):
        if _WILDCARD.search(glob) is None:
            named.setdefault(glob, []).append((i, function))
        else:
            globs.append((i, glob, function))

    def find(name: str) -> tuple[Site, list[Hook]]:
        found = named.get(name, []) + [(i, function) for i, glob, function in globs if matches(name, glob)]
        found.sort(key=lambda entry: entry[0])
        return Site(name), [function for _, function in found]

    return find
