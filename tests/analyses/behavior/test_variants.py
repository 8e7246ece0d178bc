"""`rl_clarity.ablate` with pairs of features and with invisible objects."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import rl_clarity
from rl_clarity.analyses.behavior.analysis import Episodes
from rl_clarity.base.errors import ClarityError
from rl_clarity.commands.ablate import AblationReport
from rl_clarity.environments import KINDS
from tests import colors
from tests.analyses.behavior.test_analysis import COMPARED, SIZES, ablate, color_of
from tests.debugging.field import MOVES, SIDE, TILE, Field, Thing


@pytest.fixture(scope="module", autouse=True)
def color_games() -> Iterator[None]:
    KINDS.register("colors", colors.KIND)
    yield
    KINDS.unregister("colors")


def coin_with_or_without_a_mine(rng: np.random.Generator) -> list[Thing]:
    """Put the coin two cells to the left of the player and a mine to the right, or only the coin, to the right."""
    row = SIDE // 2
    has_mine = rng.random() < 0.5
    things = [["player", row, row], ["coin", row, row + (-2 if has_mine else 2)]]
    return [*things, ["mine", row, row + 1]] if has_mine else things


def field_agent() -> Any:
    """An agent that walks left if it sees a mine, else right."""
    import torch

    class Network(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = torch.nn.Conv2d(3, 2, 1, bias=False)
            # of all colors, only that of mines has more red than green and blue together
            self.conv.weight = torch.nn.Parameter(torch.tensor([[1.0, -1, -1], [-1, -1, 1]])[:, :, None, None])
            self.features = torch.nn.ReLU()

        def forward(self, images: torch.Tensor) -> Any:
            mines = self.features(self.conv(images))[:, 0].sum((1, 2))
            left, right = ([torch.tensor(float(name == move)) for name in MOVES] for move in ("LEFT", "RIGHT"))
            return 20 * mines[:, None] * torch.stack(left) + 20 * torch.stack(right), mines

    metadata = {"env_kind": "gymnasium", "env_name": "PairedField-v0", "gamma": 0.9, "lambda": 0.9}
    return rl_clarity.TorchAgent(Network(), (SIDE * TILE, SIDE * TILE, 3), metadata=metadata)


gymnasium.register("PairedField-v0", lambda **_: Field(coin_with_or_without_a_mine))


@pytest.fixture(scope="module")
def unseen(tmp_path_factory: pytest.TempPathFactory) -> AblationReport:
    pytest.importorskip("torch")
    behavior = {"invisible": ("mine", "flower")}
    folder = tmp_path_factory.mktemp("unseen")
    return rl_clarity.ablate(field_agent(), folder, episodes=60, behavior=behavior, **SIZES)


def test_making_mines_invisible_makes_the_agent_die_on_them(unseen: AblationReport) -> None:
    rows = {row["invisible"]: row for row in unseen}
    assert list(rows) == [None, "mine", "flower"]  # the features come first
    row = rows["mine"]
    mines = row["causes"]["mine"]
    assert row["causes"]["coin"]["unedited"] == 1
    assert mines["unedited"] == 0
    assert 0.3 < mines["ablated"] < 0.7, "in the levels with a mine"
    assert mines["adjusted_p"] < 0.01
    assert row["failures"] == {"mine": {"unedited": None, "ablated": None}}  # no failure has another cause
    assert (row["layer"], row["feature"], row["twins"], row["attribution"], row["ablation"]) == ("", 0, [], None, None)
    for measure in [rows["flower"]["return"], rows["flower"]["length"], *rows["flower"]["causes"].values()]:
        assert (measure["difference"], measure["adjusted_p"]) == (0, 1), "there are no flowers"


def test_invisible_object_types_are_listed_in_the_report_and_its_table(unseen: AblationReport) -> None:
    assert "\n  mine invisible (50 pairs were enough): return -" in str(unseen)
    table = Path(str(unseen.page.path)).parent / "behavior" / "report.csv"
    assert {row["invisible"] for row in csv.DictReader(table.open())} == {"", "mine", "flower"}


def test_pairs_of_features_are_ablated_together(tmp_path: Path) -> None:
    report = ablate(tmp_path, episodes=12, behavior={"pairs": True}, **COMPARED)
    assert [[row["feature"], *row["twins"]] for row in report] == [[1], [2], [3], [1, 2], [1, 3], [2, 3]]
    red = next(row for row in report if not row["twins"] and color_of(report, row["feature"]) == "red")
    for row in report.rows[3:]:
        if red["feature"] in (row["feature"], *row["twins"]):
            assert row["return"]["difference"] == red["return"]["difference"] < 0
        else:
            assert row["return"]["difference"] == 0
        assert row["ablation"] is None
    assert "feature 2 and 3: return" in str(report)
    assert len(report.page.results().section("behavior")["clips"]) == 1  # of single features


def test_odds_compare_a_cause_of_death_with_all_other_failures() -> None:
    causes = np.array(["saw", "saw", "saw", "lava", "coin", "coin"])
    failed = np.array([True, True, False, True, False, False])
    episodes = Episodes(np.zeros(6), np.ones(6), causes, np.zeros((6, 0)), failed)
    assert [episodes.odds(cause) for cause in ("saw", "lava", "coin")] == [2, 0.5, 0]
    assert episodes.first(2).odds("saw") is None


@pytest.mark.parametrize(
    ("types", "message"),
    [
        (("saw", "mine"), r"\['saw'\] is not available: .* has objects of the types coin, mine, bee, stone, flower"),
        (None, "states of the environment kind 'colors' cannot be edited; editable kinds: "),
    ],
)
def test_invisible_objects_need_a_known_type_in_an_editable_environment(
    types: Any, message: str, tmp_path: Path
) -> None:
    pytest.importorskip("torch")
    agent = colors.torch_agent() if types is None else field_agent()
    with pytest.raises(ClarityError, match=message):
        rl_clarity.ablate(agent, tmp_path / "page", behavior={"invisible": types or ("red",)}, **SIZES)
    assert not (tmp_path / "page").exists()
