"""PNG files of 8-bit pictures: losslessly, quickly, the same bytes for the same picture.

Frames of games are flat areas and repeated sprites, which deflate finds best where rows are not filtered; photographs
and gradients are smaller as differences. Which it is, is tried. (W3C, Portable Network Graphics, third edition.)
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from rl_clarity.errors import ClarityError

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_COLOR_TYPES = {1: 0, 3: 2, 4: 6}  # channels -> grey, RGB, RGBA
_UNFILTERED, _LEFT = 0, 1
_TRIAL_LEVEL, _LEVEL, _LARGE_LEVEL = 1, 6, 3
_LARGE = 1 << 18


def encode_png(picture: np.ndarray) -> bytes:
    """PNG of a picture (H, W, 1 | 3 | 4) uint8: grey, RGB or RGBA."""
    height, width, channels = _checked(picture).shape
    level = _LEVEL if picture.size <= _LARGE else _LARGE_LEVEL
    header = struct.pack(">IIBBBBB", width, height, 8, _COLOR_TYPES[channels], 0, 0, 0)
    data = zlib.compress(min(_scanlines(picture), key=_trial_size), level)
    blocks = (_block(b"IHDR", header), _block(b"IDAT", data), _block(b"IEND", b""))
    return _SIGNATURE + b"".join(blocks)


def encode_pngs(pictures: Iterable[np.ndarray], workers: int = 1) -> list[bytes]:
    """PNG of each picture; deflate runs beside Python, so that more workers help."""
    if workers == 1:
        return [encode_png(picture) for picture in pictures]
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(encode_png, pictures))


def to_bytes(picture: np.ndarray) -> np.ndarray:
    """A picture in 0..1, colours clipped, as uint8."""
    return np.round(np.clip(picture, 0, 1) * 255).astype(np.uint8)


def sheet(pictures: np.ndarray | Sequence[np.ndarray], columns: int) -> np.ndarray:
    """Pictures (n, H, W, C) in rows of `columns`, as one picture; cells left over are 0."""
    pictures = np.asarray(pictures)
    count, height, width, channels = pictures.shape
    columns = max(1, min(columns, count))
    rows = -(-count // columns)
    cells = np.zeros((rows * columns, height, width, channels), pictures.dtype)
    cells[:count] = pictures
    grid = cells.reshape(rows, columns, height, width, channels).swapaxes(1, 2)
    return grid.reshape(rows * height, columns * width, channels)


def _checked(picture: np.ndarray) -> np.ndarray:
    if picture.ndim != 3 or picture.shape[2] not in _COLOR_TYPES or picture.dtype != np.uint8 or 0 in picture.shape:
        raise ClarityError(f"a picture is (H, W, 1 | 3 | 4) uint8, not {picture.shape} {picture.dtype}")
    return picture


def _scanlines(picture: np.ndarray) -> Iterator[bytes]:
    """The rows, each after the number of its filter: as they are, and as differences from the pixel to the left."""
    height, width, channels = picture.shape
    rows = np.empty((height, 1 + width * channels), np.uint8)
    rows[:, 0], rows[:, 1:] = _UNFILTERED, picture.reshape(height, -1)
    yield rows.tobytes()
    rows[:, 1 + channels :] -= picture.reshape(height, -1)[:, :-channels]
    rows[:, 0] = _LEFT
    yield rows.tobytes()


def _trial_size(data: bytes) -> int:
    return len(zlib.compress(data[:_LARGE], _TRIAL_LEVEL))


def _block(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
