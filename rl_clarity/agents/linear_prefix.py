"""The first operations after a site, computed once for a straight path of the site's values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rl_clarity.agents.differentiation import Function, GradientStep
from rl_clarity.agents.protocol import Tensor

if TYPE_CHECKING:
    from rl_clarity.agents.batched import BatchedAgent


@dataclass(frozen=True)
class LinearPrefix:
    """The first operations after a site, which are linear along a straight path of the site's values.

    Their results move along a straight line, too, and their derivative is the same at all points of the path: it is
    applied once, to the sum of the gradients of what follows.
    """

    results: Function
    """From the site's values, and the tensors that bypass it, to the values after the prefix."""
    pull_back: Function
    """From gradients with respect to the latter to those with respect to the site's values."""
    functions: tuple[Function, GradientStep]
    """The network after the prefix, compiled as the one after the site. The site's values bypass it, too."""


def find_linear_prefix(agent: BatchedAgent, site: str, from_zero: bool) -> LinearPrefix | None:
    """Return the linear prefix after a site; None where the agent knows none, and for an edited network."""
    end = None if agent.edits else agent._linear_prefix_end(site, from_zero)
    if end is None:
        return None
    bypass, backend = agent._bypass(site), agent._backend
    section = agent._section((site, *bypass), (end,), {})

    def results(*tensors: Tensor) -> Tensor:
        return section(*tensors)[0]

    after = agent._tail((end, site, *bypass))  # with the site's values, so that it is not computed again
    return LinearPrefix(backend.compile(results), backend.pull_back(results), after)
