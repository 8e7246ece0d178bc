"""Gradients of features with respect to images, for feature visualization."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rl_clarity.agents.differentiation import GradientStep

if TYPE_CHECKING:
    from rl_clarity.agents.batched import BatchedAgent


def gradient_of_direction(
    agent: BatchedAgent, images: np.ndarray, layer: str, directions: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Implement `BatchedAgent.gradient_of_direction`."""
    name = agent.site(layer).name
    step = agent._cached(("direction", name), lambda: _compile_step(agent, name))
    values, gradients = [], []
    for start in range(0, len(images), agent.gradient_batch_size):
        part = np.asarray(images[start : start + agent.gradient_batch_size], np.float32)
        selection = np.asarray(directions[start : start + len(part)], np.float32)[:, None]  # (n, 1, c)
        total, one = agent._backend.zeros(1, part), np.float32(1)
        others = (*(agent.initial_state(len(part)) or ()), *agent._edits.replacements(part * 0).values())
        gradient, value = step(total, np.float32(0), part, one, one, selection, *others)
        values.append(agent._backend.array(value)[0])
        gradients.append(agent._backend.array(gradient)[0])
    return np.concatenate(values), np.concatenate(gradients)


def _compile_step(agent: BatchedAgent, layer: str) -> GradientStep:
    section, mean = agent._edited(agent._inputs, (layer,)), agent._backend.mean
    scale = float(agent._unit / agent._divisor)

    def excitation(images: Any, *others: Any) -> Any:
        return mean(section(images * scale, *others)[0])

    return agent._backend.gradient_step(excitation)
