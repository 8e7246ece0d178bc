"""The network `clear` in PyTorch, where it trains faster on a CPU. It has the parameters of a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from rl_clarity.formats.architectures import CLEAR_CONVOLUTIONS, CLEAR_DENSE, SCOPE

NUM_ACTIONS = 15
METADATA: dict[str, Any] = {"env_kind": "procgen", "env_name": "coinrun", "cnn": "clear", "library": "baselines"}
METADATA |= {"distribution_mode": "easy", "paint_vel_info": True, "observation_shape": [64, 64, 3]}
BFLOAT16 = torch.cpu.get_capabilities().get("amx_bf16", False)
"""Whether the processor multiplies matrices in bfloat16."""


class Clear(nn.Module):  # type: ignore[misc]
    """The network `clear` with the heads of policy (B, 15) and value (B,), from uint8 observations (B, 64, 64, 3)."""

    def __init__(self) -> None:
        super().__init__()
        channels, self._tensors = 3, dict[str, nn.Parameter]()
        self.convolutions, self.dense = nn.ModuleList(), nn.ModuleList()
        for name, filters, size, _ in CLEAR_CONVOLUTIONS:
            layer = nn.Conv2d(channels, filters, size, padding=size // 2)
            self._add(f"{SCOPE}/pi/{name}/conv2d", "kernel", "bias", layer, self.convolutions)
            channels = filters
        units = 16 * channels
        for name, size in CLEAR_DENSE:
            self._add(f"{SCOPE}/pi/{name}", "kernel", "bias", nn.Linear(units, size), self.dense)
            units = size
        self.heads = nn.ModuleList()
        self._add(f"{SCOPE}/pi", "w", "b", nn.Linear(units, NUM_ACTIONS), self.heads)
        self._add(f"{SCOPE}/vf", "w", "b", nn.Linear(units, 1), self.heads)
        self.to(memory_format=torch.channels_last)

    def forward(self, observations: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = self.features(observations)
        logits, values = (head(x) for head in self.heads)
        return logits.float(), values[:, 0].float()

    def features(self, observations: torch.Tensor) -> torch.Tensor:
        """Return the activations (B, 512) of the last hidden layer."""
        x = observations.permute(0, 3, 1, 2).float() / 255
        for layer, (_, _, _, pooled) in zip(self.convolutions, CLEAR_CONVOLUTIONS, strict=True):
            x = functional.relu(layer(x))
            if pooled:
                x = torch.sqrt(functional.avg_pool2d(x * x, 2) + 1e-8)
        x = x.permute(0, 2, 3, 1).flatten(1)
        for dense in self.dense:
            x = functional.relu(dense(x))
        return x

    def parameters_by_name(self) -> dict[str, np.ndarray]:
        """Return copies of the parameters with the names and layouts of a checkpoint."""
        return {name: _transposed(tensor.detach().numpy()).copy() for name, tensor in self._tensors.items()}

    def assign(self, parameters: Mapping[str, np.ndarray]) -> None:
        """Set the parameters from arrays as `parameters_by_name` returns them."""
        with torch.no_grad():
            for name, tensor in self._tensors.items():
                array = parameters[name]
                kernel = array.transpose(3, 2, 0, 1) if array.ndim == 4 else array.T
                tensor.copy_(torch.from_numpy(np.array(kernel, np.float32, order="C")))

    def sharpen(self, factor: float) -> None:
        """Multiply the logits of the policy by a factor."""
        policy, _ = self.heads
        with torch.no_grad():
            policy.weight.mul_(factor)
            policy.bias.mul_(factor)

    def _add(self, scope: str, kernel: str, bias: str, layer: nn.Conv2d | nn.Linear, to: nn.ModuleList) -> None:
        to.append(layer)
        self._tensors[f"{scope}/{kernel}:0"] = layer.weight
        assert layer.bias is not None
        self._tensors[f"{scope}/{bias}:0"] = layer.bias


def load(path: Path) -> Clear:
    """Return the network whose parameters are in an `.npz` file."""
    network = Clear()
    with np.load(path) as arrays:
        network.assign(arrays)
    return network


def mixed_precision() -> torch.autocast:
    """Return a context that computes in bfloat16 if the processor supports it. Other processors would emulate bfloat16,
    which is three times slower.
    """
    return torch.autocast("cpu", torch.bfloat16, enabled=BFLOAT16)


def outputs(network: Clear, observations: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the policy (B, 15) and the values (B,) of observations (B, 64, 64, 3) uint8."""
    with torch.inference_mode(), mixed_precision():
        logits, values = network(torch.from_numpy(observations))
    return torch.softmax(logits, 1).numpy(), values.numpy()


def _transposed(array: np.ndarray) -> np.ndarray:
    return array.transpose(2, 3, 1, 0) if array.ndim == 4 else array.T
