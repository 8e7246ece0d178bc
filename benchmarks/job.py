"""Run a small job in a separate process, to measure its memory: `python -m benchmarks.job SIZES FOLDER`.

SIZES is a JSON object with the fields of `Sizes`. The page is written to FOLDER; time, bytes and memory are printed as
JSON.
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
"""Kinds of the files and folders of a page; all others are records of finished work."""


@dataclass(frozen=True)
class Sizes:
    """Sizes of a job."""

    frames: int = 64
    """Number of frames in each of the two trajectories."""
    observations: int = 256
    model: str = "coinrun"
    """Name of an included agent."""
    layers: tuple[str, ...] = ("2b",)
    logits: int = 0
    """Number of actions of the agent, whose logits are explained in addition to the value; 0 to explain only the value.
    """
    attr_policy: bool = False
    """Explain all logits and groups of actions."""


def run_job(sizes: Sizes, folder: Path | None = None) -> dict[str, Any]:
    """Run a job in a new process, which writes a page. Return seconds by stage, bytes by kind, and peak memory."""
    with tempfile.TemporaryDirectory() as temporary:
        command = [sys.executable, "-m", "benchmarks.job", json.dumps(asdict(sizes)), str(folder or temporary)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def explain(sizes: Sizes, folder: Path) -> dict[str, Any]:
    """Explain an included agent on the samples that ship with it, repeated as often as necessary."""
    import rl_clarity

    agent = make_agent(sizes.logits, sizes.model)
    played, varied = make_samples(sizes, agent.num_actions)
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


def make_agent(logits: int, model: str = "coinrun") -> Any:
    """Return an included agent with only the first `logits` of its actions; 0 for all actions."""
    from rl_clarity import formats
    from rl_clarity.formats.included import path_of

    checkpoint = formats.read(path_of(model))
    if logits:
        head = ("ppo2_model/pi/w:0", "ppo2_model/pi/b:0")
        cut = {name: checkpoint.parameters[name][..., :logits] for name in head}
        parameters = {**checkpoint.parameters, **cut}
        checkpoint = dataclasses.replace(checkpoint, parameters=parameters, sha256=f"{checkpoint.sha256}:{logits}")
    return formats.build_agent(checkpoint)


def make_samples(sizes: Sizes, num_actions: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return the trajectories and observations that ship with the agent, cut or repeated to these sizes."""
    from rl_clarity.base.resources import models_directory
    from rl_clarity.commands.demo import SAMPLES

    with np.load(models_directory() / SAMPLES) as samples:
        played = {
            name: np.resize(samples[name], (2, sizes.frames, *samples[name].shape[2:]))
            for name in ("observations", "actions", "rewards", "firsts")
        }
        varied = np.resize(samples["varied"], (sizes.observations, *samples["varied"].shape[1:]))
    return {**played, "actions": played["actions"] % num_actions}, varied


if __name__ == "__main__":
    from rl_clarity.base.quiet import import_keras

    import_keras()
    options = json.loads(sys.argv[1])
    print(json.dumps(explain(Sizes(**{**options, "layers": tuple(options["layers"])}), Path(sys.argv[2]))))
