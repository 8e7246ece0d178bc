"""Fit the value of a network whose policy is finished.

PPO's objective has a discount of 0.999, because with 0.98 it completes fewer levels: a policy is then faster and less
careful. A value with 0.999 is nearly the probability of completing the level, of which frames show little. So the value
that the agent has in the end, with a discount of 0.98, is a linear regression on the last hidden layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from rl_clarity.formats import baselines, safe_joblib
from rl_clarity.formats.safe_files import Budget
from scripts.coinrun.evaluate import Episodes, play
from scripts.coinrun.imitate import DISCOUNT
from scripts.coinrun.network import Clear
from scripts.coinrun.reinforce import REWARD
from scripts.coinrun.search import LEVELS

EPISODES, SEEDS = 500, (11, 12, 13, 14)
"""Episodes on training levels for each of the seeds."""
PENALTY = 10.0
"""Penalty of the squared coefficients. The explained variance is the same from 0.1 to 100."""


def fit_value(network: Clear, episodes: Sequence[Episodes]) -> None:
    """Replace the value of a network by a ridge regression of the returns of its episodes."""
    features = np.concatenate([rows for one in episodes for rows in one.features]).astype(float)
    returns = np.concatenate([one.returns(DISCOUNT, REWARD) for one in episodes])
    centered = features - features.mean(0)
    covariance = centered.T @ centered + PENALTY * np.eye(centered.shape[1])
    weights = np.linalg.solve(covariance, centered.T @ (returns - returns.mean()))
    _, head = network.heads
    with torch.no_grad():
        head.weight.copy_(torch.from_numpy(weights)[None])
        head.bias.fill_(float(returns.mean() - features.mean(0) @ weights))


def write_agent(checkpoint: Path, target: Path, levels: int = LEVELS) -> Clear:
    """Write a checkpoint of PPO with the value fitted to the agent's play. Return its network."""
    content = safe_joblib.load(checkpoint, Budget.for_file(checkpoint.stat().st_size))
    network = Clear()
    network.assign(content["params"])
    fit_value(network, [play(network, EPISODES, seed=seed, num_levels=levels) for seed in SEEDS])
    baselines.write(target, network.parameters_by_name(), {**content["args"], "gamma": DISCOUNT}, content["extra"])
    return network
