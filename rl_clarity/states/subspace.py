"""Measure whether an agent uses what a probe finds: exchange or remove the subspace that encodes a label."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rl_clarity.agents.capabilities import PLAYING, require
from rl_clarity.agents.protocol import Agent, Outputs, State
from rl_clarity.agents.recurrence import agent_state, join_state
from rl_clarity.agents.scores import action_scores
from rl_clarity.base.statistics import Interval, MeasuredDifference, bootstrap_interval, compare, softmax
from rl_clarity.recordings.paired_play import blocks, environment_of
from rl_clarity.recordings.rollouts import play
from rl_clarity.states.data import StateData
from rl_clarity.states.labels import Label
from rl_clarity.states.linear_probe import Sample, weights

DOSES = (0.25, 0.5, 0.75, 1.0)
"""Shares of the distance to the other episode's coordinates by which coordinates are moved."""
LARGEST_RANK = 8
"""Largest rank of a subspace. It also has at most half of the dimensions of the state."""
SHARE = 0.95
"""Share of the squared covariances of states and label that the subspace contains."""
ORDERS = 39
"""Number of permutations of the labels. A group of steps is used if its covariances are larger than with each of these
permutations."""
STEPS = 32
"""Largest number of groups of steps. Covariances are computed for each group separately."""
RANDOM_SUBSPACES = 4
NOTICEABLE = 0.05
"""Smallest change of a probability that counts as use."""
MAX_STEPS = 1000
"""Steps after which an episode that is played is cut off."""


@dataclass(frozen=True, eq=False)
class Subspace:
    """Directions in state space along which a label is encoded."""

    basis: np.ndarray  # (r, H) orthonormal rows
    mean: np.ndarray  # (H,) mean state
    episodes: np.ndarray
    """Episodes that were used to find the directions."""
    probe: np.ndarray  # (H, C) weights of a probe of the label; for classes, minus their mean over classes

    @property
    def rank(self) -> int:
        return len(self.basis)

    def moved(self, states: np.ndarray, to: np.ndarray, dose: float) -> np.ndarray:
        """Return states (n, H) whose coordinates are moved by the share `dose` toward those of the states `to`."""
        return np.asarray(states + dose * (to - states) @ self.basis.T @ self.basis)


@dataclass(frozen=True)
class Change:
    """How the decisions of replayed episodes change."""

    probability: Interval
    """Mean decrease of the probability of the action that is most likely without the change, with its 95 % bootstrap
    interval over episodes."""
    flipped: float
    """Share of episodes in which a different action becomes most likely."""

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        low, high = self.probability.low, self.probability.high
        return {"probability": self.probability.mean, "interval": [low, high], "flipped": self.flipped}


@dataclass(frozen=True, eq=False)
class Use:
    """Whether the agent uses a subspace of its state.

    Episodes that were not used to find the subspace are replayed with their recorded observations. Before each step,
    the coordinates in the subspace are exchanged for those that an episode with another label had at the same step, or
    moved toward them by a share of the distance (the dose), or replaced by the mean (removed). An episode's decision is
    the step at which the policy changes most when the whole state is exchanged in this way. The primary measure is the
    decrease of the probability of the action that is most likely at the decision without a change. It is compared with
    that of random subspaces of the same rank.
    """

    episodes: int
    doses: tuple[float, ...]
    exchanged: tuple[Change, ...]
    """Changes for each dose; the last dose is the full exchange."""
    removed: Change
    random: Change
    """Changes when random subspaces of the same rank are exchanged, averaged over several of them."""
    whole: Change
    """Changes when the whole state is exchanged: the largest effect that memory can have."""
    above_random: Interval
    """Difference between the primary measure and that of random subspaces."""
    decisions: tuple[tuple[int, int], ...]
    """Episode and step (counted from 0) of each decision."""
    played: tuple[MeasuredDifference, MeasuredDifference] | None = None
    """Differences of returns, on the same levels, from play without a change: first with the subspace exchanged between
    episodes whose predicted labels differ, then with the subspace removed. None if nothing was played."""

    @property
    def used(self) -> bool | None:
        """True if the exchange changes decisions, and more so than that of random subspaces; False if the interval
        excludes a noticeable change; None if neither is shown.
        """
        change = self.exchanged[-1].probability
        if change.low > 0 and change.mean >= NOTICEABLE and self.above_random.low > 0:
            return True
        return False if change.high < NOTICEABLE else None

    @property
    def verdict(self) -> str:
        """The property `used` in words."""
        return {True: "used", False: f"no use of more than {NOTICEABLE} was seen", None: "use not shown"}[self.used]

    def to_dict(self) -> dict[str, Any]:
        """Return the results as a dictionary of plain values."""
        changes = {name: getattr(self, name).to_dict() for name in ("removed", "random", "whole")}
        played = None if self.played is None else [vars(one) for one in self.played]
        return {
            "used": self.used, "episodes": self.episodes, "doses": list(self.doses),
            "exchanged": [one.to_dict() for one in self.exchanged], **changes, "played": played,
            "above_random": [self.above_random.low, self.above_random.high],
            "decisions": [list(one) for one in self.decisions],
        }  # fmt: skip

    def __str__(self) -> str:
        change = self.exchanged[-1]
        low, high = change.probability.low, change.probability.high
        text = (
            f"{self.verdict}: the exchange lowers the action's probability by {change.probability.mean:.2f} ({low:.2f} "
            f"to {high:.2f}; random subspaces {self.random.probability.mean:.2f}, whole state "
            f"{self.whole.probability.mean:.2f}), and makes a different action most likely in {change.flipped:.0%} of "
            f"{self.episodes} episodes"
        )
        if self.played is not None:
            exchanged, removed = self.played
            text += (
                f"; in play, the return is {exchanged.ablated:.2f} with the exchange and {removed.ablated:.2f} with "
                f"the removal, instead of {exchanged.unedited:.2f}"
            )
        return text


def find_subspace(states: np.ndarray, label: Label, sample: Sample, seed: int) -> Subspace:
    """Find directions along which states (n, H) differ with a label, from half of the episodes.

    The directions span most of the covariance between states and label, which is computed separately in groups of
    steps. Groups whose covariances are no larger than by chance are ignored, unless this holds for all groups. At a
    step where the covariances are 0, no linear probe can predict the label (Belrose et al., LEACE, 2023).
    """
    distinct = np.random.default_rng(seed).permutation(np.unique(sample.episodes))
    used = np.sort(distinct[: max(2, len(distinct) // 2)])
    rows = np.isin(sample.episodes, used) & np.isfinite(label.values)
    x, y, time = states[rows], label.targets[rows], sample.time[rows]
    mean = x.mean(axis=0)
    parts = np.array_split(np.argsort(time, kind="stable"), min(STEPS, len(np.unique(time))))
    rng = np.random.default_rng(seed)
    covariances, clear = [], []
    for part in parts:
        features, targets = x[part] - x[part].mean(axis=0), y[part] - y[part].mean(axis=0)
        covariances.append(targets.T @ features / np.sqrt(len(part)))
        by_chance = [np.linalg.norm(rng.permutation(targets).T @ features) for _ in range(ORDERS)]
        clear.append(np.linalg.norm(targets.T @ features) > max(by_chance))
    kept = [one for one, is_clear in zip(covariances, clear, strict=True) if is_clear or not any(clear)]
    _, sizes, directions = np.linalg.svd(np.concatenate(kept), full_matrices=False)
    shares = np.cumsum(sizes**2) / max((sizes**2).sum(), 1e-30)
    most = max(1, min(LARGEST_RANK, states.shape[1] // 2))
    rank = min(most, int(np.searchsorted(shares, SHARE)) + 1)
    first = weights(x - mean, Label(label.name, label.values[rows], label.classes))
    return Subspace(directions[:rank], mean, used, first - (first.mean(axis=1, keepdims=True) if y.shape[1] > 1 else 0))


def measure_use(
    agent: Agent, data: StateData, label: Label, sample: Sample, subspace: Subspace, *, play: int = 0, seed: int = 0
) -> Use:
    """Measure whether the agent uses a subspace (see `Use`). `label` has a value for each step of the sample."""
    values = np.full(len(data), np.nan)
    values[sample.rows] = label.values
    episodes = np.unique(sample.episodes)
    tested = np.setdiff1d(episodes, subspace.episodes)
    tested = episodes if len(tested) < 2 else tested
    starts = data.starts[np.searchsorted(data.episode[data.starts], tested)]
    lengths = np.array([sample.time[sample.episodes == one].max() + 2 for one in tested])
    partners = _partners(values, starts, lengths, label.classes is not None, np.random.default_rng(seed))
    rng = np.random.default_rng([seed, 1])
    whole = replace(subspace, basis=np.eye(data.states.shape[1]))
    others = [_random(subspace, rng) for _ in range(RANDOM_SUBSPACES)]
    runs = [(whole, 1.0, False), *((subspace, dose, False) for dose in DOSES), (subspace, 1.0, True)]
    runs += [(one, 1.0, False) for one in others]
    plain, edited = _replayed(agent, data, starts, lengths, partners, runs)  # (E, T, A), (R, E, T, A)
    change = np.nansum(plain * (np.log(plain + 1e-12) - np.log(edited[0] + 1e-12)), axis=-1)
    change[:, 0] = -1  # before the first step nothing is exchanged
    change[np.arange(change.shape[1]) >= lengths[:, None]] = -1
    decisions = change.argmax(axis=1)
    at = np.arange(len(starts)), decisions
    before, after = plain[at], edited[:, at[0], at[1]]  # (E, A), (R, E, A)
    action = before.argmax(axis=1)
    drop = before[at[0], action] - after[:, at[0], action]  # (R, E)
    flipped = after.argmax(axis=2) != action

    def summary(*rows: int) -> Change:
        part = drop[list(rows)].mean(axis=0)
        interval = bootstrap_interval(part, np.random.default_rng(seed))
        return Change(interval, float(flipped[list(rows)].mean()))

    count, random = len(DOSES), range(len(DOSES) + 2, len(runs))
    above = bootstrap_interval(drop[count] - drop[list(random)].mean(axis=0), np.random.default_rng(seed))
    return Use(
        len(starts), DOSES, tuple(summary(1 + i) for i in range(count)), summary(1 + count), summary(*random),
        summary(0), above, tuple(zip(tested.tolist(), decisions.tolist(), strict=True)),
        _played(agent, subspace, play, seed) if play else None,
    )  # fmt: skip


def _random(subspace: Subspace, rng: np.random.Generator) -> Subspace:
    return replace(subspace, basis=np.linalg.qr(rng.standard_normal(subspace.basis.T.shape))[0].T)


def _partners(
    values: np.ndarray, starts: np.ndarray, lengths: np.ndarray, classes: bool, rng: np.random.Generator
) -> np.ndarray:
    """Return, for each episode, the index of the episode whose labels differ most from its own at steps that both have.

    The difference is divided by the length of the episode, so steps that the other episode lacks count as equal. Ties
    are broken at random.
    """
    result = np.zeros(len(starts), int)
    for e, (start, length) in enumerate(zip(starts, lengths, strict=True)):
        scores = np.full(len(starts), -1.0)
        for other in np.flatnonzero(np.arange(len(starts)) != e):
            shared = int(min(length, lengths[other]))
            difference = values[start : start + shared] - values[starts[other] : starts[other] + shared]
            difference = np.abs(difference[np.isfinite(difference)])
            scores[other] = (difference > 0).sum() / length if classes else difference.sum() / length
        result[e] = rng.choice(np.flatnonzero(scores >= scores.max() * (1 - 1e-9)))
    return result


def _replayed(
    agent: Agent, data: StateData, starts: np.ndarray, lengths: np.ndarray, partners: np.ndarray,
    runs: list[tuple[Subspace, float, bool]],
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Return the policies (E, T, A) of replayed episodes, and the policies (R, E, T, A) with R changes of the state."""
    count, steps = len(starts), int(lengths.max())
    states = np.tile(data.states[starts], (len(runs), 1, 1))  # (R, E, H)
    plain: list[np.ndarray] = []
    edited: list[np.ndarray] = []
    for step in range(steps):
        rows = starts + np.minimum(step, lengths - 1)
        observations = data.observations(rows)
        plain.append(_policy(agent.forward(observations, agent_state(agent, data.states[rows]))))
        inside = (step > 0) & (step < lengths[partners])
        donors = data.states[starts[partners] + np.minimum(step, lengths[partners] - 1)]
        for r, (space, dose, removed) in enumerate(runs):
            to = np.broadcast_to(space.mean, donors.shape) if removed else donors
            moved = space.moved(states[r], to, dose)
            states[r] = np.where((inside | (removed and step > 0))[:, None], moved, states[r])
        flat = states.reshape(len(runs) * count, -1)
        outputs = agent.forward(
            np.tile(observations, (len(runs), *[1] * (observations.ndim - 1))), agent_state(agent, flat)
        )
        edited.append(_policy(outputs).reshape(len(runs), count, -1))
        states = join_state(outputs.state).reshape(states.shape)
    return np.stack(plain, axis=1), np.stack(edited, axis=2)


def _played(
    agent: Agent, subspace: Subspace, episodes: int, seed: int
) -> tuple[MeasuredDifference, MeasuredDifference]:
    """Play the same levels without a change, with the subspace exchanged, and with it removed. Return the differences
    of the returns.

    An episode's partner is the episode whose predicted label differs most from its own.
    """
    require(agent, *PLAYING, for_="probe")
    (block,) = blocks(environment_of(agent), episodes, episodes, seed)

    def run(change: Callable[[np.ndarray, int], np.ndarray]) -> tuple[np.ndarray, list[np.ndarray]]:
        going, returns, states = np.ones(episodes, bool), np.zeros(episodes), list[np.ndarray]()
        with block.opened() as (environment, rng):
            for step, transition in enumerate(play(_Changed(agent, change), environment, rng)):
                states.append(join_state(transition.state))
                returns += transition.result.rewards * going
                going &= ~transition.result.firsts
                if not going.any() or step + 1 == MAX_STEPS:
                    break
        return returns, states

    before, states = run(lambda state, step: state)
    predicted = np.stack([part @ subspace.probe for part in states[1:]] or [states[0] @ subspace.probe])  # (T, E, C)
    distance = np.abs(predicted[:, :, None] - predicted[:, None]).sum(axis=(0, 3))
    partners = distance.argmax(axis=1)

    def exchange(state: np.ndarray, step: int) -> np.ndarray:
        return subspace.moved(state, states[step][partners], 1.0) if 0 < step < len(states) else state

    def remove(state: np.ndarray, step: int) -> np.ndarray:
        return subspace.moved(state, np.broadcast_to(subspace.mean, state.shape), 1.0) if step else state

    after = [run(change)[0] for change in (exchange, remove)]
    first, second = (compare(before[:, None], one[:, None], seed)[0] for one in after)
    return first, second


class _Changed:
    """An agent whose state is changed before each step."""

    def __init__(self, agent: Agent, change: Callable[[np.ndarray, int], np.ndarray]) -> None:
        self._agent, self._change, self._step = agent, change, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._agent, name)

    def step(self, observations: np.ndarray, state: State, firsts: np.ndarray) -> tuple[Outputs, State]:
        changed = self._change(join_state(state), self._step)
        self._step += 1
        return self._agent.step(observations, agent_state(self._agent, changed), firsts)


def _policy(outputs: Outputs) -> np.ndarray:
    return softmax(action_scores(outputs).astype(np.float64))
