"""Find out which submodules of a PyTorch module bypass others, and which heads they reach.

This uses autograd: the result of a call is detached. A head that still requires a gradient is reached without the call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rl_clarity.agents.torch_calls import Call, Trace, following

Run = Callable[[Any], list[Any]]
"""A run of the module from observations to heads."""


@contextmanager
def frozen(module: Any) -> Iterator[None]:
    """Disable the gradients of the module's parameters in the block."""
    trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
    try:
        for parameter in trained:
            parameter.requires_grad_(False)
        yield
    finally:
        for parameter in trained:
            parameter.requires_grad_(True)


def call_paths(module: Any, trace: Trace, run: Run, observations: Any) -> list[tuple[bool, bool]]:
    """Return `after_bottleneck` and `bypassed` for each site, as defined in `Site`.

    A bottleneck is a call that is on every path from the observations to the heads. If the heads have no such call in
    common, it is a call that is on every path to one of the heads.
    """
    calls = trace.sites
    with frozen(module):
        reached = [heads_reached(module, trace, call, run, observations) for call in calls]
        narrow = {call for call, heads in zip(calls, reached, strict=True) if not any(heads)}
        if not narrow:
            narrow = {call for call, heads in zip(calls, reached, strict=True) if not all(heads)}
        wide = {call for call in calls if call.kind == "conv2d"} - narrow
        reached_past = _reached_from(module, trace, wide, narrow, run, observations)
    return [(call in narrow or call not in reached_past, call not in narrow) for call in calls]


def unreached_heads(module: Any, trace: Trace, run: Run, observations: Any) -> list[set[int]]:
    """Return the indices of the heads on which each site has no effect."""
    import torch

    results: dict[Call, Any] = {}

    def keep(call: Call, result: Any) -> Any:
        results[call] = result.clone()
        return results[call]

    with following(module, trace, read=keep, reading=trace.sites):
        heads = run(observations.clone().requires_grad_(True))
    kept = {call: result for call, result in results.items() if result.requires_grad}
    reached: dict[Call, set[int]] = {call: set() for call in trace.sites}
    for i, head in enumerate(heads):
        if kept and head.requires_grad:
            gradients = torch.autograd.grad(head.sum(), list(kept.values()), retain_graph=True, allow_unused=True)
            for call, gradient in zip(kept, gradients, strict=True):
                if gradient is not None:
                    reached[call].add(i)
    return [set(range(len(heads))) - reached[call] for call in trace.sites]


def heads_reached(module: Any, trace: Trace, without: Call, run: Run, observations: Any) -> list[bool]:
    """Return for each head whether the observations reach it without the result of a call, in a `frozen` module."""
    with following(module, trace, read=lambda _, result: result.detach(), reading=[without]):
        return [bool(head.requires_grad) for head in run(observations.clone().requires_grad_(True))]


def _reached_from(
    module: Any, trace: Trace, sources: set[Call], barriers: set[Call], run: Run, observations: Any
) -> set[Call]:
    reached: set[Call] = set()

    def follow(call: Call, result: Any) -> Any:
        if result.requires_grad:
            reached.add(call)
        if call in sources:
            return result.detach().requires_grad_(True).clone()  # a copy, because the following calls may work in place
        return result.detach() if call in barriers else None

    with following(module, trace, read=follow, reading=trace.sites):
        run(observations)
    return reached
