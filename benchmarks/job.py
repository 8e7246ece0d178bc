"""One small job in a process of its own, so that its memory is only its own: `python -m benchmarks.job SIZES`.

SIZES is a JSON object of `Sizes`; prints what the job took as JSON.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Sizes:
    """How much is explained."""

    frames: int = 64
    """Of each of two trajectories."""
    observations: int = 256
    layers: tuple[str, ...] = ("2b",)
    attr_policy: bool = False


def measured(sizes: Sizes) -> dict[str, Any]:
    """Seconds, bytes and peak memory of a job, each by kind, as a fresh process reports them."""
    command = [sys.executable, "-m", "benchmarks.job", json.dumps(asdict(sizes))]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def work(sizes: Sizes) -> dict[str, Any]:
    """Do the job on the shipped agent and the samples beside it, repeated as far as need be."""
    import rl_clarity
    from rl_clarity.demo import MODEL, SAMPLES
    from rl_clarity.resources import models_directory

    with np.load(models_directory() / SAMPLES) as samples:
        played = {
            name: np.resize(samples[name], (2, sizes.frames, *samples[name].shape[2:]))
            for name in ("observations", "actions", "rewards", "firsts")
        }
        varied = np.resize(samples["varied"], (sizes.observations, *samples["varied"].shape[1:]))
    agent = rl_clarity.load_agent(f"models:{MODEL}")
    with tempfile.TemporaryDirectory() as folder:
        page = rl_clarity.generate(
            agent,
            played,
            varied,
            folder,
            attr_policy=sizes.attr_policy,
            layer_kwargs={"name_contains_one_of": list(sizes.layers)},
        )
        (log,) = json.loads((Path(folder) / "run-log.json").read_text())["runs"]
        outputs = len(page.results().outputs)
        written: Counter[str] = Counter()
        for path in Path(folder).rglob("*"):
            if path.is_file():
                written[path.relative_to(folder).parts[0]] += path.stat().st_size
    seconds: Counter[str] = Counter()
    for task in log["tasks"]:
        seconds[task["task"].partition("/")[0]] += task["seconds"]
    seconds["page"] = log["stages"]["page"]
    return {"seconds": seconds, "bytes": written, "peak_memory_mb": log["peak_memory_mb"], "outputs": outputs}


if __name__ == "__main__":
    from rl_clarity.quiet import import_keras

    import_keras()
    given = json.loads(sys.argv[1])
    print(json.dumps(work(Sizes(**{**given, "layers": tuple(given["layers"])}))))
