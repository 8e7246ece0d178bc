"""The section `features`, which describes the features of each layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rl_clarity.analyses.receptive_fields import ReceptiveField
from rl_clarity.pages.files import ChunkName, ExtraImageName, ImageName
from rl_clarity.pages.sections import SectionData
from rl_clarity.reduction.matching import MatchedFeature


@dataclass(frozen=True)
class ReductionErrors:
    """Errors of a channel reduction."""

    error: float
    """Relative reconstruction error on observations that the reduction was fitted to."""
    fitted_on: int
    """Number of these observations."""
    error_held_out: float | None
    """Error on held-out observations; null if there are none."""


@dataclass(frozen=True)
class FeatureStatistics:
    """Statistics of a feature. It is *on* where its activation exceeds a fifth of its strongest activation."""

    strongest: float
    """The strongest activation on the extra observations."""
    frames: float
    """Share of these observations in which the feature is on."""
    positions: float
    """Share of the layer's positions, over all these observations, at which the feature is on."""
    error: float | None
    """Relative reconstruction error of attribution at the positions where the feature is the strongest, on held-out
    observations if there are any; null if the feature is never the strongest."""
    stability: float
    """Mean cosine similarity of the component to its counterparts in two fits with different seeds and random
    starts."""
    twins: Sequence[int]
    """Features, counted from 0, that overlap with this one by at least half, in both directions."""


@dataclass(frozen=True)
class CoveredAttribution:
    """The share of attribution that a layer's features cover."""

    next_feature: float
    """Increase in the share with one more feature, for the first output, on held-out observations if there are any."""
    coverage: Mapping[str, float | None] | None = None
    """By output, the features' share of the magnitudes of features and residual, over all positions and steps."""


@dataclass(frozen=True)
class LayerFeaturesEntry:
    """The features of a layer. Fields that are not computed yet, or were not requested, are absent."""

    thumbnails: Sequence[ImageName]
    """A thumbnail for each of the K features."""
    chunk: ChunkName | None = None
    """Chunk of the dataset examples."""
    names: Sequence[str | None] | None = None
    """Names of features (K) from the option `features.names`, or from the page of `features.match`."""
    ids: Sequence[str] | None = None
    """Id of each feature (K), a hash of the layer and the component's rounded direction: the same on all pages of the
    agent."""
    matched: Sequence[MatchedFeature | None] | None = None
    """For each feature (K), its counterpart on the page of `features.match`, or null. Absent without such a page."""
    reduction: ReductionErrors | None = None
    statistics: Sequence[FeatureStatistics] | None = None
    """Statistics of each feature (K)."""
    signs: Mapping[str, Sequence[tuple[float, float]]] | None = None
    """By output, how often each feature (K) raises and lowers the output: the shares of the steps at which its net
    attribution is positive and negative, and larger in magnitude than a fifth of the median magnitude."""
    receptive_field: ReceptiveField | None = None
    """Receptive field of a position of the layer."""
    facts: CoveredAttribution | None = None
    images: Mapping[str, Sequence[ExtraImageName]] | None = None
    """Images of dataset examples by `DENSITY x WIDTH`, one for each feature (K)."""
    optimized: Sequence[ImageName] | None = None
    """For each feature (K), an image that maximizes its activation."""


@dataclass(frozen=True)
class AtlasEntry:
    """The atlas of extra observations: cell i (row-major) of its images shows observation `indices[i]`."""

    count: int
    images: Sequence[ImageName]
    columns: int
    per_image: int
    """Number of cells per image."""
    height: int
    width: int
    indices: Sequence[int]
    origins: Sequence[tuple[int, int] | None]
    """Trajectory and step of each observation; null if it is not from a trajectory."""
    episodes: Sequence[int] | None = None
    """Number of the episode that each observation is from."""


@dataclass(frozen=True)
class FeaturesSection(SectionData):
    """The features of each layer."""

    kind = "features"
    title = "Features"
    layers: Mapping[str, LayerFeaturesEntry]
    """Every layer except the input, by its `slug` in the section `attribution`."""
    observations: AtlasEntry | None = None
    """The atlas; absent until it is computed."""
