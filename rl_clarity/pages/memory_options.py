"""Options of `explain_memory`."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from rl_clarity.analyses.memory.interventions import InterventionOptions
from rl_clarity.analyses.memory.matrix import MatrixOptions
from rl_clarity.analyses.memory.probes import ProbeOptions
from rl_clarity.analyses.memory.simulator import SimulatorPageOptions
from rl_clarity.analyses.memory.source import PlayOptions
from rl_clarity.analyses.memory.windows import WindowOptions
from rl_clarity.base.parsing import check_option
from rl_clarity.pages.options import PageOptions
from rl_clarity.states.options import StateOptions


@dataclass(frozen=True)
class MemoryOptions(PageOptions):
    """Options of a page about what a recurrent agent remembers."""

    page_kind: str = "memory"
    """Kind of the page, which determines its analyses."""
    play: PlayOptions = field(default_factory=PlayOptions)
    states: StateOptions = field(default_factory=StateOptions)
    matrix: MatrixOptions = field(default_factory=MatrixOptions)
    windows: WindowOptions = field(default_factory=WindowOptions)
    interventions: InterventionOptions = field(default_factory=InterventionOptions)
    probes: ProbeOptions = field(default_factory=ProbeOptions)
    quality: SimulatorPageOptions = field(default_factory=SimulatorPageOptions)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_option(self.states, "part", self.states.part is None, "must be None: the page explains the whole state")

    def seeded(self) -> MemoryOptions:
        """Return these options with the page's seed for the analysis of states, unless a nonzero seed is set there."""
        return replace(self, states=replace(self.states, seed=self.states.seed or self.seed))
