"""Write clips of the same level with and without a feature, side by side, around the first different action."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from rl_clarity.agents.protocol import Agent
from rl_clarity.analyses.analysis import Subject
from rl_clarity.analyses.behavior.options import BehaviorOptions
from rl_clarity.analyses.layers import PageLayer
from rl_clarity.pages.animations import BEFORE, animated_png, first_difference, side_by_side
from rl_clarity.pages.files import ImageName
from rl_clarity.pages.images import newest_frames
from rl_clarity.recordings.paired_play import Block

CLIPS = 4
"""Maximum number of clips, for the features whose ablation costs the most return."""


@dataclass(frozen=True)
class Clip:
    """An animated PNG of an episode around the first step at which the actions differ.

    The unedited agent is on the left, the agent without the feature on the right.
    """

    layer: str
    feature: int
    """Number of the feature. Features, episodes and steps are counted from 1."""
    episode: int
    step: int
    image: ImageName
    still: ImageName
    """Image of the first step at which the actions differ."""
    lost: float
    """Return of the unedited agent in this episode, minus that of the agent without the feature."""


def write_clips(
    subject: Subject,
    features: Sequence[tuple[PageLayer, int]],
    losses: Sequence[np.ndarray],
    blocks: Sequence[Block],
    ablated: Callable[[PageLayer, int], Agent],
) -> list[Clip]:
    """Write at most `CLIPS` clips, for the features whose ablation costs the most return.

    Each clip shows the episode with the largest loss. `losses` has an array (n,) for each feature, with the return that
    is lost in each of its n pairs of episodes. `ablated` returns the agent without a feature.
    """
    clips, used, options = [], set[int](), subject.options_of(BehaviorOptions)
    order = np.argsort([-one.mean() for one in losses], kind="stable")
    for index in [i for i in order if losses[i].max() > 0][:CLIPS]:
        layer, feature = features[index]
        most = np.flatnonzero(losses[index] == losses[index].max()).tolist()
        episode = next((one for one in most if one not in used), most[0])
        used.add(episode)
        block = blocks[episode // blocks[0].episodes]
        number, limit = episode % blocks[0].episodes, options.max_steps
        left, right = (block.replay(agent, number, limit) for agent in (subject.agent, ablated(layer, feature)))
        parting = first_difference(left[1], right[1])
        images = side_by_side(newest_frames(left[0], subject.stack), newest_frames(right[0], subject.stack), parting)
        folder = f"behavior/{layer.slug}/clip-{feature + 1}"
        still, animation = ImageName(f"{folder}-still.png"), ImageName(f"{folder}.png")
        subject.files.write_image(still, images[min(BEFORE, parting)])
        subject.files.directory.write(animation, animated_png(images))
        lost = float(losses[index][episode])
        clips.append(Clip(layer.name, feature + 1, episode + 1, parting + 1, animation, still, lost))
    return clips
