"""Train the agent `coinrun`: a network imitates a searcher that looks ahead in the game, and then learns from rewards.

    python -m scripts.train_coinrun WORK

The same command resumes training that was stopped in any way. Two processes run in parallel, each on one core: one
collects labeled frames in WORK/search and WORK/network, the other trains on these files.

Training begins with `scripts/coinrun/start.npz`, a network that imitation made from the included agent `coinrun-7.9`.
With `--batches 0`, PPO begins with this network at once; with `--untrained`, imitation begins with random weights.

1. Search: the searcher plays on the training levels (`scripts/coinrun/search.py`).
2. Imitation: the network learns the searcher's actions, and its value learns the returns of its own episodes.
3. DAgger: the network plays, and the searcher shows what to do in states that the network reaches.
4. PPO: policy and value learn from rewards.
5. The value is fitted to the agent's play (`scripts/coinrun/value.py`). The agent is WORK/ppo/agent.jd.

`progress.log` has a line per round, with the share of 200 unseen levels that the network completes (500 at the end).
"""

from __future__ import annotations

import argparse
import ctypes
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import torch

from rl_clarity.ppo.trainer import CHECKPOINT
from scripts.coinrun.collect import network_shard, search_shard
from scripts.coinrun.data import NO_ACTION, Frames, log, next_number, write_shard
from scripts.coinrun.evaluate import TIME_LIMIT, play_unseen
from scripts.coinrun.imitate import DISCOUNT, FIRST, ROUND, Imitation
from scripts.coinrun.network import Clear, load
from scripts.coinrun.reinforce import OPTIONS, REWARD, advance, begin, finished_updates
from scripts.coinrun.search import LEVELS
from scripts.coinrun.value import write_agent

FIRST_SHARDS, SEARCH_SHARDS = 3, 12
"""Number of files that the searcher writes before training begins, and before the network plays."""
BATCHES = 16_600
"""Batches of imitation, two hours of two cores, until PPO begins. The last 2,600 did not help any more: 93.8 % of 500
unseen levels are completed at 14,000, and 93.0 % at 16,600.
"""
EVALUATE_EVERY = 5
"""Number of rounds between two evaluations."""
EPISODES, LAST_EPISODES = 200, 500
ROUND_LIMIT = 300
"""Steps after which an episode counts as failed, except in the last evaluation."""
UPDATES, UPDATES_PER_ROUND = 240, 20
"""Number of updates of PPO, of 8192 steps each (45 minutes of two cores), and of updates between two evaluations."""
AGENT = "agent.jd"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("--batches", type=int, default=BATCHES, help="batches of imitation, until PPO begins")
    parser.add_argument("--updates", type=int, default=UPDATES, help="updates of PPO; with 0, the agent only imitates")
    parser.add_argument("--levels", type=int, default=LEVELS, help="number of training levels")
    parser.add_argument("--untrained", action="store_true", help="begin with random weights, not with start.npz")
    parser.add_argument("--collect", action="store_true", help="only collect frames; the other process starts this")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.collect:
        collect(options.work, options.levels)
    else:
        train(options.work, options)


def collect(work: Path, levels: int) -> None:
    """Write files of labeled frames until the parent process ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG: end when the parent is killed
    while os.getppid() != 1:
        start = time.process_time()
        network = work / "network.npz"
        searches = next_number(work / "search") < SEARCH_SHARDS or not network.exists()
        folder = work / ("search" if searches else "network")
        number = next_number(folder)
        if searches:
            arrays = search_shard(1000 + number, levels)
        else:
            arrays = network_shard(load(network), 100_000 + number, levels)
        write_shard(folder, number, arrays)
        with (work / "collect.log").open("a") as file:
            file.write(
                f"{time.strftime('%Y-%m-%d %H:%M:%S')} {folder.name} {number}: {len(arrays['frames'])} frames, "
                f"{(arrays['actions'] != NO_ACTION).sum()} labels, {time.process_time() - start:.0f} s\n"
            )


def train(work: Path, options: argparse.Namespace) -> None:
    """Train by imitation on the files in the folder, while another process writes them, then by PPO."""
    work.mkdir(parents=True, exist_ok=True)
    levels, updates = options.levels, options.updates
    imitation = Imitation(work, first=None if options.untrained else FIRST)
    if imitation.batches < options.batches:
        imitate(work, imitation, options.batches, levels)
    begin(work / "ppo", imitation.player.parameters_by_name(), levels)
    torch.set_num_threads(2)
    while (finished := finished_updates(work / "ppo")) < updates:
        start = time.process_time()
        finished = min(updates, finished - finished % UPDATES_PER_ROUND + UPDATES_PER_ROUND)
        network = advance(work / "ppo", finished, updates, levels)
        facts = {"updates": finished, "cpu_seconds": round(time.process_time() - start)}
        log(work, stage="ppo", **facts, **evaluation(network, EPISODES, discount=OPTIONS["gamma"], reward=REWARD))
    network = write_agent(work / "ppo" / CHECKPOINT, work / "ppo" / AGENT, levels)
    log(work, stage="agent", updates=updates, **evaluation(network, LAST_EPISODES, reward=REWARD))


def imitate(work: Path, imitation: Imitation, batches: int, levels: int) -> None:
    """Train by imitation, and restart the collecting process whenever it ends."""
    command = [sys.executable, "-m", "scripts.train_coinrun", str(work), "--collect", "--levels", str(levels)]
    collector = subprocess.Popen(command)
    frames = Frames()
    while imitation.batches < batches:
        if collector.poll() is not None:
            collector = subprocess.Popen(command)
        if next_number(work / "search") < FIRST_SHARDS:
            time.sleep(5)
            continue
        frames.refresh([work / "search", work / "network"])
        losses = imitation.train(frames)
        imitation.save()
        facts = {"batches": imitation.batches, "frames": len(frames), "cpu_seconds": round(imitation.cpu_seconds)}
        log(work, stage="imitation", **facts, **{name: round(value, 4) for name, value in losses.items()})
        if imitation.batches // ROUND % EVALUATE_EVERY == 0:
            facts = {"batches": imitation.batches}
            log(work, stage="evaluation", **facts, **evaluation(imitation.player, EPISODES))
    collector.terminate()


def evaluation(network: Clear, episodes: int, *, discount: float = DISCOUNT, reward: float = 1.0) -> dict[str, float]:
    """Return how well a network plays unseen levels, with sampled and with greedy actions.

    `discount`, and the `reward` for completing a level, are those of the network's values.
    """
    limit = TIME_LIMIT if episodes == LAST_EPISODES else ROUND_LIMIT
    played = play_unseen(network, episodes, discount=discount, reward=reward, limit=limit)
    greedy = play_unseen(network, episodes, discount=discount, reward=reward, greedy=True, limit=limit)
    return {
        "sampled": round(played.completed, 3),
        "greedy": round(greedy.completed, 3),
        "steps": round(played.steps, 1),
        "explained_variance": round(played.explained_variance, 3),
    }


if __name__ == "__main__":
    main()
