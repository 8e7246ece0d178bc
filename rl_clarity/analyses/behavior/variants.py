"""Variants of play that are compared with unedited play: features are ablated, or objects of a type are invisible."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from rl_clarity.agents.edited_agent import edit
from rl_clarity.agents.editing import Ablate
from rl_clarity.agents.protocol import Agent
from rl_clarity.analyses.analysis import Subject
from rl_clarity.analyses.behavior.options import BehaviorOptions
from rl_clarity.analyses.feature_facts import load_facts
from rl_clarity.analyses.features import feature_layers, finished_layer, load_features
from rl_clarity.analyses.layers import PageLayer
from rl_clarity.jobs.tasks import Results
from rl_clarity.recordings.paired_play import Block


@dataclass(frozen=True)
class Variant:
    """Play with features of a layer ablated together, or with the objects of a type invisible."""

    layer: PageLayer | None = None
    chosen: tuple[int, ...] = ()
    """The feature, or the two features of a pair."""
    with_twins: bool = False
    """Whether the feature's twins are ablated, too."""
    invisible: str | None = None

    @property
    def name(self) -> str:
        """The first components of the names of the variant's tasks."""
        if self.layer is None:
            return f"invisible/{self.invisible}"
        numbers = "-and-".join(str(feature + 1) for feature in self.chosen)
        return f"{self.layer.name}/{numbers}{'-twins' if self.with_twins else ''}"

    def features(self, subject: Subject, results: Results) -> list[int] | None:
        """Return the ablated features, by index, or None if there is no such variant. The layer's features must be
        computed already.

        Twins, and twins of twins, form a group. Only the first feature of a group has a variant with twins. There is no
        variant for a pair that is a whole group, because it would be the same as the variant with twins.
        """
        if self.layer is None:
            return []
        count = finished_layer(self.layer, results).channels  # `features.count="auto"` may choose fewer features
        if max(self.chosen) >= count:
            return None
        if len(self.chosen) == 1 and not self.with_twins:
            return [*self.chosen]
        twins = load_facts(subject.files, self.layer).twins
        group, waiting = {self.chosen[0]}, [self.chosen[0]]
        while waiting:
            new = set(twins[waiting.pop()]) - group
            group |= new
            waiting += new
        if self.with_twins:
            return sorted(group) if len(group) > 1 and min(group) == self.chosen[0] else None
        return None if group == set(self.chosen) else [*self.chosen]

    def agent(self, subject: Subject, features: Sequence[int]) -> Agent:
        """Return the agent that plays, with the features ablated."""
        if self.layer is None:
            return subject.agent
        components = load_features(subject.files, self.layer).reduction.components[[*features]]
        return edit(subject.agent, Ablate(self.layer.full_name, component=components))

    def seen(self, block: Block) -> Block:
        """Return the block of episodes in which the agent does not see the invisible objects."""
        return block if self.invisible is None else dataclasses.replace(block, invisible=(self.invisible,))


def behavior_layers(subject: Subject) -> list[PageLayer]:
    """Return the layers whose features are ablated."""
    chosen = subject.options_of(BehaviorOptions).layers
    return [layer for layer in feature_layers(subject) if chosen is None or layer.name in chosen]


def variants(subject: Subject) -> list[Variant]:
    """Return all possible variants: features with and without their twins, pairs of features, and invisible types."""
    options, layers = subject.options_of(BehaviorOptions), behavior_layers(subject)
    features = [
        Variant(layer, (feature,), with_twins)
        for layer in layers
        for feature in range(layer.channels)
        for with_twins in (False, True)
    ]
    pairs = [Variant(layer, two) for layer in layers for two in itertools.combinations(range(layer.channels), 2)]
    return features + (pairs if options.pairs else []) + [Variant(invisible=name) for name in options.invisible]
