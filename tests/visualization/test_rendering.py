"""Rendering of attribution as images."""

from typing import Any

import numpy as np
import pytest
from scipy import ndimage

from rl_clarity.base.errors import OptionError
from rl_clarity.visualization.rendering import (
    attribution_scale,
    brightness_to_opacity,
    kernel,
    over_observations,
    render_attribution,
    smooth,
)
from tests.golden_data import Golden


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.mark.parametrize("direction", ["abs", "pos", "neg"])
@pytest.mark.parametrize(("channel", "name"), [("prin", "prin"), ("all", "all"), (3, "3"), ("res", "res")])
def test_rendered_attribution_images_equal_the_original(
    golden: Golden, direction: Any, channel: Any, name: str
) -> None:
    channels, residual = golden.expected["render.channels"], golden.expected["render.residual"]
    images = render_attribution(channels, residual, direction=direction, channel=channel)
    assert images.dtype == np.float32
    np.testing.assert_allclose(images, golden.expected[f"render.{direction}_{name}"], atol=1e-5)


def test_the_attribution_scale_equals_the_original(golden: Golden) -> None:
    assert attribution_scale(golden.expected["render.channels"]) == pytest.approx(golden.expected["render.scale"])


def test_the_scale_of_mostly_zero_attribution_is_positive() -> None:
    channels = np.zeros((5, 2, 2, 3), np.float32)
    assert attribution_scale(channels) == 1
    channels[0, 0, 0, 0] = 4
    channels[1, 0, 0, 0] = -9
    assert attribution_scale(channels) == 4
    assert attribution_scale(channels[:0]) == 1


@pytest.mark.parametrize("size", [(1, 1), (3, 20), (9, 9), (31, 5)])
def test_smoothing_equals_a_convolution_with_the_kernel(rng: np.random.Generator, size: tuple[int, int]) -> None:
    images = rng.random((2, *size, 3))
    expected = ndimage.convolve(images, kernel()[None, :, :, None], mode="constant")
    np.testing.assert_allclose(smooth(images), expected, rtol=1e-5)


def test_the_smoothing_kernel_ends_at_seven_positions() -> None:
    assert kernel().shape == (15, 15)
    assert kernel()[7, 7] == 1
    assert kernel()[7, 0] == pytest.approx(np.exp(-7))
    assert kernel()[6, 0] == 0


def test_attribution_is_not_drawn_beyond_the_smoothing_kernel() -> None:
    channels = np.zeros((1, 20, 20, 8), np.float32)
    channels[0, 0, 0, 2] = 3
    image = render_attribution(channels)
    assert (image[0, 8:] == 0).all()
    assert image[0, 7, 0, 3] > 0


def test_colors_exceed_one_where_the_image_is_opaque(rng: np.random.Generator) -> None:
    rgb = rng.random((4, 4, 3)) * 3
    rgb[0, 0] = 0
    shown = brightness_to_opacity(rgb)
    np.testing.assert_allclose(shown[..., :3] * shown[..., 3:], rgb)
    assert shown[..., 3].max() == 1
    assert shown[..., :3].max() > 1
    assert (shown[0, 0] == 0).all()


def test_rendering_of_a_frame_does_not_depend_on_the_others(rng: np.random.Generator) -> None:
    channels = rng.standard_normal((70, 4, 4, 5)).astype(np.float32)
    together = render_attribution(channels, scale=1.0)
    np.testing.assert_allclose(together[66:67], render_attribution(channels[66:67], scale=1.0), rtol=1e-5)


def test_the_residual_may_lack_a_channel_axis(rng: np.random.Generator) -> None:
    channels, residual = rng.standard_normal((2, 4, 4, 3)), rng.standard_normal((2, 4, 4, 1))
    with_axis = render_attribution(channels, residual, channel="all")
    np.testing.assert_array_equal(with_axis, render_attribution(channels, residual[..., 0], channel="all"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"direction": "up"}, "direction='up'"),
        ({"channel": "some"}, "channel='some'"),
        ({"channel": 3}, "channel=3"),
        ({"channel": 1.5}, "channel=1.5"),
        ({"channel": True}, "channel=True"),
        ({"channel": None}, "channel=None"),
        ({"scale": 0}, "scale=0"),
        ({"scale": -1.0}, "scale=-1.0"),
        ({"scale": float("nan")}, "scale=nan"),
        ({"scale": "full"}, "scale='full'"),
        ({"channel": "all", "residual": None}, "needs a residual"),
        ({"channel": "res", "residual": np.zeros((2, 4, 5))}, r"\(2, 4, 5\)"),
        ({"channels": np.zeros((4, 4, 3))}, r"\(4, 4, 3\)"),
    ],
)
def test_invalid_arguments_are_rejected(arguments: dict[str, Any], message: str) -> None:
    values: dict[str, Any] = {"channels": np.zeros((2, 4, 4, 3)), "residual": np.zeros((2, 4, 4)), **arguments}
    with pytest.raises(OptionError, match=message):
        render_attribution(values.pop("channels"), values.pop("residual"), **values)


def test_attribution_is_drawn_over_the_grayscale_observation() -> None:
    frames = np.zeros((1, 4, 4, 3), np.uint8)
    frames[..., 1] = 255
    images = np.zeros((1, 2, 2, 4), np.float32)
    images[0, 0, 0] = 2, 0, 0, 1  # brighter than can be shown
    shown = over_observations(images, frames, weight=0.9)
    gray = round(255 * 0.587)
    assert (shown[0, 2:, 2:] == gray).all()
    np.testing.assert_array_equal(shown[0, 1, 1], np.round([255 * (0.9 + 0.1 * 0.587), 255 * 0.0587, 255 * 0.0587]))
