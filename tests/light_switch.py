"""Agents of the light switch, trained by `examples/light_switch.py`: GRU of 16 units, 9,000 parameters."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from rl_clarity.base.resources import models_directory
from rl_clarity.commands.demo import LIGHT_SWITCH

Game = Literal["memory", "world"]
AGENTS = Path(__file__).parent / "light_switch_agents"


def checkpoint(game: Game) -> Path:
    """The agent that plays `memory` (right in 99 % of episodes) or `world` (100 %)."""
    return models_directory() / LIGHT_SWITCH if game == "memory" else AGENTS / f"{game}.safetensors"
