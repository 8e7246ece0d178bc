"""Sections of pages as JSON; scripts/make_sections.py writes this from their dataclasses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NotRequired, TypedDict


class Scrub(TypedDict):
    steps: int
    height: int
    step_width: int


class FrameSheets(TypedDict):
    columns: int


EpisodeSummary = TypedDict(
    "EpisodeSummary",
    {
        "frame": int,
        "steps": int,
        "return": float,
        "end": Literal["done", "time limit", "ended", "cut"],
        "cause": NotRequired[str],
    },
)


class TrajectoryEntry(TypedDict):
    steps: int
    series: str
    scrub: Sequence[str]
    frames: Sequence[str]
    images: NotRequired[Sequence[str]]
    episodes: NotRequired[Sequence[EpisodeSummary]]


class Bookmark(TypedDict):
    trajectory: int
    frame: int
    advantage: float


class Bookmarks(TypedDict):
    high: NotRequired[Sequence[Bookmark]]
    low: NotRequired[Sequence[Bookmark]]


class TrajectoriesSection(TypedDict):
    caption: NotRequired[str]
    segment: int
    scrub: Scrub
    film: FrameSheets
    trajectories: Sequence[TrajectoryEntry]
    bookmarks: NotRequired[Bookmarks]
    inputs: NotRequired[Sequence[str]]


class MatchedFeature(TypedDict):
    number: int
    similarity: float


class ReductionErrors(TypedDict):
    error: float
    fitted_on: int
    error_held_out: float | None


class FeatureStatistics(TypedDict):
    strongest: float
    frames: float
    positions: float
    error: float | None
    stability: float
    twins: Sequence[int]


class ReceptiveField(TypedDict):
    height: float
    width: float
    effective_height: float
    effective_width: float


class CoveredAttribution(TypedDict):
    next_feature: float
    coverage: NotRequired[Mapping[str, float | None]]


class LayerFeaturesEntry(TypedDict):
    thumbnails: Sequence[str]
    chunk: NotRequired[str]
    names: NotRequired[Sequence[str | None]]
    ids: NotRequired[Sequence[str]]
    matched: NotRequired[Sequence[MatchedFeature | None]]
    reduction: NotRequired[ReductionErrors]
    statistics: NotRequired[Sequence[FeatureStatistics]]
    signs: NotRequired[Mapping[str, Sequence[tuple[float, float]]]]
    receptive_field: NotRequired[ReceptiveField]
    facts: NotRequired[CoveredAttribution]
    images: NotRequired[Mapping[str, Sequence[str]]]
    optimized: NotRequired[Sequence[str]]


class AtlasEntry(TypedDict):
    count: int
    images: Sequence[str]
    columns: int
    per_image: int
    height: int
    width: int
    indices: Sequence[int]
    origins: Sequence[tuple[int, int] | None]
    episodes: NotRequired[Sequence[int]]


class FeaturesSection(TypedDict):
    caption: NotRequired[str]
    layers: Mapping[str, LayerFeaturesEntry]
    observations: NotRequired[AtlasEntry]


class OutputInfo(TypedDict):
    id: str
    kind: Literal["value", "action", "group", "greedy"]
    label: str
    action: NotRequired[int]
    group: NotRequired[int]
    error_limit: NotRequired[float]


class UnexplainedVariance(TypedDict):
    baseline: float
    memory: float
    completeness_error: float


class LayerEntry(TypedDict):
    name: str
    slug: str
    full_name: str
    kind: Literal["layer", "input"]
    height: int
    width: int
    depth: int
    channels: int
    colors: Sequence[str]
    hues: Sequence[Sequence[float]]
    effects: Mapping[str, Sequence[float]]
    scales: Mapping[str, Sequence[float]]
    totals: Sequence[str]
    attribution: Mapping[str, Sequence[Sequence[str]]]
    effect_spread: NotRequired[Mapping[str, Sequence[tuple[float, float]]]]
    limits: NotRequired[Mapping[str, Sequence[float]]]
    label: NotRequired[str]
    variance_share: NotRequired[Mapping[str, float | None]]
    unexplained: NotRequired[Mapping[str, UnexplainedVariance | None]]
    bypassed: NotRequired[bool]
    refined: NotRequired[Mapping[str, float]]
    incomplete: NotRequired[Mapping[str, float]]
    images: NotRequired[Mapping[str, Mapping[str, Sequence[Sequence[str]]]]]
    scrubs: NotRequired[Mapping[str, Mapping[str, Sequence[Sequence[str]]]]]


class AttributionSection(TypedDict):
    caption: NotRequired[str]
    outputs: Sequence[OutputInfo]
    layers: Sequence[LayerEntry]
    baseline: NotRequired[str]
    opening: NotRequired[str]


class Share(TypedDict):
    value: float
    low: float | None
    high: float | None


class AblationSummary(TypedDict):
    mean: Sequence[float]
    mean_abs: Sequence[float]
    correlation: Sequence[float]
    largest: NotRequired[Share]


class AblatedLayer(TypedDict):
    trajectories: Sequence[str]
    outputs: NotRequired[Mapping[str, AblationSummary]]


class AblationSection(TypedDict):
    caption: NotRequired[str]
    every: int
    layers: Mapping[str, AblatedLayer]
    to: NotRequired[Literal["baseline", "zero"]]


class MeanEffect(TypedDict):
    mean: float
    low: float | None
    high: float | None


class DistanceEffect(TypedDict):
    near: float
    far: float
    count: int
    value: MeanEffect | None
    policy: MeanEffect


class TypeEffects(TypedDict):
    name: str
    moves: bool
    count: int
    tracks: int
    frames: int
    episodes: int
    value: MeanEffect | None
    value_magnitude: MeanEffect | None
    policy: MeanEffect
    logits: Sequence[float]
    share_above_noise: float | None
    together_value: MeanEffect | None
    together_policy: MeanEffect
    by_distance: Sequence[DistanceEffect]


class EndingObject(TypedDict):
    track: int
    frame: int


class TrajectoryObjects(TypedDict):
    chunk: str
    types: Sequence[str]
    ended: NotRequired[Sequence[EndingObject]]


class ObjectsSection(TypedDict):
    caption: NotRequired[str]
    types: Sequence[TypeEffects]
    trajectories: Sequence[TrajectoryObjects]
    every: int
    last_steps: int
    frames: int
    skipped: int
    undrawn: int
    exact: bool
    unit: str
    value_range: float | None
    noise: float | None
    height: int
    width: int


class CandidateAgreement(TypedDict):
    baseline: str
    correlation: float | None
    signs: float | None
    advantage: tuple[float, float] | None


class BaselineSection(TypedDict):
    caption: NotRequired[str]
    chosen: str
    layer: str
    count: int
    large: int
    episodes: int
    candidates: Sequence[CandidateAgreement]


class AgreementNumber(TypedDict):
    value: float | None
    low: float | None
    high: float | None


class LayerAgreement(TypedDict):
    layer: str
    correlation: AgreementNumber
    signs: AgreementNumber
    magnitudes: AgreementNumber


class AgreementSection(TypedDict):
    caption: NotRequired[str]
    output: str
    count: int
    large: int
    episodes: int
    threshold: float
    layers: Sequence[LayerAgreement]


class MeasuredDifference(TypedDict):
    unedited: float
    ablated: float
    difference: float
    interval: tuple[float, float]
    corrected_interval: tuple[float, float]
    p: float
    adjusted_p: float


class FailureOdds(TypedDict):
    unedited: float | None
    ablated: float | None


BehaviorRow = TypedDict(
    "BehaviorRow",
    {
        "layer": str,
        "feature": int,
        "twins": Sequence[int],
        "episodes": int,
        "attribution": float | None,
        "ablation": float | None,
        "return_difference": float,
        "interval": tuple[float, float],
        "adjusted_p": float,
        "return": MeasuredDifference,
        "length": MeasuredDifference,
        "causes": Mapping[str, MeasuredDifference],
        "actions": Mapping[str, MeasuredDifference],
        "failures": NotRequired[Mapping[str, FailureOdds]],
        "invisible": NotRequired[str],
    },
)


class Clip(TypedDict):
    layer: str
    feature: int
    episode: int
    step: int
    image: str
    still: str
    lost: float


class BehaviorSection(TypedDict):
    caption: NotRequired[str]
    episodes: int
    tests: int
    output: str
    causes: Sequence[str]
    rows: Sequence[BehaviorRow]
    clips: Sequence[Clip]
    files: Sequence[str]


class MapOutput(TypedDict):
    id: str
    label: str


class CellCenters(TypedDict):
    rows: Sequence[float]
    columns: Sequence[float]


class MethodEntry(TypedDict):
    name: str
    label: str
    parameters: Mapping[str, bool | float | str]
    signed: bool
    outputs: Sequence[MapOutput]
    rows: int
    columns: int
    centers: CellCenters
    maps: Sequence[Sequence[str]]
    scales: Mapping[str, Sequence[float | None]]
    percentile: Mapping[str, float]


class SaliencySection(TypedDict):
    caption: NotRequired[str]
    every: int
    methods: Sequence[MethodEntry]
    agreement: NotRequired[str]
    differences: NotRequired[Sequence[str | None]]


class MapEntry(TypedDict):
    source: str
    label: str
    method: str
    chunk: str
    perplexity: float | None
    fitted_on: int


class MapColor(TypedDict):
    key: str
    label: str
    kind: Literal["number", "category"]
    names: NotRequired[Sequence[str]]


class StateMapSection(TypedDict):
    caption: NotRequired[str]
    maps: Sequence[MapEntry]
    colors: Sequence[MapColor]


class WhatIfSection(TypedDict):
    caption: NotRequired[str]
    network: NotRequired[str]
    runtime: NotRequired[str]
    sha256: NotRequired[str]
    layers: NotRequired[Sequence[str]]


class MeanReturn(TypedDict):
    mean: float
    error: float | None
    episodes: int


class CheckpointEntry(TypedDict):
    agent: str
    recording: str
    name: str
    step: float | None
    returns: MeanReturn
    entropy: float | None
    action_entropy: float | None
    action_shares: Sequence[float]
    totals: Mapping[str, float]
    correlation: Mapping[str, float | None]


class ReferenceTrajectory(TypedDict):
    agent: str
    recording: str
    source: str | None
    trajectory: int
    every: int
    shown: Sequence[str]
    divergence: str


class TrainingSection(TypedDict):
    caption: NotRequired[str]
    checkpoints: Sequence[CheckpointEntry]
    unit: str
    curve: str | None
    curve_source: str
    reference: ReferenceTrajectory


class UpdatedCheckpoint(TypedDict):
    name: str
    step: float | None
    shown: str
    changes: Mapping[str, float]


class MethodDescription(TypedDict):
    name: str
    label: str
    parameters: Mapping[str, bool | float | str]
    signed: bool
    outputs: Sequence[MapOutput]
    rows: int
    columns: int
    centers: CellCenters


class UpdatesSection(TypedDict):
    caption: NotRequired[str]
    unit: str
    steps: Sequence[int]
    checkpoints: Sequence[UpdatedCheckpoint]
    changes: str
    method: MethodDescription | None
    frames: NotRequired[Sequence[str]]


class Column(TypedDict):
    key: str
    label: str
    frame: NotRequired[bool]


class ChecksSection(TypedDict):
    caption: NotRequired[str]
    columns: Sequence[Column]
    rows: Sequence[Mapping[str, object]]
    report: Mapping[str, object]


class CheckEffects(TypedDict):
    caption: NotRequired[str]
    columns: Sequence[Column]
    rows: Sequence[Mapping[str, object]]


class PanelImage(TypedDict):
    image: str
    label: str
    trajectory: NotRequired[int]
    frame: NotRequired[int]


class CheckMaps(TypedDict):
    caption: NotRequired[str]
    images: Sequence[PanelImage]
    columns: NotRequired[int]


class Bar(TypedDict):
    label: str
    value: float
    low: NotRequired[float]
    high: NotRequired[float]
    color: NotRequired[str]


class CheckDeletion(TypedDict):
    caption: NotRequired[str]
    bars: Sequence[Bar]
    unit: NotRequired[str]


class CheckInsertion(TypedDict):
    caption: NotRequired[str]
    bars: Sequence[Bar]
    unit: NotRequired[str]


class FailuresSection(TypedDict):
    caption: NotRequired[str]
    columns: Sequence[Column]
    rows: Sequence[Mapping[str, object]]


class VerdictsSection(TypedDict):
    caption: NotRequired[str]
    bars: Sequence[Bar]
    unit: NotRequired[str]


class FailureClips(TypedDict):
    caption: NotRequired[str]
    images: Sequence[PanelImage]
    columns: NotRequired[int]


class Line(TypedDict):
    key: str
    label: str
    color: NotRequired[str]
    limits: NotRequired[tuple[float, float]]
    points: NotRequired[bool]


class FailureTracks(TypedDict):
    caption: NotRequired[str]
    trajectories: Sequence[str]
    series: Sequence[Line]


class GoalsSection(TypedDict):
    caption: NotRequired[str]
    columns: Sequence[Column]
    rows: Sequence[Mapping[str, object]]


class GoalImages(TypedDict):
    caption: NotRequired[str]
    images: Sequence[PanelImage]
    columns: NotRequired[int]


class SurvivalSection(TypedDict):
    caption: NotRequired[str]
    columns: Sequence[Column]
    rows: Sequence[Mapping[str, object]]


class FailureSurvivalSection(TypedDict):
    caption: NotRequired[str]
    columns: Sequence[Column]
    rows: Sequence[Mapping[str, object]]


class FindingsSection(TypedDict):
    caption: NotRequired[str]
    columns: Sequence[Column]
    rows: Sequence[Mapping[str, object]]


class NotFoundSection(TypedDict):
    caption: NotRequired[str]
    columns: Sequence[Column]
    rows: Sequence[Mapping[str, object]]


class DirectionEntry(TypedDict):
    name: str
    scale: float
    explained: float | None
    seed_stability: float | None
    half_stability: float | None
    kurtosis: float | None
    rare: NotRequired[bool]
    fits: NotRequired[Sequence[float]]
    effect: NotRequired[float]
    effect_interval: NotRequired[tuple[float, float]]


class ClusterEntry(TypedDict):
    method: str
    count: int
    sizes: Sequence[int]
    agreement: float | None


class BehaviorsEntry(TypedDict):
    count: int
    agreement: float | None
    chunk: str


class CausesEntry(TypedDict):
    lags: Sequence[int]
    clusters: Sequence[int]
    chunk: str


class RememberingEntry(TypedDict):
    changes: Sequence[str]
    chunk: str


class StatesSection(TypedDict):
    caption: NotRequired[str]
    method: str
    directions: Sequence[DirectionEntry]
    autocorrelation_lags: Sequence[int]
    outputs: Sequence[str]
    coordinates: Sequence[str]
    clusters: Sequence[ClusterEntry]
    skipped: Mapping[str, str]
    behaviours: BehaviorsEntry | None
    causes: CausesEntry | None
    memory: RememberingEntry | None
    cards: NotRequired[str]


class ReachEntry(TypedDict):
    steps: int
    effect: float
    interval: tuple[float, float]
    count: int
    episodes: int
    longest: int
    detectable: float
    noticeable: float


class DecisionEntry(TypedDict):
    trajectory: int
    frame: int
    begins: int
    until: int
    change: float
    policy: float
    spread: float


class MatrixEpisode(TypedDict):
    trajectory: int
    chunk: str


class MatrixSection(TypedDict):
    caption: NotRequired[str]
    partners: int
    reach: ReachEntry | None
    strongest: DecisionEntry | None
    episodes: Sequence[MatrixEpisode]
    skipped: str | None


class WindowTarget(TypedDict):
    id: str
    kind: Literal["value", "action", "direction"]
    label: str
    direction: NotRequired[int]


class WindowReason(TypedDict):
    kind: Literal["asked", "decision", "reward", "entropy", "end", "direction", "behaviour", "episode"]
    direction: NotRequired[int]
    end: NotRequired[Literal["top", "middle", "bottom"]]
    behaviour: NotRequired[int]


class WindowEntry(TypedDict):
    trajectory: int
    frame: int
    first: int
    targets: Sequence[str]
    why: Sequence[WindowReason]
    begins: NotRequired[int]
    partner: NotRequired[int]
    chunk: str


class WindowsSection(TypedDict):
    caption: NotRequired[str]
    targets: Sequence[WindowTarget]
    paths: Sequence[Literal["memory", "whole"]]
    windows: Sequence[WindowEntry]
    measured: NotRequired[int]
    disagree: NotRequired[int]


class InterventionRow(TypedDict):
    measure: str
    unedited: float | None
    edited: float | None
    difference: float | None
    interval: tuple[float | None, float | None]
    p: float | None
    adjusted_p: float | None
    effect: float | None
    corrected_interval: NotRequired[tuple[float | None, float | None]]


class InterventionEntry(TypedDict):
    label: str
    swap: Sequence[tuple[int, int | None]]
    rows: Sequence[InterventionRow]
    clip: str


class InterventionsSection(TypedDict):
    caption: NotRequired[str]
    episodes: int
    interventions: Sequence[InterventionEntry]
    skipped: str | None


class ProbesSection(TypedDict):
    caption: NotRequired[str]
    columns: Sequence[Column]
    rows: Sequence[Mapping[str, object]]
    probes: NotRequired[Sequence[Mapping[str, object]]]


class DeletionEntry(TypedDict):
    difference: float
    interval: tuple[float, float]
    fractions: Sequence[float]
    by_saliency: Sequence[float]
    random: Sequence[float]
    at: int
    starts: int


class ErrorDifference(TypedDict):
    smaller: str
    larger: str
    difference: float | None
    interval: tuple[float | None, float | None]


class QualityEntry(TypedDict):
    windows: int
    auc: float | None
    coverage: float | None
    latent_dimensions: float | None
    deletion: DeletionEntry | None
    errors: Mapping[str, Mapping[str, Sequence[Sequence[float | None]]]]
    coverage_interval: NotRequired[tuple[float | None, float | None]]
    auc_interval: NotRequired[tuple[float | None, float | None]]
    differences: NotRequired[Mapping[str, Sequence[ErrorDifference]]]


class CompassEntry(TypedDict):
    actions: Sequence[str]
    displacements: Sequence[tuple[float, float]]
    expected: Sequence[tuple[float, float]]
    agreement: Sequence[float | None]
    agreement_interval: NotRequired[Sequence[tuple[float | None, float | None]]]


class SimulatorSection(TypedDict):
    caption: NotRequired[str]
    quality: QualityEntry
    compass: CompassEntry | None
    clips: Sequence[str]
    context: int
    horizon: int
    fit: Mapping[str, object]


class ListedRun(TypedDict):
    recording: str
    name: str
    error: str | None


EpisodeRow = TypedDict(
    "EpisodeRow",
    {
        "run": int,
        "trajectory": int,
        "episode": int,
        "step": int | None,
        "return": float | None,
        "length": int,
        "time": float | None,
        "end": str,
        "explained": bool,
        "error": str | None,
        "entropy": NotRequired[float],
        "totals": NotRequired[Mapping[str, Mapping[str, float]]],
    },
)


class EpisodesSection(TypedDict):
    caption: NotRequired[str]
    live: bool
    runs: Sequence[ListedRun]
    episodes: Sequence[EpisodeRow]
    logdir: NotRequired[str]


SECTION_TYPES: Mapping[str, type] = {
    "trajectories": TrajectoriesSection,
    "features": FeaturesSection,
    "attribution": AttributionSection,
    "ablation": AblationSection,
    "objects": ObjectsSection,
    "baseline": BaselineSection,
    "agreement": AgreementSection,
    "behavior": BehaviorSection,
    "saliency": SaliencySection,
    "state_map": StateMapSection,
    "what_if": WhatIfSection,
    "training": TrainingSection,
    "updates": UpdatesSection,
    "checks": ChecksSection,
    "check_effects": CheckEffects,
    "check_maps": CheckMaps,
    "check_deletion": CheckDeletion,
    "check_insertion": CheckInsertion,
    "failures": FailuresSection,
    "verdicts": VerdictsSection,
    "failure_clips": FailureClips,
    "failure_tracks": FailureTracks,
    "goals": GoalsSection,
    "goal_images": GoalImages,
    "survival": SurvivalSection,
    "failure_survival": FailureSurvivalSection,
    "findings": FindingsSection,
    "not_found": NotFoundSection,
    "states": StatesSection,
    "memory_matrix": MatrixSection,
    "windows": WindowsSection,
    "interventions": InterventionsSection,
    "probes": ProbesSection,
    "simulator": SimulatorSection,
    "episodes": EpisodesSection,
}
"""By kind of section."""
