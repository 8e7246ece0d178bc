"""Write docs/truth.md, and a line of each agent's card, from the results of `benchmarks.truth`."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rl_clarity.analyses.attribution.baselines import DEFAULT_BASELINE

PAGE = Path(__file__).parents[1] / "docs" / "truth.md"
CARDS = Path(__file__).parents[1] / "models"
HEADING = "## Can saliency maps of this agent be trusted?\n"
"""Heading of the section of a card that contains this line."""
LINE = re.compile(r"Attribution at layer `.*, with which its page opens, .*\n\n")
"""The line of a card."""
CHOICE, JUDGMENT = "choice", "judgment"
OUTPUTS = {"value": "value", "greedy": "best action"}
IG = "integrated_gradients"
PEERS = {
    "captum_integrated_gradients": "Captum, IntegratedGradients",
    "captum_gradient_shap": "Captum, GradientShap",
    "captum_occlusion": "Captum, Occlusion",
    "sarfa": "SARFA",
}
CONTROLS = {
    "edges": "control: edges (Sobel)",
    "center": "control: nearness to the center",
    "pixels": "control: number of pixels",
    "random_weights": "control: random weights, integrated gradients",
}
GOAL = (0.75, 0.9)
"""Correlation, and share of right signs, that explanations should reach."""
TOLERANCE = 0.02
METHODS = {
    "input_integrated_gradients": "input gradients, integrated",
    "jacobian": "Jacobian",
    "smooth_gradients": "SmoothGrad",
    "perturbation": "perturbation",
    "signed_perturbation": "signed perturbation",
    **PEERS,
    **CONTROLS,
}
INTRODUCTION = """# Do explanations predict measured effects?

An attribution is an estimate. In environments whose states can be edited, the true effect of an object can be measured:
the object is removed from the saved state, the frame is drawn again, and the agent's outputs are compared ([What does
an object change?](guides/objects.md)). This page compares explanations with these effects, for the included agents and
for two small agents that play MiniGrid (`benchmarks/minigrid.py`). `rl-clarity check` makes the same comparison for
your own agent, if the states of its environment can be edited. For other agents, it is not known how well their maps
predict effects, and the numbers on this page are the best available estimate.

## How it is measured

- **Prediction.** A map is summed over the object's box and a margin of 1/32 of the observation (2 of 64 pixels).
  Convolutions spread the attribution of an object beyond it: on CoinRun at layer 2b, sums over the pixels that an
  object changes have a correlation of .46 with the effects, over its box .74, and over box and margin .87. At the
  finest layers, with which pages open, the margin matters less (mean of correlation and right signs in the first
  sample, over the pixels, the box, and the box with 1, 2 and 4 pixels: `coinrun-7.9` .70, .79, .79, .81, .75;
  `coinrun-early` .80, .76, .75, .73, .69; `coinrun-gru` .57, .80, .80, .80, .76; `fruitbot` .91, .91, .91, .89, .82;
  `starpilot-lstm` .64, .64, .65, .64, .62).
- **Correlation** is Pearson's correlation between predictions and changes of the output. **Right signs** is the share
  of predictions with the sign of the effect, among effects of more than 5 % of the output's range. (The threshold is
  twice the standard deviation of the effects of removing invisible objects, but at least 5 %; this standard deviation
  is 0, because the frame stays the same.) **Rank** is Spearman's correlation of magnitudes.
- **Intervals** are 95 % bootstrap intervals; whole episodes are resampled.
- **Two samples** of each agent have different levels and seeds: layers, baselines and peers are chosen on the first,
  and every number below is from the second. (Peers that were measured only on the second sample are also chosen on
  it.)
- **Controls** contain no information about what the agent learned. Controls, and methods without a sign, are given the
  sign that most effects have.
- **Peers** are methods of other libraries and papers that explain the same frames: Captum's methods run on the agents'
  own outputs and gradients (its integrated gradients equal those of rl_clarity to 2e-7), and SARFA is Puri et al.,
  [Explain Your Move](https://arxiv.org/abs/1912.12191), 2020. SARFA explains actions only; Captum's methods were run
  for the value only.

`python -m benchmarks.truth --write` measures what is missing in `benchmarks/truth.json` and writes this page.
"""

TRIED = {
    "multi_path": "multi-path, from `blur`",
    "expected_8": "from each of 8 observations, at 8 times the cost",
    "signed_perturbation": "signed perturbation of the input",
    "captum_occlusion": "Captum, Occlusion",
}
"""Other explanations that are compared with attribution to the layer with which the page opens."""
FINEST = """With `attribution.baseline="auto"`, the default of pages, attribution from `blur`, `narrow-blur`,
`zero-input` and `mean` is compared with the effects in half of the episodes. A baseline other than
`blur` is chosen if the mean of its correlation and its share of right signs is larger by more than the
noise between episodes (95 %). Here, `auto` chooses in the first sample; all numbers are from the second.
"Mean" is the mean of correlation and right signs over all agents.

Blurs of 4, 8 and 12 of 64 pixels differ from `blur` by less than the noise between episodes. A local median, 17 pixels
wide, is better for `coinrun-early`, and worse for `coinrun-gru`, `fruitbot` and `starpilot-lstm`. (Both were measured
on the first sample of five agents.) Multi-path attribution averages over 8 paths in 8 reduced channels. Occlusion and
signed perturbation change one position and leave everything else unchanged, like the removal of an object. Attribution
starts from a baseline, in which all positions are changed at once, and divides the difference of the outputs among
them. This answers another question if objects can replace each other; on `starpilot-lstm`, no baseline comes close to
occlusion and signed perturbation.

"""

Entry = Mapping[str, Any]
Row = Mapping[str, Any]


def write(results: Mapping[str, Entry]) -> None:
    """Write the page, and the lines of the cards of agents whose results are complete."""
    PAGE.write_text(page(results))
    for name, entry in results.items():
        card = CARDS / f"{name}.md"
        if _finished(entry) and card.exists():
            text = LINE.sub("", card.read_text())
            line = card_line(entry).rstrip("\n")
            card.write_text(text.replace(HEADING, f"{HEADING}\n{line}\n", 1))


def opening_row(entry: Entry) -> Row:
    """Return the row of the second sample for the attribution with which an agent's page opens: to the finest layer,
    from the baseline that `auto` chooses in the first sample.
    """
    return layer_rows(rows(entry, JUDGMENT), baseline=chosen_baseline(entry))[0]


def chosen_baseline(entry: Entry) -> str:
    """Return the baseline that a page chooses from the first sample."""
    chosen = [str(row["baseline"]) for row in rows(entry, CHOICE) if row["method"] == "auto"]
    return chosen[0] if chosen else DEFAULT_BASELINE


def card_line(entry: Entry) -> str:
    """Return the line of a card about the attribution with which the agent's page opens, followed by a blank line."""
    row = opening_row(entry)
    return (
        f"Attribution at layer `{row['layer']}` from the baseline `{row['baseline']}`, with which its page opens, "
        f"has the sign of the measured effect for {estimate(row['signs'])} of {row['large']} objects, and a "
        f"correlation of {estimate(row['correlation'])} with the effects of {row['count']} objects; `docs/truth.md` "
        "compares it with other methods.\n\n"
    )


def page(results: Mapping[str, Entry]) -> str:
    """Return the text of the page. Agents without results for both samples are left out."""
    agents = {name: entry for name, entry in results.items() if _finished(entry)}
    parts = [INTRODUCTION, "## All agents\n", _summary(agents), "## Baselines\n", _baselines(agents)]
    parts += ["## At the layer that the page opens with\n", _finest(agents)]
    for name, entry in agents.items():
        parts += [f"## {name}\n", _agent(name, entry)]
    return "\n".join(parts).rstrip() + "\n"


def _finished(entry: Entry) -> bool:
    return all("attributions" in entry.get(sample, {}).get("groups", {}) for sample in (CHOICE, JUDGMENT))


def rows(entry: Entry, sample: str, output: str = "value") -> list[Row]:
    """Return all rows of a sample for an output."""
    return [row for group in entry[sample]["groups"].values() for row in group if row["output"] == output]


def find(among: Iterable[Row], row: Row) -> Row | None:
    """Return the row among others that has the same method, layer, baseline and output; None if there is none."""
    key = _key(row)
    return next((other for other in among if _key(other) == key), None)


def best(among: Iterable[Row]) -> Row | None:
    """Return the row with the largest mean of correlation and share of right signs."""
    known = [row for row in among if row["correlation"][0] is not None]
    return max(known, key=_quality, default=None)


def layer_rows(among: Iterable[Row], layer: str | None = None, baseline: str | None = None) -> list[Row]:
    """Return the rows of integrated gradients of a layer from a baseline; by default, of all layers except the input,
    from all baselines.
    """
    return [
        row
        for row in among
        if row["method"] == IG
        and row["layer"] != "input"
        and layer in (None, row["layer"])
        and baseline in (None, row["baseline"])
    ]


def judged(entry: Entry, choose: Sequence[Row]) -> Row | None:
    """Choose the best row in the first sample, of those that the second sample also has. Return its row in the second
    sample.
    """
    judgments = rows(entry, JUDGMENT)
    chosen = best([row for row in choose if find(judgments, row) is not None])
    return None if chosen is None else find(judgments, chosen)


def estimate(numbers: Sequence[float | None]) -> str:
    """Return a number with its interval as text."""
    if numbers[0] is None:
        return ""
    bounds = "" if numbers[1] is None else f" ({_short(numbers[1])} to {_short(numbers[2])})"
    return _short(numbers[0]) + bounds


def agreement_text(row: Row | None) -> str:
    """Return the correlation and the share of right signs of a row as text, without intervals."""
    if row is None:
        return ""
    return f"{_short(row['correlation'][0])} / {_short(row['signs'][0])}"


def _short(number: float | None) -> str:
    """Return a number from -1 to 1 as text with two decimals, such as .83."""
    if number is None:
        return "–"
    text = f"{number:.2f}"
    return text.replace("0.", ".", 1).replace("-", "−") if abs(round(number, 2)) < 1 else text.replace("-", "−")


def _quality(row: Row) -> float:
    correlation, signs = row["correlation"][0], row["signs"][0]
    return float(correlation if signs is None else (correlation + signs) / 2)


def _key(row: Row) -> tuple[Any, ...]:
    return row["method"], row.get("layer"), row.get("baseline"), row["output"]


def _table(header: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    rule = "|".join("---" for _ in header)
    return "\n".join([f"| {' | '.join(header)} |", f"|{rule}|", *(f"| {' | '.join(line)} |" for line in lines)]) + "\n"


def _summary(agents: Mapping[str, Entry]) -> str:
    lines, near, behind = [], [], []
    for name, entry in agents.items():
        chosen = judged(entry, layer_rows(rows(entry, CHOICE)))
        assert chosen is not None
        peer, control = (_judged_of(entry, methods) for methods in (PEERS, CONTROLS))
        opening = opening_row(entry)
        if opening["correlation"][0] >= GOAL[0] and (opening["signs"][0] or 0) >= GOAL[1]:
            near.append(name)
        if peer is not None and _quality(peer) > _quality(opening) + TOLERANCE:
            behind.append(name)
        lines.append(
            [
                f"[{name}](#{re.sub('[/.]', '', name)})",
                f"{opening['layer']}, {opening['baseline']}: {agreement_text(opening)}",
                f"{chosen['layer']}, {chosen['baseline']}",
                estimate(chosen["correlation"]),
                f"{estimate(chosen['signs'])} of {chosen['large']}",
                "" if peer is None else f"{METHODS[peer['method']]}: {agreement_text(peer)}",
                "" if control is None else f"{METHODS[control['method']][9:]}: {agreement_text(control)}",
            ]
        )
    text = (
        "The table shows integrated gradients of the value at the layer and from the baseline with which the page\n"
        "opens, and at the layer and from the baseline that are best (largest mean of correlation and right signs) in\n"
        "the first sample, with the best peer and the best control. Pairs are correlation / right signs.\n\n"
    )
    header = [
        "agent",
        "page opens with",
        "best layer, baseline",
        "correlation",
        "right signs",
        "best peer",
        "best control",
    ]
    reached = f"{len(near)} of {len(agents)} agents: {', '.join(near) or 'none'}"
    findings = (
        f"\nThe attribution with which the page opens has a correlation of at least {_short(GOAL[0])} and\n"
        f"at least {_short(GOAL[1])} right signs for {reached}.\n"
        f"The best peer is better than this attribution by more than {_short(TOLERANCE)} (mean of both numbers) for: "
        f"{', '.join(behind) or 'none'}.\n"
    )
    return text + _table(header, lines) + findings


def _judged_of(entry: Entry, methods: Collection[str]) -> Row | None:
    """Return the row in the second sample of the method that is best in the first sample. If the methods were only
    measured in the second sample, return the best row there.
    """
    choose, judge = ([row for row in rows(entry, one) if row["method"] in methods] for one in (CHOICE, JUDGMENT))
    return judged(entry, choose) if choose else best(judge)


def _baselines(agents: Mapping[str, Entry]) -> str:
    names = list(dict.fromkeys(row["baseline"] for e in agents.values() for row in layer_rows(rows(e, CHOICE))))
    lines = []
    for baseline in names:
        found = [judged(entry, layer_rows(rows(entry, CHOICE), baseline=baseline)) for entry in agents.values()]
        known = [row for row in found if row is not None]
        if len(known) < len(found):
            continue
        means = [sum(row[name][0] or 0 for row in known) / len(known) for name in ("correlation", "signs")]
        cells = [f"{row['layer']}: {agreement_text(row)}" for row in known]
        lines.append([baseline, " / ".join(map(_short, means)), *cells])
    text = (
        "For each baseline, the table shows the layer that is best in the first sample, and correlation / right signs\n"
        "in the second sample (`narrow-blur` was measured at the finest layers only). `blur` is the observation,\n"
        "blurred with a standard deviation of 6 of 64 pixels, `narrow-blur` with 2; `median` is the median of the\n"
        "observations, pixel by pixel; `expected` are expected gradients.\n\n"
    )
    return text + _table(["baseline", "mean", *agents], lines)


def _finest(agents: Mapping[str, Entry]) -> str:
    """Return the section about the finest layer: all baselines, more expensive attribution, and occlusion."""
    values = {name: rows(entry, JUDGMENT) for name, entry in agents.items()}
    finest = {name: layer_rows(among)[0]["layer"] for name, among in values.items()}
    found: dict[str, list[Row | None]] = {"`auto`": [opening_row(entry) for entry in agents.values()]}
    for baseline in dict.fromkeys(row["baseline"] for among in values.values() for row in layer_rows(among)):
        rows_of = [layer_rows(among, finest[name], baseline) for name, among in values.items()]
        found[f"`{baseline}`"] = [own[0] if own else None for own in rows_of]
    for method, label in TRIED.items():
        found[label] = [next((row for row in among if row["method"] == method), None) for among in values.values()]
    lines = []
    for label, cells in found.items():
        known = [row for row in cells if row is not None]
        mean = f"{sum(map(_quality, known)) / len(known):.2f}".replace("0.", ".") if len(known) == len(cells) else ""
        lines.append([label, mean, *map(agreement_text, cells)])
    return FINEST + _table(["attribution of the value", "mean", *agents], lines) + _choices(agents)


def _choices(agents: Mapping[str, Entry]) -> str:
    """Return text about how much better than the default the chosen baselines are, in both samples."""
    texts = []
    for name, entry in agents.items():
        row = next((row for row in rows(entry, CHOICE) if row["method"] == "auto"), None)
        if row is None or row["baseline"] == DEFAULT_BASELINE:
            continue
        usual = layer_rows(rows(entry, JUDGMENT), row["layer"], DEFAULT_BASELINE)[0]
        low, high = row["advantages"][row["baseline"]]
        texts.append(
            f"- {name}: `{row['baseline']}`, better by {_short(low)} to {_short(high)} in the first sample, and by "
            f"{_short(_quality(opening_row(entry)) - _quality(usual))} in the second."
        )
    return "\nBaselines other than `blur` are chosen for:\n\n" + "\n".join(texts) + "\n" if texts else ""


def _agent(name: str, entry: Entry) -> str:
    values = rows(entry, JUDGMENT)
    layers = [row for row in values if row["method"] == IG]
    names = list(dict.fromkeys(row["layer"] for row in layers))
    baselines = list(dict.fromkeys(row["baseline"] for row in layers))
    first = layers[0]
    chosen = judged(entry, layer_rows(rows(entry, CHOICE)))
    assert chosen is not None
    matrix = [
        [baseline, *(agreement_text(find(layers, {**first, "layer": layer, "baseline": baseline})) for layer in names)]
        for baseline in baselines
    ]
    text = (
        f"{first['count']} objects in {first['episodes']} episodes; the value changes by more than "
        f"{first['threshold']:.2f} without {first['large']} of them. Integrated "
        "gradients of the value, correlation / right signs:\n\n"
    )
    text += _table(["baseline", *names], matrix)
    text += "\nOther methods, and controls:\n\n"
    header = [
        "method",
        *(f"{label}: {name}" for label in OUTPUTS.values() for name in ("correlation", "signs", "rank")),
    ]
    text += _table(header, _method_lines(entry, chosen))
    types = [
        [kind, str(count), str(large), _short(correlation), _short(signs)]
        for kind, (count, large, correlation, signs) in chosen["by_type"].items()
    ]
    text += f"\nBy type, at {chosen['layer']} from {chosen['baseline']}:\n\n"
    return text + _table(["type", "objects", "large effects", "correlation", "right signs"], types)


def _method_lines(entry: Entry, chosen: Row) -> list[list[str]]:
    """Return the table's lines for the chosen attribution, and for all methods other than attribution to a layer."""
    found = {output: rows(entry, JUDGMENT, output) for output in OUTPUTS}
    random = [row for row in found["value"] if row["method"] == "random_weights"]
    shown: list[tuple[str, Row]] = [(f"integrated gradients of {chosen['layer']}, {chosen['baseline']}", chosen)]
    for method, label in METHODS.items():
        among = (
            random
            if method == "random_weights"
            else [row for o in OUTPUTS for row in found[o] if row["method"] == method]
        )
        if among:
            row = find(random, {**chosen, "method": method, "baseline": "zero-input"}) or among[0]
            shown.append((label, row))
    lines = []
    for label, row in shown:
        cells = []
        for output in OUTPUTS:
            own = find(found[output], {**row, "output": output})
            cells += ["", "", ""] if own is None else [estimate(own[n]) for n in ("correlation", "signs", "magnitudes")]
        lines.append([label, *cells])
    return lines
