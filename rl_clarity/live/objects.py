"""Remove objects from a page's observations, in the same way as when their effects were measured for the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from rl_clarity.base.errors import ClarityError, OptionError
from rl_clarity.pages.results import Results

TRAJECTORIES = 8
"""Largest number of trajectories whose objects are kept in memory."""


class RemovableObjects:
    """Removes objects from observations. Objects are numbered along a trajectory, from 1."""

    def __init__(self, results: Results) -> None:
        self.results = results
        sections = (section for section in results.manifest["sections"] if section["kind"] == "objects")
        self._section: dict[str, Any] | None = next((section["data"] for section in sections), None)
        self._chunk = lru_cache(TRAJECTORIES)(self._read)

    def listed(self, trajectory: int, step: int) -> list[dict[str, Any]]:
        """Return the number, type and box (left, top, right, bottom, in pixels) of each object at a step."""
        chunk = self._chunk(trajectory)
        if chunk is None:
            return []
        effects = chunk.arrays
        types = self._entry(trajectory)["types"]
        return [
            {
                "number": int(effects["track"][i]) + 1,
                "type": types[effects["type"][i]],
                "box": effects["box"][i].tolist(),
            }
            for i in np.flatnonzero(effects["frame"] == step)
        ]

    def remove(self, image: np.ndarray, trajectory: int, step: int, numbers: Sequence[int]) -> np.ndarray:
        """Return an observation (H, W, C) of a step without the objects with these numbers.

        Objects that are not visible at the step are ignored. Raises OptionError for objects that the trajectory does
        not have, for steps whose objects were not measured, and for objects that overlap, because the page has only
        images in which one object is removed and the others are present.
        """
        chunk = self._chunk(trajectory)
        if chunk is None:
            raise OptionError("the page does not contain the pixels behind its objects: make the page again")
        effects = chunk.arrays
        if step not in effects["frames"]:
            raise OptionError(
                f"the objects of step {step + 1} were not measured, so they cannot be removed there. Choose a step "
                "that the panel Objects shows, or make the page with objects.every=1"
            )
        image, covered = image.copy(), np.zeros(image.shape[:2], bool)
        for number in numbers:
            tracked = effects["track"] == number - 1
            if not tracked.any():
                raise OptionError(f"trajectory {trajectory + 1} has no object {number}")
            chosen = np.flatnonzero((effects["frame"] == step) & tracked)
            if not len(chosen):
                continue
            index = int(chosen[0])
            mask = chunk.masks[index]
            if (covered & mask).any():
                raise OptionError(f"object {number} overlaps another removed object: remove only one of them")
            covered |= mask
            image[mask] = effects["without"][chunk.ends[index] : chunk.ends[index + 1]]
        return image

    def _entry(self, trajectory: int) -> dict[str, Any]:
        assert self._section is not None
        entry: dict[str, Any] = self._section["trajectories"][trajectory]
        return entry

    def _read(self, trajectory: int) -> _Chunk | None:
        """Return the objects of a trajectory. Return None if the page has no objects, or is of an earlier version
        without the pixels behind them.
        """
        if self._section is None:
            return None
        arrays = self.results.chunk(self._entry(trajectory)["chunk"])
        if "without" not in arrays:
            return None
        masks = np.unpackbits(arrays["mask"], axis=-1)[..., : self._section["width"]].astype(bool)
        ends = np.cumsum(np.concatenate([[0], masks.sum(axis=(1, 2))]))
        if len(arrays["without"]) != ends[-1]:
            raise ClarityError("the page's chunk of objects is damaged: it lacks pixels behind objects")
        return _Chunk(arrays, masks, ends)


@dataclass(frozen=True)
class _Chunk:
    arrays: Mapping[str, np.ndarray]
    masks: np.ndarray  # (n, H, W) bool
    ends: np.ndarray  # (n + 1,): where the pixels behind each object begin, and end
