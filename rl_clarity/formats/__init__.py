"""Read checkpoints of many formats as data, without running any code in them.

Each format is a module that defines a `Format`, which is registered in `FORMATS`.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import lzma
import warnings
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rl_clarity.agents.batched import BatchedAgent
from rl_clarity.agents.capabilities import parameters
from rl_clarity.agents.output_check import check_outputs
from rl_clarity.base.errors import CheckpointError, ClarityError, OptionError, OtherNetworkError, describe_error
from rl_clarity.base.quiet import import_keras
from rl_clarity.environments import option_names, set_untrusted_aside
from rl_clarity.formats.advice import check_file, own_network, pickled_object, unknown
from rl_clarity.formats.architectures import ARCHITECTURES
from rl_clarity.formats.checkpoint import FORMATS, Checkpoint, CheckpointFile, Format
from rl_clarity.formats.metadata import combine_metadata
from rl_clarity.formats.safe_pickle import RefusedError

if TYPE_CHECKING:
    from rl_clarity.agents.protocol import Agent

IN_MEMORY = "in memory"
"""The format and the file name of a checkpoint that `in_memory` returns."""
INVALID = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
READING = ("activation", "heads", "input_divisor", "value_range")
"""Metadata that determine how a network is read if the file does not record this."""
DAMAGED = (EOFError, OSError, RuntimeError, NotImplementedError, zlib.error, lzma.LZMAError, zipfile.BadZipFile)


def read(path: str | Path, **metadata: Any) -> Checkpoint:
    """Read a checkpoint of any known format. The format is recognized by the file's content. No code in the file is
    run.

    `metadata` (`env_name="coinrun"`, `gamma=0.99`, ...) overrides the metadata in the file. Metadata that could cause
    code to run are not taken from the file: `make_kwargs`, and names of environments that import a module, such as
    `module:Name-v0`.

    Raises CheckpointError if the file is missing, damaged, malicious or of an unknown format, and OptionError if
    `metadata` is invalid.
    """
    path = Path(path)
    with _with_path(path):
        check_file(path)
        file = CheckpointFile(path)
        checkpoint = _read(file)
        combined = combine_metadata(checkpoint.metadata, metadata, option_names)
        return dataclasses.replace(checkpoint, metadata=set_untrusted_aside(combined, trusted=metadata))


def _read(file: CheckpointFile) -> Checkpoint:
    """Read a file with the first format that recognizes it."""
    plugins = FORMATS.plugins()
    # Plug-ins come last, so that none is imported for files of other formats. `baselines` precedes them, because
    # its files have no distinctive mark.
    names = sorted(FORMATS, key=lambda name: (name in plugins, name == "baselines"))
    for name in names:
        if _recognizes(name, file):
            return FORMATS.get(name).read(file)
    descriptions = (getattr(FORMATS.find(name), "description", None) for name in names)
    raise CheckpointError(*unknown(file, [text for text in descriptions if text]))


def has_added_format(path: Path) -> bool:
    """Return whether a file is recognized by a format that a program or another package added."""
    return path.is_file() and any(_recognizes(name, CheckpointFile(path)) for name in FORMATS.added())


def _recognizes(name: str, file: CheckpointFile) -> bool:
    """Return whether a format recognizes a file. If a plug-in raises an error, warn and return False, because the file
    may have a different format.
    """
    try:
        format_ = FORMATS.find(name)
        return format_ is not None and format_.recognize(file)
    except (Exception, SystemExit) as error:
        if name not in FORMATS.plugins():
            raise
        reason = f"the checkpoint format {name!r} of an installed package failed: {describe_error(error)}"
        warnings.warn(f"{file.path}: {reason}", RuntimeWarning, stacklevel=2)
        return False


def build_agent(checkpoint: Checkpoint, check: Any = None, dtype_policy: str | None = None) -> Agent:
    """Build the agent of a checkpoint. `check` contains outputs that the agent must reproduce (see
    `agents.output_check`).

    `dtype_policy` is the Keras dtype policy of the layers, such as `mixed_bfloat16`. The default is Keras's current
    policy.

    Raises CheckpointError if the parameters do not fit the network, or if the agent's outputs differ from `check`, and
    OptionError if `check` lacks required arrays.
    """
    import_keras()
    with _with_path(checkpoint.path), _dtype_policy(dtype_policy):
        try:
            agent = FORMATS.get(checkpoint.format).build(checkpoint)
        except OtherNetworkError as error:
            library = checkpoint.metadata.get("library", checkpoint.format)
            read_as = f"The file was read as {checkpoint.network!r} of {library}"
            raise OtherNetworkError(f"{error.message}. {read_as}", error.script) from error
        if check is not None:
            check_outputs(agent, check, CheckpointError)
        if isinstance(agent, BatchedAgent):
            agent.checkpoint = checkpoint
        return agent


def load_agent(path: str | Path, *, check: Any = None, **metadata: Any) -> Agent:
    """Read a checkpoint of any known format and build its agent.

    `check` is as in `build_agent`, `metadata` as in `read`.
    """
    return build_agent(read(path, **metadata), check)


def convert(path: str | Path, out_path: str | Path, *, overwrite: bool = False, **metadata: Any) -> Checkpoint:
    """Convert a checkpoint of any known format to the package's format (see `formats.native`). If `out_path` ends in
    `.onnx`, export the network to ONNX instead (see `agents.onnx_export`). `metadata` is as in `read`.

    The agent is built first, so that the written file is known to work.

    Raises OutputError if `out_path` ends in neither `.safetensors` nor `.onnx`, cannot be written, or exists while
    `overwrite` is false; CheckpointError in the same cases as `read` and `build_agent`; OptionError for a network that
    cannot be exported.
    """
    from rl_clarity.formats import native, onnx_file

    out_path = Path(out_path)
    native.check_output(out_path, (native.SUFFIX, onnx_file.SUFFIX), overwrite=overwrite)
    checkpoint = read(path, **metadata)
    if out_path.suffix.lower() == onnx_file.SUFFIX:
        onnx_file.write(out_path, path, metadata)
        return checkpoint
    build_agent(checkpoint)
    native.write(out_path, checkpoint)
    return checkpoint


def checkpoint_of(agent: Any, **metadata: Any) -> Checkpoint:
    """Return the checkpoint that an agent was loaded from. Its hash and notes include the agent's edits.

    `metadata` overrides the checkpoint's metadata. Raises OptionError for an agent that was not loaded from a
    checkpoint.
    """
    checkpoint = getattr(agent, "checkpoint", None)
    if not isinstance(checkpoint, Checkpoint):
        raise OptionError(
            f"the {type(agent).__name__} was not loaded from a checkpoint, so its environment is not known: use "
            "rl_clarity.collect(agent, env) and rl_clarity.generate, or rl_clarity.Recorder"
        )
    edits = getattr(agent, "edits", ())
    if edits:
        digest = hashlib.sha256(checkpoint.sha256.encode())
        for name, array in sorted(agent.parameters().items()):
            digest.update(f"{name} {array.dtype} {array.shape}".encode() + array.tobytes())
        notes = (*checkpoint.notes, *(f"edited: {edit.describe()}" for edit in edits))
        checkpoint = dataclasses.replace(checkpoint, sha256=digest.hexdigest(), notes=notes)
    return dataclasses.replace(checkpoint, metadata={**checkpoint.metadata, **metadata})


def in_memory(agent: Any, **metadata: Any) -> Checkpoint:
    """Return a substitute for the checkpoint of an agent that exists only in memory. It contains the agent's parameters
    and metadata.

    The hash is computed from the parameters, or, if the agent does not provide them, from its outputs for images of
    noise. No agent can be built from the substitute, so it should not be saved.
    """
    kind = type(agent).__name__
    arrays = parameters(agent)
    if not arrays:
        noise = np.random.default_rng(0).integers(0, 256, (4, *agent.observation_shape), np.uint8)
        outputs = vars(agent.forward(noise))
        arrays = {name: value for name, value in outputs.items() if isinstance(value, np.ndarray)}
    digest = hashlib.sha256(kind.encode())
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype} {array.shape}".encode() + np.ascontiguousarray(array).tobytes())
    return Checkpoint(Path(IN_MEMORY), IN_MEMORY, kind, arrays, {**agent.metadata, **metadata}, digest.hexdigest())


def source_key(checkpoint: Checkpoint) -> str:
    """Return a hash, for cache keys, of everything that determines the agent in addition to the checkpoint file.

    This includes some metadata, and the source code of the format and of the network if they are not part of the
    package. The hash is "" if there is nothing to include.
    """
    reading = {name: checkpoint.metadata[name] for name in READING if checkpoint.metadata.get(name) is not None}
    code = "" if checkpoint.format == IN_MEMORY else FORMATS.source(checkpoint.format)
    sources = [code, json.dumps(reading, sort_keys=True, default=str) if reading else ""]
    network = checkpoint.metadata.get("cnn", checkpoint.network)
    if isinstance(network, str) and network in ARCHITECTURES:
        sources.append(ARCHITECTURES.source(network))
    return hashlib.sha256("\n".join(sources).encode()).hexdigest() if any(sources) else ""


@contextmanager
def _dtype_policy(name: str | None) -> Iterator[None]:
    """Build the layers in the block with a Keras dtype policy, or with the current policy if `name` is None."""
    import keras

    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(name or before)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)


@contextmanager
def _with_path(path: Path) -> Iterator[None]:
    """Convert every error that a file can cause to a CheckpointError whose message contains the file's path."""
    try:
        yield
    except RefusedError as error:
        message, script = pickled_object(path, error.name)
        raise CheckpointError(f"{path}: {message}", script) from error
    except CheckpointError as error:
        message, script = error.message, error.script
        if isinstance(error, OtherNetworkError) and not script and (script := own_network(path)):
            message += ". This script wraps the network's own class or function:"
        raise CheckpointError(f"{path}: {message}", script) from error
    except INVALID as error:
        if isinstance(error, ClarityError):
            raise
        cause = f"{type(error).__name__}: {str(error)[:200]}"
        raise CheckpointError(f"{path}: no network can be built from its content ({cause})") from error
    except DAMAGED as error:
        if isinstance(error, OSError) and error.strerror:
            raise CheckpointError(f"cannot read the checkpoint {path}: {error.strerror}") from error
        raise CheckpointError(f"{path}: truncated or damaged ({type(error).__name__}: {str(error)[:200]})") from error


__all__ = [
    "FORMATS",
    "Checkpoint",
    "Format",
    "build_agent",
    "checkpoint_of",
    "convert",
    "load_agent",
    "read",
    "source_key",
]
