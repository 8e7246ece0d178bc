"""Checkpoints: files of many formats, read as data. Adding a format is one module (see `Format`) and one line here."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rl_clarity.checkpoints.checkpoint import Checkpoint
from rl_clarity.errors import CheckpointError

if TYPE_CHECKING:
    from rl_clarity.agents.protocol import Agent

FORMATS = {
    "baselines": "rl_clarity.checkpoints.baselines",
}
HEAD_BYTES = 4096


def read(path: str | Path) -> Checkpoint:
    """Read a checkpoint of any known format, recognised by its content; nothing in the file is ever run.

    Raises CheckpointError if the file is missing, of no known format, damaged or hostile.
    """
    path = Path(path)
    try:
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
    except OSError as error:
        raise CheckpointError(f"cannot read the checkpoint {path}: {error.strerror or error}") from None
    for name in FORMATS:
        module = _module(name)
        if module.sniff(path, head):
            checkpoint: Checkpoint = module.read(path)
            return checkpoint
    known = "; ".join(_module(name).DESCRIPTION for name in FORMATS)
    raise CheckpointError(f"{path} is of no known format (it begins with {head[:8]!r}); known ones: {known}")


def build_agent(checkpoint: Checkpoint) -> Agent:
    """The agent of a checkpoint; raises CheckpointError where the parameters do not fit the network."""
    agent: Agent = _module(checkpoint.format).agent(checkpoint)
    return agent


def load_agent(path: str | Path) -> Agent:
    """The agent in a checkpoint of any known format."""
    return build_agent(read(path))


def _module(name: str) -> Any:
    return importlib.import_module(FORMATS[name])
