"""Explain recorded episodes: sections and maps of states beside a recording, while an agent learns or afterwards."""

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
