"""Find the first operations after a site that can be computed once for all points of a straight path."""

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

    Their results move along a straight line, too, so their derivative is the same at all points of the path. This
    derivative is applied once, to the sum of the gradients with respect to the results.
    """

    results: Function
    """Computes the results of the prefix from the site's values and the tensors that bypass the site."""
    pull_back: Function
    """Converts gradients with respect to the results of the prefix to gradients with respect to the site's values."""
    functions: tuple[Function, GradientStep]
    """The compiled network after the prefix, and its gradient step."""
    takes_values: bool
    """Whether the network after the prefix takes the site's values before the tensors that bypass the site."""


def find_linear_prefix(agent: BatchedAgent, site: str, from_zero: bool) -> LinearPrefix | None:
    """Return the linear prefix after a site, or None if there is none or the agent is edited."""
    end = None if agent.edits else agent._linear_prefix_end(site, from_zero)
    if end is None:
        return None
    bypass, backend = agent._bypass(site), agent._backend
    section = agent._section((site, *bypass), (end,), {})

    def results(*tensors: Tensor) -> Tensor:
        return section(*tensors)[0]

    takes_values = not set(bypass).issuperset(agent._bypass(end))  # so that the front is not computed twice
    after = agent._tail((end, site, *bypass) if takes_values else (end, *bypass))
    return LinearPrefix(backend.compile(results), backend.pull_back(results), after, takes_values)
