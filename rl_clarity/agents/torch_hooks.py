"""Look into a PyTorch module while it runs: which of its parts give pictures, which of those by-pass which.

Every part that a module calls can be read and replaced by a forward hook. Which part another one by-passes is read from
autograd: what still requires a gradient, when a part's result does not, is reached without it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

Hook = Callable[["Call", Any], Any]
KINDS = {"maxpool2d": "maxpool", "avgpool2d": "avgpool", "adaptiveavgpool2d": "avgpool", "adaptivemaxpool2d": "maxpool"}


@dataclass(frozen=True)
class Call:
    """One call of a part of a module; a part may be called more than once."""

    module: str
    index: int
    kind: str

    @property
    def name(self) -> str:
        return self.module if self.index == 0 else f"{self.module}_{self.index}"


@contextmanager
def hooked(module: Any, hook: Hook) -> Iterator[None]:
    """Within, `hook(call, result)` sees each picture (B, C, h, w) that a part gives, and may give another for it."""
    counts: dict[str, int] = {}
    handles = []

    def listen(name: str) -> Callable[..., Any]:
        def listener(part: Any, _arguments: Any, result: Any) -> Any:
            index = counts.get(name, 0)
            counts[name] = index + 1
            if getattr(result, "ndim", None) != 4:
                return None
            kind = type(part).__name__.lower()
            return hook(Call(name, index, KINDS.get(kind, kind)), result)

        return listener

    try:
        for name, part in module.named_modules():
            if name:
                handles.append(part.register_forward_hook(listen(name)))
        yield
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def frozen(module: Any) -> Iterator[None]:
    """Within, nothing requires a gradient because of the module's parameters."""
    learning = [parameter for parameter in module.parameters() if parameter.requires_grad]
    try:
        for parameter in learning:
            parameter.requires_grad_(False)
        yield
    finally:
        for parameter in learning:
            parameter.requires_grad_(True)


def calls_of(module: Any, run: Callable[[], Any]) -> list[tuple[Call, tuple[int, ...]]]:
    """The calls that give a picture of their own, with its shape (C, h, w), in the order of computation."""
    found: list[tuple[Call, tuple[int, ...]]] = []
    seen: list[tuple[Any, int]] = []

    def note(call: Call, result: Any) -> None:
        version = result._version  # of a tensor that parts change in place
        # A container gives what the last of its parts gave: that is not a picture of its own.
        if not any(result is other and version == its_version for other, its_version in seen):
            found.append((call, tuple(map(int, result.shape[1:]))))
        seen.append((result, version))

    with hooked(module, note):
        run()
    return found


def after_bottleneck(module: Any, calls: list[Call], run: Callable[[Any], list[Any]], observations: Any) -> list[bool]:
    """For each call: whether every path from an earlier convolution to it passes through a bottleneck.

    `run` gives the heads. A bottleneck is a call without which no path leads from the observations to any head; where
    there is none, because the heads share nothing, to one of the heads.
    """
    with frozen(module):
        reached = [_heads_reached(module, call, run, observations) for call in calls]
        narrow = {call for call, heads in zip(calls, reached, strict=True) if not any(heads)}
        if not narrow:
            narrow = {call for call, heads in zip(calls, reached, strict=True) if not all(heads)}
        wide = {call for call in calls if call.kind == "conv2d"} - narrow
        bypassed = _reached_from(module, wide, narrow, run, observations)
    return [call in narrow or call not in bypassed for call in calls]


def _heads_reached(module: Any, without: Call, run: Callable[[Any], list[Any]], observations: Any) -> list[bool]:
    def cut(call: Call, result: Any) -> Any:
        return result.detach() if call == without else None

    with hooked(module, cut):
        return [bool(head.requires_grad) for head in run(observations.clone().requires_grad_(True))]


def _reached_from(
    module: Any, sources: set[Call], barriers: set[Call], run: Callable[[Any], list[Any]], observations: Any
) -> set[Call]:
    reached: set[Call] = set()

    def follow(call: Call, result: Any) -> Any:
        if result.requires_grad:
            reached.add(call)
        if call in sources:
            return result.detach().requires_grad_(True).clone()  # a copy: what follows may work in place
        return result.detach() if call in barriers else None

    with hooked(module, follow):
        run(observations)
    return reached
