"""Outputs of PyTorch modules: heads by name, position and width; probabilities; states."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from rl_clarity.agents import torch_agent  # noqa: E402
from rl_clarity.base.errors import OptionError  # noqa: E402
from tests.agents.torch_modules import SHAPE, Color, Nature, Recurrent, loaded, random_observations  # noqa: E402

pytestmark = pytest.mark.usefixtures("single_thread")

TorchAgent: Any = torch_agent.TorchAgent
"""Not typed, because the network decides which outputs are None."""

Named = namedtuple("Named", "value policy")


@pytest.mark.parametrize(
    "arrange",
    [
        lambda logits, value: (value, logits),
        lambda logits, value: {"value": value[:, 0], "policy_logits": logits},
        lambda logits, value: Named(value, logits),
        lambda logits, value: (torch.distributions.Categorical(logits=logits), value[:, 0]),
    ],
)
def test_module_outputs_may_be_tuples_dicts_or_distributions(arrange: Callable[[Any, Any], Any]) -> None:
    class Net(Nature):
        def forward(self, x: Any) -> Any:
            return arrange(*super().forward(x))

    actual, expected = (TorchAgent(loaded(kind()), SHAPE).forward(random_observations()) for kind in (Net, Nature))
    assert np.allclose(actual.values, expected.values)
    shift = actual.policy_logits - expected.policy_logits  # a distribution normalizes its logits
    assert np.allclose(shift, shift[:, :1], atol=1e-5)


@pytest.mark.parametrize(
    ("result", "options", "words"),
    [
        (lambda x: (x.mean((1, 2, 3)), x.mean((1, 2, 3))), {}, "heads="),
        (lambda x: x, {}, r"shape \(2, 4, 44, 44\)"),
        (lambda x: x.mean((2, 3)), {"heads": ("policy_logits", "values")}, "2 entries, but the network has 1 outputs"),
        (lambda x: x.mean((2, 3)), {"initial_state": np.zeros(3)}, "state last"),
        (lambda x: {"q": x.mean((2, 3))}, {"initial_state": np.zeros(3)}, "'q'"),
    ],
)
def test_errors_for_unusable_outputs_explain_the_fix(
    result: Callable[[Any], Any], options: dict[str, Any], words: str
) -> None:
    class Net(nn.Module):
        def forward(self, x: Any, *_: Any) -> Any:
            return result(x)

    with pytest.raises(OptionError, match=words):
        TorchAgent(Net(), SHAPE, **options)


class Softmax(Nature):
    def forward(self, x: Any) -> Any:
        logits, value = super().forward(x)
        return logits.softmax(-1), value


@pytest.mark.parametrize("convert", [lambda m: m, nn.Module.half])
def test_action_probabilities_instead_of_logits_are_rejected(convert: Callable[[Any], Any]) -> None:
    with pytest.raises(OptionError, match=r"\(they are not negative, and sum to 1\).*returns the logits"):
        TorchAgent(convert(loaded(Softmax())), SHAPE)


def test_action_probabilities_without_a_value_output_are_rejected() -> None:
    class Alone(Nature):
        def forward(self, x: Any) -> Any:
            return super().forward(x)[0].softmax(-1)

    with pytest.raises(OptionError, match="contains probabilities"):
        TorchAgent(loaded(Alone()), SHAPE, heads=("policy_logits",))


def test_a_module_with_a_single_output_is_refused_without_heads() -> None:
    class Alone(Nature):
        def forward(self, x: Any) -> Any:
            return super().forward(x)[0]

    module = loaded(Alone())
    choices = (
        r"unnamed of width \d+;.*heads=\('q_values',\) for action values.*heads=\('policy_logits',\) for the logits"
    )
    with pytest.raises(OptionError, match=choices):
        TorchAgent(module, SHAPE)
    agent = TorchAgent(module, SHAPE, heads=("policy_logits",))
    outputs = agent.forward(random_observations())
    assert np.array_equal(
        outputs.policy_logits, TorchAgent(loaded(Nature()), SHAPE).forward(random_observations()).policy_logits
    )
    assert (outputs.values, outputs.q_values) == (None, None)
    (tail,) = agent.tails(random_observations(), "network.1", ["greedy"])
    assert np.allclose(tail.scores()[0], outputs.policy_logits.max(1), atol=1e-5)
    with pytest.raises(OptionError, match="unknown output 'value'; outputs of this agent are 'greedy'"):
        agent.gradients(random_observations(), "network.1", ["value"])


def test_outputs_named_probabilities_are_rejected() -> None:
    class Named(Nature):
        def forward(self, x: Any) -> Any:
            logits, value = super().forward(x)
            return {"action_probs": logits, "value": value}

    with pytest.raises(OptionError, match=r"'action_probs' contains probabilities \(according to its name\)"):
        TorchAgent(Named(), SHAPE)


def test_the_value_output_must_have_one_column() -> None:
    class Wide(Nature):
        def forward(self, x: Any) -> Any:
            logits, value = super().forward(x)
            return {"policy_logits": logits, "values": value.expand(-1, 6)}

    for heads in (None, ("policy_logits", "values")):
        with pytest.raises(OptionError, match="the output for the value has 6 columns; it must have one"):
            TorchAgent(Wide(), SHAPE, heads=heads)


def test_outputs_marked_none_in_heads_are_ignored() -> None:
    class Four(Nature):
        def forward(self, x: Any) -> Any:
            logits, value = super().forward(x)
            return logits, logits[..., None, None], value, {"loss": 3.0}

    with pytest.raises(OptionError, match=r"\(2, 4, 1, 1\).*None.*to ignore an output"):
        TorchAgent(loaded(Four()), SHAPE)
    agent = TorchAgent(loaded(Four()), SHAPE, heads=("policy_logits", None, "values", None))
    expected = TorchAgent(loaded(Nature()), SHAPE).forward(random_observations())
    assert np.array_equal(agent.forward(random_observations()).policy_logits, expected.policy_logits)
    assert np.array_equal(agent.forward(random_observations()).values, expected.values)
    assert agent.gradients(random_observations(), "network.1", ["value", 1]).shape == (2, 3, 10, 10, 32)


def test_recurrent_modules_need_an_initial_state() -> None:
    def forward(module: Any, x: Any, _: Any) -> Any:
        return module(x, torch.zeros(len(x), 8))

    with pytest.raises(OptionError, match=r"unnamed of width 8.*the state of a recurrent module, pass initial_state"):
        TorchAgent(Recurrent(), SHAPE, forward=forward)


def test_recurrent_states_must_keep_their_shape_after_a_step() -> None:
    def forward(module: Any, x: Any, state: Any) -> Any:
        logits, value, after = module(x, state)
        return logits, value, after[None]

    with pytest.raises(OptionError, match=r"\(8,\).*before a step.*\(2, 8\).*after it"):
        TorchAgent(Recurrent(), SHAPE, initial_state=np.zeros(8), forward=forward)


class DividesItself(Color):
    """As the networks of CleanRL's scripts."""

    def forward(self, x: Any) -> Any:
        return super().forward(x / 255.0)


class Centers(Color):
    """Expects observations from 0 to 1."""

    def forward(self, x: Any) -> Any:
        return super().forward(2 * x - 1)


def test_modules_that_divide_their_input_by_255_need_input_divisor() -> None:
    """Otherwise observations would be divided twice."""
    with pytest.raises(OptionError, match=r"by 0\.00392 before its first layer with weights.*input_divisor=1 if"):
        TorchAgent(DividesItself(), (64, 64, 3))
    for divisor in (1, 255):
        TorchAgent(DividesItself(), (64, 64, 3), input_divisor=divisor)
    for module in (Color(), Centers()):
        assert TorchAgent(module, (64, 64, 3)).forward(np.zeros((1, 64, 64, 3), np.uint8)).values.shape == (1,)
