"""Options of `rl_clarity.explain_recording`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rl_clarity.analyses.saliency import METHODS
from rl_clarity.analyses.state_map import check_methods
from rl_clarity.base.parsing import check_minimum, check_option
from rl_clarity.pages.files import SEGMENT


@dataclass(frozen=True)
class ExplainOptions:
    """Options of `explain_recording`."""

    methods: tuple[str, ...] = ("perturbation",)
    """Methods of saliency maps: `perturbation`, `jacobian`, `smooth_gradients`, `input_integrated_gradients`."""
    every: int = 2
    """Explain every n-th step: 1 for all steps."""
    analyses: Mapping[str, Any] = field(default_factory=dict)
    """Further analyses of each episode, by name, with the options of each. Only analyses that work on a single episode
    are accepted."""
    embeddings: tuple[str, ...] = ("tsne", "pca")
    """Methods of the state map: `tsne`, `pca`, `umap`."""
    layer: str | None = None
    """Layer whose activations are mapped (means over positions); by default the recurrent state, or the last dense
    layer before the policy."""
    perplexity: float = 30
    """Perplexity of t-SNE: about the number of neighbors of a point."""
    seed: int = 0
    """Seed of the choice of steps that a map is fitted on."""
    refit: bool = False
    """Fit the maps again, to the episodes that exist now. By default new episodes are placed on the existing map, whose
    points stay where they are."""
    other_agent: bool = False
    """Deliberately explain with a different agent from the one that played. Without this option, an episode is skipped
    if the agent's outputs at its first step differ from the recorded ones."""
    watch: bool = False
    """Continue as new episodes appear, newest first and at low priority, until interrupted."""
    follow_links: bool = False
    """Also explain recordings to which links in the log directory point, if the links belong to the directory's
    owner."""

    def __post_init__(self) -> None:
        METHODS.check("methods", self.methods)
        check_methods("embeddings", self.embeddings)
        check_option(self, "every", 1 <= self.every <= SEGMENT, f"must be from 1 to {SEGMENT}")
        check_minimum(self, 1, "perplexity")
        check_minimum(self, 0, "seed")
