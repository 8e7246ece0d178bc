"""What the network after a site needs of what precedes it, and the points of a path in one batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from rl_clarity import TorchAgent  # noqa: E402
from rl_clarity.agents.sites import INPUT  # noqa: E402
from rl_clarity.analyses.attribution import attribute  # noqa: E402

pytestmark = pytest.mark.usefixtures("single_thread")

SHAPE = (12, 12, 3)
Skip = Callable[[Any, Any], Any]


class Statistics(nn.Module):
    """Returns statistics (2, B, 6) of channels, which do not have the batch first."""

    def forward(self, x: Any) -> Any:
        return torch.stack([x.mean(dim=(2, 3)), x.amax(dim=(2, 3))])


class Net(nn.Module):
    """Adds `skip(observations, before)` to the result of its second convolution."""

    def __init__(self, skip: Skip | None = None, *, inplace: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.skip = skip
        self.first, self.statistics, self.second = nn.Conv2d(3, 6, 3), Statistics(), nn.Conv2d(6, 6, 3)
        self.relu, self.last, self.head = nn.ReLU(inplace), nn.Conv2d(6, 8, 3), nn.Linear(8 * 36, 5)
        self.gate = nn.Parameter(torch.zeros(1))

    def forward(self, observations: Any) -> Any:
        before = self.first(observations)
        skipped = 0 if self.skip is None else self.skip(observations, before)
        x = self.relu(self.second(before)) + skipped
        y = self.head(torch.relu(self.last(x)).flatten(1))
        return y[:, :4], y[:, 4]


class WithStatistics(Net):
    def __init__(self) -> None:
        super().__init__(lambda _, before: self.statistics(before).prod(dim=0)[:, :, None, None])


class Gated(Net):
    """Its skip connection has no effect at first."""

    def __init__(self) -> None:
        super().__init__(lambda _, before: self.gate * before[:, :, 1:-1, 1:-1])


def of_observations(observations: Any, _: Any) -> Any:
    return observations.mean(dim=(1, 2, 3))[:, None, None, None]


def of_result(_: Any, before: Any) -> Any:
    return before[:, :, 1:-1, 1:-1]


def without_gradient(_: Any, before: Any) -> Any:
    return (before[:, :, 1:-1, 1:-1] > 0).float()


KINDS: dict[str, tuple[Callable[[], Net], bool, bool]] = {
    "chain": (Net, False, True),
    "chain in place": (lambda: Net(inplace=True), False, True),
    "observations": (lambda: Net(of_observations), True, True),
    "earlier result": (lambda: Net(of_result), True, True),
    "without gradient": (lambda: Net(without_gradient), True, True),
    "closed gate": (Gated, True, True),
    "batch not first": (WithStatistics, True, False),
}
"""Networks, whether the heads need what precedes the ReLU, and whether its rows can be repeated."""


def images(count: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (20, *SHAPE), np.uint8)[:count]


@pytest.mark.parametrize("kind", KINDS)
def test_observations_and_results_that_bypass_a_layer_are_detected(kind: str) -> None:
    make, needed, repeats = KINDS[kind]
    agent = TorchAgent(make().eval(), SHAPE, check=False)
    assert agent._bypass("relu") == ((INPUT, "before/relu") if needed else ())
    assert agent._repeats_rows("relu") == repeats


@pytest.mark.parametrize("baseline", ["zero-layer", "zero-input", "blur"])
@pytest.mark.parametrize("kind", KINDS)
def test_attribution_in_batches_equals_one_observation_at_a_time(kind: str, baseline: str) -> None:
    """For an agent that evaluates one point at a time, one observation at a time."""
    make = KINDS[kind][0]
    agent, alone = (TorchAgent(make().eval(), SHAPE, gradient_batch_size=size, check=False) for size in (64, 1))
    options: dict[str, Any] = {"steps": 7, "baseline": baseline, "linear_prefix": False}
    expected = attribute(alone, images(20), "relu", ["value", 2], **options)
    for count in (1, 3, 8, 20):
        for prefix in (False, True):
            actual = attribute(agent, images(count), "relu", ["value", 2], **{**options, "linear_prefix": prefix})
            for name in ("values", "scores", "scores_at_baseline"):
                whole, part = getattr(expected, name), getattr(actual, name)
                np.testing.assert_allclose(part, whole[:, :count], rtol=0, atol=2e-6 * np.abs(whole).max())


def test_weights_changed_later_can_open_a_bypass_around_a_layer() -> None:
    agent, opened = TorchAgent(Gated().eval(), SHAPE, check=False), TorchAgent(Net(of_result).eval(), SHAPE)
    closed = attribute(agent, images(3), "relu").values
    with agent.other_parameters({"gate": np.ones(1)}):
        actual = attribute(agent, images(3), "relu").values
    expected = attribute(opened, images(3), "relu").values
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-6 * np.abs(expected).max())
    assert np.abs(closed - expected).max() > 0.01 * np.abs(expected).max()


@pytest.mark.parametrize(("size", "rows"), [(64, [40]), (24, [24, 16]), (8, [8] * 5)])
def test_path_points_share_batches_up_to_gradient_batch_size(size: int, rows: list[int]) -> None:
    """Of at most `gradient_batch_size` rows, without reading what precedes the layer."""
    net = Net().eval()
    agent = TorchAgent(net, SHAPE, gradient_batch_size=size, check=False)
    attribute(agent, images(8), "relu", steps=5)
    sizes, earlier = list[int](), list[int]()
    for part, seen in ((net.last, sizes), (net.second, earlier)):
        convolve = part._conv_forward

        def counted(x: Any, *arguments: Any, convolve: Any = convolve, seen: list[int] = seen) -> Any:
            seen.extend([len(x)] * torch.is_grad_enabled() if seen is sizes else [len(x)])
            return convolve(x, *arguments)

        part._conv_forward = counted
    attribute(agent, images(8), "relu", steps=5, linear_prefix=False)
    assert sizes == rows
    assert earlier == [8, 8], "once for the baseline, and once for the observations"
