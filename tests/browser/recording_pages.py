"""A page of recordings with made-up data, written by plain numpy to docs/page-format.md.

The expected numbers of tests are computed from the arrays that are returned, not from the page.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from rl_clarity.jobs.directory import LocalDirectory
from rl_clarity.pages.document import write_page
from tests.browser.drawn import SIDE
from tests.browser.synthetic import SEGMENT, write_chunk
from tests.browser.training_pages import (
    EVERY,
    describe_agent,
    make_maps,
    make_series,
    section,
    write_saliency,
    write_trajectory,
)

Lengths = tuple[tuple[int, ...], ...]
RUNS = ("long/exp~1", "exp2")
LENGTHS: Lengths = ((40, 90, 70), (50, 60))
"""Steps of each run's episodes."""
NUMBERS = (0, 50, 100)
"""Numbers of the episodes in training."""
EXPLAINED = 2
"""Number of a run's first episodes that are explained."""
TIME = 1_700_000_000


@dataclass
class RecordingsPage:
    """What a page was written from: of each run and episode the series, and maps before coding."""

    directory: Path
    manifest: dict[str, Any] = field(default_factory=dict)
    series: list[list[dict[str, np.ndarray]]] = field(default_factory=list)
    maps: list[list[dict[str, np.ndarray]]] = field(default_factory=list)
    points: list[dict[str, np.ndarray]] = field(default_factory=list)


def write_recordings_page(
    directory: Path,
    lengths: Lengths = LENGTHS,
    *,
    edit: Callable[[dict[str, Any]], None] = lambda manifest: None,
) -> RecordingsPage:
    """Write a page of a run for each entry of `lengths`; `edit` changes its manifest."""
    page, rng, files = RecordingsPage(directory), np.random.default_rng(5), LocalDirectory(directory)
    sections = [one for run in range(len(lengths)) for one in _run(page, files, rng, run, lengths[run])]
    rows = [
        describe_episode(run, index, page.series[run][index], page.maps[run][index] if index < EXPLAINED else None)
        for run in range(len(lengths))
        for index in range(len(lengths[run]))
    ]
    listing = {
        "live": False,
        "runs": [{"recording": f"recording-{k + 1}", "name": RUNS[k], "error": None} for k in range(len(lengths))],
        "episodes": rows,
    }
    page.manifest = {
        "format": "rl-clarity-page", "version": 2, "kind": "recordings", "id": "synthetic-recordings",
        "title": "Experiments", "complete": True, "missing": [],
        "agents": [describe_recorded_agent(f"agent-{k + 1}") for k in range(len(lengths))],
        "recordings": [
            {"id": f"recording-{k + 1}", "agent": f"agent-{k + 1}", "env_name": "runner", "name": RUNS[k]}
            for k in range(len(lengths))
        ],
        "sections": [section("episodes", "agent-1", listing), *sections],
        "view": {"video_speed": 12}, "numpy_precision": 6, "provenance": [],
    }  # fmt: skip
    edit(page.manifest)
    write_page(files, page.manifest)
    return page


def describe_recorded_agent(name: str) -> dict[str, Any]:
    """An agent whose first actions move a stick."""
    agent = describe_agent(name)
    for action, combo in zip(agent["actions"], ([], ["LEFT"], ["RIGHT"], ["A"]), strict=True):
        action["combo"] = combo
    return agent


def describe_episode(
    run: int, index: int, series: dict[str, np.ndarray], maps: dict[str, np.ndarray] | None
) -> dict[str, Any]:
    """A row of the table of episodes."""
    shares = series["probabilities"]
    totals = {output: float(np.mean((maps or {})[f"total {output}"])) for output in ("policy", "value") if maps}
    return {
        "run": run, "trajectory": index, "episode": NUMBERS[index % len(NUMBERS)], "step": 1000 * index + run,
        "return": float(series["rewards"].sum()), "length": len(series["actions"]),
        "time": TIME + 3600 * index + run, "end": "done", "explained": maps is not None, "error": None,
        "entropy": float(-(shares * np.log(shares)).sum(1).mean()),
        **({"totals": {"perturbation": totals}} if maps else {}),
    }  # fmt: skip


def _run(
    page: RecordingsPage, files: LocalDirectory, rng: np.random.Generator, run: int, lengths: Sequence[int]
) -> list[dict[str, Any]]:
    agent = f"agent-{run + 1}"
    all_series = [
        {**make_series(rng, steps, 2 * run + 1), "info.lives": np.linspace(3, 0, steps).round().astype(np.float32)}
        for steps in lengths
    ]
    all_maps = [make_maps(rng, np.arange(0, steps, EVERY)) for steps in lengths[:EXPLAINED]]
    page.series.append(all_series)
    page.maps.append(all_maps)
    page.points.append(_points(rng, lengths, all_series))
    return [
        section("trajectories", agent, {
            "segment": SEGMENT, "scrub": {"steps": 512, "height": SIDE, "step_width": 2}, "film": {"columns": 8},
            "trajectories": [write_trajectory(files, agent, k, series) for k, series in enumerate(all_series)],
            "bookmarks": {"high": [], "low": []},
        }),
        write_saliency(files, agent, all_maps, lengths),
        section("state_map", agent, {
            "maps": [
                {"source": "state", "label": "recurrent state", "method": "tsne", "perplexity": 30.0, "fitted_on": 100,
                 "chunk": write_chunk(files, f"{agent}/state_map/state-tsne.js", page.points[-1])},
            ],
            "colors": [
                {"key": "value", "label": "value", "kind": "number"},
                {"key": "action", "label": "action", "kind": "category", "names": ["no-op", "←", "→", "A"]},
                {"key": "time", "label": "time in episode", "kind": "number"},
            ],
        }),
    ]  # fmt: skip


def _points(
    rng: np.random.Generator, lengths: Sequence[int], series: Sequence[dict[str, np.ndarray]]
) -> dict[str, np.ndarray]:
    """Points along a circle, one for each step: a quarter of it for each episode."""
    time = np.concatenate([np.arange(steps) for steps in lengths])
    trajectory = np.repeat(np.arange(len(lengths)), lengths)
    angle = (trajectory + time / np.array(lengths)[trajectory]) * np.pi / 2
    place = np.stack([np.cos(angle), np.sin(angle)]) * (1 + 0.03 * rng.normal(size=(2, len(angle))))
    return {
        "x": place[0].astype(np.float32), "y": place[1].astype(np.float32),
        "trajectory": trajectory.astype(np.int32), "frame": time.astype(np.int32),
        "color.value": np.concatenate([one["values"] for one in series]),
        "color.action": np.concatenate([one["actions"] for one in series]),
        "color.time": time.astype(np.float32),
    }  # fmt: skip
