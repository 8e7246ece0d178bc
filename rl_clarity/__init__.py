"""Explain agents trained by reinforcement learning: from a checkpoint to an interactive page.

The names below are the public API. Each is imported on first use, so that `import rl_clarity` is fast.
"""

from __future__ import annotations

import importlib
import sys
import types
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    import rl_clarity.formats.included as models  # noqa: F401
    from rl_clarity.agents.edited_agent import edit as edit
    from rl_clarity.agents.editing import Ablate as Ablate
    from rl_clarity.agents.editing import Steer as Steer
    from rl_clarity.agents.jax_agent import JaxAgent as JaxAgent
    from rl_clarity.agents.keras_agent import KerasAgent as KerasAgent
    from rl_clarity.agents.protocol import Agent as Agent
    from rl_clarity.agents.protocol import Outputs as Outputs
    from rl_clarity.agents.torch_agent import TorchAgent as TorchAgent
    from rl_clarity.analyses.attribution import default_layer as default_layer
    from rl_clarity.analyses.attribution import input_gradients as input_gradients
    from rl_clarity.analyses.attribution import input_integrated_gradients as input_integrated_gradients
    from rl_clarity.analyses.attribution import integrated_gradients as integrated_gradients
    from rl_clarity.analyses.attribution import jacobian_saliency as jacobian_saliency
    from rl_clarity.analyses.attribution import memory_saliency as memory_saliency
    from rl_clarity.analyses.attribution import multi_path_attribution as multi_path_attribution
    from rl_clarity.analyses.attribution import perturbation_saliency as perturbation_saliency
    from rl_clarity.analyses.attribution import select_layers as select_layers
    from rl_clarity.analyses.attribution import smooth_gradients as smooth_gradients
    from rl_clarity.analyses.checks.methods import hint_share as hint_share
    from rl_clarity.analyses.checks.methods import sanity_checks as sanity_checks
    from rl_clarity.analyses.edited_effects import lost_effects as lost_effects
    from rl_clarity.analyses.edited_effects import object_pairs as object_pairs
    from rl_clarity.base import errors as errors
    from rl_clarity.base.errors import ClarityError as ClarityError
    from rl_clarity.commands.ablate import ablate as ablate
    from rl_clarity.commands.check import check as check
    from rl_clarity.commands.compare import compare as compare
    from rl_clarity.commands.debug import debug as debug
    from rl_clarity.commands.evaluate import evaluate as evaluate
    from rl_clarity.commands.memory import explain_memory as explain_memory
    from rl_clarity.commands.record import record as record
    from rl_clarity.commands.run import generate as generate
    from rl_clarity.commands.run import run as run
    from rl_clarity.environments.hints import ActionHints as ActionHints
    from rl_clarity.explaining import explain_recording as explain_recording
    from rl_clarity.explaining import read_explanations as read_explanations
    from rl_clarity.formats.included import convert as convert
    from rl_clarity.formats.included import load_agent as load_agent
    from rl_clarity.integrations.gymnasium_ import RecordEpisodes as RecordEpisodes
    from rl_clarity.pages.document import recompile_js as recompile_js
    from rl_clarity.pages.export import export as export
    from rl_clarity.pages.gallery import gallery as gallery
    from rl_clarity.pages.options import ORIGINAL as ORIGINAL
    from rl_clarity.pages.results import open_results as open_results
    from rl_clarity.ppo import train as train
    from rl_clarity.recordings.advantages import generalized_advantage_estimation as generalized_advantage_estimation
    from rl_clarity.recordings.collection import collect as collect
    from rl_clarity.recordings.episode import Episode as Episode
    from rl_clarity.recordings.minari_ import write_minari as write_minari
    from rl_clarity.recordings.object_effects import ObjectEffects as ObjectEffects
    from rl_clarity.recordings.object_effects import object_effects as object_effects
    from rl_clarity.recordings.recorder import Recorder as Recorder
    from rl_clarity.recordings.recording import Recording as Recording
    from rl_clarity.recordings.recording import open_recording as open_recording
    from rl_clarity.reduction import ChannelReduction as ChannelReduction
    from rl_clarity.reduction.directions import Directions as Directions
    from rl_clarity.reduction.directions import fit_directions as fit_directions
    from rl_clarity.reduction.embedding import embed as embed
    from rl_clarity.reduction.swapping import SwapDirections as SwapDirections
    from rl_clarity.states.analysis import StateAnalysis as StateAnalysis
    from rl_clarity.states.analysis import analyze_states as analyze_states
    from rl_clarity.states.analysis import load_states as load_states
    from rl_clarity.states.correlation import consistency as consistency
    from rl_clarity.states.correlation import lagged_correlation as lagged_correlation
    from rl_clarity.states.influence import influence as influence
    from rl_clarity.states.intervention import intervene as intervene
    from rl_clarity.states.matrix import MemoryMatrix as MemoryMatrix
    from rl_clarity.states.matrix import memory_matrix as memory_matrix
    from rl_clarity.states.probes import Probe as Probe
    from rl_clarity.states.probes import Probes as Probes
    from rl_clarity.states.probes import probe as probe
    from rl_clarity.visualization.rendering import render_attribution as render_attribution
    from rl_clarity.world_models.deletion import deletion_test as deletion_test
    from rl_clarity.world_models.files import load_simulator as load_simulator
    from rl_clarity.world_models.files import save_simulator as save_simulator
    from rl_clarity.world_models.fitting import fit_simulator as fit_simulator
    from rl_clarity.world_models.gradients import saliency_through_time as saliency_through_time
    from rl_clarity.world_models.gradients import simulated_influence as simulated_influence
    from rl_clarity.world_models.latents import interpolate_latents as interpolate_latents
    from rl_clarity.world_models.latents import maximize as maximize
    from rl_clarity.world_models.quality import action_compass as action_compass
    from rl_clarity.world_models.quality import measure_quality as measure_quality
    from rl_clarity.world_models.simulation import simulate as simulate

_PUBLIC = {
    "Ablate": "rl_clarity.agents.editing",
    "ActionHints": "rl_clarity.environments.hints",
    "Agent": "rl_clarity.agents.protocol",
    "ChannelReduction": "rl_clarity.reduction",
    "ClarityError": "rl_clarity.base.errors",
    "Directions": "rl_clarity.reduction.directions",
    "Episode": "rl_clarity.recordings.episode",
    "JaxAgent": "rl_clarity.agents.jax_agent",
    "KerasAgent": "rl_clarity.agents.keras_agent",
    "MemoryMatrix": "rl_clarity.states.matrix",
    "ORIGINAL": "rl_clarity.pages.options",
    "ObjectEffects": "rl_clarity.recordings.object_effects",
    "Outputs": "rl_clarity.agents.protocol",
    "RecordEpisodes": "rl_clarity.integrations.gymnasium_",
    "Recorder": "rl_clarity.recordings.recorder",
    "Recording": "rl_clarity.recordings.recording",
    "StateAnalysis": "rl_clarity.states.analysis",
    "Steer": "rl_clarity.agents.editing",
    "SwapDirections": "rl_clarity.reduction.swapping",
    "TorchAgent": "rl_clarity.agents.torch_agent",
    "ablate": "rl_clarity.commands.ablate",
    "analyze_states": "rl_clarity.states.analysis",
    "check": "rl_clarity.commands.check",
    "collect": "rl_clarity.recordings.collection",
    "compare": "rl_clarity.commands.compare",
    "consistency": "rl_clarity.states.correlation",
    "convert": "rl_clarity.formats.included",
    "debug": "rl_clarity.commands.debug",
    "edit": "rl_clarity.agents.edited_agent",
    "embed": "rl_clarity.reduction.embedding",
    "evaluate": "rl_clarity.commands.evaluate",
    "explain_memory": "rl_clarity.commands.memory",
    "explain_recording": "rl_clarity.explaining",
    "export": "rl_clarity.pages.export",
    "fit_directions": "rl_clarity.reduction.directions",
    "gallery": "rl_clarity.pages.gallery",
    "generalized_advantage_estimation": "rl_clarity.recordings.advantages",
    "generate": "rl_clarity.commands.run",
    "hint_share": "rl_clarity.analyses.checks.methods",
    "influence": "rl_clarity.states.influence",
    "default_layer": "rl_clarity.analyses.attribution",
    "input_gradients": "rl_clarity.analyses.attribution",
    "input_integrated_gradients": "rl_clarity.analyses.attribution",
    "integrated_gradients": "rl_clarity.analyses.attribution",
    "intervene": "rl_clarity.states.intervention",
    "jacobian_saliency": "rl_clarity.analyses.attribution",
    "lagged_correlation": "rl_clarity.states.correlation",
    "load_agent": "rl_clarity.formats.included",
    "load_states": "rl_clarity.states.analysis",
    "lost_effects": "rl_clarity.analyses.edited_effects",
    "memory_matrix": "rl_clarity.states.matrix",
    "memory_saliency": "rl_clarity.analyses.attribution",
    "multi_path_attribution": "rl_clarity.analyses.attribution",
    "object_effects": "rl_clarity.recordings.object_effects",
    "object_pairs": "rl_clarity.analyses.edited_effects",
    "open_recording": "rl_clarity.recordings.recording",
    "open_results": "rl_clarity.pages.results",
    "perturbation_saliency": "rl_clarity.analyses.attribution",
    "Probe": "rl_clarity.states.probes",
    "Probes": "rl_clarity.states.probes",
    "probe": "rl_clarity.states.probes",
    "read_explanations": "rl_clarity.explaining",
    "record": "rl_clarity.commands.record",
    "recompile_js": "rl_clarity.pages.document",
    "render_attribution": "rl_clarity.visualization.rendering",
    "run": "rl_clarity.commands.run",
    "sanity_checks": "rl_clarity.analyses.checks.methods",
    "select_layers": "rl_clarity.analyses.attribution",
    "smooth_gradients": "rl_clarity.analyses.attribution",
    "train": "rl_clarity.ppo",
    "write_minari": "rl_clarity.recordings.minari_",
    "action_compass": "rl_clarity.world_models.quality",
    "fit_simulator": "rl_clarity.world_models.fitting",
    "deletion_test": "rl_clarity.world_models.deletion",
    "interpolate_latents": "rl_clarity.world_models.latents",
    "load_simulator": "rl_clarity.world_models.files",
    "maximize": "rl_clarity.world_models.latents",
    "measure_quality": "rl_clarity.world_models.quality",
    "saliency_through_time": "rl_clarity.world_models.gradients",
    "save_simulator": "rl_clarity.world_models.files",
    "simulate": "rl_clarity.world_models.simulation",
    "simulated_influence": "rl_clarity.world_models.gradients",
}

_RENAMED = {"analyse_states": "analyze_states", "maximise": "maximize"}
"""Current names of public functions, by their deprecated names."""

_MODULES = {"errors": "rl_clarity.base.errors", "models": "rl_clarity.formats.included"}

__all__ = sorted([*_PUBLIC, *_MODULES, "__version__"])


# Programs may also write `from rl_clarity.errors import ClarityError`.
sys.modules[f"{__name__}.errors"] = importlib.import_module(_MODULES["errors"])


def __getattr__(name: str) -> Any:
    if name in _RENAMED:
        from rl_clarity.base.renamed import warn_renamed

        warn_renamed(f"rl_clarity.{name}", f"rl_clarity.{_RENAMED[name]}")
        return getattr(sys.modules[__name__], _RENAMED[name])
    if name in _MODULES:
        return importlib.import_module(_MODULES[name])
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_PUBLIC[name]), name)
    if isinstance(value, types.FunctionType):
        from rl_clarity.base.parsing import check_arguments

        value = check_arguments(value)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
