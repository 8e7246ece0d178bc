"""Identify the outputs of a network: policy logits, a value, or action values."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from rl_clarity.agents.graph import value_operation
from rl_clarity.base.errors import OptionError

PATTERNS = (
    ("q_values", r"q|q_?values?|q_?net(work)?|action_?values?"),
    ("values", r"v|vf|values?|critic|baseline|.*(state_?value|value|vf|critic)"),
    ("policy_logits", r"pi|logits?|actor|policy|actions?|.*(logits|policy|actor)"),
)
"""Regular expressions for names of outputs, in the order in which they are tried."""
PROBABILITIES = ("softmax", "log_softmax", "logsoftmax")
PROBABILITY_NAMES = r"(.*[_/.])?(probs?|probabilit(y|ies))|.*_probs?(_.*)?"
"""Names of outputs that are probabilities instead of logits."""
ACTOR_CRITIC = {"policy_logits", "values"}
AGENTS = (ACTOR_CRITIC, {"policy_logits"}, {"q_values"})
"""The combinations of heads that an agent may have."""


def find_heads(names: Sequence[str | None], widths: Sequence[int | None]) -> tuple[str, ...]:
    """Return the head for each output, inferred from the output's name, or otherwise from its width, which is None for
    the shape (B,).

    Two outputs are logits and a value. A single output is action values if it has a name such as `q_values`. Raises
    OptionError for ambiguous outputs, and for an output whose name says that it contains probabilities.
    """
    for name in names:
        if re.fullmatch(PROBABILITY_NAMES, (name or "").lower()):
            raise probabilities_error(str(name), "according to its name")
    by_name = [_head_from_name(name) for name in names]
    if (set(by_name) == ACTOR_CRITIC and len(by_name) == 2) or by_name == ["q_values"]:
        return tuple(head for head in by_name if head)
    if len(widths) == 2 and sum(_is_value(width) for width in widths) == 1:
        return tuple("values" if _is_value(width) else "policy_logits" for width in widths)
    outputs = ", ".join(f"{name or 'unnamed'} of width {width or 1}" for name, width in zip(names, widths, strict=True))
    if widths and all(_is_value(width) for width in widths):
        hint = (
            "If the only output is a value, return it as (batch, 1) and pass heads=('q_values',), for a single action"
        )
    elif len(widths) == 1:
        hint = (
            "Name it with heads=('q_values',) for action values, the largest of which is played, or "
            "heads=('policy_logits',) for the logits of a policy without a value. If the network has a value, too, "
            "return both"
        )
    else:
        hint = (
            "Name them with heads=('policy_logits', 'values'), heads=('policy_logits',) or heads=('q_values',), and "
            "None for each output to ignore. For continuous actions, return the means in place of logits; for several "
            "choices, concatenate their logits to (batch, n). The argument actions describes them"
        )
    raise OptionError(
        f"the network's outputs are {outputs or 'none'}; policy logits and a value, logits alone, or action values "
        f"alone are needed. {hint}"
    )


def check_heads(heads: Sequence[str | None], count: int) -> tuple[str | None, ...]:
    """Return the heads that a user named for a network with `count` outputs, with None for outputs to ignore.

    Raises OptionError for combinations that an agent cannot have, and if the number of names differs from `count`.
    """
    heads = (heads,) if isinstance(heads, str) else tuple(heads)
    named = [head for head in heads if head is not None]
    if set(named) not in AGENTS or len(named) > len({*named}):
        raise OptionError(
            f"heads={heads!r} must be 'policy_logits' and 'values', in the network's order, 'policy_logits' alone or "
            "'q_values', with None for every output to ignore"
        )
    if len(heads) != count:
        raise OptionError(f"heads={heads!r} has {len(heads)} entries, but the network has {count} outputs")
    return heads


def check_width(head: str, width: int | None) -> None:
    """Raise OptionError for a value with several columns, and for logits or action values (B,) without an action
    axis.
    """
    if head == "values" and not _is_value(width):
        raise OptionError(f"the output for the value has {width} columns; it must have one")
    if head != "values" and width is None:
        raise OptionError(f"the output for {head} has the shape (batch,); it must be (batch, actions)")


def probabilities_error(name: str, how: str) -> OptionError:
    """Return the error for a network that returns probabilities instead of logits."""
    return OptionError(
        f"the output {name!r} contains probabilities ({how}). Use a network that returns the logits instead, such as "
        "keras.Model(model.input, [logits, value]), or a module whose forward has no softmax"
    )


def head_width(tensor: Any) -> int | None:
    """Return the number of columns of an output of a Keras model, or None for an output (B,)."""
    if len(tensor.shape) > 2:
        raise OptionError(
            f"an output of the model has the shape {tuple(tensor.shape)}; it must be (batch, n) or (batch,)"
        )
    return int(tensor.shape[-1]) if len(tensor.shape) == 2 else None


def head_output(head: str, tensor: Any) -> Any:
    """Return an output of a Keras model as (B, n). Raises OptionError for a value with several columns, and for
    probabilities.
    """
    import keras

    check_width(head, head_width(tensor))
    operation = value_operation(tensor)
    activation = getattr(getattr(operation, "activation", None), "__name__", type(operation).__name__.lower())
    if head != "values" and activation in PROBABILITIES:
        raise probabilities_error(operation.name, activation)
    return tensor if len(tensor.shape) == 2 else keras.layers.Reshape((1,))(tensor)


def _head_from_name(name: str | None) -> str | None:
    cleaned = (name or "").lower().replace(".", "/").rpartition("/")[2]
    return next((head for head, pattern in PATTERNS if re.fullmatch(pattern, cleaned)), None)


def _is_value(width: int | None) -> bool:
    return width in (None, 1)
