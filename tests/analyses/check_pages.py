"""A small page of sanity checks, of a network with random weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import rl_clarity
from rl_clarity.pages.results import Page

METHODS = ("perturbation", "jacobian", "integrated_gradients body.1")
SHAPE = (16, 16, 3)


def torch_agent() -> Any:
    import torch

    torch.manual_seed(0)

    class Network(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 4, stride=4), torch.nn.ReLU(), torch.nn.Flatten())
            self.policy, self.value = torch.nn.Linear(64, 3), torch.nn.Linear(64, 1)

        def forward(self, images: torch.Tensor) -> Any:
            x = self.body(images)
            return self.policy(x), self.value(x)

    return rl_clarity.TorchAgent(Network(), SHAPE)


def trajectories() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    small = rng.integers(0, 256, (2, 12, 4, 4, 3))
    observations = np.kron(small, np.ones((1, 1, 4, 4, 1))).astype(np.uint8)
    firsts = np.zeros((2, 12), bool)
    firsts[:, 0] = True
    return {
        "observations": observations,
        "actions": rng.integers(0, 3, (2, 12)),
        "rewards": np.zeros((2, 12)),
        "firsts": firsts,
    }


def write_page(directory: Path, agent: Any = None, **options: Any) -> Page:
    samples = trajectories()
    checks = {"frames": 6, "methods": METHODS, **options.pop("checks", {})}
    page: Page = rl_clarity.generate(
        agent or torch_agent(),
        samples,
        samples["observations"][0],
        directory,
        page_kind="check",
        analyses={"checks": checks},
        **options,
    )
    return page
