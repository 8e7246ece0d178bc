"""Pictures and numbers out of a page: `.png` (of several frames: animated), `.gif`, `.csv`, `.npz`."""

from __future__ import annotations

import csv
import io
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from rl_clarity.errors import OptionError, OutputError
from rl_clarity.interface.results import Results
from rl_clarity.visualization.rendering import Direction, over_observations, render_attribution

SUFFIXES = (".png", ".gif", ".csv", ".npz")
_SIDE = 256


@dataclass(frozen=True)
class Selection:
    """What of a page is exported; all counted from 0."""

    trajectory: int = 0
    frames: range | None = None
    """Steps of the trajectory; all of them if not given."""
    layer: str | None = None
    """Layer of the attribution; none if not given."""
    output: str = "value"
    """Output that is attributed."""
    directions: tuple[Direction, ...] = ("pos", "neg")
    """Parts of the attribution, each a picture beside the observation."""
    channel: str | int = "prin"
    """`prin`, `all`, `res` or a channel, as in `render_attribution`."""
    fps: float = 12
    """Frames a second of an animation."""


def export(results: Results, path: str | os.PathLike[str], selection: Selection | None = None) -> Path:
    """Write what is selected of a page to a file, as its suffix says, and return its path.

    Pictures show the observation and beside it its attribution over the greyscale observation. Tables have a row for
    each frame. `.npz` holds frames, series, channels and residual.
    """
    target, selection = Path(path), selection or Selection()
    if target.suffix not in SUFFIXES:
        raise OptionError(f"{target.name!r} ends in none of {', '.join(SUFFIXES)}")
    steps = selection.frames or range(results.trajectory(selection.trajectory)["steps"])
    data = {".csv": _csv, ".npz": _npz}.get(target.suffix, _animation)(results, selection, steps, target.suffix)
    try:
        target.write_bytes(data)
    except OSError as error:
        raise OutputError(f"cannot write {target}: {error.strerror or error}") from error
    return target


def pictures(results: Results, selection: Selection, steps: range) -> np.ndarray:
    """The observation and its attribution side by side, for each of the steps: (n, H, W, 3) uint8."""
    frames = results.frames(selection.trajectory, steps)
    shown = _enlarged(frames)
    panels = [np.broadcast_to(shown, (*shown.shape[:3], 3))]
    if selection.layer is not None:
        found = results.attribution(selection.layer, selection.trajectory, selection.output, steps)
        weight = float(results.manifest["view"].get("attribution_weight", 0.9))
        for direction in selection.directions:
            rendered = render_attribution(
                found.channels,
                found.residual,
                direction=direction,
                channel=selection.channel,
                scale=found.scale,
                hues=found.hues,
            )
            panels.append(over_observations(rendered, shown, weight))
    return np.concatenate(panels, axis=2)


def _enlarged(frames: np.ndarray) -> np.ndarray:
    """Small frames with every pixel repeated."""
    times = max(1, _SIDE // max(frames.shape[1:3]))
    return frames.repeat(times, axis=1).repeat(times, axis=2)


def _animation(results: Results, selection: Selection, steps: range, suffix: str) -> bytes:
    from PIL import Image

    images = [Image.fromarray(picture) for picture in pictures(results, selection, steps)]
    buffer = io.BytesIO()
    animated = {"save_all": True, "append_images": images[1:], "duration": 1000 / selection.fps, "loop": 0}
    images[0].save(buffer, suffix[1:].upper(), **(animated if len(images) > 1 else {}))
    return buffer.getvalue()


def _csv(results: Results, selection: Selection, steps: range, suffix: str) -> bytes:
    columns = _columns(results, selection)
    digits = int(results.manifest["numpy_precision"])
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(["trajectory", "frame", *columns])
    for step in steps:
        numbers = [f"{column[step]:.{digits}g}" for column in columns.values()]
        writer.writerow([selection.trajectory + 1, step + 1, *numbers])
    return text.getvalue().encode()


def _columns(results: Results, selection: Selection) -> dict[str, np.ndarray]:
    """Numbers along the trajectory by name, a column each."""
    labels = [action["label"] for action in results.manifest["actions"]]
    groups = [group["label"] for group in results.manifest["action_groups"]]
    columns: dict[str, np.ndarray] = {}
    for key, values in results.series(selection.trajectory).items():
        if values.ndim == 1:
            columns[key] = values
        else:
            names = groups if key == "groups" else labels
            columns |= {f"{key} {name}": values[:, index] for index, name in enumerate(names)}
    if selection.layer is not None:
        totals = results.totals(selection.layer, selection.trajectory)[selection.output].totals.sum(axis=-1)
        channels = results.layer(selection.layer)["channels"]
        for index in range(totals.shape[1]):
            name = f"channel {index + 1}" if index < channels else "residual"
            columns[f"{selection.layer} {selection.output} {name}"] = totals[:, index]
    return columns


def _npz(results: Results, selection: Selection, steps: range, suffix: str) -> bytes:
    series = results.series(selection.trajectory)
    arrays = {key: values[list(steps)] for key, values in series.items()}
    arrays |= {"steps": np.array(steps), "frames": results.frames(selection.trajectory, steps)}
    if selection.layer is not None:
        found = results.attribution(selection.layer, selection.trajectory, selection.output, steps)
        arrays["channels"] = found.channels
        if found.residual is not None:
            arrays["residual"] = found.residual
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **cast(dict[str, Any], arrays))
    return buffer.getvalue()
