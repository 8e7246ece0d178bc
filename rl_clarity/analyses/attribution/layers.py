"""Which layers of an agent are explained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rl_clarity.agents.checks import check_agent
from rl_clarity.agents.layer_names import short_names, shown_kinds
from rl_clarity.agents.protocol import Agent, Operation
from rl_clarity.errors import OptionError


@dataclass(frozen=True)
class Layer:
    """A chosen layer: the name that is shown, and the operation it means."""

    name: str
    operation: Operation


def select_layers(
    agent: Agent,
    *,
    name_contains_one_of: Sequence[str] | None = None,
    op_is_one_of: Sequence[str] = ("relu",),
    bottleneck_only: bool = True,
    discard_first_n: int = 0,
) -> list[str]:
    """Short names of the layers that meet all conditions, in the order of computation.

    Parameters
    ----------
    name_contains_one_of: only operations whose full name contains one of these
    op_is_one_of: kinds of operation, in lower case; `relu` stands for what a network without ReLUs has in their place
    bottleneck_only: only operations that no path from an earlier convolution by-passes
    discard_first_n: drop the first n of those

    Raises OptionError for an agent that is none, and, naming what there is, if no layer is left.
    """
    layers = choose_layers(
        agent,
        name_contains_one_of=name_contains_one_of,
        op_is_one_of=op_is_one_of,
        bottleneck_only=bottleneck_only,
        discard_first_n=discard_first_n,
    )
    return [layer.name for layer in layers]


def choose_layers(
    agent: Agent,
    *,
    name_contains_one_of: Sequence[str] | None = None,
    op_is_one_of: Sequence[str] = ("relu",),
    bottleneck_only: bool = True,
    discard_first_n: int = 0,
) -> list[Layer]:
    """Layers that meet all conditions, in the order of computation.

    Parameters
    ----------
    name_contains_one_of: only operations whose full name contains one of these
    op_is_one_of: kinds of operation, in lower case; `relu` stands for what a network without ReLUs has in their place
    bottleneck_only: only operations such that every path from an earlier convolution to them passes through a
        bottleneck of the network (a node without which no path leads from the input to the outputs)
    discard_first_n: drop the first n of those

    Raises OptionError, naming what there is, if none is left, and for an agent that is none.
    """
    check_agent(agent, ("operations",))
    for name, words in (("name_contains_one_of", name_contains_one_of), ("op_is_one_of", op_is_one_of)):
        if isinstance(words, str):
            raise OptionError(f"layer_kwargs.{name}={words!r} must be a sequence: {[words]!r}")
    kinds = _kinds(agent, op_is_one_of)
    found = [
        operation
        for operation in agent.operations
        if operation.kind in kinds and (operation.after_bottleneck or not bottleneck_only)
    ]
    named = [Layer(name, o) for name, o in zip(short_names([o.name for o in found]), found, strict=True)]
    chosen = [
        layer
        for layer in named
        if name_contains_one_of is None or any(part in layer.operation.name for part in name_contains_one_of)
    ][max(discard_first_n, 0) :]
    if not chosen:
        raise OptionError(_nothing_left(agent, named, name_contains_one_of, kinds, bottleneck_only, discard_first_n))
    return chosen


def _kinds(agent: Agent, wanted: Sequence[str]) -> list[str]:
    """Kinds of operation; ELUs, say, for ReLUs where the network has none."""
    kinds = [kind.lower() for kind in wanted]
    if "relu" in kinds and not any(operation.kind in kinds for operation in agent.operations):
        return [*shown_kinds(agent.operations)]
    return kinds


def _nothing_left(
    agent: Agent,
    named: Sequence[Layer],
    name_contains_one_of: Sequence[str] | None,
    kinds: Sequence[str],
    bottleneck_only: bool,
    discard_first_n: int,
) -> str:
    if not named:
        there = sorted({operation.kind for operation in agent.operations})
        return (
            f"layer_kwargs: no operation of kind {list(kinds)} with bottleneck_only={bottleneck_only}; "
            f"the network has the kinds {', '.join(there) or 'none'}"
        )
    names = ", ".join(layer.name for layer in named)
    if name_contains_one_of is not None and not any(
        part in layer.operation.name for layer in named for part in name_contains_one_of
    ):
        return f"layer_kwargs.name_contains_one_of={list(name_contains_one_of)} matches none of the layers {names}"
    return f"layer_kwargs.discard_first_n={discard_first_n} leaves none of the layers {names}"
