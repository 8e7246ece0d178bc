"""Error messages for objects that are not agents and for arguments that agents do not accept."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
import pytest

import rl_clarity
from rl_clarity.agents import keras_agent
from rl_clarity.agents.capabilities import (
    EXPLAINING,
    PLAYING,
    before_step,
    initial_state,
    preprocess,
    require,
)
from rl_clarity.agents.protocol import Agent, Outputs, Score
from rl_clarity.agents.scores import select_scores
from rl_clarity.base.errors import OptionError, SamplesError
from rl_clarity.formats import baby_a3c
from rl_clarity.formats import cleanrl_networks as cleanrl
from rl_clarity.formats.architectures import build
from rl_clarity.formats.baby_a3c import BabyA3CAgent
from rl_clarity.recordings.rollouts import RandomPolicyAgent
from tests import state_dicts
from tests.fakes import TinyAgent

KerasAgent: Any = keras_agent.KerasAgent
"""Not typed, because the network decides which outputs are None."""
SHAPE = (16, 16, 3)
HEADS = {"policy_logits": 5, "values": 1}


@pytest.fixture(scope="module")
def agent() -> Any:
    return KerasAgent(build("clear", SHAPE, 5, seed=1), gradient_batch_size=8)


def random_observations(count: int = 2) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (count, *SHAPE), np.uint8)


class TestCapabilities:
    def test_agents_that_implement_the_whole_protocol_are_accepted(self, agent: Any) -> None:
        for complete in (agent, TinyAgent()):
            assert require(complete, *PLAYING, *EXPLAINING, for_="generate") is complete
        require(RandomPolicyAgent(3), *PLAYING, for_="collect")
        with pytest.raises(
            OptionError, match="generate needs an agent with sites, tails, which RandomPolicyAgent does"
        ):
            require(RandomPolicyAgent(3), "num_actions", "sites", "tails", for_="generate")

    @pytest.mark.parametrize(
        ("value", "words"),
        [
            ("models:coinrun", r"load_agent\('models:coinrun'\)"),
            (keras.Sequential([keras.layers.Dense(3)]), r"a Sequential is a network.*rl_clarity\.KerasAgent\(model\)"),
            (TinyAgent, "TinyAgent is a class"),
            (object(), "num_actions, .*which object does not have.*KerasAgent"),
            (None, "NoneType does not have"),
            (SimpleNamespace(**dict.fromkeys(PLAYING)), "needs an agent with metadata, .*tails.*SimpleNamespace"),
        ],
    )
    def test_objects_that_are_not_agents_are_rejected(self, value: Any, words: str) -> None:
        with pytest.raises(OptionError, match=words):
            require(value, *PLAYING, *EXPLAINING, for_="generate")

    def test_subclassing_the_agent_protocol_does_not_provide_missing_methods(self) -> None:
        class Minimal(Agent):  # does not define the other members of the protocol
            num_actions = 3

            def step(self, observations: np.ndarray, state: Any, firsts: np.ndarray) -> tuple[Outputs, None]:
                return Outputs(np.zeros((len(observations), 3)), np.zeros(len(observations))), None

        agent = Minimal()  # type: ignore[abstract]
        require(agent, *PLAYING, for_="collect")
        assert initial_state(agent, 2) is None
        assert before_step(agent, None, np.ones(2, bool)) is None
        assert preprocess(agent, random_observations()).shape == random_observations().shape
        with pytest.raises(OptionError, match="needs an agent with forward, which Minimal"):
            require(agent, "forward", for_="this")

    def test_torch_modules_are_rejected(self) -> None:
        torch = pytest.importorskip("torch")
        with pytest.raises(OptionError, match=r"a Linear is a network.*rl_clarity\.TorchAgent\(module"):
            require(torch.nn.Linear(2, 2), *PLAYING, for_="collect")

    @pytest.mark.parametrize(
        "use",
        [
            lambda agent: rl_clarity.collect(agent, None),
            lambda agent: rl_clarity.generate(agent, {}, random_observations(), "nowhere"),
            lambda agent: rl_clarity.select_layers(agent),
            lambda agent: rl_clarity.integrated_gradients(agent, random_observations(), "4a"),
            lambda agent: rl_clarity.input_gradients(agent, random_observations()),
            lambda agent: rl_clarity.multi_path_attribution(agent, random_observations(), "4a", None),  # type: ignore[arg-type]
        ],
    )
    def test_functions_that_need_an_agent_reject_its_name(self, use: Callable[[Any], Any]) -> None:
        with pytest.raises(OptionError, match="load_agent"):
            use("models:coinrun")


class TestObservations:
    def test_integer_and_float_observations_from_0_to_255_equal_uint8(self, agent: Any) -> None:
        expected = agent.forward(random_observations()).values
        for dtype in (np.int64, np.uint16, np.float32, np.float64):
            assert np.array_equal(agent.forward(random_observations().astype(dtype)).values, expected)
        black = np.zeros((2, *SHAPE), np.float32)
        assert np.array_equal(agent.forward(black).values, agent.forward(black.astype(np.uint8)).values)

    @pytest.mark.parametrize(
        ("observations", "words"),
        [
            (random_observations() / 255, r"range from .* to 1.*divided by 255 already.*uint8"),
            (random_observations() / np.float32(256), "divided by 255 already"),
            (random_observations().astype(np.int64) * 2, "range from .* to 510"),
            (random_observations().astype(np.int64) - 1, "range from -1"),
            (np.full((2, *SHAPE), np.nan), "range from nan"),
            (random_observations() > 9, "type bool"),
            (random_observations().astype(object), "type object"),
        ],
    )
    def test_invalid_observations_are_rejected(self, agent: Any, observations: np.ndarray, words: str) -> None:
        for use in (
            agent.forward,
            lambda o: agent.activations(o, "4a"),
            lambda o: rl_clarity.integrated_gradients(agent, o, "4a"),
            lambda o: rl_clarity.input_gradients(agent, o),
        ):
            with pytest.raises(SamplesError, match=words):
                use(observations)

    def test_input_divisor_1_passes_scaled_observations_unchanged(self) -> None:
        network = build("clear", SHAPE, 5, seed=1)
        plain, raw = KerasAgent(network), KerasAgent(network, input_divisor=1)
        scaled = random_observations() / np.float32(255)
        assert np.array_equal(raw.forward(scaled).values, plain.forward(random_observations()).values)
        with pytest.raises(SamplesError, match="to 510"):
            raw.forward(random_observations().astype(int) * 2)

    def test_baby_a3c_accepts_scaled_observations(self) -> None:
        agent = BabyA3CAgent(baby_a3c.build_network(state_dicts.baby_a3c(), (80, 80, 1)))
        observations = np.random.default_rng(0).integers(0, 256, (2, 80, 80, 1), np.uint8)
        unscaled, scaled = (agent.forward(o).values for o in (observations, observations / np.float32(255)))
        assert unscaled is not None
        assert scaled is not None
        assert np.allclose(unscaled, scaled, atol=1e-6)

    @pytest.mark.parametrize("divisor", [0, -1, float("nan")])
    def test_invalid_input_divisors_are_rejected(self, divisor: float) -> None:
        with pytest.raises(OptionError, match="input_divisor="):
            KerasAgent(build("clear", SHAPE, 5), input_divisor=divisor)


class TestStates:
    def test_feedforward_agents_refuse_a_recurrent_state(self, agent: Any) -> None:
        state = (np.zeros((2, 4), np.float32),)
        for use in (
            lambda: agent.step(random_observations(), state, np.zeros(2, bool)),
            lambda: rl_clarity.integrated_gradients(agent, random_observations(), "4a", state=state),
        ):
            with pytest.raises(OptionError, match="the agent has no state: leave"):
                use()

    def test_states_of_another_shape_are_rejected(self) -> None:
        agent = KerasAgent(cleanrl.ppo_atari(state_dicts.ppo_atari(side=44, lstm=True), (44, 44, 4)))
        observations = np.zeros((2, 44, 44, 4), np.uint8)
        for state in (agent.initial_state(3), agent.initial_state(2)[:1], np.zeros((2, 128))):
            with pytest.raises(
                OptionError, match=r"the state has the shapes .*for these observations it must have \[\(2,"
            ):
                agent.activations(observations, next(iter(agent.layers)), state)

    def test_a_state_of_a_single_array_may_be_passed_without_a_tuple(self) -> None:
        agent = rl_clarity.load_agent("models:coinrun-gru")
        observations = np.random.default_rng(0).integers(0, 256, (2, 64, 64, 3), np.uint8)
        state = agent.forward(observations).state
        assert state is not None
        (array,) = state
        uses: list[Callable[[Any], Any]] = [
            lambda state: agent.forward(observations, state).values,
            lambda state: np.asarray(agent.step(observations, state, np.array([True, False]))[1]),
            lambda state: rl_clarity.integrated_gradients(agent, observations, "block3", steps=1, state=state),
            lambda state: rl_clarity.integrated_gradients(
                agent, observations, "block3", steps=1, state=state, baseline="mean"
            ),
        ]
        for use in uses:
            np.testing.assert_array_equal(use(array), use(state))
            assert not np.array_equal(use(array), use(None))


@pytest.mark.parametrize("output", [[], (), 1.5, None, True, [True], [0, "a"], [[0], [1, 2]], [[0]], 5, -1, [0, 5]])
def test_unknown_output_names_and_actions_are_rejected(output: Any) -> None:
    with pytest.raises(OptionError, match="output"):
        select_scores([output], HEADS, 2, lambda: np.zeros((2, 6)))


def test_scores_may_be_linear_combinations() -> None:
    scores: list[Score] = [{"value": 2.0, 1: -1}, {0: np.array([1.0, 3.0])}]
    weights = select_scores(scores, HEADS, 2, lambda: np.zeros((2, 6)))
    assert np.array_equal(weights[:, 0], [[0, -1, 0, 0, 0, 2]] * 2)
    assert np.array_equal(weights[:, 1, 0], [1, 3])
    with pytest.raises(OptionError, match="at least one weight"):
        select_scores([{}], HEADS, 2, lambda: np.zeros((2, 6)))


def test_action_groups_may_be_lists_arrays_tuples_or_ranges() -> None:
    outputs: list[Any] = ["value", 1, np.int64(1), np.array([1, 2]), (1, 2), range(1, 3)]
    weights = select_scores(outputs, HEADS, 1, lambda: np.zeros((1, 6)))[0]
    assert np.array_equal(weights[0], [0, 0, 0, 0, 0, 1])
    assert np.array_equal(weights[1], weights[2])
    assert np.array_equal(weights[3], weights[4])
    assert np.array_equal(weights[3], weights[5])


@pytest.mark.parametrize("name", [name for name in vars(Agent) if not name.startswith("_")])
def test_every_member_of_an_agent_has_a_docstring(agent: Any, name: str) -> None:
    assert inspect.getdoc(getattr(Agent, name))
    if hasattr(KerasAgent, name):
        assert inspect.getdoc(getattr(KerasAgent, name))
