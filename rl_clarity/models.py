"""The agents that ship with the package, by name: `models:coinrun`."""

from __future__ import annotations

import difflib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rl_clarity import checkpoints
from rl_clarity.errors import CheckpointError
from rl_clarity.resources import models_directory

if TYPE_CHECKING:
    from rl_clarity.agents.protocol import Agent

PREFIX = "models:"
SUFFIX = ".jd"


def names() -> list[str]:
    """Names of the shipped agents."""
    return sorted(path.stem for path in models_directory().glob(f"*{SUFFIX}"))


def path_of(name: str) -> Path:
    """Checkpoint of a shipped agent; raises CheckpointError, naming the nearest known one, for an unknown name."""
    known = names()
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {PREFIX}{near[0]}?" if near else f"there are {', '.join(known) or 'none'}"
        raise CheckpointError(f"no agent called {PREFIX}{name} ships with the package; {hint}")
    return models_directory() / f"{name}{SUFFIX}"


def load_agent(checkpoint: str | os.PathLike[str], **metadata: Any) -> Agent:
    """The agent in a checkpoint of any known format, or a shipped one (`models:coinrun`).

    `metadata` (`env_name="coinrun"`, `gamma=0.99`, ...) says what the file does not. Nothing in the file is run.
    Raises CheckpointError for a file that is missing, of no known format, damaged, or does not fit its network.
    """
    return checkpoints.load_agent(resolve(checkpoint), **metadata)


def resolve(checkpoint: str | os.PathLike[str]) -> Path:
    """The path of a checkpoint, given as one or as `models:NAME`."""
    text = os.fspath(checkpoint)
    return path_of(text.removeprefix(PREFIX)) if text.startswith(PREFIX) else Path(text)
