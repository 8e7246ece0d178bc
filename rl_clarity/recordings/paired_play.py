"""In paired play, agents that differ in an edit play the same levels with the same random numbers.

Episodes are played in blocks. Every environment of a block plays one episode, the first after it was made with the
block's seed. Therefore the levels of a block and the random numbers of its environments are the same for every agent,
whatever it does. Actions are sampled by inverse transform from random numbers that depend only on block, step and
environment (common random numbers). Two agents act alike until their probabilities differ enough for a random number to
lie between them, and an edit that changes nothing changes no episode.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass

import numpy as np

from rl_clarity.agents.protocol import Agent
from rl_clarity.base.progress import Report
from rl_clarity.environments import EnvironmentSpec, VectorEnvironment, make, spec_from_metadata
from rl_clarity.environments.invisible import Invisible
from rl_clarity.environments.kinds import make_world
from rl_clarity.recordings.evaluation import Cause, Evaluation, Measure, play_episodes
from rl_clarity.recordings.rollouts import play

STREAM = 2
"""Random stream from which the seeds of environments and actions are drawn. Pages use the streams 0 and 1 for their
samples."""


@dataclass(frozen=True)
class Block:
    """Episodes that are played together, one in each environment."""

    spec: EnvironmentSpec
    number: int
    episodes: int
    seed: int
    invisible: tuple[str, ...] = ()
    """Types of objects that the agent does not see."""

    @contextmanager
    def opened(self) -> Iterator[tuple[VectorEnvironment, np.random.Generator]]:
        """Yield the block's environment, which is closed at the end of the `with` statement, and the random generator
        of the actions.
        """
        levels, actions = np.random.SeedSequence([self.seed, STREAM, self.number]).generate_state(2)
        with ExitStack() as opened:
            environment = opened.enter_context(closing(make(self.spec, self.episodes, int(levels % 2**31))))
            if self.invisible:
                world = opened.enter_context(closing(make_world(self.spec)))
                environment = Invisible(environment, world, self.invisible)
            yield environment, np.random.default_rng(actions)

    def play(
        self,
        agent: Agent,
        max_steps: int,
        cause: Cause,
        report: Report = lambda share: None,
        measure: Measure | None = None,
    ) -> Evaluation:
        """Play the block's episodes to their ends."""
        with self.opened() as (environment, rng):
            return play_episodes(
                agent,
                environment,
                self.episodes,
                rng,
                max_steps=max_steps,
                cause=cause,
                measure=measure,
                progress=lambda done, total: report(done / total),
            )

    def replay(self, agent: Agent, episode: int, max_steps: int) -> tuple[np.ndarray, np.ndarray]:
        """Play an episode of the block again, and return its observations (T, H, W, C), and actions (T,) or (T,
        factors).
        """
        observations, actions = [], []
        only = np.arange(self.episodes) == episode
        with self.opened() as (environment, rng):
            for transition in play(agent, environment, rng, active=lambda: only):
                observations.append(np.array(transition.observations[episode]))
                actions.append(transition.actions[episode])
                result = transition.result
                over = result.firsts if result.new_games is None else result.new_games
                if over[episode] or len(actions) >= max_steps:
                    break
        return np.stack(observations), np.array(actions)


def environment_of(agent: Agent) -> EnvironmentSpec:
    """Return the specification of the environment that an agent's metadata name, with unscaled rewards, as in
    `evaluate`.

    Raises EnvironmentSetupError if the metadata do not name an environment.
    """
    spec = spec_from_metadata(agent.metadata, num_actions=agent.num_actions)
    return dataclasses.replace(spec, reward_scale=1.0)


def blocks(spec: EnvironmentSpec, episodes: int, size: int, seed: int) -> list[Block]:
    """Divide episodes into blocks of `size` episodes. The last block may be smaller."""
    starts = range(0, episodes, size)
    return [Block(spec, number, min(size, episodes - start), seed) for number, start in enumerate(starts)]
