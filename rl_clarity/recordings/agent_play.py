"""Let the agent of a checkpoint play in the checkpoint's environment, and record its episodes."""

from __future__ import annotations

import dataclasses
import os
from contextlib import closing
from typing import Any

import numpy as np

from rl_clarity.base.progress import counted, progress_bar
from rl_clarity.environments import EnvironmentSpec, VectorEnvironment, make, spec_from_metadata
from rl_clarity.environments.protocol import Step
from rl_clarity.environments.wrappers import Wrapper, check_observed, level_seeds
from rl_clarity.formats import Checkpoint
from rl_clarity.jobs.directory import Directory
from rl_clarity.recordings.evaluation import choose_num_envs, shares
from rl_clarity.recordings.options import RecordOptions
from rl_clarity.recordings.recorder import Recorder
from rl_clarity.recordings.recording import Recording, open_recording
from rl_clarity.recordings.rollouts import ActionChoice, Player, Progress, Transition, observe, play

DEFAULT_EPISODES = 100
MAX_ENVIRONMENTS = 16
"""Largest number of environments. All play until the last one has finished its episodes, so with few environments less
play is wasted."""


def record_agent(
    agent: Player, checkpoint: Checkpoint, directory: str | os.PathLike[str], chosen: RecordOptions
) -> Recording:
    """Let an agent that was loaded from a checkpoint play in the checkpoint's environment, and record it."""
    spec = spec_from_metadata(checkpoint.metadata, num_actions=agent.num_actions)
    noise = chosen.action_noise
    if noise is None:
        noise = 0.0 if chosen.greedy else spec.epsilon_greedy
    choice = ActionChoice(chosen.temperature, chosen.greedy, noise)
    if chosen.steps is None:
        chosen = dataclasses.replace(chosen, episodes=chosen.episodes or DEFAULT_EPISODES)
    # Random actions are chosen here and not in the environment, so that the actions taken are recorded.
    played = dataclasses.replace(spec, epsilon_greedy=0.0, reward_scale=1.0)
    num_envs = choose_num_envs(chosen.episodes or chosen.steps or 1, MAX_ENVIRONMENTS)
    with closing(make(played, num_envs, chosen.seed, full_resolution=chosen.full_resolution)) as environment:
        about = _metadata(checkpoint, spec, choice, environment)
        with (
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
                recorder, agent, environment, chosen, choice, reward_scale=spec.reward_scale, progress=counted(report)
            )
    return open_recording(directory)


def record_in_directory(
    agent: Player, checkpoint: Checkpoint, recordings: Directory, name: str, chosen: RecordOptions
) -> list[str]:
    """Record into a folder of a directory, replacing what an interrupted call left there. Return names of files."""
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
) -> None:
    """Record the same number of episodes or steps in each environment; the first environments play the remainder.

    This way the choice of recorded episodes does not depend on their length.
    """
    n = environment.num_envs
    levels = _LevelSeeds(environment)
    unlimited = np.full(n, np.iinfo(np.int64).max)
    episode_quota, step_quota = (
        unlimited if count is None else shares(count, n) for count in (options.episodes, options.steps)
    )
    episodes, steps = np.zeros((2, n), np.int64)
    done = np.zeros(n, bool)
    rng = np.random.default_rng([options.seed % 2**63, 1])
    transitions = play(agent, levels, rng, choice=choice, render=lambda t: options.full_resolution)
    while not done.all():
        transition = next(transitions)
        result = transition.result
        idle = done if result.idle is None else done | result.idle
        recorder.add(**_values(transition, agent, choice, reward_scale), level_seed=levels.played, idle=idle)
        steps += ~idle
        ended = result.new_games if options.whole_games and result.new_games is not None else result.firsts
        episodes += ended & ~idle
        done = (episodes >= episode_quota) | (steps >= step_quota)
        count, quota = (episodes, episode_quota) if options.steps is None else (steps, step_quota)
        progress(int(np.minimum(count, quota).sum()), int(quota.sum()))
    transitions.close()
    check_observed(environment)


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
        "behavior_logits": choice.behavior_logits(outputs, transition.action_masks),
        "state": transition.state,
        "final_observation": {i: observe(agent, frame[None])[0] for i, frame in final.items()},
        "final_state": transition.next_state,
        "final_value": {i: transition.final_values[i] for i in final if result.truncated[i]},
    }


def _metadata(
    checkpoint: Checkpoint, spec: EnvironmentSpec, choice: ActionChoice, environment: VectorEnvironment
) -> dict[str, Any]:
    discounts = {name: checkpoint.metadata[name] for name in ("gamma", "lambda") if name in checkpoint.metadata}
    return {
        "name": spec.name,
        "checkpoint": checkpoint.identity,
        "environment": dataclasses.asdict(spec),
        "action_combos": environment.action_combos,
        "sampling": choice,
        **discounts,
    }


class _LevelSeeds(Wrapper):
    """Remembers the levels of the last step, because after a step an environment reports the level of the
    next episode.
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
