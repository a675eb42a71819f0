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
    """A place in the forward: ``blocks.3.attn.hook_q``."""

    name: str

    @property
    def layer(self) -> int | None:
        """The number of the block; None outside the blocks."""
        match = re.search(r"\bblocks\.(\d+)\.", self.name)
        return int(match[1]) if match else None


def matches(name: str, glob: str) -> bool:
    return fnmatchcase(name, glob)


def finder(pairs: Sequence[tuple[str, Hook]]) -> Find:
    """Of functions for globs over sites, in the order in which they are called."""
    return lambda name: (Site(name), [function for glob, function in pairs if matches(name, glob)])
