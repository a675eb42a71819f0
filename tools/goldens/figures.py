"""Makes tests/goldens/**/figures.json: PyTorch's and transformers' figures for models that `vitrine init` writes.

    python tools/goldens figures VITRINE [GOLDEN...]      VITRINE: the program; default: all

VITRINE_DATA is the folder of data outside the repository.

For a tiny model of every family (of some presets, in goldens/figures.json; else of the config of a
golden, in its folder), made by `vitrine init` with a fixed seed: transformers' logits, the
products' FLOPs of a forward and of training as torch.utils.flop_counter counts them by its hooks, and
the loss over windows of a text of ids. The tests make the same models again and compare. The script also compares the
numbers of parameters of the decoders among the presets with transformers' count on the meta device. With VITRINE_DATA, also the loss
of stories260K over a part of its stories, computed by a Llama in this file in PyTorch; without
it that figure is kept. Needs torch, transformers, numpy and sentencepiece.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy
import sentencepiece
import torch
from torch.nn.functional import cross_entropy, silu
from torch.utils.flop_counter import FlopCounterMode
from goldens.files import GOLDENS
from goldens.state_cases import CASES
from transformers import AutoConfig, AutoModelForCausalLM

OUT = GOLDENS / "figures.json"
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
}
SHARED = [f"vocab_size={VOCABULARY}", "bos_token_id=1", "eos_token_id=2", "pad_token_id=null", "max_seq_len=64"]
HALF = ("gemma-2-2b", "llama-3.2-1b", "pythia-160m")
WINDOW, STRIDE = 8, 5  # of the evaluation; BOS is 1
STORIES = "text/tinystories_sample.txt"
STORIES_BYTES = 50_000
STORIES_WINDOWS = [(512, 511), (128, 90)]  # window, stride; the first pair is the default of `eval`


def flops(run) -> int:
    counter = FlopCounterMode(display=False)
    with counter:
        run()
    return counter.get_total_flops()


def windowed_loss(logits_of, text: list[int], window: int, stride: int) -> tuple[float, int]:
    """Each window is BOS and window - 1 tokens; a token counts in the first window that has it."""
    total, count, done = 0.0, 0, 0
    for begin in range(0, len(text), stride):
        if done == len(text):
            break
        end = min(begin + window - 1, len(text))
        ids = torch.tensor([[1] + text[begin:end]])
        logits = logits_of(ids).double()
        losses = cross_entropy(logits[:-1], ids[0, 1:], reduction="none")
        total += float(losses[done - begin :].sum())
        count += end - done
        done = end
    return total / count, count


def figures_of(program: str, source: str, assignments: list[str], dtype: str) -> dict:
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/model"
        sets = [x for a in assignments + SHARED for x in ("--set", a)]
        command = [program, "init", source, path, "--seed", "7", "--dtype", dtype, *sets]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32, attn_implementation="eager")
        if hasattr(model, "set_experts_implementation"):
            model.set_experts_implementation("eager")  # the counter knows plain products
    ids = torch.tensor([IDS, IDS[::-1]])
    with torch.no_grad():
        logits = model(ids[:1]).logits[0]
        forward = flops(lambda: model(ids))
        text = [(37 * i * i + 11 * i) % VOCABULARY for i in range(40)]
        loss, count = windowed_loss(lambda ids: model(ids).logits[0], text, WINDOW, STRIDE)
    train = flops(lambda: model(ids, labels=ids).loss.backward())
    # The last product of the loss's backward is counted like any other: three times the forward.
    return {
        "set": assignments + SHARED,
        "dtype": dtype,
        "params": sum(p.numel() for p in model.parameters()),
        "logits": [[round(float(x), 7) for x in row[::25]] for row in logits],
        "flops_forward": forward,
        "flops_train": train,
        "eval": {"text": text, "window": WINDOW, "stride": STRIDE, "loss": loss, "tokens": count},
    }


class Llama2c:
    """A llama2.c checkpoint (legacy_export) in float64, written from the formulas. T tokens; logits [T, vocabulary]."""

    def __init__(self, path: Path):
        header = numpy.fromfile(path, dtype=numpy.int32, count=7)
        self.d, d_ff, self.n_layers, self.n_heads, self.n_kv_heads, vocabulary, self.max_seq_len = map(int, header)
        assert vocabulary > 0, "a tied head is expected"
        self.rest = torch.from_numpy(numpy.fromfile(path, dtype=numpy.float32, offset=28)).double()
        d, n, self.head_dim = self.d, self.n_layers, self.d // self.n_heads
        d_kv = self.n_kv_heads * self.head_dim
        self.embed = self.take(vocabulary, d)
        self.ln1, self.wq, self.wk = self.take(n, d), self.take(n, d, d), self.take(n, d_kv, d)
        self.wv, self.wo, self.ln2 = self.take(n, d_kv, d), self.take(n, d, d), self.take(n, d)
        self.w1, self.w2, self.w3 = self.take(n, d_ff, d), self.take(n, d, d_ff), self.take(n, d_ff, d)
        self.final = self.take(d)

    def take(self, *shape: int) -> torch.Tensor:
        count = int(numpy.prod(shape))
        tensor, self.rest = self.rest[:count].reshape(shape), self.rest[count:]
        return tensor

    @staticmethod
    def norm(x, weight):
        return x / torch.sqrt((x * x).mean(-1, keepdim=True) + 1e-5) * weight

    def rotated(self, x):
        """x [T, heads, head_dim]: elements 2i and 2i + 1 rotate by position * 10000^(-2i / head_dim)."""
        frequencies = 10000.0 ** (-torch.arange(0, self.head_dim, 2, dtype=torch.float64) / self.head_dim)
        angle = torch.arange(len(x), dtype=torch.float64)[:, None, None] * frequencies
        a, b = x[..., 0::2], x[..., 1::2]
        pairs = (a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos())
        return torch.stack(pairs, dim=-1).flatten(-2)

    def attention(self, x, layer: int):
        t, group = len(x), self.n_heads // self.n_kv_heads
        q, k, v = ((x @ w[layer].T).view(t, -1, self.head_dim) for w in (self.wq, self.wk, self.wv))
        q, k = self.rotated(q), self.rotated(k).repeat_interleave(group, dim=1)
        scores = torch.einsum("thd,shd->hts", q, k) / self.head_dim**0.5
        scores += torch.full((t, t), -torch.inf, dtype=scores.dtype).triu(1)
        z = torch.einsum("hts,shd->thd", scores.softmax(-1), v.repeat_interleave(group, dim=1))
        return z.reshape(t, -1) @ self.wo[layer].T

    def __call__(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.embed[ids[0]]
        for layer in range(self.n_layers):
            x = x + self.attention(self.norm(x, self.ln1[layer]), layer)
            h = self.norm(x, self.ln2[layer])
            x = x + (silu(h @ self.w1[layer].T) * (h @ self.w3[layer].T)) @ self.w2[layer].T
        return self.norm(x, self.final) @ self.embed.T


def stories_figures(data: Path) -> dict:
    folder = data / "models" / "stories260K"
    model = Llama2c(folder / "stories260K.bin")
    tokenizer = sentencepiece.SentencePieceProcessor(model_file=str(folder / "tok512.model"))
    text = (data / STORIES).read_bytes()[:STORIES_BYTES]
    ids = tokenizer.encode(text.decode())
    evals = []
    for window, stride in STORIES_WINDOWS:
        loss, count = windowed_loss(model, ids, window, stride)
        evals.append({"window": window, "stride": stride, "loss": loss, "tokens": count})
    return {"text": STORIES, "bytes": len(text), "evals": evals}


def presets(program: str) -> dict[str, dict]:
    """The output of `info` for each preset."""
    names = subprocess.run([program, "init", "--help"], check=True, capture_output=True, text=True).stdout
    names = "".join(names.split("Presets: ")[1].split(".\n")[0].split()).split(",")
    info = {}
    for name in names:
        result = subprocess.run([program, "info", name, "--json"], check=True, capture_output=True, text=True)
        info[name] = json.loads(result.stdout)
    return info


def check_parameters(name: str, info: dict) -> None:
    """Asserts that transformers counts as many parameters as the program."""
    with tempfile.TemporaryDirectory() as folder:
        Path(f"{folder}/config.json").write_text(json.dumps(info["file"]))
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder))
    stored = model.state_dict().keys()
    counted = sum(p.numel() for p in model.parameters())
    counted += sum(b.numel() for name, b in model.named_buffers() if name in stored)
    assert counted == info["params"], f"{name}: transformers counts {counted}, the program {info['params']}"


def make_golden_figures(program: str, wanted: list[str], covered: set[str]) -> None:
    """Makes figures.json for the goldens whose family (model_type) no preset covers."""
    for case in CASES:
        config = GOLDENS / case.name / "config.json"
        if (wanted and case.name not in wanted) or json.loads(config.read_text())["model_type"] in covered:
            continue
        figures = figures_of(program, str(config), [], "f32" if case.dtype == torch.float32 else "bf16")
        (config.parent / "figures.json").write_text(json.dumps(figures, indent=1) + "\n")


def main() -> None:
    program, *wanted = sys.argv[1:]
    assert set(wanted) <= {case.name for case in CASES}, f"expected names of goldens, got {wanted}"
    known = presets(program)
    decoders = {case.model_class.config_class.model_type for case in CASES}
    for name, info in known.items():
        if info["file"]["model_type"] in decoders:
            check_parameters(name, info)
    make_golden_figures(program, wanted, {known[preset]["file"]["model_type"] for preset in TINY})
    if wanted:
        return
    data = os.environ.get("VITRINE_DATA")
    stories = stories_figures(Path(data)) if data else json.loads(OUT.read_text())["stories260K"]
    models = {p: figures_of(program, p, sizes, "bf16" if p in HALF else "f32") for p, sizes in TINY.items()}
    OUT.write_text(json.dumps({"ids": IDS, "models": models, "stories260K": stories}, indent=1) + "\n")
