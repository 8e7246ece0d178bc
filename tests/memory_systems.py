"""Agents whose memory is known: built by hand, or trained on a cue for some seconds. All of them are in memory."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import rl_clarity
from rl_clarity.agents.protocol import Agent
from rl_clarity.environments.light_switch import LEFT, LightSwitchEnvironment
from rl_clarity.recordings.recording import Recording, open_recording

SIDE = 4
REGISTER_LAG = 5
XOR_STEPS = {"first": 1, "second": 4, "decoy": 7}
"""Steps, counted from 0, whose frames are the two cues and the decoy."""
XOR_LENGTH = 12


def signal(observations: Any, channel: int) -> Any:
    """The signal (B,) of a channel, from -1 to 1: the brightness of the upper left place."""
    return 2 * observations[:, channel, 0, 0] - 1


def make_agent(step: Callable[[Any, Any], tuple[Any, Any]], units: int | tuple[int, ...], start: float = 0.0) -> Agent:
    """A TorchAgent whose `step(observations, state)` returns preferences for the second action and the next state."""
    import torch

    class System(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gain = torch.nn.Parameter(torch.ones(()))

        def forward(self, observations: Any, state: Any) -> Any:
            preference, after = step(observations, state)
            preference = self.gain * preference
            logits = torch.stack([torch.zeros_like(preference), preference], dim=1)
            return logits, preference, after

    return rl_clarity.TorchAgent(
        System(), (SIDE, SIDE, 3), {"env_name": "system"}, heads=("policy_logits", "values"),
        initial_state=np.full(units, start, np.float32), input_divisor=255, check=False,
    )  # fmt: skip


def shift_register(gain: float = 2.0) -> Agent:
    """The preference is the signal of the frame 5 steps before; the state before a step has the last 5 signals."""
    import torch

    def step(observations: Any, state: Any) -> tuple[Any, Any]:
        return gain * state[:, -1], torch.cat([signal(observations, 0)[:, None], state[:, :-1]], dim=1)

    return make_agent(step, REGISTER_LAG)


def xor_agent(strength: float = 2.0, decoy: float = 0.3) -> Agent:
    """The preference is the product of two cues, and depends a little on a decoy; channels say which is which."""
    import torch

    def step(observations: Any, state: Any) -> tuple[Any, Any]:
        shown = torch.stack([signal(observations, channel) for channel in range(3)], dim=1)
        after = torch.where(shown.abs() > 0.5, shown, state)
        return strength * state[:, 0] * state[:, 1] + decoy * state[:, 2], after

    return make_agent(step, 3)


def independent_units(decay: float = 0.9) -> Agent:
    """Three units, each of which averages the noise of its own channel; the preference is their sum."""
    import torch

    def step(observations: Any, state: Any) -> tuple[Any, Any]:
        shown = torch.stack([signal(observations, channel) for channel in range(3)], dim=1)
        return state.sum(dim=1), decay * state + (1 - decay) * shown

    return make_agent(step, 3)


def counter() -> Agent:
    """The state counts steps and remembers nothing of what was seen; the preference alternates with the count."""
    return make_agent(lambda observations, state: (2 * state.cos()[:, 0], state + 1), 1)


def signal_frames(signals: np.ndarray) -> np.ndarray:
    """Observations (E, T, 4, 4, 3) uint8 of signals (E, T, 3) from -1 to 1."""
    shape = (*signals.shape[:2], SIDE, SIDE, 3)
    frames = np.full(shape, 128, np.uint8)
    frames[:, :, 0, 0] = np.rint((signals + 1) * 127.5)
    return frames


def noise_frames(episodes: int, steps: int, seed: int = 0) -> np.ndarray:
    """Signals that are -1 or 1 at random."""
    return signal_frames(np.random.default_rng(seed).choice([-1.0, 1.0], (episodes, steps, 3)))


def xor_frames(episodes: int, seed: int = 0) -> np.ndarray:
    signals = np.zeros((episodes, XOR_LENGTH, 3))
    for channel, step in enumerate(XOR_STEPS.values()):
        signals[:, step, channel] = np.random.default_rng([seed, channel]).choice([-1, 1], episodes)
    return signal_frames(signals)


def record_frames(agent: Agent, frames: np.ndarray, folder: Path, seed: int = 0) -> Recording:
    """Record what an agent does when it sees frames (E, T, H, W, C), whatever it does."""
    rng = np.random.default_rng(seed)
    with rl_clarity.Recorder(folder, name=None, on_error="raise") as recorder:
        for episode in frames:
            state = agent.initial_state(1)
            for step, observation in enumerate(episode):
                outputs, after = agent.step(observation[None], state, np.array([step == 0]))
                assert outputs.policy_logits is not None
                assert outputs.values is not None
                assert state is not None
                logits = outputs.policy_logits[0]
                probabilities = np.exp(logits - logits.max())
                recorder.add(
                    observation=observation, action=int(rng.choice(len(logits), p=probabilities / probabilities.sum())),
                    reward=0.0, terminated=step == len(episode) - 1, logits=logits, value=outputs.values[0],
                    state=tuple(part[0] for part in state),
                )  # fmt: skip
                state = after
    return open_recording(folder)


def light_switch_frames(episodes: int, delay: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Frames (E, T, 16, 16, 3) of the game `memory`, and the right actions (E,) at their last step."""
    environment = LightSwitchEnvironment("memory", episodes, seed, delay)
    steps = [environment.reset().observations.copy()]
    right = environment.cues + LEFT
    for _ in range(delay + 1):
        steps.append(environment.step(np.zeros(episodes, int)).observations.copy())
    return np.stack(steps, axis=1), right


@functools.cache
def cue_agent(delay: int, units: int = 16, updates: int = 250, seed: int = 0) -> Agent:
    """A GRU trained to press the switch that the first frame indicated, `delay` + 1 steps before. It takes seconds."""
    import torch

    class Network(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = torch.nn.Linear(16 * 16 * 3, 24)
            self.cell = torch.nn.GRUCell(24, units)
            self.policy, self.value = torch.nn.Linear(units, 3), torch.nn.Linear(units, 1)
            with torch.no_grad():  # so that the state is kept at first
                self.cell.bias_hh[units : 2 * units] = 3.0

        def forward(self, observations: Any, state: Any) -> Any:
            after = self.cell(torch.relu(self.encoder(observations.flatten(1))), state)
            return self.policy(after), self.value(after)[:, 0], after

    generator = torch.random.get_rng_state()
    torch.manual_seed(seed)
    network = Network()
    torch.random.set_rng_state(generator)
    optimizer = torch.optim.Adam(network.parameters(), 5e-3)
    for update in range(updates):
        frames, right = light_switch_frames(32, delay, 1000 + update)
        inputs = torch.from_numpy(frames.astype(np.float32) / 255).permute(1, 0, 4, 2, 3)
        state, wanted = torch.zeros(len(right), units), torch.from_numpy(right)
        for seen in inputs:
            logits, _, state = network(seen, state)
        loss = torch.nn.functional.cross_entropy(logits, wanted, label_smoothing=0.2)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
    metadata = {"env_kind": "light_switch", "env_name": "memory", "delay": delay, "gamma": 0.99, "lambda": 0.95}
    return rl_clarity.TorchAgent(
        network, (16, 16, 3), metadata, heads=("policy_logits", "values"),
        initial_state=np.zeros(units, np.float32), input_divisor=255, check=False,
    )  # fmt: skip
