"""Intercept the calls of a PyTorch module's submodules while it runs, to read, replace and reuse their results.

In the context `followed`, the `forward` of each submodule is replaced on the instance. A trial run (`trace`) finds out
which calls return new tensors, and which repeat an earlier call with the same input. A repeated call returns
the result of the earlier one instead of computing it again, so a network that is called twice (`actor(net(x)),
critic(net(x))`) is explained as one that is called once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from operator import methodcaller
from typing import Any

KINDS = {"maxpool2d": "maxpool", "avgpool2d": "avgpool", "adaptiveavgpool2d": "avgpool", "adaptivemaxpool2d": "maxpool"}
KINDS |= {"linear": "dense"}

Arguments = tuple[tuple[Any, ...], dict[str, Any]]


@dataclass(frozen=True)
class Call:
    """A call of a submodule. Calls of the same submodule are counted by `index`, from 0."""

    module: str
    index: int
    kind: str

    @property
    def name(self) -> str:
        return self.module if self.index == 0 else f"{self.module}_{self.index}"


@dataclass(frozen=True)
class Traced:
    """Facts about a call from a trial run."""

    start: int
    """Number of calls that ended before this call began."""
    inner: tuple[Call, ...] = ()
    """The calls inside this call."""
    in_place: bool = False
    """Whether the call changes its input and returns it, like `nn.ReLU(inplace=True)`."""
    reusable: bool = True
    """Whether the result can replace the call: the call changes no argument, or only its input in place."""
    shape: tuple[int, ...] | None = None
    """Shape of the returned tensor (batch, ...), or None if the call returns something else or the tensor of an inner
    call."""
    dtype: Any = None


@dataclass
class Trace:
    """The calls of a trial run, in the order in which they end."""

    calls: dict[Call, Traced] = field(default_factory=dict)
    repeats: dict[Call, Call] = field(default_factory=dict)
    """Maps each call with the same input as an earlier call to that earlier call."""

    @property
    def sites(self) -> list[Call]:
        return [call for call, traced in self.calls.items() if traced.shape is not None]

    def before(self, call: Call) -> frozenset[Call]:
        """Return the outermost calls that ended before a call began, and whose results can replace them."""
        earlier = list(self.calls.items())[: self.calls[call].start]
        chosen = {other: traced for other, traced in earlier if traced.reusable}
        inside = {inner for traced in chosen.values() for inner in traced.inner}
        return frozenset(set(chosen) - inside)


def token_grids(trace: Trace) -> dict[Call, tuple[int, int]]:
    """Return the grid (h, w) of each call that returns tokens (B, h x w, c), one for each position of an earlier
    feature map.

    Image transformers turn each position of a convolution's result into a token, row by row.
    """
    grids: dict[Call, tuple[int, int]] = {}
    sizes: dict[int, tuple[int, int]] = {}
    for call in trace.sites:
        shape = trace.calls[call].shape or ()
        if len(shape) == 4:
            sizes[shape[2] * shape[3]] = shape[2:]
        elif len(shape) == 3 and shape[1] in sizes and call.kind != "flatten":
            grids[call] = sizes[shape[1]]
    return grids


@contextmanager
def followed(
    module: Any, intercept: Callable[[Call, Arguments, Callable[..., Any]], Any], names: Iterable[str] | None = None
) -> Iterator[Counter[str]]:
    """In the block, let `intercept(call, arguments, compute)` return the result of each call of a submodule.

    `compute()` calls the submodule; `compute(x)` calls it with another tensor as its first argument. `names` are the
    submodules to intercept, by default all. Yields the number of calls of each submodule so far.
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

    try:
        for name in [name for name, _ in module.named_modules()] if names is None else set(names):
            if name:
                part = module.get_submodule(name)
                attributes = part.__dict__
                before = attributes.get("forward")
                attributes["forward"] = follow(name, part)
                replaced.append((attributes, before))
        yield counts
    finally:
        for attributes, before in replaced:
            del attributes["forward"]
            if before is not None:
                attributes["forward"] = before


def trace(module: Any, run: Callable[[], Any], batch: int, *, merge: bool = True) -> Trace:
    """Return the calls that `run` makes, for `batch` observations. With `merge=False`, no call counts as repeated."""
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
        adds = list(map(id, tensors_in(arguments))) != list(map(id, inputs))  # to a dict of tensors, as in TorchRL
        in_place = changed == {id(computed)} and computed is next(iter(arguments[0]), None)
        shape = None
        if _is_tensor(computed):
            new = not any(computed is other and computed._version == version for other, version in seen)
            shape = tuple(computed.shape) if new and computed.ndim > 0 and len(computed) == batch else None
            seen.append((computed, computed._version))
        reusable = in_place or not (changed or adds)
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
    """In the block, reuse the results of repeated calls, and read or replace results.

    `read(call, result)` receives the results of the calls in `reading`, by default of all calls, and may return other
    results to use instead. Calls in `replace` return the results there and are not computed. `edits` maps calls to
    functions that change their computed results.
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
            # Edits in place get a copy, because the gradient needs the values before the edit.
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
    """Return a copy of an earlier result. If the call works in place, its input changes, too."""
    return arguments[0][0].copy_(result) if in_place else copied(result)


def _is_tensor(item: Any) -> bool:
    return hasattr(item, "_version")  # a TensorDict has the other methods of tensors, too


def tensors_in(item: Any) -> Iterator[Any]:
    """Yield the tensors in tuples, lists and mappings, such as dicts and TensorDicts."""
    if _is_tensor(item):
        yield item
    elif isinstance(item, list | tuple):
        for part in item:
            yield from tensors_in(part)
    elif isinstance(item, Mapping):
        for part in item.values():
            yield from tensors_in(part)


def copied(item: Any, change: Callable[[Any], Any] = methodcaller("clone")) -> Any:
    """Return the same structure with `change` applied to its tensors. By default they are copied, and gradients flow
    through the copies.
    """
    if _is_tensor(item) or (isinstance(item, Mapping) and hasattr(item, "clone")):
        return change(item)
    if isinstance(item, tuple) and hasattr(item, "_fields"):
        return type(item)(*(copied(part, change) for part in item))
    if type(item) in (list, tuple):
        return type(item)(copied(part, change) for part in item)
    return {name: copied(part, change) for name, part in item.items()} if type(item) is dict else item


def _same(one: Any, other: Any) -> bool:
    """Return whether two arguments are equal; tensors are compared by their elements."""
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if _is_tensor(one):
        return one.dtype == other.dtype and one.shape == other.shape and bool((one == other).all())
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    return isinstance(one, int | float | str) and one == other
