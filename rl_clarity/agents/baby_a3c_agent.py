"""baby-a3c's agents look at the screen in their own way."""

from __future__ import annotations

import numpy as np

from rl_clarity.agents.keras_agent import KerasAgent

ROWS = slice(35, 195)
SIDE = 80


class BabyA3CAgent(KerasAgent):
    """Observations are what `preprocess` gives: float32 from 0 to 1; or the same as uint8 from 0 to 255."""

    def preprocess(self, frames: np.ndarray) -> np.ndarray:
        """Observations (B, 80, 80, 1) float32 of screens (B, 210, 160, 3) uint8."""
        return np.stack([_preprocess(frame) for frame in frames])

    def _check_range(self, observations: np.ndarray) -> None:
        if not np.issubdtype(observations.dtype, np.floating):
            super()._check_range(observations)

    def _scaled(self, observations: np.ndarray) -> np.ndarray:
        if np.issubdtype(observations.dtype, np.floating):
            return np.asarray(observations, np.float32)
        return super()._scaled(observations)


def _preprocess(frame: np.ndarray) -> np.ndarray:
    """Rows 35 to 194, mean of the colours, stretched to 0..255, halved: as SciPy's `imresize` did, which is no more."""
    from PIL import Image

    grey = frame[ROWS].mean(axis=2)
    low, high = grey.min(), grey.max()
    stretched = (grey - low) * (255.0 / ((high - low) or 1.0))
    picture = Image.fromarray((stretched.clip(0, 255) + 0.5).astype(np.uint8))
    small = picture.resize((SIDE, SIDE), Image.Resampling.BILINEAR)
    return np.asarray(small, np.float32)[..., None] / np.float32(255)
