"""Agents on PyTorch modules: layers by hooks, gradients by autograd, and the same numbers as in Keras."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import rl_clarity  # noqa: E402
from rl_clarity.agents.keras_agent import KerasAgent  # noqa: E402
from rl_clarity.agents.protocol import Agent  # noqa: E402
from rl_clarity.agents.sites import feature_maps  # noqa: E402
from rl_clarity.agents.torch_agent import TorchAgent  # noqa: E402
from rl_clarity.errors import OptionError  # noqa: E402
from rl_clarity.formats import load_agent  # noqa: E402
from tests import state_dicts  # noqa: E402
from tests.agents.paths import path_gradients  # noqa: E402
from tests.agents.torch_modules import SHAPE, Nature, Recurrent, Residual, Towers, loaded, pictures  # noqa: E402
from tests.formats import torch_writer  # noqa: E402

pytestmark = pytest.mark.usefixtures("single_thread")


@pytest.fixture
def three(tmp_path):
    """One network: from a file, as a Keras model, as a module."""
    path = tmp_path / "agent.pt"
    path.write_bytes(torch_writer.save(state_dicts.ppo_atari(side=44)))
    from_file = load_agent(path, observation_shape=SHAPE)
    return from_file, KerasAgent(from_file.network.model), TorchAgent(loaded(Nature()), SHAPE)


def test_one_network_three_ways(three):
    observations = pictures()
    points, weights = np.array([0.2, 0.6, 1.0]), np.array([0.3, 0.4, 0.3])
    layers = [list(agent.layers) for agent in three]
    assert layers[2] == ["network.1", "network.3", "network.5"]
    assert [list(agent.layers.values()) for agent in three][1:] == [list(three[0].layers.values())] * 2
    reference = None
    for agent, names in zip(three, layers, strict=True):
        outputs = agent.forward(observations)
        path = path_gradients(agent, observations, names[1], points, weights, ["value", 2, (0, 1)])
        given = agent.gradients(
            observations, names[0], ["value"], values=agent.activations(observations, names[0]) * 0.5
        )
        of_input = agent.gradients(observations, "input", [3])
        found = [
            outputs.policy_logits,
            outputs.values,
            path.activations,
            path.gradients,
            path.scores,
            path.scores_at_zero,
        ]
        found += [given, of_input]
        reference = reference or found
        for one, other in zip(found, reference, strict=True):
            assert np.abs(one - other).max() < 1e-4 * np.abs(other).max()


def test_satisfies_the_protocol():
    agent = TorchAgent(Nature(), SHAPE, {"env_name": "breakout"})
    assert isinstance(agent, Agent)
    assert agent.num_actions == 4
    assert agent.metadata["env_name"] == "breakout"
    assert agent.layers == {"network.1": (10, 10, 32), "network.3": (4, 4, 64), "network.5": (2, 2, 64)}
    assert [o.kind for o in feature_maps(agent.sites)] == ["conv2d", "relu"] * 3
    assert all(o.after_bottleneck for o in feature_maps(agent.sites))


def test_parts_that_work_in_place_give_the_same():
    plain, inplace = (TorchAgent(loaded(Nature(inplace=flag)), SHAPE) for flag in (False, True))
    for layer in ("network.0", "network.1", "network.2"):
        one, other = (agent.activations(pictures(), layer) for agent in (plain, inplace))
        assert np.array_equal(one, other)
        one, other = (agent.gradients(pictures(), layer, ["value"]) for agent in (plain, inplace))
        assert np.array_equal(one, other)
    assert plain.activations(pictures(), "network.0").min() < 0


def test_the_module_is_left_as_it_was():
    module = loaded(Nature())
    agent = TorchAgent(module, SHAPE)
    before = {name: parameter.clone() for name, parameter in module.named_parameters()}
    assert feature_maps(agent.sites)
    agent.gradients(pictures(), "network.1", ["value"])
    assert all(parameter.requires_grad and parameter.grad is None for parameter in module.parameters())
    assert all(torch.equal(parameter, before[name]) for name, parameter in module.named_parameters())
    assert not any(part._forward_hooks for part in module.modules())


def test_residual_blocks_are_told_from_chains():
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem, self.pool, self.block = nn.Conv2d(4, 6, 8, stride=4), nn.MaxPool2d(3, 2, 1), Residual()
            self.last, self.flat, self.q = nn.ReLU(), nn.Flatten(), nn.Linear(6 * 25, 4)

        def forward(self, x):
            return self.q(self.flat(self.last(self.block(self.pool(self.stem(x))))))

    agent = TorchAgent(Net(), SHAPE)
    assert agent.heads == ("q_values",)
    found = {o.name: (o.kind, o.after_bottleneck) for o in feature_maps(agent.sites)}
    assert found == {
        "stem": ("conv2d", True),
        "pool": ("maxpool", True),
        "block.relu0": ("relu", True),
        "block.conv0": ("conv2d", True),
        "block.relu1": ("relu", False),
        "block.conv1": ("conv2d", False),
        "block": ("residual", True),
        "last": ("relu", True),
    }
    path = path_gradients(agent, pictures(), "block.relu1", np.ones(1), np.ones(1), ["greedy"])
    assert np.allclose(path.scores[0], agent.forward(pictures()).q_values.max(1), atol=1e-5)


def test_heads_that_share_nothing_and_a_part_that_is_called_twice():
    agent = TorchAgent(Towers(), SHAPE)
    assert list(agent.layers) == ["relu", "relu_1"]
    assert all(o.after_bottleneck for o in feature_maps(agent.sites))
    of_policy, of_value = (agent.gradients(pictures(), layer, ["value", 0]) for layer in ("relu", "relu_1"))
    assert np.all(of_policy[0] == 0)
    assert np.any(of_policy[1] != 0)
    assert np.any(of_value[0] != 0)
    assert np.all(of_value[1] == 0)


def test_a_recurrent_module():
    module = Recurrent()
    agent = TorchAgent(module, SHAPE, initial_state=np.full(8, 0.25))
    assert list(agent.layers) == ["body.1"]  # an ELU, where there is no ReLU
    state = agent.initial_state(3)
    assert state[0].shape == (3, 8)
    outputs, after = agent.step(pictures(), state, np.ones(3, bool))
    x = torch.from_numpy(pictures().transpose(0, 3, 1, 2).astype(np.float32) / np.float32(255))
    with torch.no_grad():
        logits, _, wanted = module(x, torch.full((3, 8), 0.25))
    assert np.allclose(outputs.policy_logits, logits.numpy(), atol=1e-6)
    assert np.allclose(after[0], wanted.numpy(), atol=1e-6)
    again, _ = agent.step(pictures(), after, np.array([True, False, False]))
    assert np.allclose(again.policy_logits[0], outputs.policy_logits[0], atol=1e-6)
    with_state, without = (
        path_gradients(agent, pictures(), "body.1", np.ones(1), np.ones(1), [1], s) for s in (after, None)
    )
    assert np.allclose(with_state.scores[0, 1:], again.policy_logits[1:, 1], atol=1e-5)
    assert not np.allclose(with_state.gradients, without.gradients)


def test_a_tuple_of_states_and_a_module_called_in_its_own_way():
    class Lstm(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.relu, self.lstm = nn.Conv2d(4, 3, 8, stride=8), nn.ReLU(), nn.LSTM(75, 6)
            self.pi, self.v = nn.Linear(6, 4), nn.Linear(6, 1)

    def forward(module, x, state):
        x, after = module.lstm(module.relu(module.conv(x)).flatten(1)[None], tuple(part[None] for part in state))
        return module.pi(x[0]), module.v(x[0]), tuple(part[0] for part in after)

    agent = TorchAgent(Lstm(), SHAPE, initial_state=(np.zeros(6), np.zeros(6)), forward=forward)
    _, state = agent.step(pictures(), agent.initial_state(3), np.ones(3, bool))
    assert [part.shape for part in state] == [(3, 6), (3, 6)]
    assert np.any(agent.gradients(pictures(), "relu", ["value"], state=state) != 0)


def test_modules_that_take_the_channels_last_and_whole_numbers():
    class Last(Nature):
        def forward(self, x):
            return super().forward(x.permute(0, 3, 1, 2) / 255)

    plain = TorchAgent(loaded(Nature()), SHAPE)
    last = TorchAgent(loaded(Last()), SHAPE, channels_first=False, input_divisor=1)
    one, other = plain.forward(pictures()), last.forward(pictures())
    assert np.allclose(one.policy_logits, other.policy_logits, atol=1e-5)
    one, other = (agent.gradients(pictures(), "input", ["value"]) for agent in (plain, last))
    assert np.abs(one - other).max() < 1e-4 * np.abs(one).max()


def test_what_is_no_module():
    with pytest.raises(OptionError, match=r"dict is not a torch\.nn\.Module"):
        TorchAgent({}, SHAPE)


def test_what_excites_a_direction_climbs_its_gradient(three):
    images = pictures(2) / np.float32(255)
    directions = np.random.default_rng(1).normal(size=(2, 32)).astype(np.float32)
    found = [agent.gradient_of_direction(images, next(iter(agent.layers)), directions) for agent in three]
    for values, gradients in found[1:]:
        assert np.allclose(values, found[0][0], atol=1e-5)
        assert np.abs(gradients - found[0][1]).max() < 1e-4 * np.abs(gradients).max()


@pytest.mark.slow
def test_one_network_three_ways_gives_one_page(three, tmp_path):
    rng = np.random.default_rng(0)
    trajectories = {
        "observations": rng.integers(0, 256, (1, 6, *SHAPE), np.uint8),
        "actions": rng.integers(0, 4, (1, 6)),
        "rewards": rng.normal(size=(1, 6)),
        "firsts": np.arange(6)[None] == 3,
    }
    varied = rng.integers(0, 256, (8, *SHAPE), np.uint8)
    found = []
    for i, agent in enumerate(three):
        options = {"layer_kwargs": {"discard_first_n": 2}, "attr_policy": True, "gae_gamma": 0.9, "gae_lambda": 0.8}
        page = rl_clarity.generate(agent, trajectories, varied, tmp_path / str(i), **options).results()
        (layer,) = page.layers
        totals = page.totals(layer, 0)
        series = page.series(0)
        found.append([series["values"], series["logits"], series["advantages"], *(t.gap for t in totals.values())])
    for other in found[1:]:
        for one, same in zip(found[0], other, strict=True):
            np.testing.assert_allclose(one, same, rtol=1e-3, atol=1e-4 * np.abs(same).max())


@pytest.mark.parametrize("cast", ["double", "half", "bfloat16"])
def test_other_precisions(cast):
    plain = TorchAgent(loaded(Nature()), SHAPE)
    agent = TorchAgent(getattr(loaded(Nature()), cast)(), SHAPE)
    layer, near = "network.3", 1e-5 if cast == "double" else 0.1
    found, wanted = (path_gradients(a, pictures(), layer, np.ones(1), np.ones(1), ["value", 2]) for a in (agent, plain))
    for name in ("activations", "gradients", "scores", "scores_at_zero"):
        one, other = getattr(found, name), getattr(wanted, name)
        assert one.dtype == np.float32
        assert np.abs(one - other).max() <= near * np.abs(other).max()
    assert np.any(agent.gradients(pictures(), "input", [0]) != 0)


def test_a_compiled_module_is_the_one_that_it_was_made_of():
    agent = TorchAgent(torch.compile(loaded(Nature())), SHAPE)
    assert list(agent.layers) == ["network.1", "network.3", "network.5"]
    wanted = TorchAgent(loaded(Nature()), SHAPE).forward(pictures())
    assert np.array_equal(agent.forward(pictures()).policy_logits, wanted.policy_logits)


def partly_compiled():
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
        (Nature, {"forward": lambda m, x, _: m(x[:1])}, "module returns 1 rows for two observations"),
        (partly_compiled, {}, "part 'network' is from torch.compile.*_orig_mod"),
        (Recurrent, {}, "TypeError.*'state'.*initial_state for recurrent"),
        (Recurrent, {"initial_state": np.zeros(9)}, "cannot be run on two observations"),
        (lambda: torch.jit.script(Nature()), {}, "torch.jit has no parts.*scripted or traced from"),
        (lambda: torch.jit.trace(Nature(), torch.zeros(1, 4, 44, 44)), {}, "torch.jit has no parts"),
    ],
)
def test_what_cannot_be_run_or_looked_into_names_the_way_out(make, options, words):
    with pytest.raises(OptionError, match=f"(?s){words}"):
        TorchAgent(make(), **{"observation_shape": SHAPE, **options})
