"""A page of training with made-up data, written by plain numpy to docs/page-format.md (`synthetic` writes an agent's).

The expected numbers of tests are computed from the arrays that are returned, not from the page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from rl_clarity.jobs.directory import LocalDirectory
from rl_clarity.pages.document import write_page
from tests.browser.drawn import SIDE, draw_frame, smooth_columns
from tests.browser.pages import Visitor
from tests.browser.synthetic import SEGMENT, encode_png, write_chunk, write_image

EVERY = 4
ROWS, COLUMNS = 16, 16
LABELS = ("no-op", "←", "→", "A")
COLORS = ("#303030", "#2a7fb8", "#e08a1e", "#b34fa3")
NAMES = ("start", "half a million", "one million", "the end")
STEPS = (20_000, 500_000, 1_000_000, 4_000_000)
Lengths = tuple[tuple[int, ...], ...]
LENGTHS: Lengths = ((60, 72), (96, 40), (120, 80), (150, 90))
"""Steps of each checkpoint's episodes."""
HALVES = (slice(0, 8), slice(8, 16))
QUADRANTS = [(rows, columns) for rows in HALVES for columns in HALVES]
"""Rows and columns of the regions that the page opens with."""


@dataclass
class TrainingPage:
    """What a page was written from: of each checkpoint and episode the series, and maps before coding."""

    directory: Path
    series: list[list[dict[str, np.ndarray]]] = field(default_factory=list)
    codes: list[list[dict[str, np.ndarray]]] = field(default_factory=list)
    shown: list[dict[str, np.ndarray]] = field(default_factory=list)
    divergence: np.ndarray = field(default_factory=lambda: np.zeros(0))
    checkpoints: list[dict[str, Any]] = field(default_factory=list)
    changes: dict[str, np.ndarray] = field(default_factory=dict)
    """By each checkpoint after the first, at each of the compared steps."""

    def shares(self, checkpoint: int, episode: int, output: str, regions: list[tuple[slice, slice]]) -> np.ndarray:
        """Shares (regions, maps) of the sum of a map."""
        codes = self.codes[checkpoint][episode][output].astype(np.float64)
        sums = np.stack([codes[:, rows, columns].sum((1, 2)) for rows, columns in regions])
        total = codes.sum((1, 2))
        return np.divide(sums, total, out=np.zeros_like(sums), where=total > 0)


def write_training_page(directory: Path, lengths: Lengths = LENGTHS) -> TrainingPage:
    """Write a page of a checkpoint for each entry of `lengths`, the steps of its episodes."""
    page, rng = TrainingPage(directory), np.random.default_rng(3)
    files = LocalDirectory(directory)
    agents = [describe_agent(f"agent-{index + 1}") for index in range(len(lengths))]
    sections = [section for index in range(len(lengths)) for section in _checkpoint(page, files, rng, index, lengths)]
    training = _training(page, files, rng)
    sections.append(section("training", agents[-1]["id"], training))
    updates = write_updates(page, files, training["reference"]["shown"])
    sections.append(section("updates", agents[-1]["id"], updates))
    manifest = {
        "format": "rl-clarity-page", "version": 2, "kind": "training", "id": "synthetic-training", "title": "Runner",
        "complete": True, "missing": [], "agents": agents,
        "recordings": [
            {"id": f"recording-{index + 1}", "agent": agent["id"], "env_name": "runner"}
            for index, agent in enumerate(agents)
        ],
        "sections": sections, "view": {"video_speed": 12}, "numpy_precision": 6,
        "provenance": [
            {"group": "Checkpoints", "items": [[name, f"{name}.jd"] for name in NAMES]},
            {"group": "Options", "items": [["episodes", "2"], ["every", str(EVERY)]]},
        ],
    }  # fmt: skip
    write_page(files, manifest)
    return page


def describe_agent(name: str) -> dict[str, Any]:
    size = {"height": SIDE, "width": SIDE, "channels": 3, "frame_height": SIDE, "frame_width": SIDE, "stack": 1}
    return {
        "id": name, "network": "clear", "kind": "policy", "has_value": True, "recurrent": False,
        "num_actions": len(LABELS),
        "observation": {**size, "aligned": True},
        "actions": [
            {"label": label, "combo": [label], "color": color} for label, color in zip(LABELS, COLORS, strict=True)
        ],
        "action_groups": [],
    }  # fmt: skip


def section(kind: str, agent: str, data: dict[str, Any]) -> dict[str, Any]:
    recording = agent.replace("agent", "recording")
    title = kind.capitalize()
    return {"kind": kind, "version": 1, "title": title, "agent": agent, "recording": recording, "data": data}


def _checkpoint(
    page: TrainingPage, files: LocalDirectory, rng: np.random.Generator, index: int, lengths: Lengths
) -> list[dict[str, Any]]:
    agent = f"agent-{index + 1}"
    page.series.append([make_series(rng, steps, index) for steps in lengths[index]])
    page.codes.append([make_maps(rng, np.arange(0, steps, EVERY)) for steps in lengths[index]])
    trajectories = [
        write_trajectory(files, agent, episode, page.series[index][episode]) for episode in range(len(lengths[index]))
    ]
    series = page.series[index][0]
    shares = np.bincount(series["actions"], minlength=len(LABELS)) / len(series["actions"])
    page.checkpoints.append({
        "agent": agent, "recording": agent.replace("agent", "recording"), "name": NAMES[index % len(NAMES)],
        "step": STEPS[index % len(STEPS)],
        "returns": {"mean": 4.0 * index + 1, "error": 0.5, "episodes": 8},
        "entropy": float(_entropy(series["probabilities"]).mean()), "action_entropy": float(_entropy(shares)),
        "action_shares": shares.tolist(),
        "totals": {
            output: float(page.codes[index][0][f"total {output}"].mean()) for output in ("policy", "value")
        },
        "correlation": {"policy": None if index == 0 else 0.2 * index, "value": 1.0 if index == 3 else 0.3},
    })  # fmt: skip
    return [
        section("trajectories", agent, {
            "segment": SEGMENT, "scrub": {"steps": 512, "height": SIDE, "step_width": 2}, "film": {"columns": 8},
            "trajectories": trajectories, "bookmarks": {"high": [], "low": []},
        }),
        write_saliency(files, agent, page.codes[index], lengths[index]),
    ]  # fmt: skip


def write_saliency(
    files: LocalDirectory, agent: str, all_maps: Sequence[Mapping[str, np.ndarray]], lengths: Sequence[int]
) -> dict[str, Any]:
    """Write maps by perturbation of the first episodes, of which `lengths` has the steps; return their section."""
    outputs = ("policy", "value")
    rest = len(lengths) - len(all_maps)
    chunks: list[list[str]] = [
        write_map_chunks(files, f"{agent}/saliency/perturbation/{episode + 1}", maps, lengths[episode])
        for episode, maps in enumerate(all_maps)
    ]
    largest = {output: [float(maps[f"scale {output}"].max()) for maps in all_maps] for output in outputs}
    return section("saliency", agent, {
        "every": EVERY,
        "methods": [{
            "name": "perturbation", "label": "Perturbation", "signed": False,
            "outputs": [{"id": output, "label": output} for output in outputs],
            "rows": ROWS, "columns": COLUMNS,
            "centers": {"rows": centers(ROWS).tolist(), "columns": centers(COLUMNS).tolist()},
            "maps": chunks + [[]] * rest, "scales": {key: [*all_, *[None] * rest] for key, all_ in largest.items()},
            "percentile": {key: max(all_) for key, all_ in largest.items()},
        }],
    })  # fmt: skip


def centers(count: int) -> np.ndarray:
    """Positions of the cells' centers as shares of a side."""
    return (np.arange(count) + 0.5) / count


def make_series(rng: np.random.Generator, steps: int, index: int) -> dict[str, np.ndarray]:
    count = len(LABELS)
    logits = smooth_columns(rng.normal(size=(steps, count)), 4) * (2 + 3 * index)
    probabilities = np.exp(logits - logits.max(1, keepdims=True))
    probabilities /= probabilities.sum(1, keepdims=True)
    rewards = np.zeros(steps)
    rewards[rng.choice(steps, 2 + 2 * index, replace=False)] = 1
    firsts = np.zeros(steps, np.uint8)
    firsts[0] = 1
    return {
        "actions": np.argmax(logits + rng.gumbel(size=logits.shape), 1).astype(np.int32),
        "rewards": rewards.astype(np.float32), "firsts": firsts,
        "advantages": (smooth_columns(rng.normal(size=(steps, 1)), 5)[:, 0] * 4).astype(np.float32),
        "values": (2 * index + smooth_columns(rng.normal(size=(steps, 1)), 6)[:, 0] * 6).astype(np.float32),
        "probabilities": probabilities.astype(np.float32), "logits": logits.astype(np.float32),
    }  # fmt: skip


def write_trajectory(files: LocalDirectory, agent: str, episode: int, series: dict[str, np.ndarray]) -> dict[str, Any]:
    steps, folder = len(series["actions"]), f"{agent}/trajectories/{episode + 1}"
    frames = [draw_frame(episode, t) for t in range(steps)]
    names = []
    for start in range(0, steps, SEGMENT):
        encoded = [encode_png(frame) for frame in frames[start : start + SEGMENT]]
        offsets = np.cumsum([0] + [len(data) for data in encoded]).astype(np.int32)
        name = f"{folder}/frames-{start // SEGMENT + 1}.js"
        names.append(write_chunk(files, name, {"offsets": offsets, "png": b"".join(encoded)}))
    scrub = write_image(files, f"{folder}/scrub-1.png", np.concatenate([frame[:, 42:44] for frame in frames], axis=1))
    total = float(series["rewards"].sum())
    return {
        "steps": steps, "series": write_chunk(files, f"{folder}/series.js", series), "scrub": [scrub],
        "frames": names, "images": [], "episodes": [{"frame": 0, "steps": steps, "return": total, "end": "done"}],
    }  # fmt: skip


def make_maps(rng: np.random.Generator, steps: np.ndarray) -> dict[str, np.ndarray]:
    """Codes of a blob that drifts, its scales and totals; the third map is constant."""
    arrays = {"steps": steps.astype(np.int32)}
    for output in ("policy", "value"):
        t = steps[:, None, None] / 20 + rng.random() * 6
        y, x = np.mgrid[:ROWS, :COLUMNS] / ROWS
        blob = np.exp(-((y - 0.5 - 0.35 * np.sin(t)) ** 2 + (x - 0.5 - 0.35 * np.cos(1.3 * t)) ** 2) / 0.03)
        blob *= rng.random((len(steps), 1, 1)) + 0.2
        blob[2] = 0
        scale = blob.max((1, 2))
        arrays[output] = np.round(255 * blob / np.where(scale > 0, scale, 1)[:, None, None]).astype(np.uint8)
        arrays[f"scale {output}"] = scale.astype(np.float32)
        arrays[f"total {output}"] = blob.sum((1, 2)).astype(np.float32)
    return arrays


def write_map_chunks(files: LocalDirectory, folder: str, arrays: Mapping[str, np.ndarray], steps: int) -> list[str]:
    """A chunk for each segment of an episode."""
    names = []
    for start in range(0, steps, SEGMENT):
        inside = (arrays["steps"] >= start) & (arrays["steps"] < start + SEGMENT)
        names.append(write_chunk(files, f"{folder}-{start // SEGMENT + 1}.js", _map_arrays(arrays, inside)))
    return names


def _map_arrays(arrays: Mapping[str, np.ndarray], inside: np.ndarray | slice = slice(None)) -> dict[str, np.ndarray]:
    chunk = {"steps": arrays["steps"][inside]}
    for output in ("policy", "value"):
        chunk[f"codes.{output}"] = arrays[output][inside]
        chunk[f"scales.{output}"] = arrays[f"scale {output}"][inside]
        chunk[f"totals.{output}"] = arrays[f"total {output}"][inside]
    return chunk


def _training(page: TrainingPage, files: LocalDirectory, rng: np.random.Generator) -> dict[str, Any]:
    steps = len(page.series[-1][0]["actions"])
    shown = []
    for index in range(len(page.series)):
        series, maps = make_series(rng, steps, index), make_maps(rng, np.arange(0, steps, EVERY))
        entropy = _entropy(series["probabilities"]).astype(np.float32)
        arrays = {"values": series["values"], "probabilities": series["probabilities"], "entropy": entropy}
        page.shown.append(arrays)
        shown.append(write_chunk(files, f"training/shown-{index + 1}.js", arrays | _map_arrays(maps)))
    probabilities = np.stack([arrays["probabilities"] for arrays in page.shown])
    page.divergence = _entropy(probabilities.mean(0)) - _entropy(probabilities).mean(0)
    divergence = {"jensen_shannon": page.divergence.astype(np.float32)}
    at = np.linspace(0, 4.2e6, 80)
    returns = 14 * (1 - np.exp(-at / 1.5e6)) + rng.normal(size=80) * 0.4
    numbers = {"steps": at, "returns": returns, "low": returns - 1.5, "high": returns + 1.5}
    curve = {key: array.astype(np.float32) for key, array in numbers.items()}
    return {
        "checkpoints": page.checkpoints, "unit": "steps",
        "curve": write_chunk(files, "training/curve.js", curve),
        "curve_source": "progress.csv",
        "reference": {
            "agent": f"agent-{len(page.series)}", "trajectory": 0, "shown": shown, "every": EVERY,
            "divergence": write_chunk(files, "training/divergence.js", divergence),
        },
    }  # fmt: skip


def write_updates(page: TrainingPage, files: LocalDirectory, shown: Sequence[str]) -> dict[str, Any]:
    """Write changes by each checkpoint, largest at another step for each."""
    steps = np.arange(0, len(page.series[-1][0]["actions"]), EVERY)
    rng, count = np.random.default_rng(8), len(shown) - 1
    page.changes = {
        name: (rng.random((count, len(steps))) * (1 + np.arange(count))[:, None]).astype(np.float32)
        for name in ("policy", "value", "maps.policy", "maps.value")
    }
    means = [{}, *({name: float(one[k].mean()) for name, one in page.changes.items()} for k in range(count))]
    places = centers(ROWS).tolist()
    return {
        "unit": "steps", "steps": steps.tolist(),
        "checkpoints": [
            {"name": one["name"], "step": one["step"], "shown": name, "changes": mean}
            for one, name, mean in zip(page.checkpoints, shown, means, strict=True)
        ],
        "changes": write_chunk(files, "updates/changes.js", page.changes),
        "method": {
            "name": "perturbation", "label": "Perturbation", "parameters": {}, "signed": False,
            "outputs": [{"id": output, "label": output} for output in ("policy", "value")],
            "rows": ROWS, "columns": COLUMNS, "centers": {"rows": places, "columns": places},
        },
        "frames": None,
    }  # fmt: skip


def _entropy(probabilities: np.ndarray) -> np.ndarray:
    terms = np.where(probabilities > 0, -probabilities * np.log(np.maximum(probabilities, 1e-30)), 0)
    return np.asarray(terms.sum(-1))


def settle(visitor: Visitor) -> None:
    """Wait until every checkpoint's episode is loaded and shown, and the log, which moves what is below it."""
    visitor.page.wait_for_function(
        """() => {
          const count = window.rlClarity?.manifest.checkpoints.length;
          const loaded = count && [...Array(count).keys()].every((k) => rlClarity.shares(k));
          const frames = [...document.querySelectorAll('[data-testid=training-observation]')];
          const loading = [...document.querySelectorAll("[aria-live]")].some((p) => /^Loading/.test(p.textContent));
          return loaded && !loading && frames.length && frames.every((frame) => frame.dataset.frame);
        }"""
    )
