"""The analysis `objects`: the effect of each object that the agent sees along its trajectories."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from rl_clarity.agents.capabilities import parallel_calls
from rl_clarity.agents.protocol import Agent
from rl_clarity.analyses.analysis import Analysis, Subject, SubjectOptions
from rl_clarity.analyses.attribution.outputs import attributed_outputs
from rl_clarity.analyses.debugging.failures import failures_of
from rl_clarity.analyses.objects.measure import chunk_name, ending_track, expected_frames, measure_trajectory
from rl_clarity.analyses.objects.options import ObjectsOptions
from rl_clarity.analyses.objects.section import EndingObject, ObjectsSection, TrajectoryObjects
from rl_clarity.analyses.objects.summary import (
    Removals,
    SingleRemovals,
    removals_from_chunks,
    summarize_types,
    value_noise,
)
from rl_clarity.base.errors import EnvironmentSetupError, OptionError
from rl_clarity.environments import KINDS, source_key, spec_from_metadata
from rl_clarity.environments.kinds import world_types
from rl_clarity.jobs.tasks import Piece, Results, Task, Work
from rl_clarity.pages.sections import Note

NOTE = Note(
    "Effects of objects",
    "Each object is removed from the saved state of the environment, one at a time, and the frame is drawn again "
    "(if only its bounding box is known, the object is painted over, as the page then states). The effect is the "
    "output with the object minus the output without it, so it has the sign of attribution, but it is measured, not "
    "estimated. Everything else stays as it was, including a recurrent state, and only the outputs of this step "
    "are compared. The effect on the policy is the total variation between the policies with and without the "
    "object, from 0 to 1. Intervals are 95% bootstrap intervals that resample whole episodes; they are not "
    "corrected for the number of types. Whether the agent reacts to a type is tested in Findings.",
)


class ObjectsAnalysis(Analysis[ObjectsOptions, ObjectsSection]):
    """Removes the objects of some frames from the state of the environment, and measures what changes."""

    kind = "objects"
    needs_all = True

    def check(self, agent: Agent, options: ObjectsOptions, page: SubjectOptions) -> None:
        if not options.types:
            return
        try:
            types = world_types(spec_from_metadata(agent.metadata, num_actions=agent.num_actions))
        except EnvironmentSetupError:
            return
        unknown = sorted(set(options.types) - set(types or options.types))
        if unknown:
            raise OptionError(
                f"objects.types={unknown!r} do not occur in the environment, which has {', '.join(types or ())}"
            )

    def tasks(self, subject: Subject, options: ObjectsOptions) -> Iterable[Task]:
        states = subject.trajectories.world_states
        if options.every is None or states is None:
            return
        calls = parallel_calls(subject.agent) if KINDS.get(states.spec.kind).thread_safe else 1
        groups = [group.actions for group in subject.info.action_groups]
        outputs = [output.id for output in attributed_outputs(subject)]
        for trajectory in range(len(subject.trajectories)):
            frames = expected_frames(options, subject.trajectories.steps(trajectory))
            yield self.task(
                subject,
                self.task_name(trajectory + 1),
                partial(measure_trajectory, subject, trajectory),
                [subject.decisive(ObjectsOptions), source_key(states.spec), outputs, groups, trajectory],
                size=frames,
                group=self.kind,
                pieces=partial(_pieces, frames),
                parallel=calls,
            )

    def sections(self, subject: Subject, options: ObjectsOptions, results: Results) -> Iterable[ObjectsSection]:
        states = subject.trajectories.world_states
        if options.every is None or states is None:
            return
        facts, (single, together) = removal_facts(subject, results), read_removals(subject, results)
        value_range, noise = value_noise([one["values"] for one in facts])
        moving = {name for one in facts for name in one["moving"]}
        types = summarize_types(single, together, sorted(moving), noise, subject.options.seed)
        unit = "action value" if subject.info.kind == "action_values" else "value"
        height, width = subject.trajectories.observations.shape[2:4]
        ended: dict[int, list[EndingObject]] = {}
        for failure in failures_of(results):
            track = ending_track(subject, failure, facts[failure.trajectory]["types"])
            if track is not None:
                ended.setdefault(failure.trajectory, []).append(EndingObject(track, failure.last))
        yield ObjectsSection(
            types=types,
            trajectories=[
                TrajectoryObjects(chunk_name(trajectory), one["types"], ended.get(trajectory))
                for trajectory, one in enumerate(facts)
            ],
            every=options.every,
            last_steps=options.last_steps,
            frames=sum(one["frames"] for one in facts),
            skipped=sum(one["skipped"] for one in facts),
            undrawn=sum(one["undrawn"] for one in facts),
            exact=all(one["exact"] for one in facts),
            unit=unit if noise is not None else "logit",
            value_range=value_range,
            noise=noise,
            height=height,
            width=width,
        )

    def notes(self, options: ObjectsOptions) -> Sequence[Note]:
        return [NOTE]


def removal_facts(subject: Subject, results: Results) -> list[Mapping[str, Any]]:
    """Return the facts of the task of each trajectory."""
    return [results[ObjectsAnalysis.task_name(trajectory + 1)] for trajectory in range(len(subject.trajectories))]


def read_removals(subject: Subject, results: Results) -> tuple[SingleRemovals, Removals]:
    """Return the effects of removing objects one at a time, and of removing all objects of a type at once."""
    named: list[Sequence[str]] = [one["types"] for one in removal_facts(subject, results)]
    chunks = [subject.files.read_chunk(chunk_name(trajectory)) for trajectory in range(len(named))]
    firsts = [np.asarray(subject.trajectories.firsts[trajectory], bool) for trajectory in range(len(named))]
    return removals_from_chunks(chunks, named, firsts)


def _pieces(frames: int, sample: Subject, batch: int) -> Iterable[Piece]:
    """Yield a piece that measures the objects of a sample's trajectory.

    `frames` is the number of frames that are examined in a trajectory of the page.
    """
    if sample.trajectories.world_states is None:
        return
    options = sample.options_of(ObjectsOptions)
    measured = expected_frames(options, sample.trajectories.steps(0))
    measure = partial(measure_trajectory, sample, 0, Work(batch, lambda share: None, {}))
    yield Piece(measure, frames / measured, measure)
