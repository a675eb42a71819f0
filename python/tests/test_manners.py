"""Interrupts, exceptions, threads, fork."""

from __future__ import annotations

import _thread
import os
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from conftest import TEXT

import vitrine


def long_calls(model: vitrine.Model) -> dict[str, Callable[[], object]]:
    ids = (model.ids(TEXT) * 500)[: model.max_seq_len]
    return {
        "generate": lambda: [model.generate(TEXT, max_tokens=model.max_seq_len - 20, seed=i) for i in range(99)],
        "stream": lambda: [list(model.stream(TEXT, max_tokens=model.max_seq_len - 20, seed=i)) for i in range(99)],
        "logits": lambda: [model.logits(ids) for _ in range(999)],
        "cache": lambda: [model.run_with_cache(ids) for _ in range(999)],
        "grad": lambda: [model.grad(ids) for _ in range(999)],
        "predict": lambda: [model.predict(ids) for _ in range(999)],
        "hooks": lambda: [model.run(ids, hooks={"*": lambda value, site: None}) for _ in range(999)],
        "encode": lambda: [model.ids((TEXT + ". ") * 500_000) for _ in range(99)],
        "words": lambda: [model.tokenizer([TEXT] * 100_000) for _ in range(99)],
        "beam": lambda: [model.generate(TEXT, max_tokens=200, beam=8) for _ in range(99)],
        "state_dict": lambda: [model.state_dict() for _ in range(10**7)],
        "load": lambda: [vitrine.load() for _ in range(9999)],
    }


@pytest.mark.parametrize(
    "name",
    [
        "generate", "stream", "logits", "cache", "grad", "predict", "hooks", "encode", "words", "beam", "state_dict", "load",
    ],  # fmt: skip
)
@pytest.mark.parametrize("how", ["signal", "interrupt_main"])
def test_ctrl_c(model: vitrine.Model, name: str, how: str) -> None:
    # A shell starts background processes with SIGINT ignored, and Python then installs no handler.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    call = long_calls(model)[name]
    sent: list[float] = []

    def send() -> None:
        sent.append(time.monotonic())
        if how == "signal":
            os.kill(os.getpid(), signal.SIGINT)
        else:
            _thread.interrupt_main()

    timer = threading.Timer(0.4, send)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        call()
    assert time.monotonic() - sent[0] < 0.3
    assert model.generate(TEXT, max_tokens=3, greedy=True).ids  # the model goes on


def test_an_exception_arrives_as_itself(model: vitrine.Model) -> None:
    class Mine(Exception):
        pass

    error = Mine("here")

    def fail(value: np.ndarray, site: vitrine.Site) -> None:
        raise error

    with pytest.raises(Mine) as caught:
        model.run(TEXT, hooks={"hook_embed": fail})
    assert caught.value is error
    with pytest.raises(Mine), model.hooks({"hook_embed": fail}):
        model.generate(TEXT)
    assert model.run(TEXT).shape[0] == len(model.ids(TEXT))


def test_a_hook_may_call_the_model(gpt2: vitrine.Model) -> None:
    ids = [1, 2, 3]
    inner: list[bytes] = []
    gpt2.run(ids, hooks={"hook_embed": lambda v, s: inner.append(gpt2.logits(ids).tobytes())})
    assert inner == [gpt2.logits(ids).tobytes()]


def test_a_stream_is_used_by_one_call_at_a_time(gpt2: vitrine.Model) -> None:
    streams: list[vitrine.Stream] = []
    errors: list[str] = []

    def again(value: np.ndarray, site: vitrine.Site) -> None:
        for use in (lambda: next(streams[0]), streams[0].close):
            try:
                use()
            except vitrine.BadInput as error:
                errors.append(str(error))

    stream = gpt2.stream([1, 2, 3], max_tokens=2, hooks={"hook_embed": again})
    streams.append(stream)
    list(stream)
    assert len(errors) >= 4 and set(errors) == {"[stream] another call on it is running"}


def test_threads_share_a_model(gpt2: vitrine.Model) -> None:
    prompts = [[i, i + 1, i + 2, 7] for i in range(12)]
    expected = [gpt2.logits(p).tobytes() for p in prompts]
    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(lambda p: gpt2.logits(p).tobytes(), prompts * 5)) == expected * 5

    def silenced(prompt: list[int]) -> bool:  # hooks are those of the thread
        with gpt2.hooks({"hook_embed": lambda v, s: v * 0}):
            return bool(gpt2.logits(prompt).tobytes() != gpt2.logits(prompt[::-1]).tobytes())

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(silenced, prompts))
    assert [gpt2.logits(p).tobytes() for p in prompts] == expected


def test_the_lock_is_free(model: vitrine.Model) -> None:
    ids = (model.ids(TEXT) * 500)[: model.max_seq_len]
    one = vitrine.load(threads=1)
    ticks = 0
    done = threading.Event()

    def work() -> None:
        for _ in range(3):
            one.logits(ids)
        done.set()

    thread = threading.Thread(target=work)
    thread.start()
    while not done.is_set():
        ticks += 1
        time.sleep(0.001)
    thread.join()
    assert ticks > 20


def test_fork(model: vitrine.Model) -> None:
    expected = model.logits(TEXT).tobytes()
    child = os.fork()
    if child == 0:
        os._exit(0 if model.logits(TEXT).tobytes() == expected else 1)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid != 0:
            break
        time.sleep(0.01)
    else:
        os.kill(child, signal.SIGKILL)
        pytest.fail("the child waits for threads that it does not have")
    assert os.waitstatus_to_exitcode(status) == 0


def test_importing_is_light() -> None:
    import subprocess
    import sys

    code = "import sys, vitrine; print('torch' in sys.modules, 'ml_dtypes' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert out.split() == ["False", "False"]
