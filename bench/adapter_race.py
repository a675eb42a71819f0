#!/usr/bin/env python3
"""Compares steps of training an adapter with PyTorch and PEFT, and with training the whole model, on one machine.

    adapter_race.py VITRINE MODEL [--runs sft,half,dpo,full,decode] [--batch 4] [--seq 256] [--rank 16] [--threads 2]
                    [--steps 4] [--rounds 3] [--tokenizer T] [--compiled] [--json]

MODEL is a Hugging Face folder of the family GPT-2, with a tokenizer, unless --tokenizer names one. An adapter of rank 16
changes all linear maps of the blocks, in float32, without dropout; a step is forward, loss, backward, clipping and
AdamW. The runs:

    sft     the adapter, all ids are learned
    half    the adapter, the second half of every sequence is learned
    dpo     the adapter, BATCH / 2 pairs of sequences, which share their first half; the reference is the model without
            the adapter
    full    the whole model, all ids and the second half
    decode  one token after another, with and without the adapter (vitrine alone)

Every run of every engine is a process of its own, so that its peak of memory is its own; the first step warms up. The
engines take turns. PyTorch uses scaled_dot_product_attention, its fused AdamW and no gradient checkpointing; --compiled
also runs it with torch.compile, if that works on this machine, and compares with it, too. PEFT computes the scores of
the reference in every step; vitrine computes them once for each pair before the first step, so their time for a batch is
added to that of a step. Tokens per second count all ids that are read, and a pair as two sequences. Prints medians, and
medians of the ratios within a round. Needs torch, transformers and peft.
"""
import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BARS = {"sft": (1.3, 0.4), "half": (1.5, 0.4), "dpo": (1.4, 0.45)}  # speed and memory compared with PEFT
OWN_BARS = {"sft": ("full", 1.35), "half": ("full", 1.55)}

PEFT = """
import json, resource, sys, time, torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM
model_path, data, kind, rank, threads, compiled = sys.argv[1:4] + [int(word) for word in sys.argv[4:]]
torch.set_num_threads(threads)
model = AutoModelForCausalLM.from_pretrained(model_path, dtype=torch.float32, attn_implementation="sdpa")
for module in model.modules():
    if isinstance(module, torch.nn.Dropout):
        module.p = 0.0
model = get_peft_model(model, LoraConfig(r=rank, lora_alpha=rank, lora_dropout=0.0, target_modules="all-linear",
                                         fan_in_fan_out=True, task_type="CAUSAL_LM"))
model.train()
run = torch.compile(model) if compiled else model
learned = [p for p in model.parameters() if p.requires_grad]
optimizer = torch.optim.AdamW(learned, lr=1e-4, weight_decay=0.0, fused=True)

def scores(ids, labels):
    logits = run(input_ids=ids, use_cache=False).logits[:, :-1]
    nats = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels[:, 1:].flatten(), reduction="none")
    return -nats.view(len(ids), -1).sum(-1)

def loss_of(ids, labels):
    if kind != "dpo":
        return run(input_ids=ids, labels=labels, use_cache=False).loss
    with torch.no_grad(), model.disable_adapter():
        reference = scores(ids, labels)
    delta = scores(ids, labels) - reference
    return -torch.nn.functional.logsigmoid(0.1 * (delta[0::2] - delta[1::2])).mean()

times = []
for batch in json.load(open(data)):
    ids, labels = torch.tensor(batch["ids"]), torch.tensor(batch["labels"])
    begin = time.perf_counter()
    loss = loss_of(ids, labels)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(learned, 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    times.append(time.perf_counter() - begin)
    print(loss.item(), file=sys.stderr)
print(json.dumps({"seconds": times[1:], "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}))
"""


def batches_of(args, kind):
    """Ids and labels (-100: not learned) of one step more than are timed."""
    draw, n_ids = random.Random(7), json.loads((Path(args.model) / "config.json").read_text())["vocab_size"]
    half, batches = args.seq // 2, []
    for _ in range(args.steps + 1):
        rows = [[draw.randrange(n_ids) for _ in range(args.seq)] for _ in range(args.batch)]
        if kind == "dpo":
            for chosen, rejected in zip(rows[0::2], rows[1::2]):
                rejected[:half] = chosen[:half]
        n_given = 0 if kind == "sft" else half
        batches.append({"ids": rows, "labels": [[-100] * n_given + row[n_given:] for row in rows]})
    return batches


def write_lines(path, args, kind):
    lines, half = [], args.seq // 2
    for batch in batches_of(args, kind):
        if kind == "dpo":
            pairs = zip(batch["ids"][0::2], batch["ids"][1::2])
            lines += [{"prompt": c[:half], "chosen": c[half:], "rejected": r[half:]} for c, r in pairs]
        else:
            lines += [{"input_ids": ids, "labels": labels} for ids, labels in zip(batch["ids"], batch["labels"])]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def run_peft(args, kind, folder, compiled):
    data = folder / "batches.json"
    data.write_text(json.dumps(batches_of(args, kind)))
    words = [sys.executable, "-c", PEFT, args.model, data, kind, args.rank, args.threads, int(compiled)]
    out = subprocess.run([str(word) for word in words], check=not compiled, capture_output=True, text=True)
    if out.returncode != 0:
        return None  # torch.compile does not run on this machine
    found = json.loads(out.stdout.splitlines()[-1])
    loss = float(out.stderr.splitlines()[-1])
    return {"speed": args.batch * args.seq / statistics.median(found["seconds"]), "memory": found["memory"], "loss": loss}


def run_vitrine(args, kind, whole, folder):
    """`vitrine train`, with the speed of every step from its metrics."""
    lines, config, out = folder / "lines.jsonl", folder / "config.toml", folder / "run"
    write_lines(lines, args, kind)
    tokenizer = f"tokenizer = {json.dumps(args.tokenizer)}" if args.tokenizer else ""
    text = f"""
[model]
from = {json.dumps(args.model)}
[data]
{"pairs" if kind == "dpo" else "conversations"} = {json.dumps(str(lines))}
{tokenizer}
order = "file"
[train]
steps = {args.steps + 1}
batch = {args.batch // 2 if kind == "dpo" else args.batch}
seq_len = {args.seq}
[optimizer]
weight_decay = 0
[schedule]
name = "constant"
lr = 1e-4
[log]
every = 1
[out]
folder = {json.dumps(str(out))}
"""
    if not whole:
        text += f"[lora]\nrank = {args.rank}\nalpha = {args.rank}\n"
    if kind == "dpo":
        text += '[preference]\nobjective = "dpo"\nbeta = 0.1\n'
    config.write_text(text)
    command = [args.vitrine, "train", str(config), "--threads", str(args.threads)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    said, begun = [], None
    for line in process.stderr:
        said.append(line)
        if "the reference scores all pairs" in line:
            begun = time.time()
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit("".join(said))
    metrics = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    seconds = statistics.median(args.batch * args.seq / m["tokens_per_s"] for m in metrics[1:])
    if begun is not None:
        seconds += ((out / "reference.json").stat().st_mtime - begun) / (args.steps + 1)
    return {"speed": args.batch * args.seq / seconds, "memory": usage.ru_maxrss * 1024, "loss": metrics[-1]["loss"]}


def run_decode(args, folder):
    adapter = str(folder / "adapter")
    if not os.path.exists(adapter):
        subprocess.run([args.vitrine, "lora", "new", args.model, adapter, "--rank", str(args.rank), "--alpha",
                        str(args.rank)], check=True, capture_output=True)
    command = [args.vitrine, "bench", args.model, "--prompt", "64", "--generate", "64", "--threads", str(args.threads),
               "--json"]
    speeds = {}
    for name, words in {"vitrine": [], "vitrine, adapter": ["--adapter", adapter]}.items():
        out = json.loads(subprocess.run(command + words, check=True, capture_output=True).stdout)
        speeds[name] = {"speed": out["decode_tokens_per_s"], "memory": out["peak_rss_bytes"]}
    return speeds


def run_once(args, run, compiled):
    """Speed, memory and last loss by (run, engine)."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        if run == "decode":
            return {("decode", engine): found for engine, found in run_decode(args, folder).items()}
        if run == "full":
            found = {}
            for kind in ("sft", "half"):
                (folder / kind).mkdir()
                found["full, half" if kind == "half" else "full", "vitrine"] = run_vitrine(
                    args, kind, True, folder / kind)
            return found
        found = {(run, "vitrine"): run_vitrine(args, run, False, folder), (run, "PEFT"): run_peft(args, run, folder, False)}
        peft = run_peft(args, run, folder, True) if compiled else None
        if peft is not None:
            found[run, "PEFT, compiled"] = peft
        return found


def ratios_of(rounds):
    """Medians of the ratios within a round, with their bars, where they have one."""
    ratios = []

    def add(name, figure, above, below, bar):
        if all(above in r and below in r for r in rounds):
            ratios.append((name, statistics.median(r[above][figure] / r[below][figure] for r in rounds), bar))

    for kind, (speed, memory) in BARS.items():
        add(f"{kind}: speed / compiled PEFT's", "speed", (kind, "vitrine"), (kind, "PEFT, compiled"), f">= {speed}")
        add(f"{kind}: speed / PEFT's", "speed", (kind, "vitrine"), (kind, "PEFT"), f">= {speed}")
        add(f"{kind}: memory / PEFT's", "memory", (kind, "vitrine"), (kind, "PEFT"), f"<= {memory}")
    for kind, (whole, bar) in OWN_BARS.items():
        add(f"{kind}: speed / the whole model's", "speed", (kind, "vitrine"), (whole, "vitrine"), f">= {bar}")
    add("decode: with the adapter / without", "speed", ("decode", "vitrine, adapter"), ("decode", "vitrine"), ">= 0.9")
    return ratios


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("vitrine")
    parser.add_argument("model")
    parser.add_argument("--runs", default="sft,half,dpo,full,decode")
    for name, value in {"batch": 4, "seq": 256, "rank": 16, "threads": 2, "steps": 4, "rounds": 3}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--tokenizer")
    parser.add_argument("--compiled", action="store_true")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    args.model = os.path.abspath(args.model)

    rounds = []
    for _ in range(args.rounds):
        rounds.append({})
        for run in args.runs.split(","):
            rounds[-1].update(run_once(args, run, args.compiled))
    median = lambda key, figure: statistics.median(r[key][figure] for r in rounds)
    if args.json:
        runs = [{"run": run, "engine": engine, "tokens_per_s": [r[run, engine]["speed"] for r in rounds],
                 "peak_rss_bytes": [r[run, engine]["memory"] for r in rounds],
                 "last_loss": rounds[-1][run, engine].get("loss")} for run, engine in rounds[0]]
        ratios = [{"ratio": name, "median": value, "bar": bar} for name, value, bar in ratios_of(rounds)]
        return print(json.dumps({"runs": runs, "ratios": ratios}, indent=1))
    print(f"{args.model}: batch {args.batch} x {args.seq}, rank {args.rank}, {args.threads} threads, {args.rounds} rounds")
    for run, engine in rounds[0]:
        key = run, engine
        loss = f"   loss {rounds[-1][key]['loss']:.5f}" if "loss" in rounds[-1][key] else ""
        print(f"{run:12} {engine:18} {median(key, 'speed'):8.1f} tokens/s {median(key, 'memory') / 1e6:8.0f} MB{loss}")
    for name, value, bar in ratios_of(rounds):
        print(f"{name:38} {value:6.2f}   {bar}")


if __name__ == "__main__":
    main()
