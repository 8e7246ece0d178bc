"""A page with made-up effects of objects: two trajectories with saws, crates and a coin, and an unmeasured one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rl_clarity.analyses.debugging.findings import FindingsSection, NotFoundSection
from rl_clarity.analyses.objects.section import (
    DistanceEffect,
    EndingObject,
    MeanEffect,
    ObjectsSection,
    TrajectoryObjects,
    TypeEffects,
)
from rl_clarity.jobs.directory import LocalDirectory
from rl_clarity.pages.files import ChunkName
from rl_clarity.pages.sections import Column, Section
from tests.browser.drawn import SIDE
from tests.browser.synthetic import Size, write_chunk, write_synthetic_page

SIZE = Size(trajectories=3, steps=60, observations=16, layers=(("2a", 16, 32),), input_layer=False)
EVERY = 4
TYPES = ("crate", "coin", "saw")
"""Names of the types by their number in the chunks."""
CELL = 6
FINDINGS: list[dict[str, object]] = [
    {"statement": "The policy reacts to saw: +0.3.", "subject": "saw", "trajectory": 1, "frame": 32},
    {"statement": "No reaction to crate: +0.01.", "subject": "crate", "trajectory": 0, "frame": 8},
]
"""Rows of the section `findings`."""


@dataclass(frozen=True)
class ObjectPage:
    directory: Path
    chunks: list[dict[str, np.ndarray]]
    """Arrays of each trajectory's chunk."""
    section: ObjectsSection

    def here(self, trajectory: int, frame: int) -> list[int]:
        """Return the indices of the objects of a frame."""
        return [int(i) for i in np.flatnonzero(self.chunks[trajectory]["frame"] == frame)]

    def effects(self, name: str, output: str = "value") -> list[tuple[int, int, float]]:
        """Return the trajectory, frame and effect of every removal of a type."""
        return [
            (trajectory, int(chunk["frame"][i]), float(chunk[f"effect.{output}"][i]))
            for trajectory, chunk in enumerate(self.chunks)
            for i in np.flatnonzero(chunk["type"] == TYPES.index(name))
        ]


def write_object_page(
    directory: Path, size: Size = SIZE, *, ended: Sequence[EndingObject] | None = None, **observation: Any
) -> ObjectPage:
    """Write the page; `ended` are the objects that ended episodes, `observation` replaces what the manifest says of the
    agent's observations.
    """
    rng = np.random.default_rng(3)
    chunks = [effects_chunk(rng, np.arange(0, size.steps, EVERY)) for _ in range(2)] + [
        effects_chunk(rng, np.arange(0))
    ]
    files = LocalDirectory(directory)
    trajectories = [
        TrajectoryObjects(ChunkName(write_chunk(files, f"objects/{i + 1}/effects.js", chunk)), TYPES, ended)
        for i, chunk in enumerate(chunks)
    ]
    section = ObjectsSection(
        types=[summary(chunks, name) for name in ("crate", "saw", "coin")],
        trajectories=trajectories,
        every=EVERY,
        last_steps=30,
        frames=sum(len(chunk["frames"]) for chunk in chunks),
        skipped=0,
        undrawn=1,
        exact=True,
        unit="value",
        value_range=8.0,
        noise=0.4,
        height=SIDE,
        width=SIDE,
    )
    reason = "measured in 2 episodes, fewer than 5"
    sections = (
        section,
        FindingsSection(columns(statement="finding", subject="subject"), FINDINGS),
        NotFoundSection(columns(subject="subject", reason="why"), [{"subject": "coin", "reason": reason}]),
    )

    def edit(manifest: dict[str, Any]) -> None:
        manifest["agents"][0]["observation"].update(observation)
        manifest["sections"] += [Section(one).to_dict() for one in sections]

    write_synthetic_page(directory, size, edit=edit)
    return ObjectPage(directory, chunks, section)


def columns(**labels: str) -> list[Column]:
    return [Column(key, label) for key, label in labels.items()]


def effects_chunk(rng: np.random.Generator, frames: np.ndarray) -> dict[str, np.ndarray]:
    """Return the arrays of a chunk: in each frame two saws, four crates, and a coin in every second one."""
    rows = [
        (frame, TYPES.index(name), track, *place)
        for number, frame in enumerate(frames.tolist())
        for name, track, place in [
            ("saw", 0, (4.5 - frame / 10, 1.0)),
            ("saw", 1, (-3.0, -1.0)),
            *[("crate", 2 + k, (k * 1.5 - 3, -2.0)) for k in range(4)],
            *([("coin", 6, (2.0, 3.0))] if number % 2 == 0 else []),
        ]
    ]
    table = np.array(rows, np.float32).reshape(-1, 5)
    offset, kinds = table[:, 3:], table[:, 1].astype(np.uint8)
    middle = np.stack([SIDE / 2 + CELL * offset[:, 0], SIDE / 2 - CELL * offset[:, 1]], 1)
    count = len(table)
    size = np.array([0.05, 1.0, -1.5])[kinds] * np.exp(-np.hypot(*offset.T) / 6)
    arrays: dict[str, np.ndarray] = {
        "frames": frames.astype(np.int32),
        "frame": table[:, 0].astype(np.int32),
        "type": kinds,
        "track": table[:, 2].astype(np.int32),
        "box": np.concatenate([middle - CELL / 2, middle + CELL / 2], 1),
        "offset": offset,
        "mask": np.zeros((count, SIDE, SIDE // 8), np.uint8),
        **outputs(rng, size),
    }
    together = [
        (frame, kind) for frame in frames for kind in range(3) if ((arrays["frame"] == frame) & (kinds == kind)).any()
    ]
    members = [(arrays["frame"] == frame) & (kinds == kind) for frame, kind in together]
    total = np.array([size[rows].sum() for rows in members])
    whole: dict[str, np.ndarray] = {
        "frame": np.array([frame for frame, _ in together], np.int32),
        "type": np.array([kind for _, kind in together], np.uint8),
        "count": np.array([rows.sum() for rows in members], np.int32),
        **outputs(rng, total),
    }
    return arrays | {f"together.{name}": array for name, array in whole.items()}


def outputs(rng: np.random.Generator, size: np.ndarray) -> dict[str, np.ndarray]:
    value = (size * rng.uniform(0.5, 1.5, len(size))).astype(np.float32)
    logits = (0.3 * rng.normal(size=(len(size), 11)) * size[:, None]).astype(np.float32)
    return {
        "effect.value": value,
        "effect.action-7": logits[:, 7],
        "effect.group-0": logits[:, 6:9].sum(1),
        "logits": logits,
        "value": value,
        "policy": np.abs(np.tanh(value / 5)),
    }


def summary(chunks: list[dict[str, np.ndarray]], name: str) -> TypeEffects:
    """Return the means of a type, with intervals of a fifth of them."""

    def joined(key: str) -> np.ndarray:
        return np.concatenate([chunk[key][chunk["type"] == TYPES.index(name)] for chunk in chunks])

    value, policy = joined("value"), joined("policy")
    distance = np.hypot(*joined("offset").T)
    order = np.argsort(distance)
    groups = np.array_split(order, 3 if name != "coin" else 1)
    return TypeEffects(
        name=name,
        moves=name == "saw",
        count=len(value),
        tracks=2,
        frames=len(set(np.concatenate([chunk["frame"] + 1000 * i for i, chunk in enumerate(chunks)]))),
        episodes=2,
        value=mean(value),
        value_magnitude=mean(np.abs(value)),
        policy=mean(policy),
        logits=joined("logits").mean(0).tolist(),
        share_above_noise=float((np.abs(value) > 0.4).mean()),
        together_value=mean(value),
        together_policy=mean(policy),
        by_distance=[
            DistanceEffect(
                float(distance[part].min()),
                float(distance[part].max()),
                len(part),
                mean(np.abs(value[part])),
                mean(policy[part]),
            )
            for part in groups
        ],
    )


def mean(values: np.ndarray) -> MeanEffect:
    middle = float(values.mean())
    return MeanEffect(middle, *sorted([0.8 * middle, 1.2 * middle]))
