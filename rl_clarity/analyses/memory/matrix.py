"""The section `memory_matrix`: which decisions depend on what was seen before, measured by exchanging states."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice

import numpy as np

from rl_clarity.agents.capabilities import initial_state
from rl_clarity.analyses.analysis import Analysis, Subject
from rl_clarity.analyses.memory.sample import sample_states
from rl_clarity.analyses.memory.source import memory_source
from rl_clarity.base.errors import OptionError
from rl_clarity.base.keys import to_plain
from rl_clarity.base.parsing import check_minimum
from rl_clarity.jobs.tasks import Piece, Results, Task, TaskResult, Work
from rl_clarity.pages.files import ChunkName, path_in
from rl_clarity.pages.schema import as_dicts, read
from rl_clarity.pages.sections import SectionData
from rl_clarity.states.data import read_states
from rl_clarity.states.matrix import LANES, NOTICEABLE, MemoryMatrix, Reach, exchange_states

MATRIX = "memory_matrix/matrix"
"""Name of the task that measures the matrix."""
STRONG = 0.5
"""A change of the policy is strong if it is at least this share of the largest one."""
MEASURED_STEPS = 2
"""Number of steps that are replayed to measure the time."""


@dataclass(frozen=True)
class MatrixOptions:
    """Options of the memory matrix."""

    episodes: int = 16
    """Largest number of episodes in which states are exchanged; 0 for no matrix."""
    partners: int = 3
    """Number of other episodes whose states replace the recorded one at each exchange, in separate replays."""
    exchanges: int = 16
    """Largest number of steps per episode at which the state is exchanged."""

    def __post_init__(self) -> None:
        check_minimum(self, 0, "episodes")
        check_minimum(self, 1, "partners", "exchanges")


@dataclass(frozen=True)
class ReachEntry:
    """How far back decisions depend on what was seen: the largest lag, not the mean."""

    steps: int
    """Largest lag with a noticeable change of the policy in at least 2 episodes and 5 % of them; 0 if there is none."""
    effect: float
    """Mean of the largest change at that lag, in nats, over the episodes where it is noticeable; if `steps` is 0, mean
    over episodes of the largest change at any lag."""
    interval: tuple[float, float]
    """95 % bootstrap interval of `effect` over episodes."""
    count: int
    """Number of episodes with a noticeable change at that lag."""
    episodes: int
    """Number of episodes in which that lag was tested; if `steps` is 0, in which any lag was tested."""
    longest: int
    """Largest lag that was tested."""
    detectable: float
    """If this share of the episodes had a dependence, at least one would have been found with a probability of 95 %."""
    noticeable: float
    """Smallest change of the policy, in nats, that counts as noticeable."""


@dataclass(frozen=True)
class DecisionEntry:
    """A decision that depends on what was seen before."""

    trajectory: int
    frame: int
    begins: int
    """The first step whose frame the decision depends on. If states were exchanged at only some of the steps, this is a
    lower bound."""
    until: int
    """Upper bound of the first step whose frame the decision depends on."""
    change: float
    """Change of the policy when what was seen up to the step `until` is exchanged, in nats; mean over partners."""
    policy: float
    """Largest change of the policy when the state is exchanged before any earlier step, in nats; mean over partners."""
    spread: float
    """Standard deviation over partners of the change `policy`."""


@dataclass(frozen=True)
class MatrixEpisode:
    """An episode in which states were exchanged."""

    trajectory: int
    chunk: ChunkName


@dataclass(frozen=True)
class MatrixSection(SectionData):
    """Which decisions depend on what was seen before: changes of outputs when the state is exchanged for that of
    another episode.
    """

    kind = "memory_matrix"
    title = "Memory matrix"
    partners: int
    """Number of other episodes whose states were taken for each exchange."""
    reach: ReachEntry | None
    """Null if nothing was exchanged."""
    strongest: DecisionEntry | None
    """Among the decisions whose change is at least half of the largest change, the one that reaches back farthest; null
    if no decision depends noticeably on what was seen before."""
    episodes: Sequence[MatrixEpisode]
    skipped: str | None
    """Reason why there is no matrix."""


class MatrixAnalysis(Analysis[MatrixOptions, MatrixSection]):
    """Measures which decisions depend on what a recurrent agent remembers, and how far back."""

    kind = "memory_matrix"
    needs_all = False

    def tasks(self, subject: Subject, options: MatrixOptions) -> Iterable[Task]:
        if options.episodes:
            yield self.task(
                subject, MATRIX, partial(_measure, subject), [subject.decisive(MatrixOptions), subject.options.seed],
                size=_replayed_steps(subject, options), pieces=partial(_pieces, _replayed_steps(subject, options)),
                output_bytes=_stored_bytes(subject, options),
            )  # fmt: skip

    def sections(self, subject: Subject, options: MatrixOptions, results: Results) -> Iterable[MatrixSection]:
        facts = results.get(MATRIX)
        if facts is not None:
            yield read(MatrixSection, facts, self.kind)


def _measure(subject: Subject, work: Work) -> TaskResult:
    """Write a chunk for each episode. Return the contents of the section."""
    options, data = subject.options_of(MatrixOptions), read_states(memory_source(subject).required_recording)
    try:
        matrix = exchange_states(
            subject.agent, data, episodes=options.episodes, partners=options.partners, exchanges=options.exchanges,
            seed=subject.options.seed, report=work.report,
        )  # fmt: skip
    except OptionError as error:
        return TaskResult(as_dicts(MatrixSection(options.partners, None, None, (), str(error))))
    # trajectories are the episodes that have steps, in order
    trajectories = np.searchsorted(data.episode[data.starts], matrix.episodes)
    episodes = []
    for e, trajectory in enumerate(trajectories):
        name = path_in("memory_matrix", f"{trajectory + 1}.js")
        subject.files.write_chunk(name, episode_arrays(matrix, e))
        episodes.append(MatrixEpisode(int(trajectory), ChunkName(name)))
    reach = reach_entry(matrix.reach(subject.options.seed))
    section = MatrixSection(options.partners, reach, strongest_decision(matrix, trajectories), episodes, None)
    return TaskResult(to_plain(as_dicts(section), finite=True), [one.chunk for one in episodes])


def episode_arrays(matrix: MemoryMatrix, episode: int) -> dict[str, np.ndarray]:
    """Return the arrays of the chunk of an episode with X exchanges and T steps.

    `exchanged` (X,) contains the steps before which the state was exchanged. `policy`, `policy_spread` and `value` (X,
    T) contain the changes at each step, or NaN before the exchange.
    """
    exchanged, steps = np.flatnonzero(matrix.exchanged[episode]), int(matrix.lengths[episode])
    rows = {
        name: getattr(matrix, name)[episode, exchanged, :steps].astype(np.float32)
        for name in ("policy", "policy_spread", "value")
    }
    return {"exchanged": exchanged.astype(np.int32), **rows}


def reach_entry(reach: Reach) -> ReachEntry:
    """Return the section's entry for a measured reach."""
    effect = reach.effect
    return ReachEntry(
        reach.steps, effect.mean, (effect.low, effect.high), reach.count, reach.episodes, reach.longest,
        reach.detectable, NOTICEABLE,
    )  # fmt: skip


def strongest_decision(matrix: MemoryMatrix, trajectories: np.ndarray) -> DecisionEntry | None:
    """Return the section's entry for the first of the `decisions`, or None if there are none."""
    for e, step in decisions(matrix):
        exchange = int(np.nanargmax(matrix.policy[e, :, step]))
        change, spread = (float(array[e, exchange, step]) for array in (matrix.policy, matrix.policy_spread))
        first, second = matrix.beginning(e, step) or (0, exchange)
        at_second = float(matrix.policy[e, second, step])
        return DecisionEntry(int(trajectories[e]), step, first, max(first, second - 1), at_second, change, spread)
    return None


def decisions(matrix: MemoryMatrix) -> Iterator[tuple[int, int]]:
    """Yield the episodes and steps of decisions that noticeably depend on what was seen before.

    Decisions with at least half of the largest change come first, ordered by how far they reach back, the farthest
    first. The others follow in the order of their changes, the largest first.
    """
    changes = np.nan_to_num(matrix.read())
    noticed = np.argwhere(changes >= NOTICEABLE)
    lags = np.array([step - (matrix.begins(e, step) or 0) for e, step in noticed])
    values = changes[tuple(noticed.T)]
    strong = values >= STRONG * values.max(initial=0)
    for at in np.lexsort((-values, np.where(strong, -lags, 0), ~strong)):
        e, step = noticed[at]
        yield int(e), int(step)


def page_matrix(section: MatrixSection, read_chunk: Callable[[str], Mapping[str, np.ndarray]]) -> MemoryMatrix | None:
    """Return the matrix of a page, or None if nothing was exchanged.

    The `episodes` of this matrix are trajectory numbers. A page stores only means over partners, so the matrix has a
    single partner, whose changes are these means.
    """
    if not section.episodes:
        return None
    chunks = [read_chunk(one.chunk) for one in section.episodes]
    lengths = np.array([chunk["policy"].shape[1] for chunk in chunks], int)
    each = max(len(chunk["exchanged"]) for chunk in chunks)
    exchanges = np.full((len(chunks), each), -1)
    policy, value = (np.full((len(chunks), each, 1, lengths.max()), np.nan, np.float32) for _ in range(2))
    for e, chunk in enumerate(chunks):
        count = len(chunk["exchanged"])
        exchanges[e, :count] = chunk["exchanged"]
        for array, name in ((policy, "policy"), (value, "value")):
            array[e, :count, 0, : lengths[e]] = chunk[name]
    trajectories = np.array([one.trajectory for one in section.episodes], int)
    return MemoryMatrix(exchanges, np.full((len(chunks), each, 1), -1), policy, value, trajectories, lengths)


# --- forecast --------------------------------------------------------------------------------------------------------


def _lengths(subject: Subject, options: MatrixOptions) -> np.ndarray:
    """Return the lengths of the episodes in which states are exchanged."""
    lengths = [subject.trajectories.steps(one) for one in range(len(subject.trajectories))]
    return np.array(lengths[: options.episodes], float)


def _replayed_steps(subject: Subject, options: MatrixOptions) -> float:
    """Return the number of steps of all replays, if each runs to the end of its episode."""
    lengths = _lengths(subject, options)
    exchanges = np.minimum(options.exchanges, np.maximum(lengths - 1, 0))
    return float(options.partners * (exchanges * lengths / 2).sum())


def _stored_bytes(subject: Subject, options: MatrixOptions) -> float:
    """Return the estimated size of the chunks in bytes: 4 for each entry of three arrays that is not NaN (about half of
    them).
    """
    lengths = _lengths(subject, options)
    return float(3 * 2 * (np.minimum(options.exchanges, lengths) * lengths).sum())


def _pieces(replayed: float, sample: Subject, batch: int) -> Iterable[Piece]:
    """Yield a piece that runs a few steps of as many replays as are computed together."""
    data = sample_states(sample).data
    rows = np.arange(LANES) % len(data)
    observations, state = data.observations(rows), initial_state(sample.agent, LANES)

    def steps() -> Iterator[None]:
        now = state
        while True:
            now = sample.agent.forward(observations, now).state
            yield

    replays = steps()
    yield Piece(
        lambda: deque(islice(replays, MEASURED_STEPS), maxlen=0),
        replayed / (LANES * MEASURED_STEPS),
        partial(next, replays),
    )
