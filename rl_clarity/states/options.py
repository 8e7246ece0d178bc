"""Options of `analyze_states`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rl_clarity.base.parsing import check_minimum, check_option
from rl_clarity.base.registry import OptionRegistries
from rl_clarity.reduction.embedding import Method
from rl_clarity.reduction.methods import REDUCTIONS
from rl_clarity.states.clusters import METHODS as CLUSTERINGS


@dataclass(frozen=True)
class StateOptions:
    """How the states of a recurrent agent are analyzed."""

    method: str = "ica"
    """Method that fits directions: `pca`, `ica`, `nmf`, `nmf_positive`, `units`, or a method of an installed
    package."""
    count: int = 16
    """Number of directions."""
    outliers: float | None = None
    """Exclude states from the fit whose distance to the nearest other state exceeds this multiple of the median
    distance."""
    clustering: tuple[str, ...] = ("kmeans",)
    """Methods of clustering: `kmeans`, `gaussian_mixture`, `ward` and `hdbscan`. Correlation and influence are also
    shown for each cluster of the first method."""
    clusters: int = 8
    """Number of clusters, and of behaviors."""
    lags: tuple[int, ...] = (1, 2, 4, 8)
    """Numbers of steps between an earlier and a later coordinate, for correlation and influence."""
    maps: tuple[Method, ...] = ("pca", "tsne")
    """Methods of maps: `pca`, `tsne`, `umap`."""
    map_points: int = 10_000
    """Largest number of steps that a map shows."""
    influence_samples: int = 128
    """Number of steps over which influence is averaged; 0 to skip influence."""
    replay_steps: int = 16
    """Number of steps for which frames are replayed from a changed state; 0 to skip the replay."""
    replay_samples: int = 32
    """Number of states that are changed, from each of which frames are replayed."""
    replay_directions: bool = True
    """Also replay with each direction removed."""
    part: int | None = None
    """Index of the part of the state to analyze, such as 0 for its first array; by default all parts, concatenated."""
    seed: int = 0
    """Seed of all random choices."""

    registries: ClassVar[OptionRegistries] = {"method": REDUCTIONS}

    def __post_init__(self) -> None:
        check_minimum(self, 1, "count", "clusters", "map_points", "replay_samples")
        check_minimum(self, 0, "influence_samples", "replay_steps", "seed")
        check_option(self, "method", self.method in REDUCTIONS, f"must be one of {', '.join(REDUCTIONS)}")
        known = all(method in CLUSTERINGS for method in self.clustering) and bool(self.clustering)
        check_option(self, "clustering", known, f"must be one or more of {', '.join(CLUSTERINGS)}")
        check_option(self, "lags", bool(self.lags) and min(self.lags) >= 1, "must be numbers of steps, each at least 1")
