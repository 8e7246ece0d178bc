"""Measure recordings: the time that recording takes, the size of the files, and the time of reading.

Run it with `python -m benchmarks.recordings`. Frames are those of CoinRun with random actions.
"""

from __future__ import annotations

import io
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from benchmarks.machine import seconds
from rl_clarity.environments import EnvironmentSpec, make
from rl_clarity.recordings.blocks import Filter, encode_block
from rl_clarity.recordings.layout import DONE
from rl_clarity.recordings.recorder import Recorder
from rl_clarity.recordings.recording import open_recording
from rl_clarity.recordings.recording_writer import RecordingWriter

STEPS = 512
EPISODES = 50_000
REPEATS = 5


def measure() -> dict[str, float]:
    """Return the costs of recording in microseconds, sizes relative to PNG files, and times of reading."""
    observations, frames = _play()
    logits = np.random.default_rng(0).normal(size=(STEPS, 15)).astype(np.float32)

    def add(recorder: Recorder, step: int, **values: Any) -> None:
        t = step % STEPS
        recorder.add(
            observation=observations[t],
            action=3,
            reward=0.0,
            terminated=t == STEPS - 1,
            truncated=False,
            logits=logits[t],
            value=0.5,
            **values,
        )

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        result = _measure_add(folder / "add", add)
        with Recorder(folder / "frames", name=None) as recorder:
            for t, frame in enumerate(frames):
                add(recorder, t, frame=frame)
        result["size / PNG, 64 x 64"] = _size(folder / "add") / (REPEATS * 10 * _png_size(observations))
        png = _png_size(frames) + _png_size(observations[: len(frames)])
        result["size / PNG, 512 x 512 and 64 x 64"] = _size(folder / "frames") / png
        result |= _measure_reading(folder / "add", folder / "many")
    return result


def lines(result: dict[str, float]) -> list[str]:
    """Return the result as a table."""
    return [f"{name:40} {value:8.2f}" for name, value in result.items()]


def _play() -> tuple[np.ndarray, np.ndarray]:
    """Return observations (T, 64, 64, 3), and rendered frames (T / 4, 512, 512, 3) of the first steps."""
    rng = np.random.default_rng(0)
    observations, frames = [], []
    with closing(make(EnvironmentSpec("procgen", "coinrun"), 1, 0, full_resolution=True)) as environment:
        step = environment.reset()
        for t in range(STEPS):
            observations.append(step.observations[0])
            if t < STEPS // 4:
                frames.append(environment.render()[0])
            step = environment.step(rng.integers(environment.num_actions, size=1))
    return np.stack(observations), np.stack(frames)


def _measure_add(folder: Path, add: Callable[..., None]) -> dict[str, float]:
    """Return the microseconds that `Recorder.add` takes for a step, with and without encoding, and in an episode that
    is not recorded; and the number of files.
    """
    processor, clock = [], []
    with Recorder(folder, name=None) as recorder:
        for _ in range(REPEATS):
            start, start_processor = time.perf_counter(), time.thread_time()
            for step in range(10 * STEPS):
                add(recorder, step)
            clock.append(time.perf_counter() - start)
            processor.append(time.thread_time() - start_processor)
    unrecorded = Recorder(folder.with_name("unrecorded"), every=lambda episode: False)
    with closing(unrecorded):
        add(unrecorded, 0)
        observation, logits = np.zeros((64, 64, 3), np.uint8), np.zeros(15, np.float32)

        def skip() -> None:
            for _ in range(10_000):
                unrecorded.add(
                    observation=observation,
                    action=3,
                    reward=0.0,
                    terminated=False,
                    truncated=False,
                    logits=logits,
                    value=0.5,
                )

        skipped = seconds(skip, REPEATS)
    return {
        "add, calling thread (us a step)": min(processor) / (10 * STEPS) * 1e6,
        "add, with encoding (us a step)": min(clock) / (10 * STEPS) * 1e6,
        "add, not recorded (us a step)": skipped / 10_000 * 1e6,
        "files per 1,000 steps": len(list(folder.iterdir())) / (REPEATS * 10 * STEPS) * 1000,
    }


def _measure_reading(recorded: Path, many: Path) -> dict[str, float]:
    recording = open_recording(recorded)
    one = seconds(lambda: recording[0].observations[STEPS // 2], 50)
    whole = seconds(lambda: np.asarray(recording[0].observations))
    writer = RecordingWriter(many, {})
    arrays: dict[str, np.ndarray] = {"observations": np.zeros((2, 8, 8, 1), np.uint8), "rewards": np.zeros(2)}
    with closing(writer):
        for number in range(EPISODES):
            facts = {"number": number, "environment": 0, "start_step": 2 * number, "start_time": 0.0}
            index = writer.begin(facts)
            writer.append(index, 0, 2, *encode_block(index, 0, arrays, {"observations": Filter(False, 0)}))
            writer.end(index, {**facts, "end": DONE, "steps": 2, "return": 0.0})
    return {
        "read one step (ms)": one * 1e3,
        "read one step / whole episode": one / whole,
        "list 50,000 episodes (s)": seconds(lambda: open_recording(many).table()),
        "files of 50,000 episodes": len(list(many.iterdir())),
    }


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


def _png_size(images: np.ndarray) -> int:
    total = 0
    for image in images:
        file = io.BytesIO()
        Image.fromarray(image).save(file, "PNG")
        total += file.tell()
    return total


if __name__ == "__main__":
    print("\n".join(lines(measure())))
