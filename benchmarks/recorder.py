"""Measure the cost of recording: Stable-Baselines3's PPO on Breakout with and without `RecorderCallback`, and a step of
`Recorder` in a loop without an environment.

Run it with `python -m benchmarks.recorder`. The variants alternate, and are compared by processor time.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from rl_clarity.recordings.recorder import Recorder

NUM_ENVS = 8
STEPS = 2 * 128 * NUM_ENVS
ROUNDS = 3
FAST_STEPS, FAST_LENGTH = 20_000, 200
GOALS = {"every episode (% of training)": 10.0, "every 50th episode (% of training)": 1.0}


def measure() -> dict[str, float]:
    """Return the processor time of training, and how much recording adds to it, in percent."""
    import ale_py  # noqa: F401  # registers the Atari games
    from stable_baselines3 import PPO
    from stable_baselines3.common.env_util import make_atari_env
    from stable_baselines3.common.vec_env import VecFrameStack

    from rl_clarity.integrations.sb3_callback import RecorderCallback

    venv = VecFrameStack(make_atari_env("BreakoutNoFrameskip-v4", n_envs=NUM_ENVS, seed=0), n_stack=4)
    model = PPO("CnnPolicy", venv, n_steps=128, batch_size=256, n_epochs=4, seed=0, device="cpu")
    variants: dict[str, Callable[[int], bool] | None] = {
        "without": None,
        "nothing": lambda episode: False,
        "everything": lambda episode: True,
    }
    seconds: dict[str, list[float]] = {name: [] for name in variants}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(ROUNDS + 1):
            for name, every in variants.items():
                directory = Path(folder) / f"{name}-{number}"
                callback = None if every is None else RecorderCallback(directory, every=every, on_error="raise")
                start = time.process_time()
                model.learn(STEPS, callback=callback)
                if number:  # the first round warms up
                    seconds[name].append(time.process_time() - start)
    venv.close()
    without, nothing, everything = (min(times) for times in seconds.values())
    return {
        "training (s of processor time, 1,000 steps)": without / STEPS * 1000,
        "every episode (% of training)": 100 * (everything / without - 1),
        "every 50th episode (% of training)": 100 * ((nothing + (everything - nothing) / 50) / without - 1),
        **measure_fast(),
    }


def measure_fast() -> dict[str, float]:
    """Return the microseconds that `Recorder.add` takes for a step of one environment, for vectors and for images.

    An environment such as CartPole takes about 10 microseconds for a step, without a policy.
    """
    result = {}
    for name, shape in {"vector of 4": (4,), "image of 84 x 84 x 4": (84, 84, 4)}.items():
        rng = np.random.default_rng(0)
        kind = np.float32 if len(shape) == 1 else np.uint8
        observations = rng.integers(0, 256, (64, *shape)).astype(kind)
        for every in (1, 50):
            with tempfile.TemporaryDirectory() as folder:
                start = time.process_time()
                with Recorder(folder, every=every, on_error="raise") as recorder:
                    for step in range(FAST_STEPS):
                        recorder.add(
                            observation=observations[step % 64],
                            action=step % 2,
                            reward=1.0,
                            terminated=step % FAST_LENGTH == FAST_LENGTH - 1,
                            logits=observations[step % 64].ravel()[:2],
                            value=0.0,
                        )
                taken = time.process_time() - start
            which = "every episode" if every == 1 else "every 50th episode"
            result[f"{name}, {which} (microseconds a step)"] = 1e6 * taken / FAST_STEPS
    return result


def lines(result: dict[str, float]) -> list[str]:
    """Return the result as a table."""
    goals = {name: f"   (goal: at most {goal:g})" for name, goal in GOALS.items()}
    return [f"{name:60} {value:8.2f}{goals.get(name, '')}" for name, value in result.items()]


if __name__ == "__main__":
    print("\n".join(lines(measure())))
