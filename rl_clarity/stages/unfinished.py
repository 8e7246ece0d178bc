"""The page of a job that is still at work: it can be opened, and says what is missing."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from rl_clarity.jobs import Task, WorkStore
from rl_clarity.jobs.tasks import task_key
from rl_clarity.pages.layers import LayerFacts, layer_entry
from rl_clarity.pages.layout import Layout
from rl_clarity.pages.manifest import AtlasInfo, LayerEntry, ProvenanceGroup
from rl_clarity.stages.assembly import attribution_task, manifest_of
from rl_clarity.stages.output import Output
from rl_clarity.stages.plan import Plan, PlannedLayer
from rl_clarity.stages.tasks import Explanation

SECONDS_BETWEEN = 5.0
"""Between two writings of the page, at least."""
TIMES_WRITING = 20
"""Between two writings pass as many times the seconds that one takes, so that a large page costs little."""


class UnfinishedPage:
    """Writes `interface.html` while tasks end; the finished page replaces it in the end."""

    def __init__(
        self, output: Output, job: Explanation, tasks: Sequence[Task], provenance: Sequence[ProvenanceGroup]
    ) -> None:
        self._output, self._job, self._tasks, self._provenance = output, job, tasks, provenance
        self._store = WorkStore(output.data)
        self._next = 0.0

    def update(self, *, now: bool = False) -> None:
        """Write the page with what is finished by now; `now` does not wait until that is worth it."""
        start = time.perf_counter()
        if start < self._next and not now:
            return
        self._store.refresh()
        finished = {task.name: self._store.finished(task.name, task_key(task)) for task in self._tasks}
        facts = {name: found for name, found in finished.items() if found is not None}
        self._output.write_unfinished(self._manifest(facts), self._store.written(facts))
        taken = time.perf_counter() - start
        self._next = start + max(SECONDS_BETWEEN, TIMES_WRITING * taken)

    def _manifest(self, facts: Mapping[str, Mapping[str, Any]]) -> Any:
        job, plan, layout = self._job, self._job.plan, self._job.files.layout
        count, steps = job.trajectories.actions.shape
        layers = [_layer(layout, plan, layer, facts, [steps] * count) for layer in plan.layers]
        frame = plan.observation
        nothing = AtlasInfo(len(job.observations.observations), (), 1, 1, frame.frame_height, frame.frame_width, (), ())
        page_id = self._output.page_id([action.combo for action in plan.actions])
        return manifest_of(
            layout, plan, job.trajectories, job.advantages, layers, nothing, self._provenance, page_id
        ).to_dict()


def _layer(
    layout: Layout, plan: Plan, layer: PlannedLayer, facts: Mapping[str, Mapping[str, Any]], steps: Sequence[int]
) -> LayerEntry:
    """A layer with the scales that are known; the page shows nothing where there is none."""
    scales = {
        output.id: [
            facts.get(attribution_task(layer, trajectory), {}).get("scales", {}).get(output.id, 1.0)
            for trajectory in range(len(steps))
        ]
        for output in plan.outputs
    }
    found = LayerFacts(
        name=layer.name,
        slug=layer.slug,
        full_name=layer.full_name,
        shape=layer.shape,
        hues=layer.hues,
        scales=scales,
        effects={},
        nmf=None,
        is_input=layer.is_input,
    )
    return layer_entry(layout, found, [output.id for output in plan.outputs], steps)
