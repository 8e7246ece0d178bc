"""Compare each checkpoint of a recording with the previous one, on the fixed observations of `Recorder.probe`."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from rl_clarity.agents.capabilities import initial_state, is_vector
from rl_clarity.agents.protocol import State
from rl_clarity.analyses.analysis import SubjectOptions, describe_agent
from rl_clarity.analyses.checkpoints import output_arrays
from rl_clarity.analyses.saliency import (
    METHODS,
    MethodDescription,
    compute_maps,
    describe_method,
    map_arrays,
    output_labels,
)
from rl_clarity.analyses.updates import UpdatedCheckpoint, UpdatesSection, compared_chunks
from rl_clarity.explaining.agents import Agents
from rl_clarity.explaining.files import UPDATES
from rl_clarity.explaining.options import ExplainOptions
from rl_clarity.jobs.tasks import Task, TaskResult, Work, guarded, slices
from rl_clarity.pages.files import SEGMENT, ChunkName, PageFiles
from rl_clarity.pages.frames import frame_arrays
from rl_clarity.pages.images import newest_frames
from rl_clarity.pages.schema import as_dicts, read
from rl_clarity.recordings.agreement import BATCH, state_rows
from rl_clarity.recordings.layout import GOING
from rl_clarity.recordings.recording import StoredRecording
from rl_clarity.recordings.samples import Trajectories

ANSWERS = "answers"
"""First component of the names of the tasks that compute outputs and maps of a checkpoint: `answers/NUMBER`."""
FEWEST = 2
"""Smallest number of checkpoints that can be compared."""


@dataclass
class Updates:
    """Compares each checkpoint of a recording with the previous one."""

    recording: StoredRecording
    options: ExplainOptions
    agents: Agents
    files: PageFiles
    code: str
    _steps: dict[int, int] = field(default_factory=dict)
    _read: set[int] = field(default_factory=set)
    """Indices of episodes whose checkpoints are already in `_steps`."""

    def numbers(self) -> list[int]:
        """Return the numbers of the stored checkpoints that can be compared. There are none without fixed observations,
        or if all episodes are explained with the same agent.
        """
        return [] if self.agents.is_fixed or not self.recording.probe() else self.recording.checkpoints.numbers()

    def answer_task(self, number: int) -> Task:
        """Return the task that computes a checkpoint's outputs and saliency maps for the fixed observations."""
        probe = self.recording.probe() or {}
        digest = hashlib.sha256(b"".join(np.ascontiguousarray(array).tobytes() for array in probe.values())).hexdigest()
        inputs = [self.agents.checkpoint_key(self.recording, number), digest, self.method, self.code]
        return Task(f"{ANSWERS}/{number:05}", partial(guarded, partial(self._answer, number, probe)), inputs)

    @property
    def method(self) -> str | None:
        return next(iter(self.options.methods), None)

    def section_task(self, answers: Mapping[int, Mapping[str, Any]], keys: Sequence[str]) -> Task:
        """Return the task that compares checkpoints. `answers` contains the facts of their answer tasks by checkpoint
        number, and `keys` the cache keys of these tasks.
        """
        steps = self.checkpoint_steps()
        known = [[number, steps.get(number)] for number in answers]
        return Task(UPDATES, partial(self._compare, answers, steps), [[*keys], known, self.code])

    def checkpoint_steps(self) -> dict[int, int]:
        """Return the training steps at which checkpoints began to act, by checkpoint number, omitting unknown ones."""
        for row, problem in self.recording.listing():
            index, number, step = row["episode"], row["agent"], row["training_step"]
            if problem is not None or index in self._read or number is None or step is None:
                continue
            self._steps[number] = min(step, self._steps.get(number, step))
            episode = self.recording.episode(index)
            if episode.agents is not None and episode.training_steps is not None:
                numbers, firsts = np.unique(episode.agents, return_index=True)
                for one, first in zip(numbers.tolist(), firsts.tolist(), strict=True):
                    self._steps.setdefault(one, int(episode.training_steps[first]))
            if row["end"] != GOING:
                self._read.add(index)
        return self._steps

    def _answer(self, number: int, probe: Mapping[str, np.ndarray], work: Work) -> TaskResult:
        """Write the outputs and maps of a checkpoint. The facts of the result are the name of the file, the method of
        the maps, and the number of frames per observation.
        """
        agent = self.agents.checkpoint_agent(self.recording, number)
        observations, states = probe["observations"], self._states(agent, probe)
        parts = [
            agent.forward(observations[rows], state_rows(states, rows)) for rows in slices(len(observations), BATCH)
        ]
        arrays, first = output_arrays(parts), parts[0]
        played = Trajectories(
            observations[None],
            np.zeros((1, len(observations)), int),
            np.zeros((1, len(observations)), np.float32),
            np.ones((1, len(observations)), bool),
            policy_logits=None if first.policy_logits is None else first.policy_logits[None],
            values=None if first.values is None else first.values[None],
        )
        info = describe_agent(agent, played, {**agent.metadata, **self.recording.metadata}, SubjectOptions())
        facts: dict[str, Any] = {"stack": info.observation.stack, "method": None}
        if self.method is not None and not is_vector(agent):
            labels = output_labels(first.q_values is not None, first.values is not None)
            values = compute_maps(
                agent, self.method, observations, [*labels], states, batch=work.frames, report=work.report
            )
            maps = dict(zip(labels, values, strict=True))
            arrays |= map_arrays(np.arange(len(observations)), maps, signed=METHODS.get(self.method).signed)
            facts["method"] = as_dicts(describe_method(self.method, agent, labels, info.observation.region))
        file = f"updates/{number:05}.js"
        self.files.write_chunk(file, arrays)
        return TaskResult({**facts, "file": file}, [file])

    def _states(self, agent: Any, probe: Mapping[str, np.ndarray]) -> State:
        """Return the recurrent states before the observations: the stored states if there are any, otherwise the
        agent's initial state.
        """
        initial = initial_state(agent, len(probe["observations"]))
        stored = [probe[f"states.{i}"] for i in range(len(probe) - 1)]
        if initial is None or not stored:
            return initial
        pairs = zip(stored, initial, strict=True)
        return tuple(np.reshape(part, own.shape).astype(np.float32) for part, own in pairs)

    def _compare(self, answers: Mapping[int, Mapping[str, Any]], steps: Mapping[int, int], work: Work) -> TaskResult:
        """Write the changes and the images of the observations. The facts of the result contain the section."""
        probe = self.recording.probe() or {}
        observations, numbers = probe["observations"], sorted(answers)
        chunks = [self.files.read_chunk(answers[number]["file"]) for number in numbers]
        means, arrays = compared_chunks(chunks, np.arange(len(observations)))
        changes = ChunkName("updates/changes.js")
        self.files.write_chunk(changes, arrays)
        frames = []
        if observations.ndim == 4 and observations.dtype == np.uint8:
            shown = newest_frames(observations, answers[numbers[-1]]["stack"])
            for part in slices(len(shown), SEGMENT):
                frames.append(ChunkName(f"updates/frames-{part.start // SEGMENT + 1}.js"))
                self.files.write_chunk(frames[-1], frame_arrays(shown[part]))
        checkpoints = [
            UpdatedCheckpoint(f"checkpoint {number}", steps.get(number), ChunkName(answers[number]["file"]), mean)
            for number, mean in zip(numbers, means, strict=True)
        ]
        method = answers[numbers[-1]]["method"]
        described = None if method is None else read(MethodDescription, method, "method")
        section = UpdatesSection("steps", [*range(len(observations))], checkpoints, changes, described, frames)
        return TaskResult({"section": as_dicts(section)}, [changes, *frames, *(one.shown for one in checkpoints)])
