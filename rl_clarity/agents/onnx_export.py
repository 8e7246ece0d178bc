"""Export the network of an agent to ONNX, for pages that compute in the browser and for other programs.

The graph has the activations of the agent's layers as outputs, and inputs that replace them, so that features can be
edited outside the network:

| input | |
|---|---|
| `observations` | (B, H, W, C) float32, from 0 to 255 |
| `state.0`, ... | (B, ...) float32: the arrays of the recurrent state before the step |
| `keep` | (L,) float32: 1, or 0 for a layer whose activations are replaced |
| `write.0`, ... | (B, h, w, c) float32, for each of the L layers: added to `keep` times its activations |

The outputs are the heads (`policy_logits` (B, A), `values` (B, 1) or `q_values` (B, A)), the state after the step
(`after.0`, ...), and the layers' activations before they are replaced (`layer.0`, ...). The metadata entry `rl_clarity`
is JSON with `version`, `layers` (names), `heads`, `states` (the initial state) and `observation_shape`.
"""

from __future__ import annotations

import importlib.util
import json
import warnings
from typing import Any, TypeGuard

from rl_clarity.agents.batched import BatchedAgent
from rl_clarity.agents.differentiation import TorchBackend
from rl_clarity.agents.protocol import Agent
from rl_clarity.agents.sites import INPUT
from rl_clarity.base.errors import DependencyError, OptionError
from rl_clarity.base.quiet import held_back

VERSION = 1
KEY = "rl_clarity"
EXAMPLES = 2
"""Number of observations with which the network is traced."""


def is_exportable(agent: Agent) -> TypeGuard[BatchedAgent]:
    """Return whether an agent's network is computed by PyTorch, which can export it."""
    return isinstance(agent, BatchedAgent) and isinstance(agent._backend, TorchBackend)


def check_export(agent: Agent) -> None:
    """Raise OptionError for an agent that is edited or takes inputs besides the image, and DependencyError if a package
    that exporting needs is missing.
    """
    if getattr(agent, "edits", None) or getattr(agent, "held_inputs", None):
        raise OptionError("exporting to ONNX needs a network without edits, whose only inputs are an image and a state")
    for package in ("torch", "onnx", "onnxscript"):  # PyTorch needs the last one
        if importlib.util.find_spec(package) is None:
            raise DependencyError(f'exporting to ONNX needs {package}: pip install "rl-clarity[onnx]"')


def export_onnx(agent: Agent) -> bytes:
    """Return the network of an agent in ONNX; see the module's docstring for its inputs and outputs.

    Raises OptionError for an agent whose network is not computed by PyTorch, that is edited, or that takes inputs
    besides the image, and for an operation that cannot be exported. Raises DependencyError if a package is missing.
    """
    if not is_exportable(agent):
        raise OptionError("networks are exported by PyTorch: use a TorchAgent, or set KERAS_BACKEND=torch")
    check_export(agent)
    import onnx
    import torch

    sites = [agent.site(name) for name in agent.layers]
    network, arguments = _network(agent, [site.name for site in sites])
    batch = torch.export.Dim("batch", min=1)
    shapes = tuple({0: batch} if one.ndim > 1 else None for one in arguments)
    states, layers = range(len(agent._initial_state)), range(len(sites))
    facts = {
        "version": VERSION,
        "layers": list(agent.layers),
        "heads": list(agent.heads),
        "states": [part.tolist() for part in agent._initial_state],
        "observation_shape": list(agent.observation_shape),
    }
    failure: Exception | None = None
    with held_back(), warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        try:
            program = torch.onnx.export(
                network, tuple(arguments), dynamo=True, verbose=False,
                optimize=False,  # it removes small numbers, such as those that keep a square root differentiable
                dynamic_shapes={"arguments": shapes},
                input_names=["observations", *(f"state.{i}" for i in states), "keep", *(f"write.{i}" for i in layers)],
                output_names=[*agent.heads, *(f"after.{i}" for i in states), *(f"layer.{i}" for i in layers)],
            )  # fmt: skip
            program.model.metadata_props[KEY] = json.dumps(facts)
            onnx.checker.check_model(program.model_proto, full_check=True)
        except Exception as error:  # exporters raise errors of many kinds
            failure = error
    if failure is not None:
        cause: BaseException = failure
        while cause.__cause__ is not None:  # PyTorch wraps the error that names the operation
            cause = cause.__cause__
        reason = str(cause).strip().partition("\n")[0]
        raise OptionError(f"the network cannot be exported to ONNX ({type(cause).__name__}): {reason}") from failure
    return bytes(program.model_proto.SerializeToString())


def _network(agent: BatchedAgent, sites: list[str]) -> tuple[Any, list[Any]]:
    """Return the network as a module, and examples of its arguments in the order of the graph's inputs."""
    import torch

    states = agent._states
    after = tuple(f"after/{i}" for i in range(len(states)))
    divisor = float(agent._divisor)

    class Network(torch.nn.Module):  # type: ignore[misc]
        def forward(self, *arguments: Any) -> list[Any]:
            observations, *rest = arguments
            state, keep, writes = rest[: len(states)], rest[len(states)], rest[len(states) + 1 :]
            layers: dict[str, Any] = {}

            def replaced(i: int, site: str, values: Any) -> Any:
                layers[site] = values
                return values * keep[i] + writes[i]

            edits = {site: (lambda values, i=i, site=site: replaced(i, site, values)) for i, site in enumerate(sites)}
            run = agent._section((INPUT, *states), (*agent.heads, *after), edits)
            return [*run(observations / divisor, *state), *(layers[site] for site in sites)]

    shapes = [agent.observation_shape, *(part.shape for part in agent._initial_state)]
    examples = [torch.zeros((EXAMPLES, *shape)) for shape in shapes]
    examples.append(torch.ones(len(sites)))
    return Network().eval(), examples + [torch.zeros((EXAMPLES, *agent.site(site).shape)) for site in sites]
