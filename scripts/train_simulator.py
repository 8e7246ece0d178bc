"""Train a simulator of an included agent, and ship it: record, fit, measure, write `models/NAME-simulator.safetensors`.

    nohup python -m scripts.train_simulator train coinrun-gru out/coinrun-gru-simulator > simulator.log 2>&1 &
    python -m scripts.train_simulator ship coinrun-gru out/coinrun-gru-simulator

`train` first records two sets of episodes with noise in the actions: one to learn from, and one to measure the quality.
Training that was interrupted, even by a kill, is resumed by the same command. The command does nothing once training is
finished. `ship` writes the simulator in half precision, with its quality in the metadata and in the agent's card. It
refuses simulators of more than 12 MB.
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import rl_clarity
from rl_clarity.base.errors import OutputError
from rl_clarity.base.files import UNFINISHED
from rl_clarity.recordings.recording import Recording
from rl_clarity.world_models.files import load_simulator, save_simulator
from rl_clarity.world_models.fitting import SIMULATOR
from rl_clarity.world_models.options import FitOptions
from rl_clarity.world_models.report import fit_and_measure
from scripts import make_model_card

MODELS = Path(__file__).resolve().parents[1] / "models"
MAX_BYTES = 12_000_000
ACTION_NOISE = 0.1
EPISODES, CHECKED_EPISODES = 2000, 100
"""Numbers of episodes for fitting and for measuring."""

OPTIONS = ("size", "steps", "batch_size", "horizon", "kl", "learning_rate", "precision")
"""Options of `fit_simulator` that can be set on the command line."""


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    actions = parser.add_subparsers(dest="action", required=True)
    train = actions.add_parser("train", help="record, fit and measure, or resume")
    train.add_argument("--episodes", type=int, default=EPISODES)
    for option in OPTIONS:
        default = getattr(FitOptions, option)
        train.add_argument(f"--{option.replace('_', '-')}", type=type(default), default=default)
    ship = actions.add_parser("ship", help="write the simulator to models/")
    ship.add_argument("--models", type=Path, default=MODELS)
    ship.add_argument("--note", default="", help="text for the card: what was tried")
    for action in (train, ship):
        action.add_argument("name", help="name of an included agent, or path of a checkpoint")
        action.add_argument("directory", type=Path)
    options = parser.parse_args(arguments)
    name = options.name if Path(options.name).exists() else f"models:{options.name}"
    if options.action == "train":
        fit = {option: getattr(options, option) for option in OPTIONS}
        print(train_simulator(name, options.directory, options.episodes, **fit))
    else:
        target = ship_simulator(name, options.directory, options.models)
        add_to_card(name, target, options.note)
        print(target)


def train_simulator(name: str, directory: Path, episodes: int, **fit: Any) -> Any:
    """Record missing episodes, fit or resume, and measure. Return the quality."""
    learned = recorded(name, directory / "recording", episodes, seed=1)
    checked = recorded(name, directory / "check-recording", min(CHECKED_EPISODES, episodes), seed=2)
    agent = rl_clarity.load_agent(name)
    return fit_and_measure(agent, learned.location, directory, checked.location, **fit)


def recorded(name: str, directory: Path, episodes: int, seed: int) -> Recording:
    """Return the recording in a directory, which is made if it does not exist, and made again if it is unfinished."""
    if not directory.exists():
        unfinished = directory.with_name(f".{directory.name}{UNFINISHED}")
        shutil.rmtree(unfinished, ignore_errors=True)
        rl_clarity.record(name, unfinished, episodes=episodes, seed=seed, action_noise=ACTION_NOISE)
        unfinished.rename(directory)
    return rl_clarity.open_recording(directory)


def ship_simulator(name: str, directory: Path, models: Path) -> Path:
    """Write the simulator in half precision. Raises OutputError if it is too large."""
    simulator = load_simulator(directory / SIMULATOR, rl_clarity.load_agent(name))
    target = models / f"{_stem(name)}-simulator.safetensors"
    save_simulator(simulator, target, half=True, overwrite=True)
    size = target.stat().st_size
    if size > MAX_BYTES:
        target.unlink()
        raise OutputError(f"the simulator has {size:,} bytes; at most {MAX_BYTES:,} are shipped: choose a smaller size")
    return target


def add_to_card(name: str, simulator: Path, note: str) -> None:
    """Add the facts about a shipped simulator to the card beside it, if there is one."""
    card = simulator.with_name(f"{_stem(name)}.json")
    if not card.exists():
        return
    shipped = load_simulator(simulator, rl_clarity.load_agent(name))
    facts = {
        "fit": shipped.metadata["fit"],
        "steps": shipped.metadata["fitted_steps"],
        "recorded_steps": shipped.metadata["recorded_steps"],
        "action_noise": ACTION_NOISE,
        "parameters": sum(int(np.prod(variable.shape)) for variable in shipped.world.variables.values()),
        "quality": shipped.metadata["quality"],
        "bytes": simulator.stat().st_size,
        "note": note,
    }
    card.write_text(json.dumps({**json.loads(card.read_text()), "simulator": facts}, indent=1) + "\n")
    make_model_card.main(["-", _stem(name), "--only-write", "--models", str(simulator.parent)])


def _stem(name: str) -> str:
    return Path(name.removeprefix("models:")).stem


if __name__ == "__main__":
    main()
