"""Read and write checkpoints of OpenAI Baselines' PPO2, which `understanding-rl-vision` used and `train` writes.

A joblib file contains {"params": {tensor name: array}, "args": {...}}. `train` adds "extra", which contains the number
of environment steps and becomes the metadata `training_step`, and "time", which is ignored.
"""

from __future__ import annotations

import io
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from rl_clarity.agents.keras_agent import KerasAgent
from rl_clarity.base.errors import CheckpointError, OtherNetworkError
from rl_clarity.base.files import write_atomically
from rl_clarity.environments import frame_shape
from rl_clarity.formats import safe_joblib
from rl_clarity.formats.architectures import build
from rl_clarity.formats.checkpoint import Checkpoint, CheckpointFile, Format
from rl_clarity.formats.safe_files import brief
from rl_clarity.formats.torch_file import is_torch_stream

POLICY_HEAD = "ppo2_model/pi/w:0"
MAX_ACTIONS = 65536
DEFAULTS = {"env_kind": "procgen", "cnn": "clear", "library": "baselines"}


def recognize(file: CheckpointFile) -> bool:
    return safe_joblib.is_joblib(file.head) and not is_torch_stream(file.head)


def read(file: CheckpointFile) -> Checkpoint:
    """Read a `.jd` file. Raises CheckpointError if it contains anything but a dict of arrays and plain metadata."""
    content = safe_joblib.load(file.path, file.budget)
    if not isinstance(content, dict) or not isinstance(content.get("params"), dict):
        keys = sorted(map(str, content)) if isinstance(content, dict) else type(content).__name__
        raise OtherNetworkError(
            f"has no dict 'params' of tensors, unlike pickles of OpenAI Baselines and rl_clarity; it has {brief(keys)}"
        )
    metadata = _metadata(content.get("args"))
    extra = content.get("extra")
    if isinstance(extra, dict) and "timesteps" in extra:
        metadata["training_step"] = _plain("timesteps", extra["timesteps"])
    if metadata["library"] != "baselines":
        raise CheckpointError(f"unsupported library {brief(metadata['library'])}; only 'baselines' is supported")
    parameters = {}
    for name, array in content["params"].items():
        if not isinstance(name, str) or not isinstance(array, np.ndarray):
            raise CheckpointError(f"parameter {brief(name)} is a {type(array).__name__}, not an array")
        parameters[name] = array
    return Checkpoint(file.path, "baselines", str(metadata["cnn"]), parameters, metadata, file.sha256)


def build_agent(checkpoint: Checkpoint) -> KerasAgent:
    """Build the agent. Raises CheckpointError if a tensor does not fit the network."""
    head = checkpoint.parameters.get(POLICY_HEAD)
    if head is None or head.ndim != 2 or not 1 <= head.shape[1] <= MAX_ACTIONS:
        problem = "is missing" if head is None else f"has the shape {head.shape}"
        raise CheckpointError(f"tensor {POLICY_HEAD!r} {problem}; it must have the shape (features, actions)")
    network = build(
        str(checkpoint.metadata.get("cnn", checkpoint.network)),
        observation_shape(checkpoint.metadata),
        head.shape[1],
        checkpoint.metadata,
        parameters=checkpoint.parameters,
    )
    return KerasAgent(network, checkpoint.metadata)


FORMAT = Format("Baselines PPO2 (joblib .jd)", recognize, read, build_agent)


def observation_shape(metadata: Mapping[str, Any]) -> tuple[int, int, int]:
    """Return the input shape (H, W, C). It is the metadata `observation_shape` if that is set, and otherwise the shape
    of `frame_stack` frames of the environment's kind. Raises CheckpointError if the kind does not determine this shape.
    """
    if "observation_shape" in metadata:
        height, width, channels = metadata["observation_shape"]
        return int(height), int(width), int(channels)
    shape = frame_shape(metadata)
    if shape is None:
        raise CheckpointError(
            f"env_kind {brief(metadata.get('env_kind'))} does not determine the observation shape; "
            "add 'observation_shape' to the checkpoint's args"
        )
    height, width, channels = shape
    return height, width, channels * int(metadata.get("frame_stack") or 1)


def write(path: Path, parameters: Mapping[str, np.ndarray], args: Mapping[str, Any], extra: Any = None) -> None:
    """Write a file that `read` and the original program can read. The file is replaced atomically.

    The file contains the current time. Everything else in it depends only on the arguments.
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
    """Convert a value to JSON values, because pages contain metadata. Raises CheckpointError for other types."""
    if isinstance(value, np.ndarray) and value.size <= 64:
        return value.tolist()
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, list | tuple):
        return [_plain(key, item) for item in value]
    if isinstance(value, dict):
        return {str(name): _plain(name, item) for name, item in value.items()}
    raise CheckpointError(f"args[{brief(key)}] is a {type(value).__name__}, not a plain value")
