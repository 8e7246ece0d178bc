"""Options have the names and defaults of the original; errors name the invalid value and what is valid."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rl_clarity.base.errors import OptionError
from rl_clarity.base.parsing import parse
from rl_clarity.pages.options import (
    ORIGINAL,
    InterfaceOptions,
    LoadOptions,
    ObservationsOptions,
    TrajectoriesOptions,
)

# Parameters of understanding-rl-vision, with their defaults.
ORIGINAL_DEFAULTS: dict[str, Any] = {
    "env_name": None,
    "numpy_precision": 6,
    "inline_js": True,
    "batch_size": 512,
    "action_combos": None,
    "action_group_fns": None,
    "input_layer_include": False,
    "input_layer_name": "input",
    "gae_gamma": None,
    "gae_lambda": None,
    "trajectory_bookmarks": 16,
    "nmf_features": 8,
    "vis_subdiv_mults": (0.25, 0.5, 1, 2),
    "vis_subdiv_mult_default": 1,
    "vis_expand_mults": (1, 2, 4, 8),
    "vis_expand_mult_default": 4,
    "vis_thumbnail_num_mult": 4,
    "vis_thumbnail_expand_mult": 4,
    "scrub_range": (42 / 64, 44 / 64),
    "attr_integrate_steps": 10,
    "attr_max_paths": None,
    "attr_policy": False,
    "attr_single_channels": True,
    "observations_subdir": "observations/",
    "trajectories_subdir": "trajectories/",
    "trajectories_scrub_subdir": "trajectories_scrub/",
    "features_subdir": "features/",
    "thumbnails_subdir": "thumbnails/",
    "attribution_subdir": "attribution/",
    "attribution_scrub_subdir": "attribution_scrub/",
    "features_grids_subdir": "features_grids/",
    "attribution_totals_subdir": "attribution_totals/",
    "video_height": "16em",
    "video_width": "16em",
    "video_speed": 12,
    "policy_display_height": "2em",
    "policy_display_width": "40em",
    "navigator_width": "24em",
    "scrubber_height": "4em",
    "scrubber_width": "48em",
    "scrubber_visible_duration": 256,
    "legend_item_height": "6em",
    "legend_item_width": "6em",
    "feature_viewer_height": "40em",
    "feature_viewer_width": "40em",
    "attribution_weight": 0.9,
    "graph_colors": {"v": "green", "action": "red", "action_group": "orange", "advantage": "blue"},
    "trajectory_color": "blue",
}


def test_original_settings() -> None:
    original = {name: value for name, value in ORIGINAL.items() if name != "observations_kwargs"}
    options = parse(InterfaceOptions, original)
    assert {name: getattr(options, name) for name in ORIGINAL_DEFAULTS} == ORIGINAL_DEFAULTS
    assert dataclasses.asdict(options.nmf_attr_opts)["integrate_steps"] == 10
    assert dataclasses.astuple(options.layer_kwargs) == (None, ("relu",), True, 0)
    assert options.attr_quadrature == "riemann"
    assert options.nmf_fit_observations is None
    assert dataclasses.astuple(TrajectoriesOptions()) == (8, 512)
    assert dataclasses.astuple(parse(ObservationsOptions, ORIGINAL["observations_kwargs"])) == (32, 128, 128, False)
    assert dataclasses.astuple(LoadOptions())[:7] == (True, None, None, None, None, False, False)


def test_defaults_differ_from_the_original_only_where_documented() -> None:
    options = InterfaceOptions()
    different = {name for name, value in ORIGINAL_DEFAULTS.items() if getattr(options, name) != value}
    assert different == {name for name in ORIGINAL if name in ORIGINAL_DEFAULTS}
    assert different == {"attr_integrate_steps", "vis_subdiv_mults", "vis_subdiv_mult_default"}


def test_options_are_immutable_copies() -> None:
    with pytest.raises(TypeError):
        ORIGINAL["nmf_attr_opts"]["integrate_steps"] = 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(InterfaceOptions(), "seed", 1)  # noqa: B010 (mypy knows that this assignment is an error)
    keywords: dict[str, Any] = {"vis_subdiv_mults": [1, 2], "layer_kwargs": {"op_is_one_of": ["relu"]}}
    options = parse(InterfaceOptions, keywords)
    keywords["vis_subdiv_mults"].append(3)
    keywords["layer_kwargs"]["op_is_one_of"].append("add")
    assert options.vis_subdiv_mults == (1.0, 2.0)
    assert options.layer_kwargs.op_is_one_of == ("relu",)
    InterfaceOptions().graph_colors["v"] = "black"  # type: ignore[index]
    assert InterfaceOptions().graph_colors["v"] == "green"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"attr_integrate_steps": 3.0}, 3),
        ({"attr_integrate_steps": np.int64(3)}, 3),
        ({"attribution_weight": np.float32(0.5)}, 0.5),
        ({"vis_subdiv_mults": np.array([1.0, 2.0])}, (1.0, 2.0)),
        ({"attr_policy": np.bool_(True)}, True),
        ({"gae_gamma": 1}, 1.0),
        ({"action_combos": [["LEFT", "UP"], []]}, (("LEFT", "UP"), ())),
        ({"nmf_fit_observations": None}, None),
    ],
)
def test_conversion_of_values(options: dict[str, Any], expected: Any) -> None:
    (name,) = options
    value = getattr(parse(InterfaceOptions, options), name)
    assert value == expected
    assert type(value) is type(expected)


def test_paths() -> None:
    options = parse(LoadOptions, {"model_path": "a/b.jd", "observations_path": Path("c")})
    assert (options.model_path, options.observations_path, options.metadata_path) == (Path("a/b.jd"), Path("c"), None)


def test_parsed_options_are_accepted() -> None:
    options = InterfaceOptions(seed=3)
    assert parse(InterfaceOptions, options) is options
    assert parse(InterfaceOptions, None) == InterfaceOptions()


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("attr_polcy", "attr_policy"),
        ("nmf_feature", "nmf_features"),
        ("video_hight", "video_height"),
        ("overwrit", "overwrite"),
        ("singlefile", "single_file"),
    ],
)
def test_unknown_names_suggest_the_nearest(name: str, nearest: str) -> None:
    with pytest.raises(OptionError, match=f"unknown option '{name}'; did you mean '{nearest}'"):
        parse(InterfaceOptions, {name: 1})


@pytest.mark.parametrize("name", ["library", "zebra", "channels"])
def test_unknown_names_without_a_similar_one_list_all(name: str) -> None:
    with pytest.raises(OptionError, match=f"unknown option '{name}'; available options:"):
        parse(InterfaceOptions, {name: 1})


@pytest.mark.parametrize("name", ["model_bytes", "policy_logits_name", "value_function_name"])
def test_parameters_of_the_original_that_an_agent_replaces(name: str) -> None:
    with pytest.raises(OptionError, match=rf"unknown option '{name}': .*an agent.*load_agent\(checkpoint\)"):
        parse(InterfaceOptions, {name: b""})


def test_unknown_names_list_the_available_options() -> None:
    with pytest.raises(OptionError, match=r"unknown option 'zzz'; available options: num_envs, num_steps"):
        parse(TrajectoriesOptions, {"zzz": 1}, "")


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        (InterfaceOptions, {"attr_policy": 1}, "attr_policy=1 must be True or False"),
        (InterfaceOptions, {"attr_integrate_steps": 2.5}, "attr_integrate_steps=2.5 must be an integer"),
        (InterfaceOptions, {"attr_integrate_steps": True}, "attr_integrate_steps=True must be an integer"),
        (InterfaceOptions, {"attr_integrate_steps": "3"}, "attr_integrate_steps='3' must be an integer"),
        (InterfaceOptions, {"attr_integrate_steps": None}, "attr_integrate_steps=None must be an integer"),
        (InterfaceOptions, {"gae_gamma": "high"}, "gae_gamma='high' must be a number"),
        (InterfaceOptions, {"gae_gamma": float("nan")}, "gae_gamma=nan must be"),
        (InterfaceOptions, {"video_height": 16}, "video_height=16 must be a string"),
        (InterfaceOptions, {"vis_subdiv_mults": 2}, "vis_subdiv_mults=2 must be a sequence"),
        (InterfaceOptions, {"vis_subdiv_mults": "12"}, "vis_subdiv_mults='12' must be a sequence"),
        (InterfaceOptions, {"vis_subdiv_mults": [1, "2"]}, "vis_subdiv_mults='2' must be a number"),
        (InterfaceOptions, {"action_combos": ["LEFT"]}, "action_combos='LEFT' must be a sequence"),
        (InterfaceOptions, {"action_group_fns": ["LEFT"]}, "action_group_fns: 'LEFT' must be a function"),
        (InterfaceOptions, {"graph_colors": "blue"}, "graph_colors='blue' must be a dict"),
        (InterfaceOptions, {"graph_colors": {"value": "blue"}}, r"graph_colors\.value"),
        (InterfaceOptions, {"layer_kwargs": ["2b"]}, r"layer_kwargs=\['2b'\] must be a dict of options"),
        (InterfaceOptions, {"layer_kwargs": {"op_is": 1}}, r"layer_kwargs\.op_is.*op_is_one_of"),
        (InterfaceOptions, {"layer_kwargs": {"discard_first_n": -1}}, "discard_first_n=-1 must be at least 0"),
        (InterfaceOptions, {"nmf_attr_opts": {"integrate_steps": 0}}, "integrate_steps=0 must be at least 1"),
        (InterfaceOptions, {"nmf_features": 0}, "nmf_features=0 must be at least 1"),
        (InterfaceOptions, {"nmf_fit_observations": 0}, "nmf_fit_observations=0 must be at least 1"),
        (InterfaceOptions, {"attr_max_paths": 0}, "attr_max_paths=0 must be at least 1"),
        (InterfaceOptions, {"batch_size": -5}, "batch_size=-5 must be at least 1"),
        (InterfaceOptions, {"numpy_precision": 0}, "numpy_precision=0 must be at least 1"),
        (InterfaceOptions, {"trajectory_bookmarks": -1}, "trajectory_bookmarks=-1 must be at least 0"),
        (InterfaceOptions, {"seed": -1}, "seed=-1 must be at least 0"),
        (InterfaceOptions, {"gae_lambda": 1.5}, "gae_lambda=1.5 must be from 0 to 1"),
        (InterfaceOptions, {"attribution_weight": 2}, r"attribution_weight=2\.0 must be from 0 to 1"),
        (InterfaceOptions, {"video_speed": 0}, r"video_speed=0\.0 must be a number above 0"),
        (InterfaceOptions, {"video_speed": float("inf")}, "video_speed=inf must be a number above 0"),
        (InterfaceOptions, {"video_height": "banana"}, "video_height='banana' must be a length"),
        (InterfaceOptions, {"graph_colors": {"v": "nocolor"}}, "color 'nocolor' of v must be"),
        (InterfaceOptions, {"trajectory_color": "#12"}, "color '#12' of trajectory_color must be"),
        (InterfaceOptions, {"numpy_precision": 400}, "numpy_precision=400 must be at most 17"),
        (InterfaceOptions, {"nmf_attr_opts": {"max_paths": 3}}, "max_paths=3 must be 1 or None"),
        (InterfaceOptions, {"vis_subdiv_mults": []}, r"vis_subdiv_mults=\(\) must be numbers above 0, at least one"),
        (
            InterfaceOptions,
            {"vis_expand_mult_default": 3},
            r"vis_expand_mult_default=3.* must be in",
        ),
        (InterfaceOptions, {"scrub_range": [0.5]}, r"scrub_range=\(0\.5,\) must be two fractions"),
        (InterfaceOptions, {"scrub_range": [0.5, 0.5]}, "the smaller one first"),
        (LoadOptions, {"model_path": 3}, "model_path=3 must be a path"),
        (TrajectoriesOptions, {"num_envs": 0}, "num_envs=0 must be at least 1"),
        (ObservationsOptions, {"obs_every": 0}, "obs_every=0 must be at least 1"),
    ],
)
def test_invalid_values(kind: type, options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        parse(kind, options)
