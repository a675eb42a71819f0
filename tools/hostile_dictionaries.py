#!/usr/bin/env python3
"""Runs the program on malformed dictionaries of features: tools/hostile_dictionaries.py build/vitrine [--quick]

As tools/hostile_checkpoints.py, with the same rules: from tiny dictionaries of every format it makes truncated files, wrong
headers, sizes, types and keys, numbers that are not finite, archives that inflate to gigabytes, and pickles under every
name, and runs `vitrine logits --sae DICTIONARY --sae-use replace` on each. Needs only Python.
"""

import argparse
import functools
import io
import json
import os
import pickle
import random
import shutil
import struct
import sys
import tempfile
import zipfile

from hostile_checkpoints import GOLDENS, WRONG_VALUES, Runner, Starter, config_cases, safetensors_cases, text_cases, write

D, N = 24, 40  # the golden model's width; features
SITE = "blocks.1.hook_resid_post"
NUMBERS = random.Random(3)


def floats(*shape):
    count = 1
    for size in shape:
        count *= size
    return shape, struct.pack(f"<{count}f", *(NUMBERS.gauss(0, 0.3) for _ in range(count)))


def safetensors(tensors):
    header, body = {}, b""
    for name, (shape, data) in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + body


def npy(shape, data, descr="<f4"):
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': ({', '.join(map(str, shape))},), }}"
    header = header.ljust(117).encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data


def archive(members, method=zipfile.ZIP_STORED):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as zipped:
        for name, data in members.items():
            zipped.writestr(name, data)
    return out.getvalue()


def weights():
    return {"W_enc": floats(D, N), "W_dec": floats(N, D), "b_enc": floats(N), "b_dec": floats(D)}


def config(architecture, **keys):
    return {"architecture": architecture, "d_in": D, "d_sae": N, "hook_name": SITE, "apply_b_dec_to_input": True,
            "normalize_activations": "none", **keys}


def formats():
    """The name of each format, its files, and the file with its weights."""
    by_rows = {"encoder.weight": floats(N, D), "encoder.bias": floats(N)}
    saelens = "sae_weights.safetensors"
    for name, cfg, tensors in (
            ("standard", config("standard"), weights()),
            ("topk", config("topk", k=3, rescale_acts_by_decoder_norm=True), weights()),
            ("jumprelu", config("jumprelu", normalize_activations="layer_norm"), {**weights(), "threshold": floats(N)}),
            ("gated", config("gated"), {"W_enc": floats(D, N), "W_dec": floats(N, D), "b_gate": floats(N),
                                        "b_mag": floats(N), "r_mag": floats(N), "b_dec": floats(D)})):
        yield name, {"cfg.json": json.dumps(cfg).encode(), saelens: safetensors(tensors)}, saelens
    yield "sparsify", {"cfg.json": json.dumps({"k": 3, "num_latents": N, "d_in": D}).encode(), "sae.safetensors": safetensors(
        {**by_rows, "W_dec": floats(N, D), "b_dec": floats(D)})}, "sae.safetensors"
    scope = {"w_enc": floats(D, N), "w_dec": floats(N, D), "b_enc": floats(N), "b_dec": floats(D), "threshold": floats(N)}
    yield "scope 2", {"config.json": json.dumps({"architecture": "jump_relu", "hf_hook_point_in": "model.layers.1.output",
                                                 "hf_hook_point_out": "model.layers.1.output"}).encode(),
                      "params.safetensors": safetensors(scope)}, "params.safetensors"
    yield "llama scope", {"hyperparams.json": json.dumps(
        {"d_model": D, "d_sae": N, "hook_point_in": SITE, "hook_point_out": SITE, "jump_relu_threshold": 0.3,
         "dataset_average_activation_norm": {"in": 7.3, "out": 7.3}, "act_fn": "jumprelu", "use_decoder_bias": True,
         "norm_activation": "dataset-wise"}).encode(), "checkpoints/final.safetensors": safetensors(
        {**by_rows, "decoder.weight": floats(D, N), "decoder.bias": floats(D)})}, "checkpoints/final.safetensors"
    yield "learning", {"config.json": json.dumps({"trainer": {"dict_class": "AutoEncoder", "layer": 1}}).encode(),
                       "ae.safetensors": safetensors({**by_rows, "decoder.weight": floats(D, N), "bias": floats(D)})}, \
        "ae.safetensors"
    yield "tracer", {"config.yaml": b"model_kind: transcoder_set\nfeature_input_hook: ln2.hook_out\n"
                                    b"feature_output_hook: hook_mlp_out\nscan: [a, {b: c}]\n",
                     "layer_0.safetensors": safetensors({**weights(), "W_enc": floats(N, D)})}, "layer_0.safetensors"
    arrays = {f"{name}.npy": npy(*value) for name, value in {**weights(), "threshold": floats(N)}.items()}
    yield "npz", {"params.npz": archive(arrays)}, "params.npz"
    yield "npz deflated", {"params.npz": archive(arrays, zipfile.ZIP_DEFLATED)}, "params.npz"


class DictionaryRunner(Runner):
    def command(self, path):
        site = "" if os.path.exists(os.path.join(path, "config.yaml")) else "@" + SITE
        return ["logits", os.path.join(GOLDENS, "llama_mha"), "--ids", "0,1,2", "--sae", path + site, "--sae-use", "replace"]


class Files:
    def __init__(self, path, files):
        self.path, self.files = path, files

    def write(self, changes):
        shutil.rmtree(self.path, ignore_errors=True)
        for name, data in {**self.files, **changes}.items():
            if data is not None:
                os.makedirs(os.path.dirname(os.path.join(self.path, name)), exist_ok=True)
                write(os.path.join(self.path, name), data)
        return self.path


def not_finite(data):
    """Each tensor with a NaN and an infinity as its first element. What no active feature reads has no effect."""
    size = struct.unpack("<Q", data[:8])[0]
    for name, entry in json.loads(data[8:8 + size]).items():
        at = 8 + size + entry["data_offsets"][0]
        for value in (0x7FC00000, 0x7F800000, 0xFF800000, 0x7F7FFFFF):
            yield f"{name} begins with {value:x}", data[:at] + struct.pack("<I", value) + data[at + 4:]


@functools.cache
def bombs():
    """Small archives of half a gigabyte of zeros and more: one array, and many that are small."""
    one = npy((1 << 28,), bytes(1 << 29), "<f2")
    many = npy((1 << 24,), bytes(1 << 25), "<f2")
    return [("one large array", archive({"W_enc.npy": one}, zipfile.ZIP_DEFLATED)),
            ("many large arrays", archive({f"a{i}.npy": many for i in range(30)}, zipfile.ZIP_DEFLATED))]


def npz_cases(data):
    """Triples of (what, file, whether it must be refused)."""
    for at in range(0, len(data), 64):
        yield f"cut at {at}", data[:at], True
    directory = data.index(b"PK\x01\x02")
    for at in range(directory, len(data)):
        for value in (0, 1, 0x7F, 0xFF):
            yield f"byte {at} = {value}", data[:at] + bytes([value]) + data[at + 1:], False
    good = {f"{name}.npy": npy(*value) for name, value in {**weights(), "threshold": floats(N)}.items()}
    for what, bomb in bombs():
        yield what, bomb, True
    for name in good:
        yield f"no {name}", archive({key: value for key, value in good.items() if key != name}), True
        for what, array in (("objects", npy((2,), pickle.dumps([1, 2]), "|O")), ("complex", npy((2,), bytes(16), "<c8")),
                            ("large", npy((2**62, 2**62), bytes(16))), ("negative", npy((-1,), bytes(16))),
                            ("no array", b"text"), ("empty", b""), ("a structure", npy((1,), bytes(8), "[('a'")),
                            ("without elements", npy((0,), b"")), ("short", npy((N, D), bytes(8)))):
            yield f"{name}: {what}", archive({**good, name: array}), True
    yield "65 arrays", archive({**good, **{f"x{i}.npy": npy((1,), bytes(4)) for i in range(65)}}), True
    yield "a text", archive({**good, "readme.txt": b"text"}), True
    yield "an array twice", archive({**good, "./W_enc.npy": good["W_enc.npy"]}), True


def pickles():
    class Harm:
        def __reduce__(self):
            return os.system, ("true",)
    for protocol in range(0, 6):
        yield f"protocol {protocol}", pickle.dumps({"W_enc": [1.0], "harm": Harm()}, protocol)
    yield "a zip of torch", archive({"archive/data.pkl": pickle.dumps({"a": 1}, 2), "archive/version": b"3\n"})
    yield "an older file of torch", pickle.dumps(0x1950A86A20F9469CFC6C, 2) + pickle.dumps(1001, 2)


def run(runner, scratch):
    for turn, (name, contents, weights_name) in enumerate(formats()):
        files = Files(f"{scratch}/dictionary", contents)
        broken = len(runner.broken)
        quick, runner.quick = runner.quick, False
        runner.check("as they are", name, lambda: files.write({}), False)
        runner.quick = quick
        if len(runner.broken) > broken or runner.counts["as they are"][1] > 0:
            raise RuntimeError(f"{name} is refused: {open(runner.errors).read()}")
        data = contents[weights_name]
        if weights_name.endswith(".npz"):
            for what, harmed, must_fail in npz_cases(data):
                runner.check(name, what, lambda: files.write({weights_name: harmed}), must_fail)
        else:
            for what, harmed in safetensors_cases(data):
                runner.check(name, what, lambda: files.write({weights_name: harmed}), True)
            for what, harmed in not_finite(data):
                runner.check("not finite", f"{name} {what}", lambda: files.write({weights_name: harmed}), False)
        for file, text in contents.items():
            for what, pickled in pickles():
                runner.check("pickles", f"{name} {file} {what}", lambda: files.write({file: pickled}), True)
            runner.check("missing", f"{name} {file}", lambda: files.write({file: None}), True)
            if file.endswith(".json"):
                for what, harmed in text_cases(text, 16):
                    runner.check("config", f"{name} {what}", lambda: files.write({file: harmed}), what != "b'{}'")
                for what, harmed in config_cases(json.loads(text), turn):
                    runner.check("config values", f"{name} {what}", lambda: files.write({file: harmed}), False)
            if file.endswith(".yaml"):
                for at in range(0, 60, 3):
                    runner.check("yaml", f"cut at {at}", lambda: files.write({file: text[:at]}), True)
                for what, harmed in (("nested lists", b"a: " + b"[" * 200000), ("nested keys", b"{a: " * 200000),
                                     ("aliases", b"a: &a [x]\nb: &b [*a, *a]\n" * 1000), ("tabs", b"\ta: b"),
                                     ("no text", b"\xff\xfe" * 100), ("NUL", b"a: \0"), ("tags", b"!!python/object:os.system x"),
                                     ("a list", b"- a\n- b"), ("a key twice", text + text)):
                    runner.check("yaml", what, lambda: files.write({file: harmed}), True)
                for value in map(str, WRONG_VALUES):
                    for key in ("model_kind", "feature_input_hook", "feature_output_hook"):
                        harmed = b"\n".join(f"{key}: {value}".encode() if line.startswith(key.encode()) else line
                                           for line in text.split(b"\n"))
                        runner.check("yaml", f"{key}: {value}", lambda: files.write({file: harmed}), True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("program")
    parser.add_argument("--quick", action="store_true", help="every 16th case")
    o = parser.parse_args()
    starter = Starter()
    with tempfile.TemporaryDirectory() as scratch:
        runner = DictionaryRunner(starter, o.program, scratch, o.quick)
        run(runner, scratch)
        runner.report()
    sys.exit(1 if runner.broken else 0)


if __name__ == "__main__":
    main()
