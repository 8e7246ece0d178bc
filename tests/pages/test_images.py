import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from PIL import Image

from rl_clarity.base.errors import ClarityError
from rl_clarity.pages.images import encode_png, encode_pngs, sheet, to_bytes

images = st.tuples(st.integers(1, 9), st.integers(1, 9), st.sampled_from([1, 3, 4])).flatmap(
    lambda shape: arrays(np.uint8, shape)
)


def decode(png: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(png)))


@given(images)
def test_images_survive_encoding_as_png(image: np.ndarray) -> None:
    np.testing.assert_array_equal(decode(encode_png(image)).reshape(image.shape), image)


def test_png_filters_are_used_for_color_gradients_but_not_flat_areas() -> None:
    slope = (np.add.outer(np.arange(200), 3 * np.arange(200)) % 256).astype(np.uint8)[..., None]
    sprites = np.random.default_rng(0).integers(0, 256, (8, 8, 3), np.uint8).repeat(25, axis=0)
    sprites = np.tile(sprites, (1, 25, 1))
    for image in (slope, sprites):
        png = encode_png(image)
        np.testing.assert_array_equal(decode(png).reshape(image.shape), image)
        assert len(png) < image.size / 25


def test_png_files_do_not_depend_on_the_number_of_threads() -> None:
    frames = np.random.default_rng(0).integers(0, 256, (7, 6, 5, 3), np.uint8)
    assert encode_pngs(frames, workers=3) == encode_pngs(frames) == [encode_png(frame) for frame in frames]


def test_image_sheets_are_filled_by_rows() -> None:
    frames = np.arange(1, 6, dtype=np.uint8)[:, None, None, None] * np.ones((1, 2, 3, 1), np.uint8)
    image = sheet(frames, 2)
    assert image.shape == (6, 6, 1)
    assert image[::2, ::3, 0].tolist() == [[1, 2], [3, 4], [5, 0]]
    assert sheet(frames[:1], 8).shape == (2, 3, 1)


def test_colors_out_of_range_are_clipped() -> None:
    assert to_bytes(np.array([-0.5, 0, 0.5, 1, 7])).tolist() == [0, 0, 128, 255, 255]


@pytest.mark.parametrize("image", [np.zeros((2, 2, 2), np.uint8), np.zeros((2, 2), np.uint8), np.zeros((2, 2, 3))])
def test_arrays_that_are_not_images_are_refused(image: np.ndarray) -> None:
    with pytest.raises(ClarityError, match=r"\(2, 2"):
        encode_png(image)
