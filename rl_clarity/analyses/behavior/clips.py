"""Clips: the same level with and without a feature, side by side, where the two ways of playing part."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from rl_clarity.agents.protocol import Agent
from rl_clarity.analyses.analysis import Subject
from rl_clarity.analyses.behavior.play import BehaviorOptions, Block
from rl_clarity.analyses.layers import PageLayer
from rl_clarity.pages.files import ImageName, path_in
from rl_clarity.pages.images import newest_frames

CLIPS = 4
"""Clips of a page: of the features without which the most return is lost."""
BEFORE, AFTER = 8, 40
"""Frames of a clip before and after the moment where the two ways of playing part."""
GAP = 4
"""Pixels between the two sides."""
MILLISECONDS = 100
"""Of a frame."""


@dataclass(frozen=True)
class Clip:
    """An animated PNG of an episode around the first step at which the actions differ.

    The unedited agent is at the left, the one without the feature at the right.
    """

    layer: str
    feature: int
    """Counted from 1, as are `episode` and `step`."""
    episode: int
    step: int
    image: ImageName
    still: ImageName
    """The first step at which the actions differ."""
    lost: float
    """The return that is lost."""


def write_clips(
    subject: Subject,
    features: Sequence[tuple[PageLayer, int]],
    losses: np.ndarray,
    blocks: Sequence[Block],
    ablated: Callable[[PageLayer, int], Agent],
) -> list[Clip]:
    """Write a clip of each of some features, of the episode in which most return is lost without it.

    `losses` (features, n) are the returns lost in each pair of episodes.
    """
    clips, used, options = [], set[int](), subject.options_of(BehaviorOptions)
    order = np.argsort(-losses.mean(axis=1), kind="stable")
    for index in [i for i in order if losses[i].max() > 0][:CLIPS]:
        layer, feature = features[index]
        most = np.flatnonzero(losses[index] == losses[index].max()).tolist()
        episode = next((one for one in most if one not in used), most[0])
        used.add(episode)
        block = blocks[episode // blocks[0].episodes]
        number, limit = episode % blocks[0].episodes, options.causal_max_steps
        left, right = (block.replay(agent, number, limit) for agent in (subject.agent, ablated(layer, feature)))
        parting = first_difference(left[1], right[1])
        images = side_by_side(newest_frames(left[0], subject.stack), newest_frames(right[0], subject.stack), parting)
        folder = path_in(options.behavior_subdir, f"{layer.slug}/clip-{feature + 1}")
        still, animation = ImageName(f"{folder}-still.png"), ImageName(f"{folder}.png")
        subject.files.write_image(still, images[min(BEFORE, parting)])
        subject.files.directory.write(animation, animated_png(images))
        lost = float(losses[index, episode])
        clips.append(Clip(layer.name, feature + 1, episode + 1, parting + 1, animation, still, lost))
    return clips


def first_difference(first: np.ndarray, second: np.ndarray) -> int:
    """The first step at which two sequences of actions differ; their common length if none does."""
    common = min(len(first), len(second))
    different = np.flatnonzero(first[:common] != second[:common])
    return int(different[0]) if len(different) else common - 1


def side_by_side(left: np.ndarray, right: np.ndarray, moment: int) -> np.ndarray:
    """Frames (n, H, W, C) of two episodes around a moment, side by side: (m, H, 2 W + GAP, C).

    The episode that ends first keeps its last frame.
    """
    steps = np.arange(max(0, moment - BEFORE), min(moment + AFTER, max(len(left), len(right))))
    sides = [frames[np.minimum(steps, len(frames) - 1)] for frames in (left, right)]
    gap = np.full((*sides[0].shape[:2], GAP, sides[0].shape[3]), 255, np.uint8)
    return np.concatenate([sides[0], gap, sides[1]], axis=2)


def animated_png(frames: np.ndarray) -> bytes:
    """An animated PNG file of frames (n, H, W, 1 | 3) uint8, which repeats without end."""
    from PIL import Image

    images = [Image.fromarray(frame[..., 0] if frame.shape[-1] == 1 else frame) for frame in frames]
    buffer = io.BytesIO()
    images[0].save(buffer, "PNG", save_all=True, append_images=images[1:], duration=MILLISECONDS, loop=0)
    return buffer.getvalue()
