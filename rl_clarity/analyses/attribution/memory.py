"""Compute how a recurrent state contributes to an output directly, bypassing a layer's activations."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rl_clarity.agents.capabilities import action_factors
from rl_clarity.agents.held_inputs import split_held
from rl_clarity.agents.protocol import Agent, Outputs, Score, State
from rl_clarity.agents.scores import select_scores
from rl_clarity.analyses.attribution.baselines import DEFAULT_BASELINE, Baseline, ExpectedBaseline, layer_baseline


def scores_without_memory(
    agent: Agent,
    observations: np.ndarray,
    layer: str,
    scores: Sequence[Score],
    state: State,
    baseline: Baseline = DEFAULT_BASELINE,
    weights: np.ndarray | None = None,
) -> np.ndarray:
    """Return the scores (S, B) at a layer's baseline, with the agent's initial state in place of `state`.

    Held inputs (see `rl_clarity.agents.held_inputs`) stay the same, and "greedy" is still the score of the action that
    is best in `state`. `weights` are the weights of the path's points, which an `ExpectedBaseline` divides among its
    observations.
    """
    weights = np.ones(1) if weights is None else weights
    start = layer_baseline(agent, baseline, observations, layer, state, count=len(weights))
    if isinstance(start, ExpectedBaseline):
        parts = (
            shares.sum() * scores_without_memory(agent, observations, layer, scores, state, beginning)
            for beginning, _, shares in start.divide(weights, weights)
        )
        return np.asarray(sum(parts), np.float32)
    (shape,) = (site.shape for site in agent.sites if site.name == layer)
    values = np.broadcast_to(np.float32(0) if start is None else start, (len(observations), *shape))
    forgotten, _ = split_held(agent, agent.initial_state(len(observations)))
    without = (*forgotten, *split_held(agent, state)[1])
    heads = _heads(agent.forward(observations, without, write={layer: values}))
    widths = {name: head.shape[1] for name, head in heads.items()}

    def results() -> np.ndarray:
        return np.concatenate(list(_heads(agent.forward(observations, state)).values()), axis=1)

    selection = select_scores(scores, widths, len(observations), results, action_factors(agent))
    return np.einsum("bsn,bn->sb", selection, np.concatenate(list(heads.values()), axis=1))


def _heads(outputs: Outputs) -> dict[str, np.ndarray]:
    """Return an agent's outputs by head, each (B, n)."""
    heads = {"policy_logits": outputs.policy_logits, "values": outputs.values, "q_values": outputs.q_values}
    return {name: head.reshape(len(head), -1) for name, head in heads.items() if head is not None}
