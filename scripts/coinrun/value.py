"""Fit the value of a network whose policy is finished.

PPO trains with a discount of 0.999, because with 0.98 the policy is faster but less careful, and completes fewer
levels. A value with a discount of 0.999 is nearly the probability of completing the level, about which frames show
little. So the agent's final value has a discount of 0.98, and is a linear regression on the last hidden layer.
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
"""Number of episodes on training levels for each seed, and the seeds."""
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
    """Fit the value of a PPO checkpoint to the agent's play, and write the result. Return its network."""
    content = safe_joblib.load(checkpoint, Budget.for_file(checkpoint.stat().st_size))
    network = Clear()
    network.assign(content["params"])
    fit_value(network, [play(network, EPISODES, seed=seed, num_levels=levels) for seed in SEEDS])
    baselines.write(target, network.parameters_by_name(), {**content["args"], "gamma": DISCOUNT}, content["extra"])
    return network
