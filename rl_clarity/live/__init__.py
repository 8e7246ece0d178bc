"""Run the agent of a finished page on demand: its outputs for edited observations and features, and attribution."""

from rl_clarity.live.checkpoints import open_page_agent
from rl_clarity.live.network import LiveNetwork
from rl_clarity.live.requests import AttributionRequest, OutputsRequest, Superseded, parse_request

__all__ = ["AttributionRequest", "LiveNetwork", "OutputsRequest", "Superseded", "open_page_agent", "parse_request"]
