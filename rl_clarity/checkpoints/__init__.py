"""Checkpoints: files of many formats, read as data. Adding a format is one module (see `Format`) and one line here."""

from __future__ import annotations

import dataclasses
import importlib
import lzma
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rl_clarity.checkpoints.advice import how_to_convert, pickled_object, unknown
from rl_clarity.checkpoints.checkpoint import Checkpoint
from rl_clarity.checkpoints.metadata_names import check_names
from rl_clarity.checkpoints.safe_pickle import RefusedError
from rl_clarity.errors import CheckpointError, ClarityError, OutputError
from rl_clarity.quiet import import_keras

if TYPE_CHECKING:
    from rl_clarity.agents.protocol import Agent

FORMATS = {
    "native": "rl_clarity.checkpoints.native",
    "keras": "rl_clarity.checkpoints.keras_file",
    "sb3": "rl_clarity.checkpoints.sb3",
    "cleanrl": "rl_clarity.checkpoints.cleanrl",
    "procgen_pytorch": "rl_clarity.checkpoints.procgen_pytorch",
    "baby_a3c": "rl_clarity.checkpoints.baby_a3c",
    "baselines": "rl_clarity.checkpoints.baselines",
}
"""Module of each format; the first whose `sniff` says so reads a file."""
SUFFIX = ".safetensors"
HEAD_BYTES = 4096
UNFIT = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
DAMAGED = (EOFError, OSError, RuntimeError, NotImplementedError, zlib.error, lzma.LZMAError, zipfile.BadZipFile)


def read(path: str | Path, **metadata: Any) -> Checkpoint:
    """Read a checkpoint of any known format, recognised by its content; nothing in the file is ever run.

    `metadata` (`env_name="coinrun"`, `gamma=0.99`, ...) says what the file does not, and goes before what it says.

    Raises CheckpointError if the file is missing, of no known format, damaged or hostile.
    """
    path = Path(path)
    with _errors_of(path):
        advice = how_to_convert(path)
        if advice is not None:
            raise CheckpointError(advice)
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
        for name in FORMATS:
            module = _module(name)
            if module.sniff(path, head):
                checkpoint: Checkpoint = module.read(path)
                check_names(metadata, checkpoint.metadata)
                return dataclasses.replace(checkpoint, metadata={**checkpoint.metadata, **metadata})
        raise CheckpointError(unknown(path, head, [_module(name).DESCRIPTION for name in FORMATS]))


def build_agent(checkpoint: Checkpoint) -> Agent:
    """The agent of a checkpoint; raises CheckpointError where the parameters do not fit the network."""
    import_keras()
    with _errors_of(checkpoint.path):
        agent: Agent = _module(checkpoint.format).agent(checkpoint)
        return agent


def load_agent(path: str | Path, **metadata: Any) -> Agent:
    """The agent in a checkpoint of any known format; `metadata` says what the file does not, as in `read`."""
    return build_agent(read(path, **metadata))


def convert(path: str | Path, out_path: str | Path, *, overwrite: bool = False, **metadata: Any) -> Checkpoint:
    """Write a checkpoint of any known format in the native one (see `checkpoints.native`); `metadata` as in `read`.

    The agent is built first, so that what was written is known to work.

    Raises OutputError if `out_path` does not end in `.safetensors`, cannot be written, or is there and `overwrite` does
    not say to replace it; CheckpointError as `read` and `build_agent`.
    """
    from rl_clarity.checkpoints import native

    _check_target(Path(out_path), overwrite)
    checkpoint = read(path, **metadata)
    build_agent(checkpoint)
    try:
        native.write(Path(out_path), checkpoint)
    except OSError as error:
        raise OutputError(f"cannot write {out_path}: {error.strerror or error}") from error
    return checkpoint


def _check_target(path: Path, overwrite: bool) -> None:
    if path.suffix.lower() != SUFFIX:
        raise OutputError(f"what is written is of the native format: {path} must end in {SUFFIX}")
    if path.exists() and not overwrite:
        raise OutputError(f"{path} is there already: choose another name, or replace it with overwrite=True (--force)")


@contextmanager
def _errors_of(path: Path) -> Iterator[None]:
    """Whatever is wrong with a file becomes a CheckpointError that begins with its path."""
    try:
        yield
    except RefusedError as error:
        raise CheckpointError(f"{path}: {pickled_object(path, error.name)}") from error
    except CheckpointError as error:
        raise CheckpointError(f"{path}: {error}") from error
    except DAMAGED as error:
        if isinstance(error, OSError) and error.strerror:
            raise CheckpointError(f"cannot read the checkpoint {path}: {error.strerror}") from error
        raise CheckpointError(f"{path}: truncated or damaged ({type(error).__name__}: {str(error)[:200]})") from error
    except UNFIT as error:
        if isinstance(error, ClarityError):
            raise
        what = f"{type(error).__name__}: {str(error)[:200]}"
        raise CheckpointError(f"{path}: what it says makes no network that is known ({what})") from error


def _module(name: str) -> Any:
    return importlib.import_module(FORMATS[name])


__all__ = ["FORMATS", "Checkpoint", "build_agent", "convert", "load_agent", "read"]
