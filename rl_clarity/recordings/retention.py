"""Choose which episodes of a recording to keep when their number or their size is limited."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from rl_clarity.base.errors import OptionError

FREED = 0.25
"""Fraction of the bytes to free at once, because freeing space requires copying files."""


@dataclass(frozen=True)
class Limits:
    """Limits of a recording. None means no limit."""

    episodes: int | None = None
    bytes: int | None = None
    """Largest size in bytes of the blocks and checkpoints on disk."""

    def __post_init__(self) -> None:
        for name, limit in (("max_episodes", self.episodes), ("max_bytes", self.bytes)):
            if limit is not None and limit < 1:
                raise OptionError(f"{name}={limit} must be at least 1")

    def __bool__(self) -> bool:
        return self.episodes is not None or self.bytes is not None


@dataclass(frozen=True)
class StoredEpisode:
    """An episode that ended, with its size and its checkpoints."""

    bytes: int
    agents: range = range(0)
    """Numbers of its checkpoints."""


def choose_removed(
    episodes: Mapping[int, StoredEpisode], agent_bytes: Mapping[int, int], disk_bytes: int, limits: Limits
) -> list[int]:
    """Return the indices of the episodes to remove in order to keep within the limits.

    Episodes are removed from the older half, first those that are closest to their neighbors, so that old episodes
    become evenly sparse. The newest episode is always kept, and the oldest if possible. `agent_bytes` contains the
    sizes of checkpoints by number, and `disk_bytes` is the size of all files.
    """
    indices = np.array(sorted(episodes), np.int64)
    users = Counter(agent for episode in episodes.values() for agent in episode.agents)
    sizes = {
        index: episode.bytes + sum(agent_bytes.get(agent, 0) / users[agent] for agent in episode.agents)
        for index, episode in episodes.items()
    }
    total, removed = sum(sizes.values()), []
    target = np.inf
    if limits.bytes is not None and disk_bytes > limits.bytes:
        target = limits.bytes * (1 - FREED)
    count = limits.episodes or len(indices)
    while len(indices) > 1 and (len(indices) > count or total > target):
        older = len(indices) // 2
        gaps = indices[2 : older + 1] - indices[: older - 1]
        position = 1 + int(gaps.argmin()) if len(gaps) else 0
        index = int(indices[position])
        indices = np.delete(indices, position)
        total -= sizes[index]
        removed.append(index)
    return removed
