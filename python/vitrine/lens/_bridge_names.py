"""TransformerLens 4's names of vitrine's sites, which have the names that TransformerLens had before.

One table. TransformerLens 4 names a value after the module that it enters or leaves, so one site may have several names:
what ``ln1`` returns is what ``attn`` gets."""

from __future__ import annotations

import re
from collections.abc import Iterable

from . import _sites

#: Canonical name → site, both within their block, if they are of one. A name that is missing here is that of its site.
#: `ln2.hook_in` is what enters the MLP's norm, so its gradient is that of the MLP alone, as with boot_transformers().
_TABLE = {
    "embed.hook_out": "hook_embed",
    "pos_embed.hook_out": "hook_pos_embed",
    "hook_in": "hook_resid_pre",
    "attn.hook_attn_in": "hook_attn_in",
    "attn.hook_q_input": "hook_q_input",
    "attn.hook_k_input": "hook_k_input",
    "attn.hook_v_input": "hook_v_input",
    "attn.hook_in": "ln1.hook_out",
    "attn.q.hook_out": "attn.hook_q",
    "attn.k.hook_out": "attn.hook_k",
    "attn.v.hook_out": "attn.hook_v",
    "attn.o.hook_in": "attn.hook_z",
    "ln1_post.hook_in": "attn.hook_out",
    "ln1_post.hook_out": "hook_attn_out",
    "attn.hook_out": "hook_attn_out",
    "attn.o.hook_out": "hook_attn_out",
    "ln2.hook_in": "hook_mlp_in",
    "mlp.hook_in": "ln2.hook_out",
    "mlp.gate.hook_out": "mlp.hook_pre",
    "mlp.in.hook_in": "ln2.hook_out",
    "mlp.in.hook_out": "mlp.hook_pre",
    "mlp.out.hook_in": "mlp.hook_post",
    "ln2_post.hook_in": "mlp.hook_out",
    "ln2_post.hook_out": "hook_mlp_out",
    "mlp.hook_out": "hook_mlp_out",
    "mlp.out.hook_out": "hook_mlp_out",
    "hook_out": "hook_resid_post",
}
#: Names that have another site, or None, in blocks with a site of this name.
_WITH: dict[str, dict[str, str | None]] = {
    "ln1_post.hook_out": {"attn.hook_out": "attn.hook_out", "attn.o.hook_out": "attn.hook_out"},
    "ln2_post.hook_out": {"mlp.hook_out": "mlp.hook_out", "mlp.out.hook_out": "mlp.hook_out"},
    "mlp.hook_pre_linear": {"mlp.in.hook_out": "mlp.hook_pre_linear", "mlp.in.hook_in": None},
}
#: Names that exist only in blocks with a site of this name.
_NEEDS = {
    "ln1_post.hook_in": "ln1_post.hook_out",
    "ln1_post.hook_out": "ln1_post.hook_out",
    "ln2_post.hook_in": "ln2_post.hook_out",
    "ln2_post.hook_out": "ln2_post.hook_out",
    "mlp.gate.hook_out": "mlp.hook_pre_linear",
    "ln2.hook_in": "ln2.hook_out",
}
#: Legacy names that stand for the canonical name of another site.
_LEGACY = {"hook_resid_mid": "ln2.hook_in"}


class BridgeNames:
    """The names of a model's values: canonical ones, each with its site, and the legacy ones, each with a canonical one."""

    def __init__(self, sites: Iterable[str], n_layers: int) -> None:
        self.sites: dict[str, str] = {}  #: Canonical name → site.
        self.aliases: dict[str, str] = {}  #: Legacy name → canonical name.
        self._all = set(sites)
        parts: dict[str, list[str]] = {}
        for site in sites:
            block, name = _split(site)
            parts.setdefault(block, []).append(name)
        for block, names in parts.items():
            self._add(block, names)
        last = f"blocks.{n_layers - 1}.hook_resid_post"
        if last in self._all:
            self.sites["ln_final.hook_in"] = last
        if "unembed.hook_out" in self.sites:
            self.aliases["hook_unembed"] = "unembed.hook_out"

    def _add(self, block: str, names: list[str]) -> None:
        table: dict[str, str | None] = {own: site for own, site in _TABLE.items() if _NEEDS.get(own, site) in names}
        for condition, others in _WITH.items():
            table.update(others if condition in names else {})
        named: dict[str, list[str]] = {}
        for own, site in table.items():
            if site is not None:
                named.setdefault(site, []).append(own)
        for name in names:
            canonical = named.get(name, [])
            is_shown = _sites.is_of_transformer_lens(name) or name.endswith(".hook_out")
            legacy = _LEGACY.get(name)
            if legacy in table:
                self.aliases[block + name] = block + str(legacy)
            elif name not in table and is_shown:
                if canonical and not name.endswith((".hook_out", "hook_mlp_in")):
                    self.aliases[block + name] = block + canonical[0]
                else:
                    self.sites[block + name] = block + name
            for own in canonical:
                self.sites[block + own] = block + name

    def has(self, site: str) -> bool:
        return site in self._all

    def site_of(self, name: str) -> str:
        """The site of a canonical name, a legacy name or a site. Throws KeyError."""
        canonical = self.aliases.get(name, name)
        if canonical in self.sites:
            return self.sites[canonical]
        if name in self._all:
            return name
        raise KeyError(name)


def _split(site: str) -> tuple[str, str]:
    found = re.match(r"(?:blocks|encoder|decoder)\.\d+\.", site)
    return (found[0], site[found.end() :]) if found else ("", site)
