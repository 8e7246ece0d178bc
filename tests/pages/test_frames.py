import numpy as np
import pytest

from rl_clarity.base.errors import OptionError
from rl_clarity.pages.images import filmstrips, frames_side_by_side, newest_frames


@pytest.fixture
def stacked() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (5, 6, 7, 4), np.uint8)


def test_the_newest_frame_of_a_stack_is_the_last(stacked: np.ndarray) -> None:
    np.testing.assert_array_equal(newest_frames(stacked, 4), stacked[..., 3:])
    np.testing.assert_array_equal(frames_side_by_side(stacked, 4)[:, :, 7:14], stacked[..., 1:2])
    colored = np.concatenate([stacked[..., :3], stacked[..., 1:]], axis=-1)
    np.testing.assert_array_equal(newest_frames(colored, 2), stacked[..., 1:])


def test_frames_of_other_numbers_of_channels(stacked: np.ndarray) -> None:
    assert newest_frames(stacked).shape[-1] == 3
    assert newest_frames(stacked[..., :2]).shape[-1] == 1


def test_a_stack_must_fit(stacked: np.ndarray) -> None:
    with pytest.raises(OptionError, match="4 channels cannot be split into 3"):
        newest_frames(stacked, 3)


def test_filmstrips_show_the_same_columns_of_each_frame() -> None:
    frames = np.random.default_rng(0).integers(0, 256, (9, 64, 64, 3), np.uint8)
    strip = filmstrips(frames, (42 / 64, 44 / 64))
    assert strip.shape == (64, 18, 3)
    np.testing.assert_array_equal(strip[:, 6:8], frames[3, :, 42:44])


def test_sizes_of_film_strips() -> None:
    assert filmstrips(np.zeros((3, 7, 7, 4), np.uint8), (42 / 64, 44 / 64)).shape == (7, 3, 4)
    assert filmstrips(np.zeros((3, 512, 512, 3), np.uint8), (42 / 64, 44 / 64)).shape == (128, 12, 3)


@pytest.mark.parametrize("scrub_range", [(0.5, 0.4), (0.5, 0.5), (-0.1, 0.5), (0.9, 1.1)])
def test_invalid_ranges(scrub_range: tuple[float, float]) -> None:
    with pytest.raises(OptionError, match="scrub_range="):
        filmstrips(np.zeros((1, 8, 8, 3), np.uint8), scrub_range)
