"""Recurrent agents: acting and learning use the same states, and agents learn to use their memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rl_clarity.base.errors import OptionError
from rl_clarity.environments.protocol import Step
from rl_clarity.formats import load_agent
from rl_clarity.ppo import learner
from rl_clarity.ppo.learner import chunks
from rl_clarity.ppo.options import TrainOptions, train_options
from rl_clarity.ppo.trainer import Trainer, minibatches
from tests.ppo.toys import Columns, bright_column

OPTIONS: dict[str, Any] = {"num_envs": 6, "num_steps": 10, "num_minibatches": 3, "ppo_epochs": 1}
KINDS: list[dict[str, Any]] = [{"use_lstm": True}, {"gru_units": 24}]


class Remember(Columns):
    """The right column is bright only in the first observation of an episode; the third step is rewarded."""

    def __init__(self, num_envs: int, seed: int) -> None:
        super().__init__(num_envs, seed)
        self._steps = np.arange(num_envs) % 3

    def step(self, actions: np.ndarray) -> Step:
        ends = self._steps % 3 == 2
        rewards = ((actions == self._columns) & ends).astype(np.float32)
        self._steps += 1
        return Step(self._draw(), rewards, ends, np.zeros(self.num_envs, bool))

    def _draw(self) -> np.ndarray:
        begins = self._steps % 3 == 0
        self._columns = np.where(begins, self._rng.integers(3, size=self.num_envs), self._columns)
        dark = self._rng.integers(0, 60, (self.num_envs, 16, 16, 3), np.uint8)
        for i in np.flatnonzero(begins):
            dark[i] = bright_column(int(self._columns[i]), self._rng)
        return dark


@pytest.fixture(params=KINDS, ids=["lstm", "gru"])
def kind(request: pytest.FixtureRequest) -> dict[str, Any]:
    return dict(request.param)


def make_trainer(environment: type[Columns] = Columns, **changes: Any) -> Trainer:
    options = TrainOptions(env_name="columns", **{**OPTIONS, **changes})
    return Trainer(options, environment(options.num_envs, seed=1))


def log_probabilities(logits: np.ndarray, actions: np.ndarray) -> np.ndarray:
    log_policy = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    return log_policy[np.arange(len(actions)), actions]


def test_replaying_a_rollout_reproduces_its_recurrent_states(kind: dict[str, Any]) -> None:
    trainer = make_trainer(**kind)
    first = trainer.runner.play(trainer.learner, 10)
    second = trainer.runner.play(trainer.learner, 10)
    assert first.dones.any()
    state = first.states
    for rollout in (first, second):
        for expected, actual in zip(state, rollout.states, strict=True):
            np.testing.assert_array_equal(expected, actual)
        for t in range(10):
            _, values, state = trainer.learner.act(rollout.observations[t], rollout.firsts[t], state)
            np.testing.assert_array_equal(values, rollout.values[t])
    # States do not depend on earlier episodes.
    t, i = next((t, i) for t, i in np.argwhere(second.firsts) if 0 < t < 9)
    fresh = trainer.learner.initial_state(6)
    for step in (t, t + 1):
        _, values, fresh = trainer.learner.act(second.observations[step], second.firsts[step], fresh)
    assert values[i] == pytest.approx(second.values[t + 1, i], abs=1e-6)


def test_learning_uses_the_same_recurrent_states_as_acting(kind: dict[str, Any]) -> None:
    trainer = make_trainer(**kind)
    trainer.runner.play(trainer.learner, 7)  # the next rollout starts in the middle of episodes
    rollout = trainer.runner.play(trainer.learner, 10)
    assert any(np.abs(state).max() > 0 for state in rollout.states)
    recurrence = trainer.learner._recurrence
    assert recurrence is not None
    for batch in minibatches(rollout, np.zeros((10, 6), np.float32), trainer.options, np.random.default_rng(0)):
        assert len(batch.actions) == 20
        for chunk in chunks(batch, 10):
            logits, values = recurrence.unroll(chunk.observations.astype(np.float32) / 255, chunk.firsts, chunk.states)
            log_probs = log_probabilities(logits.numpy()[: len(batch.actions)], batch.actions)
            np.testing.assert_allclose(values.numpy()[: len(batch.actions)], batch.values, atol=1e-5)
            np.testing.assert_allclose(log_probs, batch.log_probs, atol=1e-5)


def test_padding_of_sequences_does_not_change_the_gradient(
    monkeypatch: pytest.MonkeyPatch, kind: dict[str, Any]
) -> None:
    trainer = make_trainer(num_minibatches=1, **kind)
    rollout = trainer.runner.play(trainer.learner, 10)
    (batch,) = minibatches(rollout, rollout.rewards, trainer.options, np.random.default_rng(0))
    (chunk,) = chunks(batch, 10)
    assert len(chunk.actions) == 60
    before = trainer.learner.state()
    statistics, norm = trainer.learner.learn(batch)
    trainer.learner.restore(before)
    monkeypatch.setattr(learner, "SEQUENCES_CHUNK", 45)
    parts = list(chunks(batch, 10))
    assert [len(part.actions) for part in parts] == [40, 40]  # four sequences each, of which the last two are padding
    assert {len(state) for part in parts for state in part.states} == {4}
    assert sum(part.weights.sum() for part in parts) == pytest.approx(1)
    padded, padded_norm = trainer.learner.learn(batch)
    np.testing.assert_allclose(padded, statistics, rtol=1e-4, atol=1e-6)
    assert padded_norm == pytest.approx(norm, rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*KINDS, {}], ids=["lstm", "gru", "none"])
def test_only_recurrent_agents_learn_to_remember(kind: dict[str, Any]) -> None:
    settings: dict[str, Any] = {
        **{"cnn": "impala", "stack_channels": "8", "emb_size": 32, "gamma": 0.9, "learning_rate": 2e-3},
        **{"num_envs": 32, "num_steps": 12, "num_minibatches": 4, "ppo_epochs": 3},
    }
    trainer = make_trainer(Remember, **settings, **kind)
    best = 0.0
    # Recurrent agents need about ten updates. How many differs between machines, which round differently.
    for _ in range(60):
        best = max(best, trainer.update()["mean_return"])
        if best > 0.8:
            break
    assert best > 0.8 if kind else best < 0.55  # a third by chance


def test_a_checkpoint_can_be_loaded_as_a_recurrent_agent(tmp_path: Path, kind: dict[str, Any]) -> None:
    trainer = make_trainer(**kind)
    trainer.update()
    trainer.save(tmp_path, trainer.state())
    # The toy environment is not a registered kind; its shape is in the metadata.
    agent = load_agent(tmp_path / "checkpoint.jd")
    rollout = trainer.runner.play(trainer.learner, 10)
    state: Any = rollout.states
    for t in range(10):
        outputs, state = agent.step(rollout.observations[t], state, rollout.firsts[t])
        assert outputs.values is not None
        np.testing.assert_allclose(outputs.values, rollout.values[t], atol=1e-5)


def test_the_initial_state_of_a_gru_is_learned(tmp_path: Path) -> None:
    trainer = make_trainer(gru_units=24)
    assert not trainer.learner.initial_state(1)[0].any()
    trainer.update()
    (learned,) = trainer.learner.initial_state(2)
    assert np.abs(learned).max() > 0
    rollout = trainer.runner.play(trainer.learner, 10)
    # It is used at the start of every episode, not only of the first.
    t, i = next((t, i) for t, i in np.argwhere(rollout.firsts) if t)
    _, values, _ = trainer.learner.act(rollout.observations[t], np.zeros(6, bool), (np.repeat(learned[:1], 6, axis=0),))
    assert values[i] == pytest.approx(rollout.values[t, i], abs=1e-6)
    trainer.save(tmp_path, trainer.state())
    agent: Any = load_agent(tmp_path / "checkpoint.jd")
    (loaded,) = agent.initial_state(1)
    np.testing.assert_array_equal(loaded, trainer.learner.initial_state(1)[0])


def test_recurrent_minibatches_must_consist_of_whole_environments() -> None:
    with pytest.raises(OptionError, match="all steps of its environments"):
        train_options({"env_name": "coinrun", "use_lstm": 1, "num_envs": 6, "num_steps": 256, "num_minibatches": 4})
