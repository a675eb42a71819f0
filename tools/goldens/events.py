"""Writes tests/metrics/events.golden with TensorBoard's own messages and record writer (PyPI: tensorboard).

With a path as argument: prints what TensorBoard's own reader finds in that event file instead.
"""
import io
import sys

from goldens.files import TESTS
from tensorboard.compat.proto import event_pb2, summary_pb2
from tensorboard.summary.writer.record_writer import RecordWriter

EVENTS = [(1767225600.25, 1, {"loss": 4.125, "lr": 0.001}), (1767225601.5, 300, {"grad_norm": float("inf"), "é": -0.5}),
          (1767225602.0, 1 << 40, {})]


def write(path: str) -> None:
    buffer = io.BytesIO()
    writer = RecordWriter(buffer)
    writer.write(event_pb2.Event(wall_time=1767225600.0, file_version="brain.Event:2").SerializeToString())
    for wall_time, step, scalars in EVENTS:
        values = [summary_pb2.Summary.Value(tag=tag, simple_value=value) for tag, value in scalars.items()]
        event = event_pb2.Event(wall_time=wall_time, step=step, summary=summary_pb2.Summary(value=values))
        writer.write(event.SerializeToString())
    with open(path, "wb") as file:
        file.write(buffer.getvalue())


def show(path: str) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    events = EventAccumulator(path)
    events.Reload()
    for tag in events.Tags()["scalars"]:
        print(tag, [(e.step, round(e.value, 6)) for e in events.Scalars(tag)])


def main() -> None:
    show(sys.argv[1]) if len(sys.argv) > 1 else write(TESTS / "metrics/events.golden")
