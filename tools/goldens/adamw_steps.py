"""Writes tests/train/adamw_steps.json: the losses of eleven training steps with transformers and torch.optim.AdamW.

Tiny models of tests/goldens, among them experts, latent attention and every kind of layer with a state, in float32,
without dropout. Every step uses the same sample, so the order does not matter. The learning rate is constant, only
matrices decay, gradients are clipped at 1.
"""
import json

import torch
from goldens.files import GOLDENS, TESTS
from transformers import AutoModelForCausalLM

LENGTH, STEPS, LR = 24, 11, 1e-2
MODELS = ("gpt2", "llama_mha", "exaone_moe", "deepseek_v3", "gemma4", "gpt_oss")
STATE_LR = 1e-3  # of random weights of this size: larger steps amplify rounding tenfold each
STATE_MODELS = ("mamba", "mamba2", "falcon_mamba", "falcon_h1", "lfm2", "qwen3_5", "olmo_hybrid",
                "kimi_linear")


def main() -> None:
    torch.manual_seed(0)
    result = {"decay": 0.1, "length": LENGTH, "models": {}}
    for name in MODELS + STATE_MODELS:
        lr = LR if name in MODELS else STATE_LR
        model = AutoModelForCausalLM.from_pretrained(GOLDENS / name, dtype=torch.float32,
                                                     attn_implementation="eager").eval()
        if hasattr(model, "set_experts_implementation"):
            model.set_experts_implementation("eager")
        for embedding in (m for m in model.modules() if isinstance(m, torch.nn.Embedding)):
            embedding.padding_idx = None  # with a padding index, one row would get no gradient
        ids = torch.randint(0, model.config.vocab_size, (LENGTH + 1,), generator=torch.Generator().manual_seed(3))
        vectors_of_any_shape = ("bias", "A_log")  # biases by expert, rates by channel
        decays = {n: p.dim() >= 2 and not n.endswith(vectors_of_any_shape) for n, p in model.named_parameters()}
        matrices = [p for n, p in model.named_parameters() if decays[n]]
        vectors = [p for n, p in model.named_parameters() if not decays[n]]
        optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": 0.1},
                                       {"params": vectors, "weight_decay": 0.0}], lr=lr, betas=(0.9, 0.95), eps=1e-8)
        losses = []
        for _ in range(STEPS):
            logits = model(ids[None, :-1]).logits[0]
            loss = torch.nn.functional.cross_entropy(logits, ids[1:])
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            losses.append(loss.item())
        result["models"][name] = {"lr": lr, "ids": ids.tolist(), "losses": losses}
    (TESTS / "train/adamw_steps.json").write_text(json.dumps(result, indent=1) + "\n")
