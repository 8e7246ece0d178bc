"""A checkpoint format: entry point `rl_clarity.formats: seeds = seeds:FORMAT`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from rl_clarity.formats import Checkpoint, Format
from rl_clarity.formats.checkpoint import CheckpointFile
from tests.fakes import TinyAgent

MARK = b"seeds "


class SeedAgent(TinyAgent):
    """A network in NumPy, whose weights its checkpoint's seed decides; it plays the environment `line`."""

    @property
    def metadata(self) -> Mapping[str, Any]:
        return {"env_kind": "line", "env_name": "line", "gamma": 0.9, "lambda": 0.9}


def recognize(file: CheckpointFile) -> bool:
    return file.head.startswith(MARK)


def read(file: CheckpointFile) -> Checkpoint:
    fields = json.loads(file.path.read_bytes().removeprefix(MARK))
    metadata = {**SeedAgent().metadata, "training_step": fields["seed"]}
    parameters = {"seed": np.array(fields["seed"])}
    return Checkpoint(file.path, "seeds", "tiny", parameters, metadata, file.sha256, architecture=fields)


def build(checkpoint: Checkpoint) -> Any:
    return SeedAgent(observation_shape=(16, 16, 3), num_actions=3, patch=4, **checkpoint.architecture)


FORMAT = Format("seed of a network (.seed)", recognize, read, build)
