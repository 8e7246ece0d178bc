"""Recurrent agents in memory play where their metadata name an environment; else a recording is explained."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rl_clarity
from rl_clarity.base.errors import EnvironmentSetupError, OptionError
from tests import memory_systems as systems
from tests.memory_systems import record_frames

OPTIONS: dict[str, Any] = {
    **{"method": "pca", "count": 2, "clusters": 2, "lags": (1, 2), "maps": ("pca",), "replay_steps": 2, "windows": 2},
    **{"influence_samples": 8, "intervention_episodes": 0},
}


def test_an_in_memory_agent_is_explained_with_a_recording(tmp_path: Path) -> None:
    agent = systems.xor_agent()
    recording = record_frames(agent, systems.xor_frames(8), tmp_path / "recording")
    results = rl_clarity.explain_memory(agent, tmp_path / "page", recording=recording, **OPTIONS).results()
    assert results.manifest["title"] == "system, TorchAgent: memory"
    assert len(results.section("windows")["windows"]) == 2


def keras_agent() -> Any:
    import keras
    from keras import layers

    from rl_clarity.agents.keras_agent import KerasAgent

    frames, before = keras.Input((16, 16, 3)), keras.Input((4,))
    seen = layers.Flatten()(layers.Conv2D(2, 4, strides=4, activation="relu", name="conv")(frames))
    after = layers.Dense(4, activation="tanh")(layers.Concatenate()([seen, before]))
    heads = [layers.Dense(3, name="policy")(after), layers.Dense(1, name="value")(after), after]
    return KerasAgent(keras.Model([frames, before], heads), initial_state=[np.zeros(4)])


def jax_agent() -> Any:
    pytest.importorskip("flax")
    from tests.agents import jax_networks

    shape = (44, 44, 4)
    state = (np.full(8, 0.25), np.zeros(8))
    return rl_clarity.JaxAgent(*jax_networks.initialized("Recurrent", shape), shape, initial_state=state)


def keras_grid_agent() -> Any:
    """Its state is a grid of 4 x 4 places with 2 channels, as that of a ConvLSTM."""
    import keras
    from keras import layers

    from rl_clarity.agents.keras_agent import KerasAgent

    frames, before = keras.Input((16, 16, 3)), keras.Input((4, 4, 2))
    seen = layers.Conv2D(2, 4, strides=4, name="conv")(frames)
    after = layers.Activation("tanh")(layers.Add()([seen, layers.Conv2D(2, 3, padding="same")(before)]))
    read = layers.Flatten()(after)
    heads = [layers.Dense(3, name="policy")(read), layers.Dense(1, name="value")(read), after]
    return KerasAgent(keras.Model([frames, before], heads), initial_state=[np.zeros((4, 4, 2))])


def torch_grid_agent() -> Any:
    import torch

    mix = torch.nn.Conv2d(2, 2, 3, padding=1)

    def step(observations: Any, state: Any) -> tuple[Any, Any]:
        after = torch.tanh(mix(state).detach() + 0.5 * state + observations[:, :2, :3, :3])
        return after.sum(dim=(1, 2, 3)), after

    return systems.make_agent(step, (2, 3, 3))


@pytest.mark.slow
@pytest.mark.parametrize("make", [keras_agent, jax_agent, keras_grid_agent, torch_grid_agent])
def test_memory_of_agents_of_every_framework_is_explained(make: Callable[[], Any], tmp_path: Path) -> None:
    agent = make()
    frames = np.random.default_rng(0).integers(0, 256, (6, 8, *agent.observation_shape), np.uint8)
    recording = systems.record_frames(agent, frames, tmp_path / "recording")
    results = rl_clarity.explain_memory(agent, tmp_path / "page", recording=recording, **OPTIONS).results()
    assert len(results.section("windows")["windows"]) == 2
    causes = results.chunk(results.section("states")["causes"]["chunk"])
    assert np.isfinite(causes["influence"]).all()


def test_explain_memory_without_a_recording_names_the_missing_environment(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentSetupError, match="system"):
        rl_clarity.explain_memory(systems.xor_agent(), tmp_path / "page", **OPTIONS)
    with pytest.raises(OptionError, match="needs an agent with forward"):
        rl_clarity.explain_memory(object(), tmp_path / "page", **OPTIONS)  # type: ignore[call-overload]


def test_an_in_memory_agent_records_in_the_environment_of_its_metadata(tmp_path: Path) -> None:
    agent = systems.cue_agent(3, updates=0)
    recording = rl_clarity.record(agent, tmp_path / "recording", episodes=6)
    assert [len(episode) for episode in recording] == [5] * 6
    assert recording.metadata["checkpoint"]["file"] == "in memory"
    other = systems.cue_agent(3, updates=0, seed=1)
    with pytest.raises(OptionError, match="not the one that played"):
        rl_clarity.explain_memory(other, tmp_path / "page", recording=recording, **OPTIONS)
    analysis = rl_clarity.analyze_states(agent, recording, method="pca", count=2, clusters=2, lags=(1,), maps=())
    swap = rl_clarity.SwapDirections({0: None}, directions=analysis.directions)
    assert len(rl_clarity.intervene(agent, swap, episodes=4).returns) == 4
