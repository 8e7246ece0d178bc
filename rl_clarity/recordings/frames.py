"""Frames that environments render for a recorder. If rendering fails, everything else is still recorded."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from rl_clarity.base.errors import SamplesError, describe_error


class RenderedFrames:
    """Reads rendered frames by environment. When rendering fails, a warning is issued and no more frames are rendered.

    All steps of an episode must have the same fields. Unfinished episodes therefore get black frames until they end;
    episodes that begin later have no frames.
    """

    def __init__(self, render: Callable[[], Mapping[int, Any]]) -> None:
        self._render: Callable[[], Mapping[int, Any]] | None = render
        self._under_way: dict[int, Any] = {}
        """Last frame of each unfinished episode that has frames, by environment."""

    def read(self) -> dict[int, Any]:
        """Return frames by environment. Environments without frames are omitted."""
        if self._render is not None:
            try:
                frames = dict(self._render())
                missing = [env for env, frame in frames.items() if frame is None]
                if missing:
                    raise SamplesError(f"environment {missing[0]} rendered nothing")
                self._under_way = frames
                return frames
            except Exception as error:  # libraries for graphics raise errors of any kind
                self._render = None
                text = f"frames are no longer recorded, because rendering failed: {describe_error(error)}"
                warnings.warn(text, RuntimeWarning, stacklevel=2)
        return {env: np.zeros_like(frame) for env, frame in self._under_way.items()}

    def begin(self, env: int) -> None:
        """Register that the next episode of an environment begins."""
        self._under_way.pop(env, None)
