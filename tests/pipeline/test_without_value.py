"""A policy without a value: what it plays is explained without what needs a value."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rl_clarity
from rl_clarity.pages.results import Results
from tests import colors
from tests.pipeline.small import completeness


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    pytest.importorskip("torch")
    agent = colors.torch_agent("logits")
    trajectories, observations = rl_clarity.collect(agent, colors.ColorEnvironment(1, seed=0), 20, 30, obs_every=2)
    directory = tmp_path_factory.mktemp("page")
    options: dict[str, Any] = {"saliency": ("jacobian",), "state_map": True, "state_map_methods": ("pca",)}
    rl_clarity.generate(agent, trajectories, observations, directory, attr_policy=True, ablation_every=4, **options)
    return rl_clarity.open_results(directory)


def test_the_page_of_a_policy_alone_has_no_values_or_advantages(results: Results) -> None:
    assert (results.agent["kind"], results.agent["has_value"]) == ("policy", False)
    assert "bookmarks" not in results.section("trajectories")
    series = results.series(0)
    assert not {"values", "advantages"} & {*series}
    np.testing.assert_allclose(series["probabilities"].sum(axis=1), 1, rtol=1e-5)


def test_the_largest_logit_is_explained_instead_of_the_value(results: Results) -> None:
    assert results.outputs == ["greedy", "action-0", "action-1"]
    largest = results.series(0)["logits"].max(axis=1)
    np.testing.assert_allclose(completeness(results, "features", 0, "greedy")[:, 2], largest, rtol=1e-3, atol=1e-5)
    assert [one["id"] for one in results.section("saliency")["methods"][0]["outputs"]] == ["policy"]
    assert "greedy" in results.section("ablation")["layers"]["features"]["outputs"]
    colors_of_map = [one["key"] for one in results.section("state_map")["colors"]]
    assert "action" in colors_of_map
    assert not {"value", "advantage"} & {*colors_of_map}


def test_the_exported_table_has_no_column_of_advantages(results: Results, tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    rl_clarity.export(results._directory.location, path)
    header = path.read_text().splitlines()[0]
    assert "advantage" not in header
    assert "largest logit" in header
