"""Compare each checkpoint of a training run with the one before it: what did this update of the network change?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np

from rl_clarity.analyses.analysis import Analysis, Subject
from rl_clarity.analyses.checkpoints import TrainingAnalysis, TrainingFacts, jensen_shannon, policies, shown_name
from rl_clarity.analyses.saliency import (
    LEVELS,
    SIGNED_LEVELS,
    MethodDescription,
    SaliencyOptions,
    describe_method,
    saliency_outputs,
)
from rl_clarity.base.parsing import NoOptions
from rl_clarity.jobs.tasks import Results, Task, TaskResult, Work
from rl_clarity.pages.files import ChunkName
from rl_clarity.pages.sections import Note, SectionData

CHANGES = "updates/changes.js"
MOST = 256
"""Largest number of observations on which checkpoints are compared."""
POLICY, VALUE, MAPS = "policy", "value", "maps."
"""Names of changes. `MAPS` is a prefix, followed by the output that the maps explain."""


@dataclass(frozen=True)
class UpdatedCheckpoint:
    """A checkpoint, and how its outputs and maps differ from those of the checkpoint before it."""

    name: str
    step: float | None
    """Number of training steps; null if it is unknown."""
    shown: ChunkName
    """Chunk of its outputs and maps for the observations, like the chunks of checkpoints in the section `training`."""
    changes: Mapping[str, float]
    """Mean changes over the observations, by name of the array in the section's chunk `changes`; empty for the first
    checkpoint."""


@dataclass(frozen=True)
class UpdatesSection(SectionData):
    """What each checkpoint changed, compared with the one before it on the same observations."""

    kind = "updates"
    title = "What did this update change?"
    unit: str
    """What `step` counts: `steps` or `frames`."""
    steps: Sequence[int]
    """(n,) The observations on which checkpoints are compared: steps of the reference trajectory of the section
    `training` or, on a page of recordings, indices of the images in `frames`."""
    checkpoints: Sequence[UpdatedCheckpoint]
    """At least two, in the order of training."""
    changes: ChunkName
    """Chunk of the arrays `policy`, `value` and, for each output with maps, `maps.OUTPUT`, (C - 1, n) float32: the
    changes from each of the C checkpoints to the next, at each observation."""
    method: MethodDescription | None
    """The saliency method of the maps; null without maps."""
    frames: Sequence[ChunkName] | None = None
    """Chunks of the images of the observations, 64 in each; null on pages about a training run."""


class UpdatesAnalysis(Analysis[NoOptions, UpdatesSection]):
    """Compares each checkpoint of a training run with the previous one, on the reference trajectory of
    `TrainingAnalysis`.

    This analysis only reads the chunks that `TrainingAnalysis` has written.
    """

    kind = "updates"

    def tasks(self, subject: Subject, options: NoOptions) -> Iterable[Task]:
        yield self.task(
            subject,
            self.task_name("changes"),
            partial(_compare, subject),
            [[one.key for one in subject.subjects], subject.decisive(SaliencyOptions)],
            after=(TrainingAnalysis.task_name("shown"),),
            pieces=lambda sample, batch: (),  # the task only reads small files
        )

    def sections(self, subject: Subject, options: NoOptions, results: Results) -> Iterable[UpdatesSection]:
        facts: TrainingFacts = subject.metadata["training"]
        means, steps = (results[self.task_name("changes")][name] for name in ("changes", "steps"))
        checkpoints = [
            UpdatedCheckpoint(name, step, ChunkName(shown_name(number)), changes)
            for number, (name, step, changes) in enumerate(zip(facts.names, facts.steps, means, strict=True), start=1)
        ]
        method = next(iter(subject.options_of(SaliencyOptions).methods), None)
        region = subject.info.observation.region
        described = (
            None if method is None else describe_method(method, subject.agent, saliency_outputs(subject), region)
        )
        yield UpdatesSection(facts.unit, steps, checkpoints, ChunkName(CHANGES), described)

    def notes(self, options: NoOptions) -> Sequence[Note]:
        return NOTES


NOTES = (
    Note(
        "What an update changed",
        "Two consecutive checkpoints get the same observations. The change of the policy is the "
        "Jensen-Shannon divergence of their policies (Lin 1991), in nats: 0 for equal policies, at most ln 2 = 0.69. "
        "The change of the value is the absolute difference. The change of a map is the sum of the absolute "
        "differences of its cells, in the units of total saliency. A bar shows the mean over the observations.",
    ),
)


def changes_between(
    before: Mapping[str, np.ndarray], after: Mapping[str, np.ndarray], frames: np.ndarray
) -> dict[str, np.ndarray]:
    """Return how the outputs and maps of a checkpoint differ from those of the one before it, as arrays (n,) by name.

    Args:
        before: outputs and maps of the previous checkpoint (arrays of a chunk `shown` of the section `training`)
        after: the same arrays of the checkpoint
        frames: (n,) steps that are compared; all of them have maps if there are maps
    """
    both = (before, after)
    changes = {POLICY: jensen_shannon(policies(both)[:, frames])}
    values = [one.get("values", one.get("q_values")) for one in both]
    if all(one is not None for one in values):
        old, new = (np.asarray(one, np.float64)[frames] for one in values)
        old, new = (one if one.ndim == 1 else one.max(axis=-1) for one in (old, new))
        changes[VALUE] = np.abs(new - old)
    for name in before:
        if name.startswith("codes."):
            output = name.removeprefix("codes.")
            old, new = (_maps(one, output)[np.searchsorted(one["steps"], frames)] for one in both)
            changes[f"{MAPS}{output}"] = np.abs(new - old).sum(axis=(1, 2))
    return changes


def compared_frames(chunk: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return the steps (n,) of a checkpoint's chunk that are compared.

    These are the steps that have maps, or all steps if none has. If there are more than `MOST`, they are subsampled
    evenly.
    """
    steps = chunk.get("steps")
    if steps is None:
        steps = np.arange(len(policies([chunk])[0]))
    return np.asarray(steps)[np.unique(np.linspace(0, len(steps) - 1, min(len(steps), MOST)).astype(int))]


def compared_chunks(
    chunks: Sequence[Mapping[str, np.ndarray]], frames: np.ndarray
) -> tuple[list[dict[str, float]], dict[str, np.ndarray | bytes]]:
    """Return the mean changes of each checkpoint, empty for the first, and the arrays of the chunk `changes`."""
    pairs = [changes_between(before, after, frames) for before, after in pairwise(chunks)]
    means: list[dict[str, float]] = [{name: float(array.mean()) for name, array in one.items()} for one in pairs]
    arrays: dict[str, np.ndarray | bytes] = {
        name: np.stack([one[name] for one in pairs]).astype(np.float32) for name in (pairs[0] if pairs else ())
    }
    return [{}, *means], arrays


def _compare(subject: Subject, work: Work) -> TaskResult:
    facts: TrainingFacts = subject.metadata["training"]
    chunks = [subject.files.read_chunk(shown_name(number)) for number in range(1, len(facts.names) + 1)]
    frames = compared_frames(chunks[0])
    means, arrays = compared_chunks(chunks, frames)
    subject.files.write_chunk(CHANGES, arrays)
    return TaskResult({"changes": means, "steps": frames.tolist()}, [CHANGES])


def _maps(chunk: Mapping[str, np.ndarray], output: str) -> np.ndarray:
    """Return the maps (m, gh, gw) of a chunk. A constant map is 0 everywhere, because it emphasizes no position."""
    codes, scales = chunk[f"codes.{output}"], chunk[f"scales.{output}"].astype(np.float64)
    levels = SIGNED_LEVELS if codes.dtype == np.int8 else LEVELS
    return np.asarray(codes * (scales / levels)[:, None, None])
