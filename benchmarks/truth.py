"""Measure how well explanations predict effects: attribution and saliency of included agents, and effects of objects.

`python -m benchmarks.truth` measures what is missing in `benchmarks/truth.json`, which takes hours on two cores and can
be stopped at any time; `--write` writes docs/truth.md from this file. Every agent plays two samples with different
levels and seeds: one to choose a layer and a baseline, and one to judge the choice.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import rl_clarity
from rl_clarity.agents.protocol import Agent
from rl_clarity.analyses.attribution.baselines import BASELINES, draw, rows
from rl_clarity.analyses.attribution.integrated_gradients import attribute
from rl_clarity.analyses.attribution.layers import choose_layers
from rl_clarity.analyses.attribution.multi_path import multi_path_attributions
from rl_clarity.analyses.attribution.perturbation import PerturbationGrid, perturbation_saliency
from rl_clarity.analyses.attribution.saliency import SaliencyOutput, linear_scores
from rl_clarity.analyses.checks.methods import all_randomized
from rl_clarity.analyses.chosen_baseline import CANDIDATES, agreement_sums, choose_baseline
from rl_clarity.analyses.objects.agreement import Agreement, EffectSample
from rl_clarity.analyses.saliency import METHODS
from rl_clarity.base.errors import ClarityError
from rl_clarity.recordings.object_effects import ObjectEffects, object_effects
from rl_clarity.reduction import ChannelReduction

RESULTS = Path(__file__).with_name("truth.json")
AGENTS = ("coinrun-7.9", "coinrun-early", "fruitbot", "coinrun-gru", "starpilot-lstm", "breakout-series/checkpoint-60")
"""Included agents; those whose environment cannot be edited are skipped."""
MINIGRID = "minigrid/"
"""Prefix of the names of the agents of `benchmarks.minigrid`."""
MINIGRID_AGENTS = (f"{MINIGRID}doorkey", f"{MINIGRID}lava")
SAMPLES = {"choice": 101, "judgment": 202}
"""Seed of the levels and actions of each sample."""
EPISODES, STEPS = 16, 8
OUTPUTS = ("value", "greedy")
POINTS = 6
"""Number of points on the path from a baseline (graded midpoints)."""
EXPECTED_POINTS = 8
"""Number of points, and of observations, for the baseline "expected"."""
EXPECTED_OBSERVATIONS = 8
"""Number of observations from each of which a complete path begins, in the group "tried"."""
PATHS = 8
"""Number of random paths in reduced channels, in the group "tried"."""
DIGITS = 4

Maps = Iterator[tuple[dict[str, Any], np.ndarray]]
"""Descriptions of maps (`method`, `layer`, `baseline`), with the maps (S, M, h, w) of the S `OUTPUTS` for M frames.
Maps are NaN for an output that the method does not explain."""


class Sample:
    """An agent with the measured effects of a sample of its play."""

    def __init__(self, agent: Agent, effects: ObjectEffects) -> None:
        self.agent = agent
        self.effects = {output: EffectSample.for_output(agent, effects, output) for output in OUTPUTS}
        first = self.effects["value"]
        self.observations, self.state = first.observations, first.state
        self.scores = linear_scores(agent, list(OUTPUTS), self.observations, self.state)
        self.layers = {"input": "input"} | {layer.name: layer.site.name for layer in choose_layers(agent)}

    def rows(self, what: Mapping[str, Any], maps: np.ndarray) -> Iterator[dict[str, Any]]:
        """Yield a row of the results for each output that the maps explain."""
        for output, values in zip(OUTPUTS, maps, strict=True):
            if not np.isnan(values).any():
                effects = self.effects[output]
                yield {**what, "output": output, **numbers(effects.agreement(effects.predictions(values)))}

    def controls(self) -> Iterator[dict[str, Any]]:
        for output, effects in self.effects.items():
            for name, predictions in effects.controls().items():
                yield {"method": name, "output": output, **numbers(effects.agreement(predictions))}


def numbers(agreement: Agreement) -> dict[str, Any]:
    """Return an agreement as rounded numbers. Those of each type of object have no intervals."""
    values = asdict(agreement)
    result = {name: values[name] for name in ("count", "large", "episodes")}
    result["threshold"] = _rounded(agreement.threshold)
    for name in ("correlation", "signs", "magnitudes"):
        result[name] = [_rounded(number) for number in values[name].values()]
    result["by_type"] = {
        kind: [one.count, one.large, _rounded(one.correlation.value), _rounded(one.signs.value)]
        for kind, one in agreement.by_type.items()
    }
    return result


def attributions(sample: Sample, baselines: Collection[str], layers: slice = slice(None)) -> Maps:
    """Yield integrated gradients of layers from each baseline. By default these are all layers, the input first."""
    for name, site in list(sample.layers.items())[layers]:
        for baseline in baselines:
            if (name, baseline) != ("input", "zero-layer"):  # which is the same as zero-input
                what = {"method": "integrated_gradients", "layer": name, "baseline": baseline}
                yield what, _attribution(sample, sample.agent, site, baseline)


def random_attributions(sample: Sample) -> Maps:
    """Yield integrated gradients of a network with random weights, a control."""
    with all_randomized(sample.agent, 0) as randomized:
        for name, site in sample.layers.items():
            what = {"method": "random_weights", "layer": name, "baseline": "zero-input"}
            yield what, _attribution(sample, randomized, site, "zero-input")


def _attribution(sample: Sample, agent: Agent, site: str, baseline: str) -> np.ndarray:
    """Return maps (S, M, h, w) of integrated gradients."""
    points, rule = (EXPECTED_POINTS, "midpoint") if baseline == "expected" else (POINTS, "graded-midpoint")
    options: dict[str, Any] = {"steps": points, "quadrature": rule, "state": sample.state, "baseline": baseline}
    return attribute(agent, sample.observations, site, sample.scores, **options).values.sum(axis=-1)


def tried(sample: Sample) -> Maps:
    """Yield more expensive attribution of the value to the finest layer: along several paths in reduced channels, and
    from each of several observations."""
    agent, (name, site) = sample.agent, list(sample.layers.items())[1]
    observations, state, score = sample.observations, sample.state, sample.scores[:1]
    options: dict[str, Any] = {"steps": POINTS, "state": state}
    start = agent.activations(observations[:0], site, rows(state, slice(0)))
    fitted = attribute(agent, observations, site, score, baseline="blur", **options).values[0]
    reduction = ChannelReduction.fit(fitted, min(8, start.shape[-1]), 0)
    parts = [slice(first, first + 16) for first in range(0, len(observations), 16)]
    values = [
        multi_path_attributions(
            agent, observations[part], site, reduction, score, steps=POINTS, max_paths=PATHS, state=rows(state, part)
        )[0].sum(axis=-1)
        for part in parts
    ]
    yield {"method": "multi_path", "layer": name, "baseline": "blur"}, _value_only(np.concatenate(values))
    chosen = draw(len(observations), EXPECTED_OBSERVATIONS, 0)
    starts = agent.activations(observations[chosen], site, rows(state, chosen))
    maps = [attribute(agent, observations, site, score, baseline=one, **options).values[0].sum(-1) for one in starts]
    what = {"method": "expected_8", "layer": name, "baseline": f"{EXPECTED_OBSERVATIONS} observations"}
    yield what, _value_only(np.mean(maps, axis=0))


def _value_only(maps: np.ndarray) -> np.ndarray:
    """Return maps (2, M, h, w) of `OUTPUTS` from maps (M, h, w) of the value; NaN for the other output."""
    return np.stack([maps, np.full_like(maps, np.nan)])


def automatic(sample: Sample) -> Iterator[dict[str, Any]]:
    """Yield the row of the baseline that a page would choose from this sample, with the intervals of the advantages of
    the candidates.
    """
    effects = sample.effects["value"]
    name, site = list(sample.layers.items())[1]
    predictions = {one: effects.predictions(_attribution(sample, sample.agent, site, one)[0]) for one in CANDIDATES}
    episode = effects.effects.episode
    sums = {
        one: agreement_sums(predicted, effects.change, episode, effects.threshold)
        for one, predicted in predictions.items()
    }
    choice = choose_baseline(sums)
    what = {"method": "auto", "layer": name, "baseline": choice.baseline, "output": "value"}
    advantages = {one.baseline: one.advantage for one in choice.candidates[1:]}
    yield {**what, "advantages": advantages, **numbers(effects.agreement(predictions[choice.baseline]))}


def gradients(sample: Sample) -> Maps:
    """Yield the saliency methods that are based on gradients with respect to the input."""
    for name in METHODS:
        method = METHODS.get(name)
        if not method.is_grid:
            values = method.values(sample.agent, sample.observations, OUTPUTS, sample.state)
            maps = values if isinstance(values, np.ndarray) else values.values
            yield {"method": name}, maps.sum(axis=-1)


def perturbations(sample: Sample) -> Maps:
    """Yield perturbation, with and without sign, and SARFA (Puri et al., Explain Your Move, 2020; arXiv 1912.12191).

    All are computed from the same changes of the outputs when positions of the observation are blurred.
    """
    agent, best = sample.agent, _logits(sample).argmax(axis=1)
    outputs: list[SaliencyOutput] = ["value", *range(agent.num_actions)]
    changes = perturbation_saliency(agent, sample.observations, outputs, state=sample.state, signed=True)
    grid = PerturbationGrid.for_shape(*sample.observations.shape[1:3])
    of_best = np.take_along_axis(changes[1:], best[None, :, None, None], axis=0)[0]
    signed = np.stack([changes[0], of_best])
    yield {"method": "signed_perturbation"}, grid.upsample(signed)
    yield {"method": "perturbation"}, grid.upsample(0.5 * signed**2)
    specific = grid.upsample(sarfa(_logits(sample), np.moveaxis(changes[1:], 0, -1)))
    yield {"method": "sarfa"}, np.stack([np.full_like(specific, np.nan), specific])


def _logits(sample: Sample) -> np.ndarray:
    outputs = sample.agent.forward(sample.observations, sample.state)
    logits = outputs.q_values if outputs.policy_logits is None else outputs.policy_logits
    assert logits is not None
    return logits


def sarfa(logits: np.ndarray, changes: np.ndarray) -> np.ndarray:
    """Return SARFA's saliency (M, gh, gw) of the best action, on a grid of gh x gw positions, from changes of the
    logits (M, gh, gw, A).

    It is the harmonic mean of the drop of the action's probability, and of 1 / (1 + the divergence between the
    distributions over the other actions).
    """
    logits = logits[:, None, None].astype(np.float64)
    perturbed = logits - changes
    best = np.broadcast_to(logits.argmax(axis=-1)[..., None], (*perturbed.shape[:-1], 1))
    before, after = np.broadcast_to(_softmax(logits), perturbed.shape), _softmax(perturbed)
    drop = np.take_along_axis(before - after, best, axis=-1)[..., 0]
    others = np.arange(logits.shape[-1]) != best
    rest_before, rest_after = (np.where(others, one, 0) for one in (before, after))
    rest_before, rest_after = (one / one.sum(axis=-1, keepdims=True) for one in (rest_before, rest_after))
    ratio = np.log(np.where(others, rest_after, 1) / np.where(others, rest_before, 1))
    same = 1 / (1 + (rest_after * ratio).sum(axis=-1))
    return np.where(drop > 0, 2 * drop * same / np.maximum(drop + same, 1e-12), 0)


def _softmax(logits: np.ndarray) -> np.ndarray:
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


def peers(sample: Sample) -> Maps:
    """Yield Captum's methods, for the value only."""
    from benchmarks.truth_peers import captum_maps

    for what, maps in captum_maps(sample.agent, sample.observations, sample.state, sample.scores[:1]):
        yield what, np.concatenate([maps, np.full_like(maps, np.nan)])


def _table(maps: Callable[[Sample], Maps]) -> Callable[[Sample], Iterator[dict[str, Any]]]:
    """Return a function that yields the rows of the results for maps."""
    return lambda sample: (row for what, values in maps(sample) for row in sample.rows(what, values))


MAPS: Mapping[str, Callable[[Sample], Maps]] = {
    "attributions": partial(
        attributions, baselines=[name for name in BASELINES if name not in ("expected", "narrow-blur")]
    ),
    "narrow_blur": partial(attributions, baselines=["narrow-blur"], layers=slice(1, 2)),
    "expected": partial(attributions, baselines=["expected"]),
    "tried": tried,
    "gradients": gradients,
    "random_weights": random_attributions,
    "perturbations": perturbations,
    "captum": peers,
}
GROUPS: Mapping[str, Callable[[Sample], Iterator[dict[str, Any]]]] = {
    **{name: _table(maps) for name, maps in MAPS.items()},
    "auto": automatic,
}


def load(name: str, minigrid: Path) -> Agent:
    """Return an agent. Agents of MiniGrid are loaded from the folder `minigrid`, after training them if necessary."""
    if not name.startswith(MINIGRID):
        return rl_clarity.load_agent(f"models:{name}")
    from benchmarks.minigrid import trained

    return rl_clarity.load_agent(trained(minigrid, name.removeprefix(MINIGRID)))


def measure(
    groups: list[str], agents: list[str], samples: list[str], episodes: int, again: bool, minigrid: Path
) -> None:
    """Measure what is missing in the results, and save them after every group."""
    skipped: set[str] = set()
    for sample_name, agent_name in itertools.product(samples, agents):
        seed = SAMPLES[sample_name]
        entry = _saved().get(agent_name, {}).get(sample_name, {"groups": {}})
        missing = [name for name in groups if again or name not in entry["groups"]]
        if not missing or agent_name in skipped:
            continue
        agent = load(agent_name, minigrid)
        try:
            sample = Sample(agent, object_effects(agent, episodes=episodes, steps=STEPS, seed=seed))
        except ClarityError as error:
            print(f"{agent_name}: skipped ({error})", flush=True)
            skipped.add(agent_name)
            continue
        entry |= {"episodes": episodes, "steps": len(sample.observations), "seed": seed}
        entry["groups"]["controls"] = list(sample.controls())
        for name in missing:
            start = time.perf_counter()
            entry["groups"][name] = list(GROUPS[name](sample))
            print(f"{agent_name} {sample_name} {name}: {time.perf_counter() - start:.0f} s", flush=True)
            _save(agent_name, sample_name, entry)


def _saved() -> dict[str, Any]:
    return json.loads(RESULTS.read_text()) if RESULTS.exists() else {}


def _save(agent: str, sample: str, entry: Mapping[str, Any]) -> None:
    results = _saved()
    results.setdefault(agent, {})[sample] = entry
    RESULTS.write_text(
        json.dumps(results, separators=(",", ":"), sort_keys=True).replace('{"by_type"', '\n{"by_type"') + "\n"
    )


def _rounded(number: float) -> float | None:
    return None if np.isnan(number) else round(float(number), DIGITS)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.truth", description=__doc__)
    parser.add_argument("--agents", nargs="+", default=[*AGENTS, *MINIGRID_AGENTS], metavar="AGENT", help="only these")
    parser.add_argument("--minigrid", type=Path, default=Path("out/minigrid"), help="folder of MiniGrid's agents")
    parser.add_argument("--groups", nargs="+", choices=GROUPS, default=list(GROUPS), help="only these methods")
    parser.add_argument("--samples", nargs="+", choices=SAMPLES, default=list(SAMPLES), help="only these samples")
    parser.add_argument("--episodes", type=int, default=EPISODES, help="episodes of each sample")
    parser.add_argument("--again", action="store_true", help="measure again what was measured")
    parser.add_argument("--write", action="store_true", help="write docs/truth.md from what was measured")
    options = parser.parse_args(arguments)
    measure(options.groups, options.agents, options.samples, options.episodes, options.again, options.minigrid)
    if options.write:
        from benchmarks.truth_page import write

        write(_saved())


if __name__ == "__main__":
    main()
