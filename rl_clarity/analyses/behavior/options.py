"""Options of ablation in play."""

from __future__ import annotations

from dataclasses import dataclass

from rl_clarity.base.errors import OptionError
from rl_clarity.base.parsing import check_minimum
from rl_clarity.recordings.evaluation import Cause
from rl_clarity.recordings.options import EvaluationOptions


@dataclass(frozen=True)
class BehaviorOptions:
    """Options of ablation in play."""

    episodes: int = 0
    """Number of episodes that the agent plays with each feature ablated, on the same levels as without ablation; 0 for
    none."""
    layers: tuple[str, ...] | None = None
    """Layers whose features are ablated in play, by name; all layers of the page by default."""
    pairs: bool = False
    """Whether each pair of features of a layer is also ablated together."""
    invisible: tuple[str, ...] = ()
    """Types of objects that are hidden from the unedited agent in additional episodes, one type at a time; the
    environment itself does not change."""
    stop_early: bool = True
    """Whether to stop playing episodes without a feature once the change of the return is clear: the mean change is
    more than 5 standard errors from 0."""
    max_steps: int = EvaluationOptions.max_steps
    """Number of steps after which an episode is cut off."""
    cause: Cause | None = None
    """Function (info, frames) that returns the cause of an episode's end; by default the environment's cause."""

    def __post_init__(self) -> None:
        check_minimum(self, 0, "episodes")
        check_minimum(self, 1, "max_steps")
        if self.episodes == 1:
            raise OptionError("episodes=1 must be 0 or at least 2, because one pair of episodes has no interval")
