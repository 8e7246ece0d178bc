"""The section `interventions`: episodes that are played with and without directions exchanged or collapsed."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import islice

import numpy as np

from rl_clarity.agents.edited_agent import edit
from rl_clarity.agents.protocol import Agent
from rl_clarity.analyses.analysis import Analysis, Subject, SubjectOptions
from rl_clarity.analyses.memory.sample import sample_states
from rl_clarity.analyses.memory.source import FIT, FOLDER, PlayOptions, direction_names, fitted_states, read_fit
from rl_clarity.base.errors import EnvironmentSetupError, OptionError
from rl_clarity.base.keys import to_plain
from rl_clarity.base.parsing import check_minimum, check_option, find_part
from rl_clarity.environments import make
from rl_clarity.jobs.tasks import Piece, Results, Task, TaskResult, Work
from rl_clarity.pages.files import ImageName
from rl_clarity.pages.schema import read
from rl_clarity.pages.sections import SectionData
from rl_clarity.recordings.paired_play import environment_of
from rl_clarity.recordings.rollouts import play
from rl_clarity.reduction.swapping import SwapDirections, numbered_swaps
from rl_clarity.states.intervention import BLOCK, intervene
from rl_clarity.states.options import StateOptions
from rl_clarity.states.parts import FittedStates

MEASURED_STEPS = 8
"""Number of steps that are played to measure the time."""


@dataclass(frozen=True)
class InterventionOptions:
    """Options of interventions: paired episodes with and without directions of the state exchanged or collapsed."""

    count: int = 2
    """Number of directions that are collapsed, one at a time: those whose removal changes the policy most."""
    episodes: int = 20
    """Number of pairs of episodes for each intervention; 0 for no interventions."""
    swap_from: tuple[int, ...] = ()
    """Directions that are exchanged or collapsed together in one additional intervention. They are counted from 1, as
    on the page, for example 10 5."""
    swap_to: tuple[int | None, ...] = ()
    """The direction with which each of `swap_from` is exchanged, or None to collapse it, for example 12 None."""

    def __post_init__(self) -> None:
        check_minimum(self, 0, "count", "episodes")
        enough = self.episodes != 1
        check_option(self, "episodes", enough, "must be 0 or at least 2")
        sources, targets = self.swap_from, self.swap_to
        paired = len(sources) == len(targets)
        check_option(self, "swap_to", paired, f"must have as many entries as swap_from={sources}")

    def swaps(self, count: int | None = None) -> dict[int, int | None]:
        """Map each direction of `swap_from`, counted from 0, to the direction that it is exchanged with, or to None.

        Raises OptionError for numbers below 1 and, if `count` is not None, for numbers above `count`.
        """
        return numbered_swaps(self.swap_from, self.swap_to, count)


@dataclass(frozen=True)
class InterventionRow:
    """A measure of paired episodes, as in `rl_clarity.states.Intervention`."""

    measure: str
    unedited: float | None
    edited: float | None
    difference: float | None
    interval: tuple[float | None, float | None]
    p: float | None
    adjusted_p: float | None
    effect: float | None
    corrected_interval: tuple[float | None, float | None] | None = None
    """Interval of the difference, corrected for the number of measures."""


@dataclass(frozen=True)
class InterventionEntry:
    """A comparison of episodes with and without some directions exchanged or collapsed."""

    label: str
    swap: Sequence[tuple[int, int | None]]
    """Directions, each with the direction that it is exchanged with, or null if it is collapsed."""
    rows: Sequence[InterventionRow]
    clip: ImageName
    """An animated PNG of a pair of episodes, without and with the change."""


@dataclass(frozen=True)
class InterventionsSection(SectionData):
    """Comparisons of episodes with and without directions of the state exchanged or collapsed."""

    kind = "interventions"
    title = "Interventions"
    episodes: int
    """Number of pairs of episodes."""
    interventions: Sequence[InterventionEntry]
    skipped: str | None
    """Reason why there are no interventions."""


class InterventionsAnalysis(Analysis[InterventionOptions, InterventionsSection]):
    """Compares the agent's play with and without directions of its state exchanged or collapsed."""

    kind = "interventions"
    needs_all = False

    def check(self, agent: Agent, options: InterventionOptions, page: SubjectOptions) -> None:
        options.swaps((find_part(page, StateOptions) or StateOptions()).count)

    def tasks(self, subject: Subject, options: InterventionOptions) -> Iterable[Task]:
        if not options.episodes:
            return
        inputs = subject.decisive(StateOptions, InterventionOptions)
        count = min(options.count, subject.options_of(StateOptions).count)
        size = 100 * subject.options_of(PlayOptions).max_steps
        for number in range(count + bool(options.swaps())):
            yield self.task(
                subject, self.task_name(number + 1), partial(_intervene, subject, number), inputs,
                after=(FIT, f"{FOLDER}/cards", f"{FOLDER}/memory"), size=size, group=self.kind, pieces=_pieces,
            )  # fmt: skip

    def sections(
        self, subject: Subject, options: InterventionOptions, results: Results
    ) -> Iterable[InterventionsSection]:
        finished = [facts for name, facts in sorted(results.items()) if name.startswith(self.task_name(""))]
        if finished:
            played = [facts["intervention"] for facts in finished if "intervention" in facts]
            entries = [read(InterventionEntry, one, self.kind) for one in played]
            skipped = next((facts["skipped"] for facts in finished if "skipped" in facts), None)
            yield InterventionsSection(options.episodes, entries, skipped)


def _intervene(subject: Subject, number: int, work: Work) -> TaskResult:
    """Play the episodes of one intervention, or return why it is skipped, such as a missing environment."""
    options, agent = subject.options_of(InterventionOptions), subject.agent
    fitted, analysis = fitted_states(subject), read_fit(subject)
    cards = subject.files.read_chunk(work.results[f"{FOLDER}/cards"]["chunk"])
    effects = work.results.get(f"{FOLDER}/memory", {}).get("effects")
    effect = None if effects is None else np.array([one["effect"] for one in effects])
    strongest = strongest_directions(fitted, cards.get("readout"), effect)
    count = min(options.count, subject.options_of(StateOptions).count)
    if len(strongest) <= number < count:
        return TaskResult({"skipped": f"The states vary along only {len(strongest)} directions."})
    swaps = {int(strongest[number]): None} if number < count else options.swaps()
    try:
        change = SwapDirections(swaps, directions=fitted.directions)
        comparison = intervene(
            agent, change, analysis=analysis, episodes=options.episodes, seed=subject.options.seed,
            max_steps=subject.options_of(PlayOptions).max_steps,
        )  # fmt: skip
    except (EnvironmentSetupError, OptionError) as error:
        return TaskResult({"skipped": str(error)})
    clip = f"interventions/{number + 1}.png"
    subject.files.write_file(clip, comparison.clip_bytes())
    names = direction_names(fitted.directions)
    label = " and ".join(
        f"{names[one]} collapsed" if other is None else f"{names[one]} and {names[other]} exchanged"
        for one, other in swaps.items()
    )
    facts = {"label": label, "swap": list(swaps.items()), "rows": comparison.rows, "clip": clip}
    return TaskResult(to_plain({"intervention": facts}, finite=True), [clip])


def strongest_directions(
    fitted: FittedStates, readout: np.ndarray | None, effect: np.ndarray | None = None
) -> np.ndarray:
    """Return the indices (D,) of the directions, ordered by how much the actions depend on them, with rare ones last.

    The order is by `effect` (D,), the measured effect of removing each direction. If that was not measured, it is by
    the direction's largest weight on an action in `readout` (D, outputs), minus the mean over actions, times the
    standard deviation of the coordinate. Without `readout`, it is by how far one standard deviation of the coordinate
    moves the state.
    """
    directions = fitted.directions
    if effect is None:
        slopes = np.linalg.norm(directions.vectors, axis=1)
        if readout is not None:
            weights = readout[:, : fitted.agent.num_actions]
            slopes = np.abs(weights - weights.mean(axis=1, keepdims=True)).max(axis=1)
        effect = fitted.spread * slopes
    rare = np.zeros(len(directions), bool) if directions.rare is None else directions.rare
    return np.lexsort((-effect, rare))


def _pieces(sample: Subject, batch: int) -> Iterable[Piece]:
    """Yield pieces that play a few steps of a block of episodes, scaled up to all episodes of both agents and the clip.

    The resulting time is an upper bound, because episodes may end early.
    """
    options, directions = sample.options_of(InterventionOptions), sample_states(sample).directions
    max_steps, seed = sample.options_of(PlayOptions).max_steps, sample.options.seed
    episodes = min(BLOCK, options.episodes)
    try:
        edited = edit(sample.agent, SwapDirections({0: None}, directions=directions))
        environment = make(environment_of(sample.agent), episodes, seed)
    except (EnvironmentSetupError, OptionError):
        return
    with closing(environment):
        steps = play(edited, environment, np.random.default_rng(seed))
        yield Piece(partial(next, steps), 1)  # each comparison compiles its edited network
        times = 2 * (options.episodes / episodes + 1) * max_steps / MEASURED_STEPS
        yield Piece(lambda: deque(islice(steps, MEASURED_STEPS), maxlen=0), times)
