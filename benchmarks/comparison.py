"""Measure a page of ten checkpoints of baby-a3c's size, 1,000 steps each: seconds besides playing, size, and memory.

The checkpoints have random weights. They play Freeway, whose games always last longer than 1,000 steps; games of
Breakout would end after about 200 steps.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

CHECKPOINTS, STEPS = 10, 1000
GAME, ACTIONS = "FreewayNoFrameskip-v4", 3


def measure(checkpoints: int = CHECKPOINTS, steps: int = STEPS) -> dict[str, Any]:
    """Write the page in a separate process. Return its seconds and processor seconds, its peak memory, and the size of
    the page in megabytes.
    """
    from benchmarks.parts import SkippedError

    try:
        import ale_py  # noqa: F401
    except ImportError as error:
        raise SkippedError(f"checkpoints of baby-a3c play Atari games ({error})") from error
    with tempfile.TemporaryDirectory() as folder:
        series, page = Path(folder) / "series", Path(folder) / "page"
        write_series(series, checkpoints)
        code = "import sys; from rl_clarity.cli import main; sys.exit(main(sys.argv[1:]))"
        arguments = ["compare", str(series), str(page), "--max-steps", str(steps), "--return-episodes", "1"]
        subprocess.run(
            [sys.executable, "-c", code, *arguments, "--metadata", "env_name", GAME],
            check=True,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[1])},
        )
        run = json.loads((page / "run-log.json").read_text())["runs"][-1]
        steps = _steps(page)
        files = [path for path in page.rglob("*") if path.is_file() and ".rl-clarity" not in path.parts]
        size = sum(path.stat().st_size for path in files)
    stages: dict[str, float] = run["stages"]
    processor: dict[str, float] = run["processor"]
    return {
        "checkpoints": checkpoints,
        "steps": steps,
        "seconds": sum(seconds for name, seconds in stages.items() if name != "playing"),
        "playing": stages["playing"],
        "processor": sum(seconds for name, seconds in processor.items() if name != "playing"),
        "stages": processor,
        "megabytes": size / 1e6,
        "memory": max(run["peak_memory_mb"].values()),
    }


def lines(result: dict[str, Any]) -> list[str]:
    stages = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in result["stages"].items())
    return [
        f"{result['checkpoints']} checkpoints, {result['steps']} steps: {result['seconds']:.0f} s beside playing "
        f"({result['playing']:.0f} s), {result['megabytes']:.1f} MB, {result['memory']:.0f} MB of memory",
        f"processor time: {result['processor']:.0f} s beside playing (goal: at most 150 s on two idle cores); {stages}",
    ]


def write_series(folder: Path, count: int) -> None:
    """Write checkpoints of baby-a3c."""
    import torch

    folder.mkdir()
    for number in range(1, count + 1):
        tensors = {name: torch.from_numpy(array) for name, array in baby_a3c_parameters(number, ACTIONS).items()}
        torch.save(tensors, folder / f"model.{number}.tar")


def baby_a3c_parameters(seed: int = 0, actions: int = 4) -> dict[str, np.ndarray]:
    """Return parameters of baby-a3c at its published size, with random weights."""
    shapes: dict[str, tuple[int, ...]] = {f"conv{i}": (32, 1 if i == 1 else 32, 3, 3) for i in range(1, 5)}
    shapes |= {"actor_linear": (actions, 256), "critic_linear": (1, 256)}
    rng = np.random.default_rng(seed)
    arrays = {f"{name}.weight": rng.normal(size=shape, scale=0.05) for name, shape in shapes.items()}
    arrays |= {f"{name}.bias": np.zeros(shape[0]) for name, shape in shapes.items()}
    arrays |= {f"gru.weight_{kind}": rng.normal(size=(768, n), scale=0.05) for kind, n in (("ih", 800), ("hh", 256))}
    arrays |= {f"gru.bias_{kind}": np.zeros(768) for kind in ("ih", "hh")}
    return {name: array.astype(np.float32) for name, array in arrays.items()}


def _steps(page: Path) -> int:
    import rl_clarity

    agents = rl_clarity.open_results(page).each_agent()
    return sum(entry["steps"] for agent in agents for entry in agent.section("trajectories")["trajectories"])
