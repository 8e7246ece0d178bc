"""`Analysis`, the base class of analyses, and `Subject`, the agent and the samples that they examine."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, Generic, Never, TypedDict, TypeVar, Unpack, get_args, get_origin

import numpy as np
import PIL.Image

from rl_clarity.agents.actions import (
    Categorical,
    Factor,
    Gaussian,
    describe_factors,
    factor_columns,
    factor_names,
    is_single_choice,
    output_labels,
)
from rl_clarity.agents.capabilities import action_factors, frame_region, is_vector
from rl_clarity.agents.held_inputs import is_recurrent
from rl_clarity.agents.protocol import Agent, FrameRegion, State
from rl_clarity.base.errors import OptionError, SectionError
from rl_clarity.base.keys import JsonObject, to_plain
from rl_clarity.base.parsing import check_minimum, find_part
from rl_clarity.base.registry import option_sources
from rl_clarity.jobs.tasks import Piece, Results, Task, TaskResult, Work
from rl_clarity.pages.files import PageFiles
from rl_clarity.pages.images import newest_frames, vector_images
from rl_clarity.pages.manifest import ActionFactor, ActionGroup, ActionInfo, AgentInfo, ObservationInfo
from rl_clarity.pages.schema import alternatives, read
from rl_clarity.pages.sections import Note, SectionData, check_section_class
from rl_clarity.recordings.recording import Recording
from rl_clarity.recordings.samples import Observations, Trajectories
from rl_clarity.visualization.colors import action_colors

OptionsT = TypeVar("OptionsT")
SectionT = TypeVar("SectionT", bound=SectionData, covariant=True)
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
COMPARED_FRAMES = 16
SAME_VIEW = 0.5
"""Correlation between observations and rendered frames above which both show the same view."""
DIRECTIONS = ("RIGHT", "LEFT", "UP", "DOWN")


@dataclass(frozen=True)
class SubjectOptions:
    """Options of a page that apply to all analyses."""

    env_name: str | None = None
    """Environment in which the agent plays, or in which the given samples were collected; by default the checkpoint's
    environment."""
    title: str | None = None
    """Title of the page; by default, it names the environment and the network."""
    seed: int = 0
    """Random seed for samples, the channel reduction and optimized images of features."""
    batch_size: int = 512
    """Maximum number of frames that are processed together."""
    action_combos: tuple[tuple[str, ...], ...] | None = None
    """Buttons of each action; by default those of the environment, or ('0',), ('1',), ..."""
    equivalent_actions: tuple[tuple[int, ...], ...] | None = None
    """Groups of actions with the same effect, as indices from 0; the page can show each group as one action. By default
    groups are found by trying the actions, in environments whose state can be saved."""
    action_group_fns: tuple[Callable[[Sequence[str]], bool], ...] | None = None
    """Functions of an action's buttons, each of which returns True for the actions of a group. By default there is a
    group for each of RIGHT, LEFT, UP and DOWN, and one for actions without a direction."""

    def __post_init__(self) -> None:
        check_minimum(self, 0, "seed")
        check_minimum(self, 1, "batch_size")


@dataclass(frozen=True)
class Subject:
    """What analyses examine: an agent and samples of its play, with the files to which results are written."""

    agent: Agent
    info: AgentInfo
    trajectories: Trajectories
    observations: Observations
    metadata: JsonObject
    """Metadata of agent and samples: `env_name`, `gamma`, ..."""
    options: SubjectOptions
    """Options that apply to all analyses; `options_of` returns the others."""
    files: PageFiles
    recording: Recording | None = None
    """The recording from which the trajectories are read, or None for other samples and while a page is planned."""
    key: str = ""
    """Hash of agent, samples and code."""
    analyses: tuple[str, ...] = ()
    """Names (`Analysis.kind`) of all analyses of the page."""
    analysis_options: Sequence[object] = ()
    """Options of each analysis of the page."""
    plugin_keys: Mapping[str, str] = field(default_factory=dict)
    """For each analysis that is not part of the package, by name, a hash of its code and options."""
    subjects: tuple[Subject, ...] = ()
    """The subject of each agent, if an analysis examines all agents of a page together. The other fields are then those
    of the last subject."""

    acting: Callable[[np.ndarray], Iterable[tuple[np.ndarray, Agent]]] | None = None
    """If the agent was updated during the only trajectory (`explain`), the function that `agents` calls: it maps steps
    (n,) to the agents that acted at them."""

    @property
    def output_kind(self) -> str:
        """The main output of the agent: "value", or "greedy" for an agent without a value."""
        return "value" if self.info.has_value else "greedy"

    @property
    def stack(self) -> int:
        """Number of stacked frames per observation."""
        return self.info.observation.stack

    def trajectory_frames(self, trajectory: int, steps: slice) -> np.ndarray:
        """Return frames (n, H, W, 1 | 3) uint8 of a trajectory: rendered frames if there are any, otherwise
        observations.
        """
        full = self.trajectories.observations_full
        if full is not None:
            return np.asarray(full[trajectory, steps])
        return self._shown(self.trajectories.observations[trajectory, steps])

    def observation_frames(self) -> np.ndarray:
        """Return frames (M, H, W, 1 | 3) uint8 of the M extra observations.

        Rendered frames are used only if they show the same view as the observations, so that positions agree, or if
        the observations are vectors.
        """
        full = self.observations.observations_full
        if full is None or not (self.info.observation.aligned or is_vector(self.agent)):
            return self._shown(self.observations.observations)
        return full

    def _shown(self, observations: np.ndarray) -> np.ndarray:
        """Return images (n, H, W, 1 | 3) uint8 of observations. The image of a vector has a pixel for each input."""
        if is_vector(self.agent):
            played = [np.asarray(self.trajectories.observations[row]) for row in range(len(self.trajectories))]
            return vector_images(np.asarray(observations), np.concatenate(played))
        return newest_frames(np.asarray(observations), self.stack)

    def states(self, trajectory: int, steps: slice | np.ndarray) -> State:
        """Return the agent's states before some steps of a trajectory, with held inputs, or None without states."""
        states = self.trajectories.states
        return None if states is None else tuple(np.asarray(part[trajectory, steps]) for part in states)

    def agents(self, steps: np.ndarray) -> Iterable[tuple[np.ndarray, Agent]]:
        """Return the agents that acted at some steps (n,) of a trajectory, as pairs `(indices, agent)`.

        In each pair, the agent acted at `steps[indices]`. There is a single pair with the subject's `agent`, unless a
        recorded agent was updated during its episode.
        """
        return [(np.arange(len(steps)), self.agent)] if self.acting is None else self.acting(steps)

    def options_of(self, kind: type[OptionsT]) -> OptionsT:
        """Return the page's options of the class `kind`, such as those of an analysis, or the defaults if the page has
        none.
        """
        given = (options for options in self.analysis_options if isinstance(options, kind))
        return next(given, None) or find_part(self.options, kind) or kind()

    def decisive(self, *kinds: type) -> dict[str, object]:
        """Return the values of all options of these classes as JSON, for the cache key of a task.

        The values include hashes of the code of the plug-ins that the options name.
        """
        values: dict[str, object] = {}
        for kind in kinds:
            options: object = self.options_of(kind)
            values |= {
                f"{kind.__name__}.{one.name}": to_plain(getattr(options, one.name)) for one in dataclasses.fields(kind)
            }
            values |= option_sources(options)
        return values


class TaskDetails(TypedDict, total=False):
    """Keyword arguments of `Analysis.task` that set additional fields of a `Task`."""

    size: float
    group: str
    after: tuple[str, ...]
    pieces: Callable[[Any, int], Iterable[Piece]]
    output_bytes: float
    frame_bytes: float
    held_bytes: float
    parallel: int
    memory_hint: str


class Analysis(ABC, Generic[OptionsT, SectionT]):
    """Base class of analyses. An analysis has options, tasks, and sections of the page.

    A subclass names the classes of its options and of its sections: `class Occlusion(Analysis[OcclusionOptions,
    OcclusionSection])`. The options are a frozen dataclass (`NoOptions` if there are none). The text under a field is
    the documentation of this option and its help on the command line. The type of the sections is a class derived from
    `SectionData`, a union of several such classes, or `Never` for an analysis that only writes files. A subclass sets
    `kind`, and increments `version` when its results change.

    Defining a subclass raises SectionError if it names no classes, or if it names a section class that cannot be
    represented in JSON.
    """

    kind: ClassVar[str]
    """Name of the analysis, and the first component of its tasks' names."""
    version: ClassVar[int] = 1
    Options: ClassVar[type]
    """Class of the options."""
    Sections: ClassVar[tuple[type[SectionData], ...]]
    """Classes of the sections."""
    needs_all: ClassVar[bool] = True
    """Whether `sections` needs the results of all tasks. If False, it is also called while tasks are unfinished."""
    single_episode: ClassVar[bool] = False
    """Whether the analysis needs no more than one episode. If so, `explain` computes it for recorded episodes."""

    def __init_subclass__(cls) -> None:
        declared = [base for base in getattr(cls, "__orig_bases__", ()) if get_origin(base) is Analysis]
        if declared:
            cls.Options, sections = get_args(declared[0])
            cls.Sections = () if sections is Never else alternatives(sections)
            for section in cls.Sections:
                check_section_class(section, cls.__name__)
        elif not hasattr(cls, "Sections"):
            name = cls.__name__
            raise SectionError(f"declare the option and section classes: class {name}(Analysis[NoOptions, ...])")

    def check(self, agent: Agent, options: OptionsT, page: SubjectOptions) -> None:
        """Raise OptionError for options that do not fit the agent, before anything is sampled or computed.

        `page` has all options of the page; `find_part(page, OtherOptions)` returns those of another analysis.
        """

    def folders(self, options: OptionsT) -> Sequence[str]:
        """Return the folders of the page into which tasks write files.

        A page is not started if one of them already contains files that do not belong to the page. By default, the
        folders are the values of the options named `..._subdir`, or a folder with the name of the analysis if it has no
        such options.
        """
        names = [field.name for field in dataclasses.fields(self.Options) if field.name.endswith("_subdir")]
        return [getattr(options, name) for name in names] or [self.kind]

    @abstractmethod
    def tasks(self, subject: Subject, options: OptionsT) -> Iterable[Task]:
        """Return the tasks of the analysis, which `task` creates."""

    @abstractmethod
    def sections(self, subject: Subject, options: OptionsT, results: Results) -> Iterable[SectionT]:
        """Return the sections of the page, made from the facts that finished tasks returned."""

    def checked(self, section: SectionData) -> SectionData:
        """Return a copy of a section in which file names have the types of the section's fields, such as `ChunkName`.

        Raises SectionError for a section of a class that the analysis does not declare, and for values that do not fit
        it.
        """
        if not isinstance(section, self.Sections):
            declared = " or ".join(one.__name__ for one in self.Sections) or "none"
            raise SectionError(
                f"{type(self).__name__}.sections returned {section!r:.80}, but the analysis declares {declared}"
            )
        return read(type(section), section, section.kind)

    def notes(self, options: OptionsT) -> Sequence[Note]:
        """Return paragraphs that explain the method. They belong to the first section of the analysis."""
        return ()

    @classmethod
    def task_name(cls, *parts: object) -> str:
        """Return the name of a task, or a prefix of the names of several tasks: `kind` and the parts, joined by `/`.

        `Task.after` accepts names and prefixes. Results are read by name.
        """
        return "/".join(map(str, (cls.kind, *parts)))

    def task(
        self,
        subject: Subject,
        name: str,
        run: Callable[[Work], TaskResult],
        inputs: object = None,
        **details: Unpack[TaskDetails],
    ) -> Task:
        """Create a task of this analysis.

        The cache key always contains the agent, the samples, the code and `version`, and for an analysis from a
        different package also its options. `inputs` is a JSON value with everything else that determines the result.
        `details` are additional fields of `Task`; see `TaskDetails`.
        """
        plugin = subject.plugin_keys.get(self.kind, "")
        key = [subject.key, asdict(subject.info.observation), self.version, plugin, inputs]
        return Task(name, run, key, **details)


def describe_agent(
    agent: Agent, trajectories: Trajectories, metadata: JsonObject, options: SubjectOptions
) -> AgentInfo:
    """Return the page's description of an agent. Raises OptionError for action options that do not fit the agent."""
    kind = "action_values" if trajectories.policy_logits is None else "policy"
    factors = action_factors(agent)
    single = is_single_choice(factors)
    if single:
        given = options.action_combos or trajectories.action_combos or metadata.get("action_combos")
        actions = describe_actions(action_combos(agent, given))
    elif options.action_combos or options.equivalent_actions:
        raise OptionError(
            "action_combos and equivalent_actions require actions that are a single choice, but an action of the agent "
            f"is {describe_factors(factors)}; its labels are the names of these factors"
        )
    else:
        actions = describe_outputs(factors)
    return AgentInfo(
        network=str(metadata.get("network") or metadata.get("cnn") or type(agent).__name__),
        kind="policy" if kind == "policy" else "action_values",
        has_value=trajectories.values is not None,
        recurrent=is_recurrent(agent),
        num_actions=agent.num_actions,
        observation=_observation(agent, trajectories, metadata),
        actions=actions,
        action_groups=describe_groups(actions, options.action_group_fns) if kind == "policy" and single else (),
        equivalent_actions=equivalent_actions(
            agent,
            metadata.get("equivalent_actions") if options.equivalent_actions is None else options.equivalent_actions,
        ),
        factors=None if single else action_info(factors),
    )


def require_single_choice(agent: Agent, page: str) -> None:
    """Raise OptionError for an agent whose action is not a single choice.

    `page` is the name of the pages that require a single choice, in the plural, for the message.
    """
    factors = action_factors(agent)
    if not is_single_choice(factors):
        raise OptionError(
            f"{page} require actions that are a single choice, but an action of the agent is "
            f"{describe_factors(factors)}; use rl_clarity.generate instead"
        )


def action_combos(agent: Agent, combos: Sequence[Sequence[str]] | None) -> list[Combo]:
    """Return the buttons of each action. Without `combos`, the only button of an action is its number.

    Raises OptionError if the number of combos differs from the number of the agent's actions.
    """
    if not combos:
        return [(str(action),) for action in range(agent.num_actions)]
    if len(combos) != agent.num_actions:
        raise OptionError(f"action_combos has {len(combos)} entries, but the agent has {agent.num_actions} actions")
    return [tuple(map(str, combo)) for combo in combos]


def equivalent_actions(agent: Agent, groups: Sequence[Sequence[int]] | None) -> list[list[int]]:
    """Return groups of actions with the same effect as lists of indices, or an empty list for None.

    Raises OptionError for unknown actions, and for an action that occurs twice.
    """
    actions = [action for group in groups or () for action in group]
    if not {*actions} <= {*range(agent.num_actions)} or len({*actions}) < len(actions):
        raise OptionError(
            f"equivalent_actions={groups!r} must be groups of different actions from 0 to {agent.num_actions - 1}"
        )
    return [[*map(int, group)] for group in groups or ()]


def action_label(combo: Sequence[str]) -> str:
    """Return the label of an action: arrows for directions, names of other buttons, `no-op` for no button."""
    directions = frozenset(combo) & frozenset(DIRECTIONS)
    arrows = ARROWS.get(directions) or "".join(ARROWS[frozenset([button])] for button in combo if button in DIRECTIONS)
    others = [button for button in combo if button not in DIRECTIONS]
    return " ".join(part for part in [arrows, *others] if part) or "no-op"


def describe_actions(combos: Sequence[Combo]) -> list[ActionInfo]:
    """Return the label and color of each action, from its buttons."""
    colors = action_colors(len(combos))
    return [ActionInfo(action_label(combo), combo, color) for combo, color in zip(combos, colors, strict=True)]


def describe_outputs(factors: Sequence[Factor]) -> list[ActionInfo]:
    """Return the label and color of each output of the network that belongs to a factor of the action."""
    labels = output_labels(factors)
    pairs = zip(labels, action_colors(len(labels)), strict=True)
    return [ActionInfo(label, (label,), color) for label, color in pairs]


def action_info(factors: Sequence[Factor]) -> list[ActionFactor]:
    """Return the page's description of each factor of an action."""
    infos = []
    for factor, name, where in zip(factors, factor_names(factors), factor_columns(factors), strict=True):
        start, count = where.start, where.stop - where.start
        if isinstance(factor, Gaussian):
            low, high = (bound if np.isfinite(bound) else None for bound in (factor.low, factor.high))
            infos.append(ActionFactor("number", name, start, count, low, high, factor.std, factor.squashed))
        else:
            infos.append(ActionFactor("choice" if isinstance(factor, Categorical) else "switch", name, start, count))
    return infos


def action_groups(combos: Sequence[Sequence[str]], predicates: Sequence[Callable[..., bool]]) -> list[list[int]]:
    """Return, for each predicate, the indices of the actions whose buttons satisfy it."""
    return [[i for i, combo in enumerate(combos) if belongs(tuple(combo))] for belongs in predicates]


def describe_groups(
    actions: Sequence[ActionInfo], predicates: Sequence[Callable[[Sequence[str]], bool]] | None = None
) -> tuple[ActionGroup, ...]:
    """Return a group for each predicate: the actions whose buttons satisfy it, if there are at least two.

    By default there is a group for each direction, and one for actions without a direction.
    """
    labels = [""] * len(predicates or ())
    if predicates is None:
        labels = [*(f"any {ARROWS[frozenset([button])]}" for button in DIRECTIONS), "no direction"]
        predicates = [*map(_presses, DIRECTIONS), lambda combo: not set(DIRECTIONS) & set(combo)]
    combos = [tuple(action.combo) for action in actions]
    return tuple(
        ActionGroup(label or " / ".join(actions[i].label for i in members), members)
        for label, members in zip(labels, action_groups(combos, predicates), strict=True)
        if len(members) > 1  # a group of one action is that action
    )


def _presses(button: str) -> Callable[[Sequence[str]], bool]:
    return lambda combo: button in combo


def _observation(agent: Agent, trajectories: Trajectories, metadata: JsonObject) -> ObservationInfo:
    height, width, channels = trajectories.observations.shape[2:]
    full = trajectories.observations_full
    if is_vector(agent):
        frame_height, frame_width = (channels, 1) if full is None else full.shape[2:4]
        return ObservationInfo(height, width, channels, frame_height, frame_width, aligned=False)
    frame_height, frame_width = (height, width) if full is None else full.shape[2:4]
    stack = int(metadata.get("frame_stack") or 1)
    stack = stack if channels % stack == 0 else 1
    region = None if full is None else frame_region(agent)
    aligned = full is None or _same_view(trajectories.observations, full, stack, region)
    return ObservationInfo(height, width, channels, frame_height, frame_width, stack, aligned, region)


def _same_view(observations: np.ndarray, frames: np.ndarray, stack: int, region: FrameRegion | None) -> bool:
    """Return whether a region of the rendered frames shows the same view as the observations.

    An environment may render a map of the whole level although the agent observes only a part of it. A few frames are
    reduced to the size of the observations: with the same view, they correlate with the observations.
    """
    steps, height, width, channels = observations.shape[1:]
    top, left, bottom, right = region or (0.0, 0.0, 1.0, 1.0)
    full_height, full_width = frames.shape[2:4]
    box = (left * full_width, top * full_height, right * full_width, bottom * full_height)
    correlations = []
    for step in np.unique(np.linspace(0, steps - 1, COMPARED_FRAMES).astype(int)):
        newest = observations[0, step, ..., channels - channels // stack :].astype(np.float32).mean(axis=-1)
        image = PIL.Image.fromarray(frames[0, step].astype(np.float32).mean(axis=-1))
        reduced = np.asarray(image.resize((width, height), PIL.Image.Resampling.BOX, box=box))
        if newest.std() > 0 and reduced.std() > 0:
            correlations.append(abs(np.corrcoef(newest.ravel(), reduced.ravel())[0, 1]))
    return not correlations or float(np.median(correlations)) > SAME_VIEW
