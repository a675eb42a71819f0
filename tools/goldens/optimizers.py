"""Writes tests/train/optimizers.safetensors: ten steps of torch.optim.AdamW and SGD, with clip_grad_norm_.

Two parameters: a matrix with weight decay, a vector without. For each optimizer NAME and step S: NAME.S.matrix and
NAME.S.vector (after the step), NAME.norms [10] (before clipping). The gradients are random; only some of them are large
enough to be clipped.
"""
import torch
from goldens.files import TESTS
from safetensors.torch import save_file

STEPS = 10


def main() -> None:
    torch.manual_seed(5)
    begin = {"matrix": torch.randn(13, 41), "vector": torch.randn(19)}
    gradients = {name: torch.randn(STEPS, *p.shape) * torch.linspace(0.006, 0.09, STEPS).view(-1, *[1] * p.dim())
                 for name, p in begin.items()}
    out = {f"begin.{name}": p.clone() for name, p in begin.items()}
    out |= {f"gradients.{name}": g.contiguous() for name, g in gradients.items()}
    for kind in ("adamw", "sgd"):
        params = {name: torch.nn.Parameter(p.clone()) for name, p in begin.items()}
        groups = [{"params": [params["matrix"]], "weight_decay": 0.1}, {"params": [params["vector"]], "weight_decay": 0.0}]
        optimizer = (torch.optim.AdamW(groups, lr=3e-3, betas=(0.9, 0.95), eps=1e-8) if kind == "adamw"
                     else torch.optim.SGD(groups, lr=0.1, momentum=0.9))
        norms = []
        for step in range(STEPS):
            for name, p in params.items():
                p.grad = gradients[name][step].clone()
            for group in optimizer.param_groups:
                group["lr"] = (3e-3 if kind == "adamw" else 0.1) * (step + 1) / STEPS
            norms.append(torch.nn.utils.clip_grad_norm_(params.values(), 1.0))
            optimizer.step()
            out |= {f"{kind}.{step}.{name}": p.detach().clone() for name, p in params.items()}
        out[f"{kind}.norms"] = torch.stack(norms)
    save_file(out, TESTS / "train/optimizers.safetensors")
