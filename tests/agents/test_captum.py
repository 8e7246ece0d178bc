"""Attribution of PyTorch networks equals Captum's, in float32."""

from __future__ import annotations

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
def test_layer_integrated_gradients(agent: TorchAgent, module: Any, layer: str, count: int) -> None:
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


def test_points_that_captum_rounds_to_float32(agent: TorchAgent, module: Any) -> None:
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
