"""Compare the checkpoints of a training run by their own trajectories, and by their outputs for one trajectory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from rl_clarity.agents.capabilities import before_step, initial_state
from rl_clarity.agents.held_inputs import split_held
from rl_clarity.agents.protocol import Agent, Outputs, State
from rl_clarity.analyses.analysis import Analysis, Subject, SubjectOptions, require_single_choice
from rl_clarity.analyses.saliency import (
    METHODS,
    SaliencyAnalysis,
    SaliencyOptions,
    chunk_name,
    compute_maps,
    frames_with_map,
    map_arrays,
    saliency_outputs,
)
from rl_clarity.base.parsing import check_minimum, check_option
from rl_clarity.base.statistics import entropy, softmax
from rl_clarity.jobs.tasks import Piece, Results, Task, TaskResult, Work
from rl_clarity.pages.files import ChunkName, segments
from rl_clarity.pages.schema import read
from rl_clarity.pages.sections import Note, SectionData

CURVE, DIVERGENCE = "training/curve.js", "training/divergence.js"
POINTS = 256
"""Largest number of points of the learning curve."""
MEASURED_STEPS = 4
NOT_COMPUTED: Mapping[str, Any] = {
    "entropy": None,
    "action_entropy": None,
    "action_shares": (),
    "totals": {},
    "correlation": {},
}
"""Statistics of a checkpoint while they are not computed yet."""


@dataclass(frozen=True)
class TrainingFacts:
    """Facts about a training run that its checkpoints do not contain, in `Subject.metadata["training"]`."""

    names: Sequence[str]
    steps: Sequence[float | None]
    """Training step of each checkpoint, or None if it is unknown."""
    unit: str = "steps"
    curve: Mapping[str, np.ndarray] | None = None
    """Arrays `steps`, `returns`, `low` and `high` (n,) of the learning curve; see `binned_curve`."""
    curve_source: str = "returns of the checkpoints"
    reference_source: str | None = None
    """Label of the reference trajectory, if no checkpoint played it."""


@dataclass(frozen=True)
class ReferenceOptions:
    """The game on which all checkpoints are compared."""

    checkpoint: int | None = None
    """Number of the checkpoint that plays the game, counted from 1 in the order of training; by default the last."""
    episode: int = 1
    """Number of the game, counted from 1, among the games of this checkpoint that the page shows."""
    recording: str | None = None
    """Use an episode of a recording instead: PATH for its first episode, or PATH:NUMBER for a different episode,
    counted from 1."""

    def __post_init__(self) -> None:
        check_minimum(self, 1, "checkpoint", "episode")
        other = self.checkpoint is not None or self.episode != 1
        fits = self.recording is None or not other
        check_option(self, "recording", fits, "cannot be combined with checkpoint or episode")


@dataclass(frozen=True)
class MeanReturn:
    """Mean return of complete games."""

    mean: float
    error: float | None
    """Standard error; null for one game."""
    episodes: int


@dataclass(frozen=True)
class CheckpointEntry:
    """A checkpoint, and statistics of its trajectories."""

    agent: str
    recording: str
    name: str
    """Name of the checkpoint's file, without the suffix."""
    step: float | None
    """Number of training steps; null if neither the metadata nor the file name contain it."""
    returns: MeanReturn
    entropy: float | None
    """Mean entropy of the policy along the trajectories, in nats; null for action values."""
    action_entropy: float | None
    """Entropy of the distribution of the actions taken, in nats; null while it is not computed."""
    action_shares: Sequence[float]
    """Share of each of the A actions in its trajectories. Empty until computed, like `totals` and `correlation`."""
    totals: Mapping[str, float]
    """By output, the mean total saliency of the first method's maps along the trajectories."""
    correlation: Mapping[str, float | None]
    """By output, the mean correlation between this checkpoint's and the last checkpoint's maps of the reference
    trajectory, for the first method; null where all maps are constant."""


@dataclass(frozen=True)
class ReferenceTrajectory:
    """The trajectory on which all checkpoints are compared. `trajectory` is its index in the section `trajectories` of
    the recording.

    Either a checkpoint played it, or it belongs to the last of the page's `recordings`, which has no other section.
    """

    agent: str
    recording: str
    source: str | None
    """Name of the recording and number of the episode, if no checkpoint played it."""
    trajectory: int
    every: int
    """Every n-th step has a map."""
    shown: Sequence[ChunkName]
    """For each checkpoint, the chunk with its outputs and maps."""
    divergence: ChunkName


@dataclass(frozen=True)
class TrainingSection(SectionData):
    """The checkpoints of a training run side by side."""

    kind = "training"
    title = "Training"
    checkpoints: Sequence[CheckpointEntry]
    """An entry for each agent, in the order of training."""
    unit: str
    """What `step` and the curve count: `steps` or `frames`."""
    curve: ChunkName | None
    """The learning curve; null without a log, and until it is computed."""
    curve_source: str
    """Name of the log, or `returns of the checkpoints`."""
    reference: ReferenceTrajectory


class TrainingAnalysis(Analysis[ReferenceOptions, TrainingSection]):
    """Compares the checkpoints of a training run; `subject.subjects` has a subject for each.

    With the option `reference.recording`, there is an additional subject at the end, which has the reference
    trajectory.
    """

    kind = "training"
    needs_all = False

    def check(self, agent: Agent, options: ReferenceOptions, page: SubjectOptions) -> None:
        require_single_choice(agent, "pages of training")

    def tasks(self, subject: Subject, options: ReferenceOptions) -> Iterable[Task]:
        reference, game = _reference(subject)
        steps, checkpoints = reference.trajectories.steps(game), _checkpoints(subject)
        for number, one in enumerate(checkpoints, start=1):
            own = one is reference  # its maps exist already, so that its task takes less than the others
            yield self.task(
                one,
                self.task_name("shown", number),
                partial(_show, subject, one, shown_name(number)),
                [reference.key, reference.decisive(SaliencyOptions, ReferenceOptions), saliency_outputs(one)],
                size=steps,
                group=self.task_name("shown", "own") if own else self.task_name("shown"),
                after=(SaliencyAnalysis.task_name(one.info.id),) if own else (),
                pieces=partial(_pieces, steps, own),
            )
        facts = _training_facts(subject)
        curve = {name: array.tolist() for name, array in (facts.curve or {}).items()}
        yield self.task(
            subject,
            self.task_name("numbers"),
            partial(_compare, subject),
            [[one.key for one in subject.subjects], subject.decisive(SaliencyOptions, ReferenceOptions), curve],
            size=len(checkpoints) * steps,
            after=(self.task_name("shown"), SaliencyAnalysis.kind),
            pieces=lambda sample, batch: (),  # the task only reads small files
        )

    def sections(self, subject: Subject, options: ReferenceOptions, results: Results) -> Iterable[TrainingSection]:
        (reference, game), facts = _reference(subject), _training_facts(subject)
        computed = results.get(self.task_name("numbers"))
        numbers = [NOT_COMPUTED] * len(facts.names) if computed is None else computed["checkpoints"]
        checkpoints = [
            CheckpointEntry(
                agent=checkpoint.info.id,
                recording=checkpoint.info.id.replace("agent", "recording"),
                name=facts.names[index],
                step=facts.steps[index],
                returns=read(MeanReturn, checkpoint.metadata["returns"], "returns"),
                **numbers[index],
            )
            for index, checkpoint in enumerate(_checkpoints(subject))
        ]
        shown = ReferenceTrajectory(
            agent=reference.info.id,
            recording=f"recording-{subject.subjects.index(reference) + 1}",
            source=facts.reference_source,
            trajectory=game,
            every=subject.options_of(SaliencyOptions).every,
            shown=[ChunkName(shown_name(number)) for number in range(1, len(checkpoints) + 1)],
            divergence=ChunkName(DIVERGENCE),
        )
        curve = None if facts.curve is None or computed is None else ChunkName(CURVE)
        yield TrainingSection(checkpoints, facts.unit, curve, facts.curve_source, shown)

    def notes(self, options: ReferenceOptions) -> Sequence[Note]:
        return NOTES


NOTES = (
    Note(
        "One episode, every checkpoint",
        "Each checkpoint gets the observations of one trajectory, regardless of its own actions; a "
        "recurrent checkpoint updates its own state with them. The divergence of the checkpoints is the Jensen-Shannon "
        "divergence of their policies: the entropy of the mean policy minus the mean entropy (Lin 1991).",
    ),
    Note(
        "Correlation with the last checkpoint",
        "The correlation between the cells of a checkpoint's saliency map and those of the last checkpoint's map, "
        "averaged over the steps of the trajectory that is shown to all checkpoints.",
    ),
)


def _training_facts(subject: Subject) -> TrainingFacts:
    facts: TrainingFacts = subject.metadata["training"]
    return facts


def _checkpoints(subject: Subject) -> Sequence[Subject]:
    added = subject.options_of(ReferenceOptions).recording is not None
    return subject.subjects[:-1] if added else subject.subjects


def _reference(subject: Subject) -> tuple[Subject, int]:
    """Return the subject of the reference trajectory, and the index of the trajectory."""
    options = subject.options_of(ReferenceOptions)
    number = options.checkpoint or len(subject.subjects)
    return subject.subjects[number - 1], options.episode - 1


def shown_name(number: int) -> str:
    """Return the name of the chunk with the outputs of a checkpoint, counted from 1, for the reference trajectory."""
    return f"training/shown-{number}.js"


def binned_curve(steps: np.ndarray, returns: np.ndarray, points: int = POINTS) -> dict[str, np.ndarray]:
    """Return the learning curve in bins of training steps: the mean step, and the mean, lowest and highest return.

    Each array is (n,), with n at most `points`. The bins have equal widths, and those without returns are left out.
    """
    span = float(steps[-1] - steps[0]) or 1.0
    bins = np.minimum(((steps - steps[0]) / span * points).astype(int), points - 1)
    starts = np.flatnonzero(np.diff(bins, prepend=-1))
    counts = np.diff([*starts, len(steps)])
    arrays = {
        "steps": np.add.reduceat(steps, starts) / counts,
        "returns": np.add.reduceat(returns, starts) / counts,
        "low": np.minimum.reduceat(returns, starts),
        "high": np.maximum.reduceat(returns, starts),
    }
    return {name: array.astype(np.float32) for name, array in arrays.items()}


def jensen_shannon(policies: np.ndarray) -> np.ndarray:
    """Return the Jensen-Shannon divergence (T,) in nats (Lin 1991) of C policies (C, T, A) at each of T steps."""
    divergence: np.ndarray = entropy(policies.mean(axis=0)) - entropy(policies).mean(axis=0)
    return np.maximum(divergence, 0)


def map_correlation(maps: np.ndarray, others: np.ndarray) -> float | None:
    """Return the correlation between two maps of the same frame, averaged over m frames. Both arrays are (m, gh, gw).

    Frames in which either map is constant do not count. Return None if no frame is left.
    """
    flat, other = (one.reshape(len(one), -1).astype(np.float64) for one in (maps, others))
    flat, other = (one - one.mean(axis=1, keepdims=True) for one in (flat, other))
    norms = np.linalg.norm(flat, axis=1) * np.linalg.norm(other, axis=1)
    products = (flat * other).sum(axis=1)[norms > 0] / norms[norms > 0]
    return float(products.mean()) if len(products) else None


def _show(subject: Subject, one: Subject, name: str, work: Work) -> TaskResult:
    """Write the outputs and saliency maps of a checkpoint for the reference trajectory.

    The checkpoint computes its own states from the observations. Inputs other than the image are taken from the
    trajectory. For the checkpoint that played the trajectory, the maps exist already and are copied.
    """
    (reference, game), options = _reference(subject), subject.options_of(SaliencyOptions)
    trajectories = reference.trajectories
    steps, every, outputs = trajectories.steps(game), options.every, list(saliency_outputs(one))
    method = next(iter(options.methods), None)
    seen: list[Outputs] = []
    maps: list[np.ndarray] = []
    state = initial_state(one.agent, 1)
    for part in segments(steps):
        observations = np.asarray(trajectories.observations[game, slice(part.start, part.stop)])
        firsts = np.asarray(trajectories.firsts[game, slice(part.start, part.stop)])
        held = split_held(reference.agent, reference.states(game, slice(part.start, part.stop)))[1]
        results, before, state = _follow(one, observations, firsts, state, held)
        seen.append(results)
        chosen = np.array(frames_with_map(part, every), int) - part.start
        if method is not None and one is not reference:
            states = None if before is None else tuple(array[chosen] for array in before)
            maps.append(compute_maps(one.agent, method, observations[chosen], outputs, states))
        work.report(part.stop / steps)
    arrays = output_arrays(seen)
    if method is not None and maps:
        values = np.concatenate(maps, axis=1)
        frames = np.arange(0, steps, every)
        arrays |= map_arrays(frames, dict(zip(outputs, values, strict=True)), signed=METHODS[method].signed)
    elif method is not None:
        chunks = _own_maps(one, game)
        arrays |= {key: np.concatenate([chunk[key] for chunk in chunks]) for key in chunks[0]}
    subject.files.write_chunk(name, arrays)
    return TaskResult(files=[name])


def _follow(
    subject: Subject, observations: np.ndarray, firsts: np.ndarray, state: State, held: Sequence[np.ndarray]
) -> tuple[Outputs, State, State]:
    """Return the outputs for consecutive observations (T, H, W, C) and held inputs (T, ...), the states (T, ...) before
    these observations, and the state after the last one. States are None for an agent without a state.
    """
    if state is None:
        return subject.agent.step(observations, None, firsts)[0], None, None
    outputs, before = [], []
    for step in range(len(observations)):
        now = slice(step, step + 1)
        memory, _ = split_held(subject.agent, before_step(subject.agent, state, firsts[now]))
        state = (*memory, *(part[now] for part in held))
        before.append(state)
        result, state = subject.agent.step(observations[now], state, firsts[now])
        outputs.append(result)
    joined: dict[str, Any] = {
        name: np.concatenate([getattr(output, name) for output in outputs])
        for name in ("policy_logits", "values", "q_values")
        if getattr(outputs[0], name) is not None
    }
    states = tuple(np.concatenate(parts) for parts in zip(*before, strict=True))
    return Outputs(**joined), states, state


def output_arrays(parts: Sequence[Outputs]) -> dict[str, np.ndarray | bytes]:
    """Join the outputs for consecutive segments of a trajectory into the arrays of a chunk `shown`."""

    def joined(name: str) -> np.ndarray | None:
        arrays = [getattr(part, name) for part in parts]
        return None if arrays[0] is None else np.concatenate(arrays).astype(np.float32)

    logits, arrays = joined("policy_logits"), {"values": joined("values"), "q_values": joined("q_values")}
    if logits is not None:
        probabilities = softmax(logits)
        arrays |= {"probabilities": probabilities, "entropy": entropy(probabilities).astype(np.float32)}
    return {name: array for name, array in arrays.items() if array is not None}


def _compare(subject: Subject, work: Work) -> TaskResult:
    """Write the divergence and the learning curve. Return the statistics of each checkpoint, except for returns."""
    files, curve = subject.files, _training_facts(subject).curve
    checkpoints = _checkpoints(subject)
    shown = [files.read_chunk(shown_name(number)) for number in range(1, len(checkpoints) + 1)]
    files.write_chunk(DIVERGENCE, {"jensen_shannon": jensen_shannon(policies(shown)).astype(np.float32)})
    if curve is not None:
        files.write_chunk(CURVE, dict(curve))
    outputs = list(saliency_outputs(subject)) if subject.options_of(SaliencyOptions).methods else []
    facts = [
        {
            **_behavior(checkpoint),
            "totals": _mean_totals(checkpoint, outputs),
            "correlation": {
                output: map_correlation(_maps(own, output), _maps(shown[-1], output)) for output in outputs
            },
        }
        for checkpoint, own in zip(checkpoints, shown, strict=True)
    ]
    return TaskResult({"checkpoints": facts}, [DIVERGENCE, *([] if curve is None else [CURVE])])


def policies(shown: Sequence[Mapping[str, np.ndarray]]) -> np.ndarray:
    """Return the policies (C, T, A) of C checkpoints at T steps. With action values, they are the greedy policies."""
    return np.stack(
        [
            one["probabilities"]
            if "probabilities" in one
            else np.eye(one["q_values"].shape[-1])[one["q_values"].argmax(-1)]
            for one in shown
        ]
    ).astype(np.float64)


def _maps(chunk: Mapping[str, np.ndarray], output: str) -> np.ndarray:
    """Return the maps (m, gh, gw) of a chunk. The unit differs between maps, which does not affect correlations."""
    codes = chunk[f"codes.{output}"]
    return np.where(chunk[f"scales.{output}"][:, None, None] > 0, codes, 0)


def _behavior(subject: Subject) -> dict[str, object]:
    """Return statistics of the agent's actions along its trajectories."""
    played = subject.trajectories
    rows = range(len(played))
    logits = played.policy_logits
    entropies = None if logits is None else np.concatenate([entropy(softmax(np.asarray(logits[row]))) for row in rows])
    actions = np.concatenate([np.asarray(played.actions[row]) for row in rows])
    shares = np.bincount(actions, minlength=subject.info.num_actions) / len(actions)
    return {
        "entropy": None if entropies is None else float(entropies.mean()),
        "action_entropy": float(entropy(shares)),
        "action_shares": shares.tolist(),
    }


def _own_maps(subject: Subject, trajectory: int) -> list[dict[str, np.ndarray]]:
    """Return the chunks of the first method's maps along a trajectory that the agent played."""
    options = subject.options_of(SaliencyOptions)
    count = len(segments(subject.trajectories.steps(trajectory)))
    names = [chunk_name(options.methods[0], trajectory, segment) for segment in range(count)]
    return [subject.files.read_chunk(name) for name in names]


def _mean_totals(subject: Subject, outputs: Sequence[str]) -> dict[str, float]:
    """Return the mean total saliency of the maps along the trajectories, by output."""
    rows = range(len(subject.trajectories) if outputs else 0)
    chunks = [chunk for trajectory in rows for chunk in _own_maps(subject, trajectory)]
    return {output: float(np.concatenate([chunk[f"totals.{output}"] for chunk in chunks]).mean()) for output in outputs}


def _pieces(steps: int, own: bool, sample: Subject, batch: int) -> Iterable[Piece]:
    """Yield a `Piece` that computes outputs for a few steps, and one that computes maps unless they exist already."""
    options = sample.options_of(SaliencyOptions)
    method = next(iter(options.methods), None)
    count = min(MEASURED_STEPS, sample.trajectories.steps(0))
    now = slice(0, count)
    observations, firsts = (
        np.asarray(array[0, now]) for array in (sample.trajectories.observations, sample.trajectories.firsts)
    )
    state = initial_state(sample.agent, 1)

    held = split_held(sample.agent, sample.states(0, now))[1]

    def follow() -> None:
        _follow(sample, observations, firsts, state, held)

    yield Piece(follow, steps / count, follow, "training/follow")
    if method is not None and not own:
        states = None if state is None else sample.states(0, now)
        outputs = list(saliency_outputs(sample))

        def maps() -> None:
            values = compute_maps(sample.agent, method, observations, outputs, states)
            arrays = map_arrays(
                np.arange(count), dict(zip(outputs, values, strict=True)), signed=METHODS[method].signed
            )
            sample.files.write_chunk("maps.js", arrays)

        yield Piece(maps, -(-steps // options.every) / count, maps)
