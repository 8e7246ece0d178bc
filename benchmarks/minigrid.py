"""Train two small agents for MiniGrid in minutes, for measurements in environments whose states can be edited.

python -m benchmarks.minigrid FOLDER [--name doorkey] [--name lava]

Both see what is in front of them. `doorkey` must fetch a key to open a door. `lava` walks through a room with lava, and
with keys, balls and boxes that have no effect. Importing this module registers their environments.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import gymnasium
from minigrid.core.grid import Grid
from minigrid.core.mission import MissionSpace
from minigrid.core.world_object import Ball, Box, Goal, Key, Lava
from minigrid.minigrid_env import MiniGridEnv
from minigrid.wrappers import ImgObsWrapper, RGBImgPartialObsWrapper

import rl_clarity

TILE = 8
SETTINGS: dict[str, Any] = {
    "env_kind": "gymnasium",
    "cnn": "nature",
    "num_envs": 16,
    "num_steps": 128,
    "num_minibatches": 8,
    "learning_rate": 4e-4,
    "gamma": 0.99,
    "tensorboard": False,
}
AGENTS = {"doorkey": ("DoorKeyPixels-v0", 120_000), "lava": ("LavaRoomPixels-v0", 120_000)}
"""Environment and number of steps of each agent."""


class LavaRoom(MiniGridEnv):
    """A room with the goal, two cells of lava, and two objects that can be picked up but give no reward."""

    def __init__(self, render_mode: str | None = None) -> None:
        mission = MissionSpace(lambda: "get to the green goal square")
        super().__init__(mission, 6, max_steps=60, see_through_walls=True, highlight=False, render_mode=render_mode)

    def _gen_grid(self, width: int, height: int) -> None:
        self.grid = Grid(width, height)
        self.grid.wall_rect(0, 0, width, height)
        self.place_obj(Goal())
        for kind in self._rand_subset((Key, Ball, Box), 2):
            self.place_obj(kind(self._rand_color()))
        for _ in range(2):
            self.place_obj(Lava())
        self.place_agent()
        self.mission = "get to the green goal square"


def make_door_key(render_mode: str | None = None, **_: Any) -> Any:
    environment = gymnasium.make("MiniGrid-DoorKey-5x5-v0", render_mode=render_mode)
    return ImgObsWrapper(RGBImgPartialObsWrapper(environment, TILE))


def make_lava_room(render_mode: str | None = None, **_: Any) -> Any:
    return ImgObsWrapper(RGBImgPartialObsWrapper(LavaRoom(render_mode), TILE))


gymnasium.register("DoorKeyPixels-v0", make_door_key)
gymnasium.register("LavaRoomPixels-v0", make_lava_room)


def trained(folder: Path, name: str) -> Path:
    """Return the path of an agent's checkpoint in a folder, after training the agent if this is not finished."""
    environment, timesteps = AGENTS[name]
    rl_clarity.train(folder / name, env_name=environment, timesteps_per_proc=timesteps, **SETTINGS)
    return folder / name / "checkpoint.jd"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--name", choices=AGENTS, action="append")
    arguments = parser.parse_args()
    for name in arguments.name or AGENTS:
        checkpoint = trained(arguments.folder, name)
        effects = rl_clarity.object_effects(checkpoint, episodes=32, steps=8)
        print(f"{name}: {checkpoint.stat().st_size / 1000:.0f} kB")
        for row in effects.by_type():
            print(f"  {row.type}: {row.count}, value {row.value_change[0]:+.3f}, policy {row.policy_change[0]:.3f}")


if __name__ == "__main__":
    main()
