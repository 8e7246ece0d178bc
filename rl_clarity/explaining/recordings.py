"""`rl_clarity.explain_recording` and `rl-clarity explain`.

The work on each episode is divided into tasks. A task is finished when its entry is written (`jobs/store.py`), so a
call that was stopped can be resumed, and ranks can share the tasks.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from rl_clarity.base.errors import OptionError, SamplesError, Terminated, describe_error
from rl_clarity.base.keys import code_version
from rl_clarity.base.parsing import parse, path_text
from rl_clarity.base.progress import progress_bar
from rl_clarity.explaining.agents import AgentChoice, Agents
from rl_clarity.explaining.episodes import EpisodeAnalysis, episode_analyses, explain_episode
from rl_clarity.explaining.files import EXPLAINED, STATE_MAP, UPDATES, WRITTEN, episode_folder
from rl_clarity.explaining.options import ExplainOptions
from rl_clarity.explaining.reports import FEWEST_POINTS, NO_CHECKPOINT, ExplainedRecording
from rl_clarity.explaining.state_maps import StateMaps
from rl_clarity.explaining.updates import ANSWERS, FEWEST, Updates
from rl_clarity.jobs.directory import open_directory, remove_empty_folders
from rl_clarity.jobs.job import Team, team
from rl_clarity.jobs.ownership import check_foreign, check_links, claim, release
from rl_clarity.jobs.store import WorkStore, locked
from rl_clarity.jobs.tasks import Task, TaskResult, Work, guarded, run_tasks
from rl_clarity.pages.files import PageFiles
from rl_clarity.recordings.episode import Episode
from rl_clarity.recordings.layout import GOING
from rl_clarity.recordings.recording import StoredRecording
from rl_clarity.recordings.search import FoundRecording, find_recordings

PLACED, FITTED = "placed", "fitted"
"""First components of the names of tasks, in addition to those in `files`: `placed/EPISODE/MAP`, `fitted/MAP`."""
WATCH_SECONDS = 2.0
WATCHED_CHECKPOINTS = 4
"""Number of checkpoints that each rank processes while watching, before new episodes are looked for."""
NICENESS = 10


def explain_recording(
    path: str | os.PathLike[str],
    agent: AgentChoice = None,
    methods: Sequence[str] = ("perturbation",),
    every: int = 2,
    embeddings: Sequence[str] = ("tsne", "pca"),
    **options: Any,
) -> list[ExplainedRecording]:
    """Compute saliency maps and state maps of recorded episodes, and write them beside the recording.

    Each complete episode is explained with the checkpoint with which it began (`Recorder.agent`). If the recorder
    stored a checkpoint for each update (`Recorder(checkpoint_every=1)`), each step is explained with the checkpoint
    that acted. If values, logits or action values were recorded, the agent's outputs are compared with them at every
    explained step. An episode is skipped if they differ at its first step by more than 0.1 % of the range of the
    episode's recorded outputs. Later differences are stored with the maps. To resume a stopped call, call the function
    again. Under mpiexec, all ranks call it and share the work.

    Args:
        path: A recording, or a log directory. All recordings in a log directory and in the runs below it are explained.
        agent: The agent with which to explain all episodes, instead of with their checkpoints: an agent, a checkpoint
            of any supported format, or an included agent (`models:coinrun`). It can also be a function that loads the
            agent of a recorded checkpoint from its path.
        methods: Methods of saliency maps; may be empty.
        every: Explain every n-th step.
        embeddings: Methods of the state map: `tsne`, `pca`, `umap`; may be empty.
        options: `analyses`, `layer`, `perplexity`, `seed`, `refit`, `other_agent`, `watch` and `follow_links`; see
            `ExplainOptions`.

    If one of several recordings fails, its report contains the reason (`problem`), and the others are still explained.
    Reasons why episodes were skipped are in `skipped`.

    Raises:
        OptionError: An option has an invalid value, or there is no recording.
        CheckpointError: The checkpoint `agent` cannot be read. Episodes whose recorded checkpoint cannot be read are
            skipped.
        SamplesError: All recordings are damaged.
        OutputError: No files can be written, or another process is explaining the same recordings.
    """
    chosen = parse(
        ExplainOptions, {"methods": tuple(methods), "every": every, "embeddings": tuple(embeddings), **options}
    )
    analyses = episode_analyses(chosen)
    text = path_text(path, "path")
    if not find_recordings(text) and not chosen.watch:
        raise OptionError(
            f"path={text!r} contains no recording; rl_clarity.Recorder, RecordEpisodes and "
            "integrations.sb3.RecorderCallback write recordings to LOGDIR/plugins/rl_clarity/NAME"
        )
    with team() as workers, ExitStack() as context:
        memory = workers.share().memory
        if chosen.watch and hasattr(os, "nice"):
            os.nice(NICENESS)
        agents = Agents(agent, context, other_agent=chosen.other_agent)
        explaining = _Explaining(
            partial(_Explainer, chosen, analyses, agents, workers, memory), workers, context, chosen
        )
        try:
            while True:
                busy = explaining.advance(find_recordings(text, follow_links=chosen.follow_links))
                if not chosen.watch:
                    break
                if not busy:
                    wait()
        except KeyboardInterrupt as error:
            # This is how watching ends. With several ranks it ends the job, because the others would wait for this one.
            if isinstance(error, Terminated) or not chosen.watch or workers.ranks.size > 1:
                raise
        return explaining.reports(raises=not chosen.watch)


def wait() -> None:
    """Wait before recordings are read again."""
    time.sleep(WATCH_SECONDS)


@dataclass(frozen=True)
class _Fitted:
    """Fitted state maps, one for each method, with the facts of the fit."""

    name: str
    facts: Mapping[str, Any]


class _Explaining:
    """Explains several recordings. If one fails for any reason, the failure is reported, and the others continue."""

    def __init__(
        self,
        explainer: Callable[[StoredRecording], _Explainer],
        workers: Team,
        context: ExitStack,
        options: ExplainOptions,
    ) -> None:
        self._explainer, self._workers, self._context, self._options = explainer, workers, context, options
        self._explainers: dict[str, _Explainer] = {}
        self._failures: dict[str, Exception] = {}

    def advance(self, recordings: Sequence[FoundRecording]) -> bool:
        """Explain recordings, and return whether there was anything to do. All ranks call this together."""
        busy = False
        for one in self._workers.ranks.broadcast(recordings):
            location = one.location
            try:
                if location not in self._explainers:
                    self._explainers[location] = self._open(one)
                busy = self._explainers[location].advance() or busy
                self._failures.pop(location, None)
            except Exception as error:
                if location in self._explainers and self._workers.ranks.size > 1:
                    raise  # the other ranks would wait for this one
                known = self._failures.get(location)
                if self._options.watch and self._workers.leads and (known is None or str(known) != str(error)):
                    print(ExplainedRecording(location, problem=describe_error(error)), file=sys.stderr, flush=True)
                self._failures[location] = error
        return busy

    def reports(self, *, raises: bool) -> list[ExplainedRecording]:
        """Return a report for each recording. With `raises`, raise the error if all of them failed."""
        if raises and self._failures and len({*self._explainers, *self._failures}) == len(self._failures):
            raise next(iter(self._failures.values()))
        reports = {location: explainer.report for location, explainer in self._explainers.items()}
        for location, error in self._failures.items():
            report = reports.get(location, ExplainedRecording(location))
            reports[location] = replace(report, problem=describe_error(error))
        return [reports[location] for location in sorted(reports)]

    def _open(self, one: FoundRecording) -> _Explainer:
        """Open and lock a recording. If this fails on one rank, it fails on all."""
        workers = self._workers
        failure: Exception | None = None
        with ExitStack() as context:
            try:
                if one.problem is not None:
                    raise SamplesError(f"{one.location}: {one.problem}")
                recording = StoredRecording(one.location)
                if workers.leads:
                    check_links(open_directory(one.location), [f"{EXPLAINED}/*"])
                    context.enter_context(locked(f"{one.location}/{EXPLAINED}"))
                explainer = self._explainer(recording)
            except Exception as error:
                failure = error
            reasons = workers.ranks.all_gather(failure and describe_error(failure))
            if any(reasons):
                raise failure or SamplesError(next(filter(None, reasons)))
            self._context.push(context.pop_all())
        return explainer


class _Explainer:
    """Explains one recording; every rank has one."""

    def __init__(
        self,
        options: ExplainOptions,
        analyses: Sequence[EpisodeAnalysis],
        agents: Agents,
        workers: Team,
        memory: Callable[[], int],
        recording: StoredRecording,
    ) -> None:
        self._options, self._analyses, self._agents, self._workers = options, analyses, agents, workers
        self._memory, self._recording, location = memory, recording, recording.location
        directory = open_directory(f"{location}/{EXPLAINED}")
        self._files, self._store = PageFiles(directory), WorkStore(directory)
        self._maps = StateMaps(self._recording, options, agents, self._files)
        self._code = code_version()
        self._updates = Updates(self._recording, options, agents, self._files, self._code)
        self._done: tuple[list[int], list[int]] | None = None
        """The indices of the episodes and the numbers of the checkpoints for which all work has been done."""
        self.report = ExplainedRecording(location, loader=recording.metadata.get("loader"))
        if workers.leads:
            self._claim()
            self._forget()

    def _claim(self) -> None:
        """Raise OutputError for files that were not written by this program, before anything is computed."""
        directory = self._files.directory
        check_foreign(directory, WRITTEN, lambda: self._store.written().keys())
        claim(directory, WRITTEN)

    def _forget(self) -> None:
        """Remove the entries of maps that are to be fitted again, and of failed tasks, which may succeed now."""
        for name, entry in self._store.entries().items():
            is_map = name.partition("/")[0] in (FITTED, PLACED, STATE_MAP)
            if "problem" in entry["facts"] or (is_map and self._options.refit):
                self._store.withdraw(name)

    def advance(self) -> bool:
        """Explain all complete episodes, or only the newest ones while watching. Return whether anything had to be
        done.
        """
        ranks = self._workers.ranks
        listing = self._recording.refresh().listing()
        ended = {row["episode"]: problem for row, problem in listing if row["end"] != GOING and row["steps"]}
        indices, numbers = ranks.broadcast(([*ended], self._updates.numbers()))
        if (indices, numbers) == self._done:
            return False
        if self._workers.leads:
            self._claim()
        self._remove_others(indices)
        self.report.episodes = len(indices)
        self.report.skipped = {index: problem for index, problem in ended.items() if problem is not None}
        positions = {row["episode"]: i for i, (row, _) in enumerate(listing)}
        newest = self._open(positions, [index for index in indices[::-1] if index not in self.report.skipped])
        self.report.only_states = []
        fitted = self._fit(newest) if self._options.embeddings else None
        tasks = {episode.index: self._tasks(episode, fitted) for episode in newest}
        facts = {index: [self._store.finished(task.name, task.key) for task in own] for index, own in tasks.items()}
        pending = ranks.broadcast([index for index in tasks if None in facts[index]])
        chosen = pending[: ranks.size] if self._options.watch else pending
        if chosen:
            facts |= self._run(tasks, chosen, len(pending))
        if fitted is not None:
            self._write_map(fitted, tasks)
        for index, own in facts.items():
            problem = next((one["problem"] for one in own if one is not None and "problem" in one), None)
            if problem is not None:
                self.report.skipped[index] = problem
        compared = self._compare(numbers)
        unfinished = {index for index, own in facts.items() if None in own}
        self.report.explained = len(set(facts) - unfinished - {*self.report.skipped, *self.report.only_states})
        failed = any("problem" in one for own in facts.values() for one in own if one is not None)
        if not unfinished and not failed and self._workers.leads:  # a failed task may have left files behind
            release(self._files.directory)
        self._done = None if unfinished or not compared else (indices, numbers)
        return bool(chosen) or not compared

    def _compare(self, numbers: Sequence[int]) -> bool:
        """Compare checkpoints with the ones before them, or only the next few while watching. Return whether all are
        compared.
        """
        if len(numbers) < FEWEST:
            return True
        ranks = self._workers.ranks
        tasks = {number: self._updates.answer_task(number) for number in numbers}
        pending = ranks.broadcast([n for n, task in tasks.items() if self._store.finished(task.name, task.key) is None])
        chosen = pending[: WATCHED_CHECKPOINTS * ranks.size] if self._options.watch else pending
        if chosen and self._workers.leads:
            print(f"{self.report.location}: comparing {len(pending)} checkpoints", file=sys.stderr, flush=True)
        about: dict[str, Any] = {"memory": self._memory(), "started": self._workers.doing}
        run_tasks([tasks[n] for n in chosen], self._store, ranks, largest_first=False, **about)
        done = {
            n: self._store.finished(task.name, task.key) for n, task in tasks.items() if n not in pending or n in chosen
        }
        answers = {number: facts for number, facts in done.items() if facts is not None and "problem" not in facts}
        if len(answers) >= FEWEST:
            keys = [tasks[number].key for number in answers]
            run_tasks([self._updates.section_task(answers, keys)], self._store, ranks, started=self._workers.doing)
        return len(chosen) == len(pending)

    def _open(self, positions: Mapping[int, int], indices: Sequence[int]) -> list[Episode]:
        """Return the episodes with the given indices. Episodes that cannot be read are reported as skipped."""
        episodes = []
        for index in indices:
            try:
                episodes.append(self._recording[positions[index]])
            except Exception as error:  # of any kind: the other episodes are explained
                self.report.skipped[index] = describe_error(error)
        return episodes

    def _agent_key(self, episode: Episode) -> str | None:
        """Return the hash of an episode's agent, or None if no agent was recorded or its file cannot be read."""
        try:
            return self._agents.key(self._recording, episode)
        except Exception as error:
            self.report.skipped[episode.index] = describe_error(error)
            return None

    def _run(self, tasks: Mapping[int, Sequence[Task]], chosen: Sequence[int], pending: int) -> dict[int, Any]:
        """Run the tasks of the chosen episodes in this order, and return their facts by the episode's index."""
        leads, location = self._workers.leads, self.report.location
        if leads:
            count = f"{pending} episodes" if len(chosen) == pending else f"episode {chosen[0]} ({pending} to do)"
            print(f"{location}: explaining {count}", file=sys.stderr, flush=True)
        wanted = [task for index in chosen for task in tasks[index]]
        if leads:  # a task that fails would not replace the files of earlier options
            outdated = {task.name for task in wanted if self._store.finished(task.name, task.key) is None}
            self._remove(outdated & self._store.entries().keys())
        self._workers.ranks.barrier()
        with progress_bar("Explaining", shown=leads) as report:
            about: dict[str, Any] = {"memory": self._memory(), "started": self._workers.doing}
            facts = run_tasks(wanted, self._store, self._workers.ranks, report, largest_first=False, **about)
        return {index: [facts[task.name] for task in tasks[index]] for index in chosen}

    def _remove_others(self, kept: Sequence[int]) -> None:
        """Remove the results of episodes and checkpoints that the recorder has removed since then."""
        self._store.refresh()
        if self._workers.leads:
            folders, others = {episode_folder(index) for index in kept}, (FITTED, STATE_MAP, UPDATES)
            checkpoints = {f"{number:05}" for number in self._recording.checkpoints.numbers()}
            names = [name.split("/") for name in self._store.entries()]  # also those of earlier versions
            self._remove(
                {
                    "/".join(name)
                    for name in names
                    if name[0] not in others
                    and (len(name) < 2 or name[1] not in (checkpoints if name[0] == ANSWERS else folders))
                }
            )
        self._workers.ranks.barrier()

    def _remove(self, names: Collection[str]) -> None:
        """Remove the entries of finished tasks, and their files."""
        entries = self._store.entries()
        for name in names:
            self._store.withdraw(name)
            for file in entries[name]["files"]:
                self._files.directory.remove(file)
                remove_empty_folders(self._files.directory, file)

    def _tasks(self, episode: Episode, fitted: _Fitted | None) -> list[Task]:
        """Return the tasks of an episode. Tasks that need an unknown agent are omitted."""
        options, agent = self._options, self._agent_key(episode)
        inputs = [episode.facts[name] for name in ("number", "start_time", "steps", "return")]
        inputs += [options.every, options.other_agent, self._code]
        steps = len(self._maps.steps(episode))
        tasks = []
        if agent is None and episode.index not in self.report.skipped:
            if fitted is not None and not self._maps.needs_agent(episode):
                self.report.only_states.append(episode.index)
            else:
                self.report.skipped[episode.index] = NO_CHECKPOINT
        if agent is not None:
            for one in self._analyses:
                run = partial(self._explain, one, episode, [*inputs, agent])
                key = [*inputs, agent, one.key]
                tasks.append(Task(one.task_name(episode.index), partial(guarded, run), key, steps))
        own = agent if self._maps.needs_agent(episode) else STATES
        if fitted is not None and own is not None:
            name = f"{PLACED}/{episode_folder(episode.index)}/{fitted.name}"
            run = partial(self._maps.place, episode, fitted.facts)
            tasks.append(Task(name, partial(guarded, run), [*inputs, own, fitted.facts], steps))
        return tasks

    def _explain(self, one: EpisodeAnalysis, episode: Episode, identity: object, work: Work) -> TaskResult:
        players, directory = self._agents.players(self._recording, episode), self._files.directory
        return explain_episode(one, self._recording, episode, players, self._options, directory, identity, work)

    def _fit(self, episodes: Sequence[Episode]) -> _Fitted | None:
        """Fit the maps unless they are fitted already, and return them. Return None while there are too few points, or
        if the fit fails.
        """
        options, ranks = self._options, self._workers.ranks
        usable = [one for one in episodes if not self._maps.needs_agent(one) or self._agent_key(one) is not None]
        if not usable:
            return None
        name = self._maps.name(usable[0])
        usable = [one for one in usable if self._maps.name(one) == name]
        task = Task(
            f"{FITTED}/{name}",
            partial(guarded, partial(self._maps.fit, usable)),
            [options.embeddings, options.perplexity, options.seed, self._code],
        )
        points = sum(len(self._maps.steps(one)) for one in usable)
        is_done = self._store.finished(task.name, task.key) is not None
        wanted = FEWEST_POINTS if options.watch else 2
        waiting = None if ranks.broadcast(is_done or points >= wanted) else points
        if waiting is not None:
            if options.watch and waiting != self.report.waiting and self._workers.leads:
                text = f"{self.report.location}: the state map waits for {wanted} points; there are {waiting} so far"
                print(text, file=sys.stderr, flush=True)
            self.report.waiting = waiting if options.watch else None
            return None
        self.report.waiting = None
        if self._workers.leads and not is_done:
            print(f"{self.report.location}: fitting the state map", file=sys.stderr, flush=True)
        facts = run_tasks([task], self._store, ranks, started=self._workers.doing)[task.name]
        if "problem" in facts:
            self.report.skipped |= {one.index: facts["problem"] for one in usable}
            return None
        return _Fitted(name, facts)

    def _write_map(self, fitted: _Fitted, tasks: Mapping[int, Sequence[Task]]) -> None:
        """Write the maps with all episodes that have been placed on them."""
        placed = {}
        for index, own in tasks.items():
            for task in own:
                facts = self._store.finished(task.name, task.key) if task.stage == PLACED else None
                if facts is not None and "problem" not in facts:
                    placed[index] = facts, task.key
        placed = self._workers.ranks.broadcast(placed)
        if placed:
            points = {index: facts for index, (facts, _) in placed.items()}
            task = Task(
                f"{STATE_MAP}/{fitted.name}",
                lambda work: self._maps.write(fitted.name, fitted.facts, points),
                [fitted.facts, [[index, key] for index, (_, key) in sorted(placed.items())]],
            )
            run_tasks([task], self._store, self._workers.ranks, started=self._workers.doing)


STATES = "states"
"""Replaces the hash of an agent in the keys of tasks whose points are recorded states."""
