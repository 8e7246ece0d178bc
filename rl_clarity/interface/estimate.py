"""How large a page will be, before anything is computed. Ratios were measured on CoinRun with networks just begun."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_TEXT = 4 / 3  # base64
_CODES = 0.54  # deflated delta codes of attribution
_FRAME = 0.3  # PNG of a small frame, of its pixels' bytes
_FILM = 0.15  # a picture of 64 successive frames
_CELL = 7  # index and opacity of a cell of a grid, deflated
_SERIES = 40  # bytes a step and action
_DOCUMENT = 400_000


@dataclass(frozen=True)
class PageSize:
    """What decides how large a page is."""

    trajectories: int
    steps: int
    frame: tuple[int, int, int]  # (H, W, C) of what is shown
    layers: Sequence[tuple[int, int]]  # (h, w)
    channels: int
    outputs: int
    actions: int
    observations: int
    densities: Sequence[float]


def estimate_bytes(size: PageSize) -> dict[str, int]:
    """Bytes of each part of the page, within about a third; a page of one file is their sum, less `film`."""
    frames = size.trajectories * size.steps
    pixels = size.frame[0] * size.frame[1] * size.frame[2]
    positions = sum(height * width for height, width in size.layers)
    cells = positions * size.channels * sum(density**2 for density in size.densities)
    return {
        "attribution": round(frames * positions * (size.channels + 1) * size.outputs * _CODES * _TEXT),
        "frames": round(frames * pixels * _FRAME * _TEXT),
        "film": round(frames * pixels * _FILM),
        "observations": round(size.observations * pixels * _FRAME),
        "features": round(cells * _CELL),
        "numbers": round(frames * (size.actions * _SERIES + len(size.layers) * size.outputs * size.channels * 8)),
        "document": _DOCUMENT,
    }
