"""Let the agent of a checkpoint play in the checkpoint's environment, and record its episodes."""

from __future__ import annotations

import dataclasses
import itertools
import os
import time
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np

from rl_clarity.agents.actions import factors_to_json, is_single_choice
from rl_clarity.agents.capabilities import action_factors
from rl_clarity.agents.held_inputs import held_inputs
from rl_clarity.base.progress import counted, progress_bar
from rl_clarity.environments import EnvironmentSpec, VectorEnvironment, make, spec_from_metadata
from rl_clarity.environments.protocol import Step
from rl_clarity.environments.wrappers import Wrapper, check_observed, level_seeds, watch_ends
from rl_clarity.formats import Checkpoint
from rl_clarity.jobs.directory import Directory
from rl_clarity.recordings.action_choice import ActionChoice
from rl_clarity.recordings.evaluation import choose_num_envs, shares
from rl_clarity.recordings.info import EnvironmentInfo
from rl_clarity.recordings.options import RecordOptions
from rl_clarity.recordings.recorder import Recorder
from rl_clarity.recordings.recording import Recording, open_recording
from rl_clarity.recordings.rollouts import Player, Progress, Transition, observe, play

DEFAULT_EPISODES = 100
SECONDS_OF_PLAY = 20.0
"""Time limit, in seconds, for the play from which episode lengths are estimated. An Atari game takes several seconds.
If no episode ends in this time, the largest possible length is assumed."""
MAX_ENVIRONMENTS = 16
"""Largest number of environments. All play until the last one has finished its episodes, so with few environments less
play is wasted."""


def record_agent(
    agent: Player, checkpoint: Checkpoint, directory: str | os.PathLike[str], chosen: RecordOptions
) -> Recording:
    """Let an agent that was loaded from a checkpoint play in the checkpoint's environment, and return the recording."""
    spec = spec_from_metadata(checkpoint.metadata, num_actions=agent.num_actions)
    choice = _action_choice(spec, chosen)
    if chosen.steps is None:
        chosen = dataclasses.replace(chosen, episodes=chosen.episodes or DEFAULT_EPISODES)
    with closing(_make(spec, chosen, full_resolution=chosen.full_resolution)) as environment:
        about = _metadata(agent, checkpoint, spec, choice, environment)
        with (
            closing(EnvironmentInfo(spec, environment, chosen.info)) as info,
            Recorder(
                directory,
                name=None,
                envs=None,
                value_range=(0, 255),
                seed=chosen.seed,
                metadata=about,
                on_error="raise",
            ) as recorder,
            progress_bar("Recording") as report,
        ):
            play_and_record(
                recorder, agent, environment, chosen, choice, reward_scale=spec.reward_scale, progress=counted(report),
                info=info,
            )  # fmt: skip
    return open_recording(directory)


@dataclass(frozen=True)
class Lengths:
    """Expected lengths of episodes, in steps."""

    mean: int
    longest: int
    """Number of steps until an episode has ended in every environment, or an estimate if that has not happened."""


def expected_lengths(
    agent: Player, spec: EnvironmentSpec, options: RecordOptions, most: int, played_most: int | None = None
) -> Lengths:
    """Estimate the lengths of the episodes that would be recorded. `most` is the largest length.

    The agent plays until an episode has ended in each environment, for at most `SECONDS_OF_PLAY` seconds and `most`
    steps. The mean is the number of steps divided by the number of ended episodes. It is too large if play stops early,
    because few episodes end in their first steps. If no episode has ended, the mean is `most`. With `played_most`, at
    most that many steps are played instead, and lengths are not limited to `most`.
    """
    steps = ends = played = 0
    with closing(_make(spec, options, full_resolution=False)) as environment:
        transitions = play(agent, environment, _generator(options), choice=_action_choice(spec, options))
        start, waiting = None, np.ones(environment.num_envs, bool)
        for transition in itertools.islice(transitions, played_most or most):
            played, steps = played + 1, steps + environment.num_envs
            ended = _ended(transition.result, options)
            ends, waiting = ends + int(ended.sum()), waiting & ~ended
            now = time.perf_counter()
            start = now if start is None else start  # the first step compiles the network
            if now - start > SECONDS_OF_PLAY or not waiting.any():
                break
        transitions.close()
    mean = min(played_most or most, -(-steps // ends)) if ends else max(played, most)
    return Lengths(mean, played if not waiting.any() else max(played, mean))


def record_in_directory(
    agent: Player, checkpoint: Checkpoint, recordings: Directory, name: str, chosen: RecordOptions
) -> list[str]:
    """Record an agent's play into the folder `name` of a directory, and return the names of the files. Files that an
    interrupted call left in the folder are removed first.
    """
    for old in recordings.names():
        if old.startswith(f"{name}/"):
            recordings.remove(old)
    record_agent(agent, checkpoint, f"{recordings.location}/{name}", chosen)
    return sorted(new for new in recordings.names() if new.startswith(f"{name}/"))


def play_and_record(
    recorder: Recorder,
    agent: Player,
    environment: VectorEnvironment,
    options: RecordOptions,
    choice: ActionChoice,
    *,
    reward_scale: float = 1.0,
    progress: Progress = lambda done, total: None,
    info: EnvironmentInfo | None = None,
) -> None:
    """Record the same number of episodes or steps in each environment. If the total cannot be divided equally, the
    first environments play one more.

    This way, the choice of recorded episodes does not depend on their length.
    """
    n = environment.num_envs
    levels = _LevelSeeds(environment)
    unlimited = np.full(n, np.iinfo(np.int64).max)
    episode_quota, step_quota = (
        unlimited if count is None else shares(count, n) for count in (options.episodes, options.steps)
    )
    episodes, steps = np.zeros((2, n), np.int64)
    done = np.zeros(n, bool)
    rng = _generator(options)
    transitions = play(
        agent, levels, rng, choice=choice, render=lambda t: options.full_resolution,
        save=lambda t: None if info is None else info.read(),
    )  # fmt: skip
    watch_ends(environment, np.ones(n, bool))
    while not done.all():
        transition = next(transitions)
        result = transition.result
        idle = done if result.idle is None else done | result.idle
        recorder.add(**_values(transition, agent, choice, reward_scale), level_seed=levels.played, idle=idle)
        steps += ~idle
        episodes += _ended(result, options) & ~idle
        done = (episodes >= episode_quota) | (steps >= step_quota)
        count, quota = (episodes, episode_quota) if options.steps is None else (steps, step_quota)
        progress(int(np.minimum(count, quota).sum()), int(quota.sum()))
    transitions.close()
    check_observed(environment)
    if info is not None:
        info.check_found()


def _make(spec: EnvironmentSpec, options: RecordOptions, *, full_resolution: bool) -> VectorEnvironment:
    """Make the environments for a recording. Epsilon-greedy actions are chosen outside of them, so that the recording
    contains the actions that were taken.
    """
    played = dataclasses.replace(spec, epsilon_greedy=0.0, reward_scale=1.0)
    num_envs = choose_num_envs(options.episodes or options.steps or 1, MAX_ENVIRONMENTS)
    return make(played, num_envs, options.seed, full_resolution=full_resolution)


def _action_choice(spec: EnvironmentSpec, options: RecordOptions) -> ActionChoice:
    noise = options.action_noise
    if noise is None:
        noise = 0.0 if options.greedy else spec.epsilon_greedy
    return ActionChoice(options.temperature, options.greedy, noise)


def _generator(options: RecordOptions) -> np.random.Generator:
    """Return the random generator of the actions. `expected_lengths` uses an equal one, so that it plays the first
    episodes of the recording.
    """
    return np.random.default_rng([options.seed % 2**63, 1])


def _ended(result: Step, options: RecordOptions) -> np.ndarray:
    """Return a mask (N,) of the environments in which an episode (or with `whole_games`, a game) ended."""
    return result.new_games if options.whole_games and result.new_games is not None else result.firsts


def _values(transition: Transition, agent: Player, choice: ActionChoice, reward_scale: float) -> dict[str, Any]:
    """Return the arguments of `Recorder.add` for one step."""
    outputs, result = transition.outputs, transition.result
    final = result.final_observations
    return {
        "observation": transition.observations,
        "frame": transition.frames,
        "action": transition.actions,
        "reward": result.rewards,
        "training_reward": None if reward_scale == 1 else (result.rewards * reward_scale).astype(np.float32),
        "terminated": result.firsts & ~result.truncated,
        "truncated": result.truncated,
        "logits": outputs.policy_logits,
        "q_values": outputs.q_values,
        "value": outputs.values,
        "behavior_logits": choice.behavior_logits(outputs, transition.action_masks, action_factors(agent)),
        "state": transition.state,
        "final_observation": {i: observe(agent, frame[None])[0] for i, frame in final.items()},
        "final_state": transition.next_state,
        "final_value": {i: transition.final_values[i] for i in final if result.truncated[i]},
        "cause": {i: facts["cause"] for i, facts in result.ends.items() if facts.get("cause")},
        "info": transition.saved,
    }


def _metadata(
    agent: Player, checkpoint: Checkpoint, spec: EnvironmentSpec, choice: ActionChoice, environment: VectorEnvironment
) -> dict[str, Any]:
    discounts = {name: checkpoint.metadata[name] for name in ("gamma", "lambda") if name in checkpoint.metadata}
    factors, inputs = action_factors(agent), held_inputs(agent)
    return {
        **({} if is_single_choice(factors) else {"actions": factors_to_json(factors)}),
        **({"inputs": [*inputs]} if inputs else {}),
        "name": spec.name,
        "checkpoint": checkpoint.identity,
        "environment": dataclasses.asdict(spec),
        "action_combos": environment.action_combos,
        "sampling": choice,
        **discounts,
    }


class _LevelSeeds(Wrapper):
    """Remembers the level seeds with which the last step was played. After a step that ends an episode, the environment
    already reports the level seed of the next episode.
    """

    def __init__(self, environment: VectorEnvironment) -> None:
        super().__init__(environment)
        self.played: np.ndarray | None = None
        self._next: np.ndarray | None = None

    def reset(self) -> Step:
        step = super().reset()
        self._next = level_seeds(self)
        return step

    def step(self, actions: np.ndarray) -> Step:
        self.played = self._next
        step = super().step(actions)
        if step.firsts.any():
            self._next = level_seeds(self)
        return step
