"""How actions are chosen from an agent's outputs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rl_clarity.agents.actions import Categorical, Factor, is_single_choice, sample_factors
from rl_clarity.agents.protocol import Outputs
from rl_clarity.agents.scores import action_scores
from rl_clarity.base.parsing import check_option


@dataclass(frozen=True)
class ActionChoice:
    """A rule that chooses actions from an agent's outputs."""

    temperature: float = 1.0
    """Divides the logits of the policy: below 1 for more likely actions, above 1 for more random ones."""
    greedy: bool = False
    """Take the most likely action instead of sampling one. Agents with action values always take the best action."""
    action_noise: float = 0.0
    """Probability of a uniformly random action."""

    def __post_init__(self) -> None:
        positive = isinstance(self.temperature, int | float) and 0 < self.temperature < math.inf
        check_option(self, "temperature", positive, "must be a positive number")
        check_option(self, "action_noise", 0 <= self.action_noise <= 1, "must be a probability from 0 to 1")

    def is_random(self, outputs: Outputs) -> bool:
        """Return whether actions are chosen at random."""
        return self.action_noise > 0 or not (self.greedy or outputs.policy_logits is None)

    def weights(self, outputs: Outputs, masks: np.ndarray | None = None) -> np.ndarray:
        """Return weights (B, A), proportional to the probabilities of the A actions for a batch of B outputs. `masks`
        (B, A) is True for valid actions.
        """
        scores = action_scores(outputs)
        valid = np.ones(np.shape(scores), bool) if masks is None else masks
        scores = np.where(valid, np.asarray(scores, np.float64), -np.inf)
        if self.greedy or outputs.policy_logits is None:
            weights = np.eye(scores.shape[-1])[scores.argmax(-1)]
        else:
            weights = np.exp((scores - scores.max(-1, keepdims=True)) / self.temperature)
        if not self.action_noise:
            return weights
        probabilities, uniform = (part / part.sum(-1, keepdims=True) for part in (weights, valid))
        return (1 - self.action_noise) * probabilities + self.action_noise * uniform

    def behavior_logits(
        self, outputs: Outputs, masks: np.ndarray | None = None, factors: Sequence[Factor] | None = None
    ) -> np.ndarray | None:
        """Return the log probabilities (B, A) float32 with which actions are sampled. Return None if they equal those
        of the policy, if actions are not sampled, or if an action is not a single choice.

        The log probabilities of invalid actions are -inf.
        """
        unchanged = self.temperature == 1 and not self.action_noise and masks is None
        if unchanged or not self.is_random(outputs) or not is_single_choice(factors or (Categorical(1),)):
            return None
        weights = self.weights(outputs, masks)
        with np.errstate(divide="ignore"):
            return np.log(weights / weights.sum(-1, keepdims=True)).astype(np.float32)


POLICY = ActionChoice()


def choose_actions(
    outputs: Outputs,
    rng: np.random.Generator,
    choice: ActionChoice = POLICY,
    masks: np.ndarray | None = None,
    factors: Sequence[Factor] | None = None,
) -> np.ndarray:
    """Return actions (B,) int64. By default they are sampled from the policy; agents with action values take the best
    action.

    `masks` (B, A) is True for valid actions. If `factors` describe more than a single choice, the actions are (B,
    factors) float32.
    """
    if factors is not None and outputs.policy_logits is not None and not is_single_choice(factors):
        return sample_factors(
            outputs.policy_logits,
            factors,
            rng,
            temperature=choice.temperature,
            greedy=choice.greedy,
            noise=choice.action_noise,
            masks=masks,
        )
    weights = choice.weights(outputs, masks)
    if not choice.is_random(outputs):
        return weights.argmax(-1)
    cumulative = weights.cumsum(-1)
    # Inverse transform sampling: the first action whose cumulative weight exceeds a uniform share of the total.
    return (cumulative <= rng.random(len(weights))[:, None] * cumulative[:, -1:]).sum(-1)
