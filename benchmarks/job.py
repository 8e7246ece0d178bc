"""One small job in a process of its own, so that its memory is only its own: `python -m benchmarks.job SIZES FOLDER`.

SIZES is a JSON object of `Sizes`; the page is made in FOLDER, and what the job took is printed as JSON.
"""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

KINDS = {
    "attribution": "attribution",
    "attribution_totals": "attribution",
    "observations": "frames",
    "trajectories": "frames",
    "trajectories_scrub": "frames",
    "thumbnails": "features",
    "features_grids": "features",
    "interface.html": "page",
}
"""What the files and folders of a page belong to; all others are notes that a job keeps of its work."""


@dataclass(frozen=True)
class Sizes:
    """How much is explained."""

    frames: int = 64
    """Of each of two trajectories."""
    observations: int = 256
    layers: tuple[str, ...] = ("2b",)
    logits: int = 0
    """Of an agent that has only so many actions, each attributed beside the value; 0 is the value alone."""
    attr_policy: bool = False
    """Attribute all logits and groups of actions."""


def measured(sizes: Sizes, folder: Path | None = None) -> dict[str, Any]:
    """What a job takes in a fresh process: seconds and bytes by kind, and peak memory; the page goes to `folder`."""
    with tempfile.TemporaryDirectory() as temporary:
        command = [sys.executable, "-m", "benchmarks.job", json.dumps(asdict(sizes)), str(folder or temporary)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def work(sizes: Sizes, folder: Path) -> dict[str, Any]:
    """Do the job on the shipped agent and the samples beside it, repeated as far as need be."""
    import rl_clarity

    agent = agent_of(sizes.logits)
    played, varied = samples_of(sizes, agent.num_actions)
    page = rl_clarity.generate(
        agent,
        played,
        varied,
        folder,
        attr_policy=sizes.attr_policy or sizes.logits > 0,
        action_group_fns=() if sizes.logits else None,
        layer_kwargs={"name_contains_one_of": list(sizes.layers)},
    )
    (log,) = json.loads((folder / "run-log.json").read_text())["runs"]
    written: Counter[str] = Counter()
    for path in folder.rglob("*"):
        if path.is_file():
            written[KINDS.get(path.relative_to(folder).parts[0], "notes")] += path.stat().st_size
    seconds: Counter[str] = Counter()
    for task in log["tasks"]:
        seconds[task["task"].partition("/")[0]] += task["seconds"]
    seconds["page"] = log["stages"]["page"]
    peak = max(log["peak_memory_mb"].values())
    return {"seconds": seconds, "bytes": written, "peak_memory_mb": peak, "outputs": len(page.results().outputs)}


def agent_of(logits: int) -> Any:
    """The shipped agent, of whose actions only the first `logits` are left; all if 0."""
    from rl_clarity import checkpoints
    from rl_clarity.demo import MODEL
    from rl_clarity.models import path_of

    checkpoint = checkpoints.read(path_of(MODEL))
    if logits:
        head = ("ppo2_model/pi/w:0", "ppo2_model/pi/b:0")
        cut = {name: checkpoint.parameters[name][..., :logits] for name in head}
        parameters = {**checkpoint.parameters, **cut}
        checkpoint = dataclasses.replace(checkpoint, parameters=parameters, sha256=f"{checkpoint.sha256}:{logits}")
    return checkpoints.build_agent(checkpoint)


def samples_of(sizes: Sizes, num_actions: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Trajectories and observations that ship with the agent, as many as are asked for."""
    from rl_clarity.demo import SAMPLES
    from rl_clarity.resources import models_directory

    with np.load(models_directory() / SAMPLES) as samples:
        played = {
            name: np.resize(samples[name], (2, sizes.frames, *samples[name].shape[2:]))
            for name in ("observations", "actions", "rewards", "firsts")
        }
        varied = np.resize(samples["varied"], (sizes.observations, *samples["varied"].shape[1:]))
    return {**played, "actions": played["actions"] % num_actions}, varied


if __name__ == "__main__":
    from rl_clarity.quiet import import_keras

    import_keras()
    given = json.loads(sys.argv[1])
    print(json.dumps(work(Sizes(**{**given, "layers": tuple(given["layers"])}), Path(sys.argv[2]))))
