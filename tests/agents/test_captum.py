"""Attribution of PyTorch networks equals Captum's, in float32."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
attr = pytest.importorskip("captum.attr")

from rl_clarity import TorchAgent  # noqa: E402
from rl_clarity.analyses.attribution import attribute  # noqa: E402
from rl_clarity.analyses.attribution.quadrature import RULES  # noqa: E402
from tests.agents.torch_modules import SHAPE, Nature, loaded, random_observations  # noqa: E402

pytestmark = pytest.mark.usefixtures("single_thread")


@pytest.fixture(scope="module")
def module() -> Any:
    return loaded(Nature())


@pytest.fixture(scope="module")
def agent(module: Any) -> TorchAgent:
    return TorchAgent(module, SHAPE)


def value(module: Any, x: Any) -> Any:
    return module(x)[1][:, 0]


@pytest.mark.parametrize("count", [1, 3, 70])
@pytest.mark.parametrize("layer", ["network.1", "network.4"])
def test_integrated_gradients_of_a_layer_equal_captums(agent: TorchAgent, module: Any, layer: str, count: int) -> None:
    observations = random_observations(count)
    x = torch.from_numpy(observations).permute(0, 3, 1, 2).contiguous().float() / 255
    method = attr.LayerIntegratedGradients(lambda x: value(module, x), module.get_submodule(layer))
    result = method.attribute(x, n_steps=7, method="gausslegendre", return_convergence_delta=True)
    values, delta = (part[0] if isinstance(part, tuple) else part for part in result)
    expected = values.permute(0, 2, 3, 1).detach().numpy()
    rule: Any = {"steps": 7, "quadrature": "gauss-legendre"}
    actual = attribute(agent, observations, layer, ["value"], baseline="zero-input", **rule)
    assert np.abs(actual.values[0] - expected).max() <= 1e-5 * np.abs(expected).max()
    np.testing.assert_allclose(actual.completeness_error[0], delta.numpy(), atol=1e-5)
    other = attribute(agent, observations, layer, ["value"], baseline="zero-layer", **rule)
    assert np.abs(other.values[0] - expected).max() > 0.01 * np.abs(expected).max()


def test_integrated_gradients_equal_captums_at_its_float32_points(agent: TorchAgent, module: Any) -> None:
    """Its Riemann points are rounded by `torch.linspace`; at the same points the results are equal."""
    observations, steps = random_observations(), 10
    x = torch.from_numpy(observations).permute(0, 3, 1, 2).contiguous().float() / 255
    method = attr.LayerIntegratedGradients(lambda x: value(module, x), module.network[1])
    expected = method.attribute(x, n_steps=steps, method="riemann_right")
    expected = (expected[0] if isinstance(expected, tuple) else expected).permute(0, 2, 3, 1).detach().numpy()
    points = np.array(torch.linspace(1 / steps, 1, steps).tolist())
    try:
        RULES.register("rounded", lambda n: (points, np.full(n, 1 / n)))
        actual = attribute(
            agent, observations, "network.1", steps=steps, quadrature="rounded", baseline="zero-input"
        ).values[0]
    finally:
        RULES.unregister("rounded")
    assert np.abs(actual - expected).max() <= 1e-5 * np.abs(expected).max()


@pytest.mark.slow
def test_residual_networks_differ_from_captum_only_at_relu_kinks() -> None:
    """At kinks of ReLUs and maxima Captum's results depend on the precision; without kinks all results are equal."""
    from benchmarks.captum import _networks

    torch.manual_seed(0)
    shape, steps, layer = (64, 64, 3), 10, "body.3"
    kinked = _networks()["IMPALA"]().eval()
    network = smooth(copy.deepcopy(kinked))
    observations = np.random.default_rng(0).integers(0, 256, (16, *shape), np.uint8)

    def captum(module: Any, number: Any) -> np.ndarray:
        x = torch.from_numpy(observations).permute(0, 3, 1, 2).contiguous().to(number) / 255
        method = attr.LayerIntegratedGradients(lambda x: value(module, x), module.get_submodule(layer))
        result = method.attribute(x, n_steps=steps, method="gausslegendre")
        result = result[0] if isinstance(result, tuple) else result
        return np.asarray(result.permute(0, 2, 3, 1).detach())

    def deviation(actual: np.ndarray, expected: np.ndarray) -> float:
        return float(np.abs(actual - expected).max() / np.abs(expected).max())

    rule: Any = {"steps": steps, "quadrature": "gauss-legendre", "baseline": "zero-input"}
    actual = attribute(TorchAgent(network, shape), observations, layer, ["value"], **rule).values[0]
    expected = captum(copy.deepcopy(network).double(), torch.float64)
    assert deviation(actual, expected) <= 1e-5
    assert deviation(captum(network, torch.float32), expected) <= 1e-5
    assert deviation(captum(kinked, torch.float32), captum(copy.deepcopy(kinked).double(), torch.float64)) > 1e-4


def smooth(module: Any) -> Any:
    """Replace ReLUs and maxima by functions without kinks."""
    for name, part in module.named_children():
        if isinstance(part, torch.nn.ReLU):
            setattr(module, name, torch.nn.Softplus(beta=5))
        elif isinstance(part, torch.nn.MaxPool2d):
            setattr(module, name, torch.nn.AvgPool2d(3, 2, 1))
        else:
            smooth(part)
    return module
