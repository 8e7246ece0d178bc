"""Gymnasium environments: image layouts, ends of episodes, unsupported spaces."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from enum import IntEnum
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from rl_clarity.base.errors import EnvironmentSetupError
from rl_clarity.environments import EnvironmentSpec, VectorEnvironment, make
from rl_clarity.environments.gymnasium_vector import GymnasiumVectorEnvironment
from rl_clarity.environments.images import image_layout


class Counter(gymnasium.Env[np.ndarray, Any]):
    """Shows the number of the step; action 1 terminates the episode, the sixth step truncates it."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 15}  # noqa: RUF012

    def __init__(self, actions: Any = None, meanings: Any = None, render_mode: str | None = None) -> None:
        self.observation_space = Box(0, 255, (9, 12, 3), np.uint8)
        self.action_space = actions or Discrete(3)
        self.render_mode = render_mode
        if isinstance(meanings, list):
            self.get_action_meanings = lambda: meanings
        else:
            self.actions = meanings

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.level, self.time = int(self.np_random.integers(100)), 0
        return self._observe(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.action, self.time = action, self.time + 1
        return self._observe(), 0.5, action == 1, self.time == 6, {}

    def _observe(self) -> np.ndarray:
        return np.full((9, 12, 3), self.time + self.level, np.uint8)

    def render(self) -> np.ndarray:
        return np.full((30, 40, 3), self.time, np.uint8)


gymnasium.register("ClarityCounter-v0", lambda **options: Counter(**options))


def make_counters(
    num_envs: int = 2, seed: int = 0, *, full_resolution: bool = False, name: str = "ClarityCounter-v0", **options: Any
) -> VectorEnvironment:
    spec = EnvironmentSpec(kind="gymnasium", name=name, options=options)
    return make(spec, num_envs, seed, full_resolution=full_resolution)


def check_ends_of_episodes(environment: VectorEnvironment) -> None:
    start = environment.reset().observations
    for time in range(1, 6):
        step = environment.step(np.array([0, 0]))
        np.testing.assert_array_equal(step.observations, start + time)
        np.testing.assert_array_equal(step.rewards, [0.5, 0.5])
        assert not step.firsts.any()
    step = environment.step(np.array([0, 1]))
    np.testing.assert_array_equal(step.firsts, [True, True])
    np.testing.assert_array_equal(step.truncated, [True, False])
    assert list(step.final_observations) == [0, 1]
    for i in range(2):
        np.testing.assert_array_equal(step.final_observations[i], start[i] + 6)
    assert (step.observations != start + 6).any()
    assert not environment.step(np.array([0, 0])).firsts.any()


def test_termination_and_truncation_are_distinguished() -> None:
    check_ends_of_episodes(make_counters())


@pytest.mark.parametrize("mode", [AutoresetMode.SAME_STEP, AutoresetMode.DISABLED])
def test_ends_of_episodes_in_vector_environments_are_handled(mode: Any) -> None:
    check_ends_of_episodes(GymnasiumVectorEnvironment(SyncVectorEnv([Counter, Counter], autoreset_mode=mode), seed=0))


def test_next_step_autoreset_marks_reset_steps_as_idle() -> None:
    environment = GymnasiumVectorEnvironment(SyncVectorEnv([Counter, Counter]), seed=0)
    start = environment.reset().observations
    steps = [environment.step(np.array([0, time == 3])) for time in range(8)]
    assert [step.idle.tolist() if step.idle is not None else None for step in steps] == [
        *[None] * 4, [False, True], None, [True, False], None,
    ]  # fmt: skip
    assert [step.firsts.tolist() for step in steps[3:7]] == [[False, True], [False, True], [True, False], [True, False]]
    assert [step.truncated.any() for step in steps] == [False] * 5 + [True] + [False] * 2
    np.testing.assert_array_equal(steps[5].final_observations[0], start[0] + 6)
    np.testing.assert_array_equal(steps[7].observations[0], steps[6].observations[0] + 1)


def test_the_same_seed_gives_the_same_initial_levels() -> None:
    def levels(seed: int) -> list[list[int]]:
        environment = make_counters(4, seed)
        return [environment.reset().observations[:, 0, 0, 0].tolist() for _ in range(3)]

    assert levels(3) == levels(3)
    assert levels(3) != levels(4)
    assert len(set(levels(3)[0])) > 1


def test_action_names_come_from_get_action_meanings() -> None:
    assert make_counters().action_combos == (("0",), ("1",), ("2",))
    named = make_counters(make_kwargs={"meanings": ["NOOP", "UPLEFTFIRE", "turn"]})
    assert named.action_combos == ((), ("UP", "LEFT", "FIRE"), ("turn",))


def test_action_names_come_from_an_enumeration_as_in_minigrid() -> None:
    """As in MiniGrid; an attribute of that name may also be something else."""
    actions = IntEnum("actions", {"forward": 2, "left": 0, "pickup": 1})
    assert make_counters(make_kwargs={"meanings": actions}).action_combos == (("LEFT",), ("pickup",), ("forward",))
    numbers = (("0",), ("1",), ("2",))
    for other in (IntEnum("Other", {"left": 1, "right": 2, "forward": 3}), IntEnum("Few", {"left": 0}), np.zeros(3), 3):
        assert make_counters(make_kwargs={"meanings": other}).action_combos == numbers


def test_discrete_actions_that_do_not_start_at_zero_are_shifted() -> None:
    counter = Counter(Discrete(3, start=5))
    environment = make_counters(1, factory=lambda: counter)
    environment.reset()
    environment.step(np.array([2]))
    assert counter.action == 7


def test_full_resolution_frames_are_rendered() -> None:
    environment = make_counters(full_resolution=True)
    environment.reset()
    environment.step(np.array([0, 0]))
    np.testing.assert_array_equal(environment.render(), np.ones((2, 30, 40, 3)))
    with pytest.raises(EnvironmentSetupError, match="full_resolution=True"):
        make_counters().render()
    with pytest.raises(EnvironmentSetupError, match="render_mode"):
        make_counters(full_resolution=True, factory=Counter)


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((7, 7, 3), (7, 7, 3)),
        ((84, 80), (84, 80, 1)),
        ((84, 80, 3), (84, 80, 3)),
        ((3, 84, 80), (84, 80, 3)),
        ((4, 84, 80, 1), (84, 80, 4)),
        ((4, 84, 80, 3), (84, 80, 12)),
        ((4, 3, 84, 80), (84, 80, 12)),
    ],
)
def test_images_are_converted_to_channels_last(shape: tuple[int, ...], expected: Any) -> None:
    rng = np.random.default_rng(0)
    layout = image_layout(Box(0, 255, shape, np.uint8))
    assert layout.shape == expected
    observations = rng.integers(0, 256, (2, *shape), dtype=np.uint8)
    converted = layout.convert(observations)
    assert converted.shape == (2, *expected)
    height, width, channel = 5, 4, expected[2] - 1  # newest frame, last color
    newest = observations[1, -1] if len(shape) == 4 else observations[1]
    if newest.ndim == 2:
        assert converted[1, height, width, channel] == newest[height, width]
    else:
        colors_first = newest.shape[0] < newest.shape[-1]
        pixel = newest[:, height, width] if colors_first else newest[height, width]
        assert converted[1, height, width, channel] == pixel[-1]


def test_the_channels_first_option_overrides_the_guessed_layout() -> None:
    assert image_layout(Box(0, 255, (12, 64, 10), np.uint8), channels_first=True).shape == (64, 10, 12)


def test_floats_are_converted_to_uint8() -> None:
    zero_to_one = image_layout(Box(0.0, 1.0, (8, 8), np.float32))
    np.testing.assert_array_equal(zero_to_one.convert(np.full((1, 8, 8), 0.5))[0, 0, 0], [128])
    centred = image_layout(Box(-1.0, 1.0, (8, 8), np.float32))
    np.testing.assert_array_equal(centred.convert(np.full((1, 8, 8), -1.0))[0, 0, 0], [0])
    unbounded = Box(-np.inf, np.inf, (8, 8), np.float32)
    with pytest.raises(EnvironmentSetupError, match="value_range"):
        image_layout(unbounded)
    assert image_layout(unbounded, value_range=(0, 255)).convert(np.full((1, 8, 8), 7.0))[0, 0, 0, 0] == 7


@pytest.mark.parametrize(
    ("space", "message"),
    [
        (Box(-1, 1, (2, 4, 4, 3, 3)), "AddRenderObservation"),
        (Box(0, 255, (1, 7, 1), np.uint8), "1 x 7"),
        (Discrete(5), "not an image"),
        (Dict(goal=Discrete(2), speed=Box(-1, 1, (2,))), "has no image"),
    ],
)
def test_spaces_without_an_image_are_rejected(space: Any, message: str) -> None:
    with pytest.raises(EnvironmentSetupError, match=message):
        image_layout(space)


def test_dictionary_action_spaces_are_rejected() -> None:
    with pytest.raises(EnvironmentSetupError, match=r"Dict.*must be Discrete, MultiDiscrete, MultiBinary, or a Box"):
        make_counters(make_kwargs={"actions": Dict({"gas": Discrete(2)})})


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("ClarityCountr-v0", "did you mean ClarityCounter-v0"),
        ("ALE/NoSuchGame-v5", "env_kind='atari'"),
        ("no_such_module:Game-v0", "no_such_module"),
    ],
)
def test_errors_for_unknown_environment_ids_explain_the_fix(name: str, message: str) -> None:
    with pytest.raises(EnvironmentSetupError, match=message):
        make_counters(name=name)


def test_unknown_options_are_rejected() -> None:
    with pytest.raises(EnvironmentSetupError, match="make_kwargs"):
        make_counters(make_kwarg={})


def test_rendering_prints_nothing_and_does_not_catch_sigterm() -> None:
    """By default SDL catches SIGTERM, and prints an error where there is no display."""
    pytest.importorskip("pygame")
    program = """
import os, signal, time
from rl_clarity.environments import EnvironmentSpec, make
environment = make(EnvironmentSpec("gymnasium", "CartPole-v1"), 1, 0, full_resolution=True)
environment.reset()
assert environment.render().shape[0] == 1
os.kill(os.getpid(), signal.SIGTERM)
time.sleep(30)
"""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SDL_", "XDG_", "DISPLAY"))}
    done = subprocess.run([sys.executable, "-c", program], env=kept, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (-signal.SIGTERM, "")
