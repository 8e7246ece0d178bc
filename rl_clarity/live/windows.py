"""Explain any step on a page about memory by the steps before it. This runs the agent behind the page."""

from __future__ import annotations

import base64
from functools import lru_cache
from typing import Any

import numpy as np

from rl_clarity.agents.capabilities import require
from rl_clarity.agents.protocol import State
from rl_clarity.analyses.memory.explained import explain_windows
from rl_clarity.analyses.memory.matrix import MatrixOptions, MatrixSection, page_matrix
from rl_clarity.analyses.memory.source import FOLDER, with_fit
from rl_clarity.analyses.memory.windows import (
    WindowEntry,
    WindowOptions,
    WindowReason,
    WindowsSection,
    window_at,
    window_rows,
    window_targets,
)
from rl_clarity.base.errors import ClarityError, OptionError
from rl_clarity.base.parsing import parse
from rl_clarity.jobs.tasks import slices
from rl_clarity.live.played import PlayedPage
from rl_clarity.live.requests import WindowRequest
from rl_clarity.pages.chunks import encode_chunk
from rl_clarity.pages.files import ChunkName, path_in
from rl_clarity.pages.schema import as_dicts, read
from rl_clarity.recordings.episode import Episode, Field
from rl_clarity.recordings.layout import DONE
from rl_clarity.recordings.recording import Recording
from rl_clarity.states.analysis import read_analysis
from rl_clarity.states.data import read_states
from rl_clarity.states.memory_path import mean_frame
from rl_clarity.states.options import StateOptions
from rl_clarity.states.partners import Partners

EPISODES = 16
"""Largest number of episodes whose states are computed together, and of episodes whose observations are kept in
memory."""
TOLERANCE = 1e-2
"""Largest difference between recomputed and stored coordinates of states, in standard deviations."""


class PageRecording(Recording):
    """The episodes on a page about memory, one per trajectory, as a recording with recomputed states."""

    def __init__(self, played: PlayedPage) -> None:
        self.metadata, self.location = {}, played.results.location
        self._played = played
        numbers = range(len(played.trajectories))
        self._states: list[State] = [
            state for part in slices(len(numbers), EPISODES) for state in played.replay(numbers[part])
        ]
        self._kept = lru_cache(EPISODES)(self._read)

    def __len__(self) -> int:
        return len(self._played.trajectories)

    def table(self) -> list[dict[str, Any]]:
        return [{"episode": i, "number": i, "end": DONE, "steps": self._played.steps(i)} for i in range(len(self))]

    def _episode(self, index: int) -> Episode:
        return self._kept(index)

    def _read(self, index: int) -> Episode:
        steps, stored = self._played.steps(index), self._played.series(index)
        arrays: dict[str, Field] = {}
        arrays |= {name: stored[name] for name in ("actions", "rewards", "values") if name in stored}
        is_policy = self._played.results.agent["kind"] == "policy"
        arrays["policy_logits" if is_policy else "q_values"] = stored["logits"]
        arrays["observations"] = self._played.observations(index, 0, steps - 1)
        arrays |= {f"states.{i}": part for i, part in enumerate(self._states[index] or ())}
        return Episode(self.table()[index], arrays)


class LiveWindows:
    """Computes windows of a page about memory on request.

    These windows explain steps through the agent's memory alone, because a page does not contain its simulator.

    Raises OptionError for a page that is not about memory, and for an agent without gradients. Raises SamplesError for
    a page without its folder `states`, and ClarityError if the recomputed states differ from the page's.
    """

    def __init__(self, played: PlayedPage) -> None:
        results = played.results
        if not results.has(WindowsSection.kind):
            raise OptionError(f"the page {results.location} is not about memory, so its steps have no windows")
        require(played.agent, "state_gradients", "gradients", for_="explaining a step through memory")
        analysis = read_analysis(lambda name: results.directory.read(path_in(FOLDER, name)), results.location)
        options = results.options
        self._options = parse(WindowOptions, options.get("windows"))
        self._partners, self._seed = parse(MatrixOptions, options.get("matrix")).partners, int(options.get("seed", 0))
        data = read_states(PageRecording(played))
        self._fitted = with_fit(played.agent, data, analysis, parse(StateOptions, analysis.facts["options"]))
        stored = analysis.arrays["coordinates"]
        computed = self._fitted.coordinates
        if stored.shape != computed.shape:
            raise ClarityError(
                f"the page {results.location} is damaged: it has {len(stored)} states for {len(data)} steps"
            )
        difference = float((np.abs(computed - stored) / np.maximum(self._fitted.spread, 1e-12)).max())
        if not difference <= TOLERANCE:
            raise ClarityError(
                f"the agent's states differ from the page's by up to {difference:.2g} standard deviations, so steps "
                "cannot be explained"
            )
        section = read(MatrixSection, results.section(MatrixSection.kind), "memory_matrix")
        self._matrix = page_matrix(section, results.chunk)
        self._mean, self._others = mean_frame(data), Partners(data, self._seed)

    def explain(self, request: WindowRequest) -> dict[str, Any]:
        """Return a window's entry, its targets, and its chunk in the form in which pages embed chunks: a header, and
        data in base64.
        """
        fitted = self._fitted
        starts = fitted.data.starts
        if not 0 <= request.trajectory < len(starts):
            raise OptionError(f"trajectory {request.trajectory} is out of range: the page has only {len(starts)}")
        last = int(fitted.data.length[starts[request.trajectory]]) - 1
        if not 0 < request.step <= last:
            raise OptionError(f"step {request.step} is out of range: it must be from 1 to {last}, counted from 0")
        row = int(starts[request.trajectory]) + request.step
        window = window_at(fitted, row, self._options, self._others, self._matrix, [WindowReason("asked")])
        rows, compared = window_rows(fitted, [window])
        (arrays,) = explain_windows(
            fitted, rows, np.array([window.directions]), request.step - window.first + 1, compared, self._mean,
            points=self._options.points, grid=self._options.grid, partners=self._partners, seed=self._seed,
        )  # fmt: skip
        name = path_in("windows", f"live-{request.trajectory + 1}-{request.step + 1}.js")
        chunk = encode_chunk(name, arrays)
        entry = WindowEntry(**vars(window), chunk=ChunkName(name))
        return {
            "window": as_dicts(entry),
            "targets": as_dicts(window_targets(fitted, window.directions)),
            "chunk": {"header": chunk.header, "data": base64.b64encode(chunk.payload).decode("ascii")},
        }
