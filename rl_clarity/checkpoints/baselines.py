"""Checkpoints of OpenAI Baselines' PPO2 as `understanding-rl-vision` used them.

A joblib file of {"params": {tensor name: array}, "args": {...}} (also "extra" and "time", which are ignored). Networks:
`clear`, `impala`, `nature`; see the modules of `rl_clarity.networks` for the tensors' names.
"""

from __future__ import annotations

import io
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rl_clarity.checkpoints import safe_joblib
from rl_clarity.checkpoints.bounded import brief
from rl_clarity.checkpoints.checkpoint import Checkpoint, sha256
from rl_clarity.checkpoints.torch_file import is_torch_stream
from rl_clarity.errors import CheckpointError
from rl_clarity.files import write_atomically

if TYPE_CHECKING:
    from rl_clarity.agents.keras_agent import KerasAgent

DESCRIPTION = "Baselines PPO2 (joblib .jd)"
POLICY_HEAD = "ppo2_model/pi/w:0"
IMAGE_SIDES = {"procgen": 64, "atari": 84}
DEFAULTS = {"env_kind": "procgen", "cnn": "clear", "library": "baselines"}


def sniff(path: Path, head: bytes) -> bool:
    return safe_joblib.is_joblib(head) and not is_torch_stream(head)


def read(path: Path) -> Checkpoint:
    """Read a `.jd` file. Raises CheckpointError for anything but a dict of arrays and plain metadata."""
    content = safe_joblib.load(path)
    if not isinstance(content, dict) or not isinstance(content.get("params"), dict):
        keys = sorted(map(str, content)) if isinstance(content, dict) else type(content).__name__
        raise CheckpointError(f"has no dict 'params' of tensors; it holds {brief(keys)}")
    metadata = _metadata(content.get("args"))
    if metadata["library"] != "baselines":
        raise CheckpointError(f"library {metadata['library']!r} is not known; this reader knows 'baselines'")
    parameters = {}
    for name, array in content["params"].items():
        if not isinstance(name, str) or not isinstance(array, np.ndarray):
            raise CheckpointError(f"parameter {brief(name)} is a {type(array).__name__}, not an array")
        parameters[name] = array
    return Checkpoint(path, "baselines", str(metadata["cnn"]), parameters, metadata, sha256(path))


def agent(checkpoint: Checkpoint) -> KerasAgent:
    """The agent of a checkpoint. Raises CheckpointError, naming the tensor and both shapes, where it does not fit."""
    from rl_clarity.agents.keras_agent import KerasAgent
    from rl_clarity.networks import build

    head = checkpoint.parameters.get(POLICY_HEAD)
    if head is None or head.ndim != 2 or not 1 <= head.shape[1] <= 65536:
        found = "is missing" if head is None else f"has the shape {head.shape}"
        raise CheckpointError(f"tensor {POLICY_HEAD!r} {found}; it must be (features, actions)")
    network = build(
        str(checkpoint.metadata.get("cnn", checkpoint.network)),
        observation_shape(checkpoint.metadata),
        head.shape[1],
        checkpoint.metadata,
        parameters=checkpoint.parameters,
    )
    return KerasAgent(network, checkpoint.metadata)


def observation_shape(metadata: Mapping[str, Any]) -> tuple[int, int, int]:
    """(H, W, C) that the network sees: colour for Procgen, grey for Atari, `frame_stack` frames of it."""
    if "observation_shape" in metadata:
        height, width, channels = metadata["observation_shape"]
        return int(height), int(width), int(channels)
    kind = metadata["env_kind"]
    if kind not in IMAGE_SIDES:
        raise CheckpointError(
            f"env_kind {kind!r} says nothing of the observations' shape; "
            "give 'observation_shape' in the checkpoint's args"
        )
    channels = (1 if kind == "atari" else 3) * int(metadata.get("frame_stack") or 1)
    return IMAGE_SIDES[kind], IMAGE_SIDES[kind], channels


def write(path: Path, parameters: Mapping[str, np.ndarray], args: Mapping[str, Any], extra: Any = None) -> None:
    """Write what `read` (and the original) reads, atomically: a reader sees the old file or the new, never a part.

    The file's time is that of writing; all else depends on the arguments alone.
    """
    import joblib

    content = {"params": dict(parameters), "args": dict(args), "extra": extra or {}, "time": time.time()}
    packed = io.BytesIO()
    joblib.dump(content, packed)
    write_atomically(path, packed.getvalue())


def _metadata(args: Any) -> dict[str, Any]:
    if args is None:
        args = {}
    if not isinstance(args, dict):
        raise CheckpointError(f"'args' is a {type(args).__name__}, not a dict")
    return {**DEFAULTS, **{str(key): _plain(key, value) for key, value in args.items()}}


def _plain(key: Any, value: Any) -> Any:
    """JSON values only: metadata ends in the page."""
    if isinstance(value, np.ndarray) and value.size <= 64:
        return value.tolist()
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, list | tuple):
        return [_plain(key, item) for item in value]
    if isinstance(value, dict):
        return {str(name): _plain(name, item) for name, item in value.items()}
    raise CheckpointError(f"args[{brief(key)}] is a {type(value).__name__}, not a plain value")
