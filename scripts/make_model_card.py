"""Ship an agent: copy a checkpoint to `models/`, evaluate it, and write its card, learning curve and index entry.

    python -m scripts.make_model_card SAVE_DIR NAME --machine "2 cores of ..." [--checkpoint checkpoint-40.jd]

SAVE_DIR is a directory that `rl_clarity.train` wrote. `NAME.json` contains the card's facts, from which `--only-write`
writes card and index again. `--ablate LAYER` adds what the agent achieves without each feature of a layer; a stopped
run is resumed by the same command:

    python -m scripts.make_model_card - coinrun --only-write --ablate 2b --ablation-dir out/coinrun-2b

`--checks DIRECTORY` adds the results of `rl-clarity check`, whose page is written to the directory, and resumed in the
same way. `--findings DIRECTORY` adds those of `rl-clarity debug`, and also writes them to `findings/NAME.json`.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.truth_page import HEADING, LINE
from rl_clarity.analyses.attribution.baselines import DEFAULT_BASELINE
from rl_clarity.analyses.debugging.findings import REPORT
from rl_clarity.commands.ablate import AblationReport, ablate, ablated_features
from rl_clarity.commands.check import check
from rl_clarity.commands.debug import debug
from rl_clarity.commands.evaluate import AGENT, evaluate, summary
from rl_clarity.commands.evaluate import RANDOM as RANDOM_POLICY
from rl_clarity.commands.evaluate import UNSEEN as UNSEEN_LEVELS
from rl_clarity.formats import baselines, read, safe_joblib
from rl_clarity.formats.safe_files import Budget
from rl_clarity.ppo.logs import read_csv
from scripts.cards import (
    LICENSE,
    check_facts,
    check_lines,
    command,
    curve_line,
    evaluation_cells,
    findings_lines,
    game_text,
    network_text,
    rounded,
    signed_interval,
    simulator_lines,
    table_line,
)
from scripts.curve import LAST_EPISODES, curve

MODELS = Path(__file__).resolve().parents[1] / "models"
MAX_BYTES = 4_000_000
SEED = 0
"""Default seed of `rl-clarity evaluate`, so that this command repeats the evaluation on the card."""
TRAINING, UNSEEN, RANDOM = "training levels", "unseen levels", "random policy, training levels"
LABELS = {AGENT: TRAINING, UNSEEN_LEVELS: UNSEEN, RANDOM_POLICY: RANDOM}
IGNORED = ("timesteps_per_proc", "save_interval", "save_all", "tensorboard", "training_step")
"""Options that do not change how the agent is trained."""
FEATURES, ABLATED_EPISODES = 8, 400
SIGNIFICANT = 0.05
"""Adjusted p-value below which the card calls a difference significant."""
FINDINGS = "findings"
"""Folder with the findings for each agent, for `rl-clarity debug --expect`."""
INDEX = ("<!-- index: written by scripts/make_model_card.py -->", "<!-- end of index -->")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("save_dir", type=Path)
    parser.add_argument("name")
    parser.add_argument("--machine", default="", help="description of the machine that trained it")
    parser.add_argument("--note", default="", help="text for the card")
    parser.add_argument("--training", type=Path, help="file with a text about the training, if a script did it")
    parser.add_argument(
        "--curve", default=LAST_EPISODES, metavar="TEXT", help="description of the returns in progress.csv"
    )
    parser.add_argument("--checkpoint", default="checkpoint.jd")
    parser.add_argument("--episodes", type=int, default=500)
    parser.add_argument("--models", type=Path, default=MODELS)
    parser.add_argument("--only-write", action="store_true", help="only write card and index, from the existing facts")
    parser.add_argument("--ablate", metavar="LAYER", help="play without each feature of this layer")
    parser.add_argument(
        "--ablation-dir", type=Path, default=Path("out/ablation"), help="directory of the ablation page"
    )
    parser.add_argument("--ablation-episodes", type=int, default=ABLATED_EPISODES)
    parser.add_argument(
        "--ablation-note", default="", help="text for the card: why this layer was chosen, and what the results show"
    )
    parser.add_argument("--checks", type=Path, help="check saliency methods, and write the page to this directory")
    parser.add_argument("--findings", type=Path, help="test why the agent fails, and write the page to this directory")
    parser.add_argument("--checks-note", default="", help="text for the card: what the checks show")
    options = parser.parse_args(arguments)
    facts_path = options.models / f"{options.name}.json"
    if not options.only_write:
        rows = read_csv(options.save_dir / "progress.csv")
        with tempfile.TemporaryDirectory() as folder:
            shipped = Path(folder) / f"{options.name}.jd"
            half_precision = ship(options.save_dir / options.checkpoint, shipped)
            facts = evaluate_agent(shipped, rows, options.episodes)
            facts |= {"machine": options.machine, "note": options.note, "stages": stages(options.save_dir, facts)}
            facts["half_precision"] = half_precision
            facts["curve"] = options.curve
            facts["training"] = options.training.read_text().strip() if options.training else None
            shutil.copyfile(shipped, options.models / shipped.name)
        (options.models / f"{options.name}.svg").write_text(
            curve(
                [int(row["timesteps"]) for row in rows],
                [float(row["mean_return"]) for row in rows],
                reference=facts["returns"][RANDOM]["mean"],
                shipped=facts["timesteps"],
                what=options.curve,
            )
        )
        facts_path.write_text(json.dumps(facts, indent=1) + "\n")
    facts = json.loads(facts_path.read_text())
    playing: dict[str, Any] = {
        "seed": SEED,
        "load": {"temp_files": True, "metadata": facts["args"].get("untrusted") or {}},
    }
    if options.ablate is not None:
        facts["ablation"] = ablation_facts(
            ablate(
                options.models / f"{options.name}.jd",
                options.ablation_dir,
                layer=options.ablate,
                episodes=options.ablation_episodes,
                features={"count": FEATURES},
                **playing,
            ),
            options.ablation_note,
        )
        facts_path.write_text(json.dumps(facts, indent=1) + "\n")
    if options.checks is not None:
        report = check(options.models / f"{options.name}.jd", options.checks, **playing)
        facts["checks"] = {**check_facts(report), "baseline": DEFAULT_BASELINE, "note": options.checks_note}
        facts_path.write_text(json.dumps(facts, indent=1) + "\n")
    findings_path = options.models / FINDINGS / f"{options.name}.json"
    if options.findings is not None:
        debug(options.models / f"{options.name}.jd", options.findings, **playing)
        findings_path.parent.mkdir(exist_ok=True)
        shutil.copyfile(options.findings / REPORT, findings_path)
    findings = json.loads(findings_path.read_text()) if findings_path.exists() else None
    write_card(options.models / f"{options.name}.md", card(options.name, facts, findings))
    write_index(options.models)


def ship(checkpoint: Path, target: Path) -> bool:
    """Copy a checkpoint, in half precision if it is too large. Return whether it is in half precision."""
    if checkpoint.stat().st_size <= MAX_BYTES:
        shutil.copyfile(checkpoint, target)
        return False
    write_half_precision(checkpoint, target)
    if target.stat().st_size > MAX_BYTES:
        raise SystemExit(f"{checkpoint} is larger than {MAX_BYTES} bytes even in half precision")
    return True


def write_half_precision(checkpoint: Path, target: Path) -> None:
    """Write a checkpoint with its parameters in half precision."""
    content = read_joblib(checkpoint)
    halves = {name: np.asarray(array, np.float16) for name, array in content["params"].items()}
    baselines.write(target, halves, content["args"], content["extra"])


def evaluate_agent(checkpoint: Path, rows: Sequence[Mapping[str, str]], episodes: int) -> dict[str, Any]:
    """Return the facts of the card about the agent."""
    content = read(checkpoint)
    # naming the environment's module is safe, because the caller trained the checkpoint
    own = content.metadata.get("untrusted")
    evaluations = evaluate(checkpoint, metadata=own, episodes=episodes, seed=SEED, random=True)
    timesteps = trained_timesteps(checkpoint)
    trained = [row for row in rows if int(row["timesteps"]) <= timesteps]
    return {
        "args": dict(content.metadata),
        "bytes": checkpoint.stat().st_size,
        "parameters": int(sum(array.size for array in content.parameters.values())),
        "returns": {LABELS[name]: rounded(summary(evaluation)) for name, evaluation in evaluations.items()},
        "seconds": float(trained[-1]["seconds"]),
        "sha256": content.sha256,
        "timesteps": timesteps,
    }


def write_card(path: Path, text: str) -> None:
    """Write a card, and keep the line that `benchmarks.truth` added to the existing card."""
    if path.exists() and (line := LINE.search(path.read_text())):
        text = text.replace(HEADING, f"{HEADING}\n{line.group().rstrip()}\n", 1)
    path.write_text(text)


def ablation_facts(report: AblationReport, note: str) -> dict[str, Any]:
    """Return the card's facts about ablation in play."""
    kept = ("unedited", "ablated", "difference", "interval", "corrected_interval", "adjusted_p")

    def numbers(one: Mapping[str, Any]) -> dict[str, Any]:
        return {key: np.round(one[key], 4).tolist() for key in kept}

    own = report.rows[0]["causes"]
    causes = sorted(own, key=lambda cause: -own[cause]["unedited"])
    rows = [
        {
            "feature": ablated_features(row),
            "attribution": round(row["attribution"], 4),
            "ablation": None if row["ablation"] is None else round(row["ablation"], 4),
            "return": numbers(row["return"]),
            "length": numbers(row["length"]),
            "causes": {cause: numbers(row["causes"][cause]) for cause in causes},
            # Keep significant differences only, because most actions are rare.
            "actions": {
                k: numbers(action) for k, action in row["actions"].items() if action["adjusted_p"] < SIGNIFICANT
            },
        }
        for row in report.rows
    ]
    layer = report.rows[0]["layer"]
    return {"layer": layer, "episodes": report.episodes, "tests": report.tests, "note": note, "rows": rows}


def stages(save_dir: Path, facts: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the stages of training, each with different options, as far as checkpoints reveal them (`save_all`)."""
    kept = [(trained_timesteps(path), dict(read(path).metadata)) for path in save_dir.glob("checkpoint-*.jd")]
    trained = sorted((pair for pair in kept if pair[0] <= facts["timesteps"]), key=lambda pair: pair[0])
    if not trained or trained[-1][0] < facts["timesteps"]:
        trained.append((facts["timesteps"], facts["args"]))
    result: list[dict[str, Any]] = []
    for timesteps, args in trained:
        options = {key: value for key, value in args.items() if key not in IGNORED}
        if result and result[-1]["options"] == options:
            result[-1]["until"] = timesteps
        else:
            result.append({"until": timesteps, "options": options})
    return result


def read_joblib(path: Path) -> Any:
    """Return the content of a checkpoint that `train` wrote."""
    return safe_joblib.load(path, Budget.for_file(path.stat().st_size))


def trained_timesteps(checkpoint: Path) -> int:
    """Return the number of environment steps that a checkpoint was trained for."""
    return int(read_joblib(checkpoint)["extra"]["timesteps"])


def card(name: str, facts: Mapping[str, Any], findings: Mapping[str, Any] | None = None) -> str:
    """Return the card of an agent. `findings` is the content of `findings/NAME.json`."""
    args = facts["args"]
    episodes = facts["returns"][TRAINING]["episodes"]
    lines = [
        f"# {name}",
        "",
        f"A network ({network_text(args)}, {facts['parameters']:,} parameters) that plays {game_text(args)}"
        f"{'' if facts.get('training') else ', trained by `rl_clarity.train`'}. {facts['note']}".rstrip(),
        "",
        "| evaluation | mean return | standard error | 95 % interval | episodes | mean length |",
        "|---|---|---|---|---|---|",
        *(table_line(label, *evaluation_cells(r), f"{r['mean_length']:.0f}") for label, r in facts["returns"].items()),
        "",
        "Every environment plays the same number of episodes, all to their end; actions are sampled from the policy.",
        "To repeat the evaluation:",
        "",
        "```sh",
        f"rl-clarity evaluate models:{name} --episodes {episodes} --random",
        "```",
        "",
        curve_line(name, facts.get("curve", LAST_EPISODES)),
        "",
        *ablation_lines(name, facts.get("ablation")),
        *check_lines(name, facts.get("checks")),
        *findings_lines(name, findings),
        *simulator_lines(name, facts.get("simulator")),
        "## Training",
        "",
        *training_lines(name, facts),
        "",
        f"SHA-256 of `{name}.jd` ({facts['bytes']:,} bytes): `{facts['sha256']}`"
        f"{'. Its parameters are in half precision.' if facts.get('half_precision') else ''}",
        "",
        LICENSE,
    ]
    return "\n".join(lines) + "\n"


def training_lines(name: str, facts: Mapping[str, Any]) -> list[str]:
    """Return the section of the card about training: a text from `--training`, or the calls of `train`."""
    if facts.get("training"):
        return [facts["training"]]
    return [
        "```python",
        "\n".join(command(stage["options"], name, stage["until"]) for stage in facts["stages"]),
        "```",
        "",
        f"{facts['timesteps']:,} environment steps in {facts['seconds'] / 3600:.1f} hours on {facts['machine']}: "
        f"{facts['timesteps'] / facts['seconds']:.0f} a second over the whole training.",
    ]


def ablation_lines(name: str, facts: Mapping[str, Any] | None) -> list[str]:
    """Return the section of the card about ablation in play, or nothing without facts."""
    if facts is None:
        return []
    layer, rows = facts["layer"], facts["rows"]
    own = rows[0]
    lines = [
        f"## Without a feature of layer {layer}",
        "",
        f"The agent played the same {facts['episodes']} levels again with each feature of layer `{layer}` ablated, and "
        "the same random numbers. Attribution and ablation are means over frames, in units of the value. The change of "
        "the return has its 95 % interval (paired bootstrap); p is adjusted for all "
        f"{facts['tests']} tests (Holm). The last columns are shares of episodes by what ended them, with their change "
        f"in points. {facts['note']}".rstrip(),
        "",
        table_line("feature", "attribution", "ablation", "return", "change", "p", *own["causes"]),
        "|---" * (6 + len(own["causes"])) + "|",
        table_line(
            *("none", "", "", f"{own['return']['unedited']:.2f}", "", ""),
            *(f"{one['unedited']:.1%}" for one in own["causes"].values()),
        ),
        *map(_ablation_row, rows),
        "",
    ]
    returns = [
        f"- Without feature {row['feature']}, the return changes by {row['return']['difference']:+.2f}, beyond chance "
        f"(corrected interval {signed_interval(row['return']['corrected_interval'])})."
        for row in rows
        if row["return"]["adjusted_p"] < SIGNIFICANT
    ]
    largest = np.abs([row["return"]["corrected_interval"] for row in rows]).max()
    lines += returns or [
        "- No feature changes the return beyond chance. Changes by more than "
        f"{largest:.2g} are outside of all corrected intervals."
    ]
    lines += [
        f"- Without feature {row['feature']}, {one['ablated']:.1%} of the episodes end by: {cause} "
        f"({one['unedited']:.1%} with it), beyond chance."
        for row in rows
        for cause, one in row["causes"].items()
        if one["adjusted_p"] < SIGNIFICANT
    ]
    lines += [
        f"- Without feature {row['feature']}, the agent acts differently, beyond chance: {_shares(row['actions'])}."
        for row in rows
        if row["actions"]
    ]
    command = f"rl-clarity ablate models:{name} out/{name}-{layer} --layer {layer} --episodes {facts['episodes']}"
    count = sum(row["ablation"] is not None for row in rows)  # the others are features that are ablated together
    return [*lines, "", "To repeat it:", "", "```sh", f"{command} --features.count {count}", "```", ""]


def _shares(actions: Mapping[str, Any]) -> str:
    """Return a list of actions with their shares of steps as text, the largest differences first."""
    order = sorted(actions.items(), key=lambda item: -abs(item[1]["difference"]))
    return ", ".join(f"{label} in {one['ablated']:.1%} of its steps ({one['unedited']:.1%})" for label, one in order)


def _ablation_row(row: Mapping[str, Any]) -> str:
    change = row["return"]
    return table_line(
        str(row["feature"]),
        f"{row['attribution']:.3f}",
        "" if row["ablation"] is None else f"{row['ablation']:+.3f}",
        f"{change['ablated']:.2f}",
        f"{change['difference']:+.2f} ({signed_interval(change['interval'])})",
        f"{change['adjusted_p']:.2g}",
        *(f"{one['ablated']:.1%} ({100 * one['difference']:+.1f})" for one in row["causes"].values()),
    )


def write_index(models: Path) -> None:
    """Write the table of all agents in `README.md`."""
    lines = [
        "| agent | plays | network | mean return | unseen levels | random policy | steps |",
        "|---|---|---|---|---|---|---|",
    ]
    for path in sorted(models.glob("*.json"), key=lambda path: path.stem):
        facts = json.loads(path.read_text())
        returns = facts["returns"]
        cells = [
            f"[{path.stem}]({path.stem}.md)",
            game_text(facts["args"]),
            network_text(facts["args"]),
            *(_with_error(returns.get(label)) for label in ("training levels", "unseen levels", RANDOM)),
            f"{facts['timesteps'] / 1e6:.2f} million",
        ]
        lines.append(table_line(*cells))
    readme = models / "README.md"
    text = readme.read_text()
    before, _, rest = text.partition(INDEX[0])
    after = rest.partition(INDEX[1])[2]
    readme.write_text(f"{before}{INDEX[0]}\n\n" + "\n".join(lines) + f"\n\n{INDEX[1]}{after}")


def _with_error(result: Mapping[str, float] | None) -> str:
    return "" if result is None else f"{result['mean']:.2f} ± {result['standard_error']:.2f}"


if __name__ == "__main__":
    main()
