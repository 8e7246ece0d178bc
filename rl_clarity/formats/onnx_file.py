"""Convert checkpoints to ONNX. If Keras does not run on PyTorch, a separate process does the conversion."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rl_clarity import formats
from rl_clarity.agents.onnx_export import export_onnx, is_exportable
from rl_clarity.agents.protocol import Agent
from rl_clarity.base.errors import ClarityError, OptionError
from rl_clarity.base.files import write_output

SUFFIX = ".onnx"


def onnx_of_agent(agent: Agent) -> bytes:
    """Return the network of an agent in the ONNX format, like `export_onnx`. An agent that does not run on PyTorch is
    loaded again from its checkpoint, if it has one and is not edited.

    Raises OptionError, with the reason, for a network that cannot be exported. A missing package raises
    DependencyError, or OptionError if a separate process does the conversion.
    """
    checkpoint = getattr(agent, "checkpoint", None)
    if is_exportable(agent) or checkpoint is None or getattr(agent, "edits", None):
        return export_onnx(agent)
    return onnx_of_checkpoint(checkpoint.path, checkpoint.metadata)


def onnx_of_checkpoint(path: str | Path, metadata: Mapping[str, Any]) -> bytes:
    """Return the network of a checkpoint in the ONNX format, like `export_onnx`. `metadata` is as in `formats.read`.

    Raises OptionError, with the reason, for a network that cannot be exported. A missing package raises
    DependencyError, or OptionError if a separate process does the conversion.
    """
    if os.environ.get("KERAS_BACKEND") == "torch":
        return export_onnx(formats.load_agent(path, **metadata))
    command = [sys.executable, "-m", __name__, os.fspath(path), json.dumps(dict(metadata))]
    done = subprocess.run(command, env={**os.environ, "KERAS_BACKEND": "torch"}, capture_output=True, check=False)
    if done.returncode:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise OptionError(lines[-1] if lines else f"exporting to ONNX failed with the exit status {done.returncode}")
    return done.stdout


def write(out_path: Path, path: str | Path, metadata: Mapping[str, Any]) -> None:
    """Write the network of a checkpoint to an ONNX file. Raises OutputError if that fails."""
    write_output(out_path, onnx_of_checkpoint(path, metadata), overwrite=True)


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
