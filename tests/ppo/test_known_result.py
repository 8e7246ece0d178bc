"""PPO on a game whose learning curve is known from another implementation."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from benchmarks.catch import BEST_RETURN, KNOWN, RANDOM_RETURN, Catch, learning_curve, quarters

SEEDS, KNOWN_SEEDS = (11, 12, 13, 14), 8


def play(environment: Catch, policy: Callable[[Catch], Any]) -> float:
    """Play an episode; return its last reward."""
    environment.reset()
    while True:
        _, reward, ended, _, _ = environment.step(policy(environment))
        if ended:
            return reward


def test_catch_has_the_expected_best_and_random_return() -> None:
    environment = Catch()
    environment.reset(seed=0)
    rng = np.random.default_rng(0)
    random = [play(environment, lambda _: int(rng.integers(3))) for _ in range(4000)]
    assert np.mean(random) == pytest.approx(RANDOM_RETURN, abs=0.05)
    following = [play(environment, lambda e: int(np.sign(e._column - e._paddle)) + 1) for _ in range(50)]
    assert np.mean(following) == BEST_RETURN


@pytest.mark.slow
def test_ppo_learns_catch_as_fast_as_stable_baselines3() -> None:
    curves = [learning_curve(seed) for seed in SEEDS]
    assert np.mean([curve[0] for curve in curves]) == pytest.approx(RANDOM_RETURN, abs=0.2)
    for (mean, spread), (known, known_spread) in zip(quarters(curves), KNOWN, strict=True):
        error = math.sqrt(spread**2 / len(SEEDS) + known_spread**2 / KNOWN_SEEDS)
        assert abs(mean - known) < 3.5 * error + 0.05, (quarters(curves), KNOWN)
    assert quarters(curves)[-1][0] > 0.75  # of 1; a seed may stay below for long
