"""Names of layers: full as TensorFlow 1 wrote them, short as people read them."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from rl_clarity.agents.protocol import Operation
from rl_clarity.errors import OptionError


def short_names(names: Sequence[str]) -> list[str]:
    """The names less their longest common prefix and suffix, both cut at `/`; a single name keeps its last component."""
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


def find_operation(operations: Sequence[Operation], name: str) -> Operation:
    """The operation of that full name, of that short name among those of its kind, or whose name alone has that part."""
    for operation in operations:
        if operation.name == name:
            return operation
    kinds = sorted({operation.kind for operation in operations}, key=lambda kind: kind != "relu")
    for kind in kinds:  # ReLUs first: their short names are the ones that are shown
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
    relus = short_names([operation.name for operation in operations if operation.kind == "relu"])
    near = difflib.get_close_matches(name, relus, n=1, cutoff=0.4)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise OptionError(f"no layer is called {name!r}; there are {', '.join(relus)}{hint}")
