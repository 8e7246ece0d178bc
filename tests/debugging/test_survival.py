"""Survival without a feature: failures are continued by agents that lack one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rl_clarity
from rl_clarity.agents.protocol import Outputs, Site
from rl_clarity.base.errors import OptionError
from rl_clarity.base.registry import option_sources
from rl_clarity.commands.debug import Debug
from rl_clarity.debugging.survival import (
    BEFORE_CHANCE,
    SurvivalOptions,
    changed_survival,
    compare_survival,
    least_change,
)
from rl_clarity.pages.results import Results
from tests.debugging.field import COLORS, PLAYER, SIDE, TILE, Player, field_spec, scattered

LAYER = "seen"
NAMES = [*COLORS, "player"]
FEATURES = ("coin", "mine", "stone")
"""Types whose channels are features 1, 2 and 3."""


@dataclass(frozen=True)
class Seer(Player):
    """A player that sees things by a layer with a channel for each type, and is afraid of stones, not of mines."""

    pursued: tuple[str, ...] = ("coin",)
    avoided: tuple[str, ...] = ("stone",)

    @property
    def sites(self) -> list[Site]:
        heads = [Site("policy_logits", "head", (self.num_actions,)), Site("values", "head", (1,))]
        return [
            Site("input", "input", self.observation_shape),
            Site(LAYER, "relu", (SIDE, SIDE, len(NAMES))),
            *heads,
        ]

    def forward(self, observations: np.ndarray, state: Any = None, write: Any = None, **_: Any) -> Outputs:
        image = np.asarray(observations)[:, ::TILE, ::TILE].astype(int)
        colors = np.array([*COLORS.values(), PLAYER])
        seen = (image[:, :, :, None] == colors).all(axis=-1).astype(np.float32)
        if write:
            seen = np.asarray(write[LAYER](seen))
        thoughts = [
            self.think({name: [(int(y), int(x)) for y, x in np.argwhere(one[..., k])] for k, name in enumerate(NAMES)})
            for one in seen
        ]
        values = np.array([value for _, value in thoughts], np.float32)
        return Outputs(np.log(np.stack([self._policy(preferred) for preferred, _ in thoughts])), values)


def debugged(output_dir: Path, page: Path | None = None, **survival: Any) -> Debug:
    return rl_clarity.debug(
        Seer(),
        output_dir,
        page=page,
        environment=field_spec(scattered("coin", *["mine"] * 6, *["stone"] * 12)),
        trajectories={"num_envs": 4, "num_steps": 400},
        failures={"count": 24, "window": 8, "horizon": 8, "points": 1},
        goals={"states": 8},
        survival=survival,
    )


@pytest.fixture(scope="module")
def components(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("features") / "components.npz"
    arrays: dict[str, Any] = {LAYER: np.eye(len(NAMES), dtype=np.float32)[[NAMES.index(name) for name in FEATURES]]}
    np.savez(path, **arrays)
    return str(path)


@pytest.fixture(scope="module")
def results(components: str, tmp_path_factory: pytest.TempPathFactory) -> Results:
    result = debugged(tmp_path_factory.mktemp("debug") / "page", features=components, horizon=8)
    assert result.page is not None
    return result.page.results()


def test_survival_changes_without_the_feature_the_policy_depends_on(results: Results) -> None:
    """Who does not see the coin does not walk through mines to it."""
    section = results.section("survival")
    coin, mine, stone = section["rows"]
    assert coin["verdict"] == "survives more often"
    assert coin["difference"] > 0.2
    assert coin["p"] < 0.05
    assert mine["difference"] == 0  # mines are not avoided, and the random numbers are the same
    assert mine["ablated"] == mine["unedited"] == coin["unedited"] == stone["unedited"]
    assert "failures that could be avoided" in section["caption"]
    assert "multiplying it by 0" in section["caption"]
    assert {"trajectory", "frame"} <= coin.keys()


def agent_page(folder: Path, components: str, names: dict[int, str]) -> Path:
    """A page of a network with the same layer, whose features are those of a file and multiplied by 0."""
    torch = pytest.importorskip("torch")

    class Network(torch.nn.Module):  # type: ignore[name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.seen = torch.nn.Conv2d(3, len(NAMES), TILE, TILE), torch.nn.ReLU()
            self.value = torch.nn.Linear(SIDE * SIDE * len(NAMES), 1)

        def forward(self, images: Any) -> Any:
            seen = self.seen(self.conv(images)).flatten(1)
            return seen[:, :5], self.value(seen)

    agent = rl_clarity.TorchAgent(Network(), (SIDE * TILE, SIDE * TILE, 3), metadata={"gamma": 0.9, "lambda": 0.9})
    frames = np.random.default_rng(0).integers(0, 256, (1, 8, SIDE * TILE, SIDE * TILE, 3)).astype(np.uint8)
    zeros = np.zeros((1, 8))
    samples = {"observations": frames, "actions": zeros.astype(int), "rewards": zeros, "firsts": zeros.astype(bool)}
    features = {"components": components, "count": len(FEATURES), "names": {LAYER: names}}
    rl_clarity.generate(agent, samples, frames[0], folder, features=features, attribution={"baseline": "zero-layer"})
    return folder


@pytest.mark.slow
def test_survival_keeps_the_feature_numbers_and_names_of_a_page(
    components: str, results: Results, tmp_path: Path
) -> None:
    page = agent_page(tmp_path / "agent", components, {1: "gold", 3: "gray"})
    result = debugged(tmp_path / "page", page, horizon=8)
    for row, same in zip(result.survival, results.section("survival")["rows"], strict=True):
        assert {**row, "name": None} == {**same, "name": None}
    assert [row["name"] for row in result.survival] == ["gold", None, "gray"]
    assert "\nwithout feature 1 (gold): survives more often, " in str(result)
    assert str(result).endswith(f"those of the page {page}")
    assert result.page is not None
    columns = result.page.results().section("failure_survival")["columns"]
    assert [column["label"] for column in columns[3:]] == ["1 gold", "2", "3 gray"]
    with pytest.raises(OptionError, match=r"page=.* and survival.features=.* cannot both be given"):
        debugged(tmp_path / "page", page, features=components)
    with pytest.raises(OptionError, match=r"page=.* has no features of layer '2b'; its layers are seen"):
        debugged(tmp_path / "page", page, layer="2b")


def test_survival_without_each_feature_is_listed_for_each_failure(results: Results) -> None:
    section, (coin, _, _) = results.section("failure_survival"), results.section("survival")["rows"]
    rows = section["rows"]
    assert [column["label"] for column in section["columns"][3:]] == ["1", "2", "3"]
    assert all(row["without.2"] == row["unedited"] for row in rows)
    for key, share in (("unedited", coin["unedited"]), ("without.1", coin["ablated"])):
        assert abs(sum(row[key] for row in rows) / len(rows) / 16 - share) < 0.001
    changed = [row for row in rows if row["changes"] != "none"]
    assert changed
    last_chance = {row["failure"]: row["frame"] for row in results.section("failures")["rows"]}
    before = {last_chance[row["failure"]] - row["frame"] for row in rows}
    assert max(before) == BEFORE_CHANCE  # fewer where the episode began later
    for row in rows:
        found = changed_survival(row["unedited"], [row[f"without.{k}"] for k in (1, 2, 3)], 16)
        assert row["changes"] == (", ".join(f"{k}: {row[f'without.{k}']}" for k in found) or "none")


def test_a_survival_layer_without_survival_features_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        OptionError, match=r"survival.layer='seen' requires survival.features, because this page has no features"
    ):
        debugged(tmp_path / "page", layer=LAYER)


def test_cache_keys_depend_on_the_content_of_the_feature_file(tmp_path: Path) -> None:
    path = tmp_path / "components.npz"
    sources = []
    for content in (b"one", b"other"):
        path.write_bytes(content)
        sources.append(option_sources(SurvivalOptions(features=str(path))))
    assert sources[0] != sources[1]


def test_the_smallest_detectable_change_of_survival_is_computed() -> None:
    assert changed_survival(0, [9, 3, 0], 16) == [1]
    least = least_change(16, 1)
    assert least is not None
    for low in range(17 - least):
        assert changed_survival(low, [low + least], 16) == [1]
    assert any(not changed_survival(low, [low + least - 1], 16) for low in range(17 - least))
    assert least_change(2, 8) is None


def test_a_feature_file_without_the_requested_layer_is_refused(components: str, tmp_path: Path) -> None:
    with pytest.raises(
        OptionError, match=r"survival.layer='2b' must select exactly one layer; .* a layer with features: seen"
    ):
        debugged(tmp_path / "page", features=components, layer="2b")
    with pytest.raises(OptionError, match=r"survival.features=.*cannot be read"):
        debugged(tmp_path / "page", features=str(tmp_path / "none.npz"))
    assert not (tmp_path / "page").exists()


def test_features_of_another_agent_are_refused_before_any_work(tmp_path: Path) -> None:
    path = str(tmp_path / "components.npz")
    for layer, message in ((LAYER, "5 channels, but seen has 6"), ("other", "other")):
        arrays: dict[str, Any] = {layer: np.ones((2, 5), np.float32)}
        np.savez(path, **arrays)
        with pytest.raises(OptionError, match=f"survival.features=.* does not fit the agent: .*{message}"):
            debugged(tmp_path / "page", features=path)
    assert not (tmp_path / "page").exists()


def test_the_forecast_includes_survival_without_features(components: str, tmp_path: Path) -> None:
    with_features, without = (
        rl_clarity.debug(
            Seer(),
            tmp_path / "page",
            environment=field_spec(scattered("coin", "mine")),
            dry_run=True,
            trajectories={"num_envs": 2, "num_steps": 40},
            failures={"count": 4, "window": 8, "horizon": 8, "points": 1},
            goals={"states": 8},
            survival={"features": features},
        )
        for features in (components, None)
    )
    assert with_features.stages["survival"] > 0
    assert with_features.notes == without.notes
    assert "survival" not in without.stages


def test_survival_is_not_compared_with_too_few_failures() -> None:
    assert compare_survival(np.zeros(4), np.ones((2, 4))) == []
    (row,) = compare_survival(np.zeros(8), np.full((1, 8), 0.5))
    assert (row.difference, row.verdict) == (0.5, "survives more often")
    (row,) = compare_survival(np.zeros(8), np.array([[0.5, -0.5] * 4]))
    assert row.verdict == "no difference found"
    assert row.detectable > 0.4
