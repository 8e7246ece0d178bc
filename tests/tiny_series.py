"""A series of checkpoints of `TinyAgent`, with a file format and a kind of environment of its own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from rl_clarity import formats
from rl_clarity.environments.kinds import KINDS, EnvironmentKind
from rl_clarity.environments.protocol import VectorEnvironment
from rl_clarity.formats.checkpoint import FORMATS, Checkpoint, CheckpointFile, Format
from rl_clarity.sources import checkpoint as source
from tests.fakes import TinyAgent, TinyEnvironment

MARK = b"tiny "
SHAPE = (16, 16, 1)
METADATA = {"env_kind": "tiny", "env_name": "tiny", "gamma": 0.9, "lambda": 0.9}
LONGEST = 90
"""Steps of the longest game: more than a segment of 64 steps."""


class LoadedAgent(TinyAgent):
    """A `TinyAgent` whose metadata name the environment of this module."""

    @property
    def metadata(self) -> Mapping[str, Any]:
        return METADATA


def write_checkpoint(path: Path, seed: int, **content: Any) -> Path:
    """Write a checkpoint: the seed of the weights, `metadata`, and fields of `TinyAgent`."""
    path.write_bytes(MARK + json.dumps({"seed": seed, **content}, sort_keys=True).encode())
    return path


def write_series(folder: Path, count: int = 3, **content: Any) -> Path:
    """Write `agent-1.pt`, `agent-2.pt`, ..., each trained for 1000 steps more than the one before."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(1, count + 1):
        write_checkpoint(folder / f"agent-{number}.pt", number, metadata={"training_step": 1000 * number}, **content)
    return folder


def register() -> None:
    """Make the format and the kind of environment known."""
    FORMATS.register("tiny", Format("tiny (.pt)", lambda file: file.head.startswith(MARK), _read, _build))
    KINDS.register("tiny", EnvironmentKind(_make, frame_shape=SHAPE))


def do_not_import_keras() -> None:
    """Leave out Keras in a process that runs agents of this module only: importing it would take most of the time."""
    for module in (formats, source):
        vars(module).update(import_keras=lambda: None)
    vars(formats).update(_dtype_policy=nullcontext)


def _read(file: CheckpointFile) -> Checkpoint:
    content = json.loads(file.path.read_bytes().removeprefix(MARK))
    metadata = {**METADATA, **content.pop("metadata", {})}
    parameters = {"seed": np.array(content["seed"])}
    return Checkpoint(file.path, "tiny", "tiny", parameters, metadata, file.sha256, architecture=content)


def _build(checkpoint: Checkpoint) -> Any:
    fields: dict[str, Any] = {"observation_shape": SHAPE, "num_actions": 3, **checkpoint.architecture}
    return LoadedAgent(**{**fields, "observation_shape": tuple(fields["observation_shape"])})


def _make(name: str, num_envs: int, seed: int, options: Any, *, full_resolution: bool = False) -> VectorEnvironment:
    """Environments whose games last as long as their seed says: 90 steps, 43, 90, ..."""
    return TinyEnvironment([LONGEST if (seed + i) % 2 == 0 else 43 for i in range(num_envs)])
