"""Small pages with the agents behind them, whose activations and states are simple."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

import rl_clarity
from rl_clarity.agents.protocol import State
from rl_clarity.live import LiveNetwork, parse_request
from rl_clarity.pages.results import open_results
from rl_clarity.recordings.samples import Trajectories
from tests.fakes import TinyAgent

SHAPE = (16, 16, 3)
STEPS = 70
"""A segment of 64 steps and a short one."""
LAYER = "2a"
Json = dict[str, Any]


def tiny_agent(kind: str = "policy") -> TinyAgent:
    return TinyAgent(kind, SHAPE, 4, patch=4)


def write_page(directory: Path, kind: str = "policy") -> Path:
    """Write the page of an agent that plays from the middle of an episode, and begins another one at step 40."""
    agent, rng = tiny_agent(kind), np.random.default_rng(0)
    observations = rng.integers(0, 256, (1, STEPS, *SHAPE), np.uint8)
    firsts = np.zeros((1, STEPS), bool)
    firsts[0, 40] = True
    state: State = None if agent.initial_state(1) is None else (rng.normal(size=(1, 6)).astype(np.float32),)
    outputs, states = [], []
    for step in range(STEPS):
        reset = None if state is None else (np.where(firsts[:, step, None], np.float32(0), state[0]),)
        states.append(reset)
        outputs.append(agent.forward(observations[:, step], reset))
        state = outputs[-1].state
    arrays = {name: [getattr(one, name) for one in outputs] for name in ("policy_logits", "values", "q_values")}
    recorded: Json = {name: None if parts[0] is None else np.stack(parts, axis=1) for name, parts in arrays.items()}
    played = Trajectories(
        observations,
        rng.integers(0, 4, (1, STEPS)),
        rng.normal(size=(1, STEPS)).astype(np.float32),
        firsts,
        states=None if state is None else (np.stack([one[0] for one in states if one is not None], axis=1),),
        **recorded,
    )
    rl_clarity.generate(
        agent,
        played,
        observations[0, ::4],
        directory,
        features={"count": 3},
        ablation={"every": 4},
        layers={"name_contains_one_of": [LAYER]},
    )
    return directory


def open_network(directory: Path, kind: str = "policy") -> LiveNetwork:
    return LiveNetwork(open_results(directory), tiny_agent(kind))


def ask(network: LiveNetwork, kind: str, **values: Any) -> Json:
    return network.answer(parse_request(kind, json.dumps(values).encode()))


def values_of(answer: Json, when: str) -> np.ndarray:
    return np.asarray(answer[when]["values"])
