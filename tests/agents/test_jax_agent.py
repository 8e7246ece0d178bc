"""Agents of JAX functions, Flax modules among them."""

from __future__ import annotations

import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rl_clarity
from rl_clarity.base.errors import OptionError

jax = pytest.importorskip("jax")
pytest.importorskip("flax")

import jax.numpy as jnp  # noqa: E402

from rl_clarity.agents import jax_graph  # noqa: E402
from tests.agents import jax_networks  # noqa: E402
from tests.agents.test_linear_prefix import difference, gradients  # noqa: E402

SHAPE = (16, 16, 3)


@pytest.fixture(scope="module")
def network() -> Any:
    return jax_networks.initialized("Residual", SHAPE)


@pytest.fixture
def observations() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (5, *SHAPE), np.uint8)


def test_outputs_and_input_gradients_equal_those_of_the_jax_function(network: Any, observations: np.ndarray) -> None:
    apply, parameters = network
    agent = rl_clarity.JaxAgent(apply, parameters, SHAPE)
    x = observations / np.float32(255)
    logits, values = apply(parameters, x)
    outputs = agent.forward(observations)
    assert outputs.policy_logits is not None
    assert np.allclose(outputs.policy_logits, logits, atol=1e-6)
    assert outputs.values is not None
    assert np.allclose(outputs.values, values, atol=1e-6)
    expected = jax.grad(lambda x: apply(parameters, x)[1].sum())(x)
    assert np.allclose(agent.gradients(observations, "input", ["value"])[0], expected, atol=1e-6)


@pytest.mark.parametrize(
    ("bound", "expected"),
    [((["function"], {"size": 2}), (("function", 1), {"size": 2})), ({"size": 2}, ((1,), {"size": 2}))],
    ids=["before JAX 0.10", "since JAX 0.10"],
)
def test_jax_primitives_are_bound_in_old_and_new_versions_of_jax(bound: Any, expected: Any) -> None:
    def called(*arguments: Any, **parameters: Any) -> Any:
        return arguments, parameters

    primitive = types.SimpleNamespace(get_bind_params=lambda parameters: bound, bind=called)
    assert jax_graph.bind(primitive, {}, [1]) == expected


def test_layers_are_activations_named_after_flax_modules(network: Any) -> None:
    agent = rl_clarity.JaxAgent(network[0], network[1], SHAPE)
    assert agent.layers == {"relu": (4, 4, 4), "block1": (2, 2, 4)}
    sites = {site.name: site for site in agent.sites}
    assert sites["Residual/conv1/conv2d"].kind == "conv2d"
    assert sites["Residual/silu"].kind == "silu"
    bypassed = [name for name, site in sites.items() if not site.after_bottleneck]
    assert "Residual/Conv_0/conv2d" in bypassed
    assert "Residual/relu" not in bypassed
    assert agent.site("block1").name == "Residual/relu_2", "the activation after the sum"


def test_residual_connections_bypass_layers_inside_the_block(network: Any, observations: np.ndarray) -> None:
    agent = rl_clarity.JaxAgent(network[0], network[1], SHAPE)
    inside = agent.site("Residual/relu_1").name
    (tail,) = agent.tails(observations, inside, ["value"])
    removed = agent.forward(observations, write={inside: np.zeros_like(tail.values)})
    assert removed.values is not None
    assert np.allclose(tail.scores(scale=0)[0], removed.values, atol=1e-6)
    assert np.ptp(removed.values) > 1e-4  # the other path still depends on the observations


def test_flax_nnx_modules_are_explained(observations: np.ndarray) -> None:
    nnx = pytest.importorskip("flax.nnx")

    class Network(nnx.Module):  # type: ignore[name-defined]
        def __init__(self, rngs: Any) -> None:
            self.conv = nnx.Conv(3, 4, (4, 4), strides=4, rngs=rngs)
            self.q = nnx.Linear(64, 5, rngs=rngs)

        def __call__(self, x: Any) -> Any:
            return self.q(nnx.relu(self.conv(x)).reshape(len(x), -1))

    network = Network(nnx.Rngs(0))
    definition, parameters = nnx.split(network)

    def apply(parameters: Any, x: Any) -> Any:
        return nnx.merge(definition, parameters)(x)

    agent = rl_clarity.JaxAgent(apply, parameters, SHAPE, heads=("q_values",))
    q_values = agent.forward(observations).q_values
    assert q_values is not None
    assert np.allclose(q_values, network(observations / np.float32(255)), atol=1e-6)
    assert agent.layers == {"relu": (4, 4, 4)}
    assert any("kernel" in name for name in agent.parameters())


def test_generate_writes_a_page_for_a_flax_agent(network: Any, observations: np.ndarray, tmp_path: Path) -> None:
    agent = rl_clarity.JaxAgent(network[0], network[1], SHAPE)
    trajectories = {
        "observations": observations[None],
        "actions": np.zeros((1, 5), int),
        "rewards": np.ones((1, 5)),
        "dones": np.zeros((1, 5), bool),
    }
    rl_clarity.generate(agent, trajectories, observations, tmp_path, nmf_features=2, attr_integrate_steps=2)
    assert rl_clarity.open_results(tmp_path).manifest["complete"]
    assert (tmp_path / "interface.html").exists()


@pytest.mark.parametrize(
    ("apply", "words"),
    [
        ("apply", "apply is a str"),
        (lambda parameters, x: x, "the network returns"),
        (lambda parameters, x: jax.nn.softmax(x.reshape(len(x), -1)[:, :4]), "probabilities"),
        (lambda parameters, x: jnp.ones((3, 4)), "3 rows for two observations"),
        (lambda parameters, x: np.asarray(x).reshape(len(x), -1)[:, :4], "jax.numpy"),
        (lambda parameters, x: jnp.round(9 * x[:, 0, 0]), "their gradient is 0"),
        (lambda parameters, x: (x - x.mean(0)).mean((1, 2)), "with the rest of its batch"),
        (lambda parameters, x: (x / 255).reshape(len(x), -1) @ jnp.ones((768, 4)), "multiplies its input by 0.00392"),
        (lambda parameters, x: jnp.ones((len(x), 4)), "does not depend on the observations"),
    ],
)
def test_functions_that_cannot_be_used_as_agents_are_rejected(apply: Any, words: str) -> None:
    with pytest.raises(OptionError, match=words):
        rl_clarity.JaxAgent(apply, {}, SHAPE, heads=("q_values",))


def test_a_function_with_a_single_output_is_refused_without_heads(observations: np.ndarray) -> None:
    def apply(_: Any, x: Any) -> Any:
        return x.reshape(len(x), -1) @ jnp.ones((768, 4))

    with pytest.raises(OptionError, match=r"heads=\('policy_logits',\) for the logits of a policy"):
        rl_clarity.JaxAgent(apply, {}, SHAPE)
    outputs = rl_clarity.JaxAgent(apply, {}, SHAPE, heads=("policy_logits",)).forward(observations)
    assert outputs.policy_logits is not None
    assert (outputs.values, outputs.q_values) == (None, None)


LINEAR: dict[str, tuple[Any, str | None, str | None]] = {
    # what follows the ReLU, and the last operation of its linear prefix, for paths from 0 and from elsewhere
    "dense": (lambda x, w: x @ w, "dense", "dense"),
    "dense bias": (lambda x, w: x @ w + w[0], "add", "add"),
    "normalization dense": (lambda x, w: ((x - 0.5) / jnp.sqrt(w[0] ** 2 + 1)) @ w + w[0], "add", "add"),
    "relu dense": (lambda x, w: jax.nn.relu(x) @ w, "dense", None),
    "offset relu dense": (lambda x, w: jax.nn.relu(x + 0.5) @ w, None, None),
    "shifted relu dense": (lambda x, w: shifted(x) @ w, None, None),
    "max dense": (lambda x, w: jnp.maximum(x, 0.0) @ w, "dense", None),
    "dense relu dense": (lambda x, w: jax.nn.relu(x @ w) @ w, "dense", "dense"),
    "inverse dense": (lambda x, w: (1 / (x + 1)) @ w, None, None),
    "sigmoid dense": (lambda x, w: jax.nn.sigmoid(x) @ w, None, None),
    "skip": (lambda x, w: x + x @ w, None, None),
    "mask": (lambda x, w: (x @ w) * (x > 0.3), None, None),
    "square": (lambda x, w: jnp.einsum("bi,bi,ij->bj", x, x, w), None, None),
    "bfloat16": (lambda x, w: (x.astype(jnp.bfloat16) @ w.astype(jnp.bfloat16)).astype(jnp.float32), None, None),
}


def shifted(x: Any) -> Any:
    def relu(x: Any) -> Any:
        return jnp.maximum(x, 0) - 0.1

    return jax.jit(relu)(x)


@pytest.mark.parametrize("from_zero", [True, False])
@pytest.mark.parametrize("follows", LINEAR)
def test_linear_operations_after_a_layer_are_recognized(
    follows: str, from_zero: bool, observations: np.ndarray
) -> None:
    function, *expected = LINEAR[follows]
    rng = np.random.default_rng(0)
    first, weights, heads = (rng.normal(0, 0.1, shape).astype(np.float32) for shape in ((768, 8), (8, 8), (8, 5)))

    def apply(_: Any, x: Any) -> Any:
        x = function(jax.nn.relu(x.reshape(len(x), -1) @ first - 0.1), jnp.asarray(weights))
        return jnp.tanh(x) @ heads

    agent: Any = rl_clarity.JaxAgent(apply, {}, SHAPE, heads=("q_values",), gradient_batch_size=16, check=False)
    site, end = agent.site("relu"), expected[not from_zero]
    assert (agent._linear_prefix_end(site.name, from_zero) or "none").startswith(end or "none")
    if end is not None:
        baseline = None if from_zero else rng.random((1, *site.shape)).astype(np.float32)
        assert difference(gradients(agent, site.name, baseline=baseline)) < 1e-5


@pytest.mark.parametrize(
    ("name", "options", "site", "end"),
    [
        ("Residual", {}, "Residual/relu_2", "Residual/Dense_0/add"),
        ("Recurrent", {"initial_state": (np.zeros(8),) * 2}, "input", "Recurrent/Conv_0/add"),
        ("ChannelsFirst", {"channels_first": True, "heads": ("q_values",)}, "input", "conv2d"),
    ],
)
def test_linear_operations_after_a_layer_are_recognized_in_whole_networks(
    name: str, options: dict[str, Any], site: str, end: str
) -> None:
    apply, parameters = jax_networks.initialized(name)
    agent: Any = rl_clarity.JaxAgent(apply, parameters, (44, 44, 4), gradient_batch_size=16, **options)
    assert agent._linear_prefix_end(site, True) == end
    assert difference(gradients(agent, site)) < 1e-5


def test_a_residual_connection_ends_the_linear_operations_after_a_layer(network: Any) -> None:
    agent: Any = rl_clarity.JaxAgent(network[0], network[1], SHAPE)
    assert agent._linear_prefix_end("Residual/relu", True) is None
    assert agent._linear_prefix_end("Residual/relu_1", True) == "Residual/Conv_0/add"
