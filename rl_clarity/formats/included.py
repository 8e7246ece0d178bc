"""Load agents that the package includes, which have names such as `models:coinrun`, and other checkpoints."""

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
    """Return the names of the included series. A series consists of checkpoints of the same training run."""
    return sorted({path.parent.name for path in _series_checkpoints()})


def path_of(name: str) -> Path:
    """Return the path of an included agent, of a series' folder, or of a checkpoint in a series (`SERIES/NAME`).

    Raises CheckpointError for an unknown name, with the most similar name as a suggestion.
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
        checkpoint: path, URL, or name of an included agent.
        check: outputs that the network's original program computed, which the agent must reproduce, as a dict of arrays
            or the path of an `.npz` file: `observations` (B, H, W, C) or (B, C, H, W) from 0 to 255, and `logits`
            (B, A) for A actions, `values` (B,) or `q_values` (B, A).
        metadata: overrides the metadata in the file: `env_name="coinrun"`, `gamma=0.99`, ...

    If `check` is None, warns about assumptions that replace what the file does not record, such as activation
    functions.

    Raises CheckpointError for a file that is missing, damaged, of an unknown format, or does not fit its network, and
    if the agent's outputs differ from `check`. Raises OptionError for invalid metadata or arrays in `check`.
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
    """Read a checkpoint and build its agent. If `checkpoint` is an agent, return it with the checkpoint that it was
    loaded from.

    Args:
        checkpoint: path, URL, name of an included agent, or an agent
        metadata: overrides the metadata of the checkpoint
        name: name of the argument `checkpoint` in error messages
        check: as in `load_agent`; ignored if `checkpoint` is an agent
        in_memory: for an agent that was not loaded from a checkpoint, return the substitute that `formats.in_memory`
            creates

    Raises OptionError for an agent that was not loaded from a checkpoint, unless `in_memory` is set, and the errors of
    `load_agent`.
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
    export its network to ONNX (`.onnx`).

    `metadata` is as in `load_agent`, and is also written to a `.safetensors` file. The agent is built first, so that
    the written file is known to work. Exporting to ONNX needs PyTorch and the extra `onnx`; docs/formats.md describes
    the inputs and outputs of the exported network.

    Raises OutputError if `out_path` ends in neither `.safetensors` nor `.onnx`, cannot be written, or exists while
    `overwrite` is false; CheckpointError in the same cases as `load_agent`; OptionError for a network that cannot be
    exported.
    """
    with fetched(checkpoint) as path:
        return formats.convert(path, Path(out_path), overwrite=overwrite, **metadata)


def resolve(checkpoint: str | os.PathLike[str]) -> Path:
    """Return the path of a checkpoint from a path, `file://...` or `models:NAME`."""
    text = os.fspath(checkpoint)
    return path_of(text.removeprefix(PREFIX)) if text.startswith(PREFIX) else local_path(text) or Path(text)


@contextmanager
def fetched(checkpoint: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield the local path of a checkpoint. A remote checkpoint (`s3://bucket/agent.jd`) is copied to a temporary
    folder, which is removed when the context ends.

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
