"""Networks whose explanations would be wrong without an error are refused, or warned of."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from rl_clarity import TorchAgent  # noqa: E402
from rl_clarity.base.errors import OptionError  # noqa: E402
from tests.agents.torch_modules import SHAPE, Nature, Recurrent, Residual, Towers, loaded  # noqa: E402

pytestmark = pytest.mark.usefixtures("single_thread")


def changed(change: Any) -> Nature:
    """A network whose logits are changed."""

    class Net(Nature):
        def forward(self, x: Any) -> Any:
            logits, value = super().forward(x)
            return change(logits), value

    return loaded(Net())


class DetachedValue(Nature):
    def forward(self, x: Any) -> Any:
        x = self.network(x)
        return self.actor(x), self.critic(x.detach())


class BatchStatistics(Nature):
    def forward(self, x: Any) -> Any:
        x = self.network(x)
        x = nn.functional.batch_norm(x, None, None, training=True)
        return self.actor(x), self.critic(x)


class Dropout(Nature):
    def forward(self, x: Any) -> Any:
        x = nn.functional.dropout(self.network(x), 0.1, training=True)
        return self.actor(x), self.critic(x)


@pytest.mark.parametrize(
    ("module", "words"),
    [
        (lambda: loaded(DetachedValue()), r"values change.*their gradient is 0.*detach"),
        (lambda: changed(lambda x: x.detach()), "policy_logits change.*their gradient is 0"),
        (lambda: changed(lambda x: torch.round(x, decimals=1)), r"policy_logits .* gradient is 0.*rounded"),
        (lambda: changed(lambda x: x - x.mean(0)), r"policy_logits for an observation .* rest of its batch"),
        (lambda: loaded(BatchStatistics()), "rest of its batch.*running statistics"),
        (lambda: loaded(Dropout()), r"are random.*training=self\.training"),
        (lambda: changed(lambda x: x + 0.05 * torch.randn_like(x)), "policy_logits .* are random"),
    ],
)
def test_networks_that_cannot_be_explained_are_refused(module: Any, words: str) -> None:
    with pytest.raises(OptionError, match=f"{words}.*check=False"):
        TorchAgent(module(), SHAPE)
    TorchAgent(module(), SHAPE, check=False)


def test_gradients_that_contradict_finite_changes_cause_a_warning() -> None:
    class Half(Nature):
        def forward(self, x: Any) -> Any:
            x = self.network(x)
            return self.actor(0.3 * x + 0.7 * x.detach()), self.critic(x)

    with pytest.warns(UserWarning, match=r"policy_logits change by .* gradients predict .*attribution may be wrong"):
        TorchAgent(loaded(Half()), SHAPE)


def test_outputs_that_do_not_depend_on_observations_cause_a_warning() -> None:
    module = loaded(Nature())
    module.critic.weight.data.zero_()
    with pytest.warns(UserWarning, match="values are the same for 4 images"):
        TorchAgent(module, SHAPE)


def test_layers_that_no_output_head_depends_on_cause_a_warning() -> None:
    with (
        pytest.warns(UserWarning, match="policy_logits do not depend on the layers relu_1, so "),
        pytest.warns(UserWarning, match="values do not depend on the layers relu, so "),
    ):
        TorchAgent(Towers(), SHAPE)

    class OtherInputs(Nature):
        def forward(self, x: Any) -> Any:
            return self.actor(self.network(x)), self.critic(self.network(1 - x))

    with pytest.warns(UserWarning, match=r"policy_logits do not depend on the layers network\.1_1, network\.3_1"):
        TorchAgent(loaded(OtherInputs()), SHAPE)


class Deep(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(4, 8, 5, 2), nn.MaxPool2d(3, 2), Residual8(), Residual8(), nn.ReLU(), nn.Flatten()
        )
        self.q = nn.Linear(648, 5)

    def forward(self, x: Any) -> Any:
        return self.q(self.body(x))


class Residual8(Residual):
    def __init__(self) -> None:
        super().__init__()
        self.conv0, self.conv1 = nn.Conv2d(8, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("convert", ["float", "double", "half"])
def test_ordinary_networks_cause_no_warnings(convert: str, seed: int) -> None:
    torch.manual_seed(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        TorchAgent(getattr(Nature(), convert)(), SHAPE)
        TorchAgent(getattr(Deep(), convert)(), SHAPE, heads=("q_values",))
        TorchAgent(getattr(Recurrent(), convert)(), SHAPE, initial_state=torch.zeros(8))
