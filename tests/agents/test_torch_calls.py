"""Calls of a module's parts: repeated calls are merged, results before a layer are reused, in-place parts included."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from rl_clarity.agents import torch_agent  # noqa: E402
from rl_clarity.analyses.attribution import attribute  # noqa: E402
from tests.agents.torch_modules import SHAPE, Nature, Residual, loaded, random_observations  # noqa: E402

pytestmark = pytest.mark.usefixtures("single_thread")

TorchAgent: Any = torch_agent.TorchAgent
"""Not typed, because the network decides which outputs are None."""


class TrunkTwice(Nature):
    def forward(self, x: Any) -> Any:
        return self.actor(self.network(x)), self.critic(self.network(x))


class EqualInputs(Nature):
    """The inputs of both calls are different tensors with equal values."""

    def forward(self, x: Any) -> Any:
        return self.actor(self.network(x * 0.5)), self.critic(self.network(x / 2))


class PartsTwice(Nature):
    """A method, rather than a part, is called twice."""

    def features(self, x: Any) -> Any:
        for part in self.network:
            x = part(x)
        return x

    def forward(self, x: Any) -> Any:
        return self.actor(self.features(x)), self.critic(self.features(x))


class ResultsIgnored(Nature):
    """What parts in place return is not used, but what they change."""

    def forward(self, x: Any) -> Any:
        for part in self.network:
            y = part(x)
            x = x if isinstance(part, nn.ReLU) else y
        return self.actor(x), self.critic(x)


def half(module: Nature, x: Any) -> Any:
    return Nature.forward(module, x * 0.5)


@pytest.mark.parametrize("inplace", [False, True])
@pytest.mark.parametrize("kind", [TrunkTwice, EqualInputs, PartsTwice])
def test_a_network_that_is_called_twice_is_explained_like_one_that_is_called_once(
    kind: type[Nature], inplace: bool
) -> None:
    def forward(module: Any, x: Any, _: Any) -> Any:
        return half(module, x) if kind is EqualInputs else Nature.forward(module, x)

    twice = TorchAgent(loaded(kind(inplace)), SHAPE)
    once = TorchAgent(loaded(Nature(inplace)), SHAPE, forward=forward)
    assert list(twice.layers) == list(once.layers)
    observations = random_observations()
    for layer in once.layers:
        actual, expected = (attribute(agent, observations, layer, ["value", 1], steps=3) for agent in (twice, once))
        assert np.any(expected.values != 0)
        assert np.allclose(actual.values, expected.values, atol=1e-6 * np.abs(expected.values).max())
        assert np.allclose(actual.scores_at_baseline, expected.scores_at_baseline, atol=1e-6)
    edit = {"network.3": lambda values: values * 0.5}
    outputs, others = (agent.forward(observations, write=edit) for agent in (twice, once))
    assert np.allclose(outputs.policy_logits, others.policy_logits, atol=1e-6)
    assert np.allclose(outputs.values, others.values, atol=1e-6)


def test_attribution_works_for_in_place_submodules_with_unused_results() -> None:
    ignored, plain = TorchAgent(loaded(ResultsIgnored(True)), SHAPE), TorchAgent(loaded(Nature()), SHAPE)
    for layer in plain.layers:
        actual, expected = (attribute(agent, random_observations(), layer, steps=3) for agent in (ignored, plain))
        assert np.allclose(actual.values, expected.values, atol=1e-6 * np.abs(expected.values).max())


def test_repeated_calls_of_a_stateful_submodule_are_not_merged() -> None:
    class Counts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.calls = 0

        def forward(self, x: Any) -> Any:
            self.calls = self.calls % 2 + 1
            return x * self.calls

    class Net(Nature):
        def __init__(self) -> None:
            super().__init__()
            self.counts = Counts()

        def forward(self, x: Any) -> Any:
            x = self.network(x)
            return self.actor(self.counts(x)), self.critic(self.counts(x))

    agent = TorchAgent(loaded_body(Net()), SHAPE)
    assert {"counts", "counts_1"} <= {site.name for site in agent.sites}
    outputs, plain = (one.forward(random_observations()) for one in (agent, TorchAgent(loaded(Nature()), SHAPE)))
    assert np.allclose(outputs.policy_logits, plain.policy_logits, atol=1e-5)
    assert not np.allclose(outputs.values, plain.values, atol=1e-5)


def loaded_body(module: Nature) -> Nature:
    module.load_state_dict(loaded(Nature()).state_dict(), strict=False)
    return module


class Counted(Nature):
    """Counts how many observations the first part is computed for."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = 0
        self.network[0].register_forward_hook(lambda *_: None)
        convolve = self.network[0]._conv_forward

        def counting(x: Any, *arguments: Any) -> Any:
            self.rows += len(x)
            return convolve(x, *arguments)

        self.network[0]._conv_forward = counting


def test_submodules_before_a_layer_are_computed_once_per_batch() -> None:
    module = Counted()
    agent = TorchAgent(loaded(module), SHAPE)
    attribute(agent, random_observations(), "network.3", steps=8, baseline="zero-layer")
    module.rows = 0
    attribute(agent, random_observations(64), "network.3", steps=8, baseline="zero-layer")
    assert module.rows == 64


def test_reading_a_layer_does_not_compute_submodules_after_it() -> None:
    module = Counted()
    agent = TorchAgent(loaded(module), SHAPE)
    agent.activations(random_observations(), "input")
    before = module.rows
    agent.activations(random_observations(), "input")
    assert module.rows == before
    expected = agent.forward(random_observations(), read=["network.1"]).sites["network.1"]
    assert np.array_equal(agent.activations(random_observations(), "network.1"), expected)


def test_modules_that_store_results_in_attributes_are_recomputed() -> None:
    class Stem(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.relu = nn.Conv2d(4, 6, 8, stride=4), nn.ReLU()
            self.features: Any = None

        def forward(self, x: Any) -> Any:
            self.features = self.conv(x)
            return self.relu(self.features)

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem, self.block, self.q = Stem(), Residual(), nn.Linear(600, 4)

        def forward(self, x: Any) -> Any:
            return self.q((self.block(self.stem(x)) + self.stem.features).flatten(1))

    torch.manual_seed(0)
    agent = TorchAgent(Net(), SHAPE, heads=("q_values",))
    observations = random_observations(6)
    tails = [next(iter(agent.tails(part, "block.relu1", [1]))) for part in (observations[:3], observations[3:])]
    expected = agent.forward(observations).q_values[:, 1]
    for tail, scores in zip(tails, (expected[:3], expected[3:]), strict=True):
        assert np.allclose(tail.scores(tail.values)[0], scores, atol=1e-5)


class Tensors(MutableMapping[str, Any]):
    """A mapping with the methods of a tensor, as TensorDict is."""

    def __init__(self, **tensors: Any) -> None:
        self.tensors = tensors

    def __getitem__(self, name: str) -> Any:
        return self.tensors[name]

    def __setitem__(self, name: str, tensor: Any) -> None:
        self.tensors[name] = tensor

    def __delitem__(self, name: str) -> None:
        del self.tensors[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.tensors)

    def __len__(self) -> int:
        return len(self.tensors)

    def clone(self) -> Tensors:
        return Tensors(**{name: tensor.clone() for name, tensor in self.tensors.items()})

    def detach(self) -> Tensors:
        return Tensors(**{name: tensor.detach() for name, tensor in self.tensors.items()})


class Writer(nn.Module):
    """Reads an entry of a mapping, writes another one, and returns the mapping, as modules of TorchRL do."""

    def __init__(self, module: nn.Module, read: str, write: str) -> None:
        super().__init__()
        self.module, self.read, self.write = module, read, write

    def forward(self, tensors: Tensors) -> Tensors:
        tensors[self.write] = self.module(tensors[self.read])
        return tensors


class Mapped(Nature):
    def __init__(self) -> None:
        super().__init__()
        self.writers = nn.ModuleList(
            Writer(module, read, write)
            for module, read, write in (
                (self.network, "x", "hidden"),
                (self.actor, "hidden", "logits"),
                (self.critic, "hidden", "value"),
            )
        )

    def forward(self, x: Any) -> Any:
        tensors = Tensors(x=x)
        for writer in self.writers:
            tensors = writer(tensors)
        return tensors["logits"], tensors["value"]


def test_modules_that_write_into_a_dictionary_of_tensors_are_explained() -> None:
    observations, layer = random_observations(), "network.1"
    module = loaded(Nature())
    mapped = Mapped()
    mapped.load_state_dict(module.state_dict(), strict=False)
    plain, agent = TorchAgent(module, SHAPE), TorchAgent(mapped, SHAPE)
    assert np.array_equal(agent.forward(observations).policy_logits, plain.forward(observations).policy_logits)
    assert agent.layers == plain.layers
    expected = attribute(plain, observations, layer, steps=3).values
    assert np.allclose(attribute(agent, observations, layer, steps=3).values, expected, atol=1e-6)
