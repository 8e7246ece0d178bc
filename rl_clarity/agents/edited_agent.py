"""`rl_clarity.edit` returns an agent whose network is edited."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from rl_clarity.agents.applied_edits import AFTER, BEFORE, AppliedEdits
from rl_clarity.agents.capabilities import before_step, has, parameters, require
from rl_clarity.agents.editing import Edit, StateEdit
from rl_clarity.agents.protocol import Agent, Outputs, State, Written
from rl_clarity.agents.sites import find_site
from rl_clarity.base.errors import OptionError

AgentT = TypeVar("AgentT", bound=Agent)
NEEDS_GRADIENTS = ("tails", "gradients", "gradient_of_direction")


def edit(agent: AgentT, *edits: Edit) -> AgentT:
    """Return an agent whose activations are edited. The edits affect its outputs, its gradients and its actions.

    `generate`, `evaluate`, `record` and `rl_clarity.edit` accept it like any other agent. Edits are applied in the
    order of computation, and edits of one layer in the order of the arguments. Values that are read from a site are its
    edited values. Gradients and integrals with respect to a site refer to them, too. The original agent is not changed.

    In a `KerasAgent`, `TorchAgent` or `JaxAgent`, edits are part of the network's function and are differentiated with
    it. Other agents are edited through `forward(write=...)`, so they can play, but have no gradients.

    Args:
        agent: an agent with `forward` and `sites`
        edits: `Ablate`, `Steer` or `SwapDirections` objects

    Raises OptionError if there are no edits, for an unknown layer, and for an edit that does not fit its layer.
    """
    require(agent, "sites", "forward", for_="edit")
    if not edits:
        raise OptionError("edit() needs at least one edit: rl_clarity.Ablate, Steer or SwapDirections")
    if has(agent, "with_edits"):
        return agent.with_edits(edits)  # type: ignore[attr-defined]
    return EditedAgent(agent, edits)  # type: ignore[return-value]


class EditedAgent:
    """Wraps any agent and edits it through `forward(write=...)`. The edited agent has no gradients."""

    def __init__(self, agent: Agent, edits: Sequence[Edit]) -> None:
        self._agent = agent
        self._edits = AppliedEdits().extended(edits, agent.sites)
        self.edits = tuple(edit for _, edit in self._edits)

    def __getattr__(self, name: str) -> Any:
        if name in NEEDS_GRADIENTS or name.startswith("__") or name == "_agent":
            raise AttributeError(f"{type(self).__name__} has no {name}")
        return getattr(self._agent, name)

    def with_edits(self, edits: Sequence[Edit]) -> EditedAgent:
        return EditedAgent(self._agent, [*self.edits, *edits])

    def parameters(self) -> dict[str, np.ndarray]:
        """Return the parameters of the agent and the arrays that define the edits."""
        return parameters(self._agent) | self._edits.parameters()

    def step(self, observations: np.ndarray, state: State, firsts: np.ndarray) -> tuple[Outputs, State]:
        outputs = self.forward(observations, before_step(self._agent, state, np.asarray(firsts, bool)))
        return outputs, outputs.state

    def forward(
        self,
        observations: np.ndarray,
        state: State = None,
        *,
        read: Sequence[str] = (),
        write: Mapping[str, Written] | None = None,
    ) -> Outputs:
        written = {find_site(self._agent.sites, name).name: values for name, values in (write or {}).items()}
        edits: dict[str, Written] = {}
        for site, change in self._edits:
            if isinstance(change, StateEdit):
                continue
            edits[site] = _then(edits.get(site), _function(change, observations))
        for site, values in written.items():
            edits[site] = _then(edits.get(site), values) if callable(values) else values
        outputs = self._agent.forward(observations, state, read=read, write=edits)
        if outputs.state is None:
            return outputs
        before = self._agent.initial_state(len(observations)) if state is None else state
        parts = {f"{BEFORE}{i}": part for i, part in enumerate(before or ())}
        parts |= {f"{AFTER}{i}": part for i, part in enumerate(outputs.state)}
        after = self._edits.of_state(parts)
        return dataclasses.replace(outputs, state=tuple(after[f"{AFTER}{i}"] for i in range(len(outputs.state))))

    def activations(self, observations: np.ndarray, site: str, state: State = None) -> np.ndarray:
        return self.forward(observations, state, read=[site]).sites[site]


def _function(change: Edit, observations: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    replacement = change.choose_replacements(np.asarray(observations))
    return lambda values: np.asarray(change.apply(np.asarray(values, np.float32), replacement))


def _then(first: Any, second: Callable[[np.ndarray], np.ndarray]) -> Callable[[np.ndarray], np.ndarray]:
    return second if first is None else lambda values: second(first(values))
