"""Questions to the network behind a finished page: its outputs on edited observations, and with edited features."""

from rl_clarity.live.checkpoints import open_page_agent
from rl_clarity.live.network import LiveNetwork
from rl_clarity.live.requests import AttributionRequest, OutputsRequest, Superseded, parse_request

__all__ = ["AttributionRequest", "LiveNetwork", "OutputsRequest", "Superseded", "open_page_agent", "parse_request"]
