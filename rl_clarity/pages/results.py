"""A page's arrays, read back without a browser: `open_results("out").attribution("2b", trajectory=0)`."""

from __future__ import annotations

import base64
import io
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rl_clarity.errors import ClarityError, OptionError
from rl_clarity.pages.chunks import Chunk, decode_chunk, parse_embedded, parse_script
from rl_clarity.pages.document import embedded_files, read_manifest
from rl_clarity.pages.files import Directory, open_directory
from rl_clarity.pages.layout import PAGE
from rl_clarity.visualization.quantization import dequantize

Steps = range | Sequence[int] | None
"""Steps of a trajectory, counted from 0; None for all of them."""


@dataclass(frozen=True)
class ReducedAttribution:
    """Attribution of n frames in reduced channels, in units of attribution, as exact as the page stores it."""

    channels: np.ndarray  # (n, h, w, K) float32
    residual: np.ndarray | None  # (n, h, w, 1) float32; None for the input layer
    scale: float
    """Strength that the page shows at full brightness."""
    hues: np.ndarray  # (K, 3) float32


@dataclass(frozen=True)
class Totals:
    """Attribution summed over positions along a trajectory of T steps."""

    totals: np.ndarray  # (T, K + 1, 2) float32: positive and negative parts; the residual last, if there is one
    gap: np.ndarray | None  # (T, 3) float32: sum of the unreduced attribution, s(a) - s(0), s(a)


def open_results(directory: str | os.PathLike[str]) -> Results:
    """The arrays of the page in a directory (or at the path of its `interface.html`).

    Raises ClarityError where there is no page, or one of another version.
    """
    text = os.fspath(directory)
    location, name = os.path.split(text) if text.endswith(".html") else (text, PAGE)
    return Results(open_directory(location or "."), name)


class Results:
    """A page's manifest and arrays; each call reads what it needs, and nothing is kept."""

    def __init__(self, directory: Directory, page: str = PAGE) -> None:
        self._directory = directory
        try:
            document = directory.read(page)
        except (FileNotFoundError, NotADirectoryError):
            raise ClarityError(f"there is no page {page} in {directory.location}") from None
        self.manifest: dict[str, Any] = read_manifest(document)
        self._embedded = embedded_files(document)

    @property
    def layers(self) -> list[str]:
        """Names of the layers, in order."""
        return [layer["name"] for layer in self.manifest["layers"]]

    @property
    def outputs(self) -> list[str]:
        """Ids of the outputs that have attribution, in order."""
        return [output["id"] for output in self.manifest["outputs"]]

    def layer(self, name: str) -> Mapping[str, Any]:
        """What the manifest says of a layer."""
        for layer in self.manifest["layers"]:
            if layer["name"] == name:
                return dict(layer)
        raise OptionError(f"layer {name!r} is none of {', '.join(self.layers)}")

    def trajectory(self, trajectory: int) -> Mapping[str, Any]:
        """What the manifest says of a trajectory, counted from 0."""
        count = len(self.manifest["trajectories"])
        if not 0 <= trajectory < count:
            raise OptionError(f"trajectory {trajectory} is none of the {count} (counted from 0)")
        return dict(self.manifest["trajectories"][trajectory])

    def series(self, trajectory: int) -> dict[str, np.ndarray]:
        """Numbers along a trajectory by name: actions, rewards, firsts, advantages, values, probabilities, ..."""
        return self.chunk(self.trajectory(trajectory)["series"])

    def frames(self, trajectory: int, steps: Steps = None) -> np.ndarray:
        """Frames (n, H, W, 1 | 3) uint8 as the page shows them."""
        names = self.trajectory(trajectory)["frames"]
        return np.stack([_decoded_png(_png(part, at)) for part, at in self._at(trajectory, names, steps)])

    def attribution(
        self, layer: str, trajectory: int, output: str = "value", steps: Steps = None
    ) -> ReducedAttribution:
        """Attribution of an output to a layer's reduced channels."""
        entry = self.layer(layer)
        if output not in entry["attribution"]:
            raise OptionError(f"output {output!r} is none of {', '.join(entry['attribution'])}")
        self.trajectory(trajectory)
        names = entry["attribution"][output][trajectory]
        parts = [(part["codes"][at], part["scales"][at]) for part, at in self._at(trajectory, names, steps)]
        values = dequantize(np.stack([codes for codes, _ in parts]), np.array([scale for _, scale in parts]))
        count = entry["channels"]
        residual = values[..., count:] if values.shape[-1] > count else None
        scale = float(entry["scales"][output][trajectory])
        return ReducedAttribution(values[..., :count], residual, scale, np.array(entry["hues"], np.float32))

    def totals(self, layer: str, trajectory: int) -> dict[str, Totals]:
        """Totals along a trajectory, by output."""
        self.trajectory(trajectory)
        arrays = self.chunk(self.layer(layer)["totals"][trajectory])
        outputs = [key.partition(".")[2] for key in arrays if key.startswith("totals.")]
        return {output: Totals(arrays[f"totals.{output}"], arrays.get(f"gap.{output}")) for output in outputs}

    def features(self, layer: str) -> dict[str, np.ndarray]:
        """Dataset examples of a layer's channels, as docs/page-format.md names them; empty for the input layer."""
        name = self.layer(layer)["features"]
        return self.chunk(name) if name else {}

    def features_meta(self, layer: str) -> dict[str, Any]:
        """Densities and zooms of a layer's dataset examples; empty for the input layer."""
        name = self.layer(layer)["features"]
        return dict(json.loads(self._chunk(name).header).get("meta", {})) if name else {}

    def chunk(self, name: str) -> dict[str, np.ndarray]:
        """The arrays of the chunk of that name."""
        return decode_chunk(self._chunk(name))

    def picture(self, name: str) -> np.ndarray:
        """The picture (H, W, 1 | 3 | 4) uint8 of that name."""
        text = self._embedded.get(("picture", name))
        return _decoded_png(base64.b64decode(text) if text is not None else self._read(name))

    def _chunk(self, name: str) -> Chunk:
        text = self._embedded.get(("chunk", name))
        return parse_embedded(name, text) if text is not None else parse_script(self._read(name))

    def _read(self, name: str) -> bytes:
        try:
            return self._directory.read(name)
        except FileNotFoundError:
            raise ClarityError(f"{self._directory.location} lacks {name}: the page is not complete") from None

    def _at(self, trajectory: int, names: Sequence[str], steps: Steps) -> list[tuple[dict[str, np.ndarray], int]]:
        """For each step the segment it lies in, each read once, and its place there."""
        count, length = self.trajectory(trajectory)["steps"], self.manifest["segment"]
        wanted = range(count) if steps is None else steps
        for step in wanted:
            if not 0 <= step < count:
                raise OptionError(f"step {step} is none of the trajectory's {count} (counted from 0)")
        if not wanted:
            raise OptionError("no steps are asked for")
        segments = {number: self.chunk(names[number]) for number in sorted({step // length for step in wanted})}
        return [(segments[step // length], step % length) for step in wanted]


def _png(frames: Mapping[str, np.ndarray], at: int) -> bytes:
    start, stop = frames["offsets"][at : at + 2]
    return frames["png"][start:stop].tobytes()


def _decoded_png(data: bytes) -> np.ndarray:
    from PIL import Image

    with Image.open(io.BytesIO(data), formats=["PNG"]) as image:
        pixels = np.asarray(image)
    return pixels[..., None] if pixels.ndim == 2 else pixels
