"""Agents that take numbers beside the image: these are recorded, held while the image is explained, and shown."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import rl_clarity
from rl_clarity.agents.held_inputs import is_recurrent
from rl_clarity.analyses.attribution import attribute
from rl_clarity.base.errors import OptionError, SamplesError
from rl_clarity.pages.results import open_results
from tests.dictionaries import LENGTH, SHAPES, Dictionary, make_network

torch = pytest.importorskip("torch")


@pytest.fixture(scope="module")
def agent() -> Any:
    return rl_clarity.TorchAgent(make_network(), SHAPES, {"gamma": 0.9})


def observe(count: int = 5) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (count, *SHAPES["image"]), np.uint8)
    return {"image": images, "direction": np.arange(count) % 4, "speed": rng.normal(size=(count, 2))}


def test_the_module_receives_dictionary_observations_as_tensors(agent: Any) -> None:
    observed = observe()
    images, state = agent.image_and_state(observed)
    outputs = agent.forward(images, state)
    tensors = {name: torch.as_tensor(array).float() for name, array in observed.items()}
    with torch.no_grad():
        logits, values = agent.module(tensors | {"image": tensors["image"].permute(0, 3, 1, 2) / 255})
    np.testing.assert_allclose(outputs.policy_logits, logits, atol=1e-5)
    np.testing.assert_allclose(outputs.values, values, atol=1e-5)
    for before, after in zip(state, outputs.state, strict=True):
        np.testing.assert_array_equal(before, after)
    assert not is_recurrent(agent)


def test_attribution_of_the_image_holds_other_inputs_fixed(agent: Any) -> None:
    observed = observe()
    images, state = agent.image_and_state(observed)
    result = attribute(agent, images, "conv", state=state, baseline="zero-layer", steps=4)
    term = observed["speed"][:, 0] + 10 * observed["direction"]
    bias = float(agent.module.value.bias.detach()[0])
    np.testing.assert_allclose(result.scores_at_baseline[0], term + bias, atol=1e-5)
    np.testing.assert_allclose(result.completeness_error, 0, atol=1e-4)


@pytest.mark.parametrize(
    "make",
    [
        Dictionary,
        *(
            lambda mode=mode: gymnasium.vector.SyncVectorEnv([Dictionary, Dictionary], autoreset_mode=mode)
            for mode in gymnasium.vector.AutoresetMode
        ),
    ],
)
def test_collect_records_the_numeric_inputs_of_each_step(agent: Any, make: Callable[[], Any]) -> None:
    trajectories, observations = rl_clarity.collect(agent, make(), 3 * LENGTH, 4, obs_every=3)
    assert trajectories.states is not None
    assert observations.states is not None
    direction, speed = trajectories.states
    for row, firsts in enumerate(np.asarray(trajectories.firsts)):
        ages = np.arange(len(firsts)) - np.maximum.accumulate(np.where(firsts, np.arange(len(firsts)), 0))
        known = np.flatnonzero(firsts)[0]  # the first recorded step is not the first of its episode
        np.testing.assert_array_equal(speed[row, known:, 0], ages[known:])
        np.testing.assert_array_equal(direction[row, known:], ages[known:] % 4)
    assert trajectories.final_values is not None
    cut = np.asarray(trajectories.truncated) & (np.asarray(trajectories.final_values) != 0)
    assert cut.any()
    seen = np.concatenate([agent.forward(one, None).values for one in trajectories.observations])
    # The last observation of an episode that is cut off has the speed 12, and the direction 12 % 4 = 0.
    np.testing.assert_allclose(trajectories.final_values[cut], LENGTH + seen.mean(), atol=10 * seen.std())


def test_an_image_only_agent_takes_the_image_from_the_dictionary() -> None:
    image_only = rl_clarity.TorchAgent(
        make_network(),
        SHAPES["image"],
        forward=lambda network, images, _: network(
            {"image": images, "direction": images.new_zeros(len(images)), "speed": images.new_zeros(len(images), 2)}
        ),
    )
    trajectories, _ = rl_clarity.collect(image_only, Dictionary(), 8, 2, obs_every=2)
    assert trajectories.states is None


def test_environments_without_the_agents_numeric_inputs_are_refused(agent: Any) -> None:
    others = rl_clarity.TorchAgent(
        make_network(), SHAPES | {"height": (3,)}, forward=lambda network, observed, _: network(observed)
    )
    with pytest.raises(SamplesError, match=r"the agent takes 'height' of shape \(3,\), but the environment's"):
        rl_clarity.collect(others, Dictionary(), 8, 2)
    steps: dict[str, Any] = {"actions": np.zeros((1, 4), int), "rewards": np.zeros((1, 4)), "dones": np.zeros((1, 4))}
    images = np.zeros((1, 4, *SHAPES["image"]), np.uint8)
    with pytest.raises(SamplesError, match="lack the agent's inputs besides the image, direction, speed"):
        rl_clarity.generate(agent, {**steps, "observations": images}, images[0], "page")
    with pytest.raises(OptionError, match="has no image"):
        rl_clarity.TorchAgent(make_network(), {"speed": (2,)})


def test_pages_show_numeric_inputs_without_treating_them_as_memory(agent: Any, tmp_path: Path) -> None:
    trajectories, observations = rl_clarity.collect(agent, Dictionary(), 24, 16, obs_every=2)
    rl_clarity.generate(agent, trajectories, observations, tmp_path / "page", features={"count": 2})
    results = open_results(tmp_path / "page")
    (section,) = (one for one in results.manifest["sections"] if one["kind"] == "trajectories")
    assert section["data"]["inputs"] == ["direction", "speed 1", "speed 2"]
    assert results.manifest["agents"][0]["recurrent"] is False
    assert trajectories.states is not None
    inputs = results.series(0)["inputs"]
    np.testing.assert_array_equal(inputs[:, 0], trajectories.states[0][0])
    np.testing.assert_array_equal(inputs[:, 1:], trajectories.states[1][0])
    # An agent that played another network's steps is explained with the numbers that were recorded.
    other = rl_clarity.TorchAgent(make_network().double(), SHAPES)
    other.module.value.bias.data += 1
    again = rl_clarity.generate(other, trajectories, observations, tmp_path / "other", features={"count": 2})
    values = open_results(again.path.parent).series(0)["values"]
    np.testing.assert_allclose(values, np.asarray(trajectories.values)[0] + 1, atol=1e-4)
