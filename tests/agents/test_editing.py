"""Edits of a network's activations: the same definition for every kind of agent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rl_clarity
from rl_clarity import Ablate, ChannelReduction, Steer
from rl_clarity.agents.editing import Edit, Scale
from rl_clarity.base.errors import OptionError
from rl_clarity.environments.protocol import Step
from rl_clarity.formats import cleanrl_networks as cleanrl
from rl_clarity.formats.architectures import build
from tests import state_dicts
from tests.fakes import TinyAgent

SHAPE = (44, 44, 4)


def keras_agent(network: Any) -> Any:
    return rl_clarity.KerasAgent(network, batch_size=8, gradient_batch_size=16)


def torch_agent(name: str, **options: Any) -> Any:
    pytest.importorskip("torch")
    from tests.agents import torch_modules

    return rl_clarity.TorchAgent(getattr(torch_modules, name)(), SHAPE, batch_size=8, gradient_batch_size=16, **options)


def jax_agent(name: str, **options: Any) -> Any:
    pytest.importorskip("flax")
    from tests.agents import jax_networks

    return rl_clarity.JaxAgent(
        *jax_networks.initialized(name, SHAPE), SHAPE, batch_size=8, gradient_batch_size=16, **options
    )


AGENTS: dict[str, tuple[Callable[[], Any], str]] = {
    "keras": (lambda: keras_agent(build("clear", (16, 16, 3), 5, seed=1)), "2a"),
    "keras recurrent": (
        lambda: keras_agent(cleanrl.ppo_atari(state_dicts.ppo_atari(side=44, lstm=True), SHAPE)),
        "2",
    ),
    "keras action values": (
        lambda: keras_agent(cleanrl.dqn_atari(state_dicts.dqn_atari(side=44), SHAPE)),
        "2",
    ),
    "torch": (lambda: torch_agent("Nature"), "network.3"),
    "torch in place": (lambda: torch_agent("InPlace"), "relu"),
    "torch recurrent": (lambda: torch_agent("Recurrent", initial_state=np.zeros(8)), "body.1"),
    "jax": (lambda: jax_agent("Residual", input_divisor=255), "relu"),
    "jax recurrent": (lambda: jax_agent("Recurrent", initial_state=(np.zeros(8), np.zeros(8))), "Recurrent/relu"),
    "jax channels first": (lambda: jax_agent("ChannelsFirst", channels_first=True, heads=["q_values"]), "relu"),
    "tiny": (lambda: TinyAgent(observation_shape=(16, 16, 3)), "2a"),
}


QUICK = ("keras", "keras recurrent", "torch in place", "tiny")
"""The others take seconds to compile."""
PARAMETERS = [pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow) for name in AGENTS]


@pytest.fixture(scope="module", params=PARAMETERS)
def case(request: pytest.FixtureRequest) -> tuple[Any, str]:
    make, layer = AGENTS[request.param]
    agent = make()
    return agent, layer


@pytest.fixture(scope="module")
def torch_case() -> tuple[Any, str]:
    return torch_agent("Nature"), "network.3"


def observations_for(agent: Any, count: int = 3, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (count, *agent.observation_shape), np.uint8)


def computed(case: tuple[Any, str]) -> tuple[Any, str, np.ndarray, np.ndarray]:
    """The agent and the layer of a case, observations, and the layer's activations."""
    agent, layer = case
    observations = observations_for(agent)
    return agent, layer, observations, agent.activations(observations, layer)


def components_for(activations: np.ndarray, count: int, seed: int = 1) -> np.ndarray:
    """Components that overlap, in the unit of the activations."""
    random = np.random.default_rng(seed).random((count, activations.shape[-1]))
    return np.asarray(random * np.abs(activations).mean(), np.float32)


def heads(agent: Any, observations: np.ndarray, **options: Any) -> np.ndarray:
    outputs = agent.forward(observations, **options)
    parts = [outputs.policy_logits, outputs.values, outputs.q_values]
    return np.hstack([part.reshape(len(observations), -1) for part in parts if part is not None])


def ablated(activations: np.ndarray, component: np.ndarray) -> np.ndarray:
    """The definition for one component."""
    coefficient = activations @ component / (component @ component)
    return activations - np.maximum(coefficient, 0)[..., None] * component


def test_other_parameters_replaces_weights_temporarily(case: tuple[Any, str]) -> None:
    agent, _ = case
    if isinstance(agent, TinyAgent):
        pytest.skip("its parameters are fixed")
    observations = observations_for(agent)
    before, parameters = heads(agent, observations), agent.parameters()
    halved = {name: array / 2 for name, array in parameters.items() if array.dtype.kind == "f"}
    with agent.other_parameters(halved) as other:
        assert not np.allclose(heads(other, observations), before, rtol=0.01)
        assert np.allclose(next(iter(other.parameters().values())), next(iter(halved.values())))
    assert np.array_equal(heads(agent, observations), before)
    with (
        pytest.raises(rl_clarity.ClarityError, match="the network has no parameter 'missing', only "),
        agent.other_parameters({"missing": np.zeros(2)}),
    ):
        pass


def test_scaling_by_zero_is_ablation(case: tuple[Any, str]) -> None:
    agent, layer = case
    observations = observations_for(agent)
    components = components_for(agent.activations(observations, layer), 2)
    scaled = rl_clarity.edit(agent, Scale(layer, components, factor=(0, 0)))
    ablation = rl_clarity.edit(agent, Ablate(layer, component=components))
    np.testing.assert_allclose(heads(scaled, observations), heads(ablation, observations), rtol=1e-4, atol=1e-5)


def test_edit_of_strength_zero_changes_no_bit(case: tuple[Any, str]) -> None:
    agent, layer, observations, activations = computed(case)
    component = components_for(activations, 1)[0]
    edited = rl_clarity.edit(agent, Ablate(layer, component=component, strength=0), Steer(layer, component, amount=0))
    assert np.array_equal(heads(edited, observations), heads(agent, observations))
    assert np.array_equal(edited.activations(observations, layer), activations)


def test_outputs_of_an_edited_agent_are_those_of_edited_activations(case: tuple[Any, str]) -> None:
    agent, layer, observations, activations = computed(case)
    component = components_for(activations, 1)[0]
    edited = rl_clarity.edit(agent, Ablate(layer, component=component))
    expected = heads(agent, observations, write={layer: ablated(activations, component)})
    assert np.allclose(heads(edited, observations), expected, rtol=1e-4, atol=1e-5)
    assert not np.allclose(heads(agent, observations), expected, rtol=1e-4, atol=1e-5)
    assert np.allclose(edited.activations(observations, layer), ablated(activations, component), atol=1e-5)


def test_components_are_ablated_together_with_their_nmf_coefficients(case: tuple[Any, str]) -> None:
    agent, layer, observations, activations = computed(case)
    components = components_for(activations, 3)
    edited = rl_clarity.edit(agent, Ablate(layer, component=components))
    expected = activations - ChannelReduction(components).transform(activations) @ components
    scale = np.abs(activations).max()
    assert np.allclose(edited.activations(observations, layer), expected, atol=1e-4 * scale)


def test_ablating_all_components_and_the_residual_gives_outputs_at_zero(case: tuple[Any, str]) -> None:
    agent, layer, observations, activations = computed(case)
    components = components_for(activations, 3)
    zero = heads(agent, observations, write={layer: np.zeros_like(activations)})
    features, residual = Ablate(layer, component=components), Ablate(layer, component=components, everything_but=True)
    scale = np.abs(heads(agent, observations) - zero).max()
    for edits in ([features, residual], [residual, features]):
        assert np.allclose(heads(rl_clarity.edit(agent, *edits), observations), zero, atol=1e-3 * scale)
    assert np.array_equal(heads(rl_clarity.edit(agent, Ablate(layer)), observations), zero)


def test_edits_of_disjoint_channels_commute(case: tuple[Any, str]) -> None:
    agent, layer, observations, activations = computed(case)
    component = components_for(activations, 1)[0]
    one, other = np.split(np.tile(component, (2, 1)), 2)
    one[:, ::2], other[:, 1::2] = 0, 0
    edits = [Ablate(layer, component=one), Steer(layer, other[0], amount=2.0)]
    there, back = (heads(rl_clarity.edit(agent, *order), observations) for order in (edits, edits[::-1]))
    assert np.allclose(there, back, rtol=1e-5, atol=1e-6)
    nested = rl_clarity.edit(rl_clarity.edit(agent, edits[0]), edits[1])
    assert np.array_equal(heads(nested, observations), there)


def test_parameters_of_edited_agents_differ_between_edits(case: tuple[Any, str]) -> None:
    agent, layer = case
    component = np.ones(agent.activations(observations_for(agent, 1), layer).shape[-1])
    agents = [
        rl_clarity.edit(agent, edit)
        for edit in (
            Ablate(layer, component=component),
            Ablate(layer, component=component, strength=0.5),
            Ablate(layer, component=component, signed=True),
            Ablate(layer),
            Steer(layer, component, amount=1.0),
        )
    ]
    keys = {
        tuple((name, array.tobytes()) for name, array in sorted(edited.parameters().items()) if "edits" in name)
        for edited in agents
    }
    assert len(keys) == len(agents)


def test_resample_ablation_does_not_depend_on_the_batch(case: tuple[Any, str]) -> None:
    agent, layer = case
    observations = observations_for(agent, 12)
    data = agent.activations(observations_for(agent, 5, seed=9), layer)
    agent_of = {seed: rl_clarity.edit(agent, Ablate(layer, to="resample", data=data, seed=seed)) for seed in (0, 1)}
    together = agent_of[0].activations(observations, layer)
    alone = np.concatenate([agent_of[0].activations(observations[i : i + 1], layer) for i in range(12)])
    assert np.allclose(together, alone, atol=1e-5)
    rows = [np.flatnonzero([np.allclose(row, other, atol=1e-5) for other in data]) for row in together]
    assert len({int(row[0]) for row in rows}) > 2
    assert not np.allclose(together, agent_of[1].activations(observations, layer), atol=1e-5)
    expected = heads(agent, observations, write={layer: together})
    assert np.allclose(heads(agent_of[0], observations), expected, rtol=1e-4, atol=1e-5)


def test_mean_ablation_replaces_units_by_their_mean_over_the_data(torch_case: tuple[Any, str]) -> None:
    agent, layer = torch_case
    observations = observations_for(agent)
    data = agent.activations(observations_for(agent, 5, seed=9), layer)
    edited = rl_clarity.edit(agent, Ablate(layer, unit=[1, 4], to="mean", data=data, strength=0.5))
    expected = agent.activations(observations, layer)
    expected[..., [1, 4]] = (expected[..., [1, 4]] + data.mean(0)[..., [1, 4]]) / 2
    assert np.allclose(edited.activations(observations, layer), expected, atol=1e-6)


def test_units_and_positions_select_the_ablated_part(torch_case: tuple[Any, str]) -> None:
    agent, layer, observations, activations = computed(torch_case)

    def after(edit: Edit) -> np.ndarray:
        return np.asarray(rl_clarity.edit(agent, edit).activations(observations, layer))

    expected = activations.copy()
    expected[:, 1, 2, 5] = 0
    assert np.array_equal(after(Ablate(layer, unit=5, positions=[(1, 2)])), expected)
    mask = np.zeros(activations.shape[1:3], bool)
    mask[1, 2] = True
    assert np.array_equal(after(Ablate(layer, unit=5, positions=mask)), expected)
    only = np.zeros_like(activations)
    only[:, 1, 2] = activations[:, 1, 2]
    assert np.array_equal(after(Ablate(layer, positions=[(1, 2)], everything_but=True)), only)


def test_steering_adds_standard_deviations_of_the_component(torch_case: tuple[Any, str]) -> None:
    agent, layer, observations, activations = computed(torch_case)
    component = components_for(activations, 1)[0]
    unit = (activations @ component / (component @ component)).std()
    edited = rl_clarity.edit(agent, Steer(layer, component, amount=2.0, positions=[(0, 1)], data=activations))
    expected = activations.copy()
    expected[:, 0, 1] += 2 * unit * component
    assert np.allclose(edited.activations(observations, layer), expected, atol=1e-5)
    plain = rl_clarity.edit(agent, Steer(layer, component, amount=-1.0))
    assert np.allclose(plain.activations(observations, layer), activations - component, atol=1e-6)


def test_the_input_and_the_recurrent_state_can_be_edited(case: tuple[Any, str]) -> None:
    agent, _ = case
    observations = observations_for(agent)
    edited = rl_clarity.edit(agent, Ablate("input", positions=[(3, 4), (0, 0)]))
    blank = observations.copy()
    blank[:, [3, 0], [4, 0]] = 0
    assert np.allclose(heads(edited, observations), heads(agent, blank), rtol=1e-5, atol=1e-6)
    state = agent.initial_state(3)
    if state is not None:
        forgetful = rl_clarity.edit(agent, *(Ablate(f"state/{i}") for i in range(len(state))))
        filled = tuple(np.ones_like(part) for part in state)
        zeros = tuple(np.zeros_like(part) for part in state)
        assert np.array_equal(heads(forgetful, observations, state=filled), heads(agent, observations, state=zeros))


def test_written_activations_bypass_edits_but_functions_receive_edited_ones(case: tuple[Any, str]) -> None:
    agent, layer, observations, activations = computed(case)
    edited = rl_clarity.edit(agent, Ablate(layer))
    written = heads(edited, observations, write={layer: activations})
    assert np.allclose(written, heads(agent, observations), rtol=1e-5, atol=1e-6)
    assert np.allclose(heads(edited, observations, write={layer: lambda x: x + activations}), written, atol=1e-6)


COMPONENT = np.ones(64)
WRONG: dict[str, tuple[Callable[[Any], Any], str]] = {
    "layer": (lambda agent: Ablate("2x"), "unknown layer '2x'; available layers: network.1"),
    "width": (lambda agent: Ablate("network.3", component=np.ones(5)), "has 5 channels, but network.3 has 64"),
    "width of steering": (lambda agent: Steer("network.3", np.ones(5), amount=1), "component= has 5 channels"),
    "index": (lambda agent: Ablate("network.3", component=2), "component=2 must be an array"),  # type: ignore[arg-type]
    "strength": (lambda agent: Ablate("network.3", strength=1.5), "strength=1.5 must be a number from 0 to 1"),
    "to": (lambda agent: Ablate("network.3", to="noise"), "to='noise' must be 'zero', 'mean' or"),  # type: ignore[arg-type]
    "no data": (lambda agent: Ablate("network.3", to="mean"), "to='mean' needs data=agent.activations"),
    "needless data": (lambda agent: Ablate("network.3", data=np.ones((1, 4, 4, 64))), "to='zero' takes no data="),
    "data": (
        lambda agent: Ablate("network.3", to="resample", data=np.ones((2, 5, 4, 64))),
        r"data= has the shape \(2, 5, 4, 64\); activations \(N, 4, 4, 64\) of network.3 are needed",
    ),
    "positions": (lambda agent: Ablate("network.3", positions=[(1, 9)]), r"contains \(1, 9\), which is outside"),
    "mask": (lambda agent: Ablate("network.3", positions=np.ones((2, 2), bool)), r"a mask of shape \(2, 2\)"),
    "positions of a vector": (lambda agent: Ablate("network.7", positions=[(0, 0)]), "positions= need a feature map"),
    "unit": (lambda agent: Ablate("network.3", unit=64), "not a channel of network.3, which has the channels 0 to 63"),
    "two parts": (lambda agent: Ablate("network.3", component=COMPONENT, unit=1), "component= and unit= cannot be"),
    "nothing kept": (lambda agent: Ablate("network.3", everything_but=True), "everything_but=True needs component="),
    "amount": (lambda agent: Steer("network.3", COMPONENT, amount=np.inf), "amount=inf must be a finite number"),
    "several components": (lambda agent: Steer("network.3", np.ones((2, 64)), amount=1), "one direction"),
    "head": (lambda agent: Ablate("values"), "layer 'values' is an output of the agent"),
    "not an edit": (lambda agent: "2b", "'2b' is not an edit"),
}


@pytest.mark.parametrize("name", WRONG)
def test_invalid_edits_are_refused_with_a_one_line_error(name: str, torch_case: tuple[Any, str]) -> None:
    agent, _ = torch_case
    make, message = WRONG[name]
    with pytest.raises(OptionError, match=message) as raised:
        rl_clarity.edit(agent, make(agent))
    assert "\n" not in str(raised.value)


def test_editing_needs_an_agent_and_an_edit(torch_case: tuple[Any, str]) -> None:
    agent, _ = torch_case
    with pytest.raises(OptionError, match="needs at least one edit"):
        rl_clarity.edit(agent)
    with pytest.raises(OptionError, match=r"load it with rl_clarity.load_agent\('models:coinrun'\)"):
        rl_clarity.edit("models:coinrun", Ablate("2b"))  # type: ignore[type-var]
    tiny: Any = rl_clarity.edit(TinyAgent(), Ablate("2a"))
    with pytest.raises(OptionError, match="needs an agent with tails"):
        rl_clarity.integrated_gradients(tiny, observations_for(tiny), "2a")


def color_agent(seed: int = 0) -> Any:
    """Values and logits of red alone, although the layer has the other colors, too; the heads are linear."""
    torch = pytest.importorskip("torch")
    from tests.agents import torch_modules

    module = torch_modules.Color()
    with torch.no_grad():
        for part in module.parameters():
            part.zero_()
        for channel in range(3):
            module.body[0].weight[channel, channel] = 1 / 64
        weights = torch.rand(64, generator=torch.Generator().manual_seed(seed))
        module.critic.weight[0, :64] = weights
        module.actor.weight[:, :64] = torch.stack([weights * (action + 1) for action in range(4)])
    return rl_clarity.TorchAgent(module, (64, 64, 3), {"gamma": 0.99}, check=False)


def test_ablating_a_color_changes_the_value_only_if_it_depends_on_it() -> None:
    agent = color_agent()
    observations = observations_for(agent, 4)
    activations = agent.activations(observations, "body.1")
    components = np.eye(8, dtype=np.float32)[:3] * np.array([[3], [2], [1]], np.float32)
    attribution = activations * agent.gradients(observations, "body.1", ["value"])[0]
    by_feature = ChannelReduction(components).signed_transform(attribution)[0].sum(axis=(1, 2))
    values = agent.forward(observations).values
    for feature, component in enumerate(components):
        edited = rl_clarity.edit(agent, Ablate("body.1", component=component))
        change = values - edited.forward(observations).values
        assert np.allclose(change, by_feature[:, feature], rtol=1e-3, atol=1e-5)
        assert np.any(change > 1) == (feature == 0)


def test_edited_agents_play_as_their_edits_dictate() -> None:
    agent = color_agent()
    length, size = 8, agent.observation_shape

    class Game:
        """Whose frames are red on the left or on the right; the reward is for going there."""

        num_envs, num_actions, action_combos = 2, 4, ((), (), (), ())

        def __init__(self) -> None:
            self.observation_shape, self.time = size, 0

        def reset(self) -> Step:
            return self._step(np.zeros(2, np.float32))

        def step(self, actions: np.ndarray) -> Step:
            self.time += 1
            return self._step((np.asarray(actions) == 3).astype(np.float32))

        def render(self) -> np.ndarray:
            return np.zeros((2, *size), np.uint8)

        def close(self) -> None:
            pass

        def _step(self, rewards: np.ndarray) -> Step:
            observations = np.zeros((2, *size), np.uint8)
            observations[..., 0] = 200
            firsts = np.full(2, self.time % length == 0)
            return Step(observations, rewards, firsts, np.zeros(2, bool))

    def mean_return(edits: list[Edit]) -> float:
        edited = rl_clarity.edit(agent, *edits) if edits else agent
        return rl_clarity.evaluate(edited, Game(), episodes=2, random=False)["agent"].mean

    red, green = np.eye(8)[:2]
    assert mean_return([]) == length
    assert mean_return([Ablate("body.1", component=green)]) == length
    assert mean_return([Ablate("body.1", component=red)]) < length / 2
    assert mean_return([Ablate("body.1", component=red), Steer("body.1", red, amount=0.8)]) == length
