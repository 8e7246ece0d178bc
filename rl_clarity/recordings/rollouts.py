"""Letting an agent play, and keeping what it saw."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass

import numpy as np

from rl_clarity.agents.capabilities import before_step, initial_state, preprocess
from rl_clarity.agents.protocol import Outputs, State
from rl_clarity.environments.protocol import Step, VectorEnvironment
from rl_clarity.errors import SamplesError
from rl_clarity.recordings.array_stores import ArrayStore, MemoryStore
from rl_clarity.recordings.named_arrays import from_arrays
from rl_clarity.recordings.players import Player, choose_actions
from rl_clarity.recordings.recorder import Recorder
from rl_clarity.recordings.samples import Observations, Trajectories

Record = dict[str, np.ndarray]
"""Arrays by the names that `Trajectories` and `Observations` have for them."""
_SEEN = ("observations", "states.")
Progress = Callable[[int, int], None]
"""Called with the number of environment steps done and of all."""


@dataclass(frozen=True)
class Moment:
    """One step of N environments: what the agent saw and did, and what became of it."""

    observations: np.ndarray  # (N, H, W, C) uint8, preprocessed
    state: State
    """The agent's state before the observations, begun anew where they begin an episode."""
    outputs: Outputs
    actions: np.ndarray  # (N,)
    firsts: np.ndarray  # (N,) bool
    after: Step
    final_values: np.ndarray  # (N,) float32: value of states that time cut short, else 0
    frames: np.ndarray | None  # (N, H', W', 3) uint8, if asked for


def collect_trajectories(
    agent: Player,
    environment: VectorEnvironment,
    num_steps: int,
    rng: np.random.Generator,
    *,
    full_resolution: bool = False,
    store: ArrayStore | None = None,
    progress: Progress | None = None,
) -> Trajectories:
    """Play `num_steps` steps in each environment and keep them all, but for a very first step.

    `full_resolution` keeps human-scale pictures too, of an environment that was made for that. Arrays go to `store`:
    this process's memory, or files (`SamplesWriter`), so that memory does not grow with `num_steps`. The same agent,
    environment and generator give the same trajectories.

    Raises `SamplesError` if agent and environment do not fit each other.
    """
    recorder = Recorder(store or MemoryStore(), environment.num_envs, num_steps)
    records = _records(play(agent, environment, rng, pictured=lambda t: full_resolution and t > 0))
    # As in the original; an environment may have nothing to show before its first step.
    next(records)
    for t in range(num_steps):
        recorder.add(next(records))
        if progress is not None:
            progress((t + 1) * environment.num_envs, num_steps * environment.num_envs)
    records.close()
    return from_arrays(Trajectories, recorder.finish())


def collect_observations(
    agent: Player,
    environment: VectorEnvironment,
    num_obs: int,
    obs_every: int,
    rng: np.random.Generator,
    *,
    burn_in: int = 0,
    full_resolution: bool = False,
    store: ArrayStore | None = None,
    progress: Progress | None = None,
) -> Observations:
    """Play, and keep the last of every `obs_every` observations of each environment, `num_obs` of each.

    All N x num_obs are in the order of time, then of environments. All environments start together at the beginning
    of an episode, so few steps in many environments see beginnings more often than an agent at play does, and what
    happens late in long episodes hardly ever: long play in few environments costs the same. Otherwise `burn_in` steps
    played before can help. The rest is as for `collect_trajectories`.
    """
    n = environment.num_envs
    ages = np.zeros(n, np.int32)
    recorder = Recorder(store or MemoryStore(), n, num_obs, time_first=True)

    def is_kept(t: int) -> bool:
        return t >= burn_in and (t - burn_in) % obs_every == obs_every - 1

    # Where environments begin episodes in steps of their own, it is not known beforehand which ones will be kept.
    pictures = getattr(environment, "idles", False)
    records = _records(play(agent, environment, rng, pictured=lambda t: full_resolution and (pictures or is_kept(t))))
    num_steps = burn_in + num_obs * obs_every
    for t in range(num_steps):
        record = next(records)
        ages = np.where(record["firsts"], 0, ages + 1).astype(np.int32)
        if is_kept(t):
            recorder.add({**{name: array for name, array in record.items() if name.startswith(_SEEN)}, "ages": ages})
        if progress is not None:
            progress((t + 1) * n, num_steps * n)
    records.close()
    return from_arrays(Observations, recorder.finish())


def play(
    agent: Player,
    environment: VectorEnvironment,
    rng: np.random.Generator,
    *,
    pictured: Callable[[int], bool] = lambda _: False,
) -> Generator[Moment, None, None]:
    """Play on and on; `pictured(t)` says whether step t's pictures are wanted."""
    n = environment.num_envs
    if agent.num_actions != environment.num_actions:
        raise SamplesError(
            f"the agent has {agent.num_actions} actions, the environment {environment.num_actions}: "
            "it is not the one that the agent was trained in"
        )
    state, step, t = initial_state(agent, n), environment.reset(), 0
    observations = _preprocessed(agent, step.observations)
    while True:
        frames = environment.render() if pictured(t) else None
        state = before_step(agent, state, step.firsts)
        outputs, next_state = agent.step(observations, state, step.firsts)
        actions = choose_actions(outputs, rng)
        after = environment.step(actions)
        final_values = _final_values(agent, after, next_state)
        yield Moment(observations, state, outputs, actions, step.firsts, after, final_values, frames)
        state, step, t = next_state, after, t + 1
        observations = _preprocessed(agent, step.observations)


def _preprocessed(agent: Player, frames: np.ndarray) -> np.ndarray:
    """What the agent sees, as uint8, which an agent takes whatever its `preprocess` gives."""
    observations = preprocess(agent, frames)
    if np.issubdtype(observations.dtype, np.floating):
        observations = np.rint(observations * 255).astype(np.uint8)
    expected = getattr(agent, "observation_shape", observations.shape[1:])
    if tuple(expected) != observations.shape[1:]:
        raise SamplesError(
            f"the agent sees observations of shape {tuple(expected)}, the environment gives {observations.shape[1:]}. "
            "For an agent from a checkpoint, check env_kind, frame_stack and the like in its metadata; for a network "
            "of your own, the shape of its input (observation_shape, as height, width, channels) and channels_first, "
            "or wrap the environment"
        )
    return observations


def _final_values(agent: Player, after: Step, state: State) -> np.ndarray:
    """Values (N,) of the final observations of episodes that time cut short; 0 elsewhere, and where none is shown."""
    values = np.zeros(len(after.firsts), np.float32)
    if after.final_observations:
        environments = list(after.final_observations)
        # A whole batch, since a network may be compiled for each batch size anew.
        observations = after.observations.copy()
        observations[environments] = np.stack([after.final_observations[i] for i in environments])
        outputs, _ = agent.step(_preprocessed(agent, observations), state, np.zeros(len(values), bool))
        if outputs.values is not None:
            values[environments] = outputs.values[environments]
        elif outputs.q_values is not None:
            values[environments] = outputs.q_values.max(-1)[environments]
    return values


def _records(moments: Iterator[Moment]) -> Generator[Record, None, None]:
    """What is kept of each moment, without idle steps: environments that had none wait for those that had some."""
    waiting: list[deque[Record]] = []
    for moment in moments:
        record, idle = _record_of(moment), moment.after.idle
        if idle is None and not any(waiting):
            yield record
            continue
        waiting = waiting or [deque() for _ in moment.actions]
        for i, queue in enumerate(waiting):
            if idle is None or not idle[i]:
                queue.append({name: array[i] for name, array in record.items()})
        if all(waiting):
            rows = [queue.popleft() for queue in waiting]
            yield {name: np.stack([row[name] for row in rows]) for name in rows[0]}


def _record_of(moment: Moment) -> Record:
    outputs = {
        name: array
        for name in ("policy_logits", "values", "q_values")
        if (array := getattr(moment.outputs, name)) is not None
    }
    seen = {"observations": moment.observations}
    if moment.frames is not None:
        seen["observations_full"] = moment.frames
    return {
        **seen,
        **{f"states.{i}": np.asarray(part) for i, part in enumerate(moment.state or ())},
        "actions": moment.actions,
        "rewards": moment.after.rewards,
        "firsts": moment.firsts,
        "truncated": moment.after.truncated,
        "final_values": moment.final_values,
        **outputs,
    }
