"""`rl_clarity.SwapDirections` exchanges or collapses directions of an agent's recurrent state while it plays."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from rl_clarity.agents.editing import StateEdit
from rl_clarity.agents.operations import NUMPY, Operations
from rl_clarity.agents.protocol import Site, Tensor
from rl_clarity.base.errors import OptionError
from rl_clarity.reduction.directions import Directions

LARGEST_GAIN = 100.0
"""Largest allowed ratio of the change of a standardized state to its deviation from the mean."""


@dataclass(frozen=True, eq=False, kw_only=True)
class SwapDirections(StateEdit):
    """Exchange coordinates of the recurrent state in pairs, or collapse them.

    After each step the state h has coordinates s = `directions.to(h)`. In s', pairs of coordinates are exchanged, and
    collapsed coordinates are 0, their value at `directions.mean`. The next step reads

        h' = h + back-projection of (s' - s),

    so components outside the span of the directions do not change. If `Directions.range` is known, a change does not
    move a unit beyond this range by more than the range's width, because otherwise states could grow from step to step
    if the directions are not orthogonal. With `on="increment"`, the same is done with the difference between the states
    after and before the step. Swapping twice has no effect, and collapsing twice is the same as collapsing once.

    Args:
        swaps: `{10: 12, 5: None}` exchanges the directions 10 and 12, and collapses direction 5. Directions are counted
            from 0
        directions: directions of `layer`, from `rl_clarity.fit_directions`
        on: `state`, or `increment` for what each step adds to the state
        layer: "state" for all arrays of the state, side by side, or "state/0", "state/1", ... for one of them

    Raises OptionError for directions that do not exist or occur twice, and for directions that are almost linearly
    dependent, with which small differences between states would grow by more than a factor of 100 at every step.
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
                    f"swaps={dict(self.swaps)}: {one!r} is not a direction from 0 to {len(self.directions) - 1}"
                )
        mirrored = all(
            self.swaps.get(target, source) == source for source, target in self.swaps.items() if target is not None
        )
        distinct = {frozenset((source, target)) for source, target in self.swaps.items()}
        members = [one for pair in distinct for one in pair if one is not None]
        if not self.swaps or not mirrored or len(members) != len(set(members)):
            raise OptionError(
                f"swaps={dict(self.swaps)}: at least one exchange or collapse is needed, and no "
                "direction can be part of two of them"
            )
        if self._gain > LARGEST_GAIN:
            raise OptionError(
                f"swaps={dict(self.swaps)}: the {len(self.directions)} directions are almost linearly dependent, so "
                f"that states would change by up to {self._gain:,.0f} times their deviation from the mean at each "
                f"step, but at most {LARGEST_GAIN:g} is allowed. Fit fewer directions, or use method='pca' or 'units'"
            )

    def check(self, site: Site) -> None:
        if site.kind != "state" or site.shape != self.directions.mean.shape:
            raise OptionError(
                f"the directions were fitted to states of shape {self.directions.mean.shape}, but {site.name} has the "
                f"shape {site.shape}. To edit one of several arrays, fit directions to it alone, and pass its name, "
                "such as layer='state/0'"
            )

    @property
    def changes(self) -> bool:
        return any(source != target for source, target in self.swaps.items())

    @property
    def _gain(self) -> float:
        """Largest ratio of the change of a standardized state to its deviation from the mean."""
        left, sizes, _ = np.linalg.svd(self.directions.basis, full_matrices=False)
        inverse = np.divide(1, sizes, out=np.zeros_like(sizes), where=sizes > 1e-15 * sizes.max(initial=0))
        return float(np.linalg.norm(inverse[:, None] * (left.T @ self._difference @ left) * sizes, 2))

    @functools.cached_property
    def _factors(self) -> tuple[np.ndarray, np.ndarray]:
        """(H, D) and (D, H) float32: linear maps from a state minus the mean to the change of its coordinates, and from
        this change to the change of the state.
        """
        left = self.directions.readout @ self._difference
        return left.astype(np.float32), self.directions.vectors.astype(np.float32)

    @functools.cached_property
    def _difference(self) -> np.ndarray:
        """(D, D): linear map from coordinates to their change."""
        new = np.eye(len(self.directions))
        for source, target in self.swaps.items():
            new[:, source] = 0
            if target is not None:
                new[:, target] = 0
                new[source, target] = new[target, source] = 1
        return new - np.eye(len(new))

    def apply_to_state(self, before: Tensor, after: Tensor, *, operations: Operations = NUMPY) -> Tensor:
        origin = operations.constant(self.directions.mean.astype(np.float32)) if self.on == "state" else before
        left, right = map(operations.constant, self._factors)
        changed = after + operations.matmul(operations.matmul(after - origin, left), right)
        return changed if self.directions.range is None else self._bounded(changed, after, operations)

    def _bounded(self, changed: Tensor, after: Tensor, operations: Operations) -> Tensor:
        """Clip the units of `changed` to their limits, or to their value in `after` where that is beyond a limit."""
        assert self.directions.range is not None
        low, high = self.directions.range
        low, high = (operations.constant(limit.astype(np.float32)) for limit in (2 * low - high, 2 * high - low))
        low, high = low - operations.relu(low - after), high + operations.relu(after - high)
        return low + operations.relu(high - low - operations.relu(high - changed))

    def describe(self) -> str:
        return f"SwapDirections({dict(self.swaps)}, {self.directions.method}, on={self.on!r}, layer={self.layer!r})"

    def parameters(self) -> dict[str, np.ndarray]:
        texts = {"kind": type(self).__name__, "on": self.on}
        return {
            **{name: np.frombuffer(text.encode(), np.uint8) for name, text in texts.items()},
            "mean": self.directions.mean,
            **dict(zip(("left", "right"), self._factors, strict=True)),
            **({} if self.directions.range is None else {"range": self.directions.range}),
        }


def numbered_swaps(
    sources: Sequence[int], targets: Sequence[int | None], count: int | None = None
) -> dict[int, int | None]:
    """Return `swaps` for `SwapDirections`, from directions that are counted from 1, as on pages and the command line.

    Raises OptionError for numbers below 1 or above `count`, the number of directions.
    """
    for one in (*sources, *targets):
        if one is not None and (one < 1 or (count is not None and one > count)):
            raise OptionError(
                f"{one} is not a direction: directions are counted from 1{f' to {count}' if count else ''}"
            )
    return {source - 1: None if target is None else target - 1 for source, target in zip(sources, targets, strict=True)}
