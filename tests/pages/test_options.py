"""Options are nested by analysis, and have the defaults of the original, whose names are accepted; errors name the
invalid value and what is valid.
"""

from __future__ import annotations

import dataclasses
import operator
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rl_clarity.analyses.attribution.files import AttributionOptions
from rl_clarity.base.errors import OptionError
from rl_clarity.base.parsing import option_names, parse
from rl_clarity.pages.memory_options import MemoryOptions
from rl_clarity.pages.options import (
    ORIGINAL,
    CompareOptions,
    InterfaceOptions,
    LoadOptions,
    ObservationsOptions,
    TrajectoriesOptions,
)
from rl_clarity.pages.original_options import HIDDEN, PARTS, RENAMED, translate
from tests.page_options import page_options

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


def value_of(options: InterfaceOptions, name: str) -> Any:
    """The value of an option by its original name."""
    place = f"{HIDDEN[name]}.{name}".strip(".") if name in HIDDEN else RENAMED.get(name, name)
    return operator.attrgetter(place)(options)


SAMPLING = {"observations_kwargs", "trajectories.discard_first"}
"""Options of `run` about what the agent plays, which are not options of its page."""


def test_original_settings_select_the_defaults_of_the_original() -> None:
    options = page_options(**{name: value for name, value in ORIGINAL.items() if name not in SAMPLING})
    assert {name: value_of(options, name) for name in ORIGINAL_DEFAULTS} == ORIGINAL_DEFAULTS
    assert options.features.fit_steps == 10
    assert dataclasses.astuple(options.layers)[:4] == (None, ("relu",), True, 0)
    assert options.attribution.quadrature == "riemann"
    assert options.features.fit_observations is None
    first = ORIGINAL["trajectories.discard_first"]
    assert dataclasses.astuple(TrajectoriesOptions(discard_first=first)) == (8, 512, True)
    assert dataclasses.astuple(parse(ObservationsOptions, ORIGINAL["observations_kwargs"])) == (32, 128, 128, False)
    assert dataclasses.astuple(LoadOptions())[:7] == (True, None, None, None, None, False, False)


def test_defaults_differ_from_the_original_only_where_documented() -> None:
    options = InterfaceOptions()
    different = {name for name, value in ORIGINAL_DEFAULTS.items() if value_of(options, name) != value}
    assert different == {name for name in ORIGINAL if name in ORIGINAL_DEFAULTS}
    assert different == {"attr_integrate_steps", "vis_subdiv_mults", "vis_subdiv_mult_default"}


def test_options_are_immutable_copies() -> None:
    with pytest.raises(TypeError):
        ORIGINAL["nmf_attr_opts"]["integrate_steps"] = 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(InterfaceOptions(), "seed", 1)  # noqa: B010 (mypy knows that this assignment is an error)
    keywords: dict[str, Any] = {
        "vis_subdiv_mults": [1, 2],
        "vis_subdiv_mult_default": 1,
        "layer_kwargs": {"op_is_one_of": ["relu"]},
    }
    options = page_options(**keywords)
    keywords["vis_subdiv_mults"].append(3)
    keywords["layer_kwargs"]["op_is_one_of"].append("add")
    assert options.examples.densities == (1.0, 2.0)
    assert options.layers.op_is_one_of == ("relu",)
    InterfaceOptions().view.graph_colors["v"] = "black"  # type: ignore[index]
    assert InterfaceOptions().view.graph_colors["v"] == "green"


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
def test_option_values_are_converted_to_python_types(options: dict[str, Any], expected: Any) -> None:
    (name,) = options
    value = value_of(page_options(**options), name)
    assert value == expected
    assert type(value) is type(expected)


def test_path_options_are_converted_to_path_objects() -> None:
    options = parse(LoadOptions, {"model_path": "a/b.jd", "observations_path": Path("c")})
    assert (options.model_path, options.observations_path, options.metadata_path) == (Path("a/b.jd"), Path("c"), None)


def test_parse_accepts_options_that_are_already_parsed() -> None:
    options = InterfaceOptions(seed=3)
    assert parse(InterfaceOptions, options) is options
    assert parse(InterfaceOptions, None) == InterfaceOptions()


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("attr_polcy", "attribution.policy"),
        ("nmf_feature", "features.count"),
        ("layers_kwargs", "layers"),
        ("video_hight", "video_height"),
        ("attributon", "attribution.steps"),
        ("policy", "attribution.policy"),
        ("overwrit", "overwrite"),
        ("singlefile", "single_file"),
    ],
)
def test_unknown_option_names_suggest_the_nearest(name: str, nearest: str) -> None:
    with pytest.raises(OptionError, match=f"unknown option '{name}'; did you mean '{nearest}'"):
        page_options(**{name: 1})


@pytest.mark.parametrize("name", ["librry", "zebra", "quixotic"])
def test_unknown_option_names_without_a_similar_one_list_all(name: str) -> None:
    with pytest.raises(OptionError, match=f"unknown option '{name}'; available options:"):
        page_options(**{name: 1})


@pytest.mark.parametrize("name", ["model_bytes", "policy_logits_name", "value_function_name"])
def test_options_of_the_original_replaced_by_an_agent_are_refused(name: str) -> None:
    with pytest.raises(OptionError, match=rf"unknown option '{name}': .*an agent.*load_agent\(checkpoint\)"):
        page_options(**{name: b""})


def test_errors_for_unknown_option_names_list_the_available_options() -> None:
    with pytest.raises(OptionError, match=r"unknown option 'zzz'; available options: num_envs, num_steps"):
        parse(TrajectoriesOptions, {"zzz": 1}, "")


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        (InterfaceOptions, {"attr_policy": 1}, "attribution.policy=1 must be True or False"),
        (InterfaceOptions, {"attr_integrate_steps": 2.5}, "attribution.steps=2.5 must be an integer"),
        (InterfaceOptions, {"attr_integrate_steps": True}, "attribution.steps=True must be an integer"),
        (InterfaceOptions, {"attr_integrate_steps": "3"}, "attribution.steps='3' must be an integer"),
        (InterfaceOptions, {"attr_integrate_steps": None}, "attribution.steps=None must be an integer"),
        (InterfaceOptions, {"gae_gamma": "high"}, "advantages.gamma='high' must be a number"),
        (InterfaceOptions, {"gae_gamma": float("nan")}, "advantages.gamma=nan must be"),
        (InterfaceOptions, {"video_height": 16}, "video_height=16 must be a string"),
        (InterfaceOptions, {"vis_subdiv_mults": 2}, "examples.densities=2 must be a sequence"),
        (InterfaceOptions, {"vis_subdiv_mults": "12"}, "examples.densities='12' must be a sequence"),
        (InterfaceOptions, {"vis_subdiv_mults": [1, "2"]}, "examples.densities='2' must be a number"),
        (InterfaceOptions, {"action_combos": ["LEFT"]}, "action_combos='LEFT' must be a sequence"),
        (InterfaceOptions, {"action_group_fns": ["LEFT"]}, "action_group_fns='LEFT' must be a function"),
        (InterfaceOptions, {"graph_colors": "blue"}, "view.graph_colors='blue' must be a dict"),
        (InterfaceOptions, {"graph_colors": {"value": "blue"}}, r"graph_colors\.value"),
        (InterfaceOptions, {"layer_kwargs": ["2b"]}, r"layer_kwargs=\['2b'\] must be a dict of options"),
        (InterfaceOptions, {"layer_kwargs": {"op_is": 1}}, r"layers\.op_is.*op_is_one_of"),
        (InterfaceOptions, {"layer_kwargs": {"discard_first_n": -1}}, "discard_first_n=-1 must be at least 0"),
        (InterfaceOptions, {"nmf_attr_opts": {"integrate_steps": 0}}, r"fit_steps=0 must be at least 1"),
        (InterfaceOptions, {"nmf_features": 0}, "features.count=0 must be at least 1"),
        (InterfaceOptions, {"nmf_fit_observations": 0}, "features.fit_observations=0 must be at least 1"),
        (InterfaceOptions, {"attr_max_paths": 0}, "attribution.max_paths=0 must be at least 1"),
        (InterfaceOptions, {"batch_size": -5}, "batch_size=-5 must be at least 1"),
        (InterfaceOptions, {"numpy_precision": 0}, "numpy_precision=0 must be at least 1"),
        (InterfaceOptions, {"trajectory_bookmarks": -1}, "advantages.bookmarks=-1 must be at least 0"),
        (InterfaceOptions, {"seed": -1}, "seed=-1 must be at least 0"),
        (InterfaceOptions, {"gae_lambda": 1.5}, "advantages.gae_lambda=1.5 must be from 0 to 1"),
        (InterfaceOptions, {"attribution_weight": 2}, r"view.attribution_weight=2\.0 must be from 0 to 1"),
        (InterfaceOptions, {"video_speed": 0}, r"view.speed=0\.0 must be a number above 0"),
        (InterfaceOptions, {"video_speed": float("inf")}, "view.speed=inf must be a number above 0"),
        (InterfaceOptions, {"video_height": "banana"}, "video_height='banana' must be a length"),
        (InterfaceOptions, {"graph_colors": {"v": "nocolor"}}, "color 'nocolor' of v must be"),
        (InterfaceOptions, {"trajectory_color": "#12"}, "color '#12' of trajectory_color must be"),
        (InterfaceOptions, {"numpy_precision": 400}, "numpy_precision=400 must be at most 17"),
        (InterfaceOptions, {"nmf_attr_opts": {"max_paths": 3}}, "max_paths=3 must be 1 or None"),
        (
            InterfaceOptions,
            {"vis_subdiv_mults": []},
            r"examples.densities=\(\) must have at least one number, and all must be above 0",
        ),
        (
            InterfaceOptions,
            {"vis_expand_mult_default": 3},
            r"examples.width=3.* must be in",
        ),
        (InterfaceOptions, {"scrub_range": [0.5]}, r"filmstrip.scrub_range=\(0\.5,\) must be two fractions"),
        (InterfaceOptions, {"scrub_range": [0.5, 0.5]}, "the smaller one first"),
        (LoadOptions, {"model_path": 3}, "model_path=3 must be a path"),
        (TrajectoriesOptions, {"num_envs": 0}, "num_envs=0 must be at least 1"),
        (ObservationsOptions, {"obs_every": 0}, "obs_every=0 must be at least 1"),
    ],
)
def test_invalid_option_values_are_refused(kind: type, options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        parse(kind, translate(options, kind) if kind is InterfaceOptions else options)


def test_nested_options_and_original_names_can_be_combined() -> None:
    both = page_options(attribution={"steps": 3}, attr_policy=True, **{"saliency": ["jacobian"], "saliency_every": 2})
    assert (both.attribution.steps, both.attribution.policy) == (3, True)
    assert both.saliency == page_options(saliency={"methods": ["jacobian"], "every": 2}).saliency
    assert page_options(attribution=AttributionOptions(steps=3)).attribution.steps == 3


def test_setting_an_option_by_two_of_its_names_is_refused() -> None:
    with pytest.raises(OptionError, match=r"attribution and attr_policy both set attribution\.policy: leave one"):
        page_options(attribution={"policy": True}, attr_policy=False)


@pytest.mark.parametrize(("part", "name"), [("view", "video_height"), ("features", "thumbnails_subdir")])
def test_size_and_directory_options_have_only_their_original_names(part: str, name: str) -> None:
    with pytest.raises(OptionError, match=f"unknown option '{part}.{name}'"):
        parse(InterfaceOptions, {part: {name: "3em"}})
    assert value_of(page_options(**{name: "3em"}), name) == "3em"


def test_errors_of_nested_options_give_their_full_name() -> None:
    with pytest.raises(OptionError, match=r"^attribution\.steps=0 must be at least 1"):
        parse(InterfaceOptions, {"attribution": {"steps": 0}})
    with pytest.raises(OptionError, match=r"unknown option 'attribution\.step'; did you mean 'attribution\.steps'"):
        parse(InterfaceOptions, {"attribution": {"step": 1}})


def test_every_option_name_of_the_original_maps_to_an_option() -> None:
    places = {name for kind in (InterfaceOptions, CompareOptions, MemoryOptions) for name in option_names(kind)}
    assert {*RENAMED.values()} <= places
    assert {*ORIGINAL_DEFAULTS} <= {*RENAMED, *HIDDEN} | places


def test_the_documentation_lists_all_option_names() -> None:
    text = (Path(__file__).parents[2] / "docs" / "migration.md").read_text(encoding="utf-8")
    section = text.partition("## Names of options")[2].partition("\n## ")[0]
    rows = dict(re.findall(r"^\| `(\w+)` \| `([\w.]+)` \|$", section, re.MULTILINE))
    assert rows == {**PARTS, **RENAMED}
    assert all(f"`{name}`" in section for name in HIDDEN)


def test_deprecated_swap_options_count_components_from_0() -> None:
    earlier = translate({"swap_directions_from": (0, 2), "swap_directions_to": (1, None)}, MemoryOptions)
    assert earlier == {"interventions": {"swap_from": (1, 3), "swap_to": (2, None)}}
    options = parse(MemoryOptions, earlier).interventions
    assert translate({"interventions": options}, MemoryOptions)["interventions"]["swap_from"] == (1, 3)
    assert options.swaps() == {0: 1, 2: None}
