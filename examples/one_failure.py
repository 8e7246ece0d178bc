# ruff: noqa: E402  (imports are where a reader needs them)
"""One verdict of `rl_clarity.debug`, checked by hand: the source of one_failure.ipynb. It takes some minutes."""

import argparse

argparse.ArgumentParser(description=__doc__).parse_known_args()  # --help

# %% [markdown]
# # One failure, checked by hand
#
# `rl_clarity.debug` says why episodes failed. Here one of its verdicts is checked step by step, with Procgen and the
# network alone: the same episode, own random numbers, own removal of the object, own forward passes. The notebook needs
# `pip install "rl-clarity[procgen,tensorflow]"` and takes some minutes.
#
# It is generated from `examples/one_failure.py` by `scripts/make_notebook.py`.

# %%
import numpy as np
from PIL import Image

import rl_clarity
from rl_clarity.environments import spec_from_metadata

agent = rl_clarity.load_agent("models:coinrun-7.9")
spec = spec_from_metadata(agent.metadata)
played = {"num_envs": 8, "num_steps": 256}
result = rl_clarity.debug(agent, environment=spec, trajectories=played, failures={"count": 6}, goals={"states": 8})
for failure in result.failures:
    print(f"trajectory {failure['trajectory']}, from frame {failure['frame']}: {failure['verdict']}")
claim = next((one for one in result.failures if one["verdict"] == "no reaction"), result.failures[0])
print()
print(claim["statement"])

# %% [markdown]
# ## The end of the episode
#
# The same seed plays the same trajectories, whose states of the environment are saved. The last ten steps of
# the episode, from left to right:

# %%
from rl_clarity.debugging.sample import play_sample

trajectories = play_sample(agent, spec, **played)
assert trajectories.world_states is not None
assert trajectories.action_combos is not None
trajectory = claim["trajectory"]
begins = np.flatnonzero(trajectories.firsts[trajectory])  # steps at which an episode begins
last = int(begins[begins > claim["frame"]][0]) - 1
window = range(max(0, last - 17), last + 1)
observations = trajectories.observations[trajectory, window.start : window.stop]  # (18, 64, 64, 3) uint8
actions = trajectories.actions[trajectory, window.start : window.stop]
states = trajectories.world_states.read(trajectory, window)  # bytes, before each step


def strip(frames: np.ndarray, zoom: int = 2) -> Image.Image:
    """Frames (n, H, W, 3) side by side."""
    row = np.concatenate([np.pad(frame, ((0, 0), (0, 2), (0, 0)), constant_values=255) for frame in frames], axis=1)
    return Image.fromarray(row).resize((row.shape[1] * zoom, row.shape[0] * zoom), Image.Resampling.NEAREST)


print("actions", *("+".join(trajectories.action_combos[a]) or "no-op" for a in actions))
strip(observations[-10:])

# %% [markdown]
# ## The state of the game is saved completely
#
# Procgen continues from a saved state. Taking the recorded actions from the first state of the window must lead to the
# recorded frames and to the same end.

# %%
from procgen import ProcgenGym3Env


def take(state: bytes, sequence: np.ndarray) -> tuple[list[np.ndarray], bool | None]:
    """Take actions from a state: the frames before each step, and whether the episode ended with a reward.

    The second is None if the episode did not end.
    """
    game = ProcgenGym3Env(num=1, env_name=spec.name, num_levels=0, distribution_mode=spec.options["distribution_mode"])
    game.callmethod("set_state", [state])
    frames = []
    for action in sequence:
        frames.append(game.observe()[1]["rgb"][0])
        game.act(np.array([action]))
        reward, _, first = game.observe()
        if first[0]:
            return frames, bool(reward[0] > 0)
    return frames, None


frames, succeeded = take(states[0], actions)
print("frames are those that were recorded:", np.array_equal(frames, observations))
print("the episode ends with a reward:", succeeded)

# %% [markdown]
# ## What ended it
#
# The nearest object is removed from the last state, and the last action is taken again. If the episode goes on, the
# object ended it. The frames are drawn by the game, with and without the object.

# %%
from rl_clarity.environments.kinds import make_world

world = make_world(spec)
objects = sorted(world.objects(states[-1], terrain=False), key=lambda item: np.hypot(*item.offset))
for item in objects[:4]:
    _, end = take(world.without(states[-1], [item]), actions[-1:])
    print(
        f"without {item.type}, {np.hypot(*item.offset):.1f} cells away: the episode",
        "goes on" if end is None else "ends",
    )
    if end is None:
        killer = item
        break
strip(world.draw([states[-1], world.without(states[-1], [killer])]), zoom=4)

# %% [markdown]
# ## Until when could it be avoided?
#
# From each state, sequences of random actions, each held for one to six steps, are taken for 20 steps. These are other
# random numbers than those of `debug`, and four times as many sequences, so that the step can also be a later one.

# %%
rng = np.random.default_rng(123)


def random_sequence(steps: int = 20) -> np.ndarray:
    drawn = [np.full(rng.integers(1, 7), rng.integers(agent.num_actions)) for _ in range(steps)]
    return np.concatenate(drawn)[:steps]


def survives(state: bytes, sequence: np.ndarray) -> bool:
    return take(state, sequence)[1] is not False


for back in range(len(states)):
    tried = [random_sequence() for _ in range(256)]
    ways_out = [one for one in tried if survives(states[-1 - back], one)]
    print(f"{back:2d} steps before the last: {len(ways_out)} of {len(tried)} sequences survive")
    if ways_out:
        escape = ways_out[0]
        break
print(f"debug: avoidable until {claim['until']} steps before the last")

# %% [markdown]
# One of them. First row: what was played; second row: the way out, from the same state.

# %%
saved = take(states[-1 - back], escape)[0]
rest = [*observations[-1 - back :], *[np.full_like(observations[0], 255)] * 10]
Image.fromarray(np.concatenate([np.asarray(strip(np.array(row[:10]))) for row in (rest, saved)]))

# %% [markdown]
# ## Did the policy react?
#
# The object is removed from each state in which one of its type is in view (the one that is nearest to its last
# place), and the network is run on both frames. The effect is the total variation of the policy: half of the sum of the
# absolute changes of its probabilities.


# %%
def policy(frames: np.ndarray) -> np.ndarray:
    """Probabilities (n, actions)."""
    logits = np.asarray(agent.forward(frames).policy_logits, np.float64)
    odds = np.exp(logits - logits.max(axis=1, keepdims=True))
    return odds / odds.sum(axis=1, keepdims=True)


place = killer.center
for step, state in zip(window, states, strict=True):
    same = [item for item in world.objects(state, terrain=False) if item.type == killer.type and item.in_view]
    nearest = min(same, key=lambda item: np.hypot(*np.subtract(item.center, place)), default=None)
    if nearest is None:
        print(f"{last - step:2d} steps before the last: no {killer.type} in view")
        continue
    there, gone = policy(world.draw([state, world.without(state, [nearest])]))
    print(
        f"{last - step:2d} steps before the last: {np.hypot(*nearest.offset):.1f} cells away, "
        f"effect on the policy {np.abs(there - gone).sum() / 2:.4f}"
    )

# %% [markdown]
# ## The policy, continued
#
# From the last state from which a random sequence survives, the policy continues 64 times, with other random numbers
# for its actions.


# %%
def continue_policy(state: bytes, steps: int) -> bool:
    """Whether the policy survives."""
    game = ProcgenGym3Env(num=1, env_name=spec.name, num_levels=0, distribution_mode=spec.options["distribution_mode"])
    game.callmethod("set_state", [state])
    for _ in range(steps):
        probabilities = policy(game.observe()[1]["rgb"])[0]
        game.act(rng.choice(len(probabilities), size=1, p=probabilities))
        reward, _, first = game.observe()
        if first[0]:
            return bool(reward[0] > 0)
    return True


survived = sum(continue_policy(states[-1 - back], back + 20) for _ in range(64))
print(f"the policy survives in {survived} of 64 continuations")
print("debug:", claim["statement"])
world.close()
