"""What a PyTorch module may return: heads by name, place and width, probabilities, states."""

from __future__ import annotations

from collections import namedtuple

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from rl_clarity.agents.torch_agent import TorchAgent  # noqa: E402
from rl_clarity.errors import OptionError  # noqa: E402
from tests.agents.torch_modules import SHAPE, Nature, Recurrent, loaded, pictures  # noqa: E402

pytestmark = pytest.mark.usefixtures("single_thread")

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
def test_outputs_of_any_arrangement(arrange):
    class Net(Nature):
        def forward(self, x):
            return arrange(*super().forward(x))

    found, wanted = (TorchAgent(loaded(kind()), SHAPE).forward(pictures()) for kind in (Net, Nature))
    assert np.allclose(found.values, wanted.values)
    shift = found.policy_logits - wanted.policy_logits  # a distribution has normalised its logits
    assert np.allclose(shift, shift[:, :1], atol=1e-5)


@pytest.mark.parametrize(
    ("result", "options", "words"),
    [
        (lambda x: (x.mean((1, 2, 3)), x.mean((1, 2, 3))), {}, "heads="),
        (lambda x: x, {}, r"shape \(2, 4, 44, 44\)"),
        (lambda x: x.mean((2, 3)), {"heads": ("policy_logits", "values")}, "2 entries; the network has 1 outputs"),
        (lambda x: x.mean((2, 3)), {"initial_state": np.zeros(3)}, "state last"),
        (lambda x: {"q": x.mean((2, 3))}, {"initial_state": np.zeros(3)}, "'q'"),
    ],
)
def test_what_is_no_agent_is_told_what_is_needed(result, options, words):
    class Net(nn.Module):
        def forward(self, x, *_):
            return result(x)

    with pytest.raises(OptionError, match=words):
        TorchAgent(Net(), SHAPE, **options)


class Softmax(Nature):
    def forward(self, x):
        logits, value = super().forward(x)
        return logits.softmax(-1), value


@pytest.mark.parametrize("how", [lambda m: m, nn.Module.half])
def test_probabilities_are_no_logits(how):
    with pytest.raises(OptionError, match=r"is probabilities \(not negative, with a sum of 1\).*returns the logits"):
        TorchAgent(how(loaded(Softmax())), SHAPE)


def test_probabilities_alone():
    class Alone(Nature):
        def forward(self, x):
            return super().forward(x)[0].softmax(-1)

    with pytest.raises(OptionError, match="is probabilities"):
        TorchAgent(loaded(Alone()), SHAPE)


def test_outputs_called_probabilities():
    class Named(Nature):
        def forward(self, x):
            logits, value = super().forward(x)
            return {"action_probs": logits, "value": value}

    with pytest.raises(OptionError, match=r"'action_probs' is probabilities \(by its name\)"):
        TorchAgent(Named(), SHAPE)


def test_a_value_has_one_column():
    class Wide(Nature):
        def forward(self, x):
            logits, value = super().forward(x)
            return {"policy_logits": logits, "values": value.expand(-1, 6)}

    for heads in (None, ("policy_logits", "values")):
        with pytest.raises(OptionError, match="the output for the value has 6 columns; it must have one"):
            TorchAgent(Wide(), SHAPE, heads=heads)


def test_outputs_that_are_left_out():
    class Four(Nature):
        def forward(self, x):
            logits, value = super().forward(x)
            return logits, logits[..., None, None], value, {"loss": 3.0}

    with pytest.raises(OptionError, match=r"\(2, 4, 1, 1\).*None.*leaves an output out"):
        TorchAgent(loaded(Four()), SHAPE)
    agent = TorchAgent(loaded(Four()), SHAPE, heads=("policy_logits", None, "values", None))
    wanted = TorchAgent(loaded(Nature()), SHAPE).forward(pictures())
    assert np.array_equal(agent.forward(pictures()).policy_logits, wanted.policy_logits)
    assert np.array_equal(agent.forward(pictures()).values, wanted.values)
    assert agent.gradients(pictures(), "network.1", ["value", 1]).shape == (2, 3, 10, 10, 32)


def test_a_state_that_is_not_said_to_be_one():
    def forward(module, x, _):
        return module(x, torch.zeros(len(x), 8))

    with pytest.raises(OptionError, match=r"unnamed of width 8.*a recurrent module's state, pass initial_state"):
        TorchAgent(Recurrent(), SHAPE, forward=forward)


def test_a_state_that_comes_back_in_another_shape():
    def forward(module, x, state):
        logits, value, after = module(x, state)
        return logits, value, after[None]

    with pytest.raises(OptionError, match=r"\(8,\).*before a step.*\(2, 8\).*after it"):
        TorchAgent(Recurrent(), SHAPE, initial_state=np.zeros(8), forward=forward)
