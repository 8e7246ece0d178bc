"""`rl_clarity.SwapDirections` exchanges or collapses directions of an agent's recurrent state as it plays."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from rl_clarity.agents.editing import StateEdit
from rl_clarity.agents.operations import NUMPY, Operations
from rl_clarity.agents.protocol import Site, Tensor
from rl_clarity.base.errors import OptionError
from rl_clarity.reduction.directions import Directions


@dataclass(frozen=True, eq=False, kw_only=True)
class SwapDirections(StateEdit):
    """Exchange coordinates of the recurrent state in pairs, or collapse them.

    After each step the state h has coordinates s = `directions.to(h)`; s' are those with pairs exchanged, and with
    collapsed ones at 0, the mean of the states that the directions were fitted to. The next step reads

        h' = h + back-projection of (s' - s),

    so components outside the span of the directions do not change. On the increment, the same is done with the
    difference of the states
    after and before the step. Swapping twice changes nothing, and collapsing twice is the same as collapsing once.

    Args:
        swaps: `{10: 12, 5: None}` exchanges the directions 10 and 12, and collapses 5; counted from 0
        directions: directions of the state, or of the part that is changed, from `rl_clarity.fit_directions`
        on: `state`, or `increment`: what each step adds to the state
        layer: the part of the state: "state/0", "state/1"; or "state", all of them side by side

    Raises OptionError for directions that do not exist, or that occur twice.
    """

    swaps: Mapping[int, int | None] = dataclasses.field(kw_only=False)
    directions: Directions
    on: Literal["state", "increment"] = "state"
    layer: str = dataclasses.field(default="state", kw_only=True)

    def __post_init__(self) -> None:
        if self.on not in ("state", "increment"):
            raise OptionError(f"on={self.on!r} must be 'state' or 'increment'")
        used = [*self.swaps, *(target for target in self.swaps.values() if target is not None)]
        for one in used:
            if isinstance(one, bool) or not isinstance(one, int | np.integer) or not 0 <= one < len(self.directions):
                raise OptionError(
                    f"swaps={dict(self.swaps)}: {one!r} is not a direction: 0 to {len(self.directions) - 1}"
                )
        mirrored = all(
            self.swaps.get(target, source) == source for source, target in self.swaps.items() if target is not None
        )
        distinct = {frozenset((source, target)) for source, target in self.swaps.items()}
        members = [one for pair in distinct for one in pair if one is not None]
        if not self.swaps or not mirrored or len(members) != len(set(members)):
            raise OptionError(f"swaps={dict(self.swaps)}: each direction takes part in one exchange or collapse")

    def check(self, site: Site) -> None:
        if site.kind != "state" or site.shape != self.directions.mean.shape:
            raise OptionError(
                f"the directions are those of a state of shape {self.directions.mean.shape}; {site.name} has the shape "
                f"{site.shape}. For one of several parts, fit them to that part alone, and name it: layer='state/0'"
            )

    @property
    def changes(self) -> bool:
        return any(source != target for source, target in self.swaps.items())

    @functools.cached_property
    def _change(self) -> np.ndarray:
        """(H, H): linear map from a state less its mean to its change, h' - h = (h - mean) change, in float64."""
        new = np.eye(len(self.directions))
        for source, target in self.swaps.items():
            new[:, source] = 0
            if target is not None:
                new[:, target] = 0
                new[source, target] = new[target, source] = 1
        return np.asarray(self.directions.readout @ (new - np.eye(len(new))) @ self.directions.vectors)

    def apply_to_state(self, before: Tensor, after: Tensor, *, operations: Operations = NUMPY) -> Tensor:
        origin = operations.constant(self.directions.mean.astype(np.float32)) if self.on == "state" else before
        return after + operations.matmul(after - origin, operations.constant(self._change.astype(np.float32)))

    def describe(self) -> str:
        return f"SwapDirections({dict(self.swaps)}, {self.directions.method}, on={self.on!r}, layer={self.layer!r})"

    def parameters(self) -> dict[str, np.ndarray]:
        texts = {"kind": type(self).__name__, "on": self.on}
        return {
            **{name: np.frombuffer(text.encode(), np.uint8) for name, text in texts.items()},
            "mean": self.directions.mean,
            "change": self._change,
        }
