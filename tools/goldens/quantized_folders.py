"""Writes tests/goldens/quantized: folders in FP8 and MXFP4, and transformers' logits in float64 with their values.

The weights are random; those of FP8 have scales for blocks (oblong, the last ones partial), rows or tensors. Needs torch,
transformers and safetensors.
"""

import json
import shutil
import tempfile
from pathlib import Path

import torch
from goldens.files import GOLDENS, set_weights
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM

SIZES = dict(vocab_size=31, hidden_size=40, intermediate_size=56, num_hidden_layers=2, num_attention_heads=5,
             num_key_value_heads=1, head_dim=8, max_position_embeddings=64, tie_word_embeddings=False, bos_token_id=1,
             eos_token_id=2, pad_token_id=0)  # fmt: skip
EXPERTS = dict(num_experts=5, num_experts_per_tok=2, moe_intermediate_size=24, norm_topk_prob=True)
GROUPED = dict(n_routed_experts=5, num_experts_per_tok=2, moe_intermediate_size=24, first_k_dense_replace=1,
               n_shared_experts=1, n_group=1, topk_group=1)  # fmt: skip
WIDE = dict(hidden_size=64, intermediate_size=32, num_attention_heads=4, num_key_value_heads=2, num_local_experts=4,
            num_experts_per_tok=2)  # fmt: skip
CASES = {  # the model type, what differs from SIZES, the block of FP8
    "fp8_blocks": ("llama", {}, (24, 10)),
    "fp8_rows": ("qwen3", {}, "rows"),
    "fp8_tensors": ("qwen3_moe", EXPERTS, "tensors"),
    "fp8_square": ("glm4_moe", GROUPED, (16, 16)),
    "mxfp4": ("granitemoe", WIDE, None),
}  # fmt: skip
E2M1 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])


def to_fp8(weight: torch.Tensor, block) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Codes, scales, and the product of both in float64."""
    rows, cols = weight.shape
    height, width = (1, cols) if block == "rows" else (rows, cols) if block == "tensors" else block
    n, m = -(-rows // height), -(-cols // width)
    padded = torch.zeros(n * height, m * width)
    padded[:rows, :cols] = weight
    scales = padded.reshape(n, height, m, width).abs().amax((1, 3)) / 448
    full = scales.repeat_interleave(height, 0).repeat_interleave(width, 1)[:rows, :cols]
    codes = (weight / full).to(torch.float8_e4m3fn)
    return codes, scales.reshape(()) if block == "tensors" else scales, codes.double() * full.double()


def to_mxfp4(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Bytes of two codes, exponents, and the values."""
    x = weight.reshape(*weight.shape[:-1], -1, 32)
    exponents = torch.floor(torch.log2(x.abs().amax(-1, keepdim=True))) - 2
    scale = torch.exp2(exponents)
    codes = ((x / scale).abs()[..., None] - E2M1).abs().argmin(-1)
    values = (E2M1[codes] * scale * x.sign()).reshape(weight.shape)
    codes = (codes + 8 * (x < 0)).to(torch.uint8)
    return codes[..., 0::2] | codes[..., 1::2] << 4, (exponents[..., 0] + 127).to(torch.uint8), values.double()


def write(folder: Path, model_type: str, sizes: dict, block) -> None:
    own = {k: v for k, v in SIZES.items() if k != "head_dim" or model_type != "granitemoe"}
    config = AutoConfig.for_model(model_type, **own | sizes)
    model = AutoModelForCausalLM.from_config(config)
    set_weights(model, 3, 0.2)
    model.to(torch.bfloat16).save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    stored, exact = {}, {}
    for name, weight in load_file(folder / "model.safetensors").items():
        is_router = name.endswith("mlp.gate.weight") or "router" in name
        is_expert = "put_linear" in name
        if block is None and is_expert:
            stored[name + "_blocks"], stored[name + "_scales"], exact[name] = to_mxfp4(weight.float())
        elif block is not None and weight.dim() == 2 and not is_router and name.startswith("model.layers"):
            stored[name], stored[name + "_scale_inv"], exact[name] = to_fp8(weight.float(), block)
        else:
            stored[name], exact[name] = weight, weight.double()
    with tempfile.TemporaryDirectory() as other:
        shutil.copy(folder / "config.json", other)
        save_file(exact, Path(other) / "model.safetensors", metadata={"format": "pt"})
        options = dict(dtype=torch.float64, attn_implementation="eager", experts_implementation="eager")
        model = AutoModelForCausalLM.from_pretrained(other, **options).eval()
    ids = torch.tensor([[(7 * i * i + 3 * i + 1) % SIZES["vocab_size"] for i in range(24)]])
    with torch.no_grad():
        logits = model(ids).logits[0]
    assert logits.dtype == torch.float64
    save_file({k: v.contiguous() for k, v in stored.items()}, folder / "model.safetensors", metadata={"format": "pt"})
    save_file({"hook_tokens": ids[0].float(), "logits": logits.contiguous()}, folder / "golden.safetensors")
    content = json.loads((folder / "config.json").read_text())
    if block is None:
        content["quantization_config"] = {"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]}
    else:
        content["quantization_config"] = {
            "activation_scheme": "dynamic", "fmt": "e4m3", "modules_to_not_convert": ["lm_head"], "quant_method": "fp8",
            "weight_block_size": list(block) if isinstance(block, tuple) else None,
        }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(content, indent=2) + "\n")
    print(json.dumps({"case": folder.name, "bytes": (folder / "model.safetensors").stat().st_size}))


def main() -> None:
    for name, (model_type, sizes, block) in CASES.items():
        folder = GOLDENS / "quantized" / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        write(folder, model_type, sizes, block)
