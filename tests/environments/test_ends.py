"""What environments say about the ends of episodes."""

from __future__ import annotations

from collections import Counter
from typing import Any

import gymnasium
import numpy as np
import pytest

from rl_clarity.environments import EnvironmentSpec, make
from rl_clarity.environments.gymnasium_ import GymnasiumEnvironment
from rl_clarity.environments.procgen_ends import Deaths
from rl_clarity.environments.worlds import WorldObject
from rl_clarity.environments.wrappers import unwrapped, watch_ends

RNG = np.random.default_rng(0)
GOAL = 1


@pytest.mark.slow
def test_coinrun_reports_what_killed_the_player() -> None:
    pytest.importorskip("procgen")
    environment = make(EnvironmentSpec("procgen", "coinrun", {"num_threads": 0, "frame_stack": 2}), 8, 0)
    environment.reset()
    causes: Counter[tuple[str, bool]] = Counter()
    for _ in range(400):
        watch_ends(environment, np.arange(8) < 6)
        step = environment.step(RNG.choice([7, 8], size=8))
        assert set(step.ends) == set(np.flatnonzero(step.firsts[:6]))
        causes.update((end["cause"], bool(step.rewards[i] > 0)) for i, end in step.ends.items())
    environment.close()
    assert set(causes) == {("level completed", True), ("saw", False), ("enemy", False), ("lava", False)}


def test_causes_of_episode_ends_are_only_reported_on_request() -> None:
    pytest.importorskip("procgen")
    environment = make(EnvironmentSpec("procgen", "coinrun", {"num_threads": 0}), 4, 0)
    environment.reset()
    steps = [environment.step(np.full(4, 8)) for _ in range(150)]
    environment.close()
    assert any(step.firsts.any() for step in steps)
    assert not any(step.ends for step in steps)


def test_the_serialized_state_of_a_procgen_game_is_read() -> None:
    pytest.importorskip("procgen")
    from rl_clarity.environments.procgen_state import PLAYER, read_state

    environment = make(EnvironmentSpec("procgen", "coinrun", {"num_threads": 0}), 1, 0)
    environment.reset()
    inner: Any = unwrapped(environment)
    state = read_state(inner._get_state(0))
    environment.close()
    np.testing.assert_allclose(state.boxes[state.types == PLAYER][0, :2], [1.5, 1.5787], atol=1e-4)
    assert state.grid.shape == (64, 64)
    assert np.count_nonzero(state.grid == GOAL) == 1


@pytest.mark.parametrize(
    ("game", "actions", "killers"),
    [
        ("starpilot", [4], {"bullet", "flyer", "fast flyer", "turret bullet", "meteor"}),
        ("dodgeball", [1, 7], {"wall", "enemy", "enemy ball"}),
        ("bossfight", [4], {"bullet", "meteor", "shield", "boss"}),
        ("leaper", [5], {"car", "water"}),
        ("plunder", [9], {"death", "cannonball"}),  # or the ammunition was used up
    ],
)
def test_procgen_games_report_the_objects_that_killed_the_player(
    game: str, actions: list[int], killers: set[str]
) -> None:
    pytest.importorskip("procgen")
    environment = make(EnvironmentSpec("procgen", game, {"num_threads": 0}), 8, 0)
    environment.reset()
    causes: set[str] = set()
    for _ in range(250):
        watch_ends(environment, np.ones(8, bool))
        causes |= {end["cause"] for end in environment.step(RNG.choice(actions, size=8)).ends.values()}
    environment.close()
    assert causes & killers
    assert causes <= killers | {"level completed", "time limit"}


class Things:
    """A world whose states are the numbers of the objects that are there; 9 is always there."""

    required = frozenset({"boss"})

    def __init__(self, *things: tuple[str, float, bool]) -> None:
        self.items = [
            WorldObject(type, i, (x, 0, x + 1, 1), (x + 0.5, 0.5), (0, 0, 1, 1), terrain=terrain)
            for i, (type, x, terrain) in enumerate(things)
        ]

    def objects(self, state: bytes) -> list[WorldObject]:
        return [item for item in self.items if item.number in state]

    def without(self, state: bytes, objects: Any) -> bytes:
        return bytes(set(state) - {item.number for item in objects if item.type not in self.required})


class LastStep:
    """A game whose step ends the episode if an object that kills is there."""

    def __init__(self, *killers: int) -> None:
        self.killers = set(killers)

    def call_c_func(self, _name: str, _index: int, state: bytes, _length: int) -> None:
        self.state = state

    def act(self, _actions: np.ndarray) -> None:
        self.ends = bool(self.killers & set(self.state))

    def observe(self) -> tuple[None, None, list[bool]]:
        return None, None, [self.ends]

    def close(self) -> None:
        pass


@pytest.mark.parametrize(
    ("killers", "cause"),
    [
        ([1], "saw"),
        ([0, 1], "crate"),  # each would kill: the nearest
        ([3], "water"),
        ([1, 3], "water"),  # remains without the saw
        ([4], "boss"),  # cannot be removed
        ([], "death"),
        ([9], "death"),  # no object
    ],
)
def test_the_cause_of_a_death_is_an_object_that_kills_by_itself(killers: list[int], cause: str) -> None:
    things = Things(
        ("crate", 0.2, False), ("saw", 1, False), ("wall", 0, True), ("water", 2, True), ("boss", 0.4, False)
    )
    deaths = Deaths(things, lambda: LastStep(*killers))  # type: ignore[arg-type]
    present = {0, 1, 2, 3, 9, *killers}
    assert deaths.cause(bytes(present), 0) == cause
    deaths.close()


def test_atari_reports_a_lost_life() -> None:
    pytest.importorskip("ale_py")
    environment = make(EnvironmentSpec("atari", "breakout", {"episodic_life": True}), 1, 0)
    environment.reset()
    ends = [step.ends[0] for step in (environment.step(np.zeros(1, int)) for _ in range(60)) if step.firsts[0]]
    environment.close()
    assert ends
    assert ends[0] == {"cause": "life lost", "lives": 4}


class Corridor(gymnasium.Env[np.ndarray, Any]):
    """Ends after two steps."""

    observation_space = gymnasium.spaces.Box(0, 255, (8, 8, 3), np.uint8)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        self.time = 0
        return np.zeros((8, 8, 3), np.uint8), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.time += 1
        return np.zeros((8, 8, 3), np.uint8), 0.0, self.time == 2, False, {"cause": "wall", "at": self.time}


def test_the_last_info_of_a_gymnasium_episode_is_passed_on() -> None:
    environment = GymnasiumEnvironment([Corridor()], 0)
    environment.reset()
    assert environment.step(np.zeros(1, int)).ends == {}
    assert environment.step(np.zeros(1, int)).ends == {0: {"cause": "wall", "at": 2}}
