"""Custom kinds of environments: options, metadata in both directions, cache keys."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pytest

from rl_clarity.base.errors import EnvironmentSetupError
from rl_clarity.environments import (
    KINDS,
    EnvironmentKind,
    EnvironmentSpec,
    Step,
    check_environment,
    make,
    source_key,
    spec_from_metadata,
)
from rl_clarity.environments.kinds import CALLER_ONLY
from rl_clarity.environments.protocol import Combo


@dataclass(frozen=True)
class BallOptions:
    speed: int = 1
    bounce: bool = True
    device: str = field(default="cpu", metadata=CALLER_ONLY)


class Ball:
    """A column that moves by `speed` pixels."""

    observation_shape, num_actions = (8, 8, 1), 2
    action_combos: tuple[Combo, ...] = ((), ("UP",))

    def __init__(self, num_envs: int, options: BallOptions) -> None:
        self.num_envs, self.options, self.column = num_envs, options, 0

    def reset(self) -> Step:
        observations = np.zeros((self.num_envs, 8, 8, 1), np.uint8)
        observations[:, :, self.column] = 255
        flags = np.zeros(self.num_envs, bool)
        return Step(observations, np.zeros(self.num_envs, np.float32), flags, flags)

    def step(self, actions: np.ndarray) -> Step:
        self.column = (self.column + self.options.speed) % 8
        return self.reset()

    def render(self) -> np.ndarray:
        return self.reset().observations.repeat(3, axis=-1)

    def close(self) -> None:
        pass


def make_ball(name: str, num_envs: int, seed: int, options: BallOptions, *, full_resolution: bool = False) -> Ball:
    return Ball(num_envs, options)


@pytest.fixture(autouse=True)
def ball() -> Iterator[None]:
    KINDS.register("ball", EnvironmentKind(make_ball, BallOptions, (8, 8, 1)))
    yield
    KINDS.unregister("ball")
    KINDS.unregister("gymnasium")


def test_options_of_a_custom_environment_are_read_from_metadata() -> None:
    metadata = {"env_kind": "ball", "env_name": "red", "speed": 3, "device": "gpu", "frame_stack": 2, "gamma": 0.9}
    spec = spec_from_metadata(metadata)
    assert dict(spec.options) == {"frame_stack": 2, "speed": 3}
    environment = make(spec, 2, seed=0)
    environment.reset()
    newest = environment.step(np.zeros(2, int)).observations[..., -1]
    assert np.argmax(newest[0, 0]) == 3


def test_environment_specifications_survive_conversion_to_metadata() -> None:
    options = {"frame_stack": 2, "speed": 3, "bounce": False}
    spec = EnvironmentSpec("ball", "red", options, epsilon_greedy=0.1, reward_scale=0.5)
    assert spec_from_metadata(spec.metadata()) == spec


def test_options_excluded_from_metadata_still_reach_the_environment() -> None:
    assert make(EnvironmentSpec("ball", "red", {"device": "gpu"}), 1, 0).options.device == "gpu"  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sped": 3}, "unknown option of ball 'sped'; did you mean speed"),
        ({"speed": "fast"}, "speed='fast' must be an integer"),
        ({"bounce": 2}, "bounce=2 must be true or false"),
    ],
)
def test_invalid_environment_options_are_rejected(options: dict[str, object], message: str) -> None:
    with pytest.raises(EnvironmentSetupError, match=message):
        make(EnvironmentSpec("ball", "red", options), 1, 0)


def test_redefining_an_environment_type_changes_its_source_key() -> None:
    assert source_key(EnvironmentSpec("gymnasium", "CarRacing-v3")) == ""
    custom = source_key(EnvironmentSpec("ball", "red"))
    assert custom != ""
    KINDS.register("gymnasium", EnvironmentKind(make_ball))
    assert source_key(EnvironmentSpec("gymnasium", "CarRacing-v3")) not in ("", custom)


@pytest.mark.parametrize(
    ("kind", "name", "message"),
    [
        ("procgen", "conrun", "unknown Procgen game 'conrun'; did you mean coinrun"),
        ("procgen", "ALE/Breakout-v5", "unknown Procgen game .*Atari games need env_kind='atari'"),
        ("atari", "brekout", "unknown Atari game 'brekout'; did you mean breakout"),
        ("atari", "CarRacing-v3", "need env_kind='gymnasium'"),
        ("gymnasium", "CarRacin-v3", "did you mean CarRacing-v3"),
        ("gymnasium", "ALE/Pong-v9", "Atari games need env_kind='atari'"),
        ("procgen", None, "env_name='coinrun'"),
        ("atari", None, "env_name='BreakoutNoFrameskip-v4'"),
        ("gymnasium", None, "env_name='CarRacing-v3'"),
        (None, None, r"env_name='NAME'.*env_kind \(procgen, coinrun_old, atari, gymnasium, light_switch"),
    ],
)
def test_unknown_environment_names_are_refused_with_suggestions(
    kind: str | None, name: str | None, message: str
) -> None:
    if kind == "atari" and name:
        pytest.importorskip("ale_py")
    with pytest.raises(EnvironmentSetupError, match=message):
        check_environment({"env_kind": kind, "env_name": name})


@pytest.mark.parametrize(
    ("kind", "name"),
    [("procgen", "procgen-coinrun-v0"), ("gymnasium", "CarRacing-v3"), ("gymnasium", "unknown_module:Id-v0")],
)
def test_known_environment_names_are_accepted(kind: str, name: str) -> None:
    check_environment({"env_kind": kind, "env_name": name})
