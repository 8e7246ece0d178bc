"""Steps of a page about memory are explained as the page's own windows are."""

from __future__ import annotations

import base64
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rl_clarity
from rl_clarity.base.errors import ClarityError, OptionError, SamplesError
from rl_clarity.live import LiveNetwork
from rl_clarity.pages.chunks import Chunk, decode_chunk
from rl_clarity.pages.results import open_results
from rl_clarity.states.analysis import ARRAYS
from tests.fakes import TinyAgent
from tests.light_switch import checkpoint
from tests.live.pages import ask, open_network, tiny_agent, write_page

OPTIONS: dict[str, Any] = {
    "states": {"count": 3, "method": "pca", "clusters": 3, "lags": (1,), "maps": (), "replay_steps": 0},
    "play": {"episodes": 5, "max_steps": 16},
    "windows": {"at": ("2:10", "3:7"), "count": 2, "directions": 1},
    "interventions": {"count": 0, "episodes": 0},
}


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> LiveNetwork:
    directory = tmp_path_factory.mktemp("memory")
    results = rl_clarity.explain_memory(checkpoint("memory"), directory / "page", **OPTIONS).results()
    return LiveNetwork(results, rl_clarity.load_agent(checkpoint("memory")))


def arrays_of(answer: dict[str, Any]) -> dict[str, np.ndarray]:
    chunk = answer["chunk"]
    return decode_chunk(Chunk(answer["window"]["chunk"], chunk["header"], base64.b64decode(chunk["data"])))


@pytest.mark.parametrize("number", [0, 1])
def test_a_window_computed_live_equals_the_stored_window(network: LiveNetwork, number: int) -> None:
    section = network.results.section("windows")
    entry = section["windows"][number]
    answer = ask(network, "window", trajectory=entry["trajectory"], step=entry["frame"])
    own = {key: entry[key] for key in ("chunk", "why")}
    assert {**answer["window"], **own} == entry
    assert all(target in section["targets"] for target in answer["targets"])
    stored, computed = network.results.chunk(entry["chunk"]), arrays_of(answer)
    assert computed.keys() == stored.keys()
    for name, array in stored.items():
        np.testing.assert_allclose(computed[name], array, atol=1 if name == "memory" else 1e-4, err_msg=name)


def test_steps_without_a_stored_window_are_explained_live(network: LiveNetwork) -> None:
    answer = ask(network, "window", trajectory=0, step=9)
    window = answer["window"]
    assert (window["trajectory"], window["frame"], window["why"]) == (0, 9, [{"kind": "asked"}])
    arrays = arrays_of(answer)
    assert arrays["memory"].shape[:2] == (len(window["targets"]), 9 - window["first"] + 1)
    assert [target["id"] for target in answer["targets"]] == window["targets"]
    action = window["targets"].index("action")
    assert np.abs(arrays["memory.sums"][action, :-1]).argmax() == 0, "the lamp in the first frame"


@pytest.mark.parametrize(("trajectory", "step"), [(0, 0), (0, 1000), (-1, 3), (5, 3)])
def test_first_steps_and_steps_out_of_range_are_refused(network: LiveNetwork, trajectory: int, step: int) -> None:
    with pytest.raises(OptionError, match="out of range"):
        ask(network, "window", trajectory=trajectory, step=step)


def test_live_windows_need_a_memory_page_and_an_agent_with_gradients(network: LiveNetwork, tmp_path: Path) -> None:
    other = open_network(write_page(tmp_path, tiny_agent("recurrent")), "recurrent")
    with pytest.raises(OptionError, match="is not about memory"):
        ask(other, "window", trajectory=0, step=3)
    height, width, channels = network.agent.observation_shape
    without_gradients = TinyAgent("recurrent", (height, width, channels), network.agent.num_actions)
    with pytest.raises(OptionError, match="state_gradients"):
        ask(LiveNetwork(network.results, without_gradients), "window", trajectory=0, step=3)


def test_windows_are_refused_if_states_differ_from_the_page(network: LiveNetwork, tmp_path: Path) -> None:
    results = rl_clarity.explain_memory(checkpoint("memory"), tmp_path, **OPTIONS).results()
    file = tmp_path / "states" / ARRAYS
    with np.load(file) as stored:
        arrays = dict(stored)
    arrays["coordinates"] = arrays["coordinates"] + 1
    content = io.BytesIO()
    np.savez(content, **arrays)
    file.write_bytes(content.getvalue())
    with pytest.raises(ClarityError, match="differ from the page's by up to"):
        ask(LiveNetwork(results, network.agent), "window", trajectory=0, step=3)
    file.unlink()
    with pytest.raises(SamplesError, match="no analysis of states"):
        ask(LiveNetwork(open_results(tmp_path), network.agent), "window", trajectory=0, step=3)
