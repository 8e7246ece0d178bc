"""`rl-clarity publish`: chosen episodes of recordings as a static page."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from rl_clarity.analyses.saliency import SaliencySection
from rl_clarity.analyses.state_map import StateMapSection
from rl_clarity.analyses.trajectories import SCRUB_STEPS
from rl_clarity.errors import OptionError, SamplesError
from rl_clarity.explaining.files import Explanations
from rl_clarity.jobs.job import open_job, team
from rl_clarity.jobs.tasks import Task, TaskResult, Work
from rl_clarity.keys import package_versions
from rl_clarity.pages.chunks import decode_chunk, parse_script
from rl_clarity.pages.files import SEGMENT, ChunkName, PageFiles, segments
from rl_clarity.pages.manifest import provenance_group
from rl_clarity.pages.output import OutputOptions, open_output
from rl_clarity.pages.results import Page
from rl_clarity.pages.schema import read
from rl_clarity.pages.sections import SectionData
from rl_clarity.parsing import parse, path_text
from rl_clarity.recordings.layout import GOING
from rl_clarity.viewer.episodes import ShownEpisode
from rl_clarity.viewer.manifest import KIND, ShownRun, describe_episode, describe_page, trajectories_section
from rl_clarity.viewer.runs import LogDirectory, Runs, Snapshot

NEWEST = 8
"""Episodes of each run that are published by default."""


@dataclass(frozen=True)
class PublishOptions(OutputOptions):
    """How chosen episodes are published."""

    title: str | None = None
    """Title of the page; the names of the runs by default."""


@dataclass(frozen=True)
class _ChosenRun:
    """A run, and the episodes of it that are published."""

    run: Snapshot
    rows: Sequence[Mapping[str, Any]]

    @property
    def explanations(self) -> Explanations | None:
        return self.run.explanations

    @property
    def identity(self) -> list[Any]:
        """What identifies the recording, wherever it is (JSON)."""
        assert self.run.recording is not None
        return [self.run.recording.metadata.get("begun"), self.run.name]

    def folder(self, index: int) -> str:
        """Folder of an episode's files."""
        return f"run-{self.run.number}/{index}"

    def shown(self, index: int) -> ShownEpisode:
        assert self.run.recording is not None
        return ShownEpisode(self.run.recording, self.run.recording.episode(index), self.run.agent)

    def saliency(self, index: int) -> dict[str, dict[str, Any]]:
        """Maps of an episode by method."""
        return {} if self.explanations is None else self.explanations.episodes.get(index, {})

    def tasks(self, files: PageFiles) -> list[Task]:
        identity = self.identity
        tasks = [
            Task(
                f"episodes/{self.run.number}/{row['episode']}",
                partial(self._write_episode, files, row["episode"]),
                [identity, row, self.saliency(row["episode"])],
                size=row["steps"],
            )
            for row in self.rows
        ]
        if self.explanations is not None and self.explanations.state_map is not None:
            indices = [row["episode"] for row in self.rows]
            inputs = [identity, indices, self.explanations.state_map]
            tasks.append(Task(f"state_map/{self.run.number}", partial(self._write_maps, files), inputs))
        return tasks

    def show(self) -> ShownRun:
        """What the manifest says of the run."""
        return ShownRun(
            self.run,
            [
                replace(
                    describe_episode(row, i, explained=bool(self.saliency(row["episode"]))),
                    # whole seconds: pages round floats to fewer digits than a time has
                    time=None if row["start_time"] is None else int(row["start_time"]),
                )
                for i, row in enumerate(self.rows)
            ],
            trajectories_section(
                self.run,
                [self.shown(row["episode"]).entry(self.folder(row["episode"])) for row in self.rows],
            ),
            self._sections(),
        )

    def _write_episode(self, files: PageFiles, index: int, work: Work) -> TaskResult:
        shown = self.shown(index)
        entry = shown.entry(self.folder(index))
        files.write_chunk(entry.series, shown.series())
        for name, part in zip(entry.frames, segments(entry.steps, SEGMENT), strict=False):
            files.write_chunk(name, shown.frames(slice(part.start, part.stop)))
            work.report(part.stop / entry.steps)
        for image, part in zip(entry.scrub, segments(entry.steps, SCRUB_STEPS), strict=False):
            files.write_image(image, shown.film_strip(slice(part.start, part.stop)))
        maps = [name for one in self.saliency(index).values() for name in one["maps"]]
        for name in maps:
            files.write_chunk(self._explained(name), self._read(name))
        written = [entry.series, *entry.frames, *entry.scrub, *map(self._explained, maps)]
        return TaskResult(files=written)

    def _write_maps(self, files: PageFiles, work: Work) -> TaskResult:
        """Write state maps without the points of other episodes."""
        assert self.explanations is not None
        assert self.explanations.state_map is not None
        indices = [row["episode"] for row in self.rows]
        names = [one["chunk"] for one in self.explanations.state_map["maps"]]
        for name in names:
            arrays = self._read(name)
            kept = np.isin(arrays["trajectory"], indices)
            arrays = {key: array[kept] for key, array in arrays.items()}
            order = np.argsort(indices)
            positions = order[np.searchsorted(indices, arrays["trajectory"], sorter=order)]
            files.write_chunk(self._explained(name), {**arrays, "trajectory": positions.astype(np.int32)})
        return TaskResult(files=[*map(self._explained, names)])

    def _sections(self) -> list[SectionData]:
        explanations, sections = self.explanations, list[SectionData]()
        if explanations is None:
            return []
        if explanations.saliency:
            methods = []
            for method in explanations.saliency:
                maps = [self.saliency(row["episode"]).get(method["name"], {}) for row in self.rows]
                names = [[*map(self._explained, one.get("maps", []))] for one in maps]
                outputs = [output["id"] for output in method["outputs"]]
                scales = {output: [one.get("scales", {}).get(output) for one in maps] for output in outputs}
                methods.append({**method, "maps": names, "scales": scales})
            agreement = str(explanations.agreement(row["episode"] for row in self.rows))
            data = {"every": min(explanations.every.values()), "methods": methods, "agreement": agreement}
            sections.append(read(SaliencySection, data, "saliency"))
        if explanations.state_map is not None:
            entries = [{**one, "chunk": self._explained(one["chunk"])} for one in explanations.state_map["maps"]]
            sections.append(read(StateMapSection, {**explanations.state_map, "maps": entries}, "state_map"))
        return sections

    def _explained(self, name: str) -> ChunkName:
        return ChunkName(f"run-{self.run.number}/explained/{name}")

    def _read(self, name: str) -> dict[str, np.ndarray]:
        assert self.explanations is not None
        return decode_chunk(parse_script(self.explanations.path(name).read_bytes(), name))


def publish(
    place: str | os.PathLike[str], output_dir: str | os.PathLike[str], episodes: Sequence[str] = (), **options: Any
) -> Page:
    """Write episodes of recordings, and their explanations, as a static page.

    A stopped call is resumed by calling it again.

    Args:
        place: A log directory, a recording, or their address.
        output_dir: Directory or address of the page.
        episodes: Numbers of episodes, of all runs, or `RUN~NUMBER`; by default the newest of each run.
        options: See `PublishOptions`.

    Raises:
        OptionError: There are no such episodes, or an option is invalid.
        SamplesError: An episode is damaged.
        OutputError: The directory cannot be written, or holds another page.
    """
    chosen_options = parse(PublishOptions, options)
    location = path_text(place, "place")
    chosen = choose_episodes(Runs([LogDirectory.at(location)]).snapshots(), episodes, location)
    title = chosen_options.title or ", ".join(one.run.name for one in chosen)
    if title == ".":  # the recording itself, without a log directory
        title = location.rstrip("/").rpartition("/")[2]
    identity = [[one.identity, one.rows, _explanation_facts(one)] for one in chosen]
    values = [title, chosen_options.numpy_precision, chosen_options.inline_js, chosen_options.is_single_file]
    with team() as workers:
        folders = [f"run-{one.run.number}" for one in chosen]
        output = open_output(output_dir, chosen_options, [KIND, identity], lambda _: values, folders, workers.ranks)
        if output.finished:
            return output.page()
        memory = workers.share().memory()
        tasks = [task for one in chosen for task in one.tasks(output.files)]
        with open_job(workers, output.directory, None) as job:
            page_id = output.page_id([])
            if workers.leads:
                output.begin(page_id)
                job.begin()
            results = job.run(tasks, output.store, memory)
            with job.stage("page"):
                if workers.leads:
                    groups = [provenance_group(f"Run {one.run.name}", _facts(one)) for one in chosen]
                    manifest = describe_page(
                        [one.show() for one in chosen],
                        title,
                        id=page_id,
                        numpy_precision=chosen_options.numpy_precision,
                        provenance=[*groups, provenance_group("Versions", package_versions())],
                    )
                    output.write(manifest, results)
                workers.ranks.barrier()
        return output.page()


def choose_episodes(runs: Sequence[Snapshot], episodes: Sequence[str], location: str) -> list[_ChosenRun]:
    """The runs with the episodes to publish, which must have ended.

    Raises:
        OptionError: There is no such episode.
        SamplesError: It is damaged.
    """
    for run in runs:
        if run.error is not None:
            raise SamplesError(run.error)
    missing, chosen = {*episodes}, []
    for run in runs:
        ended = [row for row, _ in run.rows if row["end"] != GOING and row["steps"]]
        if episodes:
            keys = {row["episode"]: {str(row["number"]), f"{run.name}~{row['number']}"} for row in ended}
            ended = [row for row in ended if keys[row["episode"]] & {*episodes}]
            missing -= {key for row in ended for key in keys[row["episode"]]}
        else:
            ended = ended[-NEWEST:]
        problems = {row["episode"]: problem for row, problem in run.rows if problem is not None}
        for row in ended:
            if row["episode"] in problems:
                raise SamplesError(problems[row["episode"]])
        if ended:
            chosen.append(_ChosenRun(run, ended))
    if missing or not chosen:
        known = ", ".join(f"{run.name}: {len(run.rows)}" for run in runs) or "none"
        wanted = f"no ended episodes {', '.join(sorted(missing))}".rstrip()
        raise OptionError(f"{location} has {wanted}; episodes by run: {known}")
    return chosen


def _explanation_facts(one: _ChosenRun) -> Any:
    """What decides the explanations of the chosen episodes."""
    if one.explanations is None:
        return None
    maps = [one.saliency(row["episode"]) for row in one.rows]
    return [one.explanations.saliency, one.explanations.state_map, maps]


def _facts(one: _ChosenRun) -> dict[str, Any]:
    assert one.run.recording is not None
    metadata = one.run.recording.metadata
    names = ("name", "checkpoint", "environment", "gamma", "lambda", "sampling")
    numbers = [row["number"] for row in one.rows]
    return {**{name: metadata[name] for name in names if name in metadata}, "episodes": numbers}
