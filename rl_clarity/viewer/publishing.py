"""`rl-clarity publish`: write selected episodes of recordings as a static page."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from rl_clarity.analyses.state_map import StateMapSection
from rl_clarity.analyses.trajectories import SCRUB_STEPS
from rl_clarity.base.errors import OptionError, SamplesError, printable
from rl_clarity.base.files import open_regular
from rl_clarity.base.keys import package_versions
from rl_clarity.base.parsing import parse, path_text
from rl_clarity.explaining.files import Explanations
from rl_clarity.jobs.job import open_job, team
from rl_clarity.jobs.store import WorkStore
from rl_clarity.jobs.tasks import Results, Task, TaskResult, Work, guarded
from rl_clarity.pages.builder import build_page
from rl_clarity.pages.chunks import decode_chunk, parse_script
from rl_clarity.pages.files import SEGMENT, ImageName, PageFiles, segments
from rl_clarity.pages.manifest import Manifest, ProvenanceGroup, file_names, provenance_group
from rl_clarity.pages.output import OutputOptions, open_output
from rl_clarity.pages.results import Page
from rl_clarity.pages.schema import read
from rl_clarity.pages.sections import SectionData, StoredSection
from rl_clarity.recordings.layout import GOING
from rl_clarity.viewer.episodes import ShownEpisode
from rl_clarity.viewer.manifest import (
    KIND,
    ShownRun,
    describe_episode,
    describe_page,
    describe_run,
    trajectories_section,
)
from rl_clarity.viewer.runs import LogDirectory, Runs, Snapshot, failed

NEWEST = 8
"""Number of episodes of each run that are published by default."""


@dataclass(frozen=True)
class PublishOptions(OutputOptions):
    """Options of `publish`."""

    title: str | None = None
    """Title of the page; the names of the runs by default."""
    follow_links: bool = False
    """Publish runs that symbolic links in the log directory point to, if the owner of the directory owns the links."""


@dataclass(frozen=True)
class _ChosenRun:
    """A run, and those of its episodes that are published (none if the run cannot be read)."""

    run: Snapshot
    rows: Sequence[Mapping[str, Any]] = ()
    problems: Mapping[int, str] = field(default_factory=dict)
    """Reasons why further episodes are left out, by number of the episode."""

    @property
    def explanations(self) -> Explanations | None:
        return self.run.explanations

    @property
    def identity(self) -> list[Any]:
        """JSON value that identifies the recording, independent of its location."""
        begun = None if self.run.recording is None else self.run.recording.metadata.get("begun")
        return [begun, self.run.name]

    def folder(self, index: int) -> str:
        """Return the folder of an episode's files."""
        return f"run-{self.run.number}/{index}"

    def shown(self, index: int) -> ShownEpisode:
        assert self.run.recording is not None
        return ShownEpisode(self.run.recording, self.run.recording.episode(index), self.run.agent)

    def sections(self, index: int) -> list[dict[str, Any]]:
        """Return the sections of an episode, with the names that their files have beside the recording."""
        return [] if self.explanations is None else self.explanations.sections(index)

    def tasks(self, files: PageFiles) -> list[Task]:
        identity = self.identity
        tasks = [
            Task(
                self._task(row["episode"]),
                partial(guarded, partial(self._write_episode, files, row["episode"])),
                [identity, row, self.sections(row["episode"])],
                size=row["steps"],
            )
            for row in self.rows
        ]
        if self.explanations is not None and self.explanations.state_map is not None:
            indices = [row["episode"] for row in self.rows]
            inputs = [identity, indices, self.explanations.state_map]
            work = partial(guarded, partial(self._write_maps, files))
            tasks.append(Task(f"state_map/{self.run.number}", work, inputs, after=(self._task(""),)))
        if self.explanations is not None and self.explanations.updates is not None:
            work = partial(guarded, partial(self._write_updates, files))
            tasks.append(Task(f"updates/{self.run.number}", work, [identity, self.explanations.updates]))
        return tasks

    def after(self, results: Results) -> _ChosenRun:
        """Return the run without the episodes whose tasks failed, and without its state map or updates if their task
        failed.
        """
        found = [results.get(self._task(row["episode"]), {}).get("problem") for row in self.rows]
        rows = [row for row, problem in zip(self.rows, found, strict=True) if problem is None]
        problems = {row["number"]: why for row, why in zip(self.rows, found, strict=True) if why is not None}
        run, explanations = self.run, self.explanations
        if explanations is not None:
            parts: dict[str, Any] = {
                name: None for name in ("state_map", "updates") if "problem" in results.get(f"{name}/{run.number}", {})
            }
            run = replace(run, explanations=replace(explanations, **parts))
        return replace(self, run=run, rows=rows, problems={**self.problems, **problems})

    def show(self) -> ShownRun:
        """Return the run as the page shows it."""
        return ShownRun(
            self.run if self.run.error is None else failed(self.run, self._hide_location(self.run.error)),
            [
                replace(
                    describe_episode(row, i, self.explanations),
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

    def provenance(self) -> ProvenanceGroup:
        """Return facts about the origin of the episodes, and the episodes that are left out."""
        assert self.run.recording is not None
        metadata = self.run.recording.metadata
        names = ("name", "checkpoint", "environment", "gamma", "lambda", "sampling")
        facts = {name: metadata[name] for name in names if name in metadata}
        facts["episodes"] = [row["number"] for row in self.rows]
        facts |= {f"episode {number}, left out": self._hide_location(why) for number, why in self.problems.items()}
        return provenance_group(f"Run {self.run.name}", facts)

    def _task(self, index: int | str) -> str:
        return f"episodes/{self.run.number}/{index}"

    def _hide_location(self, problem: str) -> str:
        """Return the text of a problem without the recording's path, which a published page should not disclose."""
        return problem.replace(self.run.location, self.run.name)

    def _write_episode(self, files: PageFiles, index: int, work: Work) -> TaskResult:
        shown = self.shown(index)
        entry = shown.entry(self.folder(index))
        files.write_chunk(entry.series, shown.series())
        for name, part in zip(entry.frames, segments(entry.steps, SEGMENT), strict=False):
            files.write_chunk(name, shown.frames(slice(part.start, part.stop)))
            work.report(part.stop / entry.steps)
        for image, part in zip(entry.scrub, segments(entry.steps, SCRUB_STEPS), strict=False):
            files.write_image(image, shown.filmstrip(slice(part.start, part.stop)))
        copied = self._copy(files, file_names(self.sections(index)))
        return TaskResult(files=[entry.series, *entry.frames, *entry.scrub, *copied])

    def _copy(self, files: PageFiles, names: Iterable[str]) -> list[str]:
        """Copy files of the explanations to the page, and return their names there."""
        copied = [*names]
        for file in copied:
            if isinstance(file, ImageName):
                files.write_file(self._explained(file), self._bytes(file))
            else:
                files.write_chunk(self._explained(file), self._read(file))
        return [*map(self._explained, copied)]

    def _write_updates(self, files: PageFiles, work: Work) -> TaskResult:
        """Copy the files of the section `updates`."""
        assert self.explanations is not None
        section = self.explanations.updates_section()
        return TaskResult(files=self._copy(files, file_names(section)))

    def _write_maps(self, files: PageFiles, work: Work) -> TaskResult:
        """Write state maps without the points of unpublished episodes."""
        assert self.explanations is not None
        assert self.explanations.state_map is not None
        indices = [row["episode"] for row in self.after(work.results).rows]
        names = [one["chunk"] for one in self.explanations.state_map["maps"]]
        for name in names:
            arrays = self._read(name)
            kept = np.isin(arrays["trajectory"], indices)
            arrays = {key: array[kept] for key, array in arrays.items()}
            order = np.argsort(indices)
            positions = order[np.searchsorted(indices, arrays["trajectory"], sorter=order)]
            files.write_chunk(self._explained(name), {**arrays, "trajectory": positions.astype(np.int32)})
        return TaskResult(files=[*map(self._explained, names)])

    def _sections(self) -> list[SectionData | StoredSection]:
        """Return the sections that describe all episodes, and those that describe a single episode."""
        explanations, sections = self.explanations, list[SectionData | StoredSection]()
        if explanations is None:
            return []
        saliency = explanations.saliency([row["episode"] for row in self.rows], self._explained)
        if saliency is not None:
            sections.append(saliency)
        if explanations.state_map is not None:
            entries = [{**one, "chunk": self._explained(one["chunk"])} for one in explanations.state_map["maps"]]
            sections.append(read(StateMapSection, {**explanations.state_map, "maps": entries}, "state_map"))
        updates = explanations.updates_section(self._explained)
        if updates is not None:
            sections.append(updates)
        for trajectory, row in enumerate(self.rows):
            found = explanations.sections(row["episode"], self._explained)
            sections += [StoredSection(one, trajectory) for one in found if one["kind"] != "saliency"]
        return sections

    def _explained(self, name: str) -> str:
        return f"run-{self.run.number}/explained/{name}"

    def _read(self, name: str) -> dict[str, np.ndarray]:
        return decode_chunk(parse_script(self._bytes(name), name))

    def _bytes(self, name: str) -> bytes:
        assert self.explanations is not None
        with open_regular(self.explanations.path(name), "rb") as file:
            return bytes(file.read())


def publish(
    place: str | os.PathLike[str], output_dir: str | os.PathLike[str], episodes: Sequence[str] = (), **options: Any
) -> Page:
    """Write episodes of recordings, and their explanations, as a static page.

    Repeat an interrupted call to resume it. Without `episodes`, runs that cannot be read are listed with the reason,
    and damaged episodes are left out and listed in the page's provenance. Both are also printed to standard error.

    Args:
        place: A log directory or a recording, as a path or an address.
        output_dir: Directory or address of the page.
        episodes: Numbers of episodes of all runs, or `RUN~NUMBER` for one run; by default the newest 8 of each run.
        options: See `PublishOptions`.

    Raises:
        OptionError: An episode does not exist or has not ended, or an option is invalid.
        SamplesError: No episode can be read, or one in `episodes` is damaged.
        OutputError: The directory cannot be written, or contains another page.
    """
    chosen_options = parse(PublishOptions, options)
    location = path_text(place, "place")
    runs = Runs([LogDirectory.at(location)], follow_links=chosen_options.follow_links)
    chosen = choose_episodes(runs.snapshots(), episodes, location)
    title = chosen_options.title or ", ".join(one.run.name for one in chosen if one.rows)
    if title == ".":  # the recording itself, without a log directory
        title = location.rstrip("/").rpartition("/")[2]
    identity = [[one.identity, one.rows, _explanation_facts(one), one.run.error] for one in chosen]
    values = [title, chosen_options.numpy_precision, chosen_options.inline_js, chosen_options.single_file]
    with team() as workers:
        folders = [f"run-{one.run.number}" for one in chosen]
        output = open_output(output_dir, chosen_options, [KIND, identity], lambda _: values, folders, workers.ranks)
        failures = workers.ranks.broadcast(_failures(output.store))
        if output.finished and not failures:
            return output.page()
        memory = workers.share().memory()
        page_id = output.page_id([])

        def manifest(results: Results) -> Manifest:
            readable = [one.after(results) for one in chosen]
            if not any(one.rows for one in readable):
                raise SamplesError(next(iter(readable[0].problems.values())))
            _print_problems(readable, results)
            groups = [one.provenance() for one in readable if one.run.recording is not None]
            return describe_page(
                [describe_run(one.show()) for one in readable],
                title,
                id=page_id,
                numpy_precision=chosen_options.numpy_precision,
                provenance=[*groups, provenance_group("Versions", package_versions())],
            )

        tasks = [task for one in chosen for task in one.tasks(output.files)]
        with open_job(workers, output.directory, None) as job:
            build_page(job, output, page_id, tasks, manifest, memory, repeated=failures)
        return output.page()


def choose_episodes(runs: Sequence[Snapshot], episodes: Sequence[str], location: str) -> list[_ChosenRun]:
    """Return the runs with the episodes to publish, which must have ended.

    Without `episodes`, runs that cannot be read are included.

    Raises:
        OptionError: An episode does not exist or has not ended, or there are no episodes.
        SamplesError: A requested episode is damaged, or no episode can be read.
    """
    errors = [run.error for run in runs if run.error is not None]
    if errors and len(errors) == len(runs):
        raise SamplesError(errors[0])
    missing, chosen = {*episodes}, []
    for run in runs:
        if run.error is not None and not episodes:
            chosen.append(_ChosenRun(run))
        ended = [row for row, _ in run.rows if row["end"] != GOING and row["steps"]]
        if episodes:
            keys = {row["episode"]: {str(row["number"]), f"{run.name}~{row['number']}"} for row in ended}
            ended = [row for row in ended if keys[row["episode"]] & {*episodes}]
            missing -= {key for row in ended for key in keys[row["episode"]]}
        else:
            ended = ended[-NEWEST:]
        problems = {row["episode"]: problem for row, problem in run.rows if problem is not None}
        damaged = {row["number"]: problems[row["episode"]] for row in ended if row["episode"] in problems}
        if damaged and episodes:
            raise SamplesError(next(iter(damaged.values())))
        if ended:
            chosen.append(_ChosenRun(run, [row for row in ended if row["episode"] not in problems], damaged))
    if not missing and chosen and not any(one.rows for one in chosen):
        raise SamplesError(next(why for one in chosen for why in one.problems.values()))
    if missing or not any(one.rows for one in chosen):
        known = ", ".join(f"{run.name}: {run.error or len(run.rows)}" for run in runs) or "none"
        wanted = f"no finished episodes {', '.join(sorted(missing))}".rstrip()
        raise OptionError(f"{location} has {wanted}; episodes by run: {known}")
    return chosen


def _failures(store: WorkStore) -> list[str]:
    """Return the names of tasks that failed in an earlier call and may succeed now. If there are any, also return those
    of state maps, from which the failed episodes were left out.
    """
    entries = store.entries()
    failures = [name for name, entry in entries.items() if "problem" in entry["facts"]]
    return failures and [*failures, *(name for name in entries if name.startswith("state_map/"))]


def _print_problems(chosen: Sequence[_ChosenRun], results: Results) -> None:
    """Print the runs, episodes and state maps that are left out, with the reasons."""
    for one in chosen:
        problems = {f"{one.run.name}~{number}": why for number, why in one.problems.items()}
        if one.run.error is not None:
            problems[one.run.name] = one.run.error
        if "problem" in (facts := results.get(f"state_map/{one.run.number}", {})):
            problems[f"{one.run.name}, state map"] = facts["problem"]
        for name, why in problems.items():
            print(printable(f"{name} is left out: {why}"), file=sys.stderr)


def _explanation_facts(one: _ChosenRun) -> Any:
    """Return the values that determine the explanations of the selected episodes."""
    if one.explanations is None:
        return None
    return [one.explanations.state_map, [one.sections(row["episode"]) for row in one.rows]]
