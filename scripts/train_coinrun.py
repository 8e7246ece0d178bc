"""Train the agent `coinrun`: a searcher that sees the future plays, and a network learns from it, then from rewards.

    python -m scripts.train_coinrun WORK

The same command resumes training that was stopped in any way. Two processes work at once, each on one core: one
collects labeled frames in WORK/search and WORK/network, the other trains on what is there.

Training begins with `scripts/coinrun/start.npz`, which imitation made from the included agent `coinrun`.

1. Search: the searcher plays on the training levels (`scripts/coinrun/search.py`).
2. Imitation: the network learns the searcher's actions, and the returns of its own episodes as values.
3. DAgger: the network plays, and the searcher shows what to do in states that the network reaches.
4. PPO: policy and value learn from rewards. The agent is WORK/ppo/checkpoint.jd.

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

from scripts.coinrun.collect import network_shard, search_shard
from scripts.coinrun.data import NO_ACTION, Frames, log, next_number, write_shard
from scripts.coinrun.evaluate import TIME_LIMIT, play_unseen
from scripts.coinrun.imitate import DISCOUNT, ROUND, Imitation
from scripts.coinrun.network import Clear, load
from scripts.coinrun.reinforce import REWARD, advance, begin, finished_updates

FIRST_SHARDS, SEARCH_SHARDS = 3, 12
"""Files that the searcher plays before training begins, and before the network plays."""
BATCHES = 80_000
"""Batches of imitation: eleven million frames, six hours of one core."""
EVALUATE_EVERY = 5
"""Rounds between two evaluations."""
EPISODES, LAST_EPISODES = 200, 500
ROUND_LIMIT = 300
"""Steps after which an episode counts as failed, except in the last evaluation."""
UPDATES, UPDATES_PER_ROUND = 480, 20
"""Updates of PPO, of 8192 steps each (four hours of two cores), and those between two evaluations."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("--batches", type=int, default=BATCHES, help="batches of imitation, until PPO begins")
    parser.add_argument("--updates", type=int, default=UPDATES, help="updates of PPO")
    parser.add_argument("--collect", action="store_true", help="only collect frames; the other process starts this")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.collect:
        collect(options.work)
    else:
        train(options.work, options.batches, options.updates)


def collect(work: Path) -> None:
    """Write files of labeled frames until the parent process ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG: end when the parent is killed
    while os.getppid() != 1:
        start = time.process_time()
        network = work / "network.npz"
        searches = next_number(work / "search") < SEARCH_SHARDS or not network.exists()
        folder = work / ("search" if searches else "network")
        number = next_number(folder)
        arrays = search_shard(1000 + number) if searches else network_shard(load(network), 100_000 + number)
        write_shard(folder, number, arrays)
        with (work / "collect.log").open("a") as file:
            file.write(
                f"{time.strftime('%Y-%m-%d %H:%M:%S')} {folder.name} {number}: {len(arrays['frames'])} frames, "
                f"{(arrays['actions'] != NO_ACTION).sum()} labels, {time.process_time() - start:.0f} s\n"
            )


def train(work: Path, batches: int, updates: int) -> None:
    """Train by imitation on the files in the folder, while another process writes them, then by PPO."""
    work.mkdir(parents=True, exist_ok=True)
    imitation = Imitation(work)
    if imitation.batches < batches:
        imitate(work, imitation, batches)
    begin(work / "ppo", imitation.average.parameters_by_name())
    torch.set_num_threads(2)
    while (finished := finished_updates(work / "ppo")) < updates:
        start = time.process_time()
        finished = min(updates, finished - finished % UPDATES_PER_ROUND + UPDATES_PER_ROUND)
        network = advance(work / "ppo", finished)
        facts = {"updates": finished, "cpu_seconds": round(time.process_time() - start)}
        episodes = LAST_EPISODES if finished == updates else EPISODES
        log(work, stage="ppo", **facts, **evaluation(network, episodes, reward=REWARD))


def imitate(work: Path, imitation: Imitation, batches: int) -> None:
    """Train by imitation, and restart the collecting process whenever it ends."""
    command = [sys.executable, "-m", "scripts.train_coinrun", str(work), "--collect"]
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
            log(work, stage="evaluation", **facts, **evaluation(imitation.average, EPISODES))
    collector.terminate()


def evaluation(network: Clear, episodes: int, *, reward: float = 1.0) -> dict[str, float]:
    """Return how well a network plays unseen levels whose completion is worth a reward, sampled and greedily."""
    limit = TIME_LIMIT if episodes == LAST_EPISODES else ROUND_LIMIT
    played = play_unseen(network, episodes, discount=DISCOUNT, reward=reward, limit=limit)
    greedy = play_unseen(network, episodes, discount=DISCOUNT, reward=reward, greedy=True, limit=limit)
    return {
        "sampled": round(played.completed, 3),
        "greedy": round(greedy.completed, 3),
        "steps": round(played.steps, 1),
        "explained_variance": round(played.explained_variance, 3),
    }


if __name__ == "__main__":
    main()
