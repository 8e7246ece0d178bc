"""Probes find what an agent of known memory remembers, and whether it uses it."""

from __future__ import annotations

import json
import re
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import rl_clarity
from rl_clarity.base.errors import OptionError
from rl_clarity.cli import main
from rl_clarity.environments.light_switch import LEFT
from rl_clarity.recordings.recording import Recording
from rl_clarity.states.probes import Probes
from tests import light_switch, memory_systems

DELAY = 5


@pytest.fixture(scope="module")
def cue(tmp_path_factory: pytest.TempPathFactory) -> Probes:
    """The probe of the cue of the trained agent, whose episodes have 7 steps, and of noise."""
    frames, right = memory_systems.light_switch_frames(48, DELAY, seed=5)
    agent = memory_systems.cue_agent(DELAY, updates=150)
    recording = memory_systems.record_frames(agent, frames, tmp_path_factory.mktemp("cue") / "recording")
    noise = np.random.default_rng(0).normal(size=frames.shape[:2])
    labels = {"cue": [np.full(frames.shape[1], one - LEFT) for one in right], "noise": list(noise)}
    return rl_clarity.probe(agent, recording, labels, play=20)


def test_a_probe_finds_the_remembered_cue_at_every_step(cue: Probes) -> None:
    probe = cue["cue"]
    assert probe.known
    assert probe.kind == "binary"
    assert len(probe.by_step) == DELAY + 1
    assert probe.by_step.min() > 0.95
    assert probe.observation.score < 0.7
    assert probe.p < 0.01


def test_swapping_the_cue_subspace_flips_the_action(cue: Probes) -> None:
    use, subspace = cue["cue"].use, cue["cue"].subspace
    assert use is not None
    assert subspace is not None
    assert use.used
    assert use.exchanged[-1].flipped >= 0.9
    assert use.random.flipped < 0.2
    assert subspace.rank < 8
    assert use.exchanged[-1].probability.mean == pytest.approx(use.whole.probability.mean, rel=0.2)
    doses = [one.probability.mean for one in use.exchanged]
    assert doses == sorted(doses)


def test_playing_with_the_swapped_cue_subspace_loses_the_reward(cue: Probes) -> None:
    use = cue["cue"].use
    assert use is not None
    assert use.played is not None
    exchanged, removed = use.played
    assert exchanged.unedited > 0.7
    assert exchanged.ablated < 0.3
    assert exchanged.p < 0.01
    assert removed.ablated < exchanged.unedited


def test_a_noise_label_is_not_found_in_the_state(cue: Probes) -> None:
    assert not cue["noise"].known
    assert cue["noise"].use is None
    assert "not above the baselines" in str(cue["noise"])


def test_a_decoy_label_is_encoded_but_not_used(tmp_path: Path) -> None:
    frames, agent = memory_systems.xor_frames(96), memory_systems.xor_agent(decoy=0.0)
    recording = memory_systems.record_frames(agent, frames, tmp_path)
    labels = {
        name: [np.full(len(one), one[step, 0, 0, channel] > 128) for one in frames]
        for channel, (name, step) in enumerate(memory_systems.XOR_STEPS.items())
    }
    probes = rl_clarity.probe(agent, recording, labels)
    assert [(one.known, one.use is not None and one.use.used) for one in probes] == [
        (True, True), (True, True), (True, False),
    ]  # fmt: skip
    for one, step in zip(probes, memory_systems.XOR_STEPS.values(), strict=True):
        assert one.by_step[step:].min() == 1
        assert one.by_step[1:step].max(initial=0.5) < 0.75


def test_labels_independent_of_the_state_are_rarely_found(tmp_path: Path) -> None:
    rng, known = np.random.default_rng(1), 0
    agent = memory_systems.independent_units()
    recording = memory_systems.record_frames(agent, memory_systems.noise_frames(24, 12), tmp_path)
    for _ in range(5):
        labels: dict[str, Any] = {f"coin {i}": [np.full(12, rng.integers(2)) for _ in range(24)] for i in range(2)}
        labels |= {f"walk {i}": list(rng.normal(size=(24, 12)).cumsum(axis=1)) for i in range(2)}
        known += sum(one.known for one in rl_clarity.probe(agent, recording, labels))
    assert known <= 1  # of 20; the level is 5 % for each call of 4


def test_labels_that_depend_only_on_the_step_number_are_not_found(tmp_path: Path) -> None:
    agent, steps = memory_systems.counter(), 8
    recording = memory_systems.record_frames(agent, memory_systems.noise_frames(12, steps), tmp_path)
    (probe,) = rl_clarity.probe(agent, recording, {"late": [np.arange(steps) > 3] * 12})
    assert probe.state.score > probe.observation.score + 0.2  # the state counts steps
    assert probe.adjusted_p > 0.5  # as the labels of other episodes at the same step
    assert not probe.known


def test_probes_test_each_position_of_a_feature_map_state(tmp_path: Path) -> None:
    import torch

    def step(observations: Any, state: Any) -> tuple[Any, Any]:
        after = state.clone()
        shown = memory_systems.signal(observations, 0)
        after[:, 0, 1, 1] = torch.where(shown.abs() > 0.5, shown, state[:, 0, 1, 1])
        return after[:, 0, 1, 1], after

    agent = memory_systems.make_agent(step, (2, 3, 2))
    signals = np.zeros((12, 4, 3))
    signals[:, 0, 0] = np.resize([-1, 1], 12)
    recording = memory_systems.record_frames(agent, memory_systems.signal_frames(signals), tmp_path)
    (probe,) = rl_clarity.probe(agent, recording, {"cue": [np.full(4, one > 0) for one in signals[:, 0, 0]]}, use=False)
    scores = probe.positions["states.0"]
    assert scores.shape == (2, 3)
    assert int(scores.argmax()) == 1
    assert scores[0, 1] == 1
    assert np.delete(scores.reshape(-1), 1).max() <= 0.6


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    folder = tmp_path_factory.mktemp("play")
    return rl_clarity.record(light_switch.checkpoint("memory"), folder / "play", episodes=24, info=["cue"])


def test_probe_labels_may_refer_to_present_past_and_future_steps(
    played: Recording, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["cue", "cue@1", "action+1", "cue-2", "reward+3"]
    assert main(["probe", str(light_switch.checkpoint("memory")), played.location, "--json", "--labels", *words]) == 0
    probes = {one["label"]: one for one in json.loads(capsys.readouterr().out)["probes"]}
    assert list(probes) == words
    assert probes["cue"]["state"] == probes["cue@1"]["state"]
    assert probes["cue"]["known"]
    assert probes["cue"]["use"]["used"]
    length = len(played[0])
    assert probes["cue"]["steps"] == 24 * (length - 1)
    assert probes["cue-2"]["steps"] == 24 * (length - 3)
    assert probes["reward+3"]["steps"] == 24 * (length - 3)


def test_default_probe_labels_are_the_values_the_environment_reported(played: Recording) -> None:
    probes = rl_clarity.probe(light_switch.checkpoint("memory"), played, use=False)
    assert {one.label for one in probes} | set(probes.skipped) == {"cue", "action+1", "reward+1"}
    with pytest.raises(KeyError, match="'clue' was not probed"):
        probes["clue"]


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["clue"], "the recording has no 'clue'; it has action, reward, return, cue"),
        ({"x": np.zeros(3)}, r"'x' has the shape \(3,\); expected a value for each of \d+ steps"),
        ({"x": [np.arange(3)] * 24}, "'x' has 3 values for episode 0, which has"),
        ({"x": ["a"] * 24}, "'x' must contain numbers"),
        (["cue@900"], "'cue@900' is not known at any probed step"),
        (["action[2]"], r"action\[2\] does not exist, because there are only 1 numbers"),
        ("cue", "labels='cue' must be"),
        ([], "labels is empty"),
    ],
)
def test_labels_that_cannot_be_probed_are_named_with_the_reason(played: Recording, labels: Any, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        rl_clarity.probe(light_switch.checkpoint("memory"), played, labels)


def test_labels_of_one_value_or_one_episode_are_refused(played: Recording) -> None:
    agent, lengths = light_switch.checkpoint("memory"), [len(one) for one in played]
    with pytest.raises(OptionError, match="'x' is 1 at all probed steps"):
        rl_clarity.probe(agent, played, {"x": np.ones(sum(lengths))})
    once = np.zeros(sum(lengths))
    once[3] = 1
    with pytest.raises(OptionError, match="has the values 0, 1, but only 1 of them occur in at least 2 episodes"):
        rl_clarity.probe(agent, played, {"x": once})


def test_labels_missing_at_some_steps_are_probed_at_the_others(played: Recording) -> None:
    rng = np.random.default_rng(0)
    labels = [np.where(rng.random(len(one)) < 0.5, np.nan, np.asarray(one.info["cue"])) for one in played]
    labels[0][:] = np.nan
    probe = rl_clarity.probe(light_switch.checkpoint("memory"), played, {"cue": labels}, use=False)["cue"]
    assert probe.steps == sum(int(np.isfinite(one[:-1]).sum()) for one in labels)
    assert probe.episodes == len(played) - 1
    assert probe.known
    assert probe.state.score > 0.95


def test_probes_refuse_a_recording_of_a_single_episode(tmp_path: Path) -> None:
    agent = memory_systems.counter()
    recording = memory_systems.record_frames(agent, memory_systems.noise_frames(1, 6), tmp_path)
    with pytest.raises(OptionError, match="has 1 episodes of more than one step; at least 2"):
        rl_clarity.probe(agent, recording, ["action+1"])


def test_the_forecast_of_probes_counts_their_network_evaluations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock counts the states for which the network is computed."""
    agent: Any = memory_systems.cue_agent(DELAY, updates=150)
    frames, right = memory_systems.light_switch_frames(48, DELAY, seed=5)
    recording = memory_systems.record_frames(agent, frames, tmp_path / "recording")
    labels = {"cue": [np.full(frames.shape[1], one - LEFT) for one in right]}
    computed = [0]

    def forward(observations: np.ndarray, state: Any) -> Any:
        computed[0] += len(observations)
        return type(agent).forward(agent, observations, state)

    monkeypatch.setattr(agent, "forward", forward, raising=False)
    monkeypatch.setattr("rl_clarity.jobs.forecast.time", SimpleNamespace(perf_counter=lambda: computed[0]))
    forecast = rl_clarity.probe(agent, recording, labels, dry_run=True)
    computed[0] = 0
    assert rl_clarity.probe(agent, recording, labels)["cue"].known
    assert computed[0] > 1000
    assert forecast.at_most == pytest.approx(computed[0], rel=0.02)
    fitted = rl_clarity.probe(agent, recording, labels, use=False, dry_run=True)
    assert fitted.seconds == forecast.seconds == pytest.approx(48 * (DELAY + 1), rel=0.02)
    assert (fitted.at_most, fitted.notes) == (0, ())
    computed[0] = 0
    unknown = {"noise": [np.random.default_rng(i).integers(0, 2, frames.shape[1]) for i in range(len(right))]}
    assert not rl_clarity.probe(agent, recording, unknown)["noise"].known
    assert forecast.seconds == pytest.approx(computed[0], rel=0.02), "the use of an unknown label is not measured"


def test_a_dry_run_of_the_probe_command_only_prints_a_forecast(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    agent = str(light_switch.checkpoint("memory"))
    rl_clarity.record(agent, tmp_path / "recording", episodes=8)
    monkeypatch.setattr("rl_clarity.states.probes.probe_states", None)
    shown: list[str] = []
    monkeypatch.setattr(
        "rl_clarity.states.probe_forecast.progress_bar",
        lambda title: nullcontext(lambda share: shown.append(f"{title} {share}")),
    )
    assert main(["probe", agent, str(tmp_path / "recording"), "--labels", "action+1", "--dry-run"]) == 0
    assert shown == ["Measuring 0.5"]
    assert re.match(r"This will take about .* and .* of memory\.\nFor each label that", capsys.readouterr().out)
    assert main(["probe", agent, str(tmp_path / "recording"), "--labels", "nothing", "--dry-run"]) == 1
