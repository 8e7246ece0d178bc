"""Networks with continuous actions, several choices, a value alone, or more than an image as observation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import distributions, nn  # noqa: E402

import rl_clarity  # noqa: E402
from rl_clarity.base.errors import OptionError  # noqa: E402

pytestmark = pytest.mark.usefixtures("single_thread")

SHAPE = (16, 16, 3)


class Body(nn.Module):
    """`outputs(logits, value)` of a small network."""

    def __init__(self, outputs: Callable[[Any, Any], Any]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv = nn.Sequential(nn.Conv2d(3, 4, 4, stride=4), nn.ReLU())
        self.actor, self.critic = nn.Linear(64, 4), nn.Linear(64, 1)
        self.outputs = outputs

    def forward(self, x: Any) -> Any:
        features = self.conv(x).flatten(1)
        return self.outputs(self.actor(features), self.critic(features))


@pytest.fixture
def observations() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (3, *SHAPE), np.uint8)


@pytest.fixture
def reference(observations: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    x = torch.tensor(np.moveaxis(observations, -1, 1) / np.float32(255))
    with torch.no_grad():
        logits, value = Body(lambda logits, value: (logits, value))(x)
    return logits.numpy(), value.numpy()


@pytest.mark.parametrize(
    ("outputs", "heads"),
    [
        (lambda mean, value: (mean, mean.exp(), value), ("policy_logits", None, "values")),
        (lambda logits, value: ((logits[:, :2], logits[:, 2:]), value), None),
        (lambda _, value: value, ("q_values",)),
    ],
    ids=["continuous actions", "several choices", "value alone"],
)
def test_networks_wrapped_to_return_logits_or_q_values_are_explained(
    outputs: Any, heads: Any, observations: np.ndarray, reference: tuple[np.ndarray, np.ndarray]
) -> None:
    module = Body(outputs)
    forward = None
    if heads is None:

        def forward(module: Any, x: Any, _: Any) -> Any:
            choices, value = module(x)
            return torch.cat(choices, dim=1), value

    agent = rl_clarity.TorchAgent(module, SHAPE, heads=heads, forward=forward)
    results = agent.forward(observations)
    scores = results.q_values if heads == ("q_values",) else results.policy_logits
    assert scores is not None
    expected = reference[1] if heads == ("q_values",) else reference[0]
    assert np.allclose(scores, expected, atol=1e-6)
    layer = next(iter(agent.layers))
    last = scores.shape[1] - 1
    attribution = rl_clarity.integrated_gradients(agent, observations, layer, last, steps=20, baseline="zero-layer")
    zero = np.zeros((3, *agent.layers[layer]), np.float32)
    removed = agent.forward(observations, write={layer: zero})
    rest = removed.q_values if heads == ("q_values",) else removed.policy_logits
    assert rest is not None
    assert np.allclose(attribution.sum(axis=(1, 2, 3)), (scores - rest)[:, last], atol=1e-4)


def test_a_forward_function_can_fix_a_vector_beside_the_image(observations: np.ndarray) -> None:
    class Dictionary(Body):
        def forward(self, x: Any) -> Any:
            logits, value = super().forward(x["image"])
            return logits + x["speed"], value

    def forward(module: Any, image: Any, _: Any) -> Any:
        return module({"image": image, "speed": torch.full((len(image), 1), 2.0)})

    agent = rl_clarity.TorchAgent(Dictionary(lambda *outputs: outputs), SHAPE, forward=forward)
    plain = rl_clarity.TorchAgent(Body(lambda *outputs: outputs), SHAPE)
    outputs, others = agent.forward(observations), plain.forward(observations)
    assert outputs.policy_logits is not None
    assert others.policy_logits is not None
    assert np.allclose(outputs.policy_logits, others.policy_logits + 2, atol=1e-6)
    assert list(agent.layers) == list(plain.layers)


@pytest.mark.parametrize("shape", [(16, 16, 1), (128, 128, 3)])
def test_grayscale_and_large_float_images_reach_the_module_unchanged(shape: tuple[int, int, int]) -> None:
    observations = np.random.default_rng(0).random((2, *shape), np.float32)
    module = nn.Sequential(nn.Conv2d(shape[2], 2, 4, stride=4), nn.ReLU(), nn.Flatten(), nn.LazyLinear(4))
    with torch.no_grad():
        expected = module.eval()(torch.tensor(np.moveaxis(observations, -1, 1))).numpy()
    outputs = rl_clarity.TorchAgent(module, shape, heads=("q_values",), input_divisor=1).forward(observations)
    assert outputs.q_values is not None
    assert np.allclose(outputs.q_values, expected, atol=1e-6)


@pytest.mark.parametrize(
    ("outputs", "words"),
    [
        (lambda mean, value: (distributions.Normal(mean, 1.0), value), "a Normal, whose mean is used in place of"),
        (lambda mean, value: (mean, mean.exp(), value), "For continuous actions, return the means in place of logits"),
        (
            lambda logits, value: ([logits[:, :2], logits[:, 2:]], value),
            r"for several choices, concatenate their logits",
        ),
        (lambda _, value: value, r"If the only output is a value, .*heads=\('q_values',\)"),
        (lambda _, value: value[:, 0], r"If the only output is a value, return it as \(batch, 1\)"),
    ],
)
def test_errors_for_unsupported_outputs_explain_how_to_wrap_the_network(outputs: Any, words: str) -> None:
    with pytest.raises(OptionError, match=words):
        rl_clarity.TorchAgent(Body(outputs), SHAPE)


def test_the_error_for_dictionary_observations_shows_how_to_describe_them() -> None:
    class Dictionary(Body):
        def forward(self, x: Any) -> Any:
            return super().forward(x["image"])

    with pytest.raises(OptionError, match=r"observation_shape=\{'image': \(.*those that take a dictionary"):
        rl_clarity.TorchAgent(Dictionary(lambda *outputs: outputs), SHAPE)
