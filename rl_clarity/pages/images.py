"""Images of a page: frames of stacked observations, filmstrips, sheets, and PNG files.

Frames of games have flat areas and repeated sprites, which deflate compresses best in unfiltered rows. Photographs and
gradients are smaller as differences. Both PNG filters are tried on a part of the image (W3C, Portable Network Graphics,
third edition). Pillow filters every row, which takes as long and makes the files of frames 56 % larger.
"""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from rl_clarity.base.errors import ClarityError, OptionError

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
PNG_END = b"IEND" + struct.pack(">I", zlib.crc32(b"IEND"))
_COLOR_TYPES = {1: 0, 3: 2, 4: 6}  # channels -> gray, RGB, RGBA
_UNFILTERED, _LEFT = 0, 1
_TRIAL_LEVEL, _LEVEL, _LARGE_LEVEL = 1, 6, 3
_LARGE = 1 << 18
_STRIP_HEIGHT = 128


def encode_png(image: np.ndarray) -> bytes:
    """Return the PNG file of an image (H, W, 1 | 3 | 4) uint8: gray, RGB or RGBA. The result is deterministic."""
    height, width, channels = _checked(image).shape
    level = _LEVEL if image.size <= _LARGE else _LARGE_LEVEL
    header = struct.pack(">IIBBBBB", width, height, 8, _COLOR_TYPES[channels], 0, 0, 0)
    data = zlib.compress(min(_scanlines(image), key=_trial_size), level)
    blocks = (_block(b"IHDR", header), _block(b"IDAT", data), _block(b"IEND", b""))
    return _SIGNATURE + b"".join(blocks)


def encode_pngs(images: Iterable[np.ndarray], workers: int = 1) -> list[bytes]:
    """Return the PNG file of each image. `workers` threads encode them; deflate releases the interpreter lock."""
    if workers == 1:
        return [encode_png(image) for image in images]
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(encode_png, images))


def decode_png(name: str, data: bytes) -> np.ndarray:
    """Return the image (H, W, 1 | 3 | 4) uint8 in a PNG file.

    Raises ClarityError, which contains the file's `name`, if it is damaged.
    """
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(io.BytesIO(data), formats=["PNG"]) as image:
            pixels = np.asarray(image)
    except (
        OSError,
        ValueError,
        SyntaxError,
        Image.DecompressionBombError,
    ) as error:  # Pillow raises SyntaxError for wrong checksums
        reason = "it is not a PNG image" if isinstance(error, UnidentifiedImageError) else error
        raise ClarityError(f"image {name} is damaged: {reason}") from error
    return pixels[..., None] if pixels.ndim == 2 else pixels


def to_bytes(image: np.ndarray) -> np.ndarray:
    """Convert an image with values from 0 to 1 to uint8. Values outside this range are clipped."""
    return np.round(np.clip(image, 0, 1) * 255).astype(np.uint8)


def sheet(images: np.ndarray | Sequence[np.ndarray], columns: int) -> np.ndarray:
    """Arrange images (n, H, W, C) in rows of `columns` as a single image. Unused cells are 0."""
    images = np.asarray(images)
    count, height, width, channels = images.shape
    columns = max(1, min(columns, count))
    rows = -(-count // columns)
    cells = np.zeros((rows * columns, height, width, channels), images.dtype)
    cells[:count] = images
    grid = cells.reshape(rows, columns, height, width, channels).swapaxes(1, 2)
    return grid.reshape(rows * height, columns * width, channels)


def newest_frames(observations: np.ndarray, stack: int = 1) -> np.ndarray:
    """Return the newest frames (n, H, W, 1 or 3) of n observations (n, H, W, C) of `stack` frames, newest last."""
    return _shown(observations[..., -_colors(observations, stack) :])


def vector_images(vectors: np.ndarray, played: np.ndarray) -> np.ndarray:
    """Return vectors (n, 1, 1, K) of K inputs as images (n, K, 1, 1) uint8.

    Each input is scaled so that its smallest value in `played` (..., K) is black and its largest value is white.
    """
    axes = tuple(range(played.ndim - 1))
    low, high = played.min(axis=axes), played.max(axis=axes)
    scaled = (vectors[:, 0, 0] - low) / np.maximum(high - low, 1e-12)
    return to_bytes(scaled)[:, :, None, None]


def frames_side_by_side(observations: np.ndarray, stack: int) -> np.ndarray:
    """Return all frames of stacked observations (n, H, W, C) side by side, oldest first: (n, H, stack * W, 1 or 3)."""
    colors = _colors(observations, stack)
    return np.concatenate(
        [_shown(observations[..., index * colors : (index + 1) * colors]) for index in range(stack)], axis=2
    )


def filmstrips(frames: np.ndarray, scrub_range: tuple[float, float]) -> np.ndarray:
    """Return a filmstrip (h, n * w, C): the columns of n frames (n, H, W, C) between two fractions of the width.

    Frames taller than 128 pixels are subsampled.
    """
    low, high = scrub_range
    if not 0 <= low < high <= 1:
        raise OptionError(f"scrub_range={scrub_range!r} must be two fractions of the width, the smaller one first")
    width = frames.shape[2]
    start = int(low * width)
    stop = max(start + 1, round(high * width))
    every = -(-frames.shape[1] // _STRIP_HEIGHT)
    strips = frames[:, ::every, start:stop:every]  # (n, h, w, C)
    count, height, wide, channels = strips.shape
    return np.ascontiguousarray(strips.swapaxes(0, 1)).reshape(height, count * wide, channels)


def _checked(image: np.ndarray) -> np.ndarray:
    if image.ndim != 3 or image.shape[2] not in _COLOR_TYPES or image.dtype != np.uint8 or 0 in image.shape:
        raise ClarityError(f"an image must be (H, W, 1 | 3 | 4) uint8, not {image.shape} {image.dtype}")
    return image


def _scanlines(image: np.ndarray) -> Iterator[bytes]:
    """Yield all rows, each after the number of its filter: first unfiltered, then as differences along the row."""
    height, width, channels = image.shape
    rows = np.empty((height, 1 + width * channels), np.uint8)
    rows[:, 0], rows[:, 1:] = _UNFILTERED, image.reshape(height, -1)
    yield rows.tobytes()
    rows[:, 1 + channels :] -= image.reshape(height, -1)[:, :-channels]
    rows[:, 0] = _LEFT
    yield rows.tobytes()


def _trial_size(data: bytes) -> int:
    return len(zlib.compress(data[:_LARGE], _TRIAL_LEVEL))


def _block(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _colors(observations: np.ndarray, stack: int) -> int:
    channels = observations.shape[-1]
    if channels % stack:
        raise OptionError(f"observations with {channels} channels cannot be split into {stack} frames")
    return int(channels // stack)


def _shown(frames: np.ndarray) -> np.ndarray:
    """Return frames as gray or RGB. The alpha of four channels is dropped; any other number of channels is averaged."""
    channels = frames.shape[-1]
    if channels in (1, 3):
        return frames
    if channels == 4:
        return frames[..., :3]
    return np.round(frames.mean(axis=-1, keepdims=True)).astype(np.uint8)
