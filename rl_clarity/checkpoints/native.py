"""The project's own format: one safetensors file that any checkpoint converts to (`rl_clarity.convert`).

The tensors have the names, shapes and numbers of the file they came from. The header's `__metadata__` has one entry,
`rl_clarity`, a string of JSON:

    {"version": 1, "format": "cleanrl", "network": "ppo_atari", "architecture": {...}, "metadata": {...}, "notes":
    [...]}

`format` and `network` say what the tensors mean, as `Checkpoint` documents them; `metadata` what is known of the
environment and of the training. Any program can read the tensors with the `safetensors` package.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rl_clarity.checkpoints import safetensors_file
from rl_clarity.checkpoints.bounded import brief
from rl_clarity.checkpoints.checkpoint import Checkpoint, sha256
from rl_clarity.checkpoints.safe_zip import parse_json
from rl_clarity.errors import CheckpointError

DESCRIPTION = "rl_clarity's own (.safetensors, by rl-clarity convert)"
KEY = "rl_clarity"
VERSION = 1
FIELDS = {"format": str, "network": str, "architecture": dict, "metadata": dict, "notes": list}


def sniff(path: Path, head: bytes) -> bool:
    return safetensors_file.is_safetensors(head) and KEY in safetensors_file.read_metadata(path)


def read(path: Path) -> Checkpoint:
    """Read a file that `write` wrote; what makes its agent is the format it came from.

    Raises CheckpointError if it is damaged, or of a newer version.
    """
    from rl_clarity.checkpoints import FORMATS

    parameters, strings = safetensors_file.read(path)
    facts = parse_json(strings[KEY].encode(), KEY)
    if not isinstance(facts, dict) or facts.get("version") != VERSION:
        version = facts.get("version") if isinstance(facts, dict) else facts
        raise CheckpointError(f"is of version {brief(version)}; version {VERSION} is known")
    for name, kind in FIELDS.items():
        if not isinstance(facts.get(name), kind):
            raise CheckpointError(f"its {name} is {brief(facts.get(name))}, not a {kind.__name__}")
    if facts["format"] not in FORMATS or facts["format"] == "native":
        raise CheckpointError(f"its tensors are of the format {brief(facts['format'])}; known are {', '.join(FORMATS)}")
    return Checkpoint(
        path,
        facts["format"],
        facts["network"],
        parameters,
        facts["metadata"],
        sha256(path),
        tuple(map(str, facts["notes"])),
        facts["architecture"],
    )


def write(path: Path, checkpoint: Checkpoint) -> None:
    """Write a checkpoint; the same checkpoint gives the same bytes."""
    facts: dict[str, Any] = {"version": VERSION}
    for name, kind in FIELDS.items():
        value = getattr(checkpoint, name)
        facts[name] = kind(value) if kind is not str else value
    safetensors_file.write(path, checkpoint.parameters, {KEY: json.dumps(facts, sort_keys=True)})
