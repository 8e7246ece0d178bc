"""Interpret what a function or module returns for observations: named heads and a state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rl_clarity.agents.heads import check_heads, check_width, find_heads, probabilities_error
from rl_clarity.agents.input_scale import MAX_FACTOR
from rl_clarity.base.errors import OptionError

STATE_KEYS = ("state", "hidden", "hidden_state", "hx")
ROUNDING = 5e-3
"""Largest difference from 1 of a sum of probabilities that were rounded to half precision."""


def checked_shape(shape: Sequence[int]) -> tuple[int, int, int]:
    """Return the shape (H, W, C) of observations; raise OptionError for anything else."""
    try:
        height, width, channels = map(int, shape)
    except (TypeError, ValueError):
        height, width, channels = 0, 0, 0
    if min(height, width, channels) < 1:
        raise OptionError(
            f"observation_shape={shape!r} must be three positive integers, (height, width, channels), or the length of "
            "a vector, (n,), for TorchAgent"
        )
    return height, width, channels


def observation_parts(
    shape: Sequence[int] | Mapping[str, Sequence[int]],
) -> tuple[str | None, tuple[int, int, int], dict[str, tuple[int, ...]]]:
    """Return the key of the image in a dictionary of shapes, the image's shape, and the shapes of the other entries.

    The image is the largest entry with three axes. A shape that is not a dictionary is the shape of an image without a
    key. The shape of a vector with n entries, (n,), becomes (1, 1, n). Raises OptionError for invalid shapes.
    """
    if not isinstance(shape, Mapping):
        return None, checked_shape((1, 1, *shape) if np.shape(shape) == (1,) else shape), {}
    shapes = {str(name): tuple(int(size) for size in part) for name, part in shape.items()}
    images = [name for name, part in shapes.items() if len(part) == 3]
    if not images:
        raise OptionError(
            f"observation_shape={dict(shape)!r} has no image (height, width, channels) to explain. Concatenate the "
            "entries to a single vector in forward=..., and pass its length as observation_shape=(n,)"
        )
    image = max(images, key=lambda name: np.prod(shapes[name]))
    return image, checked_shape(shapes.pop(image)), shapes


def check_scale(values: Any, observations: Any) -> None:
    """Raise OptionError if the network scales down observations that are already from 0 to 1. `values` are the inputs
    of its first layer with weights.
    """
    factor = float((values.max() - values.min()) / (observations.max() - observations.min()))
    if 0 < factor <= MAX_FACTOR:
        raise OptionError(
            f"the network multiplies its input by {factor:.3g} before its first layer with weights, but is called with "
            "observations / 255. Pass input_divisor=1 if it takes observations from 0 to 255, or input_divisor=255 if "
            "it takes observations from 0 to 1"
        )


def check_batch(heads: Sequence[Any]) -> None:
    """Raise OptionError unless the heads for two observations have two rows."""
    for tensor in heads:
        if len(tensor) != 2:
            raise OptionError(
                f"the network returns {len(tensor)} rows for two observations; outputs must be (batch, n) or (batch,)"
            )


def check_state(before: Sequence[Any], after: Sequence[Any]) -> None:
    """Raise OptionError if a step changes the shapes of the state."""
    shapes, shapes_after = ([tuple(part.shape[1:]) for part in state] for state in (before, after))
    if shapes != shapes_after:
        raise OptionError(
            f"the state has the shapes {shapes} before a step (initial_state) and {shapes_after} after it (without the "
            "batch axis); they must be the same, with the batch as the first axis"
        )


def check_logits(logits: np.ndarray) -> None:
    """Raise OptionError if every row of the logits (B, A) is a distribution, because they are then probabilities."""
    if logits.shape[1] > 1 and np.all(logits >= 0) and np.allclose(logits.sum(axis=1), 1, atol=ROUNDING):
        raise probabilities_error("logits", "they are not negative, and sum to 1")


def check_trial(heads: Sequence[str], tensors: Sequence[Any], before: Sequence[Any], after: Sequence[Any]) -> int:
    """Check the results of a trial step, and return the number of actions.

    Args:
        heads: names of the heads
        tensors: their values for two observations
        before: arrays of the state before the step
        after: arrays of the state after the step

    Raises OptionError for heads or a state that an agent cannot have.
    """
    check_state(before, after)
    check_batch(tensors)
    scores = np.asarray(tensors[heads.index("q_values" if "q_values" in heads else "policy_logits")])
    check_logits(scores)
    return int(scores.shape[-1])


def state_parts(state: Any) -> list[Any]:
    """Return the arrays of a state that is None, an array, or a list or tuple of arrays."""
    return [] if state is None else list(state) if isinstance(state, list | tuple) else [state]


def split_state(result: Any, *, recurrent: bool) -> tuple[Any, list[Any]]:
    """Return the outputs and the arrays of the state.

    The state of a recurrent network is the last of its results, or the entry of a dict with a key in `STATE_KEYS`.
    """
    if not recurrent:
        return result, []
    if isinstance(result, Mapping):
        key = next((key for key in STATE_KEYS if key in result), None)
        if key is None:
            raise OptionError(
                f"the network returns {list(result)}; its state must have one of the keys {', '.join(STATE_KEYS)}"
            )
        return {name: item for name, item in result.items() if name != key}, state_parts(result[key])
    if not isinstance(result, list | tuple) or len(result) < 2:
        raise OptionError(
            f"the network returns a {type(result).__name__}; a recurrent network must return its outputs, and the "
            "state last"
        )
    *outputs, state = result
    return outputs, state_parts(state)


def named_tensors(outputs: Any) -> list[tuple[str | None, Any]]:
    """Return the tensors in the order of the outputs, each with its name or None."""
    if isinstance(outputs, Mapping):
        return [(str(name), _tensor(item)) for name, item in outputs.items() if item is not None]
    if isinstance(outputs, list | tuple):
        fields = getattr(outputs, "_fields", [None] * len(outputs))
        named: list[tuple[str | None, Any]] = []
        for field, item in zip(fields, outputs, strict=True):
            if isinstance(item, list | tuple | Mapping):
                named += named_tensors(item)
            elif item is not None:
                named.append((field, _tensor(item)))
        return named
    return [(None, _tensor(outputs))]


def named_heads(outputs: Any, names: Sequence[str | None] | None) -> tuple[tuple[str, ...], list[Any]]:
    """Return the names of the heads and their tensors (B, n), without outputs whose name in `names` is None.

    Raises OptionError for outputs that an agent cannot have.
    """
    named = named_tensors(outputs)
    chosen: Sequence[str | None] = _find_heads(named) if names is None else check_heads(names, len(named))
    heads = {}
    for head, (name, tensor) in zip(chosen, named, strict=True):
        if head is not None:
            check_width(head, _width(name, tensor))
            heads[head] = tensor if len(tensor.shape) == 2 else tensor[:, None]
    return tuple(heads), list(heads.values())


def _find_heads(named: Sequence[tuple[str | None, Any]]) -> tuple[str, ...]:
    try:
        return find_heads([name for name, _ in named], [_width(name, tensor) for name, tensor in named])
    except OptionError as error:
        if len(named) < 3:
            raise
        raise OptionError(
            f"{error}. If the last output is the state of a recurrent module, pass initial_state"
        ) from None


def _width(name: str | None, tensor: Any) -> int | None:
    """Return the number of columns of an output (B, n), or None for an output (B,)."""
    shape = tuple(getattr(tensor, "shape", ()))
    if len(shape) not in (1, 2):
        what = f"of shape {shape}" if shape else f"that is a {type(tensor).__name__}"
        if hasattr(tensor, "rsample"):  # a continuous distribution
            what += (
                ", whose mean is used in place of logits (return it in forward=..., and describe it with actions=...)"
            )
        raise OptionError(
            f"the network returns {name or 'a tensor'} {what}; (batch, n) or (batch,) is needed. "
            "Use heads=(..., None) to ignore an output, and initial_state to describe a recurrent module's state"
        )
    return int(shape[1]) if len(shape) == 2 else None


def _tensor(item: Any) -> Any:
    """Return a tensor; for a categorical distribution, its logits."""
    return item.logits if hasattr(item, "logits") and not hasattr(item, "shape") else item
