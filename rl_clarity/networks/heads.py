"""Which output of a network is which: a policy's logits, a value, or action values."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from rl_clarity.errors import OptionError
from rl_clarity.networks.graph import operation_of

HEADS = ("policy_logits", "values", "q_values")
PATTERNS = (
    ("q_values", r"q|q_?values?|q_?net(work)?|action_?values?"),
    ("values", r"v|vf|values?|critic|baseline|.*(state_?value|value|vf|critic)"),
    ("policy_logits", r"pi|logits?|actor|policy|actions?|.*(logits|policy|actor)"),
)
"""Tried in this order."""
PROBABILITIES = ("softmax", "log_softmax", "logsoftmax")
ACTOR_CRITIC = {"policy_logits", "values"}


def find_heads(names: Sequence[str | None], widths: Sequence[int | None]) -> tuple[str, ...]:
    """What each output is, by its name or else by its width; a width of None is that of a (B,).

    Two outputs are logits and a value, one alone is action values. Raises OptionError if that is not clear.
    """
    by_name = [_head_called(name) for name in names]
    if set(by_name) == ACTOR_CRITIC or by_name == ["q_values"]:
        return tuple(head for head in by_name if head)
    if len(widths) == 2 and sum(_is_value(width) for width in widths) == 1:
        return tuple("values" if _is_value(width) else "policy_logits" for width in widths)
    if len(widths) == 1 and not _is_value(widths[0]) and by_name[0] is None:
        return ("q_values",)
    shown = ", ".join(f"{name or 'one'} of width {width or 1}" for name, width in zip(names, widths, strict=True))
    raise OptionError(
        f"the network's outputs are {shown or 'none'}: a policy's logits and a value, or action values alone, are "
        "needed. heads=('policy_logits', 'values') or heads=('q_values',) says which is which"
    )


def check_heads(heads: Sequence[str], count: int) -> tuple[str, ...]:
    """The heads that a user gave for a network of so many; raises OptionError if there is no such combination."""
    if set(heads) != ACTOR_CRITIC and tuple(heads) != ("q_values",):
        raise OptionError(
            f"heads={tuple(heads)!r}: either 'policy_logits' and 'values', in the network's order, or 'q_values'"
        )
    if len(heads) != count:
        raise OptionError(f"heads={tuple(heads)!r} are {len(heads)} outputs; the network has {count}")
    return tuple(heads)


def head_width(tensor: Any) -> int | None:
    """Columns of an output of a Keras model; None for a (B,)."""
    if len(tensor.shape) > 2:
        raise OptionError(
            f"an output of the model has the shape {tuple(tensor.shape)}; (batch, n) or (batch,) is needed"
        )
    return int(tensor.shape[-1]) if len(tensor.shape) == 2 else None


def head_output(head: str, tensor: Any) -> Any:
    """An output of a Keras model as (B, n); raises OptionError for a wide value, and for a policy's probabilities."""
    import keras

    if head == "values" and head_width(tensor) not in (None, 1):
        raise OptionError(f"the output for the value has {head_width(tensor)} columns; it has one")
    operation = operation_of(tensor)
    activation = getattr(getattr(operation, "activation", None), "__name__", type(operation).__name__.lower())
    if head == "policy_logits" and activation in PROBABILITIES:
        raise OptionError(
            f"the policy's output {operation.name!r} gives probabilities ({activation}); a model is needed whose "
            "output is the logits before them: keras.Model(model.input, [logits, value])"
        )
    return tensor if len(tensor.shape) == 2 else keras.layers.Reshape((1,))(tensor)


def _head_called(name: str | None) -> str | None:
    cleaned = (name or "").lower().replace(".", "/").rpartition("/")[2]
    return next((head for head, pattern in PATTERNS if re.fullmatch(pattern, cleaned)), None)


def _is_value(width: int | None) -> bool:
    return width in (None, 1)
