"""Convert checkpoints to ONNX, in a process of its own where Keras already runs on another framework than PyTorch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rl_clarity import formats
from rl_clarity.agents.onnx_export import export_onnx, runs_on_torch
from rl_clarity.base.errors import ClarityError, OptionError, OutputError
from rl_clarity.base.files import write_atomically

SUFFIX = ".onnx"


def onnx_of_checkpoint(path: str | Path, metadata: Mapping[str, Any] | None = None) -> bytes:
    """Return the network of a checkpoint in ONNX, as `export_onnx` does. `metadata` is as in `formats.read`.

    Raises OptionError for a network that cannot be exported, with the reason; DependencyError without PyTorch.
    """
    if os.environ.get("KERAS_BACKEND") == "torch":
        return export_onnx(formats.load_agent(path, **(metadata or {})))
    command = [sys.executable, "-m", __name__, os.fspath(path), json.dumps(dict(metadata or {}))]
    done = subprocess.run(command, env={**os.environ, "KERAS_BACKEND": "torch"}, capture_output=True, check=False)
    if done.returncode:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise OptionError(lines[-1] if lines else f"exporting to ONNX ended with the exit status {done.returncode}")
    return done.stdout


def onnx_of_agent(agent: Any) -> bytes:
    """Return the network of an agent in ONNX: in memory on PyTorch, or else of the checkpoint it was loaded from."""
    if runs_on_torch(agent) or getattr(agent, "checkpoint", None) is None:
        return export_onnx(agent)
    if agent.edits:
        raise OptionError("only networks without edits are exported to ONNX")
    known = agent.checkpoint.metadata
    return onnx_of_checkpoint(agent.checkpoint.path, {key: known[key] for key in formats.READING if key in known})


def write(out_path: Path, path: str | Path, metadata: Mapping[str, Any]) -> None:
    """Write the network of a checkpoint to an ONNX file. Raises OutputError if that fails."""
    content = onnx_of_checkpoint(path, metadata)
    try:
        write_atomically(out_path, content)
    except OSError as error:
        raise OutputError(f"cannot write {out_path}: {error.strerror or error}") from error


def main(path: str, metadata: str) -> int:
    """Write the network of a checkpoint in ONNX to standard output."""
    output = os.dup(1)
    os.dup2(2, 1)  # libraries print to standard output
    try:
        content = onnx_of_checkpoint(path, json.loads(metadata))
    except ClarityError as error:
        print(error.message, file=sys.stderr)
        return 1
    with os.fdopen(output, "wb") as file:
        file.write(content)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
