import numpy as np
import pytest

from rl_clarity.base.errors import ClarityError, OptionError
from rl_clarity.pages.chunks import decode_chunk, encode_chunk
from rl_clarity.pages.frames import STACK, frame_arrays, read_frame
from rl_clarity.pages.images import filmstrips, frames_side_by_side, newest_frames


@pytest.fixture
def stacked() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (5, 6, 7, 4), np.uint8)


def test_the_newest_frame_of_a_stack_is_the_last(stacked: np.ndarray) -> None:
    np.testing.assert_array_equal(newest_frames(stacked, 4), stacked[..., 3:])
    np.testing.assert_array_equal(frames_side_by_side(stacked, 4)[:, :, 7:14], stacked[..., 1:2])
    colored = np.concatenate([stacked[..., :3], stacked[..., 1:]], axis=-1)
    np.testing.assert_array_equal(newest_frames(colored, 2), stacked[..., 1:])


def test_frames_of_unusual_channel_counts_are_reduced_to_gray_or_rgb(stacked: np.ndarray) -> None:
    assert newest_frames(stacked).shape[-1] == 3
    assert newest_frames(stacked[..., :2]).shape[-1] == 1


def test_a_frame_stack_must_divide_the_number_of_channels(stacked: np.ndarray) -> None:
    with pytest.raises(OptionError, match="4 channels cannot be split into 3"):
        newest_frames(stacked, 3)


def test_filmstrips_show_the_same_columns_of_each_frame() -> None:
    frames = np.random.default_rng(0).integers(0, 256, (9, 64, 64, 3), np.uint8)
    strip = filmstrips(frames, (42 / 64, 44 / 64))
    assert strip.shape == (64, 18, 3)
    np.testing.assert_array_equal(strip[:, 6:8], frames[3, :, 42:44])


def test_filmstrips_have_the_expected_size() -> None:
    assert filmstrips(np.zeros((3, 7, 7, 4), np.uint8), (42 / 64, 44 / 64)).shape == (7, 3, 4)
    assert filmstrips(np.zeros((3, 512, 512, 3), np.uint8), (42 / 64, 44 / 64)).shape == (128, 12, 3)


@pytest.mark.parametrize("scrub_range", [(0.5, 0.4), (0.5, 0.5), (-0.1, 0.5), (0.9, 1.1)])
def test_invalid_filmstrip_ranges_are_refused(scrub_range: tuple[float, float]) -> None:
    with pytest.raises(OptionError, match="scrub_range="):
        filmstrips(np.zeros((1, 8, 8, 3), np.uint8), scrub_range)


@pytest.mark.parametrize(
    ("size", "names"),
    [(64, {"pixels", "stack_offsets", "stack_png"}), (105, {"offsets", "png", "stack_offsets", "stack_png"})],
)
def test_frames_are_stored_losslessly_as_pixels_or_png(size: int, names: set[str]) -> None:
    frames = np.random.default_rng(0).integers(0, 256, (5, size, size, 3), np.uint8)
    stacks = np.concatenate([frames, frames[:, :, ::-1], frames], axis=2)
    chunk = encode_chunk("1.js", frame_arrays(frames, stacks))
    arrays = decode_chunk(chunk)
    assert set(arrays) == names
    for index in range(5):
        np.testing.assert_array_equal(read_frame("1.js", arrays, index), frames[index])
        np.testing.assert_array_equal(read_frame("1.js", arrays, index, STACK), stacks[index])
    with pytest.raises(ClarityError, match=r"1\.js is damaged: it has no frame 5"):
        read_frame("1.js", arrays, 5)


@pytest.mark.parametrize("period", [1, 6])
def test_small_frames_are_compressed_to_what_changes_between_them(period: int) -> None:
    """Two frames with a background of noise are within deflate's window, and seven of each of their channels."""
    backgrounds = np.random.default_rng(0).integers(0, 256, (period, 64, 64, 3), np.uint8)
    frames = backgrounds[np.arange(64) % period]
    frames[:, 5, 7] = np.arange(64, dtype=np.uint8)[:, None]
    chunk = encode_chunk("1.js", frame_arrays(frames))
    np.testing.assert_array_equal(decode_chunk(chunk)["pixels"], frames)
    assert len(chunk.payload) < 1.5 * backgrounds.nbytes
