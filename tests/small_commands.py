"""The smallest jobs of each command that writes a directory: they take less than a second each.

Each writes `output` below a folder, and reads only what `prepare` wrote there.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import rl_clarity
from rl_clarity.explaining.files import EXPLAINED
from rl_clarity.pages.builder import RECORDINGS
from rl_clarity.viewer.publishing import publish
from tests.debugging.field import Player, field_spec, scattered
from tests.explaining.recordings import explain, record
from tests.pipeline.small import read_files
from tests.tiny_series import register, write_checkpoint, write_series

PLAY: dict[str, Any] = {
    "trajectories_kwargs": {"num_envs": 1, "num_steps": 8},
    "observations_kwargs": {"num_envs": 2, "num_obs": 4, "obs_every": 1},
}
FEATURES = {"nmf_features": 2, **PLAY}
MEMORY: dict[str, Any] = {
    **{"method": "pca", "count": 2, "clusters": 3, "lags": (1,), "maps": ("pca",)},
    **{"replay_steps": 2, "replay_samples": 4, "episodes": 3, "intervention_episodes": 0},
    "matrix": {"episodes": 2, "partners": 1, "exchanges": 2},
}
LOGDIR = "logdir/plugins/rl_clarity/training"


def prepare(folder: Path) -> Path:
    """Write what the commands read, and return the folder."""
    register()
    folder.mkdir(parents=True, exist_ok=True)
    write_checkpoint(folder / "agent.pt", 1, patch=4)
    write_checkpoint(folder / "recurrent.pt", 1, kind="recurrent")
    write_series(folder / "series", 2, patch=4)
    return folder


def prepare_recording(folder: Path) -> Path:
    """The same with a recording of two episodes."""
    record(prepare(folder) / LOGDIR, (6, 4))
    return folder


def run(folder: Path, **options: Any) -> None:
    layers = {"name_contains_one_of": ["2a"]}
    rl_clarity.run(folder / "agent.pt", folder / "output", layer_kwargs=layers, **FEATURES, **options)


def ablate(folder: Path, **options: Any) -> None:
    few = {"layer": "2a", "episodes": 2, "causal_max_steps": 6, **FEATURES}
    rl_clarity.ablate(folder / "agent.pt", folder / "output", **few, **options)


def check(folder: Path, **options: Any) -> None:
    few: dict[str, Any] = {"frames": 4, "methods": ["perturbation"], "trajectories_kwargs": PLAY["trajectories_kwargs"]}
    rl_clarity.check(folder / "agent.pt", folder / "output", **few, **options)


def compare(folder: Path, **options: Any) -> None:
    few: dict[str, Any] = {"episodes": 1, "max_steps": 10, "return_episodes": 1}
    rl_clarity.compare(folder / "series", folder / "output", **few, **options)


def memory(folder: Path, **options: Any) -> None:
    rl_clarity.explain_memory(folder / "recurrent.pt", folder / "output", **MEMORY, **options)


def debug(folder: Path, **options: Any) -> None:
    few: dict[str, Any] = {
        "trajectories": {"num_envs": 2, "num_steps": 20},
        "failures": {"count": 3, "window": 3, "sequences": 4, "horizon": 3, "continuations": 2, "points": 1},
        "goals": {"states": 4},
    }
    world = field_spec(scattered("coin", *["mine"] * 20))
    rl_clarity.debug(Player(), folder / "output", environment=world, **few, **options)


def publish_episodes(folder: Path, **options: Any) -> None:
    publish(folder / "logdir", folder / "output", ["0"], **options)


def explain_episodes(folder: Path) -> None:
    explain(folder / LOGDIR, embeddings=["pca"])


PAGES: dict[str, Callable[..., None]] = {
    **{"run": run, "ablate": ablate, "check": check, "compare": compare, "memory": memory, "debug": debug},
    "publish": publish_episodes,
}
"""Commands that write a page."""


COMMANDS = {**PAGES, "explain": explain_episodes}


def written(folder: Path) -> dict[str, bytes]:
    """All files that a command wrote, except what contains times: recordings and the run log, also unfinished."""
    place = folder / "output" if (folder / "output").exists() else folder / LOGDIR / EXPLAINED
    timed = (RECORDINGS, ".run-log.json.")
    return {name: data for name, data in read_files(place).items() if not name.startswith(timed)}
