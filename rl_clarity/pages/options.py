"""Options of the pages that `run`, `generate`, `check`, `debug` and `compare` write, and of each analysis.

Defaults are those of `understanding-rl-vision`, except for the options in `ORIGINAL`, whose original values take more
time and are not more accurate (`python -m benchmarks.accuracy`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rl_clarity.analyses.ablation import AblationOptions
from rl_clarity.analyses.analysis import SubjectOptions
from rl_clarity.analyses.attribution.files import AttributionOptions
from rl_clarity.analyses.behavior import BehaviorOptions
from rl_clarity.analyses.checkpoints import ReferenceOptions
from rl_clarity.analyses.checks.analysis import ChecksOptions
from rl_clarity.analyses.features import ExampleOptions, FeatureOptions
from rl_clarity.analyses.layers import LayersOptions
from rl_clarity.analyses.objects.options import ObjectsOptions
from rl_clarity.analyses.saliency import SaliencyOptions
from rl_clarity.analyses.state_map import StateMapOptions
from rl_clarity.analyses.trajectories import AdvantageOptions, TrajectoryPageOptions
from rl_clarity.base.keys import to_plain
from rl_clarity.base.parsing import check_option
from rl_clarity.base.registry import source_hash
from rl_clarity.debugging.failures import FailureOptions
from rl_clarity.debugging.goals import GoalOptions
from rl_clarity.debugging.survival import SurvivalOptions
from rl_clarity.pages.manifest import ViewOptions
from rl_clarity.pages.original_options import ORIGINAL
from rl_clarity.pages.output import OutputOptions
from rl_clarity.recordings.options import GamesOptions, LoadOptions, ObservationsOptions, TrajectoriesOptions


@dataclass(frozen=True)
class PageOptions(OutputOptions, SubjectOptions):
    """Options of a page of any kind."""

    page_kind: str = "agent"
    """Kind of the page, which determines its analyses."""
    analyses: Mapping[str, Any] = field(default_factory=dict)
    """Further analyses to run, by name, with the options of each."""
    advantages: AdvantageOptions = field(default_factory=AdvantageOptions)
    filmstrip: TrajectoryPageOptions = field(default_factory=TrajectoryPageOptions)
    view: ViewOptions = field(default_factory=ViewOptions)

    def __post_init__(self) -> None:
        SubjectOptions.__post_init__(self)
        OutputOptions.__post_init__(self)


@dataclass(frozen=True)
class InterfaceOptions(PageOptions):
    """Options of the page of an agent."""

    layers: LayersOptions = field(default_factory=LayersOptions)
    attribution: AttributionOptions = field(default_factory=AttributionOptions)
    features: FeatureOptions = field(default_factory=FeatureOptions)
    examples: ExampleOptions = field(default_factory=ExampleOptions)
    ablation: AblationOptions = field(default_factory=AblationOptions)
    objects: ObjectsOptions = field(default_factory=ObjectsOptions)
    behavior: BehaviorOptions = field(default_factory=BehaviorOptions)
    saliency: SaliencyOptions = field(default_factory=SaliencyOptions)
    state_map: StateMapOptions = field(default_factory=StateMapOptions)


@dataclass(frozen=True)
class CheckOptions(PageOptions):
    """Options of the page of sanity checks."""

    page_kind: str = "check"
    """Kind of the page, which determines its analyses."""
    checks: ChecksOptions = field(default_factory=ChecksOptions)


@dataclass(frozen=True)
class DebugOptions(PageOptions):
    """Options of the debugger's page."""

    page_kind: str = "debug"
    """Kind of the page, which determines its analyses."""
    failures: FailureOptions = field(default_factory=FailureOptions)
    survival: SurvivalOptions = field(default_factory=SurvivalOptions)
    goals: GoalOptions = field(default_factory=GoalOptions)


@dataclass(frozen=True)
class CompareOptions(PageOptions):
    """Options of a page that compares the checkpoints of a training run."""

    page_kind: str = "training"
    """Kind of the page, which determines its analyses."""
    play: GamesOptions = field(default_factory=GamesOptions)
    reference: ReferenceOptions = field(default_factory=ReferenceOptions)
    saliency: SaliencyOptions = field(default_factory=lambda: SaliencyOptions(methods=("perturbation",)))

    def __post_init__(self) -> None:
        super().__post_init__()
        played = self.reference.episode <= self.play.episodes
        check_option(self, "reference", played, f"must refer to an episode up to play.episodes={self.play.episodes}")


def options_as_data(options: object) -> dict[str, object]:
    """Return options as JSON values, by their full names. A function is represented by a hash of its code.

    Predicates on combos of buttons are left out, because the groups of actions that they select are hashed instead.
    """
    values: dict[str, object] = {}
    for one in dataclasses.fields(options):  # type: ignore[arg-type]
        value = getattr(options, one.name)
        if dataclasses.is_dataclass(value):
            values |= {f"{one.name}.{name}": item for name, item in options_as_data(value).items()}
        elif one.name != "action_group_fns":
            values[one.name] = source_hash(value) if callable(value) else to_plain(value)
    return values


CHECKED_TRAJECTORIES = TrajectoriesOptions(num_envs=8, num_steps=128)
"""Default amount of play on which saliency methods are checked."""
DEBUGGED_TRAJECTORIES = TrajectoriesOptions(num_envs=16, num_steps=512)
"""Default amount of play in which the debugger looks for failures."""

__all__ = [
    "CHECKED_TRAJECTORIES",
    "DEBUGGED_TRAJECTORIES",
    "ORIGINAL",
    "CheckOptions",
    "CompareOptions",
    "DebugOptions",
    "InterfaceOptions",
    "LoadOptions",
    "ObservationsOptions",
    "PageOptions",
    "TrajectoriesOptions",
]
