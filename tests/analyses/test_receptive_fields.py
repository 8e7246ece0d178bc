"""Receptive fields, measured on networks of which they are known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rl_clarity.analyses.receptive_fields import receptive_field
from tests.fakes import TinyAgent


def noise(count: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (count, *shape), np.uint8)


def test_receptive_fields_of_convolutions_are_measured() -> None:
    torch = pytest.importorskip("torch")
    from rl_clarity import TorchAgent

    class Network(torch.nn.Module):  # type: ignore[name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.first = torch.nn.Conv2d(3, 8, (5, 3), padding=(2, 1))
            self.second = torch.nn.Conv2d(8, 8, 3, padding=1)
            self.after_first, self.after_second = torch.nn.ReLU(), torch.nn.ReLU()
            self.head = torch.nn.Linear(8, 3)

        def forward(self, x: Any) -> Any:
            x = torch.nn.functional.max_pool2d(self.after_first(self.first(x)), 2)
            outputs = self.head(self.after_second(self.second(x)).mean((2, 3)))
            return outputs[:, :2], outputs[:, 2]

    torch.manual_seed(0)
    agent = TorchAgent(Network(), observation_shape=(32, 40, 3))
    first, second = (name for name in (site.name for site in agent.sites if site.kind == "relu"))
    fields = [receptive_field(agent, site, noise(4, 32, 40, 3)) for site in (first, second)]
    assert (fields[0].height, fields[0].width) == (5, 3)
    # 5 rows, 1 more by pooling, 2 positions of 2 pixels more by the second convolution.
    assert (fields[1].height, fields[1].width) == (10, 8)
    for field in fields:
        assert 1 <= field.effective_height <= field.height
        assert 1 <= field.effective_width <= field.width
    assert fields[1] == receptive_field(agent, second, noise(4, 32, 40, 3), batch=7)


@pytest.mark.parametrize("kind", ["policy", "recurrent"])
def test_the_receptive_field_of_strided_patches_is_the_patch(kind: str) -> None:
    agent = TinyAgent(kind, observation_shape=(32, 48, 3))
    state = agent.initial_state(2)
    field = receptive_field(agent, "tiny/2a/Relu", noise(2, 32, 48, 3), state)
    assert (field.height, field.width) == (8, 8)


def test_a_globally_pooled_layer_has_the_whole_image_as_receptive_field() -> None:
    class Global(TinyAgent):
        def activations(self, observations: np.ndarray, site: str, state: object = None) -> np.ndarray:
            return observations.mean(axis=(1, 2, 3), keepdims=True, dtype=np.float64)

    field = receptive_field(Global(), "any", noise(2, 20, 30, 3))
    assert (field.height, field.width) == (20, 30)


def test_a_constant_layer_has_an_empty_receptive_field() -> None:
    class Constant(TinyAgent):
        def activations(self, observations: np.ndarray, site: str, state: object = None) -> np.ndarray:
            return np.ones((len(observations), 2, 2, 1))

    assert receptive_field(Constant(), "any", noise(1, 8, 8, 3)).height == 0
