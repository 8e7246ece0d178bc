"""The outputs that a page attributes, the scores to compute for them, and the limits of their completeness errors."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import numpy as np

from rl_clarity.agents.protocol import Score
from rl_clarity.analyses.analysis import Subject
from rl_clarity.analyses.attribution.files import AttributionOptions, OutputInfo
from rl_clarity.analyses.attribution.refinement import error_bound


def attributed_outputs(subject: Subject) -> list[OutputInfo]:
    """Return the outputs that a page attributes, in the order of the page."""
    info = subject.info
    outputs = []
    if info.has_value:
        outputs = [OutputInfo("value", "value", "value function")]
    elif info.factors is None:
        label = "largest logit" if subject.info.kind == "policy" else "best action value"
        outputs = [OutputInfo("greedy", "greedy", label)]
    if subject.options_of(AttributionOptions).policy or info.factors is not None:
        outputs += [OutputInfo(f"action-{i}", "action", a.label, action=i) for i, a in enumerate(info.actions)]
        outputs += [OutputInfo(f"group-{i}", "group", g.label, group=i) for i, g in enumerate(info.action_groups)]
    return outputs


def computed_outputs(subject: Subject) -> list[OutputInfo]:
    """Return the outputs whose gradients are computed: all except groups, which are sums of the outputs of actions."""
    return [output for output in attributed_outputs(subject) if output.kind != "group"]


def scores_to_compute(subject: Subject) -> list[Score]:
    """Return the scores of `computed_outputs`."""
    return [output.kind if output.action is None else output.action for output in computed_outputs(subject)]


def completeness_limit(subject: Subject, output: OutputInfo) -> float | None:
    """Return the completeness error above which points are added, or None if the output is constant or not recorded.

    The limit depends only on the outputs that were recorded while the agent played, so it is the same in every task and
    on every rank.
    """
    played = subject.trajectories
    logits = played.policy_logits if played.q_values is None else played.q_values  # (N, T, A)
    if output.kind == "value":
        values = played.values
    elif logits is None:
        values = None
    elif output.kind == "greedy":
        values = np.max(logits, axis=-1)
    else:
        groups = subject.info.action_groups
        actions = [output.action] if output.group is None else groups[output.group].actions
        values = np.asarray(logits)[..., np.asarray(actions, int)].sum(axis=-1, dtype=np.float64)
    limit = math.inf if values is None else error_bound(np.asarray(values))
    return None if math.isinf(limit) else limit


def score_rows(subject: Subject) -> dict[str, list[int]]:
    """Return, for each output, the indices of the computed scores that add up to it. Only groups have several."""
    outputs = attributed_outputs(subject)
    row = {output.id: i for i, output in enumerate(computed_outputs(subject))}
    groups = subject.info.action_groups
    return {
        output.id: [row[output.id]]
        if output.group is None
        else [row[f"action-{action}"] for action in groups[output.group].actions]
        for output in outputs
    }


def sum_rows(values: Sequence[np.ndarray] | np.ndarray, rows: Sequence[int]) -> np.ndarray:
    """Return the sum of the `rows` of `values` (S, ...). For a single row, the result is the row itself, not a copy."""
    return functools.reduce(np.add, (values[row] for row in rows))
