"""Reading, writing and differentiating sites of every rank, on each kind of agent."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest

import rl_clarity
from rl_clarity.agents.keras_agent import KerasAgent
from rl_clarity.agents.protocol import Outputs
from rl_clarity.analyses.attribution import attribute
from rl_clarity.base.errors import OptionError, SamplesError
from rl_clarity.formats import cleanrl_networks as cleanrl
from rl_clarity.formats.architectures import build
from tests import state_dicts
from tests.agents.test_keras_agent import NETWORKS

SHAPE = (44, 44, 4)


def torch_agent(name: str, **options: Any) -> Any:
    pytest.importorskip("torch")
    from tests.agents import torch_modules

    return rl_clarity.TorchAgent(getattr(torch_modules, name)(), SHAPE, **options)


def jax_agent(name: str, **options: Any) -> Any:
    pytest.importorskip("flax")
    from tests.agents import jax_networks

    apply, parameters = jax_networks.initialized(name)
    return rl_clarity.JaxAgent(apply, parameters, SHAPE, **options)


AGENTS: dict[str, Callable[[], Any]] = {
    "policy": lambda: KerasAgent(build("clear", (16, 16, 3), 5, seed=1)),
    "recurrent": lambda: KerasAgent(cleanrl.ppo_atari(state_dicts.ppo_atari(side=44, lstm=True), SHAPE)),
    "action values": lambda: KerasAgent(cleanrl.dqn_atari(state_dicts.dqn_atari(side=44), SHAPE)),
    "unscaled": lambda: KerasAgent(build("clear", (16, 16, 3), 5, seed=1), input_divisor=1),
    "torch": lambda: torch_agent("Nature"),
    "torch recurrent": lambda: torch_agent("Recurrent", initial_state=np.full(8, 0.25)),
    "jax": lambda: jax_agent("Residual"),
    "jax recurrent": lambda: jax_agent("Recurrent", initial_state=(np.full(8, 0.25), np.zeros(8))),
    "jax channels first": lambda: jax_agent("ChannelsFirst", channels_first=True, heads=("q_values",)),
}


SLOW = ("jax", "jax recurrent", "jax channels first")
"""XLA compiles a function for each site."""


PARAMETERS = [pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in AGENTS]


@pytest.fixture(scope="module", params=PARAMETERS)
def agent(request: pytest.FixtureRequest, single_thread: None) -> Any:
    return AGENTS[request.param]()


@pytest.fixture
def observations(agent: Any) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (3, *agent.observation_shape), np.uint8)


@pytest.fixture
def state(agent: Any) -> Any:
    rng = np.random.default_rng(1)
    initial = agent.initial_state(3)
    return initial and tuple(rng.normal(0, 0.5, part.shape).astype(np.float32) for part in initial)


def results(outputs: Outputs) -> list[np.ndarray]:
    arrays = [outputs.policy_logits, outputs.values, outputs.q_values, *(outputs.state or ())]
    return [array for array in arrays if array is not None]


def test_writing_the_values_read_at_a_site_changes_nothing(agent: Any, observations: np.ndarray, state: Any) -> None:
    names = [site.name for site in agent.sites]
    assert len(set(names)) == len(names)
    assert names[0] == "input"
    assert tuple(names[-len(agent.heads) :]) == agent.heads
    assert {len(site.shape) for site in agent.sites} >= {1, 3}
    plain = agent.forward(observations, state)
    read = agent.forward(observations, state, read=names)
    for site in agent.sites:
        assert read.sites[site.name].shape == (3, *site.shape)
        # A framework may fuse operations between which nothing is read, and round differently.
        alone = agent.activations(observations, site.name, state)
        assert np.allclose(alone, read.sites[site.name], rtol=1e-5, atol=1e-6)
    for array, other in zip(results(plain), results(read), strict=True):
        assert np.allclose(array, other, rtol=1e-5, atol=1e-6)
    for name in (*names[:3], *names[-4:], next(site.name for site in agent.sites if site.kind == "dense")):
        for edit in (agent.activations(observations, name, state), lambda values: values):
            written = agent.forward(observations, state, write={name: edit})
            for array, other in zip(results(plain), results(written), strict=True):
                assert np.allclose(array, other, rtol=1e-6, atol=1e-6)


def test_writing_zeros_at_a_layer_gives_the_scores_at_the_zero_baseline(
    agent: Any, observations: np.ndarray, state: Any
) -> None:
    layer = list(agent.layers)[-1]
    result = attribute(agent, observations, layer, [0, 1], steps=1, state=state, baseline="zero-layer")
    outputs = agent.forward(observations, state, write={layer: np.zeros((3, *agent.layers[layer]))})
    scores = outputs.q_values if outputs.policy_logits is None else outputs.policy_logits
    assert np.allclose(scores[:, :2].T, result.scores_at_baseline, atol=1e-6)


def test_activation_edits_are_applied_in_the_order_of_computation(
    agent: Any, observations: np.ndarray, state: Any
) -> None:
    first, last = next(iter(agent.layers)), list(agent.layers)[-1]
    recorded = {}

    def halve(values: np.ndarray) -> np.ndarray:
        return values * 0.5

    def record(values: np.ndarray) -> np.ndarray:
        recorded["last"] = values
        return np.zeros_like(values)

    edits = {last: record, first: halve} if first != last else {last: record}
    outputs = agent.forward(observations, state, write=edits, read=[first, last])
    if first != last:
        halved = agent.forward(observations, state, write={first: halve}, read=[last])
        assert np.array_equal(recorded["last"], halved.sites[last])
        assert np.array_equal(outputs.sites[first], 0.5 * agent.activations(observations, first, state))
    assert not outputs.sites[last].any()
    head = agent.heads[0]
    fixed = agent.forward(observations, state, write={head: lambda values: values + 1})
    difference = results(fixed)[0] - results(agent.forward(observations, state))[0]
    assert np.allclose(difference, 1, atol=1e-5)


def test_writing_a_state_replaces_the_state_before_the_step(agent: Any, observations: np.ndarray, state: Any) -> None:
    if state is None:
        return
    expected = agent.forward(observations, state)
    written = agent.forward(observations, write={f"state/{i}": part for i, part in enumerate(state)})
    for array, other in zip(results(expected), results(written), strict=True):
        assert np.array_equal(array, other)


def test_gradients_predict_the_effect_of_small_changes_at_any_layer(
    agent: Any, observations: np.ndarray, state: Any
) -> None:
    dense = [site.name for site in agent.sites if site.kind == "dense"]
    states = [site.name for site in agent.sites if site.kind == "state"]
    rng = np.random.default_rng(2)
    for name in ("input", *states[:1], next(iter(agent.layers)), dense[0], agent.heads[0]):
        scores = [1, {0: 0.5, 1: -2.0}, {1: np.array([1.0, 0.0, 3.0])}]
        values = agent.activations(observations, name, state)
        gradients = agent.gradients(observations, name, scores, state=state)
        assert gradients.shape == (3, *values.shape)
        assert np.allclose(gradients[2], gradients[0] * np.reshape([1, 0, 3], (3, *[1] * (values.ndim - 1))), atol=1e-5)
        (tail,) = agent.tails(observations, name, scores, state)
        direction = rng.normal(size=values.shape)
        size = 1e-3 * np.abs(values).max() / np.abs(direction).max()
        after, before = (tail.scores((values + sign * size * direction).astype(np.float32)) for sign in (1, -1))
        change = 2 * size * (gradients * direction).sum(axis=tuple(range(2, gradients.ndim)))
        assert np.allclose(after - before, change, rtol=0.05, atol=2e-2 * np.abs(change).max() + 5e-6)
        at_values = agent.gradients(observations, name, scores, values=values, state=state)
        assert np.allclose(at_values, gradients, rtol=1e-4, atol=1e-5 * np.abs(gradients).max())


def test_the_gradient_at_the_logits_is_the_weight_of_each_logit(
    agent: Any, observations: np.ndarray, state: Any
) -> None:
    gradients = agent.gradients(observations, agent.heads[0], [1, (0, 1)], state=state)
    assert np.array_equal(gradients[0], np.tile(np.eye(agent.num_actions)[1], (3, 1)))
    assert np.array_equal(gradients[1, :, :2], np.ones((3, 2)))


def test_invalid_sites_and_values_are_rejected(agent: Any, observations: np.ndarray) -> None:
    layer = next(iter(agent.layers))
    with pytest.raises(OptionError, match=r"unknown layer 'inputs'.*did you mean 'input'"):
        agent.forward(observations, read=["inputs"])
    with pytest.raises(OptionError, match=r"write\[.*\] has the shape .* is needed"):
        agent.forward(observations, write={layer: np.zeros((3, 2))})
    with pytest.raises(SamplesError, match=r"values have the shape \(3, 2\); those of the site have"):
        agent.gradients(observations, layer, [0], values=np.zeros((3, 2)))


def use_every_method(agent: Any) -> None:
    observations = np.zeros((2, *agent.observation_shape), np.uint8)
    layer, shape = next(iter(agent.layers.items()))
    agent.forward(observations, read=[layer, agent.heads[0]], write={layer: lambda values: values})
    agent.activations(observations, layer)
    attribute(agent, observations, layer, [0], steps=2)
    agent.gradients(observations, "input", [0])
    agent.gradient_of_direction(observations / np.float32(255), layer, np.ones((2, shape[-1]), np.float32))


@pytest.mark.parametrize("name", ["policy", "recurrent", "baby_a3c", "torch", "torch recurrent", "jax channels first"])
def test_unused_agents_are_garbage_collected(name: str, single_thread: None) -> None:
    agent = make_agent(name)
    use_every_method(agent)
    if name.startswith("torch"):
        parameters = agent.module
    else:
        parameters = agent._parameters[0] if name.startswith("jax") else agent.network.model.weights[0]
    references = [weakref.ref(agent), weakref.ref(parameters)]
    del agent, parameters
    gc.collect()
    assert [reference() for reference in references] == [None, None]


def make_agent(name: str) -> Any:
    return KerasAgent(NETWORKS[name]()) if name in NETWORKS else AGENTS[name]()


LARGE = """
import gc, resource, numpy as np, keras, rl_clarity
from rl_clarity.analyses.attribution import attribute
L = keras.layers

def explain():
    inputs = keras.Input((32, 32, 3))
    x = L.Conv2D(64, 3, activation="relu", name="conv")(inputs)
    x = L.Dense(432)(L.Flatten()(x))  # 57,600 x 432 weights: 100 MB
    agent = rl_clarity.KerasAgent(keras.Model(inputs, [L.Dense(4)(x), L.Dense(1)(x)]))
    observations = np.zeros((2, 32, 32, 3), np.uint8)
    attribute(agent, observations, "conv", ["value"], steps=2)
    agent.forward(observations, read=["conv"])

def resident():
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 2**20

explain()
first = resident()
explain()
print(resident() - first)
"""


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_the_memory_of_unused_large_agents_is_freed() -> None:
    result = subprocess.run([sys.executable, "-c", LARGE], capture_output=True, text=True, check=True)
    assert float(result.stdout) < 60, "MiB more after the second agent of 100 MB"


WITHOUT_KERAS = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("tensorflow", "keras", "jax"):
            raise ImportError(f"{name} is blocked")

sys.meta_path.insert(0, Blocked())
import numpy as np, torch, rl_clarity

class Module(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.relu, self.dense = torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU(), torch.nn.Linear(400, 5)

    def forward(self, x):
        return self.dense(self.relu(self.conv(x)).flatten(1))

agent = rl_clarity.TorchAgent(Module(), (12, 12, 3), heads=("q_values",))
observations = np.random.default_rng(0).integers(0, 256, (3, 12, 12, 3), np.uint8)
assert agent.forward(observations, read=["dense"]).q_values.shape == (3, 5)
assert agent.activations(observations, "relu").shape == (3, 10, 10, 4)
assert rl_clarity.select_layers(agent) == ["relu"]
print(rl_clarity.integrated_gradients(agent, observations, "relu", "greedy").shape)
"""


def test_torch_agents_work_without_keras_tensorflow_or_jax() -> None:
    pytest.importorskip("torch")
    result = subprocess.run([sys.executable, "-c", WITHOUT_KERAS], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == "(3, 10, 10, 4)"


def test_an_output_layer_named_like_its_head_is_listed_once() -> None:
    inputs = keras.Input((12, 12, 3), name="input")
    x = keras.layers.Flatten()(keras.layers.Conv2D(4, 3, activation="relu")(inputs))
    heads = [keras.layers.Dense(5, name="policy_logits")(x), keras.layers.Dense(1, name="v")(x)]
    names = [site.name for site in KerasAgent(keras.Model(inputs, heads)).sites]
    assert names.count("policy_logits") == 1
    assert names[-2:] == ["policy_logits", "values"]
