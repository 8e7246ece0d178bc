"""A source of samples that the agent of a checkpoint collects, or that an earlier run saved."""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import IO

import numpy as np

from rl_clarity import environments, formats
from rl_clarity.agents.capabilities import parallel_calls
from rl_clarity.agents.edited_agent import edit
from rl_clarity.agents.protocol import Agent
from rl_clarity.base.errors import (
    CheckpointError,
    DependencyError,
    EnvironmentSetupError,
    SamplesError,
    WorldError,
)
from rl_clarity.base.files import write_atomically
from rl_clarity.base.keys import JsonObject, cache_key, code_version, to_plain
from rl_clarity.base.parallel import SharedProgress, run_in_threads
from rl_clarity.base.progress import Report, counted, progress_bar
from rl_clarity.base.quiet import import_keras
from rl_clarity.environments import EnvironmentSpec, VectorEnvironment, make, spec_from_metadata
from rl_clarity.environments.kinds import make_world
from rl_clarity.formats.checkpoint import Checkpoint
from rl_clarity.jobs import Communicator
from rl_clarity.jobs.directory import Directory
from rl_clarity.jobs.job import Job
from rl_clarity.jobs.tasks import Results
from rl_clarity.recordings.arrays import check_observations, check_trajectories, samples_key
from rl_clarity.recordings.equivalence import find_equivalent_actions
from rl_clarity.recordings.options import LoadOptions, ObservationsOptions, TrajectoriesOptions
from rl_clarity.recordings.rollouts import collect_observations, collect_trajectories
from rl_clarity.recordings.storage import (
    RESAMPLE,
    SamplePaths,
    SamplesWriter,
    has_world_states,
    load_facts,
    load_metadata,
    load_observations,
    load_trajectories,
    sample_paths,
    save_metadata,
)
from rl_clarity.recordings.world_states import WorldStatesWriter
from rl_clarity.sources.preview import Preview, add_observations, preview_play, preview_samples
from rl_clarity.sources.source import Samples, Source, checkpoint_metadata

READ_ATTEMPTS = 5


@dataclass(frozen=True)
class SamplingPlan:
    """Everything that determines the samples besides the agent and its environment."""

    trajectories: TrajectoriesOptions
    observations: ObservationsOptions
    full_resolution: bool
    seed: int
    world_states: bool = False
    """Whether states of the environment are saved with the trajectories, if they can be edited. This changes no other
    samples."""


@dataclass(frozen=True)
class CheckpointSource(Source):
    """An agent and its samples. The two keys identify the samples, even before they are collected."""

    checkpoint: Checkpoint
    agent: Agent
    paths: SamplePaths
    plan: SamplingPlan
    spec: EnvironmentSpec | None
    """The environment in which to collect samples, or None to use saved ones."""
    trajectories_key: str
    observations_key: str
    content: IO[bytes] | None = field(default=None, repr=False)
    """File with the content that the checkpoint had when it was read. Rank 0 saves it with new samples."""

    @property
    def identity(self) -> list[object]:
        """A JSON value that identifies the agent and its samples."""
        return _identity(self.checkpoint, self.trajectories_key, self.observations_key)

    @functools.cached_property
    def observer(self) -> Agent:
        """The agent that plays for the extra observations."""
        if not self.plan.observations.bfloat16:
            return self.agent
        observer = formats.build_agent(self.checkpoint, dtype_policy="mixed_bfloat16")
        edits = getattr(self.agent, "edits", ())
        return edit(observer, *edits) if edits else observer

    @functools.cached_property
    def world(self) -> EnvironmentSpec | None:
        """The environment whose states are saved with the trajectories, or None if no states are saved.

        Warns if the package that is needed to read the environment's objects is missing.
        """
        spec = self._saved_environment() if self.spec is None else self.spec
        if spec is None or not self.plan.world_states:
            return None
        try:
            make_world(spec).close()
        except DependencyError as error:
            warnings.warn(f"effects of objects are not measured: {error}", RuntimeWarning, stacklevel=2)
            return None
        except (EnvironmentSetupError, WorldError):
            return None
        return spec

    def _saved_environment(self) -> EnvironmentSpec | None:
        """Return the checkpoint's environment if the saved samples were collected in it, else None.

        The environment in the metadata of the samples is not trusted, because environments can run code.
        """
        try:
            spec = spec_from_metadata(self.checkpoint.metadata, num_actions=self.agent.num_actions)
            saved = load_metadata(self.paths.metadata).get("environment")
        except (EnvironmentSetupError, SamplesError):
            return None
        return spec if saved == to_plain(asdict(spec)) else None

    @property
    def up_to_date(self) -> bool:
        """Whether saved samples can be used, because agent, options, seed, code and metadata are the same.

        Metadata are written last, so a run that was killed has left no metadata, or those of earlier samples.
        """
        if self.spec is None:
            return True
        try:
            saved = load_metadata(self.paths.metadata)
        except SamplesError:
            return False
        described = to_plain(_description(self.spec, self.plan))
        keys = self.trajectories_key, self.observations_key
        if self.world is not None and not has_world_states(self.paths.trajectories):
            return False
        return _saved_keys(self.paths) == keys and {name: saved.get(name) for name in described} == described

    def load(self) -> Samples:
        """Memory-map the saved samples. Raises SamplesError if they are damaged or do not match the agent."""
        trajectories, observations = (
            load_trajectories(self.paths.trajectories, self.world),
            load_observations(self.paths.observations),
        )
        with _naming(self.paths.trajectories):
            check_trajectories(self.agent, trajectories)
        with _naming(self.paths.observations):
            check_observations(self.agent, observations)
        metadata = {**checkpoint_metadata(self.checkpoint), **load_metadata(self.paths.metadata)}
        causes = metadata.pop("causes", None)
        if causes is not None:
            trajectories = replace(trajectories, causes=tuple((int(i), int(t), str(cause)) for i, t, cause in causes))
        return Samples(trajectories, observations, metadata)

    def preview(self, recordings: Directory) -> Preview:
        """Preview the saved samples. If they are not up to date, collect a few steps for the preview."""
        if self.spec is None or self.up_to_date:
            samples = self.load()
            return preview_samples(samples.trajectories, samples.observations, samples.metadata)
        plan, spec = self.plan, self.spec
        options, seed, full_resolution = plan.trajectories, plan.seed, plan.full_resolution
        played = preview_play(
            self.agent,
            spec,
            options.num_envs,
            options.num_steps,
            seed,
            full_resolution=full_resolution,
            world_states=self.world is not None,
        )
        played = replace(played, metadata={**checkpoint_metadata(self.checkpoint), **played.metadata})
        return add_observations(played, self.observer, spec, plan.observations, seed, full_resolution=full_resolution)

    def samples(self, recordings: Directory, job: Job, results: Results) -> Samples:
        """Memory-map the samples, after rank 0 has collected those that are not up to date."""
        with job.stage("playing"):
            if self.spec is not None and job.team.leads:
                _collect(self, self.spec)
            job.team.ranks.barrier()
            samples = self.load()
        if not self.up_to_date:
            raise SamplesError(
                f"another run has replaced the samples in {self.paths.trajectories.parent}; run again when it has "
                "ended, or save this run's samples elsewhere (temp_files=True, or different paths)"
            )
        return samples


@contextmanager
def open_source(
    checkpoint_path: Path,
    load: LoadOptions,
    plan: SamplingPlan,
    ranks: Communicator,
    address: str | None = None,
    agent: Agent | None = None,
) -> Iterator[CheckpointSource]:
    """Read a checkpoint and identify its samples, without collecting them. Temporary samples are removed on exit.

    `address` is the URL that the checkpoint was downloaded from. If `agent` is passed, it is used instead of an agent
    that is built from the file, and its samples are temporary unless `load` names paths. Raises SamplesError if `load`
    names an environment but reuses samples from a different one.
    """
    if agent is not None:
        load = replace(load, temp_files=True)
    paths = ranks.broadcast(sample_paths(address or checkpoint_path, load) if ranks.rank == 0 else None)
    try:
        with tempfile.TemporaryFile() as content:
            if agent is not None:
                checkpoint = formats.checkpoint_of(agent, **load.metadata)
                spec = spec_from_metadata(checkpoint.metadata, num_actions=agent.num_actions)
                yield CheckpointSource(checkpoint, agent, paths, plan, spec, *_compute_keys(checkpoint, spec, plan))
                return
            yield _read_source(checkpoint_path, load, plan, paths, ranks, content)
    finally:
        if paths.temporary is not None and ranks.rank == 0:
            shutil.rmtree(paths.temporary, ignore_errors=True)


def predict_identity(checkpoint_path: Path, load: LoadOptions, plan: SamplingPlan, num_actions: int) -> list[object]:
    """Return `CheckpointSource.identity` of new samples without building the agent, given its number of actions."""
    checkpoint = formats.read(checkpoint_path, **load.metadata)
    spec = spec_from_metadata(checkpoint.metadata, num_actions=num_actions)
    return _identity(checkpoint, *_compute_keys(checkpoint, spec, plan))


@contextmanager
def _naming(folder: Path) -> Iterator[None]:
    """Add the folder, and advice on what to do, to the message of a SamplesError."""
    try:
        yield
    except SamplesError as error:
        raise SamplesError(f"{folder}: {error}; {RESAMPLE}") from error


def _identity(checkpoint: Checkpoint, trajectories_key: str, observations_key: str) -> list[object]:
    return [checkpoint.sha256, checkpoint.metadata, trajectories_key, observations_key]


def _read_source(
    checkpoint_path: Path,
    load: LoadOptions,
    plan: SamplingPlan,
    paths: SamplePaths,
    ranks: Communicator,
    content: IO[bytes],
) -> CheckpointSource:
    if load.resample:
        checkpoint = _read_consistently(checkpoint_path, load, ranks, content)
        import_keras()
        agent = formats.build_agent(checkpoint, load.check)
        spec = spec_from_metadata(checkpoint.metadata, num_actions=agent.num_actions)
        return CheckpointSource(checkpoint, agent, paths, plan, spec, *_compute_keys(checkpoint, spec, plan), content)
    _check_environment(paths, load)
    saved = formats.read(paths.model if paths.model.exists() else checkpoint_path, **load.metadata)
    checkpoint = replace(saved, path=Path(checkpoint_path))
    keys = _saved_keys(paths)
    trajectories_key = keys[0] or samples_key(load_trajectories(paths.trajectories))
    observations_key = keys[1] or samples_key(load_observations(paths.observations))
    import_keras()
    return CheckpointSource(
        checkpoint, formats.build_agent(checkpoint, load.check), paths, plan, None, trajectories_key, observations_key
    )


def _check_environment(paths: SamplePaths, load: LoadOptions) -> None:
    """Raise SamplesError if the caller names an environment that differs from that of the saved samples."""
    requested = load.metadata.get("env_name") or load.metadata.get("env_id")
    environment = load_metadata(paths.metadata).get("environment") if requested else None
    played = environment.get("name") if isinstance(environment, Mapping) else None
    if played and str(requested).lower() != str(played).lower():
        raise SamplesError(
            f"env_name={requested!r}, but the samples in {paths.trajectories} are from {played}; {RESAMPLE}"
        )


def _read_consistently(path: Path, load: LoadOptions, ranks: Communicator, content: IO[bytes]) -> Checkpoint:
    """Read a checkpoint and copy its content, identically on all ranks even if training replaces the file meanwhile."""
    for _ in range(READ_ATTEMPTS):
        sha256 = _copy(path, content)
        checkpoint = formats.read(path, **load.metadata)
        if checkpoint.sha256 == sha256:
            break
    if checkpoint.sha256 != sha256 or ranks.broadcast(sha256) != sha256:
        raise CheckpointError(f"{path} changed while it was being read; run again, or use a copy of it")
    return checkpoint


def _copy(path: Path, content: IO[bytes]) -> str | None:
    """Copy a file to `content`, and return its SHA-256. Return None if the file cannot be read."""
    if not path.is_file() or not os.access(path, os.R_OK):
        return None
    try:
        content.seek(0)
        content.truncate()
        with path.open("rb") as file:
            shutil.copyfileobj(file, content)
        content.seek(0)
        return hashlib.file_digest(content, "sha256").hexdigest()  # type: ignore[arg-type]
    except FileNotFoundError:  # if it was removed meanwhile, reading it raises an error with its name
        return None
    except OSError as error:
        folder = tempfile.gettempdir()
        raise CheckpointError(f"cannot copy {path} to {folder} ({error.strerror or error}); set TMPDIR") from error


def _compute_keys(checkpoint: Checkpoint, spec: EnvironmentSpec, plan: SamplingPlan) -> tuple[str, str]:
    """Return two hashes, of everything that determines the trajectories and of everything that determines the
    observations.
    """
    common = [checkpoint.sha256, asdict(spec), plan.full_resolution, plan.seed, code_version()]
    common += filter(None, (formats.source_key(checkpoint), environments.source_key(spec)))
    trajectory_seeds = plan.trajectories.num_envs
    return (
        cache_key(["trajectories", common, asdict(plan.trajectories)]),
        cache_key(["observations", common, asdict(plan.observations), trajectory_seeds]),
    )


def _saved_keys(paths: SamplePaths) -> tuple[str | None, str | None]:
    """Return the keys of the saved trajectories and observations, with None for missing ones."""
    return _saved_key(paths.trajectories), _saved_key(paths.observations)


def _saved_key(folder: Path) -> str | None:
    try:
        key = load_facts(folder).get("key")
    except SamplesError:
        return None
    return key if isinstance(key, str) else None


def _collect(source: CheckpointSource, spec: EnvironmentSpec) -> None:
    paths, plan = source.paths, source.plan
    trajectories_key, observations_key = _saved_keys(paths)
    missing: list[tuple[Callable[[CheckpointSource, EnvironmentSpec, Report], None], int]] = []
    lacking = source.world is not None and not has_world_states(paths.trajectories)
    if trajectories_key != source.trajectories_key or lacking:
        missing.append((_collect_trajectories, plan.trajectories.num_envs * plan.trajectories.num_steps))
    if observations_key != source.observations_key:
        extra = plan.observations
        missing.append((_collect_observations, extra.num_envs * extra.num_obs * extra.obs_every))
    # Collect both at once if possible, because an agent that plays leaves cores idle between its steps.
    threads = parallel_calls(source.agent) if environments.KINDS.get(spec.kind).thread_safe else 1
    with progress_bar("Collecting samples", shown=bool(missing)) as report:
        progress = SharedProgress(report, [steps for _, steps in missing])
        run_in_threads(lambda i: missing[i][0](source, spec, progress.of(i)), len(missing), threads, progress)
    _save_model(source)
    facts = load_facts(paths.trajectories)
    found = {name: facts.get(name) for name in ("action_combos", "equivalent_actions", "causes")}
    save_metadata(paths.metadata, {**found, **_description(spec, plan)})


def _description(spec: EnvironmentSpec, plan: SamplingPlan) -> JsonObject:
    """Return those metadata of samples that are known before they are collected."""
    sampling = {name: value for name, value in asdict(plan).items() if name != "world_states"}
    return {"environment": asdict(spec), "sampling": sampling}


def _save_model(source: CheckpointSource) -> None:
    model, content = source.paths.model, source.content
    if content is None or model.absolute() == source.checkpoint.path.absolute():
        return
    content.seek(0)
    try:
        write_atomically(model, iter(lambda: content.read(2**20), b""))
    except OSError as error:
        raise SamplesError(
            f"cannot save the agent to {model} ({error.strerror or error}); use a different path"
        ) from error


def _collect_trajectories(source: CheckpointSource, spec: EnvironmentSpec, report: Report) -> None:
    options, seed = source.plan.trajectories, source.plan.seed
    # an independent stream; observations use 1
    rng, trials = (np.random.default_rng([seed, stream]) for stream in (0, 2))
    with _collecting(source, spec, "trajectories", options.num_envs, seed, report) as (environment, writer, kwargs):
        states = None if source.world is None else WorldStatesWriter(spec, options.num_envs)
        kwargs = {**kwargs, "states": states, "discard_first": options.discard_first}
        trajectories = collect_trajectories(source.agent, environment, options.num_steps, rng, **kwargs)
        facts = {
            "action_combos": [list(combo) for combo in environment.action_combos],
            "equivalent_actions": find_equivalent_actions(source.agent, environment, trials),
            "causes": trajectories.causes,
        }
        writer.commit(trajectories, {"key": source.trajectories_key, **facts})


def _collect_observations(source: CheckpointSource, spec: EnvironmentSpec, report: Report) -> None:
    options, seed = source.plan.observations, source.plan.seed
    rng = np.random.default_rng([seed, 1])
    # Use different levels from the trajectories, which use one seed each, starting at plan.seed.
    seed += source.plan.trajectories.num_envs
    with _collecting(source, spec, "observations", options.num_envs, seed, report) as (environment, writer, kwargs):
        observations = collect_observations(
            source.observer, environment, options.num_obs, options.obs_every, rng, **kwargs
        )
        writer.commit(observations, {"key": source.observations_key})


@contextmanager
def _collecting(
    source: CheckpointSource, spec: EnvironmentSpec, kind: str, num_envs: int, seed: int, report: Report
) -> Iterator[tuple[VectorEnvironment, SamplesWriter, JsonObject]]:
    """Open the environment and a writer, and yield them with the common arguments for collecting samples."""
    report(0.0)
    full_resolution = source.plan.full_resolution
    with (
        closing(make(spec, num_envs, seed, full_resolution=full_resolution)) as environment,
        SamplesWriter(getattr(source.paths, kind)) as writer,
    ):
        arguments = {"full_resolution": full_resolution, "store": writer.store, "progress": counted(report)}
        yield environment, writer, arguments
