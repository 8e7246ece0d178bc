"""A page of every checkpoint that other programs made, from `rl-clarity run` in the agent's own environment."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from rl_clarity.cli import main
from rl_clarity.pages.results import open_results
from tests.browser.pages import Visitor

pytestmark = [pytest.mark.browser, pytest.mark.slow]

ATARI = ("no-op", "FIRE", "→", "←")
PROCGEN = ("↙", "←", "↖", "↓", "no-op", "↑", "↘", "→", "↗", "D", "A", "W", "S", "Q", "E")


@dataclass(frozen=True)
class Case:
    file: str
    env_name: str
    layers: int
    """How many it has, as far as none by-passes them; the last one is explained."""
    recurrent: bool = False
    q: bool = False
    stack: int = 1
    frame: tuple[int, int, int] = (84, 84, 1)
    more: tuple[str, ...] = ()


BREAKOUT = "BreakoutNoFrameskip-v4"
COINRUN = (64, 64, 3)
CASES = {
    "sb3-ppo": Case("ppo-BreakoutNoFrameskip-v4.zip", BREAKOUT, 3, stack=4),
    "sb3-dqn": Case("dqn-BreakoutNoFrameskip-v4.zip", BREAKOUT, 3, stack=4, q=True),
    "sb3-recurrent-ppo": Case("ppo_lstm-BreakoutNoFrameskip-v4.zip", BREAKOUT, 3, stack=4, recurrent=True),
    "cleanrl-ppo-atari": Case("agent.pt", BREAKOUT, 3, stack=4),
    "cleanrl-ppo-procgen": Case("agent.pt", "coinrun", 3, frame=COINRUN),
    "cleanrl-dqn-atari": Case("dqn_atari.cleanrl_model", BREAKOUT, 3, stack=4, q=True),
    "procgen-pytorch": Case("model_25165824.pth", "coinrun", 3, frame=COINRUN),
    "procgen-pytorch-recurrent": Case("model_200015872.pth", "coinrun", 3, frame=COINRUN, recurrent=True),
    "baby-a3c": Case("breakout-v4/model.80.tar", "Breakout-v4", 4, frame=(80, 80, 1), recurrent=True),
    "keras": Case("agent.keras", "coinrun", 3, frame=COINRUN, more=("env_kind", "procgen")),
}


@pytest.mark.parametrize("name", CASES)
def test_a_page_of_each_checkpoint_format_opens_in_the_browser(
    name: str, shared_formats: Path, tmp_path: Path, open_page: Callable[..., Visitor]
) -> None:
    case = CASES[name]
    pytest.importorskip("ale_py" if case.frame[2] == 1 else "procgen", reason="the agent plays in its environment")
    command = [
        "run",
        str(shared_formats / name / case.file),
        str(tmp_path / "page"),
        "--load.temp-files",
        "--attr-policy",
    ]
    sizes = ["--trajectories.num-envs", "1", "--trajectories.num-steps", "12"]
    sizes += ["--observations.num-envs", "2", "--observations.num-obs", "6", "--observations.obs-every", "2"]
    less = ["--layer-kwargs.discard-first-n", str(case.layers - 1)]
    said = ["--load.metadata", "env_name", case.env_name, *case.more]
    assert main([*command, *sizes, *less, *said]) == 0

    results = open_results(tmp_path / "page")
    kind = "action_values" if case.q else "policy"
    assert len(results.layers) == 1
    agent = results.agent
    assert (agent["kind"], agent["recurrent"]) == (kind, case.recurrent)
    assert results.agent["observation"]["stack"] == case.stack
    assert tuple(action["label"] for action in results.agent["actions"]) == (ATARI if case.frame[2] == 1 else PROCGEN)
    assert results.frames(0).shape == (12, *case.frame)

    visitor = open_page(tmp_path / "page")  # its messages on the console fail the test
    assert visitor.page.locator("[data-testid=attribution-canvas]").count() >= 2
    visitor.press("ArrowRight", "ArrowRight")
    visitor.settle()
    assert visitor.frame() == 3
    assert ("action value" in visitor.page.inner_text("body").lower()) == case.q
