"""What every file format is read into: parameters, metadata, and which network they belong to."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np


@dataclass(frozen=True)
class Checkpoint:
    """A file, read as data."""

    path: Path
    format: str
    """Name of the format, as in `checkpoints.FORMATS`: its module makes the agent."""
    network: str
    """Name of the architecture."""
    parameters: Mapping[str, np.ndarray]
    metadata: Mapping[str, Any]
    """Where the agent plays and how it was trained: `env_kind`, `env_name`, `gamma`, `lambda`, ... JSON values only."""
    sha256: str = ""
    notes: tuple[str, ...] = field(default=())
    """What a user should know: things that the file does not say."""
    architecture: Mapping[str, Any] = field(default_factory=dict)
    """What the network is made from beside its name and the parameters' shapes. JSON values only."""


class Format(Protocol):
    """A module that reads one file format.

    `sniff` and `read` raise CheckpointError for what is hostile or damaged; the path is put before its message.
    """

    DESCRIPTION: str
    sniff: Callable[[Path, bytes], bool]
    """Whether the file is of this format, from its first bytes (and, for archives, its members' names)."""
    read: Callable[[Path], Checkpoint]
    agent: Callable[[Checkpoint], Any]
    """The agent of a checkpoint that `read` gave."""


def sha256(path: Path) -> str:
    """Hash of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
