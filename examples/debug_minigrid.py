"""Train an agent of your own in MiniGrid, and find out why it fails where it has not been trained.

    python examples/debug_minigrid.py                 # two minutes
    python examples/debug_minigrid.py --size tiny     # hardly trained, as a test

The network learns to walk to the goal from a teacher, in rooms with nothing else. Then it plays in rooms with lava.
`rl_clarity.debug` continues its failures from saved states, places objects around the player, and says what it tested.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

import rl_clarity
from rl_clarity.environments import EnvironmentSpec

CELLS, TILE = 8, 8
LEFT, RIGHT, FORWARD = 0, 1, 2
SIZES: dict[str, dict[str, Any]] = {
    "tiny": {"frames": 200, "batches": 5, "play": {"num_envs": 2, "num_steps": 32}, "states": 8},
    "small": {"frames": 6000, "batches": 3000, "play": {"num_envs": 8, "num_steps": 256}, "states": 96},
}


def make_room(lava: int = 0) -> gymnasium.Env[Any, Any]:
    """Make a room with a goal and so many fields of lava at random places, which is seen from above."""
    from minigrid.core.grid import Grid
    from minigrid.core.mission import MissionSpace
    from minigrid.core.world_object import Goal, Lava
    from minigrid.minigrid_env import MiniGridEnv
    from minigrid.wrappers import ImgObsWrapper, RGBImgObsWrapper

    class Room(MiniGridEnv):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(MissionSpace(lambda: "go to the goal"), grid_size=CELLS, max_steps=50)

        def _gen_grid(self, width: int, height: int) -> None:
            self.grid, self.mission = Grid(width, height), "go to the goal"
            self.grid.wall_rect(0, 0, width, height)
            self.goal_pos = self.place_obj(Goal())
            for _ in range(lava):
                self.place_obj(Lava())
            self.place_agent()

    return ImgObsWrapper(RGBImgObsWrapper(Room(), tile_size=TILE))


def teacher(room: Any) -> int:
    """Return the action that walks to the goal: first along the row, then along the column."""
    across, down = np.subtract(room.goal_pos, room.agent_pos)
    directions = {(1, 0): 0, (0, 1): 1, (-1, 0): 2, (0, -1): 3}
    wanted = directions[(int(np.sign(across)), 0 if across else int(np.sign(down)))]
    turns = (wanted - room.agent_dir) % 4
    return FORWARD if turns == 0 else LEFT if turns == 3 else RIGHT


def collect(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return frames (n, 64, 64, 3) of rooms without lava, and the teacher's actions (n,)."""
    environment = make_room()
    frames, actions = [], []
    for seed in range(count):
        frames.append(environment.reset(seed=seed)[0])
        actions.append(teacher(environment.unwrapped))
    return np.stack(frames), np.array(actions)


def train(frames: np.ndarray, actions: np.ndarray, batches: int) -> Any:
    """Return a PyTorch network that imitates the teacher."""
    import torch

    class Network(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.body = torch.nn.Sequential(
                torch.nn.Conv2d(3, 32, TILE, TILE),  # one position for each cell
                torch.nn.ReLU(),
                torch.nn.Conv2d(32, 32, 3, padding=1),
                torch.nn.ReLU(),
                torch.nn.Flatten(),
                torch.nn.Linear(32 * CELLS * CELLS, 128),
                torch.nn.ReLU(),
            )
            self.policy = torch.nn.Linear(128, 7)

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            logits: torch.Tensor = self.policy(self.body(images))
            return logits

    torch.manual_seed(0)
    network = Network()
    optimizer = torch.optim.Adam(network.parameters(), 1e-3)
    images = torch.from_numpy(frames).permute(0, 3, 1, 2) / 255
    labels = torch.from_numpy(actions)
    for _ in range(batches):
        rows = torch.randint(len(images), (64,))
        loss = torch.nn.functional.cross_entropy(network(images[rows]), labels[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return network


def main(output_dir: Path, size: str) -> None:
    sizes = SIZES[size]
    network = train(*collect(sizes["frames"]), sizes["batches"])
    shape = (CELLS * TILE, CELLS * TILE, 3)
    agent = rl_clarity.TorchAgent(network, observation_shape=shape, heads=("policy_logits",))
    result = rl_clarity.debug(
        agent,
        output_dir / "page",
        environment=EnvironmentSpec("gymnasium", "Room", {"factory": lambda: make_room(lava=5)}),
        trajectories=sizes["play"],
        failures={"horizon": 12, "window": 20},
        goals={"states": sizes["states"]},
    )
    print(result)
    print(f"open {output_dir / 'page' / 'interface.html'}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output-dir", type=Path, default=Path("out/debug-minigrid"))
    parser.add_argument("--size", choices=SIZES, default="small")
    options = parser.parse_args()
    main(options.output_dir, options.size)
