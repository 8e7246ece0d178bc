"""Networks of CleanRL's other scripts, in PyTorch and under the scripts' names of tensors, are read exactly."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rl_clarity
from rl_clarity import formats

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

SIDE = 36
"""Of which the convolutions leave one position."""
ACTIONS, ATOMS = 3, 5


def convolutions() -> list[Any]:
    return [nn.Conv2d(4, 8, 8, 4), nn.ReLU(), nn.Conv2d(8, 8, 4, 2), nn.ReLU(), nn.Conv2d(8, 8, 3)]


class Noisy(nn.Module):
    """A dense layer with the tensors of a noisy one; the noise is large, so that reading it would be seen."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        for name, shape in (("weight", (outputs, inputs)), ("bias", (outputs,))):
            setattr(self, f"{name}_mu", nn.Parameter(torch.randn(shape) / inputs**0.5))
            setattr(self, f"{name}_sigma", nn.Parameter(torch.full(shape, 9.0)))
            self.register_buffer(f"{name}_epsilon", torch.randn(shape))

    def forward(self, x: Any) -> Any:
        return functional.linear(x, self.weight_mu, self.bias_mu)


class Residual(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv0, self.conv1 = (nn.Conv2d(channels, channels, 3, padding=1) for _ in range(2))

    def forward(self, x: Any) -> Any:
        return x + self.conv1(self.conv0(x.relu()).relu())


class Block(nn.Module):
    def __init__(self, before: int, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(before, channels, 3, padding=1)
        self.res_block0, self.res_block1 = Residual(channels), Residual(channels)

    def forward(self, x: Any) -> Any:
        return self.res_block1(self.res_block0(functional.max_pool2d(self.conv(x), 3, 2, 1)))


def impala(channels: int, side: int, *rest: Any) -> Any:
    flat = 6 * ((side + 7) // 8) ** 2
    dense = (nn.Flatten(), nn.ReLU(), nn.Linear(flat, 12), nn.ReLU())
    return nn.Sequential(Block(channels, 4), Block(4, 6), Block(6, 6), *dense, *rest)


class Flat(nn.Module):
    """Nature's body with dense layers at their places in the scripts' `network`."""

    def __init__(self, *sizes: int, last: int | None = None) -> None:
        super().__init__()
        rest: list[Any] = [nn.ReLU(), nn.Flatten()]
        for before, after in zip((8, *sizes), sizes, strict=False):
            rest += [nn.Linear(before, after), nn.ReLU()]
        rest += [nn.Linear(sizes[-1], last)] if last else []
        self.network = nn.Sequential(*convolutions(), *rest)


class C51(Flat):
    def __init__(self) -> None:
        super().__init__(12, last=ACTIONS * ATOMS)
        self.register_buffer("atoms", torch.linspace(-3, 7, ATOMS))

    def forward(self, x: Any) -> dict[str, Any]:
        probabilities = self.network(x).view(-1, ACTIONS, ATOMS).softmax(dim=2)
        return {"q_values": (probabilities * self.atoms).sum(dim=2)}


class Rainbow(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("support", torch.linspace(-10, 10, ATOMS))
        self.network = nn.Sequential(*convolutions(), nn.ReLU(), nn.Flatten())
        self.value_head = nn.Sequential(Noisy(8, 12), nn.ReLU(), Noisy(12, ATOMS))
        self.advantage_head = nn.Sequential(Noisy(8, 12), nn.ReLU(), Noisy(12, ACTIONS * ATOMS))

    def forward(self, x: Any) -> dict[str, Any]:
        hidden = self.network(x)
        advantage = self.advantage_head(hidden).view(-1, ACTIONS, ATOMS)
        outputs = self.value_head(hidden)[:, None] + advantage - advantage.mean(dim=1, keepdim=True)
        return {"q_values": (outputs.softmax(dim=2) * self.support).sum(dim=2)}


class Novelty(Flat):
    def __init__(self) -> None:
        super().__init__(10, 12)
        self.extra_layer = nn.Sequential(nn.Linear(12, 12), nn.ReLU())
        self.actor = nn.Sequential(nn.Linear(12, 12), nn.ReLU(), nn.Linear(12, ACTIONS))
        self.critic_ext, self.critic_int = nn.Linear(12, 1), nn.Linear(12, 1)

    def forward(self, x: Any) -> dict[str, Any]:
        hidden = self.network(x)
        values = self.critic_ext(self.extra_layer(hidden) + hidden)
        return {"policy_logits": self.actor(hidden), "values": values[:, 0]}


class Auxiliary(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.network = impala(3, 64)
        self.actor, self.critic, self.aux_critic = nn.Linear(12, 15), nn.Linear(12, 1), nn.Linear(12, 1)

    def forward(self, x: Any) -> dict[str, Any]:
        hidden = self.network(x)
        return {"policy_logits": self.actor(hidden), "values": self.critic(hidden)[:, 0]}


class Student(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.network = impala(4, 84, nn.Linear(12, ACTIONS))

    def forward(self, x: Any) -> dict[str, Any]:
        return {"q_values": self.network(x)}


class Soft(nn.Module):
    def __init__(self, head: str) -> None:
        super().__init__()
        self.conv = nn.Sequential(*convolutions(), nn.Flatten())
        self.fc1 = nn.Linear(8, 12)
        self.add_module(head, nn.Linear(12, ACTIONS))
        self.head = head

    def forward(self, x: Any) -> dict[str, Any]:
        hidden = self.fc1(self.conv(x).relu()).relu()
        return {"policy_logits" if self.head == "fc_logits" else "q_values": getattr(self, self.head)(hidden)}


SCRIPTS: dict[str, tuple[Callable[[], Any], str, int]] = {
    "c51": (C51, "c51_atari", SIDE),
    "rainbow": (Rainbow, "rainbow_atari", SIDE),
    "rnd": (Novelty, "ppo_rnd_envpool", SIDE),
    "ppg": (Auxiliary, "ppg_procgen", 64),
    "qdagger": (Student, "qdagger_dqn_atari_impalacnn", 84),
    "sac actor": (lambda: Soft("fc_logits"), "sac_atari", SIDE),
    "sac critic": (lambda: Soft("fc_q"), "sac_atari", SIDE),
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_agents_from_cleanrl_state_dicts_compute_the_scripts_outputs(tmp_path: Path, name: str) -> None:
    make, network, side = SCRIPTS[name]
    torch.manual_seed(0)
    module, path = make(), tmp_path / "agent.cleanrl_model"
    content = {"model_weights": module.state_dict(), "args": {"seed": 1}} if name == "c51" else module.state_dict()
    torch.save(content, path)
    checkpoint = formats.read(path, observation_shape=(side, side, 3 if name == "ppg" else 4))
    assert checkpoint.network == network
    agent: Any = formats.build_agent(checkpoint)
    observations = np.random.default_rng(0).integers(0, 256, (4, *agent.observation_shape), np.uint8)
    with torch.no_grad():
        expected = module(torch.from_numpy(observations).permute(0, 3, 1, 2) / 255)
    outputs = agent.forward(observations)
    for head in ("policy_logits", "values", "q_values"):
        actual = getattr(outputs, head)
        assert (actual is None) == (head not in expected)
        if actual is not None:
            assert np.allclose(actual, expected[head], rtol=1e-5, atol=1e-5)
    assert agent.layers


def test_a_c51_agent_can_be_attributed_and_converted(tmp_path: Path) -> None:
    torch.manual_seed(0)
    torch.save(C51().state_dict(), tmp_path / "agent.pt")
    options: dict[str, Any] = {"observation_shape": (SIDE, SIDE, 4)}
    rl_clarity.convert(tmp_path / "agent.pt", tmp_path / "agent.safetensors", **options)
    agent: Any = formats.load_agent(tmp_path / "agent.safetensors")
    observations = np.random.default_rng(0).integers(0, 256, (3, SIDE, SIDE, 4), np.uint8)
    original: Any = formats.load_agent(tmp_path / "agent.pt", **options)
    assert np.array_equal(agent.forward(observations).q_values, original.forward(observations).q_values)
    layer = next(iter(agent.layers))
    attribution = rl_clarity.integrated_gradients(agent, observations, layer, "greedy", steps=4)
    assert np.abs(attribution).sum() > 0
