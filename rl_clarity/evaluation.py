"""How well a checkpoint's agent plays: the numbers behind `rl-clarity evaluate` and the cards of shipped agents."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from rl_clarity import checkpoints
from rl_clarity.environments import EnvironmentSpec, spec_from_metadata
from rl_clarity.progress import counted, progress_bar
from rl_clarity.recordings.evaluation import MAX_STEPS, Evaluation, evaluate, unseen_levels
from rl_clarity.recordings.players import Player, RandomPolicyAgent

AGENT, UNSEEN, RANDOM = "agent", "unseen levels", "random policy"
"""Who plays, and where: the agent, the same on levels it was not trained on, a random policy where it was trained."""


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
    """Let a checkpoint's agent play, by `AGENT`, `UNSEEN` (if its levels were limited) and `RANDOM`.

    `metadata` is what the file does not say. The same arguments give the same episodes.
    """
    checkpoint = checkpoints.read(path, **(metadata or {}))
    agent = checkpoints.build_agent(checkpoint)
    spec = spec_from_metadata(checkpoint.metadata, num_actions=agent.num_actions)
    others = unseen_levels(spec)
    players: dict[str, tuple[Player, EnvironmentSpec]] = {AGENT: (agent, spec)}
    if unseen and others is not None:
        players[UNSEEN] = agent, others
    if random:
        players[RANDOM] = RandomPolicyAgent(agent.num_actions), spec
    found = {}
    for name, (player, where) in players.items():
        with progress_bar(f"Playing: {name}") as report:
            found[name] = evaluate(player, where, episodes, seed, max_steps=max_steps, progress=counted(report))
    return found


def summary(evaluation: Evaluation) -> dict[str, Any]:
    """What is told of an evaluation, for programs."""
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


def text(found: Mapping[str, Evaluation]) -> str:
    """The same for people; the first line is `mean return R +- S over N episodes`."""
    lines = []
    for name, evaluation in found.items():
        told = summary(evaluation)
        low, high = told["interval"]
        shortest, longest = told["lengths"]
        who = "" if name == AGENT else f"{name}: "
        lines += [
            f"{who}mean return {evaluation.mean:.2f} +- {evaluation.standard_error:.2f} "
            f"over {len(evaluation.returns)} episodes",
            f"  95 % interval {low:.2f} to {high:.2f} (bootstrap); "
            f"length {told['mean_length']:.0f} steps on average, {shortest} to {longest}",
        ]
        if evaluation.cut:
            lines.append(
                f"  {evaluation.cut} episodes had not ended after {longest} steps and were counted as they were"
            )
    return "\n".join(lines)
