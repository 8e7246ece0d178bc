"""Rewards as they are learnt from: scaled, clipped, or divided by the spread of the return."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

LARGEST = 10.0
"""Normalised rewards are clipped to it, as in Baselines' VecNormalize."""
EPSILON = 1e-8


class RewardProcessor:
    """One of `none`, `clip` (the sign) and `normalize`.

    `normalize` divides by the standard deviation of the discounted return so far of every environment at every step,
    a running estimate (Chan et al.'s parallel variance), as VecNormalize of OpenAI Baselines does.
    """

    def __init__(self, kind: str, num_envs: int, gamma: float, scale: float = 1.0) -> None:
        self.kind = kind
        self.gamma = gamma
        self.scale = scale
        self.returns = np.zeros(num_envs)
        self.mean, self.variance, self.count = 0.0, 1.0, 1e-4

    def __call__(self, rewards: np.ndarray, firsts: np.ndarray) -> np.ndarray:
        """Rewards (N,) of a step that ended the episodes where `firsts` (N,)."""
        rewards = np.asarray(rewards, np.float64) * self.scale
        if self.kind == "clip":
            rewards = np.sign(rewards)
        elif self.kind == "normalize":
            self.returns = self.returns * self.gamma + rewards
            self._update(self.returns)
            rewards = np.clip(rewards / np.sqrt(self.variance + EPSILON), -LARGEST, LARGEST)
            self.returns[firsts] = 0
        return rewards.astype(np.float32)

    @property
    def unit(self) -> float:
        """What a learnt value of 1 is worth in the game's own (scaled) rewards; 1 where that cannot be said."""
        return float(np.sqrt(self.variance + EPSILON)) if self.kind == "normalize" else 1.0

    def _update(self, batch: np.ndarray) -> None:
        total = self.count + batch.size
        delta = batch.mean() - self.mean
        spread = self.variance * self.count + batch.var() * batch.size + delta**2 * self.count * batch.size / total
        self.mean += delta * batch.size / total
        self.variance = spread / total
        self.count = total

    def state(self) -> dict[str, np.ndarray]:
        return {"returns": self.returns.copy(), "moments": np.array([self.mean, self.variance, self.count])}

    def begin(self) -> None:
        """All episodes begin anew; what is known of rewards stays."""
        self.returns = np.zeros_like(self.returns)

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        self.returns = np.array(state["returns"])
        self.mean, self.variance, self.count = map(float, state["moments"])
