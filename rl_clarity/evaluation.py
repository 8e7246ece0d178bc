"""Evaluate a checkpoint's agent, for `rl-clarity evaluate` and the model cards of included agents."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from rl_clarity import formats
from rl_clarity.environments import EnvironmentSpec, spec_from_metadata
from rl_clarity.progress import counted, progress_bar
from rl_clarity.recordings.evaluation import MAX_STEPS, Evaluation, evaluate, unseen_levels
from rl_clarity.recordings.rollouts import Player, RandomPolicyAgent

AGENT, UNSEEN, RANDOM = "agent", "unseen levels", "random policy"
"""Evaluations: the agent, the agent on levels it was not trained on, a random policy on the training levels."""


def evaluate_checkpoint(
    path: Path,
    episodes: int,
    seed: int,
    *,
    unseen: bool = True,
    random: bool = False,
    max_steps: int = MAX_STEPS,
    metadata: Mapping[str, Any] | None = None,
) -> dict[str, Evaluation]:
    """Play episodes; return evaluations by name: `AGENT`, `UNSEEN` (if training levels were limited) and `RANDOM`.

    `metadata` overrides the checkpoint's. The same arguments give the same episodes.
    """
    checkpoint = formats.read(path, **(metadata or {}))
    agent = formats.build_agent(checkpoint)
    spec = spec_from_metadata(checkpoint.metadata, num_actions=agent.num_actions)
    unseen_spec = unseen_levels(spec)
    players: dict[str, tuple[Player, EnvironmentSpec]] = {AGENT: (agent, spec)}
    if unseen and unseen_spec is not None:
        players[UNSEEN] = agent, unseen_spec
    if random:
        players[RANDOM] = RandomPolicyAgent(agent.num_actions), spec
    evaluations = {}
    for name, (player, spec) in players.items():
        with progress_bar(f"Playing: {name}") as report:
            evaluations[name] = evaluate(player, spec, episodes, seed, max_steps=max_steps, progress=counted(report))
    return evaluations


def summary(evaluation: Evaluation) -> dict[str, Any]:
    """Summary of an evaluation, for programs."""
    low, high = evaluation.bootstrap_interval(np.random.default_rng(0))
    return {
        "mean_return": evaluation.mean,
        "standard_error": evaluation.standard_error,
        "interval": [low, high],
        "episodes": len(evaluation.returns),
        "mean_length": float(evaluation.lengths.mean()),
        "lengths": [int(evaluation.lengths.min()), int(evaluation.lengths.max())],
        "cut": evaluation.cut,
    }


def text(evaluations: Mapping[str, Evaluation]) -> str:
    """Text for people; the first line is `mean return R +- S over N episodes`."""
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
            f"length {numbers['mean_length']:.0f} steps on average, {shortest} to {longest}",
        ]
        if evaluation.cut:
            lines.append(f"  {evaluation.cut} episodes were cut off after {longest} steps")
    return "\n".join(lines)
