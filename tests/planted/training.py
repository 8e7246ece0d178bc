"""Train small networks that imitate a scripted player of the field: seconds on one core, the same for the same seed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from rl_clarity import TorchAgent
from rl_clarity.base.statistics import softmax
from tests.debugging.field import SIDE, Field, Player, step
from tests.planted.agents import Memory, World

STEPS = 10
"""Steps of a sequence of demonstrations."""
SEQUENCES, EPOCHS, BATCH = 3000, 4, 128
RATE = 4e-3
FEATURES, AROUND, HIDDEN, PERIOD = 48, 16, 24, 8


class Network(nn.Module):
    """Convolutions and linear layers of about 50,000 parameters, with a policy, perhaps a value, and perhaps a state.

    With the memory `count`, the state is the number of the step, whose phase in `PERIOD` steps is an input of the last
    layers; with `gru`, it is that of a recurrent cell.
    """

    def __init__(self, num_actions: int, *, value: bool = True, memory: Memory = "none") -> None:
        super().__init__()
        self.memory = memory
        self.tiles = nn.Sequential(nn.Conv2d(3, 10, 4, stride=4), nn.LeakyReLU(0.1))
        self.around = nn.Sequential(nn.Conv2d(10, AROUND, 5, padding=2), nn.LeakyReLU(0.1), nn.AdaptiveMaxPool2d(1))
        self.places = nn.Sequential(nn.Flatten(), nn.Linear(10 * SIDE * SIDE, FEATURES), nn.LeakyReLU(0.1))
        self.mixed = nn.Sequential(nn.Linear(FEATURES + AROUND, FEATURES), nn.LeakyReLU(0.1))
        self.cell = nn.GRUCell(FEATURES, HIDDEN) if memory == "gru" else None
        width = FEATURES + {"none": 0, "count": PERIOD, "gru": HIDDEN}[memory]
        self.policy = nn.Linear(width, num_actions)
        self.value = nn.Linear(width, 1) if value else None

    @property
    def state_size(self) -> int:
        return {"none": 0, "count": 1, "gru": HIDDEN}[self.memory]

    def forward(self, images: torch.Tensor, state: torch.Tensor | None = None) -> tuple[torch.Tensor, ...]:
        """Return the policy's logits (B, A), the value (B, 1) and the next state (B, S), those that there are."""
        return self.remember(self.encode(images), state)

    def encode(self, images: torch.Tensor) -> torch.Tensor:
        """Return features (B, F) of where things are, and of what is around one of them, wherever that is."""
        tiles = self.tiles(images)
        return self.mixed(torch.cat([self.places(tiles), self.around(tiles).flatten(1)], dim=1))

    def remember(self, features: torch.Tensor, state: torch.Tensor | None) -> tuple[torch.Tensor, ...]:
        after = None
        if self.memory == "count":
            assert state is not None
            phases = 2 * torch.pi / PERIOD * state * torch.arange(1, PERIOD // 2 + 1)
            features, after = torch.cat([features, phases.cos(), phases.sin()], dim=1), state + 1
        elif self.cell is not None:
            after = self.cell(features, state)
            features = torch.cat([features, after], dim=1)
        value = None if self.value is None else self.value(features)
        return tuple(part for part in (self.policy(features), value, after) if part is not None)


@dataclass(frozen=True)
class Demonstrations:
    """What a player would do in n sequences of T steps."""

    images: np.ndarray  # (n, T, H, W, 3) uint8
    firsts: np.ndarray  # (n, T) bool: an episode begins
    policies: np.ndarray  # (n, T, A) float32
    values: np.ndarray | None  # (n, T) float32


def demonstrate(player: Player, world: World, sequences: int, seed: int) -> Demonstrations:
    """Play by the player's policy or by random actions, in fields from which some things are taken away.

    Half of the episodes begin beside one of the things: what matters only there is rare elsewhere.
    """
    rng, field = np.random.default_rng(seed), world()
    images, firsts, logits, values = list[np.ndarray](), list[bool](), list[np.ndarray](), list[float]()
    for _ in range(sequences):
        over, state = True, player.initial_state(1)
        for _ in range(STEPS):
            if over:
                field.reset(seed=int(rng.integers(2**31)))
                kept = rng.random(len(field.things) - 1) < rng.choice([1.0, 0.6])
                field.things[1:] = [thing for thing, keep in zip(field.things[1:], kept, strict=True) if keep]
                if rng.random() < 0.5:
                    _place_beside(field, rng)
                random = rng.random() < 0.5
            images.append(field.draw())
            firsts.append(over)
            outputs, state = player.step(images[-1][None], state, np.array([over]))
            logits.append(np.asarray(outputs.policy_logits)[0])
            values.append(0.0 if outputs.values is None else float(outputs.values[0]))
            policy = softmax(np.asarray(logits[-1], np.float64))
            action = rng.integers(player.num_actions) if random else rng.choice(len(policy), p=policy)
            _, _, ended, cut, _ = field.step(action)
            over = ended or cut
    shape = (sequences, STEPS)
    return Demonstrations(
        np.stack(images).reshape(*shape, *images[0].shape),
        np.reshape(firsts, shape),
        softmax(np.stack(logits)).astype(np.float32).reshape(*shape, -1),
        np.asarray(values, np.float32).reshape(shape) if "values" in player.heads else None,
    )


def _place_beside(field: Field, rng: np.random.Generator) -> None:
    """Move one of the things to a cell beside the player, if that is free."""
    if len(field.things) > 1:
        (_, *player), *things = field.things
        moved, cell = things[rng.integers(len(things))], [*step((player[0], player[1]), int(rng.integers(1, 5)))]
        if cell not in [thing[1:] for thing in field.things]:
            moved[1:] = cell


def train(player: Player, world: World, seed: int, memory: Memory = "none") -> TorchAgent:
    """Return an agent that imitates a player: the cross entropy of its policy, and the squared error of its value."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            network = _fit(demonstrate(player, world, SEQUENCES, seed), memory)
    finally:
        torch.set_num_threads(threads)
    heads = ("policy_logits",) if network.value is None else ("policy_logits", "values")
    state = np.zeros(network.state_size, np.float32) if network.state_size else None
    return TorchAgent(network, player.observation_shape, player.metadata, heads=heads, initial_state=state)


def agreement(agent: TorchAgent, player: Player, world: World, seed: int) -> float:
    """Return how often the agent's best action is one of the player's best, in sequences that it was not trained on."""
    held_out = demonstrate(player, world, 200, seed + 1_000_000)
    state, agrees = agent.initial_state(len(held_out.images)), []
    for t in range(STEPS):
        outputs, state = agent.step(held_out.images[:, t], state, held_out.firsts[:, t])
        policy = held_out.policies[:, t]
        chosen = policy[np.arange(len(policy)), np.asarray(outputs.policy_logits).argmax(axis=1)]
        agrees.append(chosen > policy.max(axis=1) - 1e-3)
    return float(np.mean(agrees))


def _fit(data: Demonstrations, memory: Memory) -> Network:
    network = Network(data.policies.shape[-1], value=data.values is not None, memory=memory)
    network.to(memory_format=torch.channels_last)
    length = 1 if memory == "none" else STEPS  # without a memory, each step is a sequence

    def sequences(array: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(array.reshape(-1, length, *array.shape[2:]))

    images, firsts, policies = (sequences(array) for array in (data.images, data.firsts, data.policies))
    values = None if data.values is None else sequences(data.values)
    batches = [len(images) * length // BATCH, BATCH // length]
    optimizer = torch.optim.Adam(network.parameters(), RATE)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, EPOCHS * batches[0], pct_start=0.1)
    for _ in range(EPOCHS):
        for rows in torch.randperm(len(images))[: batches[0] * batches[1]].reshape(*batches):
            logits, predicted = _unroll(network, images[rows], firsts[rows])
            loss = -(policies[rows] * logits.log_softmax(dim=-1)).sum(dim=-1).mean()
            if values is not None:
                loss = loss + ((predicted - values[rows]) ** 2).mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimizer.step()
            schedule.step()
    return network


def _unroll(network: Network, images: torch.Tensor, firsts: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return logits (B, T, A) and values (B, T) of sequences, 0 without a value."""
    frames = images.flatten(0, 1).permute(0, 3, 1, 2) / 255
    features = network.encode(frames).unflatten(0, images.shape[:2])
    state = torch.zeros(len(images), network.state_size) if network.state_size else None
    steps = []
    for t in range(images.shape[1]):
        if state is not None:
            state = state * ~firsts[:, t, None]
        outputs = network.remember(features[:, t], state)
        state = outputs[-1] if network.state_size else None
        steps.append(outputs)
    logits = torch.stack([outputs[0] for outputs in steps], dim=1)
    if network.value is None:
        return logits, torch.zeros(logits.shape[:2])
    return logits, torch.stack([outputs[1][:, 0] for outputs in steps], dim=1)
