"""Makes tests/goldens/figures.json: what PyTorch and transformers say of models that `vitrine init` writes.

    python tools/make_reference_figures.py VITRINE      VITRINE: the program

For a tiny model of every family, made by `vitrine init` with a fixed seed: transformers' logits, the
products' FLOPs of a forward and of training as torch.utils.flop_counter counts them by its hooks, and
the loss over windows of a text of ids. The tests make the same models again and compare. Also the
numbers of parameters of the presets, counted by transformers on the meta device. Needs torch and
transformers.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from torch.nn.functional import cross_entropy
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoConfig, AutoModelForCausalLM

OUT = Path(__file__).resolve().parent.parent / "tests" / "goldens" / "figures.json"
VOCABULARY = 300
IDS = [1, 5, 9, 299, 3, 77, 21, 8, 8, 250, 0, 12]
TINY = {
    "gemma-2b": ["d_model=48", "n_layers=2", "n_heads=4", "head_dim=16", "d_ff=80"],
    "gemma-2-2b": ["d_model=48", "n_layers=3", "n_heads=4", "n_kv_heads=2", "head_dim=16", "d_ff=80", "window=5"],
    "llama-3.1-8b": ["d_model=64", "n_layers=2", "n_heads=4", "n_kv_heads=2", "d_ff=96"],
    "llama-3.2-1b": ["d_model=64", "n_layers=2", "n_heads=4", "n_kv_heads=2", "head_dim=16", "d_ff=96"],
    "gpt2": ["d_model=48", "n_layers=3", "n_heads=4"],
    "gemma-3-1b": ["d_model=48", "n_layers=3", "sliding_window_pattern=3", "n_heads=4", "head_dim=16", "d_ff=80", "window=5"],
    "mistral-7b": ["d_model=64", "n_layers=2", "n_heads=4", "n_kv_heads=2", "d_ff=96", "window=5"],
    "mixtral-8x7b": ["d_model=64", "n_layers=2", "n_heads=4", "n_kv_heads=2", "d_ff=96", "n_experts=5"],
    "qwen2.5-0.5b": ["d_model=64", "n_layers=2", "n_heads=4", "n_kv_heads=2", "d_ff=96"],
    "qwen3-0.6b": ["d_model=64", "n_layers=2", "n_heads=4", "n_kv_heads=2", "head_dim=24", "d_ff=96"],
    "qwen3-30b-a3b": ["d_model=64", "n_layers=2", "n_heads=4", "n_kv_heads=2", "head_dim=24", "n_experts=8", "top_k=3", "d_ff_expert=24"],
    "pythia-160m": ["d_model=64", "n_layers=2", "n_heads=4", "d_ff=96"],
    "phi-3-mini": ["d_model=64", "n_layers=2", "n_heads=4", "n_kv_heads=2", "d_ff=96"],
    "olmo-2-7b": ["d_model=64", "n_layers=2", "n_heads=4", "n_kv_heads=2", "d_ff=96"],
    # families without a preset, by the config of a golden
    "goldens/cohere": [],
    "goldens/falcon": [],
    "goldens/falcon_new": [],
    "goldens/granite": [],
    "goldens/qwen2_moe": [],
    "goldens/starcoder2": [],
}
SHARED = [f"vocab_size={VOCABULARY}", "bos_token_id=1", "eos_token_id=2", "pad_token_id=null", "max_seq_len=64"]
HALF = ("gemma-2-2b", "llama-3.2-1b", "pythia-160m", "goldens/falcon_new")
DTYPES = {name: "bf16" if name in HALF else "f32" for name in TINY}
WINDOW, STRIDE = 8, 5  # of the evaluation; BOS is 1


def flops(run) -> int:
    counter = FlopCounterMode(display=False)
    with counter:
        run()
    return counter.get_total_flops()


def windowed_loss(model, text: list[int]) -> tuple[float, int]:
    """Each window is BOS and WINDOW - 1 tokens; a token counts in the first window that has it."""
    total, count, done = 0.0, 0, 0
    for begin in range(0, len(text), STRIDE):
        if done == len(text):
            break
        end = min(begin + WINDOW - 1, len(text))
        ids = torch.tensor([[1] + text[begin:end]])
        logits = model(ids).logits[0].double()
        losses = cross_entropy(logits[:-1], ids[0, 1:], reduction="none")
        total += float(losses[done - begin :].sum())
        count += end - done
        done = end
    return total / count, count


def figures_of(program: str, preset: str, assignments: list[str]) -> dict:
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/model"
        sets = [x for a in assignments + SHARED for x in ("--set", a)]
        golden = OUT.parent / preset.removeprefix("goldens/") / "config.json"
        source = str(golden) if preset.startswith("goldens/") else preset
        command = [program, "init", source, path, "--seed", "7", "--dtype", DTYPES[preset], *sets]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32, attn_implementation="eager")
        if hasattr(model, "set_experts_implementation"):
            model.set_experts_implementation("eager")  # the counter knows plain products
    ids = torch.tensor([IDS, IDS[::-1]])
    with torch.no_grad():
        logits = model(ids[:1]).logits[0]
        forward = flops(lambda: model(ids))
        text = [(37 * i * i + 11 * i) % VOCABULARY for i in range(40)]
        loss, count = windowed_loss(model, text)
    train = flops(lambda: model(ids, labels=ids).loss.backward())
    # The last product of the loss's backward is counted like any other: three times the forward.
    return {
        "set": assignments + SHARED,
        "dtype": DTYPES[preset],
        "params": sum(p.numel() for p in model.parameters()),
        "logits": [[round(float(x), 7) for x in row[::25]] for row in logits],
        "flops_forward": forward,
        "flops_train": train,
        "eval": {"text": text, "window": WINDOW, "stride": STRIDE, "loss": loss, "tokens": count},
    }


def preset_params(program: str) -> dict:
    names = subprocess.run([program, "init", "--help"], check=True, capture_output=True, text=True).stdout
    names = names.split("Presets: ")[1].split(".\n")[0].replace("\n", " ").split(", ")
    counts = {}
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            config = json.loads(subprocess.run([program, "info", name, "--json"], check=True, capture_output=True, text=True).stdout)
            Path(f"{folder}/config.json").write_text(json.dumps(config["file"]))
            with torch.device("meta"):
                model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder))
            counts[name.strip()] = sum(p.numel() for p in model.parameters())
    return counts


def main() -> None:
    program = sys.argv[1]
    figures = {"ids": IDS, "models": {p: figures_of(program, p, a) for p, a in TINY.items()}}
    figures["preset_params"] = preset_params(program)
    OUT.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
