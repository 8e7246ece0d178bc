"""What the page of an agent will hold: layers, outputs, actions. Decided before anything is computed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rl_clarity.agents.capabilities import initial_state, require
from rl_clarity.agents.protocol import Agent, Score
from rl_clarity.analyses.attribution import choose_layers
from rl_clarity.analyses.attribution.quadrature import quadrature
from rl_clarity.errors import OptionError
from rl_clarity.options import DirectoryOptions, InterfaceOptions
from rl_clarity.pages.layout import Layout, slugs
from rl_clarity.pages.manifest import ActionGroup, ActionInfo, AgentInfo, ObservationInfo, OutputInfo
from rl_clarity.recordings.samples import Observations, Trajectories
from rl_clarity.visualization.colors import action_colors, channel_hues, input_hues

Combo = tuple[str, ...]

ARROWS = {
    frozenset(["LEFT"]): "←",
    frozenset(["RIGHT"]): "→",
    frozenset(["UP"]): "↑",
    frozenset(["DOWN"]): "↓",
    frozenset(["LEFT", "UP"]): "↖",
    frozenset(["LEFT", "DOWN"]): "↙",
    frozenset(["RIGHT", "UP"]): "↗",
    frozenset(["RIGHT", "DOWN"]): "↘",
}
DIRECTIONS = ("RIGHT", "LEFT", "UP", "DOWN")
GAMMA, LAMBDA = 0.999, 0.95


@dataclass(frozen=True)
class PlannedLayer:
    """A layer to explain, and how the page calls it."""

    name: str
    slug: str
    full_name: str
    shape: tuple[int, int, int]  # (h, w, c)
    channels: int
    """Reduced channels."""
    is_input: bool = False

    @property
    def hues(self) -> np.ndarray:
        """(K, 3), of unit L2 norm."""
        return input_hues(self.channels) if self.is_input else channel_hues(self.channels)


@dataclass(frozen=True)
class Plan:
    """What a page will hold."""

    options: InterfaceOptions
    layout: Layout
    agent: AgentInfo
    observation: ObservationInfo
    layers: tuple[PlannedLayer, ...]
    outputs: tuple[OutputInfo, ...]
    actions: tuple[ActionInfo, ...]
    groups: tuple[ActionGroup, ...]
    env_name: str
    title: str
    gamma: float
    lam: float

    @property
    def fit_output(self) -> Score:
        """The score whose attribution the reduction is fitted to."""
        return "greedy" if self.agent.kind == "action_values" else "value"

    @property
    def stack(self) -> int:
        """Frames an observation is made of."""
        return self.observation.stack


def plan_page(
    agent: Agent,
    trajectories: Trajectories,
    observations: Observations,
    options: InterfaceOptions,
    metadata: Mapping[str, Any],
) -> Plan:
    """Decide what the page will hold. Raises OptionError for options that do not fit the agent."""
    kind = "policy" if trajectories.policy_logits is not None else "action_values"
    combos = _combos(agent, options.action_combos or trajectories.action_combos or metadata.get("action_combos"))
    actions = tuple(
        ActionInfo(action_label(combo), combo, color)
        for combo, color in zip(combos, action_colors(len(combos)), strict=True)
    )
    groups = _groups(combos, actions, options.action_group_fns) if kind == "policy" else ()
    env_name = options.env_name or metadata.get("env_name") or metadata.get("env_id") or "unknown"
    network = str(metadata.get("network") or metadata.get("cnn") or type(agent).__name__)
    recurrent = initial_state(agent, 1) is not None
    return Plan(
        options=options,
        layout=_layout(options),
        agent=AgentInfo(network=network, kind=kind, recurrent=recurrent, num_actions=agent.num_actions),
        observation=_observation(trajectories, metadata),
        layers=_layers(agent, options),
        outputs=_outputs(kind, actions, groups, options),
        actions=actions,
        groups=groups,
        env_name=str(env_name),
        title=options.title or f"{env_name}, {network}",
        gamma=_first(options.gae_gamma, metadata.get("gamma"), GAMMA),
        lam=_first(options.gae_lambda, metadata.get("lambda"), LAMBDA),
    )


def check_options(agent: Agent, options: InterfaceOptions) -> None:
    """Raise OptionError for options that do not fit the agent, before anything is played, computed or written."""
    _layers(agent, options)
    _layout(options)
    quadrature(options.attr_quadrature, options.attr_integrate_steps)
    if options.action_combos is not None:
        _combos(agent, options.action_combos)
    if options.optimized_features:
        require(agent, "gradient_of_direction", for_="optimized_features")


def outputs_to_compute(plan: Plan) -> list[Score]:
    """The scores that must be differentiated; groups are sums of them."""
    scores: list[Score] = []
    for output in plan.outputs:
        if output.kind == "action":
            assert output.action is not None
            scores.append(output.action)
        elif output.kind != "group":
            scores.append(output.kind)
    return scores


def action_label(combo: Sequence[str]) -> str:
    """Buttons as people read them: arrows for directions, other buttons by name, `no-op` for none."""
    directions = frozenset(combo) & frozenset(DIRECTIONS)
    arrows = ARROWS.get(directions) or "".join(ARROWS[frozenset([button])] for button in combo if button in DIRECTIONS)
    others = [button for button in combo if button not in DIRECTIONS]
    return " ".join(part for part in [arrows, *others] if part) or "no-op"


def _combos(agent: Agent, given: Sequence[Sequence[str]] | None) -> list[Combo]:
    combos: list[Combo] = [(str(i),) for i in range(agent.num_actions)]
    if given:
        combos = [tuple(map(str, combo)) for combo in given]
    if len(combos) != agent.num_actions:
        raise OptionError(f"action_combos has {len(combos)} entries; the agent has {agent.num_actions} actions")
    return combos


def _groups(
    combos: Sequence[Combo], actions: Sequence[ActionInfo], predicates: Sequence[Callable[..., bool]] | None
) -> tuple[ActionGroup, ...]:
    labelled: list[tuple[str, Callable[[Combo], bool]]] = [("", predicate) for predicate in predicates or ()]
    if predicates is None:
        labelled = [(f"any {ARROWS[frozenset([button])]}", _presses(button)) for button in DIRECTIONS]
        labelled.append(("no direction", lambda combo: not set(DIRECTIONS) & set(combo)))
    groups = []
    chosen = groups_of(combos, [predicate for _, predicate in labelled])
    for (label, _), members in zip(labelled, chosen, strict=True):
        if len(members) > 1:  # a group of one is that action
            groups.append(ActionGroup(label or " / ".join(actions[i].label for i in members), members))
    return tuple(groups)


def groups_of(combos: Sequence[Sequence[str]], predicates: Sequence[Callable[..., bool]]) -> list[list[int]]:
    """For each predicate the actions whose buttons it holds of."""
    return [[i for i, combo in enumerate(combos) if belongs(tuple(combo))] for belongs in predicates]


def _presses(button: str) -> Callable[[Combo], bool]:
    return lambda combo: button in combo


def _outputs(
    kind: str, actions: Sequence[ActionInfo], groups: Sequence[ActionGroup], options: InterfaceOptions
) -> tuple[OutputInfo, ...]:
    if kind == "policy":
        outputs = [OutputInfo("value", "value", "value function")]
    else:
        outputs = [OutputInfo("greedy", "greedy", "best action value")]
    if options.attr_policy:
        outputs += [OutputInfo(f"action-{i}", "action", a.label, action=i) for i, a in enumerate(actions)]
        outputs += [OutputInfo(f"group-{i}", "group", g.label, group=i) for i, g in enumerate(groups)]
    return tuple(outputs)


def _layers(agent: Agent, options: InterfaceOptions) -> tuple[PlannedLayer, ...]:
    chosen = choose_layers(agent, **{f: getattr(options.layer_kwargs, f) for f in options.layer_kwargs.__dict__})
    names = [layer.name for layer in chosen]
    if options.input_layer_include:
        if options.input_layer_name in names:
            raise OptionError(f"input_layer_name={options.input_layer_name!r} is the name of a layer: give another")
        names = [options.input_layer_name, *names]
    all_slugs = dict(zip(names, slugs(names), strict=True))
    layers = [
        PlannedLayer(
            layer.name,
            all_slugs[layer.name],
            layer.site.name,
            layer.shape,
            min(options.nmf_features, layer.shape[-1]),
        )
        for layer in chosen
    ]
    if options.input_layer_include:
        name, shape = options.input_layer_name, agent.observation_shape
        layers.insert(0, PlannedLayer(name, all_slugs[name], name, shape, shape[-1], is_input=True))
    return tuple(layers)


def _layout(options: InterfaceOptions) -> Layout:
    return Layout(DirectoryOptions(**{f: getattr(options, f) for f in DirectoryOptions.__dataclass_fields__}))


def _observation(trajectories: Trajectories, metadata: Mapping[str, Any]) -> ObservationInfo:
    height, width, channels = trajectories.observations.shape[2:]
    shown = trajectories.observations_full
    frame_height, frame_width = (height, width) if shown is None else shown.shape[2:4]
    stack = int(metadata.get("frame_stack") or 1)
    return ObservationInfo(height, width, channels, frame_height, frame_width, stack if channels % stack == 0 else 1)


def _first(*values: Any) -> float:
    return float(next(value for value in values if value is not None))
