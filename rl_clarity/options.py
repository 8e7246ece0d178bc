"""Every option of `run` and `generate`: the text under a field is its documentation and its help on the command line.

Names, meanings and defaults are those of `understanding-rl-vision`, but for the few of `ORIGINAL`, which cost more time
there and are no more accurate (`python -m benchmarks.accuracy`).
"""

from __future__ import annotations

import re
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rl_clarity.errors import OptionError
from rl_clarity.parsing import unknown_option

GRAPHS = ("v", "action", "action_group", "advantage")
LENGTHS = (
    *("video_height", "video_width", "policy_display_height", "policy_display_width", "navigator_width"),
    *("scrubber_height", "scrubber_width", "legend_item_height", "legend_item_width"),
    *("feature_viewer_height", "feature_viewer_width"),
)
MOST_FIGURES = 17
_LENGTH = re.compile(r"\d*\.?\d+(em|rem|px|%|vw|vh|ch)")
_COLOR_CODE = re.compile(r"#([0-9a-fA-F]{3,4}|[0-9a-fA-F]{6}|[0-9a-fA-F]{8})|[a-z]+\([-0-9a-z.,%/ ]+\)")


def _at_least(options: Any, least: int, *names: str) -> None:
    for name in names:
        value = getattr(options, name)
        _require(options, name, value is None or value >= least, f"must be at least {least}")


def _require(options: Any, name: str, holds: bool, what: str) -> None:
    if not holds:
        raise OptionError(f"{name}={getattr(options, name)!r} {what}")


def _is_color(text: str) -> bool:
    from PIL import ImageColor  # knows the names

    return text.lower() in ImageColor.colormap or _COLOR_CODE.fullmatch(text) is not None


@dataclass(frozen=True)
class LoadOptions:
    """Where the samples of an agent at play are kept, and whether they are made anew."""

    resample: bool = True
    """Roll out anew, rather than reuse the samples that an earlier run saved."""
    model_path: Path | None = None
    """Copy of the checkpoint; beside it in `rl-clarity/` if not given."""
    metadata_path: Path | None = None
    """What is known of agent and samples (JSON)."""
    trajectories_path: Path | None = None
    """The trajectories."""
    observations_path: Path | None = None
    """The extra observations."""
    full_resolution: bool = False
    """Also keep observations in human-scale resolution, and show those."""
    temp_files: bool = False
    """Keep the samples in a temporary place, which is removed at the end."""
    metadata: Mapping[str, str] = field(default_factory=dict)
    """What the checkpoint does not say: env_kind, env_name, gamma, frame_stack, ... It goes before what it says."""


@dataclass(frozen=True)
class TrajectoriesOptions:
    """The stretches of play that are shown."""

    num_envs: int = 8
    """Trajectories, one an environment."""
    num_steps: int = 512
    """Steps of each."""

    def __post_init__(self) -> None:
        _at_least(self, 1, "num_envs", "num_steps")


@dataclass(frozen=True)
class ObservationsOptions:
    """The extra observations, on which features are found."""

    num_envs: int = 32
    """Environments that play side by side; few long plays see what an agent sees, many short ones see beginnings."""
    num_obs: int = 128
    """Observations of each."""
    obs_every: int = 24
    """Steps from one to the next."""

    def __post_init__(self) -> None:
        _at_least(self, 1, "num_envs", "num_obs", "obs_every")


@dataclass(frozen=True)
class LayerOptions:
    """Which layers are explained."""

    name_contains_one_of: tuple[str, ...] | None = None
    """Only operations whose full name contains one of these."""
    op_is_one_of: tuple[str, ...] = ("relu",)
    """Kinds of operation; `relu` stands for the other activations of a network that has no ReLU."""
    bottleneck_only: bool = True
    """Only layers that no path from an earlier convolution by-passes."""
    discard_first_n: int = 0
    """Leave out the first n, which cost most and often say least."""

    def __post_init__(self) -> None:
        _at_least(self, 0, "discard_first_n")


@dataclass(frozen=True)
class AttributionFitOptions:
    """The attribution that the channel reduction is fitted to."""

    integrate_steps: int = 5
    """Points on the path."""
    max_paths: int | None = None
    """Kept for calls of the original: 1 or None, as the fit is single-path."""

    def __post_init__(self) -> None:
        _at_least(self, 1, "integrate_steps")
        what = "must be 1 or None: other paths lie in the channels that are only being fitted"
        _require(self, "max_paths", self.max_paths in (None, 1), what)


@dataclass(frozen=True)
class ViewOptions:
    """How the page looks when it opens."""

    video_height: str = "16em"
    """Height of an observation."""
    video_width: str = "16em"
    """Width of an observation."""
    video_speed: float = 12
    """Frames a second when playing."""
    policy_display_height: str = "2em"
    """Height of the bar of action probabilities."""
    policy_display_width: str = "40em"
    """Width of the bar of action probabilities."""
    navigator_width: str = "24em"
    """Width of the transport buttons."""
    scrubber_height: str = "4em"
    """Height of the film strip."""
    scrubber_width: str = "48em"
    """Width of the film strip."""
    scrubber_visible_duration: int = 256
    """Frames the film strip shows at once."""
    legend_item_height: str = "6em"
    """Height of a thumbnail."""
    legend_item_width: str = "6em"
    """Width of a thumbnail."""
    feature_viewer_height: str = "40em"
    """Height of the feature viewer's picture."""
    feature_viewer_width: str = "40em"
    """Width of the feature viewer's picture."""
    attribution_weight: float = 0.9
    """Opacity of attribution over the observation."""
    graph_colors: Mapping[str, str] = field(
        default_factory=lambda: {"v": "green", "action": "red", "action_group": "orange", "advantage": "blue"}
    )
    """Colours of the graphs under the film strip."""
    trajectory_color: str = "blue"
    """Colour of the chosen trajectory."""

    def __post_init__(self) -> None:
        _at_least(self, 1, "scrubber_visible_duration")
        _require(self, "video_speed", 0 < self.video_speed < float("inf"), "must be a number above 0")
        for name in LENGTHS:
            _require(
                self, name, bool(_LENGTH.fullmatch(getattr(self, name))), "must be a length, such as '16em' or '200px'"
            )
        for name, color in {"trajectory_color": self.trajectory_color, **self.graph_colors}.items():
            if not _is_color(color):
                raise OptionError(f"colour {color!r} of {name} must be a name of CSS, '#rrggbb', or as 'rgb(0 80 160)'")
        _require(self, "attribution_weight", 0 <= self.attribution_weight <= 1, "must be from 0 to 1")
        for key in self.graph_colors:
            if key not in GRAPHS:
                raise unknown_option(f"graph_colors.{key}", GRAPHS)


@dataclass(frozen=True)
class DirectoryOptions:
    """Directories of the page's data, relative to it."""

    observations_subdir: str = "observations/"
    trajectories_subdir: str = "trajectories/"
    trajectories_scrub_subdir: str = "trajectories_scrub/"
    features_subdir: str = "features/"
    thumbnails_subdir: str = "thumbnails/"
    attribution_subdir: str = "attribution/"
    attribution_scrub_subdir: str = "attribution_scrub/"
    features_grids_subdir: str = "features_grids/"
    attribution_totals_subdir: str = "attribution_totals/"


@dataclass(frozen=True)
class InterfaceOptions(DirectoryOptions, ViewOptions):
    """Options of the page and of everything that is computed for it."""

    env_name: str | None = None
    """Name of the environment; from the checkpoint, else `unknown`."""
    title: str | None = None
    """Title of the page; from the environment and the network if not given."""
    seed: int = 0
    """Decides the samples, the reduction and the optimised features."""
    numpy_precision: int = 6
    """Significant figures of numbers in the page."""
    inline_js: bool = True
    """Put the script into the page, rather than beside it."""
    inline_large_json: bool | None = None
    """The original's name of `single_file`."""
    single_file: bool = False
    """Put everything into one html file."""
    overwrite: bool = False
    """Replace a page that is already in the output directory."""
    batch_size: int = 512
    """Frames that are worked on together."""
    action_combos: tuple[tuple[str, ...], ...] | None = None
    """Buttons of each action; from the environment, else ('0',), ('1',), ..."""
    action_group_fns: tuple[Callable[[Sequence[str]], bool], ...] | None = None
    """Predicates on combos: each makes a group of actions. RIGHT, LEFT, UP, DOWN and none of them if not given."""
    layer_kwargs: LayerOptions = LayerOptions()
    """Which layers are explained."""
    input_layer_include: bool = False
    """Also show gradients with respect to the input."""
    input_layer_name: str = "input"
    """What the input is called."""
    gae_gamma: float | None = None
    """Discount; from the checkpoint, else 0.999."""
    gae_lambda: float | None = None
    """Decay of the advantage estimator; from the checkpoint, else 0.95."""
    trajectory_bookmarks: int = 16
    """Bookmarks of highest, and of lowest, advantage."""
    nmf_features: int = 8
    """Channels that a layer is reduced to."""
    nmf_attr_opts: AttributionFitOptions = AttributionFitOptions()
    """The attribution that the reduction is fitted to."""
    nmf_fit_observations: int | None = 1024
    """Extra observations whose attribution the reduction is fitted to; all of them if None."""
    vis_subdiv_mults: tuple[float, ...] = (0.25, 0.5, 1, 2)
    """Densities of the grid of dataset examples, in cells a layer position."""
    vis_subdiv_mult_default: float = 1
    """The density it opens with."""
    vis_expand_mults: tuple[float, ...] = (1, 2, 4, 8)
    """Zooms of the patches, in layer positions a patch."""
    vis_expand_mult_default: float = 4
    """The zoom it opens with."""
    vis_thumbnail_num_mult: int = 4
    """Patches along a side of a thumbnail."""
    vis_thumbnail_expand_mult: float = 4
    """Zoom of the patches in a thumbnail."""
    scrub_range: tuple[float, float] = (42 / 64, 44 / 64)
    """The strip of each frame that the film strip shows, as shares of the width."""
    attr_integrate_steps: int = 5
    """Points on the path of integrated gradients."""
    attr_quadrature: str = "graded-midpoint"
    """Rule that places them: `graded-midpoint`, `gauss-legendre`, `midpoint` or `riemann` (the original's)."""
    attr_max_paths: int | None = None
    """Average over this many paths in the reduced channels; None is the straight path alone."""
    attr_policy: bool = False
    """Also attribute every logit and action group."""
    attr_single_channels: bool = True
    """Let single channels be isolated by hovering."""
    attr_images: bool = False
    """Also write the original's rendered pictures."""
    feature_images: bool = False
    """Also write the pictures of dataset examples."""
    optimized_features: bool = False
    """Also make, for each channel, an image that maximises it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        _at_least(self, 0, "seed", "trajectory_bookmarks")
        _at_least(self, 1, "numpy_precision", "batch_size", "nmf_features", "nmf_fit_observations")
        _at_least(self, 1, "attr_integrate_steps", "attr_max_paths", "vis_thumbnail_num_mult")
        _require(self, "numpy_precision", self.numpy_precision <= MOST_FIGURES, f"must be at most {MOST_FIGURES}")
        for name in ("gae_gamma", "gae_lambda"):
            value = getattr(self, name)
            _require(self, name, value is None or 0 <= value <= 1, "must be from 0 to 1")
        for name in ("vis_subdiv_mult", "vis_expand_mult"):
            offered = getattr(self, f"{name}s")
            _require(self, f"{name}s", bool(offered) and min(offered) > 0, "must be numbers above 0, at least one")
            _require(self, f"{name}_default", getattr(self, f"{name}_default") in offered, f"is none of {offered}")
        _require(self, "vis_thumbnail_expand_mult", self.vis_thumbnail_expand_mult > 0, "must be above 0")
        ordered = len(self.scrub_range) == 2 and 0 <= self.scrub_range[0] < self.scrub_range[1] <= 1
        _require(self, "scrub_range", ordered, "must be two shares of the width, the smaller one first")


ORIGINAL: Mapping[str, Any] = types.MappingProxyType(
    {
        "observations_kwargs": types.MappingProxyType({"num_envs": 32, "num_obs": 128, "obs_every": 128}),
        "attr_integrate_steps": 10,
        "attr_quadrature": "riemann",
        "nmf_attr_opts": types.MappingProxyType({"integrate_steps": 10}),
        "nmf_fit_observations": None,
    }
)
"""Settings of `understanding-rl-vision` where ours differ: `run(checkpoint, output_dir, **ORIGINAL)`."""
