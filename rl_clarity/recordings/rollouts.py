"""Rollouts: let an agent act in a vector environment, and store what it observed and did."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from rl_clarity.agents.actions import Factor, describe_factors, is_single_choice, same_actions
from rl_clarity.agents.capabilities import action_factors, before_step, initial_state, preprocess
from rl_clarity.agents.held_inputs import with_held
from rl_clarity.agents.protocol import Outputs, State
from rl_clarity.agents.value_range import InputScale
from rl_clarity.base.errors import SamplesError
from rl_clarity.environments.images import ImageLayout
from rl_clarity.environments.protocol import Step, VectorEnvironment
from rl_clarity.environments.wrappers import check_observed, image_layout_of, watch_ends
from rl_clarity.recordings.action_choice import POLICY, ActionChoice, choose_actions
from rl_clarity.recordings.array_stores import ArrayStore, MemoryStore, StepRecorder
from rl_clarity.recordings.samples import Observations, Trajectories, from_arrays
from rl_clarity.recordings.world_states import WorldStatesWriter

Progress = Callable[[int, int], None]
"""A function that is called with the number of environment steps that are done, and the total."""
Record = dict[str, np.ndarray]
"""A step of N environments, as arrays (N, ...) with the field names of `Trajectories`."""
_OBSERVED = ("observations", "states.")
SAVED = "saved"
"""Key of a record for the values (N,) that `play(save=...)` returned."""
ENDS = "ends"
"""Key of a record for the causes (N,) of the ends of episodes: strings, which are empty where no episode ended or the
cause is unknown."""
CHECKED_STEPS = 64
"""Number of steps after which the range of observations is checked for the first time. It is checked again at the end.
"""


class Player(Protocol):
    """The members of `rl_clarity.agents.protocol.Agent` that are needed to act."""

    @property
    def num_actions(self) -> int: ...

    def initial_state(self, n: int) -> State: ...

    def step(self, observations: np.ndarray, state: State, firsts: np.ndarray) -> tuple[Outputs, State]: ...

    def preprocess(self, frames: np.ndarray) -> np.ndarray: ...


@dataclass(frozen=True)
class RandomPolicyAgent:
    """An agent with a uniform policy, as a baseline for returns."""

    num_actions: int
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def initial_state(self, n: int) -> State:
        return None

    def step(self, observations: np.ndarray, state: State, firsts: np.ndarray) -> tuple[Outputs, State]:
        n = len(observations)
        return Outputs(np.zeros((n, self.num_actions), np.float32), np.zeros(n, np.float32)), None

    def preprocess(self, frames: np.ndarray) -> np.ndarray:
        return frames


@dataclass(frozen=True)
class Transition:
    """A step of N environments: what the agent observed and did, and what the environments returned."""

    observations: np.ndarray  # (N, H, W, C) uint8, preprocessed
    state: State
    """The agent's state before the step, reset where an episode begins."""
    next_state: State
    """The agent's state after the step."""
    outputs: Outputs
    actions: np.ndarray  # (N,), or (N, factors) if an action is not a single choice
    firsts: np.ndarray  # (N,) bool
    action_masks: np.ndarray | None  # (N, A) bool: the valid actions; None if all are
    result: Step
    final_values: np.ndarray  # (N,) float32: values of the states in which episodes were truncated, else 0
    frames: np.ndarray | None  # (N, H', W', 3) uint8: rendered before the step, on request
    saved: Any = None
    """What `play(save=...)` returned before the step."""


def collect_trajectories(
    agent: Player,
    environment: VectorEnvironment,
    num_steps: int,
    rng: np.random.Generator,
    *,
    discard_first: bool = False,
    full_resolution: bool = False,
    store: ArrayStore | None = None,
    progress: Progress | None = None,
    states: WorldStatesWriter | None = None,
) -> Trajectories:
    """Collect `num_steps` steps of each environment, starting with the first step of an episode.

    With `discard_first`, the first step is left out, as in understanding-rl-vision. `full_resolution` also stores
    rendered frames. Arrays are stored in `store`, which is by default in memory. A store of files (`SamplesWriter`)
    allows a `num_steps` that exceeds the memory. With `states`, the states of the environment before each step are also
    saved. The same agent, environment and generator give the same result.

    Raises SamplesError if the agent and the environment do not match, and for rewards that are not finite real numbers.
    """
    recorder = StepRecorder(store or MemoryStore(), environment.num_envs, num_steps)
    records = _records(
        play(
            agent,
            environment,
            rng,
            render=lambda t: full_resolution and t >= discard_first,
            save=lambda _: None if states is None else states.current(environment),
        )
    )
    watch_ends(environment, np.ones(environment.num_envs, bool))
    if discard_first:
        next(records)
    causes = []
    for t in range(num_steps):
        record = next(records)
        causes += [(i, t, cause) for i, cause in enumerate(record.pop(ENDS).tolist()) if cause]
        if states is not None:
            states.add(record.pop(SAVED).tolist())
        recorder.add(record)
        if progress is not None:
            progress((t + 1) * environment.num_envs, num_steps * environment.num_envs)
    records.close()
    check_observed(environment)
    trajectories = replace(from_arrays(Trajectories, recorder.finish()), causes=tuple(sorted(causes)))
    return trajectories if states is None else replace(trajectories, world_states=states.finish())


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
    """Collect every `obs_every`-th observation of each environment, `num_obs` of each, ordered by time.

    All environments start at the beginning of an episode. Few steps in many environments therefore oversample the
    beginnings of episodes and rarely reach late parts of long ones. Many steps in few environments avoid this at the
    same cost; alternatively, skip the first `burn_in` steps. Other arguments are those of `collect_trajectories`.
    """
    n = environment.num_envs
    ages, begun = np.zeros(n, np.int32), np.zeros(n, np.int32)
    recorder = StepRecorder(store or MemoryStore(), n, num_obs, time_first=True)

    def is_kept(t: int) -> bool:
        return t >= burn_in and (t - burn_in) % obs_every == obs_every - 1

    # If environments have idle steps, the steps to keep are not known in advance.
    always = getattr(environment, "idles", False)
    records = _records(play(agent, environment, rng, render=lambda t: full_resolution and (always or is_kept(t))))
    num_steps = burn_in + num_obs * obs_every
    for t in range(num_steps):
        record = next(records)
        ages = np.where(record["firsts"], 0, ages + 1).astype(np.int32)
        begun = (begun + record["firsts"]).astype(np.int32)
        if is_kept(t):
            observed = {name: array for name, array in record.items() if name.startswith(_OBSERVED)}
            recorder.add({**observed, "ages": ages, "episodes": (begun * n + np.arange(n)).astype(np.int32)})
        if progress is not None:
            progress((t + 1) * n, num_steps * n)
    records.close()
    check_observed(environment)
    return from_arrays(Observations, recorder.finish())


def play(
    agent: Player,
    environment: VectorEnvironment,
    rng: np.random.Generator,
    *,
    choice: ActionChoice = POLICY,
    render: Callable[[int], bool] = lambda _: False,
    active: Callable[[], np.ndarray | None] = lambda: None,
    save: Callable[[int], Any] = lambda _: None,
    start: tuple[Step, State] | None = None,
) -> Generator[Transition, None, None]:
    """Let an agent act, and yield the transitions endlessly. Play begins with a reset, or continues from `start`: the
    step that the environments returned last, and the agent's state.

    `render(t)` returns whether to render frames before step t. `active()` is called before each step and returns a mask
    (N,) of the environments whose outputs are needed, or None for all. For other environments, outputs are not computed
    and are 0. The random numbers do not depend on the mask. `save(t)` is called before step t, for example to save
    states of the environment; `Transition.saved` is its result.
    """
    n = environment.num_envs
    factors = _checked_factors(agent, environment)
    _check_range(agent, image_layout_of(environment))
    step, state = (environment.reset(), initial_state(agent, n)) if start is None else start
    t = 0
    observations = observe(agent, step.observations)
    while True:
        frames = environment.render() if render(t) else None
        saved = save(t)
        state = with_held(agent, before_step(agent, state, step.firsts), step.held_inputs)
        outputs, next_state = _step_active(agent, observations, state, step.firsts, active())
        actions = choose_actions(outputs, rng, choice, step.action_masks, factors)
        result = environment.step(actions)
        _check_step(result, t)
        final_values = _final_values(agent, result, next_state)
        yield Transition(
            observations=observations,
            state=state,
            next_state=next_state,
            outputs=outputs,
            actions=actions,
            firsts=step.firsts,
            action_masks=step.action_masks,
            result=result,
            final_values=final_values,
            frames=frames,
            saved=saved,
        )
        state, step, t = next_state, result, t + 1
        if t == CHECKED_STEPS:
            check_observed(environment)
        observations = observe(agent, step.observations)


def _checked_factors(agent: Player, environment: VectorEnvironment) -> tuple[Factor, ...]:
    """Return the factors of the agent's actions. Raises SamplesError if the environment takes different actions."""
    factors, taken = action_factors(agent), action_factors(environment)
    if same_actions(factors, taken):
        return factors
    if is_single_choice(factors) and is_single_choice(taken):
        has, takes = f"{agent.num_actions} actions", f"the environment has {environment.num_actions}"
    else:
        has, takes = f"actions of {describe_factors(factors)}", f"the environment takes {describe_factors(taken)}"
    hint = "" if is_single_choice(taken) else " (for a custom network, actions=... describes them)"
    raise SamplesError(f"the agent has {has}, but {takes}; use the environment that the agent was trained in{hint}")


def _check_range(agent: Player, layout: ImageLayout | None) -> None:
    """Raise SamplesError if the environment's observations have unusual bounds and the agent only assumes its input
    range, so that it may need `value_range`.
    """
    scale: InputScale | None = getattr(agent, "input_scale", None)
    if scale is None or not scale.assumed or layout is None or layout.is_vector:
        return
    bounds = layout.low, layout.high
    if bounds not in ((0, 255), scale.value_range):
        kind = type(agent).__name__
        low, high = scale.value_range
        raise SamplesError(
            f"the environment's observations range from {bounds[0]:g} to {bounds[1]:g}, but the network would receive "
            f"values from {low:g} to {high:g}. Use {kind}(..., value_range=({bounds[0]:g}, {bounds[1]:g})) to pass the "
            f"environment's values unchanged, or {kind}(..., value_range=({low:g}, {high:g})) to keep "
            f"{low:g} to {high:g}"
        )


def _step_active(
    agent: Player, observations: np.ndarray, state: State, firsts: np.ndarray, active: np.ndarray | None
) -> tuple[Outputs, State]:
    """Run the agent in active environments. Outputs of the others are 0, and their states do not change."""
    if active is None or active.all():
        return agent.step(observations, state, firsts)
    rows = np.flatnonzero(active)

    def spread(part: np.ndarray | None, before: np.ndarray | None = None) -> np.ndarray | None:
        if part is None:
            return None
        spread_out = np.zeros((len(active), *part.shape[1:]), part.dtype) if before is None else np.array(before)
        spread_out[rows] = part
        return spread_out

    states = None if state is None else tuple(part[rows] for part in state)
    outputs, after = agent.step(observations[rows], states, firsts[rows])
    everywhere = Outputs(spread(outputs.policy_logits), spread(outputs.values), spread(outputs.q_values))
    if after is None or state is None:
        return everywhere, after
    return everywhere, tuple(spread(part, before) for part, before in zip(after, state, strict=True))  # type: ignore[misc]


def _check_step(step: Step, t: int) -> None:
    """Raise SamplesError for rewards that are not finite real numbers, and for flags that are not bool."""
    if step.rewards.dtype.kind not in "biuf" or not np.isfinite(step.rewards).all():
        raise SamplesError(f"rewards of step {t} are {step.rewards}; they must be finite real numbers")
    for name in ("firsts", "truncated"):
        flags = getattr(step, name)
        if flags.dtype != bool:
            raise SamplesError(f"{name} of step {t} are {flags}, of type {flags.dtype}; they must be bool")


def observe(agent: Player, frames: np.ndarray) -> np.ndarray:
    """Return preprocessed observations for frames. They are uint8, which every agent accepts, even if the agent's
    `preprocess` returns floats. Vectors stay float32. Raises SamplesError if the agent takes observations of a
    different shape.
    """
    observations = preprocess(agent, frames)
    if np.issubdtype(observations.dtype, np.floating) and observations.shape[1:3] != (1, 1):
        observations = np.rint(observations * 255).astype(np.uint8)
    expected = getattr(agent, "observation_shape", observations.shape[1:])
    if tuple(expected) != observations.shape[1:]:
        returned = observations.shape[1:]
        what = f"vectors of {returned[2]} numbers, not images" if returned[:2] == (1, 1) else str(returned)
        raise SamplesError(
            f"the agent takes observations of shape {tuple(expected)}, but the environment returns {what}. For an "
            "agent from a checkpoint, check env_kind, frame_stack and similar metadata; for a custom network, check "
            "observation_shape (height, width, channels) and channels_first, or wrap the environment"
        )
    return observations


def _final_values(agent: Player, result: Step, state: State) -> np.ndarray:
    """Return the values (N,) of the final observations of truncated episodes. The values are 0 for all other
    environments, and where the final observation is unknown.
    """
    values = np.zeros(len(result.firsts), np.float32)
    environments = [i for i in result.final_observations if result.truncated[i]]
    if environments:
        # Pass the whole batch, because a network may be compiled for each batch size.
        observations = result.observations.copy()
        observations[environments] = np.stack([result.final_observations[i] for i in environments])
        held = {name: np.array(array) for name, array in result.held_inputs.items()}
        for i in environments:
            for name, final in result.final_held_inputs.get(i, {}).items():
                held[name][i] = final
        state = with_held(agent, state, held)
        outputs, _ = agent.step(observe(agent, observations), state, np.zeros(len(values), bool))
        if outputs.values is not None:
            values[environments] = outputs.values[environments]
        elif outputs.q_values is not None:
            values[environments] = outputs.q_values.max(-1)[environments]
    return values


def _records(transitions: Iterator[Transition]) -> Generator[Record, None, None]:
    """Yield the records of transitions, without idle steps. The records of an environment are buffered while others are
    idle, so that each yielded record contains a step of every environment.
    """
    queues: list[deque[Record]] = []
    for transition in transitions:
        record, idle = _to_record(transition), transition.result.idle
        if idle is None and not any(queues):
            yield record
            continue
        queues = queues or [deque() for _ in transition.actions]
        for i, queue in enumerate(queues):
            if idle is None or not idle[i]:
                queue.append({name: array[i] for name, array in record.items()})
        if all(queues):
            rows = [queue.popleft() for queue in queues]
            yield {name: np.array([row[name] for row in rows], record[name].dtype) for name in rows[0]}


def _to_record(transition: Transition) -> Record:
    outputs = {name: getattr(transition.outputs, name) for name in ("policy_logits", "values", "q_values")}
    rendered = {} if transition.frames is None else {"observations_full": transition.frames}
    saved = {} if transition.saved is None else {SAVED: np.array(transition.saved, object)}
    ends = transition.result.ends
    return {
        "observations": transition.observations,
        **rendered,
        **saved,
        ENDS: np.array([str(ends.get(i, {}).get("cause", "")) for i in range(len(transition.actions))], object),
        **{f"states.{i}": np.asarray(part) for i, part in enumerate(transition.state or ())},
        "actions": transition.actions,
        "rewards": transition.result.rewards,
        "firsts": transition.firsts,
        "dones": transition.result.firsts,
        "truncated": transition.result.truncated,
        "final_values": transition.final_values,
        **{name: array for name, array in outputs.items() if array is not None},
    }
