"""Where a saliency map lies on the frames that are shown: a square that alone decides the output is found there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np
import pytest

import rl_clarity
from rl_clarity.analyses.analysis import describe_agent
from rl_clarity.analyses.saliency import METHODS, compute_maps, method_entry
from rl_clarity.environments import atari
from rl_clarity.environments.gymnasium_ import GymnasiumEnvironment
from rl_clarity.environments.wrappers import FrameStack
from rl_clarity.formats.baby_a3c import BabyA3CAgent
from rl_clarity.recordings.rollouts import observe
from rl_clarity.recordings.samples import Trajectories
from tests.analyses.subjects import make_subject
from tests.fakes import TinyEnvironment

SCREEN = (210, 160)
SQUARES = [(0.3, 0.15), (0.52, 0.5), (0.85, 0.8)]
"""Centers of squares, as shares of the height and width of a frame."""
Observe = Callable[[Any, np.ndarray], np.ndarray]
"""From an agent and a frame (H, W, 3) to its observation (H', W', C)."""


def paint(height: int, width: int, center: tuple[float, float]) -> np.ndarray:
    """A dark frame (H, W, 3) with a bright square, a twentieth as high as the frame."""
    frame = np.random.default_rng(0).integers(30, 60, (height, width, 3)).astype(np.uint8)
    half = height // 40
    row, column = round(center[0] * height), round(center[1] * width)
    frame[row - half : row + half, column - half : column + half] = 255
    return frame


def bright_agent(shape: tuple[int, int, int], kind: type[Any] | None = None) -> Any:
    """An agent whose outputs are sums over bright pixels, wherever they are."""
    keras = pytest.importorskip("keras")
    images = keras.Input(shape)
    conv = keras.layers.Conv2D(1, 1, name="bright")
    flat = keras.layers.Flatten()(keras.layers.ReLU(name="1a")(conv(images)))
    logits, value = (keras.layers.Dense(n, use_bias=False, kernel_initializer="ones") for n in (2, 1))
    model = keras.Model(images, [logits(flat), value(flat)])
    conv.set_weights([np.full((1, 1, shape[2], 1), 1 / shape[2], np.float32), np.array([-0.6], np.float32)])
    return (kind or rl_clarity.KerasAgent)(model)


class Scene(TinyEnvironment):
    """Shows one preprocessed frame for ever."""

    def __init__(self, observation: np.ndarray) -> None:
        super().__init__([100])
        height, width, channels = observation.shape
        self.observation_shape = height, width, channels
        self.observation = observation

    def _observe(self) -> np.ndarray:
        return self.observation[None]


def stack(observation: np.ndarray) -> np.ndarray:
    environment = FrameStack(Scene(observation), 4)
    environment.reset()
    return [environment.step(np.zeros(1, int)).observations[0] for _ in range(4)][-1]


def channels_first(frame: np.ndarray) -> np.ndarray:
    """The observation that a Gymnasium environment with frames (3, H, W) from 0 to 1 gives."""

    class Environment(gymnasium.Env[Any, Any]):
        observation_space = gymnasium.spaces.Box(0, 1, (3, *frame.shape[:2]), np.float32)
        action_space = gymnasium.spaces.Discrete(2)

        def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
            return np.moveaxis(frame, -1, 0).astype(np.float32) / 255, {}

    return np.asarray(GymnasiumEnvironment([Environment()], seed=0).reset().observations[0])


def reduced(agent: Any, frame: np.ndarray) -> np.ndarray:
    """As Procgen and CoinRun, which render the same view at 64 x 64 and 512 x 512."""
    return np.asarray(frame.reshape(64, 8, 64, 8, 3).mean(axis=(1, 3)).astype(np.uint8))


PREPROCESSING: dict[str, tuple[tuple[int, int], tuple[int, int, int], Observe, type[Any] | None]] = {
    "procgen and coinrun": ((512, 512), (64, 64, 3), reduced, None),
    "atari": (SCREEN, (84, 84, 1), lambda agent, frame: atari.preprocess(frame), None),
    "atari, stacked": (SCREEN, (84, 84, 4), lambda agent, frame: stack(atari.preprocess(frame)), None),
    "atari, no preprocessing": (SCREEN, (*SCREEN, 3), lambda agent, frame: frame, None),
    "gymnasium, channels first": ((60, 90), (60, 90, 3), lambda agent, frame: channels_first(frame), None),
    "baby-a3c": (SCREEN, (80, 80, 1), lambda agent, frame: observe(agent, frame[None])[0], BabyA3CAgent),
}


@pytest.mark.parametrize("name", PREPROCESSING)
def test_saliency_of_a_bright_square_lies_on_it_in_the_frame(name: str) -> None:
    (height, width), shape, preprocess, kind = PREPROCESSING[name]
    agent = bright_agent(shape, kind)
    frames = np.stack([paint(height, width, center) for center in SQUARES])
    observations = np.stack([preprocess(agent, frame) for frame in frames])
    zeros = np.zeros((1, len(SQUARES)))
    logits = np.zeros((1, len(SQUARES), 2), np.float32)
    played = Trajectories(
        observations[None],
        zeros,
        zeros,
        zeros == 1,
        values=zeros,
        policy_logits=logits,
        observations_full=frames[None],
    )
    subject = make_subject()
    info = describe_agent(agent, played, {"frame_stack": 4} if "stacked" in name else {}, subject.options)
    assert info.observation.aligned
    subject = replace(subject, agent=agent, info=info, trajectories=played)
    for method in METHODS:
        maps = compute_maps(agent, method, observations, ["policy", "value"])
        centers = method_entry(subject, method, {}).centers
        for one in maps:
            for values, square in zip(one, SQUARES, strict=True):
                peak = np.unravel_index(np.abs(values).argmax(), values.shape)
                for axis, at, true in zip(("rows", "columns"), peak, square, strict=True):
                    places = getattr(centers, axis)
                    assert abs(places[at] - true) <= places[1] - places[0], (method, axis)
