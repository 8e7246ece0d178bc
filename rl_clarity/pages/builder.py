"""Plan, forecast and build a page of one or several agents. `build_page` builds pages of all kinds."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, cast

from rl_clarity import formats
from rl_clarity.agents.protocol import Agent
from rl_clarity.analyses import ANALYSES, Analysis, Subject
from rl_clarity.analyses.analysis import action_combos, action_groups, describe_agent, equivalent_actions
from rl_clarity.analyses.part import Part
from rl_clarity.analyses.trajectories import discounts
from rl_clarity.base.keys import cache_key, code_version, package_versions
from rl_clarity.base.parsing import find_part, parse, path_text
from rl_clarity.base.progress import progress_bar
from rl_clarity.base.registry import option_sources
from rl_clarity.formats import Checkpoint
from rl_clarity.jobs.directory import Directory, open_directory
from rl_clarity.jobs.forecast import Cost, CountingDirectory, Forecast, forecast
from rl_clarity.jobs.job import Job, Team, open_job
from rl_clarity.jobs.store import DIRECTORY, WorkStore
from rl_clarity.jobs.tasks import Results, Task
from rl_clarity.pages.files import PageFiles, path_in
from rl_clarity.pages.kinds import PAGE_KINDS
from rl_clarity.pages.manifest import Manifest, ProvenanceGroup, RecordingInfo, provenance_group
from rl_clarity.pages.options import PageOptions, options_as_data
from rl_clarity.pages.output import Decisive, PageOutput, open_output
from rl_clarity.pages.results import Page
from rl_clarity.pages.sections import SectionData
from rl_clarity.sources.preview import Preview
from rl_clarity.sources.source import Samples, Source

RECORDINGS = f"{DIRECTORY}/recordings"
"""Folder in the page's directory for recordings of the episodes that agents play for the page."""
NOT_DECISIVE = ("overwrite", "analyses", "reference.recording")
"""Options whose values are not hashed to identify the page. Options of further analyses are hashed together with
their code, and a reference recording by its identity."""
UNLISTED = ("overwrite", "page_kind", "analyses", "action_combos", "equivalent_actions", "title", "env_name")
"""Options that the page's provenance does not list, in addition to the names of subdirectories."""


@dataclass(frozen=True)
class Member:
    """An agent of a page, with the source of its samples."""

    source: Source
    kinds: Sequence[str] | None = None
    """Kinds of the analyses of these samples; None for all analyses of the page. For example, a reference episode of
    an agent is shown without further analyses."""

    @property
    def agent(self) -> Agent:
        return self.source.agent


class PageBuilder:
    """Plans, forecasts and builds the page of one or several agents."""

    def __init__(self, members: Sequence[Member], options: PageOptions) -> None:
        """Check the options. Raises OptionError for options that do not fit an agent, before anything is computed."""
        self._members, self._options = members, options
        self._analyses = _analyses(options, _agent_kinds(options))
        self._joint = _analyses(options, PAGE_KINDS.get(options.page_kind).joint)
        for member in members:
            if options.action_combos is not None:
                action_combos(member.agent, options.action_combos)
            equivalent_actions(member.agent, options.equivalent_actions)
            for analysis, own_options in [*self._analyses, *self._joint]:
                analysis.check(member.agent, own_options, options)

    def page(
        self,
        workers: Team,
        output_dir: str | os.PathLike[str],
        made_from: object,
        memory: Callable[[], int],
        dry_run: bool,
    ) -> Page | Forecast:
        """Forecast the job, run it, and return the page. With `dry_run`, only forecast it.

        `made_from` (JSON) identifies the agents and all samples. `memory` returns the bytes that this rank may use now.
        """
        ranks, options = workers.ranks, self._options
        output = open_output(output_dir, options, made_from, decisive(options), self._folders(), ranks)
        if output.finished:
            return Forecast.nothing_to_do(ranks.size) if dry_run else output.page()
        recordings = open_directory(f"{path_text(output_dir, 'output_dir')}/{RECORDINGS}")
        available = memory()
        expected = self._forecast(output, recordings, ranks.size, available) if workers.leads else None
        if dry_run:
            return cast(Forecast, ranks.broadcast(expected))
        with open_job(workers, output.directory, expected) as job:
            self._build(job, output, self._collect(job, recordings, available), available)
        return output.page()

    def _forecast(self, output: PageOutput, recordings: Directory, ranks: int, memory: int) -> Forecast:
        with progress_bar("Measuring") as report:
            previews = [member.source.preview(recordings) for member in self._members]
            parts = self._parts(output, [Samples(*preview.whole(), preview.metadata) for preview in previews])
            written = CountingDirectory()
            sample = replace(
                parts[0].subject,
                trajectories=previews[0].trajectories,
                observations=previews[0].observations,
                files=PageFiles(written),
            )
            expected = forecast(
                _tasks(parts),
                output.reusable,
                sample,
                written,
                ranks=ranks,
                memory=memory,
                playing=_playing_cost(previews, ranks),
                single_file=self._options.single_file,
                report=report,
            )
        checkpoints = [member.source.checkpoint for member in self._members]
        notes = [note for checkpoint in checkpoints if checkpoint is not None for note in checkpoint.notes]
        return replace(expected, notes=(*expected.notes, *(f"Note: {note}." for note in dict.fromkeys(notes))))

    def _collect(self, job: Job, recordings: Directory, memory: int) -> list[Samples]:
        """Return the samples of all members. Missing episodes are recorded first, by all ranks together."""
        sources = [member.source for member in self._members]
        tasks = [task for source in sources for task in source.tasks(recordings)]
        results = job.run(tasks, WorkStore(recordings), memory)
        return [source.samples(recordings, job, results) for source in sources]

    def _build(self, job: Job, output: PageOutput, samples: Sequence[Samples], memory: int) -> None:
        parts = self._parts(output, samples)
        page_id = output.page_id([action.combo for action in parts[0].subject.info.actions])
        build_page(
            job,
            output,
            page_id,
            _tasks(parts),
            lambda results: self._manifest(parts, page_id, results, complete=True),
            memory,
            unfinished=lambda results: self._manifest(parts, page_id, results),
        )

    def _folders(self) -> list[str]:
        """Return the folders into which analyses write."""
        agents = [_agent_folder(number, len(self._members)) for number in range(1, len(self._members) + 1)]
        own = [folder for analysis, options in self._analyses for folder in analysis.folders(options)]
        joint = [folder for analysis, options in self._joint for folder in analysis.folders(options)]
        return [path_in(agent, folder) for agent in agents for folder in own] + joint

    def _parts(self, output: PageOutput, samples: Sequence[Samples]) -> list[Part]:
        """Return the analyses of each member, and then the joint analyses, if there are any.

        The subject of joint analyses is that of the last member, with the subjects of all members in `subjects`.
        """
        files = output.files
        parts = []
        for number, (member, one) in enumerate(zip(self._members, samples, strict=True), start=1):
            folder = _agent_folder(number, len(samples))
            info = describe_agent(member.agent, one.trajectories, one.metadata, self._options)
            owner = next(k for k, other in enumerate(self._members, start=1) if other.agent is member.agent)
            analyses = [pair for pair in self._analyses if member.kinds is None or pair[0].kind in member.kinds]
            subject = Subject(
                agent=member.agent,
                info=replace(info, id=f"agent-{owner}"),
                trajectories=one.trajectories,
                observations=one.observations,
                metadata=one.metadata,
                recording=one.recording,
                options=self._options,
                files=replace(files, folder=folder),
                key=cache_key([member.source.identity, code_version()]),
                analyses=tuple(analysis.kind for analysis, _ in self._analyses),
                analysis_options=tuple(own for _, own in [*self._analyses, *self._joint]),
                plugin_keys=_plugin_keys(self._options),
            )
            parts.append(Part(subject, analyses, folder, f"recording-{number}"))
        if self._joint:
            subjects = tuple(part.subject for part in parts)
            joint = replace(subjects[-1], subjects=subjects, files=files, key=output.key)
            parts.append(Part(joint, self._joint, recording=parts[-1].recording))
        return parts

    def _manifest(self, parts: Sequence[Part], page_id: str, results: Results, *, complete: bool = False) -> Manifest:
        """Return the manifest, from the facts of finished tasks. `complete` means that all tasks have finished."""
        options = self._options
        subjects = [part.subject for part in parts[: len(self._members)]]
        metadata = subjects[0].metadata
        # the environment in which the samples were collected, for this page or an earlier one
        played = metadata.get("environment") or {}
        names = (options.env_name, played.get("name"), metadata.get("env_name"), metadata.get("env_id"))
        env_name = str(next(filter(None, names), "unknown"))
        kind = PAGE_KINDS.get(options.page_kind)
        sections = [section for part in parts for section in part.sections(results, complete=complete)]
        pending = [] if complete else [title for part in parts for title in part.pending(results)]
        possible = {one.kind for analysis, _ in [*self._analyses, *self._joint] for one in analysis.Sections}
        return Manifest(
            id=page_id,
            kind=options.page_kind,
            title=options.title or kind.title.format(env_name=env_name, network=subjects[-1].info.network),
            agents=list({subject.info.id: subject.info for subject in reversed(subjects)}.values())[::-1],
            recordings=[
                RecordingInfo(env_name, subject.info.id, f"recording-{number}")
                for number, subject in enumerate(subjects, start=1)
            ],
            sections=sections,
            view=options.view.view(),
            numpy_precision=options.numpy_precision,
            provenance=_provenance(subjects, [member.source.checkpoint for member in self._members], options),
            complete=complete,
            pending=[*dict.fromkeys(pending)] or None,
            page=kind.page(possible - {section.kind for section in sections}),
        )


def build_page(
    job: Job,
    output: PageOutput,
    page_id: str,
    tasks: Sequence[Task],
    manifest: Callable[[Results], Manifest],
    memory: int,
    *,
    unfinished: Callable[[Results], Manifest] | None = None,
    repeated: Sequence[str] = (),
) -> None:
    """Run the tasks of a page of any kind, and write it. All ranks call it together.

    Rank 0 calls `manifest` with the facts of all tasks. While tasks run, it calls `unfinished` with the facts of
    finished tasks, to write a preliminary page that can already be opened. Tasks named in `repeated` run again even if
    they have already finished.
    """
    if job.team.leads:
        output.begin(page_id)
        job.begin()
        for name in repeated:
            output.store.withdraw(name)
        if unfinished is not None:
            job.update = output.updater(unfinished, tasks)
            job.update()
    results = job.run(tasks, output.store, memory)
    with job.stage("page"):
        if job.team.leads:
            output.write(manifest(results), results)
        job.team.ranks.barrier()


def decisive(options: PageOptions) -> Decisive:
    """Return a function that maps the buttons of each action to a JSON value.

    The value contains everything that determines the page, except for agents and samples.
    """
    values = {name: value for name, value in options_as_data(options).items() if name not in NOT_DECISIVE}
    # Predicates have no JSON value, so they are replaced by the groups of actions that they select.
    predicates = options.action_group_fns
    plugins = _plugin_keys(options)
    kinds = _kinds(options)
    page = PAGE_KINDS.get(options.page_kind).page()
    if page is not None:
        values["page"] = page
    return lambda combos: [values, kinds, plugins, None if predicates is None else action_groups(combos, predicates)]


def _playing_cost(previews: Sequence[Preview], ranks: int) -> Cost:
    """Return the time and space for collecting samples. The ranks share the recordings of several agents."""
    shared = [preview.seconds for preview in previews if preview.shared]
    alone = [preview.seconds for preview in previews if not preview.shared]
    seconds = sum(alone) + sum(shared) / max(1, min(ranks, len(shared)))
    return Cost(seconds, sum(preview.sample_bytes for preview in previews))


def _agent_folder(number: int, count: int) -> str:
    """Return the folder of an agent's files: "" on a page of a single agent, else `agent-NUMBER`."""
    return f"agent-{number}" if count > 1 else ""


def _tasks(parts: Sequence[Part]) -> list[Task]:
    return [task for part in parts for task in part.tasks()]


def _agent_kinds(options: PageOptions) -> list[str]:
    """Return the kinds of the analyses that each agent has, in order."""
    return list(dict.fromkeys([*PAGE_KINDS.get(options.page_kind).analyses, *options.analyses]))


def _kinds(options: PageOptions) -> list[str]:
    """Return the kinds of all analyses of the page, in order."""
    return [*_agent_kinds(options), *PAGE_KINDS.get(options.page_kind).joint]


def _analyses(options: PageOptions, kinds: Sequence[str]) -> list[tuple[Analysis[Any, SectionData], Any]]:
    """Return the analyses with their options: a field of the page's options, or an entry of `options.analyses`."""
    analyses: list[tuple[Analysis[Any, SectionData], Any]] = []
    for kind in kinds:
        analysis = ANALYSES.get(kind)()
        own = find_part(options, analysis.Options)
        if own is None:
            own = parse(analysis.Options, options.analyses.get(kind), f"analyses.{kind}.")
        analyses.append((analysis, own))
    return analyses


def _plugin_keys(options: PageOptions) -> dict[str, str]:
    """Return hashes of code from other packages.

    There is a hash for each analysis and its options. The hash `page` covers the kind of page and the registry
    entries that options name.

    Options in `options.analyses` are hashed even if the analysis belongs to this package.
    """
    kinds = _kinds(options)
    parts: dict[str, tuple[object, ...]] = {
        kind: (ANALYSES.source(kind), options.analyses.get(kind), option_sources(own))
        for kind, (_, own) in zip(kinds, _analyses(options, kinds), strict=True)
    }
    parts["page"] = (PAGE_KINDS.source(options.page_kind), option_sources(options))
    return {kind: cache_key(list(values)) for kind, values in parts.items() if any(values)}


def _provenance(
    subjects: Sequence[Subject], checkpoints: Sequence[Checkpoint | None], page: PageOptions
) -> list[ProvenanceGroup]:
    """Return the groups of facts about how the page was made."""
    groups, subject = [], subjects[-1]
    for number, checkpoint in enumerate(checkpoints, start=1):
        if checkpoint is not None:
            reading = {name: checkpoint.metadata.get(name) for name in formats.READING}
            notes = " ".join(f"{note}." for note in checkpoint.notes) or None
            name = "Checkpoint" if len(checkpoints) == 1 else f"Checkpoint {number}"
            groups.append(provenance_group(name, {**checkpoint.identity, **reading, "notes": notes}))
    environment: Mapping[str, Any] = subject.metadata.get("environment") or {}
    if environment:
        shown = {"kind": environment.get("kind"), "name": environment.get("name"), **environment.get("options", {})}
        for key, default in (("epsilon_greedy", 0), ("reward_scale", 1)):
            if environment.get(key, default) != default:
                shown[key] = environment[key]
        groups.append(provenance_group("Environment", shown))
    if subject.metadata.get("sampling"):
        groups.append(provenance_group("Sampling", subject.metadata["sampling"]))
    if subject.metadata.get("recording"):
        groups.append(provenance_group("Recording", subject.metadata["recording"]))
    info = {name: getattr(subject.info, name) for name in ("network", "kind", "recurrent", "num_actions")}
    gamma, lam = discounts(subject)
    observation = {name: value for name, value in asdict(subject.info.observation).items() if value is not None}
    groups.append(provenance_group("Agent", {**info, "observation": observation, "gamma": gamma, "lambda": lam}))
    options = options_as_data(page)
    names = [name for name in options if not (name in UNLISTED or name.startswith("view.") or name.endswith("_subdir"))]
    listed = {name: options[name] for name in names}
    groups.append(provenance_group("Options", listed))
    groups.append(provenance_group("Versions", package_versions()))
    return groups
