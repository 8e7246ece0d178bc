"""Explain recorded episodes: write page sections and state maps beside a recording, during training or afterwards."""

from rl_clarity.explaining.files import EpisodeSections, Explanations, read_explanations
from rl_clarity.explaining.options import ExplainOptions
from rl_clarity.explaining.recordings import explain_recording
from rl_clarity.explaining.reports import ExplainedRecording

__all__ = [
    "EpisodeSections",
    "ExplainOptions",
    "ExplainedRecording",
    "Explanations",
    "explain_recording",
    "read_explanations",
]
