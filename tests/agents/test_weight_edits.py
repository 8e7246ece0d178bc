"""Edits as projections of weights, saved as a checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rl_clarity
from rl_clarity import Ablate, ChannelReduction, Steer
from rl_clarity.base.errors import OptionError, OutputError
from tests import state_dicts
from tests.agents.test_editing import heads, observations_for
from tests.fakes import TinyAgent


@pytest.fixture(scope="module")
def coinrun() -> Any:
    return rl_clarity.load_agent("models:coinrun")


@pytest.fixture(scope="module")
def frames() -> np.ndarray:
    """Blurred noise: images with structure."""
    coarse = np.random.default_rng(0).integers(0, 256, (6, 8, 8, 3), np.uint8)
    return coarse.repeat(8, axis=1).repeat(8, axis=2)


def component_of(agent: Any, layer: str, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).random(agent.layers[layer][-1])


def saved(agent: Any, path: Path) -> Any:
    agent.save(path)
    return rl_clarity.load_agent(path)


@pytest.mark.parametrize("strength", [1.0, 0.4])
def test_a_checkpoint_with_edited_weights_computes_the_edited_outputs(
    coinrun: Any, frames: np.ndarray, tmp_path: Path, strength: float
) -> None:
    component = component_of(coinrun, "2a")
    edited = rl_clarity.edit(
        coinrun, Ablate("2a", component=component, strength=strength), Ablate("4a", unit=[3, 5]), Ablate("2a", unit=1)
    )
    loaded = saved(edited, tmp_path / "agent.safetensors")
    # 4a is pooled before the next weights: units are removed alike, up to the small constant in the pooling.
    assert np.allclose(heads(loaded, frames), heads(edited, frames), atol=5e-3)
    assert not np.allclose(heads(loaded, frames), heads(coinrun, frames), atol=1e-2)
    assert loaded.metadata == coinrun.metadata
    assert loaded.checkpoint.notes[0].startswith("edited: Ablate('2a', component=(32)")
    assert len(loaded.checkpoint.notes) == len(coinrun.checkpoint.notes) + 3


def test_weight_edits_project_out_the_span_of_several_components(
    coinrun: Any, frames: np.ndarray, tmp_path: Path
) -> None:
    components = np.stack([component_of(coinrun, "2a", seed) for seed in range(3)])
    for name, everything_but in (("but", True), ("these", False)):
        ablation = Ablate("2a", component=components, signed=True, everything_but=everything_but)
        edited = rl_clarity.edit(coinrun, ablation)
        loaded = saved(edited, tmp_path / f"{name}.safetensors")
        assert np.allclose(heads(loaded, frames), heads(edited, frames), atol=1e-4)


@pytest.mark.parametrize("layer", ["2a", "2b"])
def test_removing_a_feature_from_weights_removes_only_its_attribution(
    coinrun: Any, frames: np.ndarray, tmp_path: Path, layer: str
) -> None:
    """The edit of Hilton et al. (2020)."""
    activations = coinrun.activations(frames, layer)

    def along(agent: Any, directions: np.ndarray) -> np.ndarray:
        """Mean magnitude of the attribution along directions: coefficient times derivative."""
        gradients = agent.gradients(frames, layer, ["value"])[0]
        squares = np.sum(directions**2, axis=1)
        return np.asarray(np.abs((activations @ directions.T) * (gradients @ directions.T) / squares).mean((0, 1, 2)))

    reduction = ChannelReduction.fit(activations * coinrun.gradients(frames, layer, ["value"])[0], 4, max_rows=2000)
    removed = reduction.components[0]
    others = reduction.components[1:] - np.outer(
        reduction.components[1:] @ removed / (removed @ removed), removed
    )  # what they do not share with it
    loaded = saved(rl_clarity.edit(coinrun, Ablate(layer, component=removed)), tmp_path / f"{layer}.safetensors")
    before, after = (along(agent, np.vstack([removed, others])) for agent in (coinrun, loaded))
    # Layer 2b is pooled before the next weights, nonlinearly.
    assert after[0] < (1e-5 if layer == "2a" else 0.2) * before[0]
    assert np.all(after[1:] > 0.5 * before[1:])


def test_dense_weights_are_edited_in_the_channel_order_of_the_checkpoint(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    arrays = state_dicts.ppo_atari(side=84)
    torch.save({name: torch.from_numpy(array) for name, array in arrays.items()}, tmp_path / "agent.pt")
    agent: Any = rl_clarity.load_agent(tmp_path / "agent.pt", env_name="BreakoutNoFrameskip-v4")
    layer = list(agent.layers)[-1]  # its activations are flattened, channels first in the file
    edited = rl_clarity.edit(agent, Ablate(layer, component=component_of(agent, layer)))
    loaded = saved(edited, tmp_path / "edited.safetensors")
    observations = observations_for(agent, 3)
    assert np.allclose(heads(loaded, observations), heads(edited, observations), rtol=1e-4, atol=1e-5)
    assert not np.allclose(heads(loaded, observations), heads(agent, observations), rtol=1e-3, atol=1e-4)


def test_edits_that_weights_cannot_express_are_refused(coinrun: Any, tmp_path: Path) -> None:
    path = tmp_path / "agent.safetensors"
    component = component_of(coinrun, "2a")
    for edit in (
        Ablate("2a", component=component, positions=[(0, 0)]),
        Ablate("2a", to="mean", data=coinrun.activations(np.zeros((1, 64, 64, 3), np.uint8), "2a")),
        Steer("2a", component, amount=1.0),
    ):
        with pytest.raises(OptionError, match=r"be applied to weights: .* Use the edited agent itself in Python"):
            rl_clarity.edit(coinrun, edit).save(path)
    starpilot: Any = rl_clarity.load_agent("models:starpilot-lstm")
    with pytest.raises(OutputError, match=r"must end in \.safetensors"):
        coinrun.save(tmp_path / "agent.jd")
    dense = next(site.name for site in coinrun.sites if site.name.endswith("pi/add"))
    with pytest.raises(OptionError, match="has no convolution or dense layer after it"):
        rl_clarity.edit(coinrun, Ablate(dense)).save(path)
    assert starpilot.checkpoint is not None
    assert not path.exists()


def test_weight_edits_refuse_layers_with_a_skip_around_the_next_weights(tmp_path: Path) -> None:
    from rl_clarity.formats.architectures import build
    from rl_clarity.formats.checkpoint import Checkpoint

    network = build("impala", (16, 16, 3), 5, {"stack_channels": "4_6", "emb_size": 12}, seed=1)
    agent: Any = rl_clarity.KerasAgent(network)
    agent.checkpoint = Checkpoint(tmp_path / "agent.jd", "baselines", "impala", network.parameters(), {})
    pooled = next(site.name for site in agent.sites if site.kind == "maxpool")
    with pytest.raises(OptionError, match=r"bypasses the next weights|is not linear") as raised:
        rl_clarity.edit(agent, Ablate(pooled, unit=0)).save(tmp_path / "agent.safetensors")
    assert "\n" not in str(raised.value)
    inside = next(iter(agent.layers))  # a ReLU inside a block is read by one convolution only
    rl_clarity.edit(agent, Ablate(inside, unit=0)).save(tmp_path / "agent.safetensors")


def test_only_edited_agents_that_were_loaded_from_a_checkpoint_are_saved(tmp_path: Path) -> None:
    from tests.agents.test_editing import torch_agent

    with pytest.raises(OptionError, match="was not loaded from a checkpoint"):
        rl_clarity.edit(torch_agent("Nature"), Ablate("network.3")).save(tmp_path / "agent.safetensors")


def test_an_edited_agent_plays_in_the_environment_of_its_checkpoint(coinrun: Any, tmp_path: Path) -> None:
    pytest.importorskip("procgen")
    edited: Any = rl_clarity.edit(coinrun, Ablate("2a"))
    options: dict[str, Any] = {"steps": 8, "seed": 3}
    recordings = [
        rl_clarity.record(agent, tmp_path / name, **options)
        for name, agent in (("path", "models:coinrun"), ("same", coinrun), ("edited", edited))
    ]
    path, same, other = (recording.metadata["checkpoint"]["sha256"] for recording in recordings)
    assert path == same != other
    actions = [np.concatenate([episode.actions for episode in recording]) for recording in recordings]
    assert np.array_equal(actions[0], actions[1])
    in_memory = rl_clarity.record(TinyAgent(), tmp_path / "tiny", **options)  # its metadata name a game
    assert in_memory.metadata["checkpoint"]["file"] == "in memory"
