#!/usr/bin/env python3
"""Runs the program on malformed checkpoints: tools/hostile_checkpoints.py build/vitrine [--quick]

From tiny models in every format (a folder with one safetensors file, with shards and an index, GGUF in version 2 and 3,
split GGUF, llama2.c) it makes files truncated at every 64th byte, with false offsets, sizes, counts, types and keys, and
configs that contradict the tensors, and runs `vitrine logits` on each. A file that must be rejected has to end the run with
status 1 and one line on stderr. If a change may be harmless, status 0 without output is also correct. No run may end by a
signal, take 2 s, or use 300 MB at its peak. Prints counts, the worst time and memory, and the violations; the exit status
is 1 if there are any. Needs only Python. --quick runs every 16th case.
"""

import argparse
import json
import os
import re
import resource
import shutil
import struct
import subprocess
import sys
import tempfile
import time

GOLDENS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "goldens")
MAX_SECONDS, MAX_MEGABYTES = 2.0, 300.0  # processor time, which does not depend on other processes
MAX_WAIT = 20.0
WRONG_NUMBERS = [0, -1, 1, 3, 7, 65536, 2**31 - 1, 2**31, 2**32, 2**53 + 1, 2**62, 2**63, 2**64, 10**40]
WRONG_VALUES = WRONG_NUMBERS + [0.5, -0.5, 1e-320, 1e308, "", "1", None, True, False, [], {}, [1], [[]], {"a": 1}]


def read(path):
    with open(path, "rb") as f:
        return f.read()


def write(path, data):
    with open(path, "wb") as f:
        f.write(data if isinstance(data, bytes) else data.encode())


class Folder:
    """A Hugging Face folder to damage."""

    def __init__(self, golden, path):
        self.path, self.files = path, {}
        for name in sorted(os.listdir(os.path.join(GOLDENS, golden))):
            if name in ("config.json", "model.safetensors.index.json") or name.startswith("model"):
                self.files[name] = read(os.path.join(GOLDENS, golden, name))

    def write_files(self, changes):
        """Writes the folder with files replaced; None removes a file."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.makedirs(self.path)
        for name, data in {**self.files, **changes}.items():
            if data is not None:
                write(os.path.join(self.path, name), data)
        return self.path

    def json(self, name="config.json"):
        return json.loads(self.files[name])


def with_header(data, edit):
    """A safetensors file with a changed header."""
    size = struct.unpack("<Q", data[:8])[0]
    header = edit(json.loads(data[8:8 + size]))
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data[8 + size:]


def cuts(data):
    return range(0, len(data), 64)


def safetensors_cases(data):
    """Pairs of (what, file). All must be refused."""
    for at in cuts(data):
        yield f"cut at {at}", data[:at]
    for size in [0, 1, 7, len(data), len(data) - 8, 10**8, 10**8 + 1, 2**31, 2**63, 2**64 - 1, 2**64 - 8]:
        yield f"header of {size}", struct.pack("<Q", size) + data[8:]
    names = [n for n in json.loads(data[8:8 + struct.unpack("<Q", data[:8])[0]]) if n != "__metadata__"]
    for name in (names[0], names[len(names) // 2], names[-1]):
        def entry(word, value):
            def edit(header):
                header[name][word] = value
                return header
            return with_header(data, edit)
        begin, end = json.loads(data[8:8 + struct.unpack("<Q", data[:8])[0]])[name]["data_offsets"]
        for value in WRONG_VALUES + [[0, 0], [end, begin], [begin + 1, end + 1], [begin - 4, end], [begin, 2**63],
                                     [begin, end + 4], [0, 2**64], [-4, end], [begin], [begin, end, end], [0, end - begin]]:
            if value != [begin, end]:
                yield f"{name} data_offsets {value}", entry("data_offsets", value)
        for value in WRONG_VALUES + [[0], [2**63], [2**32, 2**32], [2**62, 4], [-1, -1], [1] * 17, [end - begin], [1.5]]:
            yield f"{name} shape {value}", entry("shape", value)
        for value in WRONG_VALUES + ["F33", "F64", "I8", "BOOL", "F8_E4M3", "f32", "F" * 10**6]:
            yield f"{name} dtype {str(value)[:20]}", entry("dtype", value)
        for value in WRONG_VALUES:
            yield f"{name} is {value}", with_header(data, lambda header: {**header, name: value})
        yield f"{name} missing", with_header(data, lambda h: {k: v for k, v in h.items() if k != name})
        yield f"{name} twice", with_header(data, lambda h: json.dumps(h)[:-1].encode() + b", "
                                           + json.dumps({name: h[name]})[1:].encode())
        yield f"{name} under another name", with_header(data, lambda h: {(k + "x" if k == name else k): h[k] for k in h})
    deep = 200000
    for what, text in [("nested lists", b"[" * deep + b"]" * deep), ("nested objects", b'{"a":' * deep + b"1" + b"}" * deep),
                       ("open lists", b"[" * 2**24), ("many numbers", b'{"a":[' + b"0," * 2**23 + b"0]}"),
                       ("many keys", b"{" + b",".join(b'"%d":0' % i for i in range(2**20)) + b"}"),
                       ("no text", b"\xff\xfe" * 100), ("NUL", b"{}\0"), ("nothing", b""), ("a list", b"[]"), ("no tensor", b"{}")]:
        yield what, with_header(data, lambda _: text)


def text_cases(text, every=64):
    """Truncated or unexpected texts of config.json and the index. All must be refused."""
    for at in range(0, len(text.rstrip()), every):
        yield f"cut at {at}", text[:at]
    deep = 200000
    yield "nested lists", b"[" * deep + b"]" * deep
    yield "nested objects", b'{"a":' * deep + b"1" + b"}" * deep
    yield "nested value", text.rstrip()[:-1] + b', "x": ' + b"[" * deep + b"]" * deep + b"}"
    yield "many values", text.rstrip()[:-1] + b', "x": [' + b"0," * 2**23 + b"0]}"
    yield "many keys", text.rstrip()[:-1] + b"," + b",".join(b'"x%d":0' % i for i in range(2**20)) + b"}"
    for value in (b"[]", b"null", b"1", b'""', b"\xff", b"{}", b"NaN"):
        yield f"{value}", value


def config_cases(config, turn):
    """Every key with every third of the wrong values, selected by `turn`. They may be harmless."""
    for number, key in enumerate(config):
        for value in WRONG_VALUES[(number + turn) % 3::3]:
            if value != config[key] or type(value) is not type(config[key]):
                yield f"{key}={json.dumps(value)}", json.dumps({**config, key: value})
        if isinstance(config[key], dict):
            for inner in config[key]:
                for value in WRONG_VALUES[(number + turn) % 3::3]:
                    yield f"{key}.{inner}={json.dumps(value)}", json.dumps({**config, key: {**config[key], inner: value}})
        yield f"no {key}", json.dumps({k: v for k, v in config.items() if k != key})


def twice_cases(config):
    text = json.dumps(config)
    for key in config:
        yield f"{key} twice", text[:-1] + "," + json.dumps({key: config[key]})[1:]


def contradictions(config):
    """Sizes that the tensors do not have. All must be refused."""
    sizes = ["hidden_size", "intermediate_size", "vocab_size", "num_hidden_layers", "num_attention_heads", "n_embd",
             "n_layer", "n_head", "n_inner", "n_positions", "head_dim", "num_local_experts", "moe_intermediate_size"]
    for key in sizes:
        for value in (config.get(key) or 0) * 2, (config.get(key) or 0) // 2, 2**31 - 1, 2**40, 2**62:
            harmless = ((key == "num_attention_heads" and "head_dim" not in config) or key == "n_head"
                        or (key == "intermediate_size" and config["model_type"] == "qwen2_moe"))  # all layers have experts
            if config.get(key) and value and not harmless:
                yield f"{key}={value}", json.dumps({**config, key: value})


class Gguf:
    """Offsets in a GGUF file: `keys` [(name, type, offset of the value)], `tensors` [(name, offset of the description
    after the name, rank)], `data` the offset of the tensors' bytes."""

    SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}

    def __init__(self, data):
        n_tensors, n_keys = struct.unpack("<QQ", data[8:24])
        at, self.keys, self.tensors, self.bytes = 24, [], [], data

        def string():
            nonlocal at
            size = struct.unpack_from("<Q", data, at)[0]
            at += 8 + size
            return data[at - size:at]

        def value(kind):
            nonlocal at
            if kind == 8:
                string()
            elif kind == 9:
                inner, count = struct.unpack_from("<IQ", data, at)
                at += 12
                for _ in range(count):
                    value(inner)
            else:
                at += self.SIZES[kind]
        for _ in range(n_keys):
            begin, name = at, string()
            kind = struct.unpack_from("<I", data, at)[0]
            at += 4
            self.keys.append((name.decode(), kind, at, begin))
            value(kind)
        self.keys_end = at
        for _ in range(n_tensors):
            begin, name = at, string()
            rank = struct.unpack_from("<I", data, at)[0]
            self.tensors.append((name.decode(), at, rank, begin))
            at += 4 + 8 * rank + 12
        self.infos_end = at
        self.data = (at + 31) // 32 * 32

    def patched(self, at, layout, *values):
        raw = struct.pack("<" + layout, *values)
        return self.bytes[:at] + raw + self.bytes[at + len(raw):]

    def part(self, number, count, names):
        """A file of a split model with these tensors."""
        keys = self.bytes[24:self.keys_end] if number == 0 else b""
        n_keys = len(self.keys) if number == 0 else 0
        for key, kind, value in [("split.no", 2, number), ("split.count", 2, count), ("split.tensors.count", 5, len(self.tensors))]:
            keys += struct.pack("<Q", len(key)) + key.encode() + struct.pack("<I" + ("H" if kind == 2 else "i"), kind, value)
        infos, body = b"", b""
        places = [struct.unpack_from("<Q", self.bytes, at + 8 + 8 * rank)[0] for _, at, rank, _ in self.tensors]
        ends = {p: e for p, e in zip(sorted(places), sorted(places)[1:] + [len(self.bytes) - self.data])}
        for (name, at, rank, begin), place in zip(self.tensors, places):
            if name in names:
                infos += self.bytes[begin:at + 8 + 8 * rank] + struct.pack("<Q", len(body))
                body += self.bytes[self.data + place:self.data + ends[place]]
                body += b"\0" * (-len(body) % 32)
        head = b"GGUF" + struct.pack("<IQQ", 3, len(names), n_keys + 3) + keys + infos
        return head + b"\0" * (-len(head) % 32) + body


def gguf_cases(data):
    """Triples of (what, file, whether it must be refused)."""
    for at in cuts(data):
        yield f"cut at {at}", data[:at], True
    gguf = Gguf(data)
    for version in (0, 1, 4, 2**31, 0x03000000):
        yield f"version {version}", gguf.patched(4, "I", version), True
    for count in (0, 1, 2**16, 2**20, 2**31, 2**32, 2**62, 2**63, 2**64 - 1):
        yield f"{count} tensors", gguf.patched(8, "Q", count), True
        yield f"{count} keys", gguf.patched(16, "Q", count), True
    for name, kind, at, begin in gguf.keys:
        for other in [*range(0, 14), 99, 2**31, 2**32 - 1]:
            if other != kind:
                yield f"{name} of type {other}", gguf.patched(at - 4, "I", other), False
        for size in (0, 2**16, 2**31, 2**63, 2**64 - 1):
            yield f"{name}: its name has {size} bytes", gguf.patched(begin, "Q", size), True
        if kind in (8, 9):
            where = at + 4 * (kind == 9)
            for size in (0, 1, 2**20, 2**32, 2**63, 2**64 - 1):
                yield f"{name} of {size} elements", gguf.patched(where, "Q", size), False
        if kind == 4:
            for value in WRONG_NUMBERS[:1] + [1, 3, 7, 10001, 65536, 2**31 - 1, 2**31, 2**32 - 1]:
                yield f"{name}={value}", gguf.patched(at, "I", value), False
        if kind == 6:
            for value in (0, 1, 0x7F800000, 0xFF800000, 0x7FC00000, 0x80000000, 0x7F7FFFFF, 0x00000001):
                yield f"{name} of bits {value:x}", gguf.patched(at, "I", value), False
    places = [at + 12 + 8 * rank - 4 for _, at, rank, _ in gguf.tensors]
    for i, (name, at, rank, begin) in enumerate(gguf.tensors):
        if i not in (0, 1, len(gguf.tensors) // 2, len(gguf.tensors) - 1):
            continue
        for value in (0, 5, 17, 2**31, 2**32 - 1):
            yield f"{name} of rank {value}", gguf.patched(at, "I", value), True
        for dim in range(rank):
            for value in (0, 1, 3, 2**20, 2**31, 2**32, 2**62, 2**63, 2**64 - 1):
                yield f"{name} size {dim}={value}", gguf.patched(at + 4 + 8 * dim, "Q", value), True
        kind = struct.unpack_from("<I", data, at + 4 + 8 * rank)[0]
        for value in [*range(0, 42), 99, 2**31, 2**32 - 1]:
            if value != kind:
                yield f"{name} of type {value}", gguf.patched(at + 4 + 8 * rank, "I", value), False
        place = struct.unpack_from("<Q", data, places[i])[0]
        for value in (place + 1, place + 32, place + 64, place - 32, 0 if place else 32, len(data), 2**31, 2**63,
                      2**64 - 1, 2**64 - 32):
            if value >= 0:
                yield f"{name} from {value} on", gguf.patched(places[i], "Q", value), True
    extra = gguf.bytes[gguf.keys[0][3]:gguf.keys[1][3]]
    yield "a key twice", b"GGUF" + struct.pack("<IQQ", 3, len(gguf.tensors), len(gguf.keys) + 1) + extra + data[24:], True
    last = gguf.tensors[-1]
    info = data[last[3]:gguf.infos_end]
    yield "a tensor twice", (gguf.patched(8, "Q", len(gguf.tensors) + 1)[:gguf.infos_end] + info
                             + b"\0" * (-(gguf.infos_end + len(info)) % 32) + data[gguf.data:]), True

    def with_key(value, kind):
        name = b"general.tags"
        key = struct.pack("<Q", len(name)) + name + struct.pack("<I", kind) + value
        head = b"GGUF" + struct.pack("<IQQ", 3, len(gguf.tensors), len(gguf.keys) + 1) + key + data[24:gguf.infos_end]
        return head + b"\0" * (-len(head) % 32) + data[gguf.data:]
    yield "arrays in arrays", with_key(struct.pack("<IQ", 9, 1) * 200000 + struct.pack("<IQ", 4, 0), 9), True
    yield "many empty strings", with_key(struct.pack("<IQ", 8, 2**20) + bytes(2**23), 9), False
    yield "many empty arrays", with_key(struct.pack("<IQ", 9, 2**20) + struct.pack("<IQ", 4, 0) * 2**20, 9), False
    yield "2^64 - 1 doubles", with_key(struct.pack("<IQ", 12, 2**64 - 1), 9), True
    yield "2^61 doubles", with_key(struct.pack("<IQ", 12, 2**61), 9), True
    head = b"GGUF" + struct.pack("<IQQ", 3, 2**20, 0)
    many = b"".join(struct.pack("<Q8sIQIQ", 8, b"%08x" % i, 1, 1, 0, 32 * i) for i in range(2**20))
    yield "2^20 tensors", head + many + bytes(32 * 2**20 + 64), True
    many = b"".join(struct.pack("<Q8sIB", 8, b"%08x" % i, 0, 0) for i in range(2**18))
    yield "2^18 keys", b"GGUF" + struct.pack("<IQQ", 3, 0, 2**18) + many, True


def llama2c(header):
    """A file of zeros of the size that the header requires."""
    d, ff, layers, heads, kv, vocab, length = header
    floats = (abs(vocab) * d * (2 if vocab < 0 else 1) + layers * (2 * d + 2 * d * d + 2 * d // heads * kv * d + 3 * ff * d)
              + d + length * (d // heads))
    return struct.pack("<7i", *header) + bytes(4 * floats)


def llama2c_cases():
    good = (8, 12, 2, 2, 1, -11, 16)
    data = llama2c(good)
    for at in cuts(data):
        yield f"cut at {at}", data[:at]
    for field in range(7):
        for value in (0, -1, 1, 3, 5, 7, 16, 10001, 65536, 2**30, 2**31 - 1, -2**31, -2**31 + 1, -65536):
            if value != good[field]:
                header = (*good[:field], value, *good[field + 1:])
                yield f"field {field} = {value}", struct.pack("<7i", *header) + data[28:]
    yield "all at most", struct.pack("<7i", *[2**31 - 1] * 7) + data[28:]
    yield "all zero", struct.pack("<7i", *[0] * 7) + data[28:]
    yield "bytes after the end", data + bytes(4)
    yield "another magic", b"ak42" + data[4:]


class Starter:
    """A small process that starts others: the kernel counts the memory of the parent as the child's own after fork."""

    def __init__(self):
        requests, self.ask = os.pipe()
        self.answer, answers = os.pipe()
        if os.fork() == 0:
            os.close(self.ask)
            with os.fdopen(requests) as lines:
                for line in lines:
                    os.write(answers, (json.dumps(self.run_here(**json.loads(line))) + "\n").encode())
            os._exit(0)
        os.close(requests)
        self.answer = os.fdopen(self.answer)

    @staticmethod
    def run_here(command, errors):
        begun = time.monotonic()
        to = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
              (os.POSIX_SPAWN_OPEN, 2, errors, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)]
        pid = os.posix_spawn(command[0], command, os.environ, file_actions=to)
        _, status, usage = os.wait4(pid, 0)
        return status, time.monotonic() - begun, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024

    def run(self, command, errors):
        """Exit status as from wait, seconds, seconds of processor time, megabytes at the peak."""
        os.write(self.ask, (json.dumps({"command": command, "errors": errors}) + "\n").encode())
        return json.loads(self.answer.readline())


class Runner:
    def __init__(self, starter, program, scratch, quick):
        self.starter, self.program, self.quick = starter, os.path.abspath(program), quick
        self.out, self.errors = os.path.join(scratch, "out.npy"), os.path.join(scratch, "errors")
        self.counts, self.broken, self.number = {}, [], 0

    def command(self, path):
        """What the program does with the files."""
        return ["logits", path, "--ids", "0,1,2"]

    def check(self, group, what, write_files, must_fail):
        """Writes the files and runs the program on them."""
        self.number += 1
        if self.quick and self.number % 16:
            return
        command = [self.program, *self.command(write_files()), "--threads", "1", "--out", self.out]
        status, seconds, processor, megabytes = self.starter.run(command, self.errors)
        output = read(self.errors)
        right = os.WIFEXITED(status) and (
            (os.WEXITSTATUS(status) == 1 and output.count(b"\n") == 1 and output.startswith(b"vitrine: error: "))
            or (os.WEXITSTATUS(status) == 0 and not output and not must_fail))
        total = self.counts.setdefault(group, [0, 0, 0.0, 0.0, 0.0, "", ""])
        total[0] += 1
        total[1] += status != 0
        if seconds > total[2]:
            total[2], total[5] = seconds, what
        total[3] = max(total[3], processor)
        if megabytes > total[4]:
            total[4], total[6] = megabytes, what
        if not right or processor > MAX_SECONDS or seconds > MAX_WAIT or megabytes > MAX_MEGABYTES:
            self.broken.append(f"{group}: {what}: status {status:#x}, {seconds:.2f} s, {megabytes:.0f} MB: {output[:300]!r}")

    def report(self):
        print(f"{'format':14}{'cases':>7}{'refused':>9}{'s':>7}{'cpu s':>7}{'MB':>6}  slowest; largest")
        for group, (cases, refused, seconds, processor, megabytes, slowest, largest) in self.counts.items():
            print(f"{group:14}{cases:7}{refused:9}{seconds:7.2f}{processor:7.2f}{megabytes:6.0f}  {slowest}; {largest}")
        print(f"{sum(c[0] for c in self.counts.values())} cases, {len(self.broken)} that break the rule")
        for line in self.broken:
            print(line)


def run_folders(runner, scratch):
    folder = Folder("llama_mha", scratch + "/hf")
    for what, data in safetensors_cases(folder.files["model.safetensors"]):
        runner.check("safetensors", what, lambda: folder.write_files({"model.safetensors": data}), True)
    for what, data in text_cases(folder.files["config.json"], 16):
        runner.check("config", what, lambda: folder.write_files({"config.json": data}), True)
    for turn, golden in enumerate(sorted(os.listdir(GOLDENS))):
        if not os.path.exists(os.path.join(GOLDENS, golden, "config.json")):
            continue
        folder = Folder(golden, scratch + "/hf")
        config = folder.json()
        for what, text in config_cases(config, turn):
            runner.check("config values", f"{golden} {what}", lambda: folder.write_files({"config.json": text}), False)
        for what, text in twice_cases(config):
            runner.check("config twice", f"{golden} {what}", lambda: folder.write_files({"config.json": text}), True)
        for what, text in contradictions(config):
            runner.check("contradictions", f"{golden} {what}", lambda: folder.write_files({"config.json": text}), True)


def run_shards(runner, scratch):
    folder = Folder("llama_gqa_bf16_sharded", scratch + "/shards")
    index, second = "model.safetensors.index.json", "model-00002-of-00003.safetensors"
    for what, data in safetensors_cases(folder.files[second]):
        runner.check("shard", what, lambda: folder.write_files({second: data}), True)
    for what, data in text_cases(folder.files[index]):
        runner.check("index", what, lambda: folder.write_files({index: data}), True)
    cases = [(f"{name} missing", {name: None}) for name in folder.files if name != "config.json"]
    first = folder.files["model-00001-of-00003.safetensors"]
    cases += [("the first shard twice", {second: first}), ("no config", {"config.json": None})]
    names = list(folder.json(index)["weight_map"])
    for value in WRONG_VALUES + ["model.safetensors", "missing", index, "config.json", ".", "..", "/", "../" + second,
                                 "/dev/zero", "/etc/passwd", "a" * 10**6, second + "\0", "model-00003-of-00003.safetensors"]:
        for name in (names[0], names[-1]):
            wrong = folder.json(index)
            if wrong["weight_map"][name] != value:
                wrong["weight_map"][name] = value
                cases.append((f"{name} in {str(value)[:30]!r}", {index: json.dumps(wrong)}))
    for value in WRONG_VALUES:
        cases.append((f"weight_map {value}", {index: json.dumps({**folder.json(index), "weight_map": value})}))
    wrong = folder.json(index)
    del wrong["weight_map"][names[3]]
    cases.append(("a tensor not in the index", {index: json.dumps(wrong)}))
    text = folder.files[index].decode()
    line = f'"{names[0]}": "{folder.json(index)["weight_map"][names[0]]}"'
    assert line in text
    cases.append(("a tensor twice in the index", {index: text.replace(line, line + ", " + line)}))
    wrong = folder.json(index)
    wrong["weight_map"]["unknown"] = second
    cases.append(("a tensor in the index alone", {index: json.dumps(wrong)}))
    for what, changes in cases:
        runner.check("shards", what, lambda: folder.write_files(changes), True)

    def circle():
        path = folder.write_files({second: None})
        os.symlink(second, os.path.join(path, second))
        return path
    runner.check("shards", "a link to itself", circle, True)

    def pipe():
        path = folder.write_files({second: None})
        os.mkfifo(os.path.join(path, second))
        return path
    runner.check("shards", "a pipe", pipe, True)


def run_gguf(runner, scratch):
    def made(golden, kind):
        path = scratch + "/made.gguf"
        subprocess.run([runner.program, "quantize", os.path.join(GOLDENS, golden), path, "--type", kind], check=True,
                       capture_output=True)
        return read(path)

    def write_files(data):
        write(scratch + "/model.gguf", data)
        return scratch + "/model.gguf"
    whole = made("llama_mha", "f32")
    for group, data in [("GGUF v3", whole), ("GGUF v2", whole[:4] + b"\2\0\0\0" + whole[8:]),
                        ("GGUF experts", made("qwen2_moe", "f16"))]:
        for what, harmed, must_fail in gguf_cases(data):
            runner.check(group, what, lambda: write_files(harmed), must_fail)
    gguf = Gguf(whole)
    names = [tensor[0] for tensor in gguf.tensors]
    half = len(names) // 2
    parts = [scratch + f"/m-0000{i}-of-00002.gguf" for i in (1, 2)]
    good = [gguf.part(0, 2, names[:half]), gguf.part(1, 2, names[half:])]

    def lay_parts(first, second):
        for path, data in zip(parts, (first, second)):
            if os.path.lexists(path):
                os.remove(path)
            if data is not None:
                write(path, data)
        return parts[0]
    assert subprocess.run([runner.program, "logits", lay_parts(*good), "--ids", "0,1", "--out", runner.out],
                          capture_output=True).returncode == 0
    cases = [(f"second cut at {at}", good[0], good[1][:at]) for at in cuts(good[1])]
    cases += [(f"first cut at {at}", good[0][:at], good[1]) for at in cuts(good[0])]
    cases += [("second missing", good[0], None), ("the first twice: a circle", good[0], good[0]), ("second is whole", good[0], whole),
              ("a tensor in both", good[0], gguf.part(1, 2, names[half - 1:])), ("a tensor in none", good[0], gguf.part(1, 2, names[half + 1:]))]
    for count in (0, 1, 3, 65535):
        cases += [(f"first has {count} files", gguf.part(0, count, names[:half]), good[1]),
                  (f"second has {count} files", good[0], gguf.part(1, count, names[half:]))]
    for number in (0, 2, 65535):
        cases.append((f"second is number {number}", good[0], gguf.part(number, 2, names[half:])))
    for what, first, second in cases:
        harmless = what == "first has 1 files"
        runner.check("split GGUF", what, lambda: lay_parts(first, second), not harmless)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default="folders,shards,gguf,llama2c", help="a list of these, with commas")
    arguments = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    starter = Starter()
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as scratch:
        runner = Runner(starter, arguments.program, scratch, arguments.quick)
        only = arguments.only.split(",")
        if "folders" in only:
            run_folders(runner, scratch)
        if "shards" in only:
            run_shards(runner, scratch)
        if "gguf" in only:
            run_gguf(runner, scratch)
        if "llama2c" in only:
            for what, data in llama2c_cases():
                path = scratch + "/model.bin"
                runner.check("llama2.c", what, lambda: (write(path, data), path)[1], not what.startswith("field"))
        runner.report()
    sys.exit(bool(runner.broken))


if __name__ == "__main__":
    main()
