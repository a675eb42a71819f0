"""Makes tests/goldens/tokenizers/*.json: the ids of reference implementations for 10,000 lines of mixed text.

  python tools/goldens data_tokenizers DATA [NAME…]    text.jsonl, and one file for each tokenizer of DATA (or those named)

A golden is {"file": in DATA, "policies": {policy: {"blocks", "lines"}}, "left_out"}: a hash of the ids of each 100 lines, and the
ids of every 500th line. Lines for which no reference has ids are listed in "left_out". `tools/compare_tokenizers.py` names every line that differs.
"""
import json
import os
import re
import sys

from goldens.files import GOLDENS, write_compact
from goldens.tokenizer_lines import N_LINES, line
from goldens.tokenizer_references import catalogue

BLOCK = 100  # lines per hash
FULL_EVERY = 500  # lines: the ids of one of them are stored


def fnv(state, data):
    for byte in data:
        state = (state ^ byte) * 0x100000001B3 % 2**64
    return state


def hash_of(lists):
    """FNV-1a over little-endian int32 ids, with -1 after each list."""
    state = 0xCBF29CE484222325
    for ids in lists:
        state = fnv(state, b"".join(i.to_bytes(4, "little", signed=True) for i in [*ids, -1]))
    return f"{state:016x}"


def decoded_hash(reference, lists):
    """FNV-1a over the texts, with a byte 0xFF after each. Consecutive U+FFFD count as one."""
    state = 0xCBF29CE484222325
    for ids in lists:
        state = fnv(state, re.sub("\ufffd+", "\ufffd", reference.decode(ids)).encode() + b"\xff")
    return f"{state:016x}"


def golden(reference, data, n_lines=N_LINES, decoded=False):
    texts = [line(i) for i in range(n_lines)]
    policies, left_out, lists = {}, set(), []
    for policy, encode in sorted(reference.encode.items()):
        ids = [encode(text) for text in texts]
        left_out |= {i for i, known in enumerate(ids) if known is None}
        lists = ids = [known or [] for known in ids]
        policies[policy] = {"blocks": [hash_of(ids[first:first + BLOCK]) for first in range(0, n_lines, BLOCK)],
                            "lines": {str(i): ids[i] for i in range(0, n_lines, FULL_EVERY) if i not in left_out}}
    result = {"file": os.path.relpath(reference.file, data), "policies": policies, "left_out": sorted(left_out)}
    if decoded:  # the ids of the last policy, "none"
        result["decoded"] = [decoded_hash(reference, lists[first:first + BLOCK]) for first in range(0, n_lines, BLOCK)]
    return result


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    data, *names = sys.argv[1:]
    folder = GOLDENS / "tokenizers"
    with open(f"{folder}/text.jsonl", "w", encoding="utf-8") as out:
        out.writelines(json.dumps(line(i), ensure_ascii=False) + "\n" for i in range(N_LINES))
    known = catalogue(data)
    for name in names or known:
        write_compact(folder / f"{name}.json", golden(known[name](), data))
