"""The deletion test of saliency through time."""

from __future__ import annotations

import numpy as np
import pytest

from rl_clarity.agents.keras_agent import KerasAgent
from rl_clarity.base.errors import OptionError
from rl_clarity.world_models.deletion import _block_sums, _mask, deletion_test
from rl_clarity.world_models.simulation import simulate
from rl_clarity.world_models.simulator import Simulator, new_world
from tests.world_models.conftest import SMALLEST
from tests.world_models.dots import UNITS


def corner_agent() -> KerasAgent:
    """An agent that sees the upper left corner alone, and remembers it."""
    import keras
    from keras import ops

    observations, state = keras.Input((8, 8, 3), name="observations"), keras.Input((UNITS,), name="state")
    corner = ops.mean(observations[:, :2, :2] / 255, axis=(1, 2, 3))[:, None]
    after = 0.9 * state + corner
    logits, value = ops.concatenate([corner, 0 * corner, -corner], axis=1), ops.mean(after, axis=1, keepdims=True)
    outputs = [keras.layers.Identity(name=name)(x) for name, x in (("policy_logits", logits), ("values", value))]
    return KerasAgent(keras.Model([observations, state], [*outputs, after]), initial_state=[np.ones(UNITS, np.float32)])


def test_the_deletion_test_confirms_saliency_of_the_region_that_matters() -> None:
    agent = corner_agent()
    simulator = Simulator(agent, new_world(agent, SMALLEST, 1))
    result = deletion_test(simulator, 12, "value", at=3, block=2, fractions=(0.05, 0.1), noise_copies=2)
    assert result.interval[0] > 0
    assert (result.by_saliency > 2 * result.random).all()
    # The corner is 4 of the 64 blocks of 4 frames: nothing is left to remove.
    assert result.by_saliency[1] == pytest.approx(result.by_saliency[0], rel=0.35)


def test_frames_that_the_simulated_agent_sees_can_be_replaced(simulator: Simulator) -> None:
    plain = simulate(simulator, 2, 4)
    same = simulate(simulator, 2, 4, see=lambda step, frame: frame)
    np.testing.assert_array_equal(plain.frames, same.frames)
    later = simulate(simulator, 2, 4, see=lambda step, frame: frame * 0 if step == 2 else frame)
    for one, other in zip(plain.states, later.states, strict=True):
        np.testing.assert_array_equal(one[:, :3], other[:, :3])  # before it sees anything else
        assert np.abs(one[:, 3] - other[:, 3]).max() > 1e-3


def test_deletion_blocks_are_summed_and_masked() -> None:
    values = np.arange(2 * 3 * 5 * 4 * 1, dtype=float).reshape(2, 3, 5, 4, 1)
    sums = _block_sums(values, 2)
    assert sums.shape == (2, 3 * 3 * 2)
    assert sums[0, 1] == values[0, 0, :2, 2:].sum()
    mask = _mask(np.arange(18) == np.array([[1], [17]]), values.shape, 2)
    np.testing.assert_array_equal(np.argwhere(mask[0, ..., 0])[0], [0, 0, 2])
    assert mask.sum() == 4 + 2  # the last row of blocks is cut
    assert mask.shape == values.shape


@pytest.mark.parametrize("options", [{"block": 0}, {"fractions": (0.5, 2)}, {"fractions": ()}, {"at": -1}])
def test_invalid_options_of_the_deletion_test_are_refused(simulator: Simulator, options: dict[str, object]) -> None:
    with pytest.raises(OptionError, match=next(iter(options))):
        deletion_test(simulator, 2, **options)  # type: ignore[arg-type]
