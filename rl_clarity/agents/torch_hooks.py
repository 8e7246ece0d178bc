"""Read and replace the results of a PyTorch module's parts while it runs; find out which parts bypass which.

Every part that a module calls is reached by a forward hook. Which parts bypass another one is read from autograd: what
still requires a gradient, when the other part's result does not, is reached without it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

Hook = Callable[["Call", Any], Any]
Run = Callable[[Any], list[Any]]
KINDS = {"maxpool2d": "maxpool", "avgpool2d": "avgpool", "adaptiveavgpool2d": "avgpool", "adaptivemaxpool2d": "maxpool"}
KINDS |= {"linear": "dense"}


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
def hooked(module: Any, hook: Hook, names: Iterable[str] | None = None) -> Iterator[None]:
    """Pass each tensor that a part returns to `hook(call, result)`, which may return another in its place.

    `names` are the parts to listen to, by default all.
    """
    counts: dict[str, int] = {}
    handles = []

    def listen(name: str) -> Callable[..., Any]:
        def listener(part: Any, _arguments: Any, result: Any) -> Any:
            index = counts.get(name, 0)
            counts[name] = index + 1
            if not hasattr(result, "detach"):  # a tuple, of a recurrent part
                return None
            kind = type(part).__name__.lower()
            return hook(Call(name, index, KINDS.get(kind, kind)), result)

        return listener

    parts = dict(module.named_modules())
    try:
        for name in parts if names is None else set(names):
            if name:
                handles.append(parts[name].register_forward_hook(listen(name)))
        yield
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def frozen(module: Any) -> Iterator[None]:
    """Within, nothing requires a gradient because of the module's parameters."""
    trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
    try:
        for parameter in trained:
            parameter.requires_grad_(False)
        yield
    finally:
        for parameter in trained:
            parameter.requires_grad_(True)


def record_calls(module: Any, run: Callable[[], Any], batch: int) -> list[tuple[Call, tuple[int, ...]]]:
    """The calls whose results are new tensors (batch, ...), with the shape of a row, in the order of computation."""
    calls: list[tuple[Call, tuple[int, ...]]] = []
    seen: list[tuple[Any, int]] = []

    def record(call: Call, result: Any) -> None:
        version = result._version  # of a tensor that parts change in place
        # A container returns what the last of its parts returned: not a tensor of its own.
        new = not any(result is other and version == its_version for other, its_version in seen)
        if new and result.ndim > 0 and len(result) == batch:
            calls.append((call, tuple(map(int, result.shape[1:]))))
        seen.append((result, version))

    with hooked(module, record):
        run()
    return calls


def after_bottleneck(module: Any, calls: Sequence[Call], run: Run, observations: Any) -> list[bool]:
    """For each call: whether every path from an earlier convolution to it passes through a bottleneck.

    `run` returns the heads. A bottleneck is a call without which no path leads from the observations to any head; where
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


def _heads_reached(module: Any, without: Call, run: Run, observations: Any) -> list[bool]:
    def cut(call: Call, result: Any) -> Any:
        return result.detach() if call == without else None

    with hooked(module, cut, [without.module]):
        return [bool(head.requires_grad) for head in run(observations.clone().requires_grad_(True))]


def _reached_from(module: Any, sources: set[Call], barriers: set[Call], run: Run, observations: Any) -> set[Call]:
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
