from __future__ import annotations

import pytest

from benchmarks.training import operations_per_step
from rl_clarity.formats.architectures import build

FIRST_LAYER = 64 * 64 * 7 * 7 * 3 * 16


@pytest.mark.parametrize("epochs", [0, 1, 3])
def test_a_forward_pass_of_clear_takes_57_million_multiply_adds(epochs: int) -> None:
    forward = operations_per_step(build("clear", (64, 64, 3), 15).model, 0)
    assert forward == pytest.approx(2 * 57.3e6, rel=0.01)
    # Learning: forward, kernels' gradients, and inputs' gradients but for the first layer's.
    expected = forward + epochs * (3 * forward - 2 * FIRST_LAYER)
    assert operations_per_step(build("clear", (64, 64, 3), 15).model, epochs) == pytest.approx(expected)
