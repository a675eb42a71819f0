"""The loss over a prompt and its gradient with respect to every parameter, under the names of the checkpoint's files.

The gradients replace the weights and are saved as transformers saves weights, so names, orientation and fused or stacked
tensors are those of the files, and a tied weight appears once, with the sum of both uses.
"""

import tempfile
from pathlib import Path

import safetensors.torch
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel


def mean_loss(model: PreTrainedModel, ids: Tensor) -> Tensor:
    """The mean cross-entropy of each token after the first, in nats."""
    logits = model(ids[None], use_cache=False).logits[0, :-1]
    return nn.functional.cross_entropy(logits, ids[1:])


def clear_padding(model: PreTrainedModel) -> None:
    """Makes padding an ordinary token: nn.Embedding would drop its gradient."""
    for module in model.modules():
        if isinstance(module, nn.Embedding):
            module.padding_idx = None


def is_buffer(name: str) -> bool:
    """A tensor of the file that has no gradient."""
    return name.endswith(
        ("e_score_correction_bias", "layer_scalar", "act_fn.beta", "act_fn.eps", "mlp.expert_bias", "feed_forward.expert_bias")
    )


def gradients(model: PreTrainedModel, ids: Tensor) -> dict[str, Tensor]:
    """The gradients by name, and `loss` [1]. Overwrites the model's weights."""
    clear_padding(model)
    loss = mean_loss(model, ids)
    model.zero_grad()
    loss.backward()
    with torch.no_grad(), tempfile.TemporaryDirectory() as scratch:
        for parameter in model.parameters():
            grad = parameter.grad
            parameter.copy_(torch.zeros_like(parameter) if grad is None else grad)
        model.save_pretrained(scratch)
        tensors = safetensors.torch.load_file(Path(scratch) / "model.safetensors")
    trained = {name: value.contiguous() for name, value in tensors.items() if not is_buffer(name)}
    return trained | {"loss": loss.detach()[None]}
