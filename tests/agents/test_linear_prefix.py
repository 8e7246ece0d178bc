"""The linear operations after a site, which are computed once for all points of a path."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from rl_clarity.agents import keras_agent
from rl_clarity.agents.editing import Ablate
from rl_clarity.agents.graph import linear_prefix_end
from rl_clarity.analyses.attribution import integrated_gradients
from tests.agents.test_keras_agent import NETWORKS, default_output, random_observations, random_state

KerasAgent: Any = keras_agent.KerasAgent
SHAPE = (16, 16, 3)
SITE = "first"

LINEAR = {  # what follows the site -> name of the last operation of its prefix, for paths from 0 and from elsewhere
    "conv": ("c1", "c1"),
    "conv average flatten dense": ("d1", "d1"),
    "conv relu conv": ("c1", "c1"),
    "relu conv": ("c1", None),
    "max conv": ("c1", None),
    "average dropout conv": ("c1", "c1"),
    "l2 conv": ("c1", None),
    "square conv": (None, None),
    "root conv": (None, None),
    "offset conv": (None, None),
    "relu6 conv": (None, None),
    "shifted_relu conv": (None, None),
    "sigmoid conv": (None, None),
    "conv_relu conv": (None, None),
    "normalize conv": ("c1", "c1"),
    "normalize relu conv": ("normalize", "normalize"),
    "average": (None, None),
    "skip": (None, None),
}


def operations() -> dict[str, Any]:
    import keras

    ops, layers = keras.ops, keras.layers

    def conv(name: str) -> Any:
        return layers.Conv2D(4, 3, padding="same", name=name, bias_initializer="random_normal")

    return {
        "relu": layers.ReLU(name="other_relu"),
        "relu6": layers.ReLU(max_value=6),
        "shifted_relu": layers.ReLU(threshold=0.1),
        "max": layers.MaxPooling2D(),
        "average": layers.AveragePooling2D(2),
        "dropout": layers.Dropout(0.5),
        "flatten": layers.Flatten(),
        "dense": layers.Dense(5, name="d1"),
        "conv_relu": layers.Conv2D(4, 3, padding="same", activation="relu"),
        "normalize": layers.BatchNormalization(name="normalize"),
        "l2": lambda x: ops.sqrt(ops.average_pool(ops.square(x), 2, 2) + 1e-8),
        "square": ops.square,
        "root": lambda x: ops.sqrt(x + 1e-8),
        "offset": lambda x: x + 0.5,
        "sigmoid": ops.sigmoid,
        "skip": lambda x: x + conv("c1")(x),
        "conv": conv,
    }


def made_agent(follows: str, seed: int = 0) -> Any:
    """An agent whose site `first` is followed by the operations of that name, and then by something nonlinear."""
    import keras

    keras.utils.set_random_seed(seed)
    x = inputs = keras.Input(SHAPE)
    x = keras.layers.ReLU(name=SITE)(keras.layers.Conv2D(4, 3, padding="same")(x))
    convolutions = 0
    made = operations()
    for word in follows.split():
        operation = made[word]
        if word == "conv":
            convolutions += 1
            operation = operation(f"c{convolutions}")
        x = operation(x)
    x = keras.layers.Flatten()(keras.ops.tanh(x))
    return KerasAgent(keras.Model(inputs, [keras.layers.Dense(3)(x), keras.layers.Dense(1)(x)]), gradient_batch_size=16)


def gradients(agent: Any, site: str, count: int = 3, baseline: np.ndarray | None = None) -> list[np.ndarray]:
    """The sums over a path, with the linear prefix computed at each point and once."""
    observations, state = random_observations(agent, count), random_state(agent, count)
    (tail,) = agent.tails(observations, site, [default_output(agent), 1], state)
    points, weights = [0.1, 0.45, 0.8, 1.0], [0.3, 0.3, 0.2, 0.2]
    return [compute(points, weights, baseline) for compute in (tail.path_gradients, tail.linear_path_gradients)]


def difference(pair: list[np.ndarray]) -> float:
    return float(np.linalg.norm(pair[0] - pair[1]) / np.linalg.norm(pair[0]))


@pytest.mark.parametrize("follows", LINEAR)
def test_the_linear_prefix_ends_before_the_first_nonlinear_operation(follows: str) -> None:
    graph = made_agent(follows)._graph
    (start,) = (i for i, node in enumerate(graph.nodes) if node.name == SITE)
    ends = [linear_prefix_end(graph, start, from_zero=zero) for zero in (True, False)]
    assert tuple(None if end is None else graph.nodes[end].name for end in ends) == LINEAR[follows]


@pytest.mark.parametrize("follows", LINEAR)
@pytest.mark.parametrize("from_zero", [True, False])
def test_gradients_with_a_linear_prefix_equal_those_at_each_path_point(follows: str, from_zero: bool) -> None:
    agent = made_agent(follows)
    shape = agent.site(SITE).shape
    baseline = None if from_zero else np.random.default_rng(1).random((1, *shape)).astype(np.float32)
    pair = gradients(agent, SITE, baseline=baseline)
    assert pair[0].shape == (2, 3, *shape)
    assert difference(pair) < (1e-3 if follows.startswith("l2") else 1e-5)


def test_the_linear_prefix_is_computed_once_for_all_path_points(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = made_agent("conv relu conv")
    (tail,) = agent.tails(random_observations(agent, 16), SITE, ["value"])
    prefix, calls = tail._linear_prefix(True), list[str]()
    monkeypatch.setattr(tail, "_linear_prefix", lambda _: prefix_counting(prefix, calls))
    tail.linear_path_gradients([0.2, 0.4, 0.6, 0.8, 1.0], [0.2] * 5)
    assert calls.count("step") == 5
    assert calls.count("pull_back") == 1
    assert calls.count("results") == 2  # at the path's two ends


def prefix_counting(prefix: Any, calls: list[str]) -> Any:
    def counting(name: str, function: Any) -> Any:
        def run(*arguments: Any) -> Any:
            calls.append(name)
            return function(*arguments)

        return run

    compute, step = prefix.functions
    parts = {name: counting(name, getattr(prefix, name)) for name in ("results", "pull_back")}
    return dataclasses.replace(prefix, **parts, functions=(compute, counting("step", step)))


@pytest.mark.slow
@pytest.mark.parametrize("network", NETWORKS)
def test_known_architectures_have_the_expected_linear_prefix(network: str) -> None:
    """Recurrent ones with a state. Rounding moves a few points across a kink; L2 pooling of tiny activations more."""
    agent = KerasAgent(NETWORKS[network](), gradient_batch_size=16)
    sites = [*list(agent.layers)[:2], "input"]
    for site in sites:
        assert difference(gradients(agent, site)) < (0.2 if network == "clear" else 0.02)
    known = [agent._linear_prefix(agent.site(site).name, True) is not None for site in sites[:2]]
    assert known == [network != "baby_a3c"] * 2  # whose convolutions include their activations


def test_edited_agents_have_no_linear_prefix() -> None:
    agent = made_agent("conv relu conv").with_edits([Ablate("c1", unit=1)])
    before, once = gradients(agent, SITE)
    assert np.array_equal(before, once)


def test_integrated_gradients_converge_alike_with_and_without_the_prefix() -> None:
    """On the included kind of network, with its L2 pooling, whose constant is neglected."""
    agent = KerasAgent(NETWORKS["clear"](), gradient_batch_size=16)
    observations = random_observations(agent, 4)
    for layer in list(agent.layers)[:2]:
        shared: dict[str, Any] = {"steps": 200, "quadrature": "midpoint"}
        exact, once = (
            integrated_gradients(agent, observations, layer, linear_prefix=one, **shared) for one in (False, True)
        )
        assert difference([exact, once]) < 0.03


BACKEND_CHECK = """
import numpy as np
from tests.agents.test_linear_prefix import SITE, difference, gradients, made_agent
for follows in ("conv relu conv", "max conv"):
    agent = made_agent(follows)
    assert agent._linear_prefix(SITE, True) is not None
    for count in (1, 3):
        assert difference(gradients(agent, SITE, count)) < 1e-5, follows
print("equal")
"""


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_the_linear_prefix_works_on_the_jax_and_torch_backends(backend: str) -> None:
    pytest.importorskip(backend)
    environment = {**os.environ, "KERAS_BACKEND": backend}
    command = [sys.executable, "-c", BACKEND_CHECK]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.stdout.strip() == "equal", done.stderr
