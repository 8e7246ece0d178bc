"""Keras 3's `.keras` files: a zip of `config.json`, `model.weights.h5` and `metadata.json`, read as JSON and numbers.

Layers come from an allow-list (`networks.keras_layers`); no Lambda, no class of the user's, nothing is deserialised by
Keras.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rl_clarity.checkpoints.bounded import brief, check_size
from rl_clarity.checkpoints.checkpoint import Checkpoint, sha256
from rl_clarity.checkpoints.safe_zip import MAGIC, SafeZip
from rl_clarity.errors import CheckpointError, OptionError

if TYPE_CHECKING:
    from rl_clarity.agents.keras_agent import KerasAgent
    from rl_clarity.networks.network import Network

DESCRIPTION = "Keras 3 models (.keras)"
CONFIG, WEIGHTS = "config.json", "model.weights.h5"
MODELS = ("Functional", "Sequential", "Model")
MAX_DEPTH = 32
NOTE = "the file does not say which environment it is for: give env_kind and env_name, gamma and lambda"


def sniff(path: Path, head: bytes) -> bool:
    if not head.startswith(MAGIC):
        return False
    with path.open("rb") as file:
        members = SafeZip(file).members
    return CONFIG in members and WEIGHTS in members


def read(path: Path) -> Checkpoint:
    """Read a file. Raises CheckpointError if it is damaged, or anything but a functional or sequential model."""
    check_size(path)
    with path.open("rb") as file:
        archive = SafeZip(file)
        config = archive.read_json(CONFIG)
        weights = archive.read(WEIGHTS)
    kind = config.get("class_name") if isinstance(config, dict) else config
    if (
        kind not in MODELS
        or not isinstance(config.get("config"), dict)
        or not isinstance(config["config"].get("layers"), list)
    ):
        raise CheckpointError(
            f"is a model of the class {brief(kind)}, which only its own code can make: with the model at hand, "
            "rl_clarity.KerasAgent(model)"
        )
    parameters = _read_weights(weights)
    metadata = {"library": "keras"}
    return Checkpoint(path, "keras", str(kind), parameters, metadata, sha256(path), (NOTE,), {"config": config})


def agent(checkpoint: Checkpoint) -> KerasAgent:
    """The agent of a checkpoint; raises CheckpointError, naming layer or tensor, for what does not fit."""
    from rl_clarity.agents.keras_agent import KerasAgent
    from rl_clarity.networks import keras_config

    config = checkpoint.architecture["config"]
    network = keras_config.build(config, checkpoint.parameters, checkpoint.metadata.get("heads"))
    return KerasAgent(network, checkpoint.metadata, input_divisor=_input_divisor(checkpoint, network))


def _input_divisor(checkpoint: Checkpoint, network: Network) -> float:
    """What the metadata says, or else what the network does to its input."""
    from rl_clarity.networks import input_scale, keras_config

    given = checkpoint.metadata.get("input_divisor")
    if given is not None:
        return float(given)
    try:
        return input_scale.input_divisor(network, keras_config.input_dtype(checkpoint.architecture["config"]))
    except OptionError as error:
        raise CheckpointError(f"{error} (as metadata)") from None


def _read_weights(data: bytes) -> dict[str, np.ndarray]:
    import h5py

    try:
        with h5py.File(io.BytesIO(data), "r") as file:
            return {name: _numbers(name, dataset, len(data)) for name, dataset in _datasets(file, "", 0, set())}
    except (KeyError, ValueError, TypeError, AttributeError, OSError, RuntimeError) as error:
        if isinstance(error, CheckpointError):
            raise
        raise CheckpointError(f"{WEIGHTS} is damaged ({type(error).__name__}: {str(error)[:200]})") from error


def _datasets(group: Any, path: str, depth: int, seen: set[int]) -> Iterator[tuple[str, Any]]:
    """Datasets by path, but for the seeds of noise layers; links that lead outside the file are refused, and so are
    second links to one place, of which a few groups can have any number of paths.
    """
    import h5py

    if depth > MAX_DEPTH:
        raise CheckpointError(f"{WEIGHTS} is nested more than {MAX_DEPTH} deep: refused")
    for name in group:
        if not isinstance(group.get(name, getlink=True), h5py.HardLink):
            raise CheckpointError(f"{WEIGHTS} has a link to another place at {brief(path + name)}: refused")
        item = group[name]
        place = h5py.h5o.get_info(item.id).addr
        if place in seen:
            raise CheckpointError(f"{WEIGHTS} has a second link to one place at {brief(path + name)}: refused")
        seen.add(place)
        if isinstance(item, h5py.Group):
            if name != "seed_generator":
                yield from _datasets(item, f"{path}{name}/", depth + 1, seen)
        else:
            yield path + name, item


def _numbers(name: str, dataset: Any, limit: int) -> np.ndarray:
    """A dataset's numbers, if they lie in the file as they are: so none is larger than the file."""
    size = int(np.prod(dataset.shape, dtype=object)) * dataset.dtype.itemsize
    if dataset.dtype.kind not in "fiub" or dataset.external or dataset.is_virtual:
        raise CheckpointError(f"tensor {brief(name)} of type {dataset.dtype} is not numbers in this file: refused")
    if size > limit or dataset.id.get_storage_size() < size:
        raise CheckpointError(f"tensor {brief(name)} of shape {dataset.shape} claims more than the file holds: refused")
    return np.asarray(dataset[()])
