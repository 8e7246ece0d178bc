"""`rl_clarity.evaluate` and `rl-clarity evaluate`: estimate an agent's mean return."""

from __future__ import annotations

import dataclasses
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

import numpy as np

from rl_clarity.agents.actions import describe_factors, is_single_choice
from rl_clarity.agents.capabilities import PLAYING, action_factors, require, uses_action_masks
from rl_clarity.base.errors import EvaluationError, OptionError
from rl_clarity.base.parsing import parse
from rl_clarity.environments import EnvironmentSpec, spec_from_metadata
from rl_clarity.formats.included import open_agent
from rl_clarity.recordings.evaluation import UNKNOWN_CAUSE, Evaluation, evaluate_agent, known_cause, unseen_levels
from rl_clarity.recordings.options import EvaluationOptions
from rl_clarity.recordings.rollouts import Player, RandomPolicyAgent

AGENT, UNSEEN, RANDOM = "agent", "unseen levels", "random policy"
"""Names of evaluations: of the agent, of the agent on levels it was not trained on, and of a random policy."""


def evaluate(
    agent: str | os.PathLike[str] | Player,
    env: Any = None,
    *,
    metadata: Mapping[str, Any] | None = None,
    **options: Any,
) -> dict[str, Evaluation]:
    """Estimate an agent's mean return over complete episodes, and return evaluations by name.

    The names are `agent`, `unseen levels` (if the agent was trained on a limited set of Procgen levels and `unseen` is
    set) and `random policy` (if `random` is set). Agents play as in training, except that episodes are whole games and
    rewards are the unscaled rewards of the game. The same arguments give the same episodes.

    Args:
        agent: a checkpoint of any supported format, an included agent (`models:coinrun`), or an agent.
        env: an `EnvironmentSpec`, or an environment as for `collect`. By default, the environment of the checkpoint, or
            of the checkpoint that an agent was loaded from (the agent may be edited, see `rl_clarity.edit`).
        metadata: metadata that override the checkpoint's.
        options: see `EvaluationOptions`.

    Raises OptionError for invalid options, EvaluationError if the confidence interval of the mean return does not
    contain `expect_return`, and the errors of `load_agent` and `collect`.
    """
    chosen = parse(EvaluationOptions, options)
    agent, env = _agent_and_environment(agent, env, metadata)
    evaluations = {AGENT: evaluate_agent(AGENT, agent, env, chosen, known_cause)}
    if chosen.unseen and isinstance(env, EnvironmentSpec) and (unseen := unseen_levels(env)) is not None:
        evaluations[UNSEEN] = evaluate_agent(UNSEEN, agent, unseen, chosen, known_cause)
    if chosen.random:
        factors = action_factors(agent)
        if not is_single_choice(factors):
            raise OptionError(
                "random=True plays with uniformly random choices, but an action of the agent is "
                f"{describe_factors(factors)}: leave random out"
            )
        sampled = dataclasses.replace(chosen, deterministic=False)
        random_agent = RandomPolicyAgent(agent.num_actions, {"action_masks": uses_action_masks(agent)})
        evaluations[RANDOM] = evaluate_agent(RANDOM, random_agent, env, sampled, known_cause)
    if chosen.expect_return is not None:
        _check_return(evaluations[AGENT], chosen.expect_return, chosen.tolerance)
    return evaluations


def _agent_and_environment(agent: Any, env: Any, metadata: Mapping[str, Any] | None) -> tuple[Player, Any]:
    has_checkpoint = env is None and getattr(agent, "checkpoint", None) is not None
    if isinstance(agent, str | os.PathLike) or has_checkpoint:
        checkpoint, agent = open_agent(agent, metadata)
        if env is None:
            env = spec_from_metadata(checkpoint.metadata, num_actions=agent.num_actions)
    elif env is None or metadata:
        raise OptionError("an agent that was not loaded from a checkpoint needs env, and takes no metadata")
    return require(agent, *PLAYING, for_="evaluate"), env


def _check_return(evaluation: Evaluation, expected: float, tolerance: float) -> None:
    numbers = summary(evaluation)
    low, high = numbers["interval"]
    if not low - tolerance <= expected <= high + tolerance:
        margin = f", extended by {tolerance:g}" if tolerance else ""
        raise EvaluationError(
            f"the 95 % interval of the mean return, {low:.2f} to {high:.2f}{margin}, does not contain "
            f"expect_return={expected:g} (mean {evaluation.mean:.2f} over {numbers['episodes']} episodes). The agent "
            "may not play as it did in training: check env_name, frame_stack and the other metadata, and deterministic"
        )


class Summary(TypedDict):
    """An evaluation in numbers, for programs."""

    mean_return: float
    standard_error: float
    interval: tuple[float, float]
    episodes: int
    mean_length: float
    lengths: tuple[int, int]
    cut: int
    sampled: bool
    causes: Mapping[str, float]
    """Share of the episodes by the cause of their end, the most frequent first; empty if no cause is known."""


def summary(evaluation: Evaluation) -> Summary:
    """Return the summary of an evaluation, for programs."""
    low, high = evaluation.bootstrap_interval(np.random.default_rng(0))
    return {
        "mean_return": evaluation.mean,
        "standard_error": evaluation.standard_error,
        "interval": (low, high),
        "episodes": len(evaluation.returns),
        "mean_length": float(evaluation.lengths.mean()),
        "lengths": (int(evaluation.lengths.min()), int(evaluation.lengths.max())),
        "cut": evaluation.cut,
        "sampled": evaluation.sampled,
        "causes": _shares(evaluation.causes),
    }


def _shares(causes: Sequence[str]) -> dict[str, float]:
    if {*causes} <= {UNKNOWN_CAUSE}:
        return {}
    return {cause: count / len(causes) for cause, count in Counter(sorted(causes)).most_common()}


def text(evaluations: Mapping[str, Evaluation]) -> str:
    """Format evaluations as text, which begins with `mean return MEAN +- STANDARD_ERROR over COUNT episodes`."""
    lines = []
    for name, evaluation in evaluations.items():
        numbers = summary(evaluation)
        low, high = numbers["interval"]
        shortest, longest = numbers["lengths"]
        prefix = "" if name == AGENT else f"{name}: "
        lines += [
            f"{prefix}mean return {evaluation.mean:.2f} +- {evaluation.standard_error:.2f} "
            f"over {len(evaluation.returns)} episodes",
            f"  95 % interval {low:.2f} to {high:.2f} (bootstrap); "
            f"length {numbers['mean_length']:.0f} steps on average, {shortest} to {longest}; "
            f"actions {'sampled' if evaluation.sampled else 'greedy (the most likely, or with the highest value)'}",
        ]
        if numbers["causes"]:
            lines.append("  ended by: " + ", ".join(f"{cause} {one:.0%}" for cause, one in numbers["causes"].items()))
        if evaluation.cut:
            lines.append(f"  {evaluation.cut} episodes were cut off after {longest} steps")
    return "\n".join(lines)
