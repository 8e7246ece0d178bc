"""`SaliencyMethod`, and functions that saliency methods share, for their outputs and for the network's input."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from rl_clarity.agents.actions import Factor, greedy_columns
from rl_clarity.agents.capabilities import action_factors, require
from rl_clarity.agents.protocol import Agent, Outputs, Score, State
from rl_clarity.agents.scores import select_scores
from rl_clarity.agents.sites import INPUT
from rl_clarity.analyses.attribution.integrated_gradients import Attribution
from rl_clarity.base.errors import OptionError

SaliencyOutput: TypeAlias = Score
""""policy" (all logits, or all action values), "value", or any other score: an action's index, a tuple of indices (the
sum of their logits), "greedy", or weights by "value" or index."""
SaliencyOutputs: TypeAlias = SaliencyOutput | list[Any]
"""An output, or a list of outputs."""

POLICY, GREEDY = "policy", "greedy"


@dataclass(frozen=True)
class SaliencyMethod:
    """A saliency method, which pages show and `sanity_checks` tests."""

    label: str
    text: str
    """What the map shows, with a citation."""
    function: Callable[..., np.ndarray | Attribution]
    """Takes an agent, observations (B, H, W, C), a list of S outputs, `state=` and the parameters.

    Returns (S, B, H, W, C): pages show magnitudes, summed over the channels and over the pixels of a cell. A method
    that integrates along a path returns its `Attribution`, whose completeness error `sanity_checks` reports. With
    `is_grid`, the function returns (S, B, gh, gw) for the centers of a `PerturbationGrid`.
    """
    parameters: Mapping[str, Any] = field(default_factory=dict)
    passes: int = 1
    """Approximate number of network evaluations per map."""
    is_grid: bool = False
    signed: bool = False
    """Whether maps have negative values. This requires `is_grid`, and the map of the policy then explains the logit (or
    action value) of the best action."""
    signed_each: bool = False
    """Whether the function also takes `signed` as a list, with a bool for each output. Methods that differ only in
    `signed` then share their evaluations of the network."""

    def values(
        self, agent: Agent, observations: np.ndarray, outputs: Sequence[SaliencyOutput], state: State = None
    ) -> np.ndarray | Attribution:
        """Call `function` with the method's parameters, and return its result."""
        return self.function(agent, observations, self._scores(outputs), state=state, **self.parameters)

    def shares_passes(self, other: SaliencyMethod) -> bool:
        """Return whether `shared_values` evaluates the network once for both methods."""
        mine, theirs = ({**method.parameters, "signed": None} for method in (self, other))
        return self.signed_each and other.signed_each and self.function == other.function and mine == theirs

    def _scores(self, outputs: Sequence[SaliencyOutput]) -> list[SaliencyOutput]:
        return [GREEDY if self.signed and is_policy(output) else output for output in outputs]


def shared_values(
    methods: Sequence[SaliencyMethod],
    agent: Agent,
    observations: np.ndarray,
    outputs: Sequence[SaliencyOutput],
    state: State = None,
) -> list[np.ndarray | Attribution]:
    """Return the `values` of each method, for methods that share evaluations of the network or for a single method."""
    first, *others = methods
    if not others:
        return [first.values(agent, observations, outputs, state)]
    scores = [score for method in methods for score in method._scores(outputs)]
    signs = [method.signed for method in methods for _ in outputs]
    values = first.function(agent, observations, scores, state=state, **{**first.parameters, "signed": signs})
    return [*np.split(np.asarray(values), len(methods))]


def as_outputs(output: SaliencyOutputs) -> list[SaliencyOutput]:
    """Return one or several outputs as a list. Raises OptionError for an empty list."""
    outputs = output if isinstance(output, list) else [output]
    if not outputs:
        raise OptionError("output=[] is empty; at least one output is needed")
    return outputs


def unlisted(values: np.ndarray, output: SaliencyOutputs) -> np.ndarray:
    """Return values (S, B, ...) for a list of outputs, and (B, ...) for a single output."""
    return values if isinstance(output, list) else values[0]


def head_columns(outputs: Outputs) -> tuple[np.ndarray, dict[str, int]]:
    """Return the network's heads, concatenated to (B, n), and the number of columns of each head by its name."""
    if outputs.q_values is not None:
        return outputs.q_values, {"q_values": outputs.q_values.shape[1]}
    assert outputs.policy_logits is not None
    heads, columns = [outputs.policy_logits], {"policy_logits": outputs.policy_logits.shape[1]}
    if outputs.values is not None:
        heads.append(outputs.values[:, None])
        columns["values"] = 1
    return np.concatenate(heads, axis=1), columns


def network_input(agent: Agent, observations: np.ndarray, state: State = None) -> np.ndarray:
    """Return the values (B, H, W, C) of the site "input", observations / 255 in float32.

    Raises OptionError for an object that is not an agent with activations; SamplesError for observations of the wrong
    shape or range.
    """
    agent = require(agent, "activations", "forward", for_="saliency of the input")
    return agent.activations(observations, INPUT, state)


def results_at(agent: Agent, observations: np.ndarray, images: np.ndarray, state: State) -> np.ndarray:
    """Return the concatenated heads (B, n), with images (B, H, W, C) in place of the network's input."""
    return head_columns(agent.forward(observations, state, write={INPUT: images}))[0]


def logit_score(logits: np.ndarray) -> Score:
    """Return the score with the same gradient as 1/2 |logits|^2 at these logits (B, A)."""
    return {action: logits[:, action] for action in range(logits.shape[1])}


def best_action_score(results: np.ndarray, columns: dict[str, int], factors: Sequence[Factor]) -> Score:
    """Return the score that is the logit (or action value) of the best action at each observation.

    `results` are the concatenated heads (B, n). For an action of several factors, it is the sum of their largest logits
    and means.
    """
    best = greedy_columns(results[:, : next(iter(columns.values()))], factors)  # (B, factors)
    return {action: (best == action).any(axis=1).astype(np.float32) for action in np.unique(best).tolist()}


def linear_scores(
    agent: Agent,
    outputs: Sequence[SaliencyOutput],
    observations: np.ndarray,
    state: State = None,
    images: np.ndarray | None = None,
) -> list[Score]:
    """Return scores whose gradients the agent can compute.

    "policy" becomes the sum of the logits, weighted by their values at the observations, and "greedy" the logit of the
    best action there. The network is evaluated only for these two. `images` (B, H, W, C) replace the network's input.
    """
    if not any(is_policy(output) or is_greedy(output) for output in outputs):
        return list(outputs)
    results, columns = head_columns(
        agent.forward(observations, state, write=None if images is None else {INPUT: images})
    )
    logits = logit_score(results[:, : next(iter(columns.values()))])
    best = best_action_score(results, columns, action_factors(agent))
    return [logits if is_policy(output) else best if is_greedy(output) else output for output in outputs]


def is_policy(output: object) -> bool:
    return isinstance(output, str) and output == POLICY


def is_greedy(output: object) -> bool:
    return isinstance(output, str) and output == GREEDY


def output_differences(
    outputs: Sequence[SaliencyOutput],
    results: np.ndarray,
    columns: dict[str, int],
    perturbed: np.ndarray,
    factors: Sequence[Factor],
    signed: Sequence[bool] | None = None,
) -> np.ndarray:
    """Return how much P perturbations of each observation change outputs, (S, B, P).

    Args:
        outputs: S outputs
        results: concatenated heads (B, n) at the observations
        columns: number of columns of each head
        perturbed: concatenated heads (B, P, n) at the perturbed observations
        factors: the factors of an action (see `rl_clarity.agents.actions`)
        signed: for each output, whether to return s(I) - s(I') instead of half the squared change; by default False

    Raises OptionError for unknown outputs, and if `signed` is True for "policy", whose change has no sign.
    """
    signs = signed or [False] * len(outputs)
    if any(sign and is_policy(output) for output, sign in zip(outputs, signs, strict=True)):
        raise OptionError('signed=True needs outputs that have a sign: "value", "greedy", actions, or weights of them')
    difference = results[:, None] - perturbed  # (B, P, n)
    width = next(iter(columns.values()))
    scores = []
    for output, sign in zip(outputs, signs, strict=True):
        if is_policy(output):
            scores.append(0.5 * np.square(difference[..., :width]).sum(axis=-1))
            continue
        score = best_action_score(results, columns, factors) if is_greedy(output) else output
        weights = select_scores([score], columns, len(results), lambda: results)[:, 0]  # (B, n)
        change = np.einsum("bpn,bn->bp", difference, weights)
        scores.append(change if sign else 0.5 * np.square(change))
    return np.stack(scores)
