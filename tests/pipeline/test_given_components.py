"""Features from a file: they come first on the page, are ablated as the others are, and wrong files are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rl_clarity.base.errors import ClarityError, OptionError
from tests.pipeline.conftest import Explain
from tests.pipeline.small import SmallRun

LAYER = "Relu_2"


def write(path: Path, **layers: Any) -> str:
    np.savez(path, **layers)
    return str(path)


@pytest.fixture
def width(small_run: SmallRun) -> int:
    return int(small_run.agent.layers[LAYER][-1])


def test_features_from_a_file_come_first_and_follow_its_changes(explain: Explain, tmp_path: Path, width: int) -> None:
    components = np.random.default_rng(0).random((2, width)).astype(np.float32)
    path = write(tmp_path / "given.npz", **{LAYER: components, "Relu_1": components})
    results = explain(features={"components": path, "count": 4})
    reduction = results.reduction(LAYER)
    np.testing.assert_array_equal(reduction.components[:2], components)
    assert len(reduction.components) == 4
    (layer,) = results.section("ablation")["layers"].values()
    ablated = layer["outputs"]["value"]["mean"]
    assert len(ablated) == 4
    assert np.abs(ablated[:2]).min() > 0
    write(tmp_path / "given.npz", **{LAYER: components[::-1]})
    again = explain(features={"components": path, "count": 4}, overwrite=True)
    np.testing.assert_array_equal(again.reduction(LAYER).components[:2], components[::-1])


def test_invalid_feature_files_are_refused_before_any_work(explain: Explain, tmp_path: Path, width: int) -> None:
    good = np.ones((2, width), np.float32)
    cases: list[tuple[dict[str, Any], str]] = [
        ({"elsewhere": good}, "has features of elsewhere, but the layers of the page are Relu_2"),
        ({LAYER: good[:, 1:]}, rf"shape \(2, {width - 1}\); a numeric array of shape \(K, {width}\) is needed"),
        ({LAYER: -good}, "must be finite and have no negative entries"),
        ({LAYER: good * np.nan}, "must be finite and have no negative entries"),
        ({LAYER: np.ones((9, width))}, "has 9 features of layer .*increase features.count"),
        ({LAYER: np.array([object()])}, r"is not an \.npz file of numbers"),
    ]
    for i, (layers, message) in enumerate(cases):
        path = write(tmp_path / f"{i}.npz", **layers)
        with pytest.raises(OptionError, match=message):
            explain(features={"components": path})
    (tmp_path / "text.npz").write_text("no archive")
    with pytest.raises(OptionError, match=r"is not an \.npz file of numbers"):
        explain(features={"components": str(tmp_path / "text.npz")})
    with pytest.raises(OptionError, match=r"missing\.npz' cannot be read: No such file"):
        explain(features={"components": str(tmp_path / "missing.npz")})
    assert not (tmp_path / "page").exists()


@pytest.mark.slow
def test_matched_features_keep_numbers_and_names_of_an_earlier_page(
    explain: Explain, tmp_path: Path, small_run: SmallRun, width: int
) -> None:
    fitted = explain(features={"count": 4}).reduction(LAYER).components
    turned = write(tmp_path / "turned.npz", **{LAYER: fitted[[2, 0, 3]]})
    named = {LAYER: {1: "third", 3: "fourth"}}
    given = {"components": turned, "count": 3, "names": named}
    earlier = explain(tmp_path / "earlier", features=given)
    again = explain(tmp_path / "again", features={"match": str(tmp_path / "earlier"), "count": 4})
    np.testing.assert_array_equal(again.reduction(LAYER).components, fitted[[2, 0, 3, 1]])
    assert again.feature_names(LAYER) == {1: "third", 3: "fourth"}
    entry = again.layer(LAYER)["features"]
    assert [one and one["number"] for one in entry["matched"]] == [1, 2, 3, None]
    assert again.feature_ids(LAYER)[:3] == earlier.feature_ids(LAYER)
    assert [one and one.number for one in again.match_features(earlier, LAYER)] == [1, 2, 3, None]
    assert again.layer(LAYER)["colors"][:3] == earlier.layer(LAYER)["colors"]
    third = explain(tmp_path / "third", features={"components": str(tmp_path / "again"), "count": 6})
    assert third.layer(LAYER)["colors"][:4] == again.layer(LAYER)["colors"]
    assert len(set(third.layer(LAYER)["colors"])) == 6
    own = {"match": str(tmp_path / "earlier"), "names": {LAYER: {1: "new"}}}
    assert explain(tmp_path / "own", features={**own, "count": 4}).feature_names(LAYER)[1] == "new"


def test_features_match_needs_a_page_with_features(explain: Explain, tmp_path: Path) -> None:
    with pytest.raises(ClarityError, match="missing contains no page"):
        explain(features={"match": str(tmp_path / "missing")})
    with pytest.raises(OptionError, match=r"features\.match.* cannot be combined with features\.components"):
        explain(features={"match": "a", "components": "b"})
