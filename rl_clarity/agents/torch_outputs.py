"""What a PyTorch module returns, as heads and a state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rl_clarity.errors import OptionError
from rl_clarity.networks.heads import check_heads, find_heads

STATE_KEYS = ("state", "hidden", "hidden_state", "hx")


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


def heads_of(outputs: Any, given: Sequence[str] | None) -> tuple[tuple[str, ...], list[Any]]:
    """Names of the heads, and their tensors (B, n)."""
    named = named_tensors(outputs)
    for name, tensor in named:
        if len(tensor.shape) not in (1, 2):
            raise OptionError(
                f"the module returns {name or 'a tensor'} of shape {tuple(tensor.shape)}; "
                "(batch, n) or (batch,) is needed"
            )
    if given is not None:
        heads = check_heads(given, len(named))
    else:
        widths = [int(tensor.shape[1]) if len(tensor.shape) == 2 else None for _, tensor in named]
        heads = find_heads([name for name, _ in named], widths)
    return heads, [tensor if len(tensor.shape) == 2 else tensor[:, None] for _, tensor in named]


def _tensor(item: Any) -> Any:
    """A tensor; the logits of a categorical distribution."""
    return item.logits if hasattr(item, "logits") and not hasattr(item, "shape") else item
