"""Ship an agent: copy a checkpoint to `models/`, let it play, write its card, its curve and its line in the index.

    python -m scripts.make_model_card SAVE_DIR NAME --machine "2 cores of ..." [--checkpoint checkpoint-40.jd]

The card's facts are in `NAME.json`, from which card and index can be written again (`--only-write`).
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rl_clarity.checkpoints import build_agent, read, safe_joblib
from rl_clarity.environments import EnvironmentSpec
from rl_clarity.environments.metadata import spec_from_metadata
from rl_clarity.sampling.evaluation import Evaluation, evaluate
from rl_clarity.sampling.players import random_policy_agent
from rl_clarity.training.options import TrainOptions
from rl_clarity.training.progress import read_csv
from scripts.curve import curve

MODELS = Path(__file__).resolve().parents[1] / "models"
MOST_BYTES = 4_000_000
SEED = 1_000_003
"""Of evaluation: apart from the seeds that anyone trains with."""
TRAINING, UNSEEN, RANDOM = "training levels", "unseen levels", "random policy, training levels"
INDEX = ("<!-- index: written by scripts/make_model_card.py -->", "<!-- end of index -->")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("save_dir", type=Path)
    parser.add_argument("name")
    parser.add_argument("--machine", default="", help="what it was trained on, in general words")
    parser.add_argument("--note", default="", help="a sentence or two for the card")
    parser.add_argument("--checkpoint", default="checkpoint.jd")
    parser.add_argument("--episodes", type=int, default=200)
    parser.add_argument("--models", type=Path, default=MODELS)
    parser.add_argument("--only-write", action="store_true", help="play nothing, use the facts that are there")
    given = parser.parse_args(arguments)
    facts_path = given.models / f"{given.name}.json"
    if not given.only_write:
        checkpoint = given.models / f"{given.name}.jd"
        shutil.copyfile(given.save_dir / given.checkpoint, checkpoint)
        if checkpoint.stat().st_size > MOST_BYTES:
            raise SystemExit(
                f"{checkpoint} has {checkpoint.stat().st_size} bytes, more than the {MOST_BYTES} that may ship"
            )
        rows = read_csv(given.save_dir / "progress.csv")
        facts = play_and_tell(checkpoint, rows, given.episodes)
        facts |= {"machine": given.machine, "note": given.note}
        (given.models / f"{given.name}.svg").write_text(
            curve(
                [int(row["timesteps"]) for row in rows],
                [float(row["mean_return"]) for row in rows],
                reference=facts["returns"][RANDOM]["mean"],
                shipped=facts["timesteps"],
            )
        )
        facts_path.write_text(json.dumps(facts, indent=1) + "\n")
    (given.models / f"{given.name}.md").write_text(card(given.name, json.loads(facts_path.read_text())))
    write_index(given.models)


def play_and_tell(checkpoint: Path, rows: Sequence[Mapping[str, str]], episodes: int) -> dict[str, Any]:
    """What the card says of the agent."""
    content = read(checkpoint)
    agent = build_agent(content)
    spec = spec_from_metadata(content.metadata)
    specs = {TRAINING: spec}
    if spec.kind == "procgen" and spec.options.get("num_levels"):
        specs[UNSEEN] = unseen_levels(spec)
    returns = {name: told(evaluate(agent, levels, episodes, SEED)) for name, levels in specs.items()}
    random = random_policy_agent(agent.num_actions)
    returns[RANDOM] = told(evaluate(random, spec, episodes, SEED))
    timesteps = int(safe_joblib.load(checkpoint)["extra"]["timesteps"])
    trained = [row for row in rows if int(row["timesteps"]) <= timesteps]
    return {
        "args": dict(content.metadata),
        "bytes": checkpoint.stat().st_size,
        "parameters": int(sum(array.size for array in content.parameters.values())),
        "returns": returns,
        "seconds": float(trained[-1]["seconds"]),
        "sha256": content.sha256,
        "timesteps": timesteps,
    }


def unseen_levels(spec: EnvironmentSpec) -> EnvironmentSpec:
    """As many levels again, after those of training."""
    start, count = int(spec.options.get("start_level") or 0), int(spec.options["num_levels"])
    return dataclasses.replace(spec, options={**spec.options, "start_level": start + count})


def told(evaluation: Evaluation) -> dict[str, float]:
    return {
        "episodes": len(evaluation.returns),
        "mean": round(evaluation.mean, 3),
        "standard_error": round(evaluation.standard_error, 3),
        "mean_length": round(float(evaluation.lengths.mean()), 1),
    }


def card(name: str, facts: Mapping[str, Any]) -> str:
    args = facts["args"]
    lines = [
        f"# {name}",
        "",
        f"A `{args['cnn']}` network of {facts['parameters']:,} parameters that plays {_game(args)}, made by "
        f"`rl_clarity.train`. {facts['note']}".rstrip(),
        "",
        "| who plays | mean return | standard error | episodes | mean length |",
        "|---|---|---|---|---|",
        *(
            f"| {who} | {r['mean']:.2f} | {r['standard_error']:.2f} | {r['episodes']} | {r['mean_length']:.0f} |"
            for who, r in facts["returns"].items()
        ),
        "",
        "How many episodes each environment plays is settled beforehand, and all are played to their end; actions are",
        "drawn from the policy.",
        "",
        f"![Mean return of the last 100 episodes against environment steps]({name}.svg)",
        "",
        "## How it was made",
        "",
        "```python",
        command(args),
        "```",
        "",
        f"{facts['timesteps']:,} environment steps in {facts['seconds'] / 3600:.1f} hours on {facts['machine']}.",
        "",
        f"SHA-256 of `{name}.jd` ({facts['bytes']:,} bytes): `{facts['sha256']}`",
        "",
        "Licence: MIT, as the project.",
    ]
    return "\n".join(lines) + "\n"


def command(args: Mapping[str, Any]) -> str:
    """The call of `rl_clarity.train` that has these arguments, less what is the default anyway."""
    defaults = {field.name: field.default for field in dataclasses.fields(TrainOptions)}
    defaults["lambda"] = defaults.pop("lambda_")
    changed = {key: value for key, value in args.items() if key in defaults and value != defaults[key]}
    extra = "".join(f"    {key}={value!r},\n" for key, value in changed.items() if key != "lambda")
    if "lambda" in changed:
        extra += f"    **{{'lambda': {changed['lambda']!r}}},\n"
    return f"rl_clarity.train(\n    save_dir,\n{extra})"


def write_index(models: Path) -> None:
    """The table in `README.md`, of all cards whose facts are there."""
    lines = [
        "| agent | plays | network | mean return | unseen levels | random policy | steps |",
        "|---|---|---|---|---|---|---|",
    ]
    for path in sorted(models.glob("*.json")):
        facts = json.loads(path.read_text())
        returns = facts["returns"]
        cells = [
            f"[{path.stem}]({path.stem}.md)",
            _game(facts["args"]),
            f"`{facts['args']['cnn']}`",
            *(_with_error(returns.get(who)) for who in ("training levels", "unseen levels", RANDOM)),
            f"{facts['timesteps'] / 1e6:.2f} million",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    readme = models / "README.md"
    text = readme.read_text()
    before, _, rest = text.partition(INDEX[0])
    after = rest.partition(INDEX[1])[2]
    readme.write_text(f"{before}{INDEX[0]}\n\n" + "\n".join(lines) + f"\n\n{INDEX[1]}{after}")


def _with_error(result: Mapping[str, float] | None) -> str:
    return "" if result is None else f"{result['mean']:.2f} ± {result['standard_error']:.2f}"


def _game(args: Mapping[str, Any]) -> str:
    name = args.get("env_name") or args.get("env_id")
    mode = args.get("distribution_mode")
    return f"{name} ({mode} levels)" if mode else str(name)


if __name__ == "__main__":
    main()
