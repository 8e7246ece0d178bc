"""Names of layers: full as TensorFlow 1 wrote them, short as people read them."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from rl_clarity.agents.protocol import Operation
from rl_clarity.errors import OptionError

ACTIVATIONS = (
    "relu",
    "relu6",
    "leakyrelu",
    "prelu",
    "elu",
    "selu",
    "celu",
    "gelu",
    "silu",
    "mish",
    "hardswish",
    "tanh",
)


def short_names(names: Sequence[str]) -> list[str]:
    """The names less their longest common prefix and suffix, cut at `/`; a single name keeps its last component."""
    parts = [name.split("/") for name in names]
    if len(parts) < 2:
        return [name[-1] for name in parts]
    shortest = min(map(len, parts))
    prefix = 0
    while prefix < shortest - 1 and len({tuple(name[: prefix + 1]) for name in parts}) == 1:
        prefix += 1
    suffix = 0
    while prefix + suffix < shortest - 1 and len({tuple(name[len(name) - suffix - 1 :]) for name in parts}) == 1:
        suffix += 1
    return ["/".join(name[prefix : len(name) - suffix]) for name in parts]


def shown_kinds(operations: Sequence[Operation]) -> tuple[str, ...]:
    """Kinds of operation that are a network's layers: ReLUs; if it has none, other activations, or convolutions."""
    kinds = {operation.kind for operation in operations}
    if "relu" in kinds:
        return ("relu",)
    return tuple(kind for kind in ACTIVATIONS if kind in kinds) or ("conv2d",)


def layers_of(operations: Sequence[Operation]) -> dict[str, tuple[int, int, int]]:
    """Shapes of a network's layers by short name."""
    shown = shown_kinds(operations)
    chosen = [operation for operation in operations if operation.kind in shown]
    names = short_names([operation.name for operation in chosen])
    return {name: operation.shape for name, operation in zip(names, chosen, strict=True)}


def find_operation(operations: Sequence[Operation], name: str) -> Operation:
    """The operation of that full name, of that short name among those of its kind, or the only one with that part."""
    for operation in operations:
        if name in (operation.name, operation.name.replace("/", ".")):  # PyTorch's names have dots
            return operation
    shown = shown_kinds(operations)
    kinds = sorted({operation.kind for operation in operations}, key=lambda kind: (kind not in shown, kind))
    for kind in kinds:  # those that are shown first
        for narrow in (False, True):
            chosen = [operation for operation in operations if operation.kind == kind]
            if narrow:
                chosen = [operation for operation in chosen if operation.after_bottleneck]
            for short, operation in zip(short_names([o.name for o in chosen]), chosen, strict=True):
                if short == name:
                    return operation
    inside = [operation for operation in operations if f"/{name}/" in f"/{operation.name}/"]
    if len(inside) == 1:  # a short name among operations of several kinds
        return inside[0]
    layers = list(layers_of(operations))
    near = difflib.get_close_matches(name, layers, n=1, cutoff=0.4)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise OptionError(f"no layer is called {name!r}; there are {', '.join(layers)}{hint}")
