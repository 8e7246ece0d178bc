"""Measure time and memory of the analysis of 100,000 recurrent states, of a GRU of 64 units, and of a map of 20,000.

Run it with `python -m benchmarks --only states`. States are a noisy nonlinear oscillation; the network has random
weights.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from benchmarks.machine import peak_memory_mb, reset_peak_memory
from rl_clarity.agents.keras_agent import KerasAgent
from rl_clarity.formats.architectures import build
from rl_clarity.recordings.recorder import Recorder
from rl_clarity.recordings.recording import Recording, open_recording
from rl_clarity.reduction.embedding import embed
from rl_clarity.states.analysis import analyze_states

STEPS, EPISODE, MAPPED = 100_000, 400, 20_000
UNITS, ACTIONS, SIDE = 64, 15, 64
SECONDS, GIGABYTES = 60, 2
"""Limits of the analysis on two cores."""


def measure(steps: int = STEPS) -> dict[str, float]:
    """Return the seconds of the analysis and of the map, and the peak memory of the process in GB."""
    network = build("impala", (SIDE, SIDE, 3), ACTIONS, {"emb_size": UNITS, "gru_units": UNITS})
    with tempfile.TemporaryDirectory() as folder:
        recording = write_recording(Path(folder) / "recording", steps)
        reset_peak_memory()
        start, processor = time.perf_counter(), time.process_time()
        analysis = analyze_states(KerasAgent(network), recording)
        seconds, processor = time.perf_counter() - start, time.process_time() - processor
    states = np.random.default_rng(0).normal(size=(min(steps, MAPPED), UNITS)).astype(np.float32)
    start = time.perf_counter()
    embed(states)
    return {
        "mapped": float(len(states)),
        "map seconds": time.perf_counter() - start,
        "steps": float(analysis.facts["steps"]),
        "seconds": seconds,
        "processor seconds": processor,
        "peak GB": peak_memory_mb() / 1000,
    }


def write_recording(folder: Path, steps: int) -> Recording:
    """Write episodes of 400 steps, whose frames show a moving square."""
    rng = np.random.default_rng(0)
    angles = rng.uniform(0.02, 0.5, UNITS // 2)
    rotation = np.kron(np.diag(np.cos(angles)), np.eye(2)) + np.kron(np.diag(np.sin(angles)), [[0, 1], [-1, 0]])
    mixing = rng.normal(0, 1 / 8, (UNITS, UNITS))
    with Recorder(folder, name=None, on_error="raise") as recorder:
        state = rng.normal(size=UNITS)
        for step in range(steps):
            t = step % EPISODE
            frame = np.full((SIDE, SIDE, 3), 40, np.uint8)
            frame[t % 56 : t % 56 + 8, 28:36] = 200
            state = 0.99 * rotation @ state + 0.15 * rng.normal(size=UNITS)
            logits = (state[:ACTIONS] @ mixing[:ACTIONS, :ACTIONS]).astype(np.float32)
            recorder.add(
                observation=frame,
                action=int(logits.argmax()),
                reward=float(t == EPISODE - 1),
                terminated=t == EPISODE - 1,
                logits=logits,
                value=float(state[0]),
                state=np.tanh(state @ mixing).astype(np.float32),
            )
    return open_recording(folder)


def lines(result: Mapping[str, float]) -> list[str]:
    """Return the result as lines of text."""
    return [
        f"{result['steps']:,.0f} steps: {result['seconds']:.1f} s (at most {SECONDS} s on two cores), "
        f"{result['processor seconds']:.1f} s of processor time, "
        f"{result['peak GB']:.2f} GB (at most {GIGABYTES} GB)",
        f"map of {result['mapped']:,.0f} states: {result['map seconds']:.1f} s (at most {SECONDS} s)",
    ]
