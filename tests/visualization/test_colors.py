"""Colors of channels and actions."""

import numpy as np
import pytest

from rl_clarity.visualization.colors import (
    action_colors,
    channel_hues,
    extended_hues,
    hue_to_rgb,
    input_hues,
    page_colors,
)
from tests.golden_data import Golden


def test_colors_of_features_and_actions_equal_the_original(golden: Golden) -> None:
    assert page_colors(channel_hues(8)) == golden.expected["colors.features8"].tolist()
    grays = golden.expected["colors.actions"].tolist()
    assert action_colors(len(grays)) == grays


def test_hues_at_multiples_of_60_degrees_are_the_rgb_corners() -> None:
    corners = hue_to_rgb(np.arange(0, 360, 60))
    expected = [[1, 0, 0], [1, 1, 0], [0, 1, 0], [0, 1, 1], [0, 0, 1], [1, 0, 1]]
    np.testing.assert_allclose(corners / corners.max(axis=1, keepdims=True), expected, atol=1e-12)


@pytest.mark.parametrize("channels", [1, 3, 7, 8, 16])
def test_channel_hues_have_unit_norm_and_differ(channels: int) -> None:
    hues = channel_hues(channels)
    assert hues.shape == (channels, 3)
    np.testing.assert_allclose(np.linalg.norm(hues, axis=1), 1, rtol=1e-6)
    assert len(set(page_colors(hues))) == channels


def test_extended_hues_keep_the_first_ones_and_add_different_ones() -> None:
    hues = extended_hues(channel_hues(8), 12)
    np.testing.assert_array_equal(hues[:8], channel_hues(8))
    distances = np.linalg.norm(hues[:, None] - hues, axis=2) + 2 * np.eye(12)
    assert distances.min() > 0.15
    np.testing.assert_array_equal(extended_hues(channel_hues(8), 3), channel_hues(8)[:3])


def test_input_channels_have_the_colors_red_green_and_blue() -> None:
    np.testing.assert_allclose(input_hues(3), np.eye(3), atol=1e-7)
    assert page_colors(input_hues(1)) == ["#ffffff"]
    assert input_hues(4).shape == (4, 3)


def test_a_single_action_is_dark_gray() -> None:
    assert action_colors(1) == ["#303030"]
