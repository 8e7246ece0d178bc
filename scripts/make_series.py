"""Train a series of checkpoints, and ship it: select and evaluate checkpoints, and write them with a card to `models/`.

    python -m scripts.make_series train out/breakout-series
    python -m scripts.make_series ship out/breakout-series breakout-series --machine "2 cores of ..."
    python -m scripts.make_series check breakout-series out/breakout-check

Interrupted training is resumed by the same command. A shipped series is a folder of checkpoints in half precision, at
most 8 MB in total, with `progress.csv` and `series.json`, the facts of the card `models/NAME.md`. `check` adds to the
card what `rl-clarity check` finds about the last checkpoint; the page of the checks is written to the directory.
"""

from __future__ import annotations

import argparse
import csv
import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import rl_clarity
from rl_clarity.commands.evaluate import AGENT, RANDOM, evaluate, summary
from rl_clarity.formats import read
from rl_clarity.ppo.logs import read_csv
from scripts.cards import (
    LICENSE,
    check_facts,
    check_lines,
    command,
    curve_line,
    evaluation_cells,
    game_text,
    network_text,
    rounded,
    table_line,
)
from scripts.curve import curve
from scripts.make_model_card import MODELS, SEED, trained_timesteps, write_half_precision

MAX_BYTES = 8_000_000
MIN_COUNT = 6
TRAINING: Mapping[str, Any] = {
    "env_kind": "atari",
    "env_id": "BreakoutNoFrameskip-v4",
    "frame_stack": 4,
    "reward_processing": "clip",
    "num_envs": 32,
    "num_steps": 128,
    "num_minibatches": 8,
    "ppo_epochs": 3,
    "gamma": 0.99,
    "lambda_": 0.95,
    "learning_rate": 5e-4,
    "entropy_coeff": 0.01,
    "cnn": "impala",
    "stack_channels": "8_16_16",
    "emb_size": 128,
    "precision": "bfloat16",
    "timesteps_per_proc": 245_760,
    "save_interval": 10,
    "save_all": True,
    "tensorboard": False,
}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    actions = parser.add_subparsers(dest="action", required=True)
    train = actions.add_parser("train", help="train, or resume training")
    train.add_argument("save_dir", type=Path)
    ship = actions.add_parser("ship", help="select checkpoints, evaluate them, and write folder and card")
    ship.add_argument("save_dir", type=Path)
    ship.add_argument("name")
    ship.add_argument("--machine", default="this machine", help="description of the machine that trained it")
    ship.add_argument("--count", type=int, default=8, help=f"number of checkpoints, at least {MIN_COUNT}")
    ship.add_argument("--episodes", type=int, default=100, help="number of games for each checkpoint's mean return")
    ship.add_argument("--models", type=Path, default=MODELS)
    check = actions.add_parser("check", help="check saliency methods on the last checkpoint, for the card")
    check.add_argument("name")
    check.add_argument("page", type=Path, help="directory of the page")
    check.add_argument("--models", type=Path, default=MODELS)
    options = parser.parse_args(arguments)
    if options.action == "train":
        rl_clarity.train(options.save_dir, seed=SEED, **TRAINING)
    elif options.action == "check":
        check_series(options.models, options.name, options.page)
    else:
        ship_series(options.save_dir, options.models, options.name, options.count, options.episodes, options.machine)


def ship_series(save_dir: Path, models: Path, name: str, count: int, episodes: int, machine: str) -> None:
    """Write the folder, facts, learning curve and card of a series. An existing folder of that name is replaced."""
    chosen = select(save_dir, count)
    folder = models / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    rows = read_csv(save_dir / "progress.csv")
    last = trained_timesteps(chosen[-1])
    rows = [row for row in rows if int(row["timesteps"]) <= last]
    with (folder / "progress.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, ["timesteps", "mean_return"], extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    checkpoints = []
    for path in chosen:
        target = folder / path.name
        write_half_precision(path, target)
        checkpoints.append(evaluate_checkpoint(target, episodes, random=path == chosen[-1]))
    size = sum(path.stat().st_size for path in folder.glob("*.jd"))
    if size > MAX_BYTES:
        raise SystemExit(
            f"{count} checkpoints take {size} bytes; at most {MAX_BYTES} are allowed: choose fewer with --count"
        )
    facts = {
        "args": dict(read(chosen[-1]).metadata),
        "bytes": size,
        "checkpoints": checkpoints,
        "machine": machine,
        "seconds": float(rows[-1]["seconds"]),
    }
    write_facts(models, name, facts)
    (models / f"{name}.svg").write_text(
        curve(
            [checkpoint["timesteps"] for checkpoint in checkpoints],
            [checkpoint["mean"] for checkpoint in checkpoints],
            reference=checkpoints[-1]["random"]["mean"],
            shipped=last,
            what=_returns(checkpoints),
        )
    )


def check_series(models: Path, name: str, page: Path) -> None:
    """Add the results of the sanity checks of the last checkpoint to the card."""
    facts = json.loads((models / name / "series.json").read_text())
    last = facts["checkpoints"][-1]["name"]
    report = rl_clarity.check(models / name / f"{last}.jd", page, seed=SEED, load={"temp_files": True})
    write_facts(models, name, facts | {"checks": {**check_facts(report), "note": ""}})


def write_facts(models: Path, name: str, facts: Mapping[str, Any]) -> None:
    """Write the facts of a series and its card."""
    (models / name / "series.json").write_text(json.dumps(facts, indent=1) + "\n")
    (models / f"{name}.md").write_text(card(name, facts))


def select(save_dir: Path, count: int) -> list[Path]:
    """Return evenly spaced checkpoints of a training, including the first and the last."""
    kept = sorted(save_dir.glob("checkpoint-*.jd"), key=trained_timesteps)
    if not MIN_COUNT <= count <= len(kept):
        raise SystemExit(
            f"{save_dir} has {len(kept)} checkpoints; --count {count} must be from {MIN_COUNT} to this number"
        )
    return [kept[round(index * (len(kept) - 1) / (count - 1))] for index in range(count)]


def evaluate_checkpoint(path: Path, episodes: int, *, random: bool) -> dict[str, Any]:
    """Return the card's entry for a checkpoint. With `random`, it includes the return of a random policy."""
    # naming the environment's module is safe, because the caller trained the checkpoint
    own = read(path).metadata.get("untrusted")
    evaluations = evaluate(path, metadata=own, episodes=episodes, seed=SEED, unseen=False, random=random)
    entry = {"name": path.stem, "timesteps": trained_timesteps(path), **rounded(summary(evaluations[AGENT]))}
    return entry | ({"random": rounded(summary(evaluations[RANDOM]))} if random else {})


def _returns(checkpoints: Sequence[Mapping[str, Any]]) -> str:
    return f"mean return of {checkpoints[0]['episodes']} games with each checkpoint"


def card(name: str, facts: Mapping[str, Any]) -> str:
    """Return the card of a series."""
    args, checkpoints = facts["args"], facts["checkpoints"]
    random = {"name": "random policy", **checkpoints[-1]["random"]}
    lines = [
        f"# {name}",
        "",
        f"{len(checkpoints)} checkpoints of one training run: a network ({network_text(args)}) that learns "
        f"{game_text(args)} by `rl_clarity.train`. `rl-clarity demo --page training` shows them.",
        "",
        "| checkpoint | steps | mean return | standard error | 95 % interval | games |",
        "|---|---|---|---|---|---|",
        *(
            table_line(one["name"], str(one.get("timesteps", "")), *evaluation_cells(one))
            for one in [*checkpoints, random]
        ),
        "",
        "Games are played to their end; actions are sampled from the policy. To compare the checkpoints:",
        "",
        "```sh",
        f"rl-clarity compare models:{name} out/{name}",
        "```",
        "",
        curve_line(name, _returns(checkpoints)),
        "",
        "## Training",
        "",
        "```python",
        command(args, name, checkpoints[-1]["timesteps"]),
        "```",
        "",
        f"`make train-series` trains and selects it. {checkpoints[-1]['timesteps']:,} environment steps took "
        f"{facts['seconds'] / 3600:.1f} hours on {facts['machine']}. The checkpoints take {facts['bytes']:,} bytes, "
        "with their parameters in half precision.",
        "",
        *check_lines(f"{name}/{checkpoints[-1]['name']}", facts.get("checks")),
        LICENSE,
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
