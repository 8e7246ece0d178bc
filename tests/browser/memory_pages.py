"""A page of an agent's memory with made-up data, written by plain numpy to docs/page-format.md.

The expected numbers of tests are computed from the arrays that are returned, not from the page.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from rl_clarity.jobs.directory import LocalDirectory
from rl_clarity.pages.document import write_page
from rl_clarity.pages.files import ImageName
from tests.browser.drawn import SIDE, draw_frame, smooth_columns
from tests.browser.pages import Visitor
from tests.browser.synthetic import SEGMENT, write_chunk
from tests.browser.training_pages import LABELS, describe_agent, make_series, section, write_trajectory

AGENT = "agent-1"
LENGTHS = (60, 90, 48, 70, 64, 80)
"""Steps of the episodes."""
DIRECTIONS = 5
BEHAVIOURS = 3
LAGS = (1, 2, 4, 8)
AUTOCORRELATION_LAGS = (1, 2, 4, 8, 16)
ROWS, COLUMNS = 8, 8
"""Size of the grids of saliency."""
WINDOW = 16
"""Steps of a window."""
OUTPUTS = (*LABELS, "value")
MEASURED = (0, 2)
"""Episodes of the memory matrix."""
CHANGES = ("reset", "frozen", "swapped", "removed ICA 1")
CORRELATED = (
    "reward", "return", "rewarded", "time", "length", "share", "value", "entropy", "largest_log_probability",
)  # fmt: skip
TARGETS = (
    {"id": "value", "kind": "value", "label": "value function"},
    {"id": "action", "kind": "action", "label": "action taken"},
    {"id": "direction-3", "kind": "direction", "direction": 3, "label": "ICA 4"},
)


@dataclass
class MemoryPage:
    """What a page was written from: arrays of each episode and window, and of the sections' chunks by name."""

    directory: Path
    manifest: dict[str, Any] = field(default_factory=dict)
    series: list[dict[str, np.ndarray]] = field(default_factory=list)
    coordinates: list[dict[str, np.ndarray]] = field(default_factory=list)
    windows: list[dict[str, np.ndarray]] = field(default_factory=list)
    matrices: dict[int, np.ndarray] = field(default_factory=dict)
    """Changes of the policy by episode."""
    points: dict[str, np.ndarray] = field(default_factory=dict)
    chunks: dict[str, dict[str, np.ndarray]] = field(default_factory=dict)
    """Arrays of `cards`, `behaviours`, `causes` and `memory`."""


def write_memory_page(
    directory: Path,
    *,
    with_simulator: bool = True,
    edit: Callable[[dict[str, Any]], None] = lambda manifest: None,
) -> MemoryPage:
    """Write a page of an agent's memory; `edit` changes its manifest."""
    page, rng, files = MemoryPage(directory), np.random.default_rng(11), LocalDirectory(directory)
    page.series = [make_series(rng, steps, 1) for steps in LENGTHS]
    page.coordinates = [_coordinates(rng, steps) for steps in LENGTHS]
    trajectories = section("trajectories", AGENT, {
        "segment": SEGMENT, "scrub": {"steps": 512, "height": SIDE, "step_width": 2}, "film": {"columns": 8},
        "trajectories": [write_trajectory(files, AGENT, k, series) for k, series in enumerate(page.series)],
        "bookmarks": {"high": [], "low": []},
    })  # fmt: skip
    sections = [
        trajectories,
        section("states", AGENT, _states(page, files, rng, with_simulator)),
        section("state_map", AGENT, _state_map(page, files)),
        section("windows", AGENT, _windows(page, files, rng, with_simulator)),
        section("interventions", AGENT, _interventions(files)),
        section("memory_matrix", AGENT, _matrix(page, files)),
    ]
    if with_simulator:
        sections.append(section("simulator", AGENT, _simulator(files)))
    page.manifest = {
        "format": "rl-clarity-page", "version": 2, "kind": "memory", "id": "synthetic-memory", "title": "Corridor",
        "complete": True, "missing": [], "agents": [describe_agent(AGENT) | {"recurrent": True, "network": "gru"}],
        "recordings": [{"id": "recording-1", "agent": AGENT, "env_name": "runner"}],
        "sections": sections, "view": {"video_speed": 12}, "numpy_precision": 6,
        "provenance": [{"group": "Checkpoint", "items": [["file", "gru.jd"]]}],
    }  # fmt: skip
    edit(page.manifest)
    write_page(files, page.manifest)
    return page


def _coordinates(rng: np.random.Generator, steps: int) -> dict[str, np.ndarray]:
    """Waves of different lengths; clusters and behaviours follow the first of them."""
    t = np.arange(steps)
    phase, speed = rng.random(DIRECTIONS) * 6.28, 0.06 * 1.6 ** np.arange(DIRECTIONS)
    waves = np.sin(t[:, None] * speed + phase) * (1 + np.arange(DIRECTIONS)) + 0.2 * rng.normal(size=(steps, 5))
    behaviour = np.digitize(waves[:, 0], (-0.4, 0.4))
    behaviour[:6] = -1
    return {
        "coordinates": waves.astype(np.float32),
        "cluster": (np.digitize(waves[:, 1], (-1, 0, 1))).astype(np.int32),
        "behaviour": behaviour.astype(np.int32),
    }


def _directions(page: MemoryPage) -> list[dict[str, Any]]:
    scales = np.concatenate([one["coordinates"] for one in page.coordinates]).std(0)
    return [
        {
            "name": f"ICA {k + 1}", "scale": float(scales[k]), "explained": round(0.4 / (k + 1), 3),
            "seed_stability": round(0.99 - 0.08 * k, 2), "half_stability": None if k == 4 else round(0.97 - 0.1 * k, 2),
            "kurtosis": round(3 + 1.5 * k, 2),
        }
        for k in range(DIRECTIONS)
    ]  # fmt: skip


def _states(page: MemoryPage, files: LocalDirectory, rng: np.random.Generator, with_simulator: bool) -> dict[str, Any]:
    page.chunks = {
        "cards": _cards(page, rng),
        "behaviours": _behaviors(page, rng),
        "causes": _causes(rng, with_simulator),
        "memory": _memory(),
    }
    names = {key: write_chunk(files, f"states/{key}.js", arrays) for key, arrays in page.chunks.items()}
    return {
        "method": "ica", "directions": _directions(page), "autocorrelation_lags": list(AUTOCORRELATION_LAGS),
        "outputs": list(OUTPUTS),
        "coordinates": [
            write_chunk(files, f"states/coordinates-{k + 1}.js", one) for k, one in enumerate(page.coordinates)
        ],
        "cards": names["cards"],
        "clusters": [
            {"method": "kmeans", "count": 4, "sizes": [120, 100, 90, 102], "agreement": 0.93},
            {"method": "gaussian_mixture", "count": 4, "sizes": [150, 70, 90, 102], "agreement": 0.71},
        ],
        "behaviours": {"count": BEHAVIOURS, "agreement": 0.84, "chunk": names["behaviours"]},
        "causes": {
            "lags": list(LAGS), "clusters": [f"behaviour {k + 1}" for k in range(BEHAVIOURS)], "chunk": names["causes"]
        },
        "memory": {"changes": list(CHANGES), "chunk": names["memory"]},
        "skipped": {},
    }  # fmt: skip


def _cards(page: MemoryPage, rng: np.random.Generator) -> dict[str, np.ndarray]:
    values = np.concatenate([one["coordinates"] for one in page.coordinates])
    places = np.array([(k, t) for k, steps in enumerate(LENGTHS) for t in range(steps)])
    counted = [np.histogram(values[:, d], 40) for d in range(DIRECTIONS)]
    order = np.argsort(values, 0)
    extremes = {"top": order[::-1][:8], "middle": order[len(order) // 2 :][:8], "bottom": order[:8]}
    arrays = {
        "histogram": np.stack([counts for counts, _ in counted]).astype(np.int32),
        "edges": np.stack([edges for _, edges in counted]).astype(np.float32),
        "readout": rng.normal(size=(DIRECTIONS, len(OUTPUTS))).astype(np.float32),
        "cosine": (np.eye(DIRECTIONS) + 0.3 * (1 - np.eye(DIRECTIONS))).astype(np.float32),
        "autocorrelation": np.exp(
            -np.array(AUTOCORRELATION_LAGS)[None] / (4.0 + 3 * np.arange(DIRECTIONS)[:, None])
        ).astype(np.float32),
        "correlation.action": rng.uniform(-0.6, 0.6, (DIRECTIONS, len(LABELS))).astype(np.float32),
    }
    for name in CORRELATED:
        arrays[f"correlation.{name}"] = rng.uniform(-0.9, 0.9, DIRECTIONS).astype(np.float32)
    for name, indices in extremes.items():
        arrays[name] = places[indices].transpose(1, 0, 2).astype(np.int32)
    return arrays


def _behaviors(page: MemoryPage, rng: np.random.Generator) -> dict[str, np.ndarray]:
    values = np.concatenate([one["coordinates"] for one in page.coordinates])
    labels = np.concatenate([one["behaviour"] for one in page.coordinates])
    actions = np.concatenate([one["actions"] for one in page.series])
    places = np.array([(k, t) for k, steps in enumerate(LENGTHS) for t in range(steps)])
    inside = [labels == k for k in range(BEHAVIOURS)]
    return {
        "components": np.stack([values[on].mean(0) for on in inside]).astype(np.float32),
        "actions": np.stack(
            [np.bincount(actions[on], minlength=len(LABELS)) / on.sum() for on in inside]
        ).astype(np.float32),
        "clips": np.stack([rng.permutation(places[on])[:8] for on in inside]).astype(np.int32),
        "sizes": np.array([on.sum() for on in inside], np.int32),
    }  # fmt: skip


def _causes(rng: np.random.Generator, with_simulator: bool) -> dict[str, np.ndarray]:
    """Entries (lag, from, to): a diagonal that fades, and one strong link from the first direction to the fourth."""
    fading = np.array([0.9, 0.8, 0.6, 0.4])[:, None, None] * np.eye(DIRECTIONS)
    link = np.zeros((DIRECTIONS, DIRECTIONS))
    link[0, 3] = -0.7
    shape = (len(LAGS), DIRECTIONS, DIRECTIONS)
    correlation = np.clip(fading + link + rng.normal(size=shape) * 0.08, -1, 1)
    influence = fading + 0.8 * link + rng.normal(size=shape) * 0.05
    by = correlation[None] * np.array([1.0, 0.5, -0.5])[:, None, None, None]
    share = np.array([0.92, 0.86, 0.71, 0.55])
    arrays = {
        "correlation": correlation, "correlation.interval": np.stack([correlation - 0.1, correlation + 0.1], -1),
        "correlation.by": by, "influence": influence,
        "influence.by": influence[None] * np.array([1.0, 0.7, 0.3])[:, None, None, None],
        "consistency.share": share, "consistency.null": np.tile([0.42, 0.58], (len(LAGS), 1)),
        "consistency.p": np.array([0.005, 0.005, 0.01, 0.3]), "consistency.by.share": np.stack([share] * BEHAVIOURS),
    }  # fmt: skip
    if with_simulator:
        arrays["influence.world"] = influence + rng.normal(size=shape) * 0.2
    return {key: array.astype(np.float32) for key, array in arrays.items()}


def _memory() -> dict[str, np.ndarray]:
    """How far outputs differ: (change, step after it)."""
    after = np.arange(24)
    reach = np.exp(-after / np.array([12.0, 8.0, 6.0, 3.0])[:, None]) * np.array([0.8, 0.6, 0.5, 0.2])[:, None]
    value = 3 * reach
    arrays = {
        "policy": reach, "policy_interval": np.stack([0.8 * reach, 1.2 * reach], -1), "value": value,
        "value_interval": np.stack([0.7 * value, 1.3 * value], -1), "same_action": 1 - 0.6 * reach,
    }  # fmt: skip
    return {key: array.astype(np.float32) for key, array in arrays.items()}


def _state_map(page: MemoryPage, files: LocalDirectory) -> dict[str, Any]:
    time = np.concatenate([np.arange(steps) for steps in LENGTHS])
    values = np.concatenate([one["coordinates"] for one in page.coordinates])
    page.points = {
        "x": values[:, 0] + 0.2 * values[:, 3], "y": values[:, 1],
        "trajectory": np.repeat(np.arange(len(LENGTHS)), LENGTHS).astype(np.int32), "frame": time.astype(np.int32),
        "color.value": np.concatenate([one["values"] for one in page.series]),
        "color.action": np.concatenate([one["actions"] for one in page.series]),
        "color.cluster": np.concatenate([one["cluster"] for one in page.coordinates]),
        "color.behaviour": np.concatenate([one["behaviour"] for one in page.coordinates]),
        "color.strongest": np.abs(values).argmax(1).astype(np.int32), "color.time": time.astype(np.float32),
    }  # fmt: skip
    return {
        "maps": [
            {"source": "state", "label": "recurrent state", "method": "pca", "perplexity": None, "fitted_on": 412,
             "chunk": write_chunk(files, "state_map/pca.js", page.points)},
            {"source": "state", "label": "recurrent state", "method": "tsne", "perplexity": 30.0, "fitted_on": 412,
             "chunk": write_chunk(files, "state_map/tsne.js", page.points)},
        ],
        "colors": [
            {"key": "value", "label": "value", "kind": "number"},
            {"key": "action", "label": "action", "kind": "category", "names": list(LABELS)},
            {"key": "cluster", "label": "cluster", "kind": "category"},
            {"key": "behaviour", "label": "behaviour", "kind": "category"},
            {"key": "strongest", "label": "strongest component", "kind": "category",
             "names": [f"ICA {k + 1}" for k in range(DIRECTIONS)]},
            {"key": "time", "label": "time in episode", "kind": "number"},
        ],
    }  # fmt: skip


def _matrix(page: MemoryPage, files: LocalDirectory) -> dict[str, Any]:
    """Decisions depend on the exchanges up to 8 steps before them, more on nearer ones; two episodes are measured."""
    episodes = []
    for trajectory in MEASURED:
        steps = LENGTHS[trajectory]
        exchanged = np.arange(1, steps, 4)
        lag = np.arange(steps)[None] - exchanged[:, None] + 1
        policy = np.where(lag < 1, np.nan, np.where(lag > 8, 0, (9 - lag) / 8 * (1 + trajectory))).astype(np.float32)
        page.matrices[trajectory] = policy
        arrays = {
            "exchanged": exchanged.astype(np.int32), "policy": policy, "policy_spread": policy / 10, "value": policy * 2
        }  # fmt: skip
        episodes.append({
            "trajectory": trajectory, "chunk": write_chunk(files, f"memory_matrix/{trajectory + 1}.js", arrays)
        })  # fmt: skip
    reach = {
        "steps": 8, "effect": 0.25, "interval": [0.2, 0.3], "count": 2, "episodes": 2, "longest": 79,
        "detectable": 0.78, "noticeable": 0.02,
    }  # fmt: skip
    strongest = {"trajectory": 2, "frame": 21, "begins": 13, "until": 13, "change": 3.0, "policy": 3.0, "spread": 0.3}
    return {"partners": 3, "reach": reach, "strongest": strongest, "episodes": episodes, "skipped": None}


def _windows(page: MemoryPage, files: LocalDirectory, rng: np.random.Generator, with_simulator: bool) -> dict[str, Any]:
    """Two windows of each episode; those of odd episodes do not explain the direction."""
    paths = ["memory", "whole"] if with_simulator else ["memory"]
    entries: list[dict[str, Any]] = []
    for trajectory, steps in enumerate(LENGTHS):
        for number, frame in enumerate((steps // 2, steps - 4)):
            targets = TARGETS if trajectory % 2 == 0 else TARGETS[:2]
            arrays = _explained(rng, len(targets), paths)
            page.windows.append(arrays)
            end = ("top", "middle", "bottom")[trajectory % 3]
            why: list[dict[str, Any]] = [{"kind": "episode"}]
            if number:
                why = [{"kind": "direction", "direction": trajectory % DIRECTIONS, "end": end}]
            if trajectory % 2:
                why.append({"kind": "behaviour", "behaviour": trajectory % BEHAVIOURS})
            entries.append({
                "trajectory": trajectory, "frame": frame, "first": frame - WINDOW + 1,
                "targets": [target["id"] for target in targets], "why": why,
                **({} if (partner := _partner(trajectory, frame)) is None else {"partner": partner}),
                "chunk": write_chunk(files, f"windows/{len(entries) + 1}.js", arrays),
            })  # fmt: skip
    return {"targets": list(TARGETS), "paths": paths, "windows": entries}


def _partner(trajectory: int, frame: int) -> int | None:
    """Return another episode that has a step."""
    return next((i for i, steps in enumerate(LENGTHS) if i != trajectory and steps > frame), None)


def _explained(rng: np.random.Generator, targets: int, paths: list[str]) -> dict[str, np.ndarray]:
    """Grids with a positive and a negative blob that drift and grow towards the end."""
    y, x = np.mgrid[:ROWS, :COLUMNS] / ROWS
    arrays: dict[str, np.ndarray] = {}
    for path in paths:
        phase = rng.random((targets, 1, 1, 1)) * 6
        at = np.arange(WINDOW)[:, None, None] / 5
        grow = 0.92 ** np.arange(WINDOW)[::-1, None, None]
        grids = np.zeros((targets, WINDOW, ROWS, COLUMNS))
        for sign in (1, -1):
            cy, cx = 0.5 + 0.35 * np.sin(at + phase + sign), 0.5 + 0.35 * np.cos(at + phase + 2 * sign)
            grids += sign * grow * np.exp(-((y - cy) ** 2 + (x - cx) ** 2) / 0.03)
        scale = np.abs(grids).max((1, 2, 3))
        components = smooth_columns(rng.normal(size=(WINDOW, targets * DIRECTIONS)), 2) * grow[:, 0]
        arrays[path] = np.round(127 * grids / scale[:, None, None, None]).astype(np.int8)
        arrays[f"{path}.scale"] = (scale * (1 + rng.random(targets))).astype(np.float32)
        arrays[f"{path}.components"] = (
            components.reshape(WINDOW, targets, DIRECTIONS).transpose(1, 0, 2).astype(np.float32)
        )
    return arrays


def _interventions(files: LocalDirectory) -> dict[str, Any]:
    def row(measure: str, unedited: float, edited: float) -> dict[str, Any]:
        difference = edited - unedited
        return {
            "measure": measure, "unedited": unedited, "edited": edited, "difference": difference,
            "interval": [difference - 0.4, difference + 0.4], "p": 0.01, "adjusted_p": 0.04, "effect": difference / 2,
        }  # fmt: skip

    return {
        "episodes": 32,
        "interventions": [
            {"label": "ICA 1 and ICA 4 exchanged", "swap": [[0, 3]],
             "rows": [row("return", 6.5, 3.25), row("length", 61, 88)], "clip": _clip(files, "exchanged", 0)},
            {"label": "ICA 3 collapsed", "swap": [[2, None]], "rows": [row("return", 6.5, 6.4)], "clip": None},
        ],
    }  # fmt: skip


def _simulator(files: LocalDirectory) -> dict[str, Any]:
    horizon = np.arange(1, 17)
    kinds = ("posterior", "prior", "closed_loop", "last_frame", "mean_frame")

    def curves(size: float) -> dict[str, list[list[float]]]:
        means = [size * (k + 1) * np.sqrt(horizon) / 4 for k in range(len(kinds))]
        return {
            kind: [mean.tolist(), (0.6 * mean).tolist(), (1.5 * mean).tolist()]
            for kind, mean in zip(kinds, means, strict=True)
        }

    return {
        "quality": {
            "windows": 64, "auc": 0.61, "coverage": 0.93, "latent_dimensions": 14,
            "errors": {"frame": curves(0.02), "state": curves(0.5), "reward": curves(0.1)},
        },
        "compass": {
            "actions": list(LABELS), "displacements": [[0.0, 0.1], [-3.8, 0.2], [4.1, 0.1], [0.3, 2.9]],
            "expected": [[0, 0], [-1, 0], [1, 0], [0, 1]], "agreement": [None, 0.91, 0.97, 0.84],
        },
        "clips": [_clip(files, "simulated", 3, sides=4)], "context": 3, "horizon": 16,
        "fit": {"size": "tiny", "steps": 400, "seed": 0},
    }  # fmt: skip


def _clip(files: LocalDirectory, name: str, world: int, sides: int = 2) -> str:
    """An animated PNG of plays side by side."""
    frames = [
        Image.fromarray(np.concatenate([draw_frame(world + side, t) for side in range(sides)], 1))
        for t in range(0, 32, 2)
    ]
    buffer = io.BytesIO()
    frames[0].save(buffer, "PNG", save_all=True, append_images=frames[1:], duration=120, loop=0)
    files.write(f"clips/{name}.png", buffer.getvalue())
    return ImageName(f"clips/{name}.png")


def settle(visitor: Visitor) -> None:
    visitor.page.wait_for_function(
        """() => {
          document.querySelector("[data-testid=strip]")?.scrollIntoView({ block: "nearest" });
          const { trajectory, frame, window: explained } = window.rlClarity?.state() ?? {};
          const shown = document.querySelector("[data-testid=observation-canvas]")?.dataset.frame;
          const strip = document.querySelectorAll("[data-testid=strip-canvas]:not([data-frame=''])");
          const drawn = explained < 0 || strip.length || document.querySelector("[data-testid=no-target]");
          return shown === `${trajectory}/${frame}` && drawn && document.querySelector("[data-track^=component-]");
        }"""
    )


def listed(visitor: Visitor) -> list[int]:
    entries: list[int] = (
        visitor.by("windows").locator("li").evaluate_all("all => all.map((one) => +one.dataset.window)")
    )
    return entries
