"""Quantization of attribution to int8."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from rl_clarity.base.errors import ClarityError
from rl_clarity.visualization.quantization import SMALLEST, dequantize, quantize, written_codes
from rl_clarity.visualization.rendering import render_attribution
from tests.golden_data import Golden
from tests.quantization import quantization_error

frames = arrays(np.float32, (3, 2, 2, 4), elements=st.floats(-(2.0**60), 2.0**60, width=32))


@given(frames)
def test_the_quantization_error_stays_within_its_bound(values: np.ndarray) -> None:
    codes, scales = quantize(values)
    assert codes.dtype == np.int8
    error = np.abs(dequantize(codes, scales) - values)
    assert (error <= quantization_error(values) + 1e-37).all()
    assert np.isin(np.abs(codes), written_codes()).all()


@given(arrays(np.int8, (2, 3, 3, 2), elements=st.integers(-127, 127)))
def test_quantization_codes_survive_a_round_trip(codes: np.ndarray) -> None:
    codes = np.where(np.isin(np.abs(codes), written_codes()), codes, 0).astype(np.int8)
    codes[:, 0, 0, 0] = 127
    values = dequantize(codes, np.array([0.5, 2e-6], np.float32))
    again, scales = quantize(values)
    np.testing.assert_array_equal(again, codes)
    np.testing.assert_allclose(scales, [0.5, 2e-6], rtol=1e-6)


def test_quantization_keeps_zeros_exactly() -> None:
    codes, scales = quantize(np.zeros((2, 1, 1, 3)))
    assert not codes.any()
    assert not dequantize(codes, scales).any()


def test_images_of_quantized_attribution_are_almost_equal(golden: Golden) -> None:
    channels, residual = golden.expected["render.channels"], golden.expected["render.residual"]
    decoded = dequantize(*quantize(np.concatenate([channels, residual], axis=-1)))
    scale = float(golden.expected["render.scale"])
    exact = premultiplied(render_attribution(channels, residual, channel="all", scale=scale))
    coded = premultiplied(render_attribution(decoded[..., :8], decoded[..., 8:], channel="all", scale=scale))
    assert np.abs(exact - coded).max() <= 3 / 255
    assert np.abs(exact - coded).mean() <= 0.3 / 255


@pytest.mark.parametrize("largest", [(SMALLEST / 127) ** 2, 0.1])
def test_quantization_rounds_small_values_without_bias(largest: float) -> None:
    values = np.random.default_rng(0).uniform(0, largest, (1, 64, 64, 1))
    values[0, 0, 0] = 1
    sums = dequantize(*quantize(values)).sum(), values.sum()
    assert sums[0] == pytest.approx(sums[1], rel=0.02)


def test_quantization_refuses_nan() -> None:
    values = np.zeros((3, 1, 1, 2))
    values[2, 0, 0, 1] = np.nan
    with pytest.raises(ClarityError, match="frame 2"):
        quantize(values)


def premultiplied(images: np.ndarray) -> np.ndarray:
    return np.minimum(images[..., :3], 1) * images[..., 3:]
