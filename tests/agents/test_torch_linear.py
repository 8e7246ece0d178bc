"""The linear operations after a site of a PyTorch module, which are computed once for all points of a path."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from rl_clarity.agents import torch_agent  # noqa: E402
from rl_clarity.analyses.attribution import attribute  # noqa: E402
from tests.agents.test_linear_prefix import difference, gradients  # noqa: E402
from tests.agents.torch_modules import Impala, InPlace, Nature, Recurrent, Towers, loaded  # noqa: E402

pytestmark = pytest.mark.usefixtures("single_thread")

TorchAgent: Any = torch_agent.TorchAgent
SHAPE = (16, 16, 4)
SITE = "first"


class Computed(nn.Module):
    """A convolution whose weights depend on the observations."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.eye(6)[:, :, None, None])
        self.scale = torch.ones(())

    def forward(self, x: Any) -> Any:
        return F.conv2d(x, self.weight * self.scale)


class Doubled(torch.autograd.Function):  # type: ignore[name-defined]
    """The identity with another gradient."""

    @staticmethod
    def forward(_: Any, x: Any) -> Any:
        return x.view_as(x)

    @staticmethod
    def backward(_: Any, gradient: Any) -> Any:
        return 2 * gradient


def relu_in_place_of_a_view(net: Any, x: Any) -> Any:
    x.flatten(1).relu_()
    return net.c1(x)


def residual(part: Any, x: Any) -> Any:
    return x * torch.sigmoid(part(x))


def mask_without_gradient(net: Any, x: Any) -> Any:
    return net.c1(x) * (x.detach().mean((1, 2, 3), keepdim=True) > 0.01)


def array_without_gradient(net: Any, x: Any) -> Any:
    return net.c1(x) * float(x.detach().numpy().mean() > 0.01)


def places_of_maxima(net: Any, x: Any) -> Any:
    x, places = F.max_pool2d(x, 2, return_indices=True)
    return net.c1(x) * torch.cos(places)


def batch_norm_in_training(net: Any, x: Any) -> Any:
    return net.c1(F.batch_norm(x, None, None, training=True))


def hooked_gradient(net: Any, x: Any) -> Any:
    x = x.flatten(1)
    if x.requires_grad:
        x.register_hook(torch.sign)
    return net.d1(x)


def view_made_before(net: Any, x: Any) -> Any:
    """The ReLU in place changes the view, too."""
    before = x.flatten(1)
    x = net.relu_(x)
    return net.c1(x).flatten(1)[:, :4] + before[:, :4]


LINEAR: dict[str, tuple[Callable[[Any, Any], Any], str | None, str | None]] = {
    # what follows the site, and the last part of its prefix, for paths from 0 and from elsewhere
    "conv": (lambda net, x: net.c1(x), "c1", "c1"),
    "relu conv": (lambda net, x: net.c1(net.relu(x)), "c1", None),
    "functional relu conv": (lambda net, x: net.c1(torch.relu(x)), "c1", None),
    "relu in place, conv": (lambda net, x: net.c1(net.relu_(x)), "c1", None),
    "conv, relu in place": (lambda net, x: net.c2(net.relu_(net.c1(x))), "c1", "c1"),
    "leaky relu conv": (lambda net, x: net.c1(F.leaky_relu(x)), "c1", None),
    "max conv": (lambda net, x: net.c1(F.max_pool2d(x, 3, 2, 1)), "c1", None),
    "average conv": (lambda net, x: net.c1(net.average(x)), "c1", "c1"),
    "conv average": (lambda net, x: net.average(net.c1(x)), "average", "average"),
    "conv conv": (lambda net, x: net.c2(net.c1(x)), "c2", "c2"),
    "conv relu conv": (lambda net, x: net.c2(net.relu(net.c1(x))), "c1", "c1"),
    "flatten linear": (lambda net, x: net.d1(x.flatten(1)), "d1", "d1"),
    "mean linear": (lambda net, x: net.d2(x.mean((2, 3))), "d2", "d2"),
    "channels last linear": (lambda net, x: net.d2(x.permute(0, 2, 3, 1).contiguous()), "d2", "d2"),
    "pad conv": (lambda net, x: net.c1(F.pad(x, (1, 1, 1, 1))), "c1", "c1"),
    "pad by 1 conv": (lambda net, x: net.c1(F.pad(x, (1, 1, 1, 1), value=1.0)), None, None),
    "batch norm conv": (lambda net, x: net.c1(net.norm(x)), "c1", "c1"),
    "batch norm relu": (lambda net, x: net.c1(net.relu(net.norm(x))), "norm", "norm"),
    "batch norm in training": (batch_norm_in_training, None, None),
    "conv dropout batch norm": (lambda net, x: net.norm(net.dropout(net.c1(x))), "norm", "norm"),
    "part called twice": (lambda net, x: net.c1(torch.relu(net.c1(x))), "c1", "c1"),
    "sigmoid conv": (lambda net, x: net.c1(torch.sigmoid(x)), None, None),
    "relu6 conv": (lambda net, x: net.c1(F.relu6(x)), None, None),
    "offset conv": (lambda net, x: net.c1(x + 0.5), None, None),
    "square conv": (lambda net, x: net.c1(x * x), None, None),
    "average alone": (lambda net, x: net.average(x), None, None),
    "group norm conv": (lambda net, x: net.c1(net.groups(x)), None, None),
    "skip": (lambda net, x: x + net.c1(x), None, None),
    "skip of relu in place": (lambda net, x: x + net.c1(net.relu_(x)), None, None),
    "skip of views": (lambda net, x: x.flatten(1)[:, :6] + net.d1(x.view_as(x).flatten(1)), None, None),
    "conv identity, two readers": (lambda net, x: residual(net.identity, net.c1(x)), "c1", "c1"),
    "two readers": (lambda net, x: net.c1(x) * torch.tanh(net.c2(x)), None, None),
    "conv, two readers": (lambda net, x: net.c1(x) * net.c2(net.c1(x)), "c1", "c1"),
    "relu in place of a view": (relu_in_place_of_a_view, None, None),
    "view made before": (view_made_before, None, None),
    "mask without gradient": (mask_without_gradient, None, None),
    "array without gradient": (array_without_gradient, None, None),
    "places of maxima": (places_of_maxima, None, None),
    "custom gradient": (lambda net, x: net.c1(Doubled.apply(x)), None, None),
    "hooked gradient": (hooked_gradient, None, None),
    "computed weights": (lambda net, x: net.computed(x), None, None),
    "detached": (lambda net, x: net.c1(x.detach()), None, None),
    "weights of x": (lambda net, x: (x.flatten(2) @ x.flatten(2).transpose(1, 2))[..., None], None, None),
    "double": (lambda net, x: net.c3(x.double()).float(), None, None),
}


class Net(nn.Module):
    """A convolution and a ReLU, `first`; what follows; and then something nonlinear."""

    def __init__(self, follow: Callable[[Any, Any], Any]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.stem, self.first = nn.Conv2d(4, 6, 4, stride=4), nn.ReLU()
        self.c1, self.c2 = nn.Conv2d(6, 6, 3, padding=1), nn.Conv2d(6, 6, 3, padding=1)
        self.c3 = nn.Conv2d(6, 6, 3, padding=1).double()
        self.d1, self.d2 = nn.Linear(96, 6), nn.Linear(6, 6)
        self.relu, self.relu_ = nn.ReLU(), nn.ReLU(inplace=True)
        self.average, self.dropout, self.groups = nn.AvgPool2d(2), nn.Dropout(), nn.GroupNorm(2, 6)
        self.computed = Computed()
        self.identity = nn.Unflatten(1, (6,))
        self.norm = nn.BatchNorm2d(6)
        self.norm.running_mean, self.norm.running_var = torch.linspace(-0.2, 0.2, 6), torch.linspace(0.05, 0.3, 6)
        self.follow = follow
        self.actor, self.critic = nn.LazyLinear(4), nn.LazyLinear(1)
        self(torch.zeros(1, 4, 16, 16))

    def forward(self, x: Any) -> Any:
        self.computed.scale = 1 + x.mean()
        x = self.follow(self, self.first(self.stem(x)))
        x = torch.tanh(x).flatten(1)
        return self.actor(x), self.critic(x)


def made_agent(follows: str) -> Any:
    return TorchAgent(Net(LINEAR[follows][0]), SHAPE, gradient_batch_size=16, check=False)


def ends(agent: Any, site: str) -> tuple[str | None, ...]:
    return tuple(agent._linear_prefix_end(agent.site(site).name, zero) for zero in (True, False))


@pytest.mark.parametrize("follows", LINEAR)
def test_the_linear_prefix_ends_before_the_first_nonlinear_operation(follows: str) -> None:
    assert ends(made_agent(follows), SITE) == LINEAR[follows][1:]


@pytest.mark.parametrize("count", [1, 3, 16])
@pytest.mark.parametrize("from_zero", [True, False])
@pytest.mark.parametrize("follows", LINEAR)
def test_gradients_with_a_linear_prefix_equal_those_at_each_path_point(
    follows: str, from_zero: bool, count: int
) -> None:
    """Also where several points are computed in one batch."""
    agent = made_agent(follows)
    shape = agent.site(SITE).shape
    baseline = None if from_zero else np.random.default_rng(1).random((1, *shape)).astype(np.float32)
    pair = gradients(agent, SITE, count, baseline=baseline)
    assert pair[0].shape == (2, count, *shape)
    assert np.any(pair[0] != 0) == (follows != "detached")
    assert np.array_equal(pair[0], pair[1]) or difference(pair) < 1e-5


def test_in_place_activations_with_other_readers_have_no_linear_prefix() -> None:
    agent = made_agent("view made before")
    assert ends(agent, "relu_") == (None, None)
    assert difference(gradients(agent, "relu_")) == 0
    agent = TorchAgent(InPlace(), (44, 44, 4))
    assert [ends(agent, site) for site in ("conv", "relu", "next")] == [(None, None)] * 3


@pytest.mark.filterwarnings("ignore:the .* do not depend on the layers")
def test_known_architectures_have_the_expected_linear_prefix() -> None:
    layers: dict[type[nn.Module], dict[str, str | None]] = {
        Nature: {"input": "network.0", "network.0": "network.2", "network.1": "network.2", "network.5": "network.7"},
        Impala: {"input": "body.0", "body.0": None, "body.1": None, "body.2": None, "body.8": "body.10"},
        Towers: {"input": None, "relu": "actor", "relu_1": "critic"},
    }
    layers[Impala] |= {"body.2.relu0": "body.2.conv0", "body.2.conv0": "body.2.conv1", "body.2.relu1": "body.2.conv1"}
    layers[Impala] |= {"body.3": "body.4", "body.3.conv1": None}
    for kind, expected in layers.items():
        torch.manual_seed(0)
        agent = TorchAgent(kind(), (44, 44, 4), gradient_batch_size=16)
        for site, end in expected.items():
            assert ends(agent, site)[0] == end, (kind, site)
            assert difference(gradients(agent, site)) < 1e-5


@pytest.mark.parametrize("inplace", [False, True])
def test_in_place_and_low_precision_modules_have_a_linear_prefix(inplace: bool) -> None:
    for kind in (torch.float32, torch.float64, torch.bfloat16):
        agent = TorchAgent(loaded(Nature(inplace)).to(kind), (44, 44, 4), gradient_batch_size=16)
        assert ends(agent, "network.0") == ("network.2", None)
        assert ends(agent, "network.1") == ("network.2", "network.2")
        assert difference(gradients(agent, "network.1")) < (0.1 if kind is torch.bfloat16 else 1e-5)


def test_the_linear_prefix_handles_recurrence_and_replaced_parameters() -> None:
    agent = TorchAgent(Recurrent(), (44, 44, 4), initial_state=np.full(8, 0.25), gradient_batch_size=16)
    assert ends(agent, "input") == ("body.0", "body.0")
    assert ends(agent, "body.1") == ends(agent, "state/0") == (None, None)
    assert difference(gradients(agent, "input")) < 1e-5
    agent = TorchAgent(loaded(Nature()), (44, 44, 4), gradient_batch_size=16)
    before = gradients(agent, "network.1")
    with agent.other_parameters({"network.2.weight": agent.parameters()["network.2.weight"] * 2}):
        after = gradients(agent, "network.1")
    assert difference(after) < 1e-5
    assert difference([before[1], after[1]]) > 0.1


def test_the_linear_prefix_is_computed_once_for_all_path_points(monkeypatch: pytest.MonkeyPatch) -> None:
    """And neither the site nor what is before it, where only the rest is needed."""
    agent = TorchAgent(loaded(Nature()), (44, 44, 4), gradient_batch_size=16)
    counts = dict[str, int]()
    observations = np.random.default_rng(0).integers(0, 256, (16, 44, 44, 4), np.uint8)
    rule: dict[str, Any] = {"steps": 8, "quadrature": "riemann", "baseline": "zero-layer"}
    expected = attribute(agent, observations, "network.0", linear_prefix=False, **rule)
    attribute(agent, observations, "network.0", **rule)
    for name in ("0", "2", "4"):
        part = agent.module.network.get_submodule(name)
        monkeypatch.setattr(part, "_conv_forward", counting(part._conv_forward, name, counts))
    once = attribute(agent, observations, "network.0", **rule)
    assert np.abs(once.values - expected.values).max() < 1e-5 * np.abs(expected.values).max()
    assert counts == {"0": 1, "2": 3, "4": 10}  # "2" at both ends, and for its gradient


def counting(function: Any, name: str, counts: dict[str, int]) -> Any:
    def run(*arguments: Any) -> Any:
        counts[name] = counts.get(name, 0) + 1
        return function(*arguments)

    return run


def test_a_stable_baselines3_policy_has_the_expected_linear_prefix() -> None:
    policies = pytest.importorskip("stable_baselines3.common.policies")
    spaces = pytest.importorskip("gymnasium.spaces")
    torch.manual_seed(0)
    images = spaces.Box(0, 255, (4, 44, 44), np.uint8)
    policy = policies.ActorCriticCnnPolicy(images, spaces.Discrete(4), lambda _: 1e-3)

    def forward(policy: Any, x: Any, _: Any) -> Any:
        return policy.get_distribution(x).distribution.logits, policy.predict_values(x)

    agent = TorchAgent(policy, (44, 44, 4), forward=forward, input_divisor=1, gradient_batch_size=16)
    prefix = "features_extractor.cnn"
    assert ends(agent, f"{prefix}.1") == (f"{prefix}.2", f"{prefix}.2")
    assert ends(agent, f"{prefix}.3") == (f"{prefix}.4", f"{prefix}.4")
    assert difference(gradients(agent, f"{prefix}.1")) < 1e-5
