"""Saliency maps and state maps of recorded episodes, beside the recording."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rl_clarity
from rl_clarity.analyses import saliency
from rl_clarity.analyses.saliency import compute_maps
from rl_clarity.base.errors import OptionError, OutputError
from rl_clarity.explaining import recordings, state_maps
from rl_clarity.explaining.files import EXPLAINED
from rl_clarity.explaining.reports import NO_CHECKPOINT, ExplainedRecording, describe, group_reasons
from rl_clarity.jobs.store import locked
from rl_clarity.recordings.agreement import Agreement
from rl_clarity.recordings.recording import open_recording
from tests.explaining.recordings import LENGTHS, OPTIONS, add_played_episode, chunk, explain, load, read, record
from tests.fakes import TinyAgent
from tests.pipeline.small import read_files, record_tasks
from tests.recordings.episodes import SHAPE, make_recording


@pytest.fixture(scope="module")
def explained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    location = tmp_path_factory.mktemp("explained") / "recording"
    record(location)
    explain(location)
    return location


def points(location: Path, method: str = "tsne") -> dict[str, np.ndarray]:
    maps = read(location).state_map
    assert maps is not None
    (name,) = [one["chunk"] for one in maps["maps"] if one["method"] == method]
    return chunk(location, name)


def positions(location: Path, method: str = "tsne") -> dict[tuple[int, int], tuple[float, float]]:
    arrays = points(location, method)
    places = zip(arrays["trajectory"].tolist(), arrays["frame"].tolist(), strict=True)
    return dict(zip(places, zip(arrays["x"].tolist(), arrays["y"].tolist(), strict=True), strict=True))


def test_saliency_maps_use_the_checkpoint_of_each_episode(explained: Path) -> None:
    explanations = read(explained)
    section = explanations.saliency([0, 1, 2])
    assert section is not None
    assert section.every == 2
    (method,) = section.methods
    assert [one.id for one in method.outputs] == ["policy", "value"]
    assert [*explanations.episodes] == [0, 1, 2]
    peaks: dict[str, list[float]] = {"policy": [], "value": []}
    recording = open_recording(explained)
    for episode in recording:
        checkpoint = recording.checkpoint(episode)
        assert checkpoint is not None
        names = method.maps[episode.index]
        assert len(names) == (2 if len(episode) > 64 else 1)
        maps = compute_maps(load(checkpoint), "jacobian", np.asarray(episode.observations)[::2], ["policy", "value"])
        chunks = [chunk(explained, name) for name in names]
        steps = np.concatenate([one["steps"] for one in chunks])
        assert steps.tolist() == [*range(0, len(episode), 2)]
        for output, values in zip(("policy", "value"), maps, strict=True):
            codes, scales = (np.concatenate([one[f"{key}.{output}"] for one in chunks]) for key in ("codes", "scales"))
            np.testing.assert_allclose(codes / 255 * scales[:, None, None], values, atol=values.max() / 255)
            assert method.scales[output][episode.index] == pytest.approx(values.max())
            peaks[output] += values.max(axis=(1, 2)).tolist()
    for output, largest in peaks.items():
        assert method.percentile[output] == pytest.approx(np.percentile(largest, 99))


def test_all_episodes_share_a_state_map_of_recurrent_states(explained: Path) -> None:
    maps = read(explained).state_map
    assert maps is not None
    steps = [(episode, step) for episode, length in enumerate(LENGTHS) for step in range(0, length, 2)]
    for one, method in zip(maps["maps"], ("tsne", "pca"), strict=True):
        about = {"source": "state", "label": "recurrent state", "method": method, "fitted_on": len(steps)}
        assert about.items() <= one.items()
        assert one["perplexity"] == (5 if method == "tsne" else None)
        assert [*positions(explained, method)] == steps
        assert len(set(positions(explained, method).values())) == len(steps)
    arrays = points(explained)
    recording = open_recording(explained)
    second = arrays["trajectory"] == 1
    values = np.asarray(recording[1].values)
    np.testing.assert_allclose(arrays["color.value"][second], values[::2])
    np.testing.assert_array_equal(arrays["color.action"][second], np.asarray(recording[1].actions)[::2])
    np.testing.assert_array_equal(arrays["color.time"][second], np.arange(0, 70, 2))
    rewards = np.asarray(recording[1].rewards)
    np.testing.assert_allclose(arrays["color.return_to_come"][second], rewards[::-1].cumsum()[::-1][::2])
    keys = [one["key"] for one in maps["colors"]]
    assert keys == ["value", "action", "time", "episode", "reward", "return_to_come", "advantage"]
    assert {f"color.{key}" for key in keys} == {key for key in arrays if key.startswith("color.")}
    assert [one for one in maps["colors"] if one["kind"] == "category"] == [
        {"key": "action", "label": "action", "kind": "category", "names": ["0", "1", "2", "3", "4"]}
    ]


def test_a_second_explain_call_computes_nothing_again(explained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = read_files(explained / EXPLAINED)
    with record_tasks(monkeypatch) as tasks:
        report = explain(explained)
    assert tasks == []
    assert (report.explained, report.episodes, report.skipped) == (3, 3, {})
    assert read_files(explained / EXPLAINED) == before


def test_new_episodes_are_added_to_the_state_map_without_moving_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    location = tmp_path / "recording"
    record(location)
    explain(location)
    before = positions(location)
    record(location, (20,), first=3)
    with record_tasks(monkeypatch) as tasks:
        explain(location)
    expected = ["saliency/00003/jacobian/1/1", "sections/00003/saliency-jacobian", "placed/00003/state"]
    assert tasks == [*expected, "state_map/state"]
    after = positions(location)
    assert {place: after[place] for place in before} == before
    assert len(after) == len(before) + 10
    explain(location, refit=True)
    assert {place: positions(location)[place] for place in before} != before


def test_the_newest_episodes_are_explained_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record(tmp_path / "recording")
    with record_tasks(monkeypatch) as tasks:
        explain(tmp_path / "recording")
    names = [name for name in tasks if name.startswith("sections")]
    assert names == [f"sections/0000{i}/saliency-jacobian" for i in (2, 1, 0)]


def test_an_interrupted_explain_call_resumes_with_the_same_bytes(
    explained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    location = tmp_path / "recording"
    record(location)
    calls = []

    def interrupt(agent: Any, *arguments: Any, **options: Any) -> Any:
        calls.append(agent)
        if len(calls) == 3:  # in the second segment of the second episode
            raise KeyboardInterrupt
        return compute_maps(agent, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(saliency, "compute_maps", interrupt)
        with pytest.raises(KeyboardInterrupt):
            explain(location)
    assert [*read(location).episodes] == [2]
    with record_tasks(monkeypatch) as tasks:
        explain(location)
    kept = {"sections/00002/saliency-jacobian", "saliency/00001/jacobian/1/1"}
    assert not kept & {*tasks}
    names = [name for name in read_files(explained / EXPLAINED) if not name.startswith(".rl-clarity")]
    assert names == [name for name in read_files(location / EXPLAINED) if not name.startswith(".rl-clarity")]
    files = [read_files(one / EXPLAINED) for one in (explained, location)]
    assert all(files[0][name] == files[1][name] for name in names)


def test_episodes_without_a_checkpoint_are_reported_as_unexplained(tmp_path: Path) -> None:
    make_recording(tmp_path, (9, 5))
    (report,) = rl_clarity.explain_recording(tmp_path, embeddings=[])
    assert (report.explained, report.episodes) == (0, 2)
    assert "not episodes 0, 1: no checkpoint was recorded; call Recorder.agent" in str(report)
    assert rl_clarity.read_explanations(tmp_path) is None
    agent = TinyAgent(observation_shape=SHAPE, num_actions=5, patch=4)
    (report,) = rl_clarity.explain_recording(tmp_path, agent, other_agent=True, **OPTIONS)
    assert (report.explained, report.skipped) == (2, {})


def test_recorded_states_are_mapped_without_an_agent(tmp_path: Path) -> None:
    make_recording(tmp_path, (9, 5))
    (report,) = rl_clarity.explain_recording(tmp_path, every=1, perplexity=3)
    assert (report.explained, sorted(report.only_states), report.skipped) == (0, [0, 1], {})
    assert "only the states of episodes 0, 1: no checkpoint was recorded" in str(report)
    assert len(positions(tmp_path)) == 14
    assert read(tmp_path).episodes == {}
    assert read(tmp_path).saliency([0, 1]) is None


def test_the_report_says_how_many_points_a_state_map_still_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make_recording(tmp_path, (9, 5))

    def stop() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(recordings, "wait", stop)
    monkeypatch.setattr("os.nice", lambda niceness: 0)
    (report,) = rl_clarity.explain_recording(tmp_path, every=1, watch=True)
    assert report.waiting == 14
    assert "the state map waits for 1000 points; there are 14" in str(report)
    assert "the state map waits for 1000 points; there are 14" in capsys.readouterr().err


def test_the_state_map_can_show_activations_of_a_layer(explained: Path, tmp_path: Path) -> None:
    location = tmp_path / "recording"
    record(location)
    explain(location, methods=[], layer="2a", embeddings=["pca"])
    maps = read(location).state_map
    assert maps is not None
    assert maps["maps"][0].items() >= {"source": "2a", "label": "layer 2a", "perplexity": None}.items()
    episode = open_recording(location)[0]
    activations = load(str(tmp_path / "0.txt")).activations(np.asarray(episode.observations), "tiny/2a/Relu")
    vectors = activations.mean(axis=(1, 2))[::2]
    shown = np.array([position for (index, _), position in positions(location, "pca").items() if index == 0])
    distances = [np.linalg.norm(one[:, None] - one, axis=-1).ravel() for one in (vectors, shown)]
    assert np.corrcoef(*distances)[0, 1] > 0.5


def test_an_episode_that_fails_is_skipped_until_the_next_call(tmp_path: Path) -> None:
    location = tmp_path / "recording"
    record(location)
    checkpoint = open_recording(location).checkpoint(open_recording(location)[1])
    assert checkpoint is not None

    def fail(path: str) -> TinyAgent:
        if path == checkpoint and not (tmp_path / "repaired").exists():
            raise OptionError("no such network")
        return load(path)

    report = explain(location, agent=fail)
    assert report.skipped == {1: "no such network"}
    assert [*read(location).episodes] == [0, 2]
    (tmp_path / "repaired").touch()
    assert explain(location, agent=fail).explained == 3


def test_explanations_of_removed_episodes_are_removed(tmp_path: Path) -> None:
    location = tmp_path / "recording"
    record(location, (6, 6, 6, 6))
    explain(location)
    record(location, (6,) * 4, first=4, max_episodes=4)
    explain(location)
    kept = [episode.index for episode in open_recording(location)]
    assert [*read(location).episodes] == kept
    assert {index for index, _ in positions(location)} == set(kept)
    folders = [folder.name for folder in (location / EXPLAINED).glob("0*") if any(folder.iterdir())]
    assert sorted(folders) == [f"{index:05}" for index in kept]


def test_all_recordings_below_a_log_directory_are_explained(tmp_path: Path) -> None:
    for run in ("runs/a", "runs/b/c"):
        (tmp_path / run).mkdir(parents=True)
        make_recording(tmp_path / run, (4,), name="training")
    reports = rl_clarity.explain_recording(tmp_path / "runs", methods=[], embeddings=["pca"])
    names = [Path(report.location).relative_to(tmp_path / "runs").as_posix() for report in reports]
    assert names == ["a/plugins/rl_clarity/training", "b/c/plugins/rl_clarity/training"]


def test_explain_with_watch_explains_episodes_as_they_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    location = tmp_path / "recording"
    niceness: list[int] = []
    monkeypatch.setattr(os, "nice", niceness.append)
    monkeypatch.setattr(recordings, "FEWEST_POINTS", 60)

    def wait() -> None:
        """What happens while `explain_recording` waits."""
        count = len(open_recording(location)) if location.exists() else 0
        if count == 2:
            raise KeyboardInterrupt
        if count == 1:
            explanations = read(location)
            assert [*explanations.episodes] == [0]
            assert explanations.state_map is None, "too few points"
        record(location, (70,), first=count)

    monkeypatch.setattr(recordings, "wait", wait)
    report = explain(location, watch=True)
    assert niceness == [10]
    assert (report.explained, report.skipped) == (2, {})
    assert {index for index, _ in positions(location)} == {0, 1}


def test_a_recording_is_explained_by_only_one_process_at_a_time(explained: Path) -> None:
    with locked(f"{explained}/{EXPLAINED}"), pytest.raises(OutputError, match="is in use by process"):
        explain(explained)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"methods": ["guess"]}, "methods='guess' is not one of perturbation"),
        ({"embeddings": ["som"]}, "embeddings='som' is not one of tsne, pca, umap"),
        ({"every": 0}, "every=0 must be from 1 to 64"),
        ({"agent": 3}, "needs an agent with .*, which int does not have"),
        ({"agent": "models:nobody"}, "unknown agent models:nobody"),
        ({"layer": "9z"}, None),
    ],
)
def test_invalid_options(explained: Path, options: dict[str, Any], message: str | None) -> None:
    if message is None:
        assert "unknown layer '9z'" in explain(explained, **options).skipped[0]
        return
    with pytest.raises(ValueError, match=message):
        explain(explained, **options)


def test_a_directory_without_a_recording_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="contains no recording"):
        rl_clarity.explain_recording(tmp_path)


def test_reading_explanations_imports_no_framework(explained: Path) -> None:
    program = (
        f"import sys, rl_clarity; assert rl_clarity.read_explanations({str(explained)!r}).episodes; "
        "print(*[name for name in ('tensorflow', 'torch', 'keras', 'sklearn', 'mpi4py') if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.split() == []


def test_large_state_maps_are_subsampled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_recording(tmp_path, (40, 20))
    monkeypatch.setattr(state_maps, "MOST_POINTS", 20)
    rl_clarity.explain_recording(tmp_path, methods=[], every=1, embeddings=["pca"])
    assert [frame for index, frame in positions(tmp_path, "pca") if index == 1] == [*range(0, 20, 3)]


# --- the agent that played -------------------------------------------------------------------------------------------


def seeded(seed: int) -> TinyAgent:
    return TinyAgent(observation_shape=SHAPE, num_actions=5, patch=4, seed=seed)


def random_network(path: str) -> TinyAgent:
    """A loader that ignores the checkpoint."""
    return seeded(99)


@pytest.mark.parametrize("options", [{}, {"methods": (), "layer": "2a", "embeddings": ("pca",)}], ids=["maps", "layer"])
def test_episodes_played_by_another_network_are_not_explained(tmp_path: Path, options: dict[str, Any]) -> None:
    location = tmp_path / "recording"
    record(location)
    report = explain(location, agent=random_network, **options)
    assert report.explained == 0
    assert sorted(report.skipped) == [0, 1, 2]
    assert "the agent is not the one that played episode" in report.skipped[2]
    assert "--other-agent" in report.skipped[2]
    assert explain(location, agent=random_network, other_agent=True, **options).explained == 3
    explanations = read(location)
    if explanations.episodes:
        assert "deliberately not the agent that played" in str(explanations.agreement([0, 1, 2]))
    assert explain(location, agent=random_network, **options).explained == 0
    assert explain(location, **options).explained == 3


def test_reasons_that_differ_only_in_numbers_are_grouped() -> None:
    other = "the agent is not the one that played episode {}: its value is {} instead of {}"
    skipped = {
        4: other.format(4, "-1.2e-05", 0.25),
        0: other.format(0, 0.21, -1.51),
        1: other.format(1, 3, 2.5),
        2: "no such file",
        7: "no such file",
    }
    lines = str(ExplainedRecording("runs", 8, 3, skipped=skipped, loader="game:load")).splitlines()
    assert lines == [
        "runs: 3 of 8 complete episodes are explained",
        f"  not episodes 0, 1, 4: {skipped[0]} (one of several similar reasons)",
        "  not episodes 2, 7: no such file",
        "  the recording suggests a function that loads its agents: --agent game:load",
    ]


def test_equal_reasons_in_several_recordings_are_printed_once() -> None:
    other = "runs/{}: the agent of episode {} is not the one that played"
    reports = [
        ExplainedRecording("runs/a", 3, 1, skipped={0: other.format("a", 0), 1: other.format("a", 1)}),
        ExplainedRecording("runs/b", 2, 0, skipped={0: "no such file", 1: other.format("b", 1)}, only_states=[2]),
        ExplainedRecording("runs/c", problem="runs/c is damaged"),
        ExplainedRecording("runs/d", problem="runs/d is damaged"),
    ]
    assert describe(reports).splitlines() == [
        "runs/a: 1 of 3 complete episodes are explained",
        "runs/b: 0 of 2 complete episodes are explained",
        f"  only the states of episode 2: {NO_CHECKPOINT}",
        "  not episode 0: no such file",
        "runs/c is not explained",
        "runs/d is not explained",
        "2 recordings: runs/a: the agent of episode 0 is not the one that played (one of several similar reasons)",
        "  runs/a: not episodes 0, 1",
        "  runs/b: not episode 1",
        "2 recordings: runs/c is damaged (one of several similar reasons)",
        "  runs/c",
        "  runs/d",
    ]
    assert [reason.to_dict()["recordings"] for reason in group_reasons(reports)] == [
        {"runs/a": [0, 1], "runs/b": [1]},
        {"runs/b": [2]},
        {"runs/b": [0]},
        {"runs/c": [], "runs/d": []},
    ]


def test_state_maps_of_a_layer_exclude_episodes_of_another_network(tmp_path: Path) -> None:
    location = tmp_path / "recording"
    record(location)

    def wrong_once(path: str) -> TinyAgent:
        return random_network(path) if Path(path).read_text() == "0" else load(path)

    report = explain(location, agent=wrong_once, methods=(), layer="2a", embeddings=["pca"])
    assert [*report.skipped] == [0]
    assert {index for index, _ in positions(location, "pca")} == {1, 2}


def test_output_differences_in_later_steps_are_stored_with_the_maps(tmp_path: Path) -> None:
    location = tmp_path / "recording"
    checkpoint = tmp_path / "0.txt"
    checkpoint.write_text("0")
    with rl_clarity.Recorder(location, name=None, on_error="raise") as recorder:
        recorder.agent(checkpoint)
        agent = load(str(checkpoint))
        for step in range(70):
            if step == 40:  # an update
                agent = seeded(1)
            observation = np.random.default_rng(step).integers(0, 256, SHAPE, np.uint8)
            outputs = agent.forward(observation[None])
            assert outputs.values is not None
            recorder.add(observation=observation, action=0, reward=0.0, terminated=step == 69, value=outputs.values[0])
    assert explain(location).explained == 1
    entry = read(location).episodes[0]["saliency-jacobian"]
    assert entry.differences is not None
    stored = chunk(location, entry.differences)
    steps, differences = stored["steps"], stored["differences"]
    assert steps.tolist() == [*range(0, 70, 2)]
    assert differences[steps < 40].max() < 1e-5
    assert np.median(differences[steps >= 40]) > 1e-2
    assert entry.agreement == Agreement(35, entry.agreement.largest, other_agent=False)
    assert entry.agreement.largest == pytest.approx(differences.max())


def test_a_recording_without_outputs_is_explained_without_a_check(tmp_path: Path) -> None:
    location = tmp_path / "recording"
    with rl_clarity.Recorder(location, name=None, on_error="raise") as recorder:
        add_played_episode(recorder, seeded(0), 0, 12, logits=None, value=None)
    assert explain(location, agent=seeded(0)).explained == 1
    assert str(read(location).agreement([0])) == "not checked, because the recording has no outputs"
