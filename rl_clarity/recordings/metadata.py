"""The metadata of recordings in `recording.json`, which writer and readers check with the same schema."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping
from typing import Any

from rl_clarity.agents.actions import factors_from_json
from rl_clarity.base.errors import OptionError, SamplesError
from rl_clarity.base.keys import to_plain
from rl_clarity.formats import metadata as checkpoint_metadata
from rl_clarity.formats.metadata import ACTION_COMBOS, PROBABILITY, TEXT, Check, Schema, find_problem, is_number
from rl_clarity.formats.safe_files import brief

FORMAT = "rl_clarity recording"
VERSION = 3
READ_VERSIONS = (2, VERSION)
"""Versions of the format that can be read. Version 3 stores each of the stacked frames only once."""
MAX_BYTES = 2**20
TOLERANCE = "checkpoint_tolerance"
"""Key of the largest error of rounded weights in checkpoints. It is absent if all checkpoints are exact."""
LARGEST_TOLERANCE = 1e-3
RESERVED = ("begun", "format", "version", TOLERANCE)
"""Names that the recorder sets itself."""

_FILE: Check = ("a string", lambda value: isinstance(value, str))
_FACTORS: Check = (
    "a list of objects, each with the kind and the arguments of a factor",
    lambda value: _are_factors(value),
)
_INPUTS: Check = ("a list of strings", lambda value: isinstance(value, list) and all(map(TEXT[1], value)))
FIELDS: Schema = {
    "name": TEXT,
    "loader": TEXT,
    "begun": ("seconds since 1970", lambda value: is_number(value, 0, 1e300)),
    "checkpoint": {"file": _FILE, "sha256": TEXT, "format": TEXT, "network": TEXT},
    "environment": {
        "kind": TEXT,
        "name": TEXT,
        "options": checkpoint_metadata.FIELDS,
        **{name: checkpoint_metadata.FIELDS[name] for name in ("epsilon_greedy", "reward_scale")},
    },
    "action_combos": ACTION_COMBOS,
    "actions": _FACTORS,
    "inputs": _INPUTS,
    "gamma": PROBABILITY,
    "lambda": PROBABILITY,
    TOLERANCE: (f"a number from 0 to {LARGEST_TOLERANCE:g}", lambda value: is_number(value, 0, LARGEST_TOLERANCE)),
    "sampling": {
        "temperature": ("a positive number", lambda value: is_number(value, math.ulp(0), 1e300)),
        "greedy": ("true or false", lambda value: isinstance(value, bool)),
        "action_noise": PROBABILITY,
    },
}
"""Metadata that the package reads. None stands for an unknown value, and programs may add other names."""


def new_metadata(metadata: Mapping[str, Any], tolerance: float | None = None) -> dict[str, Any]:
    """Return the metadata of a new recording. `tolerance` is the largest error of rounded weights in its checkpoints,
    or None if they are exact. Raises OptionError for invalid metadata.
    """
    try:
        plain = _parse(json.dumps(to_plain(metadata)))
        problem = find_problem("metadata", plain, {"metadata": FIELDS})
    except (TypeError, ValueError, RecursionError) as error:
        raise OptionError(f"metadata={brief(metadata)} cannot be recorded: {error}") from error
    for name in RESERVED:
        if name in plain:
            problem = f"metadata.{name}={brief(plain[name])} is reserved for the recorder; use a different name"
    plain["begun"] = time.time()
    if tolerance is not None:
        plain[TOLERANCE] = tolerance
    size = len(encode_metadata(plain))
    if size > MAX_BYTES:
        problem = f"metadata={brief(metadata)} takes {size} bytes; at most {MAX_BYTES} are allowed"
    if problem:
        raise OptionError(problem)
    return plain


def encode_metadata(metadata: Mapping[str, Any]) -> bytes:
    """Return the content of `recording.json`."""
    return (json.dumps({**metadata, "format": FORMAT, "version": VERSION}, indent=1, sort_keys=True) + "\n").encode()


def decode_metadata(data: bytes, file: str) -> dict[str, Any]:
    """Return the metadata of `recording.json`. Raises SamplesError if they are damaged, or if their version is not
    supported.
    """
    try:
        metadata = _parse(data)
    except (ValueError, RecursionError) as error:
        raise SamplesError(f"{file} is damaged ({error})") from error
    format_, version = metadata.pop("format", None), metadata.pop("version", None)
    if format_ != FORMAT:
        raise SamplesError(f"{file} has the format {brief(format_)}; expected {FORMAT!r}")
    if version not in READ_VERSIONS:
        raise SamplesError(
            f"{file} has version {brief(version)}; this version of rl-clarity reads versions "
            f"{' and '.join(map(str, READ_VERSIONS))}"
        )
    return check_metadata(metadata, file)


def check_metadata(metadata: dict[str, Any], file: str) -> dict[str, Any]:
    """Check metadata that were read from a file, and return them. Raises SamplesError if they are invalid."""
    problem = find_problem("metadata", metadata, {"metadata": FIELDS})
    if problem:
        raise SamplesError(f"{file} is damaged: {problem}")
    return metadata


def _are_factors(value: Any) -> bool:
    try:
        return isinstance(value, list) and bool(factors_from_json(value))
    except OptionError:
        return False


def _parse(data: bytes | str) -> dict[str, Any]:
    metadata = json.loads(data, parse_float=_finite, parse_constant=_finite)
    if not isinstance(metadata, dict):
        raise ValueError("expected a JSON object (a dict)")
    return metadata


def _finite(text: str) -> float:
    if not math.isfinite(float(text)):
        raise ValueError(f"{text} is not a finite number")
    return float(text)
