"""Explain the same frames for two agents, to see what one of them has learned and the other has not.

    python examples/compare_checkpoints.py BEFORE.jd AFTER.jd

The first agent plays, and both are explained on its observations. The two pages have the same trajectories, so that a
link to a frame of one (`?layer=2b&trajectory=1&frame=20`) shows the same frame on the other.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

import rl_clarity
from rl_clarity.recordings.storage import load_observations, load_trajectories

SIZES: dict[str, dict[str, Any]] = {
    "tiny": {
        "play": {"num_envs": 1, "num_steps": 16},
        "varied": {"num_envs": 8, "num_obs": 2, "obs_every": 4},
    },
    "small": {
        "play": {"num_envs": 2, "num_steps": 256},
        "varied": {"num_envs": 64, "num_obs": 8, "obs_every": 32},
    },
}


def main(first: str, second: str, output_dir: Path, size: str) -> None:
    samples = output_dir / "samples"
    paths = {"trajectories_path": samples / "trajectories", "observations_path": samples / "observations"}
    page = rl_clarity.run(
        first,
        output_dir / "first",
        load={**paths, "model_path": samples / "model", "metadata_path": samples / "metadata.json"},
        trajectories=SIZES[size]["play"],
        observations=SIZES[size]["varied"],
    )
    trajectories = load_trajectories(paths["trajectories_path"])
    observations = load_observations(paths["observations_path"]).observations  # without the first agent's states
    other = rl_clarity.run(second, output_dir / "second", trajectories=trajectories, observations=observations)
    compare(page.results(), other.results())
    print(f"open {page.path} and {other.path}")


def compare(first: Any, second: Any) -> None:
    """Print how much two agents agree about the frames of both pages."""
    count = len(first.section("trajectories")["trajectories"])

    def joined(results: Any, name: str) -> np.ndarray:
        return np.concatenate([results.series(t)[name] for t in range(count)])

    values = [joined(results, "values") for results in (first, second)]
    choices = [joined(results, "probabilities").argmax(axis=-1) for results in (first, second)]
    print(f"frames                     {len(values[0])}")
    print(f"mean value                 {values[0].mean():.3f}, {values[1].mean():.3f}")
    print(f"correlation of the values  {np.corrcoef(values[0], values[1])[0, 1]:.3f}")
    print(f"same most likely action    {np.mean(choices[0] == choices[1]):.0%}")
    for layer in first.layers:
        errors = [results.layer(layer)["features"]["reduction"]["error"] for results in (first, second)]
        print(f"layer {layer}: eight features omit {errors[0]:.0%}, {errors[1]:.0%} of the attribution")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("first", help="checkpoint of the agent that plays")
    parser.add_argument("second", help="checkpoint of the agent to compare it with")
    parser.add_argument("--output-dir", type=Path, default=Path("out/compare_checkpoints"))
    parser.add_argument("--size", choices=SIZES, default="small")
    arguments = parser.parse_args()
    main(arguments.first, arguments.second, arguments.output_dir, arguments.size)
