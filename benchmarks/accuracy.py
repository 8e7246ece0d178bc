"""What the cheaper defaults cost in accuracy: rules of integration, and what a reduction is fitted to.

python -m benchmarks.accuracy [MODEL ...]     a shipped agent's name; "coinrun" if none is given
"""

from __future__ import annotations

import sys
from contextlib import closing
from typing import Any

import numpy as np

import rl_clarity
from rl_clarity import checkpoints
from rl_clarity.agents.protocol import Agent
from rl_clarity.analyses.attribution import attribute
from rl_clarity.environments import make, spec_from_metadata
from rl_clarity.models import path_of
from rl_clarity.options import InterfaceOptions, ObservationsOptions
from rl_clarity.recordings.rollouts import collect_observations
from rl_clarity.recordings.samples import Observations
from rl_clarity.reduction import ChannelReduction
from rl_clarity.reduction.nmf import FIT_ROWS

FEW = 32
"""Observations whose attribution is integrated by every rule."""
TRUE = ("midpoint", 96)
RULES = (
    ("graded-midpoint", 5),
    ("gauss-legendre", 5),
    ("midpoint", 5),
    ("graded-midpoint", 10),
    ("gauss-legendre", 10),
    ("riemann", 10),
)
FITTED = 512
"""Observations that a reduction is fitted to, of four times as many; the defaults are 1,024 of 4,096."""
HELD_OUT = 256


def main(names: list[str]) -> None:
    for name in names or ["coinrun"]:
        checkpoint = checkpoints.read(path_of(name))
        agent = checkpoints.build_agent(checkpoint)
        spec = spec_from_metadata(checkpoint.metadata, num_actions=agent.num_actions)
        options = ObservationsOptions()
        count = (4 * FITTED + HELD_OUT) // options.num_envs
        with closing(make(spec, options.num_envs, 0)) as environment:
            seen = collect_observations(agent, environment, count, options.obs_every, np.random.default_rng(0))
        print(f"{name}: attribution of the value, {FEW} observations; against {TRUE[1]} points ({TRUE[0]})")
        print(f"{'layer':8}{'rule':>22}  {'error':>7}  {'gap':>7}   relative, medians")
        for layer in rl_clarity.select_layers(agent):
            integration(agent, layer, seen)
        print(f"\n{name}: error of the reduction on {HELD_OUT} other observations")
        print(f"{'layer':8}{'fitted to':>44}  {'error':>7}")
        for layer in rl_clarity.select_layers(agent):
            reductions(agent, layer, seen)
        print()


def integration(agent: Agent, layer: str, seen: Observations) -> None:
    """Print how far each rule is from the true attribution, and from adding up to the score."""
    chosen = np.linspace(0, len(seen.observations) - 1, FEW).astype(int)
    true = _attribution(agent, layer, seen, chosen, *TRUE).values[0]
    length = np.sqrt(np.square(true).sum(axis=(1, 2, 3)))
    for rule, steps in RULES:
        found = _attribution(agent, layer, seen, chosen, rule, steps)
        off = np.sqrt(np.square(found.values[0] - true).sum(axis=(1, 2, 3)))
        gap = np.abs(found.completeness_gap[0]) / np.abs(found.scores - found.scores_at_zero).mean()
        print(f"{layer:8}{rule:>18} {steps:3}  {np.median(off / length):7.1%}  {np.median(gap):7.1%}", flush=True)


def reductions(agent: Agent, layer: str, seen: Observations) -> None:
    """Print the error of reductions fitted to few and to many, on observations that none was fitted to."""
    options = InterfaceOptions()
    rule = (options.attr_quadrature, options.nmf_attr_opts.integrate_steps)
    many = _attribution(agent, layer, seen, np.arange(4 * FITTED), *rule).values[0]
    others = _attribution(agent, layer, seen, np.arange(4 * FITTED, 4 * FITTED + HELD_OUT), *rule).values[0]
    for count, rows in ((FITTED, FIT_ROWS), (4 * FITTED, FIT_ROWS), (4 * FITTED, 10 * FIT_ROWS)):
        reduction = ChannelReduction.fit(many[:: len(many) // count], options.nmf_features, max_rows=rows)
        what = f"{rows:,} positions of {count:,} observations"
        print(f"{layer:8}{what:>44}  {reduction.reconstruction_error(others):7.2%}", flush=True)


def _attribution(agent: Agent, layer: str, seen: Observations, chosen: np.ndarray, rule: str, steps: int) -> Any:
    state = None if seen.states is None else tuple(part[chosen] for part in seen.states)
    return attribute(agent, seen.observations[chosen], layer, steps=steps, quadrature=rule, state=state)


if __name__ == "__main__":
    main(sys.argv[1:])
