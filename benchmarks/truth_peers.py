"""Captum's methods for agents of any framework: the agent's outputs and gradients are wrapped as a PyTorch function."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from rl_clarity.agents.protocol import Agent, Score, State
from rl_clarity.agents.scores import select_scores
from rl_clarity.agents.sites import INPUT
from rl_clarity.analyses.attribution.saliency import head_columns, network_input, results_at

POINTS = 16
SAMPLES = 16
"""Number of noisy samples of each observation, for GradientSHAP."""
REFERENCES = 32
"""Number of observations that are GradientSHAP's baselines."""
NOISE = 0.09
"""Standard deviation of GradientSHAP's noise, as in Captum's tutorials."""
WINDOW, STRIDE = 8, 4
"""Size and stride of Occlusion's windows, in pixels, for observations of 64 pixels."""
FRAMES = 16
"""Number of observations that are explained in a batch."""


def captum_maps(
    agent: Agent, observations: np.ndarray, state: State, scores: Sequence[Score]
) -> Iterator[tuple[dict[str, Any], np.ndarray]]:
    """Yield Captum's integrated gradients, GradientSHAP and Occlusion: the name of the method, and its maps (S, M, H,
    W) of S scores.
    """
    import torch
    from captum.attr import GradientShap, IntegratedGradients, Occlusion

    torch.manual_seed(0)
    images = torch.from_numpy(np.moveaxis(network_input(agent, observations, state), -1, 1).copy())  # (M, C, H, W)
    size = round(WINDOW * images.shape[-1] / 64)
    window, strides = (images.shape[1], size, size), (images.shape[1], *[round(STRIDE * images.shape[-1] / 64)] * 2)
    references = images[torch.randperm(len(images))[:REFERENCES]]
    methods: dict[str, tuple[type, dict[str, Any]]] = {
        "captum_integrated_gradients": (IntegratedGradients, {"n_steps": POINTS, "method": "gausslegendre"}),
        "captum_gradient_shap": (
            GradientShap,
            {"baselines": references, "n_samples": SAMPLES, "stdevs": NOISE},
        ),
        "captum_occlusion": (
            Occlusion,
            {"sliding_window_shapes": window, "strides": strides, "perturbations_per_eval": 16},
        ),
    }
    for name, (method, options) in methods.items():
        maps = [
            np.concatenate(
                [
                    method(_function(agent, observations, state, score))
                    .attribute(images[rows], additional_forward_args=rows, **options)
                    .detach()
                    .numpy()
                    .sum(axis=1)
                    for rows in torch.arange(len(images)).split(FRAMES)
                ]
            )
            for score in scores
        ]
        yield {"method": name}, np.stack(maps)


def _function(agent: Agent, observations: np.ndarray, state: State, score: Score) -> Any:
    """Return a differentiable function from images (B, C, H, W), and the rows (B,) of their observations, to the score
    (B,).
    """
    import torch

    def at(rows: np.ndarray) -> tuple[np.ndarray, State, Score]:
        weights = _at_rows(score, rows)
        return observations[rows], None if state is None else tuple(part[rows] for part in state), weights

    class Outputs(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, images: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(images, rows)
            seen, before, weighted = at(rows.numpy())
            heads = results_at(agent, seen, _channels_last(images), before)
            columns = head_columns(agent.forward(seen[:1], None if before is None else tuple(p[:1] for p in before)))[1]
            weights = select_scores([weighted], columns, len(heads), lambda: heads)[:, 0]
            return torch.from_numpy((heads * weights).sum(axis=1))

        @staticmethod
        def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
            images, rows = ctx.saved_tensors
            seen, before, weighted = at(rows.numpy())
            values = _channels_last(images)
            slopes = [tail.gradients(values[tail.rows])[0] for tail in agent.tails(seen, INPUT, [weighted], before)]
            slope = torch.from_numpy(np.moveaxis(np.concatenate(slopes), -1, 1).copy())
            return slope * gradients[0][:, None, None, None], None

    return Outputs.apply


def _at_rows(score: Score, rows: np.ndarray) -> Score:
    """Return the score with only these rows of its arrays of weights."""
    if not isinstance(score, dict):
        return score
    return {term: weight if np.ndim(weight) == 0 else np.asarray(weight)[rows] for term, weight in score.items()}


def _channels_last(images: Any) -> np.ndarray:
    return np.ascontiguousarray(np.moveaxis(images.detach().numpy(), 1, -1), np.float32)
