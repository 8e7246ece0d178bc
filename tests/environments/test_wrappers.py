"""Wrappers for environments of any kind, and errors of `make`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from rl_clarity.base.errors import EnvironmentSetupError
from rl_clarity.environments import EnvironmentSpec, Step, make
from rl_clarity.environments.protocol import Combo, VectorEnvironment, snapshot
from rl_clarity.environments.wrappers import EpsilonGreedy, FrameStack, RewardScale


class Recorder:
    """Shows the time; a new episode every `length` steps, truncated in environment 0."""

    num_envs = 3
    observation_shape = (2, 2, 1)
    num_actions = 5
    action_combos: tuple[Combo, ...] = tuple((str(i),) for i in range(5))

    def __init__(self, length: int = 1000) -> None:
        self.length, self.time, self.closed = length, 0, False
        self.actions: list[np.ndarray] = []

    def _step(self, first: bool) -> Step:
        observations = np.full((3, 2, 2, 1), (self.time + 1) % 256, np.uint8)
        firsts = np.full(3, first)
        truncated = np.array([first and self.time > 0, False, False])
        final = {0: observations[0] + 100} if truncated[0] else {}
        return Step(observations, np.full(3, 2, np.float32), firsts, truncated, final)

    def reset(self) -> Step:
        self.time = 0
        return self._step(True)

    def step(self, actions: np.ndarray) -> Step:
        self.actions.append(actions)
        self.time += 1
        return self._step(self.time % self.length == 0)

    def render(self) -> np.ndarray:
        return np.full((3, 4, 4, 3), self.time, np.uint8)

    def close(self) -> None:
        self.closed = True


class Resumable(Recorder):
    def snapshot(self) -> dict[str, np.ndarray]:
        return {"time": np.array(self.time)}

    def restore(self, snapshot: Mapping[str, np.ndarray]) -> None:
        self.time = int(snapshot["time"])


@pytest.mark.parametrize(("padding", "expected"), [("zeros", [0, 0, 5]), ("first", [5, 5, 5])])
def test_frame_stack_is_reset_with_each_episode(padding: str, expected: Any) -> None:
    environment = FrameStack(Recorder(length=4), 3, padding)
    assert environment.observation_shape == (2, 2, 3)
    environment.reset()
    steps = [environment.step(np.zeros(3, int)) for _ in range(5)]
    assert steps[2].observations[1, 0, 0].tolist() == [2, 3, 4]
    assert steps[3].observations[1, 0, 0].tolist() == expected
    assert steps[3].final_observations[0][0, 0].tolist() == [3, 4, 105]
    assert steps[4].observations[1, 0, 0].tolist() == [*expected[1:], 6]


def test_modified_observations_do_not_change_later_ones() -> None:
    environment = FrameStack(Recorder(), 2)
    first = environment.reset().observations
    first[:] = 77
    assert environment.step(np.zeros(3, int)).observations[0, 0, 0].tolist() == [1, 2]


def test_epsilon_greedy_replaces_a_share_of_actions() -> None:
    recorder = Recorder()
    environment = EpsilonGreedy(recorder, 0.5, seed=1)
    environment.reset()
    for _ in range(2000):
        environment.step(np.full(3, 4))
    actions = np.array(recorder.actions)
    # 0.5 of the actions are uniform over 5, so 0.4 differ from the agent's.
    assert abs((actions != 4).mean() - 0.4) < 0.02
    counts = np.bincount(actions[actions != 4], minlength=4)
    assert counts.min() > 0.8 * counts.mean()


def test_epsilon_greedy_is_seeded() -> None:
    def actions_taken(seed: int) -> np.ndarray:
        recorder = Recorder()
        environment = EpsilonGreedy(recorder, 0.5, seed)
        for _ in range(20):
            environment.step(np.zeros(3, int))
        return np.array(recorder.actions)

    np.testing.assert_array_equal(actions_taken(1), actions_taken(1))
    assert (actions_taken(1) != actions_taken(2)).any()


def test_the_reward_scale_wrapper_multiplies_rewards() -> None:
    environment = RewardScale(Recorder(), 0.1)
    step = environment.step(np.zeros(3, int))
    np.testing.assert_allclose(step.rewards, 0.2)
    assert step.rewards.dtype == np.float32


def test_wrappers_forward_other_attributes_and_methods() -> None:
    recorder = Recorder()
    environment = RewardScale(FrameStack(EpsilonGreedy(recorder, 0.1, 0), 2), 2)
    environment.reset()
    environment.step(np.zeros(3, int))
    assert environment.render().max() == 1
    assert environment.action_combos == recorder.action_combos
    assert (environment.num_envs, environment.num_actions) == (3, 5)
    environment.close()
    assert recorder.closed


@pytest.mark.parametrize(
    ("spec", "num_envs", "message"),
    [
        (EnvironmentSpec(kind="progen", name="coinrun"), 1, "did you mean 'procgen'"),
        (EnvironmentSpec(name="coinrun"), 0, "num_envs=0"),
        (EnvironmentSpec(name="coinrun", epsilon_greedy=2), 1, "epsilon_greedy=2"),
        (EnvironmentSpec(name="coinrun", options={"frame_stack_padding": "black"}), 1, "known|zeros"),
    ],
)
def test_make_refuses_invalid_arguments(spec: EnvironmentSpec, num_envs: int, message: str) -> None:
    pytest.importorskip("procgen")
    if "frame_stack_padding" in spec.options:
        spec = EnvironmentSpec(name="coinrun", options={"frame_stack": 2, "frame_stack_padding": "black"})
    with pytest.raises(EnvironmentSetupError, match=message):
        make(spec, num_envs, 0)


@pytest.mark.parametrize(("kind", "module", "extra"), [("procgen", "procgen", "procgen"), ("atari", "ale_py", "atari")])
def test_errors_for_missing_packages_name_the_install_command(
    monkeypatch: pytest.MonkeyPatch, kind: str, module: Any, extra: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    name = {"procgen": "coinrun", "atari": "breakout"}[kind]
    with pytest.raises(EnvironmentSetupError, match=rf'pip install "rl-clarity\[{extra}\]"'):
        make(EnvironmentSpec(kind=kind, name=name), 1, 0)


def test_importing_rl_clarity_does_not_import_environment_libraries() -> None:
    program = (
        "import sys, rl_clarity.environments; "
        "print([m for m in ('procgen', 'gym', 'ale_py', 'gymnasium', 'tensorflow') if m in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def wrap(environment: VectorEnvironment) -> EpsilonGreedy:
    return EpsilonGreedy(RewardScale(FrameStack(environment, 3), 0.5), 0.5, seed=3)


def test_snapshots_restore_the_state_of_wrappers() -> None:
    environment, other = (wrap(Resumable(length=7)) for _ in range(2))
    environment.reset()
    other.reset()
    for _ in range(5):
        environment.step(np.zeros(3, int))
    saved = snapshot(environment)
    assert saved is not None
    other.restore(saved)
    for _ in range(10):
        expected, actual = environment.step(np.zeros(3, int)), other.step(np.zeros(3, int))
        np.testing.assert_array_equal(actual.observations, expected.observations)
    np.testing.assert_array_equal(recorded_actions(environment)[5:], recorded_actions(other))


def recorded_actions(environment: Any) -> Any:
    return environment.environment.environment.environment.actions


def test_wrappers_have_no_snapshots_if_their_environment_has_none() -> None:
    assert snapshot(Recorder()) is None
    assert snapshot(wrap(Recorder())) is None
