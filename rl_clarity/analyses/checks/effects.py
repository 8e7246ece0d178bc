"""Compare the maps of saliency methods, and controls, with the measured effects of objects."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np

from rl_clarity.agents.protocol import Agent
from rl_clarity.analyses.attribution.integrated_gradients import Attribution
from rl_clarity.analyses.attribution.perturbation import PerturbationGrid
from rl_clarity.analyses.attribution.saliency import SaliencyMethod, shared_values
from rl_clarity.analyses.checks.methods import all_randomized, layer_methods, randomized_layers
from rl_clarity.analyses.checks.report import EFFECT_OUTPUTS, RANDOM_WEIGHTS
from rl_clarity.analyses.objects.agreement import CONTROLS, Agreement, EffectSample
from rl_clarity.recordings.object_effects import ObjectEffects


@dataclass(frozen=True)
class EffectChecks:
    """Measured effects of objects on an agent's outputs, with which methods and controls are compared."""

    agent: Agent
    samples: Mapping[str, EffectSample]
    """By output: `value`, if the agent has one, and `greedy`, the logit or action value of the best action."""

    @classmethod
    def measured(cls, agent: Agent, effects: ObjectEffects) -> EffectChecks:
        """Return the checks for an agent and its measured effects."""
        before = None if effects.state is None else tuple(part[:1] for part in effects.state)
        has_value = agent.forward(effects.with_object[:1], before).values is not None
        outputs = tuple(EFFECT_OUTPUTS) if has_value else ("greedy",)
        return cls(agent, {output: EffectSample.for_output(agent, effects, output) for output in outputs})

    def method(self, method: SaliencyMethod, seed: int, agent: Agent | None = None) -> dict[str, Agreement]:
        """Return how well the maps of a method predict the effects, by output.

        If `agent` is not None, the maps are computed for this agent instead, as a control. It must have the same inputs
        and outputs. `seed` is the seed of the bootstrap.
        """
        return self.methods([method], seed, agent)[0]

    def methods(
        self, methods: Sequence[SaliencyMethod], seed: int, agent: Agent | None = None
    ) -> list[dict[str, Agreement]]:
        """Return, for each method, how well its maps predict the effects, by output.

        The methods must share their evaluations of the network; see `shared_values`.
        """
        first = next(iter(self.samples.values()))
        explained = self.agent if agent is None else agent
        values = shared_values(methods, explained, first.observations, list(self.samples), first.state)
        return [self._agreements(*pair, seed) for pair in zip(methods, values, strict=True)]

    def _agreements(self, method: SaliencyMethod, values: np.ndarray | Attribution, seed: int) -> dict[str, Agreement]:
        maps = values.values if isinstance(values, Attribution) else values
        if method.is_grid:
            height, width = next(iter(self.samples.values())).observations.shape[1:3]
            maps = PerturbationGrid.for_shape(height, width).upsample(maps)
        else:
            maps = maps.sum(axis=-1)
        return {
            output: sample.agreement(sample.predictions(own), seed)
            for (output, sample), own in zip(self.samples.items(), maps, strict=True)
        }

    def controls(self, seed: int) -> dict[str, dict[str, Agreement]]:
        """Return how well controls predict the effects, by the keys of `CONTROL_LABELS` and by output.

        For the control with random weights, integrated gradients of the first layer are computed for the agent with all
        its parameters randomized. This control is left out if the agent's parameters cannot be set.
        """
        blind = {output: sample.controls() for output, sample in self.samples.items()}
        found = {
            name: {output: self.samples[output].agreement(blind[output][name], seed) for output in self.samples}
            for name in CONTROLS
        }
        if randomized_layers(self.agent):
            with all_randomized(self.agent, seed) as randomized:
                first = next(iter(layer_methods(self.agent).values()))
                found[RANDOM_WEIGHTS] = self.method(first, seed, randomized)
        return found


def pack_effects(effects: ObjectEffects) -> bytes:
    """Return effects as the content of a compressed `.npz` file."""
    arrays = {one.name: getattr(effects, one.name) for one in fields(effects) if one.name != "state"}
    arrays |= {f"state.{number}": part for number, part in enumerate(effects.state or ())}
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()


def unpack_effects(content: bytes) -> ObjectEffects:
    """Return the effects that `pack_effects` packed."""
    with np.load(io.BytesIO(content)) as arrays:
        states = sorted((name for name in arrays if name.startswith("state.")), key=lambda name: int(name[6:]))
        state = tuple(arrays[name] for name in states) or None
        return ObjectEffects(**{name: arrays[name] for name in arrays if name not in states}, state=state)
