"""Analyses of an agent. A page shows their results. Each analysis is a module or a package.

An analysis is a subclass of `Analysis`. It is registered in `ANALYSES` below, by an entry point of the group
`rl_clarity.analyses`, or by `ANALYSES.register(name, analysis)`.
"""

from typing import Any

from rl_clarity.analyses.analysis import Analysis, Subject
from rl_clarity.base.registry import Registry

ANALYSES: Registry[type[Analysis[Any, Any]]] = Registry(
    "rl_clarity.analyses",
    {
        "trajectories": "rl_clarity.analyses.trajectories:TrajectoriesAnalysis",
        "features": "rl_clarity.analyses.features:FeaturesAnalysis",
        "attribution": "rl_clarity.analyses.attribution.analysis:AttributionAnalysis",
        "ablation": "rl_clarity.analyses.ablation:AblationAnalysis",
        "objects": "rl_clarity.analyses.objects.analysis:ObjectsAnalysis",
        "baseline": "rl_clarity.analyses.objects.baseline:BaselineAnalysis",
        "agreement": "rl_clarity.analyses.objects.page_agreement:AgreementAnalysis",
        "behavior": "rl_clarity.analyses.behavior:BehaviorAnalysis",
        "saliency": "rl_clarity.analyses.saliency:SaliencyAnalysis",
        "state_map": "rl_clarity.analyses.state_map:StateMapAnalysis",
        "examples": "rl_clarity.analyses.examples:ExamplesAnalysis",
        "what_if": "rl_clarity.analyses.what_if:WhatIfAnalysis",
        "training": "rl_clarity.analyses.checkpoints:TrainingAnalysis",
        "updates": "rl_clarity.analyses.updates:UpdatesAnalysis",
        "checks": "rl_clarity.analyses.checks.analysis:ChecksAnalysis",
        "failures": "rl_clarity.analyses.debugging.failures:FailuresAnalysis",
        "goals": "rl_clarity.analyses.debugging.goals:GoalsAnalysis",
        "survival": "rl_clarity.analyses.debugging.survival:SurvivalAnalysis",
        "findings": "rl_clarity.analyses.debugging.findings:FindingsAnalysis",
        "states": "rl_clarity.analyses.memory.states:StatesAnalysis",
        "memory_matrix": "rl_clarity.analyses.memory.matrix:MatrixAnalysis",
        "windows": "rl_clarity.analyses.memory.windows:WindowsAnalysis",
        "interventions": "rl_clarity.analyses.memory.interventions:InterventionsAnalysis",
        "probes": "rl_clarity.analyses.memory.probes:ProbesAnalysis",
        "simulator": "rl_clarity.analyses.memory.simulator:SimulatorAnalysis",
        "memory_map": "rl_clarity.analyses.memory.maps:MemoryMapAnalysis",
    },
    noun="analysis",
)

__all__ = ["ANALYSES", "Analysis", "Subject"]
