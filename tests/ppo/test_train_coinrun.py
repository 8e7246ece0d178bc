"""The script that trains the agent of CoinRun."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rl_clarity.environments import make
from rl_clarity.formats import read
from rl_clarity.formats.architectures import build
from rl_clarity.ppo.options import train_options
from rl_clarity.ppo.trainer import CHECKPOINT

torch = pytest.importorskip("torch")
pytest.importorskip("procgen")

from scripts.coinrun import collect, imitate, reinforce, value  # noqa: E402 (it needs both packages)
from scripts.coinrun.data import KINDS, NO_ACTION, NO_END, Frames, Shard, next_number, write_shard  # noqa: E402
from scripts.coinrun.evaluate import Episodes, play_unseen  # noqa: E402
from scripts.coinrun.network import METADATA, NUM_ACTIONS, Clear, load, outputs  # noqa: E402
from scripts.coinrun.restarts import FailureRestarts  # noqa: E402
from scripts.coinrun.search import (  # noqa: E402
    AIR,
    BRAKES,
    JUMPS,
    LEVELS,
    MARGIN,
    NOOP,
    RIGHT,
    RIGHT_UP,
    SavedGames,
    Searcher,
    braked_jumps,
    jump_window,
    open_games,
    plays,
    runs,
)


def initialized(seed: int) -> Clear:
    """An untrained network."""
    network = Clear()
    network.assign(build("clear", (64, 64, 3), NUM_ACTIONS, METADATA, seed=seed).parameters())
    return network


@pytest.fixture
def one_shard(tmp_path: Path) -> Path:
    """A folder with a file of eight frames: labeled ones, and those of an episode that the network won."""
    rng, shard = np.random.default_rng(0), Shard()
    for step in range(8):
        label, end = (7, NO_END) if step % 2 else (NO_ACTION, 8 - step)
        frame = rng.integers(0, 256, (64, 64, 3), np.uint8)
        shard.add(frames=frame, actions=label, critical=True, won=not step % 2, remaining=end)
    write_shard(tmp_path, next_number(tmp_path), shard.arrays())
    return tmp_path


@pytest.mark.slow
def test_the_search_expert_completes_unseen_coinrun_levels() -> None:
    searcher = Searcher(seed=0)
    assert plays(searcher, range(LEVELS, LEVELS + 2)) == [True, True]
    searcher.close()


def test_a_step_is_critical_if_only_one_of_running_and_jumping_succeeds() -> None:
    searcher = Searcher(seed=0)
    game = SavedGames(open_games(1, 0, start_level=LEVELS, num_levels=1))
    seen = {True: 0, False: 0}
    for _ in range(6):
        state = game.state(0)
        plan = searcher.plan(state)
        jumps_now = np.isin(np.arange(len(runs())), [1, 1 + JUMPS])
        others = runs()[jumps_now if plan.actions[0] == RIGHT else ~jumps_now]
        good = searcher.scores(state, runs())[0].max() - MARGIN
        assert plan.critical[0] == (searcher.scores(state, others)[0].max() < good)
        seen[bool(plan.critical[0])] += 1
        for action in plan.actions:
            game.step(action[None])
    assert min(seen.values()) > 0
    searcher.close()
    game.games.close()


def test_planned_jumps_run_jump_brake_and_stand_still() -> None:
    for (brake, wait), rows in zip(BRAKES, braked_jumps(), strict=True):
        for step, row in enumerate(rows):
            jump = [RIGHT_UP, *[RIGHT] * (wait - 1), *[brake] * (AIR - wait)]
            assert row.tolist() == [RIGHT] * step + jump + [NOOP] * (len(row) - step - AIR)


@pytest.mark.parametrize(
    ("possible", "window"),
    [("x..........", (0, 0)), ("x.xx....", (2, 3)), ("..xxx...xxxxx", (2, 4)), (".x..xxxx", (4, 7)), ("xxxx", (0, 3))],
)
def test_a_jump_is_planned_in_the_first_long_enough_window(possible: str, window: tuple[int, int]) -> None:
    assert jump_window(np.array([letter == "x" for letter in possible])) == window


def test_the_training_script_network_computes_the_packages_outputs() -> None:
    observations = np.random.default_rng(0).integers(0, 256, (2, 64, 64, 3), np.uint8)
    network = initialized(seed=3)
    with torch.no_grad():
        logits, values = network(torch.from_numpy(observations))
    parameters = network.parameters_by_name()
    model = build("clear", (64, 64, 3), NUM_ACTIONS, METADATA, parameters=parameters).model
    expected = [np.asarray(head) for head in model([observations.astype(np.float32) / 255])]
    np.testing.assert_allclose(logits.numpy(), expected[0], atol=1e-6)
    np.testing.assert_allclose(values.numpy(), expected[1][:, 0], atol=1e-6)


def test_demonstration_frames_are_read_once_and_keep_their_labels(one_shard: Path) -> None:
    frames = Frames()
    frames.refresh([one_shard])
    frames.refresh([one_shard])
    assert len(frames) == 8
    rows = frames.sample(np.random.default_rng(0), 64)
    assert set(rows) == set(KINDS)
    with np.load(one_shard / "000000.npz") as stored:
        for frame, action in zip(rows["frames"], rows["actions"], strict=True):
            (row,) = np.flatnonzero((stored["frames"] == frame).all((1, 2, 3)))
            assert action == stored["actions"][row]


def test_interrupted_imitation_learning_resumes_from_its_saved_state(one_shard: Path, tmp_path: Path) -> None:
    frames = Frames()
    frames.refresh([one_shard])
    training = imitate.Imitation(tmp_path)
    training.train(frames, batches=2)
    training.save()
    resumed = imitate.Imitation(tmp_path)
    assert resumed.batches == 2
    for name, array in training.network.parameters_by_name().items():
        np.testing.assert_array_equal(resumed.network.parameters_by_name()[name], array)
    observations = np.zeros((1, 64, 64, 3), np.uint8)
    policy, value = outputs(training.average, observations)
    played, same_value = outputs(load(tmp_path / "network.npz"), observations)
    np.testing.assert_allclose(played, policy**2 / (policy**2).sum(), rtol=0.05, atol=1e-3)
    np.testing.assert_allclose(same_value, value, atol=1e-3)
    untrained = imitate.Imitation(tmp_path / "untrained", first=None)
    assert untrained.train(frames, batches=1)["policy_loss"] == pytest.approx(np.log(NUM_ACTIONS), abs=0.2)
    before = training.train(frames, batches=1)["policy_loss"]
    assert training.train(frames, batches=5)["policy_loss"] < before


@pytest.mark.slow
def test_the_search_expert_labels_steps_before_failures_of_the_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collect, "SHARD", 100)
    monkeypatch.setattr(collect, "STUCK", 20)
    opened = []

    def opening(count: int, seed: int, **levels: int) -> Any:
        opened.append(levels)
        return open_games(count, seed, **levels)

    monkeypatch.setattr(collect, "open_games", opening)
    arrays = collect.network_shard(initialized(seed=0), seed=0, levels=100)
    assert opened == [{"num_levels": 100}] * 2
    own = arrays["remaining"] != NO_END
    assert own.any()
    assert (arrays["actions"][own] == NO_ACTION).all()
    assert (arrays["actions"][~own] != NO_ACTION).any()


@pytest.mark.slow
def test_ppo_starts_from_the_imitation_network_and_scaled_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {**reinforce.OPTIONS, "num_envs": 2, "num_steps": 4, "num_minibatches": 2, "learning_rate": 1e-9}
    monkeypatch.setattr(reinforce, "OPTIONS", options)
    parameters = initialized(seed=5).parameters_by_name()
    reinforce.begin(tmp_path, parameters, levels=100)
    assert reinforce.finished_updates(tmp_path) == 0
    first = read(tmp_path / CHECKPOINT)
    assert (first.metadata["num_levels"], first.metadata["training_step"]) == (100, 0)
    np.testing.assert_allclose(first.parameters["ppo2_model/vf/w:0"], 10 * parameters["ppo2_model/vf/w:0"], rtol=1e-5)
    trained = reinforce.advance(tmp_path, updates=1, total=1000, levels=100).parameters_by_name()
    assert reinforce.finished_updates(tmp_path) == 1
    for name, array in parameters.items():
        unit = reinforce.REWARD if "/vf/" in name else 1
        np.testing.assert_allclose(trained[name], array * unit, atol=1e-4)


@pytest.mark.slow
def test_each_unseen_level_is_played_once() -> None:
    played = play_unseen(Clear(), 3, discount=0.98, limit=5)
    assert (played.completed, played.steps) == (0, 5)


def test_the_value_head_is_fitted_to_discounted_returns() -> None:
    rng = np.random.default_rng(0)
    won, lengths = np.array([True, False, True, True]), (200, 300, 250, 150)
    features = [rng.normal(size=(length, 512)).astype(np.float32) for length in lengths]
    for one, rows in zip(won, features, strict=True):
        rows[:, 3] = one * imitate.DISCOUNT ** np.arange(len(rows))[::-1]
    network, episodes = Clear(), Episodes(won, features)
    value.fit_value(network, [episodes])
    with torch.inference_mode():
        values = network.heads[1](torch.from_numpy(np.concatenate(features)))[:, 0].numpy()
    returns = episodes.returns(imitate.DISCOUNT, reinforce.REWARD)
    assert [returns[0], returns[200], returns[-1]] == pytest.approx([10 * 0.98**199, 0, 10])
    assert np.var(returns - values) < 0.1 * np.var(returns)


@pytest.mark.slow
def test_the_saved_agent_has_the_fitted_value_head(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = {**reinforce.OPTIONS, "num_envs": 2, "num_steps": 4, "num_minibatches": 2}
    monkeypatch.setattr(reinforce, "OPTIONS", options)
    monkeypatch.setattr(value, "EPISODES", 2)
    monkeypatch.setattr(value, "SEEDS", (0,))
    reinforce.begin(tmp_path, initialized(seed=5).parameters_by_name(), levels=100)
    trained = reinforce.advance(tmp_path, updates=1, total=1000, levels=100).parameters_by_name()
    value.write_agent(tmp_path / CHECKPOINT, tmp_path / "agent.jd", levels=100)
    written = read(tmp_path / "agent.jd")
    assert written.metadata["num_levels"] == 100
    assert (written.metadata["gamma"], written.metadata["training_step"]) == (imitate.DISCOUNT, 8)
    changed = [name for name, array in written.parameters.items() if not np.array_equal(array, trained[name])]
    assert changed == ["ppo2_model/vf/w:0", "ppo2_model/vf/b:0"]


def test_about_half_of_all_episodes_begin_before_earlier_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scripts.coinrun.restarts.FEWEST", 4)
    options = train_options({**reinforce.OPTIONS, "num_envs": 8, "timesteps_per_proc": 1})
    with closing(make(options.environment(), options.num_envs, 1)) as environment:
        restarts = FailureRestarts(environment)
        restarts._rng = np.random.default_rng(1)
        restarts.reset()
        rng, begun = np.random.default_rng(0), list[np.ndarray]()
        for _ in range(300):
            step = restarts.step(rng.choice([RIGHT, RIGHT_UP], 8))
            begun += list(step.observations[step.firsts])
        snapshot = restarts.snapshot()
        assert snapshot is not None
        with closing(make(options.environment(), options.num_envs, 2)) as other:
            resumed = FailureRestarts(other)
            resumed.restore(snapshot)
            assert [*resumed._failures] == [*restarts._failures]
        probe = SavedGames(open_games(1, 0))
        before = []
        for state in restarts._failures:
            probe.restore(0, state)
            before.append(probe.frames()[0])
    again = [any(np.array_equal(frame, one) for one in before) for frame in begun]
    assert 0.3 < np.mean(again) < 0.7
