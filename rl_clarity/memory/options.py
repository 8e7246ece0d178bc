"""All options of `explain_memory`, combined from those of the parts of its page."""

from __future__ import annotations

from dataclasses import dataclass

from rl_clarity.analyses.analysis import SubjectOptions
from rl_clarity.analyses.trajectories import AdvantageOptions, TrajectoryPageOptions
from rl_clarity.memory.interventions import InterventionOptions
from rl_clarity.memory.simulator import SimulatorPageOptions
from rl_clarity.memory.stretches import StretchOptions
from rl_clarity.options import AnalysesOptions, PageOptions
from rl_clarity.pages.manifest import ViewOptions
from rl_clarity.pages.output import OutputOptions
from rl_clarity.parsing import check_minimum, check_option
from rl_clarity.reduction.directions import FEWEST_STATES
from rl_clarity.states.options import StateOptions


@dataclass(frozen=True)
class PlayOptions:
    """How the agent plays the episodes that the page shows."""

    episodes: int = 60
    """Number of episodes."""
    max_steps: int = 160
    """Play stops after this many steps for each episode, on average."""
    greedy: bool = False
    """Take the most likely action instead of sampling one, and no random actions."""
    full_resolution: bool = False
    """Also record frames at the environment's full resolution, and show those."""

    def __post_init__(self) -> None:
        check_minimum(self, 1, "episodes", "max_steps")
        check_option(
            self,
            "max_steps",
            self.episodes * self.max_steps >= FEWEST_STATES,
            f"times episodes={self.episodes} must be at least {FEWEST_STATES} steps, to find directions in",
        )


OWN_PARTS = (PlayOptions, StateOptions, StretchOptions, InterventionOptions, SimulatorPageOptions)
"""The classes that `MemoryOptions` adds to those of all pages, in the order of the documentation."""
MEMORY_PARTS = (
    *(SubjectOptions, *OWN_PARTS, AnalysesOptions, AdvantageOptions, TrajectoryPageOptions),
    *(OutputOptions, ViewOptions),
)


@dataclass(frozen=True)
class MemoryOptions(PageOptions, SimulatorPageOptions, InterventionOptions, StretchOptions, StateOptions, PlayOptions):
    """Options of a page about what a recurrent agent remembers."""

    page_kind: str = "memory"
    """Kind of the page, which decides its analyses."""
    seed: int = 0
    """Of samples, and of all random choices."""

    def __post_init__(self) -> None:
        for part in MEMORY_PARTS:
            getattr(part, "__post_init__", lambda options: None)(self)
        check_option(self, "part", self.part is None, "must be None: the page explains the state as a whole")
