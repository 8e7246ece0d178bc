"""Apply an agent's edits inside its network, as functions of the values of sites. Some edits add inputs to the
network.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from rl_clarity.agents.differentiation import Function
from rl_clarity.agents.editing import Edit, StateEdit
from rl_clarity.agents.operations import NUMPY, Operations
from rl_clarity.agents.protocol import Site, Tensor
from rl_clarity.agents.sites import find_site
from rl_clarity.base.errors import OptionError

STATE, STATE_AFTER = "state", "after"
BEFORE, AFTER = f"{STATE}/", f"{STATE_AFTER}/"


class AppliedEdits:
    """The edits of a network in the order in which they are applied, each with the full name of the site it changes.

    Replacement activations (`Edit.replacements`) enter the network as extra inputs `edit/0`, `edit/1`, ..., numbered by
    the index of the edit. If an edit changes the state after a step, its site is called `after/0`, ..., or `after` if
    it changes all arrays of the state at once.
    """

    def __init__(self, edits: Sequence[tuple[str, Edit]] = ()) -> None:
        self._edits = tuple(edits)

    def __iter__(self) -> Iterator[tuple[str, Edit]]:
        return iter(self._edits)

    def __len__(self) -> int:
        return len(self._edits)

    def extended(self, edits: Sequence[Edit], sites: Sequence[Site]) -> AppliedEdits:
        """Return these edits followed by `edits`, without those that have no effect.

        Raises OptionError for an object that is not an edit, for a layer that is unknown or an output of the agent, and
        for an edit that does not fit its layer.
        """
        added = []
        for edit in edits:
            if not isinstance(edit, Edit):
                raise OptionError(f"{edit!r} is not an edit: use rl_clarity.Ablate, Steer or SwapDirections")
            site = _state_site(sites) if edit.layer == STATE else find_site(sites, edit.layer)
            if site.kind == "head":
                raise OptionError(
                    f"layer {edit.layer!r} is an output of the agent, but only layers before the outputs can be edited"
                )
            edit.check(site)
            if edit.changes:
                added.append(
                    (site.name.replace(STATE, STATE_AFTER) if isinstance(edit, StateEdit) else site.name, edit)
                )
        return AppliedEdits((*self._edits, *added))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the extra inputs."""
        return tuple(f"edit/{i}" for i, (_, edit) in enumerate(self._edits) if edit.replacements is not None)

    def replacements(self, observations: np.ndarray) -> dict[str, np.ndarray]:
        """Return the extra inputs, by name, for observations (B, ...) that are scaled like the network's input."""
        chosen = {f"edit/{i}": edit.choose_replacements(observations) for i, (_, edit) in enumerate(self._edits)}
        return {name: array for name, array in chosen.items() if array is not None}

    def parameters(self) -> dict[str, np.ndarray]:
        """Return everything that defines the edits, as arrays by name."""
        return {
            f"edits/{i}/{site}/{name}": array
            for i, (site, edit) in enumerate(self._edits)
            for name, array in edit.parameters().items()
        }

    def functions(self, inputs: Mapping[str, Tensor], operations: Operations) -> dict[str, Function]:
        """Return a function for each edited site, by name, that maps the site's tensor (B, *shape) to the edited
        tensor. `inputs` contains the extra inputs. Edits of the state after a step are left out.
        """

        def function(site: str) -> Function:
            def change(values: Tensor) -> Tensor:
                for i, (name, edit) in enumerate(self._edits):
                    if name == site:
                        values = edit.apply(values, inputs.get(f"edit/{i}"), operations=operations)
                return values

            return change

        return {site: function(site) for site, edit in self._edits if not isinstance(edit, StateEdit)}

    def of_state(self, values: Mapping[str, Tensor], operations: Operations = NUMPY) -> dict[str, Tensor]:
        """Return the edited arrays of the state after a step, by name. `values` contains the arrays before the step
        (`state/0`, ...) and after it (`after/0`, ...).
        """
        after = {name: tensor for name, tensor in values.items() if name.startswith(AFTER)}
        for site, edit in self._edits:
            if not after or not isinstance(edit, StateEdit):
                continue
            names = list(after) if site == STATE_AFTER else [site]
            before = [values[name.replace(AFTER, BEFORE)] for name in names]
            parts = [after[name] for name in names]
            shapes = [tuple(part.shape[1:]) for part in parts]
            ends = np.cumsum([0, *map(math.prod, shapes)]).tolist()
            result = edit.apply_to_state(
                *(
                    operations.concatenate([operations.reshape(part, (-1, math.prod(part.shape[1:]))) for part in one])
                    for one in (before, parts)
                ),
                operations=operations,
            )
            after |= {
                name: operations.reshape(result[:, ends[i] : ends[i + 1]], (-1, *shapes[i]))
                for i, name in enumerate(names)
            }
        return after

    def of_input(self, site: str, values: np.ndarray, inputs: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return the edited values (B, *shape) of the input, or of an array of the state before a step."""
        for i, (name, edit) in enumerate(self._edits):
            if name == site:
                values = np.asarray(edit.apply(values, inputs.get(f"edit/{i}")), np.float32)
        return values


def _state_site(sites: Sequence[Site]) -> Site:
    """Return a site for the whole state, with the values of all its arrays side by side. Raises OptionError if the
    agent has no state.
    """
    parts = [site for site in sites if site.kind == "state"]
    if not parts:
        raise OptionError("the agent has no recurrent state")
    name = parts[0].name if len(parts) == 1 else STATE
    return Site(name, "state", (sum(math.prod(part.shape) for part in parts),))
