"""All options of `explain_memory`, combined from those of the parts of its page."""

from __future__ import annotations

from dataclasses import dataclass

from rl_clarity.analyses.analysis import SubjectOptions
from rl_clarity.analyses.memory.interventions import InterventionOptions
from rl_clarity.analyses.memory.simulator import SimulatorPageOptions
from rl_clarity.analyses.memory.source import PlayOptions
from rl_clarity.analyses.memory.windows import WindowOptions
from rl_clarity.analyses.trajectories import AdvantageOptions, TrajectoryPageOptions
from rl_clarity.base.parsing import check_option
from rl_clarity.pages.manifest import ViewOptions
from rl_clarity.pages.options import AnalysesOptions, PageOptions
from rl_clarity.pages.output import OutputOptions
from rl_clarity.states.options import StateOptions

OWN_PARTS = (PlayOptions, StateOptions, WindowOptions, InterventionOptions, SimulatorPageOptions)
"""The classes that `MemoryOptions` adds to those of all pages, in the order of the documentation."""
MEMORY_PARTS = (
    *(SubjectOptions, *OWN_PARTS, AnalysesOptions, AdvantageOptions, TrajectoryPageOptions),
    *(OutputOptions, ViewOptions),
)


@dataclass(frozen=True)
class MemoryOptions(PageOptions, SimulatorPageOptions, InterventionOptions, WindowOptions, StateOptions, PlayOptions):
    """Options of a page about what a recurrent agent remembers."""

    page_kind: str = "memory"
    """Kind of the page, which decides its analyses."""
    seed: int = 0
    """Of samples, and of all random choices."""

    def __post_init__(self) -> None:
        for part in MEMORY_PARTS:
            getattr(part, "__post_init__", lambda options: None)(self)
        check_option(self, "part", self.part is None, "must be None: the page explains the state as a whole")
