"""What is in a checkpoint, and how well its agent plays, for the command line."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from rl_clarity import checkpoints
from rl_clarity.attribution import choose_layers
from rl_clarity.environments import EnvironmentSpec, spec_from_metadata
from rl_clarity.errors import OptionError
from rl_clarity.progress import counted, progress_bar
from rl_clarity.quiet import import_keras
from rl_clarity.sampling.evaluation import Evaluation, evaluate
from rl_clarity.sampling.players import Player, random_policy_agent

Answer = tuple[dict[str, Any], str]


def inspect_checkpoint(path: Path) -> Answer:
    """Format, network, layers, environment and parameters of a checkpoint."""
    checkpoint = checkpoints.read(path)
    import_keras()
    agent = checkpoints.build_agent(checkpoint)
    layers = {layer.name: list(layer.operation.shape) for layer in choose_layers(agent)}
    parameters = sum(array.size for array in checkpoint.parameters.values())
    summary = {
        "file": path.name,
        "format": checkpoint.format,
        "network": checkpoint.network,
        "parameters": int(parameters),
        "observation_shape": list(agent.observation_shape),
        "num_actions": agent.num_actions,
        "recurrent": agent.initial_state(1) is not None,
        "layers": layers,
        "metadata": dict(checkpoint.metadata),
        "sha256": checkpoint.sha256,
    }
    lines = [
        f"{path.name}: {checkpoint.format} checkpoint, network {checkpoint.network}, {parameters:,} parameters",
        f"observations {' x '.join(map(str, agent.observation_shape))}, {agent.num_actions} actions",
        "layers: " + ", ".join(f"{name} ({' x '.join(map(str, shape))})" for name, shape in layers.items()),
        *(f"{key}: {value}" for key, value in sorted(checkpoint.metadata.items())),
        *(f"note: {note}" for note in checkpoint.notes),
        f"sha256 {checkpoint.sha256}",
    ]
    return summary, "\n".join(lines)


def evaluate_checkpoint(path: Path, episodes: int, seed: int, *, unseen: bool, random: bool) -> Answer:
    """Mean return of a checkpoint's agent, and if asked for on unseen levels and of a random policy."""
    checkpoint = checkpoints.read(path)
    import_keras()
    agent = checkpoints.build_agent(checkpoint)
    spec = spec_from_metadata(checkpoint.metadata, num_actions=agent.num_actions)
    players: list[tuple[str, Player, EnvironmentSpec]] = [("", agent, spec)]
    if unseen:
        players.append(("on unseen levels", agent, _unseen(spec)))
    if random:
        players.append(("of a random policy", random_policy_agent(agent.num_actions), spec))
    found = {}
    for label, player, where in players:
        with progress_bar(f"Playing {label}".strip()) as report:
            found[label] = evaluate(player, where, episodes, seed, progress=counted(report))
    summary = {label or "agent": _summary(result) for label, result in found.items()}
    return summary, "\n".join(_line(label, result) for label, result in found.items())


def _unseen(spec: EnvironmentSpec) -> EnvironmentSpec:
    """The same game on levels that come after those of the training."""
    levels = int(spec.options.get("num_levels") or 0)
    if spec.kind != "procgen" or not levels:
        raise OptionError("--unseen: the agent was not trained on a limited number of Procgen levels")
    start = int(spec.options.get("start_level") or 0) + levels
    return replace(spec, options={**spec.options, "start_level": start, "num_levels": 0})


def _summary(result: Evaluation) -> dict[str, Any]:
    low, high = result.bootstrap_interval(np.random.default_rng(0))
    return {
        "mean_return": result.mean,
        "standard_error": result.standard_error,
        "interval": [low, high],
        "episodes": len(result.returns),
        "mean_length": float(result.lengths.mean()),
    }


def _line(label: str, result: Evaluation) -> str:
    low, high = result.bootstrap_interval(np.random.default_rng(0))
    return (
        f"mean return {result.mean:.2f} +- {result.standard_error:.2f} over {len(result.returns)} episodes"
        f"{' ' + label if label else ''}; 95 % interval {low:.2f} to {high:.2f}; "
        f"mean length {result.lengths.mean():.0f} steps"
    )
