"""Sites, and the functions that are called at them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float32]
Hook = Callable[[Array, "Site"], Any]
HookMap = Mapping[str, Hook]


@dataclass(frozen=True)
class Site:
    """A place in the forward: ``blocks.3.attn.hook_q``."""

    name: str

    @property
    def layer(self) -> int | None:
        """The number of the block; None outside the blocks."""
        match = re.search(r"(?:^|\.)(?:blocks)\.(\d+)\.", self.name)
        return int(match[1]) if match else None


class Hooks:
    """Functions for globs over sites, in the order in which they are called."""

    def __init__(self, pairs: Iterable[tuple[str, Hook]]) -> None:
        self.pairs = list(pairs)

    @property
    def globs(self) -> list[str]:
        return list(dict.fromkeys(glob for glob, _ in self.pairs))

    def find(self, name: str) -> tuple[Site, list[Hook]]:
        """The site, and the functions to call there."""
        return Site(name), [function for glob, function in self.pairs if fnmatchcase(name, glob)]
