"""Failures: which object ended an episode, until when it was avoidable, and the verdict."""

from __future__ import annotations

import dataclasses
import json
from contextlib import closing
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from rl_clarity.analyses.debugging.failures import action_words
from rl_clarity.base.errors import OptionError, WorldError
from rl_clarity.base.statistics import share_interval
from rl_clarity.debugging.branching import Brancher, check_restored
from rl_clarity.debugging.failures import (
    Failure,
    FailureOptions,
    _killer,
    count_episodes,
    episode_moments,
    examine,
    failed_episodes,
)
from rl_clarity.debugging.sample import play_sample
from rl_clarity.environments import EnvironmentSpec
from rl_clarity.environments.worlds import WorldObject
from rl_clarity.pages.manifest import ActionInfo, AgentInfo, ObservationInfo
from rl_clarity.recordings.samples import Trajectories
from tests.debugging.field import SIDE, Player, Seen, Setup, field_spec, step

OPTIONS = FailureOptions(count=6, window=12, horizon=10)


def examined(agent: Player, setup: Setup, options: FailureOptions = OPTIONS, steps: int = 96) -> list[Failure]:
    spec = field_spec(setup)
    trajectories = play_sample(agent, spec, 4, steps, seed=1)
    with closing(Brancher(agent, spec)) as brancher:
        return [
            examine(brancher, trajectories, ending, options) for ending in failed_episodes(trajectories, options.count)
        ]


def verdicts(failures: list[Failure]) -> list[str]:
    return [failure.verdict for failure in failures]


def behind(*things: str) -> Setup:
    """Return a function that puts mines into the row of the player and of a coin, between them."""

    def setup(rng: np.random.Generator) -> list[list[Any]]:
        row = int(rng.integers(1, SIDE - 1))
        return [["player", row, 0], ["coin", row, SIDE - 1], *([thing, row, 4 + i] for i, thing in enumerate(things))]

    return setup


def test_an_agent_blind_to_mines_gets_the_verdict_no_reaction() -> None:
    failures = examined(Player(avoided=()), behind("mine"))
    assert len(failures) == 6
    assert {failure.cause for failure in failures} == {failure.killer for failure in failures} == {"mine"}
    assert verdicts(failures) == ["no reaction"] * 6
    for failure in failures:
        assert failure.avoidable_until == failure.last  # a step aside is enough
        assert failure.visible_since == max(failure.first, failure.last + 1 - OPTIONS.window)
        assert max(one.policy for one in failure.reactions) < 0.03
        assert failure.policy_until is None or failure.policy_until < failure.last
        assert "Ended by mine; avoidable until the last step" in failure.statement
        assert f"{failure.escapes} of 64 random sequences survive" in failure.statement
        assert "the policy in 0 of 16 continuations (0% to 19%)" in failure.statement
        assert failure.killer_pixels is not None
        assert failure.killer_pixels[2] - failure.killer_pixels[0] == pytest.approx(1 / SIDE)


def test_survival_is_measured_without_the_object_that_ended_the_episode() -> None:
    """Behind the mine is nothing that the agent dies by, unless there is another mine."""
    for things, survives in ((["mine"], True), (["mine", "mine"], False)):
        failures = examined(Player(avoided=()), behind(*things))
        assert failures
        for failure in failures:
            assert [one.step for one in failure.without_killer] == [one.step for one in failure.survival]
            shares = [one.survived / one.count for one in failure.without_killer]
            assert min(shares) == 1 if survives else max(shares) < 0.2
            assert failure.survival[-1].survived == 0


@pytest.mark.parametrize(
    ("survived", "cause", "expected"),
    [
        ({"wall": True}, "enemy", "enemy"),  # without the wall, the player falls past the enemy
        ({"wall": True}, "wall", "wall"),
        ({"wall": True}, "end of episode", "wall"),
        ({"wall": True, "saw": True}, "enemy", "saw"),
        ({}, "enemy", "enemy"),
        ({}, "end of episode", None),
    ],
)
def test_terrain_is_the_cause_only_if_the_environment_reports_no_other(
    survived: dict[str, bool], cause: str, expected: str | None
) -> None:
    box = (0.0, 0.0, 1.0, 1.0)
    near = [
        WorldObject(kind, number, box, (number, 0.0), box, terrain=kind == "wall")
        for number, kind in enumerate(["wall", "enemy", "saw"])
    ]
    world = SimpleNamespace(objects=lambda state: near, without=lambda state, removed: removed[0].type)
    brancher: Any = SimpleNamespace(
        world=world,
        continue_actions=lambda edited, actions: SimpleNamespace(
            survived=np.array([survived.get(kind, False) for kind in edited])
        ),
    )
    killer = _killer(brancher, cast(Any, SimpleNamespace(world_state=b"")), 0, cause)
    assert (killer and killer.type) == expected


def test_an_agent_that_walks_into_mines_gets_the_verdict_wrong_reaction() -> None:
    confused = Player(pursued=("mine",), avoided=())
    failures = examined(confused, behind("mine"))
    assert set(verdicts(failures)) == {"wrong reaction"}
    for failure in failures:
        until = failure.avoidable_until or 0
        peak = max((one for one in failure.reactions if one.step <= until), key=lambda one: one.policy)
        expected = f"changed the policy by up to {peak.policy:.2g}, {failure.last - peak.step} steps before the last"
        assert expected in failure.statement


def test_an_agent_that_reacts_too_late_gets_the_verdict_late() -> None:
    """A bee flies down to the player, who must have left the corner two steps before."""

    class Late(Player):
        def think(self, seen: Seen) -> tuple[Any, float]:
            row, column = seen["player"][0]
            return ([1] if (row - 1, column) in seen["bee"] else [0]), 0.0

    def setup(rng: np.random.Generator) -> list[list[Any]]:
        return [["player", 8, 0], ["coin", 0, 8], ["mine", 8, 1], ["bee", int(rng.integers(0, 3)), 0]]

    failures = examined(Late(noise=1e-6), setup)
    assert failures
    assert {failure.killer for failure in failures} == {"bee"}
    assert set(verdicts(failures)) == {"late"}
    for failure in failures:
        assert failure.avoidable_until is not None
        assert failure.avoidable_until < failure.last - 1


def test_a_death_that_no_actions_avoid_gets_the_verdict_unavoidable() -> None:
    def setup(rng: np.random.Generator) -> list[list[Any]]:
        return [["player", 8, 4], ["coin", 0, 0], *(["bee", 5, x] for x in range(SIDE))]

    failures = examined(Player(), setup)
    assert failures
    assert set(verdicts(failures)) == {"unavoidable"}
    assert (
        "None of 64 random sequences of 10 steps avoided the end (bee), from any of the last 12 steps."
        in failures[0].statement
    )


def test_a_death_by_a_rarely_sampled_action_gets_the_verdict_bad_luck() -> None:
    class Careless(Player):
        """Steps into a mine in one of 12 steps, although it reacts to it."""

        def think(self, seen: Seen) -> tuple[Any, float]:
            player = seen["player"][0]
            beside = [a for a in range(1, 5) if step(player, a) in seen["mine"]]
            return ([0] * 19 + beside if beside else [2]), 0.0

        def _policy(self, preferred: Any) -> np.ndarray:
            weights = np.bincount(preferred, minlength=5) / len(preferred) + 1e-9
            return np.asarray(weights / weights.sum(), np.float32)

    options = dataclasses.replace(OPTIONS, horizon=1, continuations=32)
    failures = [one for one in examined(Careless(), behind("mine"), options, 400) if one.cause == "mine"]
    assert failures
    assert verdicts(failures).count("bad luck") > len(failures) / 2


def test_time_limits_count_as_failures_if_other_episodes_reach_a_goal() -> None:
    class Waiting(Player):
        def think(self, seen: Seen) -> tuple[Any, float]:
            return ([0], 0.0) if seen["coin"][0][0] == 1 else super().think(seen)

    failures = examined(Waiting(), behind())
    assert set(verdicts(failures)) == {"time ran out"}
    assert failures[0].statement == "The time limit ended the episode after 30 steps."


@pytest.fixture(scope="module")
def blind() -> tuple[Player, EnvironmentSpec, Trajectories]:
    agent, spec = Player(avoided=()), field_spec(behind("mine"))
    return agent, spec, play_sample(agent, spec, 2, 64, seed=3)


def test_failures_are_ordered_by_return_and_reproducible(blind: Any) -> None:
    agent, spec, trajectories = blind
    endings = failed_episodes(trajectories)
    assert endings == failed_episodes(trajectories, 99)
    assert [one.total for one in endings] == sorted(one.total for one in endings)
    assert 0 < len(endings) <= count_episodes(trajectories)
    with closing(Brancher(agent, spec)) as brancher, closing(Brancher(agent, spec, 8)) as other:
        assert examine(brancher, trajectories, endings[0], OPTIONS) == examine(other, trajectories, endings[0], OPTIONS)


def test_the_numbers_of_a_verdict_equal_an_independent_calculation(blind: Any) -> None:
    """Step aside from the saved state by the environment itself, and count passes of the policy alone."""
    agent, spec, trajectories = blind
    ending = failed_episodes(trajectories)[0]
    with closing(Brancher(agent, spec)) as brancher:
        failure = examine(brancher, trajectories, ending, OPTIONS)
        (moment,) = episode_moments(trajectories, ending.trajectory, [ending.last])
    environment = spec.options["factory"]()
    environment.reset(seed=9)
    outcomes = []
    for action in range(5):
        environment.state_editor.restore(environment, moment.world_state)
        _, reward, ended, _, _ = environment.step(action)
        outcomes.append(ended and not reward)
    taken = int(trajectories.actions[ending.trajectory, ending.last])
    assert outcomes[taken]
    assert sum(outcomes) == 1
    assert failure.avoidable_until == ending.last
    things = [thing for thing in json.loads(moment.world_state)[0] if thing[0] != "mine"]
    environment.things = things
    with_mine, without = agent.forward(moment.observation[None]), agent.forward(environment.draw()[None])
    change = abs(np.exp(with_mine.policy_logits) - np.exp(without.policy_logits)).sum() / 2
    assert failure.reactions[-1].step == ending.last
    assert failure.reactions[-1].policy == pytest.approx(float(change), abs=1e-6)


def test_saved_states_that_do_not_replay_exactly_are_not_tested(blind: Any) -> None:
    agent, spec, trajectories = blind
    ending = failed_episodes(trajectories)[0]
    with closing(Brancher(agent, spec)) as brancher:
        moments = episode_moments(trajectories, ending.trajectory, range(ending.last - 1, ending.last + 1))
        other = [moments[0], dataclasses.replace(moments[1], observation=moments[1].observation ^ 1)]
        actions = np.asarray(trajectories.actions[ending.trajectory, ending.last - 1 : ending.last + 1])
        check_restored(brancher, moments, actions)
        with pytest.raises(WorldError, match=f"differs from the original at step {ending.last},"):
            check_restored(brancher, other, actions)
        with pytest.raises(WorldError, match=f"does not end after step {ending.last}"):
            check_restored(brancher, moments, np.array([actions[0], 0]))
        unsaved = dataclasses.replace(trajectories, world_states=None)
        failure = examine(brancher, unsaved, ending, OPTIONS)
    assert failure.verdict == "not tested"
    assert "have no states of the environment" in failure.statement


def test_repeated_equivalent_actions_are_merged_in_words() -> None:
    actions = [ActionInfo(label, [label], "#000000") for label in ("no-op", "D", "right")]
    info = AgentInfo("clear", "policy", True, False, 3, ObservationInfo(4, 4, 3, 3, 4, 4), actions, [], [[0, 1]])
    assert action_words(info, [2, 2, 0, 1, 0, 2]) == "right ×2, no-op ×3, right"
    assert action_words(info, []) is None


def test_confidence_intervals_of_shares_are_those_of_wilson() -> None:
    low, high = share_interval(5, 10)  # of Wilson (1927), in many tables
    assert (low, high) == pytest.approx((0.2366, 0.7634), abs=1e-4)
    assert share_interval(0, 20)[0] == 0
    assert share_interval(20, 20)[1] == 1
    assert share_interval(0, 0) == (0, 1)


def test_invalid_options_are_refused() -> None:
    with pytest.raises(OptionError, match="window=0"):
        FailureOptions(window=0)
