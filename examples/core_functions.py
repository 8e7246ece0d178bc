# ruff: noqa: E402  (imports are where a reader needs them)
"""What `rl_clarity.run` does, step by step: the source of core_functions.ipynb. It takes some minutes."""

import argparse

argparse.ArgumentParser(description=__doc__).parse_known_args()  # --help

# %% [markdown]
# # The core functions
#
# What `rl_clarity.run` does, step by step, for the CoinRun agent included in the package. The notebook needs
# Procgen (`pip install "rl-clarity[procgen,tensorflow]"`) and takes some minutes.
#
# It is generated from `examples/core_functions.py` by `scripts/make_notebook.py`.

# %%
import numpy as np
from PIL import Image

import rl_clarity

agent = rl_clarity.load_agent("models:coinrun")
for name, shape in agent.layers.items():
    print(name, shape)

# %% [markdown]
# ## Play
#
# The checkpoint names the environment. The trajectories are 64 steps of eight environments; more observations, some
# steps apart, are for finding features.

# %%
from rl_clarity.environments import make, spec_from_metadata
from rl_clarity.recordings.rollouts import collect_observations, collect_trajectories

spec = spec_from_metadata(agent.metadata)
trajectories = collect_trajectories(agent, make(spec, num_envs=8, seed=0), 64, np.random.default_rng(0))
varied = collect_observations(agent, make(spec, num_envs=64, seed=100), 4, 32, np.random.default_rng(1)).observations
print("trajectories", trajectories.observations.shape, "more observations", varied.shape)


# %%
def tiled(images: np.ndarray, zoom: int = 2) -> Image.Image:
    """A grid of images (rows, columns, H, W, 3) uint8."""
    rows, columns, height, width, depth = images.shape
    sheet = np.full((rows, columns, height + 2, width + 2, depth), 255, np.uint8)
    sheet[:, :, 1:-1, 1:-1] = images
    grid = sheet.transpose(0, 2, 1, 3, 4).reshape(rows * (height + 2), columns * (width + 2), depth)
    return Image.fromarray(grid).resize((grid.shape[1] * zoom, grid.shape[0] * zoom), Image.Resampling.NEAREST)


frames = trajectories.observations[:, 40]  # (8, 64, 64, 3): one frame of each trajectory
tiled(frames[None])

# %% [markdown]
# ## Policy and value
#
# `forward` takes observations as the environment returns them, uint8. The value is the discounted return that the agent
# expects.

# %%
outputs = agent.forward(frames)
logits, values = np.asarray(outputs.policy_logits), np.asarray(outputs.values)
odds = np.exp(logits - logits.max(axis=1, keepdims=True))
policy = odds / odds.sum(axis=1, keepdims=True)
for value, probabilities in zip(values, policy, strict=True):
    print(f"value {value:5.2f}, most likely action {probabilities.argmax():2d} at {probabilities.max():.0%}")

# %% [markdown]
# ## Attribution and completeness
#
# Integrated gradients attribute the value to the positions and channels of a layer. Their sum should be the difference
# between the value and its value at a baseline, the layer's activations at the blurred frame: s(a) - s(b). What is
# missing is the completeness error; it decreases with the number of steps, faster for a better quadrature rule. Here:
# the mean error relative to the mean of |s(a) - s(b)|.

# %%
from rl_clarity.analyses.attribution import attribute

layers = rl_clarity.select_layers(agent)
layer = layers[2]
print("layers", ", ".join(layers), "- from here on layer", layer)
print("steps  riemann  midpoint  gauss-legendre  graded-midpoint")
for steps in (1, 2, 5, 10, 20):
    errors = []
    for rule in ("riemann", "midpoint", "gauss-legendre", "graded-midpoint"):
        found = attribute(agent, frames, layer, steps=steps, quadrature=rule)
        errors.append(np.abs(found.completeness_error).mean() / np.abs(found.scores - found.scores_at_baseline).mean())
    print(f"{steps:5d}  {errors[0]:7.2%}  {errors[1]:8.2%}  {errors[2]:14.2%}  {errors[3]:15.2%}")

# %% [markdown]
# ## Fewer channels
#
# The layer has 32 channels, too many to look at. Non-negative matrix factorization of the attribution of many
# observations finds a few directions that carry most of it. More directions omit less.

# %%
many = rl_clarity.integrated_gradients(agent, varied, layer)
for features in (2, 4, 8, 16):
    reduction = rl_clarity.ChannelReduction.fit(many, features=features)
    print(f"{features:2d} features omit {reduction.reconstruction_error(many):.0%} of the attribution")
reduction = rl_clarity.ChannelReduction.fit(many, features=8)

# %% [markdown]
# `signed_transform` gives each feature in units of attribution, so that features and residual together still sum to the
# attribution.

# %%
attribution = rl_clarity.integrated_gradients(agent, frames, layer)
channels, residual = reduction.signed_transform(attribution)
print("attribution", attribution.shape, "channels", channels.shape, "residual", residual.shape)
difference = channels.sum(axis=-1) + residual[..., 0] - attribution.sum(axis=-1)
print("largest difference of the sums", f"{np.abs(difference).max():.1g}")

# %% [markdown]
# ## Images
#
# Hue is the feature, opacity the strength. First row: observations. Second: positive attribution, which raises the
# value. Third: negative attribution, which lowers it.

# %%
from rl_clarity.visualization.rendering import attribution_scale, over_observations

scale = attribution_scale(channels)
raised = rl_clarity.render_attribution(channels, direction="pos", scale=scale)
lowered = rl_clarity.render_attribution(channels, direction="neg", scale=scale)
tiled(np.stack([frames, over_observations(raised, frames), over_observations(lowered, frames)]))

# %% [markdown]
# One frame, one feature at a time: positive attribution (first row) and negative attribution (second row).

# %%
one = slice(0, 1)
rows = [
    [
        over_observations(
            rl_clarity.render_attribution(channels[one], direction=direction, channel=k, scale=scale), frames[one]
        )[0]
        for k in range(8)
    ]
    for direction in ("pos", "neg")
]
tiled(np.array(rows))

# %% [markdown]
# ## Dataset examples
#
# For each feature, patches of the observations that activate it most. A feature's name should fit many of its patches.

# %%
from rl_clarity.visualization.dataset_examples import thumbnail
from rl_clarity.visualization.patches import draw_thumbnail

strengths = reduction.transform(agent.activations(varied, layer))  # (256, 32, 32, 8)
height, width = strengths.shape[1:3]
examples = [draw_thumbnail(thumbnail(strengths[..., k]), varied, (height, width), expand_mult=4) for k in range(8)]
on_white = [image[..., :3] * image[..., 3:] + 1 - image[..., 3:] for image in examples]
tiled((255 * np.array([on_white])).astype(np.uint8), zoom=3)

# %% [markdown]
# ## Actions and groups of actions
#
# `output` is the index of an action, or several for their sum. The attribution of a sum is the sum of attributions.

# %%
to_the_right = [6, 7, 8]
together = rl_clarity.integrated_gradients(agent, frames, layer, output=to_the_right)
apart = sum(rl_clarity.integrated_gradients(agent, frames, layer, output=action) for action in to_the_right)
print("largest difference", f"{np.abs(together - apart).max():.1g}", "of", f"{np.abs(together).max():.2g}")

# %% [markdown]
# ## Multiple paths
#
# On a straight path, all features change together. `multi_path_attribution` averages over paths that change one half of
# the features before the other, which is fairer to features that can replace each other. Where both agree, the straight
# path is sufficient.

# %%
several = rl_clarity.multi_path_attribution(agent, frames[:4], layer, reduction, steps=5, max_paths=6)
totals = [reduction.signed_transform(found)[0].sum(axis=(1, 2)) for found in (attribution[:4], several)]  # (4, 8) each
print("correlation of the features' totals", f"{np.corrcoef(totals[0].ravel(), totals[1].ravel())[0, 1]:.3f}")

# %% [markdown]
# ## The page
#
# All of this for whole trajectories, on a page.

# %%
page = rl_clarity.generate(
    agent,
    {name: getattr(trajectories, name)[:2] for name in ("observations", "actions", "rewards", "firsts")},
    varied,
    "../out/core_functions",
    layers={"name_contains_one_of": [layer]},
    action_combos=make(spec, num_envs=1, seed=0).action_combos,
    overwrite=True,
)
completeness = page.results().totals(layer, 0)["value"].completeness
errors = completeness[:, 0] - completeness[:, 1]
print("frames", len(errors), "- mean completeness error", f"{np.abs(errors).mean():.3f}")

# %% [markdown]
# In a notebook, the value of `page` shows it in a frame; `page.open()` opens it in the browser:
#
# ![The page](../docs/images/page-light.png)
