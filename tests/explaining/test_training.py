"""Explaining what a real training recorded, with the checkpoints that it stored."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import rl_clarity
from rl_clarity.analyses.checkpoints import jensen_shannon
from rl_clarity.base.statistics import softmax
from rl_clarity.explaining import Explanations
from rl_clarity.pages.chunks import decode_chunk, parse_script
from rl_clarity.recordings.agreement import episode_states
from rl_clarity.recordings.recording import Recording, StoredRecording, open_recording
from tests.explaining.recordings import read
from tests.ppo.small import tiny

pytestmark = pytest.mark.slow
RECORDED: dict[str, Any] = {"every": 1, "envs": (0, 1), "on_error": "raise"}
SIDE = 36
"""The smallest image that the convolutions of NatureCNN take."""


class Steps(gymnasium.Env[np.ndarray, np.int64]):
    """Episodes of some steps of random images."""

    action_space = gymnasium.spaces.Discrete(3)

    def __init__(self, side: int, steps: int) -> None:
        self.observation_space = gymnasium.spaces.Box(0, 255, (side, side, 3), np.uint8)
        self.steps = steps

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.age = 0
        return self.draw(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.age += 1
        return self.draw(), float(action == 1), self.age == self.steps, False, {}

    def draw(self) -> np.ndarray:
        return self.np_random.integers(0, 256, self.observation_space.shape).astype(np.uint8)


def explain(folder: Path, **options: Any) -> tuple[Recording, Explanations]:
    (report,) = rl_clarity.explain_recording(folder, **{"methods": ["jacobian"], "every": 4, **options})
    assert report.skipped == {}
    assert report.explained == report.episodes > 1
    explanations = read(Path(report.location))
    recording = open_recording(report.location)
    assert [*explanations.episodes] == [one.index for one in recording if one.end != "still going"]
    return recording, explanations


def check_states(recording: Recording) -> None:
    """Check that the checkpoint gives the outputs that were recorded where its episode begins, from recorded states."""
    for episode in recording:
        checkpoint = recording.checkpoint(episode)
        assert checkpoint is not None
        agent = rl_clarity.load_agent(checkpoint)
        states = episode_states(agent, episode)
        assert states is not None
        rows = slice(0, 2)
        outputs = agent.forward(np.asarray(episode.observations[rows]), tuple(part[rows] for part in states))
        recorded = episode.policy_logits
        assert recorded is not None
        assert outputs.policy_logits is not None
        np.testing.assert_allclose(recorded[:1], outputs.policy_logits[:1], atol=1e-4)


@pytest.mark.parametrize("algorithm", ["PPO", "DQN", "RecurrentPPO"])
def test_episodes_recorded_by_stable_baselines3_are_explained(algorithm: str, tmp_path: Path) -> None:
    stable_baselines3 = pytest.importorskip("stable_baselines3")
    sb3_contrib = pytest.importorskip("sb3_contrib")
    from rl_clarity.integrations import sb3

    options: dict[str, Any] = {"n_steps": 32, "batch_size": 32, "n_epochs": 1}
    if algorithm == "DQN":
        options = {"buffer_size": 64, "learning_starts": 16, "batch_size": 8}
    kwargs: dict[str, Any] = {"features_extractor_kwargs": {"features_dim": 8}}
    if algorithm == "RecurrentPPO":
        kwargs |= {"lstm_hidden_size": 6}
    policy = "CnnLstmPolicy" if algorithm == "RecurrentPPO" else "CnnPolicy"
    kind = getattr(sb3_contrib if algorithm == "RecurrentPPO" else stable_baselines3, algorithm)
    model = kind(policy, Steps(SIDE, 10), policy_kwargs=kwargs, seed=0, device="cpu", **options)
    model.learn(64, callback=sb3.RecorderCallback(tmp_path, every=2, on_error="raise"))
    recording, explanations = explain(tmp_path)
    section = explanations.saliency(explanations.episodes)
    assert section is not None
    (method,) = section.methods
    outputs = ["policy", "greedy"] if algorithm == "DQN" else ["policy", "value"]
    assert [one.id for one in method.outputs] == outputs
    assert explanations.state_map is not None
    about = explanations.state_map["maps"][0]
    if algorithm == "RecurrentPPO":
        assert about["source"] == "state"
        check_states(recording)
    else:
        assert about["label"].startswith("layer ")


def largest_difference(recording: Recording, load: Any) -> float:
    """Return the largest difference between recorded and recomputed values, and logits less their mean."""
    differences = []
    for episode in recording:
        played = np.asarray(episode.policy_logits), np.asarray(episode.values)
        assert episode.agents is not None
        for number in np.unique(episode.agents):
            steps = np.flatnonzero(episode.agents == number)
            outputs = load(recording.checkpoint(episode, int(steps[0]))).forward(
                np.asarray(episode.observations[steps])
            )
            logits = [np.asarray(one) for one in (outputs.policy_logits, played[0][steps])]
            centered = [one - one.mean(axis=-1, keepdims=True) for one in logits]
            differences += [centered[0] - centered[1], outputs.values - played[1][steps]]
    return max(float(np.abs(one).max()) for one in differences)


@pytest.mark.parametrize("loop", ["sb3", "cleanrl"])
def test_every_step_is_explained_with_the_network_that_acted(
    loop: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a checkpoint for each update, recorded and recomputed outputs agree, also with rounded weights; with every
    tenth, they do not.
    """
    largest, absolute, sizes = {}, {}, {}
    for name, every, tolerance in (("exact", 1, None), ("rounded", 1, 2e-5), ("tenth", 10, None)):
        folder = tmp_path / name
        stored: dict[str, Any] = {"checkpoint_every": every, "checkpoint_tolerance": tolerance}
        agent: Any = None
        if loop == "sb3":
            stable_baselines3 = pytest.importorskip("stable_baselines3")
            from rl_clarity.integrations import sb3

            options: dict[str, Any] = {"n_steps": 24, "batch_size": 24, "n_epochs": 2, "learning_rate": 1e-3}
            kwargs = {"features_extractor_kwargs": {"features_dim": 1024}}
            model = stable_baselines3.PPO(
                "CnnPolicy", Steps(SIDE, 40), policy_kwargs=kwargs, seed=0, device="cpu", **options
            )
            model.learn(200, callback=sb3.RecorderCallback(folder, on_error="raise", **stored))
        else:
            pytest.importorskip("torch")
            monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "examples"))
            import record_cleanrl

            monkeypatch.setattr(record_cleanrl, "NUM_STEPS", 20)
            monkeypatch.setitem(record_cleanrl.SIZES, "tiny", 12 * 20 * record_cleanrl.NUM_ENVS)
            recorder = partial(rl_clarity.Recorder, **RECORDED, **stored)
            monkeypatch.setattr(record_cleanrl, "new_recorder", recorder)
            record_cleanrl.main(folder, "tiny")
            agent = record_cleanrl.load
        recording, explanations = explain(folder, agent=agent, every=1, embeddings=())
        agreement = explanations.agreement(explanations.episodes)
        assert agreement.steps == sum(len(episode) for episode in recording)
        largest[name] = agreement.largest
        assert ("were rounded" in str(agreement)) == (name == "rounded")
        if every == 1:
            absolute[name] = largest_difference(recording, agent or rl_clarity.load_agent)
            sizes[name] = sum(path.stat().st_size for path in Path(recording.location).glob("agents/*.diff"))
            numbers = [one.agents for one in recording]
            assert any(one is not None and len(np.unique(one)) > 1 for one in numbers)
    assert largest["exact"] < 1e-5
    assert absolute["exact"] < absolute["rounded"] < 1e-5
    assert largest["rounded"] < 1e-4  # ranges of outputs are small at the beginning of training
    assert largest["tenth"] > 1e-3
    assert 0 < sizes["rounded"] < 0.8 * sizes["exact"]


def test_policy_changes_of_each_ppo_update_equal_those_of_the_models(tmp_path: Path) -> None:
    """Divergences are those of the stored models on the fixed observations."""
    stable_baselines3 = pytest.importorskip("stable_baselines3")
    from rl_clarity.integrations import sb3

    options: dict[str, Any] = {"n_steps": 24, "batch_size": 24, "n_epochs": 2, "learning_rate": 1e-3}
    kwargs = {"features_extractor_kwargs": {"features_dim": 16}}
    model = stable_baselines3.PPO("CnnPolicy", Steps(SIDE, 40), policy_kwargs=kwargs, seed=0, device="cpu", **options)
    probed = np.random.default_rng(1).integers(0, 256, (64, *model.observation_space.shape), np.uint8)
    model.learn(120, callback=sb3.RecorderCallback(tmp_path, on_error="raise", checkpoint_every=1, probe=probed))
    recording, explanations = explain(tmp_path, embeddings=())
    assert isinstance(recording, StoredRecording)
    section = explanations.updates_section()
    assert section is not None
    assert [one.step for one in section.checkpoints] == [0, 24, 48, 72, 96]
    stored = recording.probe()
    assert stored is not None
    policies = []
    for number in recording.checkpoints.numbers():
        checkpoint = recording.checkpoints.path(number)
        assert checkpoint is not None
        outputs = rl_clarity.load_agent(checkpoint).forward(stored["observations"])
        assert outputs.policy_logits is not None
        policies.append(softmax(outputs.policy_logits.astype(np.float64)))
    path = explanations.path(section.changes)
    changes = decode_chunk(parse_script(path.read_bytes(), section.changes))
    assert changes["policy"] == pytest.approx(
        np.stack([jensen_shannon(np.stack(pair)) for pair in pairwise(policies)]), abs=1e-6
    )
    assert changes["policy"].max() > 0


@pytest.mark.parametrize("recurrent", [{}, {"gru_units": 8}], ids=["none", "gru"])
def test_episodes_recorded_by_rl_clarity_train_are_explained(recurrent: dict[str, Any], tmp_path: Path) -> None:
    pytest.importorskip("tensorflow")
    rl_clarity.train(tmp_path, **tiny(5, **recurrent, record_every=2))
    recording, explanations = explain(tmp_path)
    assert explanations.state_map is not None
    assert (explanations.state_map["maps"][0]["source"] == "state") == bool(recurrent)
    assert "training_step" in [one["key"] for one in explanations.state_map["colors"]]
    if recurrent:
        check_states(recording)
