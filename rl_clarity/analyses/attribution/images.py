"""Render attribution to image files, like understanding-rl-vision.

The images are for people who open the folder; the page does not use them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from rl_clarity.analyses.analysis import Subject
from rl_clarity.analyses.attribution.files import AttributionOptions, rendered_name, rendered_scrub_name, selections
from rl_clarity.analyses.layers import PageLayer
from rl_clarity.analyses.trajectories import TrajectoryPageOptions
from rl_clarity.base.progress import Report
from rl_clarity.jobs.spool import Spool
from rl_clarity.pages.files import segments
from rl_clarity.pages.images import filmstrips, sheet, to_bytes
from rl_clarity.visualization.rendering import render_attribution

FILM_COLUMNS = 8
"""Number of frames per row of an image."""


def write_attribution_images(
    subject: Subject,
    layer: PageLayer,
    output: str,
    trajectory: int,
    segment: int,
    channels: np.ndarray,
    residual: np.ndarray | None,
    scale: float,
    gray: np.ndarray | None = None,
) -> list[str]:
    """Write the images and filmstrips of a segment for each of `selections`. Return the names of the files.

    `gray` (n,) bool marks frames that are drawn without colors, because their completeness error is too large.
    """
    names: list[str] = []
    for name, direction, channel in selections(channels.shape[-1], residual is not None):
        rendered = render_attribution(
            channels, residual, direction=direction, channel=channel, scale=scale, hues=layer.hues, gray=gray
        )
        images = to_bytes(rendered)
        place = (subject.options_of(AttributionOptions), layer, output, name, trajectory, segment)
        sheets, strip = rendered_name(*place), rendered_scrub_name(*place)
        subject.files.write_image(sheets, sheet(images, FILM_COLUMNS))
        subject.files.write_image(strip, filmstrips(images, subject.options_of(TrajectoryPageOptions).scrub_range))
        names += [sheets, strip]
    return names


class RenderedImages:
    """Stores the attribution of a trajectory until its scale is known, and then renders it to images."""

    def __init__(self, subject: Subject, layer: PageLayer, outputs: Sequence[str], steps: int) -> None:
        self._subject, self._layer, self._outputs, self._steps = subject, layer, outputs, steps
        self._values = Spool(steps, (*layer.shape[:2], layer.channels + (not layer.is_input)))

    def keep(self, output: str, part: range, channels: np.ndarray, residual: np.ndarray | None) -> None:
        """Store the attribution of an output at the steps `part`."""
        values = channels if residual is None else np.concatenate([channels, residual], axis=-1)
        self._values.put(self._outputs.index(output), part.start, values)

    def draw(
        self, trajectory: int, scales: Mapping[str, float], gray: Mapping[str, np.ndarray], report: Report
    ) -> list[str]:
        """Write the images, and return the names of the files.

        `scales` has the scale of each output. `gray` has the mask (T,) of each output; see `write_attribution_images`.
        """
        names, layer, parts = [], self._layer, segments(self._steps)
        for row, output in enumerate(self._outputs):
            for segment, part in enumerate(parts):
                values = self._values.get(row, part.start, part.stop)
                channels = values[..., : layer.channels]
                residual = None if layer.is_input else values[..., layer.channels :]
                place = (self._subject, layer, output, trajectory, segment)
                without = gray[output][part.start : part.stop] if output in gray else None
                names += write_attribution_images(*place, channels, residual, scales[output], without)
                report((row + (segment + 1) / len(parts)) / len(self._outputs))
        return names
