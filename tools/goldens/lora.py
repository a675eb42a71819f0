"""Writes tests/goldens/lora: adapters of PEFT for other goldens, their logits and gradients in float64; and
tests/goldens/lora_heads: adapters that replace the head of a classifier, and its outputs.

Needs torch, transformers, safetensors and peft 0.21.
"""

import json
import shutil
from pathlib import Path

import torch
from goldens.files import GOLDENS
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification

BOTH = ["experts.gate_up_proj", "experts.down_proj"]
CASES = {  # the base, and what differs from the default of LoraConfig
    # Two parameters of one module, of which the first is wrapped by the second, and a module next to them.
    "experts": ("mixtral", dict(target_parameters=["mlp." + name for name in BOTH], target_modules=["q_proj"])),
    # Gates and ups alternate in one transposed tensor.
    "experts_alternating": ("gpt_oss", dict(target_parameters=BOTH, target_modules=[], rank_pattern={"experts.down_proj": 2})),
    # Transposed tensors of a module that PEFT does not know as such: A has the size of the output.
    "experts_transposed": ("llama4", dict(target_parameters=["feed_forward." + name for name in BOTH], target_modules=[])),
    # One parameter, in tensors of all experts, and a router.
    "experts_one": ("granitemoe", dict(target_parameters=["experts.gate_up_proj", "router.weight"], target_modules=[],
                                       use_rslora=True)),
    # A layer without experts, and experts next to an FFN.
    "experts_next_to_ffn": ("gemma4_moe", dict(target_parameters=["1.experts.down_proj"], target_modules=["up_proj"],
                                               alpha_pattern={"experts.down_proj": 7})),
    # PEFT takes a module called gate_proj for one of experts; as a parameter it is the shared expert's.
    "experts_shared": ("deepseek_v3", dict(target_parameters=["mlp.experts.down_proj", "shared_experts.gate_proj.weight"],
                                           target_modules=[])),
    # Latent attention never forms keys and values by head, so magnitudes act before the keys and after the values.
    "latent_dora": ("deepseek_v3", dict(target_modules=["kv_b_proj", "kv_a_proj_with_mqa", "q_b_proj"], use_dora=True)),
}  # fmt: skip


HEADS = {  # the base, and the modules that take lora
    "bert": ("heads/bert_classes", ["query", "value"]),
    "roberta": ("heads/roberta_classes", ["key", "intermediate.dense"]),  # a head of two modules
    "qwen3": ("heads/qwen3_reward", ["q_proj", "down_proj"]),
}


def write(folder: Path, base: str, options: dict) -> None:
    options_of_model = dict(dtype=torch.float64, attn_implementation="eager", experts_implementation="eager")
    model = AutoModelForCausalLM.from_pretrained(GOLDENS / base, **options_of_model)
    model = get_peft_model(model, LoraConfig(task_type="CAUSAL_LM", r=3, lora_alpha=6, **options)).eval()
    torch.manual_seed(5)
    trained = {name: param for name, param in model.named_parameters() if param.requires_grad}
    for name, param in trained.items():
        is_magnitude = "magnitude" in name
        with torch.no_grad():
            new = param * (1 + 0.3 * torch.randn_like(param)) if is_magnitude else 0.3 * torch.randn_like(param)
            param.copy_(new.float().double())
    n = model.config.vocab_size
    ids = torch.tensor([[(7 * i * i + 3 * i + 1) % n for i in range(19)]])
    logits = model(ids).logits[0]
    assert logits.dtype == torch.float64
    torch.nn.functional.cross_entropy(logits[:-1], ids[0, 1:]).backward()
    model.save_pretrained(folder / "adapter")
    (folder / "adapter" / "README.md").unlink(missing_ok=True)
    path = folder / "adapter" / "adapter_model.safetensors"
    stored = load_file(path)
    save_file({name: tensor.float().contiguous() for name, tensor in stored.items()}, path, metadata={"format": "pt"})
    config = folder / "adapter" / "adapter_config.json"
    content = json.loads(config.read_text()) | {"base_model_name_or_path": base}
    for key in ("target_modules", "target_parameters"):  # sets, whose order varies
        content[key] = sorted(content[key] or [])
    config.write_text(json.dumps(dict(sorted(content.items())), indent=2) + "\n")
    golden = {"ids": ids[0].float(), "logits": logits.detach().float().contiguous()}
    for name, param in trained.items():
        stored_name = name.replace(".default", "").replace("magnitude_vector.weight", "magnitude_vector")
        golden["grad." + stored_name] = param.grad.float().contiguous()
    assert {name.removeprefix("grad.") for name in golden} == set(stored) | {"ids", "logits"}
    save_file(golden, folder / "golden.safetensors")
    print(json.dumps({"case": folder.name, "tensors": sorted(stored)[:4]}))


def write_head(folder: Path, base: str, modules: list[str]) -> None:
    options = dict(dtype=torch.float64, attn_implementation="eager")
    model = AutoModelForSequenceClassification.from_pretrained(GOLDENS / base, **options)
    model = get_peft_model(model, LoraConfig(task_type="SEQ_CLS", r=3, lora_alpha=6, target_modules=modules)).eval()
    torch.manual_seed(7)
    for param in model.parameters():
        if param.requires_grad:
            with torch.no_grad():
                param.copy_((0.3 * torch.randn_like(param)).float().double())
    model.save_pretrained(folder / "adapter")
    (folder / "adapter" / "README.md").unlink(missing_ok=True)
    path = folder / "adapter" / "adapter_model.safetensors"
    stored = {name: tensor.float().contiguous() for name, tensor in load_file(path).items()}
    save_file(stored, path, metadata={"format": "pt"})
    config = folder / "adapter" / "adapter_config.json"
    content = json.loads(config.read_text()) | {"base_model_name_or_path": base}
    content["target_modules"] = sorted(content["target_modules"])
    config.write_text(json.dumps(dict(sorted(content.items())), indent=2) + "\n")
    n = model.config.vocab_size
    ids = torch.tensor([[4 + (7 * i * i + 3 * i + 1) % (n - 4) for i in range(19)]])
    golden = {"ids": ids[0].float(), "outputs": model(ids).logits[0].detach().float().contiguous()}
    with model.disable_adapter():
        golden["base"] = model(ids).logits[0].detach().float().contiguous()
    save_file(golden, folder / "golden.safetensors")
    print(json.dumps({"case": folder.name, "tensors": [name for name in stored if "lora" not in name]}))


def main() -> None:
    for name, (base, modules) in HEADS.items():
        folder = GOLDENS / "lora_heads" / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        write_head(folder, base, modules)
    for name, (base, options) in CASES.items():
        folder = GOLDENS / "lora" / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        write(folder, base, options)
