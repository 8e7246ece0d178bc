"""PyTorch agents: layers by hooks, gradients by autograd, the same results as with Keras."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import rl_clarity  # noqa: E402
from rl_clarity.agents import keras_agent, torch_agent  # noqa: E402
from rl_clarity.agents.protocol import Agent  # noqa: E402
from rl_clarity.agents.sites import feature_maps  # noqa: E402
from rl_clarity.base.errors import OptionError  # noqa: E402
from rl_clarity.formats import load_agent  # noqa: E402
from tests import state_dicts  # noqa: E402
from tests.agents.paths import path_gradients  # noqa: E402
from tests.agents.torch_modules import SHAPE, Nature, Recurrent, Residual, Towers, loaded, random_observations  # noqa: E402
from tests.formats import torch_writer  # noqa: E402

pytestmark = pytest.mark.usefixtures("single_thread")

KerasAgent: Any = keras_agent.KerasAgent
TorchAgent: Any = torch_agent.TorchAgent
"""Not typed, because the network decides which outputs are None."""


@pytest.fixture
def same_network(tmp_path: Path) -> tuple[Any, Any, Any]:
    """One network from a file, as a Keras model, and as a module."""
    path = tmp_path / "agent.pt"
    path.write_bytes(torch_writer.save(state_dicts.ppo_atari(side=44)))
    from_file: Any = load_agent(path, observation_shape=SHAPE)
    return from_file, KerasAgent(from_file.network.model), TorchAgent(loaded(Nature()), SHAPE)


def test_checkpoint_keras_model_and_torch_module_give_the_same_results(same_network: tuple[Any, Any, Any]) -> None:
    observations = random_observations()
    points, weights = np.array([0.2, 0.6, 1.0]), np.array([0.3, 0.4, 0.3])
    layers = [list(agent.layers) for agent in same_network]
    assert layers[2] == ["network.1", "network.3", "network.5"]
    assert [list(agent.layers.values()) for agent in same_network][1:] == [list(same_network[0].layers.values())] * 2
    reference = None
    for agent, names in zip(same_network, layers, strict=True):
        outputs = agent.forward(observations)
        path = path_gradients(agent, observations, names[1], points, weights, ["value", 2, (0, 1)])
        at_values = agent.gradients(
            observations, names[0], ["value"], values=agent.activations(observations, names[0]) * 0.5
        )
        at_input = agent.gradients(observations, "input", [3])
        results = [
            outputs.policy_logits,
            outputs.values,
            path.activations,
            path.gradients,
            path.scores,
            path.scores_at_zero,
        ]
        results += [at_values, at_input]
        reference = reference or results
        for array, other in zip(results, reference, strict=True):
            assert np.abs(array - other).max() < 1e-4 * np.abs(other).max()


def test_torch_agents_satisfy_the_agent_protocol() -> None:
    agent = TorchAgent(Nature(), SHAPE, {"env_name": "breakout"})
    assert isinstance(agent, Agent)
    assert agent.num_actions == 4
    assert agent.metadata["env_name"] == "breakout"
    shape, layers = " x ".join(map(str, SHAPE)), "network.1, network.3, network.5"
    assert repr(agent) == f"<TorchAgent: observations {shape}, 4 actions, layers {layers}>"
    assert agent.layers == {"network.1": (10, 10, 32), "network.3": (4, 4, 64), "network.5": (2, 2, 64)}
    assert [o.kind for o in feature_maps(agent.sites)] == ["conv2d", "relu"] * 3
    assert all(o.after_bottleneck for o in feature_maps(agent.sites))


def test_modules_with_in_place_activations_give_the_same_results() -> None:
    plain, inplace = (TorchAgent(loaded(Nature(inplace=flag)), SHAPE) for flag in (False, True))
    for layer in ("network.0", "network.1", "network.2"):
        array, other = (agent.activations(random_observations(), layer) for agent in (plain, inplace))
        assert np.array_equal(array, other)
        array, other = (agent.gradients(random_observations(), layer, ["value"]) for agent in (plain, inplace))
        assert np.array_equal(array, other)
    assert plain.activations(random_observations(), "network.0").min() < 0


def test_wrapping_a_module_does_not_change_it() -> None:
    module = loaded(Nature())
    agent = TorchAgent(module, SHAPE)
    before = {name: parameter.clone() for name, parameter in module.named_parameters()}
    assert feature_maps(agent.sites)
    agent.gradients(random_observations(), "network.1", ["value"])
    assert all(parameter.requires_grad and parameter.grad is None for parameter in module.parameters())
    assert all(torch.equal(parameter, before[name]) for name, parameter in module.named_parameters())
    assert not any(part._forward_hooks for part in module.modules())


def test_modules_compute_in_evaluation_mode_but_keep_their_own_mode() -> None:
    class Net(Nature):
        def __init__(self) -> None:
            super().__init__()
            self.network.insert(1, nn.BatchNorm2d(32))
            self.network.append(nn.Dropout(0.5))

    torch.manual_seed(0)
    module = Net()
    evaluating = TorchAgent(module.eval(), SHAPE)
    observations, site = random_observations(), "network.2"
    expected = evaluating.forward(observations), evaluating.gradients(observations, site, ["value"])
    module.train().network[0].eval()
    modes = {part: part.training for part in module.modules()}
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    agent = TorchAgent(module, SHAPE)

    def check() -> None:
        assert {part: part.training for part in module.modules()} == modes
        assert all(torch.equal(tensor, before[name]) for name, tensor in module.state_dict().items())

    check()
    np.testing.assert_array_equal(agent.forward(observations).policy_logits, expected[0].policy_logits)
    check()
    np.testing.assert_array_equal(agent.gradients(observations, site, ["value"]), expected[1])
    check()
    path_gradients(agent, observations, site, np.ones(2), np.ones(2), ["value"])
    check()
    with pytest.raises(OptionError, match="forward=lambda"):
        TorchAgent(module, (1, 1, 4))
    check()


def test_layers_inside_residual_blocks_are_not_bottlenecks() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem, self.pool, self.block = nn.Conv2d(4, 6, 8, stride=4), nn.MaxPool2d(3, 2, 1), Residual()
            self.last, self.flat, self.q = nn.ReLU(), nn.Flatten(), nn.Linear(6 * 25, 4)

        def forward(self, x: Any) -> Any:
            return self.q(self.flat(self.last(self.block(self.pool(self.stem(x))))))

    agent = TorchAgent(Net(), SHAPE, heads=("q_values",))
    assert {o.name: (o.kind, o.after_bottleneck) for o in feature_maps(agent.sites)} == {
        "stem": ("conv2d", True),
        "pool": ("maxpool", True),
        "block.relu0": ("relu", True),
        "block.conv0": ("conv2d", True),
        "block.relu1": ("relu", False),
        "block.conv1": ("conv2d", False),
        "block": ("residual", True),
        "last": ("relu", True),
    }
    path = path_gradients(agent, random_observations(), "block.relu1", np.ones(1), np.ones(1), ["greedy"])
    assert np.allclose(path.scores[0], agent.forward(random_observations()).q_values.max(1), atol=1e-5)


def test_separate_policy_and_value_networks_and_reused_modules_work() -> None:
    agent = TorchAgent(Towers(), SHAPE)
    assert list(agent.layers) == ["relu", "relu_1"]
    assert all(o.after_bottleneck for o in feature_maps(agent.sites))
    policy_layer, value_layer = (
        agent.gradients(random_observations(), layer, ["value", 0]) for layer in ("relu", "relu_1")
    )
    assert np.all(policy_layer[0] == 0)
    assert np.any(policy_layer[1] != 0)
    assert np.any(value_layer[0] != 0)
    assert np.all(value_layer[1] == 0)


def test_recurrent_modules_keep_and_differentiate_their_state() -> None:
    module = Recurrent()
    agent = TorchAgent(module, SHAPE, initial_state=np.full(8, 0.25))
    assert list(agent.layers) == ["body.1"]  # an ELU, where there is no ReLU
    state = agent.initial_state(3)
    assert state[0].shape == (3, 8)
    outputs, after = agent.step(random_observations(), state, np.ones(3, bool))
    x = torch.from_numpy(random_observations().transpose(0, 3, 1, 2).astype(np.float32) / np.float32(255))
    with torch.no_grad():
        logits, _, expected = module(x, torch.full((3, 8), 0.25))
    assert np.allclose(outputs.policy_logits, logits.numpy(), atol=1e-6)
    assert np.allclose(after[0], expected.numpy(), atol=1e-6)
    again, _ = agent.step(random_observations(), after, np.array([True, False, False]))
    assert np.allclose(again.policy_logits[0], outputs.policy_logits[0], atol=1e-6)
    with_state, without = (
        path_gradients(agent, random_observations(), "body.1", np.ones(1), np.ones(1), [1], s) for s in (after, None)
    )
    assert np.allclose(with_state.scores[0, 1:], again.policy_logits[1:, 1], atol=1e-5)
    assert not np.allclose(with_state.gradients, without.gradients)


def test_read_only_state_arrays_are_copied_without_a_warning() -> None:
    agent = rl_clarity.TorchAgent(Recurrent(), SHAPE, initial_state=np.zeros(8, np.float32))
    observations = np.zeros((8, *SHAPE), np.uint8)
    state = np.ones((8, 8), np.float32)
    expected = agent.forward(observations, (state,)).values
    state.flags.writeable = False
    torch.set_warn_always(True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            values = agent.forward(observations, (state,)).values
    finally:
        torch.set_warn_always(False)
    np.testing.assert_array_equal(np.asarray(values), np.asarray(expected))


def test_an_lstm_works_with_a_tuple_of_states_and_a_forward_function() -> None:
    class Lstm(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.relu, self.lstm = nn.Conv2d(4, 3, 8, stride=8), nn.ReLU(), nn.LSTM(75, 6)
            self.pi, self.v = nn.Linear(6, 4), nn.Linear(6, 1)

    def forward(module: Any, x: Any, state: Any) -> Any:
        x, after = module.lstm(module.relu(module.conv(x)).flatten(1)[None], tuple(part[None] for part in state))
        return module.pi(x[0]), module.v(x[0]), tuple(part[0] for part in after)

    agent = TorchAgent(Lstm(), SHAPE, initial_state=(np.zeros(6), np.zeros(6)), forward=forward)
    _, state = agent.step(random_observations(), agent.initial_state(3), np.ones(3, bool))
    assert [part.shape for part in state] == [(3, 6), (3, 6)]
    assert np.any(agent.gradients(random_observations(), "relu", ["value"], state=state) != 0)


def test_modules_may_take_channels_last_and_unscaled_input() -> None:
    class Last(Nature):
        def forward(self, x: Any) -> Any:
            return super().forward(x.permute(0, 3, 1, 2) / 255)

    plain = TorchAgent(loaded(Nature()), SHAPE)
    last = TorchAgent(loaded(Last()), SHAPE, channels_first=False, input_divisor=1)
    outputs, others = plain.forward(random_observations()), last.forward(random_observations())
    assert np.allclose(outputs.policy_logits, others.policy_logits, atol=1e-5)
    gradients, other_gradients = (agent.gradients(random_observations(), "input", ["value"]) for agent in (plain, last))
    assert np.abs(gradients - other_gradients).max() < 1e-4 * np.abs(gradients).max()


def test_objects_that_are_not_modules_are_rejected() -> None:
    with pytest.raises(OptionError, match=r"dict is not a torch\.nn\.Module"):
        TorchAgent({}, SHAPE)


def test_gradients_of_layer_directions_agree_across_frameworks(same_network: tuple[Any, Any, Any]) -> None:
    images = random_observations(2) / np.float32(255)
    directions = np.random.default_rng(1).normal(size=(2, 32)).astype(np.float32)
    expected, *others = [
        agent.gradient_of_direction(images, next(iter(agent.layers)), directions) for agent in same_network
    ]
    for values, gradients in others:
        assert np.allclose(values, expected[0], atol=1e-5)
        assert np.abs(gradients - expected[1]).max() < 1e-4 * np.abs(gradients).max()


@pytest.mark.slow
def test_checkpoint_keras_model_and_torch_module_give_the_same_page(
    same_network: tuple[Any, Any, Any], tmp_path: Path
) -> None:
    rng = np.random.default_rng(0)
    trajectories = {
        "observations": rng.integers(0, 256, (1, 6, *SHAPE), np.uint8),
        "actions": rng.integers(0, 4, (1, 6)),
        "rewards": rng.normal(size=(1, 6)),
        "firsts": np.arange(6)[None] == 3,
    }
    varied = rng.integers(0, 256, (8, *SHAPE), np.uint8)
    results = []
    for i, agent in enumerate(same_network):
        options: dict[str, Any] = {
            "layer_kwargs": {"discard_first_n": 2},
            "attr_policy": True,
            "gae_gamma": 0.9,
            "gae_lambda": 0.8,
        }
        page = rl_clarity.generate(agent, trajectories, varied, tmp_path / str(i), **options).results()
        (layer,) = page.layers
        totals = page.totals(layer, 0)
        series = page.series(0)
        results.append(
            [series["values"], series["logits"], series["advantages"], *(t.completeness for t in totals.values())]
        )
    for other in results[1:]:
        for array, same in zip(results[0], other, strict=True):
            np.testing.assert_allclose(array, same, rtol=1e-3, atol=1e-4 * np.abs(same).max())


@pytest.mark.parametrize("cast", ["double", "half", "bfloat16"])
def test_modules_in_double_half_and_bfloat16_give_similar_results(cast: str) -> None:
    plain = TorchAgent(loaded(Nature()), SHAPE)
    agent = TorchAgent(getattr(loaded(Nature()), cast)(), SHAPE)
    layer, tolerance = "network.3", 1e-5 if cast == "double" else 0.1
    actual, expected = (
        path_gradients(a, random_observations(), layer, np.ones(1), np.ones(1), ["value", 2]) for a in (agent, plain)
    )
    for name in ("activations", "gradients", "scores", "scores_at_zero"):
        array, other = getattr(actual, name), getattr(expected, name)
        assert array.dtype == np.float32
        assert np.abs(array - other).max() <= tolerance * np.abs(other).max()
    assert np.any(agent.gradients(random_observations(), "input", [0]) != 0)


def test_compiled_modules_are_unwrapped() -> None:
    agent = TorchAgent(torch.compile(loaded(Nature())), SHAPE)
    assert list(agent.layers) == ["network.1", "network.3", "network.5"]
    expected = TorchAgent(loaded(Nature()), SHAPE).forward(random_observations())
    assert np.array_equal(agent.forward(random_observations()).policy_logits, expected.policy_logits)


def partly_compiled() -> Any:
    module = Nature()
    module.network = torch.compile(module.network)
    return module


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
@pytest.mark.parametrize(
    ("make", "options", "words"),
    [
        (Nature, {"observation_shape": (4, 44, 44)}, r"observation_shape is \(height.*\(44, 44, 4\) instead of"),
        (Nature, {"observation_shape": (44, 44)}, r"observation_shape=\(44, 44\)"),
        (Nature, {"channels_first": False}, "RuntimeError.*channels_first=False is for"),
        (Nature, {"device": "meta0"}, "device='meta0' cannot be used"),
        (Nature, {"forward": lambda m, x, _: m(x[:1])}, "network returns 1 rows for two observations"),
        (partly_compiled, {}, "submodule 'network' is from torch.compile.*_orig_mod"),
        (Recurrent, {}, "TypeError.*'state'.*initial_state for recurrent"),
        (Recurrent, {"initial_state": np.zeros(9)}, "cannot be run on two observations"),
        (lambda: torch.jit.script(Nature()), {}, "torch.jit has no submodules.*scripted or traced from"),
        (lambda: torch.jit.trace(Nature(), torch.zeros(1, 4, 44, 44)), {}, "torch.jit has no submodules"),
    ],
)
def test_errors_for_unusable_modules_explain_the_fix(
    make: Callable[..., Any], options: dict[str, Any], words: str
) -> None:
    with pytest.raises(OptionError, match=f"(?s){words}"):
        TorchAgent(make(), **{"observation_shape": SHAPE, **options})
