"""Networks that imitate players: they learn what is planted, and the debugger finds it."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")
import torch

from tests.planted import training
from tests.planted.agents import CLEAN, PLANTED
from tests.planted.measure import measure
from tests.planted.training import Network, demonstrate, train

SEED = 21
"""One of the seeds whose results are in the guide to the debugger."""


@pytest.mark.parametrize("memory", ["none", "count", "gru"])
def test_trained_networks_are_small_and_return_their_next_state(memory: str) -> None:
    network = Network(5, memory=memory)  # type: ignore[arg-type]
    assert sum(parameter.numel() for parameter in network.parameters()) < 60_000
    state = torch.zeros(2, network.state_size) if network.state_size else None
    _, value, *after = network(torch.zeros(2, 3, 36, 36), state)
    assert value.shape == (2, 1)
    assert [part.shape for part in after] == [(2, size) for size in (network.state_size,) if size]


def test_demonstrations_follow_the_players_policy_on_drawn_frames() -> None:
    player, world = CLEAN["careful"]
    shown = demonstrate(player, world, 4, seed=3)
    logits = player.forward(shown.images.reshape(-1, 36, 36, 3)).policy_logits
    assert logits is not None
    np.testing.assert_allclose(np.exp(logits), shown.policies.reshape(-1, 5), atol=1e-5)
    assert shown.firsts[:, 0].all()
    np.testing.assert_array_equal(demonstrate(player, world, 4, seed=3).images, shown.images)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["afraid of a harmless look-alike", "forgets a cue"])
def test_the_first_finding_is_the_planted_defect_of_a_trained_network(name: str) -> None:
    result = measure(name, SEED)
    assert result["agreement"] > 0.95
    assert result["first"] == PLANTED[name].key


@pytest.mark.slow
def test_a_network_without_defects_has_no_suspicious_findings() -> None:
    result = measure("careful", SEED)
    assert result["agreement"] > 0.95
    assert result["suspicious"] == []


@pytest.mark.slow
def test_training_is_reproducible_with_the_same_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "SEQUENCES", 400)
    player, world = CLEAN["alone"]
    first, second = (train(player, world, seed=2).module.state_dict() for _ in range(2))
    assert all(torch.equal(first[name], second[name]) for name in first)
