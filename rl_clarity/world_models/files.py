"""Save and load a simulator as one file, with tensors in safetensors and metadata in JSON. Nothing in it is executed.

The header's `__metadata__` has one entry, `rl_clarity_simulator`, a string of JSON: `version`, `size` (the widths of
the networks), `observation_shape`, `num_actions`, `state_size`, `agent` (SHA-256 of the agent's parameters) and
`facts`. The agent itself is not part of the file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from rl_clarity.agents.protocol import Agent
from rl_clarity.base.errors import CheckpointError, OptionError, OutputError
from rl_clarity.base.files import write_atomically
from rl_clarity.base.keys import to_plain
from rl_clarity.base.resources import PREFIX, models_directory
from rl_clarity.formats.safe_files import Budget, brief, check_size, parse_json
from rl_clarity.world_models.options import Size
from rl_clarity.world_models.simulator import Simulator, agent_fingerprint, check_agent, new_world

KEY = "rl_clarity_simulator"
VERSION = 1
INCLUDED = "-simulator.safetensors"
"""Suffix of the name of an included agent's simulator."""
MAX_WIDTH = 1 << 14
MAX_TENSORS = 1000


def save_simulator(
    simulator: Simulator, path: str | os.PathLike[str], *, half: bool = False, overwrite: bool = False
) -> Path:
    """Write a simulator, without its agent, as one file. The same simulator gives the same bytes.

    Args:
        simulator: the simulator
        path: the file, ending in `.safetensors`
        half: store the tensors in half precision, which halves the size
        overwrite: replace an existing file

    Raises OutputError for a path with a different ending, for a file that exists, unless `overwrite` is true, and for a
    file that cannot be written.
    """
    target = Path(path)
    if target.suffix != ".safetensors":
        raise OutputError(f"{target} must end in .safetensors")
    if target.exists() and not overwrite:
        raise OutputError(f"{target} exists: choose another name, or replace it with overwrite=True")
    world = simulator.world
    header = {
        "version": VERSION,
        "size": asdict(world.size),
        "observation_shape": list(world.observation_shape),
        "num_actions": world.num_actions,
        "state_size": world.state_size,
        "agent": agent_fingerprint(simulator.agent),
        "facts": to_plain(simulator.metadata),
    }
    kind = np.float16 if half else np.float32
    tensors = {name: np.ascontiguousarray(array, kind) for name, array in world.parameters().items()}
    try:
        write_atomically(target, save(tensors, {KEY: json.dumps(header, sort_keys=True)}))
    except OSError as error:
        raise OutputError(f"cannot write {target}: {error.strerror or error}") from error
    return target


def load_simulator(path: str | os.PathLike[str], agent: Agent) -> Simulator:
    """Read a simulator of this agent, which may have edits. `models:NAME` is the simulator of an included agent.

    Raises CheckpointError for a missing or damaged file, and OptionError if the simulator was fitted to a different
    agent.
    """
    name, file = os.fspath(path), Path(path)
    if name.startswith(PREFIX):
        file = models_directory() / f"{name.removeprefix(PREFIX)}{INCLUDED}"
    network = check_agent(agent)
    if not file.exists():
        raise CheckpointError(f"{file} does not exist")
    if not file.is_file():  # a pipe would be waited for
        raise CheckpointError(f"{file} is not a file")
    check_size(file)
    try:
        with safe_open(file, framework="numpy") as opened:
            text = (opened.metadata() or {}).get(KEY)
            if text is None:
                raise CheckpointError(f"{file} is not a simulator: it has no {KEY} in its metadata")
            header = _header(file, parse_json(text.encode(), KEY, Budget.for_file(file.stat().st_size)))
            if header["agent"] != agent_fingerprint(network):
                raise OptionError(
                    f"{file} simulates a different agent, whose parameters are not the same as this agent's"
                )
            names = list(opened.keys())
            if len(names) > MAX_TENSORS:
                raise CheckpointError(f"{file} has {len(names)} tensors; at most {MAX_TENSORS} are read")
            size = _size(file, header["size"])
            expected = new_world(network, size, shapes_only=True)
            shape = (list(expected.observation_shape), expected.num_actions, expected.state_size)
            if shape != (header["observation_shape"], header["num_actions"], header["state_size"]):
                raise CheckpointError(f"{file} does not fit the agent's observations, actions and state {shape}")
            expected.check_shapes({name: tuple(opened.get_slice(name).get_shape()) for name in names})
            tensors = {name: np.asarray(opened.get_tensor(name), np.float32) for name in names}
    except (SafetensorError, TypeError) as error:
        raise CheckpointError(f"{file} is truncated or damaged ({str(error)[:200]})") from error
    world = new_world(network, size)
    world.assign(tensors)
    return Simulator(network, world, header["facts"])


def _header(file: Path, header: Any) -> dict[str, Any]:
    kinds = {"size": dict, "observation_shape": list, "num_actions": int, "state_size": int, "agent": str}
    if not isinstance(header, dict) or header.get("version") != VERSION:
        found = header.get("version") if isinstance(header, dict) else header
        raise CheckpointError(f"{file} has version {brief(found)}; only version {VERSION} is supported")
    for name, kind in {**kinds, "facts": dict}.items():
        if not isinstance(header.get(name), kind):
            raise CheckpointError(f"{file}: its {name} is {brief(header.get(name))}, not a {kind.__name__}")
    return header


def _size(file: Path, values: Mapping[str, Any]) -> Size:
    """Return the widths in a file. Raises CheckpointError for widths outside the valid ranges."""
    names = {field.name for field in fields(Size)}
    numbers = [n for value in values.values() for n in (value if isinstance(value, list) else [value])]
    if set(values) != names or not all(type(n) is int and 1 <= n <= MAX_WIDTH for n in numbers):
        raise CheckpointError(
            f"{file}: its size {brief(values)} must have the entries {', '.join(sorted(names))}, with integers from 1 "
            f"to {MAX_WIDTH}"
        )
    if not isinstance(values["channels"], list) or not 1 <= len(values["channels"]) <= 8:
        raise CheckpointError(f"{file}: its channels {brief(values['channels'])} must be a list of 1 to 8 integers")
    return Size(**{**values, "channels": tuple(values["channels"])})
