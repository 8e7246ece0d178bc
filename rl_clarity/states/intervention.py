"""Interventions let an agent play the same levels with and without an edit, such as swapped directions of its state."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rl_clarity.agents.capabilities import PLAYING, require
from rl_clarity.agents.edited_agent import edit
from rl_clarity.agents.editing import Edit
from rl_clarity.agents.protocol import Agent
from rl_clarity.agents.recurrence import join_state
from rl_clarity.base.errors import OptionError
from rl_clarity.base.files import create_folder, write_output
from rl_clarity.base.renamed import RenamedAttribute
from rl_clarity.base.statistics import LEVEL, compare, detectable
from rl_clarity.environments import make
from rl_clarity.pages.animations import animated_png, first_difference, side_by_side
from rl_clarity.pages.images import newest_frames
from rl_clarity.recordings.evaluation import Evaluation, Measure, known_cause
from rl_clarity.recordings.options import EvaluationOptions
from rl_clarity.recordings.paired_play import Block, blocks, environment_of
from rl_clarity.recordings.rollouts import Transition
from rl_clarity.states.analysis import StateAnalysis

BLOCK = 50
"""Number of episodes that are played in parallel."""


@dataclass(frozen=True, eq=False)
class Intervention:
    """The result of `intervene` for E pairs of episodes."""

    rows: list[dict[str, Any]]
    """A row for each measure (return, length, causes of ends, frequencies of actions and of clusters). Keys are
    `measure` (the name); `unedited` and `edited` (means); `difference` with its 95 % `interval` (paired bootstrap) and
    `corrected_interval`; `p` and `adjusted_p` (Holm's correction for all measures); `effect` (the difference, divided
    by the standard deviation of the differences of pairs). The first row is the primary measure, the return. Clusters
    are numbered from 0, as in the analysis."""
    returns: np.ndarray  # (E, 2): unedited, edited
    agents: tuple[Agent, Agent]
    played: tuple[Block, ...]
    max_steps: int

    film = RenamedAttribute("write_clip")
    film_bytes = RenamedAttribute("clip_bytes")

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.rows)

    @property
    def verdict(self) -> str:
        """A sentence that says whether the return (the primary measure) changes. If no change was found, it gives the
        smallest change that would have been found with a probability of 80 %.
        """
        primary, smallest = self.rows[0], 2 ** (1 - len(self.returns))
        if smallest >= LEVEL:
            return f"So few pairs cannot show a change: the smallest possible p is {smallest:.2g}."
        if primary["p"] < LEVEL:
            return "It changes beyond chance."
        least = detectable(primary["interval"])
        if least is None:
            return "No change was found; no two episodes of a pair differed."
        return f"No change was found; a true change of {least:.2g} or more would have been found in four of five cases."

    def __str__(self) -> str:
        primary = self.rows[0]
        lines = [
            f"{len(self.returns)} pairs of episodes. Primary measure: {primary['measure']}, p {primary['p']:.2g}. "
            f"{self.verdict}",
            "All measures, without | with the edit, difference (95 % interval), p adjusted for all of them, and the "
            "smallest true difference that would be found in four of five cases:",
        ]
        for row in self.rows:
            (low, high), least = row["interval"], detectable(row["interval"], row["corrected_interval"])
            found = "no two episodes of a pair differed" if least is None else f"found from {least:.2g}"
            lines.append(
                f"  {row['measure']:24} {row['unedited']:8.3f} | {row['edited']:8.3f}   {row['difference']:+.3f} "
                f"({low:+.3f} to {high:+.3f}), p {row['adjusted_p']:.2g}, {found}"
            )
        return "\n".join(lines)

    def write_clip(self, path: str | os.PathLike[str], episode: int | None = None, *, overwrite: bool = False) -> None:
        """Write an animated PNG of an episode without and with the edit, side by side, around the first different
        action.

        By default it shows the pair with the largest difference of returns. Raises OutputError if the file cannot be
        written, or if a different file exists and `overwrite` is false. Raises OptionError if `episode` is out of
        range.
        """
        with suppress(OSError):  # write_output reports the problem
            create_folder(Path(path).parent)
        write_output(Path(path), self.clip_bytes(episode), overwrite=overwrite)

    def clip_bytes(self, episode: int | None = None) -> bytes:
        """Return the bytes of the animated PNG that `write_clip` writes."""
        if episode is None:
            episode = int(np.abs(self.returns[:, 1] - self.returns[:, 0]).argmax())
        if not 0 <= episode < len(self.returns):
            raise OptionError(f"episode={episode} must be from 0 to {len(self.returns) - 1}")
        block, number = self.played[episode // BLOCK], episode % BLOCK
        sides = [block.replay(agent, number, self.max_steps) for agent in self.agents]
        moment = first_difference(sides[0][1], sides[1][1])
        stack = int(block.spec.options.get("frame_stack") or 1)
        left, right = (newest_frames(frames, stack) for frames, _ in sides)
        return animated_png(side_by_side(left, right, moment))


def intervene(
    agent: Agent,
    *edits: Edit,
    analysis: StateAnalysis | None = None,
    episodes: int = 100,
    seed: int = 0,
    max_steps: int = EvaluationOptions.max_steps,
) -> Intervention:
    """Compare how an agent plays with and without edits, on the same levels and with the same random numbers.

    The agent acts the same with and without the edits until they change an action (see
    `rl_clarity.recordings.paired_play`). The same arguments give the same result.

    Args:
        agent: An agent whose `metadata` name its environment, such as an agent from a checkpoint.
        edits: Edits of the agent: `SwapDirections`, `Ablate` or `Steer`.
        analysis: Analysis of the agent's states. With it, the shares of steps in each cluster (of its first method)
            are compared, too. A state is in the cluster of the analyzed state whose coordinates are nearest.
        episodes: Number of pairs of episodes, at least 2.
        seed: Seed of levels, actions and intervals.
        max_steps: Steps after which an episode is cut off.

    Raises:
        OptionError: Invalid arguments, or edits that do not fit the agent.
        EnvironmentSetupError: There is no environment to play in.
    """
    if episodes < 2:
        raise OptionError(f"episodes={episodes} must be at least 2")
    agents = require(agent, *PLAYING, for_="intervene"), edit(agent, *edits)
    spec = environment_of(agent)
    played = tuple(blocks(spec, episodes, BLOCK, seed))
    clusters, measure = ([], None) if analysis is None else _visited_clusters(analysis)
    results = [[block.play(one, max_steps, known_cause, measure=measure) for block in played] for one in agents]
    environment = make(spec, 1, seed)
    labels = [" ".join(combo) or "no-op" for combo in environment.action_combos]
    environment.close()
    causes = sorted({cause for side in results for part in side for cause in part.causes})
    before, after = (_measures(side, causes) for side in results)
    compared = compare(before, after, seed)
    spread = (after - before).std(axis=0)
    names = ["return", "length", *(f"ended by: {cause}" for cause in causes)]
    names += [f"action {i}: {label}" for i, label in enumerate(labels)]
    names += [f"cluster {label}" if label >= 0 else "no cluster" for label in clusters]
    rows = []
    for i, name in enumerate(names):
        numbers = asdict(compared[i])
        numbers["edited"] = numbers.pop("ablated")
        rows.append({"measure": name, **numbers, "effect": float(numbers["difference"] / max(spread[i], 1e-12))})
    return Intervention(rows, np.stack([before[:, 0], after[:, 0]], axis=1), agents, played, max_steps)


def _measures(parts: Sequence[Evaluation], causes: Sequence[str]) -> np.ndarray:
    """Return M measures (E, M) of the episodes: the return, the length, whether each cause ended the episode, and the
    frequencies of actions and of clusters.
    """
    rows = []
    for part in parts:
        assert part.actions is not None
        ended_by = [np.array(part.causes) == cause for cause in causes]
        counts = part.actions if part.measured is None else np.hstack([part.actions, part.measured])
        rows.append(np.column_stack([part.returns, part.lengths, *ended_by, counts / part.lengths[:, None]]))
    return np.concatenate(rows)


def _visited_clusters(analysis: StateAnalysis) -> tuple[list[int], Measure]:
    """Return the labels of K clusters, and a function that returns booleans (N, K): whether the state of each of N
    environments is in each cluster.
    """
    from sklearn.neighbors import KNeighborsClassifier

    options = analysis.facts["options"]
    part, labels = options["part"], analysis.arrays[f"cluster.{options['clustering'][0]}"]
    nearest = KNeighborsClassifier(1).fit(analysis.arrays["coordinates"], labels)

    def visited(transition: Transition) -> np.ndarray:
        state = transition.state if part is None else (transition.state or ())[part : part + 1]
        coordinates = analysis.directions.to(join_state(state))
        return np.asarray(nearest.predict(coordinates.astype(np.float32))[:, None] == nearest.classes_)

    return nearest.classes_.tolist(), visited
