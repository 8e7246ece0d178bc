"""Attribution of an agent's outputs to its layers and to the input, with a module for each method."""

from rl_clarity.analyses.attribution.input_gradients import input_gradients
from rl_clarity.analyses.attribution.input_integrated_gradients import input_integrated_gradients
from rl_clarity.analyses.attribution.integrated_gradients import Attribution, attribute, integrated_gradients
from rl_clarity.analyses.attribution.jacobian import jacobian_saliency
from rl_clarity.analyses.attribution.layers import choose_layers, default_layer, select_layers
from rl_clarity.analyses.attribution.multi_path import multi_path_attribution, multi_path_attributions
from rl_clarity.analyses.attribution.perturbation import PerturbationGrid, memory_saliency, perturbation_saliency
from rl_clarity.analyses.attribution.smooth_gradients import smooth_gradients

__all__ = [
    "Attribution",
    "PerturbationGrid",
    "attribute",
    "choose_layers",
    "default_layer",
    "input_gradients",
    "input_integrated_gradients",
    "integrated_gradients",
    "jacobian_saliency",
    "memory_saliency",
    "multi_path_attribution",
    "multi_path_attributions",
    "perturbation_saliency",
    "select_layers",
    "smooth_gradients",
]
