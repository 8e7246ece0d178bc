"""Functions for the model cards of included agents and of series of checkpoints."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from rl_clarity.analyses.checks.report import COMPLETE, MethodReport, SanityReport
from rl_clarity.ppo.options import TrainOptions
from scripts.curve import LAST_EPISODES

LICENSE = "License: MIT, like the project."
PREDICTIONS = {
    "posterior": "posterior (sees the frame)",
    "prior": "prior, true actions",
    "closed_loop": "agent in the loop",
    "last_frame": "copy of the last frame",
    "mean_frame": "mean frame",
}
COMPASS = ("LEFT", "RIGHT", "UP")
GOOD_COMPASS = 0.8
"""A simulator passes if the agent moves in the expected direction from at least this share of the starts."""


def curve_line(name: str, what: str = LAST_EPISODES) -> str:
    """Return the line of the card that shows the learning curve. `what` describes the returns."""
    return f"![{what.capitalize()} against environment steps]({name}.svg)"


def evaluation_cells(result: Mapping[str, Any]) -> list[str]:
    """Return the mean return, standard error, interval and episodes of an evaluation."""
    numbers = (f"{result['mean']:.2f}", f"{result['standard_error']:.2f}")
    return [*numbers, interval_text(result), str(result["episodes"])]


def rounded(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return the numbers of an evaluation for the card, rounded."""
    low, high = result["interval"]
    return {
        "episodes": result["episodes"],
        "mean": round(result["mean_return"], 3),
        "standard_error": round(result["standard_error"], 3),
        "interval": [round(low, 3), round(high, 3)],
        "mean_length": round(result["mean_length"], 1),
    }


def check_facts(report: SanityReport) -> dict[str, Any]:
    """Return the card's facts about saliency methods, rounded to four decimals."""

    def short(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: short(one) for key, one in value.items()}
        if isinstance(value, list):
            return [short(one) for one in value]
        return round(value, 4) if isinstance(value, float) else value

    methods = [
        dataclasses.replace(method, effects={}) for method in report.methods
    ]  # docs/truth.md has the effects of objects
    values: dict[str, Any] = short(dataclasses.replace(report, methods=methods, controls={}).to_dict())
    return values


def check_lines(name: str, facts: Mapping[str, Any] | None) -> list[str]:
    """Return the section of the card about saliency methods, or nothing without facts."""
    if facts is None:
        return []
    methods = [MethodReport.from_dict(method) for method in facts["methods"]]
    unchanged = [method for method in methods if method.randomization and not method.depends_on_parameters]
    slow = [method for method in methods if not method.beats_random]
    origin = f", and the baseline `{facts['baseline']}`" if "baseline" in facts else ""  # older facts lack it
    lines = [
        "## Can saliency maps of this agent be trusted?",
        "",
        f"Every saliency method, checked on {facts['frames']} frames; the explained output is the {facts['output']}"
        f"{origin}. "
        "With random weights, maps of a method that explains the network change: the table has their rank correlation "
        "(also that of attribution with its sign) and structural similarity (SSIM) with the trained network's, once "
        "all layers are random. Deletion blurs "
        "pixels in the order of the map, insertion restores them; the numbers are areas under the change of the "
        "output, less those of another order, with 95 % bootstrap intervals: above 0, the map's order is faster. The "
        "gap is what a method that integrates along a path does not account for. `docs/guides/checks.md` explains the "
        f"checks. {facts['note']}".rstrip(),
        "",
        table_line(
            *("method", "rank correlation", "with signs", "SSIM", "deletion against random", "against the center"),
            *("insertion against random", "against the center", "gap"),
        ),
        "|---" * 9 + "|",
        *map(_check_row, methods),
        "",
    ]
    if unchanged:
        lines.append(
            f"- **Fails:** the maps of {_names(unchanged)} stay similar (rank correlation of 0.5 or more) when all "
            "weights are random: where they are bright depends little on what was learned."
        )
        if signed := [method for method in unchanged if method.signs_change]:
            lines.append(f"- The signs of these maps change, their brightness does not: {_names(signed)}.")
    else:
        lines.append("- The maps of all methods change (rank correlation below 0.5) when all weights are random.")
    if slow:
        lines.append(
            f"- **Fails:** removing pixels in the order of {_names(slow)} is no faster than in a random order."
        )
    else:
        lines.append("- Removing pixels in the order of any method's maps changes the output faster than at random.")
    if incomplete := [method for method in methods if not method.adds_up]:
        lines.append(f"- **Fails:** a gap of more than {COMPLETE:.0%} is left by: {_names(incomplete)}.")
    command = f"rl-clarity check models:{name} out/{name.replace('/', '-')}-check --frames {facts['frames']}"
    return [*lines, "", "To repeat it:", "", "```sh", command, "```", ""]


def findings_lines(name: str, findings: Mapping[str, Any] | None) -> list[str]:
    """Return the section of the card about what the debugger finds, or nothing without findings."""
    if findings is None:
        return []
    lines = [
        "## Why it fails, and what it pursues",
        "",
        "Each of these sentences was tested; suspicious ones are bold. In brackets are the mean, its interval, "
        "corrected within a family of tests, and the number of values. That there is no effect is claimed only where "
        "the interval lies inside the stated band. `docs/guides/debugging.md` explains the tests.",
        "",
    ]
    for family, group in itertools.groupby(findings["findings"], key=lambda one: one["family"]):
        lines.append(f"- {_capital(family)}:")
        lines += [f"    - {_marked(one)}" for one in group]
    subjects = [f"{one['family']}: {one['subject']}" for one in findings["untested"]]
    if subjects:
        lines += ["", f"Neither found nor excluded: {'; '.join(subjects)}."]
    repeat = f"rl-clarity debug models:{name} out/{name}-debug --expect models/findings/{name}.json"
    return [*lines, "", "To repeat it:", "", "```sh", repeat, "```", ""]


def _marked(finding: Mapping[str, Any]) -> str:
    return f"**{finding['statement']}**" if finding["suspicious"] else str(finding["statement"])


def _check_row(method: MethodReport) -> str:
    last = method.randomization[-1] if method.randomization else None
    orders = [one[key] for one in (method.deletion, method.insertion) for key in ("above_random", "above_center")]
    return table_line(
        method.label,
        "" if last is None else f"{last.rank_correlation:.2f}",
        "" if last is None or last.signed_rank_correlation is None else f"{last.signed_rank_correlation:.2f}",
        "" if last is None else f"{last.ssim:.2f}",
        *(f"{one.mean:+.3f} ({one.low:+.3f} to {one.high:+.3f})" for one in orders),
        "" if method.completeness is None else f"{method.completeness:.1%}",
    )


def _names(methods: Sequence[MethodReport]) -> str:
    return "; ".join(method.label for method in methods)


def simulator_lines(name: str, facts: Mapping[str, Any] | None) -> list[str]:
    """Return the section of the card about the agent's simulator, or nothing without one."""
    if facts is None:
        return []
    quality, fit = facts["quality"], facts["fit"]
    horizons = [h for h in (1, 2, 5, 10, 16, 32) if h <= fit["horizon"]]
    errors = {
        name: {kind: np.array(quality["errors"][name][kind][0], float) for kind in PREDICTIONS}
        for name in ("frame", "reward")
    }
    return [
        "## Simulator",
        "",
        f"`{name}-simulator.safetensors` simulates this agent in its environment (`docs/guides/simulator.md`): "
        f"{facts['parameters']:,} parameters of the size `{fit['size']}`, fitted in {facts['steps']:,} steps, each on "
        f"{fit['batch_size']} windows of {fit['horizon']} frames, to {facts['recorded_steps']:,} recorded steps with "
        f"{facts['action_noise']:.0%} random actions. Its errors were measured on {quality['windows']} windows of "
        f"other episodes, which it was not fitted to. {facts['note']}".rstrip(),
        "",
        *_error_lines("frames", errors["frame"], horizons),
        *_error_lines("rewards", errors["reward"], horizons),
        *(
            f"- {_capital(text) if ok else f'**Fails:** {text}'}"
            for ok, text in _simulator_checks(quality, errors["frame"])
        ),
        "- A classifier tells the agent's states in the simulation from recorded ones with an AUC of "
        f"{quality['auc']:.2f} (0.5: not at all). Latents of the data fill {quality['latent_dimensions']:.1f} "
        f"dimensions. {quality['coverage']:.0%} of random latents are as near to one of 32 of them as these are to "
        f"each other (95 % of random choices of 32: {quality['coverage_interval'][0]:.0%} to "
        f"{quality['coverage_interval'][1]:.0%}).",
        "",
    ]


def _error_lines(name: str, errors: Mapping[str, np.ndarray], horizons: Sequence[int]) -> list[str]:
    """Return a table of the errors (T,) of each prediction of frames or rewards at some horizons."""
    labels = (
        PREDICTIONS if name == "frames" else {**PREDICTIONS, "last_frame": "no reward", "mean_frame": "mean reward"}
    )
    return [
        table_line(f"mean squared error of {name} at horizon", *map(str, horizons)),
        "|---" * (1 + len(horizons)) + "|",
        *(table_line(labels[kind], *(f"{row[h - 1]:.4f}" for h in horizons)) for kind, row in errors.items()),
        "",
    ]


def _simulator_checks(quality: Mapping[str, Any], errors: Mapping[str, np.ndarray]) -> Iterator[tuple[bool, str]]:
    """Yield, for each check of a simulator, whether it passes, and a sentence about the result."""
    horizons = range(2, min(10, len(errors["prior"])) + 1)
    better = [h for h in horizons if errors["prior"][h - 1] < errors["last_frame"][h - 1]]
    yield (
        len(better) == len(horizons),
        f"with the true actions, its frames are better than copies of the last frame at {len(better)} of the "
        f"{len(horizons)} horizons from 2 to {horizons[-1]}.",
    )
    means = [float(np.nanmean(errors[kind])) for kind in ("posterior", "prior", "closed_loop")]
    yield (
        means == sorted(means),
        "the order of mean errors is posterior, prior, agent in the loop, from least to most: "
        f"{', '.join(f'{one:.4f}' for one in means)}.",
    )
    if compass := quality.get("compass"):
        shares = dict(zip(compass["actions"], compass["agreement"], strict=True))
        known = {key: shares[key] for key in COMPASS if shares.get(key) is not None}
        text = ", ".join(f"{key.lower()} {share:.0%}" for key, share in known.items())
        enough = min(known.values(), default=0) >= GOOD_COMPASS
        yield enough, f"the agent moves as the action's buttons say in these shares of starts: {text or 'none'}."
    if deletion := quality.get("deletion"):
        low, high = deletion["interval"]
        yield (
            low > 0,
            "removing what saliency through time points at changes the value by "
            f"{deletion['difference']:+.3f} ({low:+.3f} to {high:+.3f}) more than removing as much at random.",
        )


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


def table_line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def signed_interval(interval: Sequence[float]) -> str:
    low, high = interval
    return f"{low:+.2f} to {high:+.2f}"


def command(options: Mapping[str, Any], name: str, timesteps: int) -> str:
    """Return the call of `rl_clarity.train` with these options, without default values."""
    defaults = {field.name: field.default for field in dataclasses.fields(TrainOptions)}
    defaults["lambda"] = defaults.pop("lambda_")
    changed = {key: value for key, value in options.items() if key in defaults and value != defaults[key]}
    changed |= {"timesteps_per_proc": timesteps}
    extra = "".join(f"    {key}={value!r},\n" for key, value in changed.items() if key != "lambda")
    if "lambda" in changed:
        extra += f"    **{{'lambda': {changed['lambda']!r}}},\n"
    return f"rl_clarity.train(\n    'runs/{name}',\n{extra})"


def interval_text(result: Mapping[str, Any]) -> str:
    low, high = result["interval"]
    return f"{low:.2f} to {high:.2f}"


def network_text(args: Mapping[str, Any]) -> str:
    recurrent = " + LSTM" if args.get("use_lstm") else f" + GRU of {units}" if (units := args.get("gru_units")) else ""
    return f"`{args['cnn']}`{recurrent}"


def game_text(args: Mapping[str, Any]) -> str:
    name = args.get("env_name") or args.get("env_id")
    mode = args.get("distribution_mode")
    return f"{name} ({mode} levels)" if mode else str(name)
