"""Every option of the page's appearance and of its directories reaches the page."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from rl_clarity.base.parsing import option_names
from rl_clarity.pages.document import read_manifest
from rl_clarity.pages.manifest import section_data
from rl_clarity.pages.options import InterfaceOptions
from rl_clarity.pages.original_options import HIDDEN, translate
from rl_clarity.pages.results import Results
from tests.pipeline import test_computing_options
from tests.pipeline.conftest import Explain
from tests.pipeline.small import page_files

VIEW: dict[str, Any] = {
    "video_height": "10em",
    "video_width": "11em",
    "video_speed": 30.5,
    "policy_display_height": "3em",
    "policy_display_width": "20em",
    "navigator_width": "12em",
    "scrubber_height": "5em",
    "scrubber_width": "30em",
    "scrubber_visible_duration": 128,
    "legend_item_height": "4em",
    "legend_item_width": "5em",
    "feature_viewer_height": "20em",
    "feature_viewer_width": "21em",
    "attribution_weight": 0.7,
    "graph_colors": {"v": "teal", "action": "navy", "action_group": "#ffaa00", "advantage": "black"},
    "trajectory_color": "purple",
    "attribution_colors": "mixed",
}
DIRECTORIES = {
    "observations_subdir": "observed/",
    "trajectories_subdir": "recorded",
    "trajectories_scrub_subdir": "nested/film/strips/",
    "features_subdir": "feats/",
    "thumbnails_subdir": "thumbs/",
    "attribution_subdir": "attr/",
    "attribution_scrub_subdir": "attr_strips/",
    "features_grids_subdir": "grids/",
    "attribution_totals_subdir": "totals/",
}
TESTED_ELSEWHERE = {
    *("seed", "batch_size", "overwrite", "page_kind", "analyses", "features.names", "equivalent_actions"),
    *(
        "ablation.every",
        "ablation.to",
        "features.match",
        "behavior.episodes",
        "behavior.layers",
        "behavior.cause",
        "behavior.pairs",
        "behavior.invisible",
        "behavior.stop_early",
        "behavior.max_steps",
    ),
    *("objects.every", "objects.last_steps", "objects.types", "objects.most"),
    *("layers.op_is_one_of", "layers.bottleneck_only", "features.reduction", "features.components"),
}
"""Options with other tests."""


def test_every_view_option_has_a_test_case() -> None:
    cases = {name for case in test_computing_options.CASES for name in present_names(case.values[0])}
    here = {"env_name", "title", "numpy_precision", "inline_js", "single_file"}
    hidden = {f"{part}.{name}".strip(".") for name, part in HIDDEN.items()}
    tested = cases | here | present_names(VIEW) | present_names(DIRECTORIES) | TESTED_ELSEWHERE
    assert tested == {*option_names(InterfaceOptions)} | hidden


def present_names(options: dict[str, Any]) -> set[str]:
    """The names, as `part.name`, of options by their flat names."""
    return {
        f"{name}.{key}".strip(".")
        for name, value in translate(options, InterfaceOptions).items()
        for key in (value if isinstance(value, dict) else ("",))
    }


def test_view_options_reach_the_page(explain: Explain) -> None:
    results = explain(**VIEW, env_name="a game", title="A <title>")
    assert results.manifest["view"] == {**VIEW, "single_channels": True}
    assert results.manifest["recordings"][0]["env_name"] == "a game"
    assert results.manifest["title"] == "A <title>"


def test_default_titles_come_from_the_checkpoint(explain: Explain) -> None:
    manifest = explain(title=None).manifest
    assert manifest["recordings"][0]["env_name"] == "coinrun"
    assert manifest["title"] == "coinrun, nature"


def test_graph_colors_that_are_not_set_keep_their_defaults(explain: Explain) -> None:
    colors = explain(graph_colors={"v": "teal"}).manifest["view"]["graph_colors"]
    assert colors == {"v": "teal", "action": "red", "action_group": "orange", "advantage": "blue"}


def test_directory_options_set_the_paths_of_page_files(explain: Explain, tmp_path: Path) -> None:
    results = explain(**DIRECTORIES, attr_images=True, feature_images=True, ablation_every=None)
    files = page_files(tmp_path / "page") - {"interface.html"}
    used = {name for name in DIRECTORIES.values() if any(file.startswith(name.strip("/") + "/") for file in files)}
    assert used == {*DIRECTORIES.values()}
    assert all(file.startswith(tuple(name.strip("/") + "/" for name in DIRECTORIES.values())) for file in files)
    assert results.frames(0).shape == (24, 64, 64, 3)
    assert results.attribution("Relu_2", 1).channels.shape == (24, 4, 4, 8)


def test_all_page_files_can_be_written_to_one_directory(explain: Explain, tmp_path: Path) -> None:
    separate = explain(tmp_path / "separate")
    single = explain(tmp_path / "single", **dict.fromkeys(DIRECTORIES, ""))
    assert len(page_files(tmp_path / "separate")) == len(page_files(tmp_path / "single"))
    assert (separate.frames(0) == single.frames(0)).all()


def test_numpy_precision_rounds_numbers_of_the_page(explain: Explain, tmp_path: Path) -> None:
    explain(numpy_precision=3)
    numbers = re.findall(r"-?\d+\.\d+(?:e-?\d+)?", json.dumps(manifest_numbers(tmp_path / "page")))
    assert len(numbers) > 10
    assert max(len(re.sub(r"e.*|[-.]", "", number).strip("0")) for number in numbers) == 3


def manifest_numbers(directory: Path) -> Any:
    document = (directory / "interface.html").read_bytes()
    manifest = read_manifest(document)
    layers = section_data(manifest, "attribution")["layers"]
    marks = section_data(manifest, "trajectories")["bookmarks"]
    return [marks, [layer["scales"] for layer in layers], layers[0]["hues"]]


def test_the_script_can_be_written_to_a_separate_file(explain: Explain, tmp_path: Path) -> None:
    explain(tmp_path / "inside")
    explain(tmp_path / "beside", inline_js=False)
    inside, beside = (page_files(tmp_path / name) for name in ("inside", "beside"))
    assert beside - inside == {"interface.js"}
    documents = [(tmp_path / name / "interface.html").read_text() for name in ("inside", "beside")]
    assert '<script src="interface.js">' in documents[1]
    assert len(documents[1]) < len(documents[0]) / 2


@pytest.mark.parametrize("name", ["single_file", "inline_large_json"])
def test_the_page_can_be_written_as_a_single_file(explain: Explain, tmp_path: Path, name: str) -> None:
    one: Results = explain(tmp_path / "one", **{name: True}, attr_images=True)
    many: Results = explain(tmp_path / "many", attr_images=True)
    assert {path.name for path in (tmp_path / "one").rglob("*") if path.is_file()} == {"interface.html", "run-log.json"}
    for layer in many.layers:
        assert (one.attribution(layer, 1).channels == many.attribution(layer, 1).channels).all()
        thumbnail = many.layer(layer)["features"]["thumbnails"][0]
        assert (one.image(thumbnail) == many.image(thumbnail)).all()
    assert (one.frames(1) == many.frames(1)).all()
    assert one.manifest["complete"]
