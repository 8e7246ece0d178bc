"""Record episodes while a model of Stable-Baselines3 or sb3-contrib learns.

    python examples/record_sb3.py                            # a minute: PPO learns the game
    python examples/record_sb3.py --algorithm RecurrentPPO   # sb3-contrib
    python examples/record_sb3.py --size tiny                # a few updates, as a test

The callback is all that is added to training. The environment is `Catch` of own_environment.py.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from own_environment import Catch

import rl_clarity

SIZES = {"tiny": 2048, "small": 40_000}


def main(output_dir: Path, algorithm: str, size: str) -> None:
    import stable_baselines3
    import torch
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
    from torch import nn

    from rl_clarity.integrations import sb3

    class Small(BaseFeaturesExtractor):  # NatureCNN is for images of 84 x 84
        def __init__(self, space: Any, features_dim: int = 64) -> None:
            super().__init__(space, features_dim)
            convolutions = nn.Conv2d(3, 16, 4, stride=4), nn.ReLU(), nn.Conv2d(16, 16, 3), nn.ReLU()
            self.layers = nn.Sequential(*convolutions, nn.Flatten(), nn.Linear(16 * 6 * 6, features_dim), nn.ReLU())

        def forward(self, observations: torch.Tensor) -> Any:
            return self.layers(observations)

    options: dict[str, Any] = {"n_steps": 256, "batch_size": 256, "learning_rate": 1e-3}
    kwargs: dict[str, Any] = {"features_extractor_class": Small}
    if algorithm == "RecurrentPPO":
        import sb3_contrib

        create, policy = sb3_contrib.RecurrentPPO, "CnnLstmPolicy"
        kwargs["lstm_hidden_size"] = 32
    else:
        create, policy = stable_baselines3.PPO, "CnnPolicy"
    model = create(policy, make_vec_env(Catch, n_envs=4, seed=0), policy_kwargs=kwargs, seed=0, **options)
    model.learn(SIZES[size], callback=sb3.RecorderCallback(output_dir, every=20))

    recording = rl_clarity.open_recording(output_dir)
    print(f"{len(recording)} episodes are recorded in {recording.location}")
    rows = recording.table()
    for part in (rows[:20], rows[-20:]):
        mean = sum(row["return"] for row in part) / len(part)
        print(f"episodes {part[0]['number']} to {part[-1]['number']}: mean return {mean:.2f}")
    print(f"To see them: tensorboard --logdir {output_dir} (or rl-clarity serve {output_dir})")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output-dir", type=Path, default=Path("runs/catch-sb3"), help="a log directory")
    parser.add_argument("--algorithm", choices=("PPO", "RecurrentPPO"), default="PPO")
    parser.add_argument("--size", choices=SIZES, default="small")
    arguments = parser.parse_args()
    main(arguments.output_dir, arguments.algorithm, arguments.size)
