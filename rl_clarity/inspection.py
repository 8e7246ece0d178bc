"""What is in a checkpoint, and how well its agent plays, for the command line."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rl_clarity import checkpoints
from rl_clarity.agents.capabilities import initial_state
from rl_clarity.agents.protocol import Agent
from rl_clarity.analyses.attribution import choose_layers
from rl_clarity.errors import DependencyError

Answer = tuple[dict[str, Any], str]


def inspect_checkpoint(path: Path, metadata: Mapping[str, Any]) -> Answer:
    """Format, parameters and metadata of a checkpoint and, if a deep-learning framework is installed, its network.

    `metadata` is what the file does not say.
    """
    checkpoint = checkpoints.read(path, **metadata)
    parameters = int(sum(array.size for array in checkpoint.parameters.values()))
    try:
        network, lines = _network(checkpoints.build_agent(checkpoint))
    except DependencyError as error:
        network, lines = {}, [f"layers: unknown ({error})"]
    summary = {
        "file": path.name,
        "format": checkpoint.format,
        "network": checkpoint.network,
        "parameters": parameters,
        **network,
        "metadata": dict(checkpoint.metadata),
        "sha256": checkpoint.sha256,
    }
    lines = [
        f"{path.name}: {checkpoint.format} checkpoint, network {checkpoint.network}, {parameters:,} parameters",
        *lines,
        *(f"{key}: {value}" for key, value in sorted(checkpoint.metadata.items())),
        *(f"note: {note}" for note in checkpoint.notes),
        f"sha256 {checkpoint.sha256}",
    ]
    return summary, "\n".join(lines)


def _network(agent: Agent) -> tuple[dict[str, Any], list[str]]:
    layers = {layer.name: list(layer.shape) for layer in choose_layers(agent)}
    summary = {
        "observation_shape": list(agent.observation_shape),
        "num_actions": agent.num_actions,
        "recurrent": initial_state(agent, 1) is not None,
        "layers": layers,
    }
    return summary, [
        f"observations {' x '.join(map(str, agent.observation_shape))}, {agent.num_actions} actions",
        "layers: " + ", ".join(f"{name} ({' x '.join(map(str, shape))})" for name, shape in layers.items()),
    ]


def convert_checkpoint(path: Path, out_path: Path, metadata: Mapping[str, Any], *, overwrite: bool = False) -> Answer:
    """Write a checkpoint in the native format, and say what is in it and what is still not known."""
    checkpoint = checkpoints.convert(path, out_path, overwrite=overwrite, **metadata)
    summary = {
        "file": str(out_path),
        "format": checkpoint.format,
        "network": checkpoint.network,
        "metadata": dict(checkpoint.metadata),
    }
    lines = [
        f"Written: {out_path} (network {checkpoint.network} of a {checkpoint.format} checkpoint)",
        *(f"{key}: {value}" for key, value in sorted(checkpoint.metadata.items())),
    ]
    if not any(checkpoint.metadata.get(key) for key in ("env_name", "env_id")):
        lines.append("note: it does not say which environment it is for: --metadata env_name NAME")
    return summary, "\n".join(lines)
