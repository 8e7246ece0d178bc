"""Attribution of an agent's outputs to its layers, one method per file."""

from rl_clarity.analyses.attribution.input_gradients import input_gradients
from rl_clarity.analyses.attribution.integrated_gradients import Attribution, attribute, integrated_gradients
from rl_clarity.analyses.attribution.layers import Layer, choose_layers, select_layers
from rl_clarity.analyses.attribution.multi_path import multi_path_attribution, multi_path_attributions

__all__ = [
    "Attribution",
    "Layer",
    "attribute",
    "choose_layers",
    "input_gradients",
    "integrated_gradients",
    "multi_path_attribution",
    "multi_path_attributions",
    "select_layers",
]
