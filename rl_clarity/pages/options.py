"""All options of `run`, `generate` and `compare`, combined from those of each analysis and each part of the page.

Names, meanings and defaults are those of `understanding-rl-vision`, except for the few in `ORIGINAL`, which cost more
time there and are no more accurate (`python -m benchmarks.accuracy`).
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rl_clarity.analyses.ablation import AblationOptions
from rl_clarity.analyses.analysis import SubjectOptions
from rl_clarity.analyses.attribution.files import AttributionOptions
from rl_clarity.analyses.behavior import BehaviorOptions
from rl_clarity.analyses.checkpoints import ReferenceOptions
from rl_clarity.analyses.feature_names import FeatureNameOptions
from rl_clarity.analyses.features import ExampleOptions, FeatureOptions, check_defaults
from rl_clarity.analyses.layers import LayersOptions, ReductionOptions
from rl_clarity.analyses.saliency import SaliencyOptions
from rl_clarity.analyses.state_map import StateMapOptions
from rl_clarity.analyses.trajectories import AdvantageOptions, TrajectoryPageOptions
from rl_clarity.base.keys import to_plain
from rl_clarity.base.parsing import check_option
from rl_clarity.base.registry import source_hash
from rl_clarity.pages.manifest import ViewOptions
from rl_clarity.pages.output import OutputOptions
from rl_clarity.recordings.options import GamesOptions, LoadOptions, ObservationsOptions, TrajectoriesOptions


@dataclass(frozen=True)
class AnalysesOptions:
    """What the page consists of."""

    page_kind: str = "agent"
    """Kind of the page, which decides its analyses."""
    analyses: Mapping[str, Any] = field(default_factory=dict)
    """More analyses to run, by name, with the options of each."""


@dataclass(frozen=True)
class PageOptions(ViewOptions, OutputOptions, TrajectoryPageOptions, AdvantageOptions, AnalysesOptions, SubjectOptions):
    """Options of a page of any kind that has trajectories."""


PARTS = (
    *(SubjectOptions, AnalysesOptions, LayersOptions, AdvantageOptions, TrajectoryPageOptions, ReductionOptions),
    *(FeatureOptions, ExampleOptions, FeatureNameOptions, AttributionOptions, AblationOptions, BehaviorOptions),
    *(SaliencyOptions, StateMapOptions, OutputOptions, ViewOptions),
)
"""The classes that `InterfaceOptions` combines, in the order of the documentation."""


FUNCTIONS = ("action_group_fns", "causal_cause")
"""Options that are functions."""


@dataclass(frozen=True)
class InterfaceOptions(
    ViewOptions,
    OutputOptions,
    StateMapOptions,
    SaliencyOptions,
    BehaviorOptions,
    AblationOptions,
    AttributionOptions,
    FeatureNameOptions,
    ExampleOptions,
    FeatureOptions,
    ReductionOptions,
    TrajectoryPageOptions,
    AdvantageOptions,
    LayersOptions,
    AnalysesOptions,
    SubjectOptions,
):
    """Options of the page and of everything that is computed for it."""

    def __post_init__(self) -> None:
        for part in PARTS:
            getattr(part, "__post_init__", lambda options: None)(self)
        check_defaults(self, self)


COMPARE_PARTS = (
    *(
        SubjectOptions,
        GamesOptions,
        ReferenceOptions,
        SaliencyOptions,
        AnalysesOptions,
        AdvantageOptions,
        TrajectoryPageOptions,
    ),
    *(OutputOptions, ViewOptions),
)
"""The classes that `CompareOptions` combines, in the order of the documentation."""


@dataclass(frozen=True)
class CompareOptions(
    ViewOptions,
    OutputOptions,
    TrajectoryPageOptions,
    AdvantageOptions,
    AnalysesOptions,
    SaliencyOptions,
    ReferenceOptions,
    GamesOptions,
    SubjectOptions,
):
    """Options of a page that compares the checkpoints of a training."""

    page_kind: str = "training"
    """Kind of the page, which decides its analyses."""
    saliency: tuple[str, ...] = ("perturbation",)
    """Methods of saliency maps; the page compares the maps of the first."""

    def __post_init__(self) -> None:
        for part in COMPARE_PARTS:
            getattr(part, "__post_init__", lambda options: None)(self)
        played = self.reference_episode <= self.episodes
        check_option(self, "reference_episode", played, f"must be at most episodes={self.episodes}")


def options_as_data(options: InterfaceOptions | CompareOptions | PageOptions) -> dict[str, Any]:
    """The options as JSON; predicates on combos are left out, as the groups they select are recorded elsewhere.

    A function that names causes is a hash of its code.
    """
    names = (one.name for one in dataclasses.fields(options) if one.name not in FUNCTIONS)
    values = {name: to_plain(getattr(options, name)) for name in names}
    if isinstance(options, InterfaceOptions):
        cause = options.causal_cause
        values["causal_cause"] = None if cause is None else source_hash(cause)
    return values


ORIGINAL: Mapping[str, Any] = types.MappingProxyType(
    {
        "observations_kwargs": types.MappingProxyType(
            {"num_envs": 32, "num_obs": 128, "obs_every": 128, "bfloat16": False}
        ),
        "layer_kwargs": types.MappingProxyType({"op_is_one_of": ("relu",)}),
        "attr_integrate_steps": 10,
        "attr_quadrature": "riemann",
        "attr_linear_prefix": False,
        "nmf_attr_opts": types.MappingProxyType({"integrate_steps": 10}),
        "nmf_fit_observations": None,
        "nmf_held_out": 0,
        "vis_subdiv_mults": (0.25, 0.5, 1, 2),
        "vis_subdiv_mult_default": 1,
        "ablation_every": None,
        "attribution_colors": "mixed",
    }
)
"""Settings of `understanding-rl-vision` where ours differ: `run(checkpoint, output_dir, **ORIGINAL)`."""

CHECKED_TRAJECTORIES = TrajectoriesOptions(num_envs=8, num_steps=128)
"""Play that saliency methods are checked on, by default."""

__all__ = [
    "CHECKED_TRAJECTORIES",
    "ORIGINAL",
    "CompareOptions",
    "InterfaceOptions",
    "LoadOptions",
    "ObservationsOptions",
    "PageOptions",
    "TrajectoriesOptions",
]
