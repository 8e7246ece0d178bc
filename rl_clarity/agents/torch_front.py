"""Find the earlier results that a PyTorch module needs after a site, besides the site's values.

Import this module only where PyTorch is needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from rl_clarity.agents.torch_calls import Call, Trace, copied, following
from rl_clarity.agents.torch_paths import Run, frozen, heads_reached


@dataclass(frozen=True)
class Front:
    """The results of calls before a site that the module may need after it."""

    calls: Mapping[Call, Any] = field(default_factory=dict)
    """The calls whose results can be reused when the site's values change. Each is mapped to zeros with the structure
    of one row of its result, or to None if rows cannot be repeated. There are no calls if the module also passes
    results on in other ways than as return values."""
    needed: bool = True
    """Whether the heads depend on these results, or on the observations, other than through the site."""
    repeats: bool = False
    """Whether rows of a batch can be repeated: the first axis of all tensors in these results is the batch."""

    def blank(self, rows: int) -> dict[Call, Any]:
        """Return zeros for `rows` observations in place of the results of the calls."""
        return {
            call: copied(zeros, lambda part: part.expand(rows, *part.shape[1:])) for call, zeros in self.calls.items()
        }


def find_front(module: Any, trace: Trace, call: Call, run: Run, observations: Any) -> Front:
    """Find the `Front` of a call's site by trial runs and autograd."""
    front, count = trace.before(call), len(observations)
    results: dict[Call, Any] = {}

    def keep(other: Call, result: Any) -> None:
        results[other] = result.clone() if other == call else copied(result)

    def replaced(others: Mapping[Call, Any], seen: Any) -> list[Any]:
        with following(module, trace, reading=(), replace=others):
            return run(seen)

    with torch.no_grad():
        with following(module, trace, read=keep, reading=(*front, call)):
            expected = run(observations)
        run(observations.flip(0))
        if not close(replaced(results, observations), expected):
            return Front()
        rows = torch.arange(2 * count, device=observations.device) % count
        try:
            twice = [head[rows] for head in expected]
            repeated = copied(results, lambda part: part[rows])
            if not close(replaced(repeated, observations[rows]), twice):
                return Front(dict.fromkeys(front))
            zeros = {other: copied(results[other], lambda part: torch.zeros_like(part[:1])) for other in front}
            blank = {**Front(zeros).blank(len(rows)), call: repeated[call]}
            alone = close(replaced(blank, torch.zeros_like(observations[rows])), twice)
        except Exception:  # such as a result without rows
            return Front(dict.fromkeys(front))
    with torch.enable_grad(), frozen(module):
        reached = heads_reached(module, trace, call, run, observations)
    return Front(zeros, needed=not alone or any(reached), repeats=True)


def close(tensors: list[Any], others: list[Any]) -> bool:
    pairs = zip(tensors, others, strict=True)
    return all(torch.allclose(one, other, rtol=1e-3, atol=1e-5, equal_nan=True) for one, other in pairs)
