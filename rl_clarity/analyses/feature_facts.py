"""Facts about a layer's features, which are computed once, stored as arrays, and shown in the section of features."""

from __future__ import annotations

import io

import numpy as np

from rl_clarity.analyses.analysis import Subject
from rl_clarity.analyses.feature_fit import LayerFeatures, states_of
from rl_clarity.analyses.feature_section import FeatureStatistics
from rl_clarity.analyses.layers import PageLayer
from rl_clarity.analyses.receptive_fields import IMAGES, ReceptiveField, receptive_field
from rl_clarity.jobs.store import DIRECTORY
from rl_clarity.jobs.tasks import slices
from rl_clarity.pages.files import PageFiles
from rl_clarity.visualization.feature_facts import FeatureFacts, Selection

BATCH = 16
"""Number of frames in a batch. It is fixed, because the last bits of activations depend on it."""


def observation_episodes(subject: Subject) -> np.ndarray:
    """Return the episode number (M,) of each of the M extra observations.

    Each observation of unknown origin counts as a separate episode.
    """
    observations = subject.observations
    if observations.episodes is not None:
        return np.asarray(observations.episodes)
    numbers = np.arange(len(observations.observations)) + subject.trajectories.firsts.size
    places = observations.trajectory_frames
    if places is None:
        return numbers
    firsts = np.array(subject.trajectories.firsts, bool)
    firsts[:, 0] = True  # trajectories have different episodes
    episodes = np.cumsum(firsts).reshape(firsts.shape)
    return np.where(places[:, 0] >= 0, episodes[tuple(np.maximum(places, 0).T)], numbers)


def measure_receptive_field(subject: Subject, layer: PageLayer, batch: int) -> ReceptiveField:
    """Return the layer's receptive field, measured on a few of the extra observations, for the page's section."""
    observations = subject.observations.observations
    chosen = np.unique(np.linspace(0, len(observations) - 1, IMAGES).round().astype(int))
    state, seen = states_of(subject, chosen), np.asarray(observations[chosen])
    return receptive_field(subject.agent, layer.full_name, seen, state, batch=batch, seed=subject.options.seed)


def describe_features(facts: FeatureFacts, features: LayerFeatures) -> list[FeatureStatistics]:
    """Return the statistics of the fitted features for the page's section."""
    assert features.stability is not None
    assert features.errors is not None
    return [
        FeatureStatistics(
            strongest=float(facts.strongest[k]),
            frames=float(facts.frames[k]),
            positions=float(facts.positions[k]),
            error=None if np.isnan(features.errors[k]) else float(features.errors[k]),
            stability=float(features.stability[k]),
            twins=facts.twins[k],
        )
        for k in range(len(facts.strongest))
    ]


def facts_name(layer: PageLayer) -> str:
    return f"{DIRECTORY}/feature-facts-{layer.slug}.npz"


def write_facts(files: PageFiles, layer: PageLayer, facts: FeatureFacts) -> str:
    """Write the facts for later tasks, and return the file's name."""
    arrays = {name: value for name, value in vars(facts).items() if name != "examples"}
    for name, selection in facts.examples.items():
        arrays |= {f"examples.{name}": selection.places, f"strengths.{name}": selection.strengths}
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    files.directory.write(facts_name(layer), buffer.getvalue())
    return facts_name(layer)


def load_facts(files: PageFiles, layer: PageLayer) -> FeatureFacts:
    """Return the facts that `write_facts` wrote."""
    with np.load(io.BytesIO(files.directory.read(facts_name(layer)))) as arrays:
        names = [name.removeprefix("examples.") for name in arrays if name.startswith("examples.")]
        examples = {name: Selection(arrays[f"examples.{name}"], arrays[f"strengths.{name}"]) for name in names}
        values = {name: arrays[name] for name in arrays if "." not in name}
        return FeatureFacts(**values, examples=examples)


def activations_along(subject: Subject, layer: PageLayer, features: LayerFeatures, trajectory: int) -> np.ndarray:
    """Return the strongest activation of each feature at each step (T, K) of a trajectory."""
    observations = subject.trajectories.observations[trajectory]
    parts = []
    for part in slices(len(observations), BATCH):
        seen, state = np.asarray(observations[part]), subject.states(trajectory, part)
        strengths = features.strengths(subject.agent.activations(seen, layer.full_name, state))
        parts.append(strengths.max(axis=(1, 2)))
    return np.concatenate(parts)
