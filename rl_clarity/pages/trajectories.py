"""The parts of a page that show trajectories: numbers along them, frames, film strips."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rl_clarity.pages.frames import film_strips
from rl_clarity.pages.layout import Layout
from rl_clarity.pages.manifest import ScrubInfo, TrajectoryEntry
from rl_clarity.pages.page_files import PageFiles
from rl_clarity.pages.pictures import encode_pngs, sheet

FILM_COLUMNS = 8


@dataclass(frozen=True)
class Series:
    """Numbers along a trajectory of T steps, with A actions and G groups of them."""

    actions: np.ndarray  # (T,)
    rewards: np.ndarray  # (T,)
    firsts: np.ndarray  # (T,) bool
    advantages: np.ndarray  # (T,)
    probabilities: np.ndarray  # (T, A)
    logits: np.ndarray  # (T, A), or action values
    groups: np.ndarray  # (T, G), sums of logits
    values: np.ndarray | None = None  # (T,), None for action values


def write_series(files: PageFiles, trajectory: int, series: Series) -> None:
    """Write the numbers along a trajectory."""
    arrays: dict[str, np.ndarray | bytes] = {
        "actions": series.actions.astype(np.int32),
        "rewards": series.rewards.astype(np.float32),
        "firsts": series.firsts.astype(np.uint8),
        "advantages": series.advantages.astype(np.float32),
        "probabilities": series.probabilities.astype(np.float32),
        "logits": series.logits.astype(np.float32),
        "groups": series.groups.astype(np.float32),
    }
    if series.values is not None:
        arrays["values"] = series.values.astype(np.float32)
    files.write_chunk(files.layout.series(trajectory), arrays)


def write_frames(
    files: PageFiles,
    trajectory: int,
    segment: int,
    frames: np.ndarray,
    stacks: np.ndarray | None = None,
    workers: int = 1,
) -> None:
    """Write a segment's frames (n, H, W, 1 | 3) uint8, as the page reads them and as a picture for people.

    `stacks` (n, H, W', 1 | 3) are all frames of stacked observations side by side. `workers` encode in threads.
    """
    arrays = _packed(encode_pngs(frames, workers))
    if stacks is not None:
        arrays |= {f"stack_{key}": value for key, value in _packed(encode_pngs(stacks, workers)).items()}
    files.write_chunk(files.layout.frames(trajectory, segment), arrays)
    files.write_picture(files.layout.film(trajectory, segment), sheet(frames, FILM_COLUMNS))


def write_scrub(
    files: PageFiles, trajectory: int, picture: int, frames: np.ndarray, scrub_range: tuple[float, float]
) -> None:
    """Write one film strip: the columns `scrub_range` of each of the frames (n, H, W, C) of `Layout.scrubs`."""
    files.write_picture(files.layout.scrub(trajectory, picture), film_strips(frames, scrub_range))


def trajectory_entry(layout: Layout, trajectory: int, steps: int) -> TrajectoryEntry:
    """What the manifest says of a trajectory."""
    segments = range(len(layout.segments(steps)))
    return TrajectoryEntry(
        steps=steps,
        series=layout.series(trajectory),
        scrub=[layout.scrub(trajectory, picture) for picture in range(len(layout.scrubs(steps)))],
        frames=[layout.frames(trajectory, segment) for segment in segments],
        pictures=[layout.film(trajectory, segment) for segment in segments],
    )


def scrub_info(layout: Layout, frame: tuple[int, int], scrub_range: tuple[float, float]) -> ScrubInfo:
    """What the manifest says of film strips of frames of that height and width."""
    height, width, _ = film_strips(np.zeros((1, *frame, 1), np.uint8), scrub_range).shape
    return ScrubInfo(steps=layout.scrub_steps, height=height, step_width=width)


def _packed(pngs: list[bytes]) -> dict[str, np.ndarray | bytes]:
    offsets = np.cumsum([0, *map(len, pngs)]).astype(np.int32)
    return {"offsets": offsets, "png": b"".join(pngs)}
