"""The agents that ship with the package, by name: `models:coinrun`."""

from __future__ import annotations

import difflib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rl_clarity import checkpoints
from rl_clarity.errors import CheckpointError
from rl_clarity.files import local_path
from rl_clarity.resources import models_directory

if TYPE_CHECKING:
    from rl_clarity.agents.protocol import Agent
    from rl_clarity.checkpoints import Checkpoint

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
    with fetched(checkpoint) as path:
        return checkpoints.load_agent(path, **metadata)


def convert(
    checkpoint: str | os.PathLike[str], out_path: str | os.PathLike[str], *, overwrite: bool = False, **metadata: Any
) -> Checkpoint:
    """Write a checkpoint of any known format, or a shipped one, as safetensors: the format of our own.

    `metadata` as in `load_agent`; it is written, too. The agent is built first, so that what was written is known to
    work.

    Raises OutputError if `out_path` does not end in `.safetensors`, cannot be written, or is there and `overwrite` does
    not say to replace it; CheckpointError as `load_agent`.
    """
    with fetched(checkpoint) as path:
        return checkpoints.convert(path, Path(out_path), overwrite=overwrite, **metadata)


def resolve(checkpoint: str | os.PathLike[str]) -> Path:
    """The path of a checkpoint, given as one, as `file://...` or as `models:NAME`."""
    text = os.fspath(checkpoint)
    return path_of(text.removeprefix(PREFIX)) if text.startswith(PREFIX) else local_path(text) or Path(text)


@contextmanager
def fetched(checkpoint: str | os.PathLike[str]) -> Iterator[Path]:
    """The path of a checkpoint; one at an address (`s3://bucket/agent.jd`) is copied here as long as the context lasts.

    Raises CheckpointError where it cannot be had.
    """
    address = os.fspath(checkpoint)
    if local_path(address) is not None:
        path = resolve(address)
        if address in names() and not path.exists():
            raise CheckpointError(f"there is no file {address}; the agent that ships is called {PREFIX}{address}")
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="rl-clarity-") as folder:
        path = Path(folder) / (address.rstrip("/").rsplit("/", 1)[-1] or "checkpoint")
        try:
            from fsspec.core import url_to_fs

            files, place = url_to_fs(address)
            path.write_bytes(files.cat_file(place))
        except ImportError as error:
            raise CheckpointError(f"cannot reach {address}: {error} (pip install rl-clarity[remote])") from error
        except (OSError, ValueError) as error:
            reason = "there is no such file" if isinstance(error, FileNotFoundError) else error
            raise CheckpointError(f"cannot read the checkpoint {address}: {reason}") from error
        yield path
