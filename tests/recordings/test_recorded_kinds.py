"""Recordings, their explanations, and comparisons of agents with other actions or observations than one choice and
images.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import gymnasium  # noqa: E402

import rl_clarity  # noqa: E402
from rl_clarity.agents.actions import (  # noqa: E402
    Binary,
    Categorical,
    Gaussian,
    count_outputs,
    factors_from_json,
    factors_to_json,
)
from rl_clarity.base.errors import OptionError  # noqa: E402
from rl_clarity.recordings.recording import Recording  # noqa: E402
from rl_clarity.viewer.episodes import ShownEpisode, describe_recorded_agent  # noqa: E402
from tests.dictionaries import SHAPES, Dictionary, make_network  # noqa: E402
from tests.point_world import SIDE, PointWorld  # noqa: E402
from tests.recordings.test_action_kinds import FACTORS, Network  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:the network's .* change by")

for kind in FACTORS:
    gymnasium.register(f"Point{kind}-v0", lambda kind=kind, **_: PointWorld(kind))
gymnasium.register("Dictionary-v0", lambda **_: Dictionary())


def _metadata(name: str) -> dict[str, Any]:
    return {"env_kind": "gymnasium", "env_name": name, "gamma": 0.9}


def _record(agent: Any, folder: Path) -> Recording:
    return rl_clarity.record(agent, folder, episodes=2)


def _vectors() -> Any:
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))
    return rl_clarity.TorchAgent(module, (4,), _metadata("CartPole-v1"), heads=("policy_logits",))


@pytest.mark.parametrize("kind", FACTORS)
def test_recordings_describe_actions_with_several_factors(tmp_path: Path, kind: str) -> None:
    factors = FACTORS[kind]
    agent = rl_clarity.TorchAgent(
        Network(count_outputs(factors)), (SIDE, SIDE, 3), _metadata(f"Point{kind}-v0"), actions=factors
    )
    recording = _record(agent, tmp_path)
    assert recording[0].actions.shape == (12, len(factors))
    info = describe_recorded_agent(recording.metadata, recording[0], "agent-1")
    assert [factor.label for factor in info.factors or ()] == [factor.name for factor in factors]
    assert info.actions[0].label.startswith(f"{factors[0].name}: ")
    if kind == "multidiscrete":
        (report,) = rl_clarity.explain_recording(tmp_path, agent=agent, methods=["jacobian"], every=6, embeddings=())
        assert report.explained == 2


def test_action_factors_survive_conversion_to_json() -> None:
    factors = (Categorical(2, "gear", ("low", "high")), Binary("brake"), Gaussian(-1, np.inf, std=0.5, name="gas"))
    assert factors_from_json(factors_to_json(factors)) == factors
    with pytest.raises(OptionError, match="are not factors of an action"):
        factors_from_json([{"kind": "Dial"}])


def test_numeric_inputs_are_recorded_without_being_treated_as_memory(tmp_path: Path) -> None:
    agent = rl_clarity.TorchAgent(make_network(), SHAPES, _metadata("Dictionary-v0"))
    recording = _record(agent, tmp_path)
    info = describe_recorded_agent(recording.metadata, recording[0], "agent-1")
    assert not info.recurrent
    series = ShownEpisode(recording, recording[0], info).series()
    np.testing.assert_array_equal(series["info.speed 1"], np.arange(len(recording[0])))
    (report,) = rl_clarity.explain_recording(tmp_path, agent=agent, methods=[], embeddings=["pca"])
    assert report.explained == 2
    explanations = rl_clarity.read_explanations(tmp_path)
    assert explanations is not None
    assert explanations.state_map is not None
    assert explanations.state_map["maps"][0]["label"] != "recurrent state"


def test_vector_agents_are_recorded_and_explained_without_saliency(tmp_path: Path) -> None:
    agent = _vectors()
    recording = _record(agent, tmp_path)
    episode = recording[0]
    assert episode.observations.shape == (len(episode), 1, 1, 4)
    series = ShownEpisode(recording, episode, describe_recorded_agent(recording.metadata, episode, "agent-1")).series()
    np.testing.assert_array_equal(series["info.input 3"], np.asarray(episode.observations)[:, 0, 0, 2])
    (report,) = rl_clarity.explain_recording(tmp_path, agent=agent, methods=[], embeddings=["pca"])
    assert report.explained == 2
    (refused,) = rl_clarity.explain_recording(tmp_path, agent=agent, embeddings=())
    assert "Use methods=()" in str(refused)


def _checkpoints(folder: Path, policy: str, env: str) -> Path:
    sb3 = pytest.importorskip("stable_baselines3")
    folder.mkdir()
    for seed in (0, 1):
        model = sb3.PPO(policy, env, n_steps=32, batch_size=32, seed=seed, device="cpu")
        model.num_timesteps = 100 * (seed + 1)
        model.save(folder / f"rl_model_{seed + 1}00_steps.zip")
    return folder


PLAY = {"episodes": 1, "max_steps": 12, "candidates": 1}


def test_compare_uses_recorded_inputs_of_dictionary_agents(tmp_path: Path) -> None:
    folder = _checkpoints(tmp_path / "dictionary", "MultiInputPolicy", "Dictionary-v0")
    page = rl_clarity.compare(
        folder, tmp_path / "page", metadata=_metadata("Dictionary-v0"), play=PLAY, saliency={"methods": ()}
    )
    results = page.results()
    recording = rl_clarity.open_recording(tmp_path / "page/.rl-clarity/recordings/agent-2")
    episode = recording[0]
    values = results.chunk("training/shown-2.js")["values"][: len(episode)]
    np.testing.assert_allclose(values, np.asarray(episode.values), atol=1e-5)
    assert np.ptp(values) > 0


def test_compare_supports_vector_agents_without_saliency(tmp_path: Path) -> None:
    folder = _checkpoints(tmp_path / "vectors", "MlpPolicy", "CartPole-v1")
    page = rl_clarity.compare(
        folder, tmp_path / "page", metadata=_metadata("CartPole-v1"), play=PLAY, saliency={"methods": ()}
    )
    kinds = {section["kind"] for section in page.results().manifest["sections"]}
    assert kinds == {"trajectories", "training", "updates"}
