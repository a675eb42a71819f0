"""Central differences of the loss over a prompt, in float64, for a handful of elements of every tensor of a checkpoint.

For weights of any type, transformers rounds to float32 inside some layers (softmax, RMSNorm). InFloat64 prevents that.
RoPE's angles and their cosines remain float32, as RoPE is defined.
"""

import tempfile
from pathlib import Path

import numpy as np
import safetensors.torch
import torch
from goldens.gradients import clear_padding, is_buffer, mean_loss
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from transformers import PreTrainedModel

ELEMENTS = 4  # of each tensor: the one with the largest gradient, and others chosen at random
STEP = 1e-4
AGREE = 1e-8  # absolute: float64's own gradient and the difference


class InFloat64(TorchFunctionMode):
    """Replaces float32 by float64 in the arguments of functions."""

    def __init__(self) -> None:
        super().__init__()
        self.rests = False

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if self.rests:
            return func(*args, **kwargs)
        if func is Tensor.float:
            return args[0].double()
        args = tuple(torch.float64 if a is torch.float32 else a for a in args)
        if kwargs.get("dtype") is torch.float32:
            kwargs["dtype"] = torch.float64
        return func(*args, **kwargs)


def leave_angles(model: PreTrainedModel, mode: InFloat64) -> None:
    """RoPE's angles are float32 by definition."""
    for name, module in model.named_modules():
        if not name.endswith(("rotary_emb", "rotary_emb_local", "pos_emb")):
            continue

        def forward(*args, _inner=module.forward, **kwargs):
            mode.rests = True
            try:
                return _inner(*args, **kwargs)
            finally:
                mode.rests = False

        module.forward = forward


def element_tags(model: PreTrainedModel) -> dict[str, Tensor]:
    """The tensors of the file; each element is the index of that element among all elements of the parameters."""
    kept = [p.detach().clone() for p in model.parameters()]
    first = 0
    with torch.no_grad(), tempfile.TemporaryDirectory() as scratch:
        for parameter in model.parameters():
            count = parameter.numel()
            numbers = torch.arange(first, first + count, dtype=torch.float64)
            parameter.copy_(numbers.reshape(parameter.shape))
            first += count
        model.save_pretrained(scratch)
        tags = safetensors.torch.load_file(Path(scratch) / "model.safetensors")
        for parameter, value in zip(model.parameters(), kept, strict=True):
            parameter.copy_(value)
    return {name: tag.contiguous() for name, tag in tags.items() if not is_buffer(name)}


def slope(loss, flat: Tensor, i: int, step: float) -> float:
    """A central difference of fourth order: (8 (f(h) − f(−h)) − (f(2h) − f(−2h))) / 12 h."""
    before = flat[i].item()
    values = []
    for factor in (1, -1, 2, -2):
        flat[i] = before + factor * step
        values.append(loss())
    flat[i] = before
    return (8 * (values[0] - values[1]) - (values[2] - values[3])) / (12 * step)


def differences(model: PreTrainedModel, ids: Tensor, random: np.random.Generator) -> dict:
    """{"loss", "elements": [{"name", "index" (flat, in the file's tensor), "value"}]}; `model` must be in float64."""
    mode = InFloat64()
    clear_padding(model)
    leave_angles(model, mode)
    parameters = list(model.parameters())
    ends = np.cumsum([p.numel() for p in parameters])
    tags = element_tags(model)
    with mode:
        model.zero_grad()
        total = mean_loss(model, ids)
        total.backward()
    gradient = torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).reshape(-1) for p in parameters])

    def loss() -> float:
        with mode, torch.no_grad():
            return mean_loss(model, ids).item()

    elements, worst = [], 0.0
    for name, tag in sorted(tags.items()):
        places = tag.reshape(-1).long()
        chosen = {int(gradient[places].abs().argmax())}
        chosen |= {int(i) for i in random.choice(places.numel(), min(ELEMENTS - 1, places.numel()), replace=False)}
        for index in sorted(chosen):
            at = int(places[index])
            which = int(np.searchsorted(ends, at, side="right"))
            start = 0 if which == 0 else int(ends[which - 1])
            flat = parameters[which].data.view(-1)
            own = gradient[at].item()
            for step in (STEP, STEP / 16, STEP / 256):  # a kink, or another choice of experts, may be close
                value = slope(loss, flat, at - start, step)
                if abs(value - own) <= AGREE:
                    break
            else:
                raise AssertionError(f"{name}[{index}]: expected a slope of {own} (the gradient), got {value}")
            worst = max(worst, abs(value - own))
            elements.append({"name": name, "index": index, "value": value})
    return {"loss": total.item(), "largest_error": worst, "elements": elements}
