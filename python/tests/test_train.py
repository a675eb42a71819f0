"""Training, step by step."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vitrine

IDS = [1, 2, 3, 4, 5]


def test_the_model_of_a_trainer_learns(train_config: dict[str, Any], tmp_path: Path) -> None:
    trainer = vitrine.Trainer(train_config)
    losses, first = [], None
    for step in trainer:
        assert step.steps == 10
        losses.append(step.loss)
        if first is None:
            first = trainer.model.logits(IDS)
            loss, gradients = trainer.model.grad(IDS)
            state = trainer.model.state_dict()
            assert {k: v.shape for k, v in gradients.items()} == {k: np.asarray(v).shape for k, v in state.items()}
            trainer.model.save(tmp_path / "saved")
            assert vitrine.load(tmp_path / "saved").logits(IDS).tobytes() == first.tobytes()
    assert losses[-1] < losses[0]
    last = trainer.model.logits(IDS)
    assert first is not None and last.tobytes() != first.tobytes()
    result = trainer.finish()
    assert vitrine.load(result.checkpoint).logits(IDS).tobytes() == last.tobytes()


def test_a_run_is_resumed(train_config: dict[str, Any]) -> None:
    trainer = vitrine.Trainer(train_config)
    for step in trainer:
        if step.step == 4:
            break
    trainer.finish()
    del trainer
    with pytest.raises(vitrine.BadInput, match="already holds a run of 4 steps"):
        vitrine.train(train_config)
    steps: list[int] = []
    vitrine.train(train_config, resume=True, on_step=lambda step: steps.append(step.step))
    assert steps == [5, 6, 7, 8, 9, 10]


def test_an_exception_ends_a_run_and_it_is_saved(train_config: dict[str, Any]) -> None:
    class Enough(Exception):
        pass

    def stop(step: vitrine.Step) -> None:
        if step.step == 3:
            raise Enough

    with pytest.raises(Enough):
        vitrine.train(train_config, on_step=stop)
    assert (Path(train_config["out"]["folder"]) / "checkpoints" / "step-000003").exists()


def test_ctrl_c_ends_a_run_and_it_is_saved(train_config: dict[str, Any]) -> None:
    train_config["train"]["steps"] = 1_000_000
    sent: list[float] = []

    def send() -> None:
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Timer(0.5, send)
    with pytest.raises(KeyboardInterrupt):
        timer.start()
        vitrine.train(train_config)
    assert time.monotonic() - sent[0] < 0.3
    checkpoints = list((Path(train_config["out"]["folder"]) / "checkpoints").iterdir())
    assert checkpoints
    assert vitrine.load(max(checkpoints)).logits(IDS).shape[0] == len(IDS)


def test_a_wrong_config_is_refused(train_config: dict[str, Any]) -> None:
    with pytest.raises(vitrine.BadInput, match=r"train\.stepz|stepz"):
        vitrine.train({**train_config, "train": {**train_config["train"], "stepz": 1}})
    with pytest.raises(vitrine.BadInput, match="there is no section"):
        vitrine.train({**train_config, "trian": {}})
    with pytest.raises(vitrine.BadInput, match=r"/no/such\.toml"):
        vitrine.train("/no/such.toml")
    lines: list[str] = []
    vitrine.train(train_config, on_message=lines.append)
    assert any("parameters" in line for line in lines)
