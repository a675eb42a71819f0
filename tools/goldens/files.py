"""What the kinds share: where goldens lie, and how they are written."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"
GOLDENS = TESTS / "goldens"
MADE_TOKENIZERS = GOLDENS / "tokenizers" / "made"


def write_compact(path: Path | str, content: Any) -> None:
    """JSON on one line."""
    Path(path).write_text(json.dumps(content, separators=(",", ":")) + "\n", encoding="ascii")


def write_cases(path: Path | str, cases: list[Any]) -> None:
    """A list in JSON, one line for each element."""
    lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
    Path(path).write_text(f"[\n{lines}\n]\n", encoding="ascii")


def set_weights(model: Any, seed: int, spread: float) -> None:
    """Random weights, large enough that every part of the model changes the logits."""
    import torch

    torch.manual_seed(seed)
    for name, weight in model.named_parameters():
        is_gain = weight.dim() == 1 and name.endswith("weight")
        if weight.requires_grad:
            with torch.no_grad():
                weight.normal_(1.0 if is_gain else 0.0, spread)


def write_model(folder: Path, model: Any, sites: Callable[[], dict], gradients: Callable[[set[str]], dict]) -> None:
    """The checkpoint, golden.safetensors with `sites`, and gradients.safetensors with the `gradients` of the stored names."""
    import torch
    from safetensors.torch import load_file, save_file

    model.eval()
    model.set_attn_implementation("eager")
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    with torch.no_grad():
        save_file(sites(), folder / "golden.safetensors")
    stored = set(load_file(folder / "model.safetensors"))
    save_file(gradients(stored), folder / "gradients.safetensors")
    print(json.dumps({"case": folder.name, "parameters": sum(p.numel() for p in model.parameters())}))
