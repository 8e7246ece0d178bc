"""Names of options in understanding-rl-vision and in rl_clarity 0.1, which functions that write pages still accept.

These names were in one flat namespace. Now, each option is in a group, such as that of its analysis.
`docs/migration.md` lists the names.
"""

from __future__ import annotations

import difflib
import types
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from rl_clarity.base.errors import OptionError
from rl_clarity.base.parsing import Hidden, parse, visible_fields

PARTS: Mapping[str, str] = {
    "load_kwargs": "load",
    "trajectories_kwargs": "trajectories",
    "observations_kwargs": "observations",
    "layer_kwargs": "layers",
}
"""Current names of groups of options, by their original names."""
RENAMED: Mapping[str, str] = {
    "input_layer_include": "layers.input",
    "input_layer_name": "layers.input_name",
    "gae_gamma": "advantages.gamma",
    "gae_lambda": "advantages.gae_lambda",
    "trajectory_bookmarks": "advantages.bookmarks",
    "scrub_range": "filmstrip.scrub_range",
    "attr_integrate_steps": "attribution.steps",
    "attr_max_paths": "attribution.max_paths",
    "attr_policy": "attribution.policy",
    "attr_images": "attribution.images",
    "attr_quadrature": "attribution.quadrature",
    "attr_baseline": "attribution.baseline",
    "attr_linear_prefix": "attribution.linear_prefix",
    "reduction": "features.reduction",
    "nmf_features": "features.count",
    "nmf_coverage": "features.coverage",
    "nmf_held_out": "features.held_out",
    "nmf_attr_opts": "features.fit_steps",
    "nmf_fit_observations": "features.fit_observations",
    "vis_thumbnail_num_mult": "features.thumbnail_patches",
    "vis_thumbnail_expand_mult": "features.thumbnail_width",
    "feature_images": "features.images",
    "optimized_features": "features.optimized",
    "feature_names": "features.names",
    "vis_subdiv_mults": "examples.densities",
    "vis_subdiv_mult_default": "examples.density",
    "vis_expand_mults": "examples.widths",
    "vis_expand_mult_default": "examples.width",
    "ablation_every": "ablation.every",
    "causal_episodes": "behavior.episodes",
    "causal_layers": "behavior.layers",
    "causal_max_steps": "behavior.max_steps",
    "causal_cause": "behavior.cause",
    "saliency": "saliency.methods",
    "saliency_every": "saliency.every",
    "state_map": "state_map.show",
    "state_map_layer": "state_map.layer",
    "state_map_methods": "state_map.methods",
    "state_map_perplexity": "state_map.perplexity",
    "video_speed": "view.speed",
    "attribution_weight": "view.attribution_weight",
    "attribution_colors": "view.attribution_colors",
    "attr_single_channels": "view.single_channels",
    "inline_large_json": "single_file",
    **{name: f"play.{name}" for name in ("episodes", "max_steps", "greedy", "return_episodes", "full_resolution")},
    **{name: f"reference.{name.removeprefix('reference_')}" for name in ("reference_checkpoint", "reference_episode")},
    "reference": "reference.recording",
    **{name: f"states.{name}" for name in ("method", "count", "outliers", "clustering", "clusters", "lags", "maps")},
    **{name: f"states.{name}" for name in ("map_points", "influence_samples", "replay_steps")},
    **{name: f"states.{name}" for name in ("replay_samples", "replay_directions")},
    "horizon": "windows.horizon",
    **{
        f"{old}_{name}": f"windows.{name}" for old in ("stretch", "window") for name in ("directions", "points", "grid")
    },
    "stretches": "windows.count",
    "windows": "windows.count",
    "interventions": "interventions.count",
    "intervention_episodes": "interventions.episodes",
    "swap_directions_from": "interventions.swap_from",
    "swap_directions_to": "interventions.swap_to",
    "quality_windows": "quality.windows",
    "films": "quality.clips",
    "clips": "quality.clips",
}
"""Current names of single options, for pages that have the group of options before the dot."""
COUNTED_FROM_0 = ("swap_directions_from", "swap_directions_to")
"""Original names of options whose numbers count from 0. With the current names, they count from 1, as on pages."""
HIDDEN: Mapping[str, str] = {
    "numpy_precision": "",
    **dict.fromkeys(("trajectories_subdir", "trajectories_scrub_subdir"), "filmstrip"),
    **dict.fromkeys(("features_subdir", "thumbnails_subdir"), "features"),
    **dict.fromkeys(("observations_subdir", "features_grids_subdir"), "examples"),
    **dict.fromkeys(("attribution_subdir", "attribution_scrub_subdir", "attribution_totals_subdir"), "attribution"),
    **dict.fromkeys(("video_height", "video_width", "policy_display_height", "policy_display_width"), "view"),
    **dict.fromkeys(("navigator_width", "scrubber_height", "scrubber_width", "scrubber_visible_duration"), "view"),
    **dict.fromkeys(("legend_item_height", "legend_item_width"), "view"),
    **dict.fromkeys(("feature_viewer_height", "feature_viewer_width", "graph_colors", "trajectory_color"), "view"),
}
"""Options that can only be set by their original name, with the group that they are in (empty for none)."""

ORIGINAL: Mapping[str, Any] = types.MappingProxyType(
    {
        "observations_kwargs": types.MappingProxyType(
            {"num_envs": 32, "num_obs": 128, "obs_every": 128, "bfloat16": False}
        ),
        "layer_kwargs": types.MappingProxyType({"op_is_one_of": ("relu",)}),
        "trajectories.discard_first": True,
        "filmstrip.images": True,
        "attr_integrate_steps": 10,
        "attr_quadrature": "riemann",
        "attr_baseline": "zero-layer",
        "attr_linear_prefix": False,
        "attribution.refinement": 1,
        "nmf_attr_opts": types.MappingProxyType({"integrate_steps": 10}),
        "nmf_fit_observations": None,
        "nmf_held_out": 0,
        "vis_subdiv_mults": (0.25, 0.5, 1, 2),
        "vis_subdiv_mult_default": 1,
        "ablation_every": None,
        "objects": types.MappingProxyType({"every": None}),
        "attribution_colors": "mixed",
    }
)
"""Settings of `understanding-rl-vision` that differ from our defaults: `run(checkpoint, output_dir, **ORIGINAL)`."""


@dataclass(frozen=True)
class AttributionFitOptions:
    """The option `nmf_attr_opts`."""

    integrate_steps: int = 5
    max_paths: int | None = None
    """1 or None, because the fit uses a single path."""

    def __post_init__(self) -> None:
        if self.max_paths not in (None, 1):
            raise OptionError(f"max_paths={self.max_paths!r} must be 1 or None: the fit uses a single path")


def renamed(name: str, own: Set[str]) -> str | None:
    """Return the current name of an option by its original name, or None for any other name.

    `own` are the names of a page's groups of options. Return None also if the option's group is not among them.
    """
    place = RENAMED.get(name)
    return place if place is not None and place.partition(".")[0] in own else None


def translate(options: Mapping[str, Any], kind: type) -> dict[str, Any]:
    """Translate options of the class `kind`, by any accepted names, to groups of options by current names for `parse`.

    Raises OptionError for an unknown option that is similar to a name in this module, and for an option that is set
    under two names.
    """
    own = {one.name for one in fields(kind)}
    known = own | {*PARTS.values()}
    translated: dict[str, Any] = {}
    names: dict[str, str] = {}
    for name, value in options.items():
        for place, item in _places(name, value, own):
            if names.setdefault(place, name) != name:
                raise OptionError(f"{names[place]} and {name} both set {place}: leave one of them out")
            part, dot, key = place.partition(".")
            near = [] if part in known else difflib.get_close_matches(part, [*RENAMED, *HIDDEN, *PARTS], cutoff=0.8)
            if near:
                now = RENAMED.get(near[0]) or PARTS.get(near[0]) or near[0]
                raise OptionError(f"unknown option {part!r}; did you mean {now!r}?")
            if not dot:
                translated[part] = item
            elif isinstance(translated.setdefault(part, {}), dict):
                translated[part][key] = item
    return translated


def _places(name: str, value: Any, own: Set[str]) -> Iterator[tuple[str, Any]]:
    """Yield the current names (`name` or `group.name`) and values of the options that the option `name` sets.

    `own` are the names of a page's options and groups of options.
    """
    if isinstance(value, Hidden):
        value = value.value
    if is_dataclass(value) and not isinstance(value, type):
        shown = {one.name: getattr(value, one.name) for one in visible_fields(value)}
        value = {one.name: shown.get(one.name, Hidden(getattr(value, one.name))) for one in fields(value)}
    if name == "nmf_attr_opts":
        yield RENAMED[name], parse(AttributionFitOptions, value, "nmf_attr_opts.").integrate_steps
    elif name == "inline_large_json":
        yield RENAMED[name], bool(value)
    elif name in HIDDEN:
        yield f"{HIDDEN[name]}.{name}".strip("."), Hidden(value)
    elif name in COUNTED_FROM_0 and renamed(name, own) and isinstance(value, Sequence) and not isinstance(value, str):
        yield RENAMED[name], tuple(one + 1 if isinstance(one, int) else one for one in value)
    elif renamed(name, own) and not (name in own and isinstance(value, Mapping)):
        yield RENAMED[name], value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield f"{PARTS.get(name, name)}.{key}", item
    elif name not in PARTS:
        yield name, value
    elif value is not None:
        raise OptionError(f"{name}={value!r} must be a dict of options")
