"""`rl_clarity.probe` measures which labels can be decoded from an agent's states, and whether the agent uses them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast, overload

import numpy as np

from rl_clarity.agents.batched import BatchedAgent
from rl_clarity.agents.capabilities import has, initial_state, require
from rl_clarity.agents.protocol import Agent, State
from rl_clarity.agents.recurrence import join_state
from rl_clarity.base.errors import OptionError
from rl_clarity.base.keys import to_plain
from rl_clarity.base.progress import Report
from rl_clarity.base.statistics import LEVEL, holm
from rl_clarity.formats.included import load_agent
from rl_clarity.jobs.forecast import Forecast
from rl_clarity.recordings.recording import Recording, open_recording
from rl_clarity.states.data import StateData, read_states
from rl_clarity.states.labels import Label, Labels, read_labels
from rl_clarity.states.linear_probe import HeldOut, Sample, compressed, fold_numbers, held_out, permuted_scores
from rl_clarity.states.subspace import Subspace, Use, find_subspace, measure_use

Path = str | os.PathLike[str]
EPISODES, STEPS, ROWS = 128, 256, 4096
"""Largest number of episodes, of steps of an episode, and of steps in total."""
FEWEST_EPISODES = 2
FEWEST_ORDERS = 199
"""Smallest number of permutations of the labels. There are more for more than 5 labels, so that the corrected p can be
below .05."""


@dataclass(frozen=True)
class Score:
    """A score on held-out episodes with its 95 % bootstrap interval over episodes."""

    score: float
    interval: tuple[float, float]


@dataclass(frozen=True, eq=False)
class Probe:
    """How well a label can be decoded from states, compared with baselines, and whether the agent uses it."""

    label: str
    kind: str
    """`binary`, `classes` or `number`."""
    classes: tuple[float, ...]
    """Values of the classes; empty for a numeric label."""
    episodes: int
    steps: int
    """Number of steps with a known label."""
    chance: float
    """Score without any information."""
    state: Score
    """Score of the probe of the states. For classes, this is the mean over classes of the share of correct steps
    (balanced accuracy); for a numeric label, the share of its variance that is predicted (R2)."""
    observation: Score
    """Score of the same probe of the observation at the same step."""
    untrained: Score | None
    """Score of the same probe of the states of the network with shuffled parameters; None if they cannot be set."""
    gain_over_observation: tuple[float, float]
    """95 % interval of the score of the states minus that of the observation."""
    gain_over_untrained: tuple[float, float] | None
    p: float
    """p-value: the share of probes of permuted labels (those of other episodes) that score at least as high."""
    adjusted_p: float
    """`p` corrected for the number of labels (Holm)."""
    by_step: np.ndarray
    """(T,) score at each step; NaN where there are too few episodes."""
    positions: Mapping[str, np.ndarray] = field(default_factory=dict)
    """Scores (height, width) of probes of single positions, for parts of the state that are feature maps."""
    subspace: Subspace | None = None
    """Directions in state space along which the label is encoded; None unless the label is known and `use` is set."""
    use: Use | None = None
    """How decisions change when the subspace is exchanged or removed; None in the same cases as `subspace`."""

    @property
    def known(self) -> bool:
        """Whether the probe of the states scores higher than that of the observation, and than probes of permuted
        labels.
        """
        return self.adjusted_p <= LEVEL and self.gain_over_observation[0] > 0

    @property
    def above_baselines(self) -> bool:
        """Whether the label is `known`, and the probe also scores higher than that of the network with shuffled
        parameters, so that training contributed. Even an untrained recurrent network remembers some steps.
        """
        return self.known and (self.gain_over_untrained is None or self.gain_over_untrained[0] > 0)

    @property
    def verdict(self) -> str:
        """Whether the label is known, in words."""
        if not self.known:
            return "not above the baselines"
        return "known" if self.above_baselines else "also known to an untrained network"

    def to_dict(self) -> dict[str, Any]:
        """Return the results as JSON values, with the rank of the subspace in place of its directions."""
        plain = {name: value for name, value in vars(self).items() if name not in ("subspace", "use")}
        parts = {"state", "observation", "untrained"}
        result = {name: vars(value) if name in parts and value is not None else value for name, value in plain.items()}
        result |= {"known": self.known, "above_baselines": self.above_baselines}
        result["rank"] = None if self.subspace is None else self.subspace.rank
        result["use"] = None if self.use is None else self.use.to_dict()
        return dict(to_plain(result, finite=True))

    def __str__(self) -> str:
        low, high = self.state.interval
        text = f"{self.label}: {self.state.score:.2f} ({low:.2f} to {high:.2f}; chance {self.chance:.2f}"
        text += f", observation {self.observation.score:.2f}"
        text += "" if self.untrained is None else f", untrained {self.untrained.score:.2f}"
        text += f"; p {self.adjusted_p:.2g}): {self.verdict}"
        return text if self.use is None else f"{text}; {self.use}"


@dataclass(frozen=True, eq=False)
class Probes:
    """The result of `probe`."""

    probes: tuple[Probe, ...]
    skipped: Mapping[str, str]
    """Default labels that were not probed, with the reasons."""

    def __iter__(self) -> Iterator[Probe]:
        return iter(self.probes)

    def __len__(self) -> int:
        return len(self.probes)

    def __getitem__(self, label: str) -> Probe:
        """Return the probe of a label. Raises KeyError for a label that was not probed."""
        probes = {one.label: one for one in self.probes}
        if label not in probes:
            reason = self.skipped.get(label, f"probed: {', '.join(probes)}")
            raise KeyError(f"{label!r} was not probed ({reason})")
        return probes[label]

    def to_dict(self) -> dict[str, Any]:
        """Return all results as JSON values."""
        return {"probes": [one.to_dict() for one in self.probes], "skipped": dict(self.skipped)}

    def __str__(self) -> str:
        return "\n".join([*map(str, self.probes), *(f"{name}: {why}" for name, why in self.skipped.items())])


@overload
def probe(
    agent: Agent | Path,
    recording: Recording | Path,
    labels: Labels | None = None,
    *,
    use: bool = True,
    play: int = 0,
    seed: int = 0,
    dry_run: Literal[True],
) -> Forecast: ...


@overload
def probe(
    agent: Agent | Path,
    recording: Recording | Path,
    labels: Labels | None = None,
    *,
    use: bool = True,
    play: int = 0,
    seed: int = 0,
    dry_run: Literal[False] = False,
) -> Probes: ...


def probe(
    agent: Agent | Path,
    recording: Recording | Path,
    labels: Labels | None = None,
    *,
    use: bool = True,
    play: int = 0,
    seed: int = 0,
    dry_run: bool = False,
) -> Probes | Forecast:
    """Measure how well labels of steps can be decoded from a recurrent agent's states, and whether the agent uses them.

    A probe is a ridge regression of a label on the state after a step. It is fitted on some episodes and tested on
    others. It shows what the agent knows only if it scores higher than three controls: a probe of the observation at
    that step; a probe of the states of the network with shuffled parameters, for the same observations; and probes of
    labels that belong to other episodes at the same steps (Hewitt and Liang, Designing and Interpreting Probes with
    Control Tasks, 2019).

    For a label that the agent knows, its use is then measured. Half of the episodes determine the subspace in which
    states at the same step differ with the label. In the other half, the coordinates in this subspace are exchanged
    before each step for those of an episode with another label, or removed, while the episode is replayed. See `Use`.

    Args:
        agent: A recurrent agent, the path of its checkpoint, or the name of an included agent (`models:NAME`).
        recording: A recording of the agent's play with its states (see `rl_clarity.record`), or its path or address.
        labels: Names of labels: `action`, `reward`, `return`, and names of recorded `info` (`Recorder.add(info=)`,
            `record(info=)`). `NAME[0]` is an entry of an array, `NAME@1` is the value at the first step, `NAME+4` is
            the value 4 steps later, and `NAME-4` is the value 4 steps earlier. It can also be a dictionary of arrays: a
            value for each step of the recording, or a list with an array for each episode. Integers with at most 16
            different values are classes. By default, these are all numbers in `info`, at the same and at the first
            step, and the next action and reward.
        use: Also measure whether the agent uses the labels that it knows.
        play: Also let the agent play this many episodes, in the environment that its metadata name, once with the
            subspace exchanged between pairs of episodes, and once with it removed; 0 to skip this.
        seed: Seed of folds, permutations, partners and levels.
        dry_run: Only time small parts of the work, and return a forecast of the total time.

    At most 256 steps of 128 episodes, and 4096 steps in total, are used.

    Raises:
        OptionError: The agent or the recording has no states, there are fewer than 2 episodes of several steps, or a
            label does not exist, has the wrong length, or has a single value.
        EnvironmentSetupError: There is no environment to play in.
    """
    opened = recording if isinstance(recording, Recording) else open_recording(recording)
    loaded = load_agent(agent) if isinstance(agent, str | os.PathLike) else agent
    data = read_states(opened)
    if dry_run:
        from rl_clarity.states.probe_forecast import forecast_probes

        return forecast_probes(loaded, data, labels, use=use, play=play, seed=seed)
    return probe_states(loaded, data, labels, use=use, play=play, seed=seed)


def probe_states(
    agent: Agent, data: StateData, labels: Labels | None = None, *, use: bool = True, play: int = 0, seed: int = 0,
    report: Report = lambda share: None,
) -> Probes:  # fmt: skip
    """Probe states that have been read from the recording. See `probe`."""
    sample = find_steps(agent, data, play, seed)
    found, skipped = read_labels(data, sample.rows, labels)
    features = _features(agent, data, sample, seed)
    count = order_count(len(found))
    parts = [part.shape[1:] for part in initial_state(agent, 1) or ()]
    probes = []
    for label in found:
        probes.append(score_label(label, sample, features, count, parts, seed))
        report(0.5 * len(probes) / len(found))
    adjusted = holm(np.array([one.p for one in probes]))
    result = []
    for i, (one, label) in enumerate(zip(probes, found, strict=True)):
        done = {**vars(one), "adjusted_p": float(adjusted[i])}
        if use and Probe(**done).known:
            subspace = find_subspace(features["state"], label, sample, seed)
            done["subspace"] = subspace
            done["use"] = measure_use(agent, data, label, sample, subspace, play=play, seed=seed)
        result.append(Probe(**done))
        report(0.5 + 0.5 * len(result) / len(found))
    return Probes(tuple(result), skipped)


def find_steps(agent: Agent, data: StateData, play: int, seed: int) -> Sample:
    """Return the steps to probe. Raises OptionError if the agent or the recording cannot be probed."""
    require(agent, "initial_state", "forward", for_="probe")
    longer = data.starts[data.length[data.starts] > 1]
    if len(longer) < FEWEST_EPISODES:
        raise OptionError(
            f"{data.recording.location} has {len(longer)} episodes of more than one step; at least 2 are needed, "
            "because a probe is fitted on some episodes and tested on others"
        )
    if play == 1 or play < 0:
        raise OptionError(f"play={play} must be 0 or at least 2")
    return _sample(data, longer, seed)


def order_count(labels: int) -> int:
    """Return the number of permutations: enough that p, corrected for the number of labels, can be below .05."""
    return max(FEWEST_ORDERS, 40 * labels - 1)


def _sample(data: StateData, starts: np.ndarray, seed: int) -> Sample:
    """Return the first steps of some episodes. An episode's last step is left out, because no decision follows it."""
    chosen = starts[np.unique(np.linspace(0, len(starts) - 1, min(EPISODES, len(starts))).astype(int))]
    rows = np.concatenate([start + np.arange(min(STEPS, data.length[start] - 1)) for start in chosen])
    if len(rows) > ROWS:
        rows = np.sort(np.random.default_rng(seed).choice(rows, ROWS, replace=False))
    return Sample(rows, data.episode[rows], data.time[rows])


def _features(agent: Agent, data: StateData, sample: Sample, seed: int) -> dict[str, np.ndarray]:
    """Return features (n, d) by name: the state after each step, the observation, and the state of the network with
    shuffled parameters, if parameters can be set.
    """
    features = {"state": data.states[sample.rows + 1].astype(np.float64)}
    features["observation"] = compressed(data.observations(sample.rows), seed)[0]
    if has(agent, "other_parameters"):
        rng = np.random.default_rng(seed)
        settable = cast(BatchedAgent, agent)
        shuffled = {
            name: rng.permutation(np.asarray(array).reshape(-1)).reshape(array.shape)
            for name, array in settable.parameters().items()
            if not name.startswith("edits/") and np.asarray(array).dtype.kind == "f"
        }
        with settable.other_parameters(shuffled) as untrained:
            features["untrained"] = _replayed_states(untrained, data, sample)
    return features


def _replayed_states(agent: Agent, data: StateData, sample: Sample) -> np.ndarray:
    """Return the states (n, H) of another network after each step, when it sees the recorded observations."""
    episodes = np.unique(sample.episodes)
    starts = data.starts[np.searchsorted(data.episode[data.starts], episodes)]
    last = np.array([sample.time[sample.episodes == one].max() for one in episodes])
    state: State = initial_state(agent, len(episodes))
    result = np.empty((len(sample.rows), join_state(state).shape[1]))
    for step in range(int(last.max()) + 1):
        here = np.minimum(step, last)  # episodes that are over see their last step again
        state = agent.forward(data.observations(starts + here), state).state
        wanted = np.flatnonzero(sample.time == step)
        result[wanted] = join_state(state)[np.searchsorted(episodes, sample.episodes[wanted])]
    return result


def permuted_orders(sample: Sample, count: int, seed: int) -> np.ndarray:
    """Return P random permutations of the episodes, as indices (P, n) of steps in the sample.

    A step is replaced by the same step of the episode that takes its place. If the sample lacks it, it is replaced by
    the next step of that episode in the sample, or by the last one.
    """
    rng = np.random.default_rng(seed)
    episodes, index = np.unique(sample.episodes, return_inverse=True)
    places = [np.flatnonzero(index == e) for e in range(len(episodes))]
    orders = np.empty((count, len(index)), np.int64)
    for order in orders:
        for e, other in enumerate(rng.permutation(len(episodes))):
            nearest = np.searchsorted(sample.time[places[other]], sample.time[places[e]])
            order[places[e]] = places[other][np.minimum(nearest, len(places[other]) - 1)]
    return orders


def score_label(
    label: Label, whole: Sample, all_features: Mapping[str, np.ndarray], count: int, parts: Sequence[tuple[int, ...]],
    seed: int,
) -> Probe:  # fmt: skip
    """Probe a label at the steps where its value is not NaN. The agent's use of the label is not measured."""
    known = np.isfinite(label.values)
    label = Label(label.name, label.values[known], label.classes)
    sample = Sample(whole.rows[known], whole.episodes[known], whole.time[known])
    features = {name: values[known] for name, values in all_features.items()}
    folds = fold_numbers(sample.episodes, seed)
    short = {name: compressed(values, seed)[0] for name, values in features.items()}
    scored = {name: held_out(values, label, sample.episodes, folds) for name, values in short.items()}
    scores = {name: Score(one.score, one.interval(seed)) for name, one in scored.items()}
    gains = {name: scored["state"].gain(one, seed) for name, one in scored.items()}
    by_chance = permuted_scores(short["state"], label, permuted_orders(sample, count, seed), sample.episodes, folds)
    p = float((1 + (by_chance >= scores["state"].score - 1e-12).sum()) / (1 + count))
    return Probe(
        label.name, label.kind, () if label.classes is None else tuple(label.classes.tolist()),
        len(np.unique(sample.episodes)), len(sample.rows),
        0.0 if label.classes is None else 1 / len(label.classes), scores["state"], scores["observation"],
        scores.get("untrained"), gains["observation"], gains.get("untrained"), p, p,
        _by_step(label, scored["state"], sample), _positions(features["state"], label, sample, folds, parts),
    )  # fmt: skip


def _by_step(label: Label, scored: HeldOut, sample: Sample) -> np.ndarray:
    result = np.full(int(sample.time.max()) + 1, np.nan)
    for step in range(len(result)):
        here = sample.time == step
        values, predicted = label.values[here], scored.predictions[here]
        if label.classes is None:
            spread = np.square(values - values.mean()).sum() if len(values) > 1 else 0
            result[step] = 1 - np.square(values - predicted).sum() / spread if spread else np.nan
        elif len(distinct := np.unique(values)) > 1:
            result[step] = np.mean([(predicted[values == one] == one).mean() for one in distinct])
    return result


def _positions(
    states: np.ndarray, label: Label, sample: Sample, folds: np.ndarray, parts: Sequence[tuple[int, ...]]
) -> dict[str, np.ndarray]:
    """Return scores (h, w) of probes of each position, for parts of the state with the shape (h, w, c)."""
    result, start = {}, 0
    for number, shape in enumerate(parts):
        size = int(np.prod(shape))
        if len(shape) == 3 and size <= states.shape[1] - start:
            grid = states[:, start : start + size].reshape(len(states), -1, shape[2])
            scores = [held_out(grid[:, i], label, sample.episodes, folds).score for i in range(grid.shape[1])]
            result[f"states.{number}"] = np.array(scores).reshape(shape[:2])
        start += size
    return result
