"""Continue episodes from saved states of the environment, with the agent's actions or with fixed actions."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rl_clarity.agents.actions import is_single_choice
from rl_clarity.agents.capabilities import action_factors
from rl_clarity.agents.held_inputs import held_inputs
from rl_clarity.agents.protocol import Agent, Outputs, State
from rl_clarity.base.errors import ClarityError, WorldError
from rl_clarity.environments import EnvironmentSpec, make
from rl_clarity.environments.kinds import make_world
from rl_clarity.environments.protocol import Step
from rl_clarity.environments.worlds import World, restore
from rl_clarity.recordings.action_choice import ActionChoice
from rl_clarity.recordings.removals import Moment
from rl_clarity.recordings.rollouts import Player, observe, play

CONTINUED_AT_ONCE = 64
"""Number of episodes that are continued in parallel."""
MOST_HELD = 6
"""Largest number of steps for which a random sequence holds an action before it draws another one."""


@dataclass(frozen=True)
class Branches:
    """The results of n continuations."""

    failed: np.ndarray  # (n,) bool: the environment ended the episode without a reward at the last step
    succeeded: np.ndarray  # (n,) bool: the episode ended with a reward at the last step
    lengths: np.ndarray  # (n,) int64: steps until the episode ended, or until the continuation was stopped
    returns: np.ndarray  # (n,) float64: sum of the rewards of these steps
    observations: np.ndarray | None = None  # (n, steps, H, W, C) uint8: before each step, if requested

    @property
    def survived(self) -> np.ndarray:
        """(n,) bool: whether the continuation did not fail."""
        return ~self.failed


@dataclass(frozen=True)
class ActionSequences:
    """A player that takes fixed sequences of actions (n, steps), and then repeats the last action of each."""

    actions: np.ndarray
    num_actions: int

    def initial_state(self, n: int) -> State:
        return (np.zeros((n, 1), np.int64),)

    def step(self, observations: np.ndarray, state: State, firsts: np.ndarray) -> tuple[Outputs, State]:
        assert state is not None
        steps = np.minimum(state[0][:, 0], self.actions.shape[1] - 1)
        taken = self.actions[np.arange(len(steps)), steps]
        return Outputs(q_values=np.eye(self.num_actions, dtype=np.float32)[taken]), (state[0] + 1,)

    def reset(self, state: State, firsts: np.ndarray) -> State:
        return state

    def preprocess(self, frames: np.ndarray) -> np.ndarray:
        return frames


class Brancher:
    """Continues episodes from saved states of their environment.

    A state includes the environment's random numbers, so continuations differ only by their actions.
    """

    def __init__(self, agent: Agent, spec: EnvironmentSpec, seed: int = 0) -> None:
        """Open environments, and the world that edits their states.

        Raises WorldError for environments whose states cannot be saved, and for agents whose actions are not a single
        discrete choice, or that have inputs besides an image.
        """
        if not is_single_choice(action_factors(agent)) or held_inputs(agent):
            raise WorldError(
                "episodes can be continued only for agents with a single image as input and a single discrete action"
            )
        self.agent, self.spec = agent, spec
        self.world: World = make_world(spec)
        self._choice = ActionChoice(action_noise=spec.epsilon_greedy)
        try:
            self._environment = make(
                dataclasses.replace(spec, epsilon_greedy=0.0), CONTINUED_AT_ONCE, int(seed) % 2**31
            )
        except ClarityError:
            self.world.close()
            raise
        self._environment.reset()

    def close(self) -> None:
        self._environment.close()
        self.world.close()

    @property
    def combos(self) -> tuple[tuple[str, ...], ...]:
        """Buttons of each action."""
        return self._environment.action_combos

    def continue_policy(
        self,
        moments: Sequence[Moment],
        steps: Sequence[int],
        rng: np.random.Generator,
        *,
        world_states: Sequence[bytes] | None = None,
        keep: bool = False,
        agent: Player | None = None,
    ) -> Branches:
        """Let the agent continue from each moment for a number of steps, with new random numbers for its actions.

        `steps` has a number for each moment. `world_states` are used instead of the environment's states in `moments`,
        and `agent` instead of the brancher's agent. With `keep`, observations are returned, too.
        """
        player: Player = self.agent if agent is None else agent
        states = [moment.world_state for moment in moments] if world_states is None else world_states
        return self._branch(
            states, [moment.state for moment in moments], lambda rows: player, steps, rng, self._choice, keep=keep
        )

    def continue_actions(self, world_states: Sequence[bytes], actions: np.ndarray, *, keep: bool = False) -> Branches:
        """Take a sequence of actions from each of n states. `actions` is (n, steps)."""
        steps = [actions.shape[1]] * len(world_states)
        number = self.agent.num_actions
        rng = np.random.default_rng(0)  # no random number is used
        return self._branch(
            world_states,
            None,
            lambda rows: ActionSequences(actions[rows], number),
            steps,
            rng,
            ActionChoice(),
            keep=keep,
        )

    def random_sequences(self, count: int, steps: int, rng: np.random.Generator) -> np.ndarray:
        """Return random sequences of actions (count, steps). Each action is held for 1 to `MOST_HELD` steps."""
        actions = rng.integers(self.agent.num_actions, size=(count, steps))
        held = rng.integers(1, MOST_HELD + 1, size=(count, steps))
        kept = np.zeros_like(actions)
        for row in range(count):
            kept[row] = np.repeat(actions[row], held[row])[:steps]
        return kept

    def _branch(
        self,
        world_states: Sequence[bytes],
        agent_states: Sequence[State] | None,
        player: Callable[[np.ndarray], Player],
        steps: Sequence[int],
        rng: np.random.Generator,
        choice: ActionChoice,
        *,
        keep: bool,
    ) -> Branches:
        count = CONTINUED_AT_ONCE
        parts = []
        for start in range(0, len(world_states), count):
            rows = np.arange(start, min(start + count, len(world_states)))
            padded = np.concatenate([rows, np.full(count - len(rows), rows[0])])
            parts.append(
                self._continue(
                    [world_states[i] for i in padded],
                    None if agent_states is None else [agent_states[i] for i in padded],
                    player(padded),
                    np.where(np.arange(count) < len(rows), np.asarray(steps)[padded], 0),
                    rng,
                    choice,
                    len(rows),
                    keep=keep,
                )
            )
        fields = ("failed", "succeeded", "lengths", "returns")
        arrays: dict[str, Any] = {name: np.concatenate([getattr(part, name) for part in parts]) for name in fields}
        seen = [part.observations for part in parts if part.observations is not None]
        return Branches(**arrays, observations=np.concatenate(seen) if seen else None)

    def _continue(
        self,
        world_states: Sequence[bytes],
        agent_states: Sequence[State] | None,
        player: Player,
        steps: np.ndarray,
        rng: np.random.Generator,
        choice: ActionChoice,
        count: int,
        *,
        keep: bool,
    ) -> Branches:
        """Continue in all environments, and return the results of the first `count`."""
        n = len(world_states)
        frames = restore(self.world, self._environment, world_states)
        nothing = np.zeros(n, np.float32)
        begun = Step(frames, nothing, np.zeros(n, bool), np.zeros(n, bool))
        state = player.initial_state(n) if agent_states is None else _batch(agent_states)
        running, lengths, returns = steps > 0, np.zeros(n, np.int64), np.zeros(n)
        failed, succeeded = np.zeros((2, n), bool)
        seen = []
        transitions = play(player, self._environment, rng, choice=choice, active=lambda: running, start=(begun, state))
        while running.any():
            transition = next(transitions)
            if keep:
                seen.append(np.array(transition.observations[:count]))
            result = transition.result
            lengths += running
            returns += result.rewards * running
            over = running & result.firsts
            failed |= over & ~result.truncated & (result.rewards <= 0)
            succeeded |= over & (result.rewards > 0)
            running = running & ~over & (lengths < steps)
        transitions.close()
        observations = np.stack(seen, axis=1) if seen else None
        return Branches(failed[:count], succeeded[:count], lengths[:count], returns[:count], observations)


def check_restored(brancher: Brancher, moments: Sequence[Moment], actions: np.ndarray) -> None:
    """Raise WorldError unless the actions (n,), taken again from the first moment, reproduce the episode.

    `moments` are the last n steps of an episode. Their observations and the end of the episode are compared.
    """
    replayed = brancher.continue_actions([moments[0].world_state], actions[None], keep=True)
    assert replayed.observations is not None
    seen = observe(brancher.agent, replayed.observations[0])
    for moment, observation in zip(moments, seen, strict=False):
        if not np.array_equal(observation, moment.observation):
            raise WorldError(
                f"an episode that was continued from a saved state differs from the original at step {moment.step}, so "
                "continuations would not belong to the same episode"
            )
    if replayed.lengths[0] != len(actions) or not (replayed.failed[0] or replayed.succeeded[0]):
        raise WorldError(
            f"an episode that was continued from a saved state does not end after step {moments[-1].step} as it "
            "originally did, so continuations would not belong to the same episode"
        )


def _batch(states: Sequence[State]) -> State:
    """Return the states of n episodes as a batch."""
    parts = [state for state in states if state is not None]
    return tuple(np.stack(part) for part in zip(*parts, strict=True)) if parts else None
