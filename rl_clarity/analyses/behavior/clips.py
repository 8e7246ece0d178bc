"""Clips: the same level with and without a feature, side by side, where the two ways of playing part."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rl_clarity.agents.protocol import Agent
from rl_clarity.analyses.analysis import Subject
from rl_clarity.analyses.behavior.play import Block
from rl_clarity.analyses.layers import PageLayer
from rl_clarity.pages.files import path_in
from rl_clarity.pages.images import newest_frames

CLIPS = 4
"""Clips of a page: of the features without which the most return is lost."""
BEFORE, AFTER = 8, 40
"""Frames of a clip before and after the moment where the two ways of playing part."""
GAP = 4
"""Pixels between the two sides."""
MILLISECONDS = 100
"""Of a frame."""


def write_clips(
    subject: Subject,
    features: Sequence[tuple[PageLayer, int]],
    losses: np.ndarray,
    blocks: Sequence[Block],
    ablated: Callable[[PageLayer, int], Agent],
) -> tuple[list[dict[str, Any]], list[str]]:
    """Write a clip of each of some features, of the episode in which most return is lost without it.

    `losses` (features, n) are the returns lost in each pair of episodes. Returns what the section says of the clips,
    and the names of their images.
    """
    clips, names, used = [], [], set[int]()
    order = np.argsort(-losses.mean(axis=1), kind="stable")
    for index in [i for i in order if losses[i].max() > 0][:CLIPS]:
        layer, feature = features[index]
        most = np.flatnonzero(losses[index] == losses[index].max()).tolist()
        episode = next((one for one in most if one not in used), most[0])
        used.add(episode)
        block = blocks[episode // blocks[0].episodes]
        number, limit = episode % blocks[0].episodes, subject.options.causal_max_steps
        left, right = (block.replay(agent, number, limit) for agent in (subject.agent, ablated(layer, feature)))
        parting = first_difference(left[1], right[1])
        images = side_by_side(newest_frames(left[0], subject.stack), newest_frames(right[0], subject.stack), parting)
        folder = path_in(subject.options.behavior_subdir, f"{layer.slug}/clip-{feature + 1}")
        still, animation = f"{folder}-still.png", f"{folder}.png"
        subject.files.write_image(still, images[min(BEFORE, parting)])
        subject.files.directory.write(animation, animated_png(images))
        names += [still, animation]
        facts = {"layer": layer.name, "feature": feature + 1, "episode": episode + 1, "step": parting + 1}
        clips.append({**facts, "image": animation, "still": still, "lost": float(losses[index, episode])})
    return clips, names


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
