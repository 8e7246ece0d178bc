"""Compare an agent's outputs with the outputs that the network's original program computed."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from rl_clarity.agents.protocol import Agent
from rl_clarity.agents.value_range import InputScale
from rl_clarity.base.errors import ClarityError, OptionError
from rl_clarity.base.files import open_regular

Check = Mapping[str, Any] | str | os.PathLike[str]
OUTPUTS = {"logits": "policy_logits", "values": "values", "q_values": "q_values"}
"""The agent's output that each array of expected outputs is compared with, by the array's name."""
TOLERANCE = 1e-3
"""Largest difference that is accepted, as a share of the largest output. It is larger than rounding errors on GPUs, and
smaller than the effect of a different activation function."""


def check_outputs(agent: Agent, check: Check, error: type[ClarityError] = OptionError) -> None:
    """Raise `error` if the agent's outputs differ from those in `check`.

    Args:
        agent: the agent to check.
        check: arrays, or an `.npz` file of them: `observations` (B, H, W, C) or (B, C, H, W), from 0 to 255 or in the
            range of the network's input, and the outputs of the network's original program for them: `logits` (B, A),
            `values` (B,) or `q_values` (B, A). Logits may differ by a constant for each observation, so that log
            probabilities serve as well. A recurrent agent processes each observation from its initial state.
        error: the class of the error for outputs that differ.

    Raises OptionError if the arrays are missing or do not fit the agent.
    """
    arrays = {name: np.asarray(array) for name, array in _arrays(check).items()}
    unknown = set(arrays) - {"observations", *OUTPUTS}
    if "observations" not in arrays or len(arrays) < 2 or unknown:
        raise OptionError(
            f"check has the arrays {', '.join(map(repr, sorted(arrays))) or 'none'}; 'observations' are needed, and at "
            f"least one of {', '.join(map(repr, OUTPUTS))}"
        )
    outputs = agent.forward(_from_0_to_255(agent, arrays.pop("observations")))
    for name, expected in arrays.items():
        actual = getattr(outputs, OUTPUTS[name])
        if actual is None or np.size(actual) != expected.size:
            shape = "none" if actual is None else f"those of shape {actual.shape}"
            raise OptionError(f"check has {name} of shape {expected.shape}; the agent has {shape}")
        _compare(agent, name, actual, expected.reshape(actual.shape), error)


def _from_0_to_255(agent: Agent, observations: np.ndarray) -> np.ndarray:
    """Return observations from 0 to 255. Observations within the range of the network's input are converted."""
    scale: InputScale | None = getattr(agent, "input_scale", None)
    if scale is None or not observations.size or observations.dtype.kind not in "biuf":
        return observations
    low, high = scale.value_range
    if scale.divisor == 1 or observations.min() < low or observations.max() > high:
        return observations
    return (observations.astype(np.float32) - np.float32(low)) * np.float32(scale.divisor)


def _arrays(check: Check) -> Mapping[str, Any]:
    if isinstance(check, Mapping):
        return check
    if not isinstance(check, str | os.PathLike):
        raise OptionError(f"check must be a dict of arrays, or the path of an .npz file, not a {type(check).__name__}")
    try:
        with open_regular(Path(check), "rb") as opened, np.load(opened, allow_pickle=False) as file:
            return dict(file)
    except (OSError, EOFError, ValueError, TypeError, AttributeError, zipfile.BadZipFile) as error:
        raise OptionError(f"check: {os.fspath(check)} cannot be read as an .npz file of arrays ({error})") from error


def _compare(agent: Agent, name: str, actual: np.ndarray, expected: np.ndarray, error: type[ClarityError]) -> None:
    if name == "logits":
        actual, expected = (array - array.mean(axis=1, keepdims=True) for array in (actual, expected))
    deviation, largest = float(np.abs(actual - expected).max()), float(np.abs(expected).max())
    if not deviation <= TOLERANCE * largest:  # written so that NaN fails
        read_with = [
            f"{key}={agent.metadata[key]!r}" for key in ("activation", "input_divisor") if key in agent.metadata
        ]
        hint = f". It was read with the metadata {', '.join(read_with)}" if read_with else ""
        scale: InputScale | None = getattr(agent, "input_scale", None)
        if scale is not None and not read_with:
            low, high = scale.value_range
            hint = f". The network gets inputs from {low:g} to {high:g} for observations from 0 to 255 (value_range)"
        raise error(
            f"the agent's {name} deviate from those in check by up to {deviation:.3g} (the largest of these is "
            f"{largest:.3g}). The agent does not compute what the network's original program does, or the observations "
            f"differ{hint}"
        )
