"""Fit the features of a layer as `run` does for its page, without computing the rest of the page."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rl_clarity.agents.protocol import Agent
from rl_clarity.analyses.features import load_features
from rl_clarity.analyses.layers import LayersOptions, PageLayer, page_layers
from rl_clarity.base.errors import OptionError
from rl_clarity.commands.run import explain
from rl_clarity.jobs.directory import open_directory
from rl_clarity.pages.files import PageFiles
from rl_clarity.pages.options import InterfaceOptions, LoadOptions
from rl_clarity.reduction import ChannelReduction

KINDS = ("features", "objects", "baseline")
"""Analyses on which the features depend. The baseline is chosen by the measured effects of objects."""


def layer_with_features(agent: Agent, layer: str, options: InterfaceOptions | None = None) -> PageLayer:
    """Return a layer that has features on a page of `run` with these options. Raises OptionError for any other."""
    layers = {one.name: one for one in page_layers(agent, options or InterfaceOptions()) if not one.is_input}
    if layer not in layers:
        raise OptionError(f"layer={layer!r} has no features by default; layers with features: {', '.join(layers)}")
    return layers[layer]


def fit_as_run(checkpoint: Path, agent: Agent, layer: str, metadata: Mapping[str, Any]) -> ChannelReduction:
    """Let the agent of a checkpoint play, and return the features that `run` fits by default for a layer.

    Raises EnvironmentSetupError if there is no environment to play in, and the errors of `run`.
    """
    opening = page_layers(agent, InterfaceOptions())[0].name  # where the baseline is chosen
    options = InterfaceOptions(layers=LayersOptions(name_contains_one_of=(opening, layer)))
    with tempfile.TemporaryDirectory() as folder:
        explain(checkpoint, folder, options, load=LoadOptions(temp_files=True, metadata=metadata), kinds=KINDS)
        return load_features(PageFiles(open_directory(folder)), layer_with_features(agent, layer, options)).reduction
