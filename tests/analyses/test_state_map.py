"""The state map of a page: what it is of, its colors, and how the forecast counts it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rl_clarity
from rl_clarity.analyses import state_map
from rl_clarity.analyses.state_map import find_source, map_colors
from rl_clarity.base.errors import ClarityError, OptionError
from rl_clarity.recordings.samples import Trajectories
from tests.fakes import TinyAgent
from tests.page_options import page_options

SHAPE = (16, 16, 3)
STEPS = 20


def make_agent(kind: str = "policy") -> Any:
    return TinyAgent(kind, observation_shape=SHAPE, num_actions=4)


def make_page(folder: Path, agent: Any, **options: Any) -> Any:
    rng = np.random.default_rng(1)
    played = {
        "observations": rng.integers(0, 256, (2, STEPS, *SHAPE)).astype(np.uint8),
        "actions": rng.integers(0, 4, (2, STEPS)),
        "rewards": np.tile(np.arange(STEPS), (2, 1)),
        "firsts": np.tile(np.arange(STEPS) % 8 == 0, (2, 1)),
    }
    varied = rng.integers(0, 256, (12, *SHAPE)).astype(np.uint8)
    layers = {"name_contains_one_of": ["2a"]}
    return rl_clarity.generate(
        agent, played, varied, folder, nmf_features=2, layer_kwargs=layers, ablation_every=None, **options
    )


def test_a_page_has_a_state_map_of_all_steps(tmp_path: Path) -> None:
    results = make_page(tmp_path, make_agent("recurrent"), state_map=True, state_map_perplexity=4).results()
    one = results.state_map()
    assert one.source == "state"
    assert one.perplexity == 4
    assert one.trajectories.tolist() == np.repeat([0, 1], STEPS).tolist()
    assert one.frames.tolist() == [*range(STEPS)] * 2
    assert one.positions.shape == (2 * STEPS, 2)
    assert results.state_map("pca").perplexity is None
    series = results.series(1)
    np.testing.assert_allclose(one.colors["value"][STEPS:], series["values"], rtol=1e-6)
    np.testing.assert_allclose(one.colors["advantage"][STEPS:], series["advantages"], rtol=1e-6)
    assert one.colors["action"][STEPS:].tolist() == series["actions"].tolist()
    colors = results.section("state_map")["colors"]
    assert [color["names"] for color in colors if color["kind"] == "category"] == [
        ["0", "1", "2", "3"],
        ["trajectory 1", "trajectory 2"],
    ]
    with pytest.raises(OptionError, match="unknown method 'umap'; the page has tsne, pca"):
        results.state_map("umap")


def test_pages_have_no_state_map_by_default(tmp_path: Path) -> None:
    results = make_page(tmp_path, make_agent()).results()
    with pytest.raises(ClarityError, match="state_map"):
        results.state_map()


def test_the_forecast_includes_the_state_map(tmp_path: Path) -> None:
    forecast = make_page(tmp_path, make_agent(), state_map=True, dry_run=True)
    assert forecast.stages["state_map"] > 0


def test_an_unknown_layer_is_refused_before_anything_is_computed(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="unknown layer '9z'"):
        make_page(tmp_path, make_agent(), state_map=True, state_map_layer="9z")
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"state_map_methods": ["som"]}, "state_map.methods='som' is not one of tsne, pca, umap"),
        ({"state_map_perplexity": 0}, "state_map.perplexity=0.0 must be at least 1"),
    ],
)
def test_invalid_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        page_options(**options)


def test_state_maps_of_long_trajectories_are_subsampled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_map, "MOST_POINTS", 16)
    results = make_page(tmp_path, make_agent(), state_map=True, state_map_methods=["pca"]).results()
    assert results.state_map("pca").frames.tolist() == [*range(0, STEPS, 3)] * 2


def test_state_maps_without_dense_layers_use_the_mean_last_feature_map() -> None:
    agent, rng = make_agent(), np.random.default_rng(0)
    observations = rng.integers(0, 256, (3, *SHAPE)).astype(np.uint8)
    source = find_source(agent, None, observations, None)
    assert source.label == "layer tiny/2a/Relu"
    expected = agent.activations(observations, "tiny/2a/Relu").mean(axis=(1, 2))
    np.testing.assert_allclose(source.vectors(agent, observations, None), expected, rtol=1e-5)


def test_state_maps_use_the_last_dense_layer_before_the_policy() -> None:
    pytest.importorskip("torch")
    from torch import nn

    class TwoHeads(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(nn.Flatten(), nn.Linear(48, 7), nn.Tanh())
            self.policy = nn.Linear(7, 4)
            self.critic = nn.Sequential(nn.Linear(48, 6), nn.Tanh())
            self.value = nn.Linear(6, 1)

        def forward(self, x: Any) -> tuple[Any, Any]:
            flat = x.flatten(1)
            return self.policy(self.body(x)), self.value(self.critic(flat))

    agent = rl_clarity.TorchAgent(TwoHeads(), (4, 4, 3))
    observations = np.random.default_rng(0).integers(0, 256, (3, 4, 4, 3)).astype(np.uint8)
    assert find_source(agent, None, observations, None).name == "body.2"


def test_map_colors_count_time_and_return_within_each_episode() -> None:
    firsts = np.array([[True, False, False, True, False]])
    rewards = np.array([[1.0, 2, 3, 4, 5]])
    played = Trajectories(np.zeros((1, 5, 4, 4, 3), np.uint8), np.zeros((1, 5, 2)), rewards, firsts)
    colors = map_colors(played, None)
    assert colors["time"].tolist() == [0, 1, 2, 0, 1]
    assert colors["return_to_come"].tolist() == [6, 5, 3, 9, 5]
    assert {*colors} == {"time", "reward", "return_to_come"}, "continuous actions have no color"
