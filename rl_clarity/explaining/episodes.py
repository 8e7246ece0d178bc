"""Run analyses on single recorded episodes. Their sections are stored beside the recording."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from rl_clarity.agents.protocol import State
from rl_clarity.analyses import ANALYSES, Analysis, Subject
from rl_clarity.analyses.analysis import SubjectOptions, describe_agent
from rl_clarity.analyses.part import OwnResults, Part
from rl_clarity.analyses.saliency import SaliencySection
from rl_clarity.base.errors import OptionError
from rl_clarity.base.keys import cache_key, code_version
from rl_clarity.base.parsing import parse
from rl_clarity.base.registry import option_sources
from rl_clarity.explaining.agents import Players
from rl_clarity.explaining.files import SECTIONS, episode_folder
from rl_clarity.explaining.options import ExplainOptions
from rl_clarity.jobs.communicator import SingleProcess
from rl_clarity.jobs.directory import Directory
from rl_clarity.jobs.store import DIRECTORY, WorkStore
from rl_clarity.jobs.tasks import TaskResult, Work, run_tasks, slices, waves
from rl_clarity.pages.files import PageFiles, path_in
from rl_clarity.pages.sections import SectionData
from rl_clarity.recordings.agreement import BATCH, OUTPUTS, Agreement, episode_states, output_differences, state_rows
from rl_clarity.recordings.conversion import recorded_episode
from rl_clarity.recordings.episode import Episode
from rl_clarity.recordings.recording import Recording
from rl_clarity.recordings.samples import Observations, Trajectories


@dataclass(frozen=True)
class EpisodeAnalysis:
    """An analysis that works on a single episode, with its options."""

    name: str
    """Name under which its results are stored. Each method of saliency maps has its own name, so that the maps of
    earlier calls are kept."""
    analysis: Analysis[Any, SectionData]
    options: Any
    key: str
    """Hash of its options, and of the code of analyses and options that are not part of this package."""

    def task_name(self, episode: int) -> str:
        """Return the name of the task that analyzes the episode with this index."""
        return f"{SECTIONS}/{episode_folder(episode)}/{self.name}"


def episode_analyses(options: ExplainOptions) -> list[EpisodeAnalysis]:
    """Return the analyses to run on each episode. Raises OptionError if `options.analyses` contains `saliency`, or an
    analysis that needs more than one episode.
    """
    wanted: list[tuple[str, str, Mapping[str, Any]]] = [
        (f"saliency-{method}", "saliency", {"methods": (method,), "every": options.every})
        for method in dict.fromkeys(options.methods)
    ]
    for kind, values in options.analyses.items():
        if kind == "saliency" or not ANALYSES.get(kind).single_episode:
            how = "methods= (--methods) chooses its maps" if kind == "saliency" else "it needs more than one episode"
            raise OptionError(f"analyses={kind!r} cannot be added to the explanations of episodes, because {how}")
        wanted.append((kind, kind, values))
    chosen = []
    for name, kind, values in wanted:
        analysis = ANALYSES.get(kind)()
        own: Any = parse(analysis.Options, values, f"analyses.{kind}.")
        key = cache_key([ANALYSES.source(kind), option_sources(own), values])
        chosen.append(EpisodeAnalysis(name, analysis, own, key))
    return chosen


def explain_episode(
    one: EpisodeAnalysis,
    recording: Recording,
    episode: Episode,
    players: Players,
    options: ExplainOptions,
    directory: Directory,
    identity: object,
    work: Work,
) -> TaskResult:
    """Run the tasks of an analysis on a single episode. The results of finished tasks are kept in `directory`.

    `identity` (JSON) identifies the episode and the agents. The facts of the result are the sections in the format of
    manifests, the facts of the analysis's tasks, and how much the agents' outputs differ from the recorded ones.
    """
    folder, store = episode_folder(episode.index), WorkStore(directory)
    agent = players.at(0)
    states = episode_states(agent, episode, acting=players.at)
    played = _played(players, recorded_episode(recording, episode), states)
    names = [path_in(folder, f"{name.strip('/')}/*") for name in one.analysis.folders(one.options)]
    metadata = {**agent.metadata, **recording.metadata, "action_combos": None}
    subject = Subject(
        agent=agent,
        info=describe_agent(agent, played, metadata, SubjectOptions()),
        trajectories=played,
        observations=Observations.none(agent.observation_shape),
        metadata=metadata,
        options=SubjectOptions(),
        files=PageFiles(directory, folder, names),
        key=cache_key([identity, code_version()]),
        analyses=(one.analysis.kind,),
        analysis_options=(one.options,),
        plugin_keys={one.analysis.kind: one.key},
        acting=players.groups,
    )
    one.analysis.check(agent, one.options, subject.options)
    agreement, differences = _agreement(players, episode, states, options)
    part = Part(subject, [(one.analysis, one.options)], folder)
    results: dict[str, Mapping[str, Any]] = {}
    for wave in waves(part.tasks()):
        results |= run_tasks(wave, store, SingleProcess(), work.report, memory=work.memory, results=results)
    files = [name for name in store.written(results) if not name.startswith(f"{DIRECTORY}/")]
    facts: dict[str, Any] = {
        "sections": [section.to_dict() for section in part.sections(results, complete=True)],
        "results": dict(OwnResults(results, folder)),
        "agreement": asdict(agreement),
    }
    if differences is not None:
        facts["differences"] = f"{folder}/{one.name}-differences.js"
        PageFiles(directory).write_chunk(facts["differences"], differences)
        files.append(facts["differences"])
        for section in facts["sections"]:
            if section["kind"] == SaliencySection.kind:
                section["data"] = {**section["data"], "differences": [facts["differences"]]}
    return TaskResult(facts, files)


def _agreement(
    players: Players, episode: Episode, states: State, options: ExplainOptions
) -> tuple[Agreement, dict[str, np.ndarray | bytes] | None]:
    """Compare the agents' outputs with the recorded ones at every n-th step (`options.every`). Return the agreement,
    and arrays of all differences (None if no outputs were recorded).
    """
    steps = np.arange(0, len(episode), options.every)
    differences = np.zeros(len(steps))
    agreement = Agreement(0, other_agent=options.other_agent, tolerance=players.tolerance)
    for rows, agent in players.groups(steps):
        compared = output_differences(agent, episode, steps[rows], state_rows(states, steps[rows]))
        if compared is None:
            return agreement, None
        differences[rows] = compared
    arrays: dict[str, np.ndarray | bytes] = {
        "steps": steps.astype(np.int32),
        "differences": differences.astype(np.float32),
    }
    return replace(agreement, steps=len(steps), largest=float(differences.max())), arrays


def _played(players: Players, played: Trajectories, states: State) -> Trajectories:
    """Return an episode with the outputs and states of its agents. Outputs that were not recorded are computed."""
    agent = players.at(0)
    first = agent.forward(np.asarray(played.observations[0, :1]), state_rows(states, slice(0, 1)))
    outputs: dict[str, Any] = {}
    missing: dict[str, np.ndarray] = {}
    for name in OUTPUTS:
        like, recorded = getattr(first, name), getattr(played, name)
        known = recorded is not None and like is not None and recorded.shape[2:] == like.shape[1:]
        outputs[name] = recorded if known else None
        if like is not None and not known:
            missing[name] = np.zeros((played.steps(0), *like.shape[1:]), like.dtype)
    if missing:
        for rows, actor in players.groups(np.arange(played.steps(0))):
            for part in slices(len(rows), BATCH):
                own = rows[part]
                computed = actor.forward(np.asarray(played.observations[0, own]), state_rows(states, own))
                for name, values in missing.items():
                    values[own] = getattr(computed, name)
    fits = played.action_combos is not None and len(played.action_combos) == agent.num_actions
    return dataclasses.replace(
        played,
        **outputs | {name: values[None] for name, values in missing.items()},
        states=None if states is None else tuple(np.asarray(part)[None] for part in states),
        action_combos=played.action_combos if fits else None,
    )
