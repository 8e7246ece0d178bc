"""The light switch: what decides the right action is seen at the start, and again only in the game `world`."""

from __future__ import annotations

import numpy as np
import pytest

from rl_clarity.base.errors import EnvironmentSetupError
from rl_clarity.environments import EnvironmentSpec, make, spec_from_metadata
from rl_clarity.environments.light_switch import LAMP, LEFT, LightSwitchEnvironment
from rl_clarity.environments.protocol import Step
from rl_clarity.environments.wrappers import unwrapped


def light_switch(game: str, delay: int = 3, num_envs: int = 8, seed: int = 0) -> LightSwitchEnvironment:
    environment = unwrapped(make(EnvironmentSpec("light_switch", game, {"delay": delay}), num_envs, seed))
    assert isinstance(environment, LightSwitchEnvironment)
    return environment


def play(environment: LightSwitchEnvironment, steps: int, action: int = 0) -> list[Step]:
    return [environment.step(np.full(environment.num_envs, action)) for _ in range(steps)]


@pytest.mark.parametrize("game", ["memory", "world"])
def test_the_cue_is_shown_at_the_start_and_repeated_only_in_the_world_game(game: str) -> None:
    environment = light_switch(game, delay=3)
    first = environment.reset()
    cues = environment.cues
    assert set(cues) == {0, 1}
    frames = [first.observations, *(step.observations for step in play(environment, 4))]
    lamps = np.stack([frame[:, *LAMP] for frame in frames]).mean(axis=(2, 3))  # (5, N, 3)
    differs = [not np.allclose(lamp[cues == 0].mean(axis=0), lamp[cues == 1].mean(axis=0)) for lamp in lamps]
    assert differs == [True, False, False, False, game == "world"]
    switches = [(frame[:, 10:13] == 255).any(axis=(1, 2, 3)).all() for frame in frames]
    assert switches == [False, False, False, False, True]


def test_only_the_action_at_the_switches_is_rewarded() -> None:
    environment = light_switch("memory", delay=2)
    environment.reset()
    cues = environment.cues
    early = play(environment, 3, action=2)
    assert not any(step.rewards.any() or step.firsts.any() for step in early)
    last = environment.step(cues + LEFT)
    assert last.rewards.tolist() == [1] * 8
    assert last.firsts.all()
    assert {end["cause"] for end in last.ends.values()} == {"right switch"}
    cues = environment.cues
    play(environment, 3)
    wrong = environment.step(np.where(np.arange(8) == 0, 0, 1 - cues + LEFT))
    assert not wrong.rewards.any()
    assert [wrong.ends[i]["cause"] for i in (0, 1)] == ["no switch", "wrong switch"]


def test_the_game_depends_on_the_seed_and_not_on_the_actions() -> None:
    one, other = light_switch("world"), light_switch("world")
    for a, b in zip([one.reset(), *play(one, 12, 1)], [other.reset(), *play(other, 12, 2)], strict=True):
        np.testing.assert_array_equal(a.observations, b.observations)
    assert not np.array_equal(
        light_switch("world", seed=1).reset().observations, light_switch("world").reset().observations
    )


def test_snapshots_restore_the_light_switch_game() -> None:
    environment, other = light_switch("memory"), light_switch("memory", seed=5)
    environment.reset()
    play(environment, 7)
    other.restore(environment.snapshot())
    for a, b in zip(play(environment, 9), play(other, 9), strict=True):
        np.testing.assert_array_equal(a.observations, b.observations)


def test_rendered_frames_are_enlarged_observations() -> None:
    environment = light_switch("memory", num_envs=2)
    observations = environment.reset().observations
    np.testing.assert_array_equal(environment.render()[:, ::16, ::16], observations)


def test_metadata_select_the_game_and_its_delay() -> None:
    spec = spec_from_metadata({"env_kind": "light_switch", "env_name": "world", "delay": 4, "gamma": 0.9})
    assert (spec.kind, spec.name, spec.options) == ("light_switch", "world", {"delay": 4})
    with pytest.raises(EnvironmentSetupError, match="'wrld'; did you mean world"):
        make(EnvironmentSpec("light_switch", "wrld"), 1, 0)
    with pytest.raises(EnvironmentSetupError, match="delay=-1 must be from 0"):
        make(EnvironmentSpec("light_switch", "world", {"delay": -1}), 1, 0)
