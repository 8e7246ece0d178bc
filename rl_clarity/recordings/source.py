"""Let the agent play, or fetch what it did when it played before."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from rl_clarity import checkpoints
from rl_clarity.agents.protocol import Agent
from rl_clarity.checkpoints.checkpoint import Checkpoint
from rl_clarity.environments import EnvironmentSpec, make, spec_from_metadata
from rl_clarity.errors import SamplesError
from rl_clarity.files import write_atomically
from rl_clarity.jobs import Communicator
from rl_clarity.keys import code_version, key_of
from rl_clarity.options import LoadOptions, ObservationsOptions, TrajectoriesOptions
from rl_clarity.progress import counted, progress_bar
from rl_clarity.quiet import import_keras
from rl_clarity.recordings.arrays import samples_key
from rl_clarity.recordings.paths import SamplePaths, sample_paths
from rl_clarity.recordings.rollouts import collect_observations, collect_trajectories
from rl_clarity.recordings.samples import Observations, Trajectories
from rl_clarity.recordings.storage import (
    SamplesWriter,
    load_facts,
    load_metadata,
    load_observations,
    load_trajectories,
    save_metadata,
)

TRAJECTORIES, OBSERVATIONS = 0, 1  # streams of randomness of their own


@dataclass(frozen=True)
class SamplingPlan:
    """What decides the samples of an agent, beside the agent."""

    trajectories: TrajectoriesOptions
    observations: ObservationsOptions
    full_resolution: bool
    seed: int


@dataclass(frozen=True)
class Source:
    """Where an agent and its samples come from; the keys stand for the samples, made or not."""

    checkpoint: Checkpoint
    agent: Agent
    paths: SamplePaths
    plan: SamplingPlan
    spec: EnvironmentSpec | None
    """Where to play; None if samples that are there are used."""
    trajectories_key: str
    observations_key: str

    @property
    def made_from(self) -> list[Any]:
        """Stands for agent and samples (JSON)."""
        return _made_from(self.checkpoint, self.trajectories_key, self.observations_key)

    @property
    def samples_are_there(self) -> bool:
        """The samples need not be made: those that are there were made by the same agent, options, seed and code."""
        return self.spec is None or _kept_keys(self.paths) == (self.trajectories_key, self.observations_key)


@dataclass(frozen=True)
class Samples:
    """What an agent did when it played, and in which environment."""

    trajectories: Trajectories
    observations: Observations
    metadata: Mapping[str, Any]


@contextmanager
def open_source(
    checkpoint_path: Path,
    load: LoadOptions,
    plan: SamplingPlan,
    ranks: Communicator,
    env_name: str | None = None,
    address: str | None = None,
) -> Iterator[Source]:
    """Read the checkpoint and decide what its samples are, without making them; a temporary place for them is removed
    with the context. `env_name` says where to play if the checkpoint does not, `address` where it was fetched from.
    """
    paths = ranks.broadcast(_paths(address or checkpoint_path, load) if ranks.rank == 0 else None)
    try:
        yield _read_source(checkpoint_path, load, plan, paths, env_name)
    finally:
        if paths.temporary is not None and ranks.rank == 0:
            shutil.rmtree(paths.temporary, ignore_errors=True)


def page_is_of(
    checkpoint_path: Path, load: LoadOptions, plan: SamplingPlan, env_name: str | None, num_actions: int
) -> list[Any]:
    """What `made_from` of the source would be if its agent has so many actions, found without building the agent.

    Of samples that are made anew only: others have to be read.
    """
    checkpoint = _read_checkpoint(checkpoint_path, load, env_name)
    spec = spec_from_metadata(checkpoint.metadata, num_actions=num_actions)
    return _made_from(checkpoint, *_keys(checkpoint, spec, plan))


def _made_from(checkpoint: Checkpoint, trajectories_key: str, observations_key: str) -> list[Any]:
    return [checkpoint.sha256, checkpoint.metadata, trajectories_key, observations_key]


def _read_source(
    checkpoint_path: Path, load: LoadOptions, plan: SamplingPlan, paths: SamplePaths, env_name: str | None
) -> Source:
    if load.resample:
        checkpoint = _read_checkpoint(checkpoint_path, load, env_name)
        import_keras()
        agent = checkpoints.build_agent(checkpoint)
        spec = spec_from_metadata(checkpoint.metadata, num_actions=agent.num_actions)
        return Source(checkpoint, agent, paths, plan, spec, *_keys(checkpoint, spec, plan))
    saved = _read_checkpoint(paths.model if paths.model.exists() else checkpoint_path, load, env_name)
    checkpoint = replace(saved, path=Path(checkpoint_path))
    trajectories_key = load_facts(paths.trajectories).get("key") or samples_key(load_trajectories(paths.trajectories))
    observations_key = load_facts(paths.observations).get("key") or samples_key(load_observations(paths.observations))
    import_keras()
    agent = checkpoints.build_agent(checkpoint)
    return Source(checkpoint, agent, paths, plan, None, trajectories_key, observations_key)


def _read_checkpoint(path: Path, load: LoadOptions, env_name: str | None) -> Checkpoint:
    checkpoint = checkpoints.read(path, **load.metadata)
    if env_name and not any(checkpoint.metadata.get(key) for key in ("env_name", "env_id")):
        return replace(checkpoint, metadata={**checkpoint.metadata, "env_name": env_name})
    return checkpoint


def _keys(checkpoint: Checkpoint, spec: EnvironmentSpec, plan: SamplingPlan) -> tuple[str, str]:
    """Hashes of everything that decides trajectories, and observations."""
    made_by = [checkpoint.sha256, asdict(spec), plan.full_resolution, plan.seed, code_version()]
    seeds_taken = plan.trajectories.num_envs
    return (
        key_of(["trajectories", made_by, asdict(plan.trajectories)]),
        key_of(["observations", made_by, asdict(plan.observations), seeds_taken]),
    )


def samples_of(source: Source, ranks: Communicator) -> Samples:
    """The samples, mapped into memory from where they are kept.

    They are made first, unless those that are there were made by the same checkpoint, options, seed and code: then they
    would come out the same.
    """
    paths = source.paths
    if source.spec is not None and ranks.rank == 0:
        _sample(source, source.spec)
    ranks.barrier()
    trajectories = load_trajectories(paths.trajectories)
    observations = load_observations(paths.observations)
    _check(trajectories.observations.shape[2:], source.agent, paths.trajectories)
    _check(observations.observations.shape[1:], source.agent, paths.observations)
    if source.spec is not None and _kept_keys(paths) != (source.trajectories_key, source.observations_key):
        raise SamplesError(
            f"another run has replaced the samples in {paths.trajectories.parent} meanwhile: run again when it is "
            "done, or keep this run's samples elsewhere (temp_files=True, or paths of its own)"
        )
    return Samples(trajectories, observations, load_metadata(paths.metadata))


def _paths(checkpoint_path: str | Path, load: LoadOptions) -> SamplePaths:
    return sample_paths(
        checkpoint_path,
        temp_files=load.temp_files,
        model_path=load.model_path,
        metadata_path=load.metadata_path,
        trajectories_path=load.trajectories_path,
        observations_path=load.observations_path,
    )


def _check(shape: tuple[int, ...], agent: Agent, folder: Path) -> None:
    if tuple(shape) != agent.observation_shape:
        raise SamplesError(
            f"{folder} holds observations of shape {tuple(shape)}, the agent sees {agent.observation_shape}: "
            "sample anew with resample=True, or give another path"
        )


def _sample(source: Source, spec: EnvironmentSpec) -> None:
    paths, plan, agent = source.paths, source.plan, source.agent
    kept = _kept_keys(paths)
    if kept[0] != source.trajectories_key:
        _sample_trajectories(agent, spec, paths.trajectories, plan, source.trajectories_key)
    if kept[1] != source.observations_key:
        _sample_observations(agent, spec, paths.observations, plan, source.observations_key)
    _keep_model(source.checkpoint.path, paths.model)
    combos = load_facts(paths.trajectories)["action_combos"]
    save_metadata(paths.metadata, {"action_combos": combos, "environment": asdict(spec), "sampling": asdict(plan)})


def _kept_keys(paths: SamplePaths) -> tuple[Any, Any]:
    """Keys of the trajectories and the observations that are there; None for those that are not."""
    return _kept_key(paths.trajectories), _kept_key(paths.observations)


def _kept_key(folder: Path) -> Any:
    try:
        return load_facts(folder).get("key")
    except SamplesError:
        return None


def _keep_model(checkpoint: Path, model: Path) -> None:
    if model.absolute() != checkpoint.absolute():
        try:
            write_atomically(model, checkpoint.read_bytes())
        except OSError as error:
            raise SamplesError(
                f"the agent cannot be kept at {model} ({error.strerror or error}); give another path"
            ) from error


def _sample_trajectories(agent: Agent, spec: EnvironmentSpec, folder: Path, plan: SamplingPlan, key: str) -> None:
    options = plan.trajectories
    environment = make(spec, options.num_envs, plan.seed, full_resolution=plan.full_resolution)
    try:
        with progress_bar("Playing trajectories") as report, SamplesWriter(folder) as writer:
            trajectories = collect_trajectories(
                agent,
                environment,
                options.num_steps,
                np.random.default_rng([plan.seed, TRAJECTORIES]),
                full_resolution=plan.full_resolution,
                store=writer.store,
                progress=counted(report),
            )
            facts = {"key": key, "action_combos": [list(combo) for combo in environment.action_combos]}
            writer.commit(trajectories, facts)
    finally:
        environment.close()


def _sample_observations(agent: Agent, spec: EnvironmentSpec, folder: Path, plan: SamplingPlan, key: str) -> None:
    options = plan.observations
    # Levels of their own: from the trajectories' seed on, one seed a trajectory is taken.
    environment = make(
        spec, options.num_envs, plan.seed + plan.trajectories.num_envs, full_resolution=plan.full_resolution
    )
    try:
        with progress_bar("Playing for observations") as report, SamplesWriter(folder) as writer:
            observations = collect_observations(
                agent,
                environment,
                options.num_obs,
                options.obs_every,
                np.random.default_rng([plan.seed, OBSERVATIONS]),
                full_resolution=plan.full_resolution,
                store=writer.store,
                progress=counted(report),
            )
            writer.commit(observations, {"key": key})
    finally:
        environment.close()
