"""Measure what a frame causes: replace it, replay the frames after it, and compute the outputs again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from rl_clarity.agents.protocol import Agent, Outputs, Score
from rl_clarity.agents.recurrence import agent_state, join_state
from rl_clarity.agents.scores import action_scores
from rl_clarity.states.data import StateData
from rl_clarity.states.partners import FAR, PARTNERS, Partners, over_partners
from rl_clarity.states.replay import policy_change

TRIED = 16
"""Number of candidate episodes, one of which is compared with a window."""
REPLACED = 3
"""Number of causes of each target that are replaced."""


def compared_step(agent: Agent, data: StateData, others: Partners, row: int) -> int:
    """Choose the episode that a window is compared with, and return the row of the same step in it, or -1 if no other
    episode reaches the step.

    Up to 16 episodes are tried, whose states before the step differ strongly from the state at `row` and from each
    other. The chosen episode is the one whose state changes the policy most when it replaces the state at `row`.
    """
    candidates = others.rows(row, TRIED)
    if not len(candidates):
        return -1
    rows = np.concatenate([[row], candidates])
    observations = np.repeat(data.observations(np.array([row])), len(rows), axis=0)
    outputs = agent.forward(observations, agent_state(agent, data.states[rows]))
    changes = policy_change(outputs, outputs, np.zeros(len(rows), int))
    return int(rows[1:][changes[1:].argmax()])


def measured_causes(
    agent: Agent,
    data: StateData,
    rows: np.ndarray,
    outputs: Mapping[str, Score],
    weights: np.ndarray,
    frames: np.ndarray,
    baseline: np.ndarray,
    mean: np.ndarray,
    *,
    partners: int = PARTNERS,
    seed: int = 0,
) -> dict[str, np.ndarray]:
    """Replace the three largest causes of each target, one at a time, and compute the target again.

    The causes of G targets are frames before the explained step, in B windows of n steps. They are ranked by the sums
    of the gradients `frames` (G, B, n, height, width, channels) times the differences from the baseline (B, n, height,
    width, channels). These arrays are returned, all but the last with the shape (G, B, 3):

    - `replaced.frames`: positions of the causes in the window; -1 where there are fewer
    - `replaced.change`: how much larger the target is with the frame than with the baseline's frame in its place
    - `replaced.mean`: the same with the frame `mean` (height, width, channels) in its place
    - `replaced.partner`: the same with frames of other episodes at the same step, as the mean over
      `replaced.partners` episodes; `replaced.partner.spread`: the standard deviation over these
    - `replaced.change.policy`, `replaced.mean.policy`, `replaced.partner.policy` and `replaced.partner.policy.spread`:
      Kullback-Leibler divergences of the changed policies, in nats, instead of changes of the target
    - `memory.change` (G, B): how much larger the target is than with the baseline in place of all frames of the window

    The other episodes are the partners that `exchange_states` uses for the next step. Their states may differ because
    of earlier frames, although their frames at this step are the same. So a partner is left out if its frame changes
    the state of this episode less than half as much as that of another partner does. Otherwise the mean would measure
    how many partners had a different frame, not the effect of the frame.
    """
    targets, count, steps = frames.shape[:3]
    first = rows - steps + 1
    seen = data.windows(first, steps).astype(np.float32)
    sums = (frames * (seen - baseline) / 255).reshape(targets, count, steps, -1).sum(axis=-1)
    causes = np.argsort(-np.abs(sums[..., :-1]), axis=-1, kind="stable")[..., :REPLACED]  # (G, B, at most 3)
    places = np.full((targets, count, REPLACED), -1, np.int32)
    places[..., : causes.shape[-1]] = causes
    window = np.broadcast_to(np.arange(count)[None, :, None], places.shape)
    chosen = np.unique(np.stack([window, places], axis=-1)[places >= 0].reshape(-1, 2), axis=0)  # (m, 2)
    of_window, place = chosen.T
    at = first[of_window] + place
    cause, number, other = _partner_frames(agent, data, at, partners, seed)
    # replays: unchanged, with the baseline in all steps, and with that of one, the mean frame, or a partner's frame
    lanes = np.concatenate([np.arange(count), np.arange(count), of_window, of_window, of_window[cause]])
    begin = np.concatenate([rows, first, at, at, at[cause]])
    kind = np.repeat(range(5), [count, count, len(at), len(at), len(cause)])

    def see(now: np.ndarray, observations: np.ndarray) -> None:
        replaced = now == begin
        compared = (kind == 1) & (now >= 0) | (kind == 2) & replaced
        observations[compared] = baseline[lanes[compared], (now - first[lanes])[compared]]
        observations[(kind == 3) & replaced] = mean
        observations[(kind == 4) & replaced] = other[replaced[kind == 4]]

    after, states = replay_frames(agent, data, rows[lanes], begin, see)
    scores = [_of_lanes(score, lanes) for score in outputs.values()]
    values = target_values(after, states, scores, weights[lanes])  # (G, replays)
    changes = values[:, lanes] - values  # of the unchanged replays, which are the first ones
    policy = np.tile(policy_change(after, after, lanes), (targets, 1))
    index = np.full((count, steps), -1)
    index[of_window, place] = np.arange(len(at))
    target = np.arange(targets)[:, None, None]

    def by_cause(measured: np.ndarray) -> np.ndarray:
        """Return the measurements (G, m) of m replaced frames, arranged by the causes of each target (G, B, 3)."""
        padded = np.concatenate([measured, np.full((targets, 1), np.nan)], axis=1)
        return padded[target, np.where(places >= 0, index[window, places], -1)].astype(np.float32)

    used = np.bincount(cause, minlength=len(at))
    result = {
        "replaced.frames": places,
        "replaced.partners": np.nan_to_num(by_cause(np.tile(used, (targets, 1)))).astype(np.int32),
        "memory.change": changes[:, kind == 1].astype(np.float32),
    }
    for name, measured in (("", changes), (".policy", policy)):
        by_partner = np.full((targets, len(at), partners), np.nan)
        by_partner[:, cause, number] = measured[:, kind == 4]
        average, spread = over_partners(by_partner, 2)
        result[f"replaced.change{name}"] = by_cause(measured[:, kind == 2])
        result[f"replaced.mean{name}"] = by_cause(measured[:, kind == 3])
        result[f"replaced.partner{name}"], result[f"replaced.partner{name}.spread"] = map(by_cause, (average, spread))
    return result


def _partner_frames(
    agent: Agent, data: StateData, rows: np.ndarray, count: int, seed: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return p replacements of frames by those of partners, as three arrays: the step, the partner and the frame.

    The steps (p,) are indices of `rows` (m,), the partners (p,) are numbered from 0 for each step, and the frames are
    (p, height, width, channels). Partners whose frame changes the state little are left out.
    """
    others = Partners(data, seed)
    found = [others.rows(row + 1, count) - 1 for row in rows]
    cause = np.repeat(np.arange(len(rows)), [len(one) for one in found])
    if not len(cause):
        return cause, cause, np.zeros((0, *agent.observation_shape), np.uint8)
    number = np.concatenate([np.arange(len(one)) for one in found])
    frames = data.observations(np.concatenate(found))
    states = join_state(agent.forward(frames, agent_state(agent, data.states[rows[cause]])).state)
    sizes = np.linalg.norm((states - data.states[rows[cause] + 1]) / others.scale, axis=1)
    largest = np.zeros(len(rows))
    np.maximum.at(largest, cause, sizes)
    kept = sizes >= FAR * largest[cause]
    return cause[kept], number[kept], frames[kept]


def _of_lanes(score: Score, lanes: np.ndarray) -> Score:
    return (
        {action: np.asarray(weight)[lanes] for action, weight in score.items()} if isinstance(score, Mapping) else score
    )


def replay_frames(
    agent: Agent, data: StateData, rows: np.ndarray, first: np.ndarray, see: Callable[[np.ndarray, np.ndarray], None]
) -> tuple[Outputs, np.ndarray]:
    """Return the outputs at rows (n,), and the states (n, H) before them, if the agent had seen other frames.

    Replay i starts at row `first[i]` from the recorded state, and ends at `rows[i]`. For each step, `see` is called
    with the row of each replay (n,), or -1 where a replay has not started, and with the observations there, (n, height,
    width, channels) uint8, which it may change in place.
    """
    lags = np.asarray(rows) - first
    states = data.states[first].copy()
    for lag in range(int(lags.max()), -1, -1):
        here = np.flatnonzero(lags >= lag)
        now = np.where(lags >= lag, rows - lag, -1)
        different, position = np.unique(now[here], return_inverse=True)
        observations = np.zeros((len(rows), *agent.observation_shape), np.uint8)
        observations[here] = data.observations(different)[position]
        see(now, observations)
        outputs = agent.forward(observations[here], agent_state(agent, states[here]))
        if lag:
            states[here] = join_state(outputs.state)
    return outputs, states


def target_values(outputs: Outputs, states: np.ndarray, scores: Sequence[Score], weights: np.ndarray) -> np.ndarray:
    """Return the values (S + D, n) of the targets of `memory_gradients`. Scores are "value" or weights by action."""
    values = []
    for score in scores:
        if isinstance(score, Mapping):
            logits = action_scores(outputs)
            values.append(np.sum([weight * logits[:, int(action)] for action, weight in score.items()], axis=0))
        else:
            assert outputs.values is not None
            values.append(outputs.values)
    of_state = np.einsum("ndh,nh->dn", weights, states)
    return np.concatenate([np.reshape(values, (len(scores), len(states))), of_state])
