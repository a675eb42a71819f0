"""Threads that are in a call when the program ends."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

RUNS = 20

BEGIN = """
import sys, threading, time, vitrine
from concurrent.futures import ThreadPoolExecutor

model = vitrine.load(threads=1)
ids = (model.ids("Once upon a time there was") * 99)[:100]
long_text = "Once upon a time. " * 20_000


def forever(call):
    while True:
        call()


def in_thread(call):
    threading.Thread(target=forever, args=(call,), daemon=True).start()


def look(value, site):
    return [sum(range(99)) for _ in range(9)] and None


def refused():
    try:
        model.logits([-1])
    except vitrine.BadInput:
        pass


"""

CALLS = {
    "logits": "in_thread(lambda: model.logits(ids))",
    "short": "for n in range(1, 5): in_thread(lambda: model.logits(ids[:n]))",
    "stream": "in_thread(lambda: list(model.stream(ids, max_tokens=100)))",
    "generate": "in_thread(lambda: model.generate(ids, max_tokens=100, hooks={'*.hook_z': look}))",
    "beam": "in_thread(lambda: model.generate(ids, max_tokens=20, beam=4))",
    "hooks": "for _ in range(3): in_thread(lambda: model.run(ids, hooks={'*': look}))",
    "cache": "in_thread(lambda: model.run_with_cache(ids, gradients=True))",
    "grad": "in_thread(lambda: model.grad(ids))",
    "encode": "in_thread(lambda: model.ids(long_text))",
    "load": "in_thread(lambda: vitrine.load(threads=1))",
    "errors": "in_thread(refused)",
    "many": "for call in (lambda: model.logits(ids), lambda: model.state_dict(), lambda: model.predict(ids), "
    "lambda: model.tokenizer('a' * 99), lambda: model.run(ids, hooks={'*': look})): in_thread(call)",
}


def check_ends(program: str, arguments: list[str] | None = None, status: int = 0) -> None:
    """Several runs, which end at different moments: with the status, and silently."""

    def run(i: int) -> tuple[int, str]:
        command = [sys.executable, "-c", program, str(0.01 + 0.005 * i), *(arguments or [])]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        return done.returncode, done.stderr

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(run, range(RUNS))) == [(status, "")] * RUNS


@pytest.mark.parametrize("name", CALLS)
def test_a_daemon_thread_in_a_call(name: str) -> None:
    check_ends(BEGIN + CALLS[name] + "\ntime.sleep(float(sys.argv[1]))\n")


def test_the_status_is_that_of_the_program() -> None:
    check_ends(BEGIN + CALLS["logits"] + "\ntime.sleep(float(sys.argv[1]))\nsys.exit(3)\n", status=3)


def test_a_daemon_thread_that_trains(train_config: dict[str, Any], tmp_path: Path) -> None:
    train_config["train"]["steps"] = 100_000
    config = tmp_path / "config.json"
    config.write_text(json.dumps(train_config))
    program = """
import json, os, pathlib, sys, threading, time, vitrine
config = json.loads(pathlib.Path(sys.argv[2]).read_text())
config["out"]["folder"] += str(os.getpid())
threading.Thread(target=vitrine.train, args=(config,), kwargs={"on_message": str, "on_step": str}, daemon=True).start()
time.sleep(float(sys.argv[1]))
"""
    check_ends(program, [str(config)])


def test_executors_are_awaited() -> None:
    program = BEGIN + "pool = ThreadPoolExecutor(2)\ncalls = [pool.submit(model.logits, ids) for _ in range(4)]\n"
    check_ends(program + "import atexit\natexit.register(lambda: [c.result(timeout=0) for c in calls])\n")


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes_with_a_daemon_thread(method: str, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        BEGIN
        + f"""
import multiprocessing


def child(queue):
    in_thread(lambda: model.logits(ids))
    time.sleep(0.05)
    queue.put(float(model.logits(ids).sum()))


if __name__ == "__main__":
    context = multiprocessing.get_context("{method}")
    queue = context.Queue()
    children = [context.Process(target=child, args=(queue,)) for _ in range(3)]
    for c in children:
        c.start()
    assert {{queue.get() for _ in children}} == {{float(model.logits(ids).sum())}}
    for c in children:
        c.join()
    sys.exit(max(abs(c.exitcode) for c in children))
"""
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
