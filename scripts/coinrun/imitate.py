"""Train the network to act as the searcher does, and its value on its own episodes."""

from __future__ import annotations

import io
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from rl_clarity.base.files import write_atomically
from rl_clarity.base.resources import models_directory
from scripts.coinrun.data import NO_ACTION, NO_END, Frames
from scripts.coinrun.network import Clear, first_network
from scripts.coinrun.search import ACTIONS

FIRST = models_directory() / "coinrun.jd"
"""The agent with which training begins: PPO trained it for 3.3 hours, and it completes 80 % of the levels."""
BATCH = 128
ROUND = 200
"""Batches between two saved states."""
LEARNING_RATE, DECAY_BATCHES = 7e-4, 12_000
"""Learning rate at first, and the batches after which it is halved; it decays as 1 / (1 + batches / DECAY_BATCHES)."""
AVERAGE = 0.998
"""Decay of the averaged parameters, which play."""
VALUE_COEFFICIENT, GAIN_COEFFICIENT = 1.0, 0.3
"""Coefficients of the value's loss, and of the searcher's value of the policy's actions."""
LARGEST_LOSS = 20.0
"""Values are at most this much below that of the best action. A death in all repetitions costs twice as much."""
DISCOUNT = 0.98
"""Discount of the value. Episodes take about 40 steps."""


class Imitation:
    """A network in training, whose state is saved after each round."""

    def __init__(self, folder: Path, seed: int = 0) -> None:
        self.folder = folder
        self.network, self.average = first_network(FIRST), Clear()
        self.average.load_state_dict(self.network.state_dict())
        self.optimizer = torch.optim.Adam(self.network.parameters(), LEARNING_RATE, eps=1e-5)
        self.batches, self.cpu_seconds = 0, 0.0
        if self.state.exists():
            saved = torch.load(self.state, weights_only=True)
            self.network.load_state_dict(saved["network"])
            self.average.load_state_dict(saved["average"])
            self.optimizer.load_state_dict(saved["optimizer"])
            self.batches, self.cpu_seconds = saved["batches"], saved["cpu_seconds"]
        self.rng = np.random.default_rng([seed, self.batches])

    @property
    def state(self) -> Path:
        return self.folder / "imitation.pt"

    def train(self, frames: Frames, batches: int = ROUND) -> dict[str, float]:
        """Take optimizer steps. Return means of the losses and of the agreement with the searcher."""
        start, sums = time.process_time(), np.zeros(4)
        for _ in range(batches):
            rate = LEARNING_RATE / (1 + self.batches / DECAY_BATCHES) * min(1.0, (self.batches + 1) / 200)
            for group in self.optimizer.param_groups:
                group["lr"] = rate
            sums += self._step(frames.sample(self.rng, BATCH))
            self.batches += 1
        self.cpu_seconds += time.process_time() - start
        policy, agreement, value, labeled = sums / batches
        return {
            "policy_loss": policy / labeled,
            "agreement": agreement / labeled,
            "value_loss": value / max(1 - labeled, 1e-6),
        }

    def _step(self, rows: dict[str, np.ndarray]) -> np.ndarray:
        labeled = torch.from_numpy(rows["actions"] != NO_ACTION)
        valued = torch.from_numpy(rows["remaining"] != NO_END)
        actions = torch.from_numpy(np.where(rows["actions"] == NO_ACTION, 0, rows["actions"]).astype(np.int64))
        returns = torch.from_numpy((rows["won"] * DISCOUNT ** rows["remaining"].astype(float)).astype(np.float32))
        with torch.autocast("cpu", torch.bfloat16):
            logits, values = self.network(torch.from_numpy(rows["frames"]))
        policy = (functional.cross_entropy(logits, actions, reduction="none") * labeled).mean()
        gain = self.mean_values(logits, torch.from_numpy(rows["values"].astype(np.float32)), labeled)
        value = ((values - returns).square() * valued).mean()
        self.optimizer.zero_grad(set_to_none=True)
        (policy - GAIN_COEFFICIENT * gain + VALUE_COEFFICIENT * value).backward()
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        self.optimizer.step()
        with torch.no_grad():
            weight = max(1 - AVERAGE, 1 / (self.batches + 1))
            for mean, parameter in zip(self.average.parameters(), self.network.parameters(), strict=True):
                mean.lerp_(parameter, weight)
        agreement = ((logits.argmax(1) == actions) & labeled).float().mean()
        return np.array([part.item() for part in (policy, agreement, value, labeled.float().mean())])

    def mean_values(self, logits: torch.Tensor, values: torch.Tensor, labeled: torch.Tensor) -> torch.Tensor:
        """Return the mean over states of the expected value of the policy's action, relative to the best action.

        The searcher's values are noisy: where many actions survive or few do, two searches choose the same one in less
        than half of the states. Since the expectation is linear in the values, noise averages out.
        """
        searched = labeled & ~values.isnan().any(1)
        relative = (values - values.amax(1, keepdim=True)).nan_to_num().clamp(min=-LARGEST_LOSS)
        policy = torch.softmax(logits, 1)[:, torch.from_numpy(ACTIONS)]
        expected = (policy * relative).sum(1) - (1 - policy.sum(1)) * LARGEST_LOSS  # others are never useful
        return (expected * searched).mean()

    def save(self) -> None:
        """Write the state, and the averaged network for those who play with it."""
        content = io.BytesIO()
        saved = {
            "network": self.network.state_dict(),
            "average": self.average.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "batches": self.batches,
            "cpu_seconds": self.cpu_seconds,
        }
        torch.save(saved, content)
        write_atomically(self.state, content.getvalue())
        arrays = io.BytesIO()
        parameters: dict[str, Any] = self.average.parameters_by_name()
        np.savez(arrays, **parameters)
        write_atomically(self.folder / "network.npz", arrays.getvalue())
