"""Read and write the package's format: safetensors files, to which any checkpoint can be converted
(`rl_clarity.convert`).

The tensors have the names, shapes and values of the original file. The header's `__metadata__` has one entry,
`rl_clarity`, a string of JSON:

    {"version": 1, "format": "cleanrl", "network": "ppo_atari", "architecture": {...}, "metadata": {...}, "notes":
    [...]}

`format` and `network` determine the meaning of the tensors, as in `Checkpoint`. `metadata` describes the environment
and the training.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from rl_clarity.agents.protocol import Agent
from rl_clarity.base.errors import CheckpointError, OutputError
from rl_clarity.base.files import write_atomically
from rl_clarity.formats.checkpoint import FORMATS, Checkpoint, CheckpointFile, Format
from rl_clarity.formats.safe_files import brief, check_size, parse_json

KEY = "rl_clarity"
SUFFIX = ".safetensors"
VERSION = 1
FIELDS = {"format": str, "network": str, "architecture": dict, "metadata": dict, "notes": list}
MAX_HEADER = 16 << 20
MAX_TENSORS = 10_000


def recognize(file: CheckpointFile) -> bool:
    head = file.head
    if len(head) <= 8 or head[8:9] != b"{" or int.from_bytes(head[:8], "little") > MAX_HEADER:
        return False
    return KEY in (_open(file.path).metadata() or {})


def read(file: CheckpointFile) -> Checkpoint:
    """Read a file that `write` wrote. Its agent is built by the format from which it was converted.

    Raises CheckpointError if the file is damaged, or if its version is not supported.
    """
    opened = _open(file.path)
    header = parse_json(opened.metadata()[KEY].encode(), KEY, file.budget)
    if not isinstance(header, dict) or header.get("version") != VERSION:
        version = header.get("version") if isinstance(header, dict) else header
        raise CheckpointError(f"has version {brief(version)}; only version {VERSION} is supported")
    for name, kind in FIELDS.items():
        if not isinstance(header.get(name), kind):
            raise CheckpointError(f"its {name} is {brief(header.get(name))}, not a {kind.__name__}")
    if header["format"] == "native" or header["format"] not in FORMATS:
        raise CheckpointError(
            f"its tensors have the unknown format {brief(header['format'])}; available: {', '.join(FORMATS)}"
        )
    names = opened.keys()
    if len(names) > MAX_TENSORS:
        raise CheckpointError(f"has {len(names)} tensors; at most {MAX_TENSORS} are allowed")
    return Checkpoint(
        file.path,
        header["format"],
        header["network"],
        {name: _tensor(opened, name) for name in names},
        header["metadata"],
        file.sha256,
        tuple(map(str, header["notes"])),
        header["architecture"],
    )


def build_agent(checkpoint: Checkpoint) -> Agent:
    """Build the agent with the format from which the file was converted."""
    return FORMATS.get(checkpoint.format).build(checkpoint)


FORMAT = Format("rl_clarity's own format (.safetensors, from rl-clarity convert)", recognize, read, build_agent)


def check_output(path: Path, suffixes: Sequence[str] = (SUFFIX,), *, overwrite: bool) -> None:
    """Raise OutputError for a path that does not end in one of the suffixes, or that exists if `overwrite` is false."""
    if path.suffix.lower() not in suffixes:
        raise OutputError(f"the extension determines the format: {path} must end in {' or '.join(suffixes)}")
    if path.exists() and not overwrite:
        raise OutputError(f"{path} exists: choose another name, or replace it with overwrite=True (--force)")


def write(path: Path, checkpoint: Checkpoint) -> None:
    """Write a checkpoint atomically. The same checkpoint gives the same bytes.

    Raises OutputError if the file cannot be written, and CheckpointError for tensors of a type that safetensors does
    not support.
    """
    header: dict[str, Any] = {"version": VERSION}
    for name, kind in FIELDS.items():
        value = getattr(checkpoint, name)
        header[name] = kind(value) if kind is not str else value
    tensors = {
        name: np.asarray(array, np.asarray(array).dtype.newbyteorder("<"), order="C")
        for name, array in checkpoint.parameters.items()
    }
    try:
        data = save(tensors, {KEY: json.dumps(header, sort_keys=True)})
    except (SafetensorError, KeyError) as error:
        types = ", ".join(sorted({str(array.dtype) for array in tensors.values()}))
        raise CheckpointError(f"has tensors of the types {types}, not all of which safetensors supports") from error
    try:
        write_atomically(path, data)
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror or error}") from error


def _open(path: Path) -> Any:
    check_size(path)
    try:
        return safe_open(path, framework="numpy")
    except SafetensorError as error:
        raise CheckpointError(f"truncated or damaged ({str(error)[:200]})") from error


def _tensor(opened: Any, name: str) -> np.ndarray:
    try:
        return np.asarray(opened.get_tensor(name))
    except (SafetensorError, TypeError, KeyError, AttributeError) as error:
        raise CheckpointError(f"tensor {brief(name)} has a type that NumPy does not support ({error})") from error
