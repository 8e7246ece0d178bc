"""The agents that the package includes, by names such as `models:coinrun`."""

from __future__ import annotations

import difflib
import os
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rl_clarity import formats
from rl_clarity.agents.capabilities import require
from rl_clarity.base.errors import CheckpointError
from rl_clarity.base.files import local_path, missing_storage
from rl_clarity.base.parsing import path_text
from rl_clarity.base.resources import PREFIX, SAMPLES_FOLDER, models_directory

if TYPE_CHECKING:
    from rl_clarity.agents.protocol import Agent
    from rl_clarity.formats import Checkpoint

SUFFIX = ".jd"


def names() -> list[str]:
    """Return the names of the included agents."""
    return sorted(path.stem for path in models_directory().glob(f"*{SUFFIX}"))


def series_names() -> list[str]:
    """Return the names of the included series, each of which has the checkpoints of one training."""
    return sorted({path.parent.name for path in _series_checkpoints()})


def path_of(name: str) -> Path:
    """Return the path of an included agent, of a series' folder, or of a checkpoint in a series (`SERIES/NAME`).

    Raises CheckpointError, with the nearest name, for an unknown name.
    """
    available = [*names(), *series_names()]
    if name in series_names():
        return models_directory() / name
    if name not in available and name not in [f"{path.parent.name}/{path.stem}" for path in _series_checkpoints()]:
        near = difflib.get_close_matches(name, available, n=1)
        hint = f"did you mean {PREFIX}{near[0]}?" if near else f"available: {', '.join(available) or 'none'}"
        raise CheckpointError(f"unknown agent {PREFIX}{name}; {hint}")
    return models_directory() / f"{name}{SUFFIX}"


def _series_checkpoints() -> list[Path]:
    return [path for path in models_directory().glob(f"*/*{SUFFIX}") if path.parent.name != SAMPLES_FOLDER]


def load_agent(
    checkpoint: str | os.PathLike[str],
    *,
    check: Mapping[str, Any] | str | os.PathLike[str] | None = None,
    **metadata: Any,
) -> Agent:
    """Load the agent of a checkpoint of any supported format, or an included agent (`models:coinrun`).

    No code in the file is run.

    Args:
        checkpoint: path, address, or name of an included agent.
        check: outputs that the network's original program computed, as arrays or an `.npz` file: `observations` (B, H,
            W, C) or
            (B, C, H, W) from 0 to 255, and `logits` (B, A), `values` (B,) or `q_values` (B, A).
        metadata: overrides the file's: `env_name="coinrun"`, `gamma=0.99`, ...

    Warns about assumptions where the file does not record something, such as activation functions, unless `check` is
    given.

    Raises CheckpointError for a file that is missing, damaged, of an unknown format, or does not fit its network, and
    for an agent whose outputs are not those of `check`.
    """
    with fetched(checkpoint) as path:
        read = formats.read(path, **metadata)
        agent = formats.build_agent(read, check)
    for note in read.notes if check is None else ():
        # point at the caller, above the parser of options
        warnings.warn(f"{os.fspath(checkpoint)}: {note}", stacklevel=3)
    return agent


def open_agent(
    checkpoint: str | os.PathLike[str] | Agent,
    metadata: Mapping[str, Any] | None = None,
    *,
    name: str = "checkpoint",
    check: Any = None,
    in_memory: bool = False,
) -> tuple[Checkpoint, Agent]:
    """Read a checkpoint and build its agent; for an agent, return the checkpoint that it was loaded from.

    Args:
        checkpoint: path, address, name of an included agent, or an agent
        metadata: override the checkpoint's
        name: name of the argument in error messages
        check: as in `load_agent`, for an agent that is built
        in_memory: return the substitute `formats.in_memory` for an agent that was not loaded from a checkpoint

    Raises OptionError for an agent that was not loaded from a checkpoint, and the errors of `load_agent`.
    """
    metadata = metadata or {}
    if isinstance(checkpoint, str | os.PathLike):
        with fetched(path_text(checkpoint, name)) as path:
            read = formats.read(path, **metadata)
            return read, formats.build_agent(read, check)
    require(checkpoint, "forward", for_=name)
    if in_memory and not isinstance(getattr(checkpoint, "checkpoint", None), formats.Checkpoint):
        return formats.in_memory(checkpoint, **metadata), checkpoint
    return formats.checkpoint_of(checkpoint, **metadata), checkpoint


def convert(
    checkpoint: str | os.PathLike[str], out_path: str | os.PathLike[str], *, overwrite: bool = False, **metadata: Any
) -> Checkpoint:
    """Convert a checkpoint of any supported format, or an included agent, to the package's format (`.safetensors`), or
    its network to ONNX (`.onnx`).

    `metadata` is as in `load_agent`, and is written, too. The agent is built first, so that the written file is known
    to work. ONNX needs PyTorch and the extra `onnx`; docs/formats.md describes inputs and outputs.

    Raises OutputError if `out_path` ends in neither `.safetensors` nor `.onnx`, cannot be written, or exists without
    `overwrite`; CheckpointError as `load_agent`; OptionError for a network that cannot be exported.
    """
    with fetched(checkpoint) as path:
        return formats.convert(path, Path(out_path), overwrite=overwrite, **metadata)


def resolve(checkpoint: str | os.PathLike[str]) -> Path:
    """Return the path of a checkpoint from a path, `file://...` or `models:NAME`."""
    text = os.fspath(checkpoint)
    return path_of(text.removeprefix(PREFIX)) if text.startswith(PREFIX) else local_path(text) or Path(text)


@contextmanager
def fetched(checkpoint: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield the local path of a checkpoint. A remote checkpoint (`s3://bucket/agent.jd`) is copied until the context
    ends.

    Raises CheckpointError if it cannot be fetched.
    """
    address = os.fspath(checkpoint)
    if local_path(address) is not None:
        path = resolve(address)
        if address in names() and not path.exists():
            raise CheckpointError(f"there is no file {address}; the included agent is called {PREFIX}{address}")
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="rl-clarity-") as folder:
        path = Path(folder) / (address.rstrip("/").rsplit("/", 1)[-1] or "checkpoint")
        try:
            from fsspec.core import url_to_fs

            files, place = url_to_fs(address)
            path.write_bytes(files.cat_file(place))
        except ImportError as error:
            raise CheckpointError(f"cannot reach {address}: {missing_storage(address, error)}") from error
        except Exception as error:  # storage libraries raise their own errors, as for credentials
            reason = "no such file" if isinstance(error, FileNotFoundError) else error
            raise CheckpointError(f"cannot read the checkpoint {address}: {reason}") from error
        yield path
