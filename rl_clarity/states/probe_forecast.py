"""Forecast how long probes take, by timing small parts of their work."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice

import numpy as np

from rl_clarity.agents.capabilities import has, initial_state
from rl_clarity.agents.protocol import Agent
from rl_clarity.agents.recurrence import agent_state
from rl_clarity.base.errors import EnvironmentSetupError
from rl_clarity.base.progress import duration, progress_bar
from rl_clarity.environments import make
from rl_clarity.jobs.forecast import Forecast, measure
from rl_clarity.jobs.tasks import Piece
from rl_clarity.recordings.paired_play import environment_of
from rl_clarity.recordings.rollouts import play as play_steps
from rl_clarity.states.data import StateData
from rl_clarity.states.labels import MOST_CLASSES, Label, Labels, read_labels
from rl_clarity.states.linear_probe import (
    MOST_FEATURES,
    Sample,
    compressed,
    fold_numbers,
    held_out,
    permuted_scores,
)
from rl_clarity.states.probes import (
    EPISODES,
    ROWS,
    STEPS,
    find_steps,
    order_count,
    permuted_orders,
    score_label,
)
from rl_clarity.states.subspace import DOSES, MAX_STEPS, RANDOM_SUBSPACES, find_subspace

MEASURED_ROWS, MEASURED_ORDERS, MEASURED_REPLAYS, MEASURED_STEPS = 1024, 64, 4, 8
"""Numbers of states, permutations of labels, replayed steps, and played steps that are timed."""
REPLAYS = len(DOSES) + RANDOM_SUBSPACES + 2
"""Number of replays of each episode in which the state is changed."""


@dataclass(frozen=True)
class Amount:
    """The amount of data to probe."""

    rows: int
    episodes: int
    steps: int
    """Largest number of steps of an episode that are probed."""
    longest: int
    """Number of steps of the longest episode."""
    classes: Sequence[int]
    """Number of classes of each label; 0 for a numeric label."""

    @classmethod
    def planned(cls, agent: Agent, lengths: Sequence[int], labels: Sequence[str]) -> Amount:
        """Return the amount that will be probed in episodes of these lengths.

        Labels other than actions are assumed to have two classes.
        """
        probed = [min(STEPS, max(0, length - 1)) for length in lengths[:EPISODES]]
        classes = [min(agent.num_actions, MOST_CLASSES) if label.startswith("action") else 2 for label in labels]
        return cls(min(ROWS, sum(probed)), len(probed), max(probed, default=0), max(lengths, default=0), classes)


def forecast_probes(
    agent: Agent, data: StateData, labels: Labels | None, *, use: bool, play: int, seed: int
) -> Forecast:
    """Return a forecast of how long `probe` will take.

    The shortest time is for the case that the agent knows no label, the longest for the case that it knows all, because
    `use` is measured only for known labels. Raises OptionError in the same cases as `probe`.
    """
    sample = find_steps(agent, data, play, seed)
    found, _ = read_labels(data, sample.rows, labels)
    classes = [0 if one.classes is None else len(one.classes) for one in found]
    episodes = len(np.unique(sample.episodes))
    amount = Amount(len(sample.rows), episodes, int(sample.time.max()) + 1, int(data.length.max()), classes)
    with progress_bar("Measuring") as report:
        seconds = measure(probe_pieces(agent, data, amount))
        report(0.5)
        of_use = measure(use_pieces(agent, data, amount, play)) if use else 0
    forecast = Forecast.of_seconds("probes", seconds)
    note = f"For each label that the agent knows, measuring its use takes {duration(of_use / len(found))} more."
    return replace(forecast, at_most=seconds + of_use, notes=(note,)) if use else forecast


def probe_pieces(agent: Agent, data: StateData, amount: Amount) -> Iterator[Piece]:
    """Yield the pieces of work to time for fitting probes. They use random labels and often fewer states."""
    count = min(amount.rows, MEASURED_ROWS)
    rows = np.linspace(0, len(data) - 1, count).astype(int)
    yield Piece(
        lambda: compressed(data.observations(rows), 0), amount.rows / count,
        lambda: compressed(np.eye(MOST_FEATURES + 1), 0),  # imports
    )  # fmt: skip
    if has(agent, "other_parameters"):
        yield _replayed(agent, data, amount.episodes, amount.episodes, amount.steps)
    for classes, number in Counter(amount.classes).items():
        yield from _label_pieces(agent, _random_states(data, count), amount, classes, number)


def use_pieces(agent: Agent, data: StateData, amount: Amount, play: int = 0) -> Iterator[Piece]:
    """Yield the pieces of work to time for measuring whether the agent uses the labels."""
    count, number = min(amount.rows, MEASURED_ROWS), len(amount.classes)
    label, sample = _random_label(count, amount.episodes, max(amount.classes, default=0))
    yield Piece(partial(find_subspace, _random_states(data, count), label, sample, 0), number * amount.rows / count)
    tested = amount.episodes - amount.episodes // 2
    for lanes in (tested, REPLAYS * tested):
        yield _replayed(agent, data, lanes, tested, number * (amount.steps + 1))
    if play:
        yield from _play_pieces(agent, amount, play)


def _random_states(data: StateData, count: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(count, data.states.shape[1]))


def _replayed(agent: Agent, data: StateData, lanes: int, episodes: int, steps: int) -> Piece:
    """Return the piece of work for replaying `steps` steps. Each step reads a frame of each episode, and calls the
    network with a batch of `lanes` frames.
    """
    state = agent_state(agent, np.resize(data.states, (lanes, data.states.shape[1])))
    starts = np.resize(data.starts, episodes)

    def work(count: int) -> None:
        for number in range(count):
            observations = data.observations(np.minimum(starts + number, len(data) - 1))
            agent.forward(np.resize(observations, (lanes, *observations.shape[1:])), state)

    return Piece(partial(work, MEASURED_REPLAYS), steps / MEASURED_REPLAYS, partial(work, 1))


def _label_pieces(agent: Agent, states: np.ndarray, amount: Amount, classes: int, number: int) -> Iterator[Piece]:
    """Yield the pieces of work for probing `number` labels with `classes` classes each (0 for numeric labels)."""
    label, sample = _random_label(len(states), amount.episodes, classes)
    features = {"state": states, "observation": np.random.default_rng(1).normal(size=(len(states), MOST_FEATURES))}
    if has(agent, "other_parameters"):
        features["untrained"] = states
    parts = [part.shape[1:] for part in initial_state(agent, 1) or ()]
    folds, short = fold_numbers(sample.episodes, 0), compressed(states, 0)[0]
    times, others = number * amount.rows / len(states), order_count(len(amount.classes)) - 1
    few = min(MEASURED_ORDERS, others)
    orders = permuted_orders(sample, few, 0)
    probe = partial(held_out, short, label, sample.episodes, folds)
    yield Piece(partial(score_label, label, sample, features, 1, parts, 0), times, probe)
    # the time of each further permutation: that of probes of many permutations minus that of one probe
    yield Piece(partial(permuted_scores, short, label, orders, sample.episodes, folds), times * others / (few - 1))
    yield Piece(probe, -times * others / (few - 1))
    yield Piece(partial(permuted_orders, sample, few, 0), number * others / few)


def _random_label(count: int, episodes: int, classes: int) -> tuple[Label, Sample]:
    episode = np.arange(count) * min(episodes, count // 2) // count
    time = np.arange(count) - np.searchsorted(episode, episode)
    rng = np.random.default_rng(2)
    values = rng.integers(0, classes, count).astype(float) if classes else rng.normal(size=count)
    label = Label("random", values, np.unique(values) if classes else None)
    return label, Sample(np.arange(count), episode, time)


def _play_pieces(agent: Agent, amount: Amount, episodes: int) -> Iterator[Piece]:
    """Yield the piece of work for playing all episodes, three times for each label. Yield nothing if there is no
    environment.
    """
    try:
        environment = make(environment_of(agent), episodes, 0)
    except EnvironmentSetupError:
        return
    with closing(environment):
        steps = play_steps(agent, environment, np.random.default_rng(0))
        times = 3 * len(amount.classes) * min(MAX_STEPS, amount.longest) / MEASURED_STEPS
        yield Piece(lambda: deque(islice(steps, MEASURED_STEPS), maxlen=0), times, partial(next, steps))
