"""A page that `rl_clarity.generate` makes of a small network, and its attribution computed apart from it."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import rl_clarity
from rl_clarity.base.resources import models_directory
from rl_clarity.commands.demo import SAMPLES
from rl_clarity.pages.result_arrays import ReducedAttribution
from rl_clarity.pages.results import open_results
from rl_clarity.visualization.colors import channel_hues
from rl_clarity.visualization.rendering import attribution_scale
from tests.browser.drawn import SIDE, draw_frame

TRAJECTORIES, STEPS = 2, 70  # a segment of 64 steps and a short one
VARIED = 48
STARTS = {0: (0, 23, 50), 1: (0, 41)}
"""Steps at which episodes begin, in each trajectory."""
COMBOS = (
    ("LEFT", "DOWN"), ("LEFT",), ("LEFT", "UP"), ("DOWN",), (), ("UP",), ("RIGHT", "DOWN"), ("RIGHT",), ("RIGHT", "UP"),
    ("D",), ("A",), ("W",), ("S",), ("Q",), ("E",),
)  # fmt: skip
RULE: dict[str, Any] = {"steps": 5, "quadrature": "graded-midpoint"}


@dataclass(frozen=True)
class Generated:
    """The page, and what it was made from."""

    directory: Path
    agent: Any
    trajectories: dict[str, np.ndarray]
    varied: np.ndarray
    _kept: dict[Any, Any] = field(default_factory=dict)

    def attribution(self, layer: str, trajectory: int, output: str = "value") -> ReducedAttribution:
        """All frames' attribution in reduced channels, by the public functions alone."""
        key = layer, trajectory, output
        if key not in self._kept:
            self._kept[key] = self._compute(layer, _wanted(output), self.trajectories["observations"][trajectory])
        found: ReducedAttribution = self._kept[key]
        return found

    def value(self, trajectory: int, frame: int) -> float:
        return float(self._outputs(trajectory).values[frame])

    def logits(self, trajectory: int, frame: int) -> np.ndarray:
        return np.asarray(self._outputs(trajectory).policy_logits[frame])

    def _outputs(self, trajectory: int) -> Any:
        if trajectory not in self._kept:
            self._kept[trajectory] = self.agent.forward(self.trajectories["observations"][trajectory])
        return self._kept[trajectory]

    def _compute(self, layer: str, output: Any, frames: np.ndarray) -> ReducedAttribution:
        if layer == "input":
            gradients = rl_clarity.input_gradients(self.agent, frames, output)
            return ReducedAttribution(gradients, None, attribution_scale(gradients), np.eye(3))
        if isinstance(output, str | int):
            limit = open_results(self.directory).error_limit(output if isinstance(output, str) else f"action-{output}")
            path = {**RULE, "error_limit": limit}
            attribution = rl_clarity.integrated_gradients(self.agent, frames, layer, output, **path)
            channels, residual = self._reduction(layer).signed_transform(attribution)
        else:  # a group: the page adds what it stores of its actions
            parts = [self._compute(layer, action, frames) for action in output]
            channels = np.sum([one.channels for one in parts], axis=0)
            residual = np.sum([one.residual for one in parts if one.residual is not None], axis=0)
        return ReducedAttribution(channels, residual, attribution_scale(channels), channel_hues(channels.shape[-1]))

    def _reduction(self, layer: str) -> rl_clarity.ChannelReduction:
        if layer not in self._kept:
            attribution = rl_clarity.integrated_gradients(self.agent, self.varied, layer, "value", **RULE)
            self._kept[layer] = rl_clarity.ChannelReduction.fit(attribution, 8, 0)
        found: rl_clarity.ChannelReduction = self._kept[layer]
        return found


def generate_page(directory: Path) -> Generated:
    """Explain a fresh network on frames that are given: no environment is needed."""
    from rl_clarity.base.quiet import import_keras
    from rl_clarity.formats import architectures

    import_keras()
    parameters = architectures.build("nature", (SIDE, SIDE, 3), len(COMBOS), seed=1).parameters()
    # The last layer of a fresh policy is nearly zero: larger, its outputs differ from frame to frame.
    parameters["ppo2_model/pi/w:0"] = parameters["ppo2_model/pi/w:0"] * 50
    network = architectures.build("nature", (SIDE, SIDE, 3), len(COMBOS), parameters=parameters)
    agent = rl_clarity.KerasAgent(network, {"env_name": "coinrun"})
    observations, varied = _frames()
    trajectories = {"observations": observations, **_events()}
    rl_clarity.generate(
        agent,
        trajectories,
        varied,
        directory,
        title="A small network",
        action_combos=COMBOS,
        layer_kwargs={"name_contains_one_of": ["Relu"]},
        attr_policy=True,
        input_layer_include=True,
        attribution_colors="mixed",
        nmf_held_out=0,
    )
    return Generated(directory, agent, trajectories, varied)


def _frames() -> tuple[np.ndarray, np.ndarray]:
    """Observations of trajectories (N, T, H, W, 3), and varied ones (M, H, W, 3)."""
    path = models_directory() / SAMPLES
    if path.exists():
        with np.load(path) as samples:
            return samples["observations"][:TRAJECTORIES, :STEPS], samples["varied"][:VARIED]
    played = [[draw_frame(world, t) for t in range(STEPS)] for world in range(TRAJECTORIES)]
    return np.array(played), np.array([draw_frame(9 + i % 5, i * 13) for i in range(VARIED)])


def _events() -> dict[str, np.ndarray]:
    """Actions, rewards and beginnings of episodes, whatever the frames show."""
    rng = np.random.default_rng(0)
    firsts = np.zeros((TRAJECTORIES, STEPS), bool)
    for trajectory, starts in STARTS.items():
        firsts[trajectory, list(starts)] = True
    rewards = 10.0 * np.roll(firsts, -1, axis=1)
    rewards[:, -1] = 0
    return {"actions": rng.integers(0, len(COMBOS), firsts.shape), "rewards": rewards, "firsts": firsts}


@functools.cache
def _groups() -> dict[str, list[int]]:
    held = {f"group-{k}": button for k, button in enumerate(("RIGHT", "LEFT", "UP", "DOWN"))}
    return {key: [i for i, combo in enumerate(COMBOS) if button in combo] for key, button in held.items()}


def _wanted(output: str) -> Any:
    """An output's id as `integrated_gradients` takes it."""
    if output.startswith("action-"):
        return int(output.removeprefix("action-"))
    return _groups().get(output, output)
