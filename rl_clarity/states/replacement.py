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
"""Number of episodes from which the one is chosen that a window is compared with."""
REPLACED = 3
"""Number of causes of each target whose frames are replaced."""


def compared_step(agent: Agent, data: StateData, others: Partners, row: int) -> int:
    """Return the row of the same step in the episode that a window is compared with; -1 if no other episode has the
    step.

    Of 16 episodes whose states differ much from that of the row and from each other, it is the one whose state before
    the step changes the policy most, if it replaces that of the row.
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
    """Replace the frames of the three largest causes of each target, and compute the target again.

    Causes are frames before the explained step, by the sums of gradients (G, B, n, ...) times differences from the
    baseline (B, n, H, W, C). The arrays (G, B, 3) are `replaced.frames`, their places in the window, or -1;
    `replaced.change`, by how much the target is larger with the frame than with that of the baseline in its place;
    `replaced.mean`, the same with the `mean` frame (H, W, C); `replaced.partner`, the same with frames of other
    episodes at the same step, as a mean over `replaced.partners` of them, and `replaced.partner.spread`, its standard
    deviation over them; and with `.policy` after these names, the Kullback-Leibler divergences of the changed policies
    in nats. `memory.change` (G, B): by how much the target is larger than with the baseline in place of all frames of
    the window.

    The other episodes are the partners of `exchange_states` before the next step. Their states may differ because of
    earlier frames, while the frames themselves are the same. So those are left out whose frame changes the state of
    this episode less than half as much as that of another partner does: the mean would measure how many partners had
    another frame, not what the frame does.
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
        """Return what was measured of each cause (G, m) at the causes of each target (G, B, 3)."""
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
    """Return the step, the partner and the frame of each of p replacements, with the frame (H, W, C) of a partner.

    The steps (p,) are indices of `rows` (m,), the partners (p,) are numbers for each step, and the frames are (p, H, W,
    C). Partners whose frame changes the state little are left out.
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
    """Return the outputs at steps (n,), and the states (n, H) before them, if the agent had seen other frames.

    Replay n starts at step `first[n]` from the recorded state. `see` gets the steps (n,) that come next, or -1 where
    a replay has not started, and their observations (n, height, width, channels) uint8, which it changes.
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
    """Return the values (S + D, n) of the targets of `memory_gradients`; scores are "value" or weights of actions."""
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
