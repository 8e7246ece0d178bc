"""`compare`: a page of the checkpoints of a training, with the numbers of their play; resumed, shared, refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rl_clarity
from rl_clarity.agents.capabilities import before_step
from rl_clarity.analyses.attribution import perturbation_saliency
from rl_clarity.base.errors import ClarityError, OptionError
from rl_clarity.base.statistics import softmax
from rl_clarity.cli import main
from rl_clarity.jobs.forecast import SECONDS_PER_TASK
from rl_clarity.pages.builder import RECORDINGS
from rl_clarity.pages.manifest_check import check_manifest
from rl_clarity.pages.results import Results
from rl_clarity.recordings import agent_play
from rl_clarity.recordings.agent_play import Lengths
from rl_clarity.sources import recorded_play
from tests.fakes import TinyAgent
from tests.pipeline.small import record_tasks, unrecorded_files
from tests.ranks import run_ranks
from tests.tiny_series import LONGEST, SHAPE, register, write_checkpoint, write_series

register()

OPTIONS: dict[str, Any] = {"saliency_every": 16, "return_episodes": 3, "play.candidates": 1}


@pytest.fixture(scope="module")
def series(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three recurrent agents with a log."""
    folder = write_series(tmp_path_factory.mktemp("series"), 3, kind="recurrent")
    (folder / "progress.csv").write_text("timesteps,mean_return\n" + "".join(f"{i},{i / 10}\n" for i in range(2000)))
    return folder


@pytest.fixture(scope="module")
def page(series: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of two games of each; tests do not change it."""
    directory = tmp_path_factory.mktemp("page") / "page"
    rl_clarity.compare(series, directory, episodes=2, **OPTIONS)
    return directory


@pytest.fixture(scope="module")
def results(page: Path) -> Results:
    return rl_clarity.open_results(page)


@pytest.fixture
def compare(series: Path, tmp_path: Path) -> Callable[..., Path]:
    def write(name: str = "page", checkpoints: Any = series, **options: Any) -> Path:
        rl_clarity.compare(checkpoints, tmp_path / name, **{**OPTIONS, **options})
        return tmp_path / name

    return write


# --- what is on the page ---------------------------------------------------------------------------------------------


def test_each_checkpoint_has_its_sections_on_the_page(results: Results) -> None:
    manifest = results.manifest
    assert (manifest["kind"], manifest["title"]) == ("training", "tiny: training of tiny")
    assert [agent["id"] for agent in manifest["agents"]] == ["agent-1", "agent-2", "agent-3"]
    assert [one["agent"] for one in manifest["recordings"]] == ["agent-1", "agent-2", "agent-3"]
    sections = [(section["kind"], section["agent"], section["recording"]) for section in manifest["sections"]]
    assert sections == [
        *((kind, f"agent-{n}", f"recording-{n}") for n in (1, 2, 3) for kind in ("trajectories", "saliency")),
        ("training", "agent-3", "recording-3"),
        ("updates", "agent-3", "recording-3"),
    ]
    groups = [group["group"] for group in manifest["provenance"]]
    assert groups[:3] == ["Checkpoint 1", "Checkpoint 2", "Checkpoint 3"]


def test_checkpoints_play_games_with_the_same_seeds(results: Results) -> None:
    for one in results.each_agent():
        entries = one.section("trajectories")["trajectories"]
        assert [entry["steps"] for entry in entries] == [LONGEST, 43]
        assert [entry["episodes"][0]["end"] for entry in entries] == ["done", "done"]
        for trajectory, entry in enumerate(entries):
            series = one.series(trajectory)
            assert series["rewards"].sum() == entry["episodes"][0]["return"]
            assert series["probabilities"].shape == (entry["steps"], 3)
            frames = one.frames(trajectory)
            assert frames[:, 0, 1, 0].tolist() == list(range(entry["steps"]))  # pixel 1 is the time
            assert set(frames[:, 0, 0, 0]) == {10 * trajectory + 1}  # pixel 0 is the environment


def test_the_game_of_the_median_return_is_shown_first(compare: Callable[..., Path]) -> None:
    page = compare(episodes=2, **{"play.candidates": 5}, saliency=())
    for number, one in enumerate(rl_clarity.open_results(page).each_agent(), start=1):
        recording = rl_clarity.open_recording(page / RECORDINGS / f"agent-{number}")
        played = [float(np.sum(episode.rewards)) for episode in recording]
        assert len(played) == 5
        shown = [entry["episodes"][0]["return"] for entry in one.section("trajectories")["trajectories"]]
        median = np.median(played)
        assert shown[0] == median
        assert [abs(value - median) for value in shown] == sorted(abs(value - median) for value in played)[:2]


def test_each_checkpoint_is_loaded_as_a_separate_agent(results: Results, series: Path) -> None:
    for number, one in enumerate(results.each_agent(), start=1):
        series_of_numbers = one.series(0)
        agent = TinyAgent("recurrent", SHAPE, 3, seed=number)
        state = agent.initial_state(1)
        outputs, _ = agent.step(one.frames(0, [0]), state, np.ones(1, bool))
        assert series_of_numbers["values"][0] == pytest.approx(outputs.values[0], abs=1e-6)  # type: ignore[index]


def test_the_training_section_lists_checkpoints_and_learning_curve(results: Results) -> None:
    section = results.section("training")
    checkpoints = section["checkpoints"]
    assert [(one["name"], one["step"]) for one in checkpoints] == [
        ("agent-1", 1000), ("agent-2", 2000), ("agent-3", 3000)
    ]  # fmt: skip
    for one, agent in zip(checkpoints, results.each_agent(), strict=True):
        series = [agent.series(trajectory) for trajectory in (0, 1)]
        probabilities = np.concatenate([part["probabilities"] for part in series]).astype(np.float64)
        actions = np.concatenate([part["actions"] for part in series])
        assert one["entropy"] == pytest.approx(-(probabilities * np.log(probabilities)).sum(-1).mean(), rel=1e-4)
        assert one["action_shares"] == pytest.approx([(actions == action).mean() for action in range(3)], rel=1e-4)
        assert one["returns"]["episodes"] == 3
        assert 0 < one["returns"]["mean"] < LONGEST
        totals = [agent.saliency(trajectory, output="value").totals for trajectory in (0, 1)]
        assert one["totals"]["value"] == pytest.approx(np.concatenate(totals).mean(), rel=1e-4)
    assert checkpoints[-1]["correlation"] == pytest.approx({"policy": 1, "value": 1})
    assert -1 < checkpoints[0]["correlation"]["policy"] < 0.999
    assert (section["unit"], section["curve_source"]) == ("steps", "progress.csv")
    curve = results.chunk(section["curve"])
    assert (curve["low"] <= curve["returns"]).all()
    assert (curve["returns"] <= curve["high"]).all()
    assert curve["returns"].mean() == pytest.approx(1999 / 20, rel=1e-3)


def test_every_checkpoint_sees_the_reference_episode_with_its_own_state(results: Results) -> None:
    reference = results.section("training")["reference"]
    assert (reference["agent"], reference["trajectory"], reference["every"]) == ("agent-3", 0, 16)
    seen = list(results.each_agent())[2].frames(0)
    policies = []
    for number, name in enumerate(reference["shown"], start=1):
        chunk = results.chunk(name)
        agent = TinyAgent("recurrent", SHAPE, 3, seed=number)
        state, states = agent.initial_state(1), []
        for step, frame in enumerate(seen):
            first = np.array([step == 0])
            states.append(before_step(agent, state, first))
            outputs, state = agent.step(frame[None], state, first)
            assert outputs.values is not None
            assert outputs.policy_logits is not None
            assert chunk["values"][step] == pytest.approx(outputs.values[0], abs=1e-5)
            assert chunk["probabilities"][step] == pytest.approx(softmax(outputs.policy_logits)[0], abs=1e-5)
        assert chunk["steps"].tolist() == list(range(0, LONGEST, 16))
        maps = perturbation_saliency(agent, seen[32:33], "value", state=states[32])
        stored = chunk["codes.value"][2] / 255 * chunk["scales.value"][2]
        assert stored == pytest.approx(maps[0], abs=maps.max() / 255)
        policies.append(chunk["probabilities"])
    divergence = results.chunk(reference["divergence"])["jensen_shannon"]
    mean = np.mean(policies, axis=0)
    middle = -(mean * np.log(mean)).sum(-1) - np.mean([-(one * np.log(one)).sum(-1) for one in policies], axis=0)
    assert divergence == pytest.approx(middle, abs=1e-5)


def test_each_checkpoint_is_compared_with_the_previous_one(results: Results) -> None:
    """Recomputed from the agents and the frames, not from what the page has."""
    section, seen = results.section("updates"), list(results.each_agent())[2].frames(0)
    assert [(one["name"], one["step"]) for one in section["checkpoints"]] == [
        ("agent-1", 1000), ("agent-2", 2000), ("agent-3", 3000)
    ]  # fmt: skip
    assert section["steps"] == list(range(0, LONGEST, 16))
    assert section["checkpoints"][0]["changes"] == {}
    policies: list[np.ndarray] = []
    values: list[np.ndarray] = []
    maps: list[np.ndarray] = []
    for number in (1, 2, 3):
        agent = TinyAgent("recurrent", SHAPE, 3, seed=number)
        state, own = agent.initial_state(1), []
        for step, frame in enumerate(seen):
            before = before_step(agent, state, np.array([step == 0]))
            outputs, state = agent.step(frame[None], state, np.array([step == 0]))
            if step in section["steps"]:
                assert outputs.policy_logits is not None
                assert outputs.values is not None
                (map,) = perturbation_saliency(agent, frame[None], "value", state=before)
                own.append((softmax(outputs.policy_logits)[0], outputs.values[0], map))
        for lists, part in zip((policies, values, maps), zip(*own, strict=True), strict=True):
            lists.append(np.array(part, np.float64))
    changes = results.chunk(section["changes"])
    for update, after in enumerate((1, 2)):
        pair = np.stack([policies[after - 1], policies[after]])
        mean = pair.mean(axis=0)
        divergence = -(mean * np.log(mean)).sum(-1) + (pair * np.log(pair)).sum(-1).mean(axis=0)
        assert changes["policy"][update] == pytest.approx(divergence, abs=1e-6)
        assert changes["value"][update] == pytest.approx(abs(values[after] - values[after - 1]), abs=1e-5)
        difference = abs(maps[after] - maps[after - 1]).sum(axis=(1, 2))
        assert changes["maps.value"][update] == pytest.approx(difference, rel=0.05)
        means = section["checkpoints"][after]["changes"]
        assert means == pytest.approx({name: array[update].mean() for name, array in changes.items()}, rel=1e-4)


def test_a_damaged_section_of_a_checkpoint_is_refused(results: Results) -> None:
    manifest = json.loads(json.dumps(results.manifest))
    check_manifest(manifest)
    section = next(one for one in manifest["sections"] if one["agent"] == "agent-2" and one["kind"] == "saliency")
    section["data"]["methods"][0]["maps"].pop()
    with pytest.raises(
        ClarityError, match="saliency 'perturbation' must have maps for each segment of each trajectory"
    ):
        check_manifest(manifest)


def test_compare_supports_agents_with_action_values(compare: Callable[..., Path], tmp_path: Path) -> None:
    results = rl_clarity.open_results(compare(checkpoints=write_series(tmp_path / "q", 2, kind="q"), max_steps=20))
    first = results.section("training")["checkpoints"][0]
    assert first["entropy"] is None
    assert set(first["totals"]) == {"policy", "greedy"}
    chunk = results.chunk(results.section("training")["reference"]["shown"][0])
    assert chunk["q_values"].shape == (20, 3)
    assert "probabilities" not in chunk
    assert results.section("training")["curve_source"] == "returns of the checkpoints"


def test_the_reference_episode_can_be_another_game(compare: Callable[..., Path]) -> None:
    options: dict[str, Any] = {"max_steps": 20, "episodes": 2, "saliency_every": 8}
    results = rl_clarity.open_results(compare(reference_checkpoint=1, reference_episode=2, **options))
    reference = results.section("training")["reference"]
    assert (reference["agent"], reference["recording"], reference["trajectory"]) == ("agent-1", "recording-1", 1)
    agent = next(results.each_agent())
    shown = results.chunk(reference["shown"][0])
    assert shown["values"] == pytest.approx(agent.series(1)["values"], abs=1e-5)
    assert (shown["codes.value"] / 255 * shown["scales.value"][:, None, None]) == pytest.approx(
        agent.saliency(1, output="value").values
    )
    assert results.section("training")["checkpoints"][2]["correlation"]["value"] == pytest.approx(1)


def test_the_reference_episode_can_come_from_a_recording(page: Path, compare: Callable[..., Path]) -> None:
    recording = page / RECORDINGS / "agent-1"
    options: dict[str, Any] = {"max_steps": 20, "saliency_every": 16}
    directory = compare(reference=f"{recording}:2", **options)
    results = rl_clarity.open_results(directory)
    assert len(list(results.each_agent())) == 3
    reference = results.section("training")["reference"]
    assert (reference["agent"], reference["recording"]) == ("agent-3", "recording-4")
    assert reference["source"] == "agent-1, episode 2"
    sections = [one for one in results.manifest["sections"] if one["recording"] == "recording-4"]
    assert [one["kind"] for one in sections] == ["trajectories", "training", "updates"]
    (shown_entry,) = sections[0]["data"]["trajectories"]
    episode = rl_clarity.open_recording(recording)[1]
    np.testing.assert_array_equal(results.chunk(shown_entry["series"])["actions"], episode.actions)
    shown = results.chunk(reference["shown"][0])
    assert shown["values"] == pytest.approx(np.asarray(episode.values), abs=1e-5), "the checkpoint that played it"
    assert set(shown["steps"]) == set(range(0, len(episode), 16))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{recording}:9", "has 2 episodes, counted from 1"),
        ("{recording}-missing", "no recording"),
    ],
)
def test_a_nonexistent_reference_episode_is_refused(
    page: Path, series: Path, tmp_path: Path, text: str, message: str
) -> None:
    reference = text.format(recording=page / RECORDINGS / "agent-1")
    with pytest.raises(ClarityError, match=message):
        rl_clarity.compare(series, tmp_path / "page", reference=reference, **OPTIONS)
    assert not (tmp_path / "page").exists()


def test_a_reference_episode_with_other_observations_is_refused(page: Path, tmp_path: Path) -> None:
    other = write_series(tmp_path / "other", 2, observation_shape=[24, 16, 1])
    reference = page / RECORDINGS / "agent-1"
    with pytest.raises(
        OptionError, match=r"has uint8 observations of shape \(16, 16, 1\), but the checkpoints take uint8"
    ):
        rl_clarity.compare(other, tmp_path / "page", reference=str(reference), **OPTIONS)


def test_signed_saliency_maps_are_written_and_read(compare: Callable[..., Path]) -> None:
    directory = compare(saliency=("signed_perturbation",), max_steps=20)
    results = rl_clarity.open_results(directory)
    agent = next(results.each_agent())
    seen = agent.frames(0, [16])
    own = TinyAgent("recurrent", SHAPE, 3, seed=1)
    state = own.initial_state(1)
    for step, frame in enumerate(agent.frames(0, range(17))):
        before = before_step(own, state, np.array([step == 0]))
        _, state = own.step(frame[None], before, np.array([step == 0]))
    logits = own.forward(seen, before).policy_logits
    assert logits is not None
    for output, score in (("policy", int(logits.argmax())), ("value", "value")):
        maps = perturbation_saliency(own, seen, score, state=before, signed=True)[0]
        stored = agent.saliency(0, "signed_perturbation", output)
        assert stored.values[1] == pytest.approx(maps, abs=np.abs(maps).max() / 120)
        assert stored.totals[1] == pytest.approx(np.abs(maps).sum(), rel=1e-4)
    assert agent.saliency(0, "signed_perturbation", "value").values.min() < 0


def test_the_forecast_predicts_the_stored_size_of_recorded_games(series: Path, tmp_path: Path) -> None:
    options = {**OPTIONS, "max_steps": 40}
    forecast = rl_clarity.compare(series, tmp_path / "page", dry_run=True, **options)
    rl_clarity.compare(series, tmp_path / "page", **options)
    written = sum(path.stat().st_size for path in (tmp_path / "page" / RECORDINGS).rglob("data-*.bin"))
    assert 0.5 * written < forecast.samples < 2 * written


def test_a_compare_page_without_saliency_has_the_other_sections(compare: Callable[..., Path]) -> None:
    results = rl_clarity.open_results(compare(saliency=(), max_steps=20))
    assert {section["kind"] for section in results.manifest["sections"]} == {"trajectories", "training", "updates"}
    assert results.section("training")["checkpoints"][0]["totals"] == {}
    updates = results.section("updates")
    assert updates["method"] is None
    assert [*updates["checkpoints"][1]["changes"]] == ["policy", "value"]


# --- the same page again ---------------------------------------------------------------------------------------------


def test_compare_with_the_same_arguments_writes_the_same_bytes(page: Path, series: Path, tmp_path: Path) -> None:
    rl_clarity.compare(series, tmp_path / "again", episodes=2, **OPTIONS)
    assert unrecorded_files(tmp_path / "again") == unrecorded_files(page)


def test_a_finished_compare_page_is_not_computed_again(
    page: Path, series: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with record_tasks(monkeypatch) as tasks:
        rl_clarity.compare(series, page, episodes=2, **OPTIONS)
    assert tasks == []


def test_a_second_call_reuses_recordings(compare: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    compare(max_steps=20)
    with record_tasks(monkeypatch) as tasks:
        compare(max_steps=20, saliency_every=8, overwrite=True)
    assert tasks
    assert not [name for name in tasks if name.startswith(("playing/", "trajectories/"))]


def test_adding_a_checkpoint_computes_only_its_own_tasks(
    compare: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_series(tmp_path / "growing", 2)
    compare(checkpoints=folder, max_steps=20)
    write_series(folder, 3)
    with record_tasks(monkeypatch) as tasks:
        compare(checkpoints=folder, max_steps=20, overwrite=True)
    own = {name for name in tasks if name.startswith(("playing/", "trajectories/", "saliency/"))}
    assert own == {"playing/agent-3", "trajectories/agent-3/1", "saliency/agent-3/perturbation/1/1"}


def test_an_interrupted_compare_is_resumed(
    compare: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rl_clarity.analyses import checkpoints as training

    def interrupt(*arguments: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(training, "jensen_shannon", interrupt)
        with pytest.raises(KeyboardInterrupt):
            compare("resumed", max_steps=20)
    assert not rl_clarity.open_results(tmp_path / "resumed").manifest["complete"]
    with record_tasks(monkeypatch) as tasks:
        compare("resumed", max_steps=20)
    assert sorted(tasks) == ["training/numbers", "updates/changes"]
    assert unrecorded_files(tmp_path / "resumed") == unrecorded_files(compare("whole", max_steps=20))


def test_a_single_file_page_holds_the_same_numbers(
    compare: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = compare(max_steps=20)
    single = compare("single", max_steps=20, single_file=True)
    assert {path.name for path in single.iterdir()} == {"interface.html", "run-log.json", ".rl-clarity"}
    one, other = rl_clarity.open_results(directory), rl_clarity.open_results(single)
    assert one.section("training") == other.section("training")
    for name in one.section("training")["reference"]["shown"]:
        assert {key: array.tolist() for key, array in one.chunk(name).items()} == {
            key: array.tolist() for key, array in other.chunk(name).items()
        }
    with record_tasks(monkeypatch) as tasks:
        compare("single", max_steps=20, saliency_every=8, single_file=True, overwrite=True)
    assert not [name for name in tasks if name.startswith("playing/")]


def test_a_page_is_written_to_a_remote_address(series: Path) -> None:
    page = rl_clarity.compare(series, "memory://training/page", max_steps=20, **OPTIONS)
    assert [one["name"] for one in page.results().section("training")["checkpoints"]] == [
        "agent-1", "agent-2", "agent-3"
    ]  # fmt: skip


def test_verify_accepts_a_compare_page(page: Path) -> None:
    assert main(["verify", str(page)]) == 0


@pytest.mark.slow
def test_the_compare_page_does_not_depend_on_the_number_of_mpi_ranks(page: Path, series: Path, tmp_path: Path) -> None:
    arguments = ["compare", str(series), str(tmp_path / "page"), "--episodes", "2", "--saliency-every", "16"]
    run_ranks(3, *arguments, "--return-episodes", "3", "--play.candidates", "1")
    assert unrecorded_files(tmp_path / "page") == unrecorded_files(page)


# --- the forecast ----------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("measured_forecasts")
def test_a_dry_run_writes_nothing_and_counts_all_tasks(series: Path, tmp_path: Path) -> None:
    forecast = rl_clarity.compare(series, tmp_path / "page", dry_run=True, **OPTIONS)
    assert not (tmp_path / "page").exists()
    assert {"playing", "trajectories", "saliency", "training", "updates", "page"} == set(forecast.stages)
    assert all(seconds > 0 for seconds in forecast.stages.values())
    assert not [note for note in forecast.notes if note.startswith("Not included")]
    more = rl_clarity.compare(series, tmp_path / "page", dry_run=True, **{**OPTIONS, "saliency_every": 4})
    assert more.output > forecast.output


@pytest.mark.usefixtures("even_clock")
@pytest.mark.parametrize(("max_steps", "recorded"), [(180, 270 / 4), (40, 40)])
def test_the_forecast_of_play_uses_the_measured_length_of_games(
    series: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, max_steps: int, recorded: float
) -> None:
    """Until each of 3 games at once has ended, 90 steps are played, and 4 games end. Only recorded games are cut."""
    monkeypatch.setattr(agent_play, "SECONDS_OF_PLAY", 1e9)
    forecast = rl_clarity.compare(series, tmp_path / "page", dry_run=True, max_steps=max_steps, **OPTIONS)
    assert forecast.stages["playing"] == pytest.approx(3 * (recorded + 90), rel=0.01)


@pytest.mark.usefixtures("even_clock")
def test_the_forecast_interpolates_game_lengths_between_checkpoints(
    series: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lengths = {1: Lengths(20, 30), 3: Lengths(80, 120)}
    monkeypatch.setattr(recorded_play, "expected_lengths", lambda agent, *arguments: lengths[agent.seed])
    forecast = rl_clarity.compare(series, tmp_path / "page", dry_run=True, max_steps=180, **OPTIONS)
    assert forecast.stages["playing"] == pytest.approx(3 * (20 + 30 + 80 + 120) / 2)


@pytest.mark.usefixtures("even_clock")
def test_the_forecast_does_not_count_maps_that_the_reference_reuses(
    series: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three agents follow 270 / 4 steps, measured on 4; two of them need 6 maps, measured on 4."""
    monkeypatch.setattr(agent_play, "SECONDS_OF_PLAY", 1e9)
    forecast = rl_clarity.compare(series, tmp_path / "page", dry_run=True, max_steps=180, **OPTIONS)
    assert forecast.stages["training"] == pytest.approx(3 * 270 / 4 / 4 + 2 * 6 / 4 + 4 * SECONDS_PER_TASK, rel=0.01)


def test_the_forecast_does_not_count_games_that_are_already_recorded(
    compare: Callable[..., Path], series: Path
) -> None:
    directory = compare(max_steps=20)
    options = {**OPTIONS, "max_steps": 20, "saliency_every": 8, "overwrite": True}
    forecast = rl_clarity.compare(series, directory, dry_run=True, **options)
    assert forecast.stages["playing"] == 0
    nothing = rl_clarity.compare(series, directory, dry_run=True, max_steps=20, **OPTIONS)
    assert nothing.seconds == 0


# --- wrong calls -----------------------------------------------------------------------------------------------------


def test_checkpoints_with_other_observations_or_actions_are_refused(series: Path, tmp_path: Path) -> None:
    other = write_checkpoint(tmp_path / "other.pt", 9, observation_shape=[32, 32, 1])
    with pytest.raises(OptionError, match=r"has observations of shape \(\d+, \d+, 1\)"):
        rl_clarity.compare([series, other], tmp_path / "page")
    other = write_checkpoint(tmp_path / "other.pt", 9, num_actions=4)
    with pytest.raises(OptionError, match=r"has an action count of \d, but "):
        rl_clarity.compare([series, other], tmp_path / "page")
    assert not (tmp_path / "page").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"episode": 2}, r"unknown option 'episode'; did you mean 'play.episodes'\?"),
        ({"max_steps": 0}, "play.max_steps=0 must be at least 1"),
        ({"saliency": ("perturbations",)}, "saliency.methods='perturbations' is not one of perturbation, "),
        (
            {"reference": "a", "reference_checkpoint": 2},
            "reference.recording='a' cannot be combined with checkpoint or",
        ),
        ({"reference_checkpoint": 4}, "reference.checkpoint=4 must be at most 3"),
        ({"reference_episode": 2}, "episode=2.* must refer to an episode up to play.episodes=1"),
        ({"log": "nowhere.csv"}, "cannot read nowhere.csv"),
        ({"log_columns": ("steps",)}, "must be the names of two columns"),
        ({"metadata": {"env_name": "a"}, "env_name": "b"}, "contradict each other"),
    ],
)
def test_invalid_options_raise_a_one_line_error(
    series: Path, tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ClarityError, match=message) as raised:
        rl_clarity.compare(series, tmp_path / "page", **options)
    assert "\n" not in str(raised.value)
    assert not (tmp_path / "page").exists()


def test_the_compare_command_writes_the_same_page_as_the_function(
    page: Path, series: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [str(series / f"agent-{number}.pt") for number in (1, 2, 3)]
    options = ["--episodes", "2", "--saliency-every", "16", "--return-episodes", "3", "--play.candidates", "1"]
    assert main(["compare", *files, str(tmp_path / "page"), *options, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"page": str(tmp_path / "page" / "interface.html")}
    assert unrecorded_files(tmp_path / "page") == unrecorded_files(page)
    assert main(["compare", str(series / "missing-*.pt"), str(tmp_path / "none")]) == 1
    assert "no checkpoint matches" in capsys.readouterr().err


def test_the_page_directory_is_the_last_argument_of_compare(
    series: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for named in (series, series / "agent-1.pt", series / "agent-*.pt", "models:breakout-series"):
        assert main(["compare", str(tmp_path / "page"), str(named)]) == 1
        assert "contains checkpoints: the directory of the page is the last argument" in capsys.readouterr().err


# --- agents trained by others ----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_compare_reads_a_series_of_baby_a3c_checkpoints(shared_formats: Path, tmp_path: Path) -> None:
    pytest.importorskip("ale_py")
    folder = shared_formats / "baby-a3c" / "models_model7-02-17-20-41"
    page = rl_clarity.compare(
        folder, tmp_path / "page", env_name="BreakoutNoFrameskip-v4", steps_per_number=500_000,
        max_steps=40, return_episodes=1,
    )  # fmt: skip
    section = page.results().section("training")
    assert [(one["name"], one["step"]) for one in section["checkpoints"]] == [
        ("model.1", 5e5), ("model.50", 25e6), ("model.100", 50e6)
    ]  # fmt: skip
    assert (section["unit"], section["curve_source"]) == ("frames", "log-model7-02-17-20-41.txt")
    assert section["checkpoints"][0]["entropy"] > section["checkpoints"][2]["entropy"]
