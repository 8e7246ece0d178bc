"""Compare integrated gradients of PyTorch networks with Captum's LayerIntegratedGradients: deviation and time.

Quadrature rule, steps and baseline (an image of zeros, as in Captum) are the same, and calls of both alternate in one
process. The rule is Gauss-Legendre, because Captum rounds the points of its Riemann and midpoint rules to float32.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from benchmarks.parts import SkippedError
from rl_clarity import TorchAgent
from rl_clarity.analyses.attribution import attribute

STEPS = 5
FRAMES = (8, 32)
REPEATS = 5
IMPALA = ("body.2.relu0", "body.3", "body.6.relu0", "body.7", "body.10.relu0", "body.11", "body.12")
NETWORKS = {
    "NatureCNN": ((84, 84, 4), ("network.1", "network.3", "network.5")),
    "IMPALA": ((64, 64, 3), IMPALA),
}


def measure(frames: Sequence[int] = FRAMES, repeats: int = REPEATS) -> dict[str, Any]:
    """Return, for each network and layer, the largest deviation, relative to the largest attribution, and the ratio of
    processor times for each number of frames and of threads.
    """
    try:
        import torch
        from captum.attr import LayerIntegratedGradients
    except ImportError as error:
        raise SkippedError(f"{error.name} is not installed: pip install torch captum") from error
    results: dict[str, Any] = {}
    for name, (shape, layers) in NETWORKS.items():
        torch.manual_seed(0)
        module = _networks()[name]().eval()
        agent = TorchAgent(module, shape)
        observations = np.random.default_rng(0).integers(0, 256, (max(frames), *shape), np.uint8)
        x = torch.from_numpy(observations).permute(0, 3, 1, 2).contiguous().float() / 255
        for layer in layers:
            method = LayerIntegratedGradients(partial(_value, module), module.get_submodule(layer))
            expected = captum_attribution(method, x)
            deviation = np.abs(attribution(agent, observations, layer) - expected).max() / np.abs(expected).max()
            result = results[f"{name} {layer}"] = {"deviation": float(deviation)}
            for count, threads in itertools.product(frames, dict.fromkeys([1, torch.get_num_threads()])):
                ours = partial(attribution, agent, observations[:count], layer)
                with _threads(threads):
                    result[f"{count} frames, threads: {threads}"] = _ratio(
                        ours, partial(captum_attribution, method, x[:count]), repeats
                    )
    return results


def attribution(agent: Any, observations: np.ndarray, layer: str) -> np.ndarray:
    """Return the attribution (B, h, w, c) of the value, with Captum's rule and baseline."""
    rule = "gauss-legendre"
    result = attribute(agent, observations, layer, ["value"], steps=STEPS, quadrature=rule, baseline="zero-input")
    return result.values[0]


def captum_attribution(method: Any, x: Any) -> np.ndarray:
    result = method.attribute(x, n_steps=STEPS, method="gausslegendre")
    result = result[0] if isinstance(result, tuple) else result
    return result.permute(0, 2, 3, 1).detach().numpy()


def _value(module: Any, x: Any) -> Any:
    return module(x)[1][:, 0]


def lines(results: dict[str, Any]) -> list[str]:
    columns = list(next(iter(results.values())))
    rows = [f"{'':24}" + "".join(f"{title:>24}" for title in columns)]
    for name, result in results.items():
        numbers = [f"{result[c]:.1e}" if c == "deviation" else f"x {result[c]:.2f}" for c in columns]
        rows.append(f"{name:24}" + "".join(f"{number:>24}" for number in numbers))
    return [*rows, f"{STEPS} points; processor time relative to Captum's"]


def _ratio(work: Callable[[], Any], reference: Callable[[], Any], repeats: int) -> float:
    """Return the ratio of the fastest processor times of two functions, which are called in turn."""
    times: dict[Callable[[], Any], list[float]] = {work: [], reference: []}
    for _ in range(repeats):
        for function, seconds in times.items():
            start = time.process_time()
            function()
            seconds.append(time.process_time() - start)
    return min(times[work]) / min(times[reference])


@contextmanager
def _threads(count: int) -> Any:
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _networks() -> dict[str, Callable[[], Any]]:
    import torch
    from torch import nn

    class ActorCritic(nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            x = self.trunk(x)
            return self.actor(x), self.critic(x)

    class Nature(ActorCritic):
        def __init__(self) -> None:
            super().__init__()
            convolutions = [nn.Conv2d(4, 32, 8, 4), nn.Conv2d(32, 64, 4, 2), nn.Conv2d(64, 64, 3)]
            parts = [part for convolution in convolutions for part in (convolution, nn.ReLU())]
            self.network = nn.Sequential(*parts, nn.Flatten(), nn.Linear(3136, 512), nn.ReLU())
            self.actor, self.critic = nn.Linear(512, 6), nn.Linear(512, 1)

        def trunk(self, x: torch.Tensor) -> torch.Tensor:
            return self.network(x)

    class Block(nn.Module):
        def __init__(self, channels: int) -> None:
            super().__init__()
            self.relu0, self.relu1 = nn.ReLU(), nn.ReLU()
            self.conv0, self.conv1 = (nn.Conv2d(channels, channels, 3, padding=1) for _ in range(2))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + self.conv1(self.relu1(self.conv0(self.relu0(x))))

    class Impala(ActorCritic):
        def __init__(self) -> None:
            super().__init__()
            parts: list[Any] = []
            for before, after in ((3, 16), (16, 32), (32, 32)):
                parts += [nn.Conv2d(before, after, 3, padding=1), nn.MaxPool2d(3, 2, 1), Block(after), Block(after)]
            self.body = nn.Sequential(*parts, nn.ReLU(), nn.Flatten(), nn.Linear(2048, 256), nn.ReLU())
            self.actor, self.critic = nn.Linear(256, 15), nn.Linear(256, 1)

        def trunk(self, x: torch.Tensor) -> torch.Tensor:
            return self.body(x)

    return {"NatureCNN": Nature, "IMPALA": Impala}
