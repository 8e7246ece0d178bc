"""Which output of a network is which: a policy's logits, a value, or action values."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from rl_clarity.errors import OptionError
from rl_clarity.networks.graph import origin_of

HEADS = ("policy_logits", "values", "q_values")
PATTERNS = (
    ("q_values", r"q|q_?values?|q_?net(work)?|action_?values?"),
    ("values", r"v|vf|values?|critic|baseline|.*(state_?value|value|vf|critic)"),
    ("policy_logits", r"pi|logits?|actor|policy|actions?|.*(logits|policy|actor)"),
)
"""Tried in this order."""
PROBABILITIES = ("softmax", "log_softmax", "logsoftmax")
PROBABLE = r"(.*[_/.])?(probs?|probabilit(y|ies))|.*_probs?(_.*)?"
"""Names of outputs that are not a policy's logits."""
ACTOR_CRITIC = {"policy_logits", "values"}


def find_heads(names: Sequence[str | None], widths: Sequence[int | None]) -> tuple[str, ...]:
    """What each output is, by its name or else by its width; a width of None is that of a (B,).

    Two outputs are logits and a value, one alone is action values. Raises OptionError if that is not clear.
    """
    for name in names:
        if re.fullmatch(PROBABLE, (name or "").lower()):
            raise gives_probabilities(str(name), "by its name")
    by_name = [_head_called(name) for name in names]
    if (set(by_name) == ACTOR_CRITIC and len(by_name) == 2) or by_name == ["q_values"]:
        return tuple(head for head in by_name if head)
    if len(widths) == 2 and sum(_is_value(width) for width in widths) == 1:
        return tuple("values" if _is_value(width) else "policy_logits" for width in widths)
    if len(widths) == 1 and not _is_value(widths[0]) and by_name[0] is None:
        return ("q_values",)
    shown = ", ".join(f"{name or 'one'} of width {width or 1}" for name, width in zip(names, widths, strict=True))
    raise OptionError(
        f"the network's outputs are {shown or 'none'}: a policy's logits and a value, or action values alone, are "
        "needed. heads=('policy_logits', 'values') or heads=('q_values',) says which is which, with None in the place "
        "of an output to leave out"
    )


def check_heads(heads: Sequence[str | None], count: int) -> tuple[str | None, ...]:
    """The heads that a user gave for a network of so many outputs, None for those to leave out.

    Raises OptionError if there is no such combination.
    """
    heads = (heads,) if isinstance(heads, str) else tuple(heads)
    named = [head for head in heads if head is not None]
    if sorted(named) not in (sorted(ACTOR_CRITIC), ["q_values"]):
        raise OptionError(
            f"heads={heads!r}: either 'policy_logits' and 'values', in the network's order, or 'q_values', and None "
            "for every output to leave out"
        )
    if len(heads) != count:
        raise OptionError(f"heads={heads!r} are {len(heads)} outputs; the network has {count}")
    return heads


def check_width(head: str, width: int | None) -> None:
    """Raises OptionError for a value of several columns, and for logits or action values without an axis of actions."""
    if head == "values" and not _is_value(width):
        raise OptionError(f"the output for the value has {width} columns; it has one")
    if head != "values" and width is None:
        raise OptionError(f"the output for {head} has the shape (batch,); (batch, actions) is needed")


def gives_probabilities(name: str, how: str) -> OptionError:
    """The error for a policy's output that is no logits."""
    return OptionError(
        f"the output {name!r} gives probabilities ({how}); a model is needed whose output is the logits "
        "before them: keras.Model(model.input, [logits, value]), or a module whose forward leaves the softmax out"
    )


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

    check_width(head, head_width(tensor))
    operation = origin_of(tensor)
    activation = getattr(getattr(operation, "activation", None), "__name__", type(operation).__name__.lower())
    if head != "values" and activation in PROBABILITIES:
        raise gives_probabilities(operation.name, activation)
    return tensor if len(tensor.shape) == 2 else keras.layers.Reshape((1,))(tensor)


def _head_called(name: str | None) -> str | None:
    cleaned = (name or "").lower().replace(".", "/").rpartition("/")[2]
    return next((head for head, pattern in PATTERNS if re.fullmatch(pattern, cleaned)), None)


def _is_value(width: int | None) -> bool:
    return width in (None, 1)
