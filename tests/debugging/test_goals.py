"""Goals: which objects policies and values follow, by where these are placed."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import numpy as np
import pytest

from rl_clarity.base.errors import OptionError
from rl_clarity.base.statistics import softmax
from rl_clarity.debugging.branching import Brancher
from rl_clarity.debugging.goals import (
    GoalOptions,
    GoalStates,
    Placement,
    Role,
    actions_toward,
    compare_types,
    goal_states,
    measure_background,
    measure_memory,
    measure_role,
    measure_sides,
    place_type,
    seen_types,
)
from rl_clarity.debugging.measures import Clustered
from rl_clarity.debugging.sample import play_sample
from rl_clarity.environments.kinds import make_world
from tests.debugging.field import MOVES, SIDE, Player, Seen, field_spec, scattered
from tests.fakes import TinyAgent

OPTIONS = GoalOptions(states=60, near=2)
COMBOS = tuple((name,) if name != "NOOP" else () for name in MOVES)
SETUP = scattered("coin", "mine", "mine", "flower", "stone")


@contextmanager
def opened(agent: Any) -> Iterator[tuple[Brancher, GoalStates]]:
    """What continues episodes that the agent plays, and states of these."""
    spec = field_spec(SETUP)
    with closing(Brancher(agent, spec)) as brancher:
        yield brancher, goal_states(agent, brancher.world, play_sample(agent, spec, 4, 60, seed=2), OPTIONS)


def placed(agent: Player, *types: str) -> list[Placement]:
    with opened(agent) as (_, states):
        return [one for type in types for one in place_type(agent, states, COMBOS, type, OPTIONS)]


def mean(placements: list[Placement], measure: str, **fields: Any) -> float:
    """Return the mean of a measure over the placements with these values."""
    chosen = [
        getattr(one, measure)
        for one in placements
        if all(getattr(one, name) == value for name, value in fields.items())
    ]
    return float(sum(sum(one.sums) for one in chosen) / sum(one.n for one in chosen))


def test_policy_and_value_follow_objects_that_the_agent_pursues() -> None:
    placements = placed(Player(), "coin", "mine", "stone")
    assert {(one.place, one.far) for one in placements} == {
        (place, far) for place in ("left", "right", "above", "below") for far in (False, True)
    }
    for place in ("left", "right", "above", "below"):
        assert mean(placements, "toward", type="coin", place=place) > 0.5
        assert mean(placements, "toward", type="stone", place=place) == pytest.approx(0, abs=1e-6)
    assert mean(placements, "value", type="coin", far=False) > mean(placements, "value", type="coin", far=True) > 0.3
    assert mean(placements, "value", type="stone") == 0
    assert mean(placements, "policy", type="stone") == 0


def test_objects_valued_but_not_pursued_and_blind_sides_are_detected() -> None:
    class Watching(Player):
        """Values coins, and walks to flowers, but only to those below it."""

        def think(self, seen: Seen) -> tuple[Any, float]:
            row = seen["player"][0][0]
            flowers = {**seen, "coin": [place for place in seen["flower"] if place[0] > row]}
            return super().think(flowers)[0], super().think(seen)[1]

    placements = placed(Watching(), "coin", "flower")
    assert abs(mean(placements, "toward", type="coin")) < 0.01
    assert mean(placements, "value", type="coin") > 0.3
    assert mean(placements, "toward", type="flower", place="below") > 0.4
    assert mean(placements, "toward", type="flower", place="above") == pytest.approx(0, abs=1e-6)


def test_effects_of_placements_equal_a_calculation_by_hand() -> None:
    """Edit the JSON of the states, draw them by the environment, and evaluate each alone."""
    agent = Player()
    with opened(agent) as (_, states):
        (right,) = [
            one
            for one in place_type(agent, states, COMBOS, "coin", OPTIONS)
            if (one.place, one.far) == ("right", False)
        ]
    environment, changes = field_spec(SETUP).options["factory"](), []
    for moment in states.moments:
        things = [thing for thing in json.loads(moment.world_state)[0] if thing[0] != "coin"]
        row, column = things[0][1:]
        if column + 2 >= SIDE or any(thing[1:] == [row, column + 2] for thing in things):
            continue
        policies = []
        for extra in ([], [["coin", row, column + 2]]):
            environment.things = [*things, *extra]
            logits = agent.forward(environment.draw()[None]).policy_logits
            assert logits is not None
            policies.append(np.exp(logits[0]))
        changes.append(policies[1][2] - policies[0][2])
    assert right.toward is not None
    assert right.toward.n == len(changes)
    assert right.toward.mean == pytest.approx(float(np.mean(changes)), abs=1e-6)


def test_effects_measured_on_parts_of_the_states_add_up() -> None:
    agent = Player()
    with opened(agent) as (brancher, states):
        several = [states, *(states.part(part, 3) for part in range(3))]
        placed = [place_type(agent, one, COMBOS, "mine", OPTIONS) for one in several]
        pairs = [compare_types(agent, one, "coin", "mine", OPTIONS) for one in several]
        sides = [measure_sides(agent, one, COMBOS) for one in several]
        roles = [measure_role(brancher, one, COMBOS, "mine") for one in several]
    for one in placed[0]:
        first, *rest = [
            other for part in placed[1:] for other in part if (other.place, other.far) == (one.place, one.far)
        ]
        total = sum(rest, first)
        assert total.policy.n == one.policy.n
        assert total.largest == pytest.approx(one.largest)
        assert total.policy.sums == pytest.approx(one.policy.sums, abs=1e-5)
        assert total.usual == pytest.approx(one.usual)
    assert sum(one.between.n for one in pairs[1:] if one is not None) > 40  # each part has all places in turn
    whole, *parts = [one for one in sides if one is not None]
    assert sum(parts[1:], parts[0]).observed == pytest.approx(whole.observed)
    assert sum(roles[2:], roles[1]).name == roles[0].name == "deadly"


def test_object_types_that_the_agent_confuses_are_detected() -> None:
    agent = Player(pursued=("coin", "flower"))
    with opened(agent) as (_, states):
        assert set(seen_types(states)) == {"coin", "mine", "flower", "stone"}
        assert seen_types(states, ("bee",)) == ["bee"]
        with pytest.raises(OptionError, match=r"goals.types=\['dragon'\] are unknown; the environment has coin"):
            seen_types(states, ("dragon",))
        alike, unlike = (compare_types(agent, states, "coin", other, OPTIONS) for other in ("flower", "mine"))
    assert alike is not None
    assert unlike is not None
    assert alike.between.mean == 0
    assert unlike.between.mean > 0.3


def test_object_types_are_classified_by_the_effect_of_touching_them() -> None:
    with opened(Player()) as (brancher, states):
        roles = {name: measure_role(brancher, states, COMBOS, name) for name in ("coin", "mine", "stone", "bee")}
    assert {name: role.name for name, role in roles.items() if name != "bee"} == {
        "coin": "goal",
        "mine": "deadly",
        "stone": "harmless",
    }
    assert roles["mine"].tried > 32
    assert Role("coin", 4, 4, 0).name == "unknown"


def test_the_effect_of_the_background_on_the_policy_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = Player()
    with opened(agent) as (_, states):
        world: Any = states.world
        assert measure_background(agent, states) is None, "the world draws no background"
        monkeypatch.setattr(world, "without_background", lambda state: state, raising=False)
        assert measure_background(agent, states) is None, "nothing changes without it"
        for type, matters in (("coin", True), ("stone", False)):
            # It takes the objects of a type for the background.
            monkeypatch.setattr(
                world,
                "without_background",
                lambda state, type=type: world.without(
                    state, [one for one in world.objects(state) if one.type == type]
                ),
            )
            change = measure_background(agent, states)
            assert change is not None
            assert change.n == len(states.moments)
            assert (change.mean > 0.1) == matters


def test_the_effect_of_memory_is_the_difference_from_the_initial_state() -> None:
    agent = TinyAgent("recurrent", (36, 36, 3), 5, patch=6)
    with opened(agent) as (_, states):
        memory = measure_memory(agent, states)
    assert memory is not None
    changes = []
    for moment in states.moments:
        assert moment.state is not None
        with_state = agent.forward(moment.observation[None], tuple(part[None] for part in moment.state)).policy_logits
        fresh = agent.forward(moment.observation[None], agent.initial_state(1)).policy_logits
        assert with_state is not None
        assert fresh is not None
        changes.append(0.5 * np.abs(softmax(with_state) - softmax(fresh)).sum())
    assert memory.mean == pytest.approx(float(np.mean(changes)), abs=1e-6)
    assert (
        measure_memory(
            Player(), dataclasses.replace(states, moments=[dataclasses.replace(states.moments[0], state=None)])
        )
        is None
    )


def test_a_preferred_side_of_the_policy_is_measured() -> None:
    class Rightward(Player):
        def think(self, seen: Seen) -> tuple[Any, float]:
            return [2], 0.0

    biases = []
    for agent in (Player(), Rightward()):
        with opened(agent) as (_, states):
            sides = measure_sides(agent, states, COMBOS)
            assert sides is not None
            biases.append(sides.bias.mean)
    assert abs(biases[0]) < 1e-6  # the policy for a mirror image is the mirrored policy
    assert biases[1] > 0.9


def test_actions_toward_a_position_are_found_by_their_buttons() -> None:
    combos = [("LEFT",), ("LEFT", "UP"), (), ("RIGHT",), ("forward",), ("UP", "DOWN")]
    assert [
        None if found is None else found.tolist()
        for found in (actions_toward(combos, p) for p in ("left", "above", "below"))
    ] == [
        [0, 1],
        [1, 4],
        None,
    ]


def test_means_and_intervals_are_clustered_by_episode() -> None:
    # Ten episodes of 20 equal values: ten independent numbers, not 200.
    rng = np.random.default_rng(0)
    of_episodes = rng.normal(0.3, 0.2, 10)
    measure = Clustered.of(np.repeat(of_episodes, 20), np.repeat(range(10), 20), 12)
    assert (measure.n, measure.episodes) == (200, 10)
    assert measure.mean == pytest.approx(of_episodes.mean())
    low, high = measure.interval(0)
    error = of_episodes.std(ddof=1) / np.sqrt(10)
    assert high - low == pytest.approx(2 * 1.96 * error, rel=0.25)
    assert measure.p(0) < 0.05 < measure.p(0, null=float(of_episodes.mean()) + 0.02)
    assert measure.detectable() == pytest.approx(2.8 * error, rel=0.02)
    both = measure + measure
    assert both.n == 400
    assert both.mean == pytest.approx(measure.mean)


def test_under_the_null_hypothesis_p_values_are_uniform() -> None:
    rng = np.random.default_rng(1)
    tests = [Clustered.of(rng.normal(size=60), np.repeat(range(12), 5), 12).p(i) for i in range(200)]
    assert 0.01 <= np.mean(np.array(tests) < 0.05) <= 0.1


def test_offsets_in_minigrid_are_relative_to_the_players_view() -> None:
    pytest.importorskip("minigrid")
    from tests.environments.test_minigrid_world import specification

    spec, shape = specification("DoorKey-6x6", "partial"), (56, 56, 3)
    agent = TinyAgent(observation_shape=shape, num_actions=7, sharpness=0.5)
    trajectories = play_sample(agent, spec, 2, 40, seed=0)
    combos = trajectories.action_combos
    assert combos is not None
    with closing(make_world(spec)) as world:
        states = goal_states(agent, world, trajectories, GoalOptions(states=30))
        assert states.turned
        placements = place_type(agent, states, combos, "goal", GoalOptions(near=1, far=2))
    assert {one.place for one in placements} == {"left", "right", "above"}  # the player does not see behind
    assert all((one.toward is None) == (one.place == "below") for one in placements)


def test_invalid_options_are_refused() -> None:
    with pytest.raises(OptionError, match="far=2 must be more than near=2"):
        GoalOptions(near=2, far=2)
