"""The section `probes`: how well states predict labels, compared with baselines, and whether the agent uses them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from rl_clarity.analyses.analysis import Analysis, Subject
from rl_clarity.analyses.memory.sample import sample_states
from rl_clarity.analyses.memory.source import memory_source
from rl_clarity.base.errors import EnvironmentSetupError, OptionError
from rl_clarity.base.keys import to_plain
from rl_clarity.base.parsing import check_minimum, check_option
from rl_clarity.jobs.tasks import Piece, Results, Task, TaskResult, Work
from rl_clarity.pages.schema import as_dicts, read
from rl_clarity.pages.sections import Column, Note, TableSection
from rl_clarity.states.data import StateData, read_states
from rl_clarity.states.probe_forecast import Amount, probe_pieces, use_pieces
from rl_clarity.states.probes import Probe, probe_states
from rl_clarity.states.subspace import DOSES

PROBES = "probes/probes"
"""Name of the task that fits the probes."""
NO_BREAK = "\N{NO-BREAK SPACE}"
NOTE = Note(
    "How probes tell what is known, and what is used",
    "A probe predicts a label from the state after a step, in episodes that it was not fitted on. Its score is the "
    "share of correctly predicted steps, averaged over classes; for a number, it is the explained share of the "
    "variance. The label is known if the score is above two other scores: that of such a probe of the observation, "
    "and that of such a probe of labels from other episodes (p, corrected for the number of labels). A network with "
    "shuffled parameters also remembers for some steps what it saw, so training did not contribute where the score of "
    "this network is as high. To test whether a known label is used, the state's coordinates along the directions that "
    "depend on the label are exchanged before each step for those of an episode with another label. The other columns "
    "show how much the probability of the most likely action decreases at the decision that depends most on the state: "
    "after partial and full exchanges, with these directions removed, and with random directions or the whole state "
    "exchanged.",
)
COLUMNS = (
    *(Column("label", "label"), Column("verdict", "verdict"), Column("score", "score")),
    *(Column("interval", "95% interval"), Column("chance", "chance")),
    *(Column("observation", "observation"), Column("untrained", "untrained network"), Column("p", "p")),
    *(Column(f"dose_{dose:g}", f"exchanged by {dose:.0%}") for dose in DOSES),
    Column("change", "95% interval"),
    *(Column("removed", "removed"), Column("random", "random directions"), Column("whole", "whole state")),
    Column("flipped", "episodes with another action"),
)
PLAYED = (
    *(
        Column("return", "return, played"),
        Column("return_exchanged", "return, exchanged"),
        Column("return_p", "p, exchanged"),
    ),
    *(Column("return_removed", "return, removed"), Column("removed_p", "p, removed")),
)
"""Additional columns, for episodes that were played."""


@dataclass(frozen=True)
class ProbeOptions:
    """Options of probes of the states."""

    labels: tuple[str, ...] = ()
    """Labels to predict from the states: action, reward, return, and names of recorded info; none by default. `NAME@1`
    is the label at the first step, `NAME+4` the label four steps later, and `NAME-4` the label four steps earlier."""
    play: int = 0
    """Number of episodes that are also played with the directions of each known label exchanged, and with them removed;
    0 for none."""

    def __post_init__(self) -> None:
        check_minimum(self, 0, "play")
        check_option(self, "play", self.play != 1, "must be 0 or at least 2")


@dataclass(frozen=True)
class ProbesSection(TableSection):
    """How well states predict labels, compared with baselines, and whether the agent uses this information."""

    kind = "probes"
    title = "Probes: what it knows, and what it uses"
    probes: Sequence[Mapping[str, object]] = ()
    """The results, as `Probe.to_dict` returns them."""


class ProbesAnalysis(Analysis[ProbeOptions, ProbesSection]):
    """Measures how well a recurrent agent's states predict labels, and whether the agent uses this information."""

    kind = "probes"
    needs_all = False

    def tasks(self, subject: Subject, options: ProbeOptions) -> Iterable[Task]:
        if options.labels:
            inputs = [subject.decisive(ProbeOptions), subject.options.seed]
            yield self.task(
                subject, PROBES, partial(_measure, subject, options), inputs, pieces=partial(_pieces, subject, options)
            )

    def notes(self, options: ProbeOptions) -> Sequence[Note]:
        return (NOTE,) if options.labels else ()

    def sections(self, subject: Subject, options: ProbeOptions, results: Results) -> Iterable[ProbesSection]:
        if PROBES in results:
            yield read(ProbesSection, results[PROBES], self.kind)


def _measure(subject: Subject, options: ProbeOptions, work: Work) -> TaskResult:
    """Fit the probes. Return the contents of the section."""
    data, seed = read_states(memory_source(subject).required_recording), subject.options.seed
    try:
        probes = probe_states(subject.agent, data, options.labels, play=options.play, seed=seed, report=work.report)
        rows, results = [_row(one, data) for one in probes], [one.to_dict() for one in probes]
        section = ProbesSection(
            columns=(*COLUMNS, *(PLAYED if options.play else ())), rows=rows, probes=results, caption=summary(probes)
        )
    except (EnvironmentSetupError, OptionError) as error:
        section = ProbesSection(columns=COLUMNS, rows=(), caption=f"Nothing was probed: {error.message}")
    return TaskResult(to_plain(as_dicts(section), finite=True))


def _row(probe: Probe, data: StateData) -> dict[str, Any]:
    row: dict[str, Any] = {
        "label": probe.label, "verdict": verdict(probe), "score": round(probe.state.score, 3),
        "interval": _interval(*probe.state.interval),
        "chance": round(probe.chance, 3), "observation": round(probe.observation.score, 3),
        "p": probe.adjusted_p,
        "untrained": None if probe.untrained is None else round(probe.untrained.score, 3),
    }  # fmt: skip
    use = probe.use
    if use is not None:
        for dose, change in zip(use.doses, use.exchanged, strict=True):
            row[f"dose_{dose:g}"] = round(change.probability.mean, 3)
        row["change"] = _interval(use.exchanged[-1].probability.low, use.exchanged[-1].probability.high)
        row |= {name: round(getattr(use, name).probability.mean, 3) for name in ("removed", "random", "whole")}
        row["flipped"] = f"{use.exchanged[-1].flipped:.0%} of {use.episodes}".replace(" ", NO_BREAK)
        if use.played is not None:
            exchanged, removed = use.played
            row |= {"return": round(exchanged.unedited, 3), "return_exchanged": round(exchanged.ablated, 3)}
            row |= {"return_removed": round(removed.ablated, 3)}
            row |= {"return_p": exchanged.p, "removed_p": removed.p}
        episode, step = use.decisions[0]
        # trajectories are the episodes that have steps, in order
        row |= {"trajectory": int(np.searchsorted(data.episode[data.starts], episode)), "frame": step}
    return row


def _interval(low: float, high: float) -> str:
    return f"{low:.2f} to {high:.2f}".replace(" ", NO_BREAK)


def summary(probes: Iterable[Probe]) -> str:
    """Return a text with a sentence for each verdict, which lists the verdict's labels."""
    labels: dict[str, list[str]] = {}
    for probe in probes:
        labels.setdefault(verdict(probe), []).append(probe.label)
    return " ".join(f"{text[0].upper()}{text[1:]}: {', '.join(names)}." for text, names in labels.items())


def verdict(probe: Probe) -> str:
    """Return the verdict on whether a label is known and used, as text."""
    return probe.verdict if probe.use is None else f"{probe.verdict}; {probe.use.verdict}"


def _pieces(subject: Subject, options: ProbeOptions, sample: Subject, batch: int) -> Iterable[Piece]:
    trajectories = subject.trajectories
    lengths = [trajectories.steps(one) for one in range(len(trajectories))]
    amount = Amount.planned(sample.agent, lengths, options.labels)
    if amount.episodes > 1 and amount.rows:  # measure the time in case that all labels are known
        data = sample_states(sample).data
        yield from probe_pieces(sample.agent, data, amount)
        yield from use_pieces(sample.agent, data, amount, options.play)
