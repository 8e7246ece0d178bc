"""What a PyTorch module returns, as heads and a state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rl_clarity.errors import OptionError
from rl_clarity.networks.heads import check_heads, check_width, find_heads, gives_probabilities

STATE_KEYS = ("state", "hidden", "hidden_state", "hx")
ROUNDING = 5e-3
"""How far from 1 the sum of probabilities may be, in half precision."""


def split_state(result: Any, *, recurrent: bool) -> tuple[Any, Any]:
    """The outputs, and the state after: the last of several results, or the entry of a dict that is called so."""
    if not recurrent:
        return result, None
    if isinstance(result, Mapping):
        key = next((key for key in STATE_KEYS if key in result), None)
        if key is None:
            raise OptionError(
                f"the module returns {list(result)}, none of which is its state ({', '.join(STATE_KEYS)})"
            )
        return {name: item for name, item in result.items() if name != key}, result[key]
    if not isinstance(result, list | tuple) or len(result) < 2:
        raise OptionError(f"the module returns a {type(result).__name__}; with a state, it must return the state last")
    *outputs, state = result
    return outputs, state


def named_tensors(outputs: Any) -> list[tuple[str | None, Any]]:
    """Tensors and, where they have one, their names, in the order of the outputs."""
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


def heads_of(outputs: Any, given: Sequence[str | None] | None) -> tuple[tuple[str, ...], list[Any]]:
    """Names of the heads, and their tensors (B, n); those that are `given` as None are left out.

    Raises OptionError for outputs that are no agent's.
    """
    named = named_tensors(outputs)
    if given is not None:
        chosen: Sequence[str | None] = check_heads(given, len(named))
    else:
        chosen = _found(named)
    found = {}
    for head, (name, tensor) in zip(chosen, named, strict=True):
        if head is not None:
            check_width(head, _width(name, tensor))
            found[head] = tensor if len(tensor.shape) == 2 else tensor[:, None]
    return tuple(found), list(found.values())


def _found(named: Sequence[tuple[str | None, Any]]) -> tuple[str, ...]:
    try:
        return find_heads([name for name, _ in named], [_width(name, tensor) for name, tensor in named])
    except OptionError as error:
        if len(named) < 3:
            raise
        raise OptionError(f"{error}. If the last one is a recurrent module's state, give initial_state") from None


def check_logits(logits: np.ndarray) -> None:
    """Raises OptionError if each row (B, A) is a distribution: then these are probabilities, and no logits."""
    if logits.shape[1] > 1 and np.all(logits >= 0) and np.allclose(logits.sum(axis=1), 1, atol=ROUNDING):
        raise gives_probabilities("logits", "not negative, with a sum of 1")


def _width(name: str | None, tensor: Any) -> int | None:
    """Columns of (B, n); None for a (B,)."""
    shape = tuple(getattr(tensor, "shape", ()))
    if len(shape) not in (1, 2):
        what = f"of shape {shape}" if shape else f"that is a {type(tensor).__name__}"
        raise OptionError(
            f"the module returns {name or 'a tensor'} {what}; (batch, n) or (batch,) is needed. "
            "heads=(..., None) leaves an output out; of a recurrent module, initial_state says what its state is"
        )
    return int(shape[1]) if len(shape) == 2 else None


def _tensor(item: Any) -> Any:
    """A tensor; the logits of a categorical distribution."""
    return item.logits if hasattr(item, "logits") and not hasattr(item, "shape") else item
