"""Measure which later decisions depend on what an agent remembers at each step, by exchanging states."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from rl_clarity.agents.capabilities import require
from rl_clarity.agents.protocol import Agent
from rl_clarity.agents.recurrence import agent_state, join_state
from rl_clarity.base.errors import OptionError
from rl_clarity.base.progress import Report
from rl_clarity.base.statistics import Interval, bootstrap_interval
from rl_clarity.formats.included import load_agent
from rl_clarity.recordings.recording import Recording, open_recording
from rl_clarity.states.data import StateData, read_states
from rl_clarity.states.partners import PARTNERS, Partners, over_partners
from rl_clarity.states.replay import policy_change, value_change

EPISODES, EXCHANGES = 64, 32
NOTICEABLE = 0.02
"""Smallest change of the policy, in nats, that counts as a dependence. It corresponds to a probability that changes
from 50 % to 60 %."""
FEWEST, SHARE = 2, 0.05
"""A lag counts if the change is noticeable in at least this number and this share of the episodes."""
SAME_STATE = 1e-4
"""A replay ends when its state differs from the recorded one by less than this share of each unit's range."""
BEGINS = 0.25
"""A dependence begins at the first exchange whose change is at least this share of the decision's largest change."""
LANES, BYTES = 1024, 2**28
"""Largest number of replays in a batch, and largest size in bytes of their states and of the matrices."""


@dataclass(frozen=True, eq=False)
class MemoryMatrix:
    """Changes of an agent's outputs at later steps when its state before an earlier step is exchanged.

    Entry [e, t, u] of the arrays (E, T, T) is the change at step u of episode e if the state before step t is replaced
    by that of another episode (a partner) at the same step, and the agent then sees the frames of episode e. Entries
    are means or standard deviations over partners. Steps count from 0. Entries are NaN for u < t, beyond an episode's
    end, for t = 0 (nothing is remembered yet), for steps t that were not exchanged, and where there was no partner.

    `policy_changes` and `value_changes` contain the changes with each of P partners, for X exchanges in each episode.
    """

    exchanges: np.ndarray
    """(E, X) steps before which the state was exchanged; -1 where an episode has fewer exchanges."""
    partner_episodes: np.ndarray
    """(E, X, P) positions of the partners in the recording; -1 where there are fewer partners."""
    policy_changes: np.ndarray
    """(E, X, P, T) float32: Kullback-Leibler divergence, in nats, of the changed policy from the unchanged one. For
    agents with action values, the policy is their softmax. NaN before the exchange, beyond the episode's end, and
    without a partner."""
    value_changes: np.ndarray
    """(E, X, P, T) float32: absolute change of the value, or of the largest action value."""
    episodes: np.ndarray
    """(E,) positions of the episodes in the recording."""
    lengths: np.ndarray
    """(E,) numbers of steps of the episodes."""

    @property
    def partners(self) -> int:
        """Largest number of partners of each exchange."""
        return self.policy_changes.shape[2]

    @cached_property
    def policy(self) -> np.ndarray:
        """(E, T, T) float32: means over partners of `policy_changes`."""
        return self._by_step(self._policy_over_partners[0])

    @cached_property
    def value(self) -> np.ndarray:
        """(E, T, T) float32: means over partners of `value_changes`."""
        return self._by_step(self._value_over_partners[0])

    @cached_property
    def policy_spread(self) -> np.ndarray:
        """(E, T, T) float32: standard deviations over partners of `policy_changes`."""
        return self._by_step(self._policy_over_partners[1])

    @cached_property
    def value_spread(self) -> np.ndarray:
        """(E, T, T) float32: standard deviations over partners of `value_changes`."""
        return self._by_step(self._value_over_partners[1])

    @cached_property
    def _policy_over_partners(self) -> tuple[np.ndarray, np.ndarray]:
        return over_partners(self.policy_changes, 2)

    @cached_property
    def _value_over_partners(self) -> tuple[np.ndarray, np.ndarray]:
        return over_partners(self.value_changes, 2)

    def _by_step(self, rows: np.ndarray) -> np.ndarray:
        """Return an array (E, T, T) that contains `rows` (E, X, T) at the steps of the exchanges, and NaN elsewhere."""
        result = np.full((len(rows), rows.shape[2], rows.shape[2]), np.nan, np.float32)
        e, x = np.nonzero(self.exchanges >= 0)
        result[e, self.exchanges[e, x]] = rows[e, x]
        return result

    @property
    def exchanged(self) -> np.ndarray:
        """(E, T) whether the state before each step was exchanged."""
        return np.isfinite(self.policy).any(axis=2)

    def largest_by_lag(self) -> np.ndarray:
        """Return the largest changes of the policy (E, T) by lag: entry k is for decisions k steps later.

        An exchange before step t replaces what was seen up to step t - 1, so the change at step u has the lag
        u - t + 1. Entries are NaN where an episode has no such pair of steps; entry 0 is always NaN.
        """
        result = np.full(self.policy.shape[:2], np.nan, np.float32)
        for lag in range(1, self.policy.shape[1]):
            # offset lag - 1 of the diagonal (t, t + lag - 1)
            pairs = np.asarray(np.diagonal(self.policy, lag - 1, axis1=1, axis2=2))
            known = np.isfinite(pairs).any(axis=1)
            result[known, lag] = np.nanmax(pairs[known], axis=1)
        return result

    def written(self) -> np.ndarray:
        """Return how much the frame of each step contributes to later decisions, (E, T).

        This compares the exchange after the step with the exchange before it: how much more does it change a later
        decision? The result is the maximum over all later decisions, and at least 0. It is NaN for steps without an
        exchange directly after them.
        """
        result = np.full(self.policy.shape[:2], np.nan, np.float32)
        for e, exchanged in enumerate(self.exchanged):
            before = np.zeros(self.policy.shape[2], np.float32)
            for t in np.flatnonzero(exchanged):
                row = self.policy[e, t]
                known = np.isfinite(row)
                result[e, t - 1] = max(0.0, float((row - before)[known].max()))
                before = np.where(known, row, 0)
        return result

    def read(self) -> np.ndarray:
        """Return the largest change (E, T) of each decision by any exchange: how much it depends on memory. The result
        is NaN for steps before the first exchange.
        """
        result = np.full(self.policy.shape[:2], np.nan, np.float32)
        known = np.isfinite(self.policy).any(axis=1)
        result[known] = np.nanmax(np.swapaxes(self.policy, 1, 2)[known], axis=1)
        return result

    def begins(self, episode: int, step: int) -> int | None:
        """Return the first step (counted from 0) on whose frame the decision at `step` depends. Return None if the
        decision does not depend noticeably on any earlier frame.

        This is the step before the first exchange that causes at least a quarter of the decision's largest change. If
        only some steps were exchanged, it is the step of the preceding exchange, because any frame since then is
        possible.
        """
        exchanges = self.beginning(episode, step)
        return None if exchanges is None else exchanges[0]

    def beginning(self, episode: int, step: int) -> tuple[int, int] | None:
        """Return steps (a, b) that bound the earliest frame on which the decision at `step` depends.

        This frame was seen at a or later, and before b. Return None in the same cases as `begins`.
        """
        column = self.policy[episode, : step + 1, step]
        known = np.flatnonzero(np.isfinite(column))
        if not len(known) or column[known].max() < NOTICEABLE:
            return None
        strong = int(np.flatnonzero(column[known] >= BEGINS * column[known].max())[0])
        return int(known[strong - 1]) if strong else 0, int(known[strong])

    def reach(self, seed: int = 0) -> Reach:
        """Return how far back decisions depend on what the agent saw: the largest lag, not the mean lag."""
        lags = self.largest_by_lag().astype(np.float64)
        known = np.isfinite(lags)
        noticed = np.nan_to_num(lags) >= NOTICEABLE
        counts, totals = noticed.sum(axis=0), known.sum(axis=0)
        longest = int(np.flatnonzero(totals).max(initial=0))
        rng = np.random.default_rng(seed)
        enough = np.flatnonzero((counts >= np.minimum(FEWEST, totals)) & (counts >= SHARE * totals) & (counts > 0))
        if len(enough):
            steps = int(enough[-1])
            effect = bootstrap_interval(lags[noticed[:, steps], steps], rng)
            return Reach(steps, effect, int(counts[steps]), int(totals[steps]), longest)
        tested = known.any(axis=1)
        largest = np.nanmax(lags[tested], axis=1) if tested.any() else np.zeros(1)
        return Reach(0, bootstrap_interval(largest, rng), 0, int(tested.sum()), longest)


@dataclass(frozen=True)
class Reach:
    """How far back an agent's decisions depend on what it saw."""

    steps: int
    """Largest lag with a noticeable change in at least 2 episodes and 5 % of them; 0 if there is none."""
    effect: Interval
    """Mean of the largest change of the policy at that lag, in nats, over the episodes where it is noticeable, with its
    95 % interval; if `steps` is 0, mean over episodes of the largest change at any lag."""
    count: int
    """Number of episodes with a noticeable change at the lag `steps`."""
    episodes: int
    """Number of episodes that were tested at the lag `steps`; if that is 0, at any lag."""
    longest: int
    """Largest lag that was tested."""

    @property
    def detectable(self) -> float:
        """If this share of all episodes had a dependence, at least one tested episode would have shown it with a
        probability of 95 %.
        """
        return float(1 - 0.05 ** (1 / max(1, self.episodes)))


def memory_matrix(
    agent: Agent | str | os.PathLike[str],
    recording: Recording | str | os.PathLike[str],
    *,
    episodes: int = EPISODES,
    partners: int = PARTNERS,
    exchanges: int = EXCHANGES,
    seed: int = 0,
) -> MemoryMatrix:
    """Exchange the state of an agent for that of other episodes, and measure which later decisions change.

    Before a step t, the state is replaced by those of `partners` other episodes at the same step, which differ strongly
    from it and from each other. Then the agent sees the recorded frames of the original episode to its end. A decision
    that changes depends on something that was seen before step t and that differs between the episodes. Information
    that all episodes share at a step, such as the number of steps so far, is not measured.

    A replay stops early once its state is the recorded one again. The same arguments give the same result.

    Args:
        agent: A recurrent agent, the path of its checkpoint, or the name of an included agent (`models:NAME`).
        recording: A recording of the agent's play with its states (see `rl_clarity.record`), or its path or address.
        episodes: Largest number of episodes, spread evenly over the recording. There are fewer if the matrices would
            need more than 256 MB.
        partners: Number of other episodes for each exchange, at least 1.
        exchanges: Largest number of steps of an episode at which states are exchanged, evenly spaced.
        seed: Seed of the choice of 256 candidate partners, in recordings of more episodes.

    Raises:
        OptionError: Invalid options, an agent without a state, or a recording without two episodes of several steps.
        SamplesError: The recording is damaged.
    """
    opened = recording if isinstance(recording, Recording) else open_recording(recording)
    loaded = load_agent(agent) if isinstance(agent, str | os.PathLike) else agent
    data = read_states(opened)
    return exchange_states(loaded, data, episodes=episodes, partners=partners, exchanges=exchanges, seed=seed)


def exchange_states(
    agent: Agent,
    data: StateData,
    *,
    episodes: int = EPISODES,
    partners: int = PARTNERS,
    exchanges: int = EXCHANGES,
    seed: int = 0,
    report: Report = lambda share: None,
) -> MemoryMatrix:
    """Compute a memory matrix from states that have been read from the recording. See `memory_matrix`."""
    require(agent, "initial_state", "forward", for_="memory_matrix")
    if episodes < 1 or partners < 1 or exchanges < 1:
        raise OptionError(f"episodes={episodes}, partners={partners} and exchanges={exchanges} must be at least 1")
    starts = data.starts
    lengths = data.length[starts]
    longer = np.flatnonzero(lengths > 1)
    if len(longer) < 2:
        raise OptionError(
            f"{data.recording.location} has {len(longer)} episodes of more than one step; at least 2 are needed, "
            "because states are exchanged between episodes"
        )
    steps = int(lengths.max())
    most = max(1, BYTES // (4 * 4 * steps * steps))
    chosen = longer[np.unique(np.linspace(0, len(longer) - 1, min(episodes, most, len(longer))).astype(int))]
    others = Partners(data, seed)
    each = min(exchanges, steps - 1)
    before, taken = np.full((len(chosen), each), -1), np.full((len(chosen), each, partners), -1)
    policy, value = (np.full((*taken.shape, steps), np.nan, np.float32) for _ in range(2))
    size = partners * exchanges * data.states.shape[1] * 4
    groups = np.array_split(np.arange(len(chosen)), -(-len(chosen) * size // BYTES))
    done = 0
    for group in groups:
        lanes = _lanes(data, chosen[group], others, partners, exchanges)
        e = group[lanes.episode]
        before[e, lanes.exchange] = lanes.step
        taken[e, lanes.exchange, lanes.partner] = data.episode[lanes.row]
        for step, members, changes in _replayed(agent, data, chosen[group], lanes, others.scale):
            place = (e[members], lanes.exchange[members], lanes.partner[members], step)
            policy[place], value[place] = changes[members].T
        done += len(group)
        report(done / len(chosen))
    return MemoryMatrix(before, taken, policy, value, data.episode[starts[chosen]], lengths[chosen])


@dataclass(frozen=True, eq=False)
class _Lanes:
    """n replays, each of which starts at a step of an episode, from the state of a partner."""

    episode: np.ndarray  # (n,) index among the chosen episodes
    step: np.ndarray  # (n,) the step before which the state is exchanged
    exchange: np.ndarray  # (n,) index among the exchanges of the episode
    partner: np.ndarray  # (n,) index among the partners of the exchange
    row: np.ndarray  # (n,) row of the partner's state


def _lanes(data: StateData, chosen: np.ndarray, others: Partners, partners: int, exchanges: int) -> _Lanes:
    starts, lengths = data.starts[chosen], data.length[data.starts[chosen]]
    columns: list[tuple[int, int, int, int, int]] = []
    for e, (start, length) in enumerate(zip(starts, lengths, strict=True)):
        steps = np.unique(np.rint(np.linspace(1, length - 1, min(exchanges, length - 1))).astype(int))
        for exchange, step in enumerate(steps):
            rows = others.rows(start + step, partners)
            columns += [(e, step, exchange, partner, int(row)) for partner, row in enumerate(rows)]
    return _Lanes(*np.array(columns).T)


def _replayed(
    agent: Agent, data: StateData, chosen: np.ndarray, lanes: _Lanes, scale: np.ndarray
) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """Yield each step, the indices of the replays that include it, and the changes (n, 2) of policy and value there,
    which are 0 for other replays.
    """
    starts, lengths = data.starts[chosen], data.length[data.starts[chosen]]
    state = data.states[lanes.row]
    differs = np.ones(len(state), bool)
    for step in range(1, int(lengths.max())):
        members = np.flatnonzero((lanes.step <= step) & (lengths[lanes.episode] > step))
        changes = np.zeros((len(state), 2))
        active = members[differs[members]]
        here = np.unique(lanes.episode[active])
        if len(here):
            rows = starts[here] + step
            observations = data.observations(rows)
            plain = agent.forward(observations, agent_state(agent, data.states[rows]))
            position = np.searchsorted(here, lanes.episode)
            for start in range(0, len(active), LANES):
                part = active[start : start + LANES]
                at = position[part]
                outputs = agent.forward(observations[at], agent_state(agent, state[part]))
                changes[part, 0] = policy_change(plain, outputs, at)
                changes[part, 1] = value_change(plain, outputs, at)
                state[part] = join_state(outputs.state)
            going = active[lengths[lanes.episode[active]] > step + 1]
            recorded = data.states[starts[lanes.episode[going]] + step + 1]
            differs[going] = (np.abs(state[going] - recorded) > SAME_STATE * scale).any(axis=1)
        yield step, members, changes
