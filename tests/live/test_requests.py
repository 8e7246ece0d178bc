"""What is no request, or asks for what a page does not have, is refused with the place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rl_clarity.base.errors import ClarityError, SamplesError
from rl_clarity.live import LiveNetwork, parse_request
from rl_clarity.live.requests import MAX_BOXES, MAX_BYTES, MAX_STEPS
from rl_clarity.pages.results import open_results
from tests.live.pages import LAYER, STEPS, ask, open_network, tiny_agent, write_page

RANGE = {"trajectory": 0, "first": 0, "last": 3}


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> LiveNetwork:
    return open_network(write_page(tmp_path_factory.mktemp("page")))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"\xff{", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b'{"trajectory": NaN, "first": 0, "last": 1}', "NaN is not a valid number"),
        (b"[]", "request must be an object"),
        (b'{"trajectory": 0, "first": 0}', "request.last is missing"),
        (b'{"trajectory": "0", "first": 0, "last": 1}', "request.trajectory must be an integer"),
        (b'{"trajectory": 1e400, "first": 0, "last": 1}', "request.trajectory must be an integer"),
        (b'{"trajectory": 0, "first": 3, "last": 1}', "last=1"),
        (json.dumps({**RANGE, "last": MAX_STEPS}).encode(), f"last={MAX_STEPS}"),
        (json.dumps({**RANGE, "change": {"boxes": [{"box": [0, 0, 1]}]}}).encode(), "must be a list of 4"),
        (json.dumps({**RANGE, "change": {"boxes": [{"box": [0, 0, 1, 1], "fill": "x"}]}}).encode(), "'surroundings'"),
        (json.dumps({**RANGE, "change": {"boxes": [{"box": [0, 0, 1, 1]}] * (MAX_BOXES + 1)}}).encode(), "at most"),
        (json.dumps({**RANGE, "change": {"pixels": "AAAA"}}).encode(), "for a single step"),
        (json.dumps({**RANGE, "change": {"features": [{"layer": "2a", "factors": {"1": 1e300}}]}}).encode(), "2^31"),
        (b" " * (MAX_BYTES + 1), "too large"),
    ],
)
def test_malformed_requests_are_refused(body: bytes, message: str) -> None:
    with pytest.raises(ClarityError, match=message.replace("^", r"\^")):
        parse_request("outputs", body)


def test_an_unknown_request_type_is_refused() -> None:
    with pytest.raises(ClarityError, match="'delete'; known: outputs"):
        parse_request("delete", b"{}")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"trajectory": 1}, "trajectory 1 is out of range"),
        ({"trajectory": -1}, "trajectory -1 is out of range"),
        ({"last": STEPS}, "out of range"),
        ({"first": -2}, "out of range"),
        ({"change": {"boxes": [{"box": [0, 0, 17, 4]}]}}, "not inside an observation of 16 x 16"),
        ({"change": {"boxes": [{"box": [4, 0, 4, 4]}]}}, "not inside an observation"),
        ({"change": {"boxes": [{"box": [0, 0, 4, 4], "fill": "color", "color": [0, 256, 0]}]}}, "0 to 255"),
        ({"change": {"boxes": [{"box": [0, 0, 4, 4], "fill": "color"}]}}, "0 to 255"),
        ({"change": {"boxes": [{"box": [0, 0, 4, 4], "fill": "frame", "step": STEPS}]}}, "out of range"),
        ({"last": 0, "change": {"pixels": "!"}}, "not base64"),
        ({"last": 0, "change": {"pixels": "AAAA"}}, "pixels have 3 bytes"),
        ({"change": {"features": [{"layer": "9z", "factors": {"1": 0}}]}}, "unknown layer '9z'"),
        ({"change": {"features": [{"layer": LAYER, "factors": {"4": 0}}]}}, "feature 4 is out of range"),
        ({"change": {"features": [{"layer": LAYER, "factors": {"__proto__": 0}}]}}, "must be a number from 1"),
        ({"change": {"features": [{"layer": LAYER, "factors": {"1": 101}}]}}, "from -100 to 100"),
        ({"change": {"features": [{"layer": LAYER, "added": {"1": 1}, "positions": [[9, 9]]}]}}, "positions"),
    ],
)
def test_requests_for_data_that_the_page_does_not_have_are_refused(
    network: LiveNetwork, values: dict[str, Any], message: str
) -> None:
    with pytest.raises(ClarityError, match=message):
        ask(network, "outputs", **{**RANGE, **values})


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"layer": "9z"}, "9z"),
        ({"output": "action-4"}, "unknown output 'action-4'"),
        ({"output": "group-99999999999"}, "unknown output"),
        ({"baseline": "nothing"}, "baseline='nothing'"),
        ({"points": 10_000}, "points=10000"),
    ],
)
def test_attribution_that_cannot_be_computed_is_refused(
    network: LiveNetwork, values: dict[str, Any], message: str
) -> None:
    with pytest.raises(ClarityError, match=message):
        ask(network, "attribution", **{"trajectory": 0, "step": 0, "layer": LAYER, **values})


def test_a_page_without_stored_observations_has_no_live_network(network: LiveNetwork) -> None:
    results = open_results(network.results.location)
    results.manifest["agents"][0]["observation"]["frame_height"] = 512
    with pytest.raises(SamplesError, match="drawn at a different resolution"):
        LiveNetwork(results, tiny_agent())


def test_a_page_that_names_no_checkpoint_has_no_live_network(network: LiveNetwork, tmp_path: Path) -> None:
    from rl_clarity.live import open_page_agent

    with pytest.raises(ClarityError, match="does not name the checkpoint"):
        open_page_agent(network.results)
