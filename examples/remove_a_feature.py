"""Find a feature, predict what happens without it, remove it, and count: the experiment of Understanding RL Vision.

    python examples/remove_a_feature.py

A feature whose attribution to the value is negative is bad news for the agent: a saw or an enemy ahead. An agent that
no longer sees it should run into that more often. The script chooses the feature with the most negative attribution,
lets agents with and without each feature play the same levels, counts how episodes end, and writes the agent without
the feature as a checkpoint. See https://distill.pub/2020/understanding-rl-vision/.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import rl_clarity

SIZES: dict[str, dict[str, Any]] = {
    "tiny": {
        "episodes": 2,
        "features": {"count": 2},
        "trajectories": {"num_envs": 1, "num_steps": 16},
        "observations": {"num_envs": 4, "num_obs": 2, "obs_every": 4},
    },
    "small": {
        "episodes": 48,
        "features": {"count": 4},
        "trajectories": {"num_envs": 2, "num_steps": 128},
        "observations": {"num_envs": 16, "num_obs": 16},
    },
}


def main(checkpoint: str, layer: str, output_dir: Path, size: str) -> None:
    report = rl_clarity.ablate(checkpoint, output_dir / "page", layer=layer, **SIZES[size])
    alone = [row for row in report.rows if not row["twins"]]  # not of features that were ablated together
    chosen = min(alone, key=lambda row: row["attribution"])
    number = chosen["feature"]
    print(
        f"Feature {number} of layer {layer} has the most negative attribution to the value: {chosen['attribution']:.3f}"
    )
    print("Prediction: without it the value rises, and more episodes fail")
    print(f"The value changes by {chosen['ablation']:+.3f} on average")
    print(f"\nThe same {report.episodes} levels with and without it:")
    for cause, share in chosen["causes"].items():
        print(f"  {cause:16} {share['unedited']:6.1%} -> {share['ablated']:6.1%}   p {share['adjusted_p']:.2g}")
    low, high = chosen["interval"]
    print(f"  return {chosen['return_difference']:+.2f} (95 % interval {low:+.2f} to {high:+.2f})")
    print("\nThe other features, for comparison:")
    for row in alone:
        if row is not chosen:
            low, high = row["interval"]
            print(f"  feature {row['feature']}: return {row['return_difference']:+.2f} ({low:+.2f} to {high:+.2f})")

    component = report.page.results().reduction(layer).components[number - 1]
    agent: Any = rl_clarity.load_agent(checkpoint)
    path = output_dir / f"without-feature-{number}.safetensors"
    rl_clarity.edit(agent, rl_clarity.Ablate(layer, component=component)).save(path, overwrite=True)
    print(f"\nThe agent without feature {number}: {path}")
    print(f"open {report.page.path}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkpoint", default="models:coinrun")
    parser.add_argument("--layer", default="2b")
    parser.add_argument("--output-dir", type=Path, default=Path("out/remove_a_feature"))
    parser.add_argument("--size", choices=SIZES, default="small")
    arguments = parser.parse_args()
    main(arguments.checkpoint, arguments.layer, arguments.output_dir, arguments.size)
