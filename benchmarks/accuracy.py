"""Measure the accuracy of the faster defaults: quadrature rules, linear prefixes, and amounts of data for a reduction.

Attribution is relative to the default baseline, the activations at the blurred observation. It is the default because
it agrees best with the effects of removing objects, at the finest layer and over all layers: docs/migration.md.

python -m benchmarks.accuracy [MODEL ...]     names of shipped agents; default: coinrun
"""

from __future__ import annotations

import sys
from contextlib import closing
from typing import Any

import numpy as np

import rl_clarity
from rl_clarity import formats
from rl_clarity.agents.protocol import Agent
from rl_clarity.analyses.attribution import attribute
from rl_clarity.environments import make, spec_from_metadata
from rl_clarity.formats.included import path_of
from rl_clarity.pages.options import InterfaceOptions, ObservationsOptions
from rl_clarity.recordings.rollouts import collect_observations
from rl_clarity.recordings.samples import Observations
from rl_clarity.reduction import ChannelReduction
from rl_clarity.reduction.nmf import FIT_ROWS

INTEGRATED = 32
"""Number of observations whose attribution is integrated by every rule."""
REFERENCE = ("midpoint", 96)
RULES = (
    ("graded-midpoint", 5, True),
    ("graded-midpoint", 5, False),
    ("gauss-legendre", 5, False),
    ("midpoint", 5, False),
    ("graded-midpoint", 10, False),
    ("gauss-legendre", 10, False),
    ("riemann", 10, False),
)
"""Quadrature rule, number of points, and whether the linear prefix is computed only once."""
FITTED = 512
"""Number of observations that a reduction is fitted to, a quarter of all; the defaults are 1,024 of 4,096."""
HELD_OUT = 256


def main(names: list[str]) -> None:
    for name in names or ["coinrun"]:
        checkpoint = formats.read(path_of(name))
        agent = formats.build_agent(checkpoint)
        spec = spec_from_metadata(checkpoint.metadata, num_actions=agent.num_actions)
        options = ObservationsOptions()
        count = (4 * FITTED + HELD_OUT) // options.num_envs
        with closing(make(spec, options.num_envs, 0)) as environment:
            samples = collect_observations(agent, environment, count, options.obs_every, np.random.default_rng(0))
        print(f"{name}: value, {INTEGRATED} observations; reference: {REFERENCE[1]} points ({REFERENCE[0]})")
        print(f"{'layer':8}{'rule':>22}  {'prefix':>10}  {'error':>7}  {'gap':>7}   relative, medians")
        for layer in rl_clarity.select_layers(agent):
            integration(agent, layer, samples)
        print(f"\n{name}: error of the reduction on {HELD_OUT} other observations")
        print(f"{'layer':8}{'fitted to':>44}  {'error':>7}")
        for layer in rl_clarity.select_layers(agent):
            reductions(agent, layer, samples)
        print()


def integration(agent: Agent, layer: str, samples: Observations) -> None:
    """Print each rule's error and completeness gap."""
    chosen = np.linspace(0, len(samples.observations) - 1, INTEGRATED).astype(int)
    reference = _attribution(agent, layer, samples, chosen, *REFERENCE).values[0]
    length = np.sqrt(np.square(reference).sum(axis=(1, 2, 3)))
    for rule, steps, once in RULES:
        result = _attribution(agent, layer, samples, chosen, rule, steps, linear_prefix=once)
        error = np.sqrt(np.square(result.values[0] - reference).sum(axis=(1, 2, 3)))
        gap = np.abs(result.completeness_error[0]) / np.abs(result.scores - result.scores_at_baseline).mean()
        prefix = "once" if once else "each point"
        numbers = f"{np.median(error / length):7.1%}  {np.median(gap):7.1%}"
        print(f"{layer:8}{rule:>18} {steps:3}  {prefix:>10}  {numbers}", flush=True)


def reductions(agent: Agent, layer: str, samples: Observations) -> None:
    """Print the held-out error of reductions fitted to few and to many observations."""
    options = InterfaceOptions()
    rule = (options.attribution.quadrature, options.features.fit_steps)
    features = int(options.features.count)
    many = _attribution(agent, layer, samples, np.arange(4 * FITTED), *rule).values[0]
    others = _attribution(agent, layer, samples, np.arange(4 * FITTED, 4 * FITTED + HELD_OUT), *rule).values[0]
    for count, rows in ((FITTED, FIT_ROWS), (4 * FITTED, FIT_ROWS), (4 * FITTED, 10 * FIT_ROWS)):
        reduction = ChannelReduction.fit(many[:: len(many) // count], features, max_rows=rows)
        what = f"{rows:,} positions of {count:,} observations"
        print(f"{layer:8}{what:>44}  {reduction.reconstruction_error(others):7.2%}", flush=True)


def _attribution(
    agent: Agent,
    layer: str,
    samples: Observations,
    chosen: np.ndarray,
    rule: str,
    steps: int,
    *,
    linear_prefix: bool = False,
) -> Any:
    state = None if samples.states is None else tuple(part[chosen] for part in samples.states)
    frames = samples.observations[chosen]
    return attribute(agent, frames, layer, steps=steps, quadrature=rule, state=state, linear_prefix=linear_prefix)


if __name__ == "__main__":
    main(sys.argv[1:])
