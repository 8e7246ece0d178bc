"""Which score of an agent is meant: the value, an action's logit, an action value, or a sum of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rl_clarity.agents.protocol import Output
from rl_clarity.errors import OptionError


def select_scores(outputs: Sequence[Output], heads: Sequence[str], num_actions: int, scores: np.ndarray) -> np.ndarray:
    """Weights (B, S, n) that pick S scores from the network's n, which are its heads side by side.

    Parameters
    ----------
    outputs: "value", an action's index, "greedy", or a sequence of action indices (their sum), S of them
    heads: ("policy_logits", "values") or ("q_values",), in the network's order
    scores: (B, n) at the observations; "greedy" is the action that is best there, held fixed along a path

    Raises OptionError for an output that is none of these.
    """
    if len(outputs) == 0:
        raise OptionError(f"outputs={outputs!r}: at least one is needed")
    weights = np.zeros((len(scores), len(outputs), scores.shape[-1]), np.float32)
    for i, output in enumerate(outputs):
        if isinstance(output, str):
            weights[np.arange(len(scores)), i, _named_column(output, heads, num_actions, scores)] = 1
        else:
            for index in _indices(output):
                if not 0 <= index < num_actions:
                    raise OptionError(f"output {output!r}: the agent has the actions 0 to {num_actions - 1}")
                weights[:, i, _offset(heads, num_actions, "policy_logits", "q_values") + index] += 1
    return weights


def _indices(output: Output) -> list[int]:
    """An action's index alone, or those of a sequence."""
    try:
        given = np.asarray(output)
    except ValueError:  # sequences of several lengths
        given = np.asarray(None)
    if given.dtype.kind not in "iu" or given.ndim > 1 or given.size == 0:
        raise OptionError(f"output {output!r} is neither 'value' nor an action's index nor a sequence of indices")
    return [int(index) for index in np.atleast_1d(given)]


def _named_column(output: str, heads: Sequence[str], num_actions: int, scores: np.ndarray) -> np.ndarray | int:
    if output == "value" and "values" in heads:
        return _offset(heads, num_actions, "values")
    if output == "greedy" and "q_values" in heads:
        start = _offset(heads, num_actions, "q_values")
        return start + np.argmax(scores[:, start : start + num_actions], axis=1)
    known = ["'value'"] if "values" in heads else ["'greedy'"]
    raise OptionError(
        f"output {output!r} is none of this agent's; it has {known[0]}, an action's index, or a sequence of indices"
    )


def _offset(heads: Sequence[str], num_actions: int, *names: str) -> int:
    widths = {"policy_logits": num_actions, "values": 1, "q_values": num_actions}
    position = 0
    for head in heads:
        if head in names:
            return position
        position += widths[head]
    raise OptionError(f"the agent has no {' or '.join(names)}; its outputs are {', '.join(heads)}")
