"""The section `state_map` of a page about memory: maps of the states, and the colors of their points."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import numpy as np

from rl_clarity.analyses.analysis import Analysis, Subject
from rl_clarity.analyses.memory.source import FIT, FOLDER, direction_names, fitted_states, places
from rl_clarity.analyses.state_map import (
    STATE,
    Source,
    StateMapSection,
    color_entries,
    map_arrays,
    map_entry,
    map_pieces,
)
from rl_clarity.base.keys import to_plain
from rl_clarity.jobs.tasks import Piece, Results, Task, TaskResult, Work
from rl_clarity.pages.schema import as_dicts, read
from rl_clarity.reduction.embedding import FITTED_ON
from rl_clarity.states.cards import ends_of_episodes
from rl_clarity.states.clusters import MOST_COMPONENTS
from rl_clarity.states.options import StateOptions
from rl_clarity.states.parts import PARTS, map_perplexity


class MemoryMapAnalysis(Analysis[StateOptions, StateMapSection]):
    """Shows the states of the recording as points of a map."""

    kind = "state_map"
    needs_all = False

    def tasks(self, subject: Subject, options: StateOptions) -> Iterable[Task]:
        if options.maps:
            points = sum(subject.trajectories.steps(one) for one in range(len(subject.trajectories)))
            yield self.task(
                subject, self.task_name("map"), partial(_write_maps, subject), subject.decisive(StateOptions),
                size=2 * points, after=(FIT, f"{FOLDER}/behaviours"), pieces=partial(_pieces, points),
            )  # fmt: skip

    def sections(self, subject: Subject, options: StateOptions, results: Results) -> Iterable[StateMapSection]:
        facts = results.get(self.task_name("map"))
        if facts is not None:
            yield read(StateMapSection, facts, self.kind)


def _write_maps(subject: Subject, work: Work) -> TaskResult:
    """Write a chunk for each method of `options.maps`. Return the contents of the section."""
    fitted = fitted_states(subject)
    options, arrays = fitted.options, PARTS["maps"](fitted).arrays
    rows = arrays["map.rows"]
    trajectory, frame = places(fitted, rows).T
    prefix = "map.color."
    colors = {name.removeprefix(prefix): values for name, values in arrays.items() if name.startswith(prefix)}
    colors |= {"episode": trajectory, "cluster": fitted.labels[rows]}
    behaviors = work.results[f"{FOLDER}/behaviours"]
    if behaviors.get("chunk"):
        behavior = subject.files.read_chunk(behaviors["chunk"])
        labels = np.full(len(fitted.data), -1)
        labels[behavior["rows"]] = behavior["labels"]
        colors["behaviour"] = labels[rows]
    names = {
        "action": [action.label for action in subject.info.actions],
        "episode": [f"episode {number}" for number in range(1, len(fitted.data.starts) + 1)],
        "end": ends_of_episodes(fitted.data),
        "cluster": [f"cluster {number}" for number in range(1, fitted.labels.max() + 2)],
        "behaviour": [f"behavior {number}" for number in range(1, options.clusters + 1)],
        "strongest": direction_names(fitted.directions),
    }
    maps = []
    for method in dict.fromkeys(options.maps):
        chunk = f"state_map/{method}.js"
        subject.files.write_chunk(
            chunk, map_arrays(arrays[f"map.{method}"], colors, trajectory=trajectory, frame=frame)
        )
        fitted_on = min(len(rows), FITTED_ON)
        maps.append(map_entry(Source(STATE, "recurrent state"), method, chunk, map_perplexity(len(rows)), fitted_on))
    facts = as_dicts(StateMapSection(maps, color_entries(colors, names)))
    return TaskResult(to_plain(facts), [one.chunk for one in maps])


def _pieces(points: int, sample: Subject, batch: int) -> Iterable[Piece]:
    options = sample.options_of(StateOptions)
    points = min(points, options.map_points)
    methods = list(dict.fromkeys(options.maps))
    yield from map_pieces(points, MOST_COMPONENTS, methods, map_perplexity(points))
