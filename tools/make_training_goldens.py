#!/usr/bin/env python3
"""Writes tests/train/adamw_steps.json: the losses of eleven training steps with transformers and torch.optim.AdamW.

Two tiny models of tests/goldens, in float32, without dropout. Every step uses the same sample, so the order does not
matter. The learning rate is constant, only matrices decay, gradients are clipped at 1.
"""
import json
import sys

import torch
from transformers import AutoModelForCausalLM

LENGTH, STEPS, LR = 24, 11, 1e-2


def main() -> None:
    torch.manual_seed(0)
    result = {"lr": LR, "decay": 0.1, "length": LENGTH, "models": {}}
    for name in ("gpt2", "llama_mha"):
        model = AutoModelForCausalLM.from_pretrained(f"tests/goldens/{name}", dtype=torch.float32,
                                                     attn_implementation="eager").eval()
        model.get_input_embeddings().padding_idx = None  # with a padding index, one row would get no gradient
        ids = torch.randint(0, model.config.vocab_size, (LENGTH + 1,), generator=torch.Generator().manual_seed(3))
        matrices = [p for p in model.parameters() if p.dim() >= 2]
        vectors = [p for p in model.parameters() if p.dim() < 2]
        optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": 0.1},
                                       {"params": vectors, "weight_decay": 0.0}], lr=LR, betas=(0.9, 0.95), eps=1e-8)
        losses = []
        for _ in range(STEPS):
            logits = model(ids[None, :-1]).logits[0]
            loss = torch.nn.functional.cross_entropy(logits, ids[1:])
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            losses.append(loss.item())
        result["models"][name] = {"ids": ids.tolist(), "losses": losses}
    path = sys.argv[1] if len(sys.argv) > 1 else "tests/train/adamw_steps.json"
    with open(path, "w", encoding="utf-8") as file:
        json.dump(result, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main()
