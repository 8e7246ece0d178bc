"""Options of measured effects of objects."""

from __future__ import annotations

from dataclasses import dataclass

from rl_clarity.base.parsing import check_minimum


@dataclass(frozen=True)
class ObjectsOptions:
    """Options of measured effects of objects, which are removed from the states of environments that can be edited."""

    every: int | None = 4
    """Remove the objects of every n-th step of a trajectory, one at a time: 1 for all steps, None for no measured
    effects."""
    last_steps: int = 30
    """Number of steps before the end of each episode whose objects are also removed."""
    types: tuple[str, ...] | None = None
    """Names of the types of objects to remove, such as `saw`; by default all but the ground and the walls."""
    most: int = 600
    """Largest number of objects to remove in a trajectory; if there are more, fewer steps are examined."""

    def __post_init__(self) -> None:
        check_minimum(self, 1, "every", "most")
        check_minimum(self, 0, "last_steps")
