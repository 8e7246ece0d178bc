"""Follow the calls of a PyTorch module's parts while it runs: read, replace and reuse their results.

While `followed`, the `forward` of each part is replaced on the instance. A trial run finds the calls (`trace`): which
of them return tensors of their own, and which repeat an earlier call with the same input. A repeated call is not
computed again but returns the earlier result, so that a network that is called twice
(`actor(net(x)), critic(net(x))`) is the network that is called once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

KINDS = {"maxpool2d": "maxpool", "avgpool2d": "avgpool", "adaptiveavgpool2d": "avgpool", "adaptivemaxpool2d": "maxpool"}
KINDS |= {"linear": "dense"}

Arguments = tuple[tuple[Any, ...], dict[str, Any]]


@dataclass(frozen=True)
class Call:
    """One call of a part of a module; a part may be called more than once."""

    module: str
    index: int
    kind: str

    @property
    def name(self) -> str:
        return self.module if self.index == 0 else f"{self.module}_{self.index}"


@dataclass(frozen=True)
class Traced:
    """What a trial run shows about a call."""

    start: int
    """Calls that ended before it began."""
    inner: tuple[Call, ...] = ()
    """Calls inside it."""
    in_place: bool = False
    """It changes its input and returns it, as `nn.ReLU(inplace=True)` does."""
    reusable: bool = True
    """Its result can stand for the call, which has no other effect on its input."""
    shape: tuple[int, ...] | None = None
    """Of a tensor (batch, ...) of its own; None for other results, and for containers, which return their part's."""
    dtype: Any = None


@dataclass
class Trace:
    """The calls of a trial run, in the order in which they end."""

    calls: dict[Call, Traced] = field(default_factory=dict)
    repeats: dict[Call, Call] = field(default_factory=dict)
    """Calls that have the same input as an earlier call, and that call."""

    @property
    def sites(self) -> list[Call]:
        return [call for call, traced in self.calls.items() if traced.shape is not None]

    def before(self, call: Call) -> frozenset[Call]:
        """Return the outermost calls that end before a call begins, and that their results can stand for."""
        earlier = list(self.calls.items())[: self.calls[call].start]
        chosen = {other: traced for other, traced in earlier if traced.reusable}
        inside = {inner for traced in chosen.values() for inner in traced.inner}
        return frozenset(set(chosen) - inside)


@contextmanager
def followed(
    module: Any, intercept: Callable[[Call, Arguments, Callable[..., Any]], Any], names: Iterable[str] | None = None
) -> Iterator[Counter[str]]:
    """Within, `intercept(call, arguments, compute)` returns the result of each call of a part.

    `compute()` calls the part; `compute(x)` does with another tensor as its first argument.
    `names` are the parts to follow, by default all. Yields how often each part has been called.
    """
    counts: Counter[str] = Counter()
    replaced: list[tuple[dict[str, Any], Any]] = []

    def follow(name: str, part: Any) -> Callable[..., Any]:
        forward, kind = part.forward, type(part).__name__.lower()

        def called(*arguments: Any, **options: Any) -> Any:
            call = Call(name, counts[name], KINDS.get(kind, kind))
            counts[name] += 1
            return intercept(
                call, (arguments, options), lambda *first: forward(*first, *arguments[len(first) :], **options)
            )

        return called

    parts = dict(module.named_modules())
    try:
        for name in parts if names is None else set(names):
            if name:
                attributes = parts[name].__dict__
                before = attributes.get("forward")
                attributes["forward"] = follow(name, parts[name])
                replaced.append((attributes, before))
        yield counts
    finally:
        for attributes, before in replaced:
            del attributes["forward"]
            if before is not None:
                attributes["forward"] = before


def trace(module: Any, run: Callable[[], Any], batch: int, *, merge: bool = True) -> Trace:
    """Return the calls of `run`, on a batch of that size; `merge=False` finds no repeated calls."""
    result = Trace()
    kept: dict[str, list[tuple[Call, Arguments, Any]]] = {}
    active: list[list[Call]] = []
    seen: list[tuple[Any, int]] = []

    def intercept(call: Call, arguments: Arguments, compute: Callable[..., Any]) -> Any:
        for calls in active:
            calls.append(call)
        start = len(result.calls)
        for first, its_arguments, its_result in kept.get(call.module, ()):
            if _same(its_arguments, arguments):
                in_place = result.calls[first].in_place
                result.calls[call], result.repeats[call] = Traced(start, in_place=in_place), first
                return _reuse(its_result, arguments, in_place)
        inputs = list(tensors_in(arguments))
        versions = [tensor._version for tensor in inputs]
        before = copied(arguments)
        active.append([])
        computed = compute()
        inner = tuple(active.pop())
        changed = {id(tensor) for tensor, version in zip(inputs, versions, strict=True) if tensor._version != version}
        in_place = changed == {id(computed)} and computed is next(iter(arguments[0]), None)
        shape = None
        if hasattr(computed, "detach"):
            new = not any(computed is other and computed._version == version for other, version in seen)
            shape = tuple(computed.shape) if new and computed.ndim > 0 and len(computed) == batch else None
            seen.append((computed, computed._version))
        reusable = in_place or not changed
        result.calls[call] = Traced(start, inner, in_place, reusable, shape, getattr(computed, "dtype", None))
        if merge and reusable:
            kept.setdefault(call.module, []).append((call, before, copied(computed)))
        return computed

    with followed(module, intercept):
        run()
    return result


@contextmanager
def following(
    module: Any,
    calls: Trace,
    *,
    read: Callable[[Call, Any], Any] | None = None,
    reading: Iterable[Call] | None = None,
    replace: Mapping[Call, Any] | None = None,
    edits: Mapping[Call, Callable[[Any], Any]] | None = None,
) -> Iterator[None]:
    """Within, a run of the module computes no repeated call again, and its results can be read and replaced.

    `read(call, result)` gets the results of the calls `reading`, by default of all, and may return others in their
    place. Results of the calls in `replace` are not computed; those of the calls in `edits` that are computed are
    replaced by what the function of the call returns for them.
    """
    replace, edits = replace or {}, edits or {}
    listened = set(calls.calls) if reading is None else set(reading)
    wanted = listened - set(replace)
    kept: dict[Call, Any] = {}
    repeated = set(calls.repeats.values())
    parts = {call.module for call in {*listened, *replace, *repeated, *calls.repeats, *edits}}

    def intercept(call: Call, arguments: Arguments, compute: Callable[..., Any]) -> Any:
        traced = calls.calls.get(call)
        if traced is None:  # not called in the trial run
            return compute()
        first = calls.repeats.get(call)
        if call in replace or first in kept:
            result = replace[call] if call in replace else kept[first]  # type: ignore[index]
            if wanted.isdisjoint(traced.inner):
                counts.update(inner.module for inner in traced.inner)
            else:
                compute()
            result = _reuse(result, arguments, traced.in_place)
        elif call in edits:
            # In place, a copy is computed with: its gradient needs the values before the edit.
            result = edits[call](compute(arguments[0][0].clone()) if traced.in_place else compute())
            result = _reuse(result, arguments, traced.in_place)
        else:
            result = compute()
        if call in listened and read is not None:
            changed = read(call, result)
            result = result if changed is None else changed
        if call in repeated:
            kept[call] = copied(result)
        return result

    with followed(module, intercept, parts) as counts:
        yield


def _reuse(result: Any, arguments: Arguments, in_place: bool) -> Any:
    """Return a copy of a result in the place of a call; a call that works in place changes its input, too."""
    return arguments[0][0].copy_(result) if in_place else copied(result)


def tensors_in(item: Any) -> Iterator[Any]:
    """Yield the tensors in tuples, lists and dicts."""
    if hasattr(item, "detach"):
        yield item
    elif isinstance(item, list | tuple):
        for part in item:
            yield from tensors_in(part)
    elif isinstance(item, Mapping):
        for part in item.values():
            yield from tensors_in(part)


def copied(item: Any) -> Any:
    """Return the same structure with copies of its tensors, which have the same gradients."""
    if hasattr(item, "detach"):
        return item.clone()
    if isinstance(item, tuple) and hasattr(item, "_fields"):
        return type(item)(*map(copied, item))
    if type(item) in (list, tuple):
        return type(item)(map(copied, item))
    return {name: copied(part) for name, part in item.items()} if type(item) is dict else item


def _same(one: Any, other: Any) -> bool:
    """Return whether two arguments are equal, tensors in all elements."""
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if hasattr(one, "detach"):
        return one.dtype == other.dtype and one.shape == other.shape and bool((one == other).all())
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    return isinstance(one, int | float | str) and one == other
